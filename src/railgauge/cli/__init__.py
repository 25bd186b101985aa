"""The command line: `railgauge ...`, a file a command, each loaded when it is called."""

from __future__ import annotations

from typing import NoReturn

import click

from railgauge import paths, version
from railgauge.cli import commands
from railgauge.cli.lazy import LazyGroup

#: Command -> where it is, `module:name`.
_COMMANDS = {
    "accept": "railgauge.cli.accept:accept",
    "campaigns": "railgauge.cli.campaigns:campaigns",
    "compare": "railgauge.cli.compare:compare",
    "completion": "railgauge.cli.completion:completion",
    "coverage": "railgauge.cli.coverage:coverage",
    "doctor": "railgauge.cli.doctor:doctor",
    "explain": "railgauge.cli.explain:explain",
    "export": "railgauge.cli.export:export",
    "fabric": "railgauge.cli.fabric:fabric",
    "gate": "railgauge.cli.gate:gate",
    "inventory": "railgauge.cli.inventory:group",
    "lab": "railgauge.cli.lab:lab",
    "locate": "railgauge.cli.locate:locate",
    "limit": "railgauge.cli.limit:limit",
    "notify": "railgauge.cli.notify:notify",
    "parse": "railgauge.cli.parse:parse",
    "patrol": "railgauge.cli.patrol:patrol",
    "power": "railgauge.cli.power:power",
    "promote": "railgauge.cli.promote:promote",
    "published": "railgauge.cli.published:published",
    "read": "railgauge.cli.read:read",
    "references": "railgauge.cli.promote:show_references",
    "rehearse": "railgauge.cli.rehearse:rehearse",
    "report": "railgauge.cli.report:report",
    "show": "railgauge.cli.show:show",
    "stack": "railgauge.cli.stack:stack",
    "system": "railgauge.cli.system:system",
    "transfers": "railgauge.cli.campaigns:show_transfers",
    "balance": "railgauge.cli.campaigns:show_balance",
    "trend": "railgauge.cli.trend:trend",
    "upgrade-check": "railgauge.cli.upgrade_check:upgrade_check",
    "verdict": "railgauge.cli.campaigns:verdict",
}

#: They run programs on nodes, or change files of the checkout.
_OF_A_CHECKOUT = frozenset(
    {"accept", "gate", "inventory", "lab", "patrol", "promote", "rehearse", "stack", "system"}
    | {"upgrade-check"}
)


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"railgauge {version.current()}")
        context.exit()


@click.group(
    cls=LazyGroup, places=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and the commit, and exit.",
)
@click.pass_context
def cli(context: click.Context) -> None:
    """May these nodes go back into service, and if not, which is at fault?"""
    if context.invoked_subcommand in _OF_A_CHECKOUT:
        paths.require_checkout(f"railgauge {context.invoked_subcommand}")


def main() -> NoReturn:
    """What bin/railgauge runs."""
    commands.run(cli, "railgauge")
