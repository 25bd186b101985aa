"""The manual pages: every command has one, and roff reads all of its text."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from railgauge.cli import cli, manual


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man1")
    manual.write(folder)
    return folder


def names(command: click.Command, name: str) -> Iterator[str]:
    yield name
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from names(found, f"{name}-{inner}")


def shown(page: Path) -> str:
    """As groff shows it, without bold."""
    answer = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", str(page)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""
    return answer.stdout


def test_every_command_has_a_page(pages: Path) -> None:
    assert {path.stem for path in pages.iterdir()} == set(names(cli, "railgauge"))


def test_a_page_names_the_commands_of_its_group(pages: Path) -> None:
    page = (pages / "railgauge-gate.1").read_text()
    assert r"\fBrailgauge gate-run(1)\fP" in page


def test_a_line_that_begins_with_a_full_stop_is_text() -> None:
    page = ".TH X\n.SH OPTIONS\n.TP\n\\fB\\-\\-wait\\fP\n... s for jobs.\n'tis\n"
    assert manual.as_roff(page) == (
        ".TH X\n.SH OPTIONS\n.TP\n\\fB\\-\\-wait\\fP\n\\&... s for jobs.\n\\&'tis\n"
    )


def test_a_paragraph_of_single_lines_keeps_them() -> None:
    page = ".SH DESCRIPTION\n\x08\none\n    two\n.PP\nthree\n.SH OPTIONS\n"
    assert manual.as_roff(page) == (
        ".SH DESCRIPTION\n.nf\none\n    two\n.fi\n.PP\nthree\n.SH OPTIONS\n"
    )


@pytest.mark.parametrize("name", ["railgauge", "railgauge-gate-run", "railgauge-lab-fault-add"])
def test_groff_shows_each_word_of_the_help(pages: Path, name: str) -> None:
    command: click.Command = manual.loaded(cli)
    for word in name.split("-")[1:]:
        assert isinstance(command, click.Group)
        command = command.commands[word]
    printed = shown(pages / f"{name}.1").split()
    helps = [
        command.help or "",
        *(one.help or "" for one in command.params if hasattr(one, "help")),
    ]
    missing = {word for text in helps for word in text.replace("\b", "").split()} - set(printed)
    # groff divides words at the end of a line.
    joined = "".join(printed).replace("-", "")
    assert {word for word in missing if word.replace("-", "") not in joined} == set()
