"""A client/server tool between two nodes: its orders, and how it is judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from railgauge.checks.framework import protections
from railgauge.checks.framework.cases import PairCase
from railgauge.checks.framework.observation import ExitLine, Facts, Observation
from railgauge.checks.framework.place_run import BoundBefore, PlaceOutput
from railgauge.checks.jobs import pair_counters
from railgauge.checks.jobs.sweep_run import AgentRun
from railgauge.checks.jobs.uplink_counters import Counting
from railgauge.model import limits
from railgauge.model.call import Call
from railgauge.model.failure import DIRECTION, RAIL_MISSING, Failure
from railgauge.node.orders.places import ClientServerOrder, LinkOrder
from railgauge.node.runners import repeat, reverse
from railgauge.systems import Budget
from railgauge.tools import Moved, Reading

SIDES = ("server", "client")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairTool:
    """A tool as a run uses it: its options, its commands, and how both outputs are read.

    Nodes fill in {server} and {port}, and others that `node/orders/places.py` names.
    """

    module: ModuleType
    options: Any
    server: Sequence[str]
    client: Sequence[str]
    version: Sequence[str]

    @property
    def name(self) -> str:
        return str(self.module.TOOL)

    def read(
        self, left: PlaceOutput, calls: Sequence[Call], facts: Facts, prefix: str = ""
    ) -> Reading:
        """The reading of both outputs; a prefix names the other direction, or a second run."""
        client, server = left.output(f"{prefix}client"), left.output(f"{prefix}server")
        known = {"calls": calls, "options": self.options}
        reading: Reading = self.module.read(client, server=server, **known)
        return reading


class RunPart:
    """A part of a run: a long path, hosts in a state, a set of files."""

    def order(self, order: ClientServerOrder) -> ClientServerOrder:
        """The order, with what the nodes do for this part."""
        return order

    def reading(self, reading: Reading, facts: Facts) -> Reading:
        """The reading, with this part in the condition of its numbers."""
        return reading

    def failures(self, calls: Sequence[Call], facts: Facts, left: PlaceOutput) -> Sequence[Failure]:
        """The failures of this part alone."""
        return ()

    def missing(self, facts: Facts) -> Failure | None:
        """The failure of nodes that could not do it: then nothing ran."""
        return None

    def may_be_left_out(self, facts: Facts) -> bool:
        """Whether the place fails nothing where nodes cannot do it."""
        return False


def tcp_payload_share(moved: Moved, node_facts: Mapping[str, Any]) -> float | None:
    mtu = node_facts.get("mtu_bytes")
    return limits.tcp(1, mtu).value if mtu else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairRun(AgentRun):
    """A client/server tool between the two nodes of a place."""

    place: PairCase
    tool: PairTool
    runner: str = "client_server"
    #: the longest time that the client may take
    run_limit_s: float
    #: the longest time until the server listens
    start_limit_s: int = 30
    #: the longest time of what each side does before the tool and after it
    prepare_limit_s: int = 0
    #: the rail or interface that the tool uses; neither for the route to the other node
    link: LinkOrder = dataclasses.field(default_factory=LinkOrder)
    #: several links that it uses at the same time, in the place of `link`
    links: Sequence[LinkOrder] = ()
    #: the facts that both nodes must state of their path; None: no emulation, the partition's MTU
    path: Mapping[str, Any] | None = None
    #: whether a low bandwidth of the client is measured the other way, too
    reverse_if_slow: bool = False
    #: a regular expression: a run that printed it could not measure, and is repeated once
    unmeasured: str | None = None
    #: the state that is part of what is measured, as `busy` in `tcp busy`
    state: str = ""
    parts: Sequence[RunPart] = ()
    #: whether something else goes over the same devices while the tool runs
    shares_devices: bool = False
    #: the payload's share of what a link carries at most; None where the MTU is not known
    payload_share: Callable[[Moved, Mapping[str, Any]], float | None] = tcp_payload_share
    #: how what was left is judged
    judge: Callable[[PairRun, PlaceOutput, BoundBefore], Observation] = dataclasses.field(
        default_factory=lambda: judge_one_link
    )

    @property
    def nodes(self) -> Mapping[str, str]:
        """Role -> node."""
        return dict(zip(SIDES, self.place.nodes, strict=True))

    @property
    def counted(self) -> bool:
        return True

    @property
    def budgets(self) -> tuple[Budget, ...]:
        return tuple(self.partition.extras.counters)

    @property
    def states_of_nodes(self) -> Mapping[str, Any]:
        if self.path is not None:
            return self.path
        mtu = self.partition.extras.mtu_bytes
        # An interface may still have a queueing discipline of an earlier tc command.
        return {"emulation": "none", **({"mtu_bytes": mtu} if mtu is not None else {})}

    @property
    def longest_run_s(self) -> float:
        runs = 1 + self.reverse_if_slow + (self.unmeasured is not None)
        longest_s = runs * (2 * self.start_limit_s + self.run_limit_s) + 20
        return 2 * self.prepare_limit_s + longest_s

    @property
    def streams(self) -> int | None:
        """The number of streams, or of queue pairs, that were asked for."""
        options = self.tool.options
        return getattr(options, "streams", None) or getattr(options, "queue_pairs", None)

    def observe(self, left: PlaceOutput, bound: BoundBefore) -> Observation:
        return self.judge(self, left, bound)

    def counting(self, alone: bool) -> Counting | None:
        fabric = self.partition.extras.fabric
        return None if fabric is None else Counting(fabric.counters, in_sweep=True)

    def missing(self, facts: Facts) -> Failure | None:
        return next((lacks for part in self.parts if (lacks := part.missing(facts))), None)

    def may_be_left_out(self, facts: Facts) -> bool:
        return any(part.may_be_left_out(facts) for part in self.parts)

    def order(self, bound: BoundBefore) -> ClientServerOrder:
        """The order for both nodes."""
        low = bound("bandwidth", self.streams) if self.reverse_if_slow else None
        resent = bound("retransmits", self.streams)
        order = ClientServerOrder(
            start_limit_s=self.start_limit_s,
            run_limit_s=self.run_limit_s,
            budgets=tuple(budget.counters for budget in self.budgets),
            server=tuple(self.tool.server),
            client=tuple(self.tool.client),
            version=tuple(self.tool.version),
            rdma=self.link.rdma,
            interface=self.link.interface,
            links=tuple(self.links),
            unmeasured=self.unmeasured,
            least_gbits=None if low is None else low.lowest,
            most_resent=None if resent is None else resent.highest,
        )
        for part in self.parts:
            order = part.order(order)
        return order

    def read(
        self, left: PlaceOutput, calls: Sequence[Call], facts: Facts, prefix: str = ""
    ) -> Reading:
        """The reading of one run, with its whole condition."""
        reading = self.tool.read(left, calls, facts, prefix)
        if self.state:
            reading = reading.with_state(self.state)
        for part in self.parts:
            reading = part.reading(reading, facts)
        return reading

    def failures(self, calls: Sequence[Call], facts: Facts, left: PlaceOutput) -> list[Failure]:
        """The failures of links and of the run's parts."""
        of_parts = [one for part in self.parts for one in part.failures(calls, facts, left)]
        return [*link_failures(facts), *of_parts]


