"""Checks that run a client/server tool between two nodes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from railgauge import hostlist, systems
from railgauge.checks.framework import bounds, byte_accounting, protections, schedule, topology
from railgauge.checks.framework.cases import Cases, LeftOut, PairCase
from railgauge.checks.framework.check import StrictCheck
from railgauge.checks.framework.observation import ExitLine, Facts, Observation
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.jobs.uplink_counters import Counting, OwnTraffic
from railgauge.model import limits
from railgauge.model.call import Call
from railgauge.model.failure import DIRECTION, RAIL_MISSING, Failure
from railgauge.model.leaves import Leaves, Within
from railgauge.model.measurement import Load, Measurement
from railgauge.model.reported_traffic import Claim
from railgauge.model.uplinks import CountersError, Uplink
from railgauge.node.orders.places import ClientServerOrder, LinkOrder
from railgauge.node.runners import repeat, reverse
from railgauge.systems import Partition
from railgauge.tools import Moved, Reading


def ring(partition: Partition) -> list[PairCase]:
    """The pairs of the partition's schedule; both ways for a node with a single partner."""
    return [PairCase(partition.name, *ends) for ends in schedule.pairs(partition)]


def neighbours(partition: Partition) -> list[PairCase]:
    """The pairs of `ring`, each once, also where its nodes meet both ways."""
    pairs: dict[frozenset[str], PairCase] = {}
    for pair in ring(partition):
        pairs.setdefault(frozenset(pair.nodes), pair)
    return list(pairs.values())


def first_pair_alone(partition: Partition, field: str = "") -> list[LeftOut]:
    """What is left out where only the first two nodes are measured, as a field may say."""
    count = len(partition.nodes)
    return [LeftOut(f"two of {count} nodes are measured", field)] if count > 2 else []


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
    """The pairs of neighbours of each partition with the given features."""

    def on(self, partition: Partition) -> Iterable[PairCase]:
        return ring(partition)


