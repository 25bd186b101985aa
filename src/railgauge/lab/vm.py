"""VM nodes: QEMU with a kernel of its own, for RDMA (Soft-RoCE), netem and bonds."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import time
from pathlib import Path

from railgauge.common.errors import PrerequisiteError
from railgauge.hooks import Say
from railgauge.lab import guest, initrd, network, rootfs
from railgauge.lab.runtime import Runtime
from railgauge.lab.spec import LabSpec, Node
from railgauge.processes import Process

_BOOT = Path(__file__).parent / "boot"

_QEMU = {"x86_64": "qemu-system-x86_64"}

#: A guest under KVM is up within a second; one that hangs is not worth waiting for.
_PROBE_LIMIT_S = 8

#: A guest in emulation is up in 15 s, and on a machine that is busy with ten others in two minutes;
#: one that died is not waited for.
BOOT_LIMIT_S = 300
#: How long a command on a node may take: an emulated machine, on a host that has other work.
COMMAND_LIMIT_S = 120

_KVM = Path("/dev/kvm")

_PANIC = re.compile(r"Kernel panic - .*")

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def require() -> None:
    """PrerequisiteError where this machine cannot have VM nodes."""
    if platform.machine() not in _QEMU:
        raise PrerequisiteError(
            f"the lab's VM nodes need {' or '.join(_QEMU)}, this is {platform.machine()}",
            next_step="railgauge lab up --nodes n[1-4]: namespace nodes only",
        )


#: What is slower emulated than what the kernel and the C library do without it: string instructions
#: go byte by byte (125 MB written and read take 4.9 s of CPU, 0.8 s without), and page tables of
#: five levels are one longer.
_SLOW = ("pclmulqdq", "la57", "erms", "fsrm", "fsrs", "fzrm", "fsrc")


def _machine(image: Path, accelerator: str, cpus: int = 1) -> list[str]:
    """What is the same for the probe and for a node: the image's QEMU, and the kind of machine."""
    cpu = "host" if accelerator == "kvm" else ",".join(["max", *(f"-{word}" for word in _SLOW)])
    # Two virtual CPUs in threads of their own may see different maps of devices while a guest
    # boots, and QEMU ends ("iotlb_to_section: Assertion ... failed"). Translated code may take a
    # gigabyte if it is not limited.
    threads = "single" if cpus > 1 else "multi"
    accelerate = "kvm" if accelerator == "kvm" else f"tcg,thread={threads},tb-size=256"
    return [
        *rootfs.program(image, _QEMU[platform.machine()]),
        *("-L", str(image / "usr/share/qemu"), "-L", str(image / "usr/share/seabios")),
        *("-nodefaults", "-no-reboot", "-display", "none", "-machine", "q35"),
        *("-accel", accelerate, "-cpu", cpu),
    ]


# Without no_timer_check a guest that has no CPU for some ms while it tries its timer takes that for
# broken, and panics ("IO-APIC + timer doesn't work!", cirros-dev/cirros issue 69).
_KERNEL_OPTIONS = (
    "console=ttyS0 quiet panic=-1 mitigations=off nowatchdog tsc=reliable no_timer_check"
)


