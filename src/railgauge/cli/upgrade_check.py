"""`railgauge upgrade-check`: before and after an update of the checkout."""

from __future__ import annotations

import dataclasses
import sys
from typing import NoReturn

import click

from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, EXIT_REJECT
from railgauge.gate import upgrade_check as checking
from railgauge.site.check.line import failed, summary


@click.command("upgrade-check")
@json_option("upgrade-check")
def upgrade_check(as_json: bool) -> NoReturn:
    """Check that this version reads the site's files, campaigns and the gate's store.

    Type it before and after an update of the checkout. Before, it names what should end first, such
    as an open gate run. After, it names what the new version does not read, and keys that have
    another name now. It changes nothing and asks neither Slurm nor the nodes.

    Exit code: 0 no problem, 1 a problem, with what to type.
    """
    lines = checking.lines()
    if as_json:
        documents = [dataclasses.asdict(line) for line in lines]
        print_json({"problems": failed(lines), "lines": documents})
    else:
        for line in lines:
            click.echo(str(line))
        click.echo(summary("upgrade", lines))
    sys.exit(EXIT_REJECT if failed(lines) else EXIT_ACCEPT)
