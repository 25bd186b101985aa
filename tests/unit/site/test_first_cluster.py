"""The commands of docs/first-cluster.md, which `make compat` types on a real cluster."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click
import pytest

from railgauge.cli import cli
from railgauge.lab.cluster import Lab
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


class Login:
    """A login node that is this machine."""

    spec = SimpleNamespace(head=SimpleNamespace(name="login"))

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def user(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(folder=str(self.folder))

    def enter(self, name: str, *command: str, workdir: Path, user: str) -> list[str]:
        return ["env", f"--chdir={workdir}", *command]


def typed(folder: Path, *commands: str) -> list[tuple[int, str]]:
    done = first_cluster.type_all(cast(Lab, Login(folder)), commands)
    return [(each.returncode, each.output.strip()) for each in done]


def test_commands_are_typed_into_one_shell_each_with_its_exit_code(tmp_path: Path) -> None:
    commands = ("mkdir here && cd here", "pwd", "false", "printf no-line-break; (exit 3)")
    assert typed(tmp_path, *commands) == [
        (0, ""),
        (0, f"{tmp_path}/here"),
        (1, ""),
        (3, "no-line-break"),
    ]


def test_a_shell_that_ends_is_no_success(tmp_path: Path) -> None:
    assert typed(tmp_path, "exit 7") == [(7, "")]
