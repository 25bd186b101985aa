"""What must hold of any evidence, and how often healthy campaigns accuse."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import paths
from railgauge.locating import End, Evidence, Result, locate
from tests.properties import tries
from tests.unit.locating.campaigns import Fabric, heavy, located, normal, told

FAULTS = st.dictionaries(
    st.sampled_from(["n2", "n3", "n5", "n9", "n5-n6", "n11-n12"]),
    st.sampled_from([0.1, 0.3, 1.0]),
    max_size=3,
)
KINDS = st.sampled_from(["ring", "tournament"])


def campaign(kind: str, faults: dict[str, float], seed: int) -> tuple[Fabric, list[Result]]:
    fabric = Fabric(16, faults, seed=seed)
    return fabric, getattr(fabric, kind)()


@settings(max_examples=tries(60))
@given(KINDS, FAULTS, st.integers(0, 999))
def test_the_order_of_rows_makes_no_difference(
    kind: str, faults: dict[str, float], seed: int
) -> None:
    fabric, observations = campaign(kind, faults, seed)
    mixed = observations[:]
    random.Random(seed).shuffle(mixed)
    # Down to the last digit of a score, and to whom they are to be measured with.
    assert repr(located(fabric, mixed)) == repr(located(fabric, observations))


def test_no_hash_of_a_process_makes_a_difference() -> None:
    """Python draws another one for texts in every process, and with it the order of its sets."""

    def said(seed: str) -> str:
        command = [sys.executable, "-m", "tests.unit.locating.campaigns"]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            command, cwd=paths.HOME, env=environment, capture_output=True, text=True, check=True
        )
        return ran.stdout

    first, second, third = map(said, ("0", "1", "2"))
    assert first == second == third and "confirm" in first


@settings(max_examples=tries(60))
@given(KINDS, FAULTS, st.integers(0, 999))
def test_other_names_rename_the_suspects(kind: str, faults: dict[str, float], seed: int) -> None:
    fabric, observations = campaign(kind, faults, seed)
    # Backwards, so that no order of names survives.
    new = {f"n{number}": f"host{99 - number}" for number in range(1, 17)}
    renamed = [
        o._replace(sender=End(new[o.sender.node]), receiver=End(new[o.receiver.node]))
        for o in observations
    ]

    def parts(observations: list[Result], names: dict[str, str]) -> set[tuple[str, ...]]:
        return {
            (s.kind, str(s.confirmed), *sorted(names.get(node, node) for node in s.nodes))
            for s in located(fabric, observations).suspects
        }

    assert parts(observations, new) == parts(renamed, {})


@settings(max_examples=tries(60))
@given(KINDS, FAULTS, st.integers(0, 999), st.integers(1, 30))
def test_good_results_accuse_nobody_else(
    kind: str, faults: dict[str, float], seed: int, more: int
) -> None:
    """Those of healthy pairs on top: nobody is confirmed that is not at fault."""
    fabric, observations = campaign(kind, faults, seed)
    healthy = [f"n{number}" for number in (1, 4, 7, 8, 10, 13, 14, 15, 16)]
    chance = random.Random(seed)
    added = []
    for number in range(more):
        a, b = chance.sample(healthy, 2)
        added.append(fabric.measure(End(a), End(b), 100 + number))
    before = {s.name for s in located(fabric, observations).suspects if s.confirmed}
    after = {s.name for s in located(fabric, [*observations, *added]).suspects if s.confirmed}
    assert after <= before | set(faults)


@settings(max_examples=tries(60))
@given(FAULTS, st.integers(0, 999), st.floats(0.1, 1.0))
def test_missing_rows_confirm_nobody_healthy(
    faults: dict[str, float], seed: int, share: float
) -> None:
    fabric, observations = campaign("tournament", faults, seed)
    chance = random.Random(seed)
    left = [o for o in observations if chance.random() < share]
    confirmed = {s.name for s in located(fabric, left).suspects if s.confirmed}
    assert confirmed <= set(faults)


@settings(max_examples=tries(40))
@given(FAULTS, st.integers(0, 999), st.floats(1e-3, 1e3))
def test_the_unit_makes_no_difference(faults: dict[str, float], seed: int, factor: float) -> None:
    fabric, observations = campaign("tournament", faults, seed)
    scaled = [o._replace(value=None if o.value is None else o.value * factor) for o in observations]
    assert sorted(told(located(fabric, scaled))) == sorted(told(located(fabric, observations)))


@pytest.mark.parametrize("noise", [normal, heavy], ids=["normal", "heavy"])
@pytest.mark.parametrize("size", [6, 16, 40])
def test_healthy_campaigns_confirm_nobody(size: int, noise: object) -> None:
    accused = []
    for seed in range(100):
        fabric = Fabric(size, noise=noise, seed=seed)  # type: ignore[arg-type]
        for kind in (fabric.ring, lambda fabric=fabric: fabric.random_rounds(6)):
            accused += [s.name for s in located(fabric, kind()).suspects if s.confirmed]
    assert accused == []


def test_campaigns_without_results_accuse_nobody() -> None:
    assert told(locate(Evidence())) == []
