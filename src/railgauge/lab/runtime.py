"""The lab as it runs: its machines, the folders they see, and commands inside."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from railgauge import children, lab, paths
from railgauge.common.errors import PrerequisiteError
from railgauge.lab.folders import Folders
from railgauge.lab.releases import DEFAULT, Release
from railgauge.lab.spec import LabSpec, Node, Switch, User
from railgauge.processes import Process

_BOOT = Path(__file__).parent / "boot"

#: How long a first process may take to say who it is: a host that stands still takes 20 s.
START_LIMIT_S = 60

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|c)")


class Runtime:
    """One embedded cluster: its description, its folder and its state on this machine.

    `hypervisors` are those that the system names below its virtual nodes: node -> host.
    """

    def __init__(
        self,
        spec: LabSpec,
        partitions: Mapping[str, str],
        folder: Path | None = None,
        release: Release = DEFAULT,
        system: str = lab.SYSTEM,
        hypervisors: Mapping[str, str] | None = None,
    ) -> None:
        self.spec = spec
        self.partitions = dict(partitions)
        self.folders = Folders(folder or paths.lab_folder())
        self.release = release
        self.system = system
        self.hypervisors = dict(hypervisors or {})

    # --- state -----------------------------------------------------------------------------

    @property
    def init(self) -> Process | None:
        """The lab's first process, while the lab is up."""
        return lab.first_process(self.folders.lab)

    def machine(self, name: str) -> Process | None:
        """The first process of the head or a node, while that is running."""
        process = Process.read(self.folders.machines / f"{name}.pid")
        return process if process and process.alive else None

    def node(self, name: str) -> Node:
        for node in self.spec.all_nodes():
            if node.name == name:
                return node
        known = ", ".join(node.name for node in self.spec.all_nodes())
        raise PrerequisiteError(f"the lab has no node {name!r}; it has {known}")

    def member(self, name: str) -> Node | Switch:
        """The node or the switch of that name."""
        switches_by_name = {switch.name: switch for switch in self.spec.all_switches()}
        return switches_by_name.get(name) or self.node(name)

    def switch_of(self, node: Node) -> Process:
        """In whose network namespace the bridge is that a node's eth0 is on."""
        return self.require_machine(node.leaf) if node.leaf else self.require_up()

    def require_up(self) -> Process:
        init = self.init
        if init is None:
            raise PrerequisiteError(
                f"the lab in {self.folders.lab} is not up", next_step="railgauge lab up"
            )
        return init

    def require_machine(self, name: str) -> Process:
        self.require_up()
        if name != self.spec.head.name:
            self.member(name)
        machine = self.machine(name)
        if machine is None:
            raise PrerequisiteError(
                f"{name} is off", next_step="railgauge lab fault clear, or railgauge lab up"
            )
        return machine

    @property
    def shared(self) -> list[Path]:
        """The folders that every machine sees at the same path; fixed when the lab comes up."""
        recorded = self.folders.run / "shared"
        return [Path(line) for line in recorded.read_text().splitlines()]

    # --- running things inside ---------------------------------------------------------------

    def enter(
        self, name: str, *command: str, workdir: Path | None = None, user: str = "root"
    ) -> list[str]:
        """`command` as it runs on machine `name`, for root or another user of the lab."""
        machine = self.require_machine(name)
        if name != self.spec.head.name and self.member(name).kind == "vm":
            raise PrerequisiteError(f"{name} is a virtual machine, not a set of namespaces")
        home, become = "/root", ["env"]
        if user != "root":
            home = self.user(user).folder
            # Nothing of root's environment, as after a login.
            become = ["runuser", f"--user={user}", "--", "env", "-i", "SHELL=/bin/bash"]
        return [
            *("nsenter", "--target", str(machine.pid)),
            *("--mount", "--uts", "--ipc", "--net", "--pid", "--root"),
            f"--wdns={workdir or '/'}",
            *("--", *become, f"USER={user}", f"LOGNAME={user}", f"HOME={home}"),
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            *("LANG=C.UTF-8", "LC_ALL=C.UTF-8"),
            *command,
        ]

    def user(self, name: str) -> User:
        for user in self.spec.users:
            if user.name == name:
                return user
        known = ", ".join(["root", *(user.name for user in self.spec.users)])
        raise PrerequisiteError(f"the lab has no user {name!r}; it has {known}")

    def on_head(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        outcome = subprocess.run(
            self.enter(self.spec.head.name, *command), capture_output=True, text=True, check=False
        )
        if check and outcome.returncode != 0:
            raise PrerequisiteError(f"`{' '.join(command)}`: {outcome.stderr.strip()}")
        return outcome

    def start_machine(self, role: str, name: str, gpus: int | Literal["host"]) -> Process:
        """Start the namespaces of the head or of a node, from the image of this lab; with so many
        devices that Slurm counts as GPUs, or with those of this machine.
        """
        image = (self.folders.run / "rootfs").read_text()
        namespaces = ["--mount", "--uts", "--ipc", "--pid"] + (["--net"] if role == "node" else [])
        return self.start_process(
            name,
            [
                *("unshare", "--fork", "--kill-child", *namespaces),
                *("--propagation", "slave", str(_BOOT / "machine"), role, name),
                *(str(self.folders.run), image, str(gpus), *map(str, self.shared)),
            ],
        )

    def start_process(self, name: str, command: Sequence[str]) -> Process:
        """Start what is machine `name`, inside the lab; it writes its own `machines/NAME.pid`."""
        init = self.require_up()
        (self.folders.machines / f"{name}.pid").unlink(missing_ok=True)
        self.spawn(
            [
                *("nsenter", "--target", str(init.pid)),
                *("--mount", "--uts", "--ipc", "--net", "--pid"),
                *(f"--wdns={self.folders.machines}", "setsid", "--fork", *command),
            ],
            self.folders.log / f"boot-{name}.log",
        )
        self.wait_for(lambda: self.machine(name) is not None, START_LIMIT_S, f"boot-{name}")
        machine = self.machine(name)
        assert machine is not None
        return machine

    def spawn(self, command: list[str], log: Path) -> None:
        """Start a process that outlives this one and shares nothing with its terminal."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd="/",
                # Slurm hands its own dispositions down to every job.
                preexec_fn=children.default_signals,
            )
        children.leave_running(process)

    def wait_for(self, ready: Callable[[], bool], timeout_s: float, log: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            if time.monotonic() > deadline:
                raise PrerequisiteError(f"{log} did not start:\n{self.last_lines(log)}")
            time.sleep(0.02)

    def last_lines(self, log: str, count: int = 12) -> str:
        """The end of one of the lab's logs, indented."""
        path = self.folders.log / f"{log}.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        # A console ends its lines by \r\n, and may hold escapes of a terminal.
        lines = [_ESCAPES.sub("", line).rstrip() for line in text.replace("\r", "\n").split("\n")]
        return (
            "\n".join(f"    {line}" for line in [n for n in lines if n][-count:]) or "    nothing"
        )
