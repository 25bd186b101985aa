"""How far a session is, by its output and by what its sweeps write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from railgauge.acceptance.progress import Progress, RunningSweep, finished
from railgauge.model.record import Place, Planned
from railgauge.node.transport import results_file
from tests.unit import records


def planned(number: int, places: int) -> Planned:
    named = tuple(Place(f"n{n}:n{n + 1}", (f"n{n}", f"n{n + 1}")) for n in range(places))
    case = f"Rdma %sweep=p{number}"
    return Planned.model_validate(records.planned("Rdma", case, f"Rdma_{number}", [], places=named))


def sweep_in(folder: Path, name: str = "Rdma_0123abcd", places: int = 4, rounds: int = 2) -> Path:
    stage = folder / "stage" / "lab" / "ns" / "builtin" / name
    stage.mkdir(parents=True)
    document = {"places": [{}] * places, "rounds": [[]] * rounds}
    (stage / "sweep.json").write_text(json.dumps(document))
    return stage / results_file.FILE


def events(path: Path, *some: dict[str, Any]) -> None:
    writer = results_file.Writer(path)
    for event in some:
        writer.write(event)
    writer.close()


PLACE = {"event": "place", "place": 0, "round": 0, "outcome": "done", "why": "", "seconds": 1.0}
ROUND = {"event": "round", "round": 0, "seconds": 1.0, "tool_seconds": 1.0}
END = {"event": "end", "seconds": 2.0, "why": ""}
FAILED = "[     FAIL ] (1/2) Rdma %sweep=p0 /357b0dcf @lab:ns+builtin"


def test_rounds_and_places_of_a_running_sweep_are_counted(tmp_path: Path) -> None:
    path = sweep_in(tmp_path)
    events(path, {"event": "begin"}, PLACE, {**PLACE, "outcome": "lost"}, ROUND)
    sweep = RunningSweep(path)
    sweep.update()
    assert sweep.words == "Rdma round 2/2, 2/4 places" and sweep.bad == 1 and not sweep.over


def test_what_is_new_in_a_sweep_is_read_once(tmp_path: Path) -> None:
    path = sweep_in(tmp_path)
    events(path, PLACE, ROUND, PLACE, ROUND, END)
    whole = path.read_bytes()
    sweep = RunningSweep(path)
    for end in range(1, len(whole) + 1):
        path.write_bytes(whole[:end])
        sweep.update()
    assert (sweep.places, sweep.rounds, sweep.over) == (2, 2, True)


def test_a_damaged_sweep_ends_nothing(tmp_path: Path) -> None:
    path = sweep_in(tmp_path)
    path.write_bytes(b"no gzip")
    sweep = RunningSweep(path)
    sweep.update()
    assert sweep.over and sweep.places == 0


def test_the_line_says_cases_what_runs_what_is_left_and_what_failed(tmp_path: Path) -> None:
    told = Progress(tmp_path)
    told._began -= 60
    told.cases = [planned(0, 4), planned(1, 4)]
    one = finished(FAILED)
    assert one is not None
    told.heard(one)
    events(sweep_in(tmp_path), PLACE, {**PLACE, "outcome": "late"}, ROUND)
    assert told.words().split("  ") == [
        "1/2 cases",
        "Rdma round 2/2, 2/4 places",
        "about 0:20 left",
        "1 failed",
        "1 places without a result",
    ]


def test_before_the_plan_is_known_it_is_starting(tmp_path: Path) -> None:
    assert Progress(tmp_path).words() == "starting"


def test_a_sweep_that_is_over_does_not_run(tmp_path: Path) -> None:
    told = Progress(tmp_path)
    told.cases = [planned(0, 4)]
    events(sweep_in(tmp_path), PLACE, END)
    assert told.words() == "0/1 cases"


@pytest.mark.parametrize("line", ["[ RUN      ] Rdma", "P: x: 1", ""])
def test_other_lines_end_no_case(line: str) -> None:
    assert finished(line) is None
