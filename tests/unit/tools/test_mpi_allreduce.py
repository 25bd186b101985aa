"""The MPI program of ours: the slowest rank's time, of one world, as asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.model.call import Call
from railgauge.tools import Completeness, ParseError, Reading, mpi_allreduce
from tests.properties import tries

QUICK = settings(max_examples=tries(150))
ASKED = mpi_allreduce.Options(ranks=2, size_bytes=65536, iterations=200)


def line(rank: int, seconds: str = "0.019323", world: int = 2) -> str:
    # As a run in the lab printed it.
    said = f"allreduce of 65536 bytes, 200 times: {seconds} s"
    return f"{said}, rank {rank} of {world} on n{rank + 1}\n"


def calls(**changes: Any) -> list[Call]:
    return [
        dataclasses.replace(Call("mpi_allreduce", f"alone{r}", r, f"n{r + 1}", 0, 0.4), **changes)
        for r in (0, 1)
    ]


def judged(first: str, second: str, **changes: Any) -> Reading:
    evidence = {"calls": calls(), "options": ASKED, **changes}
    return mpi_allreduce.read({0: first, 1: second}, **evidence)


def test_the_time_is_that_of_the_slowest_rank() -> None:
    reading = judged(line(0), line(1, "0.020001"))
    assert reading.completeness is Completeness.PROVED
    (measured,) = reading.measurements
    assert (measured.metric, measured.value, measured.unit) == ("mpi_time", 0.020001, "s")


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (line(0, world=1), line(0, world=1), "MPI numbered its ranks [0, 0], expected 0 to 1"),
        (line(0), "", "rank 1: whole output: found no line of a rank"),
        (line(0), line(1).strip(), "no end of line"),
        (line(0), line(1) * 2, "a second line"),
        (line(0, world=4), line(1), "in a world of 4"),
        (line(0), line(1).replace("200 times", "20 times"), "20 times 65536 bytes"),
        (line(0), line(1, "9.000000"), "the call of rank 0 took 0.400 s"),
    ],
)
def test_what_is_not_one_world_as_asked_is_refused(first: str, second: str, says: str) -> None:
    reading = judged(first, second)
    assert not reading.ok and says in reading.reason


@pytest.mark.parametrize("changes", [{"exit_code": 1}, {"exit_code": None}, {"note": "killed"}])
def test_a_rank_that_failed_is_refused(changes: dict[str, Any]) -> None:
    assert not judged(line(0), line(1), calls=calls(**changes)).ok


def test_without_every_exit_code_nothing_is_proved() -> None:
    reading = judged(line(0), line(1), calls=calls()[:1])
    assert reading.completeness is Completeness.UNKNOWN


@QUICK
@given(st.one_of(st.text(), st.builds(lambda n: line(0)[:n], st.integers(0, len(line(0)) - 1))))
def test_any_other_text_is_no_result(text: str) -> None:
    with pytest.raises(ParseError):
        mpi_allreduce.parse(text)
