"""The preflight of firmware and tuning: what a system expects, what peers agree in, the rails."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import paths, systems
from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import Campaign, Requested, Scope, Session
from railgauge.checks.framework.cases import NodeCase, PairCase
from railgauge.checks.preflight import inventory_state, node_state
from railgauge.checks.preflight.inventory_state import Options, differences
from railgauge.checks.preflight.node_state import NodeStateCases, of_states
from railgauge.checks.rdma.rail import RailLinks, RailProbes, of_rails, of_rails_among
from railgauge.common.errors import ConfigurationError
from railgauge.model import inventory
from railgauge.model.call import Call
from railgauge.model.inventory import Inventory
from railgauge.model.record import Row
from railgauge.node.inventory.sheet import Scalar
from railgauge.systems import Rdma, expected
from railgauge.systems.expected import Expectation, Expected
from railgauge.tools import Completeness, ParseError
from railgauge.verdict.campaign.cases import Case, fingerprints
from railgauge.verdict.campaign.inventory_peers import OddNodes, odd_nodes
from railgauge.verdict.campaign.tool_builds import notices
from railgauge.verdict.decision.rules import decide
from tests.properties import tries
from tests.unit import records
from tests.unit.checks import ended_jobs
from tests.unit.checks.rdma.test_rail import BOND, Describe, describe, partition, rails
from tests.unit.verdict.decision.test_rules import REFERENCE

__all__ = ["describe"]

FIELDS: dict[str, Scalar] = {
    "kernel/release": "6.12",
    "sysctl/net.ipv4.tcp_congestion_control": "cubic",
    "net/eth1/mtu_bytes": 4200,
    "net/eth2/mtu_bytes": 4200,
    "net/eth1/operstate": "up",
    "nic/mlx5_0/firmware": "28.39.1002",
    "nic/mlx5_1/firmware": "28.39.1002",
    "nic/mlx5_0/1/netdev": "eth1",
    "nic/mlx5_1/1/netdev": "eth2",
}


def node(name: str = "n1", unknown: Mapping[str, str] | None = None, **fields: Any) -> Inventory:
    changed = {**FIELDS, **{key.replace("__", "/"): value for key, value in fields.items()}}
    known = {key: value for key, value in changed.items() if key not in (unknown or {})}
    return Inventory(
        name,
        "boot",
        "2026-11-21T00:00:00+00:00",
        0.1,
        {k: v for k, v in known.items() if v is not None},
        unknown or {},
    )


def entry(fields: str = "net/eth[0-9]+/mtu_bytes", **more: Any) -> Expectation:
    right = {} if {"one_of", "min"} & more.keys() else {"is": 4200}
    return Expectation.model_validate(
        {"fields": fields, **right, "why": "w", "fix": "ip link set {device} mtu 4200", **more}
    )


def found(one: Inventory, *entries: Expectation) -> list[str]:
    return [str(difference) for difference in differences(one, Options(entries))]


# ---- expected.yaml ----


def test_every_systems_file_loads() -> None:
    for name in systems.names():
        assert expected.load(name) is not None, name


def test_every_partition_of_every_system_expects_something() -> None:
    for name in systems.names():
        file = expected.load(name)
        assert file is not None
        assert all(file.of(p.name) for p in systems.load(name).partitions)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{fields: a, why: w, fix: m}", "give one of is, one_of and min"),
        ("{fields: a, is: 1, min: 2, why: w, fix: m}", "give one of is, one_of and min"),
        ("{fields: a, is: 1, maximum: 2, why: w, fix: m}", "maximum"),
        ("{fields: '[', is: 1, why: w, fix: m}", "not a regular expression"),
        ("{fields: a, is: 1, why: w}", "fix"),
    ],
)
def test_a_wrong_entry_is_an_error_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, says: str
) -> None:
    (tmp_path / "alps").mkdir()
    (tmp_path / "alps" / "expected.yaml").write_text(f"expected:\n  - {line}\n")
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path)
    with pytest.raises(ConfigurationError, match=r"expected\.yaml:2") as raised:
        expected.load("alps")
    assert says in str(raised.value)


# ---- a node against what its system expects ----


def test_a_node_as_expected_has_no_difference() -> None:
    assert found(node(), entry()) == []


def test_a_difference_names_field_found_expected_and_mend() -> None:
    (difference,) = differences(node(net__eth2__mtu_bytes=1500), Options((entry(),)))
    assert str(difference) == "net/eth2/mtu_bytes is 1500, expected 4200"
    assert difference.fix == "ip link set eth2 mtu 4200"


def test_a_field_that_nobody_has_is_a_difference() -> None:
    assert found(node(), entry("net/eth9/mtu_bytes")) == [
        "a field like net/eth9/mtu_bytes is not there, expected 4200"
    ]
    assert found(node(), entry("net/eth9/mtu_bytes", where_present=True)) == []


def test_an_unknown_field_is_a_difference_with_its_reason() -> None:
    silent = node(unknown={"net/eth2/mtu_bytes": "no such file"})
    says = ["net/eth2/mtu_bytes is unknown (no such file), expected 4200"]
    assert found(silent, entry()) == says
    assert found(silent, entry(where_present=True)) == says


@pytest.mark.parametrize(
    ("right", "value", "admitted"),
    [
        ({"is": 4200}, 4200, True),
        ({"is": 4200}, 4200.0, True),
        ({"is": 4200}, "4200", False),
        ({"is": True}, True, True),
        ({"is": True}, 1, False),
        ({"is": 1}, True, False),
        ({"one_of": ["cubic", "bbr"]}, "bbr", True),
        ({"one_of": ["cubic", "bbr"]}, "reno", False),
        ({"min": 16}, 16, True),
        ({"min": 16}, 8, False),
        ({"min": 16}, "16", False),
        ({"min": 1}, True, False),
    ],
)
def test_what_an_entry_admits(right: dict[str, Any], value: Scalar, admitted: bool) -> None:
    one = Expectation.model_validate({"fields": "a", "why": "w", "fix": "m", **right})
    assert one.admits(value) is admitted


def test_an_entry_may_be_of_one_partition() -> None:
    file = Expected(expected=[entry(partition="vm"), entry("kernel/release", one_of=["6.12"])])
    assert [e.fields for e in file.of("ns")] == ["kernel/release"]


# ---- the reading ----


def document(one: Inventory) -> str:
    return json.dumps(one.as_dict())


CALL = Call("inventory", "rank0", 0, "n1", 0, 0.1)


def test_the_number_is_that_of_entries_that_hold() -> None:
    options = Options((entry(), entry("kernel/release", one_of=["6.11"])))
    reading = inventory_state.read(inventory_state.parse(document(node())), [CALL], options)
    assert (reading.measurements[0].value, reading.completeness) == (1, Completeness.PROVED)


def test_without_an_exit_line_nothing_is_proved() -> None:
    reading = inventory_state.read(inventory_state.parse(document(node())), [], Options((entry(),)))
    assert reading.completeness is Completeness.UNKNOWN


@pytest.mark.parametrize("text", ["", "{}", document(node())[:-2]])
def test_no_inventory_is_no_result(text: str) -> None:
    with pytest.raises(ParseError):
        inventory_state.parse(text)


# ---- peers ----


NO_FREEDOM = Expected(expected=[entry()])
RAILS = Rdma(
    devices="mlx5_[0-9]+",
    rails=2,
    link_layer="Ethernet",
    active_mtu_bytes=4096,
    rate="400 Gb/sec (4X NDR)",
)
NAMED = RAILS.model_copy(update={"names": ["mlx5_0", "mlx5_1"]})


def case(
    one: Inventory,
    file: Expected = NO_FREEDOM,
    partition: str = "gpu",
    rdma: Rdma = RAILS,
    absent: Sequence[str] = (),
) -> Case:
    agreed = inventory_state.agreed(one, file, rdma, absent)
    facts = {"agreed": {**agreed, "mends": {}}, "fingerprint": inventory.fingerprint(one)}
    name = f"NodeState {one.node}"
    return Case(
        *("NodeState", name, partition, (one.node,), 0, "pass", "", (), (), None),
        facts={one.node: facts},
    )


def odd(*nodes: Inventory, file: Expected = NO_FREEDOM) -> list[OddNodes]:
    return odd_nodes([case(one, file) for one in nodes])


def test_nodes_that_agree_are_not_named() -> None:
    assert odd(node("n1"), node("n2"), node("n3")) == []


def test_the_odd_one_out_is_named_with_the_field() -> None:
    (only,) = odd(node("n1"), node("n2", nic__mlx5_1__firmware="28.43.1014"), node("n3"))
    assert (only.nodes, only.tie) == (("n2",), False)
    says = 'nic/mlx5_1/firmware is "28.43.1014", expected "28.39.1002"'
    assert says in only.message


def test_a_node_whose_own_files_steer_nccl_is_odd() -> None:
    other = node("n2", **{"nccl/conf/etc/NCCL_ALGO": "Ring"})
    (only,) = odd(node("n1"), other, node("n3"))
    assert only.nodes == ("n2",) and 'nccl/conf/etc/NCCL_ALGO is "Ring"' in only.message


def test_of_two_nodes_both_are_named() -> None:
    (both,) = odd(node("n1"), node("n2", kernel__release="6.11"))
    assert (both.nodes, both.tie) == (("n1", "n2"), True)
    assert 'kernel/release is "6.12" on n1, "6.11" on n2' in both.message


def test_half_against_half_is_a_tie() -> None:
    others = [node(n, kernel__release="6.11") for n in ("n3", "n4")]
    (tie,) = odd(node("n1"), node("n2"), *others)
    assert tie.tie and '"6.12" on n1 n2, "6.11" on n3 n4' in tie.message


def test_state_and_identity_may_differ() -> None:
    assert odd(node("n1"), node("n2", net__eth1__operstate="down"), node("n3")) == []


#: How provisioners start each of their nodes: Warewulf, xCAT, Cray's CSM; one that is not known
#: here with a MAC, and with a name that tells nothing.
STARTED = {
    "wwid": "52:54:00:00:00:0{}",
    "NODE": "n{}",
    "xname": "x3000c0s17b3n{}",
    "acme.from": "http://boot/52-54-00-00-00-0{}/image",
    "acme.node": "rack{}",
}


@pytest.mark.parametrize("name", STARTED)
def test_nodes_may_be_started_each_by_its_own_name(name: str) -> None:
    nodes = [node(f"n{i}", **{f"kernel/cmdline/{name}": STARTED[name].format(i)}) for i in range(6)]
    assert odd(*nodes) == []


def test_one_node_with_another_parameter_is_odd() -> None:
    nodes = [node(f"n{i}", **{"kernel/cmdline/acme.node": "a"}) for i in range(3)]
    (only,) = odd(*nodes, node("n3", **{"kernel/cmdline/acme.node": "b"}))
    assert only.nodes == ("n3",)


def test_an_interface_named_by_its_address_is_each_nodes_own() -> None:
    nodes = [node(f"n{i}", **{f"net/enx7ed30aec595{i}/driver": "cdc_ether"}) for i in range(4)]
    assert odd(*nodes) == []


def test_what_the_system_lets_differ_may() -> None:
    free = Expected.model_validate(
        {
            "expected": [entry().model_dump(by_alias=True, exclude_none=True)],
            "may_differ": [{"fields": "net/.*/mtu_bytes", "why": "w"}],
        }
    )
    assert odd(node("n1"), node("n2", net__eth1__mtu_bytes=1500), file=free) == []


def test_unknown_is_no_difference() -> None:
    silent = node("n2", unknown={"kernel/release": "no such file"})
    assert odd(node("n1"), silent, node("n3")) == []


def test_a_part_that_only_one_node_lacks_is_a_difference() -> None:
    (only,) = odd(node("n1"), node("n2", nic__mlx5_1__firmware=None), node("n3"))
    assert "nic/rail1/firmware is not there" in only.message


def without_rail(device: str, netdev: str, name: str = "n2") -> Inventory:
    """A node that has nothing of a device, nor of the interface behind it."""
    gone = {key: None for key in FIELDS if f"/{device}/" in key or f"/{netdev}/" in key}
    return node(name, **gone)


def test_what_an_absent_device_lacks_is_not_odd() -> None:
    lacking = without_rail("mlx5_0", "eth1")
    others = [case(node(n), rdma=NAMED) for n in ("n1", "n3")]
    assert odd_nodes([*others, case(lacking, rdma=NAMED, absent=["mlx5_0"])]) == []
    (only,) = odd_nodes([*others, case(lacking, rdma=NAMED)])
    assert only.nodes == ("n2",) and "nic/rail0/" in only.message


def test_devices_are_compared_by_rail_not_by_name() -> None:
    renamed = {
        key.replace("mlx5_", "mlx5_1").replace("eth", "ens"): (
            value.replace("eth", "ens") if isinstance(value, str) else value
        )
        for key, value in FIELDS.items()
    }
    other = Inventory("n2", "boot", "", 0.1, renamed, {})
    assert odd(node("n1"), other) == []


def test_partitions_are_compared_apart() -> None:
    other = node("m1", kernel__release="6.11")
    assert odd_nodes([case(node("n1")), case(other, partition="cpu")]) == []


def test_many_fields_are_counted_not_listed() -> None:
    changes = {f"sysctl__{letter}": 1 for letter in "abcdefgh"}
    (only,) = odd(node("n1"), node("n2"), node("n3", **changes))
    assert only.message.endswith("and 4 more")


def odd_beside(tested: dict[str, dict[str, str]], *nodes: Inventory) -> list[OddNodes]:
    return odd_nodes([case(one) for one in nodes], tested=tested)


def test_what_a_gate_run_accepted_of_a_node_is_not_odd() -> None:
    updated = node("n2", kernel__release="6.13")
    tested = {"n2": {"kernel/release": "6.13"}}
    assert odd_beside(tested, node("n1"), updated, node("n3")) == []
    assert odd_beside(tested, node("n1"), updated) == []


def test_what_changed_since_the_gate_run_is_odd() -> None:
    tested = {"n2": {"kernel/release": "6.13"}}
    (again,) = odd_beside(tested, node("n1"), node("n2", kernel__release="6.14"), node("n3"))
    assert again.nodes == ("n2",)
    other = node("n2", kernel__release="6.13", nic__mlx5_1__firmware="28.43.1014")
    (another,) = odd_beside(tested, node("n1"), other, node("n3"))
    assert "firmware" in another.message and "kernel" not in another.message


def test_a_node_that_no_gate_run_tested_stays_odd_beside_those_that_one_did() -> None:
    updated = [node(n, kernel__release="6.13") for n in ("n2", "n3")]
    tested = {n: {"kernel/release": "6.13"} for n in ("n2", "n3")}
    (left,) = odd_beside(tested, node("n1"), *updated)
    assert left.nodes == ("n1",)


def test_a_node_like_none_of_those_that_were_accepted_in_two_states_is_odd() -> None:
    tested = {"n1": {"kernel/release": "6.12"}, "n3": {"kernel/release": "6.13"}}
    partners = [node("n1", kernel__release="6.12"), node("n3", kernel__release="6.13")]
    (alone,) = odd_beside(tested, *partners, node("n2", kernel__release="6.11"))
    assert alone.nodes == ("n2",) and not alone.tie
    assert 'kernel/release is "6.11", expected "6.12"' in alone.message
    # Also where these are the most.
    others = [node(name, kernel__release="6.11") for name in ("n2", "n4")]
    (group,) = odd_beside(tested, *partners, *others)
    assert group.nodes == ("n2", "n4")
    for release in ("6.12", "6.13"):
        assert odd_beside(tested, *partners, node("n2", kernel__release=release)) == []
    # Of two unknown states, neither is the odd one.
    unlike = [node("n2", kernel__release="6.11"), node("n4", kernel__release="6.10")]
    (tie,) = odd_beside(tested, *partners, *unlike)
    assert tie.tie


@settings(max_examples=tries(100))
@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=6))
def test_whoever_differs_is_named(values: list[str]) -> None:
    nodes = [node(f"n{i}", kernel__release=value) for i, value in enumerate(values)]
    named = {n for one in odd(*nodes) for n in one.nodes}
    counts = {value: values.count(value) for value in values}
    most = max(counts.values())
    alone = [value for value, count in counts.items() if count == most]
    expected_names = {
        f"n{i}" for i, value in enumerate(values) if len(alone) > 1 or value != alone[0]
    }
    assert named == (expected_names if len(counts) > 1 else set())


# ---- the verdict ----


def campaign_of(folder: Path, nodes: list[Inventory]) -> Campaign:
    plan, report, names = [], [], [one.node for one in nodes]
    for one in nodes:
        stage = folder / "stage" / one.node
        stage.mkdir(parents=True)
        written = case(one)
        reading = inventory_state.read(
            inventory_state.parse(document(one)), [CALL], Options((entry(),))
        )
        reference = REFERENCE.model_copy(update={"value": 1.0, "unit": "entries"})
        record = records.record(
            [Row(m, reference, None) for m in reading.measurements],
            facts={n: dict(facts) for n, facts in written.facts.items()},
        )
        records.write(stage / "railgauge.jsonl", record)
        name = {"unique_name": f"NodeState_{one.node}", "partition": "gpu"}
        plan.append(records.planned("NodeState", f"NodeState {one.node}", nodes=[one.node], **name))
        report.append({**name, "result": "pass", "stagedir": str(stage)})
    (folder / "plan.json").write_text(json.dumps(plan))
    records.leave_report(folder, plan, [report], system="alps")
    scope = Scope({"gpu": names}, {"gpu": ["NodeState"]})
    found = Campaign(folder, "alps", "acceptance", scope, Requested([], {}, {}), "finished")
    found.session = Session(0, "")
    found.save()
    return found


def test_nodes_that_agree_are_accepted_with_their_fingerprints(tmp_path: Path) -> None:
    verdict = decide(campaign_of(tmp_path, [node("n1"), node("n2")]))
    same = inventory.fingerprint(node())
    assert verdict.decision == "accept", verdict.findings
    assert verdict.as_dict()["fingerprints"] == {"n1": same, "n2": same}


def test_the_facts_say_which_fields_the_fingerprint_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a tool that hangs once makes a changed node of it."""
    unknown = {"kernel/release": "EIO", "net/eth0/operstate": "EINVAL"}
    one = node()
    fields = {key: value for key, value in one.fields.items() if key not in unknown}
    seen = dataclasses.replace(one, fields=fields, unknown={**one.unknown, **unknown})
    monkeypatch.setattr(node_state, "_expected", lambda: None)
    with ended_jobs.runtime("lab", tmp_path):
        (facts,) = node_state._facts(seen, Options(None)).values()
        (known,) = node_state._facts(dataclasses.replace(one, unknown={}), Options(None)).values()
    assert facts["unknown_fields"] == inventory.unknown_lasting(seen)
    assert "kernel/release" in facts["unknown_fields"]
    assert "unknown_fields" not in known


