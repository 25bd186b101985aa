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
@click.option("--system", help="The system, if this host does not show it.")
@json_option("gate-trust")
def trust(system: str | None, as_json: bool) -> None:
    """Say of each check how often its alarms were false, and what it may do by that.

    From the records of all campaigns. An alarm is false where neither the campaign before nor the
    one behind it that has the check on this node accuses it. `hold` is proposed where that happens
    to fewer than 1 in 1,000 nodes tested, a step down where it happens to more, both with 95 %
    confidence. `to prove hold`: that many more tests of a node without a false alarm prove it.
    """
    chosen = systems.chosen(system)
    from railgauge.cluster import store
    from railgauge.gate import trust as records

    trusts = records.read(chosen, store.rules(chosen))
    if as_json:
        content = []
        for one in trusts:
            fields = dataclasses.asdict(one)
            enforcement = fields.pop("enforcement")
            content.append({**fields, "teeth": enforcement, "alarms": one.count.alarms})
        print_json({"system": chosen, "checks": content})
        return
    from railgauge.report import layout

    console = layout.console()
    changes = [one for one in trusts if one.proposed != one.enforcement]
    for one in changes:
        change = f"{one.check}: {one.enforcement} -> {one.proposed}"
        layout.say(console, f"{change}: edit enforcement in configs/systems/{chosen}/gate.yaml")
    if not changes:
        layout.say(console, f"no change is proposed for {len(trusts)} checks")
    if trusts:
        console.print()
        optional = ("cleared by retest", "confirmed", "open", "alarms")
        layout.print_table(console, _table(trusts), 0, optional)


def _table(trusts: Sequence[Trust]) -> Table:
    from railgauge.report.numbers import new_table

    table = new_table()
    table.add_column("check")
    table.add_column("now")
    table.add_column("proposed")
    for name in ("tests", "alarms", "confirmed", "false", "open", "cleared by retest"):
        table.add_column(name, justify="right")
    table.add_column("false per 1,000", justify="right")
    table.add_column("to prove hold", justify="right")
    for one in trusts:
        count = one.count
        alarms = (count.alarms, count.confirmed, count.false, count.open)
        numbers = (count.tests, *alarms, count.cleared)
        rate = f"{one.lower * 1000:.2g} to {one.upper * 1000:.3g}" if count.tests else "-"
        lacking = one.lacking if one.proposed == one.enforcement else 0
        words = one.check, one.enforcement, one.proposed
        table.add_row(*words, *map(str, numbers), rate, str(lacking) if lacking else "-")
    return table
