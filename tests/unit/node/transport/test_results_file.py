"""The record of a sweep: whole lines whatever becomes of its writer; nothing damaged is read."""

from __future__ import annotations

import gzip
import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest

from railgauge.node.transport import results_file
from tests.unit.node.sweeping import wait_until
from tests.unit.tools.test_perftest import RUNS, printed

CALL = {"call": {"role": "server", "seconds": 1.0}, "facts": {"device": "eth0"}}

EVENTS: list[dict[str, Any]] = [
    {"event": "begin", "host": "n1", "time": "2026-11-22T10:00:00+00:00", "nodes": ["n1", "n2"]},
    {"event": "joined", "node": "n1", "seconds": 0.2},
    {"event": "lost", "node": "n2", "why": "its agent did not connect within 60 s"},
    {"event": "side", "place": 0, "role": "server", "line": CALL, "out": "o\n", "err": "e é"},
    {"event": "side", "place": 0, "role": "back/client", "line": CALL, "out": "", "err": ""},
    {"event": "place", "place": 0, "round": 0, "outcome": "done", "why": "", "seconds": 3.2},
    {"event": "round", "round": 0, "seconds": 3.3, "tool_seconds": 3.0},
    {"event": "strangers", "count": 2, "from": ["192.0.2.1"]},
    {"event": "end", "seconds": 4.0, "why": ""},
]


def write(path: Path, events: list[dict[str, Any]] = EVENTS) -> Path:
    writer = results_file.Writer(path)
    for event in events:
        writer.write(event)
    writer.close()
    return path


def test_what_was_written_is_read_by_what_it_is_about(tmp_path: Path) -> None:
    found = results_file.read(write(tmp_path / results_file.FILE))
    assert found.sides == {
        0: {
            "server": results_file.Side(CALL, "o\n", "e é", {}),
            "back/client": results_file.Side(CALL, "", "", {}),
        }
    }
    assert (found.joined, list(found.lost)) == ({"n1": 0.2}, ["n2"])
    assert found.places[0]["outcome"] == "done" and found.rounds[0]["tool_seconds"] == 3.0
    assert found.begin == EVENTS[0] and found.strangers == EVENTS[-2] and found.end == EVENTS[-1]


def test_any_gzip_reads_it(tmp_path: Path) -> None:
    lines = gzip.decompress(write(tmp_path / results_file.FILE).read_bytes()).decode().splitlines()
    assert [json.loads(line) for line in lines] == EVENTS


def test_files_of_a_side_are_kept_with_it(tmp_path: Path) -> None:
    side = {**EVENTS[3], "files": {"inventory.json": "{}"}}
    found = results_file.read(write(tmp_path / results_file.FILE, [side]))
    assert found.sides[0]["server"].files == {"inventory.json": "{}"}


def test_a_record_that_was_broken_off_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole").read_bytes()
    kept = 0
    for length in range(len(whole)):
        broken = tmp_path / "broken"
        broken.write_bytes(whole[:length])
        found = results_file.read(broken)
        count = len(found.joined) + len(found.lost) + len(found.places) + len(found.rounds)
        assert count >= kept, "a longer piece has fewer events"
        kept = count
    assert kept == 4


def test_every_event_can_be_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / results_file.FILE
    writer = results_file.Writer(path)
    try:
        writer.write(EVENTS[1])
        wait_until(lambda: results_file.read(path).joined, "nothing is written")
        assert results_file.read(path).joined == {"n1": 0.2} and results_file.read(path).end is None
    finally:
        writer.close()


