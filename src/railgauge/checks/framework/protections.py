"""What a check must prove beside its number: one function for each way to fool bare ReFrame.

Every function looks at the evidence of one test case and returns what is wrong. They are pure;
`StrictCheck` collects the evidence and runs them all.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from railgauge import hostlist
from railgauge.checks.framework.byte_accounting import contradictions
from railgauge.model.call import Call, why_failed
from railgauge.model.failure import (
    DATA_CORRUPT,
    DISTURBED,
    ENVIRONMENT,
    NO_REFERENCE,
    OVERRIDING_KINDS,
    Failure,
)
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference, step_to_record
from railgauge.model.reported_traffic import Claim
from railgauge.slurm import ends
from railgauge.systems import Budget
from railgauge.tools import Reading


@dataclasses.dataclass(frozen=True)
class JobEvidence:
    """The evidence of one place once its job has ended.

    `expected` are the requested conditions; `reading.seen` and `seen_on` (by node) are those that
    the tools and the nodes state themselves. `required` names the performance variables of a
    complete result, `recorded` those that need no reference. `budgets` say how much counters may
    grow. `job_error` is the job's standard error, with its launcher's words.
    """

    job_id: str | None
    job_state: str | None
    job_exit_code: int | None
    job_error: str
    #: the standard error of the tools, by the role of their call
    tool_errors: Mapping[str, str]
    #: whether the job's own output was written where it belongs
    left_output: bool
    #: the nodes whose failure ended the job, where Slurm knows them
    failed_nodes: tuple[str, ...]
    nodes: tuple[str, ...]
    ranks: int
    calls: tuple[Call, ...]
    reading: Reading | None
    expected: Mapping[str, Any]
    expected_on: Mapping[str, Any]
    seen_on: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]
    limits: Mapping[str, Limit]
    references: Mapping[str, Reference]
    recorded: frozenset[str]
    budgets: tuple[Budget, ...]
    acceptance: bool
    #: whether stand-ins run here
    rehearsal: bool = False
    #: the failure that a node lacks a program, so that nothing was run; if `optional`, it counts
    #: not
    missing_program: Failure | None = None
    optional: bool = False
    #: what the tool claims that the nodes' devices carried; `counted` where its rates need a claim
    claims: tuple[Claim, ...] = ()
    counted: bool = False
    #: whether the end of this place was recorded before its job's, which then says nothing of it
    settled: bool = False

    @property
    def reading_ok(self) -> bool:
        """Whether there is a result at all; without one, only that is the failure."""
        return self.reading is not None and self.reading.ok

    @property
    def ended_without_program(self) -> bool:
        """Whether the job failed because a rank could not start its program, so that the launcher
        ended all ranks.
        """
        return self.missing_program is not None and self.job_state == "FAILED"

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return self.reading.measurements if self.reading else ()


def job_completed(evidence: JobEvidence) -> Iterator[Failure]:
    """ReFrame takes TIMEOUT, NODE_FAIL, OUT_OF_MEMORY and CANCELLED for an end like any other.

    Four kinds of jobs measured nothing, and accuse no node: a user cancelled it, Slurm forgot it,
    its controller did not start it, or ended it for a node's failure although no node failed.
    """
    if evidence.settled:
        # `job_failures` are told of the whole.
        return
    state = evidence.job_state or "unknown"
    words = ends.quoted(evidence.job_error)
    message = (
        f"Slurm says {state} for the job on {hostlist.fold(evidence.nodes)}, expected COMPLETED"
    )
    step = f"sacct -j {evidence.job_id} -o jobid,state,exitcode,nodelist,failednode"
    trouble = "" if evidence.calls else ends.controller_trouble(evidence.job_error)
    if state == "NODE_FAIL" and evidence.ranks and not evidence.failed_nodes:
        trouble = "it names no node that failed"
    if state not in ends.OF_THE_NODES or (state != "COMPLETED" and trouble):
        yield Failure(
            DISTURBED,
            f"not measured: {message}" + (f": {trouble}" if trouble else ""),
            next_step=step,
        )
    elif evidence.ended_without_program:
        return
    elif state != "COMPLETED":
        failed = evidence.failed_nodes
        yield Failure(
            "job-state",
            message
            + (f"; {hostlist.fold(failed)} failed" if failed else "")
            + (f"; it says: {words}" if words else ""),
            failed,
            next_step=step,
        )
    elif evidence.job_exit_code != 0:
        yield Failure("exit-code", f"the job's exit code is {evidence.job_exit_code}, expected 0")


#: What to type where a tool could not measure on nodes that were too busy for it.
_AGAIN = "run it again, when less else runs there: railgauge accept --resume latest"


def environment_serves(evidence: JobEvidence) -> Iterator[Failure]:
    """A folder, a Python or a launcher that is not there as the job needs it is no node's fault.

    Only what kept a program from its end: of one that ended well its words do not count.
    """
    unresolved = {
        node: node_facts["unresolved"]
        for node, node_facts in evidence.seen_on.items()
        if "unresolved" in node_facts
    }
    for node, peers in sorted(unresolved.items()):
        for peer, why in peers.items():
            yield Failure(
                ENVIRONMENT,
                f"{node} does not resolve {peer}: {why}",
                (node,),
                f"`getent hosts {peer}` on {node}: its NodeName in DNS or /etc/hosts, or a "
                "NodeAddr in slurm.conf that is an address",
            )
    ended = {call.rank for call in evidence.calls}
    if not evidence.left_output and not ended and evidence.job_state in ("COMPLETED", "FAILED"):
        yield Failure(
            ENVIRONMENT,
            f"the job ran on {hostlist.fold(evidence.nodes)}, and nothing of its output is here: "
            f"{evidence.nodes[0]} does not see the results area",
            evidence.nodes[:1],
            ends.SEES_STEP,
        )
        return
    texts = [] if len(ended) == evidence.ranks else [evidence.job_error]
    texts += [evidence.tool_errors.get(call.role, "") for call in evidence.calls if call.failure]
    troubles = (ends.environment_trouble(text) for text in texts if text)
    for trouble in dict.fromkeys(trouble for trouble in troubles if trouble):
        yield Failure(ENVIRONMENT, trouble.words, trouble.nodes, trouble.next_step)
    reading = evidence.reading
    if reading is not None and reading.inconclusive:
        yield Failure(ENVIRONMENT, reading.reason, (), _AGAIN)
    alone = reading is not None and not reading.ok and reading.seen.get("ranks") == 1
    if reading is not None and alone and evidence.ranks > 1:
        words = f"the launcher started every rank of MPI alone: {reading.reason}"
        yield Failure(ENVIRONMENT, words, (), ends.MPI_STEP)


def every_rank_reported(evidence: JobEvidence) -> Iterator[Failure]:
    """Without its exit line a tool may have been cut short with a plausible table on screen."""
    missing = sorted(set(range(evidence.ranks)) - {call.rank for call in evidence.calls})
    if missing and not evidence.ended_without_program:
        yield Failure(
            "no-exit-line",
            f"{hostlist.fold_ranks(missing)} of {evidence.ranks} left no exit line: never started, "
            "or died",
        )
    # srun killed these tasks because another node failed; do not blame their nodes.
    failed_first = any(call.failure for call in evidence.calls)
    ended = ends.ended_by_launcher(evidence.job_error) if failed_first else frozenset()
    silent = tuple(
        node
        for node in evidence.nodes
        if node not in ended and not any(call.host == node for call in evidence.calls)
    )
    unreached = {
        node: why
        for node, why in ends.launch_failed_on(evidence.job_error).items()
        if node in silent and not evidence.failed_nodes
    }
    if unreached:
        # srun ends the tasks of all others with that.
        launcher = evidence.nodes[0]
        yield Failure(
            "launch-failed",
            f"no exit line came from {hostlist.fold(silent)}: srun on {launcher} could start no "
            f"task on {'; '.join(f'{node}: {why}' for node, why in unreached.items())}",
            tuple(unreached),
            next_step=f"can {launcher} reach {hostlist.fold(unreached)}? ping, "
            "and ip route get, from there; then the other way round",
        )
    elif silent and not evidence.ended_without_program:
        yield Failure(
            "silent-node",
            f"no exit line came from {hostlist.fold(silent)}",
            # A node that failed takes its healthy peers' lines with it.
            nodes=evidence.failed_nodes or silent,
            next_step=f"scontrol show node {hostlist.fold(silent)}",
        )
    strangers = sorted({call.host for call in evidence.calls} - set(evidence.nodes))
    if strangers:
        yield Failure(
            "wrong-node",
            f"ran on {', '.join(strangers)}, asked for {hostlist.fold(evidence.nodes)}",
        )


def every_call_succeeded(evidence: JobEvidence) -> Iterator[Failure]:
    """One rank's tool can fail while another's prints its table."""
    if evidence.missing_program:
        return
    errors = evidence.tool_errors
    for why in why_failed(evidence.calls, lambda call: ends.quoted(errors.get(call.role, ""))):
        yield Failure("tool-failed", why)


def every_program_is_there(evidence: JobEvidence) -> Iterator[Failure]:
    """A program that was not run has not passed. An optional one is left out, as the verdict says,
    and counts as not measured.
    """
    if evidence.missing_program and (evidence.measurements or not evidence.optional):
        yield evidence.missing_program


def every_node_has_room(evidence: JobEvidence) -> Iterator[Failure]:
    """A full disk makes programs hang, or fail with any other message. A pass in spite of it says
    nothing of the next job.
    """
    for node, facts in sorted(evidence.seen_on.items()):
        for folder, free in sorted(facts.get("no_room", {}).items()):
            yield Failure(
                "disk-full",
                f"{folder} on {node} has {free / 1024:.0f} KiB free",
                (node,),
                f"df -h {folder}, and du -xsh {folder}/*, on {node}",
            )


#: What a clock may be off by at the end, in seconds or as a share of the time: two looks at it on a
#: busy node differ by that, and more than NTP corrects while it runs [adjtimex(2): 0.05 %].
_CLOCK_S, _CLOCK_SHARE = 0.05, 0.01


def every_clock_was_left_alone(evidence: JobEvidence) -> Iterator[Failure]:
    """Tools divide by seconds of a clock that NTP, or somebody, may set in the middle."""
    for node, facts in sorted(evidence.seen_on.items()):
        clock = facts.get("clock", {"moved_s": 0.0, "watched_s": 0.0})
        if abs(clock["moved_s"]) > max(_CLOCK_S, _CLOCK_SHARE * clock["watched_s"]):
            yield Failure(
                DISTURBED,
                f"not measured: the clock of {node} was set by {clock['moved_s']:+.2f} s within "
                f"the {clock['watched_s']:.1f} s of the test",
                (node,),
                f"chronyc tracking, or timedatectl timesync-status, on {node}; then measure again",
            )


def output_is_a_result(evidence: JobEvidence) -> Iterator[Failure]:
    """Tools exit with 0 on failure, or print a number for a transfer that broke."""
    if evidence.missing_program:
        return
    if evidence.reading is None:
        yield Failure("no-output", "there is no output of the tool to read")
    elif not evidence.reading.ok:
        kind = DATA_CORRUPT if evidence.reading.corrupt else "output"
        yield Failure(kind, evidence.reading.reason)


def nothing_is_simulated(evidence: JobEvidence) -> Iterator[Failure]:
    """A stand-in's numbers, or counters, where real tools were to be measured."""
    for node, node_facts in sorted(evidence.seen_on.items()):
        if node_facts.get("counters", {}).get("simulated") and not evidence.rehearsal:
            yield Failure(
                "simulated", f"the counters of {node} are a stand-in's, SIMULATED", (node,)
            )
    if evidence.reading is not None and evidence.reading.simulated and not evidence.rehearsal:
        yield Failure(
            "simulated",
            "the output is a stand-in's, SIMULATED: nothing was measured",
            next_step="look at extras.nccl.binaries, or transfers.path, of the partition",
        )


