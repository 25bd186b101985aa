"""Checks of TCP and RDMA between hosts in a state: idle, busy where the tool runs, busy beside it,
the tool far from its NIC.

A state is a part of what is measured, as in `tcp busy`, with references of its own; how many times
one is the other is a ratio between two of them (`ratios` of the references), of their medians: none
is a measurement at one place and time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from railgauge.checks.framework.cases import (
    LeftOut,
    PairCase,
    RailStateCase,
    StateCase,
    is_series,
    left_to_the_series,
)
from railgauge.checks.framework.observation import Facts
from railgauge.checks.framework.place_run import PlaceOutput
from railgauge.checks.jobs.client_server import PairRun, RunPart
from railgauge.checks.jobs.pairs import PairCases, first_pair_alone, neighbours
from railgauge.model.call import Call
from railgauge.model.failure import HOST_STATE, Failure
from railgauge.node.orders.places import ClientServerOrder, CpuLoadOrder, HypervisorOrder
from railgauge.node.runners import stressor
from railgauge.systems import Contention, HostState, Partition
from railgauge.tools import Reading

#: What keeps CPUs busy, from Debian, EPEL or Spack.
PROGRAM = "stress-ng"

#: States in which it runs.
LOADED: tuple[HostState, ...] = ("busy", "beside")

#: What stressors run beside the tool's own limits: how long both sides' may take to start, a server
#: behind its client, the last look.
_AROUND_S = 120

#: So much of the client's time may pass outside of what was looked at: its start, and its end.
_WITHIN = 0.9

AnyState = TypeVar("AnyState", StateCase, RailStateCase)


class _StateCases(PairCases[AnyState]):
    """Neighbours of each partition with the features, in every state that its data lists."""

    described = "one that extras.contention.states has"
    #: what is measured, as the operation of its numbers begins
    operation: str

    def __init__(self, feature: str) -> None:
        super().__init__("contention", feature)

    def case(self, pair: PairCase, state: HostState) -> AnyState:
        raise NotImplementedError

    def on(self, partition: Partition) -> Iterable[AnyState]:
        data = contention_of(partition)
        if data.series_only and not is_series():
            return []
        pairs = neighbours(partition)
        some = pairs[:1] if data.pairs == "first" else pairs
        return [self.case(pair, state) for pair in some for state in data.states]

    def leaves_out(self, partition: Partition) -> Sequence[LeftOut]:
        data = contention_of(partition)
        left_out = []
        if data.series_only:
            left_out.append(left_to_the_series("extras.contention.series_only"))
        if data.pairs == "first":
            left_out += first_pair_alone(partition, "extras.contention.pairs")
        return left_out

    def values(self, partition: Partition) -> Mapping[str, Sequence[object]]:
        states = contention_of(partition).states
        return {"operation": [f"{self.operation} {state}" for state in states]}


class TcpStates(_StateCases[StateCase]):
    """TCP, in every state."""

    operation = "tcp"

    def __init__(self) -> None:
        super().__init__("tcp")

    def case(self, pair: PairCase, state: HostState) -> StateCase:
        return StateCase(*pair.ends, state)


class RailStates(_StateCases[RailStateCase]):
    """RDMA WRITE over the first rail, in every state."""

    operation = "write"

    def __init__(self) -> None:
        super().__init__("rdma")

    def case(self, pair: PairCase, state: HostState) -> RailStateCase:
        return RailStateCase(*pair.ends, 0, 0, state)

    def on(self, partition: Partition) -> Iterable[RailStateCase]:
        has_it = [node for node in partition.nodes if 0 in partition.extras.rails_of(node)]
        return [case for case in super().on(partition) if set(case.nodes) <= set(has_it)]


def contention_of(partition: Partition) -> Contention:
    contention = partition.extras.contention
    assert contention is not None  # a partition with the feature has it
    return contention


def stressors(partition: Partition) -> Mapping[str, Sequence[str]]:
    """What keeps CPUs busy, where nodes have no hypervisor that does."""
    own = set(partition.nodes) - contention_of(partition).hypervisors.keys()
    return {PROGRAM: [PROGRAM, "--version"]} if own else {}


@dataclasses.dataclass(frozen=True)
class HostsInState(RunPart):
    """Both hosts in a state while the tool runs. `nodes`: role -> node."""

    nodes: Mapping[str, str]
    state: HostState
    contention: Contention

    @property
    def _on(self) -> dict[str, HypervisorOrder]:
        return hypervisors(self.contention, self.nodes, self.state)

    def order(self, order: ClientServerOrder) -> ClientServerOrder:
        on = self._on
        here = [role for role in self.nodes if role not in on and self.state in LOADED]
        load = CpuLoadOrder(
            state=self.state,
            cores=self.contention.cores,
            program=(PROGRAM,),
            at_most_s=order.start_limit_s + order.run_limit_s + _AROUND_S,
            on=on,
        )
        programs = dict.fromkeys(here, (PROGRAM,))
        return dataclasses.replace(order, programs=programs, contention=load)

    def reading(self, reading: Reading, facts: Facts) -> Reading:
        notes = [how(node, of_node.get("contention")) for node, of_node in facts.items()]
        return dataclasses.replace(reading, notes=(*reading.notes, *filter(None, notes)))

    def missing(self, facts: Facts) -> Failure | None:
        """Without the state nothing was run, as without a program."""
        no_state = {
            node: of_node["no_state"] for node, of_node in facts.items() if "no_state" in of_node
        }
        if not no_state:
            return None
        why = "; ".join(f"{node} could not be {self.state}: {w}" for node, w in no_state.items())
        step = "extras.contention: states, cores, hypervisors"
        return Failure(HOST_STATE, why, tuple(no_state), step)

    def may_be_left_out(self, facts: Facts) -> bool:
        """Where there is one NUMA node, nothing is far from anything."""
        unable = [of_node for of_node in facts.values() if "no_state" in of_node]
        nowhere = bool(unable) and all(of_node.get("one_numa_node") for of_node in unable)
        return self.state == "far" and nowhere

    def failures(self, calls: Sequence[Call], facts: Facts, left: PlaceOutput) -> Sequence[Failure]:
        tool_s = max((call.seconds for call in calls if call.role == "client"), default=0.0)
        on, failures = self._on, []
        for role, node in self.nodes.items():
            ran = any(call.role == role and call.exit_code is not None for call in calls)
            if ran and not (role in on and on[role].by_other):
                observed = facts.get(node, {}).get("contention")
                failures += in_other_state(node, observed, self.state, self.contention, tool_s)
        return failures


def in_state(run: PairRun, state: HostState) -> PairRun:
    """The run between hosts in a state, which is part of what it measures."""
    part = HostsInState(run.nodes, state, contention_of(run.partition))
    return dataclasses.replace(run, state=state, parts=(*run.parts, part))


def hypervisors(
    data: Contention, nodes: Mapping[str, str], state: HostState
) -> dict[str, HypervisorOrder]:
    """By role, on which hypervisor which CPUs are meant: those of its node, or all but those of
    the nodes that it carries, which one role alone then keeps busy. `near` are the virtual CPUs
    near the NIC, where the data say so.
    """
    placements: dict[str, HypervisorOrder] = {}
    for role, node in nodes.items():
        if node not in data.hypervisors:
            continue
        one = data.hypervisors[node]
        carried = [h.cpus for h in data.hypervisors.values() if h.host == one.host]
        if state != "beside":
            placements[role] = HypervisorOrder(one.host, cpus=one.cpus, near=one.near)
        elif any(other.host == one.host for other in placements.values()):
            placements[role] = HypervisorOrder(one.host, by_other=True, near=one.near)
        else:
            placements[role] = HypervisorOrder(one.host, but=",".join(carried), near=one.near)
    return placements


def others_share(observed: Mapping[str, Any]) -> tuple[float, float]:
    """What other programs used of the CPUs that were looked at, and of all, as a share."""
    before, after = observed["before"], observed["after"]
    seconds = after["at"] - before["at"]
    # The tool runs on the node, and not on what is below it.
    own_s = 0.0 if "on" in observed else observed["own_s"]
    own_s += after.get("cpu_s", 0.0) - before.get("cpu_s", 0.0)

    def share(name: str, cpus: int) -> float:
        used_s = after[name] - before[name] - own_s
        return max(used_s, 0.0) / (cpus * seconds) if seconds > 0 and cpus else 0.0

    return share("busy_s", len(before["cpus"])), share("online_busy_s", before["online"])


def stressors_share(observed: Mapping[str, Any]) -> float:
    """What the stressors used of their CPUs' time."""
    before, after = observed["before"], observed["after"]
    seconds = after["at"] - before["at"]
    used_s = after.get("cpu_s", 0.0) - before.get("cpu_s", 0.0)
    return float(used_s / (len(before["cpus"]) * seconds)) if seconds > 0 else 0.0


