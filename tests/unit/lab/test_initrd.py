"""The initial file system of a VM node: modules in an order that loads, an archive that reads."""

from __future__ import annotations

import gzip
import lzma
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.common.errors import PrerequisiteError
from railgauge.lab import initrd
from railgauge.lab.initrd import load_order

# ---- the order of loading ----

#: As depmod writes it: for every module what it needs, the most basic last.
DEPENDENCIES = """\
kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio_ring.ko.xz kernel/virtio.ko.xz
kernel/drivers/virtio/virtio_ring.ko.xz: kernel/virtio.ko.xz
kernel/virtio.ko.xz:
kernel/net/9p/9pnet_virtio.ko: kernel/net/9p/9pnet.ko kernel/virtio.ko.xz
kernel/net/9p/9pnet.ko:
kernel/drivers/block/virtio-blk.ko.zst: kernel/virtio.ko.xz
"""


def names(order: list[str]) -> list[str]:
    return [Path(path).name.partition(".")[0] for path in order]


def test_what_a_module_needs_is_loaded_before_it() -> None:
    assert names(load_order(DEPENDENCIES, ["virtio_pci"])) == [
        "virtio",
        "virtio_ring",
        "virtio_pci",
    ]


def test_what_two_modules_need_is_loaded_once() -> None:
    order = names(load_order(DEPENDENCIES, ["virtio_pci", "9pnet_virtio"]))
    assert order == ["virtio", "virtio_ring", "virtio_pci", "9pnet", "9pnet_virtio"]


def test_module_wanted_twice_is_loaded_once() -> None:
    assert names(load_order(DEPENDENCIES, ["virtio", "virtio"])) == ["virtio"]


def test_module_that_is_built_in_or_unknown_is_left_out() -> None:
    assert names(load_order(DEPENDENCIES, ["overlay", "9pnet"])) == ["9pnet"]


def test_dashes_and_underscores_are_the_same_in_a_modules_name() -> None:
    assert names(load_order(DEPENDENCIES, ["virtio_blk"])) == ["virtio", "virtio-blk"]


def test_paths_are_those_of_the_kernels_folder() -> None:
    assert load_order(DEPENDENCIES, ["9pnet"]) == ["kernel/net/9p/9pnet.ko"]


@pytest.mark.parametrize("text", ["", "\n", DEPENDENCIES])
def test_nothing_wanted_is_nothing_loaded(text: str) -> None:
    assert load_order(text, []) == []


class Modules(NamedTuple):
    """Modules by number; each needs some of those with a lower number."""

    needs: list[set[int]]

    def all_of(self, module: int) -> set[int]:
        found = set(self.needs[module])
        for lower in self.needs[module]:
            found |= self.all_of(lower)
        return found

    def text(self) -> str:
        return "".join(
            f"m/m{module}.ko: {' '.join(f'm/m{n}.ko' for n in sorted(self.all_of(module))[::-1])}\n"
            for module in range(len(self.needs))
        )


@st.composite
def modules(draw: st.DrawFn) -> Modules:
    count = draw(st.integers(1, 12))
    below = [
        st.sets(st.integers(0, n - 1), max_size=3) if n else st.just(set()) for n in range(count)
    ]
    return Modules([draw(some) for some in below])


@given(modules(), st.lists(st.integers(0, 14), max_size=6))
def test_any_modules_are_loaded_once_and_after_all_that_they_need(
    known: Modules, wanted: list[int]
) -> None:
    order = [
        int(name[1:])
        for name in names(load_order(known.text(), [f"m{number}" for number in wanted]))
    ]
    there = [number for number in wanted if number < len(known.needs)]
    assert sorted(order) == sorted({*there}.union(*(known.all_of(number) for number in there)))
    assert all(known.all_of(module) <= set(order[:place]) for place, module in enumerate(order))


# ---- the kernel ----