def output_is_complete(evidence: JobEvidence) -> Iterator[Failure]:
    """Text that merely does not contradict itself is not yet a finished run."""
    reading = evidence.reading
    if reading is not None and reading.ok and reading.completeness.value != "proved":
        yield Failure("incomplete", f"the output is {reading.completeness.value}: {reading.reason}")


def conditions_as_asked(evidence: JobEvidence) -> Iterator[Failure]:
    """Singleton ranks, a fallback transport, fewer streams, another MTU.

    What ran must be what was asked for; a condition that nobody states is not taken for granted.
    """
    seen = evidence.reading.seen if evidence.reading else {}
    for name, wanted in evidence.expected.items():
        if not evidence.reading_ok:
            break
        if name not in seen:
            yield Failure("condition", f"nothing states {name}, expected {wanted}")
        elif seen[name] != wanted:
            yield Failure("condition", f"{name} is {seen[name]}, expected {wanted}")
    for name, wanted in evidence.expected_on.items():
        # A node without an exit line is a failure of its own.
        for node in sorted({call.host for call in evidence.calls} & set(evidence.nodes)):
            on_node = evidence.seen_on.get(node, {})
            actual = on_node.get(name, "not stated")
            # Of a rail that is not there, that is the failure (checks/jobs/client_server.py).
            if actual != wanted and "rail_missing" not in on_node:
                device = f" {on_node['device']}" if "device" in on_node else ""
                lost = on_node.get("route_unknown")
                yield Failure(
                    "condition",
                    f"{name} on {node}{device} is {actual}, expected {wanted}"
                    + (f" (no way to the other node: {lost})" if lost else ""),
                    (node,),
                )


