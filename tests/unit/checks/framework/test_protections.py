"""The protections: each change of a good test case that must not pass, and what is said of it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.checks.framework.protections import (
    PROTECTIONS,
    JobEvidence,
    failures,
    failures_of_job,
    job_completed,
)
from railgauge.model.call import Call
from railgauge.model.failure import DISTURBED, ENVIRONMENT, Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Provenance, Reference
from railgauge.model.reported_traffic import Claim
from railgauge.slurm import ends
from railgauge.systems import Budget
from railgauge.tools import Completeness, Reading

NODES = ("n1", "n2")


def recorded(name: str) -> str:
    """What a job left on its standard error."""
    path = Path(__file__).parents[3] / "data" / "job_end" / f"{name}.txt"
    return path.read_text(encoding="utf-8").partition("\n")[2]


LIMIT = Limit(9.79, "Gb/s", "TCP over 10 Gb/s Ethernet, MTU 4200")


def measured(metric: str, value: float) -> Measurement:
    return Measurement(metric, value, "iperf2", "tcp", "tcp", streams=4, nodes=NODES, ranks=2)


def reference(unit: str) -> Reference:
    provenance = Provenance(source="a test", date=datetime.date(2026, 11, 21))
    return Reference(value=5.0, lower=-0.1, unit=unit, kind="baseline", provenance=provenance)


READING = Reading(
    ok=True,
    reason="4 streams",
    completeness=Completeness.PROVED,
    measurements=(measured("bandwidth", 9.5), measured("retransmits", 3)),
    seen={"streams": 4, "congestion": "bbr"},
)

SYMBOL_ERRORS = "rdma/mlx5_0/1/counters/symbol_error"
BUDGETS = (
    Budget(counters="rdma/.*/symbol_error", most=2, why="a dirty or bent cable"),
    Budget(counters="rdma/.*", most=9, why="more than any healthy link shows"),
)


def counted(growth: int, counter: str = SYMBOL_ERRORS) -> dict[str, Any]:
    """What a node says of itself, with one counter that grew."""
    return {
        "mtu_bytes": 4200,
        "device": "eth0",
        "counters": {"counters": {counter: growth}, "gone": []},
    }


#: What iperf2 says that eth0 of n2 sent, and what it counted.
CLAIM = Claim("iperf2 (client)", "n2", "tx", ((("eth0",),),), 3_560_000_000, 3.0, 3_650_000_000)


def sent(**moved: int) -> dict[str, Any]:
    """What n2 says of itself, with bytes that its interfaces sent."""
    counters = {"bytes": {name: {"tx": count} for name, count in moved.items()}}
    return {"mtu_bytes": 4200, "device": "eth0", "counters": counters}


GOOD = JobEvidence(
    job_id="17",
    job_state="COMPLETED",
    job_exit_code=0,
    job_error="",
    tool_errors={},
    left_output=True,
    failed_nodes=(),
    nodes=NODES,
    ranks=2,
    calls=(
        Call("iperf2", "server", 0, "n1", 0, 5.1, "iperf version 2.2.1"),
        Call("iperf2", "client", 1, "n2", 0, 5.0, "iperf version 2.2.1"),
    ),
    reading=READING,
    expected={"streams": 4},
    expected_on={"mtu_bytes": 4200},
    seen_on={"n1": counted(0), "n2": counted(2)},
    required=("bandwidth", "retransmits"),
    limits={"bandwidth": LIMIT},
    recorded=frozenset(),
    budgets=BUDGETS,
    references={"bandwidth": reference("Gb/s"), "retransmits": reference("segments")},
    acceptance=True,
)


CLOCK_SET = {"moved_s": 30.0, "watched_s": 8.0}


def but(**changes: Any) -> JobEvidence:
    """The good evidence with some fields changed."""
    return dataclasses.replace(GOOD, **changes)


def but_call(place: int, /, **changes: Any) -> JobEvidence:
    calls = list(GOOD.calls)
    calls[place] = dataclasses.replace(calls[place], **changes)
    return but(calls=tuple(calls))


def but_reading(**changes: Any) -> JobEvidence:
    return but(reading=dataclasses.replace(READING, **changes))


def but_gone(*names: str) -> JobEvidence:
    """The good evidence with counters of n2 that were not there any more after the test."""
    return but(seen_on={**GOOD.seen_on, "n2": {**counted(0), "counters": {"gone": names}}})


def but_bandwidth(**changes: Any) -> JobEvidence:
    bandwidth, retransmits = READING.measurements
    return but_reading(measurements=(dataclasses.replace(bandwidth, **changes), retransmits))


def but_claim(**moved: int) -> JobEvidence:
    """The good evidence of a tool that claims 3.56 GB, with what n2's interfaces sent."""
    return but(claims=(CLAIM,), seen_on={**GOOD.seen_on, "n2": sent(**moved)})


MISSING = Failure("tool-missing", "wdt not found on n2", ("n2",), "make stack")
NOT_STARTED = tuple(
    dataclasses.replace(call, exit_code=None, note="not started: wdt not found on this node")
    for call in GOOD.calls
)


def kinds(evidence: JobEvidence) -> list[str]:
    return [failure.kind for failure in failures(evidence)]


def only_failure(evidence: JobEvidence) -> Failure:
    (failure,) = failures(evidence)
    return failure


def test_good_evidence_has_no_failure() -> None:
    assert failures(GOOD) == []


