"""A patrol: whom it leaves alone, and what follows for those that checks accuse."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railgauge.acceptance import accept, request, session
from railgauge.campaign import variables
from railgauge.campaign.folder import ENOUGH, STANDING
from railgauge.cli import cli
from railgauge.cluster import rights, store
from railgauge.cluster.store import GateRules, PatrolRules
from railgauge.common.errors import RailgaugeError
from railgauge.gate.journal import Phase, Roll
from railgauge.model import record
from railgauge.model.failure import TAKEN, Failure
from railgauge.model.leaves import Leaves
from railgauge.model.record import Listed, Standing, write_standings
from railgauge.node import gate as node_gate
from railgauge.patrol import journal, run
from railgauge.patrol.choose import Candidate
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.verdict.campaign.finding import Finding
from tests.command_line import invoke
from tests.unit.gate.cluster import Slurm
from tests.unit.report.feeds.test_schemas import require

NOW = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.timezone.utc)
LAST_WEEK = "20261115T120000Z-lab-000001"
NS = ("n1", "n2", "n3", "n4")
RULES = GateRules(
    enforcement={"Iperf2Pair": "hold", "Iperf3Pair": "comment"}, patrol=PatrolRules(settle_s=600)
)


@dataclasses.dataclass
class Fleet(Slurm):
    """Slurm's nodes, also with comments and the times of their start."""

    comments: dict[str, str] = dataclasses.field(default_factory=dict)
    booted: dict[str, datetime.datetime] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(["n1", "n2", "n3", "n4", "n5", "n6"])

    def show(self, names: Any = ()) -> dict[str, slurm_nodes.SlurmNode]:
        return {
            name: dataclasses.replace(
                node, comment=self.comments.get(name, ""), booted=self.booted.get(name)
            )
            for name, node in super().show(names).items()
        }

    def comment(self, name: str, words: str) -> bool:
        if not self.comments.get(name, slurm_nodes.OURS).startswith(slurm_nodes.OURS):
            return False
        self.comments[name] = slurm_nodes.OURS + words if words else ""
        return True


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fleet:
    fake = Fleet()
    for name in ("show", "drain", "resume", "comment"):
        monkeypatch.setattr(slurm_nodes, name, getattr(fake, name))
    monkeypatch.setattr(slurm_jobs, "nodes_of_campaigns", set)
    monkeypatch.setattr(slurm_jobs, "preempts", lambda: True)
    monkeypatch.setattr(slurm_jobs, "preempted_jobs_of", lambda _: [])
    monkeypatch.setattr(rights, "missing", lambda _: [])
    monkeypatch.setattr(run, "leaves_of", lambda _: None)
    monkeypatch.setattr(session, "in_lab", lambda _: False)
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    store.publish_rules("lab")
    return fake


def campaign_of(results: Path, campaign: str, state: str = "finished", **outcomes: Any) -> None:
    """A campaign in the results, as it left its nodes."""
    folder = results / "campaigns" / campaign
    folder.mkdir(parents=True)
    alarms: dict[str, bool] | None = {} if state == "finished" else None
    one = Standing(
        **{"measured": True, "outcome": "accepted", "why": "", "checks": (), "rails": {}},
        **{"fingerprint": "f", "alarms": alarms},
    )
    told = {
        node: one.model_copy(update={"outcome": outcome, "open": outcome == "not accepted"})
        for node, outcome in outcomes.items()
    }
    write_standings(folder / STANDING, told)
    record = {"system": "lab", "gate": "acceptance", "state": state, "scope": {}, "requested": {}}
    record["scope"] = {"nodes": {}, "required": {}}
    record["requested"] = {"options": [], "environment": {}, "judged_by": {}}
    (folder / "campaign.json").write_text(json.dumps(record))


def of(fleet: run.Fleet, node: str) -> Candidate:
    return next(one for each in fleet.candidates.values() for one in each if one.node == node)


# --- whom it leaves alone -------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "DRAIN", "DOWN"])
def test_a_node_that_is_not_idle_is_left_alone(nodes: Fleet, flag: str) -> None:
    nodes.flags["n2"].add(flag)
    fleet = run.survey("lab", RULES, NOW)
    assert list(fleet.left_alone) == ["n2"]
    assert sorted(one.node for one in fleet.candidates["ns"]) == ["n1", "n3", "n4"]


def test_a_reserved_node_is_left_alone(nodes: Fleet) -> None:
    nodes.reserve("maintenance", ["n2"])
    assert list(run.survey("lab", RULES, NOW).left_alone) == ["n2"]


