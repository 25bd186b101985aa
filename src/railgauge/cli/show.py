"""`railgauge show`: all that a campaign has of a place."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from railgauge import hostlist
from railgauge.errors import RailgaugeError

if TYPE_CHECKING:
    from railgauge.campaign.folder import Campaign
    from railgauge.node.raw import Side
    from railgauge.verdict.compare import Case

#: An unknown place is answered with so many of the known ones.
_NEAREST = 6

#: So many ranks of a place are shown, and so many lines of a file that one left.
_SIDES, _LINES = 16, 40


@click.command()
@click.argument("campaign")
@click.argument("place")
@click.option("--check", help="Only this check.")
def show(campaign: str, place: str, check: str | None) -> None:
    """Print what was measured at a place, and what the tools printed on both sides of it.

    CAMPAIGN is an id, a path, or `latest`. PLACE is a name as the verdict has it: n1:n2, with the
    rails n1:n2:0-1, or a node for all of its places. Of each check: exit lines, numbers, failures,
    facts, the counters that moved, and the outputs as they came.
    """
    from railgauge.campaign import folder as campaigns
    from railgauge.model.record import BrokenRecordError
    from railgauge.report import place as report
    from railgauge.verdict.compare import read

    loaded = campaigns.load(campaign)
    try:
        cases = _chosen(loaded, [case for case in read(loaded) if not case.of_job], place, check)
    except BrokenRecordError as error:
        raise RailgaugeError(str(error)) from None
    unreadable = []
    for case in cases:
        try:
            outputs = _outputs(case)
        except (OSError, ValueError) as error:
            outputs = []
            unreadable.append(str(error))
        for line in report.lines(case, outputs):
            click.echo(line)
    if unreadable:
        raise RailgaugeError(
            f"outputs cannot be read: {'; '.join(dict.fromkeys(unreadable))}",
            next_step=f"ls -l {shlex.quote(str(loaded.folder))}/stage",
        )


def _chosen(campaign: Campaign, cases: Sequence[Case], place: str, check: str | None) -> list[Case]:
    """The places that are meant; RailgaugeError, with the nearest known ones, where none is."""
    checks = dict.fromkeys(case.check for case in cases)
    if check is not None and check not in checks:
        raise RailgaugeError(
            f"campaign {campaign.id} has no check {check}, expected one of: {', '.join(checks)}"
        )
    cases = [case for case in cases if check in (None, case.check)]
    found = [case for case in cases if place in _names(case)]
    if found:
        return found
    known = dict.fromkeys(name for case in cases for name in _names(case))
    nearest = difflib.get_close_matches(place, known, n=_NEAREST, cutoff=0.4) or list(known)
    of_check = f" of {check}" if check else ""
    raise RailgaugeError(
        f"campaign {campaign.id} has no place {place}{of_check}; it has "
        f"{', '.join(nearest[:_NEAREST]) or 'none'}"
        + (f" and {len(known) - _NEAREST} more" if len(known) > _NEAREST else ""),
        next_step=f"railgauge verdict --all {campaign.id}",
    )


def _names(case: Case) -> list[str]:
    """All that a place is called: its name and the beginnings of it (`n1:n2` of `n1:n2:0-1`), its
    nodes as a host list, and each of them.
    """
    parts = case.place.split(":")
    beginnings = [":".join(parts[:end]) for end in range(len(parts), 1, -1)]
    names = [case.place, *beginnings, hostlist.fold(case.nodes), *case.nodes]
    return list(dict.fromkeys(filter(None, names)))


def _outputs(case: Case) -> list[tuple[str, str]]:
    """(role and kind, what was printed) of each call; of a sweep from its raw.jsonl.gz.

    OSError or ValueError where it cannot be read.
    """
    from railgauge.node import raw, sweep

    if case.folder is None or not case.recorded:
        return []
    if not (case.folder / raw.FILE).exists():
        return _files(case.folder, [call.role for call in case.calls])
    names = sweep.names(case.folder / sweep.FILE)
    left = raw.read(case.folder / raw.FILE)
    outputs = []
    for number in (number for number, name in enumerate(names) if name == case.place):
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


def _is_good(side: Side) -> bool:
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
