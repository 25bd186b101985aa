"""The preflight of a node: every single wrong fact is exactly one difference."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.checks.preflight import link_state
from railgauge.checks.preflight.link_state import Difference, Options, differences
from railgauge.model.call import Call
from railgauge.systems import Bond, Rdma
from railgauge.tools import Completeness, ParseError

Document = dict[str, Any]

RDMA = Rdma(
    devices="mlx5_[01]",
    rails=2,
    link_layer="Ethernet",
    active_mtu_bytes=4096,
    rate="400 Gb/sec (4X NDR)",
)
BOND = Bond(device="bond0", links=["eth3", "eth4"], link_gbits=200, mtu_bytes=9000)
OPTIONS = Options(RDMA, BOND)
INFINIBAND = Options(RDMA.model_copy(update={"link_layer": "InfiniBand"}), None)
BACKUP = Options(None, BOND.model_copy(update={"mode": "active-backup"}))


def least(kib: int) -> Options:
    return Options(RDMA.model_copy(update={"memlock_kib": kib}), BOND)


def rail(number: int) -> Document:
    return {
        "rail": number,
        "device": f"mlx5_{number}",
        "port": 1,
        "netdev": f"eth{1 + number}",
        "state": "ACTIVE",
        "phys_state": "LinkUp",
        "link_layer": "Ethernet",
        "rate": "400 Gb/sec (4X NDR)",
        "active_mtu_bytes": 4096,
        "gid_index": 3,
        "unknown": {},
    }


def bonded(name: str) -> Document:
    return {"name": name, "mii_status": "up", "speed_mbits": 200_000, "aggregator_id": 1}


def healthy() -> Document:
    return {
        "node": "n1",
        "rails": [rail(0), rail(1)],
        "bond": {
            "device": "bond0",
            "mode": "802.3ad",
            "active_aggregator": 1,
            "links": [bonded("eth3"), bonded("eth4")],
            "unknown": {},
        },
        "memlock_kib": "unlimited",
        "unknown": {},
    }


def but(change: Callable[[Document], object]) -> Document:
    """The healthy document with one thing changed."""
    document = copy.deepcopy(healthy())
    change(document)
    return document


def but_rail(number: int = 1, **facts: Any) -> Document:
    """One rail's facts changed; one that is None is not stated."""
    return but(lambda document: _state(document["rails"][number], facts))


def but_bond(**facts: Any) -> Document:
    return but(lambda document: _state(document["bond"], facts))


def but_link(number: int = 1, **facts: Any) -> Document:
    return but(lambda document: _state(document["bond"]["links"][number], facts))


def _state(place: Document, facts: Document) -> None:
    for name, value in facts.items():
        if value is None:
            del place[name]
        else:
            place[name] = value


def only_difference(document: Document, options: Options = OPTIONS) -> Difference:
    (difference,) = differences(document, options)
    return difference


# ---- a device that is not there ----


NAMED = Options(RDMA.model_copy(update={"names": ["mlx5_0", "mlx5_1"]}), BOND)


def test_a_device_that_is_not_there_is_missed_by_name() -> None:
    document = but(lambda d: d["rails"].pop(0))
    said = str(only_difference(document, NAMED))
    assert said.endswith("is 1 (mlx5_1), expected 2, rail 0 (mlx5_0) is not there")


@pytest.mark.parametrize("there", [True, False])
def test_of_an_absent_device_nothing_is_said(there: bool) -> None:
    options = Options(NAMED.rdma, BOND, absent=("mlx5_0",))
    document = but_rail(0, state="DOWN") if there else but(lambda d: d["rails"].pop(0))
    assert differences(document, options) == []
    assert link_state.read(document, [], options).measurements[0].value == 3


def test_a_device_that_is_not_the_absent_one_is_missed() -> None:
    options = Options(NAMED.rdma, BOND, absent=("mlx5_0",))
    document = but(lambda d: d["rails"].clear())
    assert "rail 1 (mlx5_1) is not there" in str(only_difference(document, options))


# ---- nothing is wrong ----


def test_healthy_node_has_no_difference() -> None:
    assert differences(healthy(), OPTIONS) == []


def test_infiniband_needs_no_gid() -> None:
    document = but(lambda d: [_state(r, {"gid_index": None}) for r in d["rails"]])
    for port in document["rails"]:
        port["link_layer"] = "InfiniBand"
    assert differences(document, INFINIBAND) == []


def test_first_gid_of_a_port_is_a_gid() -> None:
    assert differences(but_rail(gid_index=0), OPTIONS) == []


