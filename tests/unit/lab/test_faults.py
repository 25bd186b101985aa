"""Faults of the lab: what each strikes, what is refused before anything is touched, and mending."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from railgauge.errors import EnvironmentProblem, RailgaugeError
from railgauge.lab import faults
from railgauge.lab.cluster import Lab
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
        for action in ("shape", "unshape", "set_mtu", "lose"):
            monkeypatch.setattr(SwitchLinks, action, self._noting(action))
        monkeypatch.setattr(Lab, "kept_out", lambda lab: self.kept_out)
        monkeypatch.setattr(Lab, "on_head", lambda lab, *words: self.done.append(" ".join(words)))
        for action in ("emulate", "set_link", "set_rdma"):
            monkeypatch.setattr(VmNodes, action, self._noting(action))

    def _noting(self, action: str) -> Any:
        def note(kind: Any, lab: Lab, node: Any, *arguments: Any, **named: Any) -> None:
            if self.broken:
                raise EnvironmentProblem(f"{node.name} is off")
            told = [action, node.name, *arguments, *named.values()]
            self.done.append(" ".join(str(word) for word in told))

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
    ],
)
def test_fault_strikes_the_interface_named_or_the_usual_one(
    struck: Struck, arguments: tuple[Any, ...], done: str
) -> None:
    struck.add(*arguments)
    assert struck.done == [done]


def test_fault_in_place_is_remembered_with_its_interface(struck: Struck) -> None:
    struck.add("loss", "n5", 0.5)
    assert struck.active() == ["loss n5 eth1 0.5"]


def test_fault_that_could_not_be_made_is_not_remembered(struck: Struck) -> None:
    struck.broken = True
    with pytest.raises(EnvironmentProblem, match="n5 is off"):
        struck.add("loss", "n5", 1.0)
    assert struck.active() == []


def test_no_process_to_stop_is_an_error_and_not_remembered(struck: Struck) -> None:
    struck.found = False
    with pytest.raises(EnvironmentProblem, match="n1 runs no process with 'agent' in its command"):
        struck.add("stopped", "n1", process="agent")
    assert struck.active() == []


# ---- uplinks ----


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        (("rate", "leaf1", 0.05, "spine2"), "shape leaf1 spine2 0.05"),
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
    message = on_leaves.refused("rate", switch, 1.0, interface)
    assert message == f"fault rate on {switch}: no interface {interface!r}; {known}"


@pytest.mark.parametrize("kind", ["off", "disk-full", "delay"])
def test_fault_of_a_node_is_refused_on_a_switch(on_leaves: Struck, kind: str) -> None:
    value = 1.0 if faults.KINDS[kind].needs_value else None
    assert "the lab has no node 'leaf1'" in on_leaves.refused(kind, "leaf1", value)


@pytest.mark.parametrize(
    ("arguments", "mended"),
    [
        (("rate", "leaf1", 0.05, "spine2"), "unshape leaf1 spine2"),
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


# ---- what is refused ----


def test_unknown_fault_is_refused_with_those_that_are_known(struck: Struck) -> None:
    message = struck.refused("lose", "n5", 1.0)
    assert message.startswith("fault 'lose' is unknown; one of rate, mtu, delay, loss, ")


@pytest.mark.parametrize("kind", [name for name, k in faults.KINDS.items() if k.on != "lab"])
def test_fault_of_a_node_needs_one(struck: Struck, kind: str) -> None:
    assert struck.refused(kind, None, 1.0) == f"fault {kind} needs --node"


@pytest.mark.parametrize("kind", [name for name, k in faults.KINDS.items() if k.on == "lab"])
def test_fault_of_the_lab_concerns_no_single_node(struck: Struck, kind: str) -> None:
    assert struck.refused(kind, "n5") == f"fault {kind} concerns no single node"


@pytest.mark.parametrize("kind", [name for name, k in faults.KINDS.items() if k.needs_value])
def test_fault_with_a_value_needs_it(struck: Struck, kind: str) -> None:
    assert struck.refused(kind, "n5").startswith(f"fault {kind} needs --value: ")


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
    value = 1.0 if faults.KINDS[kind].needs_value else None
    message = struck.refused(kind, node, value, interface)
    assert message == f"fault {kind} on {node}: no interface {interface!r}; {known}"


@pytest.mark.parametrize(
    "kind", [name for name, kind in faults.KINDS.items() if kind.on == "vm-interface"]
)
def test_fault_that_needs_a_kernel_of_its_own_is_refused_on_a_namespace_node(
    struck: Struck, kind: str
) -> None:
    message = f"fault {kind} needs a VM node (n[5-6]); n1 is a namespace"
    value = 1.0 if faults.KINDS[kind].needs_value else None
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


# ---- two faults ----


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
    for kind in ("loss", "mtu", "rdma-removed", "link-down"):
        struck.add(kind, "n5", 1400.0 if faults.KINDS[kind].needs_value else None)
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
    assert struck.active() == ["loss n6 eth1 1"]


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