def test_a_node_that_has_just_started_is_left_alone(nodes: Fleet) -> None:
    local = NOW.astimezone().replace(tzinfo=None)
    nodes.booted = {
        "n1": local - datetime.timedelta(minutes=5),
        "n2": local - datetime.timedelta(minutes=15),
    }
    assert list(run.survey("lab", RULES, NOW).left_alone) == ["n1"]


@pytest.mark.parametrize("phase", ["take", "update"])
def test_a_node_in_a_rolling_update_is_left_alone(nodes: Fleet, phase: Phase) -> None:
    """Also one in service: its update may restart it before it is done."""
    rolling = Roll("20261122T110000Z_abcd", "lab", "flash", 1, 0, ["n2", "n3"], ["n3"], "", "")
    rolling.batch, rolling.phase = ["n2"], phase
    rolling.save()
    fleet = run.survey("lab", RULES, NOW)
    assert fleet.left_alone == {"n2": f"in rolling update {rolling.id}"}
    assert sorted(one.node for one in fleet.candidates["ns"]) == ["n1", "n3", "n4"]


def test_with_a_damaged_journal_of_a_rolling_update_all_nodes_are_left_alone(
    nodes: Fleet,
) -> None:
    rolling = Roll("20261122T110000Z_abcd", "lab", "flash", 1, 0, ["n2"], ["n2"], "", "")
    rolling.save()
    path = store.folder("lab") / "rolls" / f"{rolling.id}.json"
    path.write_text("{")
    fleet = run.survey("lab", RULES, NOW)
    assert not fleet.candidates and str(path) in fleet.left_alone["n4"]


def test_after_a_mass_restart_a_few_are_tested_at_a_time(nodes: Fleet) -> None:
    local = NOW.astimezone().replace(tzinfo=None)
    nodes.booted = dict.fromkeys(nodes.flags, local - datetime.timedelta(minutes=15))
    rules = GateRules(patrol=PatrolRules(max_under_test=2))
    assert len(run.survey("lab", rules, NOW).left_alone) == 4


def test_nodes_under_test_count(nodes: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_jobs, "nodes_of_campaigns", lambda: {"n1", "n2", "stranger"})
    assert run.survey("lab", RULES, NOW).most == 6


# --- who is due -----------------------------------------------------------------------------------


def test_a_node_waits_since_its_last_test(nodes: Fleet, tmp_path: Path) -> None:
    campaign_of(tmp_path, LAST_WEEK, n1="accepted", n2="not accepted")
    fleet = run.survey("lab", RULES, NOW)
    assert (of(fleet, "n1").days, of(fleet, "n1").risks) == (7.0, ())
    assert of(fleet, "n2").risks == (f"not accepted by {LAST_WEEK}",)
    assert of(fleet, "n3").days > 1e6


def test_a_campaign_that_broke_off_is_no_test(nodes: Fleet, tmp_path: Path) -> None:
    campaign_of(tmp_path, LAST_WEEK, n1="accepted")
    campaign_of(tmp_path, "20261121T120000Z-lab-000002", "interrupted", n1="not accepted")
    assert of(run.survey("lab", RULES, NOW), "n1").days == 7.0


def left_open(results: Path, campaign: str, node: str) -> None:
    """A campaign that broke off, and left something open at a node."""
    campaign_of(results, campaign, "interrupted", **{node: "not tested"})
    path = results / "campaigns" / campaign / STANDING
    told = record.read_standings(path)
    assert told is not None
    write_standings(path, {node: told[node].model_copy(update={"open": True})})


def across_leaves(campaign: str) -> None:
    """A patrol that had the campaign, of several leaves."""
    told: dict[str, Any] = {"partition": "ns", "nodes": [], "leaves": {}, "risks": {}}
    journal.Patrol(
        f"{campaign[:16]}_abcd", "lab", "", "", cover=True, campaign=campaign, ended="", **told
    ).save()


def test_a_campaign_from_the_future_keeps_no_node_from_its_turn(
    nodes: Fleet, tmp_path: Path
) -> None:
    campaign_of(tmp_path, "29380101T000000Z-lab-000002", n1="accepted", n2="accepted")
    campaign_of(tmp_path, LAST_WEEK, n1="not accepted")
    fleet = run.survey("lab", RULES, NOW)
    assert of(fleet, "n1").risks == (f"not accepted by {LAST_WEEK}",)
    assert of(fleet, "n1").days == 7.0 and of(fleet, "n2").days > 1e6


