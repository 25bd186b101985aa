"""`group_launches`: groups are cleared together, and the bad ones named, by halves.

A stand-in for `srun` leaves what the ranks of a launch would, by what is wrong with their nodes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.node.orchestration import group_launches
from railgauge.node.orders.ranks import TableOrder
from railgauge.node.transport import results_file

#: Writes exit lines and rank 0's table into the folder that it is started in. Of the nodes in
#: WRONG: `slow` ones halve the number, those that `hang` never end, `fail` ends with an error,
#: `silent` leaves no line, `wrong` has wrong values, `crowded` is slow next to others, and
#: `lame` takes a second.
SRUN = """\
#!{python} -SE
import json, os, sys, time
hosts = open(os.environ["SLURM_HOSTFILE"]).read().split()
wrong = json.loads(os.environ["WRONG"])
spec = json.load(open("ranks.json"))
split = spec.get("environment", {{}}).get("NCCL_TESTS_SPLIT", "")
groups = len(hosts) // int(split.split()[1]) if split else 1
found = [what for node, what in wrong.items() if node in hosts]
with open(os.environ["LAUNCHES"], "a") as kept:
    kept.write(json.dumps([sorted(set(hosts)), groups]) + chr(10))
with open(os.environ["LAUNCHES"][:-len("launches")] + "nodelists", "a") as kept:
    print(os.environ.get("SLURM_JOB_NODELIST", "-"), *sorted(set(hosts)), file=kept)
if "hang" in found:
    time.sleep(600)
if "lame" in found:
    time.sleep(1.5)
rate = 200.0 if "slow" in found or ("crowded" in found and groups > 1) else 400.0
bad = 3 if "wrong" in found else 0
for rank, host in enumerate(hosts):
    what = wrong.get(host)
    if what == "silent":
        continue
    call = dict(tool="probe", role="rank%d" % rank, rank=rank, host=host,
                exit_code=3 if what == "fail" else 0, seconds=1.0, note="")
    json.dump(dict(call=call, facts=dict(hostname=host)), open("rank%d.json" % rank, "w"))
    open("rank%d.out" % rank, "w").write("")
    open("rank%d.nccl.log" % rank, "w").write("log of " + host)
with open("rank0.out", "w") as out:
    for line in (
        "#       size         count      type   redop    root     time   algbw   busbw #wrong"
        "     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
        "           8             2     float     sum      -1     9.00    0.00    0.00      0"
        "     9.00    0.00    0.00      0",
        "        1024           256     float     sum      -1     9.00    9.00  %.2f      %d"
        "     9.00    9.00  %.2f    N/A" % (rate, bad, rate - 1),
        "# Out of bounds values : %d %s" % (bad, "FAILED" if bad else "OK"),
    ):
        out.write(line + chr(10))