FULL = "disk-full"
NO_PYTHON = recorded("no_python")
NO_PMI = recorded("mpi_no_pmi")

BAD = [
    # Slurm's word
    *((f"state-{s}", but(job_state=s), "job-state") for s in ("TIMEOUT", "FAILED")),
    ("state-NODE_FAIL", but(job_state="NODE_FAIL", failed_nodes=("n2",)), "job-state"),
    *((f"state-{s}", but(job_state=s), "job-state") for s in ("OUT_OF_MEMORY", "BOOT_FAIL")),
    # Slurm's trouble, or somebody's will: not the nodes'
    *((f"state-{s}", but(job_state=s), DISTURBED) for s in ("CANCELLED", "DEADLINE", "REVOKED")),
    *((f"state-{s}", but(job_state=s), DISTURBED) for s in ("RUNNING", "PREEMPTED", "completed")),
    ("cancelled-by", but(job_state="CANCELLED by alice"), DISTURBED),
    ("state-unknown", but(job_state=None), DISTURBED),
    ("state-empty", but(job_state=""), DISTURBED),
    ("state-and-exit-code", but(job_state="FAILED", job_exit_code=1), "job-state"),
    *((f"exit-code-{code}", but(job_exit_code=code), "exit-code") for code in (1, -9, 143)),
    ("exit-code-unknown", but(job_exit_code=None), "exit-code"),
    # what a job needs of its cluster
    ("unresolved", but(seen_on={**GOOD.seen_on, "n2": {"unresolved": {"n1": "no"}}}), ENVIRONMENT),
    ("inconclusive", but(reading=Reading.invalid("no clock", inconclusive=True)), ENVIRONMENT),
    ("unseen-results", but(calls=(), left_output=False, reading=None), ENVIRONMENT),
    ("no-python", but(calls=GOOD.calls[:1], job_error=NO_PYTHON, job_state="FAILED"), ENVIRONMENT),
    ("unseen-by-one", but(calls=GOOD.calls[:1], job_error=recorded("chdir")), ENVIRONMENT),
    (
        "no-launcher",
        but(
            calls=tuple(dataclasses.replace(call, exit_code=1) for call in GOOD.calls),
            tool_errors={"server": NO_PMI, "client": NO_PMI},
        ),
        ENVIRONMENT,
    ),
    (
        "singletons",
        but(reading=dataclasses.replace(Reading.invalid("worlds of 1"), seen={"ranks": 1})),
        ENVIRONMENT,
    ),
    # exit lines
    ("a-rank-more", but(ranks=3), "no-exit-line"),
    ("ran-elsewhere", but(calls=(*GOOD.calls, Call("iperf2", "x", 2, "n9", 0, 1.0))), "wrong-node"),
    *((f"call-{code}", but_call(1, exit_code=code), "tool-failed") for code in (1, -11, 255)),
    ("killed", but_call(0, exit_code=None), "tool-failed"),
    ("noted", but_call(0, exit_code=0, note="did not listen"), "tool-failed"),
    ("no-program", but(missing_program=MISSING, calls=NOT_STARTED, reading=None), "tool-missing"),
    (
        "clock-set",
        but(seen_on={**GOOD.seen_on, "n2": {**counted(0), "clock": CLOCK_SET}}),
        DISTURBED,
    ),
    ("no-room", but(seen_on={**GOOD.seen_on, "n2": {**counted(0), "no_room": {"/tmp": 0}}}), FULL),
    # the tool's output
    ("no-output", but(reading=None, references={}), "no-output"),
    ("refused", but(reading=Reading.invalid("the connection broke off")), "output"),
    ("a-stand-in", but_reading(simulated=True), "simulated"),
    (
        "a-stand-ins-counters",
        but(seen_on={**GOOD.seen_on, "n2": {**counted(0), "counters": {"simulated": True}}}),
        "simulated",
    ),
    ("unknown-end", but_reading(completeness=Completeness.UNKNOWN), "incomplete"),
    ("broken-end", but_reading(completeness=Completeness.BROKEN), "incomplete"),
    # conditions
    ("fewer-streams", but_reading(seen={"streams": 3}), "condition"),
    ("unstated-streams", but_reading(seen={"congestion": "bbr"}), "condition"),
    ("null-streams", but_reading(seen={"streams": None}), "condition"),
    ("other-transport", but(expected={"streams": 4, "congestion": "cubic"}), "condition"),
    ("other-mtu", but(seen_on={**GOOD.seen_on, "n2": {"mtu_bytes": 1500}}), "condition"),
    ("unstated-mtu", but(seen_on={**GOOD.seen_on, "n2": {"device": "eth0"}}), "condition"),
    # counters
    ("over-budget", but(seen_on={**GOOD.seen_on, "n2": counted(3)}), "counter"),
    ("lost-device", but_gone(SYMBOL_ERRORS, "rdma/mlx5_0/1/counters/link_downed"), "device-lost"),
    # the devices' own count
    ("contradicted", but_claim(eth0=390_000_000), "counters"),
    ("another-way", but_claim(eth0=0, eth1=3_600_000_000), "counters"),
    ("uncounted", but_claim(eth1=3_600_000_000), "counters-unread"),
    ("not-alone", but_claim(eth0=9_000_000_000), "counters-exceeded"),
    ("nothing-claimed", but(counted=True), "counters-unread"),
    (
        "no-byte-claimed",
        but(counted=True, claims=(dataclasses.replace(CLAIM, payload_bytes=0),)),
        "counters-unread",
    ),
    # numbers
    ("missing-metric", but(required=("bandwidth", "retransmits", "latency")), "missing"),
    ("stopped-sweep", but(required=("bandwidth", "bandwidth_8B", "bandwidth_16B")), "missing"),
    ("twice", but_reading(measurements=READING.measurements * 2), "ambiguous"),
    ("above-limit", but_bandwidth(value=9.9), "above-limit"),
    ("wrong-unit", but_bandwidth(value=9500.0), "above-limit"),
    (
        "limit-in-another-unit",
        but(limits={"bandwidth": dataclasses.replace(LIMIT, unit="GB/s")}),
        "limit-unit",
    ),
    ("no-reference", but(references={"bandwidth": reference("Gb/s")}), "no-reference"),
    ("nothing-gates", but(recorded=frozenset(GOOD.required)), "no-reference"),
    (
        "no-reference-beside-recorded",
        but(references={}, recorded=frozenset({"retransmits"})),
        "no-reference",
    ),
]


