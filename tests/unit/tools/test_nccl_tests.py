"""nccl-tests: what real outputs give, and that no damaged output is believed."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.tools import Completeness, ParseError, Reading, nccl_tests
from railgauge.tools.nccl_tests import Options
from tests.properties import tries
from tests.unit.tools import nccl_outputs
from tests.unit.tools.nccl_outputs import SECRET, Run, calls, json_text, printed, printed_lines
from tests.unit.tools.sides import edited

REPOSITORY = Path(__file__).parents[3]
PUBLISHED = REPOSITORY / "tests" / "data" / "nccl-tests"

PROVED, UNKNOWN, BROKEN = Completeness.PROVED, Completeness.UNKNOWN, Completeness.BROKEN

OPTIONS = Options("all_reduce", ranks=4, min_bytes=8, max_bytes=2**20, factor=8)
RUN = Run(OPTIONS, seed=1)


def judged(run: Run = RUN, text: str | None = None, **given: Any) -> Reading:
    """A good run with all its evidence, a part of it replaced."""
    return nccl_tests.read(
        {0: printed(run) if text is None else text},
        **{"calls": calls(run), "options": run.asked(), **given},
    )


def last_row(run: Run = RUN) -> str:
    return next(line for line in reversed(printed_lines(run)) if line.lstrip()[:1].isdigit())


def without(*words: str) -> str:
    """The good output without the lines that start so."""
    return "\n".join(line for line in printed_lines(RUN) if not line.startswith(words))


def of(**changes: Any) -> Run:
    """A run whose options are others than were asked for."""
    return dataclasses.replace(RUN, options=dataclasses.replace(OPTIONS, **changes))


# ---- options and argv ----


def test_every_option_reaches_the_program() -> None:
    options = dataclasses.replace(OPTIONS, warmup=2, iterations=50, timeout_s=30, gpus_per_rank=2)
    words = nccl_tests.argv(options, "/opt/all_reduce_perf", "/tmp/result.json")
    asked = (
        "-b 8 -e 1048576 -f 8 -g 2 -w 2 -n 50 -c 1 -T 30 -a 3 -d float -o sum -J /tmp/result.json"
    )
    assert " ".join(words) == f"/opt/all_reduce_perf {asked}"


#: Two groups of two ranks, as NCCL_TESTS_SPLIT="DIV 2" makes them.
SPLIT = dataclasses.replace(OPTIONS, groups=2)


def test_several_groups_print_one_table_with_the_formulas_of_one() -> None:
    run = dataclasses.replace(RUN, options=SPLIT)
    reading = judged(run, options=SPLIT)
    assert reading.ok, reading.reason
    assert {m.ranks for m in reading.measurements} == {2}
    assert SPLIT.sizes() == dataclasses.replace(OPTIONS, ranks=2).sizes()


def test_groups_are_those_that_were_asked_for() -> None:
    run = dataclasses.replace(RUN, options=SPLIT)
    text = edited(printed(run), "#  Rank  2 Group  1", "#  Rank  2 Group  0")
    reason = judged(run, text, options=SPLIT).reason
    assert "rank 2 is of group 0, expected 1: 2 groups of 2 ranks" in reason


def test_one_group_in_place_of_several_is_refused() -> None:
    reason = judged(RUN, options=SPLIT).reason
    assert "rank 2 is of group 0, expected 1" in reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"groups": 3}, "groups are 3, expected a number that divides 4 ranks"),
        ({"groups": 2, "version": "2.13.9"}, "2.13.9 runs one group at a time"),
    ],
)
def test_groups_that_cannot_be_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(OPTIONS, **changes)


@pytest.mark.parametrize(("version", "known"), [("2.13.9", False), ("2.14.0", True)])
def test_groups_are_known_since_2_14(version: str, known: bool) -> None:
    assert dataclasses.replace(OPTIONS, version=version).has_split is known


@pytest.mark.parametrize("operation", nccl_tests.OPERATIONS)
def test_only_reductions_are_given_one(operation: str) -> None:
    words = nccl_tests.argv(Options(operation, 4, 8, 8), f"{operation}_perf")
    assert ("-o" in words) == (operation in ("all_reduce", "reduce_scatter", "reduce"))


@pytest.mark.parametrize(
    ("version", "file"), [("2.17.2", "result.json"), ("2.17.6", "result"), ("2.17.6", "r.txt")]
)
def test_json_that_the_tool_would_not_write_is_refused(version: str, file: str) -> None:
    options = dataclasses.replace(OPTIONS, version=version)
    with pytest.raises(ValueError, match="JSON"):
        nccl_tests.argv(options, "all_reduce_perf", file)


@pytest.mark.parametrize(
    ("version", "json_too", "intervals"),
    [
        ("2.9.0", False, False),
        ("2.17.2", False, False),
        ("2.17.3", True, False),
        ("2.18.0", True, False),
        ("2.19.6", True, True),
        ("2.20.0", True, True),
    ],
)
def test_features_follow_the_version(version: str, json_too: bool, intervals: bool) -> None:
    options = dataclasses.replace(OPTIONS, version=version)
    assert (options.has_json, options.has_intervals) == (json_too, intervals)
    assert ("-I" in nccl_tests.argv(options, "all_reduce_perf")) == intervals


@pytest.mark.parametrize(
    "wrong",
    [
        {"operation": "alltoallv"},
        {"datatype": "complex"},
        {"ranks": 0},
        {"ranks": True},
        {"min_bytes": 0},
        {"max_bytes": 4},
        {"max_bytes": 2**54},
        {"factor": 1},
        {"iterations": 0},
        {"warmup": -1},
        {"timeout_s": 0},
        {"gpus_per_rank": 0},
        {"version": "2.17"},
        {"version": "3.0.0"},
        {"transport": ""},
        {"hosts": ("a", "b")},
        {"ranks": 6, "operation": "hypercube"},
    ],
)
def test_options_that_cannot_be_run_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=wrong.get("operation") or next(iter(wrong))):
        dataclasses.replace(OPTIONS, **wrong)


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        ("all_reduce", 1.75),
        ("all_gather", 0.875),
        ("reduce_scatter", 0.875),
        ("alltoall", 0.875),
        ("gather", 0.875),
        ("scatter", 0.875),
        ("hypercube", 0.875),
        ("broadcast", 1),
        ("reduce", 1),
        ("sendrecv", 1),
    ],
)
def test_busbw_factor_is_that_of_nccl_tests(operation: str, factor: float) -> None:
    assert nccl_tests.busbw_factor(operation, 8) == factor


@pytest.mark.parametrize(("operation", "ranks"), [("all_reduce", 0), ("alltoallv", 8)])
def test_no_factor_without_ranks_or_operation(operation: str, ranks: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        nccl_tests.busbw_factor(operation, ranks)


@pytest.mark.parametrize(
    ("operation", "ranks", "datatype", "version", "sizes"),
    [
        ("all_reduce", 8, "float", "2.17.6", (0, 0, 4, 8, 16, 32, 64, 128, 256)),
        ("sendrecv", 3, "double", "2.17.6", (0, 0, 0, 8, 16, 32, 64, 128, 256)),
        # the real sample of an old version: superbench-nccl_alltoall.txt
        ("alltoall", 8, "float", "2.12.0", (0, 0, 0, 0, 0, 32, 64, 128, 256)),
        ("alltoall", 8, "float", "2.17.6", (0, 0, 0, 0, 0, 0, 0, 128, 256)),
        ("all_gather", 2, "float", "2.17.6", (0, 0, 0, 0, 0, 32, 64, 128, 256)),
        ("reduce_scatter", 3, "half", "2.17.6", (0, 0, 0, 0, 0, 0, 48, 96, 240)),
        ("all_gather", 3, "int8", "2.13.9", (0, 0, 0, 0, 12, 24, 60, 120, 252)),
        ("gather", 3, "int8", "2.13.9", (0, 0, 3, 6, 15, 30, 63, 126, 255)),
        ("scatter", 3, "int8", "2.20.0", (0, 0, 0, 0, 0, 0, 48, 96, 240)),
    ],
)
def test_sizes_are_those_that_the_tool_prints(
    operation: str, ranks: int, datatype: str, version: str, sizes: tuple[int, ...]
) -> None:
    options = Options(operation, ranks, 1, 256, datatype=datatype, version=version)
    assert options.sizes() == sizes


def test_ranks_of_nccl_are_gpus() -> None:
    options = Options("all_gather", 2, 64, 64, gpus_per_rank=4)
    assert (options.gpus, options.sizes()) == (8, (0,))


def test_version_is_left_to_the_output() -> None:
    assert nccl_tests.version_argv() == []


# ---- real outputs ----


@pytest.mark.parametrize(
    ("name", "busbw", "time", "average"),
    [("mnnvl", (811.71, 810.35), 37038.7, 811.031), ("ib", (84.52, 85.02), 355729, 84.7689)],
)
def test_published_gb200_tables(
    name: str, busbw: tuple[float, float], time: float, average: float
) -> None:
    text = (PUBLISHED / f"gb200-2x4-{name}-16GiB.txt").read_text(encoding="utf-8")
    (result,) = nccl_tests.parse(text)
    hosts = tuple(device.host for device in result.devices)
    options = Options("all_reduce", 8, 2**34, 2**34, warmup=1, transport="default", hosts=hosts)
    reading = nccl_tests.read({0: text}, options=options)
    assert (reading.ok, reading.completeness) == (True, PROVED)
    values = {m.metric: m.value for m in reading.measurements}
    assert (values["busbw"], values["busbw_in_place"], values["time"]) == (*busbw, time)
    assert result.average_busbw_gbytes_s == average
    assert {m.transport for m in reading.measurements} == {"default"}


def test_header_of_the_published_table_is_stated() -> None:
    text = (PUBLISHED / "gb200-2x4-mnnvl-16GiB.txt").read_text(encoding="utf-8")
    one, other = "nccl-test-2nsk2", "nccl-test-hw5qh"
    assert nccl_tests.read({0: text}).seen == {
        "version": "2.17.6",
        "nccl_version": "2.28.9",
        "ranks": 8,
        "gpu": "NVIDIA GB200",
        "hosts": (one,) * 4 + (other,) * 4,
        "warmup": 1,
        "iterations": 20,
        "validation": 1,
        "min_bytes": 2**34,
        "max_bytes": 2**34,
    }


def test_devices_of_the_published_table_are_read() -> None:
    text = (PUBLISHED / "gb200-2x4-mnnvl-16GiB.txt").read_text(encoding="utf-8")
    (result,) = nccl_tests.parse(text)
    assert result.devices[7] == nccl_tests.Device(
        7, "nccl-test-hw5qh", 3, "0019:01:00", "NVIDIA GB200", 1169
    )


def test_the_first_version_printed_milliseconds() -> None:
    row = "     1048576        262144   float     sum"
    side = "    0.131   8.00   8.00    0e+00"
    lines = [
        "nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 5 "
        "iters: 20 validation: 1 ",
        "# Using devices",
        "#   Rank  0 on     node03 device  0 [0x04] Tesla P100-PCIE-16GB",
        "#   Rank  1 on     node03 device  1 [0x05] Tesla P100-PCIE-16GB",
        "",
        "#      bytes             N    type      op" + "     time  algbw  busbw      res" * 2,
        row + 2 * side,
        " Out of bounds values : 0 OK",
        " Avg bus bandwidth    : 8 ",
        "",
    ]
    text = "\n".join(lines)
    reading = nccl_tests.read({0: text})
    assert reading.ok, reading.reason
    assert [m.value for m in reading.measurements] == [8.0, 131.0, 8.0, 131.0]
    # of some operations it measured one side only
    one_side = nccl_tests.read({0: text.replace(row + 2 * side, row + side)})
    assert [m.value for m in one_side.measurements] == [8.0, 131.0]


# ---- a good run ----


def test_exit_lines_prove_the_end() -> None:
    old = of(version="2.12.0")
    assert judged(old).completeness is PROVED
    assert judged(old, calls=()).completeness is UNKNOWN


def test_end_line_proves_the_end() -> None:
    assert judged(calls=()).completeness is PROVED


def test_bare_file_is_judged_by_its_own_header() -> None:
    reading = nccl_tests.read({0: printed(RUN)})
    assert (reading.ok, reading.completeness) == (True, PROVED)
    assert {m.operation for m in reading.measurements} == {"all_reduce"}


def test_every_size_is_measured_on_both_sides() -> None:
    reading = judged()
    assert [(m.metric, m.size_bytes) for m in reading.measurements] == [
        (metric, size)
        for size in OPTIONS.sizes()
        for metric in ("busbw", "time", "busbw_in_place", "time_in_place")
    ]


def test_a_measurement_prints_its_condition() -> None:
    options = dataclasses.replace(OPTIONS, transport="one-hca")
    first = judged(dataclasses.replace(RUN, options=options)).measurements[0]
    assert dataclasses.replace(first, value=0.0).as_dict() == {
        **{"metric": "busbw", "value": 0.0, "unit": "GB/s", "tool": "nccl-tests"},
        **{"operation": "all_reduce", "transport": "one-hca", "size_bytes": 8, "ranks": 4},
        **{"nodes": ["node1", "node2"], "samples": 20, "simulated": False, "warmup": 5},
        **dict.fromkeys(
            (
                "streams",
                "rails",
                "nics",
                "window_bytes",
                "congestion",
                "delay_ms",
                "load",
                "within",
            ),
        ),
    }


def test_sizes_that_round_to_nothing_are_not_measured() -> None:
    run = Run(Options("alltoall", 8, 1, 256))
    assert {m.size_bytes for m in judged(run).measurements} == {128, 256}


@pytest.mark.parametrize("operation", nccl_tests.OPERATIONS)
@pytest.mark.parametrize("version", nccl_outputs.VERSIONS)
def test_every_operation_of_every_version_is_read(version: str, operation: str) -> None:
    run = Run(Options(operation, 4, 1024, 2**26, version=version), seed=4)
    reading = judged(run)
    assert reading.ok, reading.reason
    assert len(reading.measurements) == 4 * 17


@pytest.mark.parametrize("operation", nccl_tests.OPERATIONS)
def test_operation_of_a_file_that_does_not_name_it_follows_from_its_numbers(operation: str) -> None:
    run = Run(Options(operation, 4, 2**20, 2**30, version="2.13.9"), seed=4)
    reading = nccl_tests.read({0: printed(run)})
    found = {m.operation for m in reading.measurements}
    assert found == {"" if operation in ("gather", "scatter") else operation}


def test_several_tests_in_one_file_are_separated() -> None:
    other = Run(Options("broadcast", 2, 8, 64), seed=2)
    reading = nccl_tests.read({0: printed(RUN) + printed(other)})
    assert (reading.ok, reading.seen["tests"]) == (True, 2)
    assert {m.operation for m in reading.measurements} == {"all_reduce", "broadcast"}


def test_several_gpus_of_one_rank_are_counted() -> None:
    run = Run(Options("all_reduce", 2, 8, 64, gpus_per_rank=4))
    reading = judged(run)
    assert (reading.ok, reading.measurements[0].ranks) == (True, 8)


def test_log_lines_and_prefixes_are_passed_over() -> None:
    lines = []
    for line in printed_lines(dataclasses.replace(RUN, prefix="[1,0]<stdout>:")):
        lines += [line, "[1,1]<stdout>:node2:21:21 [0] NCCL INFO Channel 00/0 : 0 -> 1"]
    assert judged(text="\n".join(lines)).measurements == judged().measurements


@pytest.mark.parametrize("prefix", ["0: ", "0:  ", " 0: ", "[0] ", "[prterun-n1-7@1,0]<stdout>:"])
def test_prefix_of_a_launcher_is_stripped(prefix: str) -> None:
    text = printed(dataclasses.replace(RUN, prefix=prefix))
    assert judged(text=text).measurements == judged().measurements


ADVICE = (
    "NUMA auto balancing enabled which can lead to variability in the NCCL performance!",
    "NUMA auto balancing enabled which can lead to variability in the RCCL performance! Disable",
    'Missing "iommu=pt" from kernel command line which can lead to system instability or hang!',
)


@pytest.mark.parametrize("advice", ADVICE)
def test_advice_of_nccl_is_counted_only(advice: str) -> None:
    reading = judged(text=f"n1:1:1 [0] /src/init.cc:140 NCCL WARN {advice}\n{printed(RUN)}")
    assert (reading.ok, reading.seen["warnings"]) == (True, 1)


@pytest.mark.parametrize("advice", ADVICE)
def test_advice_as_the_last_error_is_advice(advice: str) -> None:
    reading = judged(
        text=f"{printed(RUN)}# error: {advice}\n", json_text=json_text(RUN, errors=[advice])
    )
    assert (reading.ok, reading.seen["warnings"]) == (True, 1), reading.reason


def test_an_error_below_the_end_line_is_a_failure() -> None:
    text = printed(RUN) + "# error: Call to ibv_modify_qp failed with 110 Connection timed out\n"
    assert "expected no error of NCCL" in judged(text=text).reason


@pytest.mark.parametrize("errors", [["remote process exited"], ["", "x"], "x", {"a": 1}, [3]])
def test_errors_in_the_json_are_failures(errors: Any) -> None:
    assert "error" in judged(json_text=json_text(RUN, errors=errors)).reason


@pytest.mark.parametrize("errors", [[], [""]])
def test_no_error_in_the_json_is_none(errors: list[str]) -> None:
    assert judged(json_text=json_text(RUN, errors=errors)).ok


@pytest.mark.parametrize(
    "line",
    [
        "[node2:04711] *** Process received signal ***",
        "[node2:04711] Signal: Segmentation fault (11)",
        "ORTE has lost communication with a remote daemon.",
        "PRTE has lost communication with a remote daemon.",
        "Terminated",
        "run.sh: line 3:  4711 Terminated              ./all_reduce_perf",
        "slurmstepd: error: *** STEP 17.0 ON n1 CANCELLED AT 2026-11-21T10:11:12 ***",
        "JOB 17 CANCELLED BY USER",
        "Floating point exception",
    ],
)
def test_an_end_that_was_none_is_a_failure_below_the_footer_too(line: str) -> None:
    assert "no failure" in judged(text=f"{printed(RUN)}{line}\n").reason


@pytest.mark.parametrize(
    "line",
    [
        '[node2:04711] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error '
        "messages",
        "[node2:04711] 7 more processes have sent help message help-mpi-btl-openib.txt / no device",
        "node1:21:41 [0] NCCL INFO [Service thread] terminated",
    ],
)
def test_what_reads_like_a_failure_and_is_none_is_passed_over(line: str) -> None:
    assert judged(text=f"{line}\n{printed(RUN)}{line}\n").ok


def test_exponents_are_numbers() -> None:
    run = Run(Options("all_reduce", 2, 2**42, 2**42), seed=3)
    assert "e+0" in last_row(run)
    assert judged(run).ok


def test_iterations_are_read_where_they_stand() -> None:
    run = dataclasses.replace(of(version="2.20.0"), intervals=True, timestamps=True)
    reading = judged(run)
    (result,) = nccl_tests.parse(printed(run))
    timed = result.rows[-1].out_of_place.intervals
    assert reading.ok, reading.reason
    assert timed and timed.min_us < timed.p99_us < timed.max_us and timed.cv_percent == 4.2


def test_iterations_out_of_order_are_refused() -> None:
    run = dataclasses.replace(of(version="2.20.0"), intervals=True)
    text = edited(printed(run), "i_min   i_max", "i_max   i_min")
    assert "not in order: min, p99, max" in judged(run, text).reason


def test_cpu_time_is_no_time_of_an_operation() -> None:
    text = edited(printed(RUN), "   time", "cputime")
    reading = nccl_tests.read({0: text})
    assert {m.metric for m in reading.measurements} == {"busbw", "busbw_in_place"}
    assert "that of the CPU" in judged(text=text).reason


@pytest.mark.parametrize("operation", nccl_tests.OPERATIONS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_one_rank_is_no_crash(operation: str, ranks: int) -> None:
    text = printed(Run(Options(operation, ranks, 1024, 4096), seed=1))
    assert nccl_tests.read({0: text}).ok
    assert nccl_tests.read({0: text.replace("   time", "cputime")}).ok


@pytest.mark.parametrize(
    ("operation", "old", "new"),
    [("all_reduce", "     sum", "     max"), ("broadcast", "none       0", "none       2")],
)
def test_other_reductions_and_roots_are_refused(operation: str, old: str, new: str) -> None:
    run = Run(dataclasses.replace(OPTIONS, operation=operation))
    text = edited(printed(run), old, new)
    assert nccl_tests.read({0: text}).ok
    assert "expected" in judged(run, text).reason


def test_steps_of_bytes_are_read_too() -> None:
    text = printed(Run(Options("all_reduce", 2, 1024, 2048)))
    text = edited(text, "step: 2(factor)", "step: 1024(bytes)")
    assert nccl_tests.read({0: text}).ok


def test_simulated_output_marks_everything() -> None:
    reading = judged(text=f"# SIMULATED by railgauge rehearse\n{printed(RUN)}")
    assert (reading.ok, reading.simulated) == (True, True)
    assert {m.simulated for m in reading.measurements} == {True}


def test_what_is_refused_still_says_that_it_is_simulated() -> None:
    reading = judged(text=f"# SIMULATED\n{printed(of(iterations=7))}")
    assert (reading.ok, reading.simulated, reading.seen["iterations"]) == (False, True, 7)


def test_nothing_measured_is_a_failure() -> None:
    run = Run(Options("alltoall", 8, 1, 64))
    assert "every size is 0 bytes: nothing was measured" in judged(run).reason


# ---- who took part ----


def alone(rank: int) -> str:
    run = dataclasses.replace(of(ranks=1), seed=rank)
    return edited(printed(run), "node1", f"node{1 + rank}")


def test_singletons_are_named() -> None:
    outputs = {rank: alone(rank) for rank in range(4)}
    reading = nccl_tests.read(outputs, calls=calls(RUN), options=OPTIONS)
    assert not reading.ok
    assert "singletons: ranks 0, 1, 2, 3 printed a table each" in reading.reason


def test_one_singletons_output_is_enough() -> None:
    reading = judged(text=alone(0))
    assert "singletons: 1 rank(s) in the header, expected 4: rank 0 started alone" in reading.reason


def test_singletons_behind_one_launcher_are_refused() -> None:
    lines = []
    for rank in range(2):
        lines += [f"[1,{rank}]<stdout>:{line}" for line in alone(rank).split("\n")]
    reading = nccl_tests.read({0: "\n".join(lines)})
    assert "each rank started alone (no MPI)" in reading.reason


def test_tables_of_two_ranks_behind_one_launcher_are_refused() -> None:
    lines = [f"[1,{rank}]<stdout>:{line}" for rank in range(2) for line in alone(0).split("\n")]
    reading = nccl_tests.read({0: "\n".join(lines)})
    assert "a table of [1,1]<stdout>: next to that of [1,0]<stdout>:" in reading.reason


@pytest.mark.parametrize("beside", [False, True])
def test_ranks_that_each_started_alone_are_refused_with_that_reason(beside: bool) -> None:
    """Without MPI; one after the other, or line by line."""
    outputs = [alone(rank) for rank in range(2)]
    text = "".join(outputs)
    if beside:
        pairs = zip(*(output.split("\n") for output in outputs), strict=True)
        text = "\n".join(line for pair in pairs for line in pair)
    assert nccl_tests.read({0: text}).reason == (
        "each rank started alone (no MPI): node1 and node2 have a rank 0 each"
    )


def test_tests_with_other_settings_on_other_nodes_are_tests_of_their_own() -> None:
    text = alone(0) + alone(1).replace("iters: 20", "iters: 21")
    assert "no MPI" not in nccl_tests.read({0: text}).reason


def test_two_tables_are_one_too_many() -> None:
    reading = nccl_tests.read({0: printed(RUN), 1: printed(RUN)}, options=OPTIONS)
    assert "ranks 0, 1 printed a table each, expected rank 0 alone" in reading.reason


def test_the_table_is_rank_0s() -> None:
    reading = nccl_tests.read({0: "", 2: printed(RUN)}, options=OPTIONS)
    assert "rank 2 printed the table, expected rank 0" in reading.reason


def test_failure_of_another_rank_counts() -> None:
    reading = nccl_tests.read({0: printed(RUN), 3: nccl_outputs.FAILURES[0]}, options=OPTIONS)
    assert "rank 3: line 1: found" in reading.reason


@pytest.mark.parametrize("word", ["nccl-tests", "Collective", "nThread", "Using", "Out", "Avg"])
def test_a_part_that_comes_again_belongs_to_another_test(word: str) -> None:
    """Else the last one would count: 'values : 0 OK' below 'values : 2 FAILED'."""
    lines = printed_lines(RUN)
    place = next(i for i, line in enumerate(lines) if line.startswith(f"# {word}"))
    text = "\n".join([*lines[: place + 1], *lines[place:]])
    assert "2 tests in one output, expected 1" in judged(text=text).reason
    assert not nccl_tests.read({0: text}).ok


def test_two_whole_tables_are_one_too_many() -> None:
    assert "2 tests in one output, expected 1" in judged(text=printed(RUN) * 2).reason


def test_ranks_are_in_order() -> None:
    lines = printed_lines(RUN)
    place = next(i for i, line in enumerate(lines) if "Rank  1" in line)
    lines[place], lines[place + 1] = lines[place + 1], lines[place]
    reading = judged(text="\n".join(lines))
    assert "numbers its ranks 0, 2, 1, 3, expected 0 to 3" in reading.reason


@pytest.mark.parametrize("outputs", [{}, {0: ""}, {0: "\n\n", 1: "hello"}])
def test_no_output_is_a_failure(outputs: dict[int, str]) -> None:
    assert "no rank printed a table" in nccl_tests.read(outputs).reason


DEVICE_CHANGES: dict[str, tuple[str, str]] = {
    "expected node2": (" on      node2 device  0", " on      node9 device  0"),
    "the header numbers its ranks 0, 1, 2, 7": ("#  Rank  3", "#  Rank  7"),
    "ranks 2 and 3 use the same GPU, 0000:10:00 on node2": ("[0000:11:00]", "[0000:10:00]"),
    "several groups of ranks": ("#  Rank  3 Group  0", "#  Rank  3 Group  1"),
    "found 'Rank  2 Group": ("device  0 [", "device zero ["),
}


@pytest.mark.parametrize("words", DEVICE_CHANGES)
def test_ranks_elsewhere_are_refused(words: str) -> None:
    lines = printed_lines(RUN)
    old, new = DEVICE_CHANGES[words]
    # the devices of the second node: on the first the same may be right
    changed = [line.replace(old, new) if " node2 " in line else line for line in lines]
    assert changed != lines
    assert words in judged(text="\n".join(changed)).reason


def test_bus_numbers_of_old_versions_do_not_identify_gpus() -> None:
    run = of(version="2.13.9")
    text = edited(edited(printed(run), "[0x10]", "[0x00]"), "[0x11]", "[0x00]")
    assert judged(run, text).ok


def test_hosts_are_compared_without_their_domain() -> None:
    hosts = tuple(f"{host}.cluster.example" for host in RUN.hosts)
    assert judged(options=dataclasses.replace(OPTIONS, hosts=hosts)).ok


def test_no_line_of_a_device_is_a_failure() -> None:
    assert "no line of a device" in judged(text=without("#  Rank")).reason


# ---- what was asked ----

ASKED: dict[str, Run] = {
    "operation broadcast, expected all_reduce": of(operation="broadcast"),
    "datatype half, expected float": of(datatype="half"),
    "smallest size 64, expected 8": of(min_bytes=64),
    "largest size 131072, expected 1048576": of(max_bytes=2**17),
    "step factor 2, expected 8": of(factor=2),
    "warmup 1, expected 5": of(warmup=1),
    "iterations 5, expected 20": of(iterations=5),
    "GPUs per rank 2, expected 1": of(ranks=2, gpus_per_rank=2),
    "2 rank(s) in the header, expected 4": of(ranks=2),
    "8 rank(s) in the header, expected 4": of(ranks=8),
}


@pytest.mark.parametrize("words", ASKED)
def test_another_run_than_asked_is_refused(words: str) -> None:
    reading = judged(text=printed(ASKED[words]))
    assert (reading.ok, reading.completeness) == (False, BROKEN)
    assert words in reading.reason


@pytest.mark.parametrize("asked", nccl_tests.OPERATIONS)
def test_operation_is_known_by_the_numbers_too(asked: str) -> None:
    """Where no line names it, as before 2.16.7."""
    for operation in nccl_tests.OPERATIONS:
        run = Run(Options(operation, 4, 2**20, 2**30, version="2.13.9"), seed=4)
        options = dataclasses.replace(run.options, operation=asked)
        same = operation == asked or {operation, asked} == {"gather", "scatter"}
        assert judged(run, options=options).ok == same, operation


HEADER_CHANGES: dict[str, tuple[str, str]] = {
    "validation 0, expected 1": ("validation: 1", "validation: 0"),
    "operations per iteration 4": ("agg iters: 1", "agg iters: 4"),
    "threads 2": ("nThread 1", "nThread 2"),
    "'graph: 3', which was not asked for": ("graph: 0", "graph: 3"),
    "'Blocking Enabled": ("# Using devices", "# Blocking Enabled: wait\n# Using devices"),
    "'Reducing maxBytes to": (
        "# Using devices",
        "# Reducing maxBytes to 99 due to\n# Using devices",
    ),
    "no line of parameters": ("# nThread", "# nothing"),
    "expected nThread, nGpus, minBytes": ("iters: 20", "iters: x"),
    "times in (us)": ("(us)  (GB/s)", "(ms)  (GB/s)"),
    "expected out-of-place before in-place": (
        "out-of-place                       in-place",
        "in-place                       out-of-place",
    ),
    "expected size, count, type": ("busbw", "buswb"),
}


@pytest.mark.parametrize("words", HEADER_CHANGES)
def test_other_conditions_are_refused(words: str) -> None:
    text = edited(printed(RUN), *HEADER_CHANGES[words])
    assert words in judged(text=text).reason


def reduced(to: int, run: Run = RUN) -> str:
    """The output of a run whose GPUs hold only so many bytes."""
    left = dataclasses.replace(run.options, max_bytes=to)
    text = printed(dataclasses.replace(run, options=left))
    text = edited(text, f"maxBytes {to} ", f"maxBytes {run.options.max_bytes} ")
    notice = f"#\n# Reducing maxBytes to {to} due to memory limitation\n#\n"
    return edited(text, "#\n#                     ", notice + "#                     ")


@pytest.mark.parametrize("given", [{"options": None, "calls": ()}, {}])
def test_a_sweep_that_memory_ended_is_read_to_its_end(given: dict[str, Any]) -> None:
    reading = judged(text=reduced(40_000), **given)
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    assert max(m.size_bytes or 0 for m in reading.measurements) == 32768
    assert reading.seen["reduced_bytes"] == 40_000


def test_a_sweep_that_memory_ended_is_a_note() -> None:
    (note,) = judged(text=reduced(40_000)).notes
    assert "its largest size is 32768, not 1048576" in note


def test_a_sweep_that_memory_ended_must_be_whole_up_to_there() -> None:
    lines = reduced(40_000).split("\n")
    lines.pop(row_of(32768, lines))
    text = "\n".join(lines)
    assert "no row of 32768 bytes" in judged(text=text).reason
    assert not nccl_tests.read({0: text}).ok


def test_no_row_is_above_what_memory_holds() -> None:
    notice = "#\n# Reducing maxBytes to 40000 due to memory limitation\n# Using devices"
    text = edited(printed(RUN), "# Using devices", notice)
    assert "a row of 262144 bytes" in judged(text=text).reason
    assert not nccl_tests.read({0: text}).ok


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# Reducing maxBytes to 40000", "# Reducing maxBytes to 1048576"),
        (
            "memory limitation\n",
            "memory limitation\n# Reducing maxBytes to 9 due to memory limitation\n",
        ),
    ],
)
def test_a_reduction_that_cannot_be_is_refused(old: str, new: str) -> None:
    assert not judged(text=edited(reduced(40_000), old, new)).ok


def test_more_than_fits_into_memory_is_measured_at_what_does() -> None:
    """-b above the memory: the tool then measures one size."""
    run = of(min_bytes=2**20)
    text = edited(reduced(40_000, of(min_bytes=40_000)), "minBytes 40000", "minBytes 1048576")
    assert {m.size_bytes for m in nccl_tests.read({0: text}).measurements} == {40_000}
    assert not judged(run, text).ok


# ---- several tests, reductions and cycles in one file ----


def repeated(change: Callable[[Run], Run], kinds: int) -> str:
    """The output of a run with the rows of `kinds` sweeps, each but the first another run's."""
    runs = [dataclasses.replace(RUN, seed=1 + kind) for kind in range(kinds)]
    runs = [runs[0], *map(change, runs[1:])]
    lines = printed_lines(RUN)
    rows = [line for run in runs for line in printed_lines(run) if line.lstrip()[:1].isdigit()]
    first, last = row_of(8, lines), row_of(262144, lines)
    mean = sum(nccl_outputs.average(run) for run in runs) / kinds
    text = "\n".join([*lines[:first], *rows, *lines[last + 1 :]])
    return edited(text, f"{nccl_outputs.average(RUN):g}", f"{mean:g}")


