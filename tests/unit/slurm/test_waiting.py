"""What keeps a job from starting, in Slurm's own answers; and what a session makes of it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.exceptions import JobBlockedError, JobError, SpawnedProcessError

from railgauge import paths
from railgauge.campaign import variables
from railgauge.checks.framework import reframe_guard, slurm_queue
from railgauge.common.errors import PrerequisiteError
from railgauge.model.failure import DISTURBED, LOST, TAKEN, UNAVAILABLE
from railgauge.slurm import client, waiting
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode


class Controller:
    """Slurm's answers: everything idle and up until changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flags: dict[str, set[str]] = {f"n{number}": {"IDLE"} for number in range(1, 5)}
        self.partition, self.shares = "UP", "NO"
        self.jobs = ""
        self.reservations = ""
        self.reason = "Resources"
        #: of the job that waits; held ones say so
        self.state = "PENDING"
        self.held = False
        self.asked: list[str] = []
        monkeypatch.setattr(client, "output", self.ask)
        monkeypatch.setattr(slurm_nodes, "show", self.show)

    def ask(self, *words: str) -> str:
        self.asked.append(" ".join(words[:3]))
        if words[:3] == ("scontrol", "show", "partition"):
            shares = f"OverSubscribe={self.shares}"
            return (
                f"PartitionName=ns AllowGroups=ALL {shares} State={self.partition} Nodes=n[1-4]\n"
            )
        if words[0] == "scontrol":
            self.held = (self.held or words[1] == "uhold") and words[1] != "release"
            return self.reservations
        if "--format=%T" in words:
            return f"{self.state}\n"
        pending = [word.removeprefix("--jobs=").split(",") for word in words if "--jobs=" in word]
        reason = "JobHeldUser" if self.held else self.reason
        return "".join(f"{j}|{reason}\n" for j in pending[0]) if pending else self.jobs

    def show(self, names: Any) -> dict[str, SlurmNode]:
        self.asked.append("nodes")
        held = ("bad disk", "alice", "2026-11-20T10:00:00")
        return {
            n: SlurmNode(n, frozenset(self.flags[n]), *(held if "DRAIN" in self.flags[n] else ()))
            for n in names
        }


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    return Controller(monkeypatch)


def words(*nodes: str, **known: Any) -> str:
    return waiting.words(waiting.of_nodes(nodes, **known))


def test_idle_nodes_have_nothing_in_their_way(controller: Controller) -> None:
    assert waiting.of_nodes(["n1", "n2"]) == {}
    assert waiting.of_partition("ns") is None


@pytest.mark.parametrize("state", ["DOWN", "DRAIN", "INACTIVE"])
def test_a_partition_that_is_not_up_stands_in_the_way(controller: Controller, state: str) -> None:
    controller.partition = state
    obstacle = waiting.of_partition("ns")
    assert obstacle is not None and obstacle.standing
    assert f"partition ns is {state}" in obstacle.why


def test_a_drained_node_is_reported_with_its_user_and_reason(controller: Controller) -> None:
    for name in ("n2", "n3"):
        controller.flags[name].add("DRAIN")
    assert words("n1", "n2", "n3") == "n[2-3] drained by alice: bad disk"
    assert waiting.of_nodes(["n2"])["n2"].standing


@pytest.mark.parametrize(
    ("shares", "forced"),
    [
        *(("NO", False), ("EXCLUSIVE", False), ("YES:4", False), ("FORCE:1", False)),
        *(("FORCE:4", True), ("FORCE:10", True), ("FORCE", True)),
    ],
)
def test_where_slurm_forces_jobs_to_share_nodes_none_is_measured(
    controller: Controller, shares: str, forced: bool
) -> None:
    """Exclusive or not (slurmctld/node_scheduler.c, _resolve_shared_status)."""
    controller.shares = shares
    obstacle = waiting.of_partition("ns")
    assert (obstacle is not None) == forced
    if obstacle is not None:
        assert obstacle.standing and f"partition ns has OverSubscribe={shares}" in obstacle.why
    assert waiting.of_partition("ns", reserved=True) is None


def test_a_busy_node_with_a_job_that_slurm_does_not_show_is_reported(
    controller: Controller,
) -> None:
    """PrivateData=jobs: `squeue` shows a user no jobs of others, and ends with 0."""
    controller.flags["n1"] = {"ALLOCATED"}
    controller.flags["n2"] = {"MIXED"}
    controller.jobs = "12|me|2026-11-22T10:00:00|n2\n"
    assert words("n1", "n2", "n3", our_jobs=("12",)) == (
        "n1 busy with a job that Slurm does not show to this user"
    )
    assert waiting.of_nodes(["n1"])["n1"].job


