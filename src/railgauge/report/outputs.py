"""What the tools printed at a place, on both sides of it, as it came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from railgauge.node.orchestration import sweep_file
from railgauge.node.transport import results_file
from railgauge.verdict.campaign.cases import Case

#: How many ranks of a place are shown, and how many lines of a file that one left.
_SIDES, _LINES = 16, 40


class Outputs:
    """Of places of a campaign; the files of a sweep are read once for places that follow each
    other.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._numbers: dict[str, list[int]] = {}
        self._left = results_file.Raw()

    def of(self, case: Case) -> list[tuple[str, str]]:
        """(role and kind, text) of each call's outputs; for a sweep from its raw.jsonl.gz.

        OSError or ValueError where it cannot be read.
        """
        if case.folder is None or not case.recorded:
            return []
        if not (case.folder / results_file.FILE).exists():
            return _files(case.folder, [call.role for call in case.calls])
        if self._folder != case.folder:
            self._read(case.folder)
        outputs = []
        for number in self._numbers.get(case.place, ()):
            launch = self._left.launches.get(number)
            if launch is not None:
                source = f"launch {launch['launch']} of {len(launch['places'])} groups"
                outputs += [(f"{source}, table", launch["out"])]
                outputs += [(f"{source}, launcher", launch["err"])]
                outputs += [(f"{source}, {name}", text) for name, text in launch["files"].items()]
            # Of a launch with thousands of ranks those that failed come first, and not all.
            left = self._left.sides.get(number, {})
            sides = sorted(
                left.items(), key=lambda named: named[1].line.get("call", {}).get("exit_code") == 0
            )
            for role, side in sides[:_SIDES]:
                source = f"{role} on {side.line.get('call', {}).get('host', 'an unknown node')}"
                outputs += [(f"{source}, standard output", side.out)]
                outputs += [(f"{source}, standard error", side.err)]
                outputs += [(f"{source}, {name}", _end(text)) for name, text in side.files.items()]
            if len(sides) > _SIDES:
                outputs.append(
                    (f"{len(sides) - _SIDES} more", f"in {case.folder / results_file.FILE}")
                )
        return outputs

    def _read(self, folder: Path) -> None:
        self._folder = None
        self._left = results_file.read(folder / results_file.FILE)
        self._numbers = {}
        for number, name in enumerate(sweep_file.names(folder / sweep_file.FILE)):
            self._numbers.setdefault(name, []).append(number)
        for number, added in self._left.again.items():
            self._numbers.setdefault(added.name, []).append(number)
        self._folder = folder


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
