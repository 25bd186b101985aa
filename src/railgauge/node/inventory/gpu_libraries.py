"""The libraries of NVIDIA's driver: of one version, and whole.

A package that was installed in part, a full disk, or a container runtime that was ended leave empty
or cut files. Then CUDA programs fail with any message, while the kernel module is well.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

from railgauge.node.inventory.sheet import Places, Scalar, Sheet

#: Folders of the loader, below the root (ld.so(8), and those of distributions).
_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")

#: What CUDA programs, NVML and NCCL load.
_NAMES = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-nvvm")

#: The file with the version of the driver behind its name; the names without are links to it.
_FILE = re.compile(rf"({'|'.join(_NAMES)})\.so\.([0-9]+(?:\.[0-9]+){{1,2}})")

#: Nothing is broken.
WHOLE = "none"


def sheet(places: Places, driver: str | None) -> Sheet:
    """Versions and broken files of the driver's libraries; empty where there are none. `driver` is
    the version of the kernel module, None where it is not known.
    """
    found = libraries(Path(places.root))
    filled = Sheet()
    if not found:
        return filled
    versions = sorted({version for version, _ in found.values()})
    bad = [f"{path}: {why}" for path, (_, why) in sorted(found.items()) if why]
    fields: dict[str, Scalar] = {
        "nvidia/libraries": " ".join(versions),
        "nvidia/libraries_broken": "; ".join(bad) or WHOLE,
    }
    if driver is not None:
        fields["nvidia/libraries_fit"] = versions == [driver]
    filled.several("", (), lambda: fields)
    return filled


def libraries(root: Path) -> dict[str, tuple[str, str]]:
    """File -> its version, and why it is broken, "" where it is whole. A folder that is a link to
    another one counts once.
    """
    found: dict[str, tuple[str, str]] = {}
    for folder in dict.fromkeys((root / name).resolve() for name in _FOLDERS):
        for path in sorted(folder.glob("lib*.so.*")):
            named = _FILE.fullmatch(path.name)
            if named:
                found[f"/{path.relative_to(root.resolve())}"] = named[2], broken(path)
    return found


def broken(path: Path) -> str:
    """Why a file is no whole shared library; "" where it is one: the table of its sections, which
    stands at its end, is there (elf(5)).
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not size:
        return "empty"
    if head[:4] != b"\x7fELF" or len(head) < 64:
        return "no shared library"
    order = "<" if head[5] == 1 else ">"
    if head[4] == 2:
        (at,) = struct.unpack_from(f"{order}Q", head, 0x28)
        entry_bytes, entries = struct.unpack_from(f"{order}HH", head, 0x3A)
    else:
        (at,) = struct.unpack_from(f"{order}I", head, 0x20)
        entry_bytes, entries = struct.unpack_from(f"{order}HH", head, 0x2E)
    ends = at + entry_bytes * entries
    return f"{size} bytes of at least {ends}" if size < ends else ""
