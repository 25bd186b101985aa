"""Rails and bond in an inventory: every single wrong field is exactly one difference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.checks.preflight import inventory_state
from railgauge.checks.preflight.inventory_state import Options
from railgauge.checks.preflight.rails_and_bond import Difference, Links, judge
from railgauge.model.call import Call
from railgauge.model.inventory import Inventory
from railgauge.systems import Bond, Rdma
from railgauge.tools import Completeness

Fields = dict[str, Any]

RDMA = Rdma(
    devices="mlx5_[01]",
    rails=2,
    link_layer="Ethernet",
    active_mtu_bytes=4096,
    rate="400 Gb/sec (4X NDR)",
)
BOND = Bond(device="bond0", links=["eth3", "eth4"], link_gbits=200, mtu_bytes=9000)
LINKS = Links(RDMA, BOND)
INFINIBAND = Links(RDMA.model_copy(update={"link_layer": "InfiniBand"}), None)
BACKUP = Links(None, BOND.model_copy(update={"mode": "active-backup"}))
NAMED = Links(RDMA.model_copy(update={"names": ["mlx5_0", "mlx5_1"]}), BOND)
MEMLOCK = "limits/memlock_kib"


def least(kib: int) -> Links:
    return Links(RDMA.model_copy(update={"memlock_kib": kib}), BOND)


def rail(number: int) -> Fields:
    at = f"nic/mlx5_{number}"
    return {
        f"{at}/firmware": "28.39.1002",
        f"{at}/1/state": "ACTIVE",
        f"{at}/1/phys_state": "LinkUp",
        f"{at}/1/link_layer": "Ethernet",
        f"{at}/1/rate": "400 Gb/sec (4X NDR)",
        f"{at}/1/netdev": f"eth{1 + number}",
        f"{at}/1/gid_types_ipv4": "IB/RoCE v1, RoCE v2",
        f"{at}/1/active_mtu_bytes": 4096,
    }


def bonded(name: str) -> Fields:
    return {f"net/{name}/bond_link_status": "up", f"net/{name}/bond_aggregator": 1}


HEALTHY: Fields = {
    **rail(0),
    **rail(1),
    "net/bond0/bond_mode": "802.3ad",
    "net/bond0/bond_links": "eth3 eth4",
    "net/bond0/bond_aggregator": 1,
    **bonded("eth3"),
    **bonded("eth4"),
    MEMLOCK: "unlimited",
}


def taken(changed: Fields | None = None, unknown: dict[str, str] | None = None) -> Inventory:
    """The healthy node with other fields; one that is None is not there."""
    fields = {**HEALTHY, **(changed or {})}
    known = {k: v for k, v in fields.items() if v is not None and k not in (unknown or {})}
    return Inventory("n1", "boot", "2026-11-21T00:00:00+00:00", 0.1, known, unknown or {})


def but_rail(field: str, value: Any, number: int = 1) -> Inventory:
    return taken({f"nic/mlx5_{number}/1/{field}": value})


def without(*numbers: int) -> Inventory:
    """The node without some of its rails."""
    return taken({key: None for number in numbers for key in rail(number)})


def differences(node: Inventory, links: Links = LINKS) -> list[Difference]:
    return judge(node, links)[1]


def only_difference(node: Inventory, links: Links = LINKS) -> Difference:
    (difference,) = differences(node, links)
    return difference


# ---- a device that is not there ----


def test_a_device_that_is_not_there_is_missed_by_name() -> None:
    said = str(only_difference(without(0), NAMED))
    assert said.endswith("is 1 (mlx5_1), expected 2, rail 0 (mlx5_0) is not there")


@pytest.mark.parametrize("node", [without(0), but_rail("state", "DOWN", 0)])
def test_of_an_absent_device_nothing_is_said(node: Inventory) -> None:
    assert judge(node, Links(NAMED.rdma, BOND, absent=("mlx5_0",))) == (3, [])


def test_a_device_that_is_not_the_absent_one_is_missed() -> None:
    links = Links(NAMED.rdma, BOND, absent=("mlx5_0",))
    assert "rail 1 (mlx5_1) is not there" in str(only_difference(without(0, 1), links))


# ---- nothing is wrong ----


def test_healthy_node_has_no_difference() -> None:
    assert judge(taken(), LINKS) == (4, [])
    assert LINKS.count == 4


def test_infiniband_needs_no_gid_with_an_address() -> None:
    fields = {f"nic/mlx5_{n}/1/link_layer": "InfiniBand" for n in (0, 1)}
    fields |= {f"nic/mlx5_{n}/1/gid_types_ipv4": "none" for n in (0, 1)}
    assert differences(taken(fields), INFINIBAND) == []


def test_node_without_rails_and_bond_is_not_asked_for_them() -> None:
    assert judge(Inventory("n1", "", "", 0, {}, {}), Links()) == (0, [])


def test_only_the_bond_is_judged_where_there_is_only_a_bond() -> None:
    assert judge(but_rail("state", "DOWN"), Links(None, BOND)) == (2, [])


def test_only_the_rails_are_judged_where_there_are_only_rails() -> None:
    assert judge(taken({"net/bond0/bond_mode": None}), Links(RDMA, None)) == (2, [])


@pytest.mark.parametrize("said", [64, 65, "unlimited"])
def test_enough_memory_may_be_locked(said: int | str) -> None:
    assert differences(taken({MEMLOCK: said}), least(64)) == []


def test_only_lacp_has_aggregators() -> None:
    fields = {"net/bond0/bond_mode": "active-backup", "net/eth4/bond_aggregator": None}
    assert differences(taken(fields), BACKUP) == []


# ---- one thing is wrong ----

RAIL = "rail 1 (mlx5_1 port 1)"
NUMBER = "the number of RDMA devices like mlx5_[01]"
LISTED = "rdma link; dmesg | grep -i -e rdma -e mlx5"
LIMIT = "LimitMEMLOCK=infinity for slurmd, PropagateResourceLimitsExcept=MEMLOCK in slurm.conf"
OTHER_LINKS = "ip link set LINK master bond0"

#: Name -> the node, its links, the number of those that are well, and the difference.
WRONG: dict[str, tuple[Inventory, Links, int, Difference]] = {
    "state": (
        *(but_rail("state", "INIT"), LINKS, 3),
        Difference(
            *(f"{RAIL}: state", "INIT", "ACTIVE"), "rdma link show mlx5_1/1; ip link set eth2 up"
        ),
    ),
    "physical state": (
        *(but_rail("phys_state", "Polling"), LINKS, 3),
        Difference(
            f"{RAIL}: physical state", "Polling", "LinkUp", "the cable of eth2; ethtool eth2"
        ),
    ),
    "link layer": (
        *(but_rail("link_layer", "InfiniBand"), LINKS, 3),
        Difference(
            *(f"{RAIL}: link layer", "InfiniBand", "Ethernet"),
            "mlxconfig set LINK_TYPE_P1=..., and reset",
        ),
    ),
    "rate": (
        *(but_rail("rate", "200 Gb/sec (2X NDR)"), LINKS, 3),
        Difference(
            *(f"{RAIL}: rate", "200 Gb/sec (2X NDR)", "400 Gb/sec (4X NDR)"),
            "ethtool eth2; the cable, its module, the switch port",
        ),
    ),
    "active MTU": (
        *(but_rail("active_mtu_bytes", 1024), LINKS, 3),
        Difference(
            *(f"{RAIL}: active MTU", "1024", "4096"),
            "ip link set eth2 mtu 4200 (or more), at both ends and on the switch",
        ),
    ),
    "no GID": (
        *(but_rail("gid_types_ipv4", "IB/RoCE v1"), LINKS, 3),
        Difference(
            *(f"{RAIL}: the type of GIDs with an IPv4 address", "IB/RoCE v1", "RoCE v2"),
            "ip address show eth2",
        ),
    ),
    "missing rail": (without(1), LINKS, 3, Difference(NUMBER, "1 (mlx5_0)", "2", LISTED)),
    "no rail at all": (without(0, 1), LINKS, 2, Difference(NUMBER, "0 (none)", "2", LISTED)),
    "extra rail": (
        *(taken(rail(2)), Links(RDMA.model_copy(update={"devices": "mlx5_[0-9]"}), BOND), 5),
        Difference(
            "the number of RDMA devices like mlx5_[0-9]", "3 (mlx5_0, mlx5_1, mlx5_2)", "2", LISTED
        ),
    ),
    "less memory than unlimited": (
        *(taken({MEMLOCK: 8192}), LINKS, 4),
        Difference("the memory that a job may lock", "8192", "unlimited", LIMIT),
    ),
    "less memory than the least": (
        *(taken({MEMLOCK: 8191}), least(8192), 4),
        Difference("the memory that a job may lock", "8191", "at least 8192 KiB", LIMIT),
    ),
    "bond mode": (
        *(taken({"net/bond0/bond_mode": "balance-rr"}), LINKS, 4),
        Difference("bond0: mode", "balance-rr", "802.3ad", "ip -d link show bond0"),
    ),
    "missing link": (
        *(taken({"net/bond0/bond_links": "eth3"}), LINKS, 3),
        Difference("bond0: links", "eth3", "eth3 eth4", OTHER_LINKS),
    ),
    "no link at all": (
        *(taken(unknown={"net/bond0/bond_links": "slaves is empty"}), LINKS, 2),
        Difference("bond0: links", "unknown (slaves is empty)", "eth3 eth4", OTHER_LINKS),
    ),
    "extra link": (
        *(taken({"net/bond0/bond_links": "eth3 eth4 eth5", **bonded("eth5")}), LINKS, 5),
        Difference("bond0: links", "eth3 eth4 eth5", "eth3 eth4", OTHER_LINKS),
    ),
    "link down": (
        *(taken({"net/eth4/bond_link_status": "down"}), LINKS, 3),
        Difference("bond0: link eth4", "down", "up", "the cable of eth4; ethtool eth4"),
    ),
    "link in another aggregator": (
        *(taken({"net/eth4/bond_aggregator": 2}), LINKS, 3),
        Difference(
            "bond0: aggregator of eth4", "2", "1, the active one", "LACP on the switch's port"
        ),
    ),
    "link of unknown aggregator": (
        *(taken(unknown={"net/eth4/bond_aggregator": "found 'N/A'"}), LINKS, 3),
        Difference(
            *("bond0: aggregator of eth4", "unknown (found 'N/A')", "1, the active one"),
            "LACP on the switch's port",
        ),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_wrong_field_is_exactly_that_difference(name: str) -> None:
    node, links, good, expected = WRONG[name]
    assert judge(node, links) == (good, [expected])


@pytest.mark.parametrize("value", [None, 0])
def test_aggregators_that_are_none_are_not_taken_for_the_same(value: int | None) -> None:
    same = [f"net/{name}/bond_aggregator" for name in ("bond0", "eth3", "eth4")]
    assert [d.what for d in differences(taken(dict.fromkeys(same, value)))] == [
        "bond0: aggregator of eth3",
        "bond0: aggregator of eth4",
    ]


def test_links_in_one_aggregator_that_is_not_the_active_one_carry_nothing() -> None:
    found = differences(taken({"net/bond0/bond_aggregator": 2}))
    assert [difference.what for difference in found] == [
        "bond0: aggregator of eth3",
        "bond0: aggregator of eth4",
    ]


def test_every_wrong_field_is_named() -> None:
    at = "nic/mlx5_0/1"
    wrong = {f"{at}/state": "DOWN", f"{at}/phys_state": "Disabled", MEMLOCK: 64}
    assert len(differences(taken({**wrong, "net/bond0/bond_mode": "balance-rr"}))) == 4


def test_missing_rail_does_not_hide_the_state_of_the_other() -> None:
    node = taken({**dict.fromkeys(rail(1)), "nic/mlx5_0/1/state": "DOWN"})
    assert [d.what for d in differences(node)] == [NUMBER, "rail 0 (mlx5_0 port 1): state"]


def test_missing_bond_is_named_by_mode_and_links() -> None:
    node = taken({key: None for key in HEALTHY if key.startswith("net/bond0/")})
    assert [(difference.what, difference.found) for difference in differences(node)] == [
        ("bond0: mode", "unknown (the node does not state it)"),
        ("bond0: links", "unknown (the node does not state it)"),
    ]


def test_each_port_of_a_device_is_a_rail() -> None:
    second = {key.replace("mlx5_0/1/", "mlx5_0/2/"): value for key, value in rail(0).items()}
    node = taken({**dict.fromkeys(rail(1)), **second, "nic/mlx5_0/2/state": "DOWN"})
    assert only_difference(node).what == "rail 1 (mlx5_0 port 2): state"


def test_difference_is_one_sentence() -> None:
    assert str(Difference("rail 0: state", "DOWN", "ACTIVE", "ip link")) == (
        "rail 0: state is DOWN, expected ACTIVE"
    )


# ---- what the node cannot say ----

OF_RAIL = ["state", "phys_state", "link_layer", "rate", "active_mtu_bytes", "gid_types_ipv4"]
OF_BOND = ["net/bond0/bond_mode", "net/eth4/bond_link_status"]
NEEDED = [f"nic/mlx5_1/1/{field}" for field in OF_RAIL] + OF_BOND + [MEMLOCK]


@pytest.mark.parametrize("key", NEEDED)
def test_a_field_that_is_unknown_differs_with_its_reason(key: str) -> None:
    found = only_difference(taken(unknown={key: "no such file"}))
    assert found.found == "unknown (no such file)"


@pytest.mark.parametrize("key", NEEDED)
def test_a_field_that_is_not_there_differs(key: str) -> None:
    assert only_difference(taken({key: None})).found == "unknown (the node does not state it)"


def test_unknown_memory_is_not_enough_either() -> None:
    assert only_difference(taken(unknown={MEMLOCK: "?"}), least(64)).found == "unknown (?)"


# ---- any inventory ----


@given(st.sampled_from(OF_RAIL[:-1]), st.sampled_from([0, 1]), st.integers() | st.text())
def test_any_other_value_of_a_rail_is_one_difference(field: str, number: int, value: Any) -> None:
    healthy = HEALTHY[f"nic/mlx5_{number}/1/{field}"]
    expected = 0 if str(value) == str(healthy) else 1
    assert len(differences(but_rail(field, value, number))) == expected


@given(st.integers(-1, 10**9) | st.text().filter(lambda text: text != "unlimited"))
def test_any_limit_is_too_small_for_unlimited(said: int | str) -> None:
    assert len(differences(taken({MEMLOCK: said}))) == 1


@given(st.sets(st.sampled_from(sorted(HEALTHY))))
def test_without_any_field_that_counts_no_node_passes(gone: set[str]) -> None:
    needed = {key for key in HEALTHY if not key.endswith(("firmware", "netdev"))}
    good, found = judge(taken(dict.fromkeys(gone)), LINKS)
    assert bool(found) == bool(gone & needed)
    assert good <= LINKS.count


# ---- the reading ----

CALLS = [Call("inventory", "rank0", 0, "n1", 0, 0.2)]


def counted(options: Options, calls: list[Call] = CALLS) -> tuple[dict[str, float], Completeness]:
    node = inventory_state.parse(json.dumps(taken().as_dict()))
    reading = inventory_state.read(node, calls, options)
    return {m.variable: m.value for m in reading.measurements}, reading.completeness


def test_links_are_counted_next_to_the_entries() -> None:
    assert counted(Options((), LINKS))[0] == {"expectations": 0, "links": 4}
    assert Options((), LINKS).counts == {"expectations": 0, "links": 4}


def test_without_expected_yaml_links_are_all_that_is_counted() -> None:
    assert counted(Options(None, Links(None, BOND)))[0] == {"links": 2}


def test_without_rails_and_bond_no_links_are_counted() -> None:
    assert counted(Options(()))[0] == {"expectations": 0}


@pytest.mark.parametrize("calls", [[], [Call("inventory", "rank0", 0, "n1", 1, 0.2)]])
def test_without_a_call_that_ended_nothing_is_proved(calls: list[Call]) -> None:
    assert counted(Options((), LINKS), calls)[1] is Completeness.UNKNOWN
    assert counted(Options((), LINKS))[1] is Completeness.PROVED
