"""What a node says of the InfiniBand subnet: whole texts, and why others are not there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from railgauge.checks.preflight import subnet_state
from railgauge.node.system import fabric_outputs


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def outputs(limit_s: float = 20, **commands: Any) -> dict[str, dict[str, str]]:
    read = {f"{name}.txt": {"argv": argv, "good": [0]} for name, argv in commands.items()}
    return fabric_outputs.outputs(read, limit_s)


def test_a_text_comes_back_as_it_was_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"port {number}\n" for number in range(100_000))
    (tmp_path / "text").write_text(lines)
    commands = {"a.txt": {"argv": ["cat", str(tmp_path / "text")], "good": [0]}}
    words = ["x", "--output", str(tmp_path / "left"), "--read", json.dumps(commands)]
    monkeypatch.setattr(sys, "argv", words)
    assert fabric_outputs.main() == 0
    left = (tmp_path / "left").read_text()
    assert subnet_state.parse(left).texts == {"a.txt": lines}
    assert len(left) < len(lines) / 2


def test_a_node_that_does_not_read_runs_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "--output", str(tmp_path / "left")])
    assert fabric_outputs.main() == 0
    left = subnet_state.parse((tmp_path / "left").read_text())
    assert (left.texts, left.errors) == ({}, {})


def test_without_a_file_the_document_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = {"a.txt": {"argv": ["echo", "all"], "good": [0]}}
    monkeypatch.setattr(sys, "argv", ["x", "--read", json.dumps(commands)])
    assert fabric_outputs.main() == 0
    assert subnet_state.parse(capsys.readouterr().out).texts == {"a.txt": "all\n"}


def test_missing_rights_are_the_words_of_the_command(tmp_path: Path) -> None:
    without = program(tmp_path, "ibnetdiscover", 'echo "can\'t open MAD port" >&2; exit 255')
    read = outputs(a=[without])
    assert read["texts"] == {}
    assert read["errors"] == {"a.txt": f"{without}: exit code 255: can't open MAD port"}


def test_a_command_that_fails_or_is_not_there_hides_no_other(tmp_path: Path) -> None:
    good = program(tmp_path, "good", "echo all")
    read = outputs(a=["railgauge-no-such-program"], b=["false"], c=["true"], d=[good])
    assert list(read["texts"]) == ["d.txt"]
    assert read["errors"] == {
        "a.txt": "railgauge-no-such-program is not installed",
        "b.txt": "false: exit code 1",
        "c.txt": "true: exit code 0",
    }


def test_a_command_is_run_for_each_thing_that_another_one_lists() -> None:
    sminfo = {"argv": ["echo", "asked"], "good": [0], "each": ["a.txt", "LID ([0-9]+)"]}
    listed = {"argv": ["printf", "LID 9\nLID 1\nLID 9\n"], "good": [0]}
    read = fabric_outputs.outputs({"a.txt": listed, "b.txt": sminfo}, 20)
    left = json.dumps({"guids": [], **read})
    assert subnet_state.parse(left).texts["b.txt"] == "asked 9\nasked 1\n"
    read = fabric_outputs.outputs({"a.txt": {"argv": ["false"], "good": [0]}, "b.txt": sminfo}, 20)
    assert read["errors"]["b.txt"] == "echo asked: a.txt lists none to ask"


def test_another_good_exit_code_is_one(tmp_path: Path) -> None:
    found = program(tmp_path, "ibqueryerrors", "echo errors; exit 1")
    read = fabric_outputs.outputs({"a": {"argv": [found], "good": [0, 1]}}, 20)
    assert list(read["texts"]) == ["a"]


def test_all_commands_together_have_the_limit(tmp_path: Path) -> None:
    """What holds on to the output of a killed command, as below sudo, does not hold up the rest."""
    hangs = program(tmp_path, "hangs", "echo some; setsid sleep 30 & sleep 30")
    read = outputs(0.4, a=[hangs], b=[hangs])
    assert read["texts"] == {}
    assert "no end after" in read["errors"]["a.txt"] and "no end after" in read["errors"]["b.txt"]


def test_more_than_the_conductor_takes_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric_outputs, "_PACKED_BYTES", 40)
    read = outputs(a=["echo", "little"], b=["seq", "1000"])
    assert list(read["texts"]) == ["a.txt"]
    assert read["errors"] == {"b.txt": "seq 1000: 3893 bytes are too many to keep"}


def test_guids_are_those_of_the_own_hcas(tmp_path: Path) -> None:
    for name, text in (("mlx5_0", "0201:0000:0000:0030\n"), ("mlx5_1", "0:0\n"), ("odd", "")):
        (tmp_path / "class" / "infiniband" / name).mkdir(parents=True)
        (tmp_path / "class" / "infiniband" / name / "node_guid").write_text(text)
    assert fabric_outputs.guids(str(tmp_path)) == ["0x0201000000000030", "0x0000000000000000"]
    assert fabric_outputs.guids(str(tmp_path / "nothing")) == []
