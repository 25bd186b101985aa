"""What the tools printed at a place, on both sides of it, as it came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from railgauge.node import raw, sweep
from railgauge.verdict.compare import Case


class Outputs:
    """Of places of a campaign; the files of a sweep are read once for places that follow each
    other.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._numbers: dict[str, list[int]] = {}
        self._sides: dict[int, dict[str, raw.Side]] = {}

    def of(self, case: Case) -> list[tuple[str, str]]:
        """(role and kind, what was printed) of each call; of a sweep from its raw.jsonl.gz.

        OSError or ValueError where it cannot be read.
        """
        if case.folder is None or not case.recorded:
            return []
        if not (case.folder / raw.FILE).exists():
            return _files(case.folder, [call.role for call in case.calls])
        if self._folder != case.folder:
            self._read(case.folder)
        return [
            (f"{role} on {side.line.get('call', {}).get('host', 'an unknown node')}, {kind}", text)
            for number in self._numbers.get(case.place, ())
            for role, side in self._sides.get(number, {}).items()
            for kind, text in (
                ("standard output", side.out),
                ("standard error", side.err),
                *side.files.items(),
            )
        ]

    def _read(self, folder: Path) -> None:
        self._folder = None
        self._numbers = {}
        for place in sweep.read(folder / sweep.FILE).places:
            self._numbers.setdefault(place.name, []).append(place.number)
        self._sides = raw.read(folder / raw.FILE).sides
        self._folder = folder


def _files(folder: Path, roles: Sequence[str]) -> list[tuple[str, str]]:
    """Of a job that is no sweep: a file an output."""
    return [
        (f"{role}, {kind}", path.read_text(encoding="utf-8", errors="replace"))
        for role in roles
        for kind, path in (
            ("standard output", folder / f"{role}.out"),
            ("standard error", folder / f"{role}.err"),
        )
        if path.exists()
    ]
