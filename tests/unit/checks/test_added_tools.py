"""A tool is added by a module, a check and its data: three toy tools, each of another kind of job.

`added_tools/` has all that was added: a module in `tools/`, a check in `reframe/`, and the data of
one system. Nothing else of this checkout knows these tools.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths, systems, tools
from railgauge.campaign.folder import RESULT_FILE
from railgauge.checks.framework import slurm_queue
from railgauge.model import references
from railgauge.model.record import Record, read_record
from railgauge.node.orchestration import group_launches, sweep_file
from railgauge.node.orders.ranks import LaunchList
from railgauge.node.transport import results_file
from railgauge.site.check import checks
from railgauge.tools import table
from tests.unit.checks import ended_jobs

ADDED = Path(__file__).parent / "added_tools"


def loaded_settings() -> list[str]:
    """The names of ReFrame's configuration among the modules that are loaded."""
    file = str(paths.HOME / "configs" / "settings.py")
    return [n for n, module in list(sys.modules.items()) if getattr(module, "__file__", "") == file]


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, Any]]:
    """The checks of the toy tools, in a session on the system `toys`."""
    monkeypatch.setattr(tools, "__path__", [*tools.__path__, str(ADDED / "tools")])
    monkeypatch.setattr(paths, "CHECKS", ADDED / "reframe")
    monkeypatch.setattr(paths, "SYSTEMS", ADDED / "systems")
    monkeypatch.setenv("RAILGAUGE_REFERENCES", str(ADDED / "references"))
    monkeypatch.setattr(slurm_queue.session, "takes_no_job", lambda asked: {})
    table.programs.cache_clear()
    # ReFrame has the systems of the session before.
    for name in loaded_settings():
        monkeypatch.delitem(sys.modules, name)
    with ended_jobs.session("toys", tmp_path / "results") as found:
        yield found
    table.programs.cache_clear()
    for name in loaded_settings():
        del sys.modules[name]
    for name in ("wirerate", "copyrate", "ringsum"):
        sys.modules.pop(f"railgauge.tools.{name}", None)


@pytest.fixture
def ended(known: Mapping[str, Any], tmp_path: Path) -> Callable[[str], Any]:
    """A check whose job has completed, and has left nothing yet."""

    def made(name: str) -> Any:
        check = ended_jobs.ended(known[name].kind(variant_num=0), tmp_path / "stage")
        check.select_places()
        return check

    return made


def record(check: Any) -> Record:
    found = read_record(Path(check.stagedir, RESULT_FILE))
    assert found is not None
    return found


def failed(check: Any) -> dict[str, set[str]]:
    return {
        judged.place.place: {failure.kind for failure in judged.failures}
        for judged in check.results
        if not judged.passed
    }


def test_a_system_that_describes_the_tools_is_complete(known: Mapping[str, Any]) -> None:
    partition = systems.load("toys").partition("p")
    stored = references.load("toys")
    lines = [*checks.features(partition, known), *checks.required(partition, known, stored)]
    assert {line.status for line in lines} == {"ok"}, lines


def swept(check: Any, tmp_path: Path) -> sweep_file.Sweep:
    """The list as the conductor and the agents read it."""
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(check.orders().document()))
    return sweep_file.read(file)


# ---- a tool of two nodes ----


def wire_sides(server: str, client: str, moved: int, received: int) -> Any:
    def facts(rx: int, tx: int) -> dict[str, Any]:
        counters = {"bytes": {"eth0": {"rx": rx, "tx": tx}}, "peak_gbits": {}}
        state = {"device": "eth0", "mtu_bytes": 1500, "emulation": "none", "sampled": ["eth0"]}
        return {**state, "counters": counters}

    on_wire = int(1.04 * received)
    lines = {
        "server": ended_jobs.exit_line("wirerate", "server", server, 0, **facts(on_wire, 0)),
        "client": ended_jobs.exit_line("wirerate", "client", client, 1, **facts(0, on_wire)),
    }
    said = {"server": received, "client": moved}
    return {
        role: ended_jobs.side(line, f"moved {said[role]} bytes in 3.0 s\n")
        for role, line in lines.items()
    }


def wires(check: Any, bad: str = "", moved: int = 3 * 10**9, received: int = 3 * 10**9) -> None:
    """What the job leaves: 8 Gb/s at every place, but for the bad one."""
    good = 3 * 10**9
    left = {
        place.place: wire_sides(
            *place.nodes, *((moved, received) if place.place == bad else (good, good))
        )
        for place in check.places
    }
    ended_jobs.Left(left, dict.fromkeys(left, ended_jobs.DONE)).write(check)
    ended_jobs.judge(check)


def test_the_nodes_are_ordered_to_run_a_tool_of_two_nodes(
    ended: Callable[[str], Any], tmp_path: Path
) -> None:
    sweep = swept(ended("WirePair"), tmp_path)
    assert {place.program for place in sweep.places.values()} == {"client_server"}
    (order,) = sweep.orders
    assert order.argv_of("client") == ("wirerate", "{server}", "{port}", "3")