def test_missing_reference_is_told_with_what_was_measured_and_no_more() -> None:
    (failure,) = failures(but(references={"bandwidth": reference("Gb/s")}), [])
    assert "no reference for retransmits" in failure.message
    assert failure.message.endswith("(operation tcp, transport tcp, nodes 2, streams 4)")


@pytest.mark.parametrize(
    ("evidence", "kind"), [pytest.param(e, kind, id=name) for name, e, kind in BAD]
)
def test_one_thing_wrong_is_that_one_failure(evidence: JobEvidence, kind: str) -> None:
    assert kinds(evidence) == [kind]


def test_every_protection_has_a_case_here_that_it_alone_finds() -> None:
    found = {
        protection.__name__
        for protection in PROTECTIONS
        for _, evidence, kind in BAD
        if [failure.kind for failure in protection(evidence)] == [kind]
    }
    assert found == {protection.__name__ for protection in PROTECTIONS}


def but_optional(**changes: Any) -> JobEvidence:
    """An optional tool that a node lacks."""
    left_out: dict[str, Any] = {"missing_program": MISSING, "optional": True, "reading": None}
    return but(**{**left_out, "calls": NOT_STARTED, "references": {}, **changes})


def test_a_missing_program_is_the_one_failure_of_what_could_not_be_run() -> None:
    refused = Reading.invalid("no server on n1")
    assert kinds(but(missing_program=MISSING, calls=NOT_STARTED, reading=refused)) == [
        "tool-missing"
    ]


def test_a_rank_without_its_program_explains_how_its_job_ended() -> None:
    ended = but(
        **{"missing_program": MISSING, "calls": NOT_STARTED, "ranks": 3, "reading": None},
        **{"job_state": "FAILED", "job_exit_code": 1},
    )
    assert kinds(ended) == ["tool-missing"]


def test_a_rank_without_its_program_takes_the_lines_of_others_with_it() -> None:
    ended = but(
        **{"missing_program": MISSING, "calls": NOT_STARTED[:1], "reading": None},
        **{"job_state": "FAILED", "job_exit_code": 1},
    )
    assert kinds(ended) == ["tool-missing"]


@pytest.mark.parametrize(
    "changes",
    [
        {"job_state": "NODE_FAIL", "failed_nodes": ("n1",)},
        {"job_state": "OUT_OF_MEMORY"},
        {"job_state": "TIMEOUT"},
    ],
)
def test_a_rank_without_its_program_explains_no_other_end(changes: dict[str, Any]) -> None:
    ended = but(missing_program=MISSING, calls=NOT_STARTED, reading=None, **changes)
    assert "job-state" in kinds(ended)


def test_a_missing_program_of_an_optional_tool_fails_nothing() -> None:
    assert failures(but_optional()) == []


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"job_state": "TIMEOUT"}, "job-state"),
        ({"job_exit_code": 1}, "exit-code"),
        ({"ranks": 3}, "no-exit-line"),
        ({"seen_on": {**GOOD.seen_on, "n2": {"mtu_bytes": 1500}}}, "condition"),
    ],
)
def test_a_missing_program_excuses_nothing_else(changes: dict[str, Any], kind: str) -> None:
    assert kinds(but_optional(**changes)) == [kind]


def test_what_measured_something_was_not_left_out() -> None:
    assert kinds(but(missing_program=MISSING, optional=True)) == ["tool-missing"]


def test_a_program_that_is_optional_and_there_must_work() -> None:
    assert kinds(but(optional=True, reading=None, references={})) == ["no-output"]


def test_what_the_devices_counted_too_is_believed() -> None:
    assert failures(but_claim(eth0=3_600_000_000)) == []


def test_rates_in_bytes_need_a_claim_too() -> None:
    """As those of NCCL are."""
    busbw = dataclasses.replace(READING.measurements[0], metric="busbw")
    assert busbw.unit == "GB/s"
    evidence = but(counted=True, reading=dataclasses.replace(READING, measurements=(busbw,)))
    assert "counters-unread" in kinds(evidence)


def test_of_a_run_that_is_no_result_nothing_is_counted() -> None:
    evidence = dataclasses.replace(but_claim(eth0=0), reading=Reading.invalid("it broke off"))
    assert kinds(evidence) == ["output"]


