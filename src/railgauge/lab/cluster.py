"""Bringing the lab up and down, and what runs in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import time
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from railgauge import hostlist, lab, paths, processes
from railgauge.common.atomic import write_text
from railgauge.common.errors import PrerequisiteError
from railgauge.hooks import Say
from railgauge.lab import driver, host, network, releases, render, rootfs, subnet, switches, vm
from railgauge.lab.links import Links
from railgauge.lab.nodes import KINDS, NAMESPACE
from railgauge.lab.releases import Release
from railgauge.lab.runtime import START_LIMIT_S, Runtime
from railgauge.lab.spec import LabSpec, Node, Switch
from railgauge.processes import Process

_BOOT = Path(__file__).parent / "boot"

#: Slurm's client commands that ReFrame and people need outside.
COMMANDS = ("sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")

#: How long Slurm may take to have all nodes: a few seconds, and more on a busy machine.
IDLE_LIMIT_S = 300

_READY = {"idle", "allocated", "mixed", "completing", "planned", "reserved"}

#: Slurm's words for a node that answers and that a person, or the gate, has drained or reserved.
KEPT_OUT = {"drained", "draining", "maint"}


def _ignore(_: str) -> None:
    pass


class Lab(Runtime):
    """One embedded cluster, which is brought up and down here."""

    def links(self, name: str) -> tuple[Links[Any], Node | Switch]:
        """The node or the switch of that name, and how the links of such ones are changed."""
        member = self.member(name)
        kinds: dict[str, Links[Any]] = {**KINDS, **switches.KINDS}
        return kinds[member.kind], member

    @property
    def is_recorded(self) -> bool:
        return (self.folders.run / "lab.json").exists()

    def recorded_spec(self) -> LabSpec:
        """What the lab that is up was made from."""
        return LabSpec.model_validate_json((self.folders.run / "lab.json").read_text())

    def recorded_release(self) -> Release:
        return releases.named((self.folders.run / "release").read_text())

    def in_lab_mounts(self, *command: str) -> list[str]:
        """`command` on the host, but with the mounts as the lab's machines see them."""
        init = self.require_up()
        return ["nsenter", f"--mount=/proc/{init.pid}/ns/mnt", f"--wdns={Path.cwd()}", *command]

    def node_states(self) -> dict[str, str]:
        """Slurm's word for each node (`idle`, `down*`, ...); empty while slurmctld is silent."""
        outcome = self.on_head("sinfo", "-h", "-N", "-o", "%N %T", check=False)
        pairs = (line.split() for line in outcome.stdout.splitlines())
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    def kept_out(self) -> dict[str, str]:
        """The nodes that somebody drained or reserved, and Slurm's reason for each."""
        return {n: f"{state} ({why})" for n, state, why in self._reasons() if state in KEPT_OUT}

    def set_down_by_slurm(self) -> list[str]:
        """The nodes that are down because they did not answer."""
        return [n for n, *rest in self._reasons() if rest == ["down*", "Not responding"]]

    def _reasons(self) -> list[list[str]]:
        """Name, state and Slurm's reason of each node."""
        outcome = self.on_head("sinfo", "-h", "-N", "-o", "%N|%T|%E", check=False)
        return [line.split("|", 2) for line in outcome.stdout.splitlines() if line.count("|") > 1]

    # --- up ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Only one `up`, `down` or `fault` at a time."""
        self.folders.lab.mkdir(parents=True, exist_ok=True)
        with (self.folders.lab / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PrerequisiteError(
                    f"another `railgauge lab` command is at work in {self.folders.lab}",
                    next_step="wait for it, then again",
                ) from None
            yield

    def up(
        self,
        say: Say = _ignore,
        timeout_s: float = IDLE_LIMIT_S,
        nodes: Sequence[str] | None = None,
    ) -> None:
        """Start what is not running, and return when Slurm has every node that was asked for.

        All nodes of the lab, or with `nodes` those and the ones that it has already. Raises
        PrerequisiteError, naming what is missing or which node did not come.
        """
        host.require()
        folders = [paths.PROGRAM, paths.SITE, paths.results_root(), paths.stack_folder()]
        host.require_usable([self.folders.lab, *folders])
        wanted = [self.node(name) for name in nodes] if nodes else self._nodes_of_release(say)
        if any(node.kind == "vm" for node in wanted):
            self._require_vm_nodes(wanted)
        with self.locked():
            of_host = [node.gpus for node in wanted if node.host_gpus]
            gpus = driver.of_host(max(of_host)) if of_host else None
            image = rootfs.ensure(self.folders.lab, say, self.release)
            if self.init is None:
                host.require_memory(wanted)
                self._start_namespaces(image, say)
            elif any(n.kind == "vm" and self.machine(n.name) is None for n in wanted):
                host.require_memory([n for n in wanted if self.machine(n.name) is None])
            self._mend_network(say)
            if gpus is not None:
                write_text(self.folders.run / "driver", gpus.bound())
            missing = self._use(wanted)
            # The virtual machines first: they take longest to come.
            machines = [node for node in missing if node.kind == "vm"]
            if machines:
                self._prepare_vms(say)
            for node in machines:
                say(f"starting {node.name} ({node.kind})")
                KINDS[node.kind].start(self, node)
            if self.machine(self.spec.head.name) is None:
                say(f"starting {self.spec.head.name}: munge, {', '.join(self.services)}")
                self.start_machine("head", self.spec.head.name, gpus=0)
            else:
                self._restart_dead_services(say)
            others = [node for node in missing if node.kind != "vm"]
            if others:
                say(f"starting {hostlist.fold(node.name for node in others)} (namespace)")
            for node in others:
                KINDS[node.kind].start(self, node)
            say("waiting for Slurm")
            for node in missing:
                KINDS[node.kind].wait_until_up(self, node)
            self.wait_until_idle(timeout_s)

    def _mend_network(self, say: Say) -> None:
        """Start the switches that do not run, and give nodes that are on the link that they lack:
        theirs ended with their leaf's process, or an `up` was killed before it made them.
        """
        missing = switches.missing(self)
        if missing:
            say(f"starting {hostlist.fold(sorted(switch.name for switch in missing))}")
            switches.start(self, missing)
        for node in self.in_use():
            if node.kind == "namespace" and self.machine(node.name) is not None:
                NAMESPACE.plug_unless_plugged(self, node)

    def _nodes_of_release(self, say: Say) -> list[Node]:
        """All nodes, where the release has the kernel and the emulator for those that are VMs."""
        every = self.spec.all_nodes()
        able = [node for node in every if node.kind != "vm" or self.release.vm_nodes]
        if left := [node.name for node in every if node not in able]:
            say(f"without {hostlist.fold(left)}: no VM nodes on {self.release.name}")
        return able

    def _require_vm_nodes(self, wanted: Sequence[Node]) -> None:
        vm.require()
        if not self.release.vm_nodes:
            machines = hostlist.fold(node.name for node in wanted if node.kind == "vm")
            others = [node.name for node in self.spec.all_nodes() if node.kind != "vm"]
            raise PrerequisiteError(
                f"{machines}: the lab has no VM nodes on {self.release.name}, only on "
                + ", ".join(name for name, each in releases.RELEASES.items() if each.vm_nodes),
                next_step=f"railgauge lab up --release {self.release.name} "
                f"--nodes {hostlist.fold(others)}, without RDMA",
            )

    def _use(self, nodes: Sequence[Node]) -> list[Node]:
        """Add nodes to those of this lab; all of them that do not run."""
        names = {node.name for node in [*self.in_use(), *nodes]}
        chosen = [node for node in self.spec.all_nodes() if node.name in names]
        write_text(self.folders.run / "nodes", " ".join(node.name for node in chosen))
        # Which daemons the head needs depends on them.
        environment = render.environment(self.spec, self.services)
        write_text(self.folders.run / "cluster.env", environment)
        return [node for node in chosen if self.machine(node.name) is None]

    def in_use(self) -> list[Node]:
        """The nodes that this lab was told to have, so far."""
        recorded = self.folders.run / "nodes"
        names = recorded.read_text().split() if recorded.exists() else []
        return [node for node in self.spec.all_nodes() if node.name in names]

    def _start_namespaces(self, image: Path, say: Say) -> None:
        self._remove_leftovers()
        say("starting the lab's namespaces and bridge")
        run = self.folders.run
        for folder in (self.folders.log, self.folders.machines, self.folders.bin):
            folder.mkdir(parents=True, exist_ok=True)
        render.write(run / "etc", render.render(self.spec, self.partitions, self.release))
        if not self.spec.slurm_conf:
            # The machines see this folder as /etc/slurm. A cluster of somebody else is no lab.
            write_text(run / "etc" / lab.MARK.name, self.system)
        write_text(run / "system", self.system)
        write_text(run / "release", self.release.name)
        write_text(run / "lab.json", self.spec.model_dump_json())
        (run / "munge.key").write_bytes(secrets.token_bytes(1024))
        (run / "munge.key").chmod(0o600)
        (run / "rootfs").write_text(str(image))
        subnet.prepare(self)
        (run / "shared").write_text("".join(f"{folder}\n" for folder in self._to_share()))
        self._make_homes()
        for command in COMMANDS:
            link = self.folders.bin / command
            link.unlink(missing_ok=True)
            link.symlink_to(_BOOT / "slurm-command")
        self.spawn(
            [
                *("unshare", "--pid", "--fork", "--kill-child", "--mount", "--net", "--ipc"),
                *("--uts", "--propagation", "private"),
                *(str(_BOOT / "lab-init"), str(run), str(image)),
                *(str(self.spec.network.mtu_bytes), *network.bridges(self.spec)),
            ],
            self.folders.log / "lab-init.log",
        )
        self.wait_for(lambda: self.init is not None, START_LIMIT_S, "lab-init")

    def _to_share(self) -> list[Path]:
        """What every machine sees at the same path, beside /home: of a cluster of somebody else
        only the lab's scripts, else the program, the site's files, the results area and what
        `make stack` built.
        """
        if self.spec.slurm_conf:
            return [_BOOT]
        results = paths.results_root()
        results.mkdir(parents=True, exist_ok=True)
        folders = [paths.PROGRAM]
        for folder in (paths.SITE, results, paths.stack_folder()):
            if folder.is_dir() and not any(folder.is_relative_to(one) for one in folders):
                folders.append(folder)
        return folders

    def _make_homes(self) -> None:
        """The folder that every machine has as /home, with the homes that are shared."""
        for user in self.spec.users:
            if user.home == "shared":
                home = self.folders.run / "home" / user.name
                home.mkdir(parents=True, mode=0o755)
                os.chown(home, user.uid, user.uid)

    def _prepare_vms(self, say: Say) -> None:
        """What the first VM node of a lab needs, and the others take."""
        run = self.folders.run
        if (run / "accelerator").exists():
            return
        image, initial = Path((run / "rootfs").read_text()), run / "initrd"
        initial.write_bytes(vm.initial(self, image))
        write_text(run / "accelerator", vm.accelerator(self.folders.lab, image, initial, say))

    def start_service(self, service: str) -> None:
        """Start a daemon of the head that is not running."""
        outcome = self.on_head(
            *("bash", str(_BOOT / "services"), "start", service, str(self.folders.run)),
            check=False,
        )
        if outcome.returncode != 0:
            raise PrerequisiteError(f"{service} did not start: {outcome.stderr.strip()}")

    def stop_service(self, service: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End a daemon of the head, and return when it has ended."""
        self.on_head("pkill", f"-{number.value}", "-x", _daemon(service), check=False)
        deadline = time.monotonic() + 30
        while self.service_runs(service):
            if time.monotonic() > deadline:
                raise PrerequisiteError(f"{service} does not end")
            time.sleep(0.05)

    def wait_for_controller(self, timeout_s: float = 60) -> None:
        """Return once slurmctld answers: it says that it started, and may end after that."""
        deadline = time.monotonic() + timeout_s
        while " is UP" not in self.on_head("scontrol", "ping", check=False).stdout:
            if not self.service_runs("slurmctld") or time.monotonic() > deadline:
                raise PrerequisiteError(
                    "slurmctld was started, and does not answer",
                    next_step="railgauge lab logs slurmctld; railgauge lab up starts it again",
                )
            time.sleep(0.1)

    def service_runs(self, service: str) -> bool:
        return self.on_head("pgrep", "-x", _daemon(service), check=False).returncode == 0

    @property
    def services(self) -> list[str]:
        """The daemons of the head, in the order in which they start: an sshd too where it is the
        hypervisor of a virtual machine of this lab.
        """
        virtual = [node.name for node in self.in_use() if node.kind == "vm"]
        is_hypervisor = any(self.hypervisors.get(n) == self.spec.head.name for n in virtual)
        return [*(["sshd"] if is_hypervisor else []), *self.spec.services]

    def _restart_dead_services(self, say: Say) -> None:
        for service in self.services:
            if not self.service_runs(service):
                say(f"starting {service} again")
                self.start_service(service)

    def wait_until_idle(
        self, timeout_s: float = IDLE_LIMIT_S, nodes_off: Container[str | None] = frozenset()
    ) -> None:
        """Return once Slurm can start jobs on every node but those that are meant to be off."""
        names = [node.name for node in self.in_use() if node.name not in nodes_off]
        deadline = time.monotonic() + timeout_s
        while True:
            states = self._first_states()
            waiting = [n for n in names if not _is_ready(states.get(n, "unknown"))]
            if not waiting:
                return
            if time.monotonic() > deadline:
                shown = ", ".join(f"{n}: {states.get(n, 'unknown')}" for n in waiting)
                raise PrerequisiteError(
                    f"after {timeout_s:.0f} s not every node is idle: {shown}",
                    next_step="railgauge lab logs slurmctld",
                )
            time.sleep(0.25)

    def _first_states(self) -> dict[str, str]:
        """`node_states` of a lab that starts; a head that ended meanwhile is told with its log."""
        try:
            return self.node_states()
        except PrerequisiteError:
            if self.machine(self.spec.head.name) is not None:
                raise
            log = f"boot-{self.spec.head.name}"
            raise PrerequisiteError(
                f"the head ended while it started:\n{self.last_lines(log, 4)}",
                next_step=f"railgauge lab logs {log}",
            ) from None

    # --- down ----------------------------------------------------------------------------------

    def down(self) -> bool:
        """End everything of this lab; the image stays. True if anything was running."""
        with self.locked():
            was_up = self.init is not None
            self._remove_leftovers()
            return was_up

    def _remove_leftovers(self) -> None:
        """End what an earlier lab of this folder left, also if it crashed while it started."""
        ours = processes.running(str(_BOOT / "lab-init"), str(self.folders.run))
        recorded = Process.read(self.folders.run / "init.pid")
        for process in [*([recorded] if recorded else []), *ours]:
            process.kill()
        for process in ours:
            process.wait_until_ended()
        if recorded and not recorded.wait_until_ended():
            raise PrerequisiteError(f"process {recorded.pid} of the lab does not end")
        if self.folders.run.exists():
            shutil.rmtree(self.folders.run)


def _daemon(service: str) -> str:
    return "mariadbd" if service == "mariadb" else service


def _is_ready(state: str) -> bool:
    """It answers (no `*`), and Slurm can start jobs there, or somebody keeps it from that."""
    return state in _READY or state in KEPT_OUT
