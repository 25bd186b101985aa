"""Faults of the lab: what each strikes, what is refused before anything is touched, and mending."""

from __future__ import annotations

import math
import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest

from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.lab import faults, flapping, switches
from railgauge.lab.cluster import Lab
from railgauge.lab.fault import Unit
from railgauge.lab.fault_kinds import KINDS
from railgauge.lab.nodes import NamespaceNodes
from railgauge.lab.spec import LabSpec
from railgauge.lab.switches import SwitchLinks
from railgauge.lab.vm import VmNodes

SPEC = LabSpec.model_validate(
    {
        "network": {"subnet": "10.77.0.0/24", "mtu_bytes": 4200, "link_gbits": 10},
        "fabric": {
            "rail_subnets": ["10.77.1.0/24", "10.77.2.0/24"],
            "bond": {"subnet": "10.77.9.0/24", "links": 2, "link_gbits": 0.1},
        },
        "head": {"name": "head"},
        "nodes": [
            {"names": "n[1-2]", "kind": "namespace", "cpus": 4, "memory_mib": 700, "gpus": 0},
            {"names": "n[5-6]", "kind": "vm", "cpus": 1, "memory_mib": 768, "gpus": 0},
        ],
    }
)


class Struck:
    """A lab that is up, and where what is done to nodes is noted instead of done."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, spec: LabSpec = SPEC) -> None:
        self.lab = Lab(spec, {}, folder)
        self.lab.folders.run.mkdir(parents=True)
        self.done: list[str] = []
        self.off: set[str] = set()
        self.broken = False
        self.found = True
        self.kept_out: dict[str, str] = {}
        self.set_down: list[str] = []
        monkeypatch.setattr(Lab, "require_up", lambda lab: None)
        monkeypatch.setattr(Lab, "wait_until_idle", lambda lab, **_: None)
        monkeypatch.setattr(
            Lab, "machine", lambda lab, name: None if name in self.off else object()
        )
        for kind in (NamespaceNodes, VmNodes):
            for action in ("shape", "unshape", "set_mtu", "power_off", "start", "wait_until_up"):
                monkeypatch.setattr(kind, action, self._noting(action))
            monkeypatch.setattr(kind, "run", self._running())
        for action in ("lose", "fill_disk", "empty_disk"):
            monkeypatch.setattr(NamespaceNodes, action, self._noting(action))
        for action in ("shape", "unshape", "set_mtu", "lose", "lose_both", "set_link"):
            monkeypatch.setattr(SwitchLinks, action, self._noting(action))
        for action in ("lose_both", "set_link"):
            monkeypatch.setattr(NamespaceNodes, action, self._noting(action))
        monkeypatch.setattr(switches, "set_leaf", self._noting_words("set_leaf"))
        for action in ("start", "end"):
            monkeypatch.setattr(flapping, action, self._noting_words(f"flapping {action}"))
        monkeypatch.setattr(Lab, "kept_out", lambda lab: self.kept_out)
        monkeypatch.setattr(Lab, "set_down_by_slurm", lambda lab: self.set_down)
        monkeypatch.setattr(Lab, "on_head", lambda lab, *words: self.done.append(" ".join(words)))
        for action in ("emulate", "set_link", "set_rdma"):
            monkeypatch.setattr(VmNodes, action, self._noting(action))

    def _noting(self, action: str) -> Any:
        def note(kind: Any, lab: Lab, node: Any, *arguments: Any, **named: Any) -> None:
            if self.broken:
                raise PrerequisiteError(f"{node.name} is off")
            told = [action, node.name, *arguments, *named.values()]
            self.done.append(" ".join(str(word) for word in told))

        return note

    def _noting_words(self, action: str) -> Any:
        def note(lab: Lab, *arguments: Any, **named: Any) -> None:
            told = [getattr(word, "name", word) for word in (*arguments, *named.values())]
            self.done.append(" ".join(str(word) for word in (action, *told)))

        return note

    def _running(self) -> Any:
        def run(
            kind: Any, lab: Lab, node: Any, argv: list[str]
        ) -> subprocess.CompletedProcess[str]:
            self.done.append(f"{node.name}: {' '.join(argv)}")
            return subprocess.CompletedProcess(argv, 0 if self.found else 1)

        return run

    def add(self, kind: str, *arguments: Any, **named: Any) -> faults.Fault:
        return faults.add(self.lab, kind, *arguments, **named)

    def refused(self, kind: str, *arguments: Any, **named: Any) -> str:
        """What is said of a fault that cannot be; nothing has been done then."""
        before = list(self.done)
        with pytest.raises(RailgaugeError) as caught:
            self.add(kind, *arguments, **named)
        assert self.done == before
        return caught.value.message

    def active(self) -> list[str]:
        return [str(fault) for fault in faults.active(self.lab)]


LEAVES = LabSpec.model_validate(
    {
        "network": {"subnet": "10.9.0.0/20", "mtu_bytes": 4200, "link_gbits": 0.1},
        "switches": {"leaves": 2, "spines": 3, "uplink_gbits": 0.2},
        "head": {"name": "head"},
        "nodes": [
            {"names": "n[1-4]", "kind": "namespace", "cpus": 4, "memory_mib": 700, "gpus": 0}
        ],
    }
)


@pytest.fixture
def on_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Struck:
    return Struck(tmp_path / "lab", monkeypatch, LEAVES)


@pytest.fixture
def struck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Struck:
    return Struck(tmp_path / "lab", monkeypatch)


# ---- what a fault does ----


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        (("rate", "n1", 1.0), "shape n1 eth0 1.0"),
        (("send-rate", "n1", 1.0), "shape n1 eth0 1.0 False"),
        (("send-rate", "n5", 1.0), "shape n5 eth1 1.0 False"),
        (("rate", "n5", 1.0), "shape n5 eth1 1.0"),
        (("rate", "n5", 1.0, "eth0"), "shape n5 eth0 1.0"),
        (("mtu", "n1", 1500.0), "set_mtu n1 eth0 1500"),
        (("mtu", "n5", 1500.0, "eth4"), "set_mtu n5 eth4 1500"),
        (("delay", "n5", 22.5), "emulate n5 eth1 delay 22.5ms limit 100000"),
        (("loss", "n6", 0.1, "eth2"), "emulate n6 eth2 loss 0.1%"),
        (("reorder", "n5", 5.0), "emulate n5 eth1 delay 1ms reorder 5% limit 100000"),
        (("link-down", "n5"), "set_link n5 eth1 False"),
        (("link-down", "n5", None, "eth3"), "set_link n5 eth3 False"),
        (("rdma-removed", "n5"), "set_rdma n5 eth1 False"),
        (("rdma-removed", "n5", None, "eth2"), "set_rdma n5 eth2 False"),
        (("loss", "n1", 0.5), "lose n1 eth0 0.5"),
        (("disk-full", "n1"), "fill_disk n1 0"),
        (("disk-full", "n1", 4096.0), "fill_disk n1 4096"),
        (("stopped", "n1", None, None, "agent"), "n1: pkill -19 --full -- agent"),
        (("stopped", "n5", None, None, "agent"), "n5: pkill -19 --full -- agent"),
        (("off", "n5"), "power_off n5"),
        (("off", "n1"), "power_off n1"),
        (("rail-loss", "n1", 2.0), "lose_both n1 eth0 2.0"),
        (("rail-loss", "n6", 2.0, "eth2"), "emulate n6 eth2 loss 2%"),
        (("flap", "n1"), "flapping start n1 eth0 5"),
        (("flap", "n5", 10.0, "eth2"), "flapping start n5 eth2 10.0"),
    ],
)
def test_fault_strikes_the_interface_named_or_the_usual_one(
    struck: Struck, arguments: tuple[Any, ...], done: str
) -> None:
    struck.add(*arguments)
    assert struck.done == [done]


def test_fault_in_place_is_remembered_with_its_interface(struck: Struck) -> None:
    struck.add("loss", "n5", 0.5)
    assert struck.active() == ["loss n5:eth1 0.5"]


def test_fault_that_could_not_be_made_is_not_remembered(struck: Struck) -> None:
    struck.broken = True
    with pytest.raises(PrerequisiteError, match="n5 is off"):
        struck.add("loss", "n5", 1.0)
    assert struck.active() == []


def test_no_process_to_stop_is_an_error_and_not_remembered(struck: Struck) -> None:
    struck.found = False
    with pytest.raises(PrerequisiteError, match="n1 runs no process with 'agent' in its command"):
        struck.add("stopped", "n1", process="agent")
    assert struck.active() == []


# ---- uplinks ----


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        (("uplink-rate", "leaf1", 0.05, "spine2"), "shape leaf1 spine2 0.05"),
        (("uplink-loss", "leaf1", 0.5, "spine2"), "lose_both leaf1 spine2 0.5"),
        (("loss", "leaf2", 1.0, "spine3"), "lose leaf2 spine3 1.0"),
        (("loss", "spine3", 1.0, "leaf2"), "lose spine3 leaf2 1.0"),
        (("mtu", "leaf1", 1500.0), "set_mtu leaf1 spine1 1500"),
        (("loss", "n3", 1.0), "lose n3 eth0 1.0"),
    ],
)
def test_fault_strikes_the_uplink_to_the_switch_named(
    on_leaves: Struck, arguments: tuple[Any, ...], done: str
) -> None:
    on_leaves.add(*arguments)
    assert on_leaves.done == [done]


@pytest.mark.parametrize(
    ("switch", "interface", "known"),
    [("leaf1", "eth0", "spine1, spine2, spine3"), ("spine1", "spine2", "leaf1, leaf2")],
)
def test_unknown_uplink_is_refused_with_those_that_are_known(
    on_leaves: Struck, switch: str, interface: str, known: str
) -> None:
    message = on_leaves.refused("loss", switch, 1.0, interface)
    assert message == f"fault loss on {switch}: no interface {interface!r}; {known}"


@pytest.mark.parametrize("kind", ["off", "disk-full", "delay", "rate", "rail-loss"])
def test_fault_of_a_node_is_refused_on_a_switch(on_leaves: Struck, kind: str) -> None:
    value = 1.0 if KINDS[kind].needs_value else None
    assert "the lab has no node 'leaf1'" in on_leaves.refused(kind, "leaf1", value)


@pytest.mark.parametrize(
    ("arguments", "mended"),
    [
        (("uplink-rate", "leaf1", 0.05, "spine2"), "unshape leaf1 spine2"),
        (("uplink-loss", "leaf1", 1.0, "spine2"), "lose_both leaf1 spine2 0"),
        (("leaf-down", "leaf1"), "set_leaf leaf1 True"),
        (("flap", "leaf1", None, "spine2"), "set_link leaf1 spine2 True"),
        (("flap", "n3"), "set_link n3 eth0 True"),
        (("rail-loss", "n3", 1.0), "lose_both n3 eth0 0"),
        (("loss", "leaf1", 1.0, "spine2"), "lose leaf1 spine2 0"),
        (("mtu", "spine1", 1500.0, "leaf2"), "set_mtu spine1 leaf2 4200"),
    ],
)
def test_clearing_puts_an_uplink_right_again(
    on_leaves: Struck, arguments: tuple[Any, ...], mended: str
) -> None:
    on_leaves.add(*arguments)
    faults.clear(on_leaves.lab)
    assert (on_leaves.done[-1], on_leaves.active()) == (mended, [])


def test_the_nodes_of_a_leaf_that_slurm_set_down_are_pinged_again(on_leaves: Struck) -> None:
    on_leaves.add("leaf-down", "leaf1")
    below = on_leaves.lab.spec.nodes_of("leaf1")
    other = next(n.name for n in on_leaves.lab.spec.all_nodes() if n.name not in below)
    on_leaves.set_down = [*below, other]
    faults.clear(on_leaves.lab)
    assert on_leaves.done[-1] == f"scontrol update nodename={','.join(below)} state=resume"


# ---- what is refused ----


def test_unknown_fault_is_refused_with_those_that_are_known(struck: Struck) -> None:
    message = struck.refused("lose", "n5", 1.0)
    assert message.startswith(
        "fault 'lose' is unknown; one of rate, send-rate, uplink-rate, uplink-send-rate, mtu, "
    )


@pytest.mark.parametrize("kind", [name for name, k in KINDS.items() if k.on != "lab"])
def test_fault_of_a_node_needs_one(struck: Struck, kind: str) -> None:
    assert struck.refused(kind, None, 1.0).startswith(f"fault {kind} needs a place: {kind} ")


@pytest.mark.parametrize("kind", [name for name, k in KINDS.items() if k.on == "lab"])
def test_fault_of_the_lab_concerns_no_single_node(struck: Struck, kind: str) -> None:
    assert struck.refused(kind, "n5") == f"fault {kind} concerns no single node"


@pytest.mark.parametrize("kind", [name for name, k in KINDS.items() if k.needs_value])
def test_fault_with_a_value_needs_it(struck: Struck, kind: str) -> None:
    assert struck.refused(kind, "n5").startswith(f"fault {kind} needs {KINDS[kind].unit}: ")


@pytest.mark.parametrize(("kind", "value"), [("loss", 0.0), ("loss", -1.0), ("rate", -0.1)])
def test_value_must_be_above_zero(struck: Struck, kind: str, value: float) -> None:
    assert struck.refused(kind, "n5", value).endswith("expected a number above 0")


def test_unknown_node_is_refused_with_those_that_are_known(struck: Struck) -> None:
    assert struck.refused("loss", "n9", 1.0) == "the lab has no node 'n9'; it has n1, n2, n5, n6"


@pytest.mark.parametrize(
    ("kind", "node", "interface", "known"),
    [
        ("rate", "n1", "eth1", "eth0"),
        ("mtu", "n5", "eth5", "eth0, eth1, eth2, eth3, eth4"),
        ("loss", "n5", "bond0", "eth0, eth1, eth2, eth3, eth4"),
        ("rdma-removed", "n5", "eth0", "eth1, eth2"),
        ("rdma-removed", "n5", "eth3", "eth1, eth2"),
    ],
)
def test_unknown_interface_is_refused_with_those_that_are_known(
    struck: Struck, kind: str, node: str, interface: str, known: str
) -> None:
    value = 1.0 if KINDS[kind].needs_value else None
    message = struck.refused(kind, node, value, interface)
    assert message == f"fault {kind} on {node}: no interface {interface!r}; {known}"


@pytest.mark.parametrize(
    "kind", [name for name, kind in KINDS.items() if kind.on == "vm-interface"]
)
def test_fault_that_needs_a_kernel_of_its_own_is_refused_on_a_namespace_node(
    struck: Struck, kind: str
) -> None:
    message = f"fault {kind} needs a VM node (n[5-6]); n1 is a namespace"
    value = 1.0 if KINDS[kind].needs_value else None
    assert struck.refused(kind, "n1", value) == message


@pytest.mark.parametrize("kind", ["link-down", "rdma-removed", "off"])
def test_value_that_a_fault_has_no_use_for_is_refused(struck: Struck, kind: str) -> None:
    assert struck.refused(kind, "n5", 1.0) == f"fault {kind} has no value"


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_value_that_is_no_quantity_is_refused(struck: Struck, value: float) -> None:
    assert "expected a number above 0" in struck.refused("delay", "n5", value)


@pytest.mark.parametrize(("kind", "node"), [("off", "n5"), ("slurmdbd-stop", None)])
def test_fault_of_more_than_an_interface_takes_none(
    struck: Struck, kind: str, node: str | None
) -> None:
    message = f"fault {kind} concerns no single interface"
    assert struck.refused(kind, node, interface="eth1") == message


def test_full_disk_needs_a_namespace_node(struck: Struck) -> None:
    message = "fault disk-full needs a namespace node (n[1-2]); n5 is a vm"
    assert struck.refused("disk-full", "n5") == message


def test_stopping_needs_to_know_what(struck: Struck) -> None:
    assert struck.refused("stopped", "n1") == "fault stopped needs --process"


def test_fault_of_no_process_takes_none(struck: Struck) -> None:
    assert struck.refused("off", "n1", process="slurmd") == "fault off concerns no process"


# ---- as it is typed ----


@pytest.mark.parametrize(
    ("words", "done"),
    [
        ("uplink-rate leaf1:spine2 0.05", "shape leaf1 spine2 0.05"),
        ("uplink-loss leaf2:spine3 2", "lose_both leaf2 spine3 2.0"),
        ("leaf-down leaf2", "set_leaf leaf2 False"),
        ("rail-loss n3 0.5", "lose_both n3 eth0 0.5"),
        ("rail-loss n3:eth0 0.5", "lose_both n3 eth0 0.5"),
        ("flap n3", "flapping start n3 eth0 5"),
        ("flap leaf1:spine3 20", "flapping start leaf1 spine3 20.0"),
        ("loss spine3:leaf2 1", "lose spine3 leaf2 1.0"),
        ("rate n3 0.05", "shape n3 eth0 0.05"),
        ("disk-full n3", "fill_disk n3 0"),
        ("disk-full n3 4096", "fill_disk n3 4096"),
    ],
)
def test_a_fault_is_its_kind_its_place_and_its_value(
    on_leaves: Struck, words: str, done: str
) -> None:
    kind, *rest = words.split()
    faults.add_typed(on_leaves.lab, kind, rest)
    assert on_leaves.done == [done]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("uplink-rate", "fault uplink-rate needs a place: uplink-rate LEAF:SPINE GBITS"),
        ("uplink-rate leaf1:spine1", "fault uplink-rate needs GBITS: uplink-rate LEAF:SPINE GBITS"),
        (
            "uplink-rate leaf1 0.1",
            "fault uplink-rate on leaf1: which of its links? uplink-rate LEAF:SPINE GBITS",
        ),
        (
            "uplink-loss leaf1:spine9 1",
            "fault uplink-loss on leaf1: no interface 'spine9'; spine1, spine2, spine3",
        ),
        ("uplink-loss spine1:leaf1 1", "fault uplink-loss needs a leaf (leaf[1-2]), not 'spine1'"),
        ("uplink-loss n1:eth0 1", "fault uplink-loss needs a leaf (leaf[1-2]), not 'n1'"),
        ("uplink-loss leaf1:spine1 101", "PERCENT is 101, expected at most 100"),
        (
            "uplink-loss leaf1:spine1 much",
            "fault uplink-loss: PERCENT is 'much', expected a number; uplink-loss LEAF:SPINE "
            "PERCENT",
        ),
        ("leaf-down", "fault leaf-down needs a place: leaf-down LEAF"),
        ("leaf-down n1", "fault leaf-down needs a leaf (leaf[1-2]), not 'n1'"),
        ("leaf-down leaf1:spine1", "fault leaf-down concerns no single interface"),
        ("leaf-down leaf1 1", "fault leaf-down: '1' is too much, expected leaf-down LEAF"),
        ("rail-loss n1:eth1 1", "fault rail-loss on n1: no interface 'eth1'; eth0"),
        (
            "flap leaf1",
            "fault flap on leaf1: which of its links? flap NODE[:INTERFACE]|LEAF:SPINE [SECONDS]",
        ),
        ("flap n1 0", "SECONDS is 0, expected a number above 0"),
        ("flap n9", "the lab has no node 'n9'; it has n1, n2, n3, n4"),
        ("slurmdbd-stop n1", "fault slurmdbd-stop: 'n1' is too much, expected slurmdbd-stop"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_error(on_leaves: Struck, words: str, says: str) -> None:
    kind, *rest = words.split()
    with pytest.raises(RailgaugeError) as caught:
        faults.add_typed(on_leaves.lab, kind, rest)
    assert (caught.value.message, on_leaves.done) == (says, [])


@pytest.mark.parametrize("kind", ["uplink-rate", "uplink-loss", "leaf-down"])
def test_a_fault_of_leaves_says_which_lab_has_some(struck: Struck, kind: str) -> None:
    value = 1.0 if KINDS[kind].needs_value else None
    assert "lab up --system lab32" in struck.refused(kind, "leaf1", value, "spine1")


def test_a_rail_of_a_vm_has_an_rdma_device(struck: Struck) -> None:
    message = "fault rail-loss on n5: no interface 'eth3'; eth1, eth2"
    assert struck.refused("rail-loss", "n5", 1.0, "eth3") == message


@pytest.mark.parametrize(("kind", "usage"), [(name, KINDS[name].usage) for name in KINDS])
def test_what_is_told_of_a_fault_can_be_typed(kind: str, usage: str) -> None:
    described = KINDS[kind]
    words = set(re.findall(r"\w+", usage))
    assert words & set(get_args(Unit)) == ({described.unit} if described.unit else set())
    assert bool(words & {"NODE", "LEAF", "SWITCH"}) is (described.on != "lab")


# ---- two faults ----


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("uplink-loss leaf1:spine2 1", "uplink-loss leaf1:spine2 2"),
        ("uplink-loss leaf1:spine2 1", "loss leaf1:spine2 1"),
        ("uplink-loss leaf1:spine2 1", "loss spine2:leaf1 1"),
        ("rail-loss n1 1", "loss n1 1"),
        ("uplink-rate leaf1:spine2 1", "uplink-rate leaf1:spine2 2"),
        ("rate n1 0.1", "send-rate n1 0.1"),
        ("leaf-down leaf1", "flap leaf1:spine1"),
        ("flap n2", "leaf-down leaf1"),
    ],
)
def test_what_one_setting_makes_is_refused_twice(
    on_leaves: Struck, first: str, second: str
) -> None:
    faults.add_typed(on_leaves.lab, first.split()[0], first.split()[1:])
    kind, *rest = second.split()
    with pytest.raises(RailgaugeError, match=f"fault {kind} is in place already"):
        faults.add_typed(on_leaves.lab, kind, rest)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("uplink-loss leaf1:spine2 1", "uplink-rate leaf1:spine2 0.1"),
        ("uplink-loss leaf1:spine2 1", "uplink-loss leaf1:spine3 1"),
        ("rail-loss n1 1", "rate n1 0.1"),
        ("leaf-down leaf1", "flap n3"),
        ("flap n1", "flap leaf1:spine1"),
    ],
)
def test_two_faults_are_in_place_at_once(on_leaves: Struck, first: str, second: str) -> None:
    for words in (first, second):
        faults.add_typed(on_leaves.lab, words.split()[0], words.split()[1:])
    assert len(on_leaves.active()) == 2
    faults.clear(on_leaves.lab)
    assert on_leaves.active() == []


@pytest.mark.parametrize("first", ["delay", "loss", "reorder"])
@pytest.mark.parametrize("second", ["delay", "loss", "reorder"])
def test_netem_is_one_setting_of_an_interface(struck: Struck, first: str, second: str) -> None:
    struck.add(first, "n5", 1.0)
    assert struck.refused(second, "n5", 2.0) == f"fault {second} is in place already"


@pytest.mark.parametrize(
    ("node", "interface"), [("n5", "eth2"), ("n6", None), ("n6", "eth1"), ("n5", "eth0")]
)
def test_another_interface_has_netem_of_its_own(
    struck: Struck, node: str, interface: str | None
) -> None:
    struck.add("loss", "n5", 1.0)
    struck.add("delay", node, 1.0, interface)
    assert len(struck.active()) == 2


def test_usual_interface_is_the_same_by_its_name(struck: Struck) -> None:
    struck.add("loss", "n5", 1.0)
    assert struck.refused("loss", "n5", 1.0, "eth1") == "fault loss is in place already"


def test_faults_of_other_kinds_go_together(struck: Struck) -> None:
    for kind, value in (
        ("loss", 1.0),
        ("mtu", 1400.0),
        ("rdma-removed", None),
        ("link-down", None),
    ):
        struck.add(kind, "n5", value)
    assert len(struck.active()) == 4


# ---- mending ----


@pytest.mark.parametrize(
    ("arguments", "mended"),
    [
        (("rate", "n5", 1.0), "unshape n5 eth1"),
        (("mtu", "n5", 1500.0), "set_mtu n5 eth1 4200"),
        (("delay", "n5", 22.0), "emulate n5 eth1 "),
        (("link-down", "n5"), "set_link n5 eth1 True"),
        (("rdma-removed", "n5"), "set_rdma n5 eth1 True"),
    ],
)
def test_clearing_puts_it_right_again(
    struck: Struck, arguments: tuple[Any, ...], mended: str
) -> None:
    struck.add(*arguments)
    faults.clear(struck.lab)
    assert (struck.done[-1], struck.active()) == (mended, [])


def test_last_fault_is_mended_first(struck: Struck) -> None:
    struck.add("mtu", "n5", 1500.0)
    struck.add("rdma-removed", "n5")
    faults.clear(struck.lab)
    assert struck.done[2:] == ["set_rdma n5 eth1 True", "set_mtu n5 eth1 4200"]


def test_only_one_nodes_faults_are_mended_where_it_is_named(struck: Struck) -> None:
    struck.add("loss", "n5", 1.0)
    struck.add("loss", "n6", 1.0)
    faults.clear(struck.lab, "n5")
    assert struck.active() == ["loss n6:eth1 1"]


def test_interface_of_a_node_that_is_off_has_forgotten_its_fault(struck: Struck) -> None:
    struck.add("loss", "n5", 1.0)
    struck.off.add("n5")
    faults.clear(struck.lab)
    assert struck.done == ["emulate n5 eth1 loss 1%"]


def test_stopped_process_goes_on(struck: Struck) -> None:
    struck.add("stopped", "n1", process="agent")
    faults.clear(struck.lab)
    assert struck.done[-1] == "n1: pkill -18 --full -- agent"


def test_two_processes_of_a_node_can_be_stopped(struck: Struck) -> None:
    struck.add("stopped", "n1", process="agent")
    struck.add("stopped", "n1", process="iperf")
    assert struck.active() == ["stopped n1 agent", "stopped n1 iperf"]


@pytest.mark.parametrize(
    ("why", "done"),
    [
        ("drained (SlurmdSpoolDir is full)", "scontrol update nodename=n1 state=resume"),
        ("drained (changed firmware)", "empty_disk n1"),
    ],
)
def test_only_what_slurm_drained_for_its_full_disk_is_resumed(
    struck: Struck, why: str, done: str
) -> None:
    struck.add("disk-full", "n1")
    struck.kept_out = {"n1": why}
    faults.clear(struck.lab)
    assert struck.done[-1] == done


def test_losses_of_a_node_that_is_off_are_mended_at_the_other_end(struck: Struck) -> None:
    struck.add("loss", "n1", 1.0)
    struck.off.add("n1")
    faults.clear(struck.lab)
    assert struck.done[-1] == "lose n1 eth0 0"


def test_node_that_lost_its_power_is_started(struck: Struck) -> None:
    struck.add("off", "n5")
    struck.off.add("n5")
    faults.clear(struck.lab)
    assert "start n5" in struck.done


def test_a_flapping_link_is_left_alone_before_it_is_plugged_in(on_leaves: Struck) -> None:
    on_leaves.add("flap", "n3")
    faults.clear(on_leaves.lab)
    assert on_leaves.done[1:] == ["flapping end n3 eth0", "set_link n3 eth0 True"]


def test_the_process_of_a_link_of_a_node_that_is_off_is_ended(on_leaves: Struck) -> None:
    on_leaves.add("flap", "n3")
    on_leaves.off.add("n3")
    faults.clear(on_leaves.lab)
    assert on_leaves.done[1:] == ["flapping end n3 eth0"]


def test_nobody_waits_for_the_nodes_of_a_leaf_that_stays_down(
    on_leaves: Struck, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out: list[set[str]] = []
    monkeypatch.setattr(
        Lab, "wait_until_idle", lambda lab, nodes_off=frozenset(): left_out.append(set(nodes_off))
    )
    on_leaves.add("leaf-down", "leaf2")
    on_leaves.add("loss", "n1", 1.0)
    faults.clear(on_leaves.lab, "n1")
    assert left_out == [{"n3", "n4"}]


# ---- a link that flaps ----


def test_a_link_is_down_for_the_first_fifth_of_each_period() -> None:
    states = [next_state for next_state, _ in zip(flapping.states(5), range(4), strict=False)]
    assert states == [(False, 1), (True, 4), (False, 1), (True, 4)]


def test_a_flapping_link_is_plugged_in_at_the_end(
    on_leaves: Struck, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(seconds: float) -> None:
        raise SystemExit(0)

    monkeypatch.setattr(flapping.time, "sleep", ended)
    with pytest.raises(SystemExit):
        flapping.flap(on_leaves.lab, "n3", "eth0", 5)
    assert on_leaves.done == ["set_link n3 eth0 False", "set_link n3 eth0 True"]


def test_a_machine_that_is_off_has_no_link_to_pull(
    on_leaves: Struck, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = iter([None, None, SystemExit(0)])

    def waited(seconds: float) -> None:
        if (ended := next(waits)) is not None:
            raise ended

    monkeypatch.setattr(flapping.time, "sleep", waited)
    on_leaves.broken = True
    with pytest.raises(SystemExit):
        flapping.flap(on_leaves.lab, "n3", "eth0", 5)


def test_a_controller_that_ends_after_its_start_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it started before it reads its state."""
    struck = Struck(tmp_path, monkeypatch)
    down = subprocess.CompletedProcess([], 0, "Slurmctld(primary) at head is DOWN\n", "")
    monkeypatch.setattr(Lab, "on_head", lambda *_, **__: down)
    monkeypatch.setattr(Lab, "service_runs", lambda *_: False)
    with pytest.raises(PrerequisiteError, match="slurmctld was started, and does not answer"):
        struck.add("slurmctld-restart")


def test_a_controller_is_waited_for_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Struck(tmp_path, monkeypatch).lab
    answers = ["is DOWN", "is DOWN", "is UP"]
    monkeypatch.setattr(
        Lab,
        "on_head",
        lambda *_, **__: subprocess.CompletedProcess([], 0, f"at head {answers.pop(0)}\n", ""),
    )
    monkeypatch.setattr(Lab, "service_runs", lambda *_: True)
    lab.wait_for_controller()
    assert answers == []
