"""A sweep's own rounds, simulated as for the figures: whom they confirm."""

from __future__ import annotations

import functools
import random

import pytest

from railgauge.systems.schema import Schedule
from railgauge.verdict.locating import End, Observation, locate
from tests import bench_locate, bench_swept, swept
from tests.bench_locate import Fabric, Faults, Outcome, Simulation

FABRIC = Fabric(16, 1, 4)


@functools.cache
def pools() -> dict[str, list[float]]:
    return {kind: bench_locate.pool(kind, 100_000) for kind in ("normal", "heavy")}


def of_seeds(count: int, model: str, fabric: Fabric, schedule: Schedule) -> list[Outcome]:
    return [
        outcome
        for noise in bench_locate.NOISES
        for outcome in bench_swept.campaigns(model, fabric, schedule, noise, range(count), pools())
    ]


@pytest.mark.parametrize(("model", "fabric", "schedule"), bench_swept.LINES)
def test_no_sweep_confirms_an_innocent(model: str, fabric: Fabric, schedule: Schedule) -> None:
    """Of a hundred seeds two do, where runs fail by themselves: docs/figures.md has them."""
    assert not [
        outcome.innocent for outcome in of_seeds(3, model, fabric, schedule) if outcome.innocent
    ]


def rounds(
    schedule: Schedule, faults: Faults, fabric: Fabric = FABRIC
) -> list[list[tuple[End, End]]]:
    """The places that a sweep measures, without noise."""
    sim = Simulation(fabric, faults, [0.0], 1, correlated=False)
    measured: list[list[tuple[End, End]]] = []

    def measure(places: list[tuple[End, End]], number: int) -> list[Observation]:
        assert number == len(measured)
        measured.append(places)
        return sim.measure(places, number)

    swept.sweep(measure, sim.leaves, schedule)
    return measured


@pytest.mark.parametrize(("schedule", "count"), [("neighbours", 2), ("cover", 3)])
def test_healthy_nodes_are_measured_in_the_rounds_of_the_schedule_alone(
    schedule: Schedule, count: int
) -> None:
    assert [len(places) for places in rounds(schedule, Faults())] == [8] * count


def test_who_was_good_with_nobody_meets_others_in_added_rounds() -> None:
    """n1 stands between two slow nodes in the ring of its leaf."""
    slow = {FABRIC.ends[0]: 0.3, FABRIC.ends[2]: 0.3}
    added = rounds("neighbours", Faults(ends=slow), Fabric(16, 1, 2))[2:]
    assert 1 <= len(added) <= 3
    assert any("n00001" in (a.node, b.node) for a, b in added[0])


@pytest.mark.parametrize("schedule", ["neighbours", "cover", "random"])
@pytest.mark.parametrize(("busy", "kind"), [(True, "load"), (False, "rail")])
def test_with_more_rounds_load_is_told_from_a_fault(
    schedule: Schedule, busy: bool, kind: str
) -> None:
    slow = {FABRIC.ends[5]: 0.3}
    sim = Simulation(FABRIC, Faults(busy=slow) if busy else Faults(ends=slow), [0.0], 1, False)
    evidence, _ = swept.sweep(sim.measure, sim.leaves, schedule, 12)
    (suspect,) = locate(evidence).suspects
    assert (suspect.kind, suspect.name, suspect.confirmed) == (kind, "n00005:mlx5_0", True)


def test_what_failed_is_measured_again() -> None:
    pair = frozenset(("n00004", "n00005"))
    added = rounds("neighbours", Faults(pairs={pair: 1.0}))[2:]
    assert any({a.node, b.node} == pair for a, b in added[0])


def test_an_uplink_takes_one_of_four_flows_or_two_of_three_runs_of_four() -> None:
    fabric = Fabric(128, 1, 2)
    half = len(fabric.ends) // 2
    places = list(zip(fabric.ends[:half], fabric.ends[half:], strict=True))
    for flows, share in ((1, 0.25), (4, 0.68)):
        faults, _ = bench_swept.uplink_of_four(flows)(fabric, fabric.ends, random.Random(1))
        sim = Simulation(fabric, faults, [0.0], 1, correlated=False)
        slow = sum(
            (o.value or 0.0) < 48 for number in range(20) for o in sim.measure(places, number)
        )
        assert slow / (20 * len(places)) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(
    "fabric", [Fabric(32, 1, 4), Fabric(128, 1, 8)], ids=lambda fabric: f"{fabric.nodes} nodes"
)
def test_an_uplink_that_most_flows_of_a_leaf_meet_is_confirmed(fabric: Fabric) -> None:
    """Two in three of its runs are bad, of some nodes all: as if these were slow one way each."""
    found = of_seeds(4, "one lossy uplink of 4, runs of 4 flows", fabric, "cover")
    assert [outcome.found is not None for outcome in found] == [True] * len(found)
