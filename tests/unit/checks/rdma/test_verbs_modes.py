"""The ways to use a link: what is measured of each, under which name, and which number gates."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from railgauge import systems
from railgauge.checks.framework import plan
from railgauge.checks.framework.cases import RailUsageCase
from railgauge.checks.framework.observation import Judged
from railgauge.checks.framework.schedule import rounds
from railgauge.checks.jobs.client_server import failures_of_links
from railgauge.checks.rdma.rail import perftest_run
from railgauge.checks.rdma.verbs_modes import RailUsages, operation_of
from railgauge.model import references
from railgauge.model.failure import ENVIRONMENT
from railgauge.model.measurement import Measurement
from railgauge.model.references import Condition
from railgauge.node.runners import repeat
from railgauge.tools import Moved, perftest
from tests.unit.checks import ended_jobs
from tests.unit.checks.rdma.test_rail import Describe, describe, partition, rails  # noqa: F401
from tests.unit.records import names

RECORDED = Path(__file__).parents[3] / "data" / "perftest"


@pytest.fixture(scope="module")
def usages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """RdmaUsage of the lab at each of its places, by the usage."""
    folder = tmp_path_factory.mktemp("usages")
    with ended_jobs.session("lab", folder) as known, contextlib.ExitStack() as places:
        found = {}
        for place in known["RdmaUsage"].kind(variant_num=0).places:
            check = ended_jobs.ended(known["RdmaUsage"].kind(variant_num=0), folder / place.usage)
            places.enter_context(check.at(place))
            found[place.usage] = check
        yield found


def measured(usage: str, size_bytes: int) -> Measurement:
    return Measurement("bandwidth", 1.0, "perftest", operation_of(usage), "roce", size_bytes)


def test_every_usage_asks_perftest_for_something_else(usages: Mapping[str, Any]) -> None:
    assert set(usages) == {
        *("read", "send", "bidirectional", "queue_pairs", "duration", "rdma_cm", "sizes")
    }
    tools = {usage: check.sweep_run.tool for usage, check in usages.items()}
    assert len({tool.options for tool in tools.values()}) == len(usages)
    clients = {usage: tool.client for usage, tool in tools.items()}
    assert {argv[0] for argv in clients.values()} == {"ib_read_bw", "ib_send_bw", "ib_write_bw"}
    options = {"bidirectional": "-b", "queue_pairs": "-q", "duration": "-D", "rdma_cm": "-R"}
    for usage, option in {**options, "sizes": "-a"}.items():
        assert [other for other in clients if option in clients[other]] == [usage]


def test_what_must_be_measured_has_the_name_that_it_is_measured_under(
    usages: Mapping[str, Any],
) -> None:
    for usage, check in usages.items():
        sizes = perftest.SWEEP_SIZES if usage == "sizes" else [65536]
        numbers = [measured(usage, size) for size in sizes]
        assert check.required_metrics() == [number.variable for number in numbers]
        assert [n.size_bytes for n in numbers if check.gates(n)] == [sizes[-1]]


def test_no_two_usages_have_one_reference() -> None:
    """What is measured over many queue pairs, or all sizes, says nothing of a time's."""
    stored = references.load("lab").entries
    of_usages = [entry for entry in stored if entry.check == "RdmaUsage"]
    operations = [entry.operation for entry in of_usages]
    assert len(set(operations)) == len(operations) == 7


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (True, None),
        (False, "operation is write rdma_cm, expected that of a usage: read"),
    ],
)
def test_rdma_cm_is_used_where_the_fabric_has_it(
    describe: Describe,  # noqa: F811
    there: bool,
    expected: str | None,
) -> None:
    cases = RailUsages("first", "read", "rdma_cm")
    describe(partition(rdma=rails(2, rdma_cm=there)))
    assert names(cases) == ["gpu:n1:n2:0-0:read", "gpu:n1:n2:0-0:rdma_cm"][: 1 + there]
    of_cm, described = (
        Condition(operation="write rdma_cm"),
        systems.load("alps").partition("gpu"),
    )
    mismatch = cases.mismatch(of_cm, described, gates=True)
    assert (mismatch and mismatch.reason) == expected


