"""Where the forwarding tables are known: the next round crosses the links that may be at fault."""

from __future__ import annotations

import pytest

from railgauge.fabric import folder
from railgauge.locating import End, Evidence, Result, Routes, locate
from railgauge.locating.plan import next_round
from tests import bench_fabric, worlds

#: Eight hosts a leaf. At every leaf, the data of hosts with an even number goes to spine0.
ENDS = [End(f"n{number:02d}") for number in range(32)]
LEAVES = {end: f"leaf{number // 8}" for number, end in enumerate(ENDS)}
SPINES: dict[tuple[str, ...], str] = {
    (f"leaf{leaf}", end.name): f"spine{number % 2}"
    for leaf in range(4)
    for number, end in enumerate(ENDS)
}


def link_of(sender: End, receiver: End) -> tuple[str, str, str]:
    """The leaf that data leaves, its spine, and the leaf that it enters."""
    return LEAVES[sender], SPINES[LEAVES[sender], receiver.name], LEAVES[receiver]


def planned(low: list[tuple[int, int]], good: list[tuple[int, int]]) -> list[tuple[str, str, str]]:
    """The ways of the second round between leaves, after one with these results."""
    evidence = Evidence(LEAVES, directed=True, routes=Routes(SPINES))
    pairs = [(pair, 50.0) for pair in low] + [(pair, 100.0) for pair in good]
    evidence.add(Result(ENDS[a], ENDS[b], value, 1) for (a, b), value in pairs)
    plan = next_round(evidence, locate(evidence), ENDS, 1)
    met = {(ENDS[a], ENDS[b]) for (a, b), _ in pairs}
    assert len({end for pair in plan for end in pair}) == 2 * len(plan)
    new = [pair for pair in plan if pair not in met and LEAVES[pair[0]] != LEAVES[pair[1]]]
    return [link_of(*pair) for pair in new]


def test_more_pairs_cross_the_link_that_low_pairs_have_in_common() -> None:
    # From leaf0 up to spine0, and down to two leaves; what goes by spine1 is good.
    ways = planned([(0, 8), (1, 16)], [(2, 9), (3, 17), (24, 10), (25, 18), (26, 11), (27, 19)])
    crossing = [down for up, spine, down in ways if (up, spine) == ("leaf0", "spine0")]
    assert len(crossing) >= 2
    # The third leaf tells leaf0's link up from the links down to the other two.
    assert "leaf3" in crossing


def test_a_link_down_is_crossed_from_other_leaves() -> None:
    ways = planned([(8, 0), (16, 2)], [(9, 1), (17, 3), (24, 10), (25, 18), (26, 11), (27, 19)])
    crossing = [up for up, spine, down in ways if (spine, down) == ("spine0", "leaf0")]
    assert "leaf3" in crossing


def test_undirected_results_are_planned_without_links() -> None:
    evidence = Evidence(LEAVES, directed=False, routes=Routes(SPINES))
    evidence.add([Result(ENDS[0], ENDS[8], 50.0, 1), Result(ENDS[1], ENDS[9], 100.0, 1)])
    plain = Evidence(LEAVES, directed=False)
    plain.add([Result(ENDS[0], ENDS[8], 50.0, 1), Result(ENDS[1], ENDS[9], 100.0, 1)])
    assert next_round(evidence, locate(evidence), ENDS, 1) == next_round(
        plain, locate(plain), ENDS, 1
    )


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_with_the_tables_of_opensm_a_slow_link_is_confirmed_by_round_4(seed: int) -> None:
    fabric = folder.from_folder(bench_fabric.HOSTS64)
    outcome = worlds.campaign(bench_fabric.world(fabric, seed, 6), seed)
    assert outcome.found is not None and outcome.found <= 4
    assert outcome.ends == [] and outcome.others == []
