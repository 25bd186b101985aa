"""How far a check can be trusted, by what became of its alarms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from railgauge.campaign.folder import STANDING
from railgauge.cli import cli
from railgauge.cluster.store import Enforcement
from railgauge.gate import trust
from railgauge.gate.trust import Count
from railgauge.model.record import Standing, write_standings
from tests.command_line import invoke
from tests.unit.report.feeds.test_schemas import require
from tests.unit.widths import assert_fits


def standing(*checks: str, alarms: Mapping[str, bool] | None = None) -> Standing:
    return Standing(
        measured=True,
        outcome="not accepted" if alarms else "accepted",
        why="",
        checks=checks,
        rails={},
        fingerprint="f",
        alarms=dict(alarms or {}),
    )


GOOD = {"n1": standing("C")}
ALARM = {"n1": standing(alarms={"C": False})}
CONFIRMED = {"n1": standing(alarms={"C": True})}
UNJUDGED = {"n1": GOOD["n1"].model_copy(update={"alarms": None})}


@pytest.mark.parametrize(
    ("campaigns", "count"),
    [
        ([GOOD, GOOD], Count(tests=2)),
        ([ALARM], Count(tests=1, open=1)),
        ([ALARM, GOOD], Count(tests=2, false=1)),
        # A node that was held, tested again, repaired and accepted.
        ([ALARM, ALARM, GOOD], Count(tests=3, confirmed=2)),
        ([ALARM, ALARM, GOOD, ALARM, GOOD], Count(tests=5, confirmed=2, false=1)),
        ([CONFIRMED, GOOD], Count(tests=2, confirmed=1)),
        ([ALARM, CONFIRMED, GOOD], Count(tests=3, confirmed=2)),
        ([ALARM, UNJUDGED, GOOD], Count(tests=2, false=1)),
        ([ALARM, {"n2": GOOD["n1"]}], Count(tests=2, open=1)),
        ([ALARM, {"n1": standing("Other")}], Count(tests=1, open=1)),
    ],
)
def test_the_next_test_of_a_node_says_what_an_alarm_was(
    campaigns: list[Mapping[str, Standing]], count: Count
) -> None:
    assert trust.counts(campaigns)["C"] == count


def test_what_a_retest_cleared_is_counted_next_to_the_alarms() -> None:
    cleared = {"n1": GOOD["n1"].model_copy(update={"cleared": ("C",)})}
    count = trust.counts([cleared, GOOD, cleared])["C"]
    assert count == Count(tests=3, cleared=2) and count.alarms == 0
    assert trust.bounds(count) == trust.bounds(Count(tests=3))


def test_a_standing_that_was_written_before_is_read() -> None:
    older = GOOD["n1"].model_dump(mode="json")
    del older["cleared"]
    assert Standing.model_validate(older) == GOOD["n1"]


def test_what_nothing_judged_counts_for_nothing() -> None:
    assert trust.counts([UNJUDGED]) == {}


@given(st.integers(1, 20000), st.data())
def test_the_bounds_are_those_of_clopper_and_pearson(tests: int, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, min(tests, 50)))
    lower, upper = trust.bounds(Count(tests=tests, false=wrong))
    # At 90 % both sides together have what each has alone at 95 %.
    exact = stats.binomtest(wrong, tests).proportion_ci(0.90, "exact")
    assert (lower, upper) == pytest.approx((exact.low, exact.high), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("now", "count", "proposed"),
    [
        # 1 - 0.05 ** (1 / n) < 0.001
        ("record", Count(tests=2995), "hold"),
        ("record", Count(tests=2994), "record"),
        ("hold", Count(tests=100), "hold"),
        ("hold", Count(tests=1000, false=5), "comment"),
        ("comment", Count(tests=1000, false=5), "record"),
        ("record", Count(tests=1000, false=5), "record"),
        ("hold", Count(tests=3000, confirmed=40), "hold"),
        # What is open keeps a check from holding, and takes nothing from it.
        ("record", Count(tests=2995, open=1), "record"),
        ("hold", Count(tests=1000, open=5), "hold"),
    ],
)
def test_a_check_holds_when_it_is_surely_right(
    now: Enforcement, count: Count, proposed: Enforcement
) -> None:
    assert trust.propose(now, count) == proposed


@given(st.integers(0, 6000), st.integers(0, 5))
def test_so_many_node_tests_are_lacking_and_not_one_less(tests: int, wrong: int) -> None:
    count = Count(tests=max(tests, wrong), false=wrong)
    lacking = trust.lacking(count)

    def holds(more: int) -> bool:
        return trust.bounds(Count(tests=count.tests + more, false=wrong))[1] < trust.MOST_FALSE

    assert holds(lacking) and (lacking == 0 or not holds(lacking - 1))


def test_the_command_reports_and_proposes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    fleet = {f"n{i}": standing("Iperf2Pair", "Brandnew") for i in range(3000)}
    for name, standings in (
        ("20261101T120000Z-lab-000001", fleet),
        ("20261102T120000Z-lab-000002", {"n1": standing(alarms={"Iperf2Pair": False})}),
    ):
        (tmp_path / "campaigns" / name).mkdir(parents=True)
        write_standings(tmp_path / "campaigns" / name / STANDING, standings)
    answer = invoke(cli, ["gate", "trust", "--system", "lab"])
    assert answer.exit_code == 0, answer.output
    assert (
        "Brandnew: record -> hold: edit enforcement in configs/systems/lab/gate.yaml"
        in answer.output
    )
    assert_fits(answer.output)
    answer = invoke(cli, ["gate", "trust", "--system", "lab", "--json"])
    require("gate-trust", json.loads(answer.output))
    by_check = {one["check"]: one for one in json.loads(answer.output)["checks"]}
    assert by_check["Iperf2Pair"]["count"]["open"] == 1
    assert by_check["Iperf2Pair"]["proposed"] == "hold"
    assert by_check["NodeState"]["count"]["tests"] == 0
