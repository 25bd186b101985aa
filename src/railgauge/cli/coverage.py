"""`railgauge coverage`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import click

from railgauge import hostlist, systems
from railgauge.acceptance import session
from railgauge.cli.numbers import Number
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import RailgaugeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from railgauge.gate.coverage import NodeSummary
    from railgauge.slurm.nodes import SlurmNode


@click.command()
@click.option("--system", help="The system, if this host does not show it.")
@click.option("--nodes", help="Only these nodes: n[1-4].")
@click.option(
    "--older-than",
    type=Number(min=0),
    metavar="DAYS",
    help="Only nodes that were accepted longer ago than this, or never.",
)
@click.option("--rails", is_flag=True, help="A line for each rail of each node.")
@json_option("coverage")
def coverage(
    system: str | None, nodes: str | None, older_than: float | None, rails: bool, as_json: bool
) -> None:
    """Show when each node was last accepted, by which campaign and how many checks, and its state.

    From the records of all campaigns, and Slurm's state of the nodes where it answers. A rail is
    named if it was never good, or last good before its node was accepted.
    """
    chosen = systems.chosen(system)
    session.use(chosen)
    if session.in_lab(chosen):
        session.enter_lab_mounts(chosen)
    from railgauge.acceptance import request
    from railgauge.campaign import folder
    from railgauge.gate import coverage as records

    wanted = {n for members in request.scope(chosen, None, nodes).nodes.values() for n in members}
    states, unknown = _states()
    if unknown:
        click.echo(f"note: of no node the state is known: {unknown}", err=True)
    if future := folder.future_words(path.name for path in folder.folders_of(chosen)):
        click.echo(f"note: not counted, {future}", err=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    lines = [
        line
        for line in records.lines(chosen, sorted(wanted), states, now)
        if older_than is None or line.age_days is None or line.age_days > older_than
    ]
    if as_json:
        content = [line.model_dump(mode="json") for line in lines]
        document = {"system": chosen, "time": now.isoformat(timespec="seconds"), "nodes": content}
        print_json(document)
        return
    from railgauge.report import layout

    console = layout.console()
    layout.say(console, _summary(lines))
    if not lines:
        return
    console.print()
    if rails:
        layout.print_table(console, _table_of_rails(lines))
    else:
        layout.print_table(console, _table(lines), group=0, below=("to know",))


def lines_of(system: str) -> list[NodeSummary]:
    """The coverage of all nodes of a system, for the files that show it with a campaign; of a
    system that is not described any more there is none.
    """
    from railgauge import lab, paths
    from railgauge.gate import coverage as records

    try:
        described = systems.load(system)
    except RailgaugeError as error:
        click.echo(f"note: no rails, and only the campaign's nodes: {error.message}", err=True)
        return []
    session.use(system)
    of_another = session.in_lab(system) and lab.system_in(paths.lab_folder()) != system
    states, unknown = ({}, "another lab is up") if of_another else _states()
    if unknown:
        click.echo(f"note: of no node the state is known: {unknown}", err=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    return records.lines(system, described.nodes, states, now)


def _states() -> tuple[Mapping[str, SlurmNode], str]:
    """The nodes' states by Slurm; none and why, where it does not answer."""
    from railgauge.slurm import nodes as slurm_nodes
    from railgauge.slurm.client import SlurmError

    try:
        return slurm_nodes.show(), ""
    except SlurmError as error:
        return {}, error.message


def _table(lines: Sequence[NodeSummary]) -> Table:
    from rich.markup import escape

    from railgauge.report.numbers import new_table

    table = new_table()
    for name in ("node", "last accepted", "by", "checks", "now", "to know"):
        table.add_column(name, overflow="fold", justify="right" if name == "checks" else "left")
    for line, name in zip(lines, _names(lines), strict=True):
        state, _, reason = line.state.partition(": ")
        table.add_row(
            name,
            _ago(line.age_days),
            line.accepted.campaign if line.accepted else "-",
            str(len(line.accepted.checks)) if line.accepted else "-",
            escape(state),
            escape("; ".join(filter(None, [reason, *line.remarks]))),
        )
    return table


def _table_of_rails(lines: Sequence[NodeSummary]) -> Table:
    from railgauge.report.numbers import new_table

    table = new_table()
    for name in ("node", "rail", "last well", "by", "node accepted"):
        table.add_column(name, overflow="fold")
    for line, name in zip(lines, _names(lines), strict=True):
        for number, rail in line.rails.items():
            last = _ago(rail.age_days), rail.campaign or "-"
            table.add_row(name, number, *last, _ago(line.age_days))
    return table


def _names(lines: Sequence[NodeSummary]) -> list[str]:
    """The names of their nodes, with the partition where there are several."""
    several = len({line.partition for line in lines}) > 1
    return [f"{line.partition} {line.node}" if several else line.node for line in lines]


def _ago(days: float | None) -> str:
    from railgauge.gate.coverage import age_text

    return "never" if days is None else f"{age_text(days)} ago"


def _summary(lines: Sequence[NodeSummary]) -> str:
    from railgauge.gate.coverage import age_text

    def part(what: str, of: list[str]) -> str:
        return f"{len(of)} {what} ({hostlist.fold(of)})" if of else f"0 {what}"

    never = [line.node for line in lines if line.accepted is None]
    held = [line.node for line in lines if line.kept_by == "railgauge"]
    out = [line.node for line in lines if line.kept_by not in ("", "railgauge")]
    ages = [line.age_days for line in lines if line.age_days is not None]
    oldest = f"; the oldest acceptance is {age_text(max(ages))} old" if ages else ""
    parts = [part("never accepted", never), part("held", held), part("out of service", out)]
    accepted = [line for line in lines if line.accepted is not None]
    rails = sum(len(line.rails) for line in accepted)
    older = sum(len(line.older_rails) for line in accepted)
    if older:
        parts.append(f"{older} of {rails} rails last well before their node was accepted, or never")
    return f"{len(lines)} nodes: {', '.join(parts)}{oldest}"
