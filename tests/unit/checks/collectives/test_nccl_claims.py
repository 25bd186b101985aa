"""What NCCL's numbers say that every node's NICs carried, against their counters."""

from __future__ import annotations

import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.checks.collectives.nccl_run import NcclRun
from railgauge.checks.framework.byte_accounting import contradictions
from railgauge.checks.framework.cases import GroupCase
from railgauge.model.failure import NOT_MEASURED
from railgauge.model.measurement import Measurement
from railgauge.systems.nccl import Transport
from railgauge.tools import Completeness, Reading
from tests.unit.systems.test_nccl_fabric import DEVICES, described

#: 20 iterations of 16 GiB, out of place and in place.
CARRIED = 2 * 20 * 2**34


def case(transport: Transport = "default", operation: str = "all_reduce", **changes: Any) -> Any:
    """An all_reduce on n1 and n2, four GPUs and two NICs a node, as far as it is asked here."""
    check: Any = types.SimpleNamespace(
        place=GroupCase("p", operation, transport, ("n1", "n2")),
        ranks=8,
        domains=2,
        fabric=described(),
        devices=[tuple(DEVICES), tuple(DEVICES)] if transport == "default" else [(), ()],
        options=types.SimpleNamespace(iterations=20),
    )
    vars(check).update(changes)
    check._ways = types.MethodType(NcclRun._ways, check)
    for name in ("crosses_nics", "node_share", "counted"):
        vars(check)[name] = getattr(NcclRun, name).fget(check)
    return check


def claims(facts: dict[str, Any], transport: Transport = "default", **changes: Any) -> list[Any]:
    """What that case claims, by a reading of 20 iterations."""
    check = case(transport, **changes)
    measured = tuple(
        Measurement(
            metric, 200_000.0, "nccl-tests", "all_reduce", transport, size_bytes=2**34, ranks=8
        )
        for metric in ("time", "time_in_place")
    )
    reading = Reading(True, "", Completeness.PROVED, measured)
    return list(NcclRun.claims(check, reading, facts))


def counted(share: float, names: tuple[str, ...] = ("rdma/mlx5_0/1", "rdma/mlx5_1/1")) -> Any:
    """Both nodes, each with a share of what must have been carried, evenly on some devices."""
    each = int(share * CARRIED / len(names))
    moved = {"eth0": {"rx": 1, "tx": 1}, **{name: {"rx": each, "tx": each} for name in names}}
    return {
        node: {
            "counters": {"bytes": moved, "peak_gbits": {}},
            "netdevs": {"mlx5_0": ["eth2"], "mlx5_1": ["eth3"]},
            "socket_interfaces": ["eth0", "eth1"],
            "related": ["bond0", "eth2", "eth3"],
        }
        for node in ("n1", "n2")
    }


def found(facts: dict[str, Any], **changes: Any) -> list[str]:
    return [
        told.kind
        for claim in claims(facts, **changes)
        for told in contradictions(claim, facts[claim.node]["counters"])
    ]


def test_every_node_must_carry_what_is_added_up() -> None:
    assert [(c.node, c.payload_bytes) for c in claims(counted(1))] == [
        ("n1", CARRIED),
        ("n2", CARRIED),
    ]


@pytest.mark.parametrize(("share", "kinds"), [(1.0, []), (1.9, []), (0.5, ["counters"] * 2)])
def test_nics_that_carried_less_contradict(share: float, kinds: list[str]) -> None:
    assert found(counted(share)) == kinds


@pytest.mark.parametrize(
    ("changes", "counted"),
    [({}, True), ({"operation": "gather"}, False), ({"domains": 1}, False)],
    ids=["all_reduce", "only one node's", "one NVLink domain"],
)
def test_a_rate_needs_a_claim_where_every_node_must_carry_something(
    changes: dict[str, Any], counted: bool
) -> None:
    assert case(**changes).counted is counted


def test_an_algorithm_may_use_one_nic_more_than_another() -> None:
    facts = counted(1, ("rdma/mlx5_1/1",))
    for said in facts.values():
        said["counters"]["bytes"]["rdma/mlx5_0/1"] = {"rx": 0, "tx": 0}
    assert found(facts) == []


def test_what_went_over_another_device_is_named() -> None:
    facts = counted(1, ("rdma/mlx5_7/1",))
    for said in facts.values():
        said["counters"]["bytes"] |= {f"rdma/{d}/1": {"rx": 0, "tx": 0} for d in DEVICES}
    (told, *_) = contradictions(claims(facts)[0], facts["n1"]["counters"])
    assert "mlx5_7 687 GB: the traffic took that way" in told.message


def test_over_sockets_all_interfaces_count() -> None:
    assert found(counted(1, ("eth0", "eth1")), transport="sockets") == []
    assert found(counted(1, ("lo",)), transport="sockets") == ["counters"] * 2


def test_over_sockets_only_what_nccl_may_use_counts() -> None:
    facts = counted(1, ("eth1",))
    assert found(facts, transport="sockets") == []
    for said in facts.values():
        said["socket_interfaces"] = ["eth0"]
    (told, *_) = contradictions(claims(facts, transport="sockets")[0], facts["n1"]["counters"])
    assert told.kind == "counters" and "eth1 687 GB: the traffic took" in told.message


def beside(share: float, name: str) -> Any:
    """All went where it was to go, and a share of it over another device too."""
    facts = counted(1)
    for said in facts.values():
        said["counters"]["bytes"][name] = {"rx": int(share * CARRIED), "tx": 0}
    return facts


@pytest.mark.parametrize("name", ["rdma/mlx5_7/1", "eth9", "ethtool/eth9"])
def test_traffic_on_a_device_that_nccl_was_not_to_use_is_a_finding(name: str) -> None:
    assert found(beside(0.5, name)) == ["counters-elsewhere"] * 2
    assert found(beside(0.1, name)) == []


@pytest.mark.parametrize("name", ["eth2", "ethtool/eth3", "bond0", "lo"])
def test_what_shows_the_same_traffic_from_another_layer_is_none(name: str) -> None:
    assert found(beside(1.0, name)) == []


def test_who_else_uses_a_node_says_nothing_against_it() -> None:
    assert "counters-elsewhere" in NOT_MEASURED


@given(st.floats(0, 4), st.floats(0, 4), st.sampled_from(["rdma/mlx5_7/1", "eth9", "eth2"]))
def test_more_elsewhere_never_makes_up_for_what_is_missing(
    there: float, elsewhere: float, name: str
) -> None:
    facts = beside(elsewhere, name)
    for said in facts.values():
        said["counters"]["bytes"] |= {
            f"rdma/{d}/1": {"rx": int(there * CARRIED / 2), "tx": 0} for d in DEVICES
        }
    kinds = set(found(facts))
    if name != "eth2":
        assert (kinds == {"counters"}) is (there < 0.99)
    assert len(kinds) <= 1


def test_nodes_that_were_not_watched_are_no_pass() -> None:
    nobody: dict[str, Any] = {"n1": {"counters": {}}, "n2": {"counters": {}}}
    assert found(nobody) == ["counters-unread"] * 2


def test_within_an_nvlink_domain_nothing_is_claimed() -> None:
    assert claims(counted(1), domains=1) == []
    assert claims(counted(1), operation="gather") == []
