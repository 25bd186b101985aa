"""VM nodes: their interfaces and addresses, QEMU's command line, and whether KVM can be used."""

from __future__ import annotations

import ipaddress
import itertools
import json
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.cli.lab import open_lab
from railgauge.common.errors import PrerequisiteError
from railgauge.lab import guest, initrd, network, vm
from railgauge.lab.cluster import Lab
from railgauge.lab.spec import LabSpec, Node

DESCRIPTION: dict[str, Any] = {
    "network": {"subnet": "10.77.0.0/24", "mtu_bytes": 4200, "link_gbits": 10},
    "fabric": {
        "rail_subnets": ["10.77.1.0/24", "10.77.2.0/25"],
        "bond": {"subnet": "10.77.9.0/24", "links": 2, "link_gbits": 0.1},
    },
    "head": {"name": "head"},
    "nodes": [
        {"names": "n1", "kind": "namespace", "cpus": 4, "memory_mib": 700, "gpus": 4},
        {"names": "n[5-6]", "kind": "vm", "cpus": 2, "memory_mib": 768, "gpus": 0},
    ],
}


def described(**fabric: Any) -> LabSpec:
    """The lab with another fabric behind its VM nodes."""
    return LabSpec.model_validate({**DESCRIPTION, "fabric": {**DESCRIPTION["fabric"], **fabric}})


SPEC = described()
NO_BOND = described(bond=None)
NO_RAILS = described(rail_subnets=[])
BARE = described(rail_subnets=[], bond=None)


def node(name: str = "n5", spec: LabSpec = SPEC) -> Node:
    (found,) = [node for node in spec.all_nodes() if node.name == name]
    return found