def test_a_contradiction_names_its_node() -> None:
    assert only_failure(but_claim(eth0=0)).nodes == ("n2",)


# ---- a place that ended before its job ----

OF_THE_JOB = [(e, k) for _, e, k in BAD if [f.kind for f in job_completed(e)] == [k]]
OF_THE_PLACE = [(name, e, kind) for name, e, kind in BAD if not list(job_completed(e))]


@pytest.mark.parametrize("state", ["TIMEOUT", "NODE_FAIL", "CANCELLED by alice", "FAILED", None])
def test_how_its_job_ended_says_nothing_of_a_place_that_ended_before(state: str | None) -> None:
    assert failures(but(settled=True, job_state=state, job_exit_code=143)) == []


@pytest.mark.parametrize(
    ("evidence", "kind"), [pytest.param(e, kind, id=name) for name, e, kind in OF_THE_PLACE]
)
def test_that_it_ended_before_its_job_excuses_nothing_else(
    evidence: JobEvidence, kind: str
) -> None:
    assert kinds(dataclasses.replace(evidence, settled=True)) == [kind]


# ---- a sweep's job as a whole ----


def of_job(evidence: JobEvidence, began: bool = True) -> list[str]:
    return [failure.kind for failure in failures_of_job(evidence, began)]


def test_a_job_that_came_to_its_end_has_no_failure() -> None:
    assert of_job(GOOD) == []


@pytest.mark.parametrize(("evidence", "kind"), OF_THE_JOB)
def test_a_job_that_did_not_end_well_is_a_failure_of_the_whole(
    evidence: JobEvidence, kind: str
) -> None:
    assert of_job(evidence) == [kind]


def test_a_sweep_that_did_not_begin_is_a_failure_whatever_slurm_says() -> None:
    assert of_job(but(calls=()), began=False) == ["no-exit-line"]


@pytest.mark.parametrize(
    "changes",
    [
        {"job_error": NO_PYTHON, "job_state": "FAILED"},
        {"left_output": False},
    ],
)
def test_what_kept_a_sweep_from_its_begin_accuses_nobody(changes: dict[str, Any]) -> None:
    assert of_job(but(calls=(), **changes), began=False) == [ENVIRONMENT]


def test_words_of_a_sweep_that_began_are_no_reason_of_the_environment() -> None:
    assert of_job(but(calls=(), job_error=NO_PYTHON)) == []


# ---- what is said ----


def test_job_that_did_not_complete_is_told_with_state_and_nodes() -> None:
    failure = only_failure(but(job_state="NODE_FAIL", failed_nodes=("n2",)))
    assert "NODE_FAIL for the job on n[1-2]" in failure.message


def test_job_that_did_not_complete_is_followed_up_by_its_id() -> None:
    assert "sacct -j 17" in only_failure(but(job_state="TIMEOUT")).next_step


def test_what_a_job_that_ended_well_says_of_its_cluster_excuses_nothing() -> None:
    assert failures(but(job_error=NO_PYTHON)) == []
    slow = but(job_error=NO_PYTHON, job_state="TIMEOUT")
    assert kinds(slow) == ["job-state"]


def test_a_node_that_has_no_way_to_the_other_says_so() -> None:
    lost = {"route_unknown": "no route to host"}
    failure = only_failure(but(seen_on={**GOOD.seen_on, "n2": lost}))
    assert "mtu_bytes on n2 is not stated" in failure.message
    assert "no route to host" in failure.message


def test_a_tool_that_failed_is_told_with_its_own_words() -> None:
    evidence = but_call(1, exit_code=1)
    told = dataclasses.replace(evidence, tool_errors={"client": "iperf: connect failed: refused\n"})
    assert only_failure(told).message.endswith("exit code 1: iperf: connect failed: refused")


def test_rank_without_exit_line_is_named() -> None:
    assert "rank 2 of 3" in only_failure(but(ranks=3)).message


def test_node_without_exit_line_is_named() -> None:
    evidence = but(calls=GOOD.calls[:1])
    (silent,) = [failure for failure in failures(evidence) if failure.kind == "silent-node"]
    assert silent.nodes == ("n2",)


#: What srun printed of a rank that crashed on n2 (Slurm 24.11.5, a rehearsal of gb200-nvl72).
ABORTED = """\
srun: Job step aborted: Waiting up to 5 seconds for job step to finish.
slurmstepd-n1: error: *** STEP 3.0 ON n1 CANCELLED AT 2026-11-22T05:26:31 ***
srun: error: n1: tasks 0-3: Killed
srun: Terminating StepId=3.0
srun: error: n2: tasks 4-7: Killed
"""


def test_a_node_whose_ranks_the_launcher_ended_is_not_accused() -> None:
    crashed = dataclasses.replace(GOOD.calls[1], exit_code=-11)
    evidence = but(calls=(crashed,), job_state="FAILED", job_error=ABORTED)
    assert "silent-node" not in kinds(evidence) and "tool-failed" in kinds(evidence)
    assert not any("n1" in failure.nodes for failure in failures(evidence))


#: What srun of Slurm 26.05.5 printed in the lab where a rank on n1 had failed. Slurm sends SIGTERM
#: before SIGKILL, at which a rank of ours ends with 143.
TERMINATED = """\
srun: error: n1: task 0: Exited with exit code 1
srun: Terminating StepId=5.0
srun: error: n4: task 3: Terminated
srun: error: n2: task 2: Exited with exit code 143
srun: Force Terminated StepId=5.0
"""


