"""Who is named in campaigns with known faults: the culprit, and nobody else."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from railgauge.checks.framework.pairing import cover
from railgauge.locating import End, Evidence, Located, Result, locate, plan
from railgauge.locating.uplinks import by_counters, chance_of_share
from tests.unit.locating.campaigns import Fabric, Noise, heavy, located, normal, told

RAILS = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")

# ---- leaves of one rail each, known as sets ----


def of_rails(
    seed: int, at_leaf: int, is_bad: Callable[[int, int, int], bool], loss: float, sets: bool = True
) -> Located:
    """Eight rounds of 32 random pairs, four rails each; the leaves as sets, or each rail's own."""
    chance, nodes = random.Random(seed), list(range(32))

    def end(node: int, rail: int) -> End:
        return End(f"n{node:02}", RAILS[rail])

    rails = range(len(RAILS))
    leaves = {
        end(node, rail): f"l{node // at_leaf}" + ("" if sets else f"r{rail}")
        for node in nodes
        for rail in rails
    }
    observations = []
    for number in range(8):
        chance.shuffle(nodes)
        for (a, b), rail in itertools.product(zip(nodes[::2], nodes[1::2], strict=True), rails):
            value: float | None = chance.gauss(390, 3)
            if value and is_bad(a, b, rail):
                value = value * (1 - loss) or None
            observations.append(Result(end(a, rail), end(b, rail), value, number))
    evidence = Evidence(leaves)
    evidence.add(observations)
    return locate(evidence)


