"""`railgauge read`: any log, as the gate reads it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, EXIT_REJECT, RailgaugeError

if TYPE_CHECKING:
    from railgauge.report.readings import Readings, Run

_EXAMPLE = "railgauge read slurm-1234.out --nic 400g-roce"


class _Command(click.Command):
    """Wrong usage ends with 3, an example to type, and the tools that are known in --help."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise RailgaugeError(error.format_message(), next_step=_EXAMPLE) from None

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from railgauge.tools import recognize

        with formatter.indentation():
            formatter.write_paragraph()
            formatter.write_text(f"Outputs that are read: {', '.join(recognize.tools())}.")


@click.command(cls=_Command)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--nic",
    "word",
    metavar="RATEg-FABRIC",
    help="The link that was measured: 400g-roce, 400g-ib, 100g-tcp.",
)
@click.option("--nics", type=click.IntRange(1, 64), help="NICs of a node, for collectives.")
@json_option("read")
def read(paths: tuple[str, ...], word: str | None, nics: int | None, as_json: bool) -> NoReturn:
    """Read logs: find out what is in them, print each measurement, and say what is wrong.

    PATH is a file, a folder with all files below it, a tar.gz, or `-`, which is standard input.
    What a file is its content says: it may hold several outputs of several tools, as a job's log
    does, with the tags of launchers, colours and time stamps.

    A line is a measurement: where its run begins, what was measured how, the value, and with --nic
    the share of what the link allows. Then what is wrong, and what was not read.

    Exit code 0: all was read, and nothing is wrong; 1: a run is no valid result, is SIMULATED, or
    measured more than the link allows; 2: something could not be read, or nothing was recognized;
    3: wrong usage.
    """
    from railgauge.report.readings import Readings, Run
    from railgauge.textfiles import Unread, read_all
    from railgauge.tools import recognize

    if "" in paths:
        raise RailgaugeError(
            "nothing is named, as where a variable is not set: expected a file, a folder or `-`",
            next_step="railgauge read . for this folder",
        )
    readings = Readings(_nic(word, nics))
    for source in read_all(paths):
        readings.files += 1
        if isinstance(source, Unread):
            readings.unread.append(source)
            continue
        sections = recognize.recognize(source.text)
        if not sections:
            why = "nothing in it" if not source.text.strip() else _UNKNOWN
            readings.unread.append(Unread(source.name, why))
        for section in sections:
            if section.unread:
                place = f"{source.name}:{section.line}"
                readings.unread.append(Unread(place, section.unread))
            else:
                run = Run(source.name, section.line, section.tag, section.tool, section.read())
                readings.runs.append(run)
    if as_json:
        print_json(readings.as_dict())
    else:
        for line in readings.lines():
            click.echo(line)
    if readings.wrong or any(_measured_nothing(readings, run) for run in readings.runs):
        sys.exit(EXIT_REJECT)
    sys.exit(EXIT_INCONCLUSIVE if readings.unread or not readings.runs else EXIT_ACCEPT)


_UNKNOWN = "no output of a tool that is known: railgauge read --help lists them"


def _measured_nothing(readings: Readings, run: Run) -> bool:
    """A number of a stand-in, or one that the link cannot carry, is none of this link."""
    limits = ((readings.limit(run, number), number) for number in run.reading.measurements)
    above = any(limit is not None and limit.exceeded_by(number.value) for limit, number in limits)
    return above or run.reading.simulated


def _nic(word: str | None, count: int | None) -> Any:
    from railgauge.model.nic import Nic

    if word is None and count is not None:
        raise RailgaugeError("--nics without --nic: the rate is not known", next_step=_EXAMPLE)
    try:
        return Nic.of(word, count) if word is not None else None
    except ValueError as error:
        raise RailgaugeError(f"--nic {error}", next_step=_EXAMPLE) from None