def test_node_without_rails_and_bond_is_not_asked_for_them() -> None:
    assert differences({"rails": [], "bond": None, "unknown": {}}, Options(None, None)) == []


def test_only_the_bond_is_judged_where_there_is_only_a_bond() -> None:
    document = but_rail(state="DOWN")
    assert differences(document, Options(None, BOND)) == []


@pytest.mark.parametrize("said", [64, 65, "unlimited"])
def test_enough_memory_may_be_locked(said: int | str) -> None:
    assert differences(but(lambda d: d.update(memlock_kib=said)), least(64)) == []


def test_only_lacp_has_aggregators() -> None:
    document = but_link(aggregator_id=None)
    document["bond"]["mode"] = "active-backup"
    assert differences(document, BACKUP) == []


# ---- one thing is wrong ----

RAIL = "rail 1 (mlx5_1 port 1)"

WRONG: dict[str, tuple[Document, Options, Difference]] = {
    "state": (
        but_rail(state="INIT"),
        OPTIONS,
        Difference(
            f"{RAIL}: state",
            "INIT",
            "ACTIVE",
            "rdma link show mlx5_1/1; ip link set eth2 up",
        ),
    ),
    "physical state": (
        but_rail(phys_state="Polling"),
        OPTIONS,
        Difference(
            f"{RAIL}: physical state", "Polling", "LinkUp", "the cable of eth2; ethtool eth2"
        ),
    ),
    "link layer": (
        but_rail(link_layer="InfiniBand"),
        OPTIONS,
        Difference(
            f"{RAIL}: link layer",
            "InfiniBand",
            "Ethernet",
            "mlxconfig set LINK_TYPE_P1=..., and reset",
        ),
    ),
    "rate": (
        but_rail(rate="200 Gb/sec (2X NDR)"),
        OPTIONS,
        Difference(
            f"{RAIL}: rate",
            "200 Gb/sec (2X NDR)",
            "400 Gb/sec (4X NDR)",
            "ethtool eth2; the cable, its module, the switch port",
        ),
    ),
    "active MTU": (
        but_rail(active_mtu_bytes=1024),
        OPTIONS,
        Difference(
            f"{RAIL}: active MTU",
            "1024",
            "4096",
            "ip link set eth2 mtu 4200 (or more), at both ends and on the switch",
        ),
    ),
    "no GID": (
        but_rail(gid_index=None, unknown={"gid_index": "no RoCE v2 entry"}),
        OPTIONS,
        Difference(
            f"{RAIL}: the GID table",
            "unknown (no RoCE v2 entry)",
            "a RoCE v2 entry with an IPv4 address",
            "ip address show eth2",
        ),
    ),
    "missing rail": (
        but(lambda document: document["rails"].pop()),
        OPTIONS,
        Difference(
            "the number of RDMA devices like mlx5_[01]",
            "1 (mlx5_0)",
            "2",
            "rdma link; dmesg | grep -i -e rdma -e mlx5",
        ),
    ),
    "no rail at all": (
        but(lambda document: document["rails"].clear()),
        OPTIONS,
        Difference(
            "the number of RDMA devices like mlx5_[01]",
            "0 (none)",
            "2",
            "rdma link; dmesg | grep -i -e rdma -e mlx5",
        ),
    ),
    "extra rail": (
        but(lambda document: document["rails"].append(rail(2))),
        OPTIONS,
        Difference(
            "the number of RDMA devices like mlx5_[01]",
            "3 (mlx5_0, mlx5_1, mlx5_2)",
            "2",
            "rdma link; dmesg | grep -i -e rdma -e mlx5",
        ),
    ),
    "less memory than unlimited": (
        but(lambda document: document.update(memlock_kib=8192)),
        OPTIONS,
        Difference(
            "the memory that a job may lock",
            "8192",
            "unlimited",
            "LimitMEMLOCK=infinity for slurmd, PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
        ),
    ),
    "less memory than the least": (
        but(lambda document: document.update(memlock_kib=8191)),
        least(8192),
        Difference(
            "the memory that a job may lock",
            "8191",
            "at least 8192 KiB",
            "LimitMEMLOCK=infinity for slurmd, PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
        ),
    ),
    "bond mode": (
        but_bond(mode="balance-rr"),
        OPTIONS,
        Difference("bond0: mode", "balance-rr", "802.3ad", "ip -d link show bond0"),
    ),
    "missing link": (
        but(lambda document: document["bond"]["links"].pop()),
        OPTIONS,
        Difference("bond0: links", "eth3", "eth3, eth4", "ip link set LINK master bond0"),
    ),
    "no link at all": (
        but(lambda document: document["bond"]["links"].clear()),
        OPTIONS,
        Difference("bond0: links", "none", "eth3, eth4", "ip link set LINK master bond0"),
    ),
    "extra link": (
        but(lambda document: document["bond"]["links"].append(bonded("eth5"))),
        OPTIONS,
        Difference(
            "bond0: links", "eth3, eth4, eth5", "eth3, eth4", "ip link set LINK master bond0"
        ),
    ),
    "link down": (
        but_link(mii_status="down"),
        OPTIONS,
        Difference("bond0: link eth4", "down", "up", "the cable of eth4; ethtool eth4"),
    ),
    "link in another aggregator": (
        but_link(aggregator_id=2),
        OPTIONS,
        Difference(
            "bond0: aggregator of eth4", "2", "1, the active one", "LACP on the switch's port"
        ),
    ),
    "link of unknown aggregator": (
        but_link(aggregator_id=None),
        OPTIONS,
        Difference(
            "bond0: aggregator of eth4", "None", "1, the active one", "LACP on the switch's port"
        ),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_wrong_fact_is_exactly_that_difference(name: str) -> None:
    document, options, expected = WRONG[name]
    assert differences(document, options) == [expected]


def test_aggregators_that_nobody_knows_are_not_taken_for_the_same() -> None:
    document = but(lambda d: [_state(x, {"aggregator_id": None}) for x in d["bond"]["links"]])
    document["bond"]["active_aggregator"] = None
    document["bond"]["unknown"] = {"active_aggregator": "only root is shown it"}
    assert [str(difference) for difference in differences(document, OPTIONS)] == [
        f"bond0: aggregator of {name} is None, "
        "expected unknown (only root is shown it), the active one"
        for name in ("eth3", "eth4")
    ]


def test_links_in_one_aggregator_that_is_not_the_active_one_carry_nothing() -> None:
    found = differences(but_bond(active_aggregator=2), OPTIONS)
    assert [difference.what for difference in found] == [
        "bond0: aggregator of eth3",
        "bond0: aggregator of eth4",
    ]


def test_every_wrong_fact_is_told() -> None:
    document = but_rail(0, state="DOWN", phys_state="Disabled")
    document["memlock_kib"] = 64
    document["bond"]["mode"] = "balance-rr"
    assert len(differences(document, OPTIONS)) == 4


def test_missing_rail_does_not_hide_the_state_of_the_other() -> None:
    document = but_rail(0, state="DOWN")
    document["rails"].pop()
    whats = [difference.what for difference in differences(document, OPTIONS)]
    assert whats == [
        "the number of RDMA devices like mlx5_[01]",
        "rail 0 (mlx5_0 port 1): state",
    ]


def test_missing_bond_is_told_by_mode_and_links() -> None:
    found = differences(but(lambda document: document.update(bond=None)), OPTIONS)
    assert [(difference.what, difference.found) for difference in found] == [
        ("bond0: mode", "unknown (the node does not say)"),
        ("bond0: links", "none"),
    ]


def test_difference_is_told_in_one_sentence() -> None:
    assert str(Difference("rail 0: state", "DOWN", "ACTIVE", "ip link")) == (
        "rail 0: state is DOWN, expected ACTIVE"
    )


# ---- what the node cannot say ----

RAIL_FACTS = ["state", "phys_state", "link_layer", "rate", "active_mtu_bytes", "gid_index"]


@pytest.mark.parametrize("fact", RAIL_FACTS)
def test_fact_that_a_rail_cannot_say_differs_with_its_reason(fact: str) -> None:
    document = but_rail(**{fact: None, "unknown": {fact: "no such file"}})
    assert only_difference(document).found == "unknown (no such file)"


@pytest.mark.parametrize("fact", RAIL_FACTS)
def test_fact_without_a_reason_differs_all_the_same(fact: str) -> None:
    assert only_difference(but_rail(**{fact: None})).found == "unknown (the node does not say)"


def test_null_is_not_a_fact() -> None:
    document = but(lambda d: d["rails"][0].update(state=None))
    assert only_difference(document).found == "unknown (the node does not say)"


@pytest.mark.parametrize("options", [OPTIONS, least(64)])
def test_unknown_memory_differs_with_its_reason(options: Options) -> None:
    document = but(lambda d: d.update(memlock_kib=None, unknown={"memlock_kib": "no ulimit"}))
    assert only_difference(document, options).found == "unknown (no ulimit)"


def test_unknown_bond_mode_differs_with_its_reason() -> None:
    document = but_bond(mode=None, unknown={"mode": "bond0: no such file"})
    assert only_difference(document).found == "unknown (bond0: no such file)"


def test_link_that_does_not_say_its_state_is_not_up() -> None:
    assert only_difference(but_link(mii_status=None)).expected == "up"


# ---- any document ----


@given(
    st.sampled_from(RAIL_FACTS[:-1]),
    st.sampled_from([0, 1]),
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text(), max_size=2),
)
def test_any_other_value_of_a_rail_is_one_difference(fact: str, number: int, value: Any) -> None:
    document = but(lambda d: d["rails"][number].update({fact: value}))
    expected = 0 if str(value) == str(rail(number)[fact]) else 1
    assert len(differences(document, OPTIONS)) == expected


@given(st.integers(-1, 10**9) | st.text().filter(lambda text: text != "unlimited"))
def test_any_limit_is_too_small_for_unlimited(said: int | str) -> None:
    document = but(lambda d: d.update(memlock_kib=said))
    assert len(differences(document, OPTIONS)) == 1


# ---- what the node prints ----

CALLS = [Call("path_state", "rank0", 0, "n1", 0, 0.2)]


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "3", '{"rails": null}', '{"rails": {}}'])
def test_another_document_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="expected"):
        link_state.parse(text)