def judge_one_link(run: PairRun, left: PlaceOutput, bound: BoundBefore) -> Observation:
    """What a tool over one link left: the second run counts for what the first one could not tell,
    and for nothing that it told.
    """
    first, second = _sides(left), _sides(left, repeat.PREFIX)
    calls, facts = _stated(first)
    reading, prefix, other = run.read(left, calls, facts), "", second
    if reading.inconclusive and len(second) == len(SIDES):
        notes = [
            f"measured a second time: the {side.call.role} on {side.call.host} said "
            f"{side.facts[repeat.FACT]}"
            for side in first
            if repeat.FACT in side.facts
        ]
        prefix, other = repeat.PREFIX, first
        calls, facts = _stated(second)
        reading = run.read(left, calls, facts, prefix)
        reading = dataclasses.replace(reading, notes=(*reading.notes, *notes))
    failures = failures_of_links(run, left, other)
    failures += [*_directions(run, left, bound, reading), *run.failures(calls, facts, left)]
    claims = pair_counters.claims(run, reading, facts)
    return Observation(reading, calls, facts, failures, claims, prefix)


def failures_of_links(run: PairRun, left: PlaceOutput, sides: Sequence[ExitLine]) -> list[Failure]:
    """The failures of links and counters in the run, of two, that is not judged by its numbers;
    none of a run that did not take place.
    """
    if not sides:
        return []
    calls, facts = _stated(sides)
    return [*protections.beyond_budgets(facts, run.budgets), *run.failures(calls, facts, left)]