@pytest.mark.parametrize(
    "line", ["n2: task 2: Exited with exit code 143", "n2: task 2: Terminated"]
)
def test_a_node_whose_rank_was_asked_to_end_is_not_accused(line: str) -> None:
    failed = dataclasses.replace(GOOD.calls[0], exit_code=1)
    words = TERMINATED.replace("n2: task 2: Exited with exit code 143", line)
    evidence = but(calls=(failed,), job_state="FAILED", job_error=words)
    assert "silent-node" not in kinds(evidence) and "tool-failed" in kinds(evidence)


@pytest.mark.parametrize(
    "words",
    [
        # It failed of itself, or first.
        TERMINATED.replace("task 2: Exited with exit code 143", "task 2: Exited with exit code 1"),
        TERMINATED.replace("exit code 143", "exit code 1430"),
        "srun: error: n2: task 2: Exited with exit code 143\nsrun: Terminating StepId=5.0\n",
    ],
)
def test_a_node_that_ended_before_or_otherwise_is_silent(words: str) -> None:
    failed = dataclasses.replace(GOOD.calls[0], exit_code=1)
    evidence = but(calls=(failed,), job_state="FAILED", job_error=words)
    assert "silent-node" in kinds(evidence)


def test_a_node_that_dies_of_itself_is_silent_whatever_srun_ends() -> None:
    # No other one's failure explains it, or it is not among those that were ended.
    assert "silent-node" in kinds(but(calls=GOOD.calls[1:], job_error=ABORTED))
    crashed = dataclasses.replace(GOOD.calls[1], exit_code=-11)
    others = ABORTED.replace("n1: tasks 0-3: Killed", "n3: tasks 0-3: Killed")
    assert "silent-node" in kinds(but(calls=(crashed,), job_error=others))


def test_both_ranks_on_one_node_leave_the_other_silent() -> None:
    assert kinds(but_call(1, host="n1")) == ["silent-node"]


def test_one_rank_of_two_that_left_nothing_is_a_failure_also_on_the_same_node() -> None:
    evidence = but(nodes=("n1",), calls=GOOD.calls[:1], seen_on={"n1": GOOD.seen_on["n1"]})
    assert kinds(evidence) == ["no-exit-line"]


def test_job_that_ran_elsewhere_names_both_places() -> None:
    evidence = but_call(1, host="n9")
    (wrong,) = [failure for failure in failures(evidence) if failure.kind == "wrong-node"]
    assert "n9" in wrong.message
    assert "n[1-2]" in wrong.message


@pytest.mark.parametrize("rank", [0, 1])
def test_failed_call_is_told_with_tool_and_host(rank: int) -> None:
    message = only_failure(but_call(rank, exit_code=3)).message
    assert f"on {NODES[rank]} ended with exit code 3" in message


def test_every_failed_call_is_told() -> None:
    calls = tuple(dataclasses.replace(call, exit_code=1) for call in GOOD.calls)
    assert kinds(but(calls=calls)) == ["tool-failed"] * 2


def test_the_tools_own_reason_is_told() -> None:
    reading = Reading.invalid("connect failed: Connection refused")
    assert only_failure(but(reading=reading)).message == "connect failed: Connection refused"


def test_other_mtu_points_at_the_node_and_its_device() -> None:
    wrong = {"mtu_bytes": 1500, "device": "eth0"}
    failure = only_failure(but(seen_on={**GOOD.seen_on, "n2": wrong}))
    assert failure.nodes == ("n2",)
    assert failure.message == "mtu_bytes on n2 eth0 is 1500, expected 4200"


def test_missing_metrics_are_all_named() -> None:
    message = only_failure(but(required=("bandwidth", "latency", "startup"))).message
    assert message == "not measured: latency, startup"


def test_only_what_was_measured_twice_is_named() -> None:
    evidence = but_reading(measurements=(*READING.measurements, READING.measurements[0]))
    assert only_failure(evidence).message == "measured more than once: bandwidth"


def test_number_above_the_limit_is_told_with_the_limit() -> None:
    message = only_failure(but_bandwidth(value=19.0)).message
    assert "bandwidth is 19 Gb/s" in message
    assert LIMIT.reason in message


@pytest.mark.parametrize(("above", "said"), [(1.016, True), (1.3, False)])
def test_a_link_that_is_shaped_is_told_what_to_state(above: float, said: bool) -> None:
    step = only_failure(but_bandwidth(value=LIMIT.value * above)).next_step
    assert ("state a link_gbits in reframe.yaml that is 1.6 % higher" in step) == said
    assert "look for loopback" in step


def test_counter_over_its_budget_is_told_with_node_growth_and_reason() -> None:
    failure = only_failure(but(seen_on={**GOOD.seen_on, "n2": counted(7)}))
    assert failure.nodes == ("n2",)
    assert failure.message == (
        f"{SYMBOL_ERRORS} on n2 grew by 7 during the test, at most 2 expected: "
        "a dirty or bent cable"
    )


def test_every_counter_over_its_budget_is_told() -> None:
    assert kinds(but(seen_on={"n1": counted(3), "n2": counted(3)})) == ["counter"] * 2


