"""The stand-in for nccl-tests: what it prints of several groups at once."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from railgauge.lab.replay import nccl_perf
from railgauge.model.call import Call
from railgauge.tools import Reading, nccl_tests

HOSTS = [f"n{node}" for node in (1, 2, 3, 4) for _ in range(2)]
ASKED = nccl_tests.Options(
    "all_reduce", 8, min_bytes=8, max_bytes=2**30, groups=2, hosts=tuple(HOSTS)
)


def replay(scenario: str = "healthy", *nodes: str) -> dict[str, Any]:
    return {
        "scenario": scenario,
        "nodes": list(nodes),
        "operation": "all_reduce",
        "factor": 1.5,
        "sizes": list(ASKED.sizes()),
        "busbw_gbytes_s": 100.0,
        "recorded": {},
        "fallback": {},
        "version": ASKED.version,
        "gpu": "NVIDIA H100",
    }


@pytest.fixture(autouse=True)
def split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups of two nodes."""
    monkeypatch.setenv(nccl_tests.SPLIT, nccl_tests.SPLIT_IN_RANKS.format(ranks=4))
    monkeypatch.setattr("sys.argv", ["all_reduce_perf"])


def printed(capsys: pytest.CaptureFixture[str], told: dict[str, Any]) -> str:
    words = nccl_tests.argv(ASKED, "all_reduce_perf")[1:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["all_reduce_perf", *words])
        options = nccl_perf.arguments()
    assert isinstance(options, argparse.Namespace)
    nccl_perf.show(told, options, list(HOSTS))
    return capsys.readouterr().out


def read(text: str) -> Reading:
    calls = [Call("nccl-tests", f"rank{n}", n, host, 0, 1.0) for n, host in enumerate(HOSTS)]
    return nccl_tests.read({0: text}, calls=calls, options=ASKED)


def busbw(reading: Reading) -> float:
    return next(m.value for m in reading.measurements if m.variable == "busbw_1073741824B")


def test_its_table_of_two_groups_is_what_the_tool_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reading = read(printed(capsys, replay()))
    assert reading.ok, reading.reason
    assert reading.simulated and busbw(reading) == pytest.approx(100, rel=0.01)


def test_the_table_has_the_slowest_group(capsys: pytest.CaptureFixture[str]) -> None:
    reading = read(printed(capsys, replay("slow-pair", "n3", "n4")))
    assert reading.ok, reading.reason
    assert busbw(reading) == pytest.approx(50, rel=0.01)


def test_a_slow_pair_is_slow_in_one_group_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert busbw(read(printed(capsys, replay("slow-pair", "n2", "n3")))) > 90


def test_crowded_groups_are_slow_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert busbw(read(printed(capsys, replay("crowded")))) == pytest.approx(50, rel=0.01)


def test_the_stand_in_is_started_by_the_names_of_the_operations() -> None:
    folder = Path(nccl_perf.__file__).parent / "bin"
    assert all((folder / f"{name}_perf").is_symlink() for name in nccl_tests.OPERATIONS)
