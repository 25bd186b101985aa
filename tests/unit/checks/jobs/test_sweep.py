"""A check that measures many places in one job: each is judged by itself, and none is forgotten."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from reframe.core.builtins import parameter
from reframe.core.exceptions import SkipTestError

from railgauge import paths
from railgauge.campaign import variables
from railgauge.campaign.folder import BEFORE, RESULT_FILE
from railgauge.checks.framework import slurm_queue, subnet_reading, topology
from railgauge.checks.framework.cases import Case, Places, SettingCase, SweepCase
from railgauge.checks.framework.observation import Observation
from railgauge.checks.framework.place_run import BoundBefore
from railgauge.checks.jobs import sweep
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.jobs.sweep_run import AgentRun, SweepPlace
from railgauge.fabric.static_routes import StaticRoutes
from railgauge.lab.subnet_topology import leaf_spine
from railgauge.model.failure import (
    DISTURBED,
    ENVIRONMENT,
    LOST,
    TAKEN,
    UNAVAILABLE,
    UNREACHED,
    Failure,
)
from railgauge.model.leaves import Leaves
from railgauge.model.measurement import Measurement
from railgauge.model.record import PartitionRoutes, Record, read_record
from railgauge.model.references import Provenance, Reference
from railgauge.model.routes import Route
from railgauge.node.orchestration import sweep_file as node_sweep
from railgauge.node.orders.places import ClientServerOrder
from railgauge.node.transport import results_file
from railgauge.slurm import jobs as slurm_jobs
from railgauge.tools import Completeness, Reading
from tests.unit.checks import ended_jobs
from tests.unit.fabric.planted import fabric

ENDS = (("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n1"))
RING = tuple(SettingCase("ns", *ends, "default") for ends in ENDS)
NAMES = [place.place for place in RING]
FIRST, SECOND, THIRD, FOURTH = NAMES
#: n2 is in the first two
WITHOUT_N2 = NAMES[2:]

REFERENCE = Reference(
    value=9.0,
    lower=-0.1,
    unit="Gb/s",
    kind="baseline",
    provenance=Provenance(source="a test", date=datetime.date(2026, 11, 22)),
)


#: The longest that the tool may take, in s.
LONGEST_S = 80


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinyRun(AgentRun):
    """The run of that tool between two nodes."""

    runner: str = "client_server"
    expected_run_s: float = 2

    @property
    def longest_run_s(self) -> float:
        return LONGEST_S

    @property
    def nodes(self) -> Mapping[str, str]:
        return dict(zip(("server", "client"), self.place.nodes, strict=True))

    def order(self, bound: BoundBefore) -> ClientServerOrder:
        argv = ("tiny", str(self.place.setting))  # type: ignore[attr-defined] # a SettingCase
        return ClientServerOrder(30, 30, (), server=argv, client=argv, version=("tiny", "-v"))

    def observe(self, left: SweepPlace, bound: BoundBefore) -> Observation:
        lines = [line for role in ("server", "client") if (line := left.exit_line(role))]
        calls = [line.call for line in lines]
        measured = Measurement("bandwidth", float(left.text("client.out")), "tiny", "tcp", "tcp")
        return Observation(
            Reading(True, "one number", Completeness.PROVED, (measured,)),
            calls,
            {line.call.host: line.facts for line in lines},
        )


class Tiny(SweepCheck):
    """One number from the client's output, of a tool without any trouble of its own."""

    sweep = parameter([SweepCase("ns", Places(RING), possible=len(RING))])
    tool = SimpleNamespace(TOOL="tiny")
    metrics = ["bandwidth"]
    #: place -> the places of the check `Before` that it needs
    needed: ClassVar[Mapping[str, Sequence[str]]] = {}
    bound: ClassVar[Reference | None] = REFERENCE

    def needs(self, place):  # type: ignore[no-untyped-def]
        return [("Before", name) for name in self.needed.get(place.place, ())]

    def run_at(self, place, partition):  # type: ignore[no-untyped-def]
        return TinyRun(place=place, partition=partition, describe=lambda measurement: self.bound)


@pytest.fixture(scope="module", autouse=True)
def _of_the_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with ended_jobs.runtime("lab", tmp_path_factory.mktemp("results")):
        yield


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> dict[str, Failure]:
    """Nodes that take no job, by name; none until a test adds some."""
    nodes: dict[str, Failure] = {}
    monkeypatch.setattr(
        slurm_queue.session,
        "takes_no_job",
        lambda asked: {node: why for node, why in nodes.items() if node in asked},
    )
    return nodes


@pytest.fixture
def check(tmp_path: Path, absent: dict[str, Failure]) -> Any:
    """A check whose job has completed, and has left nothing yet."""
    return ended_jobs.ended(Tiny(variant_num=0), tmp_path / "stage")


def drained(node: str) -> Failure:
    return Failure(DISTURBED, f"not measured: {node} drained by alice", (node,))


def sides(place: Case, value: float | str = 9.2) -> dict[str, results_file.Side]:
    return {
        role: ended_jobs.side(ended_jobs.exit_line("tiny", role, node, rank), str(value))
        for rank, (role, node) in enumerate(zip(("server", "client"), place.nodes, strict=True))
    }


def good(check: Any) -> ended_jobs.Left:
    """All that a check's job leaves where all goes well; its places are chosen with that."""
    check.select_places()
    names = {place["name"] for place in check.orders().document()["places"]}
    left = {place.place: sides(place) for place in check.places if place.place in names}
    return ended_jobs.Left(left, dict.fromkeys(left, ended_jobs.DONE))


def record(check: Any) -> Record:
    found = read_record(Path(check.stagedir, RESULT_FILE))
    assert found is not None
    return found


def bad(check: Any) -> dict[str, list[str]]:
    """The places with failures, and their kinds."""
    kinds = {j.place.place: [failure.kind for failure in j.failures] for j in check.results}
    return {place: found for place, found in kinds.items() if found}


def passed(check: Any) -> list[str]:
    return [judged.place.place for judged in check.results if judged.passed]


# ---- what is ordered ----