def test_device_whose_counters_vanished_is_told_once_with_its_node() -> None:
    failure = only_failure(but_gone(SYMBOL_ERRORS, "rdma/mlx5_0/1/counters/link_downed"))
    assert failure.nodes == ("n2",)
    assert failure.message == "the counters of mlx5_0 (rdma) on n2 vanished during the test"


def test_every_device_whose_counters_vanished_is_told() -> None:
    lost = f"rdma/{SYMBOL_ERRORS.split('/')[1]}x/1/hw_counters/sent"
    assert kinds(but_gone(SYMBOL_ERRORS, lost)) == ["device-lost"] * 2


def test_interface_that_is_not_measured_may_vanish() -> None:
    assert kinds(but_gone("net/veth7/rx_bytes")) == []


def test_a_full_disk_is_told_with_its_node_and_folder() -> None:
    full = {**counted(0), "no_room": {"/tmp": 4096}}
    failure = only_failure(but(seen_on={**GOOD.seen_on, "n2": full}))
    assert failure.nodes == ("n2",)
    assert failure.message == "/tmp on n2 has 4 KiB free"


def test_nodes_that_failed_are_told_beside_the_jobs_state() -> None:
    failure = only_failure(but(job_state="NODE_FAIL", failed_nodes=("n2",)))
    assert failure.nodes == ("n2",)
    assert "n2 failed" in failure.message


def test_silent_peer_of_a_node_that_failed_is_not_pointed_at() -> None:
    evidence = but(job_state="NODE_FAIL", failed_nodes=("n2",), calls=())
    (silent,) = [failure for failure in failures(evidence) if failure.kind == "silent-node"]
    assert silent.nodes == ("n2",)


def test_last_words_of_the_job_are_told() -> None:
    evidence = but(job_state="FAILED", job_error="slurmstepd: out of memory")
    assert "it says: slurmstepd: out of memory" in only_failure(evidence).message


def test_missing_reference_leads_to_a_baseline() -> None:
    failure = only_failure(but(references={"bandwidth": reference("Gb/s")}))
    assert "retransmits" in failure.message
    assert "baseline" in failure.next_step


# ---- a job that was disturbed ----

LAUNCH_FAILED = """\
srun: error: Task launch for StepId=5.0 failed on node n2: Communication connection failure
srun: error: Application launch failed: Communication connection failure
srun: Job step aborted: Waiting up to 5 seconds for job step to finish.
slurmstepd-n1: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-21T23:46:50 ***
srun: error: n1: task 0: Killed
"""
CONTROLLER_SILENT = """\
srun: error: Unable to create step for job 20: Socket timed out on send/recv operation
"""


def test_what_follows_from_a_cancelled_job_is_no_failure_of_its_nodes() -> None:
    evidence = but(job_state="CANCELLED by alice", calls=(), reading=None)
    failure = only_failure(evidence)
    assert (failure.kind, failure.nodes) == (DISTURBED, ())
    assert "CANCELLED by alice" in failure.message


def test_a_node_failure_without_a_node_that_failed_accuses_none() -> None:
    """Missing output of a job that the controller ended is no silence of its nodes."""
    failure = only_failure(but(job_state="NODE_FAIL", calls=(), reading=None))
    assert (failure.kind, failure.nodes) == (DISTURBED, ())
    assert "it names no node that failed" in failure.message


def test_a_node_failure_of_a_sweep_is_one_of_its_host() -> None:
    """Its places speak for themselves."""
    assert of_job(but(job_state="NODE_FAIL", ranks=0)) == ["job-state"]


def test_a_node_that_failed_is_accused_alone() -> None:
    failed = but(job_state="NODE_FAIL", failed_nodes=("n2",), calls=(), reading=None)
    assert {failure.nodes for failure in failures(failed)} - {()} == {("n2",)}


def test_what_the_check_itself_found_in_a_cancelled_job_follows_from_it_too() -> None:
    told = Failure("scratch-left", "files were left on n1", ("n1",))
    (failure,) = failures(but(job_state="CANCELLED"), [told])
    assert failure.kind == DISTURBED


def with_clock(**clock: float) -> JobEvidence:
    return but(seen_on={**GOOD.seen_on, "n2": {**GOOD.seen_on["n2"], "clock": clock}})


@pytest.mark.parametrize(("moved_s", "watched_s"), [(30.0, 8.0), (-1.0, 8.0), (0.2, 8.0)])
def test_what_was_measured_by_a_clock_that_was_set_says_nothing(
    moved_s: float, watched_s: float
) -> None:
    failure = only_failure(with_clock(moved_s=moved_s, watched_s=watched_s))
    assert (failure.kind, failure.nodes) == (DISTURBED, ("n2",))
    assert f"n2 was set by {moved_s:+.2f} s" in failure.message


@pytest.mark.parametrize(("moved_s", "watched_s"), [(0.0, 8.0), (0.04, 8.0), (-0.9, 120.0)])
def test_a_clock_that_ntp_lets_run_a_little_faster_is_left_alone(
    moved_s: float, watched_s: float
) -> None:
    assert failures(with_clock(moved_s=moved_s, watched_s=watched_s)) == []


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT"])
@pytest.mark.parametrize(
    "words",
    [
        "Unable to create step for job 20: Socket timed out on send/recv operation",
        "Slurm job 20 has expired",
        "Unable to confirm allocation for job 20: Invalid job id specified",
        "Unable to contact slurm controller (connect failure)",
    ],
)
def test_a_job_that_the_controller_did_not_start_is_not_its_nodes_fault(
    state: str, words: str
) -> None:
    error = f"srun: error: {words}\n"
    failure = only_failure(but(job_state=state, calls=(), reading=None, job_error=error))
    assert (failure.kind, failure.nodes) == (DISTURBED, ())
    assert words in failure.message


