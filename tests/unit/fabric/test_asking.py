"""Only commands that read a subnet are run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.fabric import asking
from railgauge.fabric.folder import FabricError

FOLDER = paths.SOURCE / "railgauge" / "fabric"


def test_the_list_of_commands_is_this_one() -> None:
    """A further one is a decision: it must change nothing in a subnet."""
    assert set(asking.COMMANDS.values()) == {
        ("ibnetdiscover",),
        ("iblinkinfo", "-l"),
        ("ibqueryerrors", "--details", "--threshold-file", "/dev/null"),
        ("dump_fts",),
        ("saquery", "-s"),
        ("sminfo",),
    }


def test_no_other_module_starts_a_process() -> None:
    starting = [
        path.name
        for path in [*FOLDER.rglob("*.py"), paths.SOURCE / "railgauge" / "cli" / "fabric.py"]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) and any(a.name in ("subprocess", "os") for a in node.names)
    ]
    assert starting == ["asking.py"]


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_command_that_fails_says_how_to_give_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "ibnetdiscover", "echo 'can not open umad port' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FabricError, match="can not open umad port") as caught:
        asking.ask()
    assert "umad" in (caught.value.next_step or "")


def test_a_command_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FabricError, match="ibnetdiscover is not installed"):
        asking.ask()


def answer_all(folder: Path) -> None:
    for command in asking.COMMANDS.values():
        program(folder, command[0], 'echo "$@"; exit 0')


def test_each_subnet_manager_is_asked_by_its_lid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_all(tmp_path)
    lid = "echo EndPortLid.............."
    disabled = f"echo IsSMdisabled ports; {lid}5"
    program(tmp_path, "saquery", f"echo IsSM ports; {lid}9; {lid}1; echo; {disabled}")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asking.ask("mlx5_0:1")["sminfo.txt"] == "-C mlx5_0 -P 1 9\n-C mlx5_0 -P 1 1\n"


@pytest.mark.parametrize("script", ["exit 1", "echo none"])
def test_a_subnet_is_read_without_its_managers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    answer_all(tmp_path)
    program(tmp_path, "saquery", script)
    monkeypatch.setenv("PATH", str(tmp_path))
    texts = asking.ask()
    assert "sminfo.txt" not in texts and "dump_fts.txt" in texts


def test_errors_that_ibqueryerrors_found_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_all(tmp_path)
    program(tmp_path, "ibqueryerrors", "echo found; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    texts = asking.ask("mlx5_0:1")
    assert texts["ibqueryerrors.txt"] == "found\n"
    assert texts["iblinkinfo.txt"] == "-l -C mlx5_0 -P 1\n"


def test_a_prefix_and_a_port_leave_the_commands_as_they_are() -> None:
    made = asking.commands("mlx5_0:1", ["ssh", "sm1"])
    assert made.keys() == asking.COMMANDS.keys()
    for name, command in asking.COMMANDS.items():
        assert made[name].argv == ("ssh", "sm1", *command, "-C", "mlx5_0", "-P", "1")
    assert made["ibqueryerrors.txt"].good == (0, 1)
    assert made["dump_fts.txt"].good == (0,)
