"""Is what a site must provide really there, in the version that its scope says?"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from railgauge.errors import EnvironmentProblem
from railgauge.stack.manifest import MARK, PLACEHOLDER, External, Stack

#: Runs a command and gives its output, empty when it cannot be run or fails.
Ask = Callable[[list[str]], str]

#: What shows that a package is there, below its prefix; else bin/NAME.
_SIGNS = {
    "gmake": "bin/make",
    "libtool": "bin/libtoolize",
    "pciutils": "include/pci/pci.h",
    "pkgconf": "bin/pkg-config",
    "rdma-core": "include/infiniband/verbs.h",
    "slurm": "bin/srun",
}


def ask(command: list[str]) -> str:
    """The output of `command`, empty when there is none to be had."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def problems(stack: Stack, ask: Ask = ask, machine: str | None = None) -> list[str]:
    """One line for each external that is not as the scope says, or cannot be."""
    machine = machine or platform.machine()
    family = "x86_64" if stack.target.startswith("x86_64") else "aarch64"
    found = [line for external in stack.externals for line in _problem(external, ask)]
    if machine != family:
        found.append(
            f"{stack.folder}/definitions.yaml: target={stack.target}: this machine is {machine}, "
            f"expected {family}: build on a node of {stack.system}"
        )
    return found


def require(stack: Stack, ask: Ask = ask, machine: str | None = None) -> None:
    """EnvironmentProblem that lists all of them."""
    lines = problems(stack, ask, machine)
    if lines:
        raise EnvironmentProblem(
            "\n".join(lines),
            next_step=f"put in what this site has: {stack.folder}/packages.yaml ({MARK})",
        )


def _problem(external: External, ask: Ask) -> Iterator[str]:
    where = f"{external.where}: {external.name}"
    if external.prefix.startswith(PLACEHOLDER):
        yield f"{where}: found prefix {external.prefix}, expected where this site has it"
        return
    if external.compilers:
        yield from _compilers(external, where, ask)
        return
    sign = _SIGNS.get(external.name, f"bin/{external.name}")
    # Debian puts some headers into include/MACHINE.
    there = [sign, sign.replace("include/", "include/*/")]
    if not any(path for pattern in there for path in Path(external.prefix).glob(pattern)):
        expected = f"{external.name}@{external.version}"
        yield f"{where}: found no {external.prefix}/{sign}, expected {expected} there"
        return
    version = _version(external, ask)
    if version and not _same(external.version, version):
        yield f"{where}: found {version}, expected {external.version} as in this line"


def _compilers(external: External, where: str, ask: Ask) -> Iterator[str]:
    for language, path in external.compilers.items():
        if not os.access(path, os.X_OK):
            yield f"{where}: {language}: found no program {path}, expected a compiler"
            continue
        version = ask([path, "-dumpfullversion"])
        if version != external.version:
            shown = version or "no answer to -dumpfullversion"
            yield f"{where}: {language}: found {shown}, expected {external.version} ({path})"


def _version(external: External, ask: Ask) -> str:
    """What the site has of it; empty where nobody says."""
    if external.name == "slurm":
        return ask([f"{external.prefix}/bin/srun", "--version"]).removeprefix("slurm ")
    if external.name == "rdma-core" and external.prefix == "/usr":
        return ask(["dpkg-query", "--show", "--showformat=${Version}", "libibverbs-dev"]) or ask(
            ["rpm", "--query", "--queryformat=%{VERSION}", "rdma-core-devel"]
        )
    return ""


def _same(written: str, found: str) -> bool:
    """Do both name one version? Slurm's 24.11.5 is Spack's 24-11-5-1, Debian's 44.0-2 its 44.0."""
    numbers, others = (re.findall(r"\d+", text) for text in (written, found))
    shorter = min(len(numbers), len(others))
    return numbers[:shorter] == others[:shorter] and shorter > 0
