"""Outputs that were read wrongly once: each stands for a kind, with its right answer.

`tests/data/misread/README.md` says where they come from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.cli import cli
from railgauge.common.errors import EXIT_ACCEPT, EXIT_REJECT
from tests.command_line import invoke

MISREAD = paths.HOME / "tests" / "data" / "misread"

SEVERAL_RUNS = "several runs: a stream begins after the total of those before it"
ALONE = "each rank started alone (no MPI)"


def read(name: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of `railgauge read`, and its runs."""
    answer = invoke(cli, ["read", str(MISREAD / name), "--json"])
    document = json.loads(answer.output)
    assert document["unread"] == []
    return answer.exit_code, document["runs"]


def parsed(tool: str, *words: str) -> dict[str, Any]:
    files = [str(MISREAD / word) if (MISREAD / word).is_file() else word for word in words]
    answer = invoke(cli, ["parse", tool, *files])
    reading: dict[str, Any] = json.loads(answer.output)
    return reading


def values(run: dict[str, Any], metric: str) -> list[float]:
    return [m["value"] for m in run["measurements"] if m["metric"] == metric]


def conditions(run: dict[str, Any], key: str) -> set[str]:
    return {measurement[key] for measurement in run["measurements"]}


@pytest.mark.parametrize(
    ("name", "metric", "expected"),
    [
        *((f"pw{number}.txt", "latency", [1.7]) for number in (1, 2, 3, 5, 7, 8)),
        ("f1_efa.txt", "bandwidth", [pytest.approx(74.66, abs=0.005)]),
        ("f2c.txt", "bandwidth", [196.0]),
        ("f4.txt", "latency", [2.2]),
        ("reportboth.txt", "bandwidth", [195.0]),
        ("inf.txt", "bandwidth", [100.0, 99.8, 99.95]),
        ("i3stream.txt", "bandwidth", [pytest.approx(10.0)]),
        ("f3-client.txt", "bandwidth", [0.938]),
    ],
)
def test_a_good_run_gives_its_numbers(name: str, metric: str, expected: list[float]) -> None:
    code, [run] = read(name)
    assert (code, run["ok"], values(run, metric)) == (EXIT_ACCEPT, True, expected)


def test_nccl_tests_2_20_stay_readable() -> None:
    code, [run] = read("v220.txt")
    assert (code, run["completeness"], len(values(run, "busbw"))) == (EXIT_ACCEPT, "proved", 6)
    assert values(run, "busbw")[0] == 18.39


@pytest.mark.parametrize(
    ("name", "transport"),
    [("f1_efa.txt", "efa"), ("f4.txt", "ethernet"), ("f2c.txt", "infiniband")],
)
def test_the_transport_is_as_the_output_says(name: str, transport: str) -> None:
    _, [run] = read(name)
    assert conditions(run, "transport") == {transport}


def test_both_sides_of_a_dynamically_connected_run_are_a_proof() -> None:
    words = ("f2c.txt", "f2s.txt", "--exit-code", "0", "--exit-code", "0")
    reading = parsed("perftest", *words, "--expect", "size_bytes=65536")
    assert (reading["completeness"], values(reading, "bandwidth")) == ("proved", [196.0])


@pytest.mark.parametrize("expected", ["connection_type=RC", "iterations=4999", "duration_s=5"])
def test_what_is_expected_of_a_run_counts_against_it(expected: str) -> None:
    words = ("f2c.txt", "f2s.txt", "--exit-code", "0", "--exit-code", "0")
    reading = parsed("perftest", *words, "--expect", "size_bytes=65536", "--expect", expected)
    assert not reading["ok"]


@pytest.mark.parametrize("name", ["f3-server", "f3e-server", "srv_i", "srv_seq_bad"])
def test_a_server_that_took_several_runs_is_refused(name: str) -> None:
    code, [run] = read(f"{name}.txt")
    assert (code, run["measurements"]) == (EXIT_REJECT, [])
    assert SEVERAL_RUNS in run["reason"]
    both = parsed("iperf2", "f3-client.txt", f"{name}.txt")
    assert not both["ok"] and SEVERAL_RUNS in both["reason"]


def test_samples_without_an_end_say_why_they_end() -> None:
    code, [run] = read("inf_err.txt")
    assert (code, run["ok"]) == (EXIT_REJECT, False)
    assert "Failed status 12: Transport retry counter exceeded" in run["reason"]


def test_all_ranks_that_lag_are_named_with_their_operation() -> None:
    _, [run] = read("ras_lag.txt")
    assert run["reason"] == "ranks 5-6 on 192.0.2.8 have launched up to operation 119"


@pytest.mark.parametrize("name", ["alone_int.log", "alone_seq.log", "alone_one/a1-a2.log"])
def test_ranks_that_started_alone_are_the_reason(name: str) -> None:
    _, [run] = read(name)
    assert run["reason"] == f"{ALONE}: a1 and a2 have a rank 0 each"
    assert run["measurements"] == []


@pytest.mark.parametrize(
    ("folder", "lacking", "why"),
    [
        ("alone_one", "a1-a2.log", ALONE),
        ("splitone", "n1-n2.log", "several groups of ranks (NCCL_TESTS_SPLIT)"),
    ],
)
def test_a_run_of_another_kind_is_missing_and_accuses_no_node(
    folder: str, lacking: str, why: str
) -> None:
    answer = invoke(cli, ["locate", str(MISREAD / folder), "--json"])
    located = json.loads(answer.output)
    assert (answer.exit_code, located["suspects"]) == (EXIT_ACCEPT, [])
    [missing] = located["missing"]
    assert missing["place"] == f"{MISREAD / folder / lacking}:1" and why in missing["why"]


def test_every_input_is_in_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    for path in MISREAD.iterdir():
        stem = "pw" if path.stem.startswith("pw") else path.stem
        assert stem in source, path
