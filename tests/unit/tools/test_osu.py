"""OSU's tables: read by their columns, and proved by nothing that they say themselves."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.cli import cli
from railgauge.model.call import Call
from railgauge.tools import Completeness, ParseError, Reading, osu
from tests.command_line import invoke
from tests.properties import tries

FIXTURES = Path(__file__).parents[2] / "data" / "osu"
QUICK = settings(max_examples=tries(150))
PROVED, UNKNOWN = Completeness.PROVED, Completeness.UNKNOWN

TEXTS = {path.stem: path.read_text() for path in FIXTURES.glob("*.txt")}
FULL = TEXTS["allreduce-7.0-cuda-full"]
ASKED = osu.Options("osu_allreduce", 2**30, 100)


def calls(*codes: int | None) -> list[Call]:
    return [
        Call("osu", f"alone{rank}", rank, f"n{rank}", code, 3.0) for rank, code in enumerate(codes)
    ]


def judged(text: str = FULL, **changes: Any) -> Reading:
    evidence: dict[str, Any] = {"calls": calls(0, 0), "options": ASKED, **changes}
    return osu.read({0: text, 1: ""}, **evidence)


# ---- tables ----


@pytest.mark.parametrize(
    ("name", "benchmark", "version", "rows", "device"),
    [
        ("allreduce-7.5", "osu_allreduce", "7.5", 19, ""),
        ("alltoall-7.5-validated", "osu_alltoall", "7.5", 21, ""),
        ("bw-7.5-cuda-validated", "osu_bw", "7.5", 23, "CUDA"),
        ("latency-7.1", "osu_latency", "7.1", 23, ""),
        ("allreduce-7.0-cuda-full", "osu_allreduce", "7.0", 1, "CUDA"),
        ("allreduce-7.4-full", "osu_allreduce", "7.4", 1, ""),
        ("alltoall-7.4-full", "osu_alltoall", "7.4", 1, ""),
        ("mbw_mr-7.4", "osu_mbw_mr", "7.4", 13, ""),
        ("bibw-7.4", "osu_bibw", "7.4", 13, ""),
        ("multi_lat-7.4", "osu_multi_lat", "7.4", 7, ""),
        ("allgather-7.4-full", "osu_allgather", "7.4", 7, ""),
        ("bcast-7.4", "osu_bcast", "7.4", 7, ""),
        ("reduce-7.4-validated", "osu_reduce", "7.4", 5, ""),
        ("reduce_scatter-7.4", "osu_reduce_scatter", "7.4", 5, ""),
        ("barrier-7.4", "osu_barrier", "7.4", 1, ""),
        ("barrier-7.4-full", "osu_barrier", "7.4", 1, ""),
        ("allreduce_persistent-7.4", "osu_allreduce_persistent", "7.4", 5, ""),
        ("iallreduce-7.4", "osu_iallreduce", "7.4", 5, ""),
        ("ibarrier-7.4", "osu_ibarrier", "7.4", 1, ""),
        ("put_bw-7.4", "osu_put_bw", "7.4", 7, ""),
        ("get_latency-7.4", "osu_get_latency", "7.4", 7, ""),
    ],
)
def test_tables_of_all_versions_are_read(
    name: str, benchmark: str, version: str, rows: int, device: str
) -> None:
    output = osu.parse(TEXTS[name])
    assert (output.benchmark, output.version, output.device) == (benchmark, version, device)
    assert len(output.rows) == rows


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("allreduce-7.5", osu.Row(65536, latency_us=214.08)),
        ("alltoall-7.5-validated", osu.Row(65536, latency_us=36.53)),
        ("bw-7.5-cuda-validated", osu.Row(65536, bandwidth_mbytes_s=21761.73)),
        ("latency-7.1", osu.Row(65536, latency_us=10.74)),
        ("barrier-7.4", osu.Row(None, latency_us=0.54)),
        ("mbw_mr-7.4", osu.Row(4096, bandwidth_mbytes_s=1911.78, messages_s=466744.29)),
        (
            "iallreduce-7.4-full",
            osu.Row(
                32,
                latency_us=1.02,
                latency_min_us=0.97,
                latency_max_us=1.07,
                overlap_percent=0.24,
            ),
        ),
        (
            "latency-7.4-tail",
            osu.Row(2, latency_us=0.84, latency_p50_us=0.69, latency_p99_us=2.45),
        ),
    ],
)
def test_a_row_is_read_by_its_header(name: str, row: osu.Row) -> None:
    assert row in osu.parse(TEXTS[name]).rows


def test_the_full_listing_has_the_slowest_rank_and_the_iterations() -> None:
    (row,) = osu.parse(FULL).rows
    assert (row.latency_min_us, row.latency_max_us, row.iterations) == (7324.88, 7330.34, 100)


def test_an_unknown_column_is_left_alone() -> None:
    text = FULL.replace("  Iterations", "  P77 Tail Lat(us)  Iterations").replace(
        "         100\n", "    7331.00         100\n"
    )
    assert osu.parse(text) == osu.parse(FULL)


def test_lines_of_ucx_in_between_are_left_alone() -> None:
    row = "1                       3.16\n"
    text = TEXTS["latency-7.1"].replace(row, f"0x556ba2112060 self cfg#0 tag(self/memory)\n{row}")
    assert osu.parse(text) == osu.parse(TEXTS["latency-7.1"])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("# OSU MPI-CUDA Allreduce", "# OSU MPI-CUDA Alltoone", "'# OSU MPI-CUDA Alltoone"),
        ("# OSU MPI-CUDA Allreduce Latency Test v7.0\n", "", "one header, below the title"),
        ("Avg Latency(us)", "Overall(us)", "the columns Size and latency_us"),
        ("         100\n", "\n", "5 columns as the header has"),
        ("         100\n", "           0\n", "numbers above 0"),
        ("7330.34", "7000.34", "min <= avg <= max"),
        ("7324.88", "7999.88", "min <= avg <= max"),
        ("7327.25", "nan", "latency_us 'nan'"),
        ("7327.25", "7.3e3", "latency_us '7.3e3'"),
        ("         100\n", "         100", "a whole last line"),
        ("         100\n", "         100\nMPI_ABORT was invoked on rank 1\n", "no error message"),
        ("         100\n", "         100\n1024   5.00   4.00   6.00   100\n", "ascending sizes"),
    ],
)
def test_a_table_that_contradicts_itself_is_no_result(old: str, new: str, says: str) -> None:
    assert FULL.count(old) == 1
    with pytest.raises(ParseError) as error:
        osu.parse(FULL.replace(old, new))
    assert says in str(error.value)


def test_a_validation_that_failed_is_no_result() -> None:
    text = TEXTS["alltoall-7.5-validated"]
    with pytest.raises(ParseError, match="line 21: found validation 'Fail', expected Pass"):
        osu.parse(text.replace("36.53              Pass", "36.53              Fail"))


def test_ranks_that_started_alone_print_two_tables() -> None:
    reading = osu.read({0: FULL, 1: FULL}, calls=calls(0, 0), options=ASKED)
    assert not reading.ok and "did every rank start alone?" in reason(reading)


def test_a_world_of_one_is_an_error_of_the_tool() -> None:
    text = "STDERR: This test requires at least two processes\n"
    assert "no error message" in reason(judged(text))


def reason(reading: Reading) -> str:
    return reading.reason


# ---- what stands around and between the rows ----

LATENCY = TEXTS["latency-7.1"]


@pytest.mark.parametrize(
    "tag", ["[1,0]<stdout>: ", "[1,0]<stdout>:", "0: ", "[0] ", "[p-n1@1,0]<stdout>: "]
)
def test_the_tag_of_a_launcher_is_stripped(tag: str) -> None:
    text = "".join(f"{tag}{line}\n" for line in LATENCY.splitlines())
    assert osu.parse(text) == osu.parse(LATENCY)


@pytest.mark.parametrize(
    ("before", "after"), [("\x1b[32m", "\x1b[0m"), ("\x1b[1;31m", "\x1b[m\x1b[K"), ("", "\r")]
)
def test_colours_hide_no_row(before: str, after: str) -> None:
    row = row_of(LATENCY, 1024)
    text = LATENCY.replace(row, f"{before}{row.rstrip()}{after}\n")
    assert osu.parse(text) == osu.parse(LATENCY)


def row_of(text: str, size: int | None) -> str:
    (found,) = [line for line in text.splitlines(keepends=True) if line.split()[:1] == [str(size)]]
    return found


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize(
    "change",
    [
        "node7> {row}",
        "{row}node7: UCX WARN",
        "10x{row}",
        "x {row}",
        "# {row}",
        "{size}",
        "{size}  ",
        "{size}  7",
        "{size}  7.1",
        ".{row}",
        "{row} 5.00",
        "[1,1]<stdout>: {row}",
        "3: {row}",
    ],
)
def test_a_line_that_may_hold_a_row_and_is_none_is_no_result(change: str, place: str) -> None:
    rows = osu.parse(LATENCY).rows
    row = row_of(LATENCY, rows[-1 if place == "last" else 3].size_bytes)
    damaged = change.format(row=row.rstrip(), size=row.split()[0])
    assert not osu.read(LATENCY.replace(row, f"{damaged}\n")).ok


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_size_that_is_missing_is_found_without_knowing_what_was_asked(name: str) -> None:
    lines = TEXTS[name].splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if line[:1].isdigit()]
    for number in rows[1:-1]:
        reading = osu.read("".join(lines[:number] + lines[number + 1 :]))
        assert not reading.ok and "no row of" in reading.reason


@pytest.mark.parametrize(
    "notice",
    [
        '[n1:4711] Set "orte_base_help_aggregate" to 0 to see all help / error messages',
        "[n1:4711] 3 more processes have sent help message help-mpi-btl-openib.txt / init failed",
        "STDERR: srun: warning: can't honor --ntasks-per-node set to 2",
        "[warn] Epoll ADD(4) on fd 0 failed. Old events were 0",
        "The word error alone, or failed, in what a launcher tells is none.",
    ],
)
@pytest.mark.parametrize("at_end", [True, False])
def test_words_of_failure_in_a_notice_are_none(notice: str, at_end: bool) -> None:
    text = f"{LATENCY}{notice}\n" if at_end else f"{notice}\n{LATENCY}"
    assert osu.parse(text) == osu.parse(LATENCY)


@pytest.mark.parametrize(
    "failure",
    [
        "srun: error: n1: task 0: Killed",
        "slurmstepd: error: *** STEP 4.0 ON n1 CANCELLED AT 2026-11-21T10:00:00 ***",
        "[n1:4711] *** An error occurred in MPI_Allreduce",
        "[n1:4711] *** Process received signal ***",
        "Fatal error in PMPI_Init: Other MPI error",
        "Error: invalid message size",
        "osu_latency: error while loading shared libraries: libmpi.so.40: not there",
        "[n1:1] CUDA call 'cudaMalloc((void **)buffer, size)' failed with 2: out of memory",
        "mpirun noticed that process rank 1 exited on signal 11 (Segmentation fault).",
        "1 process returned a non-zero exit code",
        "DATA VALIDATION ERROR: osu_bw exited with status 1 on message size 4.",
        "ORTE has lost communication with a remote daemon.",
        "Terminated",
    ],
)
def test_failures_are_still_failures(failure: str) -> None:
    for text in (f"{LATENCY}{failure}\n", f"STDERR: {failure}\n{LATENCY}"):
        with pytest.raises(ParseError, match="no error message"):
            osu.parse(text)


def test_a_number_without_its_decimals_is_cut() -> None:
    with pytest.raises(ParseError, match="a number"):
        osu.parse(FULL.replace("7330.34", "7330.3"))


# ---- readings ----


def test_a_run_with_every_exit_code_and_as_asked_is_proved() -> None:
    reading = judged()
    assert (reading.ok, reading.completeness) == (True, PROVED)
    assert reading.seen["ranks"] == 2


def test_the_time_is_that_of_the_slowest_rank_over_all_iterations() -> None:
    found = {m.metric: m.value for m in judged().measurements}
    assert found == {"time": 7327.25, "mpi_time": pytest.approx(0.733034)}


@pytest.mark.parametrize(
    ("name", "benchmark", "seconds"),
    [
        ("allreduce-7.4-full", "osu_allreduce", 0.0320935),
        ("allreduce-7.4-full-beside", "osu_allreduce", 0.8920925),
        ("alltoall-7.4-full", "osu_alltoall", 0.0426805),
    ],
)
def test_what_the_lab_ran_is_proved(
    name: str, benchmark: Literal["osu_allreduce", "osu_alltoall"], seconds: float
) -> None:
    reading = judged(TEXTS[name], options=osu.Options(benchmark, 65536, 50))
    assert (reading.ok, reading.completeness) == (True, PROVED)
    (time,) = [m.value for m in reading.measurements if m.metric == "mpi_time"]
    assert time == pytest.approx(seconds)


def test_bandwidth_is_in_bits_of_ten_to_the_ninth() -> None:
    reading = osu.read(TEXTS["bw-7.5-cuda-validated"])
    assert reading.measurements[-1].value == pytest.approx(191.91552)
    assert reading.measurements[-1].unit == "Gb/s"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("mbw_mr-7.4", {"bandwidth": 1911.78 * 8e-3, "message_rate": 0.46674429}),
        (
            "bibw-7.4",
            {"bandwidth": 3043.94 * 8e-3},
        ),
        ("barrier-7.4-full", {"time": 0.55, "mpi_time": 5.5e-6}),
        ("iallreduce-7.4", {"time": 0.96}),
        ("latency-7.4-tail", {"latency_avg": 0.63, "latency": 0.62, "latency_p99": 0.70}),
        ("get_latency-7.4", {"latency_avg": 0.77}),
    ],
)
def test_the_last_size_has_the_metrics_of_its_kind(name: str, found: dict[str, float]) -> None:
    reading = osu.read(TEXTS[name])
    last = osu.parse(TEXTS[name]).rows[-1].size_bytes
    assert {m.metric: m.value for m in reading.measurements if m.size_bytes == last} == (
        pytest.approx(found)
    )


def test_the_pairs_of_a_message_rate_are_ranks() -> None:
    reading = osu.read(TEXTS["mbw_mr-7.4"].replace("pairs: 1", "pairs: 8"))
    assert {m.ranks for m in reading.measurements} == {16}


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("mbw_mr-7.4", "466744.29", "476744.29", "a rate of messages that is"),
        ("barrier-7.4", "             0.54\n", "  0.54\n  0.55\n", "one of a barrier"),
        ("barrier-7.4", "# Avg Latency(us)", "# Size  Avg Latency(us)", "the columns latency_us"),
        ("bcast-7.4", "# Size  ", "# Syze  ", "no row"),
    ],
)
def test_a_table_of_another_kind_that_contradicts_itself(
    name: str, old: str, new: str, says: str
) -> None:
    assert old in TEXTS[name]
    with pytest.raises(ParseError, match=re.escape(says)):
        osu.parse(TEXTS[name].replace(old, new))


@pytest.mark.parametrize(
    "changes",
    [{"calls": ()}, {"options": None}, {"calls": calls(0)}],
)
def test_a_run_of_which_something_is_not_known_is_not_proved(changes: dict[str, Any]) -> None:
    assert judged(**changes).completeness is UNKNOWN


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"calls": calls(0, 1)}, "ended with exit code 1"),
        ({"calls": calls(0, None)}, "was killed"),
        ({"options": dataclasses.replace(ASKED, iterations=200)}, "100 iterations, expected 200"),
        ({"options": dataclasses.replace(ASKED, size_bytes=64)}, "expected 64 alone"),
        ({"options": osu.Options("osu_alltoall", 2**30, 100)}, "expected osu_alltoall"),
    ],
)
def test_a_run_that_is_not_as_asked_is_refused(changes: dict[str, Any], says: str) -> None:
    reading = judged(**changes)
    assert not reading.ok and says in reading.reason


def test_argv_asks_for_one_size_and_the_full_listing() -> None:
    argv = osu.argv(osu.Options("osu_alltoall", 65536, 200))
    assert argv == ["osu_alltoall", "-m", "65536:65536", "-i", "200", "-x", "10", "-f"]


# ---- whatever comes ----


def never_raises(text: str) -> None:
    with contextlib.suppress(ParseError):
        osu.parse(text)
    assert osu.read(text).completeness is not PROVED


@QUICK
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_text_cut_anywhere_proves_nothing_more(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    never_raises(cut)
    rows = osu.parse(text).rows
    reading = osu.read(cut)
    # What is left is the beginning of the truth, and never another number.
    assert not reading.ok or osu.parse(cut).rows == rows[: len(osu.parse(cut).rows)]


@QUICK
@given(st.data())
def test_a_cut_run_is_never_what_was_asked_for(data: st.DataObject) -> None:
    assert not judged(FULL[: data.draw(st.integers(0, len(FULL) - 1))]).ok


@QUICK
@given(st.sampled_from(sorted(TEXTS)), st.randoms(use_true_random=False))
def test_changed_characters_raise_nothing_else(name: str, random: Any) -> None:
    text = list(TEXTS[name])
    for _ in range(random.randrange(1, 12)):
        text[random.randrange(len(text))] = random.choice("0123456789.-\n #\u0663\ufffdnaie\x00")
    never_raises("".join(text))


@QUICK
@given(st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))))
def test_any_text_raises_nothing_else(text: str) -> None:
    never_raises(text)


@QUICK
@given(st.lists(st.sampled_from("".join(TEXTS.values()).splitlines(keepends=True)), max_size=20))
def test_lines_of_outputs_in_any_order_raise_nothing_else(lines: list[str]) -> None:
    never_raises("".join(lines))


# ---- railgauge parse osu ----


def typed(*arguments: str) -> tuple[int, str]:
    result = invoke(cli, ["parse", "osu", *arguments])
    return result.exit_code, result.output


def test_a_bare_file_is_read_and_proves_nothing() -> None:
    code, output = typed(str(FIXTURES / "allreduce-7.5.txt"))
    assert (code, json.loads(output)["completeness"]) == (0, "unknown")


def test_exit_code_and_what_was_asked_for_prove_a_file() -> None:
    known = ["--exit-code", "0", "--expect", "size_bytes=1GiB", "--expect", "iterations=100"]
    code, output = typed(str(FIXTURES / "allreduce-7.0-cuda-full.txt"), *known)
    assert (code, json.loads(output)["completeness"]) == (0, "proved")


def test_a_file_that_is_no_result_ends_with_one(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("srun: error: n1: task 0: Killed\n")
    code, output = typed(str(tmp_path / "out"))
    assert (code, json.loads(output)["ok"]) == (1, False)
