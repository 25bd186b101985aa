"""The command line: `railgauge ...`, a file a command, each loaded when it is called."""

from __future__ import annotations

from typing import NoReturn

import click

from railgauge import paths, version
from railgauge.cli import commands
from railgauge.cli.lazy import LazyGroup, Place

_COMMANDS = {
    "accept": Place(
        "railgauge.cli.accept:accept",
        "Measure the nodes, and answer whether they may go back into service.",
    ),
    "campaigns": Place(
        "railgauge.cli.campaigns:campaigns",
        "List the campaigns under the results root, oldest first.",
    ),
    "compare": Place(
        "railgauge.cli.compare:compare",
        "Compare each place of AFTER with BEFORE: better, same, worse, or cannot tell.",
    ),
    "completion": Place(
        "railgauge.cli.completion:completion",
        "Print the script that completes railgauge's commands and options in SHELL.",
    ),
    "coverage": Place(
        "railgauge.cli.coverage:coverage",
        "Show when each node was last accepted, by which campaign and how many checks, and its "
        "state.",
    ),
    "doctor": Place(
        "railgauge.cli.doctor:doctor",
        "Print what is installed, which system this is, and what is missing: a page for a ticket.",
    ),
    "explain": Place(
        "railgauge.cli.explain:explain",
        "What a kind of finding means, or what a log shows, and what to type next.",
    ),
    "export": Place(
        "railgauge.cli.export:export",
        "Write a campaign's verdict for other programs; each file is there whole or not at all.",
    ),
    "fabric": Place(
        "railgauge.cli.fabric:fabric",
        "Show an InfiniBand subnet: its cables and faults, and its topology for the locator.",
    ),
    "gate": Place(
        "railgauge.cli.gate:gate",
        "Hold nodes with changed firmware, test them, and return them or keep them out.",
    ),
    "inventory": Place(
        "railgauge.cli.inventory:group",
        "What nodes are made of and how they are set, and what of it has changed.",
    ),
    "lab": Place(
        "railgauge.cli.lab:lab",
        "The embedded cluster: a real Slurm on this one machine.",
    ),
    "locate": Place(
        "railgauge.cli.locate:locate",
        "Name the node, rail, pair, leaf, uplink or GPU at fault, by results between two ends.",
    ),
    "limit": Place(
        "railgauge.cli.limit:limit",
        "What physics allows.",
    ),
    "notify": Place(
        "railgauge.cli.notify:notify",
        "Send the messages again that RAILGAUGE_ON_VERDICT and RAILGAUGE_ON_SUSPECT did not take.",
    ),
    "parse": Place(
        "railgauge.cli.parse:parse",
        "Read a tool's output as the gate does, and print what it proves.",
    ),
    "patrol": Place(
        "railgauge.cli.patrol:patrol",
        "Test a few idle nodes: those that wait longest, and those at risk.",
    ),
    "power": Place(
        "railgauge.cli.power:power",
        "Say which losses `railgauge compare` finds on SYSTEM with 99 %, at 1 % of false findings.",
    ),
    "promote": Place(
        "railgauge.cli.promote:promote",
        "Propose the medians of CAMPAIGNS as the baselines of their system, with bounds by "
        "the spread.",
    ),
    "published": Place(
        "railgauge.cli.published:published",
        "List numbers that others published, with their conditions and sources.",
    ),
    "read": Place(
        "railgauge.cli.read:read",
        "Read logs: find out what is in them, print each measurement, and say what is wrong.",
    ),
    "references": Place(
        "railgauge.cli.promote:show_references",
        "List the stored numbers of a system: age, source, and which are stale.",
    ),
    "rehearse": Place(
        "railgauge.cli.rehearse:rehearse",
        "Run SYSTEM's NCCL checks in the lab, with stand-ins for its GPUs; without GPUs, WDT's.",
    ),
    "report": Place(
        "railgauge.cli.report:report",
        "Write a campaign's page: verdict, findings with their evidence, all numbers.",
    ),
    "show": Place(
        "railgauge.cli.show:show",
        "Print what was measured at a place, and what the tools printed on both sides of it.",
    ),
    "stack": Place(
        "railgauge.cli.stack:stack",
        "The pinned stack of tools: build it by Spack, and compare its locks.",
    ),
    "system": Place(
        "railgauge.cli.system:system",
        "Describe your own cluster, and check its description.",
    ),
    "transfers": Place(
        "railgauge.cli.campaigns:show_transfers",
        "Compare the tools that moved files in a campaign: rate, seconds, times the slowest; "
        "and the ratios that documents state.",
    ),
    "balance": Place(
        "railgauge.cli.campaigns:show_balance",
        "Compare the modes in which leaves spread their traffic: Jain's index of their "
        "uplinks, and what all nodes sent together, or the busbw of NCCL's alltoall, as times "
        "the first.",
    ),
    "trend": Place(
        "railgauge.cli.trend:trend",
        "Show the conditions of CHECK over all finished campaigns of a system, and what declines.",
    ),
    "uninstall": Place(
        "railgauge.cli.uninstall:uninstall",
        "Remove what Railgauge left in Slurm and in your crontabs; list what stays, and how to "
        "remove it.",
    ),
    "upgrade-check": Place(
        "railgauge.cli.upgrade_check:upgrade_check",
        "Check that this version reads the site's files, campaigns and the gate's store.",
    ),
    "verdict": Place(
        "railgauge.cli.campaigns:verdict",
        "Show a campaign's verdict again, from the records in its folder.",
    ),
}

#: As `railgauge --help` lists them: by task, the most common task and command first.
_SECTIONS = {
    "Test nodes": ("accept", "gate", "patrol", "coverage", "inventory", "fabric"),
    "Read a campaign": (
        *("verdict", "report", "show", "explain", "compare", "campaigns", "export", "trend"),
        *("transfers", "balance"),
    ),
    "Read logs and outputs of tools": ("read", "locate", "parse"),
    "Numbers to compare with": ("references", "promote", "limit", "power", "published"),
    "Set up and maintain": (
        *("doctor", "system", "stack", "lab", "rehearse", "notify", "completion"),
        *("upgrade-check", "uninstall"),
    ),
}

#: They need files of the checkout that no package has.
_OF_A_CHECKOUT = frozenset({"stack"})
#: They run programs on nodes, or change files of the site.
_OF_A_SITE = frozenset(
    [
        *("accept", "gate", "inventory", "lab", "patrol", "promote", "rehearse", "system"),
        *("uninstall", "upgrade-check"),
    ]
)


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"railgauge {version.current()}")
        context.exit()


@click.group(
    cls=LazyGroup,
    places=_COMMANDS,
    sections=_SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    if context.invoked_subcommand in _OF_A_SITE:
        paths.require_site(f"railgauge {context.invoked_subcommand}")


def main() -> NoReturn:
    """What bin/railgauge runs."""
    commands.run(cli, "railgauge")
