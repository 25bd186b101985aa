"""Checks that run a client/server tool between two nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import reframe.core.runtime as rt
from reframe.core.builtins import run_after, run_before, variable

from railgauge import hostlist, systems
from railgauge.checks.base import ExitLine, StrictCheck
from railgauge.checks.protections import Failure
from railgauge.tools import Call

#: Restricts a session to some nodes, as a host list: `railgauge accept --nodes`.
NODES_VARIABLE = "RAILGAUGE_NODES"


def chosen_nodes(nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a partition's nodes that this session is about."""
    wanted = os.environ.get(NODES_VARIABLE)
    return tuple(n for n in nodes if n in hostlist.expand(wanted)) if wanted else nodes


def ring_pairs(*features: str) -> list[str]:
    """`partition:server-client` for every neighbour in the ring of each fitting partition's nodes.

    Every node serves once and is client once, so a node with a bad link shows in two pairs, and
    the one that both share is found without testing all pairs.
    """
    pairs = []
    for partition in systems.load(rt.runtime().system.name).partitions:
        nodes = chosen_nodes(partition.nodes)
        if set(features) <= set(partition.features) and len(nodes) >= 2:
            following = (*nodes[1:], nodes[0])
            pairs += [f"{partition.name}:{a}:{b}" for a, b in zip(nodes, following, strict=True)]
    return pairs


def neighbours(*features: str) -> list[str]:
    """The pairs of `ring_pairs`, with two nodes alone as one pair instead of two."""
    kept: dict[tuple[str, frozenset[str]], str] = {}
    for pair in ring_pairs(*features):
        partition, *nodes = pair.split(":")
        kept.setdefault((partition, frozenset(nodes)), pair)
    return list(kept.values())


class PairCheck(StrictCheck):
    """One Slurm job of two tasks: a server on one node, a client on the other.

    A concrete check gives its own `pair = parameter(ring_pairs(...))`, the tool's commands, and
    `read()`.
    """

    num_tasks = 2
    num_tasks_per_node = 1
    #: the module of railgauge.node that both tasks run
    node_program = "pair"
    #: longest time, in seconds, until the server listens
    start_limit_s = variable(int, value=30)
    #: what runs on the nodes, of railgauge.node
    node_program = "pair"

    # --- for subclasses ----------------------------------------------------------------------

    def commands(self) -> Mapping[str, list[str]]:
        """argv of `server`, `client` and `version`; {server} and {port} are filled in there."""
        raise NotImplementedError

    def run_limit_s(self) -> int:
        """Longest time that the client may take."""
        raise NotImplementedError

    def way(self) -> Mapping[str, Any]:
        """What the nodes are told of the way between them: rdma, interface, wan, ping."""
        return {}

    def orders(self) -> Mapping[str, Any]:
        """What the nodes are told beside the commands and the way between them."""
        return {}

    @property
    def tool_name(self) -> str:
        return str(self.tool.TOOL)

    def expected_run_s(self) -> float:
        """About how long the client takes."""
        raise NotImplementedError

    @property
    def expected_seconds(self) -> float:
        # Starting two tasks and a server, and Slurm's own second for a job.
        return self.expected_run_s() + 2

    # --- the job -------------------------------------------------------------------------------

    @property
    def server_node(self) -> str:
        return str(self.pair).split(":")[1]

    @property
    def client_node(self) -> str:
        return str(self.pair).split(":")[2]

    @run_after("init")
    def place_pair(self) -> None:
        partition = str(self.pair).split(":")[0]
        self.valid_systems = [f"{rt.runtime().system.name}:{partition}"]
        self.pinned_nodes = [self.server_node, self.client_node]

    @run_after("setup")
    def expect_path(self) -> None:
        self.expected_on_nodes = {**self.expected_on_nodes, **self.expected_path()}

    def expected_path(self) -> dict[str, Any]:
        """What both nodes must say of their way to each other."""
        mtu = self.partition_data.extras.mtu_bytes
        # What somebody let tc do to an interface, and forgot.
        return {"emulation": "none", **({"mtu_bytes": mtu} if mtu is not None else {})}

    @run_before("run")
    def start_pair(self) -> None:
        spec = {
            "tool": self.tool_name,
            "server_host": self.server_node,
            "client_host": self.client_node,
            "start_limit_s": self.start_limit_s,
            "run_limit_s": self.run_limit_s(),
            "budgets": [budget.counters for budget in self.partition_data.extras.counters],
            **self.commands(),
            **self.way(),
            **self.orders(),
        }
        self.run_on_nodes(self.node_program, spec)

    # --- what it left --------------------------------------------------------------------------

    def sides(self) -> list[ExitLine]:
        lines = (self.exit_line(role) for role in ("server", "client"))
        return [line for line in lines if line is not None]

    def calls(self) -> list[Call]:
        return [side.call for side in self.sides()]

    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        return {side.call.host: side.facts for side in self.sides()}

    def violations(self, facts: Mapping[str, Mapping[str, Any]]) -> Sequence[Failure]:
        """A link that went away during the test, also if it came back."""
        found = []
        for node, said in sorted(facts.items()):
            after, device = said.get("after", {}), said.get("device")
            if after.get("state", "ACTIVE") != "ACTIVE":
                message = f"{device} on {node} was {said.get('state')}, and is {after['state']} now"
                found.append(Failure("link-lost", message, (node,)))
            for link in after.get("links_down", []):
                message = f"link {link} of {device} on {node} is down after the test"
                found.append(Failure("link-lost", message, (node,)))
            if "way_left" in said:
                message = f"what made the way long is still there on {node}: {said['way_left']}"
                found.append(Failure("way-left", message, (node,)))
            if after.get("carrier_changes"):
                message = (
                    f"the carrier of {said.get('netdev', device)} on {node} changed "
                    f"{after['carrier_changes']} times during the test"
                )
                found.append(Failure("link-flap", message, (node,)))
        return found