def test_of_many_events_at_once_the_last_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents of thousands of nodes that answer all at once are attended to first."""
    monkeypatch.setattr(results_file, "COLLECT_S", 600)
    monkeypatch.setattr(results_file, "PAUSE_S", 600)
    path = tmp_path / results_file.FILE
    writer = results_file.Writer(path)
    # It has begun to write as they come, and waits now.
    for index in range(results_file.AT_ONCE + 1):
        writer.write({**EVENTS[1], "node": f"n{index}"})
        while not writer._events.empty():
            time.sleep(0.001)
    for node in ("m1", "m2"):
        writer.write({**EVENTS[1], "node": node})
    assert "m1" not in results_file.read(path).joined and "m2" not in results_file.read(path).joined
    writer.close()
    assert set(results_file.read(path).joined) > {"m1", "m2"}


def test_thousands_of_events_are_not_kept_until_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_file, "COLLECT_S", 600)
    monkeypatch.setattr(results_file, "PAUSE_S", 600)
    monkeypatch.setattr(results_file, "MOST_WAITING", 50)
    path = tmp_path / results_file.FILE
    writer = results_file.Writer(path)
    for index in range(10 * results_file.AT_ONCE):
        writer.write({**EVENTS[1], "node": f"n{index}"})
    deadline = time.monotonic() + 60
    while len(results_file.read(path).joined) < 9 * results_file.AT_ONCE:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    writer.close()


@pytest.mark.parametrize("pause_s", [0.01, 600])
def test_they_are_written_after_a_pause_or_when_a_process_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause_s: float
) -> None:
    monkeypatch.setattr(results_file, "COLLECT_S", 600)
    monkeypatch.setattr(results_file, "PAUSE_S", pause_s)
    path = tmp_path / results_file.FILE
    writer = results_file.Writer(path)
    for index in range(3 * results_file.AT_ONCE):
        writer.write({**EVENTS[1], "node": f"n{index}"})
    if pause_s == 600:
        writer.flush()
    deadline = time.monotonic() + 60
    while len(results_file.read(path).joined) < 3 * results_file.AT_ONCE:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    writer.close()


def test_nothing_is_read_of_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / results_file.FILE).touch()
    assert vars(results_file.read(tmp_path / results_file.FILE)) == vars(results_file.Raw())


@pytest.mark.parametrize("place", [0, 12, 40, -3])
def test_a_damaged_record_is_refused(tmp_path: Path, place: int) -> None:
    path = write(tmp_path / results_file.FILE)
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match=results_file.FILE):
        results_file.read(path)


def test_what_stands_behind_the_end_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / results_file.FILE)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(ValueError, match="behind its end"):
        results_file.read(path)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"event": "news"},
        {"event": "side", "place": 0},
        {"event": "joined"},
        {"event": "again", "place": 3, "like": 0},
        {"event": "again", "place": 3, "like": "n1", "name": "a", "server": "n1", "client": "n2"},
    ],
)
def test_a_line_that_is_no_event_is_refused_with_its_number(
    tmp_path: Path, event: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="line 2 is no event"):
        results_file.read(write(tmp_path / results_file.FILE, [EVENTS[0], event]))


def differing(text: str, chance: random.Random) -> str:
    """A tool's output with the numbers that no two runs have in common."""
    text = re.sub(r"(QPN|PSN) 0x\w+", lambda m: f"{m[1]} {chance.getrandbits(24):#08x}", text)
    digits = re.compile(r"(?<=\.)\d+")
    return digits.sub(lambda m: "".join(str(chance.randrange(10)) for _ in m[0]), text)


@pytest.mark.parametrize("run", ["write", "sweep", "write-lat"])
def test_outputs_of_a_healthy_perftest_place_take_at_most_a_kilobyte(
    tmp_path: Path, run: str
) -> None:
    chance, places = random.Random(1), 60
    writer = results_file.Writer(tmp_path / results_file.FILE)
    for index in range(places):
        for role in ("server", "client"):
            out = differing(printed(RUNS[run], role), chance)
            writer.write({**EVENTS[3], "place": index, "role": role, "out": out})
            # Each for itself, as they come.
            while not writer._events.empty():
                time.sleep(0.001)
    writer.close()
    assert (tmp_path / results_file.FILE).stat().st_size / places < 1000


def test_a_disk_that_is_full_is_reported_and_stops_nothing() -> None:
    writer = results_file.Writer("/dev/full")
    writer.write(EVENTS[0])
    writer.close()
    assert writer.problem is not None and writer.problem.errno == 28


def test_what_a_place_left_in_an_earlier_launch_counts_no_more(tmp_path: Path) -> None:
    path = tmp_path / results_file.FILE
    writer = results_file.Writer(path)
    for number, places in ((0, [0, 1]), (1, [1])):
        writer.write({"event": "launch", "launch": number, "places": places, "why": ""})
        for place in places:
            side = {"event": "side", "place": place, "role": f"rank{number}", "line": {}}
            writer.write({**side, "out": "", "err": ""})
    # What is flushed is read before the end.
    writer.flush()
    left = results_file.read(path)
    writer.close()
    assert {place: launch["launch"] for place, launch in left.launches.items()} == {0: 0, 1: 1}
    assert {place: list(roles) for place, roles in left.sides.items()} == {
        0: ["rank0"],
        1: ["rank1"],
    }
