"""The fabric between the nodes: who sends to whom, and what is read of a site's counters."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import systems
from railgauge.campaign import variables
from railgauge.campaign.folder import RESULT_FILE
from railgauge.checks.framework import slurm_queue, topology
from railgauge.checks.framework.cases import PairCase
from railgauge.checks.jobs import uplink_counters
from railgauge.checks.jobs.sweep_output import SweepOutput
from railgauge.checks.tcp import fabric_balance
from railgauge.model.leaves import Leaves
from railgauge.model.measurement import Measurement
from railgauge.model.record import read_record
from railgauge.model.uplinks import CountersError, Uplink, parse
from railgauge.node.transport import results_file
from railgauge.tools import Completeness, Moved, Reading
from tests.unit.checks import ended_jobs

# ---- who sends to whom ----


@given(st.integers(2, 70))
def test_in_a_round_nobody_has_two_partners(count: int) -> None:
    names = [f"n{number}" for number in range(count)]
    for members in fabric_balance.flows("ns", names):
        used = [node for pair in members for node in pair.nodes]
        assert len(used) == len(set(used))


@given(st.integers(2, 70))
def test_every_node_sends_and_receives_as_often_as_any_other(count: int) -> None:
    names = [f"n{number}" for number in range(count)]
    pairs = [pair for members in fabric_balance.flows("ns", names) for pair in members]
    assert len({pair.nodes for pair in pairs}) == len(pairs)
    clients, servers = [p.client for p in pairs], [p.server for p in pairs]
    shifts = len(pairs) // count
    assert {clients.count(name) for name in names} == {shifts}
    assert {servers.count(name) for name in names} == {shifts}


def test_every_leaf_of_the_larger_lab_sends_to_every_other_and_none_to_itself() -> None:
    (partition,) = systems.load("lab32").partitions
    leaf = {node: index // 8 for index, node in enumerate(partition.nodes)}
    rounds = fabric_balance.flows("ns", partition.nodes)
    ways = {(leaf[p.client], leaf[p.server]) for members in rounds for p in members}
    assert ways == {(a, b) for a in range(4) for b in range(4) if a != b}
    assert [len(members) for members in rounds] == [16] * 6


def test_only_all_nodes_of_a_partition_in_one_job_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (partition,) = systems.load("lab32").partitions
    cases = fabric_balance.FabricCases()
    assert [case.nodes for case in cases.on(partition)] == [partition.nodes]
    sweep = systems.Sweep(nodes_per_job=64)
    in_parts = partition.model_copy(
        update={"extras": partition.extras.model_copy(update={"sweep": sweep})}
    )
    assert list(cases.on(in_parts)) == []
    assert "nodes_per_job" in cases.lacks(in_parts)
    monkeypatch.setenv("RAILGAUGE_NODES", "n[1-8]")
    assert list(cases.on(partition)) == []


# ---- the site's counters ----

ONE = {"leaf": "l1", "spine": "s1", "sent_bytes": 5, "received_bytes": 7}


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import sys; sys.exit('no route to switch')", "exit code 1: no route to switch"),
        ("print(1)", "expected"),
    ],
)
def test_a_command_that_tells_nothing_is_told(script: str, says: str) -> None:
    with pytest.raises(CountersError, match=says):
        uplink_counters.count([sys.executable, "-c", script])


def test_a_command_that_is_not_there_is_told() -> None:
    with pytest.raises(CountersError, match="no-such-program"):
        uplink_counters.count(["no-such-program"])


def test_a_command_is_asked() -> None:
    script = f"import json; print(json.dumps({{'uplinks': [{ONE}]}}))"
    assert uplink_counters.count([sys.executable, "-c", script]) == [Uplink("l1", "s1", 5, 7)]


@pytest.mark.parametrize(("sent", "says"), [(49, "at least 50%"), (126, "at most 125%")])
def test_counters_of_other_traffic_are_refused(sent: int, says: str) -> None:
    with pytest.raises(CountersError, match=says):
        uplink_counters.confirm(sent, 100, "iperf2")


@pytest.mark.parametrize("sent", [50, 102, 125])
def test_counters_of_this_traffic_are_believed(sent: int) -> None:
    uplink_counters.confirm(sent, 100, "iperf2")


# ---- a job that has ended ----

#: What each of 96 pairs moves, in bytes.
MOVED = 1000


def counted(*shares: int) -> list[Uplink]:
    """Of four leaves, each of which has sent its 24 pairs' bytes in these shares, and received as
    much evenly.
    """
    part = 24 * MOVED // sum(shares)
    return [
        Uplink(f"leaf{leaf}", f"spine{spine}", share * part, 24 * MOVED // len(shares))
        for leaf in range(1, 5)
        for spine, share in enumerate(shares, start=1)
    ]


NOTHING = [Uplink(one.leaf, one.spine, 0, 0) for one in counted(1, 1, 1, 1)]


def counts(before: Any, after: Any) -> uplink_counters.Counting:
    """What the site's command said before a job and after it."""
    found = uplink_counters.Counting.__new__(uplink_counters.Counting)
    found.before, found.after = before, after
    found._command = ["site-counters"]
    return found


