"""The page of a system's history, from the campaigns under the results root."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest

from railgauge.campaign.folder import STANDING
from railgauge.cli.report import report
from railgauge.gate import coverage
from railgauge.gate.coverage import last_accepts
from railgauge.model.record import write_standings
from railgauge.report.page import history
from railgauge.verdict.decision.node_status import standings
from tests import pages
from tests.command_line import invoke
from tests.unit.report.test_page import Elements, numbers_in
from tests.unit.verdict.decision.test_rules import NODE_FAILURE, Recorded

NOW = datetime.datetime(2026, 11, 24, tzinfo=datetime.timezone.utc)


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_nodes_in_slurm: None) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    (tmp_path / "campaigns").mkdir()
    return tmp_path


def leave(
    results: Path,
    day: int,
    value: float = 9.5,
    fails: bool = False,
    firmware: str = "a",
    **said: object,
) -> Path:
    """A campaign of that day, at its end."""
    recorded = Recorded(results / "campaigns" / f"202611{day:02}T101655Z-lab-7578a0")
    for number in range(4):
        recorded.result(number, value=value)
    if fails:
        recorded.fail(0, NODE_FAILURE)
    campaign = recorded.write()
    campaign.started = f"2026-11-{day:02}T10:16:55+00:00"
    campaign.finished = f"2026-11-{day:02}T10:20:00+00:00"
    campaign.fingerprints = {"n1": firmware, "n2": "a"}
    campaign.save()
    verdict = recorded.decide()
    verdict.campaign.fingerprints = campaign.fingerprints
    document = {**verdict.as_dict(), **said}
    campaign.save()
    (campaign.folder / "verdict.json").write_text(json.dumps(document))
    write_standings(campaign.folder / STANDING, standings(verdict))
    return campaign.folder


def of_lab() -> str:
    covered = coverage.lines("lab", [f"n{number}" for number in range(1, 7)], {}, NOW)
    return history.html("lab", last_accepts("lab"), covered)


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of a table by its section."""
    section = text[text.index(f"<h2>{heading}</h2>") :]
    body = section[section.index("<tbody>") : section.index("</tbody>")]
    return [re.findall("<td[^>]*>(.*?)</td>", row) for row in body.split("<tr>")[1:]]


def test_campaigns_are_listed_newest_first_with_what_had_changed(results: Path) -> None:
    leave(results, 20)
    leave(results, 21, fails=True, firmware="b")
    listed = rows(of_lab(), "Campaigns")
    assert [(row[0][:10], row[3], row[7]) for row in listed] == [
        ("2026-11-21", "reject", "n1"),
        ("2026-11-20", "accept", ""),
    ]


def test_a_node_has_its_last_accept_and_its_last_campaign(results: Path) -> None:
    leave(results, 20)
    leave(results, 21, fails=True)
    (*never, n1, _, _, _) = rows(of_lab(), "Nodes")
    assert [row[0] for row in never] == ["n5", "n6"]
    assert n1[:2] == ["n1", "2026-11-20T10:16:55+00:00"]
    assert n1[3:6] == ["2026-11-21T10:16:55+00:00", "reject", "2"]


def test_a_node_has_which_campaign_accepted_it_and_what_has_changed_since(results: Path) -> None:
    leave(results, 20)
    leave(results, 21, fails=True, firmware="b")
    by_name = {row[0]: row for row in rows(of_lab(), "Nodes")}
    accepting = "20261120T101655Z-lab-7578a0"
    assert by_name["n1"][7:] == [accepting, "1", "changed", "unknown"]
    assert by_name["n2"][7:] == [accepting, "1", "", "unknown"]


def test_a_node_that_no_campaign_had_has_a_line(results: Path) -> None:
    leave(results, 20)
    by_name = {row[0]: row for row in rows(of_lab(), "Nodes")}
    assert by_name["n5"][1:6] == ["never", "-", "never tested", "-", "0"]


def test_a_node_that_is_held_says_so(results: Path) -> None:
    leave(results, 20)
    covered = coverage.lines("lab", ["n1"], {}, NOW)
    held = [line.model_copy(update={"state": "held: railgauge: Path"}) for line in covered]
    by_name = {row[0]: row for row in rows(history.html("lab", last_accepts("lab"), held), "Nodes")}
    assert by_name["n1"][10] == "held: railgauge: Path" and by_name["n2"][10] == "-"


