"""`railgauge notify`: the messages that the site's commands have not taken."""

from __future__ import annotations

import functools
import sys
from typing import NoReturn

import click

from railgauge import notify as queue
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE


@click.command()
@click.option("--list", "list_only", is_flag=True, help="List the messages, and send none.")
@json_option("notify")
def notify(list_only: bool, as_json: bool) -> NoReturn:
    """Send the messages again that RAILGAUGE_ON_VERDICT and RAILGAUGE_ON_SUSPECT did not take.

    Set the same variables as for the command that left the messages. The end of each campaign sends
    them, too. After a week Railgauge gives up and keeps the message in notify/given-up.

    Exit code: 0 no message waits, 2 some do.
    """
    if not list_only:
        queue.send_waiting(functools.partial(click.echo, err=True))
    messages, given_up = queue.waiting(), queue.given_up()
    if as_json:
        print_json(
            {
                "waiting": [{**one.as_dict(), "file": str(path)} for path, one in messages],
                "given_up": [str(path) for path in given_up],
            }
        )
    else:
        for path, one in messages:
            problem = f", last: {one.problem}" if one.problem else ""
            click.echo(
                f"waits since {one.since:%Y-%m-%d %H:%M} UTC: {one.variable} "
                f"{' '.join(one.arguments)} ({one.attempts} attempts{problem}): {path}"
            )
        for path in given_up:
            click.echo(f"given up: {path}")
        click.echo(f"{len(messages)} waiting, {len(given_up)} given up")
    sys.exit(EXIT_INCONCLUSIVE if messages else EXIT_ACCEPT)