@pytest.fixture(scope="module")
def balance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with ended_jobs.session("lab32", tmp_path_factory.mktemp("results")) as known:
        yield known["FabricBalance"].kind


@pytest.fixture
def check(balance: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The check on 32 nodes, with counters that agree with what iperf2 moved."""
    monkeypatch.setattr(slurm_queue.session, "takes_no_job", lambda asked: {})
    reading = Reading(
        *(True, "all", Completeness.PROVED),
        (Measurement("bandwidth", 0.05, "iperf2", "tcp", "tcp", streams=8),),
        seen={"streams": 8},
        moved=(Moved(MOVED, 3),),
    )
    monkeypatch.setattr(fabric_balance.iperf2, "read", lambda *_, **__: reading)
    one = ended_jobs.ended(balance(variant_num=0), tmp_path / "stage")
    one._counting = counts(NOTHING, counted(1, 1, 1, 1))
    one.select_places()
    return one


def left_by(check: Any) -> ended_jobs.Left:
    facts = {"emulation": "none", "mtu_bytes": 4200}
    sides: dict[str, dict[str, results_file.Side]] = {}
    for place in check.orders().document()["places"]:
        sides[place["name"]] = {
            role: ended_jobs.side(ended_jobs.exit_line("iperf2", role, node, 0, **facts), "")
            for role, node in place["roles"].items()
        }
    return ended_jobs.Left(sides, dict.fromkeys(sides, ended_jobs.DONE))


def measured(check: Any) -> list[Measurement]:
    record = read_record(Path(check.stagedir, RESULT_FILE))
    assert record is not None
    ((jain, together),) = (result.rows for result in record.results)
    assert jain.gates and not together.gates
    return [jain.measurement, together.measurement]


def value(check: Any) -> float:
    return measured(check)[0].value


def test_what_the_pairs_of_a_round_get_together_stands_beside(check: Any) -> None:
    left_by(check).write(check)
    ended_jobs.judge(check)
    together = measured(check)[1]
    assert (together.metric, together.unit) == ("bandwidth", "Gb/s")
    # Six rounds of 16 pairs, of which each moved so much in three seconds.
    assert together.value == pytest.approx(16 * MOVED * 8e-9 / 3)


def test_a_flow_that_ends_early_adds_no_rate_to_the_time_after_it() -> None:
    def moved(seconds: float) -> Reading:
        return Reading(True, "", Completeness.PROVED, moved=(Moved(3 * 10**9, seconds),))

    # Their own rates add up to 36 Gb/s; in the second round both are there all the time.
    assert fabric_balance.together_gbits([[moved(1.0), moved(2.0)]]) == pytest.approx(24)
    assert fabric_balance.together_gbits(
        [[moved(1.0), moved(2.0)], [moved(2.0)] * 2]
    ) == pytest.approx(24)
    assert fabric_balance.together_gbits([[moved(1.0)], [moved(2.0)]]) == pytest.approx(16)


def test_the_mode_that_the_session_says_is_a_part_of_the_condition(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variables.FABRIC_MODE, "packet")
    left_by(check).write(check)
    said = ended_jobs.judge(check)
    # What is stored for a mode that nobody said is no reference of this one.
    assert "no reference for jain_index_packet" in said
    assert [m.operation for m in measured(check)] == ["uplinks packet"] * 2


@given(st.integers(2, 24), st.integers(1, 6))
def test_all_to_all_is_each_node_to_every_node_of_other_leaves_at_once(
    count: int, leaves: int
) -> None:
    names = [f"n{number}" for number in range(count)]
    of_node = {name: f"leaf{index * leaves // count}" for index, name in enumerate(names)}
    (members,) = fabric_balance.all_to_all("ns", names, Leaves(of_node))
    ways = [(pair.client, pair.server) for pair in members]
    assert len(set(ways)) == len(ways)
    assert set(ways) == {(a, b) for a in names for b in names if of_node[a] != of_node[b]}


def test_where_leaves_are_not_known_all_to_all_is_with_every_other_node() -> None:
    assert len(fabric_balance.all_to_all("ns", ["n1", "n2", "n3"], None)[0]) == 6


def test_a_mode_is_one_word() -> None:
    with pytest.raises(ValueError, match="mode"):
        systems.Fabric.model_validate({"counters": ["x"], "mode": "per packet"})


def test_even_uplinks_are_a_pass(check: Any) -> None:
    left_by(check).write(check)
    assert ended_jobs.judge(check) == ""
    assert value(check) == pytest.approx(1)


def test_the_least_even_leaf_is_the_number_and_its_shares_are_noted(check: Any) -> None:
    left_by(check).write(check)
    check._counting.after = [*counted(1, 1, 1, 1)[:12], *counted(3, 1, 1, 1)[12:]]
    ended_jobs.judge(check)
    assert value(check) == pytest.approx(36 / 48)
    (result,) = read_record(Path(check.stagedir, RESULT_FILE)).results  # type: ignore[union-attr]
    (note,) = result.notes
    assert note.startswith("the least even of 8: leaf4 sent 0.024 MB: spine1 50%, spine2 17%")
    assert parse(Path(check.stagedir, uplink_counters.CARRIED).read_text()) == check._counting.after


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (CountersError("no route"), NOTHING, "no route"),
        (NOTHING, CountersError("exit code 1"), "exit code 1"),
        (NOTHING, NOTHING, "the leaves counted 0 MB while iperf2 moved 0.096 MB"),
        (NOTHING, [], "counted once"),
        ([], [], "no leaf with two uplinks"),
    ],
)
def test_without_counters_of_its_own_traffic_nothing_was_measured(
    check: Any, before: Any, after: Any, says: str
) -> None:
    left_by(check).write(check)
    check._counting = counts(before, after)
    message = ended_jobs.judge(check)
    assert "`bin/railgauge lab uplinks --json`: " in message and says in message


def test_a_pair_that_failed_is_named(check: Any) -> None:
    left = left_by(check)
    left.sides["n9:n1"]["client"].line["call"]["exit_code"] = 1
    left.write(check)
    assert "iperf2 (client) on n1 ended with exit code 1" in ended_jobs.judge(check)


def test_of_pairs_that_are_no_result_the_uplinks_are_told_all_the_same(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by(check).write(check)
    monkeypatch.setattr(
        fabric_balance.iperf2, "read", lambda *_, **__: Reading.invalid("ran too long")
    )
    check._counting.after = [*counted(1, 1, 1, 1)[:12], *counted(3, 1, 1, 1)[12:]]
    message = ended_jobs.judge(check)
    assert "n9:n1: ran too long; and 95 more; the least even of 8: leaf4 sent" in message
    assert "spine1 50%" in message


def test_a_node_that_was_lost_is_named_alone(check: Any) -> None:
    left = left_by(check)
    left.joined, left.lost = ("n3",), {"n3": "its connection ended"}
    left.write(check)
    assert ended_jobs.judge(check) == "uplinks: n3: its connection ended"


def test_a_job_that_left_nothing_has_no_place_that_was_measured(check: Any) -> None:
    ended_jobs.Left({}, {}, end=None).write(check)
    assert "did not begin" in ended_jobs.judge(check)
    assert list(check.not_run) == ["uplinks"]


# ---- what a sweep of pairs leaves of the uplinks ----

MB = 1_000_000


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with (
        ended_jobs.session("lab32", tmp_path_factory.mktemp("results")) as known,
        # No lab is up.
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(topology, "printed", lambda command: "")
        yield known["Iperf2Pair"].kind


def sweep_left(check: Any, runs: dict[str, dict[str, tuple[str, int, int]]]) -> None:
    """A sweep whose nodes counted so much: place -> role -> node, and what it sent and received, in
    tenths of a MB.
    """
    places = [PairCase("ns", *re.split("[:@]", place)[:2], again="@" in place) for place in runs]
    check.results = [SimpleNamespace(place=place) for place in places]
    left = results_file.Raw()
    for number, of_place in enumerate(runs.values()):
        left.sides[number] = {
            role: ended_jobs.side(
                ended_jobs.exit_line(
                    "iperf2",
                    role,
                    node,
                    device="eth0",
                    counters={
                        "bytes": {"eth0": {"tx": sent * MB // 10, "rx": received * MB // 10}}
                    },
                ),
                "",
            )
            for role, (node, sent, received) in of_place.items()
        }
    vars(check)["_output"] = SweepOutput(places, left)


@pytest.mark.parametrize(
    ("sent", "received", "known"),
    [
        (10 * MB, 0, True),
        (12 * MB, MB // 2, True),
        (13 * MB, 0, False),
        (10 * MB, MB, False),
    ],
    ids=str,
)
def test_a_sweep_of_pairs_has_what_the_uplinks_carried_unless_others_used_them(
    pairs: Any, tmp_path: Path, sent: int, received: int, known: bool
) -> None:
    """Of each leaf by itself: what others send over one is not hidden by what is moved elsewhere,
    or within a leaf.
    """
    check = ended_jobs.ended(pairs(variant_num=0), tmp_path / "stage")
    leaves = {"n1": "leaf1", "n2": "leaf1", "n9": "leaf2", "n10": "leaf2"}
    vars(check)["_leaves"] = Leaves(leaves)
    after = [
        *(Uplink("leaf1", "spine1", sent, received, errors=3), Uplink("leaf1", "spine2", 0, 0)),
        *(Uplink("leaf2", "spine1", 0, 10 * MB), Uplink("leaf2", "spine2", 0, 0)),
    ]
    nothing = [Uplink(u.leaf, u.spine, 0, 0) for u in after]
    check._counting = counts(nothing, after)
    sweep_left(
        check,
        {
            f"{server}:{client}": {"client": (client, 100, 0), "server": (server, 0, 100)}
            for server, client in (("n9", "n1"), ("n1", "n2"), ("n9", "n10"))
        },
    )
    carried, flows = check.uplinks_carried()
    assert list(carried) == (after if known else after[2:])
    assert flows == {**({"leaf1": (4, 0)} if known else {}), "leaf2": (0, 4)}


@pytest.mark.parametrize(
    ("hashed", "both_ways"), [("layer3", (2, 1)), ("layer3+4", (12, 4))], ids=["layer3", "layer3+4"]
)
def test_flows_are_of_every_run_that_sent_something_whether_it_failed_or_not(
    pairs: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hashed: str,
    both_ways: tuple[int, int],
) -> None:
    """By addresses alone, all streams between two nodes take one uplink, also in another run; what
    only acknowledges, or was never answered, is none.
    """
    check = ended_jobs.ended(pairs(variant_num=0), tmp_path / "stage")
    monkeypatch.setitem(vars(check.partition_data.extras.fabric), "hash", hashed)
    vars(check)["_leaves"] = Leaves({"n1": "leaf1", "n2": "leaf1", "n9": "leaf2"})
    check._counting = counts(
        [Uplink("leaf1", "s1", 0, 0)], [Uplink("leaf1", "s1", 60 * MB, 9 * MB)]
    )
    there = {"client": ("n1", 100, 1), "server": ("n9", 1, 100)}
    back = {"back/client": ("n9", 90, 0), "back/server": ("n1", 0, 90)}
    sweep_left(
        check,
        {
            "n9:n1": {**there, **back},
            "n9:n1@1": there,
            "n9:n2": {"client": ("n2", 300, 3)},
            "n9:n2@1": {"client": ("n2", 0, 0), "server": ("n9", 0, 0)},
        },
    )
    carried, flows = check.uplinks_carried()
    assert [str(one) for one in carried] == ["leaf1:s1"]
    assert flows == {"leaf1": both_ways}


@pytest.mark.parametrize("after", [CountersError("no route"), [], [Uplink("leaf1", "s1", 0, 0)]])
def test_a_sweep_whose_uplinks_nobody_could_count_says_nothing_of_them(
    pairs: Any, tmp_path: Path, after: Any
) -> None:
    check = ended_jobs.ended(pairs(variant_num=0), tmp_path / "stage")
    check._counting = counts([Uplink("leaf1", "s1", 5, 0)], after)
    assert check.uplinks_carried() == ((), {})
    # Who looks for a bad uplink is told that nobody counted, by what, when, and why.
    (note,) = check.notes_of_job()
    assert "`site-counters`, after the job: " in note and "extras.fabric.counters" in note
    assert "no route" in note or not isinstance(after, CountersError)


def test_counters_that_are_not_read_before_a_sweep_are_told(pairs: Any, tmp_path: Path) -> None:
    check = ended_jobs.ended(pairs(variant_num=0), tmp_path / "stage")
    check._counting = counts(CountersError("exit code 3"), [])
    check.results = []
    (note,) = check.notes_of_job()
    assert "before the job: exit code 3" in note
    check._store([])
    written = read_record(Path(check._stagedir, RESULT_FILE))
    assert written is not None and written.notes == (note,)


def test_without_a_fabric_nobody_counts(pairs: Any, tmp_path: Path) -> None:
    check = ended_jobs.ended(pairs(variant_num=0), tmp_path / "stage")
    assert check.uplinks_carried() == ((), {}) and not check.notes_of_job()
