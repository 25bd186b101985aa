"""`railgauge locate`: which node, rail, pair, leaf or uplink is at fault."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from railgauge import textfile
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import RailgaugeError

if TYPE_CHECKING:
    from railgauge.locating import Evidence, Located, Routes

#: Exit codes: nobody, suspects, and input that cannot be read or does not tell.
EXIT_NOBODY, EXIT_SUSPECTS, EXIT_INPUT = 0, 1, 2

#: The largest output of nccl-tests that is read.
_LARGEST_LOG = 64 * 2**20
#: How many files without a result are named; the others are counted.
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
@click.argument("source", metavar="CAMPAIGN|FOLDER|FILE.csv")
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
    source: str,
    as_json: bool,
    nodes_files: Path | None,
    uplink_counters: Path | None,
    routes: Path | None,
) -> NoReturn:
    """Name the node, rail, pair, leaf or uplink at fault, by results between pairs of nodes.

    The input is a campaign (an id, a path, or `latest`), a folder with an output of nccl-tests for
    each pair, or a CSV file. The file has the columns a,b,value and, where they are known,
    ok,round,leaf_a,leaf_b,rail,rail_a,rail_b,condition,direction. Data goes from a to b, unless
    direction is b-a or both. More is better. A row with ok 0 is a run that failed.

    Exit code: 0 no suspect; 1 suspects, confirmed or not; 2 the input cannot be read, or there is
    no suspect but some nodes cannot be judged.
    """
    from railgauge.report import located as report

    located, lacking = _located(source, uplink_counters, routes)
    if nodes_files is not None:
        _write(located, nodes_files)
    if as_json:
        print_json(located.as_dict())
    else:
        for line in report.lines(located):
            click.echo(line)
        if lacking:
            click.echo(f"not judged: who is in {', '.join(lacking[:_NAMED])}{_more(lacking)}")
    if located.suspects:
        sys.exit(EXIT_SUSPECTS)
    sys.exit(EXIT_INPUT if located.unjudged or lacking else EXIT_NOBODY)


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - _NAMED} more files" if len(names) > _NAMED else ""


def _located(
    source: str, uplink_counters: Path | None, routes_file: Path | None
) -> tuple[Located, list[str]]:
    """What follows from a source; and the files without a result, of those that end as others with
    one do.
    """
    from railgauge import locating

    if not source:
        raise InputError(
            "nothing is named, as where a variable is not set: expected a campaign, a folder or a "
            "CSV file",
            next_step="railgauge locate latest; of this folder: railgauge locate .",
        )
    path = Path(source)
    uplinks = _uplinks(uplink_counters) if uplink_counters is not None else {}
    routes = _routes(routes_file) if routes_file is not None else None
    lacking: list[str] = []
    try:
        is_there, is_folder = path.exists(), path.is_dir()
    except OSError as error:
        raise InputError(f"{source}: {error.strerror}", next_step=_HELP) from None
    if is_there and not is_folder:
        # Also a pipe: <(zcat results.csv.gz).
        evidence = _of_table(path)
    elif is_folder and not (path / "campaign.json").exists():
        evidence, lacking = _of_logs(path)
    else:
        name = str(path.absolute()) if is_folder else source
        return _of_campaign(name, uplinks, routes), []
    evidence.uplink_events, evidence.routes = uplinks, routes
    return locating.locate(evidence), lacking


def _text(path: Path) -> str:
    try:
        return textfile.read(path)
    except RailgaugeError as error:
        raise InputError(error.message, next_step=error.next_step) from None


def _of_table(path: Path) -> Evidence:
    from railgauge.verdict.location import from_csv

    try:
        return from_csv.read(_text(path))
    except from_csv.TableError as error:
        raise InputError(f"{path}: {error}", next_step=f"mend it; the columns: {_HELP}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: {error}, expected a CSV file in UTF-8", next_step=_HELP
        ) from None


_HELP = "railgauge locate --help"


def _of_logs(folder: Path) -> tuple[Evidence, list[str]]:
    from railgauge.locating import Missing
    from railgauge.verdict.location import from_nccl_outputs

    texts, unread = {}, []
    utf16: RailgaugeError | None = None
    try:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, size = str(path.relative_to(folder)), path.stat().st_size
            if size > _LARGEST_LOG:
                why = f"{size / 2**20:.0f} MiB, expected at most {_LARGEST_LOG / 2**20:.0f}"
                unread.append(Missing(name, None, why))
                continue
            try:
                texts[name] = textfile.read(path, errors="replace")
            except RailgaugeError as error:
                unread.append(Missing(name, None, error.message.removeprefix(f"{path}: ")))
                utf16 = utf16 or error
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}", next_step=_HELP) from None
    runs = from_nccl_outputs.runs_in(texts)
    evidence = from_nccl_outputs.read(runs)
    evidence.missing += unread
    if not evidence.results and utf16 is not None:
        raise InputError(utf16.message, next_step=utf16.next_step)
    if not evidence.results:
        raise InputError(
            f"{folder}: {len(texts)} files, none an output of nccl-tests between two hosts, nor a "
            "campaign's campaign.json",
            next_step=f"ls {shlex.quote(str(folder))}; {_HELP}",
        )
    return evidence, from_nccl_outputs.silent(runs, [missing.place for missing in unread])


def _of_campaign(name: str, uplinks: Mapping[str, int], routes: Routes | None) -> Located:
    from railgauge.campaign import folder as campaigns
    from railgauge.model.record import BrokenRecordError
    from railgauge.verdict.campaign.cases import read
    from railgauge.verdict.location import switch_ports
    from railgauge.verdict.location.from_campaign import read_leaves
    from railgauge.verdict.location.locate import locate

    try:
        campaign = campaigns.load(name)
        located = locate(read(campaign), read_leaves(campaign), uplinks, routes)
        named = switch_ports.shown(campaign, located.suspects)
        return dataclasses.replace(located, suspects=tuple(named))
    except BrokenRecordError as error:
        raise InputError(str(error)) from None
    except RailgaugeError as error:
        raise InputError(
            f"{error.message}; neither a file nor a folder of that name", next_step=error.next_step
        ) from None


def _uplinks(path: Path) -> dict[str, int]:
    from railgauge.verdict.location import from_csv

    try:
        return from_csv.read_uplinks(_text(path))
    except (from_csv.TableError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}", next_step="columns: leaf,spine,events") from None


def _routes(path: Path) -> Routes:
    from railgauge.verdict.location import from_csv

    try:
        return from_csv.read_routes(_text(path))
    except (from_csv.TableError, OSError, UnicodeDecodeError) as error:
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
