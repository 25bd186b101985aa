"""`railgauge gate trust`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from railgauge import systems
from railgauge.cli.output import json_option, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from railgauge.gate.trust import Trust


@click.command()
@click.option("--system", help="The system, if this host does not tell.")
@json_option("gate-trust")
def trust(system: str | None, as_json: bool) -> None:
    """Say of each check how often its alarms were false, and what it may do by that.

    From the records of all campaigns. An alarm is false where neither the campaign before nor the
    one behind it that has the check on this node accuses it. `hold` is proposed where that happens
    to fewer than 1 in 1,000 nodes tested, a step down where it happens to more, both with 95 %
    confidence.
    """
    chosen = systems.chosen(system)
    from railgauge.cluster import store
    from railgauge.gate import trust as records

    trusts = records.read(chosen, store.rules(chosen))
    if as_json:
        content = []
        for one in trusts:
            fields = dataclasses.asdict(one)
            teeth = fields.pop("enforcement")
            content.append({**fields, "teeth": teeth, "alarms": one.count.alarms})
        print_json({"system": chosen, "checks": content})
        return
    from railgauge.report import text

    text.console(138).print(_table(trusts))
    for one in trusts:
        if one.proposed != one.enforcement:
            click.echo(
                f"{one.check}: {one.enforcement} -> {one.proposed}: edit enforcement in "
                f"configs/systems/{chosen}/gate.yaml"
            )


def _table(trusts: Sequence[Trust]) -> Table:
    from railgauge.report.numbers import new_table

    table = new_table()
    table.add_column("check")
    table.add_column("teeth")
    for name in ("node-tests", "alarms", "confirmed", "false", "open", "cleared by retest"):
        table.add_column(name, justify="right")
    table.add_column("false, per 1,000 node-tests", justify="right")
    table.add_column("proposed", overflow="fold")
    for one in trusts:
        count = one.count
        alarms = (count.alarms, count.confirmed, count.false, count.open)
        numbers = (count.tests, *alarms, count.cleared)
        rate = f"{one.lower * 1000:.2g} to {one.upper * 1000:.3g}" if count.tests else "-"
        table.add_row(one.check, one.enforcement, *map(str, numbers), rate, _proposal(one))
    return table


def _proposal(one: Trust) -> str:
    if one.proposed != one.enforcement or not one.lacking:
        return one.proposed
    return f"{one.proposed}; to prove hold, {one.lacking} more without a false alarm"
