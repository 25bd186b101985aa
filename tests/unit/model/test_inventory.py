"""Inventories on the head: kinds, fingerprints, differences."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.common.errors import RailgaugeError
from railgauge.model import inventory
from railgauge.model.inventory import Inventory, diff, fingerprint, load, unknown_lasting
from railgauge.node.inventory import SCHEMA
from railgauge.node.inventory.compare import Change, by_value, same
from railgauge.node.inventory.document import take
from railgauge.node.inventory.kinds import kind
from tests.properties import tries

BEFORE = Inventory(
    "n1",
    "boot",
    "2026-11-21T00:00:00+00:00",
    0.2,
    {
        "kernel/release": "6.12",
        "nic/mlx5_0/firmware": "28.39.1002",
        "net/eth0/mtu_bytes": 4200,
        "net/eth0/operstate": "up",
        "net/eth0/address": "02:00:00:00:00:01",
    },
    {"gpu/0/vbios": "nvidia-smi is not installed"},
)


def but(unknown: dict[str, str] | None = None, **fields: object) -> Inventory:
    changed = {key.replace("__", "/"): value for key, value in fields.items()}
    kept = {**BEFORE.fields, **changed}
    return dataclasses.replace(
        BEFORE,
        fields={k: v for k, v in kept.items() if v is not None},
        unknown={**BEFORE.unknown, **(unknown or {})},
    )


def only(after: Inventory) -> Change:
    (change,) = diff(BEFORE, after)
    return change


# ---- documents ----


def test_what_a_node_prints_is_read() -> None:
    document = take(quick=True)
    assert load(json.dumps(document)).as_dict() == document


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": "railgauge-inventory-2"}, "schema"),
        ({"fields": {"a": [1]}}, "fields.a"),
        ({"fields": {"a": 1}, "unknown": {"a": "why"}}, "a is known and unknown"),
        ({"node": ""}, "node"),
        ({"more": 1}, "more"),
    ],
)
def test_another_document_is_one_clear_error(change: dict[str, object], says: str) -> None:
    text = json.dumps({**BEFORE.as_dict(), **change})
    with pytest.raises(RailgaugeError, match=says) as raised:
        load(text, "n1.json")
    assert "n1.json" in str(raised.value) and SCHEMA in str(raised.value)


@settings(max_examples=tries(200))
@given(st.data())
def test_no_mutation_of_a_document_crashes(data: st.DataObject) -> None:
    text = json.dumps(BEFORE.as_dict())
    place = data.draw(st.integers(0, len(text)))
    changed = text[:place] + data.draw(st.text(max_size=3)) + text[place + 1 :]
    with contextlib.suppress(RailgaugeError):
        assert isinstance(load(changed), Inventory)


def test_a_cut_document_is_refused() -> None:
    text = json.dumps(BEFORE.as_dict())
    for length in range(len(text)):
        with pytest.raises(RailgaugeError):
            load(text[:length])


# ---- kinds ----


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("kernel/release", "firmware"),
        ("kernel/cmdline/isolcpus", "tuning"),
        ("kernel/cmdline/root", "identity"),
        ("nic/mlx5_0/firmware", "firmware"),
        ("nic/mlx5_0/psid", "firmware"),
        ("nic/mlx5_0/pcie_possible_lanes", "firmware"),
        ("nic/mlx5_0/pcie_now_lanes", "state"),
        ("nic/mlx5_0/1/rate_gbits", "state"),
        ("nic/mlx5_0/1/link_layer", "firmware"),
        ("nic/mlx5_0/1/traffic_class", "tuning"),
        ("net/eth0/mtu_bytes", "tuning"),
        ("net/eth0/ring_receive", "tuning"),
        ("net/eth0/ring_receive_most", "firmware"),
        ("net/eth0/fec_active", "state"),
        ("net/eth0/fec_configured", "tuning"),
        ("net/eth0/pfc", "tuning"),
        ("net/eth0/driver_version", "firmware"),
        ("net/eth0/module_serial", "identity"),
        ("sysctl/net.ipv4.tcp_rmem", "tuning"),
        ("cpu/governor", "tuning"),
        ("cpu/microcode", "firmware"),
        ("bios/version", "firmware"),
        ("system/serial", "identity"),
        ("gpu/0/vbios", "firmware"),
        ("gpu/0/throttled_hw_slowdown", "state"),
        ("gpu/0/fabric_cluster_uuid", "identity"),
        ("gpu/0/fabric_state", "state"),
        ("gpu/0/nvlink_links", "firmware"),
        ("gpu/0/nvlink_active", "state"),
        ("gpu/0/ecc", "tuning"),
        ("imex/domain_state", "state"),
        ("software/nccl", "firmware"),
        ("fabric/leaf01/firmware", "firmware"),
        ("nobody/knows", "tuning"),
    ],
)
def test_kind_of_a_field(key: str, expected: str) -> None:
    assert kind(key) == expected


# ---- fingerprints ----


def test_fingerprint_is_12_hex_digits_of_the_same_fields() -> None:
    assert fingerprint(BEFORE) == fingerprint(but()) and len(fingerprint(BEFORE)) == 12
    assert int(fingerprint(BEFORE), 16) >= 0


def test_fingerprint_is_of_firmware_and_tuning() -> None:
    changed = dataclasses.replace(
        BEFORE, fields={**BEFORE.fields, "nic/mlx5_0/firmware": "28.43.1014"}
    )
    assert fingerprint(changed) != fingerprint(BEFORE)
    assert fingerprint(but(net__eth0__mtu_bytes=1500)) != fingerprint(BEFORE)


def test_fingerprint_leaves_out_state_and_identity() -> None:
    other = but(net__eth0__operstate="down", net__eth0__address="02:00:00:00:00:02")
    assert fingerprint(other) == fingerprint(BEFORE)


def test_fingerprint_counts_unknown_fields_by_their_names() -> None:
    reworded = dataclasses.replace(BEFORE, unknown={"gpu/0/vbios": "another reason"})
    assert fingerprint(reworded) == fingerprint(BEFORE)
    assert fingerprint(dataclasses.replace(BEFORE, unknown={})) != fingerprint(BEFORE)


def test_the_unknown_fields_of_a_fingerprint_are_those_of_firmware_and_tuning() -> None:
    assert unknown_lasting(but({"net/eth0/operstate": "EINVAL"})) == ["gpu/0/vbios"]


# ---- differences ----


def test_the_same_node_has_no_difference() -> None:
    assert diff(BEFORE, but()) == []


def test_a_change_says_from_what_to_what() -> None:
    change = only(but(net__eth0__mtu_bytes=1500))
    assert (change.kind, change.before, change.after) == ("tuning", 4200, 1500)
    assert str(change) == "net/eth0/mtu_bytes was 4200, is 1500"


def test_true_is_not_one() -> None:
    one = dataclasses.replace(BEFORE, fields={"a": 1})
    assert len(diff(one, dataclasses.replace(BEFORE, fields={"a": True}))) == 1


def test_unknown_is_never_changed() -> None:
    after = but(unknown={"net/eth0/mtu_bytes": "no such file"}, net__eth0__mtu_bytes=None)
    change = only(after)
    assert (change.what, change.before, change.after) == ("became unknown", 4200, None)
    assert str(change) == "net/eth0/mtu_bytes became unknown (4200)"
    (back,) = diff(after, BEFORE)
    assert (back.what, back.after) == ("now known", 4200)


def test_a_part_that_is_gone_is_gone() -> None:
    assert only(but(net__eth0__mtu_bytes=None)).what == "gone"
    assert only(but(net__eth1__mtu_bytes=1500)).what == "new"


@settings(max_examples=tries(200))
@given(
    *2 * [st.dictionaries(st.sampled_from("abcd"), st.sampled_from([None, True, 1, 1.5, "x"]))],
)
def test_a_difference_is_reported_from_both_sides(
    old: dict[str, object], new: dict[str, object]
) -> None:
    def made(values: dict[str, object]) -> Inventory:
        known = {k: v for k, v in values.items() if v is not None}
        return dataclasses.replace(
            BEFORE, fields=known, unknown={k: "why" for k in values if k not in known}
        )

    forth, back = diff(made(old), made(new)), diff(made(new), made(old))
    assert [c.key for c in forth] == [c.key for c in back]
    assert (not forth) == (
        json.dumps(made(old).as_dict(), sort_keys=True)
        == json.dumps(made(new).as_dict(), sort_keys=True)
    )


# ---- the fabric between the nodes ----


def test_a_switch_serves_the_nodes_that_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "fabric.json"
    path.write_text(
        json.dumps(
            {
                "schema": "railgauge-fabric-1",
                "devices": {
                    "leaf01": {"model": "QM9700", "firmware": "31.2014.1068", "nodes": "n[1-2]"},
                    "leaf02": {"firmware": "31.2012.1024", "nodes": "n[3-4]"},
                    "r1s1": {"kind": "nvswitch-tray", "firmware": "1.3.0"},
                },
            }
        )
    )
    beside = inventory.fabric(path).beside(BEFORE)
    assert beside.fields["fabric/leaf01/firmware"] == "31.2014.1068"
    assert beside.fields["fabric/r1s1/kind"] == "nvswitch-tray"
    assert "fabric/leaf02/firmware" not in beside.fields


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "the document"),
        ('{"schema": "railgauge-fabric-1", "devices": {"a": {}}}', "devices.a.firmware"),
        (
            '{"schema": "railgauge-fabric-1", "devices": {"a": {"firmware": "1", "nodes": "n[1"}}}',
            "devices.a.nodes: not a host list",
        ),
    ],
)
def test_a_wrong_fabric_file_is_one_clear_error(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "fabric.json"
    path.write_text(text)
    with pytest.raises(RailgaugeError, match=r"fabric\.json") as raised:
        inventory.fabric(path)
    assert says.split(":")[0] in str(raised.value)


# ---- values ----


def test_numbers_are_the_same_by_value_and_true_is_none() -> None:
    assert same(4, 4.0) and not same(1, True) and not same("4", 4)


def test_nodes_that_agree_are_together_and_most_come_first() -> None:
    assert by_value({"n1": 1, "n2": 2, "n3": 2.0}) == [("n2", "n3"), ("n1",)]
