"""What nccl-tests and NCCL left on a real GPU (tests/data/gpu): good runs pass, no other does."""

from __future__ import annotations

import dataclasses
import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.model.call import Call
from railgauge.tools import Completeness, Reading, nccl_log, nccl_tests, table
from railgauge.tools.nccl_log import ras
from railgauge.tools.nccl_tests import Options
from tests.properties import tries

DATA = Path(__file__).parents[2] / "data" / "gpu"
RUNS = DATA / "runs"

#: How many sizes each measured.
GOOD = {
    **{"one-rank": 28, "two-hosts": 22, "four-hosts": 20, "split-DIV-a3": 20, "too-large": 5},
    **{"two-hosts-2.19.6": 20, "split-2.19.6": 20},
    **{
        f"two-hosts-{operation}": 20
        for operation in ("all_gather", "alltoall", "broadcast", "reduce_scatter", "sendrecv")
    },
}
SPLIT = ("split-DIV-a3", "split-2.19.6")
BAD = {
    "killed": "signal 9",
    "stopped": "no row: nothing was measured",
    "stopped-2.19.6": "a timeout (-T)",
    "two-gpus-wanted": "Invalid number of GPUs: 2 requested but only 1 were found.",
    "no-driver": "CUDA driver version is insufficient",
    # NCCL 2.30 lets ranks share a GPU on purpose; a check never asks it to.
    "multi-rank": "ranks 0 and 1 use the same GPU",
}


def facts(name: str) -> dict[str, Any]:
    known = json.loads((RUNS / name / "run.json").read_text())
    assert isinstance(known, dict)
    return known


def text(name: str, file: str) -> str:
    path = RUNS / name / file
    return path.read_text(encoding="utf-8") if path.exists() else ""


def options(name: str) -> Options:
    known = facts(name)
    program, *words = shlex.split(known["command"])
    value = dict(zip(words[::2], words[1::2], strict=True))
    return Options(
        program.partition("_perf")[0],
        len(known["hosts"]),
        int(value["-b"]),
        int(value["-e"]),
        iterations=int(value["-n"]),
        warmup=int(value["-w"]),
        timeout_s=int(value["-T"]),
        gpus_per_rank=int(value["-g"]),
        version=known["version"],
        hosts=tuple(known["hosts"]),
        groups=2 if nccl_tests.SPLIT in known["environment"] else 1,
    )


def read(name: str, out: str | None = None, document: str | None = None) -> Reading:
    known = facts(name)
    code = {"stopped": None}.get(name, known["exit_code"])
    calls = [
        Call("nccl-tests", f"rank{rank}", rank, host, code, 9.0)
        for rank, host in enumerate(known["hosts"])
    ]
    errors = "".join(f"STDERR: {line}\n" for line in text(name, "err").splitlines())
    printed = text(name, "out") if out is None else out
    written = text(name, "nccl-tests.json") if document is None else document
    asked = " -J " in known["command"]
    return nccl_tests.read(
        {0: printed + errors},
        json_text=written if asked else None,
        calls=calls,
        options=options(name),
    )


def test_every_run_is_judged_here() -> None:
    assert {path.name for path in RUNS.iterdir()} == {*GOOD, *BAD}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_run_is_proved_with_all_of_its_sizes(name: str) -> None:
    reading = read(name)
    assert (reading.ok, reading.completeness) == (True, Completeness.PROVED), reading.reason
    sizes = options(name).sizes(reading.seen.get("reduced_bytes"))
    assert {m.size_bytes for m in reading.measurements} <= set(sizes)
    assert len(sizes) == GOOD[name]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_run_says_what_was_wrong(name: str) -> None:
    reading = read(name)
    assert not reading.ok and BAD[name] in reading.reason and not reading.measurements


@pytest.mark.parametrize("name", GOOD)
def test_what_a_run_was_to_print_is_what_the_real_tool_printed(name: str) -> None:
    assert nccl_tests.argv(
        options(name),
        facts(name)["command"].split()[0],
        "nccl-tests.json",
    ) == shlex.split(facts(name)["command"])


@settings(max_examples=tries(60))
@given(st.sampled_from(sorted(GOOD)), st.randoms(use_true_random=False))
def test_no_beginning_of_a_real_output_passes(name: str, source: random.Random) -> None:
    out = text(name, "out")
    end = out.rindex("# Collective test concluded")
    assert not read(name, out=out[: source.randrange(end)]).ok


