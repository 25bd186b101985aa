"""Two readings of a node's GPUs: what rejects, what is noted, what says nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.checks.preflight import inventory_state, node_state
from railgauge.checks.preflight.gpu_health import KIND, compare
from railgauge.model import inventory
from railgauge.model.failure import ENVIRONMENT
from railgauge.model.inventory import Inventory
from railgauge.model.record import read_record
from railgauge.node.orchestration import sweep_file
from tests.unit.checks import ended_jobs

HEALTHY: dict[str, float] = {
    "gpu/0/ecc_uncorrected": 1,
    "gpu/0/rows_remapped_uncorrectable": 2,
    "gpu/0/nvlink_replay_errors": 3,
    "gpu/0/nvlink_recovery_errors": 4,
    "gpu/0/nvlink_crc_errors": 5,
    "gpu/0/pcie_replays": 6,
    "gpu/0/slowed_hw_thermal_us": 7,
    "gpu/0/slowed_sw_thermal_us": 8,
    "xid/log": 1,
    "xid/0000:17:00/79": 1,
}


def reading(
    counters: Mapping[str, float],
    minute: int = 0,
    boot_id: str = "b",
    uncounted: Mapping[str, str] | None = None,
    node: str = "n1",
) -> Inventory:
    taken = f"2026-11-28T10:{minute:02d}:00+00:00"
    return Inventory(node, boot_id, taken, 0.1, {}, {}, (), dict(counters), dict(uncounted or {}))


def after(grown: Mapping[str, float], before: Mapping[str, float] | None = None, **how: Any) -> Any:
    """What is found 10 minutes later, where these counters have grown."""
    first = HEALTHY if before is None else before
    later = {key: first.get(key, 0) + grown.get(key, 0) for key in {*first, *grown}}
    return compare(reading(first), reading(later, minute=10, **how))


def test_what_was_counted_before_the_campaign_says_nothing() -> None:
    assert after({}) == ((), ())


@pytest.mark.parametrize(
    ("counter", "most"),
    [
        ("gpu/0/ecc_uncorrected", 0),
        ("gpu/0/rows_remapped_uncorrectable", 0),
        ("gpu/0/nvlink_replay_errors", 0),
        ("gpu/0/nvlink_recovery_errors", 0),
        # 100 a second, for 600 s.
        ("gpu/0/nvlink_crc_errors", 60000),
        # 8, and 8 a minute.
        ("gpu/0/pcie_replays", 88),
        ("gpu/0/slowed_hw_thermal_us", 0),
    ],
)
def test_a_counter_may_grow_by_what_its_vendor_admits(counter: str, most: int) -> None:
    assert after({counter: most}).failures == ()
    (failure,) = after({counter: most + 1}).failures
    assert (failure.kind, failure.nodes) == (KIND, ("n1",))
    assert f"{counter} grew by {most + 1} in 600 s" in failure.message


def test_a_new_xid_of_the_hardware_rejects() -> None:
    (failure,) = after({"xid/0000:17:00/79": 1, "xid/0000:65:00/45": 1}).failures
    assert failure.message == "n1: Xid 79 of the GPU at 0000:17:00, 1 times"


@pytest.mark.parametrize("number", [13, 31, 43, 45])
def test_an_xid_of_a_program_is_a_note(number: int) -> None:
    found = after({f"xid/0000:17:00/{number}": 2})
    assert found.failures == () and f"Xid {number}" in found.notes[0]


def test_xids_count_where_the_log_was_read_both_times() -> None:
    known = {key: value for key, value in HEALTHY.items() if not key.startswith("xid/")}
    first = reading(known, uncounted={"xid/log": "dmesg: not permitted"})
    found = compare(first, reading({**known, "xid/log": 1, "xid/0000:17:00/79": 1}, minute=10))
    assert found.failures == ()


def test_slowing_down_by_the_driver_is_a_note() -> None:
    found = after({"gpu/0/slowed_sw_thermal_us": 5})
    assert found.failures == () and "lowered clocks for heat" in found.notes[0]


def test_what_is_never_readable_is_a_note_and_accuses_nobody() -> None:
    known = {"gpu/0/ecc_uncorrected": 0.0}
    why = {"xid/log": "dmesg: not permitted", "gpu/0/pcie_replays": "not said"}
    found = compare(reading(known, uncounted=why), reading(known, 10, uncounted=why))
    assert found.failures == ()
    assert found.notes == ("n1: GPU counters not compared: pcie_replays, xid/log (not said)",)


@pytest.mark.parametrize("lost", sorted(HEALTHY))
def test_what_is_no_longer_readable_neither_passes_nor_accuses(lost: str) -> None:
    later = {key: value for key, value in HEALTHY.items() if key != lost}
    found = compare(reading(HEALTHY), reading(later, 10))
    # One Xid may have left the log; that the log was read may not.
    expected = [] if lost == "xid/0000:17:00/79" else [(ENVIRONMENT, ())]
    assert [(failure.kind, failure.nodes) for failure in found.failures] == expected


def test_a_restart_is_another_findings_matter() -> None:
    found = after({"gpu/0/ecc_uncorrected": 5}, boot_id="c")
    assert found.failures == () and "restarted" in found.notes[0]


def test_a_counter_that_fell_is_a_note() -> None:
    found = after({"gpu/0/ecc_uncorrected": -1})
    assert found.failures == () and "was reset" in found.notes[0]


COUNTERS = st.dictionaries(st.sampled_from(sorted(HEALTHY)), st.integers(0, 2**40))


@given(COUNTERS, COUNTERS)
def test_no_two_readings_crash_it(first: dict[str, float], later: dict[str, float]) -> None:
    compare(reading(first), reading(later, 10))


@given(COUNTERS)
def test_the_same_twice_says_nothing(counted: dict[str, float]) -> None:
    assert compare(reading(counted), reading(counted, 10)) == ((), ())


# ---- the check ----


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[Any]:
    """A check of dgx-h100 on two nodes, with what each of them left."""
    nodes = {"RAILGAUGE_NODES": "dgx-h100-n[01-02]"}
    with ended_jobs.session("dgx-h100", tmp_path, **nodes) as known:

        def leave(name: str, counters: Mapping[str, float], minute: int) -> Any:
            stage = paths.session_folder() / "stage" / "dgx-h100" / "h100" / "builtin" / f"{name}_1"
            check = ended_jobs.ended(known[name].kind(variant_num=0), stage)
            check._rfm_dry_run = True
            check.select_places()
            sides = {
                place.place: {
                    "rank0": ended_jobs.side(
                        ended_jobs.exit_line(inventory_state.TOOL, "rank0", place.place),
                        "",
                        files={inventory.FILE: document(place.place, counters, minute)},
                    )
                }
                for place in check.places
            }
            (stage / sweep_file.FILE).write_text(inventory.FILE)
            outcomes = dict.fromkeys(sides, ended_jobs.DONE)
            ended_jobs.Left(sides, outcomes, tuple(sides)).write(check)
            ended_jobs.judge(check)
            return check

        yield leave


def document(node: str, counters: Mapping[str, float], minute: int) -> str:
    return json.dumps(reading(counters, minute, node=node).as_dict())


def kinds(check: Any) -> list[str]:
    """Of the failures that are of GPUs."""
    record = read_record(Path(check.stagedir) / "railgauge.jsonl")
    assert record is not None
    found = [failure.kind for result in record.results for failure in result.failures]
    return [kind for kind in found if kind in (KIND, ENVIRONMENT)]


def test_errors_since_the_first_reading_are_found(ended: Any) -> None:
    ended(node_state.NAME, HEALTHY, 0)
    grown = {**HEALTHY, "gpu/0/nvlink_recovery_errors": 5}
    assert kinds(ended("GpuCounters", grown, 10)) == [KIND, KIND]


def test_a_node_that_counted_nothing_has_no_such_failure(ended: Any) -> None:
    ended(node_state.NAME, HEALTHY, 0)
    assert kinds(ended("GpuCounters", HEALTHY, 10)) == []


def test_without_a_first_reading_nothing_passes(ended: Any) -> None:
    """Its own reading is not one."""
    assert kinds(ended("GpuCounters", HEALTHY, 10)) == [ENVIRONMENT, ENVIRONMENT]
