"""Healthy flows that meet on a link between leaves are low together, and accuse nothing."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.locating import End, Evidence, Located, Result, Routes, locate, sharing
from railgauge.locating.plan import next_round
from tests import worlds

ENDS = [End(f"n{number:02d}") for number in range(16)]
LEAVES = {end: f"leaf{number // 4}" for number, end in enumerate(ENDS)}


def result(a: int, b: int, value: float, number: int | None = 0) -> Result:
    return Result(ENDS[a], ENDS[b], value, number)


def evidence_of(*results: Result, routes: Routes | None = None, directed: bool = True) -> Evidence:
    evidence = Evidence(LEAVES, directed=directed, routes=routes)
    evidence.add(results)
    evidence.judge()
    return evidence


#: A round between leaves; 0 and 1 send to leaf1 and leaf2.
GOOD = [result(a, b, 100.0) for a, b in ((2, 12), (4, 13), (5, 8), (9, 6), (14, 10), (15, 7))]


def shared(*lows: Result, routes: Routes | None = None, directed: bool = True) -> set[int]:
    evidence = evidence_of(*GOOD, *lows, routes=routes, directed=directed)
    assert len(evidence.lows) == len(lows)
    return {number - len(GOOD) for number in evidence.shared}


def test_low_flows_that_leave_one_leaf_at_once_may_have_shared_a_link() -> None:
    assert shared(result(0, 4, 50.0), result(1, 11, 50.0)) == {0, 1}
    assert shared(result(4, 0, 50.0), result(11, 1, 50.0)) == {0, 1}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(result(9, 7, 50.0), id="other leaves"),
        pytest.param(result(8, 1, 50.0), id="the other way"),
        pytest.param(result(1, 11, 50.0, 1), id="another round"),
        pytest.param(result(1, 11, 50.0, None), id="no round"),
        pytest.param(result(1, 2, 50.0), id="within a leaf"),
    ],
)
def test_these_share_no_link_with_it(other: Result) -> None:
    first = result(0, 13, 50.0)
    evidence = evidence_of(*GOOD, first, other)
    assert evidence.shared == set()


def test_data_both_ways_takes_the_links_of_both_ways() -> None:
    lows = result(0, 13, 50.0), result(8, 1, 50.0)
    assert shared(*lows) == set()
    assert shared(*lows, directed=False) == {0, 1}


def test_routes_say_which_flows_share_a_link() -> None:
    def routes(*spines: str) -> Routes:
        return Routes(dict(zip((("leaf0", "n04"), ("leaf0", "n11")), spines, strict=True)))

    lows = result(0, 4, 50.0), result(1, 11, 50.0)
    assert shared(*lows, routes=routes("spine0", "spine0")) == {0, 1}
    assert shared(*lows, routes=routes("spine0", "spine1")) == set()


def test_a_good_result_clears_a_path_that_was_low_with_others() -> None:
    lows = [result(0, 4, 50.0, n) for n in (0, 1)] + [result(1, 11, 50.0, n) for n in (0, 1)]
    before = locate(evidence_of(*GOOD, *lows))
    assert {suspect.name for suspect in before.suspects} >= {"n00-n04"}
    after = locate(evidence_of(*GOOD, *lows, result(0, 4, 100.0, 2), result(1, 11, 100.0, 3)))
    assert after.suspects == ()


def test_low_pairs_that_may_have_shared_a_link_are_measured_one_at_a_time() -> None:
    evidence = evidence_of(*GOOD, result(0, 4, 50.0), result(1, 11, 50.0), result(3, 9, 50.0))
    for number in range(1, 4):
        plan = next_round(evidence, locate(evidence), ENDS, number)
        up = [(a, b) for a, b in plan if LEAVES[a] == "leaf0" != LEAVES[b]]
        assert len(up) == 1 and up[0][0] in (ENDS[0], ENDS[1], ENDS[3])
        assert sum(LEAVES[a] != LEAVES[b] == LEAVES[up[0][1]] for a, b in plan) == 1
        evidence.add(Result(a, b, 100.0, number) for a, b in plan)
    assert locate(evidence).suspects == ()


@given(st.data())
def test_a_low_result_without_another_low_one_shares_nothing(data: st.DataObject) -> None:
    """The count of those that share is that of flows with a common leaf and way in a round."""
    pairs = data.draw(
        st.lists(st.sampled_from(list(itertools.permutations(range(16), 2))), max_size=12)
    )
    results = [result(a, b, 1.0, data.draw(st.integers(0, 2))) for a, b in pairs]
    lows = {n for n in range(len(results)) if data.draw(st.booleans())}

    def links(ends: tuple[End, End]) -> tuple[sharing.Link, ...]:
        return sharing.links(ends, LEAVES, None, True)

    found = sharing.shared(results, lows, links)
    expected = {
        one
        for one, other in itertools.permutations(lows, 2)
        if results[one].round == results[other].round
        and not set(links(results[one].ends)).isdisjoint(links(results[other].ends))
    }
    assert found == expected


@pytest.mark.parametrize("name", [name for name in worlds.SHARING if "healthy" in name])
def test_a_healthy_fabric_whose_links_are_shared_is_not_accused(name: str) -> None:
    """Before, an uplink was confirmed in one of twenty such campaigns."""
    outcomes = [worlds.campaign(worlds.draw(name, seed), seed) for seed in range(7000, 7025)]
    assert all(outcome.ends == outcome.others == [] for outcome in outcomes)


def test_with_routes_a_slow_link_is_found_where_links_are_shared() -> None:
    name = "shared links, destination routes, a slow link, given"
    outcomes = [worlds.campaign(worlds.draw(name, seed), seed) for seed in range(7000, 7030)]
    assert all(outcome.ends == outcome.others == [] for outcome in outcomes)
    assert sum(outcome.of_others.confirmed for outcome in outcomes) >= 20


def test_a_leaf_with_few_low_paths_is_named_whichever_of_these_come_first() -> None:
    """Only 0 to 8, 1 to 12 and 3 to 4 have no node in common. Counted from the first low path on,
    0 to 4, there would be two, as of two slow nodes.
    """
    lows = [(0, 4), (0, 8), (1, 9), (1, 12), (2, 4), (3, 4)]
    good = [(0, 5), (0, 12), (1, 6), (1, 10), (2, 9), (2, 13), (3, 10), (3, 14)]
    back = [(a, b) for b, a in itertools.product(range(4), range(4, 16))]
    pairs = [(pair, 50.0) for pair in lows] + [(pair, 100.0) for pair in good + back]
    results = [result(*pair, value, number) for number, (pair, value) in enumerate(pairs)]
    suspects = locate(evidence_of(*results)).suspects
    assert [(s.kind, s.name, s.direction) for s in suspects] == [("uplink", "leaf0", "up")]


#: Mb/s of iperf2 in the lab, 2026-11-28 (`drill_locate --only uplinks`): four nodes of each of four
#: leaves, and leaf1's four uplinks are at 30 %. From round 3 on one of its pairs runs at a time.
ALL_UPLINKS = """
0 n18:n10 93.3 n20:n12 98.0 n9:n17 97.7 n11:n19 97.5 n25:n1 39.5 n2:n26 34.4 n4:n28 48.2 n27:n3 42.6
1 n26:n10 97.8 n28:n12 97.7 n2:n18 29.5 n17:n1 42.0 n4:n20 49.0 n9:n25 98.0 n11:n27 98.0 n19:n3 36.3
2 n3:n11 32.4 n25:n17 98.0 n27:n19 97.8 n18:n26 95.7 n20:n28 98.0 n10:n2 40.8 n12:n4 56.1 n1:n9 46.3
3 n3:n11 68.0 n17:n18 97.9 n19:n20 98.0 n25:n26 97.8 n27:n28 98.2 n1:n2 98.0 n12:n4 52.4 n10:n9 97.8
4 n12:n11 97.5 n25:n20 95.2 n17:n26 95.1 n18:n28 97.6 n10:n2 71.1 n3:n4 97.7 n1:n9 66.4
5 n25:n11 97.7 n18:n17 97.7 n2:n1 98.0 n4:n20 55.5 n9:n26 92.3 n10:n28 97.6 n19:n3 80.5
"""

#: The same of three leaves (`drill_locate --only uplinks-of-three`).
OF_THREE = """
0 n2:n10 36.3 n17:n11 97.8 n12:n18 98.0 n3:n19 41.4 n9:n1 17.2 n20:n4 50.8
1 n4:n12 38.4 n1:n17 44.9 n10:n20 98.0 n18:n2 54.3 n11:n3 51.7 n19:n9 95.2
2 n9:n10 97.3 n4:n12 81.1 n20:n17 97.5 n11:n19 98.0 n3:n1 97.5 n18:n2 74.7
3 n19:n10 98.0 n20:n12 98.0 n1:n17 83.8 n11:n3 78.7 n2:n4 98.1
"""


def recorded(table: str, rounds: Collection[int] = range(9)) -> tuple[list[End], Evidence]:
    results = [
        Result(*map(End, pair.split(":")), float(value) or None, int(number), "", 60.0)
        for number, *of_round in map(str.split, table.strip().splitlines())
        if int(number) in rounds
        for pair, value in zip(of_round[::2], of_round[1::2], strict=True)
    ]
    ends = sorted({end for one in results for end in one.ends}, key=lambda end: end.order)
    leaves = {end: f"leaf{(int(end.node[1:]) + 7) // 8}" for end in ends}
    evidence = Evidence(leaves, 0.04, 0.35, directed=True)
    evidence.add(results)
    return ends, evidence


def all_uplinks(rounds: set[int], table: str = ALL_UPLINKS) -> Located:
    return locate(recorded(table, rounds)[1])


def test_a_leaf_with_all_pairs_slow_in_three_rounds_is_confirmed_though_one_alone_is_not_slow() -> (
    None
):
    (suspect,) = all_uplinks({*range(6)}).suspects
    assert (suspect.kind, suspect.name, suspect.confirmed) == ("uplink", "leaf1", True)


def test_a_leaf_with_all_pairs_slow_whenever_several_ran_is_suspected() -> None:
    (suspect,) = all_uplinks({*range(4)}, OF_THREE).suspects
    assert (suspect.kind, suspect.name, suspect.confirmed) == ("uplink", "leaf1", False)


@pytest.mark.parametrize("rounds", [{0, 1}, {1, 2}])
def test_a_leaf_that_was_low_in_two_rounds_is_not_confirmed(rounds: set[int]) -> None:
    (suspect,) = all_uplinks(rounds).suspects
    assert suspect.name == "leaf1" and not suspect.confirmed


def test_a_larger_leaf_that_was_low_in_two_rounds_is_not_confirmed() -> None:
    """16 low results of two rounds, while nearly all others are good: two bad moments."""
    outcome = worlds.campaign(worlds.draw("a leaf low in a round", 9008), 9008)
    assert (outcome.ends, outcome.others) == ([], [])


#: As ALL_UPLINKS, of one slow uplink of leaf1 and the slow node n18 (2026-11-28, `drill_locate
#: --only uplink-and-node`); 0.0 is a failed pair.
UPLINK_AND_NODE = """
0 n18:n10 29.3 n20:n12 96.6 n9:n17 96.3 n11:n19 97.5 n25:n1 0.0 n2:n26 97.2 n4:n28 96.5 n27:n3 39.2
1 n26:n10 98.0 n28:n12 97.6 n2:n18 24.9 n17:n1 0.0 n4:n20 98.0 n9:n25 97.7 n11:n27 97.9 n19:n3 40.4
2 n3:n11 96.9 n25:n17 97.9 n27:n19 97.8 n18:n26 29.5 n20:n28 98.0 n10:n2 97.9 n12:n4 97.6 n1:n9 97.8
3 n25:n11 97.2 n26:n12 97.9 n20:n18 22.7 n17:n1 36.4 n4:n3 97.9 n28:n9 98.0
4 n18:n12 29.5 n25:n1 97.4 n17:n20 97.9 n28:n26 98.0 n10:n27 98.0 n2:n3 97.9 n11:n9 97.7
"""


def test_a_suspect_node_receives_from_a_new_one_where_its_leaf_sends_one_pair_alone() -> None:
    """n19 to n3 is measured alone, so n18 must not send over their leaf's uplinks. It has met n20
    already: that is half a witness.
    """
    ends, evidence = recorded(UPLINK_AND_NODE)
    pairs = next_round(evidence, locate(evidence), ends, 5)
    assert (End("n19"), End("n3")) in pairs
    (partner,) = (set(pair) - {End("n18")} for pair in pairs if End("n18") in pair)
    met = {end for one in evidence.results if End("n18") in one.ends for end in one.ends}
    assert partner.isdisjoint(met)


#: The same of one uplink, eight nodes a leaf (2026-11-28, `drill_locate --only uplink`).
UPLINK = """
0 n18:n10 97.8 n20:n12 97.8 n22:n14 95.1 n24:n16 97.8 n9:n17 97.6 n11:n19 97.9 n25:n1 97.3
0 n13:n21 97.4 n15:n23 97.7 n2:n26 97.4 n4:n28 0.0 n6:n30 97.7 n8:n32 38.4 n27:n3 97.2
0 n29:n5 0.0 n31:n7 0.0
1 n26:n10 93.0 n28:n12 97.5 n30:n14 95.7 n32:n16 97.6 n2:n18 0.0 n17:n1 95.9 n4:n20 0.0
1 n6:n22 94.4 n8:n24 0.0 n9:n25 96.5 n11:n27 96.8 n13:n29 98.0 n15:n31 96.4 n19:n3 0.0
1 n21:n5 53.2 n23:n7 97.8
2 n3:n11 0.0 n5:n13 0.0 n7:n15 0.0 n25:n17 98.2 n27:n19 98.0 n29:n21 95.1 n31:n23 94.2
2 n18:n26 93.8 n20:n28 95.8 n10:n2 0.0 n22:n30 97.7 n24:n32 94.0 n12:n4 0.0 n14:n6 96.0
2 n16:n8 97.7 n1:n9 0.0
3 n14:n11 97.3 n10:n13 97.6 n7:n15 0.0 n27:n18 94.4 n23:n19 96.3 n30:n20 97.9 n17:n22 97.7
3 n29:n24 97.8 n25:n28 96.9 n8:n2 98.2 n26:n32 97.1 n1:n3 93.8 n12:n4 96.9 n6:n5 93.7
3 n16:n9 97.8
4 n16:n11 98.0 n5:n13 97.9 n14:n15 97.9 n23:n18 97.2 n19:n20 96.9 n21:n24 97.5 n31:n25 97.6
4 n30:n27 97.8 n17:n28 97.6 n26:n29 97.9 n10:n2 39.0 n22:n32 97.8 n1:n4 97.8 n6:n7 98.0
4 n3:n8 97.7 n12:n9 97.7
"""


def test_a_leaf_that_is_slow_with_one_leaf_alone_is_measured_with_a_third_one_alone() -> None:
    """n7 to n15 and n10 to n2, on leaf1 and leaf2, were low alone. Each way of leaf1 gets one pair
    of another leaf. In the drill seven pairs met there, which said nothing.
    """
    ends, evidence = recorded(UPLINK)
    located = locate(evidence)
    assert [suspect.name for suspect in located.suspects] == ["leaf1"]
    leaf_of = evidence.leaf_of
    pairs = [(leaf_of[a], leaf_of[b]) for a, b in next_round(evidence, located, ends, 5)]
    assert [pair for pair in pairs if "leaf1" in pair and len({*pair}) > 1] in (
        [("leaf1", third), (fourth, "leaf1")]
        for third in ("leaf3", "leaf4")
        for fourth in ("leaf3", "leaf4")
    )


#: The same of a spine that loses 5 % at each leaf (2026-11-28, `drill_locate --only spine`).
SPINE = """
0 n18:n10 98.0 n20:n12 97.9 n9:n17 91.6 n11:n19 91.5 n25:n1 0.0 n2:n26 96.4 n4:n28 96.3
0 n27:n3 95.7
1 n26:n10 0.0 n28:n12 96.3 n2:n18 94.2 n17:n1 96.9 n4:n20 96.3 n9:n25 0.0 n11:n27 96.3
1 n19:n3 96.8
2 n3:n11 0.0 n25:n17 91.1 n27:n19 0.0 n18:n26 96.2 n20:n28 97.1 n10:n2 91.2 n12:n4 97.7
2 n1:n9 98.0
"""


def test_where_several_leaves_are_slow_pairs_within_leaves_are_measured() -> None:
    """Else nothing tells the fabric from its nodes: in the drill the spine was not named though the
    switches counted errors there alone.
    """
    ends, evidence = recorded(SPINE)
    leaf_of = evidence.leaf_of
    pairs = next_round(evidence, locate(evidence), ends, 3)
    within = [pair for pair in pairs if leaf_of[pair[0]] == leaf_of[pair[1]]]
    assert len({leaf_of[a] for a, _ in within}) >= 3


#: Another run of it: three paths of 28 between leaves are low whenever they are measured.
FEW_BEHIND_THE_SPINE = """
0 n18:n10 98.1 n20:n12 98.3 n9:n17 95.6 n11:n19 96.7 n25:n1 97.6 n2:n26 96.4 n4:n28 97.8
0 n27:n3 35.5
1 n26:n10 98.1 n28:n12 0.0 n2:n18 97.9 n17:n1 0.0 n4:n20 96.1 n9:n25 0.0 n11:n27 92.3
1 n19:n3 0.0
2 n3:n11 90.8 n25:n17 96.2 n27:n19 96.0 n18:n26 0.0 n20:n28 0.0 n10:n2 0.0 n12:n4 96.4
2 n1:n9 98.1
3 n10:n11 98.0 n20:n18 98.1 n17:n1 97.7 n28:n25 96.4 n26:n27 97.6 n4:n2 95.1 n12:n9 98.0
4 n28:n12 0.0 n18:n17 97.3 n10:n20 96.0 n9:n25 96.8 n1:n26 96.4 n19:n3 97.9 n2:n4 96.3
5 n28:n12 0.0 n20:n17 97.9 n1:n19 96.7 n18:n26 96.1 n10:n2 0.0 n27:n3 96.4 n25:n4 97.8
5 n11:n9 98.0
"""


def test_three_low_paths_between_leaves_name_the_spine_that_counts_errors_at_every_leaf() -> None:
    """No pair, and it is not confirmed; without the counters no spine is named."""
    _, evidence = recorded(FEW_BEHIND_THE_SPINE)
    assert {suspect.kind for suspect in locate(evidence).suspects} == {"pair"}
    _, evidence = recorded(FEW_BEHIND_THE_SPINE)
    at = dict(enumerate((1348, 919, 744, 1450), start=1))
    evidence.uplink_events = {
        f"leaf{leaf}:spine{spine}": errors if spine == 2 else 0
        for leaf, errors in at.items()
        for spine in range(1, 5)
    }
    (suspect,) = locate(evidence).suspects
    assert (suspect.name, suspect.confirmed) == ("spine2", False)
