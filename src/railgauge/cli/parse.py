"""`railgauge parse`: a tool's output, read as the gate reads it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from railgauge import textfile
from railgauge.common.errors import RailgaugeError
from railgauge.tools import table
from railgauge.tools.common.by_hand import ByHand


class _Tools(click.Group):
    """A command for every tool that says how its outputs are read by hand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(table.by_hand())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        by_hand = table.by_hand().get(cmd_name)
        return None if by_hand is None else _command(cmd_name, by_hand)


@click.group(cls=_Tools)
def parse() -> None:
    """Read a tool's output as the gate does, and print what it proves."""


def _command(tool: str, by_hand: ByHand) -> click.Command:
    files = " and, where you have it, ".join(by_hand.files)

    @click.command(
        tool,
        short_help=f"Read the output of {tool}.",
        help=f"Read FILE: {files}.\n\n{by_hand.proof}\n\n"
        f"--expect takes {', '.join(by_hand.conditions)}. What it leaves out is as the output "
        "states it.\n\nExit code 1 when the output is no result, or not as expected.",
    )
    @click.argument(
        "files",
        metavar="FILE...",
        nargs=-1,
        required=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
    )
    @click.option(
        "--exit-code",
        "codes",
        type=int,
        multiple=True,
        help="The exit code of what wrote FILE, if you know it"
        + ("; again for the second." if by_hand.exit_codes > 1 else "."),
    )
    @click.option(
        "--expect",
        "expected",
        metavar="NAME=VALUE",
        multiple=True,
        help="What was requested; may be given again.",
    )
    def show(files: tuple[Path, ...], codes: tuple[int, ...], expected: tuple[str, ...]) -> None:
        for what, given, most in (
            ("files", files, len(by_hand.files)),
            ("exit codes", codes, by_hand.exit_codes),
        ):
            if len(given) > most:
                raise RailgaugeError(
                    f"{len(given)} {what} of {tool}, expected at most {most}",
                    next_step=f"railgauge parse {tool} --help",
                )
        texts = [textfile.read(file, errors="replace") for file in files]
        try:
            options = by_hand.requested(texts[0], expected)
        except ValueError as error:
            example = " ".join(f"--expect {condition}" for condition in by_hand.example)
            raise RailgaugeError(
                f"--expect {error}", next_step=f"railgauge parse {tool} FILE {example}"
            ) from None
        reading = by_hand.read(texts, codes, options)
        click.echo(json.dumps(reading.as_dict(), indent=2))
        sys.exit(0 if reading.ok else 1)

    return show