def nothing_is_missing(evidence: JobEvidence) -> Iterator[Failure]:
    """A sweep that stopped early, or a metric that could not be read: ReFrame only warns."""
    if not evidence.reading_ok:
        return
    variables = [measurement.variable for measurement in evidence.measurements]
    missing = [name for name in evidence.required if name not in variables]
    if missing:
        yield Failure("missing", f"not measured: {', '.join(missing)}")
    if len(variables) != len(set(variables)):
        twice = sorted({name for name in variables if variables.count(name) > 1})
        yield Failure("ambiguous", f"measured more than once: {', '.join(twice)}")


def counters_within_budget(evidence: JobEvidence) -> Iterator[Failure]:
    """Errors that the tool's number hides: retransmission and redundancy hide a bad link."""
    return beyond_budgets(evidence.seen_on, evidence.budgets)


#: Counters of one end of an RDMA connection that move for what the way or the other end lost as
#: well: gaps, repeats, timers and corrupted packets [NVIDIA: Understanding mlx5 Linux Counters and
#: Status Parameters; Linux, drivers/infiniband/sw/rxe/rxe_hw_counters.c].
_OF_THE_WAY = re.compile(
    r"rdma/[^/]+/[0-9]+/hw_counters/("
    r"out_of_sequence|packet_seq_err|implied_nak_seq_err|duplicate_request|rx_icrc_encapsulated"
    r"|local_ack_timeout_err|rnr_nak_retry_err|out_of_seq_request|rcvd_seq_err|rcvd_rnr_err"
    r"|retry_exceeded_err|retry_rnr_exceeded_err)"
)


