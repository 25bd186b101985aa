"""What a command loads: only what it uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from railgauge import paths
from railgauge.cli import cli
from railgauge.cli.gate import gate
from railgauge.cli.lazy import LazyGroup
from tests.unit import measured

#: What takes most of the time where it is loaded.
HEAVY = {"numpy", "scipy", "polars", "reframe", "ruamel", "jinja2", "jsonschema", "requests"}

#: Runs a command, and prints on the last line what it has loaded.
PROGRAM = """
import sys
from railgauge.cli import main
try:
    main()
finally:
    print("\\n" + " ".join(sys.modules))
"""

SCONTROL = '#!/bin/sh\n[ "$2" = reservation ] || echo NodeName=eth400g-n1 State=IDLE\n'


def loaded(*arguments: str, **environment: str) -> set[str]:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, "PYTHONPATH": str(paths.SOURCE), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in answer.stderr
    modules = answer.stdout.splitlines()[-1].split()
    assert "railgauge.cli.commands" in modules
    return {*modules, *(name.partition(".")[0] for name in modules)}


def test_help_loads_no_command() -> None:
    modules = loaded("--help")
    assert not modules & (HEAVY | {"pydantic", "yaml", "rich", "ClusterShell"})
    commands = {place.where.partition(":")[0] for place in cli.places.values()}
    assert not modules & commands


@pytest.mark.parametrize("words", ["railgauge ", "railgauge gate "])
def test_completion_loads_no_other_command(words: str) -> None:
    modules = loaded(
        _RAILGAUGE_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split())),
    )
    assert not modules & (HEAVY | {"pydantic", "railgauge.cli.accept", "railgauge.cli.trust"})


def test_a_verdict_loads_no_arrays_and_no_tool(tmp_path: Path) -> None:
    campaign = measured.leave(tmp_path, 1, dict.fromkeys(measured.PLACES, 380.0), gate="acceptance")
    modules = loaded("verdict", str(campaign.folder), RAILGAUGE_RESULTS=str(tmp_path))
    assert "railgauge.verdict.comparison.campaign_power" in modules
    assert not modules & HEAVY
    assert not modules & {"railgauge.tools.nccl_tests", "railgauge.tools.iperf3"}


def test_the_gates_status_loads_no_arrays(tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(SCONTROL)
    scontrol.chmod(0o755)
    found_first = f"{tmp_path}:{os.environ['PATH']}"
    modules = loaded(
        *("gate", "status", "--system", "eth400g"),
        PATH=found_first,
        RAILGAUGE_RESULTS=str(tmp_path),
    )
    assert "railgauge.gate.status" in modules
    assert not modules & (HEAVY | {"railgauge.tools.nccl_tests"})


@pytest.mark.parametrize("group", [cli, gate], ids=["railgauge", "gate"])
def test_the_list_of_commands_has_their_own_first_sentences(group: LazyGroup) -> None:
    within = click.Context(group)
    outline = group.outline()
    assert outline.list_commands(within) == group.list_commands(within)
    for name in group.list_commands(within):
        listed, command = outline.get_command(within, name), group.get_command(within, name)
        assert listed is not None and command is not None
        assert not command.hidden
        for width in range(20, 250):
            assert listed.get_short_help_str(width) == command.get_short_help_str(width), name