@settings(max_examples=tries(60))
@given(st.sampled_from(sorted(GOOD)), st.randoms(use_true_random=False))
def test_no_beginning_of_a_real_document_passes(name: str, source: random.Random) -> None:
    document = text(name, "nccl-tests.json")
    assert not read(name, document=document[: source.randrange(len(document) - 1)]).ok


def test_two_groups_are_a_group_each_with_the_time_of_the_slowest() -> None:
    (result,) = nccl_tests.parse(text("split-DIV-a3", "out"))
    assert [device.group for device in result.devices] == [0, 0, 1, 1]
    per_process = json.loads(text("split-2.19.6", "nccl-tests.json"))["results"][-1]
    # 2.19 times every process too: what it prints is no more than the longest of all of them.
    longest = max(map(max, per_process["in_place_per_iter"]["per_process_max_times_us"]))
    assert per_process["in_place"]["time"] <= longest


@pytest.mark.parametrize("name", SPLIT)
def test_a_table_of_several_groups_alone_is_one_of_all_groups_together(name: str) -> None:
    reading = nccl_tests.read({0: text(name, "out")})
    assert reading.ok, reading.reason
    assert {(m.operation, m.ranks) for m in reading.measurements} == {("all_reduce groups 2", 2)}
    assert "2 groups of 2 ranks ran at once" in reading.notes[0]
    wrong = text(name, "out").replace("values : 0 OK", "values : 40 FAILED")
    assert "40" in nccl_tests.read({0: wrong}).reason


@pytest.mark.parametrize("name", SPLIT)
def test_groups_of_different_sizes_say_nothing(name: str) -> None:
    changed = text(name, "out").replace("#  Rank  2 Group  1", "#  Rank  2 Group  0")
    reading = nccl_tests.read({0: changed})
    assert "groups of different sizes (NCCL_TESTS_SPLIT)" in reading.reason
    assert reading.measurements == ()


@pytest.mark.parametrize("name", [name for name in GOOD if name not in ("too-large",)])
def test_the_json_alone_is_read_as_the_text(name: str) -> None:
    stored = nccl_tests.read({0: text(name, "nccl-tests.json")})
    printed = nccl_tests.read({0: text(name, "out")})
    assert (stored.ok, stored.completeness) == (printed.ok, printed.completeness), stored.reason
    for one, other in zip(stored.measurements, printed.measurements, strict=True):
        assert dataclasses.replace(one, value=other.value) == other
        assert one.value == pytest.approx(other.value, rel=1e-3, abs=0.0051)


def test_what_is_expected_of_a_run_is_not_proved_by_its_json_alone() -> None:
    stored = text("two-hosts", "nccl-tests.json")
    by_hand = table.by_hand()["nccl-tests"]
    reading = by_hand.read([stored], (0,), by_hand.requested(stored, ["ranks=2"]))
    assert not reading.ok and "the JSON of -J, expected what the run printed" in reading.reason


@pytest.mark.parametrize("name", sorted(GOOD)[:3])
def test_no_json_that_is_cut_is_read(name: str) -> None:
    stored = text(name, "nccl-tests.json").rstrip()
    for end in range(1, len(stored), 101):
        assert not nccl_tests.read({0: stored[:end]}).ok


# ---- NCCL's logs -----------------------------------------------------------------------------


def logs(name: str) -> dict[int, str]:
    return {
        rank: written
        for rank in range(len(facts(name)["hosts"]))
        if (written := text(name, f"rank{rank}.nccl.log"))
    }


@pytest.mark.parametrize("name", [name for name in GOOD if name not in SPLIT])
def test_the_logs_of_a_good_run_say_how_its_ranks_were_connected(name: str) -> None:
    hosts = dict(enumerate(facts(name)["hosts"]))
    used = nccl_log.read(logs(name), hosts)
    assert used.problems == ()
    assert used.seen["between_nodes"] == (("NET/Socket",) if len(hosts) > 1 else ())
    assert used.seen["within_nodes"] == () and not used.seen["nvls"] and not used.seen["mnnvl"]


@pytest.mark.parametrize("name", SPLIT)
def test_each_group_of_a_split_has_a_communicator_of_its_own(name: str) -> None:
    for group in (0, 1):
        its = {rank: logs(name)[2 * group + rank] for rank in (0, 1)}
        used = nccl_log.read(its, {0: f"h{2 * group}", 1: f"h{2 * group + 1}"})
        assert used.problems == () and used.seen["between_nodes"] == ("NET/Socket",)
    assert nccl_log.read(logs(name), dict(enumerate(facts(name)["hosts"]))).problems