def with_redops(text: str, *redops: str) -> str:
    """The sweeps in a text, each with another reduction."""
    lines = text.split("\n")
    place = -1
    for number, line in enumerate(lines):
        if line.split()[:1] == ["8"]:
            place += 1
        if line.lstrip()[:1].isdigit():
            lines[number] = line.replace("   sum ", f"{redops[place]:>6} ")
    return "\n".join(lines)


def test_a_run_that_was_appended_to_another_is_refused() -> None:
    text = printed(RUN) + printed(dataclasses.replace(RUN, seed=2))
    reading = nccl_tests.read({0: text})
    assert not reading.ok and "of the same sizes 2 times" in reading.reason


def test_so_it_is_where_the_tool_does_not_say_its_name_and_has_other_processes() -> None:
    """As before version 2.17."""
    names = re.compile(r"# (nccl-tests version|Collective test).*\n")
    first = names.sub("", printed(RUN))
    again = re.sub(r"(?<=Pid )( *)([0-9]+)", lambda m: f"{m[1]}{int(m[2]) + 7}", first)
    assert again != first and nccl_tests.read({0: first}).ok
    reading = nccl_tests.read({0: first + again})
    assert not reading.ok and "of the same sizes 2 times" in reading.reason


def test_every_cycle_is_read_and_their_mean_is_what_counts() -> None:
    text = repeated(lambda run: run, 2)
    reading = nccl_tests.read({0: text})
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    (result,) = nccl_tests.parse(text)
    columns = [row.out_of_place for row in result.rows if row.size_bytes == 262144]
    last = next(m for m in reading.measurements[-4:] if m.metric == "busbw")
    assert last.value == pytest.approx(sum(column.busbw_gbytes_s for column in columns) / 2)
    assert last.samples == 40
    assert len(reading.measurements) == 24


