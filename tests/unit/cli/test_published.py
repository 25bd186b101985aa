"""`railgauge published`, as typed."""

from __future__ import annotations

import json

import pytest
from click.testing import Result

from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from railgauge.model import published
from tests.command_line import invoke


def typed(*words: str) -> Result:
    return invoke(cli, ["published", *words])


def test_without_a_name_it_lists_the_systems() -> None:
    lines = typed().output.splitlines()
    assert [line.split()[0] for line in lines] == list(published.load().systems)


def test_a_number_is_a_line_with_condition_and_source() -> None:
    line = typed("gb200", "--nodes", "360", "--metric", "busbw_in_place").output
    assert line == (
        "404.77 GB/s  nccl-tests, busbw_in_place, all_reduce  gb200: 16 GiB, 360 x 4 GPUs, NVLink "
        "in twenty NVL72 racks, InfiniBand between them, NCCL 2.26.2, MNNVL on "
        "[coreweave/nccl-tests, README]\n"
    )


def test_faults_are_marked_and_have_their_cause() -> None:
    lines = typed("dgx-spark", "--kind", "fault", "--tool", "perftest").output.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("FAULT  ") and "; cause: " in line for line in lines)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["h200", "--tool", "perftest"], 0),
        (["any-200g", "--operation", "write", "--kind", "normal"], 3),
        (["--tool", "osu", "--metric", "latency_avg"], 5),
    ],
)
def test_options_narrow_the_list(words: list[str], count: int) -> None:
    answer = typed(*words, "--json")
    if count:
        assert len(json.loads(answer.output)) == count
    else:
        assert isinstance(answer.exception, RailgaugeError)
        assert "there are tools all_reduce_bench, nccl-tests, nvbandwidth" in str(answer.exception)


def test_an_unknown_system_is_an_error_with_the_nearest() -> None:
    error = typed("gb20").exception
    assert isinstance(error, RailgaugeError)
    assert "gb200" in str(error) and error.exit_code == 3
