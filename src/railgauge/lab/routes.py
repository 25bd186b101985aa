"""The routes between the lab's leaves, as their kernels choose them."""

from __future__ import annotations

import re
import subprocess

from railgauge.lab import network
from railgauge.lab.runtime import Runtime
from railgauge.model.routes import Route

#: A line of `ip route get DESTINATION from SOURCE iif DEVICE`.
_CHOSEN = re.compile(r"^(\S+) from (\S+) .*?\bdev (\S+)", re.MULTILINE)


def static(lab: Runtime) -> list[Route]:
    """The spine of data of each node for each node of another leaf; none of a leaf that is off, or
    spreads by ports, flowlets or packets.
    """
    nodes = {node.address: node for node in lab.spec.all_nodes()}
    chosen: list[Route] = []
    for leaf in (switch.name for switch in lab.spec.all_switches() if switch.kind == "leaf"):
        process = lab.machine(leaf)
        if process is None:
            continue
        policy = network.inside(process, "sysctl", "-n", "net.ipv4.fib_multipath_hash_policy")
        if subprocess.run(policy, capture_output=True, text=True, check=True).stdout.strip() != "0":
            continue
        asked = "".join(
            f"route get {destination.address} from {source.address} iif {network.BRIDGE}\n"
            for source in nodes.values()
            for destination in nodes.values()
            if source.leaf == leaf != destination.leaf
        )
        # What has no way, as of a leaf that is down, has no line.
        answers = subprocess.run(
            network.inside(process, "ip", "-force", "-batch", "-"),
            input=asked,
            capture_output=True,
            text=True,
            check=False,
        )
        chosen += [
            Route(leaf, nodes[source].name, nodes[destination].name, spine)
            for destination, source, spine in _CHOSEN.findall(answers.stdout)
        ]
    return chosen