@pytest.fixture
def x86(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


# ---- the interfaces ----


@pytest.mark.parametrize(
    ("spec", "rails", "links"),
    [
        (SPEC, ["eth1", "eth2"], ["eth3", "eth4"]),
        (NO_BOND, ["eth1", "eth2"], []),
        (NO_RAILS, [], ["eth1", "eth2"]),
        (BARE, [], []),
    ],
)
def test_bond_links_come_behind_the_rails(
    spec: LabSpec, rails: list[str], links: list[str]
) -> None:
    assert (vm.rail_interfaces(spec), vm.bond_interfaces(spec)) == (rails, links)


def test_every_interface_of_a_node_has_an_end_of_its_own_on_the_host() -> None:
    lab = Lab(SPEC, {}, Path("/nowhere"))
    interfaces = vm.VmNodes().interfaces(lab)
    taps = {vm.tap(node(name), interface) for name in ("n5", "n6") for interface in interfaces}
    assert interfaces == ["eth0", "eth1", "eth2", "eth3", "eth4"]
    assert len(taps) == 10


def test_name_of_a_tap_is_short_enough_for_linux() -> None:
    assert len(vm.tap(node(), "eth15")) < 16


@pytest.mark.parametrize(("spec", "usual"), [(SPEC, "eth1"), (BARE, "eth0")])
def test_faults_strike_the_first_rail_where_there_is_one(spec: LabSpec, usual: str) -> None:
    assert vm.VmNodes().default_interface(Lab(spec, {}, Path("/nowhere"))) == usual


def test_only_rails_have_an_rdma_device() -> None:
    lab = Lab(SPEC, {}, Path("/nowhere"))
    assert vm.VmNodes().interfaces(lab, rdma=True) == ["eth1", "eth2"]


# ---- their addresses ----


def test_node_is_told_its_addresses_in_the_words_of_ip() -> None:
    assert vm._addresses(SPEC, node("n5")) == [
        "link set lo up",
        "link set eth0 mtu 4200 up",
        "address add 10.77.0.12/24 dev eth0",
        "link set eth1 mtu 4200 up",
        "address add 10.77.1.12/24 dev eth1",
        "route add default via 10.77.1.1 dev eth1 metric 1",
        "link set eth2 mtu 4200 up",
        "address add 10.77.2.12/25 dev eth2",
        "route add default via 10.77.2.1 dev eth2 metric 2",
        "link add bond0 type bond mode 802.3ad miimon 100 lacp_rate fast xmit_hash_policy layer3+4",
        "link set eth3 mtu 4200 master bond0",
        "link set eth4 mtu 4200 master bond0",
        "link set bond0 mtu 4200 up",
        "address add 10.77.9.12/24 dev bond0",
    ]


def test_node_without_a_fabric_has_its_first_interface_only() -> None:
    assert vm._addresses(BARE, node("n5")) == [
        "link set lo up",
        "link set eth0 mtu 4200 up",
        "address add 10.77.0.12/24 dev eth0",
    ]


def test_default_routes_differ_in_their_metric() -> None:
    spec = described(rail_subnets=[f"10.78.{rail}.0/24" for rail in range(8)])
    routes = [line for line in vm._addresses(spec, node()) if "default" in line]
    assert len({line.rpartition(" ")[2] for line in routes}) == 8


def test_no_two_nodes_have_an_address_in_common() -> None:
    lines = [vm._addresses(SPEC, node(name)) for name in ("n5", "n6")]
    one, other = ({line for line in told if line.startswith("address")} for told in lines)
    assert one & other == set()


def test_rails_of_a_node_are_named_for_its_first_process() -> None:
    assert vm._environment(SPEC, node()) == "rails=(eth1 eth2)\ngpus=0\n"


# ---- the bridges ----


@pytest.mark.parametrize(
    ("spec", "bridges"),
    [
        (SPEC, ["br0=10.77.0.1/24", "br1=10.77.1.1/24", "br2=10.77.2.1/25", "br3=", "br4="]),
        (NO_BOND, ["br0=10.77.0.1/24", "br1=10.77.1.1/24", "br2=10.77.2.1/25"]),
        (NO_RAILS, ["br0=10.77.0.1/24", "br1=", "br2="]),
        (BARE, ["br0=10.77.0.1/24"]),
    ],
)
def test_rails_have_a_router_and_bond_links_only_a_bridge(
    spec: LabSpec, bridges: list[str]
) -> None:
    assert network.bridges(spec) == bridges


@pytest.mark.parametrize("spec", [SPEC, NO_BOND, NO_RAILS, BARE])
def test_every_interface_has_a_bridge(spec: LabSpec) -> None:
    interfaces = vm.VmNodes().interfaces(Lab(spec, {}, Path("/nowhere")))
    there = [bridge.partition("=")[0] for bridge in network.bridges(spec)]
    assert [network.bridge(interface) for interface in interfaces] == there


@given(
    st.lists(
        st.tuples(st.ip_addresses(v=4).map(str), st.integers(0, 255)),
        min_size=2,
        max_size=20,
        unique=True,
    )
)
def test_every_interface_has_a_hardware_address_of_its_own(places: list[tuple[str, int]]) -> None:
    assert len({network.hardware_address(*place) for place in places}) == len(places)


@given(st.ip_addresses(v=4), st.integers(0, 255))
def test_hardware_address_is_a_local_one_of_one_device(
    address: ipaddress.IPv4Address, interface: int
) -> None:
    parts = [int(part, 16) for part in network.hardware_address(str(address), interface).split(":")]
    assert (len(parts), parts[0] & 0b11) == (6, 0b10)


# ---- QEMU's command line ----


@pytest.fixture
def lab(tmp_path: Path, x86: None) -> Lab:
    """A lab that has been brought up so far that a VM could start."""
    image = tmp_path / "image"
    (image / "boot").mkdir(parents=True)
    (image / "boot" / "vmlinuz-6.12.1").touch()
    loader = image / "usr" / "lib" / "x86_64-linux-gnu" / "ld-linux-x86-64.so.2"
    loader.parent.mkdir(parents=True)
    loader.touch()
    lab = Lab(SPEC, {}, tmp_path / "lab")
    lab.folders.machines.mkdir(parents=True)
    (lab.folders.run / "rootfs").write_text(str(image))
    (lab.folders.run / "accelerator").write_text("tcg")
    share(lab, tmp_path / "checkout")
    return lab


def share(lab: Lab, *folders: Path) -> None:
    (lab.folders.run / "shared").write_text("".join(f"{folder}\n" for folder in folders))


def command(lab: Lab, name: str = "n5") -> list[str]:
    return vm.VmNodes()._command(lab, node(name))


def after(argv: list[str], option: str) -> list[str]:
    return [value for word, value in itertools.pairwise(argv) if word == option]


def test_vm_has_the_processors_and_memory_of_its_node(lab: Lab) -> None:
    argv = command(lab)
    assert (after(argv, "-smp"), after(argv, "-m")) == (["2"], ["768"])


def numa(lab: Lab, count: int, **fabric: Any) -> list[str]:
    spec = described(**fabric)
    lab.spec = spec
    return vm.VmNodes()._command(lab, node(spec=spec).model_copy(update={"numa_nodes": count}))


def test_a_vm_of_one_numa_node_has_what_qemu_gives_it(lab: Lab) -> None:
    assert not {"-numa", "-object"} & set(command(lab))


def test_a_vm_of_several_numa_nodes_has_cpus_memory_and_interfaces_of_each(lab: Lab) -> None:
    argv = numa(lab, 2)
    assert sorted(after(argv, "-numa")) == [
        "node,nodeid=0,cpus=0-0,memdev=memory0",
        "node,nodeid=1,cpus=1-1,memdev=memory1",
    ]
    assert {value.split(",")[2] for value in after(argv, "-object")} == {"size=384M"}
    devices = after(argv, "-device")
    # Seen in a guest: the bridge that is added last is found first.
    bridges = [value.split(",") for value in devices if value.startswith("pxb-pcie")]
    assert [(words[1], words[3]) for words in bridges] == [
        ("id=bridge1", "numa_node=1"),
        ("id=bridge0", "numa_node=0"),
    ]
    ports = [value.split(",")[1:3] for value in devices if value.startswith("pcie-root-port")]
    assert ports == [
        [f"id=port-eth{number}", f"bus=bridge{home}"] for number, home in enumerate((0, 0, 1, 1, 1))
    ]
    nics = [value for value in devices if value.startswith("virtio-net")]
    assert all(f",bus=port-eth{number}" in nic for number, nic in enumerate(nics))


def test_interfaces_of_several_numa_nodes_keep_their_order(lab: Lab) -> None:
    rails = [f"10.77.{number}.0/24" for number in range(1, 5)]
    devices = after(numa(lab, 2, rail_subnets=rails, bond=None), "-device")
    homes = [value.split(",")[2] for value in devices if value.startswith("pcie-root-port")]
    assert homes == [f"bus=bridge{home}" for home in (0, 0, 0, 1, 1)]


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ({"kind": "namespace", "cpus": 4}, "of VM nodes only"),
        ({"cpus": 3}, "3 CPUs and 768 MiB, expected multiples of numa_nodes, 2"),
        ({"memory_mib": 767}, "2 CPUs and 767 MiB, expected multiples"),
    ],
)
def test_numa_nodes_that_do_not_fit_are_refused(group: dict[str, Any], why: str) -> None:
    nodes = [{**DESCRIPTION["nodes"][1], "numa_nodes": 2, **group}]
    with pytest.raises(pydantic.ValidationError, match=why):
        LabSpec.model_validate({**DESCRIPTION, "nodes": nodes})


