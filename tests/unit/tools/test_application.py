"""A program of the site: its time counts where every run says that it came to its value."""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import systems
from railgauge.model.call import Call
from railgauge.tools import Completeness, ParseError, Reading, application
from railgauge.tools.application import Options, Output, Run
from tests.properties import tries

QUICK = settings(max_examples=tries(150))
DATA = Path(__file__).parents[2] / "data" / "application"

#: What rank 0 of four printed, and what is expected of it.
PHYML = DATA.joinpath("phyml-rank0.txt").read_text().partition("\n")[2]
(LAB,) = [p for p in systems.load("lab").partitions if p.name == "ns"]
assert LAB.extras.applications is not None
ASKED = LAB.extras.applications["phyml"]
EXPECTED = Options(
    "phyml",
    4,
    ASKED.converged.pattern,
    at_least=ASKED.converged.at_least,
    at_most=ASKED.converged.at_most,
    end=ASKED.end,
)

#: As MLPerf's programs print it, on any rank's standard error.
MLPERF = Options(
    "bert",
    2,
    '"key": "run_stop".*"status": "([a-z]+)"',
    equals="success",
    own_time="^RESULT,[^,]+,[^,]*,([0-9.]+),",
)
STOP = ':::MLLOG {"key": "run_stop", "metadata": {"step_num": 3072, "status": "success"}}\n'


def outputs(first: str = PHYML, others: str = "", ranks: int = 4) -> dict[int, Output]:
    return {rank: Output(others if rank else first) for rank in range(ranks)}


def calls(seconds: float = 2.0, ranks: int = 4, **changes: Any) -> list[Call]:
    ended = [Call("application", f"run1-rank{r}", r, f"n{r}", 0, seconds) for r in range(ranks)]
    return [dataclasses.replace(ended[0], **changes), *ended[1:]]


def run(seconds: float = 2.0, **changes: Any) -> Run:
    return Run(outputs(), calls(seconds, **changes))


def mlperf(seconds: str, wall: float = 60.0, err: str = STOP) -> Run:
    said = {0: Output(f"RESULT,bert,1,{seconds},me,now\n"), 1: Output("", err)}
    return Run(said, calls(wall, ranks=2))


def judged(*runs: Run, options: Options = EXPECTED) -> Reading:
    return application.read(runs, options)


# ---- the time ----


def test_the_fastest_and_the_slowest_run_are_dropped() -> None:
    reading = judged(*(run(seconds) for seconds in (3.0, 1.0, 2.0, 9.0, 4.0)))
    mean, *each = reading.measurements
    assert (mean.variable, mean.value, mean.unit, mean.samples) == ("application_time", 3.0, "s", 5)
    assert [(m.variable, m.value) for m in each] == [
        (f"application_time_run{number}", seconds)
        for number, seconds in enumerate((3.0, 1.0, 2.0, 9.0, 4.0), 1)
    ]
    assert reading.completeness is Completeness.PROVED


@QUICK
@given(st.lists(st.floats(min_value=0.001, max_value=1e6), min_size=3, max_size=20))
def test_the_olympic_mean_lies_between_the_runs_that_are_kept(times: list[float]) -> None:
    kept = sorted(times)[1:-1]
    mean = application.olympic_mean(times)
    assert mean == pytest.approx(statistics.fmean(kept))
    assert application.olympic_mean(list(reversed(times))) == mean


def test_a_run_lasts_as_long_as_its_slowest_rank() -> None:
    slow = [*calls(2.0)[:-1], dataclasses.replace(calls()[-1], seconds=7.0)]
    reading = judged(Run(outputs(), slow), run(8.0), run(1.0))
    assert reading.measurements[0].value == 7.0


def test_the_programs_own_time_stands_for_that_from_its_start_to_its_exit() -> None:
    reading = judged(*(mlperf(seconds) for seconds in ("51", "53", "50")), options=MLPERF)
    assert reading.ok and reading.measurements[0].value == 51.0


@pytest.mark.parametrize(("unit", "value"), [("s", 51.0), ("ms", 0.051), ("min", 3060.0)])
def test_the_programs_own_time_has_a_unit(unit: application.Unit, value: float) -> None:
    options = dataclasses.replace(MLPERF, unit=unit)
    reading = judged(*(mlperf("51", wall=4000) for _ in range(3)), options=options)
    assert reading.measurements[0].value == pytest.approx(value)


