"""What the tools printed at a place, on both sides of it, as it came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from railgauge.node import raw, sweep
from railgauge.verdict.compare import Case

#: So many ranks of a place are shown, and so many lines of a file that one left.
_SIDES, _LINES = 16, 40


def outputs_of(case: Case) -> list[tuple[str, str]]:
    """(role and kind, what was printed) of each call; of a sweep from its raw.jsonl.gz.

    OSError or ValueError where it cannot be read.
    """
    if case.folder is None or not case.recorded:
        return []
    if not (case.folder / raw.FILE).exists():
        return _files(case.folder, [call.role for call in case.calls])
    names = sweep.names(case.folder / sweep.FILE)
    left = raw.read(case.folder / raw.FILE)
    outputs = []
    known = [*enumerate(names), *((number, added["name"]) for number, added in left.again.items())]
    for number in (number for number, name in known if name == case.place):
        launch = left.launches.get(number)
        if launch is not None:
            whose = f"launch {launch['launch']} of {len(launch['places'])} groups"
            outputs += [(f"{whose}, table", launch["out"]), (f"{whose}, launcher", launch["err"])]
            outputs += [(f"{whose}, {name}", text) for name, text in launch["files"].items()]
        # Of a launch with thousands of ranks those that failed come first, and not all.
        sides = sorted(left.sides.get(number, {}).items(), key=lambda named: _is_good(named[1]))
        for role, side in sides[:_SIDES]:
            whose = f"{role} on {side.line.get('call', {}).get('host', 'an unknown node')}"
            outputs += [(f"{whose}, standard output", side.out)]
            outputs += [(f"{whose}, standard error", side.err)]
            outputs += [(f"{whose}, {name}", _end(text)) for name, text in side.files.items()]
        if len(sides) > _SIDES:
            outputs.append((f"{len(sides) - _SIDES} more", f"in {case.folder / raw.FILE}"))
    return outputs


def _is_good(side: raw.Side) -> bool:
    return bool(side.line.get("call", {}).get("exit_code") == 0)


def _end(text: str) -> str:
    """The last lines of a long file."""
    lines = text.splitlines()
    if len(lines) <= _LINES:
        return text
    return "\n".join([f"... {len(lines) - _LINES} lines before these", *lines[-_LINES:]])


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
