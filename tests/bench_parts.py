"""Where the seconds of a campaign went, from what it left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from railgauge.campaign.folder import RESULT_FILE
from railgauge.model import record
from railgauge.node.transport import results_file


def parts(folder: Path, whole_s: float, tools_s: float) -> Iterator[tuple[str, float]]:
    """Where the seconds of a campaign went; together they are all."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    session_s = report["session_info"]["time_elapsed"]
    rounds_s = 0.0
    for result in folder.glob(f"stage/**/{RESULT_FILE}"):
        swept = result.with_name(results_file.FILE)
        found = record.read_record(result)
        assert found is not None
        rounds_s += (
            sum(event["seconds"] for event in results_file.read(swept).rounds.values())
            if swept.exists()
            else max(call.seconds for one in found.results for call in one.calls)
        )
    yield "the tools", tools_s
    yield "starts and ends of tools on the nodes", rounds_s - tools_s
    yield "jobs start and end, ReFrame, the checks", session_s - rounds_s
    yield "before the session, and the verdict", whole_s - session_s


def tools(stage: Path) -> tuple[int, float]:
    """The cases of a campaign, and its tools' own time: of each round, or job of ranks, the longest
    call.
    """
    cases, seconds = 0, 0.0
    for path in stage.glob(f"**/{RESULT_FILE}"):
        cases += 1
        swept = path.with_name(results_file.FILE)
        if swept.exists():
            seconds += sum(
                one["tool_seconds"] or 0 for one in results_file.read(swept).rounds.values()
            )
        else:
            found = record.read_record(path)
            assert found is not None
            seconds += max(call.seconds for result in found.results for call in result.calls)
    return cases, seconds


def rounds_over_tools(stage: Path) -> Iterator[tuple[str, list[float]]]:
    """Of each case its check and partition, and of each round the time over the tools' own."""
    for path in stage.glob(f"**/{results_file.FILE}"):
        case = record.read_record(path.with_name(RESULT_FILE))
        assert case is not None
        events = results_file.read(path)
        own_s = {number: _own_seconds(events, number) for number in events.rounds}
        ratios = [
            event["seconds"] / own_s[number]
            for number, event in events.rounds.items()
            if own_s[number]
        ]
        yield f"{case.check} on {case.partition}", ratios


def _own_seconds(events: results_file.Raw, number: int) -> float:
    """The tools' own time in a round: that of the place where it is longest. Clients of several
    ways run at once; runs with names of their own (`back/client`) follow one another.
    """
    longest = 0.0
    for index in (n for n, event in events.places.items() if event["round"] == number):
        runs: dict[str, float] = {}
        for role, side in events.sides.get(index, {}).items():
            run, _, part = role.rpartition("/")
            if not part.startswith("server"):
                runs[run] = max(runs.get(run, 0.0), side.line["call"]["seconds"])
        longest = max(longest, sum(runs.values()))
    return longest
