"""`railgauge uninstall`: take what Railgauge has left out of Slurm and crontabs."""

from __future__ import annotations

import dataclasses
import sys
from typing import NoReturn

import click

from railgauge.cli.gate import answered, enter
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, EXIT_REJECT
from railgauge.site.check.line import Line, summary


@click.command()
@click.option("--system", help="The system, if this host does not show it.")
@click.option("--act", is_flag=True, help="Do it; without it, only say so.")
@json_option("uninstall")
def uninstall(system: str | None, act: bool, as_json: bool) -> NoReturn:
    """Remove what Railgauge left in Slurm and in your crontabs; list what stays, and how to
    remove it.

    With --act it deletes reservations of gate runs that have ended, clears its comments on nodes,
    and removes the lines that start this program from crontab and scrontab. It opens no node:
    nodes that Railgauge drained are listed with the command that returns them. It removes no
    results, and not the program. While a gate run, a rolling update, a patrol or a campaign of the
    system is active, it changes nothing.

    Exit code: 0 nothing is left in Slurm and crontabs, 1 something is.
    """
    chosen = enter(system)
    from railgauge.cluster import rights
    from railgauge.gate import uninstall as uninstalling
    from railgauge.gate.lock import alone

    if act:
        with alone(chosen), alone(chosen, "patrol"):
            remains = answered(lambda: uninstalling.look(chosen))
            if remains.active:
                lines = list(uninstalling.lines(remains))
            else:
                rights.require(chosen)
                lines = answered(lambda: list(uninstalling.act(remains)))
    else:
        lines = list(uninstalling.lines(answered(lambda: uninstalling.look(chosen))))
    left = any(line.status in ("problem", "warning") for line in lines)
    if not lines:
        lines = [Line("ok", "Slurm", f"nothing of Railgauge is left on the nodes of {chosen}")]
    lines += uninstalling.stays(chosen)
    if as_json:
        documents = [dataclasses.asdict(line) for line in lines]
        print_json({"system": chosen, "act": act, "left": left, "lines": documents})
    else:
        for line in lines:
            click.echo(str(line))
        click.echo(summary("uninstall", lines))
    sys.exit(EXIT_REJECT if left else EXIT_ACCEPT)
