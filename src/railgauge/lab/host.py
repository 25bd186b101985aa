"""What the lab needs of the machine that it runs on, and says where that is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from railgauge.common.errors import PrerequisiteError
from railgauge.lab.spec import Node

_TOOLS = {"nsenter": "util-linux", "unshare": "util-linux", "ip": "iproute2", "tc": "iproute2"}

#: In addition to that of its virtual machines.
_NEEDED_MEMORY_MIB = 1024
_MEMORY = Path("/proc/meminfo")
_OS_RELEASE = Path("/etc/os-release")


def require() -> None:
    """PrerequisiteError where it is another system, lacks a tool, or the user is not root."""
    if os.geteuid() != 0:
        raise PrerequisiteError(
            "the lab needs root: it makes namespaces, mounts and links",
            next_step="sudo make accept, or sudo railgauge lab up",
        )
    os_release = _OS_RELEASE.read_text()
    family = {
        word
        for line in os_release.splitlines()
        if line.startswith(("ID=", "ID_LIKE="))
        for word in line.partition("=")[2].strip('"').split()
    }
    if not family & {"debian", "ubuntu"}:
        raise PrerequisiteError(
            f"the lab runs on Debian or Ubuntu; this is {' '.join(sorted(family)) or 'neither'}",
            next_step="on a cluster the lab is not needed: source activate.sh; railgauge accept",
        )
    missing = {tool: package for tool, package in _TOOLS.items() if shutil.which(tool) is None}
    if missing:
        raise PrerequisiteError(
            f"not installed: {', '.join(sorted(missing))}",
            next_step=f"apt-get install {' '.join(sorted(set(missing.values())))}",
        )


def require_usable(folders: Sequence[Path]) -> None:
    """PrerequisiteError for a path that PATH, or the list of shared folders, cannot hold."""
    for folder in folders:
        signs = ((":", "a colon"), ("\n", "a line break"))
        bad = [name for sign, name in signs if sign in str(folder)]
        if bad:
            raise PrerequisiteError(
                f"the path {str(folder)!r} holds {' and '.join(bad)}, which separates paths in "
                "lists of them",
                next_step="move the checkout (RAILGAUGE_LAB_DIR, RAILGAUGE_RESULTS) elsewhere",
            )


def require_memory(nodes: Sequence[Node]) -> None:
    """PrerequisiteError where these nodes do not fit into the memory that is free."""
    needed = _NEEDED_MEMORY_MIB + sum(n.memory_mib for n in nodes if n.kind == "vm")
    fields = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) // 1024
    if available < needed:
        raise PrerequisiteError(
            f"{available} MiB of memory available, the lab needs {needed} MiB",
            next_step="end something else, or leave nodes out: railgauge lab up --nodes n[1-4]",
        )
