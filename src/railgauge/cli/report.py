"""`railgauge report`: a campaign as one page."""

from __future__ import annotations

from pathlib import Path

import click

from railgauge.common.errors import PrerequisiteError, RailgaugeError


@click.command()
@click.argument("campaign", required=False)
@click.option("--history", metavar="SYSTEM", help="The page of all campaigns of a system instead.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write it, - for standard output; if not given, report.html in the campaign's "
    "folder, or history-SYSTEM.html in the results root.",
)
def report(campaign: str | None, history: str | None, output: Path | None) -> None:
    """Write a campaign's page: verdict, findings with their evidence, all numbers.

    CAMPAIGN is an id, a path, or `latest`, as it is if none is given. It is one HTML file that asks
    nothing of any network, for a browser, a mail or a ticket.
    """
    if history is not None:
        if campaign is not None:
            raise RailgaugeError(
                f"{campaign} and --history: expected a campaign or a system",
                next_step=f"railgauge report --history {history}",
            )
        _history(history, output)
        return
    from railgauge.campaign import folder as campaigns
    from railgauge.report import page
    from railgauge.verdict.decision.rules import decide

    verdict = decide(campaigns.load(campaign or "latest"))
    if str(output) == "-":
        click.echo(page.html(verdict), nl=False)
        return
    path = output or verdict.campaign.folder / page.FILE
    _write(path, page.html(verdict), verdict.campaign.id)
    mark = "SIMULATED " if verdict.simulated else ""
    click.echo(f"{mark}{verdict.decision.upper()}  {path}")


def _history(system: str, output: Path | None) -> None:
    from railgauge import paths
    from railgauge.cli.coverage import lines_of
    from railgauge.gate.coverage import last_accepts
    from railgauge.report.page import history

    path = output or paths.results_root() / f"history-{system}.html"
    text = history.html(system, last_accepts(system), lines_of(system))
    if str(output) == "-":
        click.echo(text, nl=False)
        return
    _write(path, text, f"--history {system}")
    click.echo(str(path))


def _write(path: Path, text: str, what: str) -> None:
    from railgauge.common.atomic import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise PrerequisiteError(
            f"{path}: the page cannot be written: {error.strerror}",
            next_step=f"railgauge report {what} -o FILE, somewhere else",
        ) from None
