"""`railgauge compare` of logs that people have."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import paths
from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from railgauge.textfiles import Text
from railgauge.verdict.logs import before_after
from tests.command_line import invoke
from tests.properties import tries
from tests.unit.report.feeds.test_schemas import require
from tests.unit.tools.test_perftest_json import BANDWIDTH, written
from tests.unit.verdict.location.test_logs import OSU, PERFTEST, WHOLE, failed, later

IPERF3 = (paths.HOME / "tests/data/iperf3/p4-3.18-client.json").read_text()


def compare(*words: str | Path, stderr: Sequence[str] = ()) -> Result:
    return invoke(cli, ["compare", *map(str, words)], stderr=stderr)


def document(*words: str | Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(compare(*words, "--json").output)
    require("compare", answer)
    return answer


def failing(*words: str | Path) -> RailgaugeError:
    error = compare(*words).exception
    assert isinstance(error, RailgaugeError) and error.exit_code == 2
    return error


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def output(a: str, b: str, busbw: float) -> str:
    """The recorded one of 8 ranks, of other hosts and with another bandwidth."""
    time = round(17179869184 / (busbw / 1.75 * 1000))
    algbw = 17179869184 / time / 1000
    row = f"{time:8d} {algbw:7.2f} {algbw * 1.75:7.2f}       0"
    text = WHOLE.replace("nccl-test-6k8rm", a).replace("nccl-test-dbzk7", b)
    text = text.replace("  355729   48.29   84.52       0", row)
    text = text.replace("  353612   48.58   85.02       0", row)
    return text.replace("84.7689", f"{algbw * 1.75:.4f}")


def log(path: Path, busbw: float, a: str = "n1", b: str = "n2") -> Path:
    return write(path, output(a, b, busbw))


def test_two_logs_of_which_one_is_far_slower(tmp_path: Path) -> None:
    answer = compare(log(tmp_path / "before.log", 21.0), log(tmp_path / "after.log", 2.8))
    assert answer.exit_code == 1
    assert "n1,n2  nccl-tests  busbw 16 GiB, all_reduce, 8 ranks  21 to 2.8 GB/s" in answer.output
    assert "worse: beyond the noise, 1 run a side" in answer.output
    assert "paired by: hosts in the logs" in answer.output


def test_a_small_change_of_two_logs_is_within_the_noise_and_names_the_runs_needed(
    tmp_path: Path,
) -> None:
    answer = compare(log(tmp_path / "before.log", 21.0), log(tmp_path / "after.log", 20.4))
    assert answer.exit_code == 2
    assert "within the noise, 1 run a side, 2 more a side would show the noise" in answer.output
    assert "equal runs are taken to differ by 5.0% (--noise)" in answer.output


def test_less_noise_that_is_known_finds_a_smaller_change(tmp_path: Path) -> None:
    sides = log(tmp_path / "before.log", 21.0), log(tmp_path / "after.log", 18.0)
    assert compare(*sides).exit_code == 2
    assert compare(*sides, "--noise", "0.005").exit_code == 1


def test_several_runs_a_side_show_their_own_noise(tmp_path: Path) -> None:
    for side, values in (("before", (84.5, 84.4, 84.6)), ("after", (80.1, 80.2, 80.0))):
        for number, value in enumerate(values):
            log(tmp_path / side / f"run{number}.log", value)
    (place,) = document(tmp_path / "before", tmp_path / "after")["places"]
    assert (place["verdict"], place["runs_before"], place["runs_after"]) == ("worse", 3, 3)
    assert not place["noise_is_assumed"]


def test_several_runs_in_a_file_are_runs_of_their_place(tmp_path: Path) -> None:
    whole = output("n1", "n2", 84.5)
    write(tmp_path / "a.log", whole + later(output("n1", "n2", 84.4)))
    log(tmp_path / "b.log", 84.3)
    (place,) = document(tmp_path / "a.log", tmp_path / "b.log")["places"]
    assert (place["runs_before"], place["runs_after"]) == (2, 1)


def test_a_slow_pair_of_a_folder_is_named_and_no_other(tmp_path: Path) -> None:
    for side in ("before", "after"):
        for n in range(1, 7):
            value = (42.0 if side == "after" and n == 3 else 84.5) + n / 10 + (side == "after") / 9
            log(tmp_path / side / f"{n}.log", value, f"n{n}", f"n{n + 1}")
    found = document(tmp_path / "before", tmp_path / "after")
    worse = [place["place"] for place in found["places"] if place["verdict"] == "worse"]
    assert worse == ["n3,n4"] and found["exit_code"] == 1


def test_an_archive_is_a_side_and_its_top_folder_no_part_of_a_place(tmp_path: Path) -> None:
    for side in ("before", "after"):
        for rail in (1, 2):
            text = OSU.replace("0.91", f"0.9{rail}" if side == "before" else f"0.8{rail}")
            write(tmp_path / side / f"rail{rail:02}.out", text)
    with tarfile.open(tmp_path / "old.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "before", "before")
    found = document(tmp_path / "old.tar.gz", tmp_path / "after")
    assert {(p["place"], p["paired_by"]) for p in found["places"]} == {
        ("rail01", "file names"),
        ("rail02", "file names"),
    }


def test_a_pattern_names_the_logs_of_a_side(tmp_path: Path) -> None:
    log(tmp_path / "before-1.log", 84.5)
    log(tmp_path / "after-1.log", 84.4)
    log(tmp_path / "after-2.log", 84.6)
    (place,) = document(f"{tmp_path}/before-*.log", f"{tmp_path}/after-*.log")["places"]
    assert (place["runs_before"], place["runs_after"]) == (1, 2)
    assert "no file matches" in failing(f"{tmp_path}/x-*.log", f"{tmp_path}/after-*.log").message


def test_a_run_that_crashed_after_is_missing_and_no_pass(tmp_path: Path) -> None:
    for n in range(1, 7):
        log(tmp_path / "before" / f"{n}.log", 84.5 + n / 50, f"n{n}", f"n{n + 1}")
        log(tmp_path / "after" / f"{n}.log", 84.4 + n / 50, f"n{n}", f"n{n + 1}")
    write(tmp_path / "after/6.log", failed(output("n6", "n7", 84.5)))
    answer = compare(tmp_path / "before", tmp_path / "after")
    assert answer.exit_code == 2
    assert "missing after: n6,n7" in answer.output and "no valid result" in answer.output
    found = document(tmp_path / "before", tmp_path / "after")
    assert [one["side"] for one in found["left_out"]] == ["after"]


def test_a_place_of_one_side_says_that_it_was_measured_otherwise_there(tmp_path: Path) -> None:
    log(tmp_path / "before/n3.log", 84.5, "n3", "n4")
    log(tmp_path / "after/n3.log", 84.4, "n3", "n4")
    write(tmp_path / "before/rdma.txt", PERFTEST)
    write(tmp_path / "after/rdma.txt", PERFTEST.replace("type : RC", "type : UC"))
    text = compare(tmp_path / "before", tmp_path / "after").output
    assert "missing after: 10.77.1.16 to 10.77.2.15 rxe0" in text
    assert "measured otherwise there: write, roce, 1 streams, UC" in text


def test_a_copy_is_no_other_run(tmp_path: Path) -> None:
    log(tmp_path / "before.log", 84.5)
    log(tmp_path / "after/1.log", 84.5)
    assert "a copy of" in failing(tmp_path / "before.log", tmp_path / "after").message
    log(tmp_path / "after/2.log", 84.4)
    log(tmp_path / "after/2-copy.log", 84.4)
    (place,) = document(tmp_path / "before.log", tmp_path / "after")["places"]
    assert place["runs_after"] == 1


def test_other_hosts_of_two_logs_are_said(tmp_path: Path) -> None:
    sides = log(tmp_path / "a.log", 84.5), log(tmp_path / "b.log", 40.0, "n3", "n4")
    assert "note: n1,n2 / n3,n4: other hosts: n1,n2 before, n3,n4 after" in compare(*sides).output


def test_pairs_of_other_hosts_in_folders_are_not_compared(tmp_path: Path) -> None:
    for n in (1, 2):
        log(tmp_path / "a" / f"{n}.log", 84.5, f"n{n}", f"n{n + 1}")
        log(tmp_path / "b" / f"{n}.log", 84.5, f"m{n}", f"m{n + 1}")
    error = failing(tmp_path / "a", tmp_path / "b")
    assert "no place was measured under one condition on both sides" in error.message


def test_versions_that_change_the_number_are_named_and_not_judged(tmp_path: Path) -> None:
    write(tmp_path / "a.json", IPERF3.replace("iperf 3.18", "iperf 3.12"))
    write(tmp_path / "b.json", IPERF3)
    answer = compare(tmp_path / "a.json", tmp_path / "b.json")
    assert answer.exit_code == 2 and "since 3.16" in answer.output
    (place,) = document(tmp_path / "a.json", tmp_path / "b.json")["places"]
    assert place["verdict"] == "unknown" and "since 3.16" in place["not_judged"]


def test_perftest_that_bound_itself_to_a_numa_node_is_not_judged(tmp_path: Path) -> None:
    method = " Data ex. method : Ethernet\n"
    bound = PERFTEST.replace(method, f"{method} NUMA node       : 0\n").replace("0.20 ", "0.05 ")
    sides = (
        write(tmp_path / "a.txt", PERFTEST),
        write(tmp_path / "b.txt", bound.replace("0.000374", "0.0000954")),
    )
    answer = compare(*sides)
    assert answer.exit_code == 2
    assert "bound to numa False before, True after (since 26.04 it binds itself" in answer.output


def test_other_warm_up_leaves_the_first_sizes_not_judged(tmp_path: Path) -> None:
    before = log(tmp_path / "before.log", 84.5)
    write(before, before.read_text().replace("warmup iters: 1", "warmup iters: 5"))
    answer = compare(before, log(tmp_path / "after.log", 40.0))
    assert answer.exit_code == 2 and "warmup 5 before, 1 after" in answer.output


def test_a_changed_number_of_a_tool_without_a_version_is_reported_with_why_it_may_be(
    tmp_path: Path,
) -> None:
    slow = {**BANDWIDTH, "BW_average": 98.0, "BW_peak": 98.1, "MsgRate": 0.186920}
    sides = (
        write(tmp_path / "a.json", written(BANDWIDTH)),
        write(tmp_path / "b.json", written(slow)),
    )
    answer = compare(*sides)
    assert answer.exit_code == 1 and "do not state the version of perftest" in answer.output


def test_what_else_differs_by_the_outputs_is_named(tmp_path: Path) -> None:
    after = log(tmp_path / "after.log", 40.0)
    write(after, after.read_text().replace("22809", "22703"))
    found = document(log(tmp_path / "before.log", 84.5), after)
    assert found["different"] == [
        {"what": "NCCL", "before": "2.28.9", "after": "2.27.3", "pairs": 1}
    ]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("nosuch", "no file, folder or campaign"),
        ("nosuch.csv", "is not there"),
        ("", "nothing is named"),
    ],
)
def test_a_side_that_is_no_log_is_one_error(tmp_path: Path, other: str, words: str) -> None:
    error = failing(log(tmp_path / "before.log", 84.5), other)
    assert words in error.message and error.next_step


def test_a_log_and_a_table_are_not_compared(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", "place,condition,run,value\na,c,1,2\n")
    assert "is a table" in failing(log(tmp_path / "a.log", 84.5), table).message


def test_a_file_without_an_output_says_what_is_in_it(tmp_path: Path) -> None:
    error = failing(log(tmp_path / "a.log", 84.5), write(tmp_path / "b.log", "hello\n"))
    assert "AFTER" in error.message and "railgauge read" in str(error.next_step)


@pytest.mark.parametrize("option", ["--noise", "--margin"])
def test_options_are_shares(tmp_path: Path, option: str) -> None:
    one = log(tmp_path / "a.log", 84.5)
    assert compare(one, one, option, "1.5", stderr=[option]).exit_code == 2


@given(st.integers(min_value=2, max_value=1500))
@settings(max_examples=tries(40))
def test_a_cut_log_after_is_never_the_same_nor_better(lacking: int) -> None:
    """Four equal pairs are the same; the fifth is cut."""
    pairs = [(f"n{n}", f"n{n + 1}", 84.5 + n / 50) for n in range(5)]
    before = [Text(f"{a}.log", output(a, b, value)) for a, b, value in pairs]
    after = [Text(f"{a}.log", output(a, b, value - 0.01)) for a, b, value in pairs]
    assert before_after.compare(before, after).word == "same"
    after[4] = Text(after[4].name, after[4].text[:-lacking])
    assert before_after.compare(before, after).word == "unknown"
