"""The small initial file system that a VM node starts from: busybox, and the few kernel modules
that it takes to mount its root and the shared folders, and where these belong.
"""

from __future__ import annotations

import gzip
import lzma
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from railgauge.common.errors import PrerequisiteError

_INIT = Path(__file__).parent / "boot" / "initrd-init"

_MODULES = (
    *("virtio_pci", "virtio_net", "virtio_console", "virtio_blk", "9pnet_virtio", "9p", "overlay"),
    # What EROFS asks for by name only, and itself.
    *("crc32c_generic", "erofs"),
)

_FOLDERS = ("bin", "proc", "sys", "dev", "ro", "rw", "newroot", "modules")


def kernel(image: Path) -> Path:
    """The image's kernel; PrerequisiteError where there is none, or more than one."""
    kernels = sorted((image / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise PrerequisiteError(f"{image}/boot holds {len(kernels)} kernels, expected 1")
    return kernels[0]


def build(image: Path, run: Path, boot: Path, shares: Sequence[Path]) -> bytes:
    """The archive (gzip, cpio newc) for the kernel of `image`.

    A node finds the 9p shares `share0`, `share1`, ... at `shares`, which hold `run`, the lab's
    folder of this time, and `boot`, that of the script which it goes on with.
    """
    version = kernel(image).name.removeprefix("vmlinuz-")
    modules = image / "lib" / "modules" / version
    archive = _Archive()
    for folder in _FOLDERS:
        archive.add(folder, stat.S_IFDIR | 0o755)
    archive.add("bin/busybox", stat.S_IFREG | 0o755, (image / "bin" / "busybox").read_bytes())
    archive.add("init", stat.S_IFREG | 0o755, _INIT.read_bytes())
    orders = [f"run={run}", f"boot={boot}", *(f"share={folder}" for folder in shares)]
    # The kernel's command line would end a path at its first blank, or after some 2000 bytes.
    archive.add("orders", stat.S_IFREG | 0o644, "".join(f"{o}\n" for o in orders).encode())
    order = load_order((modules / "modules.dep").read_text(), _MODULES)
    for place, path in enumerate(order):
        name = Path(path).name.removesuffix(".xz")
        content = _decompressed(modules / path)
        # The name sorts in the order of loading.
        archive.add(f"modules/{place:02}-{name}", stat.S_IFREG | 0o644, content)
    return gzip.compress(archive.end(), compresslevel=1, mtime=0)


def load_order(dependencies: str, wanted: Iterable[str]) -> list[str]:
    """Paths of the `wanted` modules and all that they need, in an order in which they load.

    `dependencies` is the text of modules.dep (depmod(8)), which lists for every module what it
    needs, the most basic last. A module that is in neither is built in or unknown; an unknown one
    stops the boot where it is needed.
    """
    needs: dict[str, list[str]] = {}
    for line in dependencies.splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    by_name = {Path(path).name.partition(".")[0].replace("-", "_"): path for path in needs}
    order: dict[str, None] = {}
    for name in wanted:
        if name in by_name:
            path = by_name[name]
            order.update(dict.fromkeys([*reversed(needs[path]), path]))
    return list(order)


def _decompressed(path: Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


class _Archive:
    """A cpio archive in the "newc" format (cpio(5)); everything belongs to root, at time 0."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0

    def add(self, name: str, mode: int, content: bytes = b"") -> None:
        self._count += 1
        links = 2 if stat.S_ISDIR(mode) else 1
        fields = [self._count, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        header = b"070701" + "".join(f"{field:08X}" for field in fields).encode()
        self._parts += [_padded(header + name.encode() + b"\0"), _padded(content)]

    def end(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return b"".join(self._parts)


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 4)
