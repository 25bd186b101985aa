"""Which pairs are measured once more, and that they tell who is at fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.retest import (
    BY_CHANCE,
    MOST_BESIDE,
    Again,
    Met,
    away,
    beside,
    choose,
    more_flows,
    next_round,
    quiet_pair,
)

#: More than that no campaign waits for.
ROUNDS = 6


def nodes(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def ring(names: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(names, (*names[1:], names[0]), strict=True))


def played(
    names: Sequence[str],
    bad: Collection[str] = (),
    paths: Collection[frozenset[str]] = (),
    pairs: Sequence[tuple[str, str]] | None = None,
    as_server: Collection[str] = (),
    as_client: Collection[str] = (),
) -> tuple[list[Met], int]:
    """All that was measured, and in how many more rounds, where these nodes and ways are bad, some
    nodes in one of the two parts only.
    """

    def good(server: str, client: str) -> bool:
        one_way = server in as_server or client in as_client
        both_ways = {server, client} & set(bad) or frozenset((server, client)) in paths
        return not one_way and not both_ways

    met = [Met(0, *pair, good(*pair)) for pair in pairs or ring(names)]
    for number in range(ROUNDS):
        more = next_round(met, names)
        if not more:
            return met, number
        met += [Met(again.like, *again[1:], good(*again[1:])) for again in more]
    return met, ROUNDS


def convicted(met: Sequence[Met]) -> set[str]:
    """By the rule of two partners that are good with others."""
    well = {node for one in met if one.good for node in one.ends}
    found = set()
    for node in {node for one in met for node in one.ends} - well:
        partners = {one.other(node) for one in met if node in one.ends and not one.good}
        if len(partners & well) >= 2:
            found.add(node)
    return found


def test_where_all_are_good_nothing_is_measured_again() -> None:
    assert next_round([Met(0, *pair, True) for pair in ring(nodes(6))], nodes(6)) == []


def test_one_bad_node_of_a_ring_meets_a_third_partner() -> None:
    met, more = played(nodes(6), bad={"n2"})
    assert (convicted(met), more) == ({"n2"}, 1)
    assert {one.other("n2") for one in met if "n2" in one.ends} == {"n1", "n3", "n0"}


def test_whose_two_runs_failed_by_themselves_is_cleared_by_a_third() -> None:
    """As those of one node of some hundred do now and then where 1 % of all runs fail."""
    met = [Met(0, *pair, "n2" not in pair) for pair in ring(nodes(6))]
    again, beside = next_round(met, nodes(6))
    assert "n2" in again.ends and "n2" not in beside.ends
    met += [Met(0, *one[1:], True) for one in (again, beside)]
    # Cleared as client, say, it may be bad as server: what is open are the two pairs, each one way.
    (one,) = (one for one in next_round(met, nodes(6)) if "n2" in one.ends)
    assert set(one.ends) in ({"n1", "n2"}, {"n2", "n3"})


@pytest.mark.parametrize(
    "bad", [{"n2", "n3"}, {"n2", "n4"}, {"n0", "n1", "n2"}, {"n1", "n3", "n5"}], ids=sorted
)
def test_neighbours_and_who_stands_between_them_are_told_apart(bad: set[str]) -> None:
    met, more = played(nodes(10), bad=bad)
    assert convicted(met) == bad and more <= 3


def test_a_way_is_measured_again_and_accuses_no_node() -> None:
    way = frozenset(("n2", "n3"))
    met, more = played(nodes(6), paths=[way])
    # Twice, and then each of them in its part of it with somebody else: neither sends badly.
    assert convicted(met) == set() and more == 2
    assert [one.good for one in met if frozenset(one.ends) == way] == [False, False]
    assert all(one.good for one in met if frozenset(one.ends) != way)


def convicted_one_way(met: Sequence[Met]) -> set[tuple[str, str]]:
    """Nodes that were bad with two in one part, and good with nobody in it."""
    parts = {
        (node, part)
        for one in met
        for part, node in zip(("server", "client"), one.ends, strict=True)
    }
    found = set()
    for node, part in parts:
        mine = [one for one in met if getattr(one, part) == node]
        partners = {one.other(node) for one in mine if not one.good}
        if len(partners) >= 2 and not any(one.good for one in mine):
            found.add((node, part))
    return found


@pytest.mark.parametrize("count", [4, 5, 8, 33])
@pytest.mark.parametrize("part", ["server", "client"])
def test_a_node_that_is_slow_one_way_is_told_from_its_partner(part: str, count: int) -> None:
    met, more = played(nodes(count), **{f"as_{part}": ["n2"]})  # type: ignore[arg-type]
    assert (convicted_one_way(met), more) == ({("n2", part)}, 2)


def test_slow_one_way_here_and_the_other_way_there() -> None:
    met, more = played(nodes(12), as_server=["n2"], as_client=["n7"])
    assert convicted_one_way(met) == {("n2", "server"), ("n7", "client")}
    assert more <= 3


def test_for_its_part_a_node_meets_somebody_of_the_same_leaves() -> None:
    leaves = in_fours(8)
    pairs = [*ring(nodes(8)[:4]), *ring(nodes(8)[4:])]
    met = [Met(0, *pair, pair[1] != "n1") for pair in pairs]
    met.append(Met(0, "n0", "n1", False))
    for again in next_round(met, nodes(8), leaves):
        assert leaves[again.server] == leaves[again.client]
        assert Met(0, again.server, again.client, False) not in met


def test_of_one_pair_alone_nobody_can_tell() -> None:
    assert next_round([Met(0, "a", "b", False)], ["a", "b"]) == []


def test_what_measured_nothing_accuses_and_clears_nobody() -> None:
    met = [Met(0, "a", "b", None), Met(0, "c", "d", True), Met(0, "b", "c", None)]
    assert next_round(met, list("abcd")) == []


def test_nodes_that_are_gone_are_not_measured() -> None:
    met = [Met(0, *pair, "n2" not in pair) for pair in ring(nodes(6))]
    met[1] = Met(0, "n1", "n2", None)
    (again, _) = next_round(met, [n for n in nodes(6) if n != "n0"])
    assert "n2" in again.ends and "n0" not in again.ends and "n3" not in again.ends


def test_a_pair_is_not_alone_in_its_round() -> None:
    more = next_round(
        [Met(3, *pair, set(pair) != {"n1", "n2"}) for pair in ring(nodes(6))], nodes(6)
    )
    assert more[0] == Again(3, "n1", "n2") and len(more) == 2


def test_a_partner_is_where_the_former_was() -> None:
    leaves = in_fours(8)
    pairs = [*ring(nodes(8)[:4]), *ring(nodes(8)[4:])]
    met = [Met(0, *pair, not {"n0", "n1"} & set(pair)) for pair in pairs]
    for again in next_round(met, nodes(8), leaves):
        assert leaves[again.server] == leaves[again.client]


# ---- an uplink ----


def in_fours(count: int) -> dict[str, str]:
    return {name: f"leaf{number // 4}" for number, name in enumerate(nodes(count))}


def across(bad: Collection[tuple[int, int]]) -> list[Met]:
    """Four leaves of four nodes, each node once with each other leaf; some of these are bad."""
    pairs = [
        (4 * leaf + number, 4 * other + number)
        for leaf in range(4)
        for other in range(leaf)
        for number in range(4)
    ]
    assert set(bad) <= set(pairs)
    return [Met(n, f"n{a}", f"n{b}", (a, b) not in bad) for n, (a, b) in enumerate(pairs)]


def asked(met: Sequence[Met], leaves: dict[str, str]) -> list[Again]:
    """The pairs of the next round, as the conductor asks for them."""
    return choose([met], nodes(16), leaves)


def ends_of(pairs: Sequence[Again]) -> list[str]:
    return [node for one in pairs for node in one.ends]


def of_ring(names: Sequence[str], bad: str, number: int = 0) -> list[Met]:
    """A round of a ring: every second pair."""
    pairs = list(enumerate(ring(names)))[number::2]
    return [Met(n, *pair, bad not in pair) for n, pair in pairs]


def one_rail(like: int) -> str:
    return ""


@pytest.mark.parametrize("count", [6, 8, 16])
def test_pairs_are_measured_again_while_all_others_are_busy(count: int) -> None:
    """Who is slow for the load would be good in a round of one pair. All but n2 are good with
    somebody: n3, say, whose partner n2 is measured with n4.
    """
    names = nodes(count)
    chosen = [Again(2, "n4", "n2")]
    others = beside(chosen, of_ring(names, "n2"), one_rail, names, {})
    assert Counter(ends_of([*chosen, *others])) == Counter(names)
    # They go on as they were good with each other, as far as these are free.
    good = {Again(*one[:3]) for one in of_ring(names, "n2") if one.good and "n4" not in one.ends}
    assert good <= set(others)


def test_who_may_not_be_measured_keeps_nobody_busy() -> None:
    names = nodes(16)
    there = [name for name in names if name not in ("n9", "n12")]
    others = beside([Again(2, "n4", "n2")], of_ring(names, "n2"), one_rail, there, {})
    assert not {"n2", "n4", "n9", "n12"} & set(ends_of(others))
    # n8 and n13, whose partners these were, have each other.
    assert len(others) == 6


def test_where_the_listed_pair_was_alone_so_is_what_is_measured_again() -> None:
    listed = [Met(5, "n1", "n2", False)]
    assert beside([Again(5, "n3", "n2")], listed, one_rail, nodes(16), {}) == []


def test_of_many_those_of_the_same_leaf_are_busy() -> None:
    """All others of its leaf, and not all of the partition."""
    names = nodes(4 * MOST_BESIDE)
    leaves = {node: f"leaf{int(node[1:]) // 32}" for node in names}
    chosen = [Again(300, "n302", "n300")]
    others = beside(chosen, of_ring(names, "n300"), one_rail, names, leaves)
    assert len(others) == MOST_BESIDE
    of_leaf = {node for node in names if leaves[node] == leaves["n300"]}
    assert len(of_leaf - set(ends_of([*chosen, *others]))) <= 2


def test_the_other_rails_of_a_node_are_as_busy_as_they_were() -> None:
    """All rails at once: place 2n is of rail 0, 2n + 1 of rail 1."""

    def label(like: int) -> str:
        return f"{like % 2}-{like % 2}"

    listed = [
        Met(2 * (one.like) + rail, *one.ends, bool(one.good) or rail == 1)
        for one in of_ring(nodes(8), "n2")
        for rail in (0, 1)
    ]
    chosen = [Again(4, "n4", "n2")]
    others = beside(chosen, listed, label, nodes(8), {})
    used = Counter((node, label(one.like)) for one in (*chosen, *others) for node in one.ends)
    assert used == Counter((node, rail) for node in nodes(8) for rail in ("0-0", "1-1"))


def test_a_rail_that_is_measured_again_is_used_once() -> None:
    """From rail 0 of one node to rail 1 of the other: neither of these does anything else."""
    labels = {0: "0-1", 1: "1-0", 2: "0-0", 3: "1-1"}
    listed = [Met(like, "n1", "n2", True) for like in labels]
    others = beside([Again(0, "n1", "n2")], listed, labels.__getitem__, nodes(4), {})
    assert [one.like for one in others] == [1]


def test_a_pair_is_not_alone_where_the_listed_one_was_not() -> None:
    """What are left over are of other leaves than the listed pairs: better than nobody."""
    leaves = {"n0": "l0", "n1": "l1", "n2": "l2", "n3": "l0"}
    listed = [Met(0, "n0", "n3", False), Met(1, "n1", "n2", True)]
    others = beside([Again(0, "n3", "n2")], listed, one_rail, ["n0", "n1", "n2"], leaves)
    assert others == [Again(0, "n0", "n1")]


def test_across_leaves_those_that_are_left_over_meet_other_leaves_too() -> None:
    leaves = in_fours(16)
    listed = across([(4, 0), (8, 4), (12, 8)])[:8]
    others = beside([Again(0, "n4", "n9")], listed, one_rail, nodes(16), leaves)
    away = [len({leaves[node] for node in one.ends}) == 2 for one in others]
    # The last two are of one leaf.
    assert away == [True] * 4 + [False]


def test_a_suspect_uplink_does_not_take_the_rounds_of_another_condition() -> None:
    """All is told of the one but more flows; of the other, nothing is told of n5 yet."""
    first = across([(4, 0), (9, 1), (14, 2)])
    first += [Met(0, *met.ends, True) for met in first if not met.good]
    second = [Met(99, *met.ends, met.ends != ("n5", "n1")) for met in across([])[::4]]
    second += [Met(99, "n5", "n9", False), Met(99, "n9", "n13", True), Met(99, "n1", "n13", True)]
    assert all(again.like == 99 for again in choose([first, second], nodes(16), in_fours(16)))
    assert {again.like for again in choose([first], nodes(16), in_fours(16))} == {0}


def test_where_an_uplink_is_suspect_whoever_is_free_meets_another_leaf() -> None:
    """Three nodes of leaf0 were bad with others, and good with others."""
    met, leaves = across([(4, 0), (9, 1), (14, 2)]), in_fours(16)
    more = asked(met, leaves)
    again = {frozenset(one.ends) for one in more}
    assert {frozenset(("n4", "n0")), frozenset(("n9", "n1")), frozenset(("n14", "n2"))} <= again
    assert len(more) > 6 and all(leaves[a] != leaves[b] for a, b in again)
    met += [Met(one.like, *one.ends, True) for one in more]
    # The pairs are not measured a third time, and flows across the leaves go on being counted.
    more = asked(met, leaves)
    of_leaf = [one for one in more if "leaf0" in {leaves[node] for node in one.ends}]
    assert len(of_leaf) == 4 and len(more) == 8


def test_more_flows_go_both_ways_and_to_every_other_leaf() -> None:
    met, leaves = across([(4, 0), (9, 1), (14, 2)]), in_fours(16)
    sent: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for _ in range(6):
        more = more_flows(met, nodes(16), leaves)
        for one in more:
            if "leaf0" in {leaves[node] for node in one.ends}:
                (other,) = {leaves[node] for node in one.ends} - {"leaf0"}
                others[other] += 1
                sent[leaves[one.client]] += leaves[one.client] == "leaf0"
        met += [Met(one.like, *one.ends, True) for one in more]
    assert sum(others.values()) == 24 and min(others.values()) >= 6
    # In the list of `across` every node of leaf0 was always the client.
    assert 6 <= sent["leaf0"] <= 12


@pytest.mark.parametrize(
    ("bad", "leaves"),
    [
        ([(4, 0), (8, 0), (9, 1)], in_fours(16)),
        ([(4, 0), (9, 1), (14, 2), (8, 4), (13, 5), (12, 8)], in_fours(16)),
        ([(4, 0), (9, 1), (14, 2)], {}),
        ([(4, 0), (9, 1), (14, 2)], {n: f"leaf{min(int(n[1:]) // 4, 1)}" for n in nodes(16)}),
    ],
    ids=["two-nodes", "of-all-leaves", "unknown", "two-leaves"],
)
def test_where_no_uplink_is_suspect_only_the_pairs_are_measured_again(
    bad: Sequence[tuple[int, int]], leaves: dict[str, str]
) -> None:
    more = asked(across(bad), leaves)
    assert {frozenset(one.ends) for one in more} <= {frozenset((f"n{a}", f"n{b}")) for a, b in bad}


def test_a_node_that_was_never_good_beyond_its_leaf_is_measured_at_home() -> None:
    """Beside pairs of other leaves, each within its own."""
    leaves = in_fours(16)
    met = across([(4, 0), (8, 0), (12, 0), (9, 1), (14, 2)])
    met += [Met(0, "n9", "n1", True), Met(0, "n14", "n2", True)]
    home, *beside = asked(met, leaves)
    assert "n0" in home.ends and {leaves[node] for node in home.ends} == {"leaf0"}
    # Four pairs are judged by each other.
    assert len(beside) == 3
    for one in beside:
        (leaf,) = {leaves[node] for node in one.ends}
        assert leaf != "leaf0"
    # Good there: what leaves the leaf is open again.
    more = asked([*met, Met(0, *home.ends, True)], leaves)
    assert more and all(leaves[one.server] != leaves[one.client] for one in more)


def test_who_is_bad_with_all_of_other_leaves_is_measured_at_home_once() -> None:
    """By `cover` it meets nobody of its leaf; bad with others alone, it may have a bad uplink."""
    leaves = in_fours(16)
    met = across([(4, 0), (8, 0), (12, 0)])
    home, *beside = asked(met, leaves)
    assert "n0" in home.ends and {leaves[node] for node in home.ends} == {"leaf0"}
    assert len(beside) == 3 and all("n0" not in one.ends for one in beside)
    assert asked([*met, Met(0, *home.ends, False)], leaves) == []


def test_two_that_are_bad_at_home_with_each_other_each_meet_another_there() -> None:
    """One of them may be innocent: what is bad with other leaves does not say which."""
    leaves = in_fours(16)
    away = [(4 * leaf + number, number) for leaf in (1, 2, 3) for number in (0, 1)]
    met = [*across(away), Met(0, "n0", "n1", False)]
    home = [one for one in asked(met, leaves) if {leaves[node] for node in one.ends} == {"leaf0"}]
    assert sorted(node for one in home for node in one.ends) == ["n0", "n1", "n2", "n3"]
    assert all(set(one.ends) != {"n0", "n1"} for one in home)


def test_a_side_keeps_its_role() -> None:
    met = [Met(0, *pair, "n2" not in pair and "n3" not in pair) for pair in ring(nodes(8))]
    # Both were the client of the first bad pair that they were in.
    assert {"n2", "n3"} <= {again.client for again in next_round(met, nodes(8))}


@given(
    st.integers(4, 40).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=n // 3))
    )
)
def test_lasting_faults_are_all_named_and_nobody_else(story: tuple[int, set[int]]) -> None:
    count, numbers = story
    bad = {f"n{number}" for number in numbers}
    met, more = played(nodes(count), bad=bad)
    assert convicted(met) <= bad
    well = [n for n in nodes(count) if n not in bad]
    if len(well) >= 2 * len(bad) + 2:
        assert convicted(met) == bad and more < ROUNDS


@given(st.data())
def test_in_a_round_nobody_has_two_partners(data: st.DataObject) -> None:
    names = nodes(data.draw(st.integers(2, 12)))
    two = st.lists(st.sampled_from(names), min_size=2, max_size=2, unique=True)
    met = [
        Met(0, *data.draw(two), data.draw(st.sampled_from([True, False, None])))
        for _ in range(data.draw(st.integers(0, 20)))
    ]
    there = data.draw(st.lists(st.sampled_from(names), unique=True))
    used = [node for again in next_round(met, there) for node in again.ends]
    assert len(used) == len(set(used)) and set(used) <= set(there)


# ---- what is good ----


# ---- while all else is quiet ----


def quietly(met: Sequence[Met], left: int, bad: Collection[str] = ()) -> list[Met]:
    """What is measured alone after these, where so many rounds are left, and these nodes are bad
    then, too.
    """
    names, quiet = sorted({node for one in met for node in one.ends}), list[Met]()
    while pair := quiet_pair(met, quiet, names, {}, left):
        quiet.append(Met(*pair, good=set(bad).isdisjoint(pair.ends), alone=True))
        left -= 1
    return quiet


def at_fault(*bad: str) -> list[Met]:
    """Eight nodes in a ring, and all that tells who is at fault."""
    return played(nodes(8), bad)[0]


def test_a_node_at_fault_is_measured_alone_until_that_tells_load() -> None:
    quiet = [one for one in quietly(at_fault("n2"), 12) if "n2" in one.ends]
    assert away(3, 3, len(quiet)) < BY_CHANCE <= away(3, 3, len(quiet) - 1)
    assert len({one.other("n2") for one in quiet}) == 3


def test_after_its_first_pair_one_of_others_shows_what_is_good_then() -> None:
    quiet = quietly(at_fault("n2"), 12)
    assert ["n2" in one.ends for one in quiet] == [True, False, *[True] * 6]


def test_bad_once_while_all_else_is_quiet_is_no_load() -> None:
    assert len(quietly(at_fault("n2"), 12, bad=["n2"])) == 1


def test_where_others_are_bad_then_too_nothing_tells_load() -> None:
    quiet = quietly(at_fault("n2"), 12)[1]
    assert len(quietly(at_fault("n2"), 12, bad=set(quiet.ends))) == 2


@pytest.mark.parametrize(("left", "count"), [(7, 0), (8, 8)])
def test_where_too_few_rounds_are_left_to_tell_nobody_is_measured_alone(
    left: int, count: int
) -> None:
    assert len(quietly(at_fault("n2"), left)) == count


def test_where_nobody_is_at_fault_nobody_is_measured_alone() -> None:
    met, _ = played(nodes(8), paths=[frozenset(("n2", "n3"))])
    assert quietly(at_fault(), 12) == [] and quietly(met, 12) == []


def test_who_was_bad_alone_already_is_not_measured_alone() -> None:
    met = at_fault("n2")
    place = next(number for number, one in enumerate(met) if not one.good)
    met[place] = met[place]._replace(alone=True)
    assert quietly(met, 12) == []


def test_of_two_at_fault_the_second_is_measured_once_the_first_is_bad_alone() -> None:
    quiet = quietly(at_fault("n2", "n5"), 12, bad=["n2"])
    assert "n2" in quiet[0].ends
    assert all("n2" not in one.ends for one in quiet[1:])
    assert sum("n5" in one.ends for one in quiet) == 7


def test_who_is_gone_is_not_measured_alone() -> None:
    met, there = at_fault("n2"), [name for name in nodes(8) if name != "n1"]
    for quiet in ([], [Met(0, "n2", "n3", True, alone=True)] * 2):
        pair = quiet_pair(met, quiet, there, {}, 12)
        assert pair is not None and "n1" not in pair.ends
    assert quiet_pair(met, [], [name for name in there if name != "n2"], {}, 12) is None


def test_alone_it_is_measured_over_ways_on_which_others_were_beside_it() -> None:
    """A value within a leaf has no peers among those that take an uplink."""
    leaves = in_fours(16)
    pairs = [(0, 4), (8, 0), (0, 1), (1, 2), (4, 9), (8, 12)]
    met = [Met(0, f"n{a}", f"n{b}", a != 0 and b != 0) for a, b in pairs]
    quiet: list[Met] = []
    while pair := quiet_pair(met, quiet, nodes(16), leaves, 20):
        quiet.append(Met(*pair, good=True, alone=True))
    assert quiet and all(leaves[one.server] != leaves[one.client] for one in quiet)