def test_whole_document_is_read_as_printed() -> None:
    assert link_state.parse(json.dumps(healthy(), indent=1)) == healthy()


@given(st.data())
def test_truncated_document_never_passes(data: st.DataObject) -> None:
    text = json.dumps(healthy(), indent=1)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(ParseError):
        link_state.parse(cut)


@given(st.text() | st.recursive(st.none() | st.integers(), st.lists).map(json.dumps))
def test_any_text_is_refused_and_raises_nothing(text: str) -> None:
    with pytest.raises(ParseError):
        link_state.parse(text)


def links(document: Document, options: Options = OPTIONS) -> float:
    (measured,) = link_state.read(
        link_state.parse(json.dumps(document)), CALLS, options
    ).measurements
    assert measured.variable == "links"
    return measured.value


def test_every_good_rail_and_link_is_counted() -> None:
    assert links(healthy()) == 4


COUNTED = {"missing rail": 3, "no rail at all": 2, "extra rail": 5, "extra link": 5}
COUNTED |= {"missing link": 3, "no link at all": 2, "bond mode": 4}
COUNTED |= {"less memory than unlimited": 4, "less memory than the least": 4}


@pytest.mark.parametrize("name", WRONG)
def test_only_good_rails_and_links_are_counted(name: str) -> None:
    document, options, _ = WRONG[name]
    assert links(document, options) == COUNTED.get(name, 3)


