"""`make soak`: what it counts, that it goes on where it broke off, and the load beside it."""

from __future__ import annotations

import sys
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
    code, seconds, said = soak.timed([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)
    assert (code, said) == (None, "") and seconds < 30


def test_the_load_ends_with_the_soak() -> None:
    with soak.loaded_core() as load:
        assert load.poll() is None
    assert load.poll() is not None


def test_mpi_is_started_as_the_labs_description_says() -> None:
    assert soak.mpi_environment()["OMPI_MCA_pml"] == "ucx"
