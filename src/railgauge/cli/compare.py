"""`railgauge compare`: before and after, place by place."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from railgauge import systems
from railgauge.cli.numbers import Number
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, RailgaugeError

if TYPE_CHECKING:
    import polars as pl

    from railgauge.campaign.folder import Campaign
    from railgauge.verdict.comparison.inventory_drift import Drift

_ACCEPTED = "accepted"


class InconclusiveError(RailgaugeError):
    """What was given cannot be compared: it decides nothing about any node."""

    exit_code = EXIT_INCONCLUSIVE


@click.command()
@click.argument("before")
@click.argument("after")
@click.option(
    "--margin",
    type=Number(0, 1, max_open=True),
    help="The smallest change that matters, as a share. Default: `least_change` of the system, "
    "or 0.02.",
)
@click.option(
    "--dependent",
    is_flag=True,
    help="Limit false findings also where links share switches (Benjamini-Yekutieli).",
)
@click.option(
    "--better",
    type=click.Choice(["more", "less"]),
    help="Which values of a CSV are better. Default: as the metric that a condition begins with, "
    "else more.",
)
@click.option(
    "--noise",
    type=Number(0, 1, min_open=True, max_open=True),
    help="Of logs: the usual spread of equal runs, as a share, where runs do not show it; else "
    "0.05.",
)
@json_option("compare")
def compare(
    before: str,
    after: str,
    margin: float | None,
    dependent: bool,
    better: str | None,
    noise: float | None,
    as_json: bool,
) -> NoReturn:
    """Compare each place of AFTER with BEFORE: better, same, worse, or cannot tell.

    Each of the two is a campaign (an id, a path, `latest`), several campaigns with commas between
    them, `accepted` for the last accepted campaign of the system, a CSV file with the columns
    place,condition,run,value, or logs of tools: a file, a folder, a tar.gz, a quoted pattern such
    as 'before-*.log', or `-`.

    Exit code: 0 better or the same; 1 a place is worse; 2 cannot tell, or not comparable.
    """
    try:
        if _are_logs(before, after):
            _compare_logs(before, after, margin, dependent, better, noise, as_json)
        if noise is not None:
            raise RailgaugeError(
                "--noise is for logs: campaigns and tables show their own noise",
                next_step="leave it out",
            )
        _compare(before, after, margin, dependent, better, as_json)
    except RailgaugeError as error:
        raise InconclusiveError(error.message, next_step=error.next_step) from None


def _compare(
    before: str,
    after: str,
    margin: float | None,
    dependent: bool,
    better: str | None,
    as_json: bool,
) -> NoReturn:
    from railgauge.report import comparison, layout
    from railgauge.verdict.comparison import before_after

    files = [[name for name in side.split(",") if _is_file(name)] for side in (before, after)]
    drift: list[Drift] = []
    simulated, unclear = False, []
    if any(files):
        if [*files[0], *files[1]] != [*before.split(","), *after.split(",")]:
            others = [
                name for name in [*before.split(","), *after.split(",")] if not _is_file(name)
            ]
            raise RailgaugeError(
                f"{others[0]}: no such file, and the other side is one: a file and a campaign do "
                "not have the same places",
                next_step="ls; railgauge compare with two CSV files, or two campaigns",
            )
        _require_each_once([*files[0], *files[1]])
        sides = [_of_files(names, better, margin) for names in files]
        unclear = [] if better else before_after.taken_for_more(sides[0])
    else:
        campaigns = _campaigns(before, after)
        simulated = any(one.simulated for side in campaigns for one in side)
        sides = [_of_campaigns(side, margin) for side in campaigns]
        drift = _drift(campaigns)
    compared = before_after.compare(sides[0], sides[1], dependent=dependent)
    if as_json:
        document = {**compared.as_dict(), "drift": [one.as_dict() for one in drift]}
        print_json({**document, "simulated": simulated})
    else:
        console = layout.console()
        if simulated:
            layout.say(console, "SIMULATED: only stand-ins ran. This says nothing about a node.")
        comparison.render(compared, drift, console)
        if unclear:
            more = f" and {len(unclear) - 3} others" if len(unclear) > 3 else ""
            layout.say(
                console,
                f"assumed that more is better: {', '.join(unclear[:3])}{more}; if less is, add "
                "--better less",
            )
    code = compared.exit_code
    sys.exit(EXIT_INCONCLUSIVE if simulated and code == EXIT_ACCEPT else code)


def _are_logs(before: str, after: str) -> bool:
    """Whether both sides are logs; RailgaugeError where one of them is something else."""
    from railgauge.cli import log_paths

    if "" in (before, after):
        raise RailgaugeError(
            "nothing is named, as where a variable is not set: expected BEFORE and AFTER",
            next_step="railgauge compare --help",
        )
    columns = ("place", "condition", "run", "value")
    found = {
        path: log_paths.kind_of(path, columns)
        for word in (before, after)
        for path in log_paths.expand(word)
    }
    logs = [path for path, kind in found.items() if kind == "logs"]
    if logs and len(logs) < len(found):
        other, kind = next((path, kind) for path, kind in found.items() if kind != "logs")
        what = "a table" if kind == "table" else "a campaign"
        if not log_paths.exists(other):
            what = "no file, folder or campaign" if kind == "campaign" else "not there"
        raise RailgaugeError(
            f"{logs[0]} has logs, and {other} is {what}: expected logs on both sides",
            next_step="ls; railgauge compare with two logs or two folders of logs",
        )
    return bool(logs)


def _compare_logs(
    before: str,
    after: str,
    margin: float | None,
    dependent: bool,
    better: str | None,
    noise: float | None,
    as_json: bool,
) -> NoReturn:
    from railgauge.cli import log_paths
    from railgauge.report import log_comparison
    from railgauge.textfiles import read_all
    from railgauge.verdict.comparison.link_changes import MARGIN
    from railgauge.verdict.logs import before_after

    if better is not None:
        raise RailgaugeError(
            "--better is for a table: whether more of a tool's number is better is known",
            next_step="leave it out",
        )
    compared = before_after.compare(
        read_all(log_paths.expand(before)),
        read_all(log_paths.expand(after)),
        margin=MARGIN if margin is None else margin,
        noise=before_after.NOISE if noise is None else noise,
        dependent=dependent,
    )
    if as_json:
        print_json(compared.as_dict())
    else:
        for line in log_comparison.lines(compared):
            click.echo(line)
    sys.exit(compared.exit_code)


def _is_file(name: str) -> bool:
    try:
        return name.endswith(".csv") or Path(name).is_file()
    except OSError:
        # Such as a name that is too long: the code that reads it says so.
        return False


def _require_each_once(names: Sequence[str]) -> None:
    """A copy is the same run: to count it again would make chance look certain."""
    of_content: dict[bytes, str] = {}
    for name in names:
        # The code that reads a file reports that it cannot be read.
        with contextlib.suppress(OSError):
            content = Path(name).read_bytes()
            if content in of_content:
                raise RailgaugeError(
                    f"{name} has the same content as {of_content[content]}, expected each run "
                    "once, on one side",
                    next_step="name the file of another run",
                )
            of_content[content] = name


def _of_files(names: Sequence[str], better: str | None, margin: float | None) -> pl.DataFrame:
    import polars as pl

    from railgauge.verdict.comparison import before_after
    from railgauge.verdict.comparison.link_changes import MARGIN

    margin = MARGIN if margin is None else margin
    sides = [before_after.of_csv(Path(name), better, margin) for name in names]
    return pl.concat(
        [
            side.with_columns(pl.format("{}/{}", pl.lit(number), "run").alias("run"))
            for number, side in enumerate(sides)
        ]
    )


def _of_campaigns(side: Sequence[Campaign], margin: float | None) -> pl.DataFrame:
    from railgauge.verdict.comparison import before_after, measurement_table

    # One at a time: a table of many measurements is large.
    tables = (measurement_table.read(one, before_after.TABLE_COLUMNS) for one in side)
    if margin is not None:
        return before_after.of_tables(tables, {}, margin)
    return before_after.of_tables(tables, systems.least_changes(side[0].system))


def _campaigns(before: str, after: str) -> list[list[Campaign]]:
    """Both sides; RailgaugeError where they are not of one system, or not at their end."""
    from railgauge.campaign import folder

    names = [side.split(",") for side in (before, after)]
    named = [[folder.load(n) for n in side if n != _ACCEPTED] for side in names]
    everything = [one for side in named for one in side]
    if not everything:
        raise RailgaugeError(
            f"{before} and {after}: the same campaign on both sides",
            next_step=f"railgauge compare {_ACCEPTED} latest",
        )
    systems = list(dict.fromkeys(one.system for one in everything))
    if len(systems) > 1:
        raise RailgaugeError(
            f"campaigns of several systems: {', '.join(systems)}; expected one",
            next_step="railgauge campaigns",
        )
    for side, of_side in zip(names, named, strict=True):
        if _ACCEPTED in side:
            of_side.append(folder.last_accepted(systems[0], {one.id for one in everything}))
    everything = [one for side in named for one in side]
    for one in everything:
        if one.state == "running" and not one.broke_off:
            raise folder.RunningError(one)
    # A copy is the same campaign: to count it again would make chance look certain.
    ids = [one.recorded_id or one.id for one in everything]
    if twice := sorted({each for each in ids if ids.count(each) > 1}):
        raise RailgaugeError(
            f"campaign {', '.join(twice)} is there twice, expected each once, on one side",
            next_step="railgauge campaigns",
        )
    return named


def _drift(campaigns: Sequence[Sequence[Campaign]]) -> list[Drift]:
    """Between the last inventories of each side."""
    from railgauge.campaign.inventories import in_campaign
    from railgauge.verdict.comparison.inventory_drift import drift

    before, after = (
        {node: taken for one in side for node, taken in in_campaign(one).items()}
        for side in campaigns
    )
    return drift(before, after)
