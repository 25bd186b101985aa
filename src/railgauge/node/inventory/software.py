"""Versions of what programs are linked with and started by."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from railgauge.node.inventory.sheet import Places, Scalar, Sheet, raw_text, version_in, whole_lines
from railgauge.node.system.rdma_devices import FactError

#: Where distributions keep libraries.
_LIBRARIES = (
    *("usr/lib64", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"),
    *("usr/local/lib", "usr/local/cuda/lib64"),
)


def sources(places: Places) -> list[Callable[[], Sheet]]:
    return [
        lambda: _files(places),
        lambda: _slurm(places),
        lambda: _ofed(places),
        lambda: _bios(places),
    ]


def _files(places: Places) -> Sheet:
    root, sheet = Path(places.root), Sheet()
    release = root / "etc/os-release"
    sheet.several("os/", ["name", "version"], lambda: os_release(raw_text(release)))
    # The library's file is called after rdma-core's version: libibverbs.so.1.14.44.0 is of 44.0.
    sheet.put("software/rdma_core", lambda: library(root, "libibverbs.so.1", r"1\.[0-9]+\.(.+)"))
    sheet.put("software/nccl", lambda: library(root, "libnccl.so.2", "(.+)"))
    sheet.put("software/cuda", lambda: cuda(raw_text(root / "usr/local/cuda/version.json")))
    return sheet


def os_release(text: str) -> dict[str, Scalar]:
    """Name and version of the distribution, of /etc/os-release."""
    names = {"ID": "name", "VERSION_ID": "version", "VARIANT_ID": "variant"}
    facts: dict[str, Scalar] = {}
    for line in whole_lines(text):
        name, equals, value = line.partition("=")
        if equals and name in names:
            facts[names[name]] = value.strip().strip("'\"")
    return facts


def _targets(root: Path, name: str) -> Iterator[str]:
    for folder in _LIBRARIES:
        path = root / folder / name
        if path.exists():
            yield path.resolve().name


def library(root: Path, name: str, version: str) -> str:
    """The version in the file's name that a library's link points to."""
    for target in _targets(root, name):
        matched = re.fullmatch(re.escape(name.partition(".so")[0]) + r"\.so\." + version, target)
        if matched and target != name:
            return matched[1]
    raise FactError(f"no {name} in the system's library folders that has its version")


def cuda(text: str) -> str:
    """The toolkit's version, of /usr/local/cuda/version.json."""
    try:
        version = json.loads(text)["cuda"]["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FactError(f"version.json: not the JSON expected: {error!r}") from None
    if not isinstance(version, str):
        raise FactError(f"version.json: the version is {version!r}")
    return version


def _slurm(places: Places) -> Sheet:
    sheet = Sheet()
    sheet.put("software/slurm", lambda: slurm(places.ask(["scontrol", "--version"])))
    return sheet


def slurm(text: str) -> str:
    """24.11.5 of `slurm 24.11.5`."""
    return version_in(text, r"slurm(?:-wlm)? ([0-9][0-9A-Za-z.\-]*)", "scontrol --version")


def _ofed(places: Places) -> Sheet:
    sheet = Sheet()
    sheet.put("software/ofed", lambda: ofed(places.ask(["ofed_info", "-s"])))
    return sheet


def ofed(text: str) -> str:
    """MLNX_OFED_LINUX-24.10-1.1.4.0 of what `ofed_info -s` prints, without its colon."""
    return version_in(text, r"([A-Za-z_]*OFED[\w.\-]+):?", "ofed_info -s")


def _bios(places: Places) -> Sheet:
    """Where the kernel shows no DMI, dmidecode may."""
    sheet = Sheet()
    if not Path(places.sys, "class/dmi/id").is_dir():
        for key, word in (("bios/version", "bios-version"), ("bios/date", "bios-release-date")):
            sheet.put(key, _bios_by_dmidecode, places, word)
    return sheet


def _bios_by_dmidecode(places: Places, word: str) -> str:
    return bios(places.ask(["dmidecode", "-s", word]))


def bios(text: str) -> str:
    """The last line of `dmidecode -s`: comments come before."""
    lines = [line.strip() for line in whole_lines(text) if not line.startswith("#")]
    if len([line for line in lines if line]) != 1:
        raise FactError("dmidecode -s: expected one line")
    return next(line for line in lines if line)
