"""What is printed of readings next to their numbers."""

from __future__ import annotations

from railgauge.model.measurement import Measurement
from railgauge.report.readings import Readings, Run
from railgauge.tools import Completeness, Reading

WRITE = Measurement("bandwidth", 92.57, "perftest", "write", "roce", 65536, 1)


def lines(*measurements: Measurement, ok: bool = True, simulated: bool = False) -> list[str]:
    reading = Reading(ok, "", Completeness.PROVED, measurements, {}, simulated)
    readings = Readings(files=1, runs=[Run("log", 1, "", "perftest", reading)])
    return [line.strip() for line in readings.lines()]


def published(text: list[str]) -> list[str]:
    return [line for line in text if line.startswith("published: ")]


def test_rows_of_one_condition_have_their_published_numbers_once() -> None:
    """As of ib_write_bw --run_infinitely."""
    assert len(published(lines(WRITE, WRITE, WRITE))) == 1


def test_another_size_has_numbers_of_its_own() -> None:
    larger = Measurement("bandwidth", 98.0, "perftest", "write", "roce", 2**20, 1)
    assert len(published(lines(WRITE, larger))) == 2


def test_a_run_that_is_no_result_or_simulated_has_no_published_numbers() -> None:
    assert published(lines(WRITE, ok=False)) == []
    assert published(lines(WRITE, simulated=True)) == []


def test_what_is_not_published_has_none() -> None:
    assert published(lines(Measurement("retransmits", 0, "iperf3", "tcp", "tcp"))) == []