"""

NODES = [f"n{number}" for number in range(1, 17)]


@dataclasses.dataclass
class Job:
    """What a job of launches left."""

    code: int
    left: results_file.Raw
    launches: list[tuple[list[str], int]]
    seconds: float

    def places(self, outcome: str) -> list[str]:
        names = [event for event in self.left.places.values() if event["outcome"] == outcome]
        return [NODES[event["place"]] for event in names]

    @property
    def low(self) -> list[str]:
        """The nodes of which the last launch was bad."""
        return [NODES[p] for p, launch in sorted(self.left.launches.items()) if launch["why"]]


#: As nccl-tests prints it.
TABLE = TableOrder(
    "busbw", ("busbw", "busbw_in_place"), wrong="#wrong", end="Out of bounds values : 0 OK"
)


def orders(count: int, **changes: Any) -> dict[str, Any]:
    """A node each, all in one round."""
    order = {
        "ranks": {
            "rank_variable": "SLURM_PROCID",
            "tool": "probe",
            "argv": ["probe"],
            "version": [],
            "run_limit_s": 60,
            "logs": [".nccl.log"],
        },
        "table": TABLE.document(),
        "files": {},
        "together": {"NCCL_TESTS_SPLIT": "DIV {ranks}"},
        "bounds": {"busbw": 380.0, "busbw_in_place": 380.0},
        "spread": 0.2,
        "least": {},
        "expected_s": 1,
        "short_limit_s": 60,
        **changes,
    }
    return {
        "tool": "probe",
        "nodes": NODES[:count],
        "ranks_per_node": 2,
        "deadline_s": 1000,
        "launcher": {"kind": "srun", "argv": ["srun"]},
        "program": ["true"],
        "places": [{"name": node, "nodes": [node]} for node in NODES[:count]],
        "rounds": [{"places": list(range(count)), "order": 0}],
        "orders": [order],
    }


def start(folder: Path, told: Mapping[str, Any], wrong: Mapping[str, str]) -> Any:
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    # The path of this Python may have a blank in it, which a script's first line cannot have.
    (bin_ / "srun").write_text(SRUN.format(python=os.path.realpath(sys.executable)))
    (bin_ / "srun").chmod(0o755)
    (folder / "sweep.json").write_text(json.dumps(told))
    # It waits long for launchers whose ranks do not end by themselves.
    program = (
        "import sys; from railgauge.node.orchestration import group_launches; "
        "group_launches.START_S, group_launches.HANG_S = 0.5, 0.5; "
        "group_launches._END_S = 1.0; "
        "sys.exit(group_launches.main())"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, "sweep.json"],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "PYTHONPATH": str(paths.SOURCE),
            "WRONG": json.dumps(wrong),
            "LAUNCHES": str(folder / "launches"),
        },
    )


def run(folder: Path, told: Mapping[str, Any], wrong: Mapping[str, str]) -> Job:
    began = time.monotonic()
    process = start(folder, told, wrong)
    code = process.wait(120)
    kept = folder / "launches"
    started = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    left = results_file.read(folder / results_file.FILE)
    return Job(code, left, started, time.monotonic() - began)


def test_one_launch_clears_all_groups_where_it_is_good(tmp_path: Path) -> None:
    job = run(tmp_path, orders(16), {})
    assert job.code == 0
    assert [groups for _, groups in job.launches] == [16]
    assert job.places("done") == NODES and job.low == []


def test_what_a_launch_left_is_kept_by_group_with_its_own_ranks(tmp_path: Path) -> None:
    job = run(tmp_path, orders(4), {})
    sides = job.left.sides[2]
    assert list(sides) == ["rank0", "rank1"]
    assert [side.line["call"]["rank"] for side in sides.values()] == [4, 5]
    assert sides["rank1"].files == {"rank1.nccl.log": "log of n3"}
    assert "Out of bounds" in job.left.launches[2]["out"]
    # Of tens of thousands of ranks no file is left.
    assert not list(tmp_path.glob("launch?"))


def test_a_launch_of_some_of_the_nodes_is_reported_as_of_the_jobs_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of Slurm's, whichever that of its ranks is: see job_nodes."""
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(
        '#!/bin/sh\n[ "$*" = "show hostnames n[1-4]" ] && printf "n4\\nn3\\nn2\\nn1\\n"'
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-4]")
    run(tmp_path, orders(4), {"n2": "slow"})
    told = [line.split() for line in (tmp_path / "nodelists").read_text().splitlines()]
    assert sorted(told) == sorted(
        [
            ["n[1-4]", "n1", "n2", "n3", "n4"],
            ["n2,n1", "n1", "n2"],
            ["n4,n3", "n3", "n4"],
            ["n1", "n1"],
            ["n2", "n2"],
        ]
    )


@pytest.mark.parametrize("what", ["slow", "fail", "silent", "wrong"])
@pytest.mark.parametrize("bad", [["n1"], ["n6"], ["n3", "n16"]])
def test_halves_name_exactly_the_bad_groups(tmp_path: Path, bad: list[str], what: str) -> None:
    job = run(tmp_path, orders(16), dict.fromkeys(bad, what))
    assert job.low == bad and job.places("done") == NODES
    # Level by level, two halves of each that is bad.
    assert len(job.launches) <= 1 + 2 * 4 * len(bad)


def test_one_group_that_hangs_differs_from_those_that_it_stalls(tmp_path: Path) -> None:
    told = orders(4, short_limit_s=10)
    told["orders"][0]["ranks"]["run_limit_s"] = 10
    job = run(tmp_path, told, {"n2": "hang"})
    assert job.places("late") == ["n2"] == job.low
    assert job.places("done") == ["n1", "n3", "n4"]
    assert "left no exit line" in job.left.launches[1]["why"]


