"""What a node does to NCCL, whatever a job sets: settings in its files, and plugins.

    nccl/conf/etc/NCCL_ALGO          of /etc/nccl.conf
    nccl/conf/home/NCCL_ALGO         of ~/.nccl.conf of the user that takes the inventory
    nccl/environment/NCCL_ALGO       of /etc/environment, /etc/security/pam_env.conf, /etc/profile.d
    nccl/module/hpcx/2.20/NCCL_ALGO  of an environment module in MODULEPATH, or the usual folders
    nccl/plugin/libnccl-net.so       where a library is that NCCL would load, and its digest

What no file sets has no field. NCCL takes a setting from a job's environment, else from the user's
file, else from /etc/nccl.conf, and of a file the first one (NVIDIA, NCCL documentation,
"Environment Variables"; NVIDIA/nccl, src/misc/param.cc). It finds plugins by their names, as
dlopen(3) does (NVIDIA/nccl, ext-net, ext-tuner and ext-profiler/README.md). The other formats:
environment(7), pam_env.conf(5), modulefile(4), and Lmod's setenv. Values of secrets are not shown.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from railgauge.common.names import natural
from railgauge.node.inventory.machine import HIDDEN
from railgauge.node.inventory.sheet import Places, Sheet, raw_text
from railgauge.node.system.rdma_devices import FactError, names_in

#: Where distributions, CUDA, HPC-X and clouds keep libraries, besides those of /etc/ld.so.conf.
_LIBRARIES = (
    *("usr/lib64", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"),
    *("usr/local/lib", "usr/local/lib64", "usr/local/cuda/lib64"),
    *("opt/hpcx/nccl_rdma_sharp_plugin/lib", "opt/amazon/ofi-nccl/lib", "usr/local/gib/lib64"),
)
_PLUGIN = re.compile(r"libnccl-(?:net|tuner|profiler|env)[^/]*\.so")

#: Where modulefiles are, where MODULEPATH does not say it.
_MODULES = ("etc/modulefiles", "usr/share/modulefiles", "usr/share/modules/modulefiles")
#: Most modules, and most levels of folders, that are looked at: an inventory takes seconds.
_MOST_MODULES, _MOST_DEPTH = 500, 4

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NCCL = r"NCCL_[A-Z0-9_]+"
#: `export NCCL_ALGO=Ring` of a shell, `NCCL_ALGO="Ring"` of /etc/environment.
_ASSIGNED = re.compile(rf"\s*(?:export\s+)?({_NCCL})=(.*)")
#: `NCCL_ALGO DEFAULT=Ring OVERRIDE=Tree` of pam_env.conf: what overrides wins.
_PAM = re.compile(rf"\s*({_NCCL})\s+(?:.*\s)?(?:OVERRIDE|DEFAULT)=(\S+).*")
#: Tcl's `setenv NCCL_ALGO Ring`, Lua's `setenv("NCCL_ALGO", "Ring")`.
_MODULE = re.compile(rf"\s*(?:setenv|pushenv)[\s(\"'{{]+({_NCCL})[\"'}}]?[\s,]+(.*)")

#: NCCL_IB_PKEY is a partition's index, and no key.
_SECRET = re.compile(r"pass|pwd|secret|token|(?<!p)key|auth|cred|cookie|bearer", re.IGNORECASE)
_SECRET_IN_ADDRESS = re.compile(r"://[^/\s]*@")


def sources(places: Places) -> list[Callable[[], Sheet]]:
    return [lambda: look(places)]


def look(places: Places) -> Sheet:
    """All of the node that NCCL would find."""
    sheet, root = Sheet(), Path(places.root)
    for name, path in conf_files(root).items():
        _put(sheet, f"nccl/conf/{name}", path, conf)
    for path in _environment_files(root):
        _put(sheet, "nccl/environment", path, assigned)
    for module, path in _modulefiles(root):
        _put(sheet, f"nccl/module/{module}", path, of_module)
    for name, value in plugins(root).items():
        sheet.put(f"nccl/plugin/{name}", str, value)
    return sheet


def in_effect(given: Mapping[str, str], root: str = "/") -> dict[str, dict[str, str]]:
    """For the facts of a job's record: NCCL's `variables`, those that the job is `given` and those
    that only the node's conf files set, and the `plugins` that are there.
    """
    own = {n: v for n, v in given.items() if n.startswith("NCCL_") and "DEBUG" not in n}
    variables = {name: _shown(name, value) for name, value in own.items()}
    for path in conf_files(Path(root)).values():
        with contextlib.suppress(FactError):
            variables = {**conf(raw_text(path)), **variables}
    return {"variables": variables, "plugins": plugins(Path(root))}


def _put(sheet: Sheet, prefix: str, path: Path, parse: Callable[[str], Mapping[str, str]]) -> None:
    """What a file sets; nothing of one that is not there, of one that cannot be read why."""
    if not path.is_file():
        return
    try:
        settings = parse(raw_text(path))
    except FactError as error:
        sheet.unknown[prefix] = str(error)
        return
    for name, value in settings.items():
        sheet.put(f"{prefix}/{name}", str, value)


def _shown(name: str, value: str) -> str:
    """A value, or that it is not shown; no value is a value too."""
    is_secret = _SECRET.search(name) or _SECRET_IN_ADDRESS.search(value)
    return HIDDEN if is_secret else value.strip() or '""'


# ---- files of settings ----


def conf_files(root: Path) -> dict[str, Path]:
    """`home` and `etc`, in the order in which NCCL reads them, whether they are there or not."""
    files = {}
    # A user without an entry has no home: NCCL asks for it in this way.
    with contextlib.suppress(KeyError):
        files["home"] = Path(root, pwd.getpwuid(os.getuid()).pw_dir.lstrip("/"), ".nccl.conf")
    return {**files, "etc": root / "etc/nccl.conf"}


def conf(text: str) -> dict[str, str]:
    """A conf file's settings, the first of each; what is none of NCCL's own is not shown."""
    settings: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and _NAME.fullmatch(name):
            own = name.startswith("NCCL_")
            settings.setdefault(name, _shown(name, value) if own else HIDDEN)
    return settings


def _environment_files(root: Path) -> Iterator[Path]:
    """Those that a login reads; of what several of them set, the first that is read here counts."""
    yield root / "etc/environment"
    yield root / "etc/security/pam_env.conf"
    for folder in ("etc/environment.d", "etc/profile.d"):
        for name in names_in(root / folder):
            if name.endswith((".sh", ".conf")):
                yield root / folder / name


def assigned(text: str) -> dict[str, str]:
    """What a login's file sets of NCCL; a shell's conditions are not looked at."""
    settings = {}
    for line in text.splitlines():
        match = _ASSIGNED.fullmatch(line) or _PAM.fullmatch(line)
        if match:
            settings[match[1]] = _shown(match[1], _unquoted(match[2]))
    return settings


def of_module(text: str) -> dict[str, str]:
    """What a modulefile sets of NCCL, in Tcl or Lua."""
    settings = {}
    for line in text.splitlines():
        match = _MODULE.fullmatch(line)
        if match:
            settings[match[1]] = _shown(match[1], _unquoted(match[2].rstrip(" ;)")))
    return settings


def _unquoted(text: str) -> str:
    """Without quotes, or the comment behind what has none."""
    text = text.strip()
    if text[:1] in ('"', "'", "{"):
        end = "}" if text[0] == "{" else text[0]
        return text[1:].partition(end)[0]
    return re.split(r"\s+#|;", text)[0]


def _modulefiles(root: Path) -> Iterator[tuple[str, Path]]:
    """Name and file of each module: the name is the path below its folder."""
    paths = [path.lstrip("/") for path in os.environ.get("MODULEPATH", "").split(":") if path]
    left = _MOST_MODULES
    for folder in dict.fromkeys([*paths, *_MODULES]):
        home = root / folder
        for path in _files_below(home, _MOST_DEPTH):
            if left == 0:
                return
            left -= 1
            yield str(path.relative_to(home)), path


def _files_below(folder: Path, depth: int) -> Iterator[Path]:
    for name in names_in(folder):
        path = folder / name
        if path.is_file():
            yield path
        elif depth and path.is_dir() and not name.startswith("."):
            yield from _files_below(path, depth - 1)


# ---- plugins ----


def _target(path: Path) -> Path:
    """What it is a link to; itself where that leads round in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


