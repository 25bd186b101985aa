"""What the tools printed at a place, on both sides of it, as it came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from railgauge.node import raw, sweep
from railgauge.verdict.compare import Case


def outputs_of(case: Case) -> list[tuple[str, str]]:
    """(role and kind, what was printed) of each call; of a sweep from its raw.jsonl.gz.

    OSError or ValueError where it cannot be read.
    """
    if case.folder is None or not case.recorded:
        return []
    if not (case.folder / raw.FILE).exists():
        return _files(case.folder, [call.role for call in case.calls])
    places = sweep.read(case.folder / sweep.FILE).places
    numbers = [entry.number for entry in places if entry.name == case.place]
    sides = raw.read(case.folder / raw.FILE).sides
    return [
        (f"{role} on {side.line.get('call', {}).get('host', 'an unknown node')}, {kind}", content)
        for number in numbers
        for role, side in sides.get(number, {}).items()
        for kind, content in (
            ("standard output", side.out),
            ("standard error", side.err),
            *side.files.items(),
        )
    ]


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
