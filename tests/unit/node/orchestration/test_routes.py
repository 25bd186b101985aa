"""The routes of a sweep's pairs, by the HCAs that their nodes used."""

from __future__ import annotations

import pytest

from railgauge.locating import End
from railgauge.node.orchestration.routes import of_pairs
from railgauge.node.orchestration.sweep_file import Retests
from railgauge.node.system.rdma_devices import Hca

#: Two nodes a leaf, each with two HCAs: guid 10 and 11 of n1, 20 and 21 of n2. The LIDs are the
#: GUIDs. Rail 0 goes by spine1, rail 1 by spine2; of n4's rail 0 it comes down by another cable.
NAMES = ("n1", "n2", "n3", "n4")
LEAF = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}
RETESTS = Retests(
    rounds=3,
    hcas=[(10 * n + rail, LEAF[f"n{n}"], 10 * n + rail) for n in range(1, 5) for rail in (0, 1)],
    routes=[
        ("leaf1", "spine1", "spine1", [30]),
        ("leaf1", "spine1", "spine1#9", [40]),
        ("leaf1", "spine2", "spine2", [31, 41]),
        ("leaf2", "spine1", "spine1", [10, 20]),
        ("leaf2", "spine2", "spine2", [11, 21]),
    ],
)


def used(rail: int, **others: Hca) -> dict[str, set[Hca]]:
    guids = {name: 10 * number + rail for number, name in enumerate(NAMES, start=1)}
    return {n: {others.get(n, Hca(guid, guid))} for n, guid in guids.items()}


@pytest.mark.parametrize("rail", [0, 1])
def test_each_rail_has_its_own_routes(rail: int) -> None:
    known = of_pairs(RETESTS, [("n1", "n3")], [used(rail)])
    assert known is not None
    leaves, routes = known
    # Also of nodes that no pair has.
    assert leaves == {End(node): leaf for node, leaf in LEAF.items()}
    way = "leaf1", End("n2"), End("n4")
    up, down = routes.spine(*way), routes.arriving_from(*way)
    assert (up, down) == (("spine1", "spine1#9"), ("spine2", "spine2"))[rail]
    assert routes.spine("leaf2", End("n3"), End("n1")) == f"spine{rail + 1}"


PAIR = [("n1", "n3")]


@pytest.mark.parametrize(
    ("pairs", "nodes"),
    [
        (PAIR, {**used(0), "n1": {Hca(10, 10), Hca(11, 11)}}),
        (PAIR, {**used(0), "n3": set()}),
        (PAIR, used(0, n3=Hca(30, 31))),
        (PAIR, used(0, n3=Hca(99, 99))),
        ([("n1", "n5")], used(0)),
    ],
    ids=["two HCAs", "no HCA", "another LID", "not of the subnet", "a node that said nothing"],
)
def test_what_is_not_known_of_all_gives_no_routes(
    pairs: list[tuple[str, str]], nodes: dict[str, set[Hca]]
) -> None:
    assert of_pairs(RETESTS, PAIR, [used(0)]) is not None
    assert of_pairs(RETESTS, pairs, [nodes]) is None


def test_a_pair_without_a_route_gives_no_routes() -> None:
    lacking = RETESTS._replace(routes=RETESTS.routes[:-1])
    assert of_pairs(lacking, [("n1", "n3")], [used(1)]) is not None
    assert of_pairs(lacking, [("n1", "n3"), ("n3", "n1")], [used(1)]) is None
    assert of_pairs(Retests(rounds=3), PAIR, [used(0)]) is None


def test_without_a_subnet_the_table_of_the_site_counts() -> None:
    rows = [("leaf1", "n1", "n3", "spine1"), ("leaf1", "", "n4", "spine2")]
    given = Retests(rounds=3, leaves=LEAF, spines=rows)
    known = of_pairs(given, PAIR, [])
    assert known is not None
    leaves, routes = known
    assert leaves == {End(node): leaf for node, leaf in LEAF.items()}
    assert routes.spine("leaf1", End("n1"), End("n3")) == "spine1"
    assert routes.spine("leaf1", End("n2"), End("n3")) == ""
    assert of_pairs(given._replace(spines=()), PAIR, []) is None


def test_a_subnet_comes_before_the_table_of_the_site() -> None:
    """The table is of another network."""
    both = RETESTS._replace(spines=[("leaf1", "", "n3", "other")], leaves=LEAF)
    known = of_pairs(both, PAIR, [used(0)])
    assert known is not None and known[1].spine("leaf1", End("n1"), End("n3")) == "spine1"
    assert of_pairs(both, PAIR, [used(0, n3=Hca(99, 99))]) is None