def test_nodes_of_the_system_that_were_never_accepted_are_named(results: Path) -> None:
    leave(results, 20)
    assert "never accepted: n[5-6]" in Elements(of_lab()).text


def test_every_rail_has_when_it_was_last_well(results: Path) -> None:
    leave(results, 20)
    covered = coverage.lines("lab", ["n5", "n6"], {}, NOW)
    well = coverage.Rail(campaign="20261120T101655Z-lab-7578a0", age_days=4.0)
    covered[0].rails["0"] = well
    listed = rows(history.html("lab", last_accepts("lab"), covered), "Rails")
    assert [(row[2], row[3], row[4]) for row in listed] == [
        ("1", "never", "-"),
        *(("0", "never", "-"), ("1", "never", "-")),
        ("0", "4.0", well.campaign),
    ]


def test_a_trend_has_a_point_a_campaign_and_marks_changed_firmware(results: Path) -> None:
    leave(results, 20, 9.5)
    leave(results, 21, 9.1, firmware="b")
    (curve,) = numbers_in(of_lab())["curves"]
    assert curve["median"] == [9.5, 9.1]
    assert curve["labels"] == ["2026-11-20 10:16", "2026-11-21 10:16 △"]


def test_a_rehearsal_is_no_history(results: Path) -> None:
    leave(results, 20)
    leave(results, 21, 1.0, simulated=True)
    assert [row[0][:10] for row in rows(of_lab(), "Campaigns")] == ["2026-11-20"]


@pytest.mark.parametrize("text", ["{", "[]"])
def test_what_cannot_be_read_is_said(results: Path, text: str) -> None:
    leave(results, 20)
    (leave(results, 21) / "verdict.json").write_text(text)
    assert "1 campaigns cannot be read" in Elements(of_lab()).text


@pytest.mark.parametrize("text", pages.HOSTILE[:-4])
def test_no_text_of_a_campaign_becomes_markup(results: Path, text: str) -> None:
    found = []
    for word in ("harmless", text):
        campaign = leave(results, 20)
        record = campaign / "campaign.json"
        document = json.loads(record.read_text())
        nodes = [f"n{word}"]
        changed = {
            "scope": {**document["scope"], "nodes": {"ns": nodes}},
            "started": word,
            "fingerprints": {nodes[0]: word},
        }
        record.write_text(json.dumps({**document, **changed}))
        found.append([(tag, list(a)) for tag, a in Elements(of_lab()).tags])
    assert found[0] == found[1]


def test_the_command_writes_it_into_the_results_root(results: Path) -> None:
    leave(results, 20)
    answer = invoke(report, ["--history", "lab"])
    assert answer.exit_code == 0
    assert "lab: 1 campaigns" in Elements((results / "history-lab.html").read_text()).text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--history", "lab"], "no campaign of lab with a verdict in"),
        (["latest", "--history", "lab"], "expected a campaign or a system"),
    ],
)
def test_the_command_says_what_is_wrong(results: Path, words: list[str], said: str) -> None:
    answer = invoke(report, words)
    assert answer.exit_code != 0 and said in str(answer.exception)


def test_no_curve_goes_across_a_warm_up(results: Path) -> None:
    for day in range(20, 24):
        file = leave(results, day) / "verdict.json"
        said = json.loads(file.read_text())
        rows = [{**row, "warmup": 5 if day < 22 else 1} for row in said["measurements"]]
        file.write_text(json.dumps({**said, "measurements": rows}))
    titles = [curve.title for curve in history.trends(history.past("lab")[0])]
    assert titles == ["bandwidth, ns, warm-up 5", "bandwidth, ns, warm-up 1"]


def test_no_curve_goes_across_a_version_that_changes_the_numbers(results: Path) -> None:
    for day in range(20, 24):
        file = leave(results, day) / "verdict.json"
        said = json.loads(file.read_text())
        rows = [{**row, "tool": "iperf3"} for row in said["measurements"]]
        tools = [{"tool": "iperf3", "version": "iperf 3.12" if day < 22 else "iperf 3.18"}]
        file.write_text(json.dumps({**said, "measurements": rows, "tools": tools}))
    curves = history.trends(history.past("lab")[0])
    assert [(curve.title, len(curve.points)) for curve in curves] == [
        ("bandwidth, ns", 2),
        ("bandwidth, ns, iperf3 of 3.16 and later", 2),
    ]
