"""`make soak`: what is good, what it counts, that it goes on where it broke off, and the load
next to it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import soak

GOOD = {"good": True, "exit_code": 0, "seconds": 2.0, "said": "ACCEPT"}
BAD = {"good": False, "exit_code": 1, "seconds": 4.0, "said": "REJECT 1 findings"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A soak of acceptances with these outcomes; its exit code, and how many were started."""
    results = tmp_path / "soak.jsonl"
    monkeypatch.setattr(soak, "timed", lambda *_, **__: (0, 0.0, ""))

    def start(*outcomes: dict[str, Any], accepts: int, options: tuple[str, ...] = ()) -> Any:
        left = list(outcomes)
        monkeypatch.setitem(soak.KINDS, "make accept", lambda: left.pop(0))
        words = [
            "soak",
            "--accepts",
            str(accepts),
            "--starts",
            "0",
            "--rdma",
            "0",
            "--results",
            str(results),
        ]
        monkeypatch.setattr(sys, "argv", [*words, *options])
        return soak.main(), len(outcomes) - len(left)

    return start


def test_a_failure_is_counted_and_fails_the_soak(run: Any, capsys: Any) -> None:
    assert run(GOOD, BAD, accepts=2) == (1, 2)
    assert "| make accept | 2 | 1 | 3.0 s | 2.0 to 4.0 |" in capsys.readouterr().out


def test_a_soak_that_broke_off_goes_on_where_it_was(run: Any) -> None:
    assert run(GOOD, accepts=1) == (0, 1)
    assert run(GOOD, GOOD, accepts=3) == (0, 2)
    assert run(GOOD, accepts=1, options=("--again",)) == (0, 1)


def test_a_failure_before_the_break_is_not_forgotten(run: Any) -> None:
    assert run(BAD, accepts=1) == (1, 1)
    assert run(GOOD, accepts=2) == (1, 1)


def test_what_hangs_is_no_success() -> None:
    code, seconds, said = soak.timed([sys.executable, "-c", "import time; time.sleep(600)"], 0.5)
    assert (code, said) == (None, "") and seconds < 300


def test_the_load_ends_with_the_soak() -> None:
    with soak.loaded_core() as load:
        assert load.poll() is None
    assert load.poll() is not None


def test_mpi_is_started_as_the_labs_description_says() -> None:
    assert soak.mpi_environment()["OMPI_MCA_pml"] == "ucx"


Acceptance = Callable[..., dict[str, Any]]


@pytest.fixture
def acceptance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Acceptance:
    """What an acceptance with this verdict, these suspects and this exit code comes to."""

    def run(*suspects: dict[str, Any], verdict: str = "accept", code: int = 0) -> dict[str, Any]:
        folder = tmp_path / "campaigns (soak)" / "0001"
        folder.mkdir(parents=True)
        written = {"verdict": verdict, "suspects": suspects}
        (folder / "verdict.json").write_text(json.dumps(written))
        output = f"lab up\n{verdict.upper()} 40 results  ({folder})\nThe lab is still up\n"
        monkeypatch.setattr(soak, "timed", lambda *_, **__: (code, 200.0, output))
        return soak.accept()

    return run


def accused(name: str, confirmed: bool = False) -> dict[str, Any]:
    return {"kind": "node", "name": name, "confirmed": confirmed}


def test_an_acceptance_that_accuses_no_node_is_good(acceptance: Acceptance) -> None:
    row = acceptance()
    assert (row["good"], row["accused"]) == (True, [])


def test_an_accusation_that_is_not_confirmed_is_none_the_less_one(acceptance: Acceptance) -> None:
    row = acceptance(accused("n2"))
    assert (row["good"], row["accused"]) == (False, ["node n2, not confirmed"])
    assert "accused: node n2, not confirmed" in row["said"]


@pytest.mark.parametrize(("verdict", "code"), [("reject", 1), ("accept", 1), ("reject", 0)])
def test_what_is_not_accepted_is_not_good(acceptance: Acceptance, verdict: str, code: int) -> None:
    assert not acceptance(verdict=verdict, code=code)["good"]


def test_an_acceptance_without_its_verdict_is_not_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = f"ACCEPT 40 results  ({tmp_path})\n"
    monkeypatch.setattr(soak, "timed", lambda *_, **__: (0, 200.0, output))
    assert not soak.accept()["good"]


def test_the_table_says_how_many_acceptances_accused_a_node(run: Any, capsys: Any) -> None:
    run({**GOOD, "accused": []}, {**BAD, "accused": ["node n2"]}, GOOD, accepts=3)
    assert "| make accept | 3 | 2 | 2.0 s | 2.0 to 4.0 | 1 of 2 |" in capsys.readouterr().out
