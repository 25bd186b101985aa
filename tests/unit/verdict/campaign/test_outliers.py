"""Places that stand out among their peers in one campaign."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.outliers import outliers, outlying


def case(nodes: tuple[str, ...], value: float, metric: str = "bandwidth", **changes: str) -> Case:
    m = Measurement(metric, value, "iperf2", "tcp", "tcp", streams=4, nodes=nodes, **changes)
    row = Row(m, None, None)
    name = f"Iperf2Pair %pair=ns:{':'.join(nodes)}"
    return Case("Iperf2Pair", name, "ns", nodes, 0, "pass", "", (row,), (), Path("stage"))


def ring(values: list[float]) -> list[Case]:
    """Neighbours of n1, n2, ... : the first value is that of n1 and n2."""
    nodes = [f"n{number}" for number, _ in enumerate(values, start=1)]
    pairs = zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    return [case(pair, value) for pair, value in zip(pairs, values, strict=True)]


def named(cases: list[Case]) -> list[tuple[str, ...]]:
    return [outlier.nodes for outlier in outliers(cases)]


# ---- who is named ----


def test_the_node_that_slow_pairs_have_in_common_is_named() -> None:
    """n2 at 6 of 10 Gb/s passes a floor of 5; its peers have 9.8."""
    (found,) = outliers(ring([6.0, 6.1, 9.8, 9.75]))
    assert found.nodes == ("n2",)
    assert "6.1 Gb/s, -38% of the 9.775 that is the median of 4 nodes" in found.message


def test_a_slow_pair_of_nodes_that_do_well_elsewhere_is_named_as_a_pair() -> None:
    assert named(ring([9.8, 9.7, 6.0, 9.8, 9.75])) == [("n3", "n4")]


def test_a_pair_that_was_good_when_measured_again_stands_out_still() -> None:
    cases = ring([9.8, 9.7, 6.0, 9.8, 9.75])
    again = dataclasses.replace(case(("n3", "n4"), 9.8), repeats="n3:n4")
    assert named([*cases, again]) == [("n3", "n4")]


def test_of_several_runs_the_worst_counts() -> None:
    """The pairs of n3 are slow in one run of three, and well in the others."""
    runs = [ring([9.8] * 6), ring([9.8, 6.0, 6.1, 9.8, 9.7, 9.8]), ring([9.7] * 6)]
    assert named([dataclasses.replace(c, run=n) for n, run in enumerate(runs) for c in run]) == [
        ("n3",)
    ]


def test_a_bad_moment_that_all_have_in_some_run_is_of_no_node() -> None:
    slow = [[6.0 if place == run else 9.8 for place in range(6)] for run in range(6)]
    cases = [dataclasses.replace(c, run=n) for n, run in enumerate(slow) for c in ring(run)]
    assert named(cases) == []


def test_a_node_that_does_better_than_the_others_does_not_stand_out() -> None:
    assert named(ring([9.8, 9.8, 2.0, 2.0, 2.1, 2.0, 2.1, 2.0])) == []


@pytest.mark.parametrize("values", [[9.8], [6.0, 9.8, 9.8]])
def test_of_fewer_than_four_nodes_none_stands_out(values: list[float]) -> None:
    assert named(ring(values)) == []


def test_rails_of_two_nodes_are_no_peers() -> None:
    cases = [case(("n1", "n2"), v, rails=f"{n}-{n}") for n, v in enumerate([9.8, 9.8, 9.8, 5.0])]
    assert named(cases) == []


def test_the_slow_rail_of_healthy_nodes_is_found() -> None:
    cases = [
        case((f"n{n}", f"n{n % 4 + 1}"), 5.0 if (n, rail) == (2, "1-1") else 24.4, rails=rail)
        for n in range(1, 5)
        for rail in ("0-0", "1-1")
    ]
    (found,) = outliers(cases)
    assert (found.nodes, found.measurement.rails) == (("n2", "n3"), "1-1")


def test_rails_across_are_another_condition() -> None:
    cases = [
        case((f"n{n}", f"n{n % 4 + 1}"), value, rails=rail)
        for n in range(1, 5)
        for rail, value in (("0-0", 24.4), ("0-1", 12.0))
    ]
    assert named(cases) == []


def test_a_noisy_system_asks_for_more() -> None:
    cases = ring([9.8, 9.7, 7.4, 9.8, 9.75])
    assert named(cases) == [("n3", "n4")]
    assert named([dataclasses.replace(c, peer_spread=0.1) for c in cases]) == []


def test_what_failed_is_reported_already() -> None:
    cases = ring([6.0, 6.1, 9.8, 9.75, 9.8])
    for number in (0, 1):
        cases[number] = dataclasses.replace(cases[number], result="fail")
    assert named(cases) == []


def test_what_is_only_recorded_is_not_compared() -> None:
    cases = ring([6.0, 6.1, 9.8, 9.75])
    recorded = [
        dataclasses.replace(c, rows=(dataclasses.replace(c.rows[0], gates=False),)) for c in cases
    ]
    assert named(recorded) == []


def test_counts_of_events_are_not_compared() -> None:
    cases = [case((f"n{n}",), value, "retransmits") for n, value in enumerate([0, 0, 0, 57])]
    assert named(cases) == []


# ---- the statistics ----

VALUES = st.dictionaries(st.integers(), st.floats(0.001, 1e6), min_size=4, max_size=40)


@given(VALUES, st.sampled_from(["more", "less"]))
def test_never_half_of_the_places_stand_out(values: dict[int, float], better: str) -> None:
    assert len(outlying(values, better, 0.05)) <= len(values) / 2  # type: ignore[arg-type]


@given(st.lists(st.floats(0.83, 1.0), min_size=4, max_size=40))
def test_places_within_a_sixth_of_each_other_never_stand_out(shares: list[float]) -> None:
    assert outlying(dict(enumerate(shares)), "more", 0.05) == []


@given(VALUES, st.floats(0.01, 100))
def test_the_unit_makes_no_difference(values: dict[int, float], factor: float) -> None:
    scaled = {place: value * factor for place, value in values.items()}
    assert len(outlying(values, "more", 0.05)) == pytest.approx(
        len(outlying(scaled, "more", 0.05)), abs=0
    )


def test_small_latencies_stand_out_on_the_other_side() -> None:
    values = {"a": 2.0, "b": 2.1, "c": 2.0, "d": 9.0, "e": 0.1}
    assert outlying(values, "less", 0.05) == ["d"]


def test_healthy_clusters_are_let_alone() -> None:
    """Simulated: 1,000 campaigns of 32 places at 3 % noise, one condition each."""
    generator = random.Random(11)
    flagged = sum(
        bool(outlying({n: generator.gauss(1, 0.03) for n in range(32)}, "more", 0.05))
        for _ in range(1000)
    )
    assert flagged == 0


def test_a_loss_of_a_quarter_is_found_in_noise() -> None:
    """Simulated: as above, with one place at three quarters."""
    generator = random.Random(11)
    found = 0
    for _ in range(1000):
        values = {n: generator.gauss(1, 0.03) for n in range(32)}
        found += outlying({**values, 0: values[0] * 0.75}, "more", 0.05) == [0]
    assert found > 950
