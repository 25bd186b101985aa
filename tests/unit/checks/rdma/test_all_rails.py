"""RdmaRailsTogether: all rails of two nodes at once, both ways; the sum of them, and each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import systems
from railgauge.checks.rdma.all_rails import OPERATION, AllRails
from railgauge.model import limits
from railgauge.model.measurement import Measurement
from railgauge.model.references import Condition
from tests.unit.checks import ended_jobs

DATA = Path(__file__).parents[3] / "data" / "perftest"

#: What one run between the lab's virtual machines printed, with a row as of twelve seconds.
_ROW = " 65536      {count}              0.00               {rate}   \t\t     {messages:.6f}\n"
MACHINES = ("n5", "n6")
SECONDS = 12.0


def text(side: str, gbits: float = 0.24) -> str:
    lines = (DATA / f"bidirectional-{side}.txt").read_text().splitlines(keepends=True)
    messages = gbits * 1e9 / 8 / 65536 / 1e6
    # What one side sent in the middle half.
    count = round(messages * 1e6 / 2 * SECONDS / 2)
    return "".join(
        [*lines[1:-2], _ROW.format(count=count, rate=gbits, messages=messages), lines[-1]]
    )


@pytest.fixture
def check(tmp_path: Path) -> Iterator[Any]:
    with ended_jobs.session("lab", tmp_path, RAILGAUGE_SERIES="1") as known:
        check = ended_jobs.ended(known["RdmaRailsTogether"].kind(variant_num=0), tmp_path / "stage")
        check._rfm_dry_run = True  # it asks neither Slurm nor its preconditions
        check.select_places()
        yield check


def sides(*gbits: float, apart_s: float = 0.1, moved: float = 1.0) -> dict[str, Any]:
    """What both sides leave of rails with these rates, that ended so far apart; `moved` is what the
    first one's devices counted, as a share of what it says.
    """
    found = {}
    for rail, rate in enumerate(gbits):
        for side, node in zip(("server", "client"), MACHINES, strict=True):
            said = {
                "emulation": "none",
                "link_layer": "Ethernet",
                "active_mtu_bytes": 4096,
                "device": f"rxe{rail}",
                "port": 1,
                "state": "ACTIVE",
                "after": {"state": "ACTIVE", "carrier_changes": 0},
            }
            role = f"{side}{rail}"
            line = ended_jobs.exit_line("perftest", role, node, int(side == "client"), **said)
            del line["facts"]["span_s"], line["facts"]["counters"]
            if not rail:
                line["facts"]["counters"] = counters(gbits, moved)
            if side == "client":
                line["facts"]["ended_s"] = SECONDS + 5 + rail * apart_s
            found[role] = ended_jobs.side(line, text(side, rate))
    return found


def counters(gbits: tuple[float, ...], moved: float) -> dict[str, Any]:
    counted = {}
    for rail, rate in enumerate(gbits):
        one_way = int(rate / 2 * 1e9 / 8 * SECONDS * (moved if rail == 0 else 1))
        counted[f"rdma/rxe{rail}/1"] = {"rx": one_way, "tx": one_way}
    return {"counters": {}, "bytes": counted}


def judged(check: Any, left: dict[str, Any]) -> str:
    (place,) = check.places
    ended_jobs.Left({place.place: left}, {place.place: ended_jobs.DONE}).write(check)
    return ended_jobs.judge(check)


def test_the_sum_of_all_rails_and_each_of_them_are_measured(check: Any) -> None:
    assert judged(check, sides(0.24, 0.16)) == ""
    (result,) = check.results
    found = {m.variable: (m.value, m.rails) for m in result.evidence.measurements}
    assert found == {
        "bandwidth_65536B": (pytest.approx(0.4), None),
        "bandwidth_rail0_65536B": (0.24, "0-0"),
        "bandwidth_rail1_65536B": (0.16, "1-1"),
    }
    assert set(result.evidence.references) == set(found)


def test_every_rail_is_judged_beside_the_sum(check: Any) -> None:
    judged(check, sides(0.24, 0.001))
    (result,) = check.results
    rail = result.evidence.references["bandwidth_rail1_65536B"]
    sum_of_all = result.evidence.references["bandwidth_65536B"]
    assert sum_of_all.admits(0.241) and not rail.admits(0.001)


def test_rails_that_were_not_all_at_work_at_once_fail(check: Any) -> None:
    assert "were not all at work at once" in judged(check, sides(0.24, 0.24, apart_s=3.1))


def test_how_long_all_rails_took_to_start_is_another_matter(check: Any) -> None:
    """Each ended 5 s after its time was over."""
    assert judged(check, sides(0.24, 0.24, apart_s=2.9)) == ""


@pytest.mark.parametrize("role", ["client0", "client1"])
def test_without_the_time_of_all_it_is_not_known_whether_they_were(check: Any, role: str) -> None:
    left = sides(0.24, 0.24)
    del left[role].line["facts"]["ended_s"]
    assert "nothing says whether the rails" in judged(check, left)


@pytest.mark.parametrize("role", ["server0", "client1"])
def test_a_rail_without_an_exit_line_fails(check: Any, role: str) -> None:
    left = sides(0.24, 0.24)
    del left[role]
    assert judged(check, left)


def test_a_rail_whose_output_is_cut_fails_the_pair(check: Any) -> None:
    left = sides(0.24, 0.24)
    side = left["client1"]
    left["client1"] = side._replace(out=side.out[: len(side.out) // 2])
    assert "rail1: " in judged(check, left)


def test_a_rail_that_ran_one_way_fails(check: Any) -> None:
    left = sides(0.24, 0.24)
    for role in ("server1", "client1"):
        one_way = (DATA / f"duration-{role[:-1]}.txt").read_text().partition("\n")[2]
        left[role] = left[role]._replace(out=one_way)
    assert "rail1: client on n6: bidirectional False, expected True" in judged(check, left)


def test_what_a_rails_device_did_not_count_did_not_take_it(check: Any) -> None:
    assert "counters contradict" in judged(check, sides(0.24, 0.24, moved=0.1))


def test_all_rails_start_at_once_each_to_the_same_one(check: Any) -> None:
    (place,) = check.places
    with check.at(place):
        order = check.sweep_run.order(check.bound_before)
    links = [link.rdma.rails for link in order.links]
    assert links == [{"server": 0, "client": 0}, {"server": 1, "client": 1}]
    assert {"-b", "-D"} <= set(order.client)
    assert place.nodes == MACHINES


# ---- cases ----


def machines(rails: int = 2) -> systems.Partition:
    partition = systems.load("lab").partition("vm")
    assert partition.extras.rdma is not None
    fabric = partition.extras.rdma.model_copy(update={"rails": rails})
    extras = partition.extras.model_copy(update={"rdma": fabric})
    return partition.model_copy(update={"extras": extras})


def test_one_rail_has_no_others() -> None:
    assert "extras.rdma.rails is 1" in AllRails().lacks(machines(rails=1))
    assert AllRails().lacks(machines()) == ""


def test_all_rails_at_once_are_of_the_series() -> None:
    assert list(AllRails().on(machines())) == []


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"operation": "write_bidirectional"}, ""),
        ({"operation": "write_bidirectional rail1", "rails": "1-1"}, ""),
        ({"operation": "write_bidirectional rail7"}, "expected the sum of all rails, or one"),
        ({"operation": "write_bidirectional", "rails": "0-1"}, "rails is 0-1, expected"),
    ],
)
def test_a_stored_number_is_of_the_sum_or_of_a_rail(stated: dict[str, Any], says: str) -> None:
    mismatch = AllRails().mismatch(Condition(**stated, nodes=2), machines(), True)
    assert says in (mismatch.reason if mismatch else "") and bool(says) == bool(mismatch)


def test_a_tool_without_a_clock_on_one_rail_accuses_nobody(check: Any) -> None:
    left = sides(0.24, 0.24)
    for role in ("client1", "server1"):
        out = (DATA / f"no-clock-{role[:-1]}.txt").read_text()
        left[role] = left[role]._replace(out=out)
    assert "could not calibrate its clock" in judged(check, left)
    (result,) = check.results
    assert {failure.kind for failure in result.failures} == {"environment"}


def test_a_node_that_lacks_a_rail_for_now_is_in_no_pair(tmp_path: Path) -> None:
    with ended_jobs.session("lab", tmp_path, RAILGAUGE_SERIES="1"):
        partition = systems.load("lab").partition("vm")
        lacks = [systems.Absent(node="n5", devices=["rxe1"], why="cable")]
        extras = partition.extras.model_copy(update={"absent": lacks})
        assert list(AllRails().on(partition)) != []
        assert list(AllRails().on(partition.model_copy(update={"extras": extras}))) == []


def test_rails_are_found_by_the_names_that_they_have(check: Any) -> None:
    links = check.run_at(check.places[0], check.partition_data).links
    assert {(link.rdma.names[0], link.rdma.count) for link in links} == {("rxe0", 2)}


# ---- the limit ----


@pytest.mark.parametrize(
    ("nics", "gbits", "reason"),
    [(None, 4 * 126, "4 rails"), (252, 252, "a node's NICs together"), (900, 4 * 126, "4 rails")],
)
def test_all_rails_carry_no_more_than_the_nics_of_a_node_together(
    tmp_path: Path, nics: float | None, gbits: float, reason: str
) -> None:
    """On dgx-spark, whose four rails share two PCIe links."""
    with ended_jobs.session("dgx-spark", tmp_path, RAILGAUGE_SERIES="1") as known:
        check = ended_jobs.ended(known["RdmaRailsTogether"].kind(variant_num=0), tmp_path / "stage")
        extras = check.partition_data.extras
        for part in (extras.nics, extras.nccl.nics):
            assert part.node_gbits == 252
        changed = {
            "nics": extras.nics.model_copy(update={"node_gbits": nics}),
            "nccl": extras.nccl.model_copy(update={"nics": None}),
        }
        partition = check.partition_data.model_copy(
            update={"extras": extras.model_copy(update=changed)}
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(check), "partition_data", partition)
            one = Measurement("bandwidth", 1.0, "perftest", OPERATION, "rdma", size_bytes=65536)
            run = check.run_at(check.places[0], check.partition_data)
            limit = run.limit(one, {})
            rail = run.limit(dataclasses.replace(one, operation=f"{OPERATION} rail0"), {})
    assert limit.value == pytest.approx(2 * limits.roce(gbits, 4096, 65536).value)
    assert limit.reason.endswith(reason)
    assert rail.value == pytest.approx(2 * limits.roce(126, 4096, 65536).value)