def test_every_reduction_is_read() -> None:
    text = with_redops(repeated(lambda run: run, 3), "sum", "prod", "avg")
    reading = nccl_tests.read({0: text})
    assert reading.ok, reading.reason
    operations = list(dict.fromkeys(m.operation for m in reading.measurements))
    assert operations == ["all_reduce sum", "all_reduce prod", "all_reduce avg"]
    assert len(reading.measurements) == 72


def test_a_sweep_that_misses_a_size_is_found_among_others() -> None:
    for text in (
        repeated(lambda run: run, 2),
        with_redops(repeated(lambda run: run, 2), "sum", "max"),
    ):
        lines = text.split("\n")
        lines.pop(row_of(512, lines))
        assert not nccl_tests.read({0: "\n".join(lines)}).ok


def test_the_same_table_twice_is_no_second_cycle() -> None:
    lines = printed_lines(RUN)
    rows = [line for line in lines if line.lstrip()[:1].isdigit()]
    first = row_of(8, lines)
    text = "\n".join([*lines[:first], *rows, *lines[first:]])
    assert "the same rows are there twice" in nccl_tests.read({0: text}).reason


def test_cycles_and_reductions_that_were_not_asked_for_are_refused() -> None:
    text = repeated(lambda run: run, 2)
    assert not judged(text=text).ok
    assert (
        "another datatype, reduction or root" in judged(text=with_redops(text, "sum", "max")).reason
    )


