"""What was measured before: `railgauge campaigns`, `verdict`, `transfers` and `balance`."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from railgauge.cli import running
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, RailgaugeError


@click.command()
@click.argument("campaign", default="latest")
@json_option("verdict")
@click.option("--all", "all_places", is_flag=True, help="A line a condition, and every place.")
@running.provisional
def verdict(campaign: str, as_json: bool, all_places: bool, provisional: bool) -> NoReturn:
    """Show a campaign's verdict again, from the records in its folder.

    CAMPAIGN is an id, a path, or `latest`. The text fits the terminal, or 80 columns. The exit code
    is that of the verdict. A rehearsal tests no node, so its exit code is never 0.
    """
    from railgauge.campaign import folder as campaigns
    from railgauge.report import text
    from railgauge.verdict.decision.rules import decide

    # Records make no circles. Looking for some among all that is read would take its time.
    gc.disable()
    decided = decide(campaigns.load(campaign))
    if as_json:
        print_json(decided.as_dict())
    else:
        text.render(decided, text.console(), all_places)
    code = running.exit_code(decided, provisional)
    sys.exit(EXIT_INCONCLUSIVE if decided.simulated and code == EXIT_ACCEPT else code)


@click.command("transfers")
@click.argument("campaign", default="latest")
@json_option("transfers")
def show_transfers(campaign: str, as_json: bool) -> None:
    """Compare the tools that moved files in a campaign: rate, seconds, times the slowest; and the
    ratios that documents state.

    CAMPAIGN is an id, a path, or `latest`.
    """
    from railgauge.campaign import folder as campaigns
    from railgauge.report import layout, text, transfers
    from railgauge.verdict.decision.rules import decide

    decided = decide(campaigns.load(campaign))
    if not transfers.compare(decided.cases):
        raise RailgaugeError(
            f"no transfers in campaign {decided.campaign.id}",
            next_step="railgauge campaigns lists the others; a partition with feature transfers "
            "measures them: railgauge accept",
        )
    if as_json:
        print_json(transfers.as_dict(decided))
        return
    console = text.console()
    text.say_if_simulated(decided, console)
    transfers.render_page(decided, console)
    for line in transfers.left_out(decided):
        layout.say(console, line, rest="  ")


@click.command("balance")
@click.argument("campaign", nargs=-1)
@json_option("balance")
def show_balance(campaign: tuple[str, ...], as_json: bool) -> None:
    """Compare the modes in which leaves spread their traffic: Jain's index of their uplinks, and
    what all nodes sent together, or the busbw of NCCL's alltoall, as times the first.

    CAMPAIGN is an id, a path, or `latest`, as it is if none is given; of several, each was measured
    in a mode of its own (accept --fabric-mode).
    """
    from railgauge.campaign import folder as campaigns
    from railgauge.report import balance, text
    from railgauge.verdict.decision.rules import decide

    decided = [decide(campaigns.load(name)) for name in campaign or ("latest",)]
    compared = balance.compare(decided)
    if not compared:
        raise RailgaugeError(
            f"no uplinks in {', '.join(one.campaign.id for one in decided)}",
            next_step="railgauge campaigns lists the others; a partition with feature fabric "
            "measures them: railgauge accept --fabric-mode ecmp; of NCCL's alltoall, by itself: "
            "--places '^alltoall:' -- -n NcclAll",
        )
    if as_json:
        print_json(balance.as_dict(decided))
        return
    console = text.console()
    for one in decided:
        text.say_if_simulated(one, console)
    balance.render(compared, balance.published(decided), console)


@click.command()
@json_option("campaigns")
def campaigns(as_json: bool) -> None:
    """List the campaigns under the results root, oldest first."""
    from railgauge.campaign import folder as folders

    found = folders.all_folders()
    if future := folders.future_words(path.name for path in found):
        click.echo(f"note: counted as older than all others, {future}", err=True)
    known = [_described(folder) for folder in found]
    if as_json:
        print_json(known)
        return
    from railgauge.report import layout

    console = layout.console()
    for item in known:
        if "unreadable" in item:
            line = f"{item['id']}  unreadable: {item['unreadable']}"
        else:
            mark = "SIMULATED " if item["simulated"] else ""
            decision = item["verdict"] or "no verdict"
            line = f"{item['id']}  {item['gate']:<10}  {item['state']:<11}  {mark}{decision}"
        layout.say(console, line, rest="  ")
    if not known:
        click.echo(f"no campaigns in {folders.campaigns_folder()}")


def _described(folder: Path) -> dict[str, Any]:
    """A campaign as `--json` lists it; of one that cannot be read, why."""
    from railgauge.campaign import folder as folders

    try:
        item = folders.load(str(folder))
        decision = folders.decision(item)
    except RailgaugeError as error:
        return {"id": folder.name, "folder": str(folder), "unreadable": error.message}
    return {
        "id": item.id,
        "folder": str(item.folder),
        "system": item.system,
        "gate": item.gate,
        "state": "broken off" if item.broke_off else item.state,
        "started": item.started,
        "finished": item.finished,
        "simulated": item.simulated is not None,
        "verdict": decision,
    }
