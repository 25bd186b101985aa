"""What changed on the nodes between two sets of campaigns."""

from __future__ import annotations

from railgauge.model.inventory import Inventory
from railgauge.verdict.comparison.inventory_drift import drift

FIRMWARE = "nic/mlx5_0/firmware"


def of(node: str, **fields: str) -> Inventory:
    known = {FIRMWARE: "28.40.1000", "sysctl/net.core.rmem_max": "212992", **fields}
    return Inventory(node, "boot", "2026-11-01", 1.0, known, {})


def inventories(**changed: dict[str, str]) -> dict[str, Inventory]:
    return {node: of(node, **changed.get(node, {})) for node in ("n1", "n2", "n3", "n4")}


def test_what_most_nodes_changed_names_the_one_that_did_not() -> None:
    new = {FIRMWARE: "28.43.1014"}
    (found,) = drift(inventories(), inventories(n1=new, n2=new, n4=new))
    assert (found.nodes, found.others) == (("n1", "n2", "n4"), ("n3",))
    assert str(found.change) == f'{FIRMWARE} was "28.40.1000", is "28.43.1014"'


def test_of_two_changes_of_a_field_that_of_most_nodes_comes_first() -> None:
    new, other = {FIRMWARE: "28.43.1014"}, {FIRMWARE: "28.39.1002"}
    found = drift(inventories(), inventories(n1=other, n2=new, n3=new, n4=new))
    assert [one.nodes for one in found] == [("n2", "n3", "n4"), ("n1",)]


def test_state_that_changes_by_itself_is_no_drift() -> None:
    assert drift(inventories(), inventories(n1={"gpu/0/fabric_state": "degraded"})) == []


def test_a_node_that_one_side_lacks_is_left_out() -> None:
    after = inventories(n3={FIRMWARE: "28.43.1014"})
    before = inventories()
    del before["n3"]
    assert drift(before, after) == []