def test_a_node_with_a_job_that_has_just_ended_is_not_busy(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.flags["n1"] = {"ALLOCATED"}

    def ended(*command: str) -> str:
        if command[0] == "squeue":
            controller.flags["n1"] = {"IDLE"}
        return controller.ask(*command)

    monkeypatch.setattr(client, "output", ended)
    assert waiting.of_nodes(["n1"]) == {}


def test_the_next_job_of_ours_is_not_taken_for_a_users(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before ended between the look at the node and that at its jobs."""
    controller.flags["n1"] = {"ALLOCATED"}
    looks: list[str] = []

    def begins(*command: str) -> str:
        looks.append(command[0])
        return "13|me|2026-11-22T10:00:00|n1\n" if looks == ["squeue", "squeue"] else ""

    monkeypatch.setattr(client, "output", begins)
    assert waiting.of_nodes(["n1"], our_jobs=("13",)) == {}


def test_a_node_that_does_not_answer_is_left_to_slurms_own_reason(controller: Controller) -> None:
    controller.flags["n2"] = {"DOWN", "NOT_RESPONDING", "DRAIN"}
    assert waiting.of_nodes(["n2"]) == {}


def test_a_foreign_job_is_reported_with_its_end(controller: Controller) -> None:
    controller.flags["n2"] = {"ALLOCATED"}
    controller.jobs = "12|alice|2026-11-22T10:00:00|n[2-3]\n"
    assert (
        words("n1", "n2") == "n2 busy with job 12 of alice, until 2026-11-22T10:00:00 at the latest"
    )
    assert not waiting.of_nodes(["n2"])["n2"].standing
    assert words("n2", our_jobs=("12",)) == ""


def test_a_reservation_of_others_is_reported(controller: Controller) -> None:
    controller.flags["n4"].add("RESERVED")
    controller.reservations = (
        "ReservationName=repair StartTime=x Nodes=n4 Users=alice State=ACTIVE BurstBuffer=(null)\n"
    )
    assert words("n3", "n4") == "n4 reserved as repair for alice"
    assert words("n4", our_reservations=("repair",)) == ""


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--partition=ns"], "ns"),
        (["--partition ns"], "ns"),
        (["-p", "ns"], "ns"),
        (["-pns"], "ns"),
        (["--account=x"], ""),
        (["--partition=ns", "--partition=vm"], "vm"),
        (["-pns --account=x", "--partition", "vm"], "vm"),
        (["--partition"], ""),
        ([], ""),
    ],
)
def test_the_partition_is_read_from_the_options(options: list[str], found: str) -> None:
    assert client.option("partition", "p", options) == found


def test_an_option_without_a_letter_is_read_by_its_name_alone() -> None:
    options = ["--reservation=mine", "--comment", "-", "words", "--reservation=railgauge_1"]
    assert client.option("reservation", "", options) == "railgauge_1"
    assert client.option("constraint", "", options) == ""


# ---- a session ----

ACCESS = ["--partition=ns"]


def case(*nodes: str) -> Any:
    partition = SimpleNamespace(access=ACCESS, scheduler=SimpleNamespace(registered_name="slurm"))
    return SimpleNamespace(partition=partition, check=SimpleNamespace(pinned_nodes=list(nodes)))


def job(number: int = 7, waited_s: float = 0.0, state: str = "PENDING") -> Any:
    return SimpleNamespace(
        **{"name": f"case{number}", "jobid": str(number), "state": state, "_exception": None},
        **{"options": [], "cli_options": [], "is_cancelling": False},
        submit_time=time.time() - waited_s,
    )


class Session(slurm_queue.Queue):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.cancelled: list[Any] = []
        super().__init__(self.said.append)

    def cancel(self, job: Any) -> None:
        self.cancelled.append(job.jobid)

    def submitted_on(self, waiter: Any, *nodes: str) -> Any:
        self.submit(waiter, ACCESS, nodes)
        return waiter


@pytest.fixture
def session(controller: Controller) -> Session:
    return Session()


def test_a_healthy_session_asks_slurm_once(controller: Controller, session: Session) -> None:
    session.begin([case("n1", "n2"), case("n2", "n3")])
    asked = len(controller.asked)
    session.submitted_on(job(), "n1", "n2")
    assert (len(controller.asked), session.said) == (asked, [])


def test_what_a_drained_node_keeps_from_starting_is_decided_before_it_waits(
    controller: Controller, session: Session
) -> None:
    controller.flags["n2"].add("DRAIN")
    session.begin([case("n1", "n2"), case("n3", "n4")])
    assert session.said == ["n2 drained by alice: bad disk"]
    with pytest.raises(JobError, match="not submitted: n2 drained by alice: bad disk"):
        session.submitted_on(job(), "n1", "n2")
    session.submitted_on(job(), "n3", "n4")


def test_a_partition_that_is_down_decides_all_its_cases(
    controller: Controller, session: Session
) -> None:
    controller.partition = "DOWN"
    session.begin([case("n1", "n2")])
    for nodes in (("n1", "n2"), ("n3", "n4")):
        with pytest.raises(JobError, match="partition ns is DOWN"):
            session.submitted_on(job(), *nodes)


def test_what_was_removed_meanwhile_is_no_obstacle(
    controller: Controller, session: Session
) -> None:
    controller.flags["n2"].add("DRAIN")
    session.begin([case("n1", "n2")])
    controller.flags["n2"].discard("DRAIN")
    session.submitted_on(job(), "n1", "n2")


def test_a_job_that_waits_is_explained_once(controller: Controller, session: Session) -> None:
    controller.flags["n2"] = {"ALLOCATED"}
    controller.jobs = "12|alice|2026-11-22T10:00:00|n2\n"
    waiter = session.submitted_on(job(waited_s=6), "n1", "n2")
    for _ in range(3):
        session.poll(session, [waiter])
    (line,) = session.said
    assert line.startswith("job 7 on n[1-2]: n2 busy with job 12 of alice, until ")
    assert session.cancelled == []


def test_a_job_that_has_just_been_submitted_is_not_asked_for(
    controller: Controller, session: Session
) -> None:
    waiter = session.submitted_on(job(waited_s=1), "n1", "n2")
    controller.asked.clear()
    session.poll(session, [waiter])
    assert controller.asked == []


def test_slurms_own_reason_is_reported_where_nothing_else_is_known(session: Session) -> None:
    session.poll(session, [session.submitted_on(job(waited_s=6), "n1", "n2")])
    assert session.said == ["job 7 on n[1-2]: Slurm says Resources"]


def test_a_limit_that_a_job_is_over_is_not_waited_for(
    controller: Controller, session: Session
) -> None:
    controller.reason = "PartitionTimeLimit"
    session.poll(session, [session.submitted_on(job(waited_s=6), "n1", "n2")])
    assert session.cancelled == ["7"]


def test_what_one_job_has_waited_for_in_vain_no_other_waits_for(
    controller: Controller, session: Session
) -> None:
    session.poll(session, [session.submitted_on(job(7, waited_s=6), "n1", "n2")])
    assert session.cancelled == []
    session.cancel_wait(session.submitted_on(job(7, waited_s=300), "n1", "n2"))
    session.poll(session, [session.submitted_on(job(8, waited_s=6), "n3", "n4")])
    assert session.cancelled == ["8"]


def test_a_job_that_waits_in_vain_is_cancelled(controller: Controller, session: Session) -> None:
    waiter = session.submitted_on(job(waited_s=6), "n1", "n2")
    controller.flags["n2"].add("DRAIN")
    session.poll(session, [waiter])
    assert session.cancelled == ["7"]
    assert "n2 drained by alice" in str(waiter._exception)


def test_of_jobs_that_slurm_does_not_show_each_is_waited_for(
    controller: Controller, session: Session
) -> None:
    """It may be another one by now."""
    controller.flags["n2"] = {"ALLOCATED"}
    session.cancel_wait(session.submitted_on(job(7, waited_s=300), "n1", "n2"))
    session.submitted_on(job(8), "n2", "n3")


@pytest.mark.parametrize("reservation", ["", "mine"])
def test_in_a_reservation_jobs_are_alone_whatever_the_partition_says(
    controller: Controller, session: Session, monkeypatch: pytest.MonkeyPatch, reservation: str
) -> None:
    controller.shares = "FORCE:4"
    access = [*ACCESS, *([f"--reservation={reservation}"] if reservation else [])]
    one = case("n1", "n2")
    one.partition.access = access
    session.begin([one])
    assert bool(session.said) == (not reservation)
    # That of one partition says nothing of another.
    other = case("n3", "n4")
    other.partition.access = ["--partition=other"]
    session.begin([one, other])
    assert "partition other has OverSubscribe=FORCE:4" in session.said[-1]


def test_once_a_job_has_waited_long_enough_the_others_for_that_node_do_not(
    controller: Controller, session: Session
) -> None:
    controller.flags["n2"] = {"ALLOCATED"}
    controller.jobs = "12|alice|2026-11-22T10:00:00|n2\n"
    session.cancel_wait(session.submitted_on(job(7, waited_s=300), "n1", "n2"))
    with pytest.raises(JobError, match="not submitted: n2 busy with job 12 of alice"):
        session.submitted_on(job(8), "n2", "n3")
    session.submitted_on(job(9), "n3", "n4")
    controller.flags["n2"] = {"IDLE"}
    session.submitted_on(job(10), "n2", "n3")


def test_for_another_job_on_that_node_there_was_no_wait_yet(
    controller: Controller, session: Session
) -> None:
    controller.flags["n2"] = {"ALLOCATED"}
    controller.jobs = "12|alice|2026-11-22T10:00:00|n2\n"
    session.cancel_wait(session.submitted_on(job(7, waited_s=300), "n1", "n2"))
    controller.jobs = "13|alice|2026-11-22T10:05:00|n2\n"
    session.submitted_on(job(8), "n2", "n3")


@pytest.mark.parametrize(
    ("reason", "state", "cancelled"),
    [
        ("ReqNodeNotAvail, May be reserved for other job", {"ALLOCATED"}, []),
        ("ReqNodeNotAvail, May be reserved for other job", {"ALLOCATED", "NOT_RESPONDING"}, ["7"]),
        ("ReqNodeNotAvail, May be reserved for other job", {"ALLOCATED", "DRAIN"}, ["7"]),
        ("ReqNodeNotAvail, May be reserved for other job", {"IDLE"}, ["7"]),
        ("ReqNodeNotAvail, UnavailableNodes:n2", {"ALLOCATED"}, ["7"]),
        ("Licenses", {"ALLOCATED"}, ["7"]),
        ("Priority", {"ALLOCATED"}, []),
    ],
)
@pytest.mark.parametrize("asks", [True, False], ids=["by sacct", "by squeue"])
def test_what_waits_for_a_job_that_ends_is_not_blocked(
    controller: Controller,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    state: set[str],
    cancelled: list[str],
    asks: bool,
) -> None:
    """Seen under load: two campaigns on the same nodes, and one of them ended inconclusive."""
    controller.flags["n2"] = state
    controller.jobs = "12|alice|2026-11-22T10:00:00|n2\n"
    controller.reason = reason
    monkeypatch.setattr(slurm_queue, "session", session)
    waiter = session.submitted_on(job(7, waited_s=31), "n1", "n2")
    ended: list[str] = []

    def original(_: object, jobs: list[Any], reasons: dict[str, list[str]]) -> None:
        """What ReFrame takes for blocked (slurm_job_cancel_reasons)."""
        for number, whys in reasons.items():
            if any(why.split(",")[0] in ("ReqNodeNotAvail", "Licenses") for why in whys):
                ended.append(number)

    if asks:
        reframe_guard.wrap_blocked_check(original)(None, [waiter])
    else:
        reframe_guard.wrap_blocked_check(original)(None, [waiter], {"7": [reason]})
    assert ended == cancelled


@pytest.mark.parametrize(
    ("waited_s", "state", "blocked"),
    [
        (2, {"IDLE", "NOT_RESPONDING"}, False),
        (2, {"IDLE"}, False),
        (31, {"IDLE", "NOT_RESPONDING"}, True),
        (2, {"IDLE", "DRAIN"}, True),
    ],
)
def test_nodes_have_time_to_register_with_a_controller_that_has_just_started(
    controller: Controller,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    waited_s: float,
    state: set[str],
    blocked: bool,
) -> None:
    """Slurm 26.05.5 says this of a job that is submitted in the second after its start."""
    controller.flags["n2"] = state
    monkeypatch.setattr(slurm_queue, "session", session)
    waiter = session.submitted_on(job(7, waited_s=waited_s), "n1", "n2")
    found: list[str] = []
    reframe_guard.wrap_blocked_check(lambda _self, _jobs, reasons: found.extend(reasons))(
        None, [waiter], {"7": ["ReqNodeNotAvail, UnavailableNodes:n2"]}
    )
    assert bool(found) == blocked


def test_what_reframe_cancelled_is_explained(controller: Controller, session: Session) -> None:
    controller.flags["n4"].add("DRAIN")
    waiter = session.submitted_on(job(), "n3", "n4")
    waiter.is_cancelling = True
    waiter._exception = JobBlockedError("blocked: ReqNodeNotAvail, UnavailableNodes:n4", "7")
    session.poll(session, [waiter])
    message = str(waiter._exception)
    assert "UnavailableNodes:n4; n4 drained by alice: bad disk" in message


def test_a_controller_that_is_silent_is_no_obstacle(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: str) -> str:
        raise PrerequisiteError("squeue did not answer within 60 s")

    monkeypatch.setattr(client, "output", silent)
    session.begin([case("n1", "n2")])
    session.poll(session, [session.submitted_on(job(waited_s=6), "n1", "n2")])
    assert session.said == ["job 7 on n[1-2]: Slurm says squeue did not answer within 60 s"]


# ---- a sweep whose conductor's node is gone ----


class Hosts:
    """A job that runs with its batch script on n1, and Slurm's word for that node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
        self.state, self.now_s, self.asked = "ALLOCATED", 1000.0, 0
        self.session = session
        self.sweep = job(state="RUNNING")
        self.sweep.options = ["--no-kill"]
        monkeypatch.setattr(client, "output", self.ask)
        monkeypatch.setattr(slurm_queue.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(slurm_nodes.time, "sleep", self.pass_time)

    def ask(self, *words: str) -> str:
        self.asked += 1
        if words[0] == "squeue":
            return "7|n1\n"
        return f"NodeName=n1 State={self.state} Reason=Not responding [root@now]\n"

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds

    def after(self, seconds: float, state: str) -> list[str]:
        """The jobs that have been cancelled when Slurm has said that of n1 for so long."""
        self.state = state
        for _ in range(int(seconds)):
            self.now_s += 1
            self.session.poll(self.session, [self.sweep])
        return self.session.cancelled


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch, session: Session) -> Hosts:
    return Hosts(monkeypatch, session)


def test_a_sweep_without_its_conductors_node_is_cancelled_and_names_it(hosts: Hosts) -> None:
    assert hosts.after(60, "ALLOCATED") == []
    assert hosts.after(6, "DOWN+NOT_RESPONDING")[:1] == ["7"]
    lost = hosts.session.lost_host("7")
    assert lost is not None
    assert (lost.kind, lost.nodes) == (LOST, ("n1",))
    assert "Not responding" in lost.message
    assert hosts.session.lost_host("8") is None


def test_a_conductors_node_that_registers_with_a_new_controller_is_waited_for(
    hosts: Hosts,
) -> None:
    assert hosts.after(25, "ALLOCATED+NOT_RESPONDING") == []
    assert hosts.after(10, "ALLOCATED") == []
    assert hosts.after(25, "ALLOCATED+NOT_RESPONDING") == []


def test_a_conductors_node_that_slurm_gave_up_for_a_moment_is_not_accused(hosts: Hosts) -> None:
    """As where the controller stood still: the job has lost its conductor all the same."""
    assert hosts.after(6, "DOWN+NOT_RESPONDING")[:1] == ["7"]
    hosts.state = "IDLE"
    failure = hosts.session.lost_host("7")
    assert failure is not None and failure.kind == DISTURBED


def test_a_conductors_node_that_stays_silent_is_not_waited_for(hosts: Hosts) -> None:
    assert hosts.after(45, "ALLOCATED+NOT_RESPONDING")[:1] == ["7"]


def test_a_job_that_slurm_ends_with_its_node_is_left_to_slurm(hosts: Hosts) -> None:
    hosts.sweep.options = []
    assert hosts.after(60, "DOWN+NOT_RESPONDING") == []


def test_slurm_is_asked_for_conductors_nodes_once_in_some_seconds(hosts: Hosts) -> None:
    hosts.after(60, "ALLOCATED")
    # The nodes every five seconds, and who they are once.
    assert hosts.asked == 13


# ---- what a sweep leaves out ----


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes that do not answer Slurm; none until a test adds some."""
    names: list[str] = []
    monkeypatch.setattr(slurm_nodes, "dead", lambda nodes: [n for n in names if n in nodes])
    return names


BUSY = "77|bob|2026-11-22T10:00:00|n3\n"


def left_out(session: Session, *nodes: str) -> dict[str, str]:
    return {node: failure.kind for node, failure in session.takes_no_job(nodes).items()}


def test_of_healthy_nodes_none_is_left_out(
    controller: Controller, session: Session, dead: list[str]
) -> None:
    assert left_out(session, "n1", "n2", "n3") == {}


def test_a_drained_node_is_left_out_and_accused_of_nothing(
    controller: Controller, session: Session, dead: list[str]
) -> None:
    controller.flags["n2"].add("DRAIN")
    (failure,) = session.takes_no_job(["n1", "n2"]).values()
    assert failure.kind == DISTURBED
    assert failure.message == "not measured: n2 drained by alice: bad disk"


def test_a_node_that_does_not_answer_is_left_out_and_named(
    controller: Controller, session: Session, dead: list[str]
) -> None:
    dead.append("n3")
    found = session.takes_no_job(["n1", "n3"])
    assert {n: (f.kind, f.nodes) for n, f in found.items()} == {"n3": (UNAVAILABLE, ("n3",))}


@pytest.mark.parametrize(("idle", "nodes"), [("", set()), ("1", {"n3"})])
def test_a_busy_node_is_waited_for_unless_only_idle_ones_are_asked_for(
    controller: Controller,
    session: Session,
    dead: list[str],
    monkeypatch: pytest.MonkeyPatch,
    idle: str,
    nodes: set[str],
) -> None:
    monkeypatch.setenv(variables.IDLE, idle)
    controller.flags["n3"] = {"ALLOCATED"}
    controller.jobs = BUSY
    assert left_out(session, "n1", "n3").keys() == nodes


def test_where_only_idle_nodes_are_asked_for_a_busy_one_is_another_users(
    controller: Controller, session: Session, dead: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variables.IDLE, "1")
    controller.flags["n3"] = {"ALLOCATED"}
    controller.jobs = BUSY
    assert left_out(session, "n1", "n3") == {"n3": TAKEN}


@pytest.mark.parametrize(("idle", "given_up"), [("", False), ("1", True)])
def test_a_job_with_a_node_taken_before_it_began_is_waited_for_unless_only_idle_ones_are(
    controller: Controller,
    session: Session,
    dead: list[str],
    monkeypatch: pytest.MonkeyPatch,
    idle: str,
    given_up: bool,
) -> None:
    monkeypatch.setenv(variables.IDLE, idle)
    waiter = session.submitted_on(job(waited_s=6), "n1", "n3")
    controller.flags["n3"] = {"ALLOCATED"}
    controller.jobs = BUSY
    session.poll(session, [waiter])
    assert (session.cancelled == [waiter.jobid]) == given_up


@pytest.fixture
def waiter(
    controller: Controller, session: Session, dead: list[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """A job on three idle nodes only, of which a user has taken n3."""
    monkeypatch.setenv(variables.IDLE, "1")
    waiter = session.submitted_on(job(waited_s=6), "n1", "n2", "n3")
    session.may_shrink.add(waiter.name)
    controller.flags["n3"] = {"ALLOCATED"}
    controller.jobs = BUSY
    controller.asked.clear()
    return waiter


ORDERS = ("uhold", "update", "release")
SHRUNK = ["scontrol uhold 7", "scontrol update jobid=7", "scontrol release 7"]


def orders(controller: Controller) -> list[str]:
    return [asked for asked in controller.asked if set(ORDERS) & set(asked.split())]


def test_a_job_goes_on_without_a_node_that_was_taken_before_it_began(
    controller: Controller, session: Session, waiter: Any
) -> None:
    session.poll(session, [waiter])
    session.poll(session, [waiter])
    assert (orders(controller), session.cancelled) == (SHRUNK, [])


def test_a_job_that_begins_as_its_nodes_are_looked_at_keeps_all_of_them(
    controller: Controller, session: Session, waiter: Any
) -> None:
    controller.state = "RUNNING"
    session.poll(session, [waiter])
    assert (orders(controller), session.cancelled) == ([SHRUNK[0], SHRUNK[2]], [])


@pytest.mark.parametrize("refused", ORDERS[:2])
def test_a_job_that_slurm_does_not_let_go_of_a_node_is_given_up(
    controller: Controller,
    session: Session,
    waiter: Any,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
) -> None:
    def ask(*words: str) -> str:
        if words[1] == refused:
            raise PrerequisiteError("Access/permission denied")
        return controller.ask(*words)

    monkeypatch.setattr(client, "output", ask)
    session.poll(session, [waiter])
    assert session.cancelled == ["7"]


@pytest.mark.parametrize("fewest", [True, False], ids=["one-left", "cannot"])
def test_a_job_that_cannot_go_on_without_a_node_is_given_up(
    controller: Controller, session: Session, waiter: Any, fewest: bool
) -> None:
    if fewest:
        session.submitted_on(waiter, "n1", "n3")
    else:
        session.may_shrink.clear()
    session.poll(session, [waiter])
    assert "scontrol update jobid=7" not in orders(controller)
    assert session.cancelled == ["7"]


def test_a_job_of_this_session_in_another_partition_is_not_another_users(
    controller: Controller, session: Session, waiter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue, "session", session)

    def sbatch(_: object, job: Any) -> None:
        job.jobid = "77"

    reframe_guard.wrap_submit(sbatch)(None, job(8))
    session.poll(session, [waiter])
    assert (orders(controller), session.cancelled) == ([], [])
    assert session.takes_no_job(["n3"]) == {}


# ---- a submission without an answer ----

RESET = "sbatch: error: Batch job submission failed: Connection reset by peer\n"


class Sbatch:
    """Fails at first, with these words."""

    def __init__(self, words: str) -> None:
        self.words: list[str] = [words]

    def __call__(self, _: object, job: Any) -> None:
        if self.words:
            raise SpawnedProcessError("sbatch rfm_job.sh", "", self.words.pop(), 1)
        job.jobid = "78"


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, session: Session, tmp_path: Path) -> dict[str, Any]:
    """What squeue lists of the name, how often it fails before, and what scancel was given."""
    known: dict[str, Any] = {"listed": "", "fails": 0, "cancelled": []}

    def output(*words: str, **_: object) -> str:
        if words[0] == "scancel":
            known["cancelled"] += words[1:]
        elif known["fails"]:
            known["fails"] -= 1
            raise client.SlurmError("Unable to contact slurm controller")
        return str(known["listed"])

    monkeypatch.setattr(client, "output", output)
    monkeypatch.setattr(slurm_queue, "session", session)
    monkeypatch.setattr(slurm_jobs.time, "sleep", lambda _: None)
    monkeypatch.setattr(paths, "campaign_folder", lambda: tmp_path / "one")
    return known


def unnumbered() -> Any:
    waiter = job(8)
    waiter.jobid = None
    return waiter


def test_a_job_that_a_restarting_controller_did_not_take_is_submitted_again(
    queue: dict[str, Any],
) -> None:
    queue["fails"] = 2
    waiter = unnumbered()
    reframe_guard.wrap_submit(Sbatch(RESET))(None, waiter)
    assert (waiter.jobid, queue["cancelled"]) == ("78", [])


def test_a_job_that_it_took_without_an_answer_does_not_run_twice(
    queue: dict[str, Any], session: Session
) -> None:
    """Jobs of that name in another partition, and those of other campaigns, stay."""
    session.submitted("70")
    queue["listed"] = "70 railgauge:one\n77 railgauge:one\n79 railgauge:two\n80 (null)\n"
    waiter = unnumbered()
    reframe_guard.wrap_submit(Sbatch(RESET))(None, waiter)
    assert (waiter.jobid, queue["cancelled"]) == ("78", ["77"])


@pytest.mark.parametrize("case", ["refused", "stays away", "no campaign"])
def test_what_cannot_be_submitted_again_fails_with_its_words(
    queue: dict[str, Any], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    words = "sbatch: error: Invalid account\n" if case == "refused" else RESET
    if case == "stays away":
        queue["fails"] = 1000
        monkeypatch.setattr(slurm_jobs, "_RESTART_S", -1)
    if case == "no campaign":
        monkeypatch.setattr(paths, "campaign_folder", lambda: None)
    waiter = unnumbered()
    with pytest.raises(SpawnedProcessError, match=words.split(": ")[-1].strip()):
        reframe_guard.wrap_submit(Sbatch(words))(None, waiter)
    assert waiter.jobid is None and queue["cancelled"] == []


# ---- a node that goes while a job waits ----


def seconds_later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let both clocks of the queue go on."""
    wall_s, own_s = time.time() + seconds, time.monotonic() + seconds
    monkeypatch.setattr(slurm_queue.time, "time", lambda: wall_s)
    monkeypatch.setattr(slurm_queue.time, "monotonic", lambda: own_s)


@pytest.fixture
def of_four(controller: Controller, session: Session, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A job for four nodes that could do with fewer, and waits for another job to leave them."""
    monkeypatch.setattr(
        slurm_nodes,
        "silent",
        lambda names: {n: s for n, s in controller.show(names).items() if not s.answers},
    )
    monkeypatch.setattr(slurm_nodes, "dead", lambda nodes: [*slurm_nodes.silent(nodes)])
    waiter = session.submitted_on(job(waited_s=11), "n1", "n2", "n3", "n4")
    session.may_shrink.add(waiter.name)
    return waiter


def test_a_job_goes_on_without_a_node_that_slurm_gives_up_while_it_waits(
    controller: Controller, session: Session, of_four: Any
) -> None:
    """Seen where a node was off and a look's job stuck on it: all the others waited in vain."""
    controller.flags["n4"] = {"DOWN", "NOT_RESPONDING"}
    session.poll(session, [of_four])
    session.poll(session, [of_four])
    assert (orders(controller), session.cancelled) == (SHRUNK, [])
    (failure,) = session.left_out(of_four.name).values()
    assert (failure.kind, failure.nodes) == (UNAVAILABLE, ("n4",))


def test_a_job_goes_on_without_a_node_that_a_user_drains_while_it_waits(
    controller: Controller, session: Session, of_four: Any
) -> None:
    controller.flags["n4"].add("DRAIN")
    session.poll(session, [of_four])
    assert (orders(controller), session.cancelled) == (SHRUNK, [])
    assert {n: f.kind for n, f in session.left_out(of_four.name).items()} == {"n4": DISTURBED}


def test_a_node_that_is_silent_since_just_now_is_waited_for(
    controller: Controller, session: Session, of_four: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a controller that was restarted all nodes are silent until they have registered."""
    controller.flags["n4"] = {"IDLE", "NOT_RESPONDING"}
    session.poll(session, [of_four])
    assert (orders(controller), session.left_out(of_four.name)) == ([], {})
    seconds_later(monkeypatch, 31)
    session.poll(session, [of_four])
    assert orders(controller) == SHRUNK


def test_a_silence_that_ended_between_is_counted_again(
    controller: Controller, session: Session, of_four: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for later, flags in ((0, {"NOT_RESPONDING"}), (20, {"IDLE"}), (20, {"NOT_RESPONDING"})):
        seconds_later(monkeypatch, later)
        controller.flags["n4"] = flags
        session.poll(session, [of_four])
    assert orders(controller) == []


def test_nodes_that_are_given_up_one_after_the_other_are_both_left_out(
    controller: Controller, session: Session, of_four: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node in ("n4", "n3"):
        controller.flags[node] = {"DOWN", "NOT_RESPONDING"}
        session.poll(session, [of_four])
        seconds_later(monkeypatch, 11)
    assert orders(controller) == 2 * SHRUNK
    assert set(session.left_out(of_four.name)) == {"n3", "n4"}


def test_a_silence_long_ago_is_none_of_now(
    controller: Controller, session: Session, of_four: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has looked between: the job began, and another waits an hour later."""
    controller.flags["n4"] = {"IDLE", "NOT_RESPONDING"}
    session.poll(session, [of_four])
    seconds_later(monkeypatch, 3600)
    session.poll(session, [of_four])
    assert (orders(controller), session.left_out(of_four.name)) == ([], {})


def test_a_node_that_was_given_up_for_a_moment_is_not_accused(
    controller: Controller, session: Session, of_four: Any
) -> None:
    """As where the controller stood still: the job has gone on without it all the same."""
    controller.flags["n4"] = {"DOWN", "NOT_RESPONDING"}
    session.poll(session, [of_four])
    controller.flags["n4"] = {"IDLE"}
    (failure,) = session.left_out(of_four.name).values()
    assert (failure.kind, failure.nodes) == (DISTURBED, ("n4",))
    assert "for a while" in failure.message


def test_what_one_run_of_a_case_went_on_without_is_nothing_to_the_next(
    controller: Controller, session: Session, of_four: Any
) -> None:
    controller.flags["n4"] = {"DOWN", "NOT_RESPONDING"}
    session.poll(session, [of_four])
    session.submitted_on(of_four, "n1", "n2", "n3", "n4")
    assert session.left_out(of_four.name) == {}


def test_a_job_that_runs_is_not_held(
    controller: Controller, session: Session, of_four: Any
) -> None:
    controller.flags["n4"] = {"DOWN", "NOT_RESPONDING"}
    of_four.state = "RUNNING"
    session.poll(session, [of_four])
    assert orders(controller) == []


@pytest.mark.parametrize("silent", ["squeue", "update", "release"])
def test_a_job_that_is_held_is_released_once_the_controller_answers_again(
    controller: Controller,
    session: Session,
    of_four: Any,
    monkeypatch: pytest.MonkeyPatch,
    silent: str,
) -> None:
    controller.flags["n4"] = {"DOWN", "NOT_RESPONDING"}
    gone = False

    def ask(*words: str) -> str:
        nonlocal gone
        gone = gone or (controller.held and silent in words)
        if gone:
            raise PrerequisiteError("Unable to contact slurm controller")
        return controller.ask(*words)

    monkeypatch.setattr(client, "output", ask)
    session.poll(session, [of_four])
    assert controller.held and gone
    monkeypatch.setattr(client, "output", controller.ask)
    session.poll(session, [of_four])
    assert (controller.held, session.cancelled) == (False, [])


@pytest.mark.parametrize("fewest", [True, False], ids=["one-left", "cannot"])
def test_a_node_that_a_job_needs_and_is_given_up_is_named(
    controller: Controller, session: Session, of_four: Any, fewest: bool
) -> None:
    """By this reason the verdict knows the node. A hold would be the reason then."""
    controller.flags["n4"] = {"DOWN", "NOT_RESPONDING"}
    controller.reason = "Nodes required for job are DOWN, DRAINED or reserved"
    if fewest:
        session.submitted_on(of_four, "n1", "n4")
    else:
        session.may_shrink.clear()
    session.poll(session, [of_four])
    assert (session.cancelled, controller.held) == (["7"], False)
    assert "ReqNodeNotAvail, UnavailableNodes:n4" in str(of_four._exception)


def test_a_job_that_slurm_does_not_shrink_waits_on(
    controller: Controller, session: Session, of_four: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.flags["n4"] = {"DOWN", "NOT_RESPONDING"}

    def refused(*_: object) -> None:
        raise PrerequisiteError("Access/permission denied")

    monkeypatch.setattr(slurm_queue.slurm_jobs, "shrink", refused)
    assert not session.continue_without(of_four)
    assert orders(controller) == [SHRUNK[0], SHRUNK[2]]
    assert session.left_out(of_four.name) == {}


@pytest.mark.parametrize("fewest", [True, False], ids=["one-left", "cannot"])
def test_a_job_that_needs_the_node_is_not_held(
    controller: Controller, session: Session, of_four: Any, fewest: bool
) -> None:
    controller.flags["n4"] = {"DOWN", "NOT_RESPONDING"}
    if fewest:
        session.submitted_on(of_four, "n1", "n4")
    else:
        session.may_shrink.clear()
    assert not session.continue_without(of_four)
    assert orders(controller) == []


def test_what_goes_on_without_a_node_is_not_blocked(
    controller: Controller, session: Session, of_four: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue, "session", session)
    controller.flags["n4"] = {"DOWN", "NOT_RESPONDING"}
    blocked: list[str] = []
    reframe_guard.wrap_blocked_check(lambda _self, _jobs, reasons: blocked.extend(reasons))(
        None, [of_four], {of_four.jobid: ["ReqNodeNotAvail, UnavailableNodes:n4"]}
    )
    assert (orders(controller), blocked) == (SHRUNK, [])