def beyond_budgets(
    seen_on: Mapping[str, Mapping[str, Any]], budgets: Sequence[Budget]
) -> Iterator[Failure]:
    """Failures for counters that grew beyond their budgets, by the nodes' own facts."""
    for node, facts in sorted(seen_on.items()):
        record = facts.get("counters", {})
        for counter, growth in sorted(record.get("counters", {}).items()):
            budget = next((b for b in budgets if re.fullmatch(b.counters, counter)), None)
            if budget is not None and growth > budget.max:
                message = (
                    f"{counter} on {node} grew by {growth} during the test, at most "
                    f"{budget.max} expected: {budget.why}"
                )
                # Of more than two nodes it is all that tells one from another.
                if len(seen_on) <= 2 and _OF_THE_WAY.fullmatch(counter):
                    yield Failure(
                        "counter", f"{message}; the other end, or what lies between, may lose them"
                    )
                else:
                    yield Failure("counter", message, (node,))
        for counter in record.get("reset", []):
            if any(re.fullmatch(b.counters, counter) for b in budgets):
                message = f"{counter} on {node} went backwards: its driver or device was reset"
                yield Failure("counter", message, (node,))
        for pattern in record.get("unmatched", []):
            message = f"no counter like {pattern} can be read on {node}"
            yield Failure("counter-unread", message, (node,), "is ethtool installed on the node?")
        for counter in record.get("full", []):
            message = f"{counter} on {node} is full: at its largest value it counts no more"
            yield Failure("counter-unread", message, (node,), "perfquery -R on the node resets it")
        lost = {tuple(name.split("/")[:2]) for name in record.get("gone", [])}
        # Other interfaces come and go with containers.
        ours = facts.get("sampled", ())
        for kind, device in sorted(
            e for e in lost if len(e) == 2 and (e[0] == "rdma" or e[1] in ours)
        ):
            message = f"the counters of {device} ({kind}) on {node} vanished during the test"
            yield Failure("device-lost", message, (node,))


def counters_agree(evidence: JobEvidence) -> Iterator[Failure]:
    """A tool that counts wrongly, or was made to, and traffic that took another way.

    The record is that of the nodes' own devices, which the tool has no hand in.
    """
    if not evidence.reading_ok:
        return
    rates = any(m.unit in ("Gb/s", "GB/s") for m in evidence.measurements)
    claimed = any(claim.payload_bytes > 0 for claim in evidence.claims)
    if evidence.counted and rates and not claimed:
        message = "nothing says how much the tool moved, so no counter can confirm its rate"
        yield Failure("counters-unread", message)
    for claim in evidence.claims:
        record = evidence.seen_on.get(claim.node, {}).get("counters", {})
        for contradiction in contradictions(claim, record):
            yield Failure(
                contradiction.kind, contradiction.message, (claim.node,), contradiction.next_step
            )


