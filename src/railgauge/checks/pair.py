"""Checks that run a client/server tool between two nodes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from railgauge import hostlist, systems
from railgauge.checks import schedule, topology
from railgauge.checks.base import StrictCheck
from railgauge.checks.cases import Cases, PairCase
from railgauge.checks.observation import ExitLine, Facts, Observation
from railgauge.checks.sweep import SweepCheck
from railgauge.model import limits
from railgauge.model.call import Call
from railgauge.model.claim import Claim
from railgauge.model.failure import DIRECTION, RAIL_MISSING, Failure
from railgauge.model.leaves import Leaves, Within
from railgauge.model.measurement import Load, Measurement
from railgauge.node import back
from railgauge.systems import Partition
from railgauge.tools import Moved, Reading


def ring(partition: Partition) -> list[PairCase]:
    """The pairs of the partition's schedule; of a node with one partner alone both ways."""
    return [PairCase(partition.name, *ends) for ends in schedule.pairs(partition)]


def neighbours(partition: Partition) -> list[PairCase]:
    """The pairs of `ring`, with every two nodes once, also where they are to meet both ways."""
    found: dict[frozenset[str], PairCase] = {}
    for pair in ring(partition):
        found.setdefault(frozenset(pair.nodes), pair)
    return list(found.values())


if TYPE_CHECKING:
    _Check = StrictCheck
else:
    # ReFrame's classes come behind it, whichever job the kind of check is.
    _Check = object

AnyPair = TypeVar("AnyPair", bound=PairCase)


class PairCases(Cases[AnyPair]):
    """Something between two nodes."""

    def lacks_nodes(self, partition: Partition) -> str:
        if len(partition.nodes) >= 2:
            return ""
        return f"needs two nodes, and there is {hostlist.fold(partition.nodes)}"

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return (2,)


class RingPairs(PairCases[PairCase]):
    """Every two neighbours of each partition with the features given."""

    def on(self, partition: Partition) -> Iterable[PairCase]:
        return ring(partition)


