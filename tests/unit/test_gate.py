"""The gate: what is held, and that nothing untested is ever open, whatever ends a run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railgauge import accept, inventory, slurm
from railgauge.errors import EnvironmentProblem, RailgaugeError
from railgauge.gate import decide, run, store
from railgauge.node import gate as node_gate
from railgauge.node import slurm_nodes
from railgauge.node.gate import Change, NoStore, Rules, changes
from railgauge.node.slurm_nodes import SlurmNode, SlurmProblem
from railgauge.verdict.rules import Finding

RULES = Rules(("kernel/ignored",), max_hold=2, window_s=600)

ONELINE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=8 State=IDLE+DRAIN ThreadsPerCore=1 "
    "BootTime=2026-11-21T07:59:39 CurrentWatts=0  "
    "Reason=railgauge: firmware changed: nic/mlx5_0/firmware 1 -> 2 [root@2026-11-21T14:55:39]\n"
    "NodeName=n2 Arch=x86_64 CoresPerSocket=8 State=IDLE* ThreadsPerCore=1 CurrentWatts=0 \n"
    "NodeName=n3 Arch=x86_64 State=MIXED+DRAIN+RESERVED ThreadsPerCore=1  "
    "Reason=bad disk [root] [alice@2026-11-20T10:00:00] Comment=x\n"
)


def seen(**fields: Any) -> dict[str, Any]:
    return {"fields": {k.replace("__", "/"): v for k, v in fields.items()}, "unknown": {}}


def accepted(**fields: Any) -> dict[str, Any]:
    return {**seen(**fields), "unknown": []}


# ---- Slurm's words ----


def test_the_states_of_nodes_are_read() -> None:
    nodes = slurm_nodes.parse(ONELINE)
    assert nodes["n1"].ours and not nodes["n1"].busy
    assert nodes["n1"].reason.endswith("1 -> 2")
    assert (nodes["n1"].by, nodes["n1"].since) == ("root", "2026-11-21T14:55:39")
    assert not nodes["n2"].answers and not nodes["n2"].in_service
    assert nodes["n3"].drained and nodes["n3"].busy and not nodes["n3"].ours
    assert nodes["n3"].reason == "bad disk [root]"


def test_only_a_reason_that_begins_so_is_ours() -> None:
    drained = frozenset({"IDLE", "DRAIN"})
    assert not SlurmNode("n1", drained, "alice on railgauge: testing").ours
    assert not SlurmNode("n1", frozenset({"IDLE"}), "railgauge: left over").ours


# ---- what counts as a change ----


def test_a_field_of_another_value_is_a_change() -> None:
    found = changes(accepted(nic__a__firmware="1"), seen(nic__a__firmware="2"), RULES)
    assert found == [Change("nic/a/firmware", "1", "2")]
    assert str(found[0]) == "nic/a/firmware 1 -> 2"


def test_a_part_that_was_replaced_is_a_change() -> None:
    assert changes(accepted(nic__a__node_guid="1"), seen(nic__a__node_guid="2"), RULES)
    assert changes(accepted(gpu__0__serial="1"), seen(gpu__0__serial="2"), RULES)


def test_a_device_that_is_gone_or_new_is_a_change() -> None:
    gone = changes(accepted(nic__a__firmware="1"), seen(), RULES)
    new = changes(accepted(), seen(nic__b__firmware="1"), RULES)
    assert [str(c) for c in gone] == ["nic/a/firmware is gone (was 1)"]
    assert [str(c) for c in new] == ["nic/b/firmware is new (1)"]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (accepted(nic__a__firmware="1"), {"fields": {}, "unknown": {"nic/a/firmware": "EACCES"}}),
        ({"fields": {}, "unknown": ["nic/a/firmware"]}, seen(nic__a__firmware="1")),
        (accepted(kernel__ignored="1"), seen(kernel__ignored="2")),
        (accepted(net__eth0__speed_mbits=1), seen(net__eth0__speed_mbits=2)),
        (accepted(), seen(net__eth0__operstate="up")),
    ],
    ids=["now unknown", "unknown before", "ignored", "state", "new state"],
)
def test_unknown_and_ignored_are_no_change(before: dict[str, Any], now: dict[str, Any]) -> None:
    assert changes(before, now, RULES) == []


# ---- hold ----


class Slurm:
    """Slurm's nodes and reservations, and what may never be: an untested node that is open.

    `at_each` is called after every change that somebody made.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.flags: dict[str, set[str]] = {name: {"IDLE"} for name in names}
        self.reason: dict[str, tuple[str, str, str]] = dict.fromkeys(names, ("", "", ""))
        self.reserved: dict[str, tuple[str, ...]] = {}
        self.at_each: Callable[[], None] = lambda: None

    def show(self, names: Any = ()) -> dict[str, SlurmNode]:
        everyone = {n for nodes in self.reserved.values() for n in nodes}
        return {
            name: SlurmNode(
                name,
                frozenset(self.flags[name] | ({"RESERVED"} if name in everyone else set())),
                *self.reason[name],
            )
            for name in (names or self.flags)
        }

    def drain(self, names: Any, reason: str, by: str = slurm_nodes.OURS) -> None:
        for name in names:
            self.flags[name] |= {"DRAIN"}
            self.reason[name] = (by + reason, "root", "2026-11-21T10:00:00")
            self.at_each()

    def resume(self, names: Any) -> None:
        for name in names:
            self.flags[name] -= {"DRAIN"}
            self.reason[name] = ("", "", "")
            self.at_each()

    def reserve(self, name: str, nodes: Any) -> None:
        self.reserved[name] = tuple(nodes)
        self.at_each()

    def unreserve(self, name: str) -> None:
        del self.reserved[name]
        self.at_each()

    def open(self) -> set[str]:
        """The namespace nodes that take anybody's jobs."""
        return {n for n, node in self.show().items() if node.in_service and n < "n5"}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    fake = Slurm(["n1", "n2", "n3", "n4", "n5", "n6"])
    for name in ("show", "drain", "resume"):
        monkeypatch.setattr(slurm_nodes, name, getattr(fake, name))
    monkeypatch.setattr(slurm, "reserve", fake.reserve)
    monkeypatch.setattr(slurm, "unreserve", fake.unreserve)
    monkeypatch.setattr(slurm, "reservation_nodes", fake.reserved.get)
    return fake


