"""Driving Spack: solve, look at the sources, install, fill a mirror.

Everything is below `.stack/` of the checkout ($RAILGAUGE_STACK_DIR), which the nodes see at the
same path:

    spack/ spack-packages/   Spack and its recipes, at the commits pinned here
    python/                  the solver (clingo), from a package index or from the mirror
    opt/                     what was built, of all systems
    SYSTEM/env/              the environment: spack.yaml, with configs/ and spack/ next to it
    SYSTEM/activate.sh       what ../activate.sh sources
    SYSTEM/stack.json        tool, version, hash and prefix of every root
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from railgauge import paths, terminal
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.stack import fetching, manifest
from railgauge.stack.fetching import Purpose, Supply
from railgauge.stack.manifest import Stack

_DAMAGED = "found sha256"

BUILTIN = "repos/spack_repo/builtin"

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
    supply: Supply

    @property
    def again(self) -> str:
        """The command to type again."""
        match self.supply.purpose:
            case Purpose.FILL:
                return f"make mirror SYSTEM={self.system} MIRROR=..."
            case Purpose.SOLVE:
                return f"bin/stack solve {self.system}"
        mirror = f" MIRROR={self.supply.mirror}" if self.supply.mirror else ""
        return f"make stack SYSTEM={self.system}{mirror}"

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
        if self.supply.mirror:
            settings["mirrors:railgauge"] = self.supply.mirror
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
        """Run it, its output passed on; PrerequisiteError with its last words when it fails."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        printed: list[str] = []
        assert process.stdout is not None

        def words() -> str:
            # How Spack says that a package is there.
            there = sum(line.startswith("[+]") for line in printed)
            last = printed[-1] if printed else "starting"
            return f"spack {what}: {there} packages installed; {last}"

        with terminal.moving(words):
            for line in process.stdout:
                sys.stdout.write(line)
                printed.append(line.rstrip())
        if process.wait():
            raise failure(what, process.returncode, printed, self)

    def describe(self, only: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What spack/describe.py says of the solved environment."""
        packages: list[dict[str, Any]] = self._answer("describe.py", only)
        return packages

    def detect(self, packages: Sequence[tuple[str, str]]) -> list[list[str]]:
        """The versions that Spack finds of each package below its prefix (spack/detect.py)."""
        versions: list[list[str]] = self._answer("detect.py", [json.dumps(packages)])
        return versions

    def _answer(self, name: str, arguments: Sequence[str]) -> Any:
        script = self.environment / "spack" / name
        done = subprocess.run(
            self.command("python", str(script), *arguments),
            env=self.variables(),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise PrerequisiteError(
                f"{script}: Spack ended with {done.returncode}: {done.stderr.strip()[-400:]}",
                next_step=self.again,
            )
        return json.loads(done.stdout.splitlines()[-1])


def failure(what: str, code: int, printed: list[str], spack: Spack) -> PrerequisiteError:
    """Spack's last error message, and what to do about it."""
    text = "\n".join(printed)
    errors = [
        line
        for before, line in zip(["", *printed], printed, strict=False)
        # After a colon Spack says on the next line what it is about.
        if re.match(r"(==> )?\[?.*Error", line) or re.match(r"(==> )?\[?.*Error.*:$", before)
    ] or printed[-3:]
    if "sha256 checksum failed" in text or "ChecksumError" in text:
        step = "the archive was changed, or a proxy answered: compare with upstream, never skip"
    elif _NETWORK_WORDS.search(text):
        step = spack.supply.ways_out
    elif "No version exists" in text:
        step = "pin a version in spack.yaml that spack-packages, or spack/ here, has a recipe for"
    else:
        step = f"the lines above name Spack's log; then again: {spack.again}"
    shown = "\n    ".join(errors[-4:])
    return PrerequisiteError(
        f"Spack could not {what} (exit code {code}):\n    {shown}", next_step=step
    )


def state_folder() -> Path:
    folder = paths.stack_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def require_folder(system: str) -> None:
    """RailgaugeError where the path of the stack has white space: the first configure script would
    say that the compiler does not work.
    """
    folder = paths.stack_folder()
    if any(letter.isspace() for letter in str(folder)):
        raise RailgaugeError(
            f"the stack's folder {folder}: found white space in its path, expected none, as "
            "configure scripts and makefiles fail below such a folder",
            next_step="export RAILGAUGE_STACK_DIR=... with a folder that the nodes see at the same "
            f"path, then make stack SYSTEM={system}",
        )


def prepare(stack: Stack, supply: Supply, home: Path = paths.HOME) -> Spack:
    """Spack, its recipes, its solver and the environment of one system."""
    if supply.mirror is not None:
        require_mirror(supply.mirror)
    state = state_folder()
    return Spack(
        root=fetching.checkout(state / "spack", fetching.SPACK, supply),
        packages=fetching.checkout(state / "spack-packages", fetching.PACKAGES, supply),
        python=fetching.solver(state / "python", home, supply),
        system=stack.system,
        environment=environment(state / stack.system / "env", home),
        state=state,
        supply=supply,
    )


def environment(folder: Path, home: Path = paths.HOME) -> Path:
    """A folder that is Spack's environment: the manifest, with what it names next to it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(home / manifest.MANIFEST, folder / manifest.MANIFEST)
    for name in ("configs", "spack"):
        # Another checkout with the same $RAILGAUGE_STACK_DIR has left its own.
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(home / name)
        temporary.replace(folder / name)
    return folder


def require_mirror(mirror: Path) -> None:
    """RailgaugeError unless `mirror` looks like one."""
    if not (mirror / "_source-cache/archive").is_dir():
        lacking = "no such folder" if not mirror.is_dir() else "no _source-cache/archive in it"
        raise RailgaugeError(
            f"MIRROR={mirror}: found {lacking}, expected a mirror of Spack's",
            next_step=f"on a connected machine: make mirror SYSTEM=... MIRROR={mirror}",
        )


def source_problems(
    packages: Sequence[dict[str, Any]], mirror: Path, *, all_of_them: bool = False
) -> Iterator[str]:
    """One line for each archive that is needed, and missing or damaged in the mirror.

    What is installed here needs none, unless the mirror is for others: `all_of_them`.
    """
    for package in packages:
        if package["installed"] and not all_of_them:
            continue
        for source in package["sources"]:
            path = mirror / source["path"]
            what = f"{path}: {package['name']}@{package['version']}"
            expected = f"{source['url']} with sha256 {source['sha256']}"
            if not path.is_file():
                yield f"{what}: no such file, expected {expected}"
            elif source["sha256"]:
                actual = _sha256(path)
                if actual != source["sha256"]:
                    yield f"{what}: {_DAMAGED} {actual}, expected {source['sha256']}"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        # CUDA's archive has 5 GB.
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def require_sources(packages: Sequence[dict[str, Any]], supply: Supply, system: str) -> None:
    """PrerequisiteError that lists what the mirror lacks, and what is damaged in it."""
    assert supply.mirror is not None
    filling = supply.purpose is Purpose.FILL
    lines = list(source_problems(packages, supply.mirror, all_of_them=filling))
    if lines:
        damage = "remove what is damaged, then " if any(_DAMAGED in li for li in lines) else ""
        step = (
            f"{damage}bring each file to the place named, from any machine that reaches its "
            "address; then the same command again"
            if filling
            else f"{damage}on a connected machine: make mirror SYSTEM={system} "
            f"MIRROR={supply.mirror}"
        )
        raise PrerequisiteError(
            "\n".join(lines[:20]) + (f"\n... and {len(lines) - 20} more" if lines[20:] else ""),
            next_step=f"{step}; a checksum is never skipped",
        )


def solve(spack: Spack) -> Path:
    """Solve the environment again; its lock."""
    # Without -f Spack keeps what the lock says, and does not notice a changed pin.
    spack.run("solve", "concretize", "-f")
    return spack.environment / manifest.LOCK


def forget(spack: Spack, hashes: Sequence[str]) -> None:
    """Remove what is installed of packages, so that an installation builds them again."""
    named = [f"/{each}" for each in hashes]
    # What needs them stays: the same hash comes back to the same place.
    spack.run("remove what is damaged", "uninstall", "--force", "--yes-to-all", *named)


@contextlib.contextmanager
def solved_in_a_copy(spack: Spack, home: Path = paths.HOME) -> Iterator[Path]:
    """The lock of a fresh solve, which leaves the environment as it is."""
    with tempfile.TemporaryDirectory(prefix="railgauge-solve-") as folder:
        yield solve(replace(spack, environment=environment(Path(folder) / "env", home)))


def fill_mirror(spack: Spack, mirror: Path, home: Path = paths.HOME) -> None:
    """All that `make stack MIRROR=` needs: sources, Spack, its recipes and its solver."""
    mirror.mkdir(parents=True, exist_ok=True)
    try:
        # --private: CUDA may not be passed on, and a site's own mirror passes nothing on.
        spack.run("fill the mirror", "mirror", "create", "--private", "--all", "-d", str(mirror))
    except PrerequisiteError:
        # It names packages; file, address and checksum help more.
        require_sources(spack.describe(), replace(spack.supply, mirror=mirror), spack.system)
        raise
    require_sources(spack.describe(), replace(spack.supply, mirror=mirror), spack.system)
    fetching.pack(spack.root, fetching.SPACK, mirror)
    fetching.pack(spack.packages, fetching.PACKAGES, mirror)
    fetching.download_wheels(home, mirror / "wheels")