@pytest.mark.parametrize("at_leaf", [4, 8])
@pytest.mark.parametrize("loss", [0.1, 1.0])
@pytest.mark.parametrize("stays_good", [True, False], ids=["uplinks", "leaf"])
def test_the_leaf_of_one_rail_is_named_and_no_device_of_it(
    at_leaf: int, loss: float, stays_good: bool
) -> None:
    """Where each rail has leaves of its own, what Slurm's topology calls a leaf is a set of them:
    eight healthy NICs were confirmed for the uplinks of one.
    """

    def is_bad(a: int, b: int, rail: int) -> bool:
        there = [node // at_leaf == 2 for node in (a, b)]
        return rail == 1 and (there[0] != there[1] if stays_good else any(there))

    for seed, sets in itertools.product(range(4), (True, False)):
        found = of_rails(seed, at_leaf, is_bad, loss, sets)
        (suspect,) = found.suspects
        assert suspect.name == ("l2 rail mlx5_1" if sets else "l2r1")
        # With four nodes in 32 too few pairs may lie within it to tell it from its uplinks.
        kinds = {"uplink"} if stays_good else {"leaf"}
        assert suspect.kind in (kinds | {"leaf"} if at_leaf == 4 else kinds)
        assert suspect.confirmed and not found.failing_nodes
        assert {end.rail for end in suspect.ends} == {"mlx5_1"} and len(suspect.ends) == at_leaf


@pytest.mark.parametrize(
    "bad", [[(2, 0), (2, 1)], [(2, 1), (3, 0)], [(2, 1), (3, 1)], [(0, 0), (1, 1), (2, 2)]], ids=str
)
@pytest.mark.parametrize("loss", [0.1, 1.0])
def test_several_leaves_of_rails_are_each_named(bad: list[tuple[int, int]], loss: float) -> None:
    """Of one set, and of two; of one rail, and of two."""

    def is_bad(a: int, b: int, rail: int) -> bool:
        return any((node // 8, rail) in bad for node in (a, b))

    for seed in range(3):
        found = of_rails(seed, 8, is_bad, loss)
        assert {(s.name, s.confirmed) for s in found.suspects} == {
            (f"l{leaf} rail {RAILS[rail]}", True) for leaf, rail in bad
        }
        assert not found.failing_nodes


def test_a_bad_device_beside_the_leaf_of_another_rail_is_named_too() -> None:
    def is_bad(a: int, b: int, rail: int) -> bool:
        return (rail == 1 and 2 in (a // 8, b // 8)) or (rail == 0 and 31 in (a, b))

    for seed in range(3):
        found = of_rails(seed, 8, is_bad, 0.1)
        assert {(s.name, s.confirmed) for s in found.suspects} == {
            ("l2 rail mlx5_1", True),
            ("n31:mlx5_0", True),
        }


def test_of_two_sets_of_leaves_the_way_between_is_named_and_no_node() -> None:
    for seed in range(3):
        found = of_rails(seed, 16, lambda a, b, r: r == 1 and a // 16 != b // 16, 0.1)
        (suspect,) = found.suspects
        assert (suspect.kind, suspect.name) == ("uplink", "l0-l1 rail mlx5_1")
        assert not suspect.confirmed and not found.failing_nodes


@pytest.mark.parametrize("at_leaf", [4, 8])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_bad_devices_of_one_rail_at_one_leaf_are_named_and_not_the_leaf(
    at_leaf: int, count: int
) -> None:
    bad = range(2 * at_leaf, 2 * at_leaf + count)
    for seed in range(4):
        found = of_rails(seed, at_leaf, lambda a, b, r: r == 1 and (a in bad or b in bad), 0.1)
        rails = {s.name for s in found.suspects if s.kind == "rail"}
        assert rails and rails <= {f"n{node:02}:mlx5_1" for node in bad}
        assert not any(s.confirmed for s in found.suspects if s.kind != "rail")


# ---- rings of neighbours, as a sweep measures them ----


def test_a_slow_node_is_suspected_by_two_partners_that_are_good_with_others() -> None:
    fabric = Fabric(16, {"n2": 0.3})
    (suspect,) = located(fabric, fabric.ring()).suspects
    assert (suspect.kind, suspect.name, suspect.confirmed) == ("node", "n2", False)
    says = [(witness.a, witness.b, witness.says) for witness in suspect.evidence]
    assert ("n1", "n2", "convicts") in says and ("n2", "n3", "convicts") in says
    assert {"n1", "n3"} <= {name for a, b, kind in says if kind == "clears" for name in (a, b)}


def one_way(part: str, count: int, directed: bool = True) -> Evidence:
    """A ring at one leaf in which n2 is slow in one part, and the rounds that the planner adds."""
    noise, ends = random.Random(7), [End(f"n{number}") for number in range(count)]
    evidence = Evidence(dict.fromkeys(ends, "leaf1"), directed=directed)

    def measure(sender: End, receiver: End, number: int) -> None:
        slow = (sender if part == "sender" else receiver).node == "n2"
        value = 390.0 * (0.7 if slow else 1.0) * (1 + noise.gauss(0, 0.01))
        evidence.add([Result(sender, receiver, value, number)])

    for number, (one, other) in enumerate(zip(ends, [*ends[1:], ends[0]], strict=True)):
        measure(one, other, number % 2)
    for number in range(2, 8):
        for pair in plan.next_round(evidence, locate(evidence), ends, number, across=False):
            measure(*pair, number)
    return evidence


@pytest.mark.parametrize("count", [8, 16, 64])
@pytest.mark.parametrize("part", ["sender", "receiver"])
def test_a_node_that_is_slow_one_way_is_named_with_the_way(part: str, count: int) -> None:
    (suspect,) = locate(one_way(part, count)).suspects
    assert (suspect.kind, suspect.name, suspect.confirmed) == ("node", "n2", True)
    assert f"only as {part}" in suspect.why


def test_where_nobody_says_who_served_no_way_is_named() -> None:
    suspects = locate(one_way("receiver", 8, directed=False)).suspects
    assert suspects and not any(s.confirmed or "only as" in s.why for s in suspects)


def test_a_node_that_is_slow_both_ways_is_named_with_no_way() -> None:
    evidence = Evidence(directed=True)
    fabric = Fabric(16, {"n2": 0.3})
    evidence.add(fabric.ring())
    (suspect,) = locate(evidence).suspects
    assert suspect.only_as == ""


@pytest.mark.parametrize("loss", [0.3, 1.0])
@pytest.mark.parametrize("size", [6, 8, 16, 33])
def test_a_healthy_node_between_two_bad_ones_is_not_named(size: int, loss: float) -> None:
    fabric = Fabric(size, {"n2": loss, "n4": loss})
    assert sorted(told(located(fabric, fabric.ring()))) == ["node n2?", "node n4?"]


@pytest.mark.parametrize("bad", [(2, 4, 6), tuple(range(2, 26, 2)), tuple(range(2, 42, 2))])
@pytest.mark.parametrize("seed", [2, 4])
def test_healthy_nodes_between_many_bad_ones_are_not_named(bad: tuple[int, ...], seed: int) -> None:
    fabric = Fabric(160, {f"n{number}": 0.3 for number in bad}, seed=seed)
    assert {s.name for s in located(fabric, fabric.ring()).suspects} == {f"n{n}" for n in bad}


@pytest.mark.parametrize("loss", [0.3, 1.0])
def test_of_two_bad_neighbours_both_are_named_and_neither_is_confirmed(loss: float) -> None:
    """Each is bad with one partner that is good with others, and with the other."""
    fabric = Fabric(16, {"n2": loss, "n3": loss})
    assert sorted(told(located(fabric, fabric.ring()))) == ["node n2?", "node n3?"]


def test_one_bad_result_names_the_pair_and_what_would_confirm_it() -> None:
    fabric = Fabric(16, {"n2-n3": 0.3})
    (suspect,) = located(fabric, fabric.ring()).suspects
    assert (suspect.kind, suspect.name) == ("pair", "n2-n3")
    assert [(m.a, m.b) for m in suspect.confirm] == [("n2", "n3")]


def test_a_node_with_one_partner_is_not_told_from_the_way_to_it() -> None:
    fabric = Fabric(16)
    observations = [o for o in fabric.ring() if "n16" not in (o.sender.node, o.receiver.node)]
    observations += [fabric.measure(End("n1"), End("n99"))._replace(value=None)]
    (suspect,) = located(fabric, observations).suspects
    assert (suspect.kind, suspect.name, suspect.confirmed) == ("pair", "n1-n99", False)
    assert suspect.confirm[0].a == "n99"


# ---- rails ----


def test_a_slow_rail_is_named_and_not_its_node() -> None:
    fabric = Fabric(16, {"n2:mlx5_3": 0.3}, rails=RAILS)
    assert told(located(fabric, fabric.ring())) == ["rail n2:mlx5_3?"]
    assert told(located(fabric, fabric.tournament())) == ["rail n2:mlx5_3"]


def test_a_node_of_which_all_rails_are_slow_is_named_as_a_node() -> None:
    fabric = Fabric(16, {"n2": 0.3}, rails=RAILS)
    assert told(located(fabric, fabric.ring())) == ["node n2?"]
    assert told(located(fabric, fabric.tournament())) == ["node n2"]


def test_two_slow_rails_of_two_nodes_are_named_each() -> None:
    fabric = Fabric(16, {"n2:mlx5_3": 0.3, "n9:mlx5_0": 0.1}, rails=RAILS)
    assert sorted(told(located(fabric, fabric.tournament()))) == [
        "rail n2:mlx5_3",
        "rail n9:mlx5_0",
    ]


def test_a_pair_that_is_slow_on_all_rails_is_one_suspect() -> None:
    fabric = Fabric(16, {"n2-n3": 0.3}, rails=RAILS)
    assert told(located(fabric, fabric.ring())) == ["pair n2-n3?"]


# ---- many rounds ----


@pytest.mark.parametrize("noise", [None, heavy], ids=["normal", "heavy"])
def test_a_loss_of_a_tenth_is_found_where_each_meets_each(noise: object) -> None:
    fabric = Fabric(32, {"n7": 0.1, "n8": 0.1}, **({"noise": noise} if noise else {}))
    confirmed = [s.name for s in located(fabric, fabric.tournament()).suspects if s.confirmed]
    assert sorted(confirmed) == ["n7", "n8"]


def test_a_pair_that_is_bad_each_time_and_good_elsewhere_is_confirmed() -> None:
    fabric = Fabric(16, {"n2-n3": 0.3})
    observations = fabric.tournament()
    observations += [fabric.measure(End("n2"), End("n3"), number) for number in range(15, 22)]
    assert told(located(fabric, observations)) == ["pair n2-n3"]


def test_a_pair_that_is_bad_three_times_is_not_confirmed_yet() -> None:
    """One of its ends, bad a fifth of the time, would be so in 4 % of such cases."""
    fabric = Fabric(16, {"n2-n3": 1})
    observations = fabric.tournament()
    observations += [fabric.measure(End("n2"), End("n3"), number) for number in (15, 16)]
    assert told(located(fabric, observations)) == ["pair n2-n3?"]


def test_a_pair_that_was_bad_once_and_good_later_is_let_alone() -> None:
    fabric = Fabric(16)
    observations = fabric.tournament()
    bad = fabric.measure(End("n2"), End("n3"), 15)._replace(value=None)
    again = fabric.measure(End("n2"), End("n3"), 16)
    result = located(fabric, [*observations, bad, again])
    assert told(result) == []
    assert result.unrepeated == ((End("n2"), End("n3")),)


# ---- leaves and uplinks ----


@pytest.mark.parametrize("kind", ["ring", "tournament"])
def test_a_leaf_of_which_all_is_slow_is_named_and_none_of_its_nodes(kind: str) -> None:
    fabric = Fabric(32, {"leaf2": 0.3}, per_leaf=8)
    (suspect,) = located(fabric, getattr(fabric, kind)()).suspects
    # In a ring only two nodes of it meet another leaf.
    assert (suspect.kind, suspect.name, suspect.confirmed) == ("leaf", "leaf2", kind != "ring")


def test_a_leaf_that_is_slow_only_to_others_has_a_bad_way_out() -> None:
    fabric = Fabric(32, {"leaf2>": 0.3}, per_leaf=8)
    assert told(located(fabric, fabric.tournament())) == ["uplink leaf2"]


def _lossy_uplink(fabric: Fabric, share: float) -> list[Result]:
    """A flow takes one of several uplinks at random."""
    return [
        o._replace(value=0.6 * o.value)
        if o.value
        and fabric.leaf(o.sender.node) != fabric.leaf(o.receiver.node)
        and "leaf2" in (fabric.leaf(o.sender.node), fabric.leaf(o.receiver.node))
        and fabric.chance.random() < share
        else o
        for o in fabric.tournament()
    ]


def test_a_lossy_uplink_of_several_is_named_to_the_leaf() -> None:
    fabric = Fabric(64, per_leaf=16)
    assert told(located(fabric, _lossy_uplink(fabric, 1 / 8))) == ["uplink leaf2"]


def test_a_switch_counter_names_the_uplink() -> None:
    fabric = Fabric(64, per_leaf=16)
    evidence = Evidence(fabric.leaves)
    evidence.add(_lossy_uplink(fabric, 1 / 8))
    evidence.uplink_events = {"leaf2:spine1": 5000, "leaf2:spine2": 3, "leaf1:spine1": 9000}
    assert told(locate(evidence)) == ["uplink leaf2:spine1"]


def _low_at_leaf1(leaves: int, rounds: int, again: int, lows: int) -> Located:
    """Each node of eight at a leaf meets one of another leaf in each round. Then so many flows of
    leaf1 are measured `again`. Some of all that it has fail, at each of its nodes in turn.
    """
    fabric = Fabric(8 * leaves, per_leaf=8)
    turning, places = list(range(1, leaves)), []
    for number in range(rounds):
        row = [0, *turning]
        for one, other in zip(row[: leaves // 2], reversed(row[leaves // 2 :]), strict=True):
            places += [(number, 8 * one + k, 8 * other + (k + number) % 8) for k in range(8)]
        turning = turning[1:] + turning[:1]
    here = [place for place in places if min(place[1:]) < 8]
    places += [(number + rounds, a, b) for number, a, b in here[:again]]
    here = [place for place in places if min(place[1:]) < 8]
    failed = {here[13 * k % len(here)] for k in range(lows)}
    ends = fabric.ends
    observations = [fabric.measure(ends[a], ends[b], number) for number, a, b in places]
    return located(
        fabric,
        [
            o._replace(value=None) if place in failed else o
            for place, o in zip(places, observations, strict=True)
        ],
    )


@pytest.mark.parametrize(
    ("leaves", "rounds", "again", "lows"),
    [(16, 16, 0, 5), (8, 14, 66, 7)],
    ids=["5 of 128 and 0 of 896", "7 of 178 and 0 of 336"],
)
def test_single_failures_that_share_a_leaf_by_chance_confirm_no_uplink(
    leaves: int, rounds: int, again: int, lows: int
) -> None:
    """That no flow fails elsewhere does not say how seldom one does by itself."""
    suspects = _low_at_leaf1(leaves, rounds, again, lows).suspects
    assert [suspect.name for suspect in suspects if suspect.confirmed] == []


@pytest.mark.parametrize("lows", [14, 18])
def test_many_failures_at_a_leaf_of_four_and_none_elsewhere_are_an_uplink(lows: int) -> None:
    """Of 72 flows, beside 72 others."""
    assert told(_low_at_leaf1(4, 9, 0, lows)) == ["uplink leaf1"]


def _one_of_four(fabric: Fabric, rounds: int) -> Evidence:
    """Random rounds; a quarter of all flows of leaf1 lose 40 %."""
    observations = fabric.random_rounds(rounds)
    for number, o in enumerate(observations):
        ends = {fabric.leaf(o.sender.node), fabric.leaf(o.receiver.node)}
        if o.value and len(ends) == 2 and "leaf1" in ends and fabric.chance.random() < 1 / 4:
            observations[number] = o._replace(value=0.6 * o.value)
    evidence = Evidence(fabric.leaves)
    evidence.add(observations)
    return evidence


@pytest.mark.parametrize(("size", "per_leaf", "rounds"), [(32, 8, 4), (16, 4, 4), (16, 4, 6)])
def test_a_node_whose_flows_all_took_the_bad_uplink_is_not_confirmed(
    size: int, per_leaf: int, rounds: int
) -> None:
    """With few others their rate of low results may be higher than it looks."""
    for seed in (12, 37, *range(100, 130)):
        evidence = _one_of_four(Fabric(size, per_leaf=per_leaf, seed=seed), rounds)
        assert locate(evidence).failing_nodes == [], seed


def test_a_node_that_is_always_low_is_not_hidden_by_a_bad_uplink_of_its_leaf() -> None:
    for seed in range(10):
        evidence = _one_of_four(Fabric(32, {"n3": 0.3}, per_leaf=8, seed=seed), 8)
        result = locate(evidence)
        named = {node for suspect in result.suspects for node in suspect.nodes}
        assert "n3" in named and set(result.failing_nodes) <= {"n3"}, told(result)
        assert any(s.kind == "node" and s.name == "n3" for s in result.suspects), told(result)


MB = 10**6
_EVEN = {f"leaf2:spine{number}": (300 * MB, 310 * MB) for number in (1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("carried", "named"),
    [
        ({"leaf2:spine3": (20 * MB, 15 * MB)}, "uplink leaf2:spine3"),
        ({"leaf2:spine3": (290 * MB, 15 * MB)}, "uplink leaf2:spine3"),
        ({"leaf2:spine3": (150 * MB, 160 * MB)}, "uplink leaf2"),
        ({"leaf2:spine3": (20 * MB, 310 * MB), "leaf2:spine1": (300 * MB, 9 * MB)}, "uplink leaf2"),
        ({"leaf2:spine3": (20 * MB, 9 * MB), "leaf2:spine1": (19 * MB, 10 * MB)}, "uplink leaf2"),
        ({}, "uplink leaf2"),
    ],
    ids=["starved", "one-way", "less", "each-way-another", "two", "even"],
)
def test_an_uplink_that_carried_far_less_than_all_others_is_named(
    carried: dict[str, tuple[int, int]], named: str
) -> None:
    fabric = Fabric(64, per_leaf=16)
    evidence = Evidence(fabric.leaves)
    evidence.add(_lossy_uplink(fabric, 1 / 8))
    assert told(locate(evidence)) == ["uplink leaf2"]
    evidence.uplink_bytes = {**_EVEN, **carried, "leaf1:spine2": (MB, MB)}
    evidence.uplink_flows = {"leaf2": (100, 90), "leaf1": (100, 90)}
    assert told(locate(evidence)) == [named]


@pytest.mark.parametrize(
    ("starved", "named"),
    [
        (("leaf1:spine3",), "uplink leaf2:spine3"),
        (("leaf1:spine2",), "uplink leaf2"),
        (("leaf1:spine3", "leaf3:spine3"), "uplink leaf2"),
    ],
    ids=["of the same spine", "of another spine", "of most leaves"],
)
def test_an_uplink_to_the_spine_of_a_slow_one_may_carry_less_too(
    starved: tuple[str, ...], named: str
) -> None:
    """The lab, 2026-11-28 (`drill_locate --only uplink`): leaf1:spine2 crawled, and leaf3:spine2
    received 7 % of what leaf3 did. By static paths it would be so at any spine, or at most leaves.
    """
    fabric = Fabric(64, per_leaf=16)
    evidence = Evidence(fabric.leaves)
    evidence.add(_lossy_uplink(fabric, 1 / 8))
    bytes_of = {
        f"leaf{leaf}:spine{spine}": (300 * MB, 310 * MB)
        for leaf in range(1, 5)
        for spine in range(1, 5)
    }
    slow = dict.fromkeys(("leaf2:spine3", *starved), (20 * MB, 15 * MB))
    evidence.uplink_bytes = {**bytes_of, **slow}
    evidence.uplink_flows = {f"leaf{leaf}": (100, 90) for leaf in range(1, 5)}
    assert told(locate(evidence)) == [named]


@pytest.mark.parametrize(
    ("mb", "named"), [(120, "uplink leaf2"), (90, "uplink leaf2:spine3")], ids=["less", "far less"]
)
def test_no_number_of_flows_makes_somewhat_less_far_less(mb: int, named: str) -> None:
    """Of 400 flows chance hardly leaves one of four uplinks less than an eighth."""
    fabric = Fabric(64, per_leaf=16)
    evidence = Evidence(fabric.leaves)
    evidence.add(_lossy_uplink(fabric, 1 / 8))
    evidence.uplink_bytes = {**_EVEN, "leaf2:spine3": (mb * MB, mb * MB)}
    evidence.uplink_flows = {"leaf2": (400, 400)}
    assert 8 * chance_of_share(120 / 1020, 400, 4) < 1e-3
    assert told(locate(evidence)) == [named]


@pytest.mark.parametrize(
    ("flows", "named"),
    [((8, 30), "leaf"), ((30, 8), "leaf"), ((34, 8), "uplink leaf2:spine3")],
    ids=str,
)
def test_of_few_flows_chance_may_have_left_an_uplink_without_one(
    flows: tuple[int, int], named: str
) -> None:
    """With four uplinks, 34 flows tell; and of the way on which it carried little."""
    fabric = Fabric(16, {"leaf2>": 0.3}, per_leaf=4)
    evidence = Evidence(fabric.leaves)
    evidence.uplink_flows = {"leaf2": flows}
    across = (
        o for o in fabric.tournament() if fabric.leaf(o.sender.node) != fabric.leaf(o.receiver.node)
    )
    evidence.add(itertools.islice(across, 60))
    evidence.uplink_bytes = {**_EVEN, "leaf2:spine3": (2 * MB, 310 * MB)}
    (said,) = told(locate(evidence))
    assert said.startswith(named)


@pytest.mark.parametrize("uplinks", [2, 4, 16])
@pytest.mark.parametrize("flows", [5, 30, 100, 400])
def test_chance_seldom_leaves_an_uplink_so_little(uplinks: int, flows: int) -> None:
    """A healthy leaf, both ways: all flows carry the same."""
    draw = random.Random(f"{uplinks} {flows}")
    evidence = Evidence({})
    evidence.uplink_flows = {"leaf1": (flows, flows)}
    named = 0
    for _ in range(1000):
        sent, received = (Counter(draw.choices(range(uplinks), k=flows)) for _ in range(2))
        evidence.uplink_bytes = {
            f"leaf1:spine{one}": (sent[one] * MB, received[one] * MB) for one in range(uplinks)
        }
        named += by_counters(evidence, "leaf1") != "leaf1"
    assert named <= 3


#: MB that each uplink carried in the lab, sent and received, and the flows of each leaf; the uplink
#: of leaf1 to spine2 has 2 % of its rate (2026-11-28, `drill_locate`).
_OF_16_NODES = (
    ((99.2, 130.3), (16.2, 9.8), (102.6, 142.4), (159.2, 133.1)),
    ((108.6, 95.2), (31.9, 25.3), (109.4, 103.1), (86.9, 111.3)),
    ((96.8, 105.6), (44.3, 58.1), (153.3, 104.3), (40.8, 68.6)),
    ((81.3, 54.8), (48.1, 46.0), (105.9, 121.5), (99.9, 73.8)),
)
_OF_32_NODES = (
    ((320.4, 423.6), (25.6, 26.8), (392.1, 319.9), (463.5, 527.1)),
    ((225.6, 212.9), (80.2, 118.4), (242.1, 305.5), (250.9, 243.9)),
    ((257.4, 254.1), (78.9, 98.6), (252.4, 216.4), (340.2, 305.5)),
    ((345.1, 257.9), (139.4, 76.9), (187.7, 232.5), (335.8, 314.0)),
)


@pytest.mark.parametrize(
    ("carried", "flows"),
    [
        pytest.param(
            _OF_16_NODES, ((36, 40), (32, 32), (32, 32), (32, 28)), id="little in each direction"
        ),
        pytest.param(
            _OF_32_NODES, ((116, 124), (76, 84), (88, 84), (96, 84)), id="others carry little there"
        ),
    ],
)
def test_the_starved_uplink_of_a_leaf_is_named(
    carried: tuple[tuple[tuple[float, float], ...], ...], flows: tuple[tuple[int, int], ...]
) -> None:
    """With 36 flows one direction alone may be chance; and most leaves carry little by the spine of
    the slow uplink, though far more than leaf1 does.
    """
    evidence = Evidence({})
    for leaf, (uplinks, of_leaf) in enumerate(zip(carried, flows, strict=True), start=1):
        evidence.uplink_flows[f"leaf{leaf}"] = of_leaf
        for spine, (sent, received) in enumerate(uplinks, start=1):
            both = round(sent * MB), round(received * MB)
            evidence.uplink_bytes[f"leaf{leaf}:spine{spine}"] = both
    assert by_counters(evidence, "leaf1") == "leaf1:spine2"
    assert by_counters(evidence, "leaf2") == "leaf2"


#: Mb/s of iperf2 in the lab, 2026-11-23 (`drill_locate --only lossy-uplink`): four nodes of each of
#: four leaves, and 20 % of the packets of leaf1:spine2 are lost.
LOSSY = """
0 n1:n25 - n10:n18 98.0 n12:n20 98.1 n17:n9 97.6 n19:n11 96.5 n26:n2 98.2 n28:n4 - n3:n27 98.0
1 n1:n17 - n10:n26 96.9 n12:n28 98.0 n18:n2 98.1 n20:n4 45.8 n25:n9 98.2 n27:n11 97.9 n3:n19 -
2 n11:n3 98.0 n17:n25 98.0 n19:n27 98.0 n2:n10 - n26:n18 97.9 n28:n20 97.9 n4:n12 - n9:n1 -
3 n1:n17 97.9 n20:n4 73.8
4 n25:n26 97.9 n4:n12 97.8
"""


def test_few_flows_of_a_lossy_uplink_name_its_leaf_and_accuse_no_node() -> None:
    """8 of the leaf's 15 are low and none of 13 others: little short of what confirms it."""
    rounds = [line.split() for line in LOSSY.strip().splitlines()]
    observations = [
        Result(
            *map(End, pair.split(":")),
            None if value == "-" else float(value),
            int(number),
            "",
            60.0,
        )
        for number, *of_round in rounds
        for pair, value in zip(of_round[::2], of_round[1::2], strict=True)
    ]
    nodes = {end for o in observations for end in o.ends}
    evidence = Evidence({end: f"leaf{(int(end.node[1:]) + 7) // 8}" for end in nodes})
    evidence.add(observations)
    (uplink,) = locate(evidence).suspects
    assert (uplink.kind, uplink.name, uplink.confirmed) == ("uplink", "leaf1", False)
    evidence.uplink_events = {"leaf1:spine1": 0, "leaf1:spine2": 900, "leaf1:spine3": 1}
    assert [suspect.name for suspect in locate(evidence).suspects] == ["leaf1:spine2"]


def _behind_a_lossy_spine(slow: dict[str, float], seed: int, rounds: int = 12) -> Evidence:
    """A quarter of all flows between leaves lose 40 %."""
    fabric = Fabric(32, slow, per_leaf=8, seed=seed)
    evidence = Evidence(fabric.leaves)
    evidence.add(
        o._replace(value=0.6 * o.value)
        if o.value
        and fabric.leaf(o.sender.node) != fabric.leaf(o.receiver.node)
        and fabric.chance.random() < 1 / 4
        else o
        for o in fabric.random_rounds(rounds)
    )
    return evidence


def _counted(*uplinks: str) -> dict[str, int]:
    """The errors of four leaves' uplinks to four spines, many at some."""
    every = [f"leaf{leaf}:spine{spine}" for leaf in range(1, 5) for spine in range(1, 5)]
    return {name: 900 if name in uplinks else len(name) % 3 for name in every}


SPINE2 = [f"leaf{leaf}:spine2" for leaf in range(1, 5)]


@pytest.mark.parametrize("slow", [{}, {"n3": 0.3}], ids=["alone", "and a node"])
def test_a_spine_is_named_by_its_uplinks_counters(slow: dict[str, float]) -> None:
    confirmed = 0
    for seed in range(20):
        evidence = _behind_a_lossy_spine(slow, seed)
        evidence.uplink_events = _counted(*SPINE2)
        result = locate(evidence)
        spine, *others = [s for s in result.suspects if s.kind == "uplink"]
        assert spine.name == "spine2" and not any(s.confirmed for s in others), seed
        assert set(result.failing_nodes) <= set(slow), seed
        confirmed += spine.confirmed
    assert confirmed >= 10


def test_few_flows_behind_a_spine_name_it_and_no_pair() -> None:
    confirmed = 0
    for seed in range(20):
        evidence = _behind_a_lossy_spine({}, seed, 6)
        evidence.uplink_events = _counted(*SPINE2)
        spine, *others = locate(evidence).suspects
        assert spine.name == "spine2" and not any(s.confirmed for s in others), seed
        confirmed += spine.confirmed
    assert confirmed >= 1


def test_what_hits_flows_of_all_leaves_is_no_spine_without_its_counters() -> None:
    """Nor by those of two leaves, or of another spine at each."""
    others = ["leaf1:spine1", "leaf2:spine2", "leaf3:spine3", "leaf4:spine4"]
    for seed in range(20):
        evidence = _behind_a_lossy_spine({}, seed)
        for uplinks in ((), SPINE2[:2], others):
            evidence.uplink_events = _counted(*uplinks)
            result = locate(evidence)
            assert not any(s.name.startswith("spine") for s in result.suspects), seed
            assert not any(s.confirmed for s in result.suspects), seed


def test_a_spines_counters_alone_accuse_nobody() -> None:
    """Its flows are as good as the others; and where as many are bad within leaves, it is not."""
    fabric = Fabric(32, per_leaf=8)
    evidence = Evidence(fabric.leaves)
    evidence.add(fabric.random_rounds(6))
    evidence.uplink_events = _counted(*SPINE2)
    assert told(locate(evidence)) == []
    everywhere = Evidence(fabric.leaves)
    everywhere.add(
        o._replace(value=0.6 * o.value) if o.value and fabric.chance.random() < 1 / 4 else o
        for o in fabric.random_rounds(6)
    )
    everywhere.uplink_events = _counted(*SPINE2)
    assert not any(s.kind == "uplink" for s in locate(everywhere).suspects)


def test_a_spine_is_not_confirmed_where_no_leaf_was_measured_within() -> None:
    evidence = _behind_a_lossy_spine({}, 1)
    between = [o for o in evidence.results if evidence.group(o.ends) == "between"]
    evidence = Evidence(evidence.leaves)
    evidence.add(between)
    evidence.uplink_events = _counted(*SPINE2)
    (spine,) = [s for s in locate(evidence).suspects if s.kind == "uplink"]
    assert (spine.name, spine.confirmed) == ("spine2", False)
    assert "nodes of one leaf with each other" in spine.confirm[0].words


def test_where_nothing_was_measured_within_a_leaf_counters_tell_it_from_its_uplink() -> None:
    fabric = Fabric(32, {"leaf2>": 0.3}, per_leaf=8)
    evidence = Evidence(fabric.leaves)
    evidence.add(
        o for o in fabric.tournament() if fabric.leaf(o.sender.node) != fabric.leaf(o.receiver.node)
    )
    assert told(locate(evidence)) == ["leaf leaf2"]
    evidence.uplink_bytes = {**_EVEN, "leaf2:spine3": (20 * MB, 15 * MB)}
    evidence.uplink_flows = {"leaf2": (100, 90)}
    assert told(locate(evidence)) == ["uplink leaf2:spine3"]


def test_of_two_uplinks_that_both_count_none_is_named() -> None:
    fabric = Fabric(64, per_leaf=16)
    evidence = Evidence(fabric.leaves)
    evidence.add(_lossy_uplink(fabric, 1 / 8))
    evidence.uplink_events = {"leaf2:spine1": 5000, "leaf2:spine2": 3000}
    assert told(locate(evidence)) == ["uplink leaf2"]


def test_two_uplinks_on_the_way_of_two_flows_do_not_convict_a_node() -> None:
    """Low twice, each time with another leaf: a partner at its own leaf tells."""
    fabric = Fabric(32, per_leaf=8)
    observations = fabric.random_rounds(2)
    low = [
        o._replace(value=12.0) if "n1" in (o.sender.node, o.receiver.node) else o
        for o in observations
    ]
    partners = [
        o.receiver.node if o.sender.node == "n1" else o.sender.node for o in low if o.value == 12.0
    ]
    assert {fabric.leaf(partner) for partner in partners}.isdisjoint({"leaf1"})
    assert told(located(fabric, low)) == ["node n1?"]


# ---- a leaf of three, which most values use ----


def _three_leaves(
    size: int = 4, slow: dict[str, float] | None = None, **noise: Any
) -> tuple[Fabric, list[list[tuple[str, str]]]]:
    """All ways between three leaves in each of two rounds, as `cover` has them."""
    fabric = Fabric(3 * size, slow or {}, per_leaf=size, **noise)
    names = fabric.names
    pairs = cover([names[:size], names[size : 2 * size], names[2 * size :]])
    half = len(pairs) // 2
    return fabric, [pairs[:half], pairs[half:]]


def _bounded(
    fabric: Fabric, rounds: Sequence[Sequence[tuple[str, str]]], bound: float, shift: float = 0
) -> list[Result]:
    """Measured with such a reference, the rate being 1; a leaf has a noise of its own a round."""
    found = []
    for number, pairs in enumerate(rounds):
        common = {leaf: fabric.chance.gauss(0, shift) for leaf in sorted(fabric.leaves.values())}
        for o in fabric.places(pairs, number):
            own = sum(common[fabric.leaf(end.node)] for end in o.ends)
            value = o.value * (1 - own) if o.value else None
            found.append(o._replace(value=value, bound=bound * fabric.rate))
    return found


@given(st.integers(0, 999), st.sampled_from([4, 8, 32]), st.sampled_from([0.3, 0.6]))
def test_a_slow_leaf_of_three_is_named_by_what_goes_between_the_others(
    seed: int, size: int, loss: float
) -> None:
    fabric, rounds = _three_leaves(size, {"leaf2>": loss}, seed=seed)
    # Of few nodes so few healthy flows might have met on one link.
    named = "leaf leaf2" if size == 32 else "leaf leaf2?"
    assert told(located(fabric, _bounded(fabric, rounds, 0.85))) == [named]


def test_a_way_out_whose_flows_differ_is_as_one_leaf() -> None:
    fabric, rounds = _three_leaves()
    observations = [
        o._replace(value=o.value * fabric.chance.uniform(0.33, 0.6))
        if o.value and "leaf1" in (fabric.leaf(o.sender.node), fabric.leaf(o.receiver.node))
        else o
        for o in _bounded(fabric, rounds, 0.65)
    ]
    # So few healthy flows might have met on one link.
    assert told(located(fabric, observations)) == ["leaf leaf1?"]
    more = [o._replace(round=2 * n + (o.round or 0)) for n in (1, 2) for o in observations]
    assert told(located(fabric, [*observations, *more])) == ["leaf leaf1"]


def _accused(
    seed: int, size: int, bound: float, noise: Noise, shift: float
) -> list[tuple[str, str, bool]]:
    """Leaves, uplinks, and whatever is confirmed, where nothing is wrong but the reference: kind,
    name, and whether it is confirmed.
    """
    fabric, rounds = _three_leaves(size, noise=noise, seed=seed)
    named = located(fabric, _bounded(fabric, rounds, bound, shift)).suspects
    return [
        (s.kind, s.name, s.confirmed) for s in named if s.kind in ("leaf", "uplink") or s.confirmed
    ]


@given(
    st.integers(0, 999),
    st.sampled_from([4, 6, 8, 32]),
    st.floats(0.98, 1.5),
    st.sampled_from([normal, heavy]),
)
def test_a_reference_that_is_too_high_makes_no_leaf_look_bad(
    seed: int, size: int, bound: float, noise: Noise
) -> None:
    assert _accused(seed, size, bound, noise, 0.0) == []


@given(
    st.integers(0, 999),
    st.sampled_from([4, 6, 8, 32]),
    st.floats(0.98, 1.5),
    st.sampled_from([normal, heavy]),
)
@example(seed=512, size=32, bound=1.0, noise=heavy)
@example(seed=891, size=32, bound=1.0, noise=heavy)
def test_leaves_that_differ_by_1_percent_a_round_are_never_confirmed(
    seed: int, size: int, bound: float, noise: Noise
) -> None:
    """Such a leaf is slower for a round. Heavy tails make it a suspect at most: more paths tell."""
    assert not any(confirmed for _, _, confirmed in _accused(seed, size, bound, noise, 0.01))


def test_leaves_that_differ_by_1_percent_a_round_are_rarely_suspected() -> None:
    """By references that half of the values are below; seeds 428 and 512 suspect an uplink."""
    seeds = range(400, 600)
    accused = [of for seed in seeds for of in _accused(seed, 32, 1.0, heavy, 0.01)]
    assert len(accused) <= 2 and {kind for kind, _, _ in accused} <= {"uplink"}


def test_leaves_that_each_differ_by_3_percent_a_round_are_rarely_accused() -> None:
    """A leaf that is low in both rounds by chance looks as one that is bad."""
    kinds = [(seed, size) for seed in range(250) for size in (4, 6, 8, 32)]
    accused = [of for seed, size in kinds for of in _accused(seed, size, 1.0, normal, 0.03)]
    assert len(accused) <= 20 and {kind for kind, _, _ in accused} <= {"leaf", "uplink"}


def test_what_slows_a_leaf_for_a_moment_is_no_uplink() -> None:
    """All of its flows of a round lost some percent, so that the half that chance made low is no
    uplink's: each seed was taken for one.
    """
    for seed, bound in ((241, 1.02), (257, 1.0), (257, 1.02)):
        assert _accused(seed, 32, bound, normal, 0.03) == []


@pytest.mark.parametrize("good", [0, 1, 2])
def test_two_slow_rounds_of_three_are_no_leafs(good: int) -> None:
    """Leaf by leaf, and a round without a leaf is the good one: so it may be the moment."""
    fabric = Fabric(12, per_leaf=4)
    names = fabric.names
    leaves = [names[:4], names[4:8], names[8:]]
    rounds = [list(zip(*two, strict=True)) for two in itertools.combinations(leaves, 2)]
    observations = [
        o if o.round == good or not o.value else o._replace(value=0.5 * o.value)
        for o in _bounded(fabric, rounds, 0.85)
    ]
    result = located(fabric, observations)
    assert told(result) == [] and result.no_evidence


# ---- what all share ----


def test_where_everything_is_slow_alike_nobody_is_named() -> None:
    fabric = Fabric(16, dict.fromkeys(Fabric(16).names, 0.4))
    assert told(located(fabric, fabric.ring())) == []


def test_a_round_that_is_slow_alike_accuses_nobody() -> None:
    fabric = Fabric(16)
    observations = [
        o._replace(value=0.8 * o.value) if o.round == 3 and o.value else o
        for o in fabric.tournament()
    ]
    result = located(fabric, observations)
    assert told(result) == [] and result.no_evidence


def test_where_every_run_failed_nobody_is_named() -> None:
    fabric = Fabric(8)
    result = located(fabric, [o._replace(value=None) for o in fabric.ring()])
    assert told(result) == [] and result.no_evidence


def test_a_reference_that_most_are_below_accuses_nobody() -> None:
    fabric = Fabric(16)
    result = located(fabric, [o._replace(bound=30.0) for o in fabric.ring()])
    assert told(result) == [] and result.no_evidence


def test_a_reference_tells_where_there_are_no_peers() -> None:
    low = Result(End("n1"), End("n2"), 12.0, bound=24.0)
    good = Result(End("n2"), End("n3"), 24.5, bound=24.0)
    more = Result(End("n3"), End("n4"), 24.4, bound=24.0)
    evidence = Evidence()
    evidence.add([low, good, more])
    assert told(locate(evidence)) == ["pair n1-n2?"]


def test_what_is_slow_only_when_others_are_busy_is_load() -> None:
    fabric = Fabric(16, {"n2": 0.3})
    observations = fabric.tournament()
    healthy = Fabric(16)
    quiet = [o._replace(quiet=True, round=100 + k) for k, o in enumerate(healthy.ring())]
    (suspect,) = located(fabric, [*observations, *quiet]).suspects
    assert (suspect.kind, suspect.name) == ("load", "n2")


# ---- what comes and goes ----


def _at_times(fabric: Fabric, rounds: int, present: tuple[int, ...]) -> list[Result]:
    return [
        o._replace(value=0.7 * o.value)
        if o.value and o.round in present and "n3" in (o.sender.node, o.receiver.node)
        else o
        for o in fabric.random_rounds(rounds)
    ]


def test_a_fault_that_comes_and_goes_is_suspected_and_not_confirmed() -> None:
    """A node that is good with most partners may have bad paths to the others."""
    fabric = Fabric(64)
    assert told(located(fabric, _at_times(fabric, 25, (3, 9, 14, 21)))) == ["node n3?"]


def test_one_low_result_among_many_good_ones_is_watched() -> None:
    fabric = Fabric(64)
    result = located(fabric, _at_times(fabric, 25, (3,)))
    assert "node n3" not in told(result)


def test_counters_of_errors_name_the_end_in_two_rounds() -> None:
    fabric = Fabric(64)
    observations = [
        o._replace(
            sender_events=int(o.sender.node == "n3"), receiver_events=int(o.receiver.node == "n3")
        )
        for o in fabric.random_rounds(3)
    ]
    (suspect,) = located(fabric, observations).suspects
    assert (suspect.kind, suspect.name, suspect.confirmed) == ("node", "n3", True)
    assert {witness.says for witness in suspect.evidence} == {"counter"}


def test_counters_that_move_everywhere_accuse_nobody() -> None:
    fabric = Fabric(64)
    observations = [o._replace(sender_events=3, receiver_events=2) for o in fabric.random_rounds(3)]
    assert told(located(fabric, observations)) == []


def test_healthy_parts_that_often_fail_by_themselves_are_not_convicted() -> None:
    """Behind a lossy spine one flow in sixteen is slow, whoever's it is."""
    fabric = Fabric(128)
    observations = [
        o._replace(value=0.6 * o.value) if o.value and fabric.chance.random() < 1 / 16 else o
        for o in fabric.random_rounds(12)
    ]
    confirmed = [s.name for s in located(fabric, observations).suspects if s.confirmed]
    assert confirmed == []


# ---- lists of nodes ----


def test_only_confirmed_nodes_fail() -> None:
    fabric = Fabric(16, {"n2": 0.3, "n8-n9": 0.3})
    result = located(fabric, fabric.tournament())
    assert result.failing_nodes == ["n2"]
    # Of the slow pair nobody knows who is at fault.
    assert set(result.nodes).difference(result.passing_nodes) == {"n2", "n8", "n9"}


def test_nobody_but_who_was_good_is_passing() -> None:
    """A healthy node between two slow ones is no suspect, and not known to be good."""
    fabric = Fabric(12, {"n2": 0.5, "n4": 0.5})
    result = located(fabric, fabric.ring())
    assert sorted(told(result)) == ["node n2?", "node n4?"]
    assert set(result.nodes).difference(result.passing_nodes) == {"n2", "n3", "n4"}
    assert result.unjudged == ()


def test_of_what_all_is_bad_nobody_is_passing() -> None:
    fabric = Fabric(8, {f"n{k}": 1.0 for k in range(1, 9)})
    result = located(fabric, fabric.tournament())
    assert told(result) == [] and result.passing_nodes == []
    assert result.unjudged == tuple(fabric.names)


def test_what_nothing_judges_is_not_passing() -> None:
    fabric = Fabric(4)
    two = [fabric.measure(End("n1"), End("n2"), 0), fabric.measure(End("n3"), End("n4"), 0)]
    assert located(fabric, two).unjudged == ("n1", "n2", "n3", "n4")
    assert located(fabric, two).passing_nodes == []
    known = [two[0]._replace(bound=20.0), two[1]._replace(bound=20.0)]
    assert located(fabric, known).passing_nodes == ["n1", "n2", "n3", "n4"]


def test_few_far_better_values_are_told_as_the_others_may_be_slow() -> None:
    fabric = Fabric(8, {f"n{k}": 0.5 for k in range(1, 6)})
    rounds = fabric.tournament()[:20]
    result = located(fabric, rounds)
    assert told(result) == []
    (why,) = result.no_evidence
    assert "of 20 values of a condition are far above the 12" in why


def test_a_result_is_shown_once_though_both_its_ends_are_at_the_leaf() -> None:
    fabric = Fabric(8, {"leaf1": 0.4}, per_leaf=4)
    for suspect in located(fabric, fabric.tournament()).suspects:
        shown = [(w.a, w.b, w.round, w.says) for w in suspect.evidence]
        assert len(shown) == len(set(shown))


# ---- one of four uplinks that loses packets, and what a sweep measures again ----

FOUR_LEAVES = {f"n{4 * leaf + number}": f"leaf{leaf}" for leaf in range(4) for number in range(4)}


def beyond_leaf0(seed: int, low: Callable[[random.Random, str, str], bool]) -> Located:
    """Each node once with each other leaf, then three rounds of the sweep's own choice."""
    chance, names = random.Random(seed), list(FOUR_LEAVES)
    leaves = {End(name): leaf for name, leaf in FOUR_LEAVES.items()}
    known, evidence = Evidence(leaves, directed=True), Evidence(leaves, directed=True)

    def measure(sender: End, receiver: End, number: int) -> None:
        bad = low(chance, sender.node, receiver.node)
        failed = bad and chance.random() < 0.5
        value = 97.8 * (0.4 if bad else 1.0) * (1 + chance.gauss(0, 0.005))
        known.add([Result(sender, receiver, None if bad else 1.0, number)])
        evidence.add([Result(sender, receiver, None if failed else value, number)])

    pairs = cover([names[at : at + 4] for at in range(0, 16, 4)])
    for place, (server, client) in enumerate(pairs):
        measure(End(client), End(server), place // 8)
    for number in range(1, 4):
        added = plan.added_round([known], list(leaves), number, 4 - number)
        for pair in added.pairs if added is not None and not added.quiet else ():
            measure(*pair, len(pairs) // 8 + number)
    return locate(evidence)


def uses_leaf0(server: str, client: str) -> bool:
    return "leaf0" in (FOUR_LEAVES[server], FOUR_LEAVES[client])


def test_where_most_flows_of_a_leaf_take_a_lossy_uplink_no_node_is_named() -> None:
    """Of four streams each, two in three pairs have one that takes it: some nodes have no other."""

    def lossy(chance: random.Random, server: str, client: str) -> bool:
        crosses = FOUR_LEAVES[server] != FOUR_LEAVES[client]
        return crosses and uses_leaf0(server, client) and chance.random() < 0.68

    found = [beyond_leaf0(seed, lossy).suspects for seed in range(40)]
    assert not [s.name for suspects in found for s in suspects if s.kind in ("node", "rail")]
    named = sum(any(s.name == "leaf0" and s.confirmed for s in suspects) for suspects in found)
    assert named >= 32


def test_a_leaf_that_is_slow_within_too_is_named_and_none_of_its_nodes() -> None:
    found = [beyond_leaf0(seed, lambda _, a, b: uses_leaf0(a, b)).suspects for seed in range(20)]
    assert {(s.kind, s.name, s.confirmed) for suspects in found for s in suspects} == {
        ("leaf", "leaf0", True)
    }


def test_a_bad_node_of_a_leaf_with_a_bad_uplink_is_confirmed_at_home() -> None:
    def low(chance: random.Random, server: str, client: str) -> bool:
        crosses = FOUR_LEAVES[server] != FOUR_LEAVES[client]
        on_it = crosses and uses_leaf0(server, client) and chance.random() < 0.25
        return on_it or "n3" in (server, client)

    found = [beyond_leaf0(seed, low).suspects for seed in range(40)]
    confirmed = [s.name for suspects in found for s in suspects if s.confirmed and s.kind == "node"]
    assert set(confirmed) == {"n3"} and len(confirmed) >= 5


def test_runs_that_fail_by_themselves_beside_a_bad_uplink_confirm_no_node() -> None:
    """The uplink explains the others, so that two of one node look like its own fault."""

    def low(chance: random.Random, server: str, client: str) -> bool:
        crosses = FOUR_LEAVES[server] != FOUR_LEAVES[client]
        on_it = crosses and uses_leaf0(server, client) and chance.random() < 0.9
        return on_it or chance.random() < 0.04

    found = [beyond_leaf0(seed, low) for seed in range(150)]
    assert not [node for result in found for node in result.failing_nodes]
    named = sum(any(s.name == "leaf0" and s.confirmed for s in f.suspects) for f in found)
    assert named >= 140


@pytest.mark.parametrize("count", [4, 6, 8])
def test_a_node_of_a_few_that_fails_most_of_the_time_is_confirmed(count: int) -> None:
    """Most of its paths are low in most of their repeats."""
    names = [f"n{number}" for number in range(count)]
    confirmed = []
    for seed in range(20):
        chance = random.Random(seed)
        observations = []
        for number in range(16):
            order = chance.sample(names, count)
            for a, b in zip(order[::2], order[1::2], strict=True):
                failed = "n0" in (a, b) and chance.random() < 0.8
                value = None if failed else 97.8 * (1 + chance.gauss(0, 0.005))
                observations.append(Result(End(a), End(b), value, number))
        evidence = Evidence()
        evidence.add(observations)
        confirmed += locate(evidence).failing_nodes
    assert set(confirmed) == {"n0"} and len(confirmed) >= 2


@pytest.mark.parametrize("seed", [2, 5, 8])
def test_what_is_low_for_a_moment_at_an_uplink_that_is_bad_names_no_pair(seed: int) -> None:
    """As in the drill of a lossy one: in one round all four flows between two leaves took it."""
    chance = random.Random(seed)
    ends = [End(f"n{number}") for number in range(16)]
    ways = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    observations = []
    for round in range(9):
        for one, other in ways[round % 3]:
            for number in range(4):
                a, b = ends[4 * one + number], ends[4 * other + (number + round // 3) % 4]
                value: float | None = 9.7 * (1 + chance.gauss(0, 0.005))
                if one == 0 and round != 4 and chance.random() < 0.3:
                    value = None
                if one == 0 and round == 3:
                    value = 9.7 * (0.45 + 0.1 * chance.random())
                observations.append(Result(a, b, value, round))
    evidence = Evidence({end: f"leaf{number // 4 + 1}" for number, end in enumerate(ends)})
    evidence.add(observations)
    (suspect,) = locate(evidence).suspects
    assert (suspect.kind, suspect.name, suspect.confirmed) == ("uplink", "leaf1", True)


#: (sender, receiver) of a drill's rounds; n2 and n3 of eight nodes were slow.
TWO_OF_EIGHT = (
    ((2, 1), (4, 3), (6, 5), (8, 7)),
    ((3, 2), (5, 4), (7, 6), (1, 8)),
    ((7, 1), (8, 2), (5, 3), (6, 4)),
    ((1, 5), (2, 6), (3, 7), (4, 8)),
    ((4, 2), (1, 3), (7, 5), (8, 6)),
)


def test_two_slow_nodes_of_eight_are_confirmed_though_each_makes_pairs_of_the_others_low() -> None:
    """What a node that is low with all explains is no usual share of low pairs."""
    evidence = Evidence(directed=True)
    evidence.add(
        Result(End(f"n{a}"), End(f"n{b}"), 0.0295 if {a, b} & {2, 3} else 0.0979, number)
        for number, pairs in enumerate(TWO_OF_EIGHT)
        for a, b in pairs
    )
    suspects = locate(evidence).suspects
    assert {(s.kind, s.name, s.confirmed) for s in suspects} == {
        ("node", "n2", True),
        ("node", "n3", True),
    }


def test_pairs_whose_flows_may_have_shared_a_link_are_measured_again_one_at_a_time() -> None:
    """Two static flows from leaf b to leaf a took one uplink in a round. Measured at once again
    they would be slow again, and the pairs accused.
    """
    nodes = [f"{leaf}{place}" for leaf in "abcd" for place in range(4)]
    ends = [End(node) for node in nodes]
    evidence = Evidence({end: end.node[0] for end in ends}, directed=True)
    # All others are good: a sender and the one so many places behind it.
    for number, shift in enumerate((1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15)):
        turned = [*ends[shift:], *ends[:shift]]
        evidence.add(Result(a, b, 24.5, number) for a, b in zip(ends, turned, strict=True))
    shared = [(End(f"b{place}"), End(f"a{place}")) for place in range(2)]
    evidence.add(Result(a, b, 8.0, 12) for a, b in shared)
    evidence.add(Result(a, b, 24.5, 12) for a, b in zip(ends[8:12], ends[12:], strict=True))
    found = locate(evidence)
    assert {s.name for s in found.suspects} == {"a0-b0", "a1-b1"}
    again = plan.next_round(evidence, found, ends, 13)
    assert sum(pair in shared for pair in again) == 1
