"""`railgauge read`: any log, as the gate reads it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from railgauge.cli.link import known_system, link_options, nic_of, system_option
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
@link_options
@system_option
@json_option("read")
def read(
    paths: tuple[str, ...], word: str | None, nics: int | None, system: str | None, as_json: bool
) -> NoReturn:
    """Read logs: find out what is in them, print each measurement, and say what is wrong.

    PATH is a file, a folder with all files below it, a tar.gz, or `-`, which is standard input.
    What a file is its content says: it may hold several outputs of several tools, as a job's log
    does, with the tags of launchers, colours and time stamps.

    A line is a measurement: where its run begins, what was measured how, the value, and with --nic
    the share of what the link allows. Below it stand published numbers of the same tool, operation
    and metric that are near in size and scale, with what differs. They judge nothing. Then what is
    wrong, and what was not read.

    Exit code 0: all was read, and nothing is wrong; 1: a run is no valid result, is SIMULATED, or
    measured more than the link allows; 2: something could not be read, or nothing was recognized;
    3: wrong usage.
    """
    from railgauge.report.readings import read_paths

    if "" in paths:
        raise RailgaugeError(
            "nothing is named, as where a variable is not set: expected a file, a folder or `-`",
            next_step="railgauge read . for this folder",
        )
    readings = read_paths(paths, nic_of(word, nics, _EXAMPLE), known_system(system))
    if as_json:
        print_json(readings.as_dict())
    else:
        for line in readings.lines():
            click.echo(line)
    if readings.wrong or any(_measured_nothing(readings, run) for run in readings.runs):
        sys.exit(EXIT_REJECT)
    sys.exit(EXIT_INCONCLUSIVE if readings.unread or not readings.runs else EXIT_ACCEPT)


def _measured_nothing(readings: Readings, run: Run) -> bool:
    """A number of a stand-in, or one that the link cannot carry, is none of this link."""
    limits = ((readings.limit(run, number), number) for number in run.reading.measurements)
    above = any(limit is not None and limit.exceeded_by(number.value) for limit, number in limits)
    return above or run.reading.simulated