def test_vm_has_a_device_for_every_interface_with_its_own_hardware_address(lab: Lab) -> None:
    devices = [value for value in after(command(lab), "-device") if value.startswith("virtio-net")]
    macs = {option for value in devices for option in value.split(",") if option[:4] == "mac="}
    assert [value.split(",")[1] for value in devices] == [f"id=nic-eth{n}" for n in range(5)]
    assert len(macs) == 5


def test_two_vms_have_no_hardware_address_in_common(lab: Lab) -> None:
    macs = [
        {word for value in after(command(lab, name), "-device") for word in value.split(",")}
        for name in ("n5", "n6")
    ]
    assert not any(word.startswith("mac=") for word in macs[0] & macs[1])


def test_only_links_of_the_bond_are_told_their_speed(lab: Lab) -> None:
    devices = [value for value in after(command(lab), "-device") if "speed=" in value]
    assert [value.split(",")[1] for value in devices] == ["id=nic-eth3", "id=nic-eth4"]


def test_every_network_is_a_tap_that_is_there_already(lab: Lab) -> None:
    assert after(command(lab), "-netdev") == [
        f"tap,id=eth{n},ifname=n5-eth{n},script=no,downscript=no" for n in range(5)
    ]


def test_root_is_a_disk_that_nobody_writes_and_folders_are_shared(lab: Lab, tmp_path: Path) -> None:
    (drive,) = after(command(lab), "-drive")
    disk = f"file={tmp_path}/image/boot/root.erofs"
    assert drive.split(",") == ["if=none", "id=root", "format=raw", "readonly=on", disk]
    assert "virtio-blk-pci,drive=root,bus=pcie.0" in after(command(lab), "-device")
    shares = [value.split(",")[1:3] for value in after(command(lab), "-virtfs")]
    assert shares == [
        [f"path={lab.folders.run}", "mount_tag=share0"],
        [f"path={tmp_path}/checkout", "mount_tag=share1"],
    ]


