"""The embedded cluster: a real Slurm on one Debian or Ubuntu machine.

Everything runs inside one PID, mount, UTS, IPC and network namespace whose first process is
`boot/lab-init`. When that process ends, however it ends, the kernel ends all others and takes
mounts, bridge and links along. Nodes are namespaces nested in it.
"""

from __future__ import annotations

from pathlib import Path

from railgauge.processes import Process

#: The system whose cluster `railgauge lab up` makes where no other is named.
SYSTEM = "lab"

#: On each machine of a lab: the name of its system. A host that only has the same name lacks it.
MARK = Path("/etc/slurm/railgauge-lab")


def first_process(folder: Path) -> Process | None:
    """The first process of the lab in `folder`, while that lab is up."""
    process = Process.read(folder / "run" / "init.pid")
    return process if process and process.alive else None


def system_here() -> str | None:
    """The system of the lab that this host is a machine of; None on any other host."""
    try:
        return MARK.read_text(encoding="utf-8")
    except OSError:
        return None


def system_in(folder: Path) -> str | None:
    """The system whose cluster the lab in `folder` is, while that lab is up."""
    if first_process(folder) is None:
        return None
    try:
        return (folder / "run" / "system").read_text()
    except FileNotFoundError:
        # It is there before the first process; `lab down` has just ended that, and takes it away.
        return None