def test_rails_that_nobody_asked_for_are_not_counted() -> None:
    assert links(healthy(), Options(None, BOND)) == 2


def test_links_that_nobody_asked_for_are_not_counted() -> None:
    assert links(healthy(), Options(RDMA, None)) == 2


def test_document_of_a_call_that_ended_is_proved() -> None:
    reading = link_state.read(healthy(), CALLS, OPTIONS)
    assert (reading.ok, reading.completeness) == (True, Completeness.PROVED)


@pytest.mark.parametrize("calls", [[], [Call("path_state", "rank0", 0, "n1", 1, 0.2)]])
def test_document_without_a_call_that_ended_is_not_proved(calls: list[Call]) -> None:
    reading = link_state.read(healthy(), calls, OPTIONS)
    assert reading.completeness is Completeness.UNKNOWN


# ---- what the node is told ----


def test_node_is_told_what_to_look_at() -> None:
    assert OPTIONS.orders() == {
        "rdma": {"devices": "mlx5_[01]", "names": [], "gid_type": "RoCE v2"},
        "bond": {"device": "bond0"},
    }


def test_infiniband_has_no_type_of_gid() -> None:
    assert INFINIBAND.orders()["rdma"]["gid_type"] is None


def test_nothing_to_look_at_is_told_too() -> None:
    assert Options(None, None).orders() == {"rdma": None, "bond": None}


def test_node_program_is_given_its_orders() -> None:
    argv = link_state.argv("{}")
    assert argv == ["python3", "-S", "-m", "railgauge.node.system.link_state", "{}"]