def test_the_odd_node_is_rejected_and_looked_at_first(tmp_path: Path) -> None:
    nodes = [node("n1"), node("n2", kernel__release="6.11"), node("n3")]
    verdict = decide(campaign_of(tmp_path, nodes))
    (finding,) = verdict.findings
    assert (verdict.decision, finding.kind, finding.nodes) == ("reject", "odd-node", ("n2",))
    assert [suspect.name for suspect in verdict.suspects] == ["n2"]


def test_a_held_node_that_is_as_accepted_is_no_peer_of_an_updated_one(tmp_path: Path) -> None:
    """A suspect and an updated node, tested in one gate run."""
    updated, suspect = node("n2", kernel__release="6.13"), node("n3")
    campaign = campaign_of(tmp_path, [node("n1"), updated, suspect, node("n4")])
    accepted = {name: inventory.fingerprint(node()) for name in ("n2", "n3")}
    scope = dataclasses.replace(campaign.scope, updated=["n2", "n3"], accepted=accepted)
    campaign.scope = scope
    assert decide(campaign).decision == "accept"


def test_a_tie_rejects_and_suspects_nobody(tmp_path: Path) -> None:
    verdict = decide(campaign_of(tmp_path, [node("n1"), node("n2", kernel__release="6.11")]))
    assert (verdict.decision, verdict.suspects) == ("reject", ())
    assert verdict.findings[0].nodes == ("n1", "n2")


