"""`railgauge explain`: kinds of findings, and terms."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from railgauge.model import catalogue


def test_explain_prints_a_kind_and_a_term() -> None:
    run = CliRunner().invoke(cli, ["explain", "node-lost", "floor"])
    assert run.exit_code == 0
    assert run.output.startswith("node-lost: The node, or the measuring agent on it, went")
    assert "  next:\n    - scontrol show node n3" in run.output
    assert "floor: A sanity minimum" in run.output


def test_explain_takes_a_term_of_several_words() -> None:
    run = CliRunner().invoke(cli, ["explain", "not", "measured"])
    assert run.output.startswith("not measured: No result, for whatever reason.")


def test_explain_without_a_name_lists_every_kind() -> None:
    run = CliRunner().invoke(cli, ["explain"])
    assert [line.split()[0] for line in run.output.splitlines()] == sorted(catalogue.kinds())


def test_a_name_that_is_not_known_is_an_error_with_the_nearest_ones() -> None:
    run = CliRunner().invoke(cli, ["explain", "nodelost"])
    assert isinstance(run.exception, RailgaugeError)
    assert run.exception.message.endswith("expected one such as node-lost, nodes, device-lost")


def _typed() -> Iterator[tuple[str, str]]:
    for name, kind in catalogue.kinds().items():
        for step in kind.next:
            for found in re.finditer(r"railgauge ([^(;,]+)", step):
                yield name, found[1]


@pytest.mark.parametrize(("name", "typed"), sorted(set(_typed())))
def test_what_to_type_of_a_kind_is_a_whole_command(name: str, typed: str) -> None:
    """Such as files that are not there may be wrong; options and missing arguments may not."""
    command: click.Command = cli
    words = shlex.split(typed)
    context = None
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context)
        found = command.get_command(context, words.pop(0))
        assert found is not None, f"{name}: railgauge {typed}"
        command = found
    try:
        command.make_context(command.name, words, parent=context)
    except (click.MissingParameter, click.NoSuchOption) as error:
        pytest.fail(f"{name}: railgauge {typed}: {error.format_message()}")
    except click.BadParameter:
        pass
