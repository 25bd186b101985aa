"""`railgauge accept`."""

from __future__ import annotations

import os
import re
import shlex
from typing import NoReturn, get_args

import click

from railgauge import systems
from railgauge.campaign import variables
from railgauge.campaign.folder import Gate
from railgauge.cli import running
from railgauge.cli.output import json_option
from railgauge.common.errors import RailgaugeError
from railgauge.systems import rehearsal
from railgauge.systems.schema import Schedule


class _Command(click.Command):
    """An option that is not its own may be one of ReFrame's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            # A user who meant an option of this command sees the ones like it.
            if error.possibilities:
                raise
            step = f"an option of ReFrame stands behind --: railgauge accept -- {error.option_name}"
            raise RailgaugeError(error.format_message(), next_step=f"{step} ...") from None


@click.command(cls=_Command)
@click.option(
    "--system", help="The system, where the name of this host does not decide (as RFM_SYSTEM)."
)
@click.option("--partition", help="Only this partition.")
@click.option("--nodes", help="Only these nodes, as a host list: n[1-4].")
@running.PLACES
@click.option(
    "--mode",
    "gate",
    type=click.Choice(["acceptance", "baseline"]),
    default="acceptance",
    show_default=True,
    help="baseline records numbers without comparing them, and accepts nothing.",
)
@click.option(
    "--schedule",
    type=click.Choice(get_args(Schedule)),
    help="Which pairs are measured, and how many at once. Default: `schedule` of the system.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="For --schedule random: another seed gives other pairs.",
)
@click.option(
    "--locate-rounds",
    type=click.IntRange(min=0),
    help="Rounds that a sweep may add to find the part at fault. With 9 or more it also finds "
    "nodes that are slow only under load. Default: `locate_rounds` of the system.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How often everything is measured. A second run begins when the first one is complete.",
)
@click.option(
    "--compare",
    "compare",
    metavar="CAMPAIGN",
    help="Compare with that campaign at the end, by place. `accepted` is the last accepted "
    "one. A pair that got slower is measured again, and the second result counts.",
)
@running.SERIES
@click.option(
    "--fabric-mode",
    metavar="MODE",
    help="How the leaves spread traffic over their uplinks now: ecmp, flowlet or packet. "
    "The numbers of FabricBalance are stored for this mode.",
)
@click.option("--idle", is_flag=True, help="Measure only the nodes that are idle now.")
@click.option(
    "--resume",
    metavar="ID",
    help="Measure what an interrupted campaign still lacks. `latest` is the newest campaign.",
)
@click.option("--plan", "plan_only", is_flag=True, help="Print what would run, and run nothing.")
@json_option("verdict", "plan")
@click.option("--all", "all_places", is_flag=True, help="A line a condition, and every place.")
@running.provisional
@click.argument("reframe_options", nargs=-1, type=click.UNPROCESSED)
def accept(
    system: str | None,
    partition: str | None,
    nodes: str | None,
    places: str | None,
    gate: str,
    schedule: str | None,
    seed: int | None,
    locate_rounds: int | None,
    runs: int,
    compare: str | None,
    series: bool,
    fabric_mode: str | None,
    idle: bool,
    resume: str | None,
    plan_only: bool,
    as_json: bool,
    all_places: bool,
    provisional: bool,
    reframe_options: tuple[str, ...],
) -> NoReturn:
    """Measure the nodes, and answer whether they may go back into service.

    The answer comes first and again last, with a line a check between them. The text fits the
    terminal, or 80 columns. NO_COLOR turns colours off.

    Options for ReFrame go behind `--`: railgauge accept -- -n Iperf2Pair

    If RAILGAUGE_ON_VERDICT is set, this command is run at the end with the paths of verdict.json
    and summary.md, whatever the verdict.

    Exit code: 0 accept, or a baseline is complete; 1 reject; 2 inconclusive or provisional accept;
    3 wrong usage or environment.
    """
    if rehearsal.scenario() is not None:
        raise RailgaugeError(
            f"{rehearsal.VARIABLE} is set, and a rehearsal accepts nothing",
            next_step=f"unset {rehearsal.VARIABLE}, or: railgauge rehearse SYSTEM",
        )
    chosen = systems.chosen(system)
    shown = running.Shown(as_json, all_places, provisional)
    if resume is not None:
        _resume(chosen, resume, shown)
    running.enter(chosen, partition)
    from railgauge.systems.fabric import MODE

    running.choose(places, series)
    if schedule is not None:
        os.environ[variables.SCHEDULE] = schedule
    if seed is not None:
        os.environ[variables.SEED] = str(seed)
    if locate_rounds is not None:
        os.environ[variables.LOCATE_ROUNDS] = str(locate_rounds)
    if idle:
        os.environ[variables.IDLE] = "1"
    if fabric_mode is not None:
        if re.fullmatch(MODE, fabric_mode) is None:
            raise RailgaugeError(
                f"--fabric-mode is {fabric_mode!r}, expected a word of small letters, digits and -",
                next_step="railgauge accept --fabric-mode ecmp",
            )
        os.environ[variables.FABRIC_MODE] = fabric_mode
    if compare is not None:
        from railgauge.acceptance.accept import compared_with

        os.environ[variables.COMPARE] = compared_with(chosen, compare)
    if runs > 1:
        reframe_options = (*reframe_options, f"--reruns={runs - 1}")
    mode: Gate = "baseline" if gate == "baseline" else "acceptance"
    running.run(chosen, partition, nodes, mode, plan_only, shown, reframe_options)


#: What a campaign's record says, and no option may change.
_OF_THE_CAMPAIGN = (
    *(
        "partition",
        "nodes",
        "places",
        "gate",
        "schedule",
        "seed",
        "locate_rounds",
        "runs",
        "compare",
        "series",
        "fabric_mode",
        "idle",
        "plan_only",
    ),
)


def _resume(system: str, name: str, shown: running.Shown) -> NoReturn:
    """Another session of a campaign; ends with the verdict's exit code."""
    context = click.get_current_context()
    given = [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name in _OF_THE_CAMPAIGN
        and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    ]
    given += ["--"] if context.params["reframe_options"] else []
    if given:
        raise RailgaugeError(
            f"{' '.join(given)} and --resume: the campaign's record says what it is about",
            next_step=f"railgauge accept --resume {shlex.quote(name)}",
        )
    running.enter(system, None)
    from railgauge.acceptance import accept as acceptance
    from railgauge.campaign import folder as campaigns

    campaign = campaigns.load(name)
    if campaign.system != system:
        raise RailgaugeError(
            f"campaign {campaign.id} is of system {campaign.system}, and this is {system}",
            next_step=f"railgauge accept --system {campaign.system} --resume {campaign.id}",
        )
    running.print_verdict(acceptance.resume(campaign, running.typed(), running.say()), shown)
