"""What the commands that run a campaign share."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from railgauge import terminal
from railgauge.acceptance import session
from railgauge.campaign import variables
from railgauge.campaign.folder import Gate
from railgauge.cli.output import print_json
from railgauge.common.errors import EXIT_ACCEPT, RailgaugeError
from railgauge.hooks import Say
from railgauge.systems import rehearsal

if TYPE_CHECKING:
    from railgauge.model.record import Listed
    from railgauge.verdict.decision.verdict import Verdict


provisional = click.option(
    "--provisional",
    is_flag=True,
    help="Exit with 0 for a provisional accept too. Without a baseline of this site there is no "
    "better verdict.",
)

#: The option of what runs a campaign.
PLACES = click.option(
    "--places",
    metavar="REGEX",
    help="Measure only places with such a name, and the preflight: n1:n2, :0-0$, 44ms.",
)

SERIES = click.option(
    "--series",
    is_flag=True,
    help="Add the slow tests: all long round trips, programs of the site, NCCL with P2P off.",
)


@dataclasses.dataclass(frozen=True)
class Shown:
    """How the verdict is printed: as JSON, or as text with a line for each of all places; and
    whether a provisional accept is taken for one.
    """

    as_json: bool
    all_places: bool = False
    provisional: bool = False


def enter(system: str, partition: str | None) -> None:
    """Let this process work on `system`; for the lab with its mounts."""
    session.use(system, partition or "")
    if session.in_lab(system):
        session.enter_lab_mounts(system)


def choose(places: str | None, series: bool) -> None:
    """Restrict this session to the places with such names, of those of the series too if wanted."""

    if series:
        os.environ[variables.SERIES] = "1"
    if places is None:
        return
    try:
        re.compile(places)
    except re.error as error:
        raise RailgaugeError(
            f"--places {places}: not a regular expression: {error}",
            next_step="railgauge accept --plan says what there is",
        ) from None
    os.environ[variables.PLACES] = places


def run(
    system: str,
    partition: str | None,
    nodes: str | None,
    mode: Gate,
    plan_only: bool,
    shown: Shown,
    reframe_options: tuple[str, ...],
) -> NoReturn:
    """One campaign, or only its plan; ends with the verdict's exit code."""
    from railgauge.acceptance import request

    scope = request.scope(system, partition, nodes)
    if plan_only:
        simulated = rehearsal.scenario() is not None
        if simulated and not shown.as_json:
            click.echo("SIMULATED: a rehearsal, by stand-ins for the programs")
        planned = request.plan(system, scope, nodes, mode, reframe_options)
        if shown.as_json:
            print_json(plan_as_dict(planned, simulated))
        else:
            _print_plan(planned)
        sys.exit(0)
    # What reads records and decides takes a second to load; a plan needs none of it.
    from railgauge.acceptance import accept as acceptance

    verdict = acceptance.run(system, scope, nodes, mode, reframe_options, typed(), say())
    print_verdict(verdict, shown)


def typed() -> list[str]:
    return ["railgauge", *sys.argv[1:]]


def say() -> Say:
    """Print progress on standard error."""
    return lambda line: terminal.console().print(line)


def print_verdict(verdict: Verdict, shown: Shown) -> NoReturn:
    from railgauge.report import text

    if shown.as_json:
        print_json(verdict.as_dict())
    else:
        text.render(verdict, text.console(), shown.all_places)
    sys.exit(EXIT_ACCEPT if _is_recorded(verdict) else exit_code(verdict, shown.provisional))


def _is_recorded(verdict: Verdict) -> bool:
    """Whether a baseline was asked for, and all of it was measured. It accepts nothing: only the
    command that recorded it has succeeded.
    """
    return (
        verdict.campaign.gate == "baseline"
        and verdict.decision == "inconclusive"
        and not verdict.findings
        and not verdict.simulated
    )


def exit_code(verdict: Verdict, provisional: bool) -> int:
    """Of a command that shows a verdict."""
    taken = provisional and verdict.decision == "provisional accept"
    return EXIT_ACCEPT if taken else verdict.exit_code


def plan_as_dict(cases: Sequence[Listed], simulated: bool) -> dict[str, Any]:
    return {"simulated": simulated, "cases": [one.model_dump(mode="json") for one in cases]}


def _print_plan(cases: Sequence[Listed]) -> None:
    total = node_minutes = 0.0
    for case in cases:
        # Each of our checks says how long it takes.
        seconds = case.seconds or 0.0
        total += seconds
        node_minutes += seconds * case.node_count / 60
        rounds = f" in {case.rounds} rounds" if case.rounds > 1 else ""
        by = f", {case.schedule}" if case.schedule not in ("", "neighbours") else ""
        seed = "" if case.seed is None else f" by seed {case.seed}"
        click.echo(f"{case.partition:<10} {seconds:>5.0f} s  {case.title}{rounds}{by}{seed}")
    places = sum(case.places for case in cases)
    click.echo(
        f"{len(cases)} cases, {places} places, about {total:.0f} s, {node_minutes:.1f} node-minutes"
    )