def test_once_a_launch_has_hung_the_others_have_the_short_limit(tmp_path: Path) -> None:
    told = orders(2, short_limit_s=1)
    told["orders"][0]["ranks"]["run_limit_s"] = 15
    told["rounds"] = [{"places": [0], "order": 0}, {"places": [1], "order": 0}]
    job = run(tmp_path, told, dict.fromkeys(NODES, "hang"))
    first, second = (job.left.launches[place]["seconds"] for place in (0, 1))
    assert first > 15 and second < first
    assert job.places("late") == ["n1", "n2"]


def test_all_groups_may_be_bad(tmp_path: Path) -> None:
    job = run(tmp_path, orders(8), dict.fromkeys(NODES, "slow"))
    assert job.low == NODES[:8] == job.places("done")
    assert len(job.launches) == 1 + 2 + 4 + 8


def test_a_number_of_groups_need_be_no_power_of_two(tmp_path: Path) -> None:
    job = run(tmp_path, orders(5), {"n3": "slow"})
    assert job.low == ["n3"] and len(job.launches) <= 1 + 2 * 3


def test_what_is_bad_only_among_others_is_not_cleared_by_its_halves(tmp_path: Path) -> None:
    job = run(tmp_path, orders(2), {"n1": "crowded"})
    assert job.places("refused") == ["n1", "n2"] and job.places("done") == []
    why = job.left.places[0]["why"]
    assert why.startswith("could not isolate the bad group")
    assert "busbw is 200" in why and "launch 0" in why


def test_without_time_to_halve_nothing_is_cleared(tmp_path: Path) -> None:
    told = {**orders(4, expected_s=60, short_limit_s=60), "deadline_s": 62}
    told["orders"][0]["ranks"]["run_limit_s"] = 60
    # The first launch takes the second that there is next to the time of one.
    job = run(tmp_path, told, {"n3": "lame", "n4": "slow"})
    assert job.places("refused") == NODES[:4]
    assert "no time left" in job.left.places[0]["why"]


def test_no_launch_begins_that_cannot_end_in_time(tmp_path: Path) -> None:
    job = run(tmp_path, {**orders(4, expected_s=30), "deadline_s": 20}, {})
    assert job.launches == [] and job.places("refused") == NODES[:4]
    why = "the job had no time left for it: 30 s were expected, 1"
    assert job.left.places[0]["why"].startswith(why)


def test_without_bounds_the_best_part_bounds_the_others(tmp_path: Path) -> None:
    job = run(tmp_path, orders(16, bounds={}), {"n7": "slow"})
    assert [groups for _, groups in job.launches][:8] == [2] * 8
    assert len(job.launches) == 8 + 2
    assert job.left.launches[6]["places"] == [6]
    assert {*job.places("done")} == {*NODES} and job.low == ["n7"]


@pytest.mark.parametrize("bad", [["n3", "n12"], ["n8", "n9"], ["n1", "n6", "n11", "n16"]])
def test_without_bounds_equally_bad_groups_do_not_clear_each_other(
    tmp_path: Path, bad: list[str]
) -> None:
    job = run(tmp_path, orders(16, bounds={}), dict.fromkeys(bad, "slow"))
    assert job.low == bad and {*job.places("done")} == {*NODES}


def test_without_bounds_no_group_may_be_below_the_least(tmp_path: Path) -> None:
    least = {"busbw": 240.0, "busbw_in_place": 240.0}
    job = run(tmp_path, orders(2, bounds={}, least=least), dict.fromkeys(NODES, "slow"))
    assert job.low == ["n1", "n2"]


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (5, [1] * 5), (17, [3] + [2] * 7)])
def test_parts_are_the_same(count: int, sizes: list[int]) -> None:
    assert [len(part) for part in group_launches.split(range(count), 8)] == sizes


def test_a_tool_that_cannot_split_has_a_launch_for_each_group(tmp_path: Path) -> None:
    job = run(tmp_path, orders(4, together=None), {"n2": "slow"})
    assert [groups for _, groups in job.launches] == [1, 1, 1, 1]
    assert job.low == ["n2"]