@pytest.mark.parametrize(("stack", "shared"), [("stack", True), ("results/stack", False)])
def test_machines_see_what_was_built_outside_the_checkout(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stack: str, shared: bool
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path / stack))
    of_all = [paths.HOME, tmp_path / "results"]
    assert lab._to_share() == of_all
    (tmp_path / stack).mkdir(parents=True)
    assert lab._to_share() == of_all + [tmp_path / stack] * shared


def test_comma_in_a_path_is_doubled_for_qemu(lab: Lab, tmp_path: Path) -> None:
    share(lab, tmp_path / "a,b")
    assert any(f"path={tmp_path}/a,,b," in value for value in after(command(lab), "-virtfs"))


def test_kernel_is_told_the_nodes_name_and_no_path(lab: Lab, tmp_path: Path) -> None:
    share(lab, tmp_path / "with a blank" / ("x" * 200))
    (line,) = after(command(lab), "-append")
    told = dict(word.split("=", 1) for word in line.split() if word.startswith("railgauge."))
    assert told == {"railgauge.node": "n5"}


def test_a_guest_does_not_take_its_timer_for_broken_where_it_had_no_cpu(lab: Lab) -> None:
    (line,) = after(command(lab), "-append")
    assert "no_timer_check" in line.split()


def test_folders_are_those_that_qemu_shares_in_their_order(lab: Lab, tmp_path: Path) -> None:
    assert vm.shares(lab) == [lab.folders.run, tmp_path / "checkout"]


@pytest.mark.parametrize(
    ("alive", "how"), [(False, "ended while it booted"), (True, "did not boot")]
)
def test_node_that_does_not_boot_is_told_with_the_end_of_its_console(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, alive: bool, how: str
) -> None:
    lab.folders.log.mkdir()
    trace = "".join(f" ? part {number} of a trace\r\n" for number in range(40))
    console = f"\x1bc\x1b[?7l\x1b[2JLinux\r\n[ 1.2] Kernel panic - not syncing: no init\r\n{trace}"
    (lab.folders.log / "boot-n5.log").write_text(console)

    def silent(*_: Any, **__: Any) -> Any:
        raise PrerequisiteError("n5.agent: Connection reset by peer")

    monkeypatch.setattr(vm.VmNodes, "run", silent)
    monkeypatch.setattr(Lab, "machine", lambda *_: object() if alive else None)
    with pytest.raises(PrerequisiteError, match=f"^n5 {how}") as caught:
        vm.VmNodes().wait_until_up(lab, node(), timeout_s=0.1)
    first, *rest = caught.value.message.splitlines()
    assert first.endswith(" (Kernel panic - not syncing: no init); the last lines of its console:")
    assert rest == [f"     ? part {number} of a trace" for number in range(28, 40)]
    assert caught.value.next_step == "railgauge lab logs boot-n5"


@pytest.mark.parametrize(
    ("kind", "cpu"),
    [("kvm", "host"), ("tcg", "max,-pclmulqdq,-la57,-erms,-fsrm,-fsrs,-fzrm,-fsrc")],
)
def test_accelerator_that_was_found_is_used(lab: Lab, kind: str, cpu: str) -> None:
    (lab.folders.run / "accelerator").write_text(kind)
    argv = command(lab)
    assert (after(argv, "-accel")[0].split(",")[0], after(argv, "-cpu")) == (kind, [cpu])


def test_sockets_have_relative_names(lab: Lab) -> None:
    argv = command(lab)
    assert after(argv, "-qmp") == ["unix:n5.qmp,server=on,wait=off"]
    assert "socket,id=agent,path=n5.agent,server=on,wait=off" in after(argv, "-chardev")


# ---- the machine under it ----


