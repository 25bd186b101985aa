"""The commands of docs/first-cluster.md, which `make compat` types on a real cluster."""

from __future__ import annotations

import shlex

import click
import pytest

from railgauge.cli import cli
from tests.lab.compat import first_cluster

SECTION = """# Title

## A plain TCP cluster

Words.

```console
$ one
printed by one
$ two \\
>   --more
```

```text
$ not typed
```

```console
$ three
```

## A RoCE cluster

```console
$ four
```
"""


def test_what_is_typed_are_the_lines_of_console_blocks_below_the_heading() -> None:
    assert first_cluster.commands(SECTION) == ["one", "two \\\n  --more", "three"]


def test_a_document_without_the_heading_is_no_document_without_commands() -> None:
    with pytest.raises(AssertionError, match="no heading"):
        first_cluster.commands("# Title\n")


def test_a_heading_without_commands_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"no `\$ command`"):
        first_cluster.commands("\n## A plain TCP cluster\n\nWords.\n")


def documented() -> list[str]:
    return first_cluster.commands(first_cluster.DOCUMENT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("typed", [line for line in documented() if "bin/railgauge " in line])
def test_a_documented_command_is_one_that_railgauge_takes(typed: str) -> None:
    words = shlex.split(typed.partition("bin/railgauge ")[2])
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"{typed}: no command {words[0]!r}"
        command, words = found, words[1:]
    command.make_context("railgauge", words)