def in_other_state(
    node: str, observed: Mapping[str, Any] | None, state: HostState, data: Contention, tool_s: float
) -> list[Failure]:
    """What speaks against the host of `node` having been in `state` while the client ran for
    `tool_s`; `observed` is what it recorded of that.
    """

    def wrong(words: str, next_step: str = "") -> list[Failure]:
        return [Failure(HOST_STATE, words, (node,), next_step)]

    if observed is None or observed.get("state") != state:
        return wrong(f"nothing says that {node} was {state} during the test")
    where = observed.get("on") or node
    if "before" not in observed or "after" not in observed:
        why = observed.get("lost", "it was not looked at")
        return wrong(f"the load of {where} during the test is unknown: {why}")
    before, after = observed["before"], observed["after"]
    seconds = after["at"] - before["at"]
    if seconds < _WITHIN * tool_s:
        return wrong(f"{where} was looked at for {seconds:.1f} s, and the tool ran {tool_s:.1f} s")
    if state not in LOADED:
        return _not_idle(where, observed, state, data, wrong)
    if not after.get("running"):
        code = observed.get("end", {}).get("exit_code")
        return wrong(f"{where} was not busy all the time: {PROGRAM} ended early, exit code {code}")
    if after["bound_to"] != after["cpus"]:
        words = f"{after['bound_to']}, expected {after['cpus']}"
        return wrong(f"{where} was not busy where it should be: {PROGRAM} may run on {words}")
    share = stressors_share(observed)
    if share < data.least_share:
        return wrong(
            f"{where} was not busy: {PROGRAM} used {share:.1%} of its CPUs' time, at least "
            f"{data.least_share:.1%} expected",
            "what else runs there? ps -eo pcpu,args --sort=-pcpu; or lower "
            "extras.contention.least_share",
        )
    if "on" not in observed and _overlap(observed) != (state == "busy"):
        return wrong(f"{PROGRAM} ran on CPUs {after['cpus']} of {node}, which is not {state}")
    return []