@pytest.mark.parametrize("machine", ["aarch64", "ppc64le", ""])
def test_other_machines_are_told_of_namespace_nodes(
    monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(PrerequisiteError, match=f"need x86_64, this is {machine}") as caught:
        vm.require()
    assert caught.value.next_step == "railgauge lab up --nodes n[1-4]: namespace nodes only"


def test_x86_will_do(x86: None) -> None:
    vm.require()


class Kvm:
    """A machine with /dev/kvm, where a guest runs or not, and who asks is counted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.works = True
        self.probes = 0
        self.said: list[str] = []
        self.folder = folder
        self.device, self.boot_id = folder / "kvm", folder / "boot_id"
        self.device.touch()
        self.boot_id.write_text("first-boot\n")
        monkeypatch.setattr(vm, "_KVM", self.device)
        monkeypatch.setattr(vm, "_BOOT_ID", self.boot_id)
        monkeypatch.setattr(vm, "_guest_runs", self._probe)

    def _probe(self, image: Path, initial: Path) -> bool:
        self.probes += 1
        return self.works

    def ask(self) -> str:
        return vm.accelerator(self.folder, Path("image"), Path("initrd"), self.said.append)


@pytest.fixture
def kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kvm:
    return Kvm(tmp_path, monkeypatch)


@pytest.mark.parametrize(("works", "found"), [(True, "kvm"), (False, "tcg")])
def test_kvm_is_used_only_where_a_guest_runs(kvm: Kvm, works: bool, found: str) -> None:
    kvm.works = works
    assert kvm.ask() == found


@pytest.mark.parametrize("works", [True, False])
def test_guest_is_tried_once_a_boot(kvm: Kvm, works: bool) -> None:
    kvm.works = works
    answers = {kvm.ask(), kvm.ask()}
    assert (len(answers), kvm.probes, len(kvm.said)) == (1, 1, 1)


def test_guest_is_tried_again_after_a_boot(kvm: Kvm) -> None:
    kvm.ask()
    kvm.boot_id.write_text("second-boot\n")
    kvm.works = False
    assert (kvm.ask(), kvm.probes) == ("tcg", 2)


def test_without_the_device_nothing_is_tried(kvm: Kvm) -> None:
    kvm.device.unlink()
    assert (kvm.ask(), kvm.probes, kvm.said) == ("tcg", 0, [])


@pytest.mark.parametrize("kept", ["", "{", "[]", "null", '"kvm"', "{}", '{"boot": "first-boot"}'])
def test_answer_that_cannot_be_read_is_asked_for_again(kvm: Kvm, kept: str) -> None:
    (kvm.folder / "accelerator.json").write_text(kept)
    assert (kvm.ask(), kvm.probes) == ("kvm", 1)


GUEST_RUNS = b"...\r\nrailgauge: the guest runs\r\n"


@pytest.mark.parametrize(
    ("code", "output", "found"),
    [
        (0, GUEST_RUNS, "kvm"),
        (1, GUEST_RUNS, "tcg"),
        (0, b"", "tcg"),
        (1, b"Could not access KVM kernel module: Permission denied", "tcg"),
    ],
)
def test_guest_runs_only_where_it_says_so_and_ends_well(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    output: bytes,
    found: str,
) -> None:
    monkeypatch.setattr(vm, "_KVM", tmp_path)
    monkeypatch.setattr(
        subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], code, output, b"")
    )
    answer = vm.accelerator(tmp_path, tmp_path / "image", tmp_path / "initrd", lambda _: None)
    assert answer == found


def test_guest_that_hangs_under_kvm_is_not_waited_for(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: Any, timeout: float, **__: Any) -> None:
        raise subprocess.TimeoutExpired("qemu", timeout)

    monkeypatch.setattr(vm, "_KVM", tmp_path)
    monkeypatch.setattr(subprocess, "run", hang)
    image = tmp_path / "image"
    assert vm.accelerator(tmp_path, image, tmp_path / "initrd", lambda _: None) == "tcg"
    assert json.loads((tmp_path / "accelerator.json").read_text())["accelerator"] == "tcg"


# ---- what is changed in a guest ----


class Told:
    """What the guest and QEMU are told, instead of doing it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[str] = []
        self.code = 0
        monkeypatch.setattr(Lab, "require_machine", lambda *_: None)
        monkeypatch.setattr(guest, "run", self._run)
        monkeypatch.setattr(guest, "monitor", self._monitor)

    def _run(
        self, path: Path, argv: list[str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        self.commands.append(f"{path.name}: {' '.join(argv)}")
        return subprocess.CompletedProcess(argv, self.code, "", "RTNETLINK answers: no\n")

    def _monitor(self, path: Path, command: str, **arguments: Any) -> None:
        self.commands.append(f"{path.name}: {command} {arguments}")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def test_cable_is_pulled_outside_of_the_guest(lab: Lab, told: Told) -> None:
    vm.VmNodes().set_link(lab, node(), "eth1", up=False)
    assert told.commands == ["n5.qmp: set_link {'name': 'nic-eth1', 'up': False}"]


def test_netem_is_given_its_words(lab: Lab, told: Told) -> None:
    vm.VmNodes().emulate(lab, node(), "eth1", "loss 1%")
    assert told.commands[-1] == "n5.agent: tc qdisc replace dev eth1 root netem loss 1%"


def test_netem_without_words_is_taken_away_also_where_there_is_none(lab: Lab, told: Told) -> None:
    told.code = 2
    vm.VmNodes().emulate(lab, node(), "eth1", "")
    assert told.commands == ["n5.agent: tc qdisc delete dev eth1 root"]


@pytest.mark.parametrize(
    ("present", "command"),
    [
        (False, "rdma link delete rxe1"),
        (True, "rdma link add rxe1 type rxe netdev eth2"),
    ],
)
def test_rdma_device_has_the_number_of_its_rail(
    lab: Lab, told: Told, present: bool, command: str
) -> None:
    vm.VmNodes().set_rdma(lab, node(), "eth2", present=present)
    assert told.commands == [f"n5.agent: {command}"]


def test_command_that_fails_in_the_guest_is_told_with_node_and_words(lab: Lab, told: Told) -> None:
    told.code = 2
    message = "`ip link set eth1 mtu 1500` on n5: RTNETLINK answers: no"
    with pytest.raises(PrerequisiteError, match=message):
        vm.VmNodes().set_mtu(lab, node(), "eth1", 1500)


def test_probe_and_node_start_the_same_kernel(lab: Lab, tmp_path: Path) -> None:
    assert after(command(lab), "-kernel") == [str(initrd.kernel(tmp_path / "image"))]


# ---- the head as their hypervisor ----


def lab_with(folder: Path, nodes: str, host: str = "head") -> Lab:
    """A lab that has these nodes, of a system that names a hypervisor of n5 and n6."""
    lab = Lab(SPEC, {}, folder, hypervisors={"n5": host, "n6": host})
    lab.folders.run.mkdir(parents=True)
    lab._use([node(name) for name in nodes.split()])
    return lab


@pytest.mark.parametrize(
    ("nodes", "host", "has"),
    [
        ("n1 n5", "head", True),
        ("n1", "head", False),
        ("n1 n5", "epyc", False),
    ],
    ids=["with", "without virtual machines", "of another host"],
)
def test_the_head_has_an_sshd_where_it_is_the_hypervisor_of_a_node(
    tmp_path: Path, nodes: str, host: str, has: bool
) -> None:
    """The defect: every head started one, and ended with it."""
    lab = lab_with(tmp_path, nodes, host)
    assert ("sshd" in lab.services) is has
    assert lab.services[int(has) :] == SPEC.services
    settings = (lab.folders.run / "cluster.env").read_text().splitlines()
    assert f"services=({' '.join(lab.services)})" in settings


def test_the_head_of_a_lab_that_gets_its_first_virtual_machine_gets_an_sshd(
    tmp_path: Path,
) -> None:
    lab = lab_with(tmp_path, "n1")
    lab._use([node("n6")])
    assert lab.services == ["sshd", *SPEC.services]


def test_a_dead_sshd_is_started_again_as_other_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(Lab, "service_runs", lambda _, service: service != "sshd")
    monkeypatch.setattr(Lab, "start_service", lambda _, service: started.append(service))
    lab_with(tmp_path, "n1 n5")._restart_dead_services(lambda _: None)
    assert started == ["sshd"]


def test_the_head_starts_no_daemon_but_munged_unless_it_is_one_of_its_services() -> None:
    script = (Path(vm.__file__).parent / "boot" / "services").read_text()
    head = script.partition("  head)")[2].partition(";;")[0]
    assert re.findall(r"^ +(start_\w+)", head, re.MULTILINE) == ["start_munged"]
    assert 'for service in "${services[@]}"; do "start_$service"; done' in head


def test_the_hypervisors_are_those_that_the_system_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_LAB_DIR", str(tmp_path))
    assert open_lab().hypervisors == {"n5": "head", "n6": "head"}
    assert open_lab(system="lab32").hypervisors == {}