def test_the_conductor_is_told_every_place_with_its_round(check: Any, tmp_path: Path) -> None:
    check.select_places()
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(check.orders().document()))
    ordered = node_sweep.read(path)
    names = [[ordered.places[n].name for n in numbers] for numbers in ordered.rounds]
    assert names == [[FIRST, THIRD], [SECOND, FOURTH]]
    assert ordered.nodes == ("n1", "n2", "n3", "n4")
    assert ordered.places[0].roles == {"server": "n1", "client": "n2"}


def test_what_is_the_same_of_many_places_is_told_once(check: Any) -> None:
    check.select_places()
    orders = check.orders().document()
    assert len(orders["orders"]) == 1
    assert {place["order"] for place in orders["places"]} == {0}


def test_conditions_have_orders_and_rounds_of_their_own(check: Any) -> None:
    tuned = tuple(SettingCase("ns", *ends, "tuned") for ends in ENDS)
    check.sweep = SweepCase("ns", Places((*RING, *tuned)))
    check.select_places()
    orders = check.orders().document()
    assert [order["client"] for order in orders["orders"]] == [
        ["tiny", "default"],
        ["tiny", "tuned"],
    ]
    assert [len(numbers) for numbers in orders["rounds"]] == [2, 2, 2, 2]
    assert check.planned_rounds == 4


def test_a_sweeps_job_has_time_for_rounds_and_not_for_places(check: Any) -> None:
    check.select_places()
    limit_s = check.time_limit
    assert check.longest_seconds <= limit_s
    assert 2 * LONGEST_S < limit_s < len(RING) * LONGEST_S + 180


# ---- what becomes of a place ----


def test_places_that_are_all_good_are_a_pass(check: Any) -> None:
    good(check).write(check)
    assert ended_jobs.judge(check) == ""
    assert sorted(passed(check)) == sorted(NAMES)
    written = record(check)
    assert sorted(result.place for result in written.results) == sorted(NAMES)
    assert (written.not_run, written.failures) == ({}, ())


def test_every_place_has_its_own_nodes_and_numbers(check: Any) -> None:
    left = good(check)
    for number, place in enumerate(RING):
        left.sides[place.place] = sides(place, 9 + number / 10)
    left.write(check)
    ended_jobs.judge(check)
    results = sorted(record(check).results, key=lambda result: NAMES.index(result.place))
    assert [result.nodes for result in results] == list(ENDS)
    measured = [row.measurement for result in results for row in result.rows]
    assert [(m.value, m.nodes) for m in measured] == [
        (9 + number / 10, ends) for number, ends in enumerate(ENDS)
    ]


def test_a_bad_place_fails_alone_and_names_itself(check: Any) -> None:
    left = good(check)
    left.sides[SECOND]["client"].line["call"]["exit_code"] = 1
    left.write(check)
    assert ended_jobs.judge(check).startswith(
        f"{SECOND}: tiny (client) on n3 ended with exit code 1"
    )
    assert bad(check) == {SECOND: ["tool-failed"]}
    assert set(passed(check)) == {FIRST, THIRD, FOURTH}


def test_a_place_that_is_out_of_its_reference_fails_alone(check: Any) -> None:
    left = good(check)
    left.sides[THIRD] = sides(RING[2], 4.0)
    left.write(check)
    ended_jobs.judge(check)
    assert set(passed(check)) == {FIRST, SECOND, FOURTH}


@pytest.mark.parametrize(
    ("gone", "kinds"),
    [
        (("client",), {"output", "no-exit-line", "silent-node", "no-output"}),
        (("server",), {"no-exit-line", "silent-node"}),
        (("server", "client"), {"output", "no-exit-line", "silent-node", "no-output"}),
    ],
)
def test_a_place_without_a_side_fails_alone_though_it_is_done(
    check: Any, gone: Sequence[str], kinds: set[str]
) -> None:
    left = good(check)
    for role in gone:
        del left.sides[SECOND][role]
    left.write(check)
    ended_jobs.judge(check)
    assert {place: set(found) for place, found in bad(check).items()} == {SECOND: kinds}


def test_a_side_that_is_no_exit_line_fails_its_place_alone(check: Any) -> None:
    left = good(check)
    left.sides[SECOND]["client"].line["call"] = {"tool": "tiny"}
    left.write(check)
    assert "client of n2:n3:default: not an exit line" in ended_jobs.judge(check)
    assert set(bad(check)) == {SECOND}


def test_output_that_cannot_be_read_fails_its_place_alone(check: Any) -> None:
    left = good(check)
    left.sides[SECOND] = sides(RING[1], "Connection refused")
    left.write(check)
    ended_jobs.judge(check)
    assert {place: kinds[0] for place, kinds in bad(check).items()} == {SECOND: "output"}


def test_a_place_that_was_late_fails_whatever_it_printed(check: Any) -> None:
    left = good(check)
    left.outcomes[SECOND] = ("late", "not ended after 90 s: client on n3")
    left.write(check)
    assert "late: not ended after 90 s: client on n3" in ended_jobs.judge(check)
    assert bad(check) == {SECOND: ["late"]}


def lost(check: Any, *joined: str) -> ended_jobs.Left:
    """What is left where n3 was lost before its first place."""
    left = good(check)
    left.joined, left.lost = joined, {"n3": "its agent has gone"}
    for name in (SECOND, THIRD):
        left.outcomes[name], left.sides[name] = ("lost", "n3: its agent has gone"), {}
    return left


@pytest.mark.parametrize(
    ("joined", "kind"), [(("n1", "n2", "n3", "n4"), LOST), (("n1", "n2", "n4"), "silent-node")]
)
def test_a_node_that_was_lost_is_named_by_its_first_place(
    check: Any, joined: Sequence[str], kind: str
) -> None:
    lost(check, *joined).write(check)
    ended_jobs.judge(check)
    found = {j.place.place: [(f.kind, f.nodes) for f in j.failures] for j in check.results}
    assert found == {THIRD: [(kind, ("n3",))], FIRST: [], FOURTH: []}


CONNECTION_ENDED = "its connection ended: [Errno 104] Connection reset by peer"