@pytest.fixture
def area(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The store of the lab, with n1 to n4 accepted."""
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    store.publish_rules("lab")
    for name in ("n1", "n2", "n3", "n4"):
        store.accept("lab", taken(name), "adopt", "untested")
    folder = store.folder("lab")
    rules = json.loads((folder / "rules.json").read_text())
    (folder / "rules.json").write_text(json.dumps({**rules, "max_hold": 2}))
    return folder


def document(node: str, kernel: str = "6.12") -> dict[str, Any]:
    return {
        "schema": "railgauge-inventory-1",
        "node": node,
        "boot_id": "b",
        "taken": "2026-11-21T10:00:00+00:00",
        "seconds": 0.1,
        "fields": {"kernel/release": kernel},
        "unknown": {},
        "quick": ["kernel/release"],
    }


def taken(node: str, kernel: str = "6.12") -> inventory.Inventory:
    return inventory.load(json.dumps(document(node, kernel)))


def states(outcomes: Sequence[node_gate.Outcome]) -> dict[str, str]:
    return {outcome.node: outcome.state for outcome in outcomes}


def test_a_changed_node_is_drained_with_the_field_in_its_reason(area: Path, nodes: Slurm) -> None:
    outcomes = node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert states(outcomes) == {"n1": "held"}
    assert nodes.show(["n1"])["n1"].reason == (
        "railgauge: firmware changed: kernel/release 6.12 -> 6.13"
    )


def test_without_act_nothing_is_drained(area: Path, nodes: Slurm) -> None:
    outcomes = node_gate.hold(area, {"n1": document("n1", "6.13")}, act=False)
    assert states(outcomes) == {"n1": "changed"}
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


def test_where_nothing_changed_slurm_is_not_asked(
    area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_nodes, "ask", lambda *_: pytest.fail("asked"))
    assert states(node_gate.hold(area, {"n1": document("n1")}, act=True)) == {"n1": "unchanged"}


def test_a_node_never_accepted_is_reported_and_not_held(area: Path, nodes: Slurm) -> None:
    node_gate.record_path(area, "n1").unlink()
    assert states(node_gate.hold(area, {"n1": document("n1")}, act=True)) == {"n1": "unadopted"}
    assert "n1" in nodes.open()


def test_beyond_max_hold_there_is_only_the_alarm(area: Path, nodes: Slurm) -> None:
    everyone = {name: document(name, "6.13") for name in ("n1", "n2", "n3", "n4")}
    outcomes = node_gate.hold(area, everyone, act=True)
    assert sorted(states(outcomes).values()) == ["alarm", "alarm", "held", "held"]
    assert len(nodes.open()) == 2


def test_what_was_held_a_moment_ago_counts(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = node_gate.datetime.datetime.now().isoformat(timespec="seconds")
    for name in ("n3", "n4"):
        nodes.drain([name], "firmware changed: x")
        nodes.reason[name] = (nodes.reason[name][0], "root", now)
    assert states(node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)) == {"n1": "alarm"}


def test_a_node_of_somebody_else_is_left_alone(area: Path, nodes: Slurm) -> None:
    nodes.drain(["n1"], "bad disk", by="")
    nodes.reserve("other", ["n2"])
    everyone = {name: document(name, "6.13") for name in ("n1", "n2")}
    assert set(states(node_gate.hold(area, everyone, act=True)).values()) == {"alarm"}
    assert nodes.show(["n1"])["n1"].reason == "bad disk"


def test_a_store_that_is_not_there_changes_nothing(tmp_path: Path, nodes: Slurm) -> None:
    with pytest.raises(NoStore, match=r"gate adopt --act"):
        node_gate.hold(tmp_path / "gone", {"n1": document("n1")}, act=True)
    assert "n1" in nodes.open()


def test_a_store_that_hangs_changes_nothing(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = node_gate.record_path(area, "n1")
    record.unlink()
    # Reading a FIFO that nobody writes waits for ever, as a file server may.
    node_gate.os.mkfifo(record)
    monkeypatch.setattr(node_gate, "STORE_LIMIT_S", 0.2)
    with pytest.raises(NoStore, match="no answer within"):
        node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert "n1" in nodes.open()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"fields": 3, "unknown": []}', "nul"])
def test_a_damaged_store_changes_nothing(area: Path, nodes: Slurm, content: str) -> None:
    node_gate.record_path(area, "n1").write_text(content)
    with pytest.raises(NoStore):
        node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert "n1" in nodes.open()


# ---- a run, killed at each step ----


class Killed(BaseException):
    """As SIGKILL does, nothing of ours runs after it; locks and Slurm stay as they are."""


@dataclasses.dataclass
class Campaigns:
    """Stands in for campaigns: `bad` nodes fail with everyone who is tested beside them.

    `at_each` is called in the middle of each.
    """

    bad: set[str]
    at_each: Callable[[], None]
    made: dict[str, Any] = dataclasses.field(default_factory=dict)
    resumed: list[str] = dataclasses.field(default_factory=list)

    def run(self, system: str, scope: Any, nodes: str, *_: Any, begun: Any) -> Any:
        name = f"20261121T100000Z-lab-{len(self.made):06}"
        self.made[name] = SimpleNamespace(
            id=name, gate="acceptance", state="running", scope=scope, folder=None
        )
        begun(self.made[name])
        return self.ended(self.made[name])

    def resume(self, campaign: Any, *_: Any) -> Any:
        assert campaign.state == "running"
        self.resumed.append(campaign.id)
        return self.ended(campaign)

    def ended(self, campaign: Any) -> Any:
        self.at_each()
        campaign.state = "finished"
        self.at_each()
        return self.verdict(campaign)

    def verdict(self, campaign: Any) -> Any:
        members = sorted({n for part in campaign.scope.nodes.values() for n in part})
        bad = sorted(self.bad & set(members))
        pairs = list(zip(members, [*members[1:], members[0]], strict=True))
        cases = [
            SimpleNamespace(
                check="Iperf2Pair",
                partition="ns",
                nodes=p,
                passed=not set(p) & self.bad,
                result="",
                was_left_out=False,
            )
            for p in pairs
        ]
        findings = [
            Finding("reject", "out", "too slow", "Iperf2Pair", "ns", c.nodes)
            for c in cases
            if not c.passed
        ]
        told = bad if len(members) > 2 and len(bad) == 1 else []
        return SimpleNamespace(
            campaign=campaign,
            simulated=False,
            findings=findings,
            cases=cases,
            suspects=[SimpleNamespace(node=n) for n in told],
        )


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch, nodes: Slurm) -> Iterator[Campaigns]:
    fake = Campaigns({"n2"}, lambda: nodes.at_each())
    monkeypatch.setattr(accept, "run", fake.run)
    monkeypatch.setattr(accept, "resume", fake.resume)
    monkeypatch.setattr(run, "load", fake.made.__getitem__)
    monkeypatch.setattr(run.rules, "decide", fake.verdict)
    as_tested = {node: taken(node, "6.13") for node in ("n1", "n2", "n3")}
    monkeypatch.setattr(inventory, "in_campaign", lambda _: as_tested)
    yield fake


def held(nodes: Slurm, *names: str) -> None:
    nodes.drain(names, "firmware changed: kernel/release 6.12 -> 6.13")


def go(nodes: Slurm) -> store.Run:
    """What `gate run --act` does: finish what broke off, then what is held."""
    broken = store.unended("lab")
    if broken is not None:
        run.finish(broken, [], lambda _: None)
    rest = sorted(run.candidates("lab", None))
    ended = run.finish(run.plan("lab", rest), [], lambda _: None) if rest and not broken else broken
    assert ended is not None
    return ended


def test_a_good_node_returns_and_is_accepted_as_it_is_now(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    ended = go(nodes)
    assert ended.decided == {"n1": ""}
    assert nodes.open() == {"n1", "n2", "n3", "n4"} and not nodes.reserved
    assert len(tests.made) == 1
    record = store.accepted("lab", "n1")
    assert record is not None
    assert (record.fields["kernel/release"], record.how, record.by) == (
        "6.13",
        "run",
        next(iter(tests.made)),
    )


def test_a_bad_node_stays_out_with_the_check_in_its_reason(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n2")
    go(nodes)
    assert nodes.open() == {"n1", "n3", "n4"} and not nodes.reserved
    assert nodes.show(["n2"])["n2"].reason.startswith("railgauge: Iperf2Pair ")
    record = store.accepted("lab", "n2")
    assert record is not None and record.fields["kernel/release"] == "6.12"


def test_who_failed_beside_a_bad_node_is_tested_again_without_it(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1", "n2")
    ended = go(nodes)
    assert ended.decided["n1"] == "" and ended.decided["n2"]
    first, second = ({*c.scope.nodes["ns"]} for c in tests.made.values())
    assert "n2" in first and "n2" not in second
    assert nodes.open() == {"n1", "n3", "n4"}


def test_a_partner_at_fault_is_named_and_keeps_nobody_else_out(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")
    said: list[str] = []
    ended = run.finish(run.plan("lab", ["n1"]), [], said.append)
    assert ended.decided == {"n1": ""} and ended.bad_partners == ["n2"]
    assert any("partner n2 is at fault" in line for line in said)
    # It is not ours to drain: nobody has held it.
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


@pytest.mark.parametrize("names", ["", "n1", "n2", "n1 n2"])
def test_killed_anywhere_no_untested_node_is_open_and_the_next_run_ends_it(
    area: Path, nodes: Slurm, tests: Campaigns, names: str
) -> None:
    """After every single change of Slurm's state, and before every journal entry, in turn."""
    bad = tests.bad = set(names.split())
    save, steps = store.Run.save, 0
    while True:
        for name in ("n1", "n2"):
            store.accept("lab", taken(name), "adopt", "untested")
        nodes.resume(["n1", "n2", "n3", "n4"])
        held(nodes, "n1", "n2")
        left = steps

        def step() -> None:
            nonlocal left
            good = {
                name
                for name in ("n1", "n2")
                if (record := store.accepted("lab", name))
                and record.fields["kernel/release"] == "6.13"
            }
            assert not nodes.open() & ({"n1", "n2"} - good)
            left -= 1
            if left == 0:
                raise Killed

        nodes.at_each = step

        def saving(self: store.Run, step: Callable[[], None] = step) -> None:
            step()
            save(self)

        store.Run.save = saving  # type: ignore[method-assign]
        try:
            if left:
                with pytest.raises(Killed):
                    go(nodes)
                    raise StopIteration
            ended = go(nodes)
        except StopIteration:
            return
        finally:
            store.Run.save = save  # type: ignore[method-assign]
            nodes.at_each = lambda: None
        assert {name for name, why in ended.decided.items() if why} == bad or len(bad) == 2
        assert nodes.open() == {"n1", "n2", "n3", "n4"} - bad
        assert not nodes.reserved
        assert store.unended("lab") is None
        # What was killed in the middle of a campaign has gone on with it.
        assert all(tests.made[name].state == "finished" for name in ended.campaigns)
        steps += 1


def test_a_campaign_whose_folder_is_gone_is_measured_anew(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a full results area that was given another file system."""
    tests.bad = set()
    held(nodes, "n1")
    broken = run.plan("lab", ["n1"])
    broken.campaigns.append("gone")
    broken.save()

    def load(name: str) -> Any:
        if name not in tests.made:
            raise RailgaugeError(f"no campaign {name!r}")
        return tests.made[name]

    monkeypatch.setattr(run, "load", load)
    assert run.finish(broken, [], lambda _: None).decided == {"n1": ""}
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


def test_a_node_that_somebody_took_over_meanwhile_is_left_to_them(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")
    broken = run.plan("lab", ["n1"])
    broken.save()
    nodes.drain(["n1"], "bad fan", by="")
    ended = run.finish(broken, [], lambda _: None)
    assert "bad fan" in ended.decided["n1"]
    assert nodes.show(["n1"])["n1"].reason == "bad fan" and not nodes.reserved


def test_a_reservation_that_somebody_deletes_does_not_open_the_node(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")

    def delete() -> None:
        nodes.at_each = lambda: None
        nodes.reserved.clear()

    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    run.resume(planned, [], lambda _: None)
    delete()
    with pytest.raises(RailgaugeError, match="is gone"):
        run.test(planned, [], lambda _: None)
    assert "n1" not in nodes.open()
    assert not tests.made


def test_what_railgauge_did_not_hold_is_not_tested_or_returned(area: Path, nodes: Slurm) -> None:
    nodes.drain(["n1"], "bad disk", by="")
    with pytest.raises(RailgaugeError, match="not held by railgauge"):
        run.candidates("lab", ["n1"])
    with pytest.raises(RailgaugeError, match="not held by railgauge"):
        run.candidates("lab", ["n2"])
    assert run.candidates("lab", None) == {}


def test_partners_are_idle_in_service_and_accepted(area: Path, nodes: Slurm) -> None:
    held(nodes, "n1")
    nodes.flags["n2"] |= {"MIXED"}
    node_gate.record_path(area, "n3").unlink()
    assert run.partners("lab", ["n1"]) == ["n4"]


def test_one_run_at_a_time(area: Path) -> None:
    with run.alone("lab"), pytest.raises(RailgaugeError, match="under way"), run.alone("lab"):
        pass


def test_slurm_that_refuses_leaves_the_node_reserved_or_drained(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(nodes, "n2")

    def refuse(*_: object) -> None:
        raise SlurmProblem("Access/permission denied")

    real = slurm_nodes.drain
    monkeypatch.setattr(slurm_nodes, "drain", refuse)
    with pytest.raises(SlurmProblem):
        go(nodes)
    assert "n2" not in nodes.open()
    monkeypatch.setattr(slurm_nodes, "drain", real)
    go(nodes)
    assert nodes.show(["n2"])["n2"].drained and not nodes.reserved


# ---- rolling updates ----


def test_a_rolling_update_stops_where_the_budget_ends(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "rules", lambda _: store.GateRules(budget=1, partners=2))
    tests.bad = {"n1", "n2"}
    updated = area / "updated"
    line = f"echo {{nodes}} >> {updated}"
    with pytest.raises(RailgaugeError, match="budget"):
        run.roll("lab", ["n1", "n2", "n3"], line, 1, 1, [], lambda _: None)
    assert updated.read_text().split() == ["n1"]
    assert nodes.open() == {"n2", "n3", "n4"}


def test_an_update_that_fails_leaves_its_nodes_drained(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    with pytest.raises(RailgaugeError, match="exit code 7"):
        run.roll("lab", ["n1", "n2"], "exit 7", 1, 1, [], lambda _: None)
    assert nodes.show(["n1"])["n1"].reason == "railgauge: update failed with exit code 7"
    assert nodes.open() == {"n2", "n3", "n4"} and not tests.made


# ---- who may return ----


def verdict(*findings: Finding, **other: Any) -> Any:
    case = SimpleNamespace(
        check="C", partition="ns", nodes=("n1",), passed=True, result="pass", was_left_out=False
    )
    campaign = SimpleNamespace(
        id="c", gate="acceptance", state="finished", scope=SimpleNamespace(nodes={"ns": ["n1"]})
    )
    for name in ("gate", "state"):
        if name in other:
            setattr(campaign, name, other.pop(name))
    content = {"campaign": campaign, "simulated": False, "cases": [case], "suspects": []}
    return SimpleNamespace(**{**content, "findings": findings, **other})


def test_a_clean_verdict_lets_the_node_return() -> None:
    assert decide.why_not(verdict(), "n1") == ""


@pytest.mark.parametrize(
    "given",
    [
        verdict(simulated=True),
        verdict(gate="baseline"),
        verdict(state="interrupted"),
        verdict(Finding("reject", "k", "slow", "C", "ns", ("n1",))),
        verdict(Finding("inconclusive", "k", "left out", "C", "ns")),
        verdict(Finding("inconclusive", "session", "broken")),
        verdict(cases=[]),
        verdict(
            cases=[
                SimpleNamespace(
                    check="C",
                    partition="x",
                    nodes=("n1",),
                    passed=True,
                    result="",
                    was_left_out=False,
                )
            ]
        ),
    ],
    ids=["simulated", "baseline", "interrupted", "named", "partition", "all", "none", "elsewhere"],
)
def test_anything_else_keeps_it_out(given: Any) -> None:
    assert decide.why_not(given, "n1")


def test_a_finding_of_another_partition_keeps_nobody_out() -> None:
    assert decide.why_not(verdict(Finding("reject", "k", "m", "C", "vm", ("n5",))), "n1") == ""
    assert decide.why_not(verdict(Finding("inconclusive", "k", "m", "C", "vm")), "n1") == ""


def test_damaged_records_are_named(area: Path) -> None:
    node_gate.record_path(area, "n1").write_text("{}")
    with pytest.raises(RailgaugeError, match=r"n1\.json"):
        store.accepted("lab", "n1")


def test_an_unwritable_store_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gate").write_text("a file where the folder should be")
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="RAILGAUGE_RESULTS"):
        store.publish_rules("lab")