OTHER = Run(Options("broadcast", 2, 8, 64), seed=2)


@pytest.mark.parametrize(
    "failed",
    [
        printed(dataclasses.replace(RUN, wrong=((2, 0, 5),))),
        edited(printed(RUN), last_row(), nccl_outputs.FAILURES[0]),
        printed(RUN) + "[node1:77] *** Process received signal ***\n",
        printed(RUN)[:1500],
    ],
    ids=["wrong values", "a failure", "a signal at its end", "cut"],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_test_that_failed_leaves_the_numbers_of_the_other(failed: str, first: bool) -> None:
    if not failed.endswith("\n"):
        failed += "\n"
    text = failed + printed(OTHER) if first else printed(OTHER) + failed
    reading = nccl_tests.read({0: text})
    assert (reading.ok, reading.completeness) == (False, BROKEN)
    assert {m.operation for m in reading.measurements} == {"broadcast"}
    assert numbers_of_good(reading) == numbers_of_good(nccl_tests.read({0: printed(OTHER)}))
    assert reading.reason.endswith("1 good test(s)")


def numbers_of_good(reading: Reading) -> list[tuple[str, int | None, float]]:
    return nccl_outputs.numbers(reading)


def test_a_failure_is_reported_with_its_line_in_the_whole_file() -> None:
    text = printed(OTHER) + printed(OTHER) + nccl_outputs.FAILURES[0] + "\n"
    line = text.count("\n")
    assert f"line {line}: found" in nccl_tests.read({0: text}).reason


def test_exit_codes_that_failed_leave_no_numbers() -> None:
    reading = nccl_tests.read({0: printed(RUN) + printed(OTHER)}, calls=calls(RUN, exit_code=3))
    assert (reading.ok, reading.measurements) == (False, ())


# ---- rows ----


def row_of(size: int, lines: list[str]) -> int:
    return next(i for i, line in enumerate(lines) if line.split()[:1] == [str(size)])


def torn(lines: list[str]) -> None:
    place = row_of(512, lines)
    lines[place] = f"{lines[place][:40]}node1:21:21 [0] NCCL INFO Using network IB"


ROW_CHANGES: dict[str, Callable[[list[str]], Any]] = {
    "no row of 512 bytes": lambda lines: lines.pop(row_of(512, lines)),
    "a row of 512 bytes again": lambda lines: (
        lines.insert(5, lines[row_of(512, lines)])
        or lines.append(lines.pop(5))
        or lines.insert(row_of(4096, lines), lines.pop())
    ),
    "sizes out of order": lambda lines: lines.insert(
        row_of(64, lines), lines.pop(row_of(512, lines))
    ),
    "a row below the end of the table": lambda lines: lines.insert(-4, lines[row_of(8, lines)]),
    "found 10 values in '512           128     float    node1:21:21 [0] NCCL INFO": torn,
}


@pytest.mark.parametrize("words", ROW_CHANGES)
def test_a_sweep_that_is_not_whole_is_refused(words: str) -> None:
    lines = printed_lines(RUN)
    ROW_CHANGES[words](lines)
    text = "\n".join(lines)
    assert words in judged(text=text).reason
    assert not nccl_tests.read({0: text}).ok


def test_additional_size_is_refused() -> None:
    more = of(factor=2)
    lines, others = printed_lines(RUN), printed_lines(more)
    lines.insert(row_of(64, lines), others[row_of(16, others)])
    assert "a row of 16 bytes" in judged(text="\n".join(lines)).reason


#: the last row's columns: size count type redop root, then time algbw busbw #wrong twice
VALUE_CHANGES: dict[str, tuple[int, str]] = {
    "algbw is not size / time": (6, "99.99"),
    "busbw is not algbw times the factor of all_reduce over 4 ranks": (7, "99.99"),
    "a time of 0 out of place": (5, "0.00"),
    "3 wrong value(s) out of place": (8, "3"),
    "1000000 wrong value(s) in place": (12, "1e+06"),
    "1 wrong value(s) in place": (12, "0.25"),
    "values were not checked (N/A) out of place": (8, "N/A"),
    "values were not checked (N/A) in place": (12, "N/A"),
    "a count of 17 is not that of all_reduce": (1, "17"),
    "a count of 0": (1, "0"),
    "another datatype, reduction or root": (3, "max"),
    "datatype half, expected float": (2, "half"),
}


@pytest.mark.parametrize("words", VALUE_CHANGES)
def test_row_that_contradicts_itself_is_refused(words: str) -> None:
    place, value = VALUE_CHANGES[words]
    values = last_row().split()
    values[place] = value
    text = edited(printed(RUN), last_row(), "  ".join(values))
    assert words in judged(text=text).reason
    assert not nccl_tests.read({0: text}).ok


def test_busbw_is_held_against_the_time_where_algbw_has_no_digits_left() -> None:
    row = next(line for line in printed_lines(RUN) if line.split()[:1] == ["8"])
    assert row.split()[6:8] == ["0.00", "0.00"]
    text = edited(printed(RUN), row, row.replace("0.00    0.00", "0.00    0.01", 1))
    assert "busbw is not size / time times the factor" in judged(text=text).reason


def test_size_that_was_not_asked_is_refused() -> None:
    """Small enough that neither bandwidth nor average tell."""
    text = edited(printed(RUN), "           8             2", "          12             3")
    assert "no row of 8 bytes, expected 8 to 262144 bytes, 6 sizes" in judged(text=text).reason
    assert "no row of 8 bytes" in nccl_tests.read({0: text}).reason


@pytest.mark.parametrize("value", ["0e9999", "2e+01", "23", "2.3e1"])
def test_coarser_numbers_than_the_tool_prints_are_not_believed(value: str) -> None:
    values = last_row().split()
    assert values[6] == "22.01"
    values[6] = value
    assert not judged(text=edited(printed(RUN), last_row(), "  ".join(values))).ok


@pytest.mark.parametrize("place", [0, 1, 5, 6, 7, 8, 10])
@pytest.mark.parametrize("value", ["nan", "-nan", "inf", "-1", "1e999", "1_0", "x", "²", "--"])
def test_what_is_no_number_cannot_be_read(place: int, value: str) -> None:
    values = last_row().split()
    values[place] = value
    text = edited(printed(RUN), last_row(), "  ".join(values))
    if place:
        with pytest.raises(ParseError, match="expected a row of"):
            nccl_tests.parse(text)
    assert not judged(text=text).ok


def test_bare_file_without_ranks_is_still_checked() -> None:
    """Before 2.13, and cut: neither operation nor ranks are known."""
    run = of(version="2.12.0", min_bytes=2**20)
    lines = [line for line in printed_lines(run) if not line.startswith(("#   Rank", "# nThread"))]
    values = last_row(run).split()
    assert nccl_tests.read({0: "\n".join(lines)}).ok
    values[6] = "9.99"
    text = edited("\n".join(lines), last_row(run), "  ".join(values))
    assert not nccl_tests.read({0: text}).ok


@pytest.mark.parametrize(("error", "ok"), [("3e-05", True), ("4e-05", False), ("-nan", False)])
def test_deviation_of_old_versions_has_the_tools_tolerance(error: str, ok: bool) -> None:
    """1e-5 of float for each of the three other ranks."""
    run = of(version="2.12.0")
    text = edited(printed(run), last_row(run), last_row(run).replace("0e+00", error))
    assert judged(run, text).ok == ok


def test_values_in_place_that_the_tool_cannot_check_do_not_count() -> None:
    run = Run(Options("sendrecv", 2, 8, 8, version="2.12.0"))
    row = last_row(run)
    changed = row[::-1].replace("00+e0", "00+e1", 1)[::-1]
    assert judged(run, edited(printed(run), row, changed)).ok


# ---- footer ----

FOOTER_CHANGES: dict[str, tuple[str, str]] = {
    "out of bounds values: 2 FAILED": (": 0 OK", ": 2 FAILED"),
    "out of bounds values: 0 FAILED": (": 0 OK", ": 0 FAILED"),
    "out of bounds values: 2": (": 0 OK", ": 2 OK"),
    "expected 'Out of bounds values": (": 0 OK", ": 0"),
    "no line 'Out of bounds values'": ("# Out of bounds", "# out of bounds"),
    "no line 'Avg bus bandwidth'": ("# Avg bus", "# avg bus"),
    "average bus bandwidth 99.5 is not the mean of the rows": (
        f"{nccl_outputs.average(RUN):g}",
        "99.5",
    ),
    "expected 'Avg bus bandwidth : X'": (f"{nccl_outputs.average(RUN):g}", "-nan"),
    "no line 'Collective test concluded'": ("# Collective test concluded", "# collective"),
    "expected the end of all_reduce_perf": ("concluded: all_reduce", "concluded: all_gather"),
    "the same bits": ("# Avg bus", "# Bitwise mismatches   : 4 FAILED\n# Avg bus"),
}


@pytest.mark.parametrize("words", FOOTER_CHANGES)
def test_footer_must_be_there_and_good(words: str) -> None:
    text = edited(printed(RUN), *FOOTER_CHANGES[words])
    assert words in judged(text=text).reason
    assert not nccl_tests.read({0: text}).ok


def test_average_below_what_was_asked_of_the_tool_is_refused() -> None:
    text = printed(dataclasses.replace(RUN, average="FAILED"))
    assert "FAILED" in judged(text=text).reason


def test_a_last_line_without_its_end_is_torn() -> None:
    text = printed(of(version="2.13.9"))
    text = text[: text.index("\n", text.index("# Avg bus bandwidth"))]
    assert "without a line end" in judged(of(version="2.13.9"), text).reason


# ---- failures and exit codes ----


@pytest.mark.parametrize("failure", nccl_outputs.FAILURES)
@pytest.mark.parametrize("version", ["2.12.0", "2.17.6"])
def test_failure_is_the_reason_even_behind_a_torn_row(version: str, failure: str) -> None:
    run = of(version=version)
    text = edited(printed(run), last_row(run), f"{last_row(run)[:30]}\n{failure}")
    assert failure.strip()[:40] in judged(run, text).reason


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (1, "internal error"),
        (2, "CUDA error"),
        (3, "NCCL error"),
        (4, "timeout"),
        (5, "fewer GPUs"),
        (6, "wrong usage"),
        (7, "wrong values"),
        (9, "exit code 9"),
        (255, "arguments"),
    ],
)
def test_exit_code_is_reported_with_its_meaning(code: int, meaning: str) -> None:
    reason = judged(calls=calls(RUN, exit_code=code)).reason
    assert f"ended with exit code {code}" in reason
    assert meaning in reason