@pytest.mark.parametrize(
    ("why", "agent", "dead", "expected"),
    [
        (CONNECTION_ENDED, CONNECTION_ENDED, [], (UNREACHED, ("n1", "n3"))),
        ("did not answer within 20 s", "its connection ended", [], (UNREACHED, ("n1", "n3"))),
        (CONNECTION_ENDED, CONNECTION_ENDED, ["n3"], (LOST, ("n3",))),
        (CONNECTION_ENDED, "", [], (LOST, ("n3",))),
        ("it sent what is no message", CONNECTION_ENDED, [], (LOST, ("n3",))),
    ],
)
def test_an_agent_that_lost_the_conductor_speaks_against_the_path_between_them(
    check: Any,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
    agent: str,
    dead: list[str],
    expected: tuple[str, tuple[str, ...]],
) -> None:
    """Seen behind a lossy uplink: the node of an agent that was killed, or does not answer Slurm
    either, is named; that of one that was there is not.
    """
    monkeypatch.setattr(sweep.slurm_nodes, "dead", lambda _: dead)
    left = lost(check, "n1", "n2", "n3", "n4")
    left.lost["n3"] = why
    left.write(check)
    if agent:
        Path(check.stagedir, "rfm_job.err").write_text(
            f"agent on n3: {agent}\nsrun: error: n3: task 2: Exited with exit code 1\n"
        )
    ended_jobs.judge(check)
    (failure,) = [f for judged in check.results for f in judged.failures]
    assert (failure.kind, failure.nodes) == expected


def test_a_node_that_was_lost_leaves_out_its_other_places(check: Any) -> None:
    lost(check, "n1", "n2", "n3", "n4").write(check)
    ended_jobs.judge(check)
    assert record(check).not_run == {SECOND: "n3: its agent has gone"}
    assert set(passed(check)) == {FIRST, FOURTH}


def test_a_node_whose_step_somebody_ended_is_not_accused(check: Any) -> None:
    left = lost(check, "n1", "n2", "n3", "n4")
    left.lost["n3"] = results_file.TERMINATED
    left.write(check)
    ended_jobs.judge(check)
    assert bad(check) == {THIRD: [DISTURBED]}


def test_nobody_is_accused_where_no_agent_at_all_came(check: Any) -> None:
    """Not even the conductor's own: srun hung, as behind a lossy uplink that its launch crosses."""
    left = good(check)
    left.joined = ()
    left.lost = dict.fromkeys(("n1", "n2", "n3", "n4"), "its agent did not connect within 60 s")
    for name in left.outcomes:
        left.outcomes[name], left.sides[name] = ("lost", "its agent did not connect"), {}
    left.write(check)
    ended_jobs.judge(check)
    failures = [failure for judged in check.results for failure in judged.failures]
    assert failures and {failure.kind for failure in failures} == {DISTURBED}
    assert passed(check) == []


def test_nobody_is_lost_where_srun_ended_all_agents_as_it_did_not_reach_another(check: Any) -> None:
    """It says so once the rounds have begun, where its own time is longer than the conductor's."""
    left = good(check)
    left.joined = ("n1", "n2", "n3")
    left.lost = {**dict.fromkeys(left.joined, "its agent has gone"), "n4": "it did not come"}
    for name in left.outcomes:
        left.outcomes[name], left.sides[name] = ("lost", "its agents have gone"), {}
    left.write(check)
    why = "Task launch for StepId=1.0 failed on node n4: Communication connection failure"
    Path(check.stagedir, "rfm_job.err").write_text(f"srun: error: {why}\n")
    ended_jobs.judge(check)
    named = {n for j in check.results for f in j.failures if f.kind == LOST for n in f.nodes}
    assert named == set() and passed(check) == []


@pytest.mark.parametrize(("state", "end"), [("TIMEOUT", None), ("COMPLETED", "SIGTERM")])
def test_nobody_is_lost_where_the_job_was_ended(check: Any, state: str, end: str | None) -> None:
    """Its agents were ended with it."""
    check._job.state = state
    left = lost(check, "n1", "n2", "n3", "n4")
    left.end = end
    left.write(check)
    assert ended_jobs.judge(check) != ""
    assert bad(check) == {}
    assert set(record(check).not_run) == {SECOND, THIRD}


def test_a_place_that_was_lost_with_no_node_is_no_pass(check: Any) -> None:
    left = good(check)
    left.outcomes[SECOND] = ("lost", "nobody knows")
    left.write(check)
    assert ended_jobs.judge(check) != ""
    # A side of it was killed, as by the kernel that runs out of memory: that speaks against it.
    assert bad(check) == {SECOND: ["late"]}


def test_a_place_that_was_refused_is_not_run_and_no_pass(check: Any) -> None:
    left = good(check)
    left.outcomes[SECOND] = ("refused", "n3: no such program")
    left.write(check)
    assert ended_jobs.judge(check) == "1 places not measured: n3: no such program"
    assert record(check).not_run == {SECOND: "n3: no such program"}
    assert set(passed(check)) == {FIRST, THIRD, FOURTH}


def test_a_place_of_which_nothing_was_recorded_is_not_run_and_no_pass(check: Any) -> None:
    left = good(check)
    del left.sides[SECOND], left.outcomes[SECOND]
    left.write(check)
    assert "1 places not measured: its job ended before it" in ended_jobs.judge(check)
    assert set(record(check).not_run) == {SECOND}


def test_sides_without_the_end_of_their_place_are_no_result(check: Any) -> None:
    left = good(check)
    del left.outcomes[SECOND]
    left.write(check)
    assert ended_jobs.judge(check) != ""
    assert set(record(check).not_run) == {SECOND}
    assert SECOND not in passed(check)


def test_a_place_is_settled_by_its_own_end_alone(check: Any) -> None:
    left = good(check)
    del left.outcomes[SECOND]
    left.write(check)
    ended_jobs.judge(check)
    settled = {}
    for place in RING:
        with check.at(place):
            settled[place.place] = check.is_settled()
    assert settled == {FIRST: True, SECOND: False, THIRD: True, FOURTH: True}