def _overlap(observed: Mapping[str, Any]) -> bool:
    """Whether any of the tool's CPUs was kept busy."""
    return bool(set(stressor.cpus_in(observed["tool_cpus"])) & set(observed["after"]["cpus"]))


def _not_idle(
    where: str,
    observed: Mapping[str, Any],
    state: HostState,
    data: Contention,
    wrong: Any,
) -> list[Failure]:
    failures: list[Failure] = []
    here, everywhere = others_share(observed)
    if max(here, everywhere) > data.most_idle:
        failures += wrong(
            f"{where} was not idle: other programs used {here:.0%} of the tool's CPUs and "
            f"{everywhere:.0%} of all, at most {data.most_idle:.0%} expected (load "
            f"{observed['after']['load']:.1f})",
            "what else runs there? ps -eo pcpu,args --sort=-pcpu",
        )
    return failures + _misplaced(where, observed, state, wrong)


def _misplaced(
    where: str, observed: Mapping[str, Any], state: HostState, wrong: Any
) -> list[Failure]:
    """A tool on CPUs that are not where the state has them: of a virtual machine whose own NUMA
    nodes say nothing, by what the data say of its CPUs.
    """
    failures: list[Failure] = []
    if "near" in observed:
        tool = set(stressor.cpus_in(observed["tool_cpus"]))
        near = set(stressor.cpus_in(observed["near"]))
        if (tool & near) if state == "far" else (tool - near):
            failures += wrong(
                f"the tool ran on CPUs {observed['tool_cpus']} above {where}: "
                f"{observed['near']} are near the NIC, and the state is {state}"
            )
        return failures
    home, numa = observed.get("nic_numa_node"), observed.get("tool_numa_nodes")
    if state == "far" and (home is None or not numa or home in numa):
        failures += wrong(f"the tool ran on NUMA node {numa} of {where}, and its NIC is on {home}")
    if state == "idle" and home is not None and numa and numa != [home]:
        failures += wrong(f"the tool ran on NUMA node {numa} of {where}, and its NIC is on {home}")
    return failures


def how(node: str, observed: Mapping[str, Any] | None) -> str:
    """How busy a host was, for people; "" where nothing says it."""
    if not observed or "after" not in observed or "before" not in observed:
        return ""
    here, everywhere = others_share(observed)
    parts = [f"others used {here:.0%} of them, {everywhere:.0%} of all CPUs"]
    if "running" in observed["after"]:
        parts.insert(0, f"{PROGRAM} used {stressors_share(observed):.0%} of CPUs")
    cpus = ",".join(map(str, observed["after"]["cpus"]))
    where = observed.get("on") or node
    numa = observed.get("nic_numa_node")
    placed = (
        "" if numa is None else f"; NIC on NUMA node {numa}, tool on {observed['tool_numa_nodes']}"
    )
    if "near" in observed:
        own = f"the tool on CPUs {observed['tool_cpus']} of its own"
        placed = f"; {own}, {observed['near']} near the NIC"
    load = observed["after"]["load"]
    return f"{where}: CPUs {cpus}: {', '.join(parts)}, load {load:.1f}{placed}"