def _counted(node_facts: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The counters of the device that a node names in its facts.

    RDMA is counted by the port, by the interface beneath it (Soft-RoCE), or by the interfaces of
    both links that are one device. See `railgauge.node.system.counters.byte_counts`.
    """
    device = node_facts.get("device")
    if device is None:
        return ()
    if "port" not in node_facts:
        return ((device,),)
    netdev = node_facts.get("netdev")
    others = tuple(
        f"ethtool/{n}" for n in node_facts.get("sampled", ()) if n not in (device, netdev)
    )
    ways: list[tuple[str, ...]] = [(f"rdma/{device}/{node_facts['port']}",)]
    if netdev is not None:
        ways += [(netdev,), others or (f"ethtool/{netdev}",)]
    return tuple(ways)


def _counted_by(node: str, lines: Iterable[ExitLine]) -> tuple[int, int]:
    """The bytes that a node received and sent in a run by the devices of its lines, of which one
    has the record of all; what has no counter counts nothing.
    """
    of_node = [line.facts for line in lines if line.call.host == node]
    record: byte_accounting.Record = next(
        (facts["counters"] for facts in of_node if "counters" in facts), {}
    )
    received, sent = (
        sum(byte_accounting.counted(_counted(facts), way, record) or 0 for facts in of_node)
        for way in ("rx", "tx")
    )
    return received, sent


def _stated(sides: Sequence[ExitLine]) -> tuple[list[Call], dict[str, Mapping[str, Any]]]:
    """The calls of a run, and the facts of each node."""
    return [side.call for side in sides], {side.call.host: side.facts for side in sides}


def _unmeasured(sides: Sequence[ExitLine]) -> list[str]:
    """Why a run was measured anew, in the tool's own words."""
    return [
        f"measured a second time: the {side.call.role} on {side.call.host} said "
        f"{side.facts[repeat.FACT]}"
        for side in sides
        if repeat.FACT in side.facts
    ]


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


class ClientServerMixin(_Check):
    """A client/server tool between two nodes: its orders, and how it is judged."""

    here: PairCase
    counted = True
    #: whether something else goes over the same devices while the tool runs
    shares_devices = False
    #: longest time, in seconds, until the server listens
    start_limit_s = 30
    #: the programs that nodes call beside the tool, as the argv that prints the version
    helpers: tuple[tuple[str, ...], ...] = ()
    #: whether a low bandwidth of the client is measured the other way, too
    measure_reverse_if_slow = False
    #: a regular expression: a run that printed it could not measure, and is repeated once
    unmeasured: str | None = None

    @classmethod
    def programs_on(cls, partition: Partition) -> Mapping[str, Sequence[str]]:
        return {argv[0]: argv for argv in (cls.tool.version_argv(), *cls.helpers)}

    # --- for subclasses ----------------------------------------------------------------------

    def commands(self) -> Mapping[str, list[str]]:
        """The argv of `server`, `client` and `version`; nodes fill in {server} and {port}."""
        raise NotImplementedError

    def run_limit_s(self) -> int:
        """The longest time that the client may take."""
        raise NotImplementedError

    def link(self) -> LinkOrder:
        """The rail or interface that the tool uses; neither for the route to the other node."""
        return LinkOrder()

    def links(self) -> Sequence[LinkOrder]:
        """Several links that it uses at the same time, in the place of `link`."""
        return ()

    def payload_share(self, moved: Moved, node_facts: Mapping[str, Any]) -> float | None:
        """The payload's share of what a link carries at most, by the limit model; None where the
        MTU is not known.
        """
        mtu = node_facts.get("mtu_bytes")
        return limits.tcp(1, mtu).value if mtu else None

    def reading(self, calls: Sequence[Call], facts: Facts, prefix: str = "") -> Reading:
        """The reading of both outputs; a prefix names the other direction, or a second run."""
        client, server = self.output(f"{prefix}client"), self.output(f"{prefix}server")
        reading: Reading = self.tool.read(client, server=server, calls=calls, options=self.options)
        return reading

    # --- the job -------------------------------------------------------------------------------

    def least_gbits(self) -> float | None:
        """The bandwidth below which the pair fails; None where it is not known before the run."""
        bound = self._bound_before("bandwidth")
        return None if bound is None else bound.lowest

    def most_resent(self) -> float | None:
        """The segments sent again above which the pair fails; None where it is not known before."""
        bound = self._bound_before("retransmits") if "retransmits" in self.metrics else None
        return None if bound is None else bound.highest

    def _bound_before(self, metric: str) -> bounds.Bound | None:
        """The bound of a metric before the run, when the tool has not stated its condition yet."""
        number = Measurement(
            *(metric, 0, self.tool_name, "tcp", "tcp"),
            streams=getattr(self, "streams", None),
            within=self.within,
            load=self.load,
        )
        return bounds.find_bound(self.bound_inputs, number, known="place")

    @property
    def load(self) -> Load | None:
        """Whether other pairs are measured at the same time; None where that is not known."""
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
        """The facts that both nodes must state of their way to each other."""
        mtu = self.partition_data.extras.mtu_bytes
        # An interface may still have a queueing discipline that somebody set with tc.
        return {"emulation": "none", **({"mtu_bytes": mtu} if mtu is not None else {})}

    def order(self) -> ClientServerOrder:
        """The order for both nodes."""
        commands, link = self.commands(), self.link()
        return ClientServerOrder(
            start_limit_s=self.start_limit_s,
            run_limit_s=self.run_limit_s(),
            budgets=tuple(budget.counters for budget in self.budgets),
            server=tuple(commands["server"]),
            client=tuple(commands["client"]),
            version=tuple(commands["version"]),
            rdma=link.rdma,
            interface=link.interface,
            links=tuple(self.links()),
            unmeasured=self.unmeasured,
            least_gbits=self.least_gbits() if self.measure_reverse_if_slow else None,
            most_resent=self.most_resent(),
        )

    # --- what it left --------------------------------------------------------------------------

    def sides(self, prefix: str = "") -> list[ExitLine]:
        lines = (self.exit_line(f"{prefix}{role}") for role in ("server", "client"))
        return [line for line in lines if line is not None]

    def read(self) -> Observation:
        first, second = self.sides(), self.sides(repeat.PREFIX)
        calls, facts = _stated(first)
        reading, failures, prefix = self.reading(calls, facts), self._of_link(second), ""
        # The second run counts for what the first one could not tell, and for nothing that it told.
        if reading.inconclusive and len(second) == len(self.roles()):
            notes, failures, prefix = _unmeasured(first), self._of_link(first), repeat.PREFIX
            calls, facts = _stated(second)
            reading = self.reading(calls, facts, prefix)
            reading = dataclasses.replace(reading, notes=(*reading.notes, *notes))
        failures += [*self._directions(reading), *self.violations(calls, facts)]
        return Observation(reading, calls, facts, failures, self.claims(reading, facts), prefix)

    def _of_link(self, sides: Sequence[ExitLine]) -> list[Failure]:
        """The failures of links and counters in the run, of two, that is not judged by its numbers;
        none of a run that did not take place.
        """
        if not sides:
            return []
        calls, facts = _stated(sides)
        failures = [*protections.beyond_budgets(facts, self.budgets)]
        return [*failures, *self.violations(calls, facts)]

    @property
    def budgets(self) -> tuple[systems.Budget, ...]:
        return tuple(self.partition_data.extras.counters)

    def claims(self, reading: Reading, facts: Facts) -> Sequence[Claim]:
        """The claims of each side in each direction: what its device must have counted."""
        claims = []
        for role, node in (("server", self.server_node), ("client", self.client_node)):
            node_facts = facts.get(node, {})
            for inward in (True, False):
                moved = [m for m in reading.moved if (m.to == role) is inward]
                if moved:
                    claims.append(self.claim(moved, role, node, inward, node_facts))
        return claims

    def claim(
        self,
        moved: Sequence[Moved],
        role: str,
        node: str,
        inward: bool,
        node_facts: Mapping[str, Any],
    ) -> Claim:
        """The claim of one side: what its device must have counted of what was moved."""
        shares = [self.payload_share(m, node_facts) for m in moved]
        whole = not self.shares_devices and not any(m.at_least for m in moved)
        known = [share for share in shares if share is not None]
        wire_bytes = None
        if whole and len(known) == len(shares):
            wire_bytes = sum(m.payload_bytes / s for m, s in zip(moved, known, strict=True))
        ways = _counted(node_facts)
        # What the tool gave to its kernel, which had not sent it when the counters were read.
        unsent = 0 if inward else node_facts.get("unsent_bytes", 0)
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
        """The failures of slow directions, where the first was slow and the other measured, too."""
        least = self.least_gbits() if self.measure_reverse_if_slow else None
        lines = [self.exit_line(f"{reverse.PREFIX}{role}") for role in ("server", "client")]
        if least is None or not any(lines):
            return []
        calls = [line.call for line in lines if line is not None]
        return directions(
            f"{self.client_node} -> {self.server_node}",
            there,
            f"{self.server_node} -> {self.client_node}",
            self.reading(calls, {}, reverse.PREFIX),
            least,
        )

    def violations(self, calls: Sequence[Call], facts: Facts) -> Sequence[Failure]:
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


class PairCheck(ClientServerMixin, SweepCheck):
    """A client/server tool between the two nodes of each place.

    A concrete check gives its own `cases = RingPairs(...)`, `tool`, `options` and `commands()`.
    """

    program = "client_server"

    def count_uplinks(self) -> Counting | None:
        fabric = self.partition_data.extras.fabric
        return Counting(fabric.counters, beside=True) if fabric is not None else None

    def uplinks_carried(self) -> tuple[Sequence[Uplink], Mapping[str, tuple[int, int]]]:
        """Of leaves whose uplinks nothing else used; FabricBalance checks that they are read."""
        leaves, fabric = self._leaves, self.partition_data.extras.fabric
        if self._counting is None or leaves is None or fabric is None:
            return (), {}
        own = OwnTraffic(leaves.of_node, apart=fabric.hash == "layer3+4")
        for judged in self.results:
            assert isinstance(judged.place, PairCase)
            if len({leaves.of_node.get(node) for node in judged.place.nodes} - {None}) != 2:
                continue
            with self.at(judged.place):
                for counted in self._counted_runs():
                    own.add(counted, self._streams)
        try:
            return own.alone_on(self._counting.carried())
        except CountersError:
            return (), {}

    @property
    def _streams(self) -> int:
        return getattr(self.options, "streams", 0) or getattr(self.options, "queue_pairs", 0) or 1

    def _counted_runs(self) -> Iterator[Mapping[str, tuple[int, int]]]:
        """Each run at this place: the bytes that the nodes' own devices received and sent."""
        runs: dict[str, list[ExitLine]] = {}
        for role in self._output.sides(self.here):
            with contextlib.suppress(ValueError):  # it is no exit line, and its place says so
                if (line := self.exit_line(role)) is not None:
                    runs.setdefault(role.rpartition("/")[0], []).append(line)
        for lines in runs.values():
            yield {node: _counted_by(node, lines) for node in self.here.nodes}

    def notes_of_job(self) -> Sequence[str]:
        """Where switches should have counted, and could not be read: who looks for a bad uplink
        must not take what is missing for what is good.
        """
        unread = self._counting.unread if self._counting is not None else ""
        problem = f"the counters of the uplinks could not be read {unread}; run it by hand, or fix"
        return (f"{problem} extras.fabric.counters",) if unread else ()

    @functools.cached_property
    def _loads(self) -> Mapping[str, Load | None]:
        """Place -> its load, for the places of this job."""
        return {p.place: schedule.load(p, members) for members in self._rounds for p in members}

    @property
    def load(self) -> Load | None:
        if self.here.again:
            more = (added.place for added in self._output.added)
            beside = [place for place in more if place.again == self.here.again]
            return schedule.load(self.here, beside)
        return self._loads.get(self.here.place)

    def roles(self) -> Mapping[str, str]:
        return {"server": self.server_node, "client": self.client_node}

    def longest_run_s(self) -> float:
        runs = 1 + self.measure_reverse_if_slow + (self.unmeasured is not None)
        return runs * (2 * self.start_limit_s + self.run_limit_s()) + 20
