"""`railgauge trend`: a check over all campaigns."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from railgauge import hostlist, systems
from railgauge.cli.numbers import Number
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, EXIT_REJECT, RailgaugeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railgauge.verdict.comparison.trend import Trend


@click.command()
@click.argument("check")
@click.option("--system", help="The system, if this host does not show it (as RFM_SYSTEM).")
@click.option("--node", help="Name only places of this node.")
@click.option(
    "--margin",
    type=Number(0, 1, max_open=True),
    default=0.01,
    show_default=True,
    help="The smallest decline over all campaigns that is a finding, as a share.",
)
@json_option("trend")
def trend(
    check: str, system: str | None, node: str | None, margin: float, as_json: bool
) -> NoReturn:
    """Show the conditions of CHECK over all finished campaigns of a system, and what declines.

    A line a campaign, marked where firmware or tuning of nodes has changed, or the version of the
    tool. A decline is a finding from eight campaigns on.

    Exit code: 0 no decline, 1 one, 3 where there is nothing to look at.
    """
    from railgauge.campaign import folder
    from railgauge.verdict.comparison import measurement_table
    from railgauge.verdict.comparison.trend import trends

    chosen = systems.chosen(system)
    campaigns = [one for one in folder.measured_of(chosen) if one.state == "finished"]
    measured = [(one, measurement_table.read(one)) for one in reversed(campaigns)]
    checks = sorted({name for _, frame in measured for name in frame["check"].unique()})
    if check not in checks:
        raise RailgaugeError(
            f"no finished campaign of {chosen} has {check}; there are {', '.join(checks) or 'none'}"
        )
    conditions = trends(measured, check, node, margin)
    if as_json:
        print_json([dataclasses.asdict(one) for one in conditions])
    else:
        _print(conditions)
    sys.exit(EXIT_REJECT if any(one.declines for one in conditions) else EXIT_ACCEPT)


def _print(conditions: Sequence[Trend]) -> None:
    """The answer, then each condition with a line a campaign."""
    from railgauge.report import layout

    console = layout.console()
    declining = sum(bool(one.declines) for one in conditions)
    layout.say(console, f"{declining} of {len(conditions)} conditions decline")
    for one in conditions:
        layout.say(console, one.condition, rest="  ")
        for decline in one.declines:
            layout.say(
                console,
                f"declines: {decline.place or 'all places'}, {decline.change:+.1%} over "
                f"{decline.campaigns} campaigns, p {decline.p:.0e}",
                "  ",
                "    ",
            )
        versions: tuple[str, ...] = ()
        for point in one.points:
            places = f"{point.places} place{'s' if point.places > 1 else ''}"
            mark = f"  changed: {hostlist.fold(point.changed)}" if point.changed else ""
            if versions and point.versions and point.versions != versions:
                mark += f"  now {', '.join(point.versions)}"
            versions = point.versions or versions
            line = f"{point.campaign}  {point.median:>10.5g} {one.unit}  {places}{mark}"
            layout.say(console, line, "  ", "    ")