def test_killed_rank_is_refused() -> None:
    assert "was killed after" in judged(calls=calls(RUN, exit_code=None)).reason


def test_every_rank_needs_an_exit_line() -> None:
    assert "no exit line of rank 0" in judged(calls=calls(RUN)[1:]).reason


def test_an_exit_line_too_many_is_refused() -> None:
    assert "two exit lines of rank 0" in judged(calls=[*calls(RUN), calls(RUN)[0]]).reason
    assert "an exit line of rank 4" in judged(calls=calls(of(ranks=5))).reason


def test_exit_lines_of_some_ranks_prove_nothing_of_a_bare_file() -> None:
    old = of(version="2.12.0")
    reading = nccl_tests.read({0: printed(old)}, calls=calls(old)[:2])
    assert reading.completeness is UNKNOWN
    assert nccl_tests.read({0: printed(old)}, calls=calls(old)).completeness is PROVED


# ---- JSON ----


def test_json_agrees_with_the_text() -> None:
    reading = judged(json_text=json_text(RUN))
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason


@pytest.mark.parametrize("operation", nccl_tests.OPERATIONS)
def test_json_holds_the_same_rows(operation: str) -> None:
    run = Run(Options(operation, 4, 2**10, 2**26, version="2.20.0"), seed=4)
    stored = nccl_tests.parse_json(json_text(run))
    (result,) = nccl_tests.parse(printed(run))
    assert judged(run, json_text=json_text(run)).ok
    assert (stored.operation, stored.sizes) == (operation, result.sizes)
    assert stored.rows[3].root == result.rows[3].root