def test_the_plan_tells_the_places_of_a_pair_apart(tmp_path: Path) -> None:
    """By what they measure, and not by their names: one makes up for another that was taken."""
    with ended_jobs.session("lab", tmp_path, RAILGAUGE_SERIES="1") as known:
        for name in ("RdmaUsage", "ContentionTcp", "WdtTransfer"):
            places = plan.places_of(known[name].kind(variant_num=0))
            measured = [(place.nodes, place.kind, place.condition) for place in places]
            assert len(places) > 1 and len(set(measured)) == len(measured), name


def test_usages_are_not_mixed_in_a_round_of_rails_at_once() -> None:
    places = [
        RailUsageCase("gpu", server, client, rail, rail, usage)
        for server, client in (("n1", "n2"), ("n3", "n4"))
        for rail in range(2)
        for usage in ("read", "send")
    ]
    found = rounds(places, systems.Sweep(rails_at_once=True))
    assert [{places[n].usage for n in members} for members in found] == [{"read"}, {"send"}]
    assert all(len(members) == 4 for members in found)


# ---- a run that the tool could not measure ----


def left_by(check: Any, *runs: str, code: int = 0, words: str = "", **changes: Any) -> Judged:
    """What becomes of RdmaUsage's `duration` after these recorded runs, the first one's facts with
    `changes`, its client's exit code and what that says on standard error.
    """
    (place,) = (one for one in check.places if one.usage == "duration")
    sides = {}
    for prefix, name in zip(("", repeat.PREFIX), runs, strict=False):
        for role, node in (("server", "n5"), ("client", "n6")):
            output = (RECORDED / f"{name}-{role}.txt").read_text(encoding="utf-8")
            out = [line for line in output.splitlines(True) if not line.startswith("STDERR: ")]
            err = output.replace("".join(out), "").replace("STDERR: ", "")
            facts = {} if prefix else dict(changes)
            if "Correlation" in err:
                facts[repeat.FACT] = err.strip()
            line = ended_jobs.exit_line(
                "perftest", f"{prefix}{role}", node, role == "client", **facts
            )
            if role == "client" and not prefix:
                line["call"]["exit_code"], err = code, err + words
            sides[prefix + role] = ended_jobs.side(line, "".join(out), err)
    ended_jobs.Left({place.place: sides}, {place.place: ended_jobs.DONE}).write(check)
    ended_jobs.judge(check)
    (judged,) = (one for one in check.results if one.place == place)
    return judged