@pytest.mark.parametrize("nothing", ["", " []", " null"])
def test_without_entries_a_node_is_looked_at_and_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing: str
) -> None:
    (tmp_path / "alps").mkdir()
    (tmp_path / "alps" / "expected.yaml").write_text(f"expected:{nothing}\n")
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path)
    found = expected.load("alps")
    assert found is not None and found.of("gpu") == ()
    reading = inventory_state.read(inventory_state.parse(document(node())), [CALL], Options(()))
    assert (reading.ok, reading.measurements[0].value) == (True, 0)


def test_a_campaign_keeps_its_fingerprints(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path, [node("n1")])
    campaign.fingerprints = fingerprints(decide(campaign).cases)
    campaign.save()
    assert campaigns.load(str(tmp_path)).fingerprints == {"n1": inventory.fingerprint(node())}


def test_a_reference_of_other_firmware_is_told(tmp_path: Path) -> None:
    cases = decide(campaign_of(tmp_path, [node("n1")])).cases
    assert notices(cases, ()) == ()
    row = cases[0].rows[0]
    assert row.reference is not None
    was = row.reference.provenance.model_copy(update={"fingerprint": "0123456789ab"})
    older = dataclasses.replace(row, reference=row.reference.model_copy(update={"provenance": was}))
    (told,) = notices([dataclasses.replace(cases[0], rows=(older,))], ())
    assert "0123456789ab" in told.message and inventory.fingerprint(node()) in told.message