def plugins(root: Path) -> dict[str, str]:
    """Library -> where it is and the first digits of its SHA-256; of several, in order."""
    targets: dict[str, dict[Path, None]] = {}
    for folder in dict.fromkeys([*_listed_folders(root), *_LIBRARIES]):
        for name in names_in(root / folder):
            if _PLUGIN.fullmatch(name):
                # /usr/lib64 may be a link to /usr/lib.
                targets.setdefault(name, {})[_target(root / folder / name)] = None
    top = root.resolve()
    return {
        name: ", ".join(
            f"/{path.relative_to(top) if path.is_relative_to(top) else path} {_digest(path)}"
            for path in places
        )
        for name, places in sorted(targets.items())
    }


def _listed_folders(root: Path) -> list[str]:
    """Those of /etc/ld.so.conf and its parts (ldconfig(8)), without the leading `/`."""
    files = [root / "etc/ld.so.conf"]
    files += sorted((root / "etc/ld.so.conf.d").glob("*.conf"), key=lambda path: natural(path.name))
    folders = []
    for path in files:
        try:
            lines = raw_text(path).splitlines()
        except FactError:
            continue
        folders += [line.strip().strip("/") for line in lines if line.startswith("/")]
    return folders


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError as error:
        return f"({error.strerror})"
