"""Holes in curves over message sizes: found where there is one, and never in a healthy curve."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.tools import nccl_tests
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.size_curves import dips, dips_at_places

KIB, MIB = 2**10, 2**20
DATA = Path(__file__).parents[3] / "data"

#: busbw of all_reduce of one H100 node, in GB/s, in place: Azure/AI-benchmarking-guide 8fd0c6e,
#: ND_H100_v5_results.md; sizes in MiB.
H100 = {
    size * MIB: value
    for size, value in (
        *((1, 43.70), (16, 234.45), (64, 361.78), (128, 400.61), (256, 423.38), (512, 438.46)),
        *((1024, 466.35), (2048, 472.36), (4096, 475.54), (8192, 478.87)),
    )
}


def ideal(best: float = 400.0, start_s: float = 40e-6, last: int = 34) -> dict[int, float]:
    """A rate in GB/s that rises with the size: a fixed time, and the bytes at the best rate."""
    return {2**k: 2**k / 1e9 / (start_s + 2**k / (best * 1e9)) for k in range(10, last)}


def holed(curve: Mapping[int, float], factor: float, *sizes: int) -> dict[int, float]:
    return {size: value * (factor if size in sizes else 1) for size, value in curve.items()}


# ---- what is found ----


def test_a_hole_at_64_mib_is_found_though_the_largest_size_is_fine() -> None:
    (dip,) = dips(holed(ideal(), 0.45, 64 * MIB))
    assert (dip.sizes_bytes, dip.left_bytes, dip.right_bytes) == ((64 * MIB,), 32 * MIB, 128 * MIB)
    assert dip.depth == pytest.approx(0.53, abs=0.01)


def test_a_hole_in_a_published_curve_is_found() -> None:
    assert [dip.sizes_bytes for dip in dips(holed(H100, 0.5, 256 * MIB))] == [(256 * MIB,)]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_wide_hole_is_found_as_one(width: int) -> None:
    sizes = tuple(64 * MIB * 2**place for place in range(width))
    assert [dip.sizes_bytes for dip in dips(holed(ideal(), 0.5, *sizes))] == [sizes]


def test_two_holes_are_two() -> None:
    found = dips(holed(ideal(), 0.4, 64 * MIB, 1024 * MIB))
    assert [dip.sizes_bytes for dip in found] == [(64 * MIB,), (1024 * MIB,)]


def test_a_hole_that_is_printed_as_zero_is_found() -> None:
    (dip,) = dips({**ideal(), 64 * MIB: 0.0})
    assert dip.sizes_bytes == (64 * MIB,) and dip.depth == pytest.approx(1)


@given(
    depth=st.floats(0.5, 1),
    place=st.integers(25, 32),
    best=st.floats(1, 2000),
    noise=st.lists(st.floats(-0.03, 0.03), min_size=24, max_size=24),
)
def test_a_deep_hole_is_found_whatever_the_curve_and_its_noise(
    depth: float, place: int, best: float, noise: list[float]
) -> None:
    # Where the fixed time no longer matters.
    curve = ideal(best, start_s=2**22 / (best * 1e9))
    jittered = {s: v * math.exp(n) for (s, v), n in zip(curve.items(), noise, strict=True)}
    found = dips(holed(jittered, 1 - depth, 2**place))
    assert [dip.sizes_bytes for dip in found] == [(2**place,)]


# ---- what is no dip ----


@given(
    best=st.floats(0.01, 5000),
    start_s=st.floats(1e-7, 1e-2),
    last=st.integers(16, 36),
    noise=st.lists(st.floats(-0.08, 0.08), min_size=26, max_size=26),
)
def test_a_smooth_noisy_curve_has_none(
    best: float, start_s: float, last: int, noise: list[float]
) -> None:
    curve = ideal(best, start_s, last)
    assert dips({s: v * math.exp(n) for (s, v), n in zip(curve.items(), noise, strict=False)}) == []


@given(st.lists(st.floats(0.001, 1e4), min_size=1, max_size=40))
def test_a_curve_that_only_rises_has_none_whatever_its_steps(values: list[float]) -> None:
    assert dips({2**k: value for k, value in enumerate(sorted(values))}) == []


@given(st.lists(st.floats(0.001, 1e4), min_size=1, max_size=40))
def test_a_curve_that_only_falls_has_none(values: list[float]) -> None:
    assert dips({2**k: v for k, v in enumerate(sorted(values, reverse=True))}) == []


@given(ll=st.integers(12, 24), start_s=st.floats(2e-5, 2e-4), share=st.floats(0.8, 1))
def test_a_switch_of_the_protocol_is_none(ll: int, start_s: float, share: float) -> None:
    """LL moves as many bytes of flags as of data, LL128 8 of 128 (NCCL, src/include/device.h). The
    switch to Simple may come so early that it costs a fifth.
    """
    curve = {}
    by_simple = False
    for size, simple in ideal(400, start_s).items():
        fast = ideal(400, 20e-6)[size] * (0.5 if size < 2**ll else 120 / 128)
        by_simple = by_simple or simple >= share * fast
        curve[size] = simple if by_simple else fast
    assert dips(curve) == []


def test_the_last_size_below_a_step_up_is_none() -> None:
    """It is 34 % below the line of its neighbours, and above the smaller one."""
    assert dips({MIB * 2**k: (150 if k < 7 else 390) * 1.01**k for k in range(14)}) == []


@given(st.dictionaries(st.integers(0, 2**40), st.floats(0, 1e9), max_size=40))
def test_no_curve_crashes_it_and_a_dip_is_below_both_neighbours(curve: dict[int, float]) -> None:
    for dip in dips(curve):
        sides = curve[dip.left_bytes], curve[dip.right_bytes]
        assert all(curve[size] < min(sides) for size in dip.sizes_bytes)
        assert dip.depth >= 0.3


@pytest.mark.parametrize("factor", [0.125, 8.0])
def test_the_unit_does_not_matter(factor: float) -> None:
    scaled = {s: v * factor for s, v in holed(ideal(), 0.45, 64 * MIB).items()}
    assert [dip.sizes_bytes for dip in dips(scaled)] == [(64 * MIB,)]


def test_the_first_and_the_last_size_have_one_neighbour() -> None:
    curve = {size: value for size, value in ideal().items() if size >= 32 * MIB}
    assert dips(holed(curve, 0.3, 32 * MIB)) == dips(holed(curve, 0.3, 2**33)) == []


def test_five_sizes_do_not_show_how_far_healthy_points_lie_apart() -> None:
    assert dips({MIB * 2**k: (100.0 if k == 2 else 390.0) for k in range(5)}) == []


def test_small_messages_are_not_judged() -> None:
    assert dips(holed(ideal(), 0.2, 64 * KIB)) == []


def test_a_curve_that_jitters_everywhere_has_none() -> None:
    values = [300, 390, 240, 380, 220, 390, 260, 370, 230, 390, 250, 380]
    assert dips({MIB * 2**k: float(value) for k, value in enumerate(values)}) == []


def test_a_system_with_larger_differences_asks_for_a_deeper_hole() -> None:
    curve = holed(ideal(), 0.55, 64 * MIB)
    assert dips(curve) and not dips(curve, peer_spread=0.2)


def outputs() -> list[Path]:
    found = [*DATA.glob("nccl-tests/*"), *DATA.glob("gpu/runs/*/out"), *DATA.glob("misread/*")]
    return sorted(path for path in found if path.is_file())


@pytest.mark.parametrize("path", outputs(), ids=lambda path: str(path.relative_to(DATA)))
def test_no_recorded_output_has_a_dip(path: Path) -> None:
    reading = nccl_tests.read({0: path.read_text(errors="replace")})
    assert dips_at_places([case(reading.measurements)]) == []


def test_healthy_curves_of_several_percent_noise_never_have_one() -> None:
    """2,000 curves with steps, both halves with 5 % of normal noise: no false alarm."""
    rng = random.Random(49)
    for _ in range(2000):
        ll = 2 ** rng.randint(10, 24)
        base = {
            size: value * (0.5 if size < ll else 1)
            for size, value in ideal(rng.uniform(20, 800), rng.uniform(2e-5, 6e-5)).items()
        }
        halves = [
            {size: value * math.exp(rng.gauss(0, 0.05)) for size, value in base.items()}
            for _ in range(2)
        ]
        assert dips_at_places([case(of_curve(*halves))]) == []


# ---- in a campaign ----


def of_curve(
    out_of_place: Mapping[int, float], in_place: Mapping[int, float] | None = None
) -> list[Measurement]:
    named = {"busbw": out_of_place, "busbw_in_place": in_place or {}}
    return [
        Measurement(metric, value, "nccl-tests", "all_reduce", "ib", size_bytes=size, ranks=16)
        for metric, curve in named.items()
        for size, value in curve.items()
    ]


def case(measurements: list[Measurement] | tuple[Measurement, ...], *nodes: str) -> Case:
    nodes = nodes or ("n1", "n2")
    rows = tuple(
        Row(dataclasses.replace(m, nodes=nodes), None, None, gates=False) for m in measurements
    )
    name, place = f"Nccl {':'.join(nodes)}", ":".join(nodes)
    return Case("Nccl", name, "gpu", nodes, 0, "pass", "", rows, (), None, place=place)


def test_a_hole_in_both_halves_is_named_with_its_numbers_and_nodes() -> None:
    hole = holed(ideal(), 0.45, 64 * MIB)
    (found,) = dips_at_places([case(of_curve(hole, hole))])
    assert found.nodes == ("n1", "n2")
    assert found.message == (
        "busbw of all_reduce, ib, has a hole at 64 MiB: 145.3 GB/s at 64 MiB is 53% below the "
        "311.1 that 32 MiB and 128 MiB let expect, on n[1-2]"
    )


def test_a_disturbed_moment_of_one_half_is_none() -> None:
    hole = holed(ideal(), 0.45, 64 * MIB)
    assert dips_at_places([case(of_curve(hole, ideal()))]) == []
    assert dips_at_places([case(of_curve(ideal(), hole))]) == []


def test_where_one_half_was_measured_it_decides_alone() -> None:
    assert dips_at_places([case(of_curve(holed(ideal(), 0.45, 64 * MIB)))])


def test_the_same_hole_at_several_places_is_one_finding_of_all_their_nodes() -> None:
    shallow, deep = (of_curve(holed(ideal(), factor, 64 * MIB)) for factor in (0.5, 0.4))
    (found,) = dips_at_places([case(shallow), case(deep, "n3", "n4")])
    assert (found.nodes, found.places, found.case.nodes) == (
        ("n1", "n2", "n3", "n4"),
        2,
        ("n3", "n4"),
    )


def test_of_several_runs_one_with_a_hole_is_enough() -> None:
    runs = [case(of_curve(ideal())), case(of_curve(holed(ideal(), 0.4, 64 * MIB)))]
    (found,) = dips_at_places([dataclasses.replace(c, run=n) for n, c in enumerate(runs)])
    assert found.places == 1


def test_a_rate_of_messages_falls_with_the_size_and_has_none() -> None:
    hole = holed(ideal(), 0.45, 64 * MIB)
    rates = [
        dataclasses.replace(m, metric="message_rate") for m in of_curve(hole) if m.metric == "busbw"
    ]
    assert rates and dips_at_places([case(rates)]) == []


def test_the_curves_of_an_emulated_cluster_are_not_judged() -> None:
    hole = holed(ideal(), 0.45, 64 * MIB)
    emulated = dataclasses.replace(case(of_curve(hole, hole)), floors_suffice="shared cores")
    assert dips_at_places([emulated]) == []
