"""`railgauge report`: a campaign as one page."""

from __future__ import annotations

from pathlib import Path

import click

from railgauge.errors import EnvironmentProblem


@click.command()
@click.argument("campaign", default="latest")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write it; report.html in the campaign's folder if not given.",
)
def report(campaign: str, output: Path | None) -> None:
    """Write a campaign's page: verdict, findings with their evidence, all numbers.

    CAMPAIGN is an id, a path, or `latest`. It is one HTML file that asks nothing of any network,
    for a browser, a mail or a ticket.
    """
    from railgauge.atomic import write_text
    from railgauge.campaign import folder as campaigns
    from railgauge.report import page
    from railgauge.verdict.rules import decide

    verdict = decide(campaigns.load(campaign))
    path = output or verdict.campaign.folder / page.FILE
    try:
        write_text(path, page.html(verdict))
    except OSError as error:
        raise EnvironmentProblem(
            f"{path}: the page cannot be written: {error.strerror}",
            next_step=f"railgauge report {verdict.campaign.id} -o FILE, somewhere else",
        ) from None
    mark = "SIMULATED " if verdict.simulated else ""
    click.echo(f"{mark}{verdict.decision.upper()}  {path}")