def changed_json(path: tuple[Any, ...], value: Any) -> str:
    document = json.loads(json_text(RUN))
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document)


JSON_CHANGES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "busbw differ": (("results", 5, "out_of_place", "bus_bw"), 0.5),
    "time differ": (("results", 0, "in_place", "time"), 999.0),
    "#wrong differ": (("results", 2, "in_place", "nwrong"), 4.0),
    "count or datatype differ": (("results", 2, "count"), 5),
    "the sizes of text and JSON result differ": (("results", 2, "size"), 5),
    "4 rank(s), in the JSON result 3": (("config", "devices", 1), None),
    "iterations is 20, in the JSON result 21": (("config", "iterations"), 21),
    "out of bounds is 0, in the JSON result 1": (("out_of_bounds", "count"), 1),
    "average bus bandwidth is": (("average_bus_bandwidith", "bandwidith"), 999.5),
    "no results": (("results",), None),
    "no out_of_bounds": (("out_of_bounds",), None),
    "no end_time": (("end_time",), None),
    "out_of_place.bus_bw of another kind": (
        ("results", 1, "out_of_place", "bus_bw"),
        "nan",
    ),
    "no results[1].out_of_place": (("results", 1, "out_of_place"), None),
}


@pytest.mark.parametrize("words", JSON_CHANGES)
def test_json_that_says_something_else_is_refused(words: str) -> None:
    assert words in judged(json_text=changed_json(*JSON_CHANGES[words])).reason


