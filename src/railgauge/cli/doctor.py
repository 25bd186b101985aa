"""`railgauge doctor`: one page on this installation, for a ticket."""

from __future__ import annotations

import dataclasses
import sys
from typing import NoReturn

import click

from railgauge import paths, systems
from railgauge.acceptance import session
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, EXIT_REJECT, RailgaugeError
from railgauge.site import doctor as examining
from railgauge.site.check.line import failed, summary


@click.command()
@click.option("--system", help="The system, if this host does not show it (as RFM_SYSTEM).")
@json_option("doctor")
def doctor(system: str | None, as_json: bool) -> NoReturn:
    """Print what is installed, which system this is, and what is missing: a page for a ticket.

    It starts no job and changes nothing. Secrets are hidden: variables with a name like TOKEN,
    all of a URL behind its host, and long words of letters and digits. Read it before you send it:
    it names hosts, users and folders.

    Exit code: 0 nothing is missing, 1 something is.
    """
    given = examining.caller()
    chosen, problem = None, None
    if paths.has_site():
        try:
            chosen = systems.chosen(system)
            session.use(chosen)
        except RailgaugeError as error:
            chosen, problem = None, error
    page = examining.page(chosen, problem, given)
    if as_json:
        print_json({"problems": failed(page.lines), **dataclasses.asdict(page)})
    else:
        for line in page.lines:
            click.echo(str(line))
        click.echo("environment:")
        for name, value in page.environment.items():
            click.echo(f"  {name}={value}")
        click.echo(summary("doctor", page.lines))
    sys.exit(EXIT_REJECT if failed(page.lines) else EXIT_ACCEPT)
