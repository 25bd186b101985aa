"""The port of a switch that an interface hangs on, as lldpctl prints it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.inventory import document, kinds, lldp
from railgauge.node.inventory.sheet import Places
from railgauge.node.system.rdma_devices import FactError


def neighbour(switch: str | None, kind: str, port: str, description: str = "") -> dict[str, Any]:
    """As lldpd 1.0 writes it: a chassis without a name has no key for it."""
    about: dict[str, Any] = {"id": {"type": "mac", "value": "00:1c:0f:5f:c7:c0"}, "ttl": "120"}
    of_port: dict[str, Any] = {"id": {"type": kind, "value": port}, "ttl": "120"}
    if description:
        of_port["descr"] = description
    return {
        "via": "LLDP",
        "rid": "1",
        "age": "0 day, 08:40:40",
        "chassis": {switch: about} if switch else about,
        "port": of_port,
    }


def printed(*of_interfaces: tuple[str, dict[str, Any]]) -> str:
    """One interface is an object, several are an array of them (lldpd issue 236)."""
    each = [{name: about} for name, about in of_interfaces]
    interfaces: Any = each[0] if len(each) == 1 else each
    return json.dumps({"lldp": {"interface": interfaces} if each else {}}, indent=2)


TWO = printed(
    ("eth0", neighbour("leaf1", "ifname", "Ethernet1/3", "to n1")),
    ("eth1", neighbour("leaf2", "mac", "00:1c:0f:5f:c7:c1", "GigabitEthernet3/36")),
)


def test_each_interface_has_its_switch_and_port() -> None:
    assert lldp.ports(TWO) == {"eth0": "leaf1 Ethernet1/3", "eth1": "leaf2 GigabitEthernet3/36"}


def test_one_interface_is_an_object_and_none_is_no_error() -> None:
    one = printed(("eth0", neighbour("leaf1", "ifname", "swp3")))
    assert lldp.ports(one) == {"eth0": "leaf1 swp3"}
    assert lldp.ports(printed()) == {}


def test_a_switch_without_a_name_has_its_id() -> None:
    one = printed(("eth0", neighbour(None, "ifname", "swp3")))
    assert lldp.ports(one) == {"eth0": "00:1c:0f:5f:c7:c0 swp3"}


def test_an_interface_with_two_neighbours_hangs_on_neither() -> None:
    both = [("eth0", neighbour(name, "ifname", "swp3")) for name in ("leaf1", "leaf2")]
    assert lldp.ports(printed(*both)) == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"lldp": []}', "No neighbours\n"])
def test_what_is_none_of_lldpctls_is_refused(text: str) -> None:
    with pytest.raises(FactError):
        lldp.ports(text)


@given(st.integers(0, len(TWO) - 1))
def test_no_part_of_an_output_is_taken_for_one(end: int) -> None:
    with pytest.raises(FactError):
        lldp.ports(TWO[:end])


_KEYS = st.sampled_from(
    ["lldp", "interface", "chassis", "port", "id", "descr", "value", "type", "eth0", "ifname", ""]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | _KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(_JSON.map(lambda inner: {"lldp": inner}) | _JSON)
def test_nothing_crashes_the_reader(document: Any) -> None:
    try:
        found = lldp.ports(json.dumps(document))
    except FactError:
        return
    assert all(name and port.isprintable() for name, port in found.items())


@given(st.text())
def test_no_text_crashes_the_reader(text: str) -> None:
    with contextlib.suppress(FactError):
        lldp.ports(text)


def fields(tmp_path: Path, answer: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    def ask(argv: list[str]) -> str:
        if answer is None or argv != ["lldpctl", "-f", "json"]:
            raise FactError(f"{argv[0]} is not installed")
        return answer

    root = str(tmp_path)
    sheet = document.look(Places(root, root, root, ask), quick=False)
    return sheet.fields, sheet.unknown


def test_an_inventory_has_the_port_as_something_that_differs_between_nodes(tmp_path: Path) -> None:
    found, _ = fields(tmp_path, TWO)
    assert found["net/eth0/switch_port"] == "leaf1 Ethernet1/3"
    assert kinds.kind("net/eth0/switch_port") == "identity"


@pytest.mark.parametrize("answer", [None, "", "{", "\x00"])
def test_without_lldpctl_or_with_nonsense_of_it_nothing_is_said(
    tmp_path: Path, answer: str | None
) -> None:
    found, unknown = fields(tmp_path, answer)
    assert not [key for key in (*found, *unknown) if "switch_port" in key]


def test_a_port_with_a_number_for_its_id_is_named_by_its_description() -> None:
    """Juniper, Alcatel-Lucent (Uninett/nav issue 1903); without one the number is all there is."""
    one = printed(("eth0", neighbour("leaf1", "local", "506", "et-0/0/1")))
    assert lldp.ports(one) == {"eth0": "leaf1 et-0/0/1"}
    assert lldp.ports(printed(("eth0", neighbour("leaf1", "local", "506")))) == {
        "eth0": "leaf1 506"
    }
    named = printed(("eth0", neighbour("leaf1", "local", "swp3", "to n1")))
    assert lldp.ports(named) == {"eth0": "leaf1 swp3"}
