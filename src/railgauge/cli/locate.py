"""`railgauge locate`: which node, rail, pair, leaf or uplink is at fault."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from railgauge import textfile, textfiles
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import RailgaugeError

if TYPE_CHECKING:
    from railgauge.locating import Evidence, Located, Routes
    from railgauge.verdict.location.from_logs import LogEvidence
    from railgauge.verdict.location.gpus_in_logs import GpusOfRun

#: Exit codes: nobody, suspects, and input that cannot be read or does not tell.
EXIT_NOBODY, EXIT_SUSPECTS, EXIT_INPUT = 0, 1, 2

#: How many files without a result are named in one line; the others are counted.
_NAMED = 3


class InputError(RailgaugeError):
    """What was given is nothing that faults can be located in."""

    exit_code = EXIT_INPUT


class _Command(click.Command):
    """Wrong usage ends as wrong input does: 1 would be suspects."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise InputError(error.format_message(), next_step="railgauge locate --help") from None


@click.command(cls=_Command)
@click.argument("sources", metavar="CAMPAIGN|FILE.csv|PATH...", nargs=-1, required=True)
@json_option("locate")
@click.option(
    "--nodes-files",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write failing_nodes.txt (confirmed) and passing_nodes.txt (good, in no suspect) there.",
)
@click.option(
    "--uplink-counters",
    metavar="FILE.csv",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Events of the leaves' uplinks: columns leaf,spine,events.",
)
@click.option(
    "--routes",
    metavar="FILE.csv",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The spine that each leaf sends a destination's data to: columns leaf,destination,spine, "
    "and source where it counts.",
)
def locate(
    sources: tuple[str, ...],
    as_json: bool,
    nodes_files: Path | None,
    uplink_counters: Path | None,
    routes: Path | None,
) -> NoReturn:
    """Name the node, rail, pair, leaf, uplink or GPU at fault, by results between two ends.

    The input is a campaign (an id, a path, or `latest`), logs, or a CSV file. Logs have an output
    of a tool for each pair of hosts: files, folders, quoted patterns, a tar.gz, or `-`. The CSV
    file has the columns a,b,value and, where they are known,
    ok,round,leaf_a,leaf_b,rail,rail_a,rail_b,condition,direction. Data goes from a to b, unless
    direction is b-a or both. More is better. A row with ok 0 is a run that failed.

    The two hosts of an output are those that it names, or those in its file's name: n1-n2.log. An
    output that is not of two hosts, or not whole, is left out, and its reason printed. Outputs of
    nvbandwidth name the slow GPUs of a node, and slow links between them.

    Exit code: 0 no suspect; 1 suspects, confirmed or not; 2 the input cannot be read, or there is
    no suspect but some nodes cannot be judged.
    """
    from railgauge.report import located as report

    located, lacking, of_logs = _located(sources, uplink_counters, routes)
    if nodes_files is not None:
        _write(located, nodes_files)
    if as_json:
        print_json(located.as_dict())
    else:
        for line in report.lines(located, of_logs):
            click.echo(line)
        if lacking:
            click.echo(f"not judged: the nodes in {', '.join(lacking[:_NAMED])}{_more(lacking)}")
    if located.suspects:
        sys.exit(EXIT_SUSPECTS)
    sys.exit(EXIT_INPUT if located.unjudged or lacking else EXIT_NOBODY)


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - _NAMED} more files" if len(names) > _NAMED else ""


def _located(
    sources: Sequence[str], uplink_counters: Path | None, routes_file: Path | None
) -> tuple[Located, Sequence[str], bool]:
    """What follows from sources; the files without a result, of those that end as others with one
    do; and whether these are logs.
    """
    from railgauge import locating
    from railgauge.cli import log_paths
    from railgauge.verdict.location import from_csv

    if "" in sources:
        raise InputError(
            "nothing is named, as where a variable is not set: expected a campaign, logs or a CSV "
            "file",
            next_step="railgauge locate latest; of this folder: railgauge locate .",
        )
    try:
        paths = [path for source in sources for path in log_paths.expand(source)]
    except RailgaugeError as error:
        raise InputError(error.message, next_step=error.next_step) from None
    uplinks = _uplinks(uplink_counters) if uplink_counters is not None else {}
    routes = _routes(routes_file) if routes_file is not None else None
    kinds = [log_paths.kind_of(path, from_csv.NEEDED) for path in paths]
    others = [path for path, kind in zip(paths, kinds, strict=True) if kind != "logs"]
    if len(paths) > 1 and others:
        raise InputError(
            f"{others[0]}: not a log; expected logs, or one campaign or table alone",
            next_step=_HELP,
        )
    lacking: Sequence[str] = ()
    gpus: Sequence[GpusOfRun] = ()
    if kinds[0] == "table" and log_paths.exists(paths[0]):
        evidence = _of_table(paths[0], _text(Path(paths[0])))
    elif kinds[0] == "logs":
        texts = textfiles.read_all(paths)
        first = None if log_paths.is_seekable(paths[0]) else next(texts)
        if isinstance(first, textfiles.Text) and log_paths.has_columns(first.text, from_csv.NEEDED):
            # Of a pipe: <(zcat results.csv.gz).
            evidence, kinds = _of_table(first.name, first.text), ["table"]
        else:
            every = texts if first is None else itertools.chain([first], texts)
            found = _of_logs(paths, every)
            evidence, lacking, gpus = found.evidence, found.lacking, found.gpus
    else:
        is_folder = log_paths.exists(paths[0])
        name = str(Path(paths[0]).absolute()) if is_folder else paths[0]
        return _of_campaign(name, uplinks, routes), (), False
    evidence.uplink_events, evidence.routes = uplinks, routes
    return _with_gpus(locating.locate(evidence), gpus), lacking, kinds[0] == "logs"


