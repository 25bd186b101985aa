"""`railgauge export`: a verdict for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from railgauge.common.errors import PrerequisiteError, RailgaugeError

if TYPE_CHECKING:
    from railgauge.verdict.decision.verdict import Verdict

_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


@click.command()
@click.argument("campaign", default="latest")
@click.option("--csv", type=_FILE, help="All measurements, a row a number.")
@click.option("--parquet", type=_FILE, help="The same as Parquet.")
@click.option("--junit", type=_FILE, help="For CI: a case a condition, one a failed place.")
@click.option("--markdown", type=_FILE, help="A summary for a ticket.")
@click.option("--prometheus", type=_FILE, help="For node_exporter's textfile collector: NAME.prom")
def export(campaign: str, **files: Path | None) -> None:
    """Write a campaign's verdict for other programs; each file is there whole or not at all.

    CAMPAIGN is an id, a path, or `latest`. A file of - is standard output.
    """
    from railgauge.campaign import folder as campaigns
    from railgauge.verdict.decision.rules import decide

    wanted = {kind: path for kind, path in files.items() if path is not None}
    if not wanted:
        raise RailgaugeError(
            f"nothing to write, expected one or more of {', '.join(f'--{kind}' for kind in files)}",
            next_step=f"railgauge export {campaign} --csv -",
        )
    verdict = decide(campaigns.load(campaign))
    for kind, path in wanted.items():
        try:
            _write(verdict, kind, path)
        except OSError as error:
            raise PrerequisiteError(
                f"{path}: cannot be written: {error.strerror}",
                next_step=f"railgauge export {verdict.campaign.id} --{kind} FILE, somewhere else",
            ) from None


def _write(verdict: Verdict, kind: str, path: Path) -> None:
    from railgauge.common.atomic import write_text
    from railgauge.report.feeds import rows

    if kind == "parquet":
        if str(path) == "-":
            raise RailgaugeError(
                "--parquet -: Parquet is no text, expected a file",
                next_step=f"railgauge export {verdict.campaign.id} --parquet FILE",
            )
        rows.write_parquet(verdict, path)
    elif str(path) == "-":
        click.echo(_text(verdict, kind), nl=False)
    else:
        write_text(path, _text(verdict, kind))


def _text(verdict: Verdict, kind: str) -> str:
    from railgauge.cli.coverage import lines_of
    from railgauge.gate.coverage import last_accepts
    from railgauge.report.feeds import junit, markdown, prometheus, rows

    if kind == "prometheus":
        system = verdict.campaign.system
        return prometheus.metrics(verdict, last_accepts(system), lines_of(system))
    makers = {"csv": rows.as_csv, "junit": junit.xml, "markdown": markdown.markdown}
    return makers[kind](verdict)