def within_limits(evidence: JobEvidence) -> Iterator[Failure]:
    """More than physics allows: a wrong unit, a cache, a loopback, singleton ranks."""
    for measurement in evidence.measurements:
        limit = evidence.limits.get(measurement.variable)
        if limit is not None and limit.unit != measurement.unit:
            yield Failure(
                "limit-unit",
                f"{measurement.variable} is in {measurement.unit}, its limit in {limit.unit}",
            )
        elif limit is not None and limit.exceeded_by(measurement.value):
            yield Failure(
                "above-limit",
                f"{measurement.variable} is {measurement.value:.4g} {measurement.unit}, above the "
                f"{limit.value:.4g} that {limit.reason} allows",
                next_step=_shaped(measurement, limit)
                + "did it cross the link? look for loopback, caches, a wrong unit or rate",
            )


#: So far above its limit a link that is shaped may read, a share: a shaper of a hypervisor or of a
#: switch counts other bytes than a NIC. A choice of ours, above the 1.6 % that were seen.
_SHAPED = 0.05


def _shaped(measurement: Measurement, limit: Limit) -> str:
    """What to state of a TCP link of which a shaper may count other bytes."""
    above = measurement.value / limit.value - 1
    if measurement.transport != "tcp" or above > _SHAPED:
        return ""
    return (
        "if a hypervisor or switch shapes this link, state a link_gbits in reframe.yaml that is "
        f"{math.ceil(round(above * 1000, 6)) / 10:g} % higher, what it lets through; else: "
    )


def _condition(measurement: Measurement) -> str:
    """What a reference must state, and of the way and the load may, in the words of its file."""
    parts = (
        f"operation {measurement.operation}",
        f"transport {measurement.transport}",
        f"nodes {len(measurement.nodes)}",
        f"streams {measurement.streams}" if measurement.streams is not None else "",
        f"size_bytes {measurement.size_bytes}" if measurement.size_bytes is not None else "",
        f"within {measurement.within}" if measurement.within else "",
        f"load {measurement.load}" if measurement.load else "",
    )
    return ", ".join(filter(None, parts))


def every_number_has_a_reference(evidence: JobEvidence) -> Iterator[Failure]:
    """Without a reference ReFrame passes anything."""
    if not evidence.acceptance:
        return
    gating = [m for m in evidence.measurements if m.variable not in evidence.recorded]
    if evidence.reading_ok and not gating:
        yield Failure(NO_REFERENCE, "nothing that was measured is compared with anything")
    for measurement in gating:
        if measurement.variable not in evidence.references:
            yield Failure(
                NO_REFERENCE,
                f"no reference for {measurement.variable} under this condition "
                f"({_condition(measurement)})",
                next_step=f"record one: {step_to_record(measurement.load)}",
            )


PROTECTIONS: tuple[Callable[[JobEvidence], Iterator[Failure]], ...] = (
    job_completed,
    environment_serves,
    every_rank_reported,
    every_call_succeeded,
    every_program_is_there,
    every_node_has_room,
    every_clock_was_left_alone,
    output_is_a_result,
    nothing_is_simulated,
    output_is_complete,
    conditions_as_asked,
    nothing_is_missing,
    counters_within_budget,
    counters_agree,
    within_limits,
    every_number_has_a_reference,
)


def failures(evidence: JobEvidence, others: Sequence[Failure] = ()) -> list[Failure]:
    """All failures of the evidence, after those that the check itself has (`others`)."""
    return _decisive([*others, *(f for protection in PROTECTIONS for f in protection(evidence))])


def lacks(evidence: JobEvidence, node: str) -> Failure | None:
    """The failure of a node that lacked what its job needs, by the job's words; None if none."""
    trouble = ends.environment_trouble(evidence.job_error)
    if trouble is None or (trouble.nodes and node not in trouble.nodes):
        return None
    return Failure(ENVIRONMENT, trouble.words, trouble.nodes, trouble.next_step)


def failures_of_job(evidence: JobEvidence, began: bool) -> list[Failure]:
    """The failures of a sweep's job as a whole: how it ended, and, where it did not begin its first
    place, what it lacked.
    """
    failures = list(job_completed(evidence))
    if not began:
        failures += environment_serves(evidence)
        where = hostlist.fold(evidence.nodes)
        message = f"nothing was measured on {where}: the sweep did not begin"
        failures += [] if failures else [Failure("no-exit-line", message)]
    return _decisive(failures)


def _decisive(failures: list[Failure]) -> list[Failure]:
    """The failures that decide: if the job was disturbed, or lacked what jobs need, only those, as
    all others may follow from them.
    """
    alone = [failure for failure in failures if failure.kind in OVERRIDING_KINDS]
    return alone or failures