# ---- which cases there are, and what depends on them ----

ENTRY = {"fields": "kernel/release", "is": "6.12", "why": "w", "fix": "m"}


@pytest.fixture
def expects(describe: Describe, tmp_path: Path) -> Callable[..., None]:
    """A system of these partitions, with an expected.yaml."""

    def make(*partitions: dict[str, Any]) -> None:
        describe(*partitions)
        (tmp_path / "alps" / "expected.yaml").write_text(json.dumps({"expected": [ENTRY]}))

    return make


def test_every_node_of_a_system_with_the_file_is_judged(expects: Describe) -> None:
    expects(partition("a", "n[1-2]", rdma=rails(1)), partition("b", "m1"))
    assert records.names(NodeStateCases()) == ["a:n1", "a:n2", "b:m1"]


def test_without_the_file_nodes_with_rails_or_a_bond_are_judged(describe: Describe) -> None:
    bonded = partition("b", "m1", bond=BOND)
    describe(partition("a", "n[1-2]", rdma=rails(1)), bonded, partition("c", "k1"))
    assert records.names(NodeStateCases()) == ["a:n1", "a:n2", "b:m1"]


def test_a_pair_waits_for_both_of_its_nodes(expects: Describe) -> None:
    expects(partition("a", "n[1-2]", rdma=rails(1)), partition("b", "m1"))
    assert of_states(NodeCase("a", "n2")) == [("NodeState_0", "n2")]
    assert of_states(PairCase("a", "n1", "n2")) == [("NodeState_0", "n1"), ("NodeState_0", "n2")]