@pytest.fixture
def durations(tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Each time RdmaUsage of the lab, whose `duration` is that of the recorded runs."""
    numbers = itertools.count()
    with ended_jobs.session("lab", tmp_path, RAILGAUGE_PLACES=":duration$") as known:

        def durations() -> Any:
            check = known["RdmaUsage"].kind(variant_num=0)
            check = ended_jobs.ended(check, tmp_path / str(next(numbers)))
            check._rfm_dry_run = True
            check.select_places()
            return check

        yield durations


def kinds(judged: Judged) -> set[str]:
    return {failure.kind for failure in judged.failures}


def test_of_a_run_that_was_measured_anew_the_second_counts(durations: Callable[[], Any]) -> None:
    judged = left_by(durations(), "no-clock", "duration")
    assert judged.evidence.reading.ok
    (note,) = [n for n in judged.evidence.reading.notes if "second time" in n]
    assert note.startswith("measured a second time: the client on n6 said Correlation coefficient")


def test_two_runs_without_a_number_leave_the_place_unmeasured(durations: Callable[[], Any]) -> None:
    judged = left_by(durations(), "no-clock", "no-clock")
    assert kinds(judged) == {ENVIRONMENT}
    assert "could not calibrate its clock" in judged.failures[0].message


def test_a_client_that_came_before_its_server_listened_leaves_the_place_unmeasured(
    durations: Callable[[], Any],
) -> None:
    """The server waited for it until it was ended; neither says anything of its node."""
    check = durations()
    (place,) = (one for one in check.places if one.usage == "duration")
    server = ended_jobs.exit_line("perftest", "server", "n5", 0)
    client = ended_jobs.exit_line("perftest", "client", "n6", 1)
    server["call"] |= {"exit_code": None, "note": "still running after 15.5 s, killed"}
    client["call"]["exit_code"] = -11
    sides = {
        "server": ended_jobs.side(server, "", ""),
        "client": ended_jobs.side(client, "", "Event: RDMA_CM_EVENT_REJECTED; error: 8.\n"),
    }
    ended_jobs.Left({place.place: sides}, {place.place: ended_jobs.DONE}).write(check)
    ended_jobs.judge(check)
    (judged,) = (one for one in check.results if one.place == place)
    assert kinds(judged) == {ENVIRONMENT}
    (failure,) = judged.failures
    assert "It connected before the server listened" in failure.message and not failure.nodes


def test_what_the_first_run_shows_of_the_link_still_counts(durations: Callable[[], Any]) -> None:
    """A second run does not wash away a link that went, or frames that were lost, in the first."""
    lost = {"counters": {"rdma/rxe0/1/hw_counters/link_downed": 1}}
    changes = {"device": "rxe0", "after": {"carrier_changes": 2}, "counters": lost}
    before = kinds(left_by(durations(), "no-clock", "duration"))
    assert kinds(left_by(durations(), "no-clock", "duration", **changes)) - before == {
        *("link-flap", "counter")
    }


CLOCK = "Correlation coefficient r^2: 0.7 < 0.9\n"


def test_a_first_run_that_failed_is_not_made_up_for(durations: Callable[[], Any]) -> None:
    """perftest may say that it has no clock, and then lose its connection."""
    judged = left_by(durations(), "no-clock", "duration", code=1)
    assert "tool-failed" in kinds(judged) and ENVIRONMENT not in kinds(judged)


def test_numbers_of_a_first_run_stand_whatever_it_says_of_a_clock(
    durations: Callable[[], Any],
) -> None:
    judged = left_by(durations(), "duration", "read", words=CLOCK)
    assert judged.evidence.reading.ok
    assert {m.operation for m in judged.evidence.measurements} == {"write duration"}


def test_a_second_run_of_one_side_alone_says_nothing(durations: Callable[[], Any]) -> None:
    """It waited for the other one, which did not hear of it in time."""
    check = durations()
    left = ended_jobs.Left.write

    def without_client(one: ended_jobs.Left, of: Any) -> None:
        one.sides = {
            place: {role: side for role, side in sides.items() if role != "anew/client"}
            for place, sides in one.sides.items()
        }
        left(one, of)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ended_jobs.Left, "write", without_client)
        assert kinds(left_by(check, "no-clock", "duration")) == {ENVIRONMENT}


@pytest.mark.parametrize("name", ["WanTcp", "Iperf2Pair", "ContentionTcp", "RdmaUsage"])
def test_a_second_run_that_did_not_take_place_speaks_against_nobody(
    tmp_path: Path, name: str
) -> None:
    with ended_jobs.session("lab", tmp_path, RAILGAUGE_SERIES="1") as known:
        check = ended_jobs.ended(known[name].kind(variant_num=0), tmp_path / "stage")
        for place in check.places:
            with check.at(place):
                assert failures_of_links(check.sweep_run, check, []) == []


@pytest.mark.parametrize(
    ("link_layer", "share"),
    [("Ethernet", 65536 / (65536 + 64 * 82 + 16)), ("InfiniBand", 65536 / (65536 + 64 * 26 + 16))],
)
def test_the_payload_is_what_the_headers_of_its_layer_leave(
    usages: Mapping[str, Any], link_layer: str, share: float
) -> None:
    """By which the devices' own counts are held against what perftest says; MTU 1024."""
    run = usages["queue_pairs"].sweep_run
    extras = run.partition.extras
    fabric = extras.rdma.model_copy(update={"link_layer": link_layer, "active_mtu_bytes": 1024})
    changed = {"extras": extras.model_copy(update={"rdma": fabric})}
    partition = run.partition.model_copy(update=changed)
    run = perftest_run(run.place, partition, run.tool.options, [])
    moved = Moved(10**9, 1.0, size_bytes=65536)
    assert run.payload_share(moved, {}) == pytest.approx(share)
