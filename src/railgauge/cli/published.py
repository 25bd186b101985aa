"""`railgauge published`: numbers that others published, by system, tool and operation."""

from __future__ import annotations

import click

from railgauge.cli.link import known_system
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import RailgaugeError


@click.command()
@click.argument("system", required=False)
@click.option("--tool", help="Only numbers of this tool.")
@click.option("--operation", help="Only numbers of this operation: all_reduce, write, latency.")
@click.option("--metric", help="Only this metric, such as busbw.")
@click.option("--nodes", type=click.IntRange(1), help="Only runs over so many nodes.")
@click.option(
    "--kind",
    type=click.Choice(["normal", "fault", "gate"]),
    help="Only numbers of good hardware, of known faults, or that a site requires.",
)
@json_option("published")
def published(
    system: str | None,
    tool: str | None,
    operation: str | None,
    metric: str | None,
    nodes: int | None,
    kind: str | None,
    as_json: bool,
) -> None:
    """List numbers that others published, with their conditions and sources.

    Without SYSTEM and options it lists the systems. These numbers are context: no verdict uses
    them, and a number without its conditions says little. docs/numbers.md shows all of them.
    """
    from railgauge.model import published as library

    known = library.load()
    known_system(system)
    wanted = {"tool": tool, "operation": operation, "nodes": nodes, "kind": kind}
    found = [
        number
        for number in known.numbers
        if system in (None, number.of.system)
        and metric in (None, number.metric)
        and all(value in (None, getattr(number.of, name)) for name, value in wanted.items())
    ]
    if not found:
        of = [number for number in known.numbers if system in (None, number.of.system)]
        tools = sorted({number.of.tool for number in of})
        operations = sorted({number.of.operation for number in of if number.of.operation})
        raise RailgaugeError(
            f"no published number has these conditions; there are tools {', '.join(tools)}, and "
            f"operations {', '.join(operations)}",
            next_step=f"railgauge published {system or 'SYSTEM'}",
        )
    if as_json:
        print_json([number.as_dict() for number in found])
    elif system is None and metric is None and not any(wanted.values()):
        for name, of_system in known.systems.items():
            count = sum(number.of.system == name for number in found)
            click.echo(f"{name:<12}  {count:>3} numbers  {of_system.title}")
    else:
        for number in found:
            mark = {"normal": "", "fault": "FAULT  ", "gate": "required  "}[number.of.kind]
            what = f"{number.metric}, {number.of.operation or 'operation not stated'}"
            cause = f"; cause: {number.of.cause}" if number.of.cause else ""
            click.echo(
                f"{mark}{number.value:.6g} {number.unit}  {number.of.tool}, {what}  "
                f"{number.words}{cause}"
            )