def test_a_way_that_was_measured_in_the_future_waits(nodes: Fleet) -> None:
    told: dict[str, Any] = {"partition": "ns", "nodes": [], "leaves": {}, "risks": {}}
    for name in ("20261121T120000Z_abcd", "20261123T120000Z_abcd"):
        way = ("a", "b") if name < f"{NOW:%Y%m%d}" else ("a", "c")
        journal.Patrol(name, "lab", "", "", cover=True, ways=[way], **told).save()
    assert list(journal.ways("lab", NOW, 7)) == [("a", "b")]


def test_what_a_campaign_that_broke_off_left_open_makes_a_node_due_and_keeps_its_age(
    nodes: Fleet, tmp_path: Path
) -> None:
    campaign_of(tmp_path, LAST_WEEK, n1="accepted", n2="accepted")
    broken = "20261121T120000Z-lab-000002"
    left_open(tmp_path, broken, "n1")
    across_leaves(broken)
    fleet = run.survey("lab", RULES, NOW)
    assert (of(fleet, "n1").days, of(fleet, "n1").retest) == (7.0, True)
    assert of(fleet, "n1").risks == (f"something was wrong in {broken}, which broke off",)
    assert of(fleet, "n2").risks == () and not of(fleet, "n2").retest


def test_what_broke_off_before_the_last_test_counts_no_more(nodes: Fleet, tmp_path: Path) -> None:
    broken = "20261121T120000Z-lab-000002"
    left_open(tmp_path, broken, "n1")
    across_leaves(broken)
    campaign_of(tmp_path, "20261121T130000Z-lab-000003", n1="accepted")
    candidate = of(run.survey("lab", RULES, NOW), "n1")
    assert (candidate.risks, candidate.retest) == ((), False)


def test_a_campaign_that_broke_off_makes_no_node_forget_a_refusal(
    nodes: Fleet, tmp_path: Path
) -> None:
    campaign_of(tmp_path, LAST_WEEK, n1="accepted")
    campaign_of(tmp_path, "20261121T120000Z-lab-000002", n1="not accepted")
    campaign_of(tmp_path, "20261122T110000Z-lab-000003", "interrupted", n1="not accepted")
    candidate = of(run.survey("lab", RULES, NOW), "n1")
    assert candidate.days == 1.0
    assert "not accepted by 20261121T120000Z-lab-000002" in candidate.risks


def test_a_node_with_links_that_went_between_its_last_tests_is_at_risk(
    nodes: Fleet, tmp_path: Path
) -> None:
    for campaign, count in ((LAST_WEEK, 2), ("20261121T120000Z-lab-000002", 8)):
        campaign_of(tmp_path, campaign, n1="accepted", n2="accepted")
        path = tmp_path / "campaigns" / campaign / STANDING
        told = record.read_standings(path)
        assert told is not None
        told["n1"] = told["n1"].model_copy(update={"carriers": {"eth0": (count, count)}})
        write_standings(path, told)
    fleet = run.survey("lab", RULES, NOW)
    (risk,) = of(fleet, "n1").risks
    assert risk.startswith("its links went or came 6 times between 2026-11-15 ")
    assert of(fleet, "n2").risks == ()