def test_the_images_kernel_is_found(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    kernel = tmp_path / "boot" / "vmlinuz-6.12.1-amd64"
    kernel.touch()
    (tmp_path / "boot" / "initrd.img-6.12.1-amd64").touch()
    assert initrd.kernel(tmp_path) == kernel


def test_image_without_boot_has_no_kernel(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="boot holds 0 kernels, expected 1"):
        initrd.kernel(tmp_path)


def test_image_with_two_kernels_does_not_say_which_one_to_start(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    for version in ("6.12.1", "6.12.2"):
        (tmp_path / "boot" / f"vmlinuz-{version}").touch()
    with pytest.raises(PrerequisiteError, match="boot holds 2 kernels, expected 1"):
        initrd.kernel(tmp_path)


# ---- the archive ----


class Entry(NamedTuple):
    mode: int
    content: bytes
    owner: tuple[int, int]
    links: int
    modified: int


def read_cpio(archive: bytes) -> dict[str, Entry]:
    """The entries of an archive in cpio's "newc" format (cpio(5)), in their order."""
    entries: dict[str, Entry] = {}
    inodes = set()
    place = 0
    while True:
        assert archive[place : place + 6] == b"070701"
        fields = [int(archive[place + 6 + 8 * n :][:8], 16) for n in range(13)]
        inode, mode, user, group, links, modified, size = fields[:7]
        name_size, checksum = fields[11:]
        assert fields[7:11] == [0, 0, 0, 0]
        assert checksum == 0
        name = archive[place + 110 :][:name_size]
        assert name.endswith(b"\0")
        place = _aligned(place + 110 + name_size)
        content = archive[place : place + size]
        assert len(content) == size
        place = _aligned(place + size)
        if name == b"TRAILER!!!\0":
            assert place == len(archive)
            return entries
        assert inode not in inodes
        inodes.add(inode)
        entries[name[:-1].decode()] = Entry(mode, content, (user, group), links, modified)


def _aligned(place: int) -> int:
    return -(-place // 4) * 4


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image with two modules, one of them compressed."""
    folder = tmp_path / "lib" / "modules" / "6.12.1" / "kernel"
    folder.mkdir(parents=True)
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / "vmlinuz-6.12.1").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "busybox").write_bytes(b"\x7fELF busybox")
    (folder / "9p.ko.xz").write_bytes(lzma.compress(b"the 9p module"))
    (folder / "netfs.ko").write_bytes(b"netfs")
    (folder.parent / "modules.dep").write_text(
        "kernel/9p.ko.xz: kernel/netfs.ko\nkernel/netfs.ko:\nkernel/usb.ko:\n"
    )
    return tmp_path


def built(image: Path) -> bytes:
    shares = [Path("/lab/run"), Path("/a folder, with: signs")]
    return initrd.build(image, Path("/lab/run"), Path("/lab/boot"), shares)


@pytest.fixture
def entries(image: Path) -> dict[str, Entry]:
    return read_cpio(gzip.decompress(built(image)))


def test_archive_has_the_modules_named_in_the_order_of_loading(entries: dict[str, Entry]) -> None:
    modules = {n: entry.content for n, entry in entries.items() if n.startswith("modules/")}
    assert modules == {"modules/00-netfs.ko": b"netfs", "modules/01-9p.ko": b"the 9p module"}


def test_archive_has_an_executable_init_and_busybox(entries: dict[str, Entry]) -> None:
    busybox, init = entries["bin/busybox"], entries["init"]
    assert busybox.content == b"\x7fELF busybox"
    assert init.content.startswith(b"#!/bin/")
    assert {busybox.mode, init.mode} == {stat.S_IFREG | 0o755}


def test_archive_says_where_the_folders_belong_a_line_each(entries: dict[str, Entry]) -> None:
    told = entries["orders"].content.decode().splitlines()
    assert told == [
        "run=/lab/run",
        "boot=/lab/boot",
        "share=/lab/run",
        "share=/a folder, with: signs",
    ]


def test_every_folder_comes_before_what_is_in_it(entries: dict[str, Entry]) -> None:
    place = {name: number for number, name in enumerate(entries)}
    inside = [name for name in entries if "/" in name]
    assert all(place[name.rpartition("/")[0]] < place[name] for name in inside)


def test_every_folder_is_a_folder(entries: dict[str, Entry]) -> None:
    folders = {name for name, entry in entries.items() if stat.S_ISDIR(entry.mode)}
    assert folders == {"bin", "proc", "sys", "dev", "ro", "rw", "newroot", "modules"}


def test_all_of_it_belongs_to_root_at_no_time(entries: dict[str, Entry]) -> None:
    assert {(entry.owner, entry.modified) for entry in entries.values()} == {((0, 0), 0)}


def test_same_image_gives_the_same_archive(image: Path) -> None:
    assert built(image) == built(image)


def test_missing_busybox_is_no_archive(image: Path) -> None:
    (image / "bin" / "busybox").unlink()
    with pytest.raises(FileNotFoundError):
        built(image)


def test_cpio_lists_the_same_entries(image: Path, entries: dict[str, Entry]) -> None:
    archive = gzip.decompress(built(image))
    answer = subprocess.run(["cpio", "-t"], input=archive, capture_output=True, check=True)
    assert answer.stdout.decode().split() == list(entries)