def accelerator(folder: Path, image: Path, initial: Path, say: Say) -> str:
    """`kvm` if a guest really runs under it, else `tcg`: /dev/kvm may be there and hang a guest.

    The answer is kept in `folder` until this machine boots again.
    """
    if not _KVM.exists():
        return "tcg"
    cache = folder / "accelerator.json"
    boot = _BOOT_ID.read_text().strip()
    try:
        kept = json.loads(cache.read_text())
        if kept["boot"] == boot:
            return str(kept["accelerator"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        pass
    say(f"seeing whether KVM works here (at most {_PROBE_LIMIT_S} s, once per boot)")
    kind = "kvm" if _guest_runs(image, initial) else "tcg"
    cache.write_text(json.dumps({"boot": boot, "accelerator": kind}))
    return kind


def _guest_runs(image: Path, initial: Path) -> bool:
    command = [
        *_machine(image, "kvm"),
        *("-m", "256", "-serial", "stdio"),
        *("-kernel", str(initrd.kernel(image)), "-initrd", str(initial)),
        *("-append", f"{_KERNEL_OPTIONS} railgauge.probe"),
    ]
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return answer.returncode == 0 and b"railgauge: the guest runs" in answer.stdout


def shares(lab: Runtime) -> list[Path]:
    """The folders that a VM node reaches over 9p."""
    return [lab.folders.run, *lab.shared]


def initial(lab: Runtime, image: Path) -> bytes:
    """The initial file system of this lab's VM nodes."""
    return initrd.build(image, lab.folders.run, _BOOT, shares(lab))


# ---- the interfaces of a node --------------------------------------------------------------


def rail_interfaces(spec: LabSpec) -> list[str]:
    return [f"eth{1 + rail}" for rail in range(len(spec.fabric.rail_subnets))]


def bond_interfaces(spec: LabSpec) -> list[str]:
    first = 1 + len(spec.fabric.rail_subnets)
    links = spec.fabric.bond.links if spec.fabric.bond else 0
    return [f"eth{first + link}" for link in range(links)]


def _interfaces(spec: LabSpec) -> list[str]:
    return ["eth0", *rail_interfaces(spec), *bond_interfaces(spec)]


def tap(node: Node, interface: str) -> str:
    """The host's end of an interface of a VM."""
    return f"{node.name}-{interface}"


def _addresses(spec: LabSpec, node: Node) -> list[str]:
    """The commands for `ip -batch` that give a node its interfaces."""
    mtu = spec.network.mtu_bytes
    lines = ["link set lo up"]

    def interface(name: str, address: str) -> None:
        lines.append(f"link set {name} mtu {mtu} up")
        lines.append(f"address add {address} dev {name}")

    interface("eth0", f"{node.address}/{spec.prefix_length}")
    for name, subnet in zip(rail_interfaces(spec), spec.fabric.rail_subnets, strict=True):
        interface(name, f"{subnet[10 + node.place]}/{subnet.prefixlen}")
        # Soft-RoCE looks for a way out by its own interface, also to the other rails.
        lines.append(f"route add default via {subnet[1]} dev {name} metric {name[3:]}")
    bond = spec.fabric.bond
    if bond:
        lines.append(
            "link add bond0 type bond mode 802.3ad miimon 100 lacp_rate fast "
            "xmit_hash_policy layer3+4"
        )
        lines += [f"link set {name} mtu {mtu} master bond0" for name in bond_interfaces(spec)]
        interface("bond0", f"{bond.subnet[10 + node.place]}/{bond.subnet.prefixlen}")
    return lines


def _environment(spec: LabSpec, node: Node) -> str:
    return f"rails=({' '.join(rail_interfaces(spec))})\ngpus={node.gpus}\n"


def _port(interface: str) -> str:
    return f"port-{interface}"


def _numa(spec: LabSpec, node: Node) -> list[str]:
    """QEMU's options for a machine of several NUMA nodes, each with its CPUs, memory and a PCI host
    bridge (docs/pci_expander_bridge.txt of QEMU). Interfaces keep their order: eth0 is on the first
    node, the rails are parted among all, the links of the bond are on the last.
    """
    count, rails = node.numa_nodes, rail_interfaces(spec)
    options: list[str] = []
    # A guest finds the bridge first that is added last.
    for numa in reversed(range(count)):
        first, last = (node.cpus * n // count for n in (numa, numa + 1))
        options += [
            *("-object", f"memory-backend-ram,id=memory{numa},size={node.memory_mib // count}M"),
            *("-numa", f"node,nodeid={numa},cpus={first}-{last - 1},memdev=memory{numa}"),
            *(
                "-device",
                f"pxb-pcie,id=bridge{numa},bus=pcie.0,numa_node={numa},bus_nr={32 * numa + 32}",
            ),
        ]
    homes = {"eth0": 0, **{rail: number * count // len(rails) for number, rail in enumerate(rails)}}
    for number, interface in enumerate(_interfaces(spec), start=1):
        place = f"bus=bridge{homes.get(interface, count - 1)},chassis={number},slot={number}"
        options += ["-device", f"pcie-root-port,id={_port(interface)},{place}"]
    return options


# ---- the kind ------------------------------------------------------------------------------


class VmNodes:
    """A node that is a virtual machine. Raises PrerequisiteError where that does not work."""

    def start(self, lab: Runtime, node: Node) -> None:
        init = lab.require_up()
        machines = lab.folders.machines
        for suffix in ("pid", "qmp", "agent"):
            (machines / f"{node.name}.{suffix}").unlink(missing_ok=True)
        (machines / f"{node.name}.ip").write_text("\n".join(_addresses(lab.spec, node)) + "\n")
        (machines / f"{node.name}.env").write_text(_environment(lab.spec, node))
        self._plug(lab, init, node)
        lab.start_process(
            node.name,
            [str(_BOOT / "process"), str(machines / f"{node.name}.pid"), *self._command(lab, node)],
        )

    def _plug(self, lab: Runtime, init: Process, node: Node) -> None:
        """The taps of a node on their bridges; they stay while the node is off."""
        mtu = lab.spec.network.mtu_bytes
        for interface in _interfaces(lab.spec):
            name = tap(node, interface)
            if network.exists(init, name):
                continue
            network.ip(
                init,
                f"tuntap add dev {name} mode tap",
                f"link set {name} mtu {mtu} master {network.bridge(interface)} up",
            )
            if interface in bond_interfaces(lab.spec):
                # A bridge keeps LACP to itself unless its port is told to pass it on.
                network.ip(init, f"link set {name} type bridge_slave group_fwd_mask 4")
                bond = lab.spec.fabric.bond
                assert bond is not None
                network.shape_device(init, name, bond.link_gbits, mtu)

    def _command(self, lab: Runtime, node: Node) -> list[str]:
        image = Path((lab.folders.run / "rootfs").read_text())
        kind = (lab.folders.run / "accelerator").read_text()
        options = f"{_KERNEL_OPTIONS} railgauge.node={node.name}"
        command = [
            *_machine(image, kind, node.cpus),
            *("-name", node.name, "-smp", str(node.cpus), "-m", str(node.memory_mib)),
            *("-kernel", str(initrd.kernel(image))),
            *("-initrd", str(lab.folders.run / "initrd"), "-append", options),
            *("-serial", "stdio", "-device", "virtio-rng-pci"),
            # Sockets by relative name: QEMU is started in their folder, their path may be too long.
            *("-qmp", f"unix:{node.name}.qmp,server=on,wait=off"),
            *("-chardev", f"socket,id=agent,path={node.name}.agent,server=on,wait=off"),
            *("-device", "virtio-serial"),
            *("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
            *("-drive", f"if=none,id=root,format=raw,readonly=on,file={_word(rootfs.disk(image))}"),
            *("-device", "virtio-blk-pci,drive=root,bus=pcie.0"),
        ]
        for number, folder in enumerate(shares(lab)):
            path = f"path={_word(folder)},mount_tag=share{number}"
            command += ["-virtfs", f"local,{path},security_model=none,multidevs=remap"]
        # The devices before take a bus of these otherwise, on which they cannot be.
        if node.numa_nodes > 1:
            command += _numa(lab.spec, node)
        for number, interface in enumerate(_interfaces(lab.spec)):
            # LACP bonds only links whose speed it is told.
            speed = "speed=10000,duplex=full" if interface in bond_interfaces(lab.spec) else ""
            mac = f"mac={network.hardware_address(node.address, number)}"
            slot = f"bus={_port(interface)}" if node.numa_nodes > 1 else ""
            mtu = f"host_mtu={lab.spec.network.mtu_bytes}"
            options = ",".join(filter(None, [mac, mtu, speed, slot]))
            command += [
                "-netdev",
                f"tap,id={interface},ifname={tap(node, interface)},script=no,downscript=no",
                *("-device", f"virtio-net-pci,id=nic-{interface},netdev={interface},{options}"),
            ]
        return command

    def power_off(self, lab: Runtime, node: Node) -> None:
        machine = lab.require_machine(node.name)
        machine.kill()
        machine.wait_until_ended()

    def run(
        self, lab: Runtime, node: Node, argv: list[str], timeout_s: float = COMMAND_LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        lab.require_machine(node.name)
        return guest.run(lab.folders.machines / f"{node.name}.agent", argv, timeout_s)

    def interfaces(self, lab: Runtime, rdma: bool = False) -> list[str]:
        return rail_interfaces(lab.spec) if rdma else _interfaces(lab.spec)

    def wait_until_up(self, lab: Runtime, node: Node, timeout_s: float = BOOT_LIMIT_S) -> None:
        """Return once the guest answers; Slurm may take a node for idle that is only just gone."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.run(lab, node, ["true"], timeout_s=2)
                return
            except PrerequisiteError:
                ended = lab.machine(node.name) is None
                if ended or time.monotonic() > deadline:
                    how = "ended while it booted" if ended else f"did not boot in {timeout_s:g} s"
                    log = f"boot-{node.name}"
                    lines = lab.last_lines(log, 200)
                    # A trace of a screen and more stands behind it.
                    panic = "".join(f" ({line})" for line in _PANIC.findall(lines)[:1])
                    raise PrerequisiteError(
                        f"{node.name} {how}{panic}; the last lines of its console:\n"
                        + "\n".join(lines.splitlines()[-12:]),
                        next_step=f"railgauge lab logs {log}",
                    ) from None
                time.sleep(0.2)

    def default_interface(self, lab: Runtime) -> str:
        """Faults strike the first rail, where they leave Slurm's own path alone."""
        return (rail_interfaces(lab.spec) or ["eth0"])[0]

    def shape(
        self, lab: Runtime, machine: Node, interface: str, gbits: float, both: bool = True
    ) -> None:
        mtu = lab.spec.network.mtu_bytes
        if both:
            network.shape_device(lab.require_up(), tap(machine, interface), gbits, mtu)
        self._tc(lab, machine, f"qdisc replace dev {interface} {network.shaper(gbits, mtu)}")

    def unshape(self, lab: Runtime, machine: Node, interface: str) -> None:
        bond = lab.spec.fabric.bond
        init, device = lab.require_up(), tap(machine, interface)
        if bond is not None and interface in bond_interfaces(lab.spec):
            network.shape_device(init, device, bond.link_gbits, lab.spec.network.mtu_bytes)
        else:
            network.unshape_device(init, device)
        if lab.machine(machine.name) is not None:
            self.run(lab, machine, ["tc", "qdisc", "delete", "dev", interface, "root"])

    def set_mtu(self, lab: Runtime, machine: Node, interface: str, mtu_bytes: int) -> None:
        self._must(lab, machine, ["ip", "link", "set", interface, "mtu", str(mtu_bytes)])

    def set_link(self, lab: Runtime, machine: Node, interface: str, up: bool) -> None:
        lab.require_machine(machine.name)
        path = lab.folders.machines / f"{machine.name}.qmp"
        guest.monitor(path, "set_link", name=f"nic-{interface}", up=up)

    def lose(self, lab: Runtime, machine: Node, interface: str, percent: float) -> None:
        # An interface forgets it with its machine's power.
        if percent or lab.machine(machine.name) is not None:
            self.emulate(lab, machine, interface, f"loss {percent:g}%" if percent else "")

    def lose_both(self, lab: Runtime, machine: Node, interface: str, percent: float) -> None:
        # Nothing here loses what arrives.
        self.lose(lab, machine, interface, percent)

    def emulate(self, lab: Runtime, node: Node, interface: str, netem: str) -> None:
        """Let netem (tc-netem(8)) disturb what leaves by the interface; nothing if empty."""
        if netem:
            self._must(lab, node, ["modprobe", "sch_netem"])
            self._tc(lab, node, f"qdisc replace dev {interface} root netem {netem}")
        else:
            self.run(lab, node, ["tc", "qdisc", "delete", "dev", interface, "root"])

    def set_rdma(self, lab: Runtime, node: Node, interface: str, present: bool) -> None:
        """Add or remove the Soft-RoCE device over an interface."""
        device = f"rxe{rail_interfaces(lab.spec).index(interface)}"
        if present:
            command = ["rdma", "link", "add", device, "type", "rxe", "netdev", interface]
        else:
            command = ["rdma", "link", "delete", device]
        self._must(lab, node, command)

    def _tc(self, lab: Runtime, node: Node, arguments: str) -> None:
        self._must(lab, node, ["tc", *arguments.split()])

    def _must(self, lab: Runtime, node: Node, command: list[str]) -> None:
        outcome = self.run(lab, node, command)
        if outcome.returncode != 0:
            raise PrerequisiteError(
                f"`{' '.join(command)}` on {node.name}: {outcome.stderr.strip()}"
            )


def _word(path: Path) -> str:
    """As QEMU reads it in a list with commas."""
    return str(path).replace(",", ",,")