def test_the_log_of_a_rank_with_a_dead_partner_says_so() -> None:
    used = nccl_log.read(logs("killed"), {0: "h0", 1: "h1"})
    assert any("Connection closed by remote peer" in problem for problem in used.problems)


# ---- ncclras ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "pid"), [("one-of-two", 1893), ("one-of-four", 185)])
def test_ncclras_names_the_rank_that_was_stopped(name: str, pid: int) -> None:
    answer = (DATA / "ras" / f"{name}.txt").read_text()
    silent = ras.Straggler(1, pid, ras.SILENT)
    assert ras.answer(answer) == ras.Answer((silent,), whole=True)
    assert ras.trouble(answer).startswith("Errors INCOMPLETE Missing communicator data from 1 job")
    begun = answer.index("\n  Missing communicator data from 1 rank\n") + 1
    named = answer.index("\n", answer.index("  Rank 1 ")) + 1
    for end in range(len(answer)):
        said = ras.answer(answer[:end])
        assert set(said.stragglers) <= {silent}
        if said.stragglers:
            assert end >= named and said.whole
        elif end > answer.index("\n", begun):
            assert not said.whole


def test_ncclras_names_ranks_that_have_launched_less() -> None:
    answer = """\
Warnings
========

#0-0 (7c7c822935315819) MISMATCH
  Communicator ranks have different AllReduce operation counts
  6 ranks have launched up to operation 40
  Rank 3 has launched up to operation 12 -- GPU 3 managed by process 77 on node 10.0.0.3
  Rank 5 has not launched any operations -- [process information not found]

"""
    late = (
        ras.Straggler(3, 77, "has launched up to operation 12"),
        ras.Straggler(5, None, "has not launched any operations"),
    )
    assert ras.answer(answer) == ras.Answer(late, whole=True)
    # Below a list of silent ranks it is none of them, and one of them is not named.
    silent = "  Missing communicator data from 1 rank\n"
    assert ras.answer(silent + answer[answer.index("  Rank 3") :]) == ras.Answer(late, whole=False)


def lag(most: int, named: int, counts: str = "collective") -> str:
    """Six ranks at one operation, and two, which are named, at another."""
    return f"""\
#0-0 (1234567890abcdef) MISMATCH
  Communicator ranks have different {counts} operation counts
  6 ranks have launched up to operation {most}
  2 ranks have launched up to operation {named}
  Rank 5 -- GPU 1 managed by process 7001 on node 192.0.2.8
  Rank 6 -- GPU 2 managed by process 7002 on node 192.0.2.8

"""


def test_ncclras_names_a_group_of_ranks_that_have_launched_less() -> None:
    late = tuple(
        ras.Straggler(rank, 6996 + rank, f"has launched up to operation {count}")
        for count in (119, 7)
        for rank in (5, 6)
    )
    # each collective has counts of its own
    answer = lag(120, 119, "AllReduce") + lag(8, 7, "AllGather")
    assert ras.answer(answer) == ras.Answer(late, whole=True)


def test_ranks_that_have_launched_more_than_others_are_not_late() -> None:
    answer = lag(120, 121) + "  3 ranks have status ERROR\n  Rank 4 -- GPU 0 managed by process 1"
    assert ras.answer(f"{answer} on node 192.0.2.7\n") == ras.Answer((), whole=True)


def test_a_gpu_with_another_number_for_nvml_is_no_obstacle() -> None:
    answer = (
        "  Missing communicator data from 2 ranks\n"
        "  Rank 3 -- GPU 0 (NVML 3) managed by process 77 on node 10.0.0.3\n"
        "  Rank 4 -- [process information not found]\n"
    )
    silent = (ras.Straggler(3, 77, ras.SILENT), ras.Straggler(4, None, ras.SILENT))
    assert ras.answer(answer) == ras.Answer(silent, whole=True)


@given(st.text(max_size=300))
def test_no_other_answer_names_a_rank(answer: str) -> None:
    assert ras.answer("Job summary\n" + answer.replace("Rank", "rank")).stragglers == ()


def test_processes_are_known_of_a_table_that_broke_off() -> None:
    devices = nccl_tests.devices(text("stopped", "out"))
    assert [(d.rank, d.host, d.pid) for d in devices] == [(0, "h0", 1892), (1, "h1", 1893)]
