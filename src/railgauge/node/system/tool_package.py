"""Which file a tool's call ran, and which package put it there.

The name of a folder proves nothing, and a package's list of files not enough: the file must also be
the one that the package brought, by the digest that Spack, dpkg and rpm keep of it.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

#: dpkg's database.
DPKG = Path("/var/lib/dpkg")

#: Earlier answers, on the node's own disk: where the CPU is emulated, a look takes a second.
CACHE = Path(f"/tmp/railgauge-{os.geteuid()}")

NO_PACKAGE = "unknown (of no package of Spack, dpkg or rpm)"

#: Begins what is said of a file that is another than its package brought.
CHANGED = "unknown (changed since "

#: The algorithm of rpm's digests, by their length in hexadecimal digits.
_RPM_DIGESTS = {32: "md5", 40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}


class NoAnswerError(Exception):
    """It is not known now; the next look may show it."""


def of(program: str, search: str | None = None) -> tuple[str, str]:
    """The path of `program`, links followed, and its package.

    `search` is the PATH of the call, where that is not this process's own.

    The package is `spack NAME@VERSION/HASH`, `dpkg NAME VERSION` or `rpm NAME VERSION`, else
    `unknown` with the reason. Nothing is raised: no measurement is lost for want of it.
    """
    path = _resolved(program, search)
    if path is None:
        return "", f"unknown (no program {program} on the path)"
    try:
        stamp = _stamp(path)
        package = _cached(path, stamp)
        if package is None:
            package = look(path)
            # What is wrong with a package may be repaired without a change of the file.
            if package == NO_PACKAGE or not package.startswith("unknown"):
                _keep(path, stamp, package)
    except (NoAnswerError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        package = f"unknown ({type(error).__name__}: {error})"
    return path, package


def _resolved(program: str, search: str | None = None) -> str | None:
    if search is None:
        search = os.environ.get("PATH", os.defpath)
    folders = [""] if "/" in program else search.split(os.pathsep)
    for place in (Path(folder, program) for folder in folders):
        if place.is_file() and os.access(place, os.X_OK):
            return os.path.realpath(place)
    return None


def look(path: str) -> str:
    """The package of the file at `path`; raises where a database is there and cannot be read."""
    for ask in (_by_spack, _by_dpkg, _by_rpm):
        package = ask(path)
        if package is not None:
            return package
    return NO_PACKAGE


def _unless_changed(path: str, package: str, algorithm: str, digest: str | None) -> str:
    """`package`, where the file still has the digest that it came with; some come without."""
    if digest is None:
        return package
    # Its import takes longer than all the rest, and is needed once on a node.
    import hashlib

    hashed = hashlib.new(algorithm, usedforsecurity=False)
    with Path(path).open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            hashed.update(block)
    return package if hashed.hexdigest() == digest else f"{CHANGED}{package})"


def _by_spack(path: str) -> str | None:
    prefix = next((p for p in Path(path).parents if (p / ".spack/spec.json").is_file()), None)
    if prefix is None:
        return None
    # The first node is the package itself, the others are what it was built with.
    spec = json.loads((prefix / ".spack/spec.json").read_text(encoding="utf-8"))["spec"]["nodes"][0]
    package = f"spack {spec['name']}@{spec['version']}/{spec['hash']}"
    installed = json.loads((prefix / ".spack/install_manifest.json").read_text(encoding="utf-8"))
    # Its paths are those of the installation, which may have gone through links.
    recorded = next((key[: -len("/.spack")] for key in installed if key.endswith("/.spack")), "")
    entry: dict[str, Any] = installed.get(f"{recorded}/{Path(path).relative_to(prefix)}", {})
    if "hash" not in entry:
        return f"unknown (put into the prefix of {package})"
    import base64

    return _unless_changed(path, package, "sha1", base64.b32decode(entry["hash"]).hex())


def _by_dpkg(path: str) -> str | None:
    # Reading the lists takes half the time of dpkg-query. A file of /usr/bin may be listed below
    # /bin, which was another folder once.
    merged = re.match(r"/usr(/(?:bin|sbin|lib[^/]*)/.*)", path)
    names = [path, *(merged.groups() if merged else ())]
    owners = []
    for file in sorted((DPKG / "info").glob("*.list")):
        lines = b"\n" + file.read_bytes()
        owners += [(file, name) for name in names if f"\n{name}\n".encode() in lines]
    if not owners:
        return None
    (file, name), *others = owners
    if others:
        return f"unknown (listed by {', '.join(file.stem for file, _ in owners)})"
    version = _dpkg_version(*file.stem.partition(":")[::2])
    if version is None:
        return f"unknown (dpkg says that {file.stem} is not installed)"
    digests = file.with_suffix(".md5sums")
    text = digests.read_text(encoding="utf-8") if digests.is_file() else ""
    digest = re.search(rf"^([0-9a-f]{{32}})  {re.escape(name[1:])}$", text, re.MULTILINE)
    return _unless_changed(path, f"dpkg {file.stem} {version}", "md5", digest and digest[1])


def _dpkg_version(package: str, machine: str) -> str | None:
    """The version that is installed; `machine` where dpkg keeps the package by architecture."""
    text = (DPKG / "status").read_text(encoding="utf-8", errors="replace")
    for entry in re.split(r"\n\n+", text):
        if entry.lstrip().startswith(f"Package: {package}\n"):
            fields = dict(re.findall(r"^([\w-]+): (.*)$", entry, re.MULTILINE))
            if machine in ("", fields.get("Architecture")):
                installed = fields.get("Status", "").endswith(" installed")
                return fields.get("Version") if installed else None
    return None


def _by_rpm(path: str) -> str | None:
    if _resolved("rpm") is None:
        return None
    form = r"%{NAME} %{VERSION}-%{RELEASE}\n[\t%{FILENAMES}\t%{FILEDIGESTS}\n]"
    try:
        answer = subprocess.run(
            ["rpm", "--query", "--file", "--queryformat", form, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            timeout=20,
            check=False,
        )
    except subprocess.SubprocessError as error:
        raise NoAnswerError(f"rpm: {error}") from None
    lines = answer.stdout.decode("utf-8", "replace").splitlines()
    if answer.returncode:
        if any("is not owned by any package" in line for line in lines):
            return None
        raise NoAnswerError(f"rpm ended with {answer.returncode}: {' '.join(lines[-1:])}")
    owners = [line for line in lines if not line.startswith("\t")]
    if len(owners) != 1:
        return f"unknown (listed by {', '.join(owners) or 'no package'})"
    digests = dict(line[1:].split("\t", 1) for line in lines if line.startswith("\t"))
    digest = digests.get(path, "")
    algorithm = _RPM_DIGESTS.get(len(digest))
    return _unless_changed(path, f"rpm {owners[0]}", algorithm or "", digest if algorithm else None)


# ---- earlier answers -----------------------------------------------------------------------


def _stamp(path: str) -> list[Any]:
    """What changes when the file does, or the node starts again."""
    now = Path(path).stat()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return [path, now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns, boot]


def _file(path: str) -> Path:
    return CACHE / f"{binascii.crc32(path.encode()):08x}"


def _is_ours(folder: Path) -> bool:
    """Whether no other user can have written in it: all users share /tmp."""
    status = os.lstat(folder)
    private = stat.S_ISDIR(status.st_mode) and not stat.S_IMODE(status.st_mode) & 0o077
    return private and status.st_uid == os.geteuid()


def _cached(path: str, stamp: list[Any]) -> str | None:
    try:
        if not _is_ours(CACHE):
            return None
        document = json.loads(_file(path).read_text(encoding="utf-8"))
        return str(document["package"]) if document["stamp"] == stamp else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _keep(path: str, stamp: list[Any], package: str) -> None:
    """For the next call on this node; without it there is only another look."""
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            CACHE.mkdir(mode=0o700)
        if not _is_ours(CACHE):
            return
        # Every rank of a job may be writing it.
        file = _file(path)
        temporary = file.with_name(f"{file.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"stamp": stamp, "package": package}), encoding="utf-8")
        temporary.replace(file)