def test_a_tool_that_fails_while_the_controller_is_silent_has_failed() -> None:
    assert kinds(but(job_state="FAILED", job_error=CONTROLLER_SILENT)) == ["job-state"]


def test_a_node_that_srun_does_not_reach_is_told_instead_of_all_that_are_silent() -> None:
    evidence = but(job_state="FAILED", calls=(), reading=None, job_error=LAUNCH_FAILED)
    (unreached,) = [f for f in failures(evidence) if f.nodes]
    assert (unreached.kind, unreached.nodes) == ("launch-failed", ("n2",))
    assert "n2: Communication connection failure" in unreached.message


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        (LAUNCH_FAILED, "Task launch for StepId=5.0 failed on node n2"),
        ("slurmstepd: error: out of memory\nsrun: error: n1: task 0: Killed\n", "out of memory"),
        ("bash: x: No space left on device\nsrun: error: ended\n", "No space left"),
        ("srun: error: n1: task 0: Killed\n", "Killed"),
        ("one\n\0\n two \n\n", "two"),
        ("", ""),
    ],
)
def test_the_line_that_says_why_is_quoted(stderr: str, line: str) -> None:
    found = ends.quoted(stderr)
    assert line in found and "\n" not in found


# ---- what is no failure ----


def test_without_references_a_baseline_is_recorded() -> None:
    assert failures(but(references={}, acceptance=False)) == []


def test_number_without_a_limit_passes() -> None:
    assert failures(but(limits={})) == []


def test_number_just_at_the_limit_passes() -> None:
    assert failures(but_bandwidth(value=LIMIT.value)) == []


def test_refused_output_is_not_told_again_as_missing_numbers() -> None:
    assert kinds(but(reading=Reading.invalid("cut short"))) == ["output"]


def test_recorded_number_needs_no_reference() -> None:
    only_bandwidth = {"bandwidth": reference("Gb/s")}
    assert failures(but(references=only_bandwidth, recorded=frozenset({"retransmits"}))) == []


def test_recorded_number_may_have_a_reference() -> None:
    assert failures(but(recorded=frozenset({"retransmits"}))) == []


def test_baseline_may_be_of_recorded_numbers_only() -> None:
    assert failures(but(recorded=frozenset(GOOD.required), acceptance=False)) == []


@pytest.mark.parametrize(("growth", "kinds_of_failure"), [(9, []), (10, ["counter"])])
def test_first_budget_that_matches_the_whole_name_counts(
    growth: int, kinds_of_failure: list[str]
) -> None:
    facts = counted(growth, "rdma/mlx5_0/1/hw_counters/symbol_errors")
    assert kinds(but(seen_on={**GOOD.seen_on, "n2": facts})) == kinds_of_failure


@pytest.mark.parametrize(
    ("counter", "nodes"), [("symbol_errors", ("n2",)), ("out_of_sequence", ())]
)
def test_a_counter_of_both_ends_accuses_neither_alone(counter: str, nodes: tuple[str, ...]) -> None:
    budget = GOOD.budgets[0].model_copy(update={"counters": "rdma/.*", "max": 0})
    facts = counted(3, f"rdma/mlx5_0/1/hw_counters/{counter}")
    evidence = but(seen_on={**GOOD.seen_on, "n2": facts}, budgets=(budget,))
    assert [failure.nodes for failure in failures(evidence)] == [nodes]


def test_of_more_than_two_nodes_such_a_counter_tells_one_from_another() -> None:
    budget = GOOD.budgets[0].model_copy(update={"counters": "rdma/.*", "max": 0})
    facts = counted(3, "rdma/mlx5_0/1/hw_counters/out_of_sequence")
    evidence = but(seen_on={**GOOD.seen_on, "n2": facts, "n3": {}}, budgets=(budget,))
    assert ("n2",) in [failure.nodes for failure in failures(evidence)]


def test_counter_without_a_budget_may_grow() -> None:
    facts = counted(10**9, "net/eth0/rx_bytes")
    assert failures(but(seen_on={**GOOD.seen_on, "n2": facts})) == []


def test_without_budgets_no_counter_is_judged() -> None:
    assert failures(but(budgets=(), seen_on={"n1": counted(10**9), "n2": counted(0)})) == []


# ---- conditions that nobody states ----


@pytest.mark.parametrize(
    ("seen_on", "nodes"),
    [({}, [("n1",), ("n2",)]), ({"n1": GOOD.seen_on["n1"]}, [("n2",)])],
    ids=["none", "one-node"],
)
def test_node_that_states_nothing_does_not_meet_what_is_expected_of_it(
    seen_on: Any, nodes: list[tuple[str, ...]]
) -> None:
    found = failures(but(seen_on=seen_on))
    assert [(failure.kind, failure.nodes) for failure in found] == [("condition", n) for n in nodes]


def test_node_without_an_exit_line_is_not_asked_for_its_conditions() -> None:
    evidence = but(calls=GOOD.calls[:1], seen_on={"n1": GOOD.seen_on["n1"]})
    assert kinds(evidence) == ["no-exit-line", "silent-node"]