def test_exit_codes_alone_judge_a_tool_without_a_table(tmp_path: Path) -> None:
    job = run(
        tmp_path, orders(4, together=None, table=None, bounds={}), {"n2": "slow", "n3": "fail"}
    )
    assert job.low == ["n3"] and job.places("done") == NODES[:4]


def test_the_ranks_of_a_group_stand_together_in_the_order_of_its_nodes(tmp_path: Path) -> None:
    told = orders(4)
    told["places"] = [
        {"name": "n2:n3", "nodes": ["n2", "n3"]},
        {"name": "n4:n1", "nodes": ["n4", "n1"]},
    ]
    told["rounds"] = [{"places": [0, 1], "order": 0}]
    job = run(tmp_path, told, {})
    hosts = [side.line["call"]["host"] for side in job.left.sides[1].values()]
    assert hosts == ["n4", "n4", "n1", "n1"]


def test_mpirun_gets_the_order_of_the_ranks_too(tmp_path: Path) -> None:
    told = orders(1)
    told["launcher"] = {"kind": "mpirun", "argv": ["mpirun", "--bind-to", "none", "{folder}"]}
    instead = '#!/bin/sh\necho "$@" >../mpirun.args\ncp hosts ../mpirun.hosts\n'
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mpirun").write_text(instead)
    (tmp_path / "bin" / "mpirun").chmod(0o755)
    run(tmp_path, told, {})
    words = (tmp_path / "mpirun.args").read_text().split()
    folder = str(tmp_path / "launch0")
    assert words[2:] == [
        *(folder, "-np", "2", "--hostfile", f"{folder}/hosts", "--map-by", "seq"),
        *("true", "ranks.json"),
    ]
    assert (tmp_path / "mpirun.hosts").read_text() == "n1\nn1\n"


def test_sigterm_leaves_whole_lines_and_no_launcher(tmp_path: Path) -> None:
    told = orders(2)
    told["orders"][0]["ranks"]["run_limit_s"] = 100
    process = start(tmp_path, told, {"n1": "hang"})
    while not (tmp_path / "launches").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(100) == 143
    left = results_file.read(tmp_path / results_file.FILE)
    assert left.end is not None and left.end["why"] == "SIGTERM"
    assert left.places == {}


def test_what_was_cleared_before_the_job_was_ended_is_recorded(tmp_path: Path) -> None:
    told = orders(4)
    told["orders"][0]["ranks"]["run_limit_s"] = 100
    told["rounds"] = [{"places": [0, 1], "order": 0}, {"places": [2, 3], "order": 0}]
    process = start(tmp_path, told, {"n3": "hang"})
    kept = tmp_path / "launches"
    while not kept.exists() or len(kept.read_text().splitlines()) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(100) == 143
    left = results_file.read(tmp_path / results_file.FILE)
    assert {place: event["outcome"] for place, event in left.places.items()} == {
        0: "done",
        1: "done",
    }


def test_a_list_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("{")
    answer = subprocess.run(
        [sys.executable, "-m", "railgauge.node.orchestration.group_launches", "sweep.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(paths.SOURCE)},
        check=False,
    )
    assert answer.returncode == 2


# ---- what is read of a table ----


def table(*rows: str) -> str:
    head = "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
    return "\n".join([head, *rows])


def test_the_largest_size_is_the_last() -> None:
    text = table(
        "8 2 float sum -1 9.0 0.1 0.2 0 9.0 0.1 0.3 0", "16 4 float sum -1 9.0 1 2 0 9.0 1 3 0"
    )
    assert group_launches.largest(text, TABLE) == {"busbw": 2.0, "busbw_in_place": 3.0}


@pytest.mark.parametrize(
    "rows",
    [
        [],
        ["8 2 float sum -1 9.0 0.1 0.2 5 9.0 0.1 0.3 0"],
        ["8 2 float sum -1 9.0 0.1 0.2 0 9.0 0.1 0.3 1"],
        ["8 2"],
    ],
)
def test_a_table_that_is_none_or_wrong_clears_nothing(rows: Sequence[str]) -> None:
    with pytest.raises(ValueError, match=r"table|wrong"):
        group_launches.largest(table(*rows), TABLE)