@pytest.mark.parametrize("text", ["", "{", "[]", '{"broken": "not a whole JSON document"}'])
def test_json_that_was_asked_for_must_be_there(text: str) -> None:
    assert "JSON" in judged(json_text=text).reason


def test_json_is_not_missed_where_the_version_has_none() -> None:
    assert judged(of(version="2.16.9"), json_text="").ok


def test_simulated_json_marks_everything() -> None:
    assert judged(json_text=json_text(RUN, simulated=True)).simulated


def test_environment_reaches_no_result() -> None:
    assert SECRET not in repr(nccl_tests.parse_json(json_text(RUN)))
    assert SECRET not in repr(judged(json_text=json_text(RUN)))


@pytest.mark.parametrize("end", [200, 1500, -1])
def test_environment_reaches_no_exception(end: int) -> None:
    """The decoder's own exception holds the whole document."""
    with pytest.raises(ParseError) as caught:
        nccl_tests.parse_json(json_text(RUN)[:end])
    chain: BaseException | None = caught.value
    while chain is not None:
        assert SECRET not in repr(vars(chain)) + str(chain)
        chain = chain.__cause__ or chain.__context__


# ---- properties ----


def cases(count: int) -> Callable[[Callable[[int], None]], Callable[[], None]]:
    """Runs the test with so many seeds in `make release`; what fails is printed as a whole text."""

    def decorate(test: Callable[[int], None]) -> Callable[[], None]:
        return settings(max_examples=tries(count), database=None)(
            given(st.integers(0, 2**40))(test)
        )

    return decorate


