"""Whether what a site must provide is there, in the version that its scope states."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from railgauge.common.errors import PrerequisiteError
from railgauge.stack.manifest import MARK, PLACEHOLDER, External, Stack

#: Runs a command and gives its output, empty when it cannot be run or fails.
Ask = Callable[[list[str]], str]

#: Gives for each (package, prefix) the versions that Spack itself finds there.
Detect = Callable[[Sequence[tuple[str, str]]], list[list[str]]]

#: What a distribution ships apart from the libraries that Spack knows a package by.
_HEADERS = {"rdma-core": "infiniband/verbs.h", "pciutils": "pci/pci.h"}

#: Their pkg-config file is named after the library. Open MPI's own program, which Spack asks, does
#: not run where its libraries are on no path yet (HPC-X).
_PKG_CONFIG = {"openmpi": "ompi", "pciutils": "pci"}

#: How many numbers of a version count where a program says more, of itself: nvcc has a count of
#: its own behind CUDA's first two numbers.
_NUMBERS = {"cuda": 2}

#: Where libraries keep what says their version; Debian's in a folder named after the machine.
_LIBRARIES = ("lib", "lib64", "share", "lib/*-linux-gnu")


def ask(command: list[str]) -> str:
    """The output of `command`, empty when there is none to be had."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def problems(stack: Stack, ask: Ask = ask, machine: str | None = None) -> list[str]:
    """One line for each external that cannot be as the scope says, as far as is seen without Spack.

    Compilers are looked at whole: each program of theirs by its path.
    """
    machine = machine or platform.machine()
    family = "x86_64" if stack.target.startswith("x86_64") else "aarch64"
    lines = [line for external in stack.externals for line in _problem(external, ask)]
    if machine != family:
        lines.append(
            f"{stack.folder}/definitions.yaml: target={stack.target}: this machine is {machine}, "
            f"expected {family}: build on a node of {stack.system}"
        )
    return lines


def version_problems(stack: Stack, detect: Detect, ask: Ask = ask) -> list[str]:
    """One line for each external that is not there, or not in the version of its line.

    Its version is what Spack's own detection says, as `spack external find` uses it; of packages
    that have none, what their pkg-config or CMake file says, and in /usr the distribution.
    """
    externals = [external for external in stack.externals if not external.compilers]
    detected = detect([(external.name, external.prefix) for external in externals])
    return [
        line
        for external, versions in zip(externals, detected, strict=True)
        for line in _version_problem(external, versions or list(_written(external, ask)))
    ]


def require(stack: Stack, lines: list[str]) -> None:
    """Raise PrerequisiteError with the list of problems, if there are any."""
    if lines:
        raise PrerequisiteError(
            "\n".join(lines),
            next_step=f"put in what this site has: {stack.folder}/packages.yaml ({MARK})",
        )


def _problem(external: External, ask: Ask) -> Iterator[str]:
    where = f"{external.where}: {external.name}"
    if external.prefix.startswith(PLACEHOLDER):
        yield f"{where}: found prefix {external.prefix}, expected where this site has it"
    elif external.compilers:
        yield from _compilers(external, where, ask)
    elif not Path(external.prefix).is_dir():
        yield f"{where}: found no folder {external.prefix}, expected {_wanted(external)} there"
    elif header := _HEADERS.get(external.name):
        places = ("include", "include/*-linux-gnu")
        if not any(any(Path(external.prefix).glob(f"{place}/{header}")) for place in places):
            shown = f"{external.prefix}/include/{header}"
            yield f"{where}: found no {shown}, expected {_wanted(external)} there"


def _version_problem(external: External, versions: list[str]) -> Iterator[str]:
    where = f"{external.where}: {external.name}"
    if not versions:
        yield (
            f"{where}: found nothing below {external.prefix} that says its version (its programs "
            f"and libraries, {external.name}.pc, its CMake package), expected {_wanted(external)}"
        )
    elif not any(
        _same(external.version, version, _NUMBERS.get(external.name)) for version in versions
    ):
        shown = ", ".join(versions)
        yield (
            f"{where}: found {shown} below {external.prefix}, expected {external.version} as in "
            "this line"
        )


def _wanted(external: External) -> str:
    return f"{external.name}@{external.version}"


def _compilers(external: External, where: str, ask: Ask) -> Iterator[str]:
    for language, path in external.compilers.items():
        if not os.access(path, os.X_OK):
            yield f"{where}: {language}: found no program {path}, expected a compiler"
            continue
        version = ask([path, "-dumpfullversion"])
        if version != external.version:
            shown = version or "no answer to -dumpfullversion"
            yield f"{where}: {language}: found {shown}, expected {external.version} ({path})"


def _written(external: External, ask: Ask) -> Iterator[str]:
    """The versions that files of the package below its prefix state; else the distribution's."""
    prefix = Path(external.prefix)
    name = _PKG_CONFIG.get(external.name, _plain(external.name))
    stated = [
        version
        for place in _LIBRARIES
        for pattern, read in (
            ("pkgconfig/*.pc", _pkg_config),
            ("cmake/*/*[vV]ersion.cmake", _cmake),
        )
        for path in sorted(prefix.glob(f"{place}/{pattern}"))
        if _plain(re.sub(r"-?config-?version$", "", path.stem, flags=re.IGNORECASE)) == name
        if (version := read(path))
    ]
    if stated:
        yield from dict.fromkeys(stated)
    elif external.prefix == "/usr":
        packages = [f"{lib}{external.name}{end}" for lib in ("", "lib") for end in ("-dev", "")]
        for package in [*packages, f"{external.name}-devel"]:
            for command in (
                ["dpkg-query", "--show", "--showformat=${Version}", package],
                ["rpm", "--query", "--queryformat=%{VERSION}", package],
            ):
                if version := ask(command):
                    # Debian's epoch comes first: 1:3.9.0-4.
                    yield version.rpartition(":")[2]
                    return


def _plain(name: str) -> str:
    """A library's name for comparing: glog of libglog, boost of Boost."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removeprefix("lib")


def _pkg_config(path: Path) -> str | None:
    """The version in a pkg-config file, its variables put in."""
    text = path.read_text(encoding="utf-8", errors="replace")
    variables = dict(re.findall(r"^(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))
    match = re.search(r"^Version:[ \t]*(\S.*?)[ \t]*$", text, re.MULTILINE)
    return match and re.sub(r"\$\{(\w+)\}", lambda m: variables.get(m[1], ""), match[1])


def _cmake(path: Path) -> str | None:
    """The version in what CMake asks whether a package is new enough."""
    text = path.read_text(encoding="utf-8", errors="replace")
    match = re.search(r'set\s*\(\s*PACKAGE_VERSION\s+"?([\w.-]+)"?\s*\)', text, re.IGNORECASE)
    return match and match[1]


def _same(written: str, other: str, most: int | None = None) -> bool:
    """Do both name one version, as far as both say, and no further than `most` numbers?

    Slurm's 24.11.5 is Spack's 24-11-5-1, Debian's 44.0-2 its 44.0.
    """
    numbers, others = (re.findall(r"\d+", text) for text in (written, other))
    shorter = min(len(numbers), len(others), most or len(numbers))
    return numbers[:shorter] == others[:shorter] and shorter > 0
