"""The driver's libraries: of one version, and whole. The files are made up, with ELF headers."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.inventory import gpu_libraries, kinds
from railgauge.node.inventory.sheet import Places

DRIVER = "570.86.15"
DEBIAN, REDHAT = "usr/lib/x86_64-linux-gnu", "usr/lib64"


def elf(sections: int = 3, body: int = 100) -> bytes:
    """A 64-bit library with nothing but its header and the table of sections at its end."""
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, 64 + body)
    struct.pack_into("<HH", head, 0x3A, 64, sections)
    return bytes(head) + bytes(body) + bytes(64 * sections)


def put(root: Path, folder: str, version: str = DRIVER, **contents: bytes) -> None:
    home = root / folder
    home.mkdir(parents=True, exist_ok=True)
    for name in ("libcuda", "libnvidia-ml"):
        content = contents.get(name.replace("-", "_"), elf())
        (home / f"{name}.so.{version}").write_bytes(content)
        (home / f"{name}.so.1").symlink_to(f"{name}.so.{version}")


def fields(root: Path, driver: str | None = DRIVER) -> dict[str, object]:
    def ask(argv: list[str]) -> str:
        raise AssertionError(argv)

    return dict(gpu_libraries.sheet(Places("/sys", "/proc", str(root), ask), driver).fields)


@pytest.mark.parametrize("folder", [DEBIAN, REDHAT])
def test_whole_libraries_of_the_drivers_version_are_well(tmp_path: Path, folder: str) -> None:
    put(tmp_path, folder)
    assert fields(tmp_path) == {
        "nvidia/libraries": DRIVER,
        "nvidia/libraries_broken": "none",
        "nvidia/libraries_fit": True,
    }


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "empty"), (elf()[:-1], "355 bytes of at least 356"), (b"x" * 100, "no shared library")],
)
def test_a_broken_library_is_named_with_its_path(tmp_path: Path, content: bytes, why: str) -> None:
    put(tmp_path, DEBIAN, libcuda=content)
    assert fields(tmp_path)["nvidia/libraries_broken"] == f"/{DEBIAN}/libcuda.so.{DRIVER}: {why}"


def test_libraries_of_another_version_do_not_fit(tmp_path: Path) -> None:
    put(tmp_path, DEBIAN)
    put(tmp_path, REDHAT, "565.57.01")
    found = fields(tmp_path)
    assert found["nvidia/libraries"] == f"565.57.01 {DRIVER}"
    assert found["nvidia/libraries_fit"] is False


def test_without_a_module_nothing_says_whether_they_fit(tmp_path: Path) -> None:
    put(tmp_path, DEBIAN)
    assert "nvidia/libraries_fit" not in fields(tmp_path, None)


def test_a_node_without_such_libraries_has_no_field(tmp_path: Path) -> None:
    (tmp_path / DEBIAN).mkdir(parents=True)
    (tmp_path / DEBIAN / "libcudart.so.12.8.90").write_bytes(b"")
    assert fields(tmp_path) == {}


def test_a_folder_that_is_a_link_counts_once(tmp_path: Path) -> None:
    put(tmp_path, DEBIAN, libcuda=b"")
    (tmp_path / REDHAT).symlink_to(tmp_path / DEBIAN)
    assert str(fields(tmp_path)["nvidia/libraries_broken"]).count("empty") == 1


@given(st.integers(0, len(elf()) - 1))
def test_every_cut_of_a_library_is_found(length: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "libcuda.so.1.2")
        path.write_bytes(elf()[:length])
        assert gpu_libraries.broken(path)


def test_a_real_library_is_whole() -> None:
    libraries = [
        path for path in Path("/usr/lib").glob("*-linux-gnu*/libc.so.6") if sys.platform == "linux"
    ]
    assert [gpu_libraries.broken(path) for path in libraries] == [""] * len(libraries)


def test_they_are_state_and_change_no_fingerprint() -> None:
    for name in ("libraries", "libraries_broken", "libraries_fit", "smi_slow"):
        assert kinds.kind(f"nvidia/{name}") == "state"