@cases(500)
def test_whole_outputs_are_believed(seed: int) -> None:
    nccl_outputs.check_complete(random.Random(seed))


@cases(2000)
def test_no_truncated_output_passes(seed: int) -> None:
    nccl_outputs.check_truncated(random.Random(seed))


@cases(2000)
def test_no_line_more_less_or_elsewhere_makes_an_output_pass(seed: int) -> None:
    nccl_outputs.check_line_changes(random.Random(seed))


@cases(500)
def test_two_outputs_in_one_never_pass(seed: int) -> None:
    nccl_outputs.check_two_outputs(random.Random(seed))


@cases(2000)
def test_no_damage_crashes(seed: int) -> None:
    nccl_outputs.check_scrambled(random.Random(seed))


@cases(500)
def test_no_other_json_crashes_or_changes_a_number(seed: int) -> None:
    nccl_outputs.check_json(random.Random(seed))


@cases(2000)
def test_unknown_columns_are_passed_over(seed: int) -> None:
    nccl_outputs.check_unknown_column(random.Random(seed))


def test_fuzz_runs_as_many_cases_as_asked() -> None:
    assert nccl_outputs.fuzz(30, seed=1) == 30


# ---- alltoallv ----


def test_alltoallv_has_the_formulas_of_alltoall() -> None:
    run = dataclasses.replace(RUN, options=dataclasses.replace(OPTIONS, operation="alltoall"))
    text = printed(run).replace("alltoall_perf", "alltoallv_perf")
    reading = nccl_tests.read({0: text})
    assert reading.ok, reading.reason
    assert {m.operation for m in reading.measurements} == {"alltoallv"}
    wrong = text.replace("#  Rank  3", "#  Rank  3 ", 1).splitlines(keepends=True)
    fewer = "".join(line for line in wrong if not line.startswith("#  Rank  3"))
    assert not nccl_tests.read({0: fewer}).ok
