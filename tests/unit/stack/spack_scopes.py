"""A checkout's manifest and scopes of Spack, to be changed by a test."""

from __future__ import annotations

import shutil
from pathlib import Path

from railgauge import paths
from railgauge.stack import manifest

SYSTEMS = ["dgx-h100", "dgx-spark", "eth400g", "gb200-nvl72", "lab"]


def copied(folder: Path) -> Path:
    """`folder`, with spack.yaml and the scopes of all systems below it."""
    shutil.copy(paths.HOME / manifest.MANIFEST, folder)
    for system in SYSTEMS:
        shutil.copytree(
            paths.SYSTEMS / system / "spack", folder / "configs/systems" / system / "spack"
        )
    return folder


def change(path: Path, old: str, new: str) -> None:
    """Replace `old` in a file that has it."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