def _counted(said: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """How a node counts what goes over the device that it names in its facts.

    RDMA is counted by the port, by the interface beneath it (Soft-RoCE), or by the interfaces of
    both links that are one device. See `railgauge.node.counters.byte_counts`.
    """
    device = said.get("device")
    if device is None:
        return ()
    if "port" not in said:
        return ((device,),)
    netdev = said.get("netdev")
    others = tuple(f"ethtool/{n}" for n in said.get("sampled", ()) if n not in (device, netdev))
    ways: list[tuple[str, ...]] = [(f"rdma/{device}/{said['port']}",)]
    if netdev is not None:
        ways += [(netdev,), others or (f"ethtool/{netdev}",)]
    return tuple(ways)


def directions(
    first: str, there: Reading, second: str, back_again: Reading, least_gbits: float
) -> list[Failure]:
    """Which of two directions, `client -> server` and back, is below `least_gbits`.

    None is told where the first one is not low: then nothing failed.
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
    one = other >= least_gbits
    return [
        Failure(
            DIRECTION,
            f"{first} carries {rate:.4g} Gb/s, {second} {other:.4g} Gb/s: "
            + ("only one direction is slow" if one else "both directions are slow"),
            next_step=f"look at what {sender} sends and {receiver} receives: port, cable, shaping"
            if one
            else "",
        )
    ]


class OfPair(_Check):
    """What is known of two nodes between which a client/server tool runs, and how it is judged."""

    here: PairCase
    counted = True
    #: whether something else goes over the same devices while the tool runs
    shares_devices = False
    #: longest time, in seconds, until the server listens
    start_limit_s = 30
    #: what the nodes' part calls beside the tool, by the argv that asks for the version
    helpers: tuple[tuple[str, ...], ...] = ()
    #: whether the client's bandwidth is measured the other way too where it is low
    both_where_slow = False

    @classmethod
    def programs_on(cls, partition: Partition) -> Mapping[str, Sequence[str]]:
        return {argv[0]: argv for argv in (cls.tool.version_argv(), *cls.helpers)}

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

    def order_of_tool(self) -> Mapping[str, Any]:
        """What the nodes are told beside the commands and the way between them."""
        return {}

    def payload_share(self, moved: Moved, said: Mapping[str, Any]) -> float | None:
        """The payload's share of what a link carries at most, by the limit model; None where the
        MTU is not known. `said` are a node's facts.
        """
        mtu = said.get("mtu_bytes")
        return limits.tcp(1, mtu).value if mtu else None

    def reading(self, calls: Sequence[Call], facts: Facts, prefix: str = "") -> Reading:
        """Of both sides' outputs; with a prefix (`back/`) those of the other direction."""
        client, server = self.output(f"{prefix}client"), self.output(f"{prefix}server")
        reading: Reading = self.tool.read(client, server=server, calls=calls, options=self.options)
        return reading

    # --- the job -------------------------------------------------------------------------------

    def least_gbits(self) -> float | None:
        """The bandwidth below which the pair fails, as far as that is known before it runs."""
        if self.gate != "acceptance":
            return None
        check, partition = type(self).__name__, self.current_partition.name
        least = self.stored.least(check, partition, "bandwidth", self.within, self.load)
        streams = getattr(self, "streams", None)
        measured = Measurement("bandwidth", 0, self.tool_name, "tcp", "tcp", streams=streams)
        floor = self.floor(measured)
        return floor.lowest if least is None and floor is not None else least

    @property
    def load(self) -> Load | None:
        """Whether other pairs are measured at the same time; None where nobody knows."""
        return None

    @property
    def within(self) -> Within | None:
        """Whether the two nodes are on one leaf; None where that is not known."""
        return schedule.within(self.here, self._leaves)

    @functools.cached_property
    def _leaves(self) -> Leaves | None:
        return topology.leaves_of(self.partition_data)

    def placed(self, measurement: Measurement) -> Measurement:
        measurement = super().placed(measurement)
        return dataclasses.replace(measurement, within=self.within, load=self.load)

    @property
    def server_node(self) -> str:
        return self.here.server

    @property
    def client_node(self) -> str:
        return self.here.client

    def requested_of_nodes(self) -> Mapping[str, Any]:
        return {**super().requested_of_nodes(), **self.expected_path()}

    def expected_path(self) -> dict[str, Any]:
        """What both nodes must say of their way to each other."""
        mtu = self.partition_data.extras.mtu_bytes
        # What somebody let tc do to an interface, and forgot.
        return {"emulation": "none", **({"mtu_bytes": mtu} if mtu is not None else {})}

    def order(self) -> Mapping[str, Any]:
        """What both nodes are told."""
        least = self.least_gbits() if self.both_where_slow else None
        return {
            "start_limit_s": self.start_limit_s,
            "run_limit_s": self.run_limit_s(),
            "budgets": [budget.counters for budget in self.budgets],
            **self.commands(),
            **self.way(),
            **self.order_of_tool(),
            # The interface counts headers too, and the call's time holds more than the traffic.
            **({} if least is None else {"least_gbits": least * back.HEADROOM}),
        }

    # --- what it left --------------------------------------------------------------------------

    def sides(self) -> list[ExitLine]:
        lines = (self.exit_line(role) for role in ("server", "client"))
        return [line for line in lines if line is not None]

    def read(self) -> Observation:
        sides = self.sides()
        calls = [side.call for side in sides]
        facts = {side.call.host: side.facts for side in sides}
        reading = self.reading(calls, facts)
        return Observation(
            reading,
            calls,
            facts,
            [*self._directions(reading), *self.violations(calls, facts)],
            self.claims(reading, facts),
        )

    @property
    def budgets(self) -> tuple[systems.Budget, ...]:
        return tuple(self.partition_data.extras.counters)

    def claims(self, reading: Reading, facts: Facts) -> Sequence[Claim]:
        """Of each side, in each direction: what its device must have counted."""
        found = []
        for role, node in (("server", self.server_node), ("client", self.client_node)):
            said = facts.get(node, {})
            for inward in (True, False):
                moved = [m for m in reading.moved if (m.to == role) is inward]
                if moved:
                    found.append(self.claim(moved, role, node, inward, said))
        return found

    def claim(
        self,
        moved: Sequence[Moved],
        role: str,
        node: str,
        inward: bool,
        said: Mapping[str, Any],
    ) -> Claim:
        """What one side's device must have counted of what was moved to it, or from it."""
        shares = [self.payload_share(m, said) for m in moved]
        whole = not self.shares_devices and not any(m.at_least for m in moved)
        known = [share for share in shares if share is not None]
        wire_bytes = None
        if whole and len(known) == len(shares):
            wire_bytes = sum(m.payload_bytes / s for m, s in zip(moved, known, strict=True))
        ways = _counted(said)
        # What the tool gave to its kernel, which had not sent it when the counters were read.
        unsent = 0 if inward else said.get("unsent_bytes", 0)
        return Claim(
            f"{self.tool_name} ({role})",
            node,
            "rx" if inward else "tx",
            (ways,) if ways else (),
            max(sum(m.payload_bytes for m in moved) - unsent, 0),
            sum(m.seconds for m in moved),
            wire_bytes,
        )

    def _directions(self, there: Reading) -> list[Failure]:
        """Which direction is slow, where the first one was and the other was measured too."""
        least = self.least_gbits() if self.both_where_slow else None
        lines = [self.exit_line(f"{back.PREFIX}{role}") for role in ("server", "client")]
        if least is None or not any(lines):
            return []
        calls = [line.call for line in lines if line is not None]
        return directions(
            f"{self.client_node} -> {self.server_node}",
            there,
            f"{self.server_node} -> {self.client_node}",
            self.reading(calls, {}, back.PREFIX),
            least,
        )

    def violations(self, calls: Sequence[Call], facts: Facts) -> Sequence[Failure]:
        """A link that went away during the test, also if it came back."""
        found = []
        for node, said in sorted(facts.items()):
            after, device = said.get("after", {}), said.get("device")
            if "rail_missing" in said:
                message = f"{node}: {said['rail_missing']}"
                found.append(Failure(RAIL_MISSING, message, (node,), f"rdma link, on {node}"))
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


class PairCheck(OfPair, SweepCheck):
    """A client/server tool between the two nodes of each place.

    A concrete check gives its own `cases = RingPairs(...)`, `tool`, `options` and `commands()`.
    """

    program = "pair"

    @functools.cached_property
    def _loads(self) -> Mapping[str, Load | None]:
        """Of each place of this job, by its name."""
        return {p.place: schedule.load(p, members) for members in self._rounds for p in members}

    @property
    def load(self) -> Load | None:
        if self.here.again:
            more = (added.place for added in self._left.again.values())
            beside = [place for place in more if place.again == self.here.again]
            return schedule.load(self.here, beside)
        return self._loads.get(self.here.place)

    def roles(self) -> Mapping[str, str]:
        return {"server": self.server_node, "client": self.client_node}

    def longest_run_s(self) -> float:
        directions = 2 if self.both_where_slow else 1
        return directions * (2 * self.start_limit_s + self.run_limit_s()) + 20