def test_a_node_that_stands_next_to_a_suspect_is_at_risk(
    nodes: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves = Leaves({"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c", "n6": "c"})
    monkeypatch.setattr(run, "leaves_of", lambda _: leaves)
    store.suspect("lab", "n1", "slow", "patrol x")
    fleet = run.survey("lab", RULES, NOW)
    assert of(fleet, "n2").risks == ("on a with suspect n1",)
    assert of(fleet, "n1").risks == of(fleet, "n3").risks == ()


# --- what it plans --------------------------------------------------------------------------------


@pytest.fixture
def listed(nodes: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign takes a minute a node."""

    def plan(system: str, scope: Any, folded: str, gate: str, options: Any) -> list[Listed]:
        count = len(scope.nodes["ns"])
        return [
            Listed(
                case="Iperf2Pair",
                partition="ns",
                places=count,
                rounds=1,
                node_count=count,
                seconds=60.0 * count,
            )
        ]

    monkeypatch.setattr(request, "plan", plan)


@pytest.mark.usefixtures("listed")
def test_as_many_nodes_as_the_budget_lets(nodes: Fleet) -> None:
    rules = GateRules(partners=1)
    nodes.flags["n5"].add("DOWN")
    fleet = run.survey("lab", rules, NOW)
    planned = run.plan("lab", rules, fleet, 8, 240)
    assert planned is not None and planned.choice.nodes == NS
    planned = run.plan("lab", rules, fleet, 8, 150)
    assert planned is not None and len(planned.choice.nodes) == 2


@pytest.mark.usefixtures("listed")
def test_a_budget_for_no_node_is_an_error(nodes: Fleet) -> None:
    nodes.flags["n5"].add("DOWN")
    fleet = run.survey("lab", RULES, NOW)
    with pytest.raises(RailgaugeError, match=r"budget is 0.5 min"):
        run.plan("lab", RULES, fleet, 8, 30)


@pytest.mark.usefixtures("listed")
def test_without_two_partners_no_node_is_tested(nodes: Fleet) -> None:
    for name in ("n1", "n2", "n5"):
        nodes.flags[name].add("ALLOCATED")
    fleet = run.survey("lab", RULES, NOW)
    assert run.plan("lab", RULES, fleet, 8, 1e6) is None


@pytest.mark.usefixtures("listed")
def test_a_plan_changes_nothing(nodes: Fleet) -> None:
    nodes.flags["n5"].add("DOWN")
    answer = invoke(cli, ["patrol", "--system", "lab", "--plan"])
    assert answer.exit_code == 0, answer.output
    assert "ns: n[1-4], about 240 s" in answer.output
    assert "5 of 5 wait for more than 7 days (n[1-4,6])" in answer.output
    assert "6 nodes, 4 at a time, every 7 days: 1 patrols a day at least" in answer.output
    assert not list(store.folder("lab").glob("patrols/*"))


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize("flag", ["", "DOWN"])
def test_a_plan_as_json_is_as_its_schema(nodes: Fleet, flag: str) -> None:
    for flags in nodes.flags.values():
        flags |= {flag} - {""}
    answer = invoke(cli, ["patrol", "--system", "lab", "--plan", "--json"])
    document = json.loads(answer.stdout)
    require("patrol", document)
    assert (document["plan"] is None) == bool(flag) and document["patrols_a_day"] == 1
    assert len(document["left_alone"]) == (len(nodes.flags) if flag else 0)


# --- what follows ---------------------------------------------------------------------------------


@dataclasses.dataclass
class Ran:
    """Stands in for the campaign: `check` accuses `bad` nodes. It asks `looks` times whether it is
    to end.
    """

    bad: str = ""
    check: str = "Iperf2Pair"
    state: str = "finished"
    options: tuple[str, ...] = ()
    told: dict[str, str | None] = dataclasses.field(default_factory=dict)
    stopped: str = ""
    #: nodes that were another user's
    taken: tuple[str, ...] = ()
    #: where what it leaves is
    folder: Path = Path("/nowhere")
    looks: int = 1
    #: what it is accused of
    kind: str = "out"
    #: its device that is at fault, if not all of it
    rail: str = ""
    #: whether the engine is sure of `bad`
    confirmed: bool = True

    def __call__(
        self,
        system: str,
        scope: Any,
        nodes: str,
        gate: str,
        options: Any,
        *_: Any,
        begun: Any,
        owner: str,
        **more: Any,
    ) -> Any:
        self.options, self.owner = tuple(options), owner
        self.told = {name: os.environ.get(name) for name in (variables.IDLE, variables.SCHEDULE)}
        campaign = SimpleNamespace(
            id="20261122T120000Z-lab-000009",
            gate="acceptance",
            state=self.state,
            scope=scope,
            fingerprints={},
            folder=self.folder,
            session=SimpleNamespace(interrupted_by=self.stopped),
        )
        begun(campaign)
        for _ in range(self.looks):
            self.stopped = self.stopped or more["stop"]()
        campaign.session.interrupted_by = self.stopped
        cases = [
            SimpleNamespace(
                check=self.check,
                partition="ns",
                place="",
                of_job=False,
                nodes=pair,
                passed=not {self.bad, *self.taken} & set(pair),
                failed=self.bad in pair,
                repeats="",
                complete=not set(self.taken) & set(pair),
                unreferenced=False,
                result="",
                was_left_out=False,
                failures=[Failure(TAKEN, "busy", self.taken)] * bool(set(self.taken) & set(pair)),
                to_measure=bool(set(self.taken) & set(pair)),
                kind="",
                condition="",
                rows=(),
                facts={},
                fingerprints={},
            )
            for pair in (("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n1"))
        ]
        findings = [
            Finding("reject", self.kind, "too slow", self.check, "ns", case.nodes)
            for case in cases
            if case.failed
        ]
        guilty = [self.bad] if self.bad and self.confirmed else []
        return SimpleNamespace(
            campaign=campaign,
            decision="reject" if self.bad else "accept",
            exit_code=1 if self.bad else 0,
            simulated=False,
            findings=findings,
            cases=cases,
            outliers=(),
            failing_nodes=guilty,
            suspects=[
                SimpleNamespace(
                    kind="rail" if self.rail else "node",
                    name=f"{node}:{self.rail}" if self.rail else node,
                    failing_nodes=[node],
                    checks=(self.check,),
                    why="slow",
                    own_reason="",
                )
                for node in guilty
            ],
        )


Patrolled = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def patrolled(listed: None, nodes: Fleet, monkeypatch: pytest.MonkeyPatch) -> Patrolled:
    """A patrol of the namespace nodes: its exit code, and what it says."""
    nodes.flags["n5"].add("DOWN")

    def go(campaign: Ran, rules: GateRules = RULES, budget_s: float = 1e6) -> tuple[int, list[str]]:
        monkeypatch.setattr(accept, "run", campaign)
        planned = run.plan("lab", rules, run.survey("lab", rules, NOW), 8, 1e6)
        assert planned is not None
        said: list[str] = []
        patrol = run.run("lab", rules, planned, budget_s, [], said.append)
        assert patrol.exit_code is not None
        return patrol.exit_code, said

    return go


def test_where_all_is_well_no_node_is_touched(nodes: Fleet, patrolled: Patrolled) -> None:
    campaign = Ran()
    assert patrolled(campaign)[0] == 0
    assert nodes.open() == set(NS) and not nodes.comments
    assert campaign.told == {variables.IDLE: "1", variables.SCHEDULE: None}
    assert campaign.options == ("-J", "nice=10000", "-J", "#SBATCH --no-requeue")
    assert campaign.owner == "railgauge patrol"


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("bad", "code", "steps"),
    [
        ("", 0, ["ns: n[1-4]", ": accept, "]),
        ("n2", 1, ["ns: n[1-4]", "n2: held: ", ": neither accepted nor accused: ", ": reject, "]),
    ],
    ids=["good", "bad"],
)
def test_what_was_done_is_json(
    nodes: Fleet, monkeypatch: pytest.MonkeyPatch, bad: str, code: int, steps: list[str]
) -> None:
    nodes.flags["n5"].add("DOWN")
    monkeypatch.setattr(accept, "run", Ran(bad))
    answer = invoke(cli, ["patrol", "--system", "lab", "--json"], stderr=steps)
    document = json.loads(answer.stdout)
    require("patrol", document)
    assert answer.exit_code == code == document["patrol"]["exit_code"]
    assert list(document["patrol"]["found"]) == ([bad] if bad else [])


def test_only_the_guilty_node_is_held(nodes: Fleet, patrolled: Patrolled) -> None:
    assert patrolled(Ran("n2"))[0] == 1
    assert nodes.open() == {"n1", "n3", "n4"}
    reason = nodes.show(["n2"])["n2"].reason
    assert reason.startswith("railgauge: Iperf2Pair n1 n2: too slow (20261122T")
    assert store.suspected("lab", "n2") is not None


def test_the_reason_names_the_rail(nodes: Fleet, patrolled: Patrolled) -> None:
    patrolled(Ran("n2", rail="mlx5_3"))
    reason = nodes.show(["n2"])["n2"].reason
    assert reason.startswith("railgauge: rail n2:mlx5_3: Iperf2Pair n1 n2: too slow (20261122T")


def test_a_link_that_came_back_holds_its_node_when_it_does_so_again(
    nodes: Fleet, patrolled: Patrolled
) -> None:
    assert patrolled(Ran("n2", kind="link-flap"))[0] == 1
    assert nodes.open() == set(NS)
    assert nodes.comments["n2"].startswith("railgauge: Iperf2Pair n1 n2: too slow")
    assert store.suspected("lab", "n2") is not None
    patrolled(Ran("n2", kind="link-flap"))
    assert nodes.open() == {"n1", "n3", "n4"}


def test_a_link_that_came_back_and_stays_is_forgiven(nodes: Fleet, patrolled: Patrolled) -> None:
    patrolled(Ran("n2", kind="link-flap"))
    assert patrolled(Ran())[0] == 0
    assert store.suspected("lab", "n2") is None and nodes.open() == set(NS)


def test_a_node_that_is_neither_accepted_nor_accused_is_said(
    nodes: Fleet, patrolled: Patrolled
) -> None:
    _, said = patrolled(Ran("n2"))
    # Next to the guilty one no pair of theirs passed.
    assert [line.partition(":")[0] for line in said if "nor accused" in line] == ["n1", "n3"]
    assert nodes.open() == {"n1", "n3", "n4"}


def test_a_check_that_comments_changes_no_state(nodes: Fleet, patrolled: Patrolled) -> None:
    assert patrolled(Ran("n2", "Iperf3Pair"))[0] == 1
    assert nodes.open() == set(NS)
    assert nodes.comments["n2"].startswith("railgauge: Iperf3Pair n1 n2: too slow")


@pytest.mark.parametrize(("check", "told"), [("Iperf2Pair", True), ("Brandnew", False)])
def test_the_sites_command_gets_the_held_nodes(
    patrolled: Patrolled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str, told: bool
) -> None:
    command = tmp_path / "tell"
    command.write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/told"\n')
    command.chmod(0o755)
    monkeypatch.setenv("RAILGAUGE_ON_SUSPECT", shlex.quote(str(command)))
    patrolled(Ran("n2", check))
    assert (tmp_path / "told").exists() == told
    if told:
        assert (tmp_path / "told").read_text().startswith("n2 held: Iperf2Pair n1 n2: too slow")


@pytest.mark.parametrize("silent", ["store", "Slurm"])
def test_a_guilty_node_that_cannot_be_held_is_reported(
    nodes: Fleet,
    patrolled: Patrolled,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    silent: str,
) -> None:
    command = tmp_path / "tell"
    command.write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/told"\n')
    command.chmod(0o755)
    monkeypatch.setenv("RAILGAUGE_ON_SUSPECT", shlex.quote(str(command)))

    def no_answer(*_: Any, **__: Any) -> Any:
        raise node_gate.StoreError("no answer") if silent == "store" else SlurmError("no answer")

    monkeypatch.setattr(node_gate, "drain_within_cap", no_answer)
    code, said = patrolled(Ran("n2"))
    assert code == 1 and nodes.open() == set(NS)
    words = "alarm: not held: no answer: Iperf2Pair n1 n2: too slow"
    assert any(line.startswith(f"n2: {words}") for line in said)
    assert (tmp_path / "told").read_text().startswith(f"n2 {words}")
    assert store.suspected("lab", "n2") is not None


def test_a_comment_of_another_user_stays(nodes: Fleet, patrolled: Patrolled) -> None:
    nodes.comments["n2"] = "ask Ann first"
    patrolled(Ran("n2", "Iperf3Pair"))
    assert nodes.comments["n2"] == "ask Ann first"


def test_a_new_check_only_records(nodes: Fleet, patrolled: Patrolled) -> None:
    code, said = patrolled(Ran("n2", "Brandnew"))
    assert code == 1 and any(line.startswith("n2: recorded: Brandnew") for line in said)
    assert nodes.open() == set(NS) and not nodes.comments
    assert store.suspected("lab", "n2") is None


def test_a_user_that_may_not_drain_only_records(
    nodes: Fleet, patrolled: Patrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = rights.MissingRight("drain", "user a may not drain", "admin", "ask")
    monkeypatch.setattr(rights, "missing", lambda _: [lacking])
    code, said = patrolled(Ran("n2"))
    assert code == 1 and "only recorded: user a may not drain" in said[0]
    assert nodes.open() == set(NS)


def test_no_more_are_held_than_the_cap_lets(nodes: Fleet, patrolled: Patrolled) -> None:
    rules = RULES.model_copy(update={"max_hold": 1})
    patrolled(Ran("n2"), rules)
    _, said = patrolled(Ran("n3"), rules.model_copy(update={"partners": 1}))
    assert any("max_hold" in line for line in said)
    assert nodes.open() == {"n1", "n3", "n4"}


def test_one_that_a_signal_ended_judges_no_node(nodes: Fleet, patrolled: Patrolled) -> None:
    code, said = patrolled(Ran("n2", state="interrupted", stopped="SIGTERM"))
    assert code == 2
    assert "stopped: SIGTERM; 4 of 4 places were measured" in said[0]
    assert said[0].endswith("; they judge no node")
    assert nodes.open() == set(NS)
    [file] = store.folder("lab").glob("patrols/*.json")
    assert list(json.loads(file.read_text())["not_tested"]) == list(NS)


@pytest.mark.parametrize("state", ["interrupted", "finished"], ids=["before-its-end", "its-last"])
@pytest.mark.parametrize(("bad", "code"), [("", 2), ("n2", 1)])
def test_a_preempted_one_holds_confirmed_nodes_and_accepts_no_node_that_lacks_places(
    nodes: Fleet,
    patrolled: Patrolled,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    bad: str,
    code: int,
) -> None:
    monkeypatch.setattr(slurm_jobs, "preempted_jobs_of", lambda campaign: ["7"])
    stopped = "Slurm preempted job 7" if state == "interrupted" else ""
    ended, said = patrolled(Ran(bad, state=state, stopped=stopped, taken=NS))
    assert (ended, nodes.open()) == (code, set(NS) - {bad})
    assert said[0].startswith("stopped: Slurm preempted job 7; ")
    told = [line.partition(": ") for line in said[1:] if line.startswith("n")]
    assert sorted(node for node, _, _ in told) == list(NS)
    assert not any(words.startswith("accepted") for _, _, words in told)


def test_a_preempted_one_holds_no_node_that_it_has_not_confirmed(
    nodes: Fleet, patrolled: Patrolled
) -> None:
    campaign = Ran("n2", state="interrupted", stopped="Slurm preempted job 7", confirmed=False)
    patrolled(campaign)
    assert nodes.open() == set(NS) and not nodes.comments
    assert store.suspected("lab", "n2") is None


def test_what_was_measured_until_the_budget_ended_is_judged(
    nodes: Fleet, patrolled: Patrolled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_READ_S", 0)
    campaign = Ran("n2", state="interrupted", folder=tmp_path)
    code, said = patrolled(campaign, budget_s=-1)
    assert code == 1 and said[0].startswith("stopped: used up: the budget")
    assert nodes.open() == {"n1", "n3", "n4"}
    assert (tmp_path / ENOUGH).exists()


def test_what_runs_when_the_budget_ends_is_read_yet(patrolled: Patrolled, tmp_path: Path) -> None:
    campaign = Ran(folder=tmp_path, looks=3)
    patrolled(campaign, budget_s=-1)
    assert (tmp_path / ENOUGH).exists() and not campaign.stopped


def test_what_was_not_finished_when_the_budget_ended_is_not_tested(
    patrolled: Patrolled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_READ_S", 0)
    code, said = patrolled(Ran(state="interrupted", folder=tmp_path), budget_s=-1)
    assert code == 2
    assert [line.partition(": ")[0] for line in said if ": not tested: " in line] == list(NS)


def test_a_node_that_was_taken_is_not_tested_and_the_others_are_judged(
    nodes: Fleet, patrolled: Patrolled
) -> None:
    code, said = patrolled(Ran(taken=("n2",)))
    # Of n1 and n3 the direction that only the pair with n2 has is not known.
    told = [line.partition(": ")[0] for line in said if ": not tested: " in line]
    assert (code, told) == (0, ["n1", "n2", "n3"])
    [file] = store.folder("lab").glob("patrols/*.json")
    assert list(json.loads(file.read_text())["not_tested"]) == ["n1", "n2", "n3"]
    assert nodes.open() == set(NS)


def test_a_node_that_is_bad_next_to_a_taken_node_is_held(
    nodes: Fleet, patrolled: Patrolled
) -> None:
    assert patrolled(Ran("n2", taken=("n4",)))[0] == 1
    assert nodes.open() == {"n1", "n3", "n4"}


def test_a_node_that_was_not_tested_keeps_its_age_and_is_not_tested_again_for_that(
    nodes: Fleet, tmp_path: Path
) -> None:
    campaign_of(tmp_path, LAST_WEEK, n1="accepted")
    campaign = "20261122T100000Z-lab-000001"
    campaign_of(tmp_path, campaign, n1="not tested", n2="not tested")
    told: dict[str, Any] = {"partition": "ns", "nodes": ["n1", "n2"], "leaves": {}, "risks": {}}
    journal.Patrol(
        "20261122T100000Z_abcd", "lab", "", "", cover=True, campaign=campaign, ended="", **told
    ).save()
    fleet = run.survey("lab", RULES, NOW)
    assert (of(fleet, "n1").days, of(fleet, "n1").risks) == (7.0, ())
    assert of(fleet, "n2").days > 1e6
    assert not of(fleet, "n1").retest and not of(fleet, "n2").retest


def test_a_node_that_was_refused_next_to_a_guilty_one_is_not_tested_again_on_its_leaf(
    nodes: Fleet, tmp_path: Path
) -> None:
    campaign = "20261122T100000Z-lab-000001"
    campaign_of(tmp_path, campaign, n2="not accepted")
    path = tmp_path / "campaigns" / campaign / STANDING
    standings = record.read_standings(path)
    assert standings is not None
    write_standings(path, {"n2": standings["n2"].model_copy(update={"open": False})})
    told: dict[str, Any] = {"partition": "ns", "nodes": ["n2"], "leaves": {}, "risks": {}}
    journal.Patrol(
        "20261122T100000Z_abcd", "lab", "", "", cover=True, campaign=campaign, ended="", **told
    ).save()
    assert not of(run.survey("lab", RULES, NOW), "n2").retest


def test_a_way_waits_on_that_not_every_check_has_measured(
    nodes: Fleet, patrolled: Patrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves = Leaves({"n1": "a", "n2": "b", "n3": "b", "n4": "c", "n5": "d", "n6": "d"})
    monkeypatch.setattr(run, "leaves_of", lambda _: leaves)
    patrolled(Ran(state="interrupted", stopped="Slurm preempted job 7", taken=("n4",)))
    now = datetime.datetime.now(datetime.timezone.utc)
    assert list(journal.ways("lab", now, 7)) == [("a", "b")]


def test_a_preempted_job_stops_it(
    nodes: Fleet, patrolled: Patrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_READ_S", 0)
    monkeypatch.setattr(slurm_jobs, "preempted_jobs_of", lambda campaign: ["7"] if campaign else [])
    campaign = Ran()
    patrolled(campaign)
    assert campaign.stopped == "Slurm preempted job 7"


def test_a_node_that_is_accepted_again_is_a_suspect_no_more(
    nodes: Fleet, patrolled: Patrolled
) -> None:
    patrolled(Ran("n2", "Iperf3Pair"))
    patrolled(Ran())
    assert nodes.comments["n2"] == "" and store.suspected("lab", "n2") is None


def test_a_node_that_is_accused_meanwhile_stays_a_suspect(
    patrolled: Patrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a gate run that it was lent to as a partner while the patrol's test ran."""
    monkeypatch.setattr(store, "now", lambda: "2026-11-22T13:00:00+00:00")
    store.suspect("lab", "n2", "at fault as a partner", "gate run 1")
    monkeypatch.setattr(store, "now", lambda: "2026-11-22T12:00:00+00:00")
    assert patrolled(Ran())[0] == 0
    assert store.suspected("lab", "n2") is not None
    monkeypatch.setattr(store, "now", lambda: "2026-11-22T14:00:00+00:00")
    patrolled(Ran())
    assert store.suspected("lab", "n2") is None


def test_a_node_that_failed_across_leaves_is_to_be_tested_again_once(
    nodes: Fleet, tmp_path: Path
) -> None:
    campaign = "20261122T100000Z-lab-000001"
    campaign_of(tmp_path, campaign, n1="accepted", n2="not accepted")
    assert not of(run.survey("lab", RULES, NOW), "n2").retest
    told: dict[str, Any] = {"partition": "ns", "nodes": ["n1", "n2"], "leaves": {}, "risks": {}}
    identifier = "20261122T100000Z_abcd"
    journal.Patrol(
        identifier, "lab", "", "", cover=True, campaign=campaign, ended="", **told
    ).save()
    assert of(run.survey("lab", RULES, NOW), "n2").retest
    assert not of(run.survey("lab", RULES, NOW), "n1").retest
    campaign_of(tmp_path, "20261122T110000Z-lab-000002", n2="not accepted")
    assert not of(run.survey("lab", RULES, NOW), "n2").retest


def test_leaves_meet_and_are_remembered(
    nodes: Fleet, patrolled: Patrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves = Leaves({"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c", "n6": "c"})
    monkeypatch.setattr(run, "leaves_of", lambda _: leaves)
    campaign = Ran()
    patrolled(campaign)
    assert campaign.told[variables.SCHEDULE] == "cover"
    now = datetime.datetime.now(datetime.timezone.utc)
    assert list(journal.ways("lab", now, 7)) == [("a", "b")]
    [file] = store.folder("lab").glob("patrols/*.json")
    damaged = {**json.loads(file.read_text()), "id": "x"}
    file.with_stem(f"{file.stem}1").write_text(json.dumps(damaged))
    assert list(journal.ways("lab", now, 7)) == [("a", "b")]
    later = now + datetime.timedelta(days=8)
    assert journal.ways("lab", later, 7) == {}


def test_a_damaged_journal_is_named_and_set_aside(nodes: Fleet, patrolled: Patrolled) -> None:
    patrolled(Ran())
    [good] = store.folder("lab").glob("patrols/*.json")
    damaged = good.with_stem(f"{good.stem}1")
    damaged.write_text("{")
    _, said = patrolled(Ran())
    assert said[0].startswith(f"journal {damaged} is damaged (")
    assert said[0].endswith("measured again") and not damaged.exists() and good.exists()
    assert damaged.with_suffix(".damaged").exists()


@pytest.mark.parametrize("name", ["notes", "20261131T000000Z_abcd", ""])
def test_a_file_that_is_no_journal_is_left_alone(nodes: Fleet, name: str) -> None:
    folder = store.folder("lab") / "patrols"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text("{")
    later = datetime.datetime(2026, 12, 1, tzinfo=datetime.timezone.utc)
    assert journal.read("lab", later, 60) == ([], [])