def _with_gpus(located: Located, gpus: Sequence[GpusOfRun]) -> Located:
    """The same, with what copies between the GPUs of a node show. They clear no node."""
    suspects = [suspect for of_run in gpus for suspect in of_run.suspects]
    nodes = dict.fromkeys([*located.nodes, *(node for of_run in gpus for node in of_run.nodes)])
    unjudged = [node for of_run in gpus if of_run.why for node in of_run.nodes]
    return dataclasses.replace(
        located,
        suspects=(*suspects, *located.suspects),
        nodes=tuple(nodes),
        unjudged=tuple(dict.fromkeys([*located.unjudged, *unjudged])),
    )


def _text(path: Path) -> str:
    try:
        return textfile.read(path)
    except RailgaugeError as error:
        raise InputError(error.message, next_step=error.next_step) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: {error}, expected a CSV file in UTF-8", next_step=_HELP
        ) from None


def _of_table(name: str, text: str) -> Evidence:
    from railgauge.common.table import TableError
    from railgauge.verdict.location import from_csv

    try:
        return from_csv.read(text)
    except TableError as error:
        raise InputError(f"{name}: {error}", next_step=f"fix it; the columns: {_HELP}") from None


_HELP = "railgauge locate --help"


def _of_logs(
    paths: Sequence[str], sources: Iterable[textfiles.Text | textfiles.Large | textfiles.Unread]
) -> LogEvidence:
    from railgauge.verdict.location import from_logs

    found = from_logs.read(sources)
    if not found.evidence.results and not found.gpus:
        reasons = dict.fromkeys(f"{one.place}: {one.why}" for one in found.evidence.missing)
        shown = "".join(f"\n  {reason}" for reason in [*reasons][:_NAMED])
        raise InputError(
            f"{' '.join(paths)}: {found.files} files, none with a result between two hosts or two "
            f"GPUs, nor a campaign's campaign.json{shown}{_more([*reasons])}",
            next_step=f"railgauge read {shlex.quote(paths[0])} says what is in it; {_HELP}",
        )
    return found


def _of_campaign(name: str, uplinks: Mapping[str, int], routes: Routes | None) -> Located:
    from railgauge.campaign import folder as campaigns
    from railgauge.model.record import BrokenRecordError
    from railgauge.verdict.campaign.cases import read
    from railgauge.verdict.location import switch_ports
    from railgauge.verdict.location.campaign_routes import CampaignRoutes
    from railgauge.verdict.location.from_campaign import read_leaves
    from railgauge.verdict.location.locate import locate

    try:
        campaign = campaigns.load(name)
        cases = read(campaign)
        recorded = CampaignRoutes(campaign, cases)
        located = locate(cases, read_leaves(campaign), uplinks, routes or recorded)
        named = switch_ports.shown(campaign, located.suspects, recorded)
        return dataclasses.replace(located, suspects=tuple(named))
    except BrokenRecordError as error:
        raise InputError(str(error)) from None
    except RailgaugeError as error:
        raise InputError(
            f"{error.message}; neither a file nor a folder of that name", next_step=error.next_step
        ) from None


def _uplinks(path: Path) -> dict[str, int]:
    from railgauge.common.table import TableError
    from railgauge.verdict.location import from_csv

    try:
        return from_csv.read_uplinks(_text(path))
    except (TableError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}", next_step="columns: leaf,spine,events") from None


def _routes(path: Path) -> Routes:
    from railgauge.common.table import TableError
    from railgauge.verdict.location import from_csv

    try:
        return from_csv.read_routes(_text(path))
    except (TableError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}", next_step="columns: leaf,destination,spine") from None


def _write(located: Located, folder: Path) -> None:
    """Each whole or not at all; `srun --exclude=$(paste -sd, failing_nodes.txt)` takes them."""
    from railgauge.common.atomic import write_text

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, nodes in (
            ("failing_nodes.txt", located.failing_nodes),
            ("passing_nodes.txt", located.passing_nodes),
        ):
            write_text(folder / name, "".join(f"{node}\n" for node in nodes))
    except OSError as error:
        raise InputError(
            f"{folder}: cannot write the lists of nodes: {error.strerror}",
            next_step="--nodes-files FOLDER with one that can be written",
        ) from None