# ---- what lets none of it count ----


def changed(old: str, new: str) -> Run:
    assert old in PHYML
    return Run(outputs(PHYML.replace(old, new)), calls())


LIKELIHOOD = "-221.777524775129847967037"


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (changed(LIKELIHOOD, "-221.9"), "that it came to -221.9, expected at least -221.78"),
        (changed(LIKELIHOOD, "-221.7"), "expected at least -221.78 and at most -221.77"),
        (changed(LIKELIHOOD, "-..1"), "expected a finite number"),
        (changed("Log likelihood", "Log likeness"), "0 lines that state what it came to"),
        (Run(outputs(others=PHYML), calls()), "4 lines that state what it came to, expected 1"),
        (Run(outputs(PHYML.rstrip("\n")), calls()), "expected one like ^o+$, and whole"),
        (Run(outputs(PHYML + "Segmentation fault\n"), calls()), "the last line 'Segmentation"),
        (
            Run(outputs(), calls()[1:]),
            "exit lines of ranks [1, 2, 3], expected one of each, 0 to 3",
        ),
        (Run(outputs(), [*calls(), calls()[0]]), "exit lines of ranks [0, 0, 1, 2, 3]"),
        (Run({}, []), "exit lines of ranks []"),
        (run(exit_code=1), "ended with exit code 1"),
        (run(exit_code=None), "was killed"),
        (run(note="still running after 60.0 s, killed"), "still running"),
    ],
)
def test_one_bad_run_lets_none_count(bad: Run, says: str) -> None:
    reading = judged(run(), bad, run())
    assert not reading.ok and reading.measurements == ()
    assert reading.reason.startswith("run 2 of 3: ") and says in reading.reason


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (mlperf("61"), "a time of 61 s, expected no more than the 60 s"),
        (mlperf("0"), "a time of 0, expected more than 0"),
        (mlperf("1.2.3"), "expected a finite number"),
        (mlperf("50", err=STOP.replace("success", "aborted")), "came to 'aborted', expected 'suc"),
        (mlperf("50", err=STOP * 2), "2 lines that state what it came to"),
        (mlperf("50", err=STOP.rstrip("\n")), "found no end of line"),
        (mlperf("50,me,now\nRESULT,bert,1,40"), "2 lines that state its own time"),
    ],
)
def test_a_time_that_cannot_be_lets_none_count(bad: Run, says: str) -> None:
    reading = judged(mlperf("51"), bad, mlperf("52"), options=MLPERF)
    assert not reading.ok and says in reading.reason


def test_two_runs_have_no_olympic_mean() -> None:
    assert "expected 3 or more" in judged(run(), run()).reason


@QUICK
@given(st.integers(0, len(PHYML) - 1))
def test_no_truncation_of_an_output_passes(length: int) -> None:
    with pytest.raises(ParseError):
        application.parse(outputs(PHYML[:length]), EXPECTED)


@QUICK
@given(st.text(max_size=200), st.sampled_from(("out", "err")))
def test_any_other_text_is_no_result(text: str, kind: str) -> None:
    said = Output(text) if kind == "out" else Output("", text)
    with pytest.raises(ParseError):
        application.parse({0: said}, EXPECTED)


@QUICK
@given(st.integers(0, len(PHYML) - 1), st.characters(codec="utf-8"))
def test_a_character_that_is_another_is_refused_or_changes_no_value(at: int, other: str) -> None:
    said = outputs(PHYML[:at] + other + PHYML[at + 1 :])
    try:
        found = application.parse(said, EXPECTED)
    except ParseError:
        return
    assert float(found.values[0]) == pytest.approx(float(LIKELIHOOD), abs=0.01)


@QUICK
@given(st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=30)))
def test_unknown_lines_before_change_nothing(lines: list[str]) -> None:
    before = "".join(f"{line}\n" for line in lines if "likelihood" not in line)
    assert application.parse(outputs(before + PHYML), EXPECTED).values == (LIKELIHOOD,)