def test_a_tool_of_two_nodes_passes_and_is_recorded(ended: Callable[[str], Any]) -> None:
    check = ended("WirePair")
    wires(check)
    assert failed(check) == {} and len(check.results) == 4
    assert [row.measurement.value for row in record(check).results[0].rows] == [8.0]


@pytest.mark.parametrize(
    ("moved", "received"),
    [(15 * 10**8, 15 * 10**8), (3 * 10**9, 2 * 10**9)],
    ids=["slow", "loses bytes"],
)
def test_a_pair_that_is_slow_or_loses_bytes_fails_alone(
    ended: Callable[[str], Any], moved: int, received: int
) -> None:
    check = ended("WirePair")
    wires(check, "t2:t3", moved, received)
    assert set(failed(check)) == {"t2:t3"}


# ---- a tool of one node ----


def copies(check: Any, bad: str, output: str) -> None:
    left = {}
    for place in check.places:
        line = ended_jobs.exit_line("copyrate", "rank0", place.node)
        text = output if place.node == bad else "copies 20.5 GB/s\nend\n"
        left[place.place] = {"rank0": ended_jobs.side(line, text)}
    ended_jobs.Left(left, dict.fromkeys(left, ended_jobs.DONE)).write(check)
    ended_jobs.judge(check)


def test_the_nodes_are_ordered_to_run_a_tool_of_one_node(
    ended: Callable[[str], Any], tmp_path: Path
) -> None:
    sweep = swept(ended("CopyNode"), tmp_path)
    assert {place.program for place in sweep.places.values()} == {"single_node"}
    (order,) = sweep.orders
    assert order.argv_of("node") == ("copyrate", "64")


@pytest.mark.parametrize(
    ("output", "nodes"),
    [
        ("copies 20.4 GB/s\nend\n", set()),
        ("copies 2.0 GB/s\nend\n", {"t3"}),
        ("copies 20.4 GB/s\n", {"t3"}),
        ("", {"t3"}),
    ],
    ids=["good", "slow", "cut", "nothing"],
)
def test_a_tool_of_one_node_is_judged_node_by_node(
    ended: Callable[[str], Any], output: str, nodes: set[str]
) -> None:
    check = ended("CopyNode")
    copies(check, "t3", output)
    assert set(failed(check)) == nodes and len(record(check).results) == 4


# ---- a tool of groups of nodes ----


def sums(rate: float, end: str = "sums are right") -> str:
    return f"# size rate wrong\n8 0.1 0\n1048576 {rate} 0\n{end}\n"


def rings(check: Any, tables: Mapping[str, str]) -> None:
    """What the driver leaves of a launch for each group, by the nodes of the group."""
    events: list[results_file.Event] = []
    for number, group in enumerate(check.orders().places):
        text = tables.get(",".join(group.nodes), sums(10.5))
        launch = {"event": "launch", "launch": number, "places": [number], "parent": None}
        events.append({**launch, "why": "", "seconds": 5.0, "out": text, "err": "", "files": {}})
        for rank in range(4):
            line = ended_jobs.exit_line("ringsum", f"rank{rank}", group.nodes[rank // 2], rank)
            side = ended_jobs.side(line, text if rank == 0 else "")
            event = {"event": "side", "place": number, "role": f"rank{rank}"}
            events.append({**event, **side._asdict()})
        place = {"event": "place", "place": number, "round": 0, "seconds": 0.0}
        events.append({**place, "outcome": "done", "why": ""})
    writer = results_file.Writer(Path(check.stagedir, results_file.FILE))
    for event in (*events, {"event": "end", "seconds": 9.0, "why": ""}):
        writer.write(event)
    writer.close()
    ended_jobs.judge(check)


def test_the_driver_is_ordered_to_run_a_tool_of_groups_and_reads_its_table(
    ended: Callable[[str], Any],
) -> None:
    document = json.loads(json.dumps(ended("RingSum").orders().document()))
    launches = LaunchList.read(document)
    assert [group.nodes for group in launches.places] == [("t1", "t2"), ("t3", "t4")]
    (order,) = launches.orders
    assert order.ranks.argv == ("ringsum", "1048576") and order.together is None
    assert group_launches.largest(sums(9.5), order.table) == {"busbw": 9.5}
    lines = [{"call": {"exit_code": 0, "note": ""}}] * 4
    assert group_launches.rank_failure(lines, sums(9.5), order.table.end) == ""
    assert "table has no end" in group_launches.rank_failure(lines, sums(9.5, ""), order.table.end)


@pytest.mark.parametrize(
    ("output", "bad"),
    [(sums(10.2), False), (sums(5.0), True), (sums(10.2, "killed"), True), ("", True)],
    ids=["good", "slow", "cut", "nothing"],
)
def test_a_tool_of_groups_is_judged_group_by_group(
    ended: Callable[[str], Any], output: str, bad: bool
) -> None:
    check = ended("RingSum")
    rings(check, {"t3,t4": output})
    assert set(failed(check)) == ({"sum:default:t[3-4]"} if bad else set())
    assert len(record(check).results) == 2
