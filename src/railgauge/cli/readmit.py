"""`railgauge gate readmit`."""

from __future__ import annotations

import functools
import sys
from typing import NoReturn

import click

from railgauge.cli import running
from railgauge.cli.duration import Duration
from railgauge.cli.gate import answered, despite, enter, expand, options
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import RailgaugeError


@click.command()
@options("These held nodes, back from repair.")
@despite
@click.option("--with", "partner_names", help="These partners, and no others: n8.")
@click.option("--soak", type=Duration(), default=None, help="Measure all again for so long: 30m.")
@json_option("gate-run")
def readmit(
    system: str | None,
    nodes: str | None,
    act: bool,
    despite_reservations: bool,
    partner_names: str | None,
    soak: float | None,
    as_json: bool,
) -> NoReturn:
    """Test nodes that come back from repair; return them, or hold them with the reason.

    Each is compared with its peers, and measured with healthy partners over every rail, within a
    reservation. Its changes since it was last accepted are listed. --with names the partners. With
    a single partner, a bad node cannot be distinguished from a bad partner and stays out.

    Exit code: 0 all returned, 1 some stay out, 4 a partner is at fault, 3 usage or environment,
    130 interrupted.
    """
    chosen = enter(system)
    from railgauge.cluster import rights, store
    from railgauge.gate import partners as lent
    from railgauge.gate import readmit as readmission
    from railgauge.gate.lock import alone
    from railgauge.gate.sequence import Ended

    wanted, partners = expand(chosen, nodes), expand(chosen, partner_names) or []
    if wanted is None:
        raise RailgaugeError("readmit needs --nodes", next_step="railgauge gate status")
    names = list(wanted)
    with alone(chosen):
        if act:
            rights.require(chosen)
            store.publish_rules(chosen)
        planned = answered(
            lambda: readmission.plan(chosen, names, partners, soak or 0, despite_reservations)
        )
        times = f", {planned.options[0].partition('=')[2]} times more" if planned.options else ""
        if not act:
            click.echo(
                f"would test {lent.words(chosen, planned.nodes, planned.partners)}"
                f"{times}, return what is accepted\n  next: the same command with --act"
            )
            sys.exit(0)
        # What it says on its way is not what it prints at its end.
        say = functools.partial(click.echo, err=as_json)
        ended = Ended([answered(lambda: readmission.finish(planned, running.typed(), say))], {})
    if as_json:
        print_json(ended.as_dict(chosen))
    sys.exit(ended.exit_code)