def test_nccl_waits_for_the_states_of_its_nodes(expects: Describe) -> None:
    expects(partition("a", "n[1-2]", rdma=rails(1)), partition("b", "m1"))
    assert of_states(NodeCase("b", "m1")) == [("NodeState_1", "m1")]


def test_every_rail_is_probed_in_both_directions(describe: Describe) -> None:
    describe(partition(nodes="n[1-2]", rdma=rails(2, across_rails=True)))
    assert records.names(RailProbes()) == [
        *("gpu:n1:n2:0-0", "gpu:n1:n2:1-1", "gpu:n2:n1:0-0", "gpu:n2:n1:1-1"),
    ]


def test_a_system_may_do_without_the_probe(describe: Describe) -> None:
    describe(partition(nodes="n[1-2]", rdma=rails(2, perftest={"probe_s": None})))
    assert records.names(RailProbes()) == [] and of_rails("gpu", "n1", "n2", {0}) == []


def test_a_pair_needs_the_probes_of_its_rails(describe: Describe) -> None:
    describe(partition(nodes="n[1-3]", rdma=rails(2, across_rails=True)))
    assert of_rails("gpu", "n2", "n3", {1}) == [("RailProbe", "n2:n3:1-1")]
    both = [("RailProbe", "n2:n3:0-0"), ("RailProbe", "n2:n3:1-1")]
    assert of_rails_among("gpu", ("n2", "n3")) == both
    # Whichever of them serves: what has been probed between them is what there is.
    assert of_rails_among("gpu", ("n3", "n2")) == both
    assert len(of_rails_among("gpu", ("n1", "n2", "n3"))) == 6
    assert of_rails_among("gpu", ("n2",)) == []


def test_the_probe_may_stand_for_the_same_rails(describe: Describe) -> None:
    by_probe = {"probe_s": 2, "same_rails_by_probe": True}
    describe(partition(nodes="n[1-2]", rdma=rails(2, across_rails=True, perftest=by_probe)))
    assert records.names(RailLinks("all")) == ["gpu:n1:n2:0-1", "gpu:n1:n2:1-0"]


@pytest.mark.parametrize(
    "change",
    [
        {"across_rails": False},
        {"rails": 1},
        {"perftest": {"same_rails_by_probe": True, "probe_s": None}},
    ],
)
def test_something_must_be_left_for_the_bandwidth_check(change: dict[str, Any]) -> None:
    whole = rails(2, across_rails=True, perftest={"same_rails_by_probe": True})
    with pytest.raises(ValueError, match="RdmaBandwidth would measure nothing"):
        Rdma.model_validate({**whole, **change})
