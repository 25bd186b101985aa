"""`railgauge doctor`, as typed: what is there, what is missing, and no secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from railgauge import paths
from railgauge.cli import cli
from railgauge.common.errors import PrerequisiteError
from railgauge.site import doctor as examining
from railgauge.slurm import client
from tests.command_line import invoke
from tests.unit.report.feeds.test_schemas import require


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A login node of eth400g with Slurm's commands, which answer; its folder of programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "sinfo", "sbatch", "scontrol", "sacct"):
        (programs / name).write_text("#!/bin/sh\necho slurm-wlm 24.11.5\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("RFM_SYSTEM", "eth400g")
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(examining.run, "gate_rights", lambda _: [])
    return programs


def typed(*words: str) -> Result:
    return invoke(cli, ["doctor", *words])


def document() -> Any:
    result = typed("--json")
    assert result.stdout, result.exception
    return json.loads(result.stdout)


def line(thing: str) -> Any:
    (found,) = [one for one in document()["lines"] if one["thing"] == thing]
    return found


def test_a_host_that_has_all_has_no_problem(host: Path) -> None:
    found = document()
    require("doctor", found)
    assert [one for one in found["lines"] if one["status"] == "problem"] == []
    assert not found["problems"] and typed().exit_code == 0


def test_a_missing_program_is_a_problem(host: Path) -> None:
    (host / "sacct").unlink()
    found = line("programs")
    assert found["status"] == "problem" and found["text"].startswith("sacct is not on the path")
    assert typed().exit_code == 1


def test_a_slurm_that_does_not_answer_is_a_problem(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: str) -> str:
        raise client.SlurmError("Unable to contact slurm controller")

    monkeypatch.setattr(client, "output", silent)
    assert line("Slurm, accounting")["status"] == "problem"


def test_an_unknown_system_is_a_problem(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RFM_SYSTEM", "nowhere")
    found = line("system")
    assert found["status"] == "problem" and "'nowhere' is unknown" in found["text"]


def test_a_results_area_that_is_a_file_is_a_problem(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path / "file"))
    assert line("results area")["status"] == "problem"


def test_a_damaged_list_of_tools_is_a_problem(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path))
    (tmp_path / "eth400g").mkdir()
    (tmp_path / "eth400g" / "stack.json").write_text("[")
    assert line("stack")["status"] == "problem"


def test_nothing_is_made(host: Path, tmp_path: Path) -> None:
    typed()
    assert not (tmp_path / "results").exists()


def test_secrets_are_hidden(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", "eyJhbGciOiJIUzI1NiJ9.c2VjcmV0.c2VjcmV0")
    monkeypatch.setenv("RAILGAUGE_ON_VERDICT", "tell https://hooks.example.org/T0/B0/c2VjcmV0")
    monkeypatch.setenv("MY_OWN", "c2VjcmV0")
    shown = typed().stdout
    assert "c2VjcmV0" not in shown
    assert "RAILGAUGE_ON_VERDICT=tell https://hooks.example.org/(hidden)" in shown


def test_a_secret_in_a_message_is_hidden(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Path:
        words = "cannot mount //u@h with password=c2VjcmV0"
        raise PrerequisiteError(words, next_step="mount -o password=c2VjcmV0")

    monkeypatch.setattr(paths, "results_root", fails)
    shown = typed().stdout
    assert "cannot mount" in shown and "c2VjcmV0" not in shown


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        ("click==0.0.1 \\\n    --hash=sha256:00\n", ["click"]),
        ("no-such-package==1.0\n", []),
        ("click==0.0.1 ; python_version < '3'\nclick=={here} ; python_version >= '3'\n", []),
    ],
)
def test_a_package_with_another_version_than_its_pin_is_named(pins: str, words: list[str]) -> None:
    here = examining.importlib.metadata.version("click")
    found = examining.different_packages(pins.replace("{here}", here))
    assert [text.split()[0] for text in found] == words
