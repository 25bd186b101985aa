"""Where the forwarding tables are known: the next round crosses the links that may be at fault."""

from __future__ import annotations

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
    assert len({end for pair in plan for end in pair}) == 2 * len(plan)
    return [link_of(*pair) for pair in plan if LEAVES[pair[0]] != LEAVES[pair[1]]]


LOW_UP = [(0, 8), (1, 16)]
GOOD_UP = [(2, 9), (3, 17), (24, 10), (25, 18), (26, 11), (27, 19)]


def test_one_pair_crosses_the_link_that_low_pairs_have_in_common() -> None:
    # From leaf0 up to spine0, and down to two leaves; what goes by spine1 is good. Both may have
    # shared the link: one of them is measured again without the other.
    ways = planned(LOW_UP, GOOD_UP)
    assert [down for up, spine, down in ways if (up, spine) == ("leaf0", "spine0")] == ["leaf1"]


def test_no_two_pairs_of_a_round_share_a_link() -> None:
    """Pairs that share a link are both slow, however good it is."""
    ways = planned(LOW_UP[:1], GOOD_UP)
    assert len({(up, spine) for up, spine, _ in ways}) == len(ways) >= 6
    assert len({(spine, down) for _, spine, down in ways}) == len(ways)


def test_undirected_results_are_planned_without_links() -> None:
    evidence = Evidence(LEAVES, directed=False, routes=Routes(SPINES))
    evidence.add([Result(ENDS[0], ENDS[8], 50.0, 1), Result(ENDS[1], ENDS[9], 100.0, 1)])
    plain = Evidence(LEAVES, directed=False)
    plain.add([Result(ENDS[0], ENDS[8], 50.0, 1), Result(ENDS[1], ENDS[9], 100.0, 1)])
    assert next_round(evidence, locate(evidence), ENDS, 1) == next_round(
        plain, locate(plain), ENDS, 1
    )


def test_with_the_tables_of_opensm_a_slow_link_is_confirmed_by_round_4() -> None:
    fabric = folder.from_folder(bench_fabric.HOSTS64)
    seeds = range(1000, 1040)
    outcomes = [worlds.campaign(bench_fabric.world(fabric, seed, 6), seed) for seed in seeds]
    assert sum(outcome.found is not None and outcome.found <= 4 for outcome in outcomes) >= 38
    assert all(outcome.ends == outcome.others == [] for outcome in outcomes)


def test_a_node_whose_low_results_all_cross_one_link_is_not_confirmed() -> None:
    """Data of n00 for hosts with an even number goes by spine0, as that of n01 does."""
    evidence = Evidence(LEAVES, directed=True, routes=Routes(SPINES))
    low = [(0, 8), (0, 16), (0, 24), (0, 10)]
    good = [(a, b) for a in range(32) for b in (9, 17, 25, 3) if a // 8 != b // 8 and a]
    for number, (a, b) in enumerate(low):
        evidence.add([Result(ENDS[a], ENDS[b], 60.0, number)])
    for number, (a, b) in enumerate(good):
        evidence.add([Result(ENDS[a], ENDS[b], 100.0 + number % 3 / 10, number % 4)])
    assert locate(evidence).failing_nodes == []
    # With a low result within its leaf it is no link.
    evidence.add([Result(ENDS[0], ENDS[5], 60.0, 4), Result(ENDS[1], ENDS[4], 100.0, 4)])
    evidence.add([Result(ENDS[n], ENDS[n + 1], 100.0, 5) for n in range(8, 32, 2)])
    assert locate(evidence).failing_nodes == ["n00"]