def _sides(left: PlaceOutput, prefix: str = "") -> list[ExitLine]:
    lines = (left.exit_line(f"{prefix}{role}") for role in SIDES)
    return [line for line in lines if line is not None]


def _stated(sides: Sequence[ExitLine]) -> tuple[list[Call], dict[str, Mapping[str, Any]]]:
    """The calls of a run, and the facts of each node."""
    return [side.call for side in sides], {side.call.host: side.facts for side in sides}


def _directions(
    run: PairRun, left: PlaceOutput, bound: BoundBefore, there: Reading
) -> list[Failure]:
    """The failures of slow directions, where the first was slow and the other measured, too."""
    low = bound("bandwidth", run.streams) if run.reverse_if_slow else None
    lines = _sides(left, reverse.PREFIX)
    if low is None or low.lowest is None or not lines:
        return []
    back_again = run.read(left, [line.call for line in lines], {}, reverse.PREFIX)
    server, client = run.place.nodes
    names = f"{client} -> {server}", f"{server} -> {client}"
    return directions(names[0], there, names[1], back_again, low.lowest)


def directions(
    first: str, there: Reading, second: str, back_again: Reading, least_gbits: float
) -> list[Failure]:
    """The failures of two directions, `client -> server` and back, that are below `least_gbits`.

    There is none where the first direction is not low.
    """

    def gbits(reading: Reading) -> float | None:
        rates = [m.value for m in reading.measurements if m.metric == "bandwidth"]
        return rates[0] if reading.ok and rates else None

    rate, other = gbits(there), gbits(back_again)
    if rate is None or rate >= least_gbits:
        return []
    if other is None:
        message = f"{first} carries {rate:.4g} Gb/s; {second} not measured: {back_again.reason}"
        return [Failure(DIRECTION, message)]
    sender, _, receiver = first.split()
    only_one_is_slow = other >= least_gbits
    return [
        Failure(
            DIRECTION,
            f"{first} carries {rate:.4g} Gb/s, {second} {other:.4g} Gb/s: "
            + ("only one direction is slow" if only_one_is_slow else "both directions are slow"),
            next_step=f"look at what {sender} sends and {receiver} receives: port, cable, shaping"
            if only_one_is_slow
            else "",
        )
    ]


def link_failures(facts: Facts) -> list[Failure]:
    """The failures of links that went away during the test, also if they came back."""
    failures = []
    for node, node_facts in sorted(facts.items()):
        after, device = node_facts.get("after", {}), node_facts.get("device")
        if "rail_missing" in node_facts:
            message = f"{node}: {node_facts['rail_missing']}"
            failures.append(Failure(RAIL_MISSING, message, (node,), f"rdma link, on {node}"))
        if after.get("state", "ACTIVE") != "ACTIVE":
            message = (
                f"{device} on {node} was {node_facts.get('state')}, and is {after['state']} now"
            )
            failures.append(Failure("link-lost", message, (node,)))
        for link in after.get("links_down", []):
            message = f"link {link} of {device} on {node} is down after the test"
            failures.append(Failure("link-lost", message, (node,)))
        if "way_left" in node_facts:
            message = f"netem could not be removed on {node}: {node_facts['way_left']}"
            failures.append(Failure("way-left", message, (node,)))
        if after.get("carrier_changes"):
            message = (
                f"the carrier of {node_facts.get('netdev', device)} on {node} changed "
                f"{after['carrier_changes']} times during the test"
            )
            failures.append(Failure("link-flap", message, (node,)))
    return failures
