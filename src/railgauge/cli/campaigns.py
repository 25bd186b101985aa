"""What was measured before: `railgauge campaigns`, `verdict` and `transfers`."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

import click

from railgauge.cli import running
from railgauge.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, RailgaugeError


@click.command()
@click.argument("campaign", default="latest")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--all", "all_places", is_flag=True, help="List every place with its numbers.")
@running.provisional
def verdict(campaign: str, as_json: bool, all_places: bool, provisional: bool) -> NoReturn:
    """Show a campaign's verdict again, read anew from its folder.

    CAMPAIGN is an id, a path, or `latest`. The exit code is the verdict's; that of a rehearsal,
    which says nothing of any node, is never 0.
    """
    from railgauge.campaign import folder as campaigns
    from railgauge.report import text
    from railgauge.verdict.rules import decide

    decided = decide(campaigns.load(campaign))
    if as_json:
        click.echo(json.dumps(decided.as_dict(), indent=2))
    else:
        text.render(decided, text.console(), all_places)
    code = running.exit_code(decided, provisional)
    sys.exit(EXIT_INCONCLUSIVE if decided.simulated and code == EXIT_ACCEPT else code)


@click.command("transfers")
@click.argument("campaign", default="latest")
def show_transfers(campaign: str) -> None:
    """Compare the tools that moved files in a campaign: rate, seconds, times the slowest.

    CAMPAIGN is an id, a path, or `latest`.
    """
    from railgauge.campaign import folder as campaigns
    from railgauge.report import text, transfers
    from railgauge.verdict.rules import decide

    decided = decide(campaigns.load(campaign))
    if not transfers.compare(decided.cases):
        raise RailgaugeError(
            f"no transfers in campaign {decided.campaign.id}",
            next_step="railgauge campaigns lists the others; a partition with feature transfers "
            "measures them: railgauge accept",
        )
    console = text.console()
    text.say_if_simulated(decided, console)
    transfers.render(decided, console)
    for line in transfers.left_out(decided):
        console.print(line, highlight=False, soft_wrap=True)


@click.command()
def campaigns() -> None:
    """List the campaigns under the results root, oldest first."""
    from railgauge.campaign import folder as folders

    known = folders.all_folders()
    for folder in known:
        try:
            item = folders.load(str(folder))
            decision = folders.decision(item) or "no verdict"
        except RailgaugeError as error:
            click.echo(f"{folder.name}  unreadable: {error}")
        else:
            mark = "SIMULATED " if item.simulated else ""
            state = "broken off" if item.broke_off else item.state
            click.echo(f"{item.id}  {item.gate:<10}  {state:<11}  {mark}{decision}")
    if not known:
        click.echo(f"no campaigns in {folders.campaigns_folder()}")
