"""`railgauge coverage`."""

from __future__ import annotations

import datetime
import sys
from typing import TYPE_CHECKING

import click

from railgauge import hostlist, systems
from railgauge.acceptance import session
from railgauge.cli.output import json_option, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from railgauge.gate.coverage import Line


@click.command()
@click.option("--system", help="The system, if this host does not tell.")
@click.option("--nodes", help="Only these nodes: n[1-4].")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Only nodes that were accepted longer ago than this, or never.",
)
@json_option("coverage")
def coverage(
    system: str | None, nodes: str | None, older_than: float | None, as_json: bool
) -> None:
    """Say of every node when it was last accepted, by which campaign, and what has become of it.

    From the records of all campaigns, and Slurm's state of the nodes where it answers. A rail is
    named that was never well, or longer ago than its node was accepted.
    """
    chosen = systems.chosen(system)
    session.use(chosen)
    if session.in_lab(chosen):
        session.enter_lab_mounts(chosen, [sys.executable, "-m", "railgauge", *sys.argv[1:]])
    from railgauge.acceptance import accept
    from railgauge.gate import coverage as records
    from railgauge.slurm import nodes as slurm_nodes
    from railgauge.slurm.client import SlurmProblem

    wanted = {n for members in accept.scope(chosen, None, nodes).nodes.values() for n in members}
    try:
        states = slurm_nodes.show()
    except SlurmProblem as error:
        click.echo(f"note: of no node the state is known: {error.message}", err=True)
        states = {}
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
    from railgauge.report import text

    console = text.console()
    if lines:
        console.print(_table(lines))
    console.print(_summary(lines), highlight=False)


def _table(lines: Sequence[Line]) -> Table:
    from rich.markup import escape

    from railgauge.report.numbers import new_table

    several = len({line.partition for line in lines}) > 1
    table = new_table()
    for name in ("node", "last accepted", "by", "now", "to know"):
        table.add_column(name, overflow="fold")
    for line in lines:
        table.add_row(
            f"{line.partition} {line.node}" if several else line.node,
            "never" if line.age_days is None else f"{_age(line.age_days)} ago",
            line.accepted.campaign if line.accepted else "-",
            escape(line.state),
            escape("; ".join(_to_know(line))),
        )
    return table


def _age(days: float) -> str:
    hours = days * 24
    if hours < 1:
        return f"{hours * 60:.0f} min"
    return f"{hours:.0f} h" if days < 2 else f"{days:.0f} days"


def _to_know(line: Line) -> list[str]:
    remarks = []
    accepted, tested = line.accepted, line.tested
    if tested is None:
        remarks.append("never tested")
    elif tested != accepted:
        remarks.append(f"{tested.outcome} by {tested.campaign}: {tested.why}")
    if accepted is not None and accepted.outcome == "provisional":
        remarks.append("provisionally")
    if line.changed:
        assert tested is not None
        remarks.append(f"changed since: its fingerprint is {tested.fingerprint}")
    if line.flaps:
        remarks.append(line.flapped)
    never = [rail for rail, age in line.rails.items() if age is None]
    if never and tested is not None:
        remarks.append(f"rail {', '.join(never)} never well")
    if line.age_days is not None:
        older = {r: age for r, age in line.rails.items() if age is not None and age > line.age_days}
        remarks += [f"rail {rail} last well {_age(age)} ago" for rail, age in older.items()]
    return remarks


def _summary(lines: Sequence[Line]) -> str:
    def part(what: str, of: list[str]) -> str:
        return f"{len(of)} {what} ({hostlist.fold(of)})" if of else f"0 {what}"

    never = [line.node for line in lines if line.accepted is None]
    held = [line.node for line in lines if line.state.startswith("held")]
    out = [line.node for line in lines if line.state.startswith("out of service")]
    ages = [line.age_days for line in lines if line.age_days is not None]
    oldest = f"; the oldest acceptance is {_age(max(ages))} old" if ages else ""
    parts = [part("never accepted", never), part("held", held), part("out of service", out)]
    return f"{len(lines)} nodes: {', '.join(parts)}{oldest}"
