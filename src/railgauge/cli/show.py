"""`railgauge show`: all that a campaign has of a place."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from railgauge import hostlist
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import RailgaugeError

if TYPE_CHECKING:
    from railgauge.campaign.folder import Campaign
    from railgauge.verdict.campaign.cases import Case

#: An unknown place is answered with so many of the known ones.
_NEAREST = 6


@click.command()
@click.argument("campaign")
@click.argument("place")
@click.option("--check", help="Only this check.")
@json_option("show")
def show(campaign: str, place: str, check: str | None, as_json: bool) -> None:
    """Print what was measured at a place, and what the tools printed on both sides of it.

    CAMPAIGN is an id, a path, or `latest`. PLACE is a name from the verdict: n1:n2 for a pair,
    n1:n2:0-1 with its rails, or n1 for all places of a node. For each check it prints exit lines,
    numbers, failures, facts, the counters that changed, and the outputs as they came.
    """
    from railgauge.campaign import folder as campaigns
    from railgauge.model.record import BrokenRecordError
    from railgauge.report import place as report
    from railgauge.report.outputs import Outputs
    from railgauge.verdict.campaign.cases import read

    loaded = campaigns.load(campaign)
    try:
        cases = _chosen(loaded, [case for case in read(loaded) if not case.of_job], place, check)
    except BrokenRecordError as error:
        raise RailgaugeError(str(error)) from None
    unreadable, documents = [], []
    recorded = Outputs()
    for case in cases:
        try:
            outputs = recorded.of(case)
        except (OSError, ValueError) as error:
            outputs = []
            unreadable.append(str(error))
        if as_json:
            documents.append(report.as_dict(case, outputs))
            continue
        for line in report.lines(case, outputs):
            click.echo(line)
    if as_json:
        simulated = loaded.simulated is not None
        document = {"campaign": loaded.id, "simulated": simulated, "places": documents}
        print_json(document)
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
    there = [case for case in cases if place in _names(case)]
    if there:
        return there
    # The tables name a pair that was measured again by its nodes, without the number of the round.
    known = dict.fromkeys(
        name for case in cases for name in _names(case) if not {"@", " "} & {*name}
    )
    nearest = difflib.get_close_matches(place, known, n=_NEAREST, cutoff=0.4) or list(known)
    of_check = f" of {check}" if check else ""
    raise RailgaugeError(
        f"campaign {campaign.id} has no place {place}{of_check}; it has "
        f"{', '.join(nearest[:_NEAREST]) or 'none'}"
        + (f" and {len(known) - _NEAREST} more" if len(known) > _NEAREST else ""),
        next_step=f"railgauge verdict --all {campaign.id}",
    )


def _names(case: Case) -> list[str]:
    """All that a place is called: its name and the beginnings of it (`n1:n2` of `n1:n2:0-1`), also
    without the round of a pair that was measured again (`n1:n3@4`), its nodes as a host list, as
    the tables have them (`n1 n2`), and each of them.
    """
    parts = case.place.partition("@")[0].split(":")
    beginnings = [":".join(parts[:end]) for end in range(len(parts), 1, -1)]
    names = [case.place, *beginnings, hostlist.fold(case.nodes), " ".join(case.nodes), *case.nodes]
    return list(dict.fromkeys(filter(None, names)))