# ---- what becomes of the job ----


def test_what_was_measured_counts_where_the_job_broke_off(check: Any) -> None:
    check._job.state = "TIMEOUT"
    left = good(check)
    for name in (SECOND, FOURTH):
        del left.sides[name], left.outcomes[name]
    left.end = None
    left.write(check)
    assert "TIMEOUT" in ended_jobs.judge(check)
    assert set(passed(check)) == {FIRST, THIRD}
    written = record(check)
    assert [failure.kind for failure in written.failures] == ["job-state"]
    assert set(written.not_run) == {SECOND, FOURTH}


def test_a_job_that_did_not_complete_is_no_pass_though_all_places_are(check: Any) -> None:
    check._job.state = "NODE_FAIL"
    good(check).write(check)
    assert "NODE_FAIL" in ended_jobs.judge(check)
    assert sorted(passed(check)) == sorted(NAMES)
    assert [failure.kind for failure in record(check).failures] == ["job-state"]


def test_of_a_job_that_lost_a_node_that_of_its_conductor_alone_is_named(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that goes on without the others accounting has named another: seen in the lab."""
    check._job.state = "NODE_FAIL"
    monkeypatch.setattr(sweep.slurm_nodes, "dead", list)
    monkeypatch.setattr(slurm_jobs, "failed_nodes", lambda *_: ("n1", "n4"))
    good(check).write(check)
    ended_jobs.judge(check)
    (failure,) = record(check).failures
    assert failure.nodes == ("n1",)


@pytest.mark.parametrize(
    ("end", "says"), [(None, "left no end"), ("SIGTERM", "SIGTERM")], ids=["none", "early"]
)
def test_a_conductor_that_did_not_come_to_its_end_is_no_pass(
    check: Any, end: str | None, says: str
) -> None:
    left = good(check)
    left.end = end
    left.write(check)
    assert says in ended_jobs.judge(check)
    assert [failure.kind for failure in record(check).failures] == ["no-exit-line"]


def test_the_conductors_node_alone_is_accused_where_it_went(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job was cancelled for that: what it had measured counts, the rest is to be measured."""
    check._job.state = "CANCELLED"
    gone = Failure(LOST, "n1: it ran the conductor", ("n1",))
    monkeypatch.setattr(slurm_queue.session, "lost_host", {check.job.jobid: gone}.get)
    left = good(check)
    del left.sides[SECOND], left.outcomes[SECOND]
    left.end = None
    left.write(check)
    assert "n1: it ran the conductor" in ended_jobs.judge(check)
    written = record(check)
    assert written.failures == (gone,)
    assert (bad(check), set(written.not_run)) == ({}, {SECOND})
    assert set(passed(check)) == {FIRST, THIRD, FOURTH}


def judge_without_n2(check: Any) -> None:
    """Where Slurm gave its job all nodes but n2."""
    left = good(check)
    left.lost = {"n2": results_file.NOT_OURS}
    for place in (FIRST, SECOND):
        del left.sides[place]
        left.outcomes[place] = ("lost", f"n2: {results_file.NOT_OURS}")
    left.write(check)
    ended_jobs.judge(check)


def test_a_node_that_the_job_did_not_get_is_somebody_elses_at_each_of_its_places(
    check: Any,
) -> None:
    judge_without_n2(check)
    assert bad(check) == {FIRST: [TAKEN], SECOND: [TAKEN]}
    assert set(passed(check)) == {THIRD, FOURTH} and not record(check).not_run


def test_a_node_that_its_job_was_made_to_do_without_fails_as_the_queue_says(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Failure(UNAVAILABLE, "n2 does not answer Slurm", ("n2",))
    monkeypatch.setattr(slurm_queue.session, "left_out", {check.job.name: {"n2": silent}}.get)
    judge_without_n2(check)
    assert bad(check) == {FIRST: [UNAVAILABLE], SECOND: [UNAVAILABLE]}
    assert set(passed(check)) == {THIRD, FOURTH}


@pytest.mark.parametrize(("state", "by_others"), [("PREEMPTED", True), ("FAILED", False)])
def test_what_failed_when_somebody_ended_its_job_accuses_nobody(
    check: Any, state: str, by_others: bool
) -> None:
    left = good(check)
    ended = left.sides[SECOND]["client"]
    line = {**ended.line, "call": {**ended.line["call"], "exit_code": -15}}
    left.sides[SECOND]["client"] = ended._replace(line=line)
    left.write(check)
    check._job.state = state
    ended_jobs.judge(check)
    found = bad(check)
    assert found.keys() == {SECOND}
    assert (found[SECOND] == [DISTURBED]) == by_others
    assert set(passed(check)) == {FIRST, THIRD, FOURTH}


def test_what_broke_off_in_the_middle_of_a_line_is_read_up_to_there(check: Any) -> None:
    good(check).write(check)
    file = Path(check.stagedir, results_file.FILE)
    file.write_bytes(file.read_bytes()[:-12])
    assert "left no end" in ended_jobs.judge(check)
    assert set(passed(check)) | set(record(check).not_run) == set(NAMES)


def test_a_conductor_that_never_began_leaves_every_place_not_run(check: Any) -> None:
    check._job.state, check._job.exitcode = "FAILED", 1
    check.select_places()
    assert "FAILED" in ended_jobs.judge(check)
    written = record(check)
    assert (set(written.not_run), written.results) == (set(NAMES), ())
    assert [failure.kind for failure in written.failures] == ["job-state"]


def test_a_conductor_that_never_began_is_no_pass_though_its_job_completed(check: Any) -> None:
    check.select_places()
    assert "the sweep did not begin" in ended_jobs.judge(check)
    assert [failure.kind for failure in record(check).failures] == ["no-exit-line"]


def test_a_node_that_does_not_see_the_results_area_is_not_accused(check: Any) -> None:
    check.select_places()
    Path(check.stagedir, "rfm_job.out").unlink()
    ended_jobs.judge(check)
    assert [failure.kind for failure in record(check).failures] == [ENVIRONMENT]


def test_a_file_that_is_damaged_leaves_a_record_that_says_so(check: Any) -> None:
    good(check).write(check)
    file = Path(check.stagedir, results_file.FILE)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(bytes(content))
    assert "damaged" in ended_jobs.judge(check)
    written = record(check)
    assert [failure.kind for failure in written.failures] == ["output"]
    assert (set(written.not_run), written.results) == (set(NAMES), ())


# ---- which places are measured ----


def before(
    check: Any, monkeypatch: pytest.MonkeyPatch, *passed: str, taken: Sequence[str] = ()
) -> None:
    """Every place needs what is before its nodes; that has passed on some of them, and others were
    somebody else's.
    """
    needed = {place.place: place.nodes for place in RING}
    monkeypatch.setattr(Tiny, "needed", needed)
    results = [
        SimpleNamespace(
            place=SimpleNamespace(place=node),
            satisfies=lambda stopped_by, node=node: node in passed,
            failures=[Failure(TAKEN, f"{node} busy", (node,))] if node in taken else [],
        )
        for node in ("n1", "n2", "n3", "n4")
    ]
    found = type("Before", (), {"results": results})()
    check.getdep = lambda name: {"Before": found}[name]


def test_what_its_places_need_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tiny, "needed", {SECOND: ["n2"], THIRD: ["n3"]})
    waits = Tiny(variant_num=0)
    assert [target for target, _ in waits.user_deps()] == ["Before"]


def test_an_unmet_precondition_leaves_out_the_places_alone_that_need_it(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(check, monkeypatch, "n1", "n3", "n4")
    good(check).write(check)
    assert ended_jobs.judge(check) == "2 places not measured: its precondition failed: Before n2"
    assert set(passed(check)) == set(WITHOUT_N2)
    assert set(record(check).not_run) == {FIRST, SECOND}
    assert check.pinned_nodes == ["n1", "n3", "n4"]
    assert check.num_tasks == 3


def test_a_precondition_that_was_not_measured_has_not_passed(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(check, monkeypatch, "n1", "n2", "n3", "n4")
    del check.getdep("Before").results[1]
    good(check)
    assert set(check.not_run) == {FIRST, SECOND}


def test_a_case_of_which_no_precondition_is_met_is_skipped(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(check, monkeypatch)
    with pytest.raises(SkipTestError, match="its precondition failed: Before n1; Before n2"):
        check.select_places()


def test_who_was_taken_before_is_so_to_all_that_needed_it(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(check, monkeypatch, "n1", "n3", "n4", taken=["n2"])
    good(check).write(check)
    ended_jobs.judge(check)
    assert bad(check) == {FIRST: [TAKEN], SECOND: [TAKEN]}
    assert set(passed(check)) == set(WITHOUT_N2) and not record(check).not_run
    assert check.pinned_nodes == ["n1", "n3", "n4"]


def test_where_of_each_place_somebody_was_taken_before_nothing_is_started(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(check, monkeypatch, "n1", "n3", taken=["n2", "n4"])
    with pytest.raises(SkipTestError, match="n2 busy"):
        check.select_places()


def test_a_taken_node_hides_no_failed_precondition(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(check, monkeypatch, "n1", "n3", taken=["n2"])
    with pytest.raises(SkipTestError, match="its precondition failed: Before n4"):
        check.select_places()
    assert set(check.not_run) == {THIRD, FOURTH}


def test_nodes_that_take_no_job_leave_out_their_places_alone(
    check: Any, absent: dict[str, Failure]
) -> None:
    absent["n2"] = drained("n2")
    good(check).write(check)
    assert "n2 drained by alice" in ended_jobs.judge(check)
    assert set(passed(check)) == set(WITHOUT_N2)
    assert bad(check) == {FIRST: [DISTURBED], SECOND: [DISTURBED]}
    assert check.pinned_nodes == ["n1", "n3", "n4"]
    results = {result.place: result for result in record(check).results}
    assert (results[FIRST].nodes, results[FIRST].rows) == (("n1", "n2"), ())


def test_a_node_that_does_not_answer_is_the_failure_of_its_places(
    check: Any, absent: dict[str, Failure]
) -> None:
    absent["n2"] = Failure(UNAVAILABLE, "n2 does not answer Slurm", ("n2",))
    good(check).write(check)
    ended_jobs.judge(check)
    assert bad(check) == {FIRST: [UNAVAILABLE], SECOND: [UNAVAILABLE]}


@pytest.mark.parametrize("nodes", [("n1", "n2", "n3", "n4"), ("n1", "n3"), ("n2", "n4")])
def test_a_job_of_which_nothing_is_left_is_left_to_the_queue(
    check: Any, absent: dict[str, Failure], nodes: Sequence[str]
) -> None:
    """It says why the job does not start; one without nodes would start anywhere."""
    absent.update({node: drained(node) for node in nodes})
    check.select_places()
    assert check.pinned_nodes == ["n1", "n2", "n3", "n4"]
    assert len(check.orders().document()["places"]) == len(NAMES)


def test_a_resumed_session_measures_the_missing_places_alone(check: Any) -> None:
    check.only = frozenset({SECOND})
    good(check).write(check)
    assert [place["name"] for place in check.orders().document()["places"]] == [SECOND]
    assert check.pinned_nodes == ["n2", "n3"]
    assert ended_jobs.judge(check) == ""
    written = record(check)
    assert ([result.place for result in written.results], written.not_run) == ([SECOND], {})


def test_a_resumed_session_says_nothing_of_places_that_it_does_not_measure(
    check: Any, absent: dict[str, Failure]
) -> None:
    """They have their results, also where their nodes take no job now."""
    absent["n2"] = drained("n2")
    check.only = frozenset({SECOND, THIRD})
    good(check).write(check)
    ended_jobs.judge(check)
    assert {result.place for result in record(check).results} == {SECOND, THIRD}


def test_a_place_is_left_out_for_one_reason(
    check: Any, monkeypatch: pytest.MonkeyPatch, absent: dict[str, Failure]
) -> None:
    before(check, monkeypatch, "n1", "n2", "n4")
    absent["n2"] = drained("n2")
    good(check).write(check)
    ended_jobs.judge(check)
    written = record(check)
    assert {result.place for result in written.results} == {FIRST, FOURTH}
    assert set(written.not_run) == {SECOND, THIRD}


def test_a_dry_run_asks_neither_slurm_nor_preconditions(
    check: Any, monkeypatch: pytest.MonkeyPatch, absent: dict[str, Failure]
) -> None:
    before(check, monkeypatch)
    absent["n2"] = drained("n2")
    check._rfm_dry_run = True
    check.select_places()
    assert len(check.orders().document()["places"]) == len(NAMES)


@pytest.mark.parametrize("strict", [True, False])
def test_that_a_system_is_strict_of_its_tools_is_in_the_record(
    check: Any, monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    data = check.partition_data
    extras = data.extras.model_copy(update={"strict_provenance": strict})
    monkeypatch.setattr(type(check), "partition_data", data.model_copy(update={"extras": extras}))
    good(check).write(check)
    ended_jobs.judge(check)
    assert record(check).strict_provenance is strict


def test_what_is_up_to_chance_needs_no_reference(check: Any) -> None:
    metrics = ("bandwidth", "stream_bandwidth_min")
    numbers = [Measurement(metric, 9.2, "tiny", "tcp", "tcp") for metric in metrics]
    with check.at(check.places[0]):
        assert [check.gates(number) for number in numbers] == [True, False]


# ---- what ReFrame shows ----


def numbers(check: Any, *values: float) -> dict[str, float]:
    left = good(check)
    for place, value in zip(check.places, values, strict=True):
        left.sides[place.place] = sides(place, value)
    left.write(check)
    ended_jobs.judge(check)
    return {name: value for name, (value, _, _) in check.numbers().items()}


def test_reframe_is_shown_worst_and_median_and_how_many_failed(check: Any) -> None:
    assert numbers(check, 9.3, 4.0, 9.1, 9.2) == {
        "bandwidth_default_worst": 4.0,
        "bandwidth_default_median": pytest.approx(9.15),
        "places_failed_default": 1,
    }


def test_places_that_were_not_run_have_failed(check: Any) -> None:
    left = good(check)
    left.outcomes[SECOND] = ("refused", "n3: no such program")
    left.sides[THIRD]["client"].line["call"]["exit_code"] = 1
    left.write(check)
    ended_jobs.judge(check)
    assert check.numbers()["places_failed_default"][:2] == (2, "1")


def test_worst_median_and_failed_places_are_held_against_references(check: Any) -> None:
    numbers(check, 9.3, 4.0, 9.1, 9.2)
    check.compare()
    bounds = (9.0, -0.1, None, "Gb/s")
    assert check.reference == {
        "lab:ns:bandwidth_default_worst": bounds,
        "lab:ns:bandwidth_default_median": bounds,
        "lab:ns:places_failed_default": (0.0, None, 0.0, "1"),
    }


def test_the_worst_is_the_highest_where_the_bound_is_above(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = REFERENCE.model_copy(update={"lower": None, "upper": 0.2})
    monkeypatch.setattr(Tiny, "bound", above)
    assert numbers(check, 9.3, 4.0, 12.0, 9.2)["bandwidth_default_worst"] == 12.0


@pytest.mark.parametrize("order", [(0.0, 5.0, 0.0, 0.0), (5.0, 0.0, 0.0, 0.0)])
def test_the_worst_is_never_one_that_passes_where_another_does_not(
    check: Any, monkeypatch: pytest.MonkeyPatch, order: Sequence[float]
) -> None:
    """Of a reference of 0 no share can be told."""
    none_at_all = REFERENCE.model_copy(update={"value": 0.0, "lower": None, "upper": 0.0})
    monkeypatch.setattr(Tiny, "bound", none_at_all)
    assert numbers(check, *order)["bandwidth_default_worst"] == 5.0


def test_failed_places_are_counted_by_condition(check: Any) -> None:
    tuned = SettingCase("ns", "n1", "n2", "tuned")
    check.sweep = SweepCase("ns", Places((*RING, tuned)))
    left = good(check)
    left.outcomes[tuned.place] = ("refused", "n2: no such program")
    left.write(check)
    ended_jobs.judge(check)
    shown = {name: value for name, (value, _, _) in check.numbers().items()}
    assert shown["places_failed_default"] == 0 and shown["places_failed_tuned"] == 1


def test_conditions_are_shown_apart(check: Any) -> None:
    check.sweep = SweepCase("ns", Places((RING[0], SettingCase("ns", "n1", "n2", "tuned"))))
    shown = numbers(check, 9.3, 4.0)
    worst = {name: value for name, value in shown.items() if name.endswith("_worst")}
    assert worst == {"bandwidth_default_worst": 9.3, "bandwidth_tuned_worst": 4.0}


def test_of_many_bad_places_some_are_told_and_the_others_counted(check: Any) -> None:
    many = tuple(SettingCase("ns", "n1", "n2", f"s{n}") for n in range(12))
    check.sweep = SweepCase("ns", Places(many))
    left = good(check)
    for roles in left.sides.values():
        roles["client"].line["call"]["exit_code"] = 1
    left.write(check)
    told = ended_jobs.judge(check)
    assert told.count("ended with exit code 1") == 5
    assert told.endswith("and 7 more places")


# ---- of pairs: the way and the load ----


class Between(Tiny):
    """The same, with references of its own."""


@pytest.fixture
def between(tmp_path: Path, absent: dict[str, Failure]) -> Any:
    return ended_jobs.ended(Between(variant_num=0), tmp_path / "stage")


@pytest.fixture
def two_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = Leaves({"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"})
    monkeypatch.setattr(topology, "leaves_of", lambda partition: leaves)


def ways(check: Any) -> dict[str, tuple[str | None, str | None]]:
    """Of each place: within what, and beside what."""
    rows = {result.place: result.rows[0].measurement for result in record(check).results}
    return {place: (m.within, m.load) for place, m in rows.items()}


def test_pairs_of_a_round_are_measured_loaded(between: Any) -> None:
    good(between).write(between)
    ended_jobs.judge(between)
    assert ways(between) == dict.fromkeys(NAMES, (None, "loaded"))


def test_a_pair_that_is_alone_in_its_round_is_measured_quiet(between: Any) -> None:
    between.only = frozenset([FIRST])
    good(between).write(between)
    ended_jobs.judge(between)
    assert ways(between) == {FIRST: (None, "quiet")}


def test_a_quiet_schedule_measures_all_quiet(between: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILGAUGE_SCHEDULE", "quiet")
    good(between).write(between)
    ended_jobs.judge(between)
    assert ways(between) == dict.fromkeys(NAMES, (None, "quiet"))
    assert between.paired_by.schedule == "quiet"


#: A floor that serves any load, and a baseline for one.
STORED = """\
system: lab
references:
  - &entry
    check: Between
    partition: ns
    operation: tcp
    transport: tcp
    nodes: 2
    metrics:
      bandwidth: &number
        value: 5
        lower: 0
        unit: Gb/s
        kind: floor
        provenance: {source: a test, date: 2026-11-22}
  - <<: *entry
    {part}
    metrics:
      bandwidth: {{<<: *number, value: 9.3, lower: -0.02, kind: baseline}}
"""


@pytest.fixture
def baseline_for(
    between: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Judges quiet pairs of so many Gb/s, with a baseline for a part of the condition."""

    def judge(part: str, value: float) -> None:
        path = tmp_path / "lab.yaml"
        path.write_text(STORED.replace("{part}", part).replace("{{", "{").replace("}}", "}"))
        monkeypatch.setenv("RAILGAUGE_REFERENCES", str(tmp_path))
        monkeypatch.setenv("RAILGAUGE_SCHEDULE", "quiet")
        monkeypatch.setattr(Between, "bound", None)
        left = good(between)
        for place in RING:
            left.sides[place.place] = sides(place, value)
        left.write(between)
        ended_jobs.judge(between)

    return judge


def kinds_of_reference(check: Any) -> set[str | None]:
    rows = [row for result in record(check).results for row in result.rows]
    return {row.reference.kind if row.reference else None for row in rows}


@pytest.mark.parametrize(
    ("part", "elsewhere"),
    [
        ("load: loaded", "load loaded"),
        ("within: leaf", "within leaf"),
        ("streams: 4", "streams 4"),
        ("rails: 0-1", "rails 0-1"),
        ("nics: eth1", "nics eth1"),
        ("congestion: bbr", "congestion bbr"),
        ("delay_ms: 44", "delay_ms 44.0"),
        ("transport: udp", "transport udp"),
        ("nodes: 3", "nodes 3"),
    ],
)
def test_a_floor_never_accepts_where_a_baseline_is_stored_for_another_condition(
    between: Any, baseline_for: Callable[..., None], part: str, elsewhere: str
) -> None:
    baseline_for(part, 8.2)
    assert ["no-reference" in kinds for kinds in bad(between).values()] == [True] * len(RING)
    assert kinds_of_reference(between) == {None}
    rows = [row for result in record(between).results for row in result.rows]
    assert {row.elsewhere for row in rows} == {elsewhere}


def test_a_floor_rejects_where_a_baseline_is_stored_for_another_condition(
    between: Any, baseline_for: Callable[..., None]
) -> None:
    baseline_for("load: loaded", 4.0)
    assert (kinds_of_reference(between), passed(between)) == ({"floor"}, [])


@pytest.mark.parametrize("part", ["load: quiet", "rails: null"])
def test_a_baseline_that_serves_the_condition_judges(
    between: Any, baseline_for: Callable[..., None], part: str
) -> None:
    baseline_for(part, 9.3)
    assert kinds_of_reference(between) == {"baseline"}
    assert not any("no-reference" in kinds for kinds in bad(between).values())


def test_a_floor_judges_where_the_baseline_is_of_another_operation(
    between: Any, baseline_for: Callable[..., None]
) -> None:
    baseline_for("operation: tcp busy", 8.2)
    assert kinds_of_reference(between) == {"floor"}


def test_pairs_within_leaves_have_rounds_of_their_own(between: Any, two_leaves: None) -> None:
    left = good(between)
    rounds = [[place.place for place in members] for members in between._rounds]
    assert rounds == [[FIRST, THIRD], [SECOND, FOURTH]]
    left.write(between)
    ended_jobs.judge(between)
    within, across = ("leaf", "loaded"), ("fabric", "loaded")
    assert ways(between) == {FIRST: within, SECOND: across, THIRD: within, FOURTH: across}


def test_a_performance_variable_is_of_one_way(between: Any, two_leaves: None) -> None:
    good(between).write(between)
    ended_jobs.judge(between)
    assert {name for name in between.numbers() if name.endswith("worst")} == {
        "bandwidth_default_leaf_loaded_worst",
        "bandwidth_default_fabric_loaded_worst",
    }


def test_a_performance_variable_names_no_way_that_all_have(between: Any) -> None:
    good(between).write(between)
    ended_jobs.judge(between)
    assert "bandwidth_default_worst" in between.numbers()


# ---- pairs that the conductor measured again ----

AGAIN = "n1:n3:default@1"


def measured_again(
    check: Any, value: float = 9.2, name: str = AGAIN, **added: Any
) -> ended_jobs.Left:
    left = good(check)
    told = {"like": 0, "server": "n1", "client": "n3", **added}
    left.again[name] = (told["like"], told["server"], told["client"])
    left.sides[name] = sides(SettingCase("ns", "n1", "n3", "default"), value)
    left.outcomes[name] = ended_jobs.DONE
    return left


def test_the_conductor_may_measure_pairs_again(check: Any) -> None:
    check.select_places()
    assert check.orders().document()["retests"]["rounds"] == 3
    assert {place["of"] for place in check.orders().document()["places"]} == {0}


@pytest.mark.parametrize("rounds", [0, 10])
def test_a_session_says_how_often_the_conductor_may_measure_again(
    check: Any, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    check.select_places()
    by_default_s = check.longest_seconds
    monkeypatch.setenv(variables.LOCATE_ROUNDS, str(rounds))
    assert check.orders().document().get("retests", {"rounds": 0})["rounds"] == rounds
    assert (check.longest_seconds > by_default_s) == (rounds > 3)


def test_the_conductor_knows_what_went_at_each_place_before(
    check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check.select_places()
    assert "before" not in check.orders().document()["retests"]
    monkeypatch.setenv(paths.CAMPAIGN_VARIABLE, str(tmp_path))
    rates = {check.display_name: {"ns": {FIRST: 9.3}}, "another": {"ns": {SECOND: 1.0}}}
    (tmp_path / BEFORE).write_text(json.dumps(rates))
    told = check.orders().document()["retests"]
    assert told["before"] == {FIRST: 9.3} and told["change"] == 0.02
    (tmp_path / BEFORE).write_text("{")
    assert "before" not in check.orders().document()["retests"]


def test_the_conductor_knows_static_routes_where_the_system_says_so(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check.select_places()
    routes = StaticRoutes(fabric(leaf_spine(["n1", "n2", "n3", "n4", "n5"], 3, 2, hcas=1)))
    monkeypatch.setattr(subnet_reading, "static_routes", lambda stage: routes)
    assert check.orders().retests.routes == ()
    extras = check.partition_data.extras
    static = extras.infiniband.model_copy(update={"static_routes": True})
    data = check.partition_data.model_copy(
        update={"extras": extras.model_copy(update={"infiniband": static})}
    )
    monkeypatch.setattr(type(check), "partition_data", data)
    retests = check.orders().retests
    assert retests.routes == routes.rows({"n1", "n2", "n3", "n4"}) != []
    assert [leaf for _, leaf, _ in retests.hcas] == ["leaf1", "leaf1", "leaf2", "leaf2"]
    monkeypatch.setattr(subnet_reading, "static_routes", lambda stage: None)
    assert check.orders().retests.routes == ()


def test_the_conductor_and_the_record_know_the_routes_of_the_site(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check.select_places()
    ours, others = Route("leaf1", "n1", "n3", "spine1"), Route("leaf1", "", "n30", "spine1")
    known = PartitionRoutes(rows=(ours, ours._replace(source="n40"), others))
    monkeypatch.setattr(topology, "routes_of", lambda partition: known)
    assert check.orders().retests.spines == [ours]
    assert node_sweep.Retests(**check.orders().document()["retests"]).spines == [ours]
    assert check.notes_of_job() == []
    monkeypatch.setattr(topology, "routes_of", lambda partition: PartitionRoutes(problem="no."))
    assert check.orders().retests.spines == []
    assert check.notes_of_job() == ["the routes are not known: no.; run it by hand, or fix it"]


def test_what_was_measured_again_is_judged_like_any_other(check: Any) -> None:
    measured_again(check, 4.0).write(check)
    ended_jobs.judge(check)
    found = {result.place: result for result in record(check).results}
    assert found[AGAIN].repeats == FIRST and found[AGAIN].nodes == ("n1", "n3")
    assert [row.within for row in found[AGAIN].rows] == [False]
    assert all(found[name].repeats == "" for name in NAMES)


@pytest.mark.parametrize(("more", "load"), [((), "quiet"), (("n2:n4:default@1",), "loaded")])
def test_what_was_measured_again_has_the_load_of_its_round(
    between: Any, more: Sequence[str], load: str
) -> None:
    left = measured_again(between)
    for name in more:
        left.again[name] = (1, "n2", "n4")
        left.sides[name] = sides(SettingCase("ns", "n2", "n4", "default"))
        left.outcomes[name] = ended_jobs.DONE
    left.write(between)
    ended_jobs.judge(between)
    assert ways(between)[AGAIN] == (None, load)


@pytest.mark.parametrize("quiet", [True, False])
def test_what_was_measured_alone_to_tell_load_says_so_and_needs_no_reference(
    check: Any, quiet: bool
) -> None:
    left = measured_again(check)
    left.quiet = {AGAIN} if quiet else set()
    left.write(check)
    check.bound = None
    ended_jobs.judge(check)
    found = {result.place: result for result in record(check).results}
    assert found[AGAIN].quiet == quiet and not found[FIRST].quiet
    assert [f.kind for f in found[AGAIN].failures] == ([] if quiet else ["no-reference"])


def test_a_node_that_is_lost_in_a_round_that_was_added_is_lost(check: Any) -> None:
    left = measured_again(check)
    left.lost = {"n3": "gone"}
    left.outcomes[AGAIN] = ("lost", "n3: gone")
    left.write(check)
    assert "n3: gone" in ended_jobs.judge(check)


def test_its_numbers_are_none_of_the_condition(check: Any) -> None:
    measured_again(check, 4.0).write(check)
    ended_jobs.judge(check)
    shown = check.numbers()
    assert shown["places_failed_default"][0] == 0
    assert shown["bandwidth_default_worst"][0] == 9.2


@pytest.mark.parametrize("outcome", [("lost", "n3: gone"), ("refused", "no"), None], ids=str)
def test_one_that_told_nothing_is_left_out(check: Any, outcome: ended_jobs.Outcome | None) -> None:
    left = measured_again(check)
    del left.outcomes[AGAIN]
    if outcome is not None:
        left.outcomes[AGAIN] = outcome
    left.write(check)
    ended_jobs.judge(check)
    assert AGAIN not in {result.place for result in record(check).results}
    assert AGAIN not in record(check).not_run


@pytest.mark.parametrize(
    "added",
    [
        {"like": 9},
        {"like": -1},
        {"client": "n1"},
        {"client": "n9"},
        {"name": "n2:n3:default@1"},
        {"name": "n1:n3:default"},
        {"name": "n1:n3:default@x"},
    ],
    ids=str,
)
def test_one_that_cannot_be_leaves_nothing_of_the_job(check: Any, added: dict[str, Any]) -> None:
    measured_again(check, **added).write(check)
    ended_jobs.judge(check)
    assert record(check).results == ()
    assert [failure.kind for failure in record(check).failures] == ["output"]
