"""`railgauge promote` and `railgauge references`: the numbers that a system keeps."""

from __future__ import annotations

import datetime
import difflib
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from railgauge import systems
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, PrerequisiteError, RailgaugeError

if TYPE_CHECKING:
    from railgauge.campaign.folder import Campaign


@click.command()
@click.argument("campaigns", nargs=-1, required=True)
@click.option("--write", is_flag=True, help="Write the file; else only the difference is shown.")
def promote(campaigns: tuple[str, ...], write: bool) -> NoReturn:
    """Propose the medians of CAMPAIGNS as the baselines of their system, with bounds by the spread.

    Each is an id, a path, or `latest`. Shows the difference of results/references/SYSTEM.yaml, of
    which comments and order stay. Campaigns in which anything was wrong are refused.

    Exit code: 0, or 3 where nothing is proposed.
    """
    from railgauge.campaign import folder
    from railgauge.common.atomic import write_text
    from railgauge.model import reference_file, references
    from railgauge.verdict.comparison import measurement_table, promotion

    loaded: dict[str, Campaign] = {}
    for name in campaigns:
        campaign = folder.load(name)
        if campaign.state == "running" and not campaign.broke_off:
            raise folder.RunningError(campaign)
        loaded[campaign.id] = campaign
    proposal = promotion.propose([(one, measurement_table.read(one)) for one in loaded.values()])
    system = next(iter(loaded.values())).system
    path = references.path_for(system)
    old, new = reference_file.with_baselines(system, path, proposal.entries)
    for line in proposal.left_out:
        click.echo(f"left out: {line}", err=True)
    if not proposal.entries:
        raise RailgaugeError(
            "no condition has enough measurements for a baseline",
            next_step=f"railgauge accept --mode baseline --runs {promotion.LEAST_RUNS + 2}",
        )
    for line in proposal.wider:
        click.echo(f"wider: {line}", err=True)
    click.echo(
        f"tried: all {proposal.numbers} numbers that have a bound are within it; of 1,000 healthy "
        f"campaigns that vary as these runs do {1000 * proposal.rejected:.2g} would be rejected",
        err=True,
    )
    for line in promotion.lacking(path, system, proposal.entries):
        click.echo(f"lacking: {line}", err=True)
    names = (str(path), str(path))
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm=""):
        click.echo(line)
    if old == new:
        click.echo(f"{path} has these baselines", err=True)
    elif write:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if (path.read_text(encoding="utf-8") if path.exists() else "") != old:
                raise RailgaugeError(
                    f"{path}: changed meanwhile, by another promote perhaps; nothing was written",
                    next_step="type the same again",
                )
            write_text(path, new)
        except OSError as error:
            raise PrerequisiteError(f"{path}: cannot be written: {error.strerror}") from None
        click.echo(
            f"wrote {path}, with the differences above; next: railgauge references", err=True
        )
    else:
        click.echo("nothing is written; --write does", err=True)
    sys.exit(EXIT_ACCEPT)


@click.command("references")
@click.option("--system", help="The system, if this host does not show it (as RFM_SYSTEM).")
@click.option(
    "--against",
    default="latest",
    show_default=True,
    help="Numbers are stale against this campaign's tools and firmware.",
)
@json_option("references")
def show_references(system: str | None, against: str, as_json: bool) -> None:
    """List the stored numbers of a system: age, source, and which are stale.

    A number is stale where a newer campaign of the system ran another version of its tool, or its
    nodes have another fingerprint.
    """
    from railgauge.campaign import folder
    from railgauge.model import references
    from railgauge.report import layout
    from railgauge.report import references as report

    chosen = systems.chosen(system)
    stored = references.load(chosen)
    if not stored.entries:
        raise RailgaugeError(
            f"{stored.path}: no references of {chosen}",
            next_step="railgauge accept --mode baseline --runs 5, then: railgauge promote latest",
        )
    today = datetime.datetime.now(datetime.timezone.utc).date()
    newer = folder.latest_of(chosen) if against == "latest" else folder.load(against)
    if as_json:
        print_json(report.as_dict(chosen, stored, newer))
    else:
        report.render(stored, newer, today, layout.console())