# ---- all of it at random ----

Worse = Callable[[st.DataObject], JobEvidence]


def _any_call(**changes: st.SearchStrategy[Any]) -> Worse:
    def worse(data: st.DataObject) -> JobEvidence:
        drawn = {name: data.draw(values) for name, values in changes.items()}
        return but_call(data.draw(st.sampled_from([0, 1])), **drawn)

    return worse


def _field(**changes: st.SearchStrategy[Any]) -> Worse:
    return lambda data: but(**{name: data.draw(values) for name, values in changes.items()})


def _reading(**changes: st.SearchStrategy[Any]) -> Worse:
    return lambda data: but_reading(**{name: data.draw(values) for name, values in changes.items()})


NONZERO = st.integers(-255, 255).filter(bool)
NODE_NAMES = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True).filter(lambda n: n not in NODES)

WORSE: dict[str, Worse] = {
    "job_state": _field(job_state=st.none() | st.text().filter(lambda s: s != "COMPLETED")),
    "job_exit_code": _field(job_exit_code=st.none() | NONZERO),
    "missing_program": _field(missing_program=st.just(MISSING)),
    "nodes": _field(nodes=NODE_NAMES.map(lambda name: (*NODES, name)) | st.just(NODES[:1])),
    "other nodes": _field(nodes=st.lists(NODE_NAMES, max_size=3).map(tuple)),
    "ranks": _field(ranks=st.integers(3, 9)),
    "calls": _field(calls=st.sampled_from([(), GOOD.calls[:1], GOOD.calls[1:]])),
    "call.rank": _any_call(rank=st.integers(2, 9)),
    "call.host": _any_call(host=NODE_NAMES),
    "call.exit_code": _any_call(exit_code=st.none() | NONZERO),
    "call.note": _any_call(note=st.text(min_size=1)),
    "reading": _field(reading=st.none() | st.builds(Reading.invalid, st.text())),
    "reading.ok": _reading(ok=st.just(False)),
    "reading.simulated": _reading(simulated=st.just(True)),
    "reading.completeness": _reading(
        completeness=st.sampled_from([Completeness.UNKNOWN, Completeness.BROKEN])
    ),
    "reading.measurements": _reading(
        measurements=st.sampled_from(
            [(), READING.measurements[:1], READING.measurements[1:], READING.measurements * 2]
        )
    ),
    "reading.seen": _reading(
        seen=st.just({})
        | st.fixed_dictionaries({"streams": st.integers().filter(lambda n: n != 4) | st.none()})
    ),
    "expected": _field(
        expected=st.integers(5, 99).map(lambda n: {"streams": n})
        | st.text(min_size=1).filter(lambda s: s not in READING.seen).map(lambda s: {s: 1})
    ),
    "expected_on": _field(expected_on=st.integers(0, 4199).map(lambda n: {"mtu_bytes": n})),
    "seen_on": _field(
        seen_on=st.integers(0, 4199).map(lambda n: {**GOOD.seen_on, "n1": {"mtu_bytes": n}})
    ),
    "counters": _field(
        seen_on=st.integers(3, 10**15).map(lambda n: {**GOOD.seen_on, "n1": counted(n)})
    ),
    "counters gone": lambda data: but_gone(
        *data.draw(st.lists(st.sampled_from([SYMBOL_ERRORS]), min_size=1))
    ),
    "claims": lambda data: but_claim(eth0=data.draw(st.integers(0, 3_400_000_000))),
    "counted": _field(counted=st.just(True)),
    "budgets": _field(
        budgets=st.integers(0, 1).map(
            lambda most: (BUDGETS[0].model_copy(update={"max": most}), *BUDGETS[1:])
        )
    ),
    "recorded": _field(
        recorded=st.frozensets(st.text()).map(lambda names: names | frozenset(GOOD.required))
    ),
    "required": _field(required=st.text(min_size=1).map(lambda s: ("bandwidth", f"{s}_9B"))),
    "limits": _field(
        limits=st.floats(0.01, 9.4).map(
            lambda value: {"bandwidth": dataclasses.replace(LIMIT, value=value)}
        )
        | st.text()
        .filter(lambda unit: unit != LIMIT.unit)
        .map(lambda unit: {"bandwidth": dataclasses.replace(LIMIT, unit=unit)})
    ),
    "references": _field(references=st.sampled_from([{}, {"bandwidth": reference("Gb/s")}])),
    "bandwidth": lambda data: but_bandwidth(value=data.draw(st.floats(9.9, 1e9))),
}


@pytest.mark.parametrize("field", WORSE)
@given(data=st.data())
def test_any_one_field_made_worse_is_a_failure(field: str, data: st.DataObject) -> None:
    assert failures(WORSE[field](data))


def test_every_field_that_is_judged_is_made_worse_above() -> None:
    # Four are only told; `acceptance` made False is a baseline, and a rehearsal accepts nothing.
    # `optional` excuses a missing program alone, and `settled` how the job ended.
    judged = {field.name for field in dataclasses.fields(JobEvidence)} - {
        "job_id",
        "job_error",
        "tool_errors",
        # Missing, it says why there is no exit line, where there is none.
        "left_output",
        "failed_nodes",
        "acceptance",
        "rehearsal",
        "optional",
        "settled",
    }
    assert judged <= set(WORSE)
