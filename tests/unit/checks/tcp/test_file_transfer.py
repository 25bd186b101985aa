"""What is transferred between whom by which tool, from a system's data; and the page of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from railgauge.checks.tcp.file_transfer import TransferCases
from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from railgauge.model import references
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.model.references import Ratio, RatioSide
from railgauge.report import transfers as page
from railgauge.tools.file_transfer import FileSet
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.ratios import judge
from tests.command_line import invoke
from tests.unit.checks.rdma.test_rail import WAN, Describe, describe, partition
from tests.unit.records import names
from tests.unit.report.test_numbers import verdict as verdict_of
from tests.unit.verdict.decision.test_rules import Recorded, recorded
from tests.unit.widths import assert_fits

__all__ = ["describe", "recorded"]

TRANSFERS: dict[str, Any] = {
    "tools": ["iperf3", "wdt", "scp"],
    "optional": ["bbcp"],
    "file_sets": {
        "large": {"files": 1, "file_bytes": 2**30},
        "small": {"files": 100, "file_bytes": 2**16},
    },
}


def transfers(nodes: str = "n[1-2]", wan: bool = False, **changes: Any) -> dict[str, Any]:
    more = {"wan": WAN} if wan else {}
    return partition(nodes=nodes, transfers={**TRANSFERS, **changes}, **more)


# ---- cases ----


def test_every_tool_moves_every_set_of_files(describe: Describe) -> None:
    describe(transfers())
    assert names(TransferCases("scp")) == ["gpu:n1:n2:large:lan", "gpu:n1:n2:small:lan"]


def test_iperf3_moves_no_files(describe: Describe) -> None:
    describe(transfers())
    assert names(TransferCases("iperf3")) == ["gpu:n1:n2:lan"]


def test_optional_tools_have_cases_too_and_others_none(describe: Describe) -> None:
    describe(transfers())
    assert len(list(TransferCases("bbcp"))) == 2
    assert names(TransferCases("lftp")) == []


def test_wdts_receiver_may_throw_away_what_comes(describe: Describe) -> None:
    describe(transfers(wdt={"skip_writes": [True, False]}))
    assert [case.parts[2] for case in TransferCases("wdt")] == [
        *("large-discarded", "large"),
        *("small-discarded", "small"),
    ]


def test_all_neighbours_are_measured(describe: Describe) -> None:
    describe(transfers("n[1-3]"))
    pairs = {case.nodes for case in TransferCases("scp")}
    assert pairs == {("n1", "n2"), ("n2", "n3"), ("n3", "n1")}


def test_the_first_pair_may_stand_for_all(describe: Describe) -> None:
    describe(transfers("n[1-3]", pairs="first"))
    assert {case.nodes for case in TransferCases("scp")} == {("n1", "n2")}
    assert len(list(TransferCases("scp"))) == 2


def test_long_ways_belong_to_the_series(
    describe: Describe, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(transfers(wan=True))
    assert names(TransferCases("iperf3")) == ["gpu:n1:n2:lan"]
    monkeypatch.setenv("RAILGAUGE_SERIES", "1")
    # A round trip of nothing is the path as it is.
    assert names(TransferCases("iperf3")) == ["gpu:n1:n2:lan", "gpu:n1:n2:44ms"]


def test_all_of_it_may_belong_to_the_series(
    describe: Describe, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(transfers(series_only=True))
    assert names(TransferCases("scp")) == []
    monkeypatch.setenv("RAILGAUGE_SERIES", "1")
    assert names(TransferCases("scp")) == ["gpu:n1:n2:large:lan", "gpu:n1:n2:small:lan"]


@pytest.fixture
def wdt_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stack that has WDT for the session's system, and nothing else."""
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path / "stack"))
    folder = tmp_path / "stack" / "alps"
    folder.mkdir(parents=True)
    tool = {"name": "wdt", "version": "1", "hash": "abc", "prefix": "/opt/wdt"}
    (folder / "stack.json").write_text(json.dumps([tool]))
    (folder / "activate.sh").touch()
    return folder


ALWAYS: dict[str, Any] = {
    "tools": ["iperf3", "scp"],
    "optional": ["wdt", "bbcp"],
    "series_only": True,
    "always": {"wdt": "small", "bbcp": "small"},
}


def test_one_set_of_files_is_in_every_acceptance_where_its_tool_was_built(
    describe: Describe, wdt_built: Path
) -> None:
    describe(transfers(wdt={"skip_writes": [False, True]}, **ALWAYS))
    assert names(TransferCases("wdt")) == ["gpu:n1:n2:small:lan"]
    for other in ("bbcp", "scp", "iperf3"):
        assert names(TransferCases(other)) == []


def test_what_was_not_built_has_no_case_in_every_acceptance(
    describe: Describe, wdt_built: Path
) -> None:
    (wdt_built / "activate.sh").unlink()
    describe(transfers(**ALWAYS))
    assert names(TransferCases("wdt")) == []


def test_tool_that_every_node_must_have_is_always_measured(describe: Describe) -> None:
    describe(transfers(series_only=True, always={"scp": "large"}))
    assert names(TransferCases("scp")) == ["gpu:n1:n2:large:lan"]


def test_the_series_has_all_of_a_tool_that_is_always_measured(
    describe: Describe, wdt_built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_SERIES", "1")
    describe(transfers(**ALWAYS))
    assert names(TransferCases("wdt")) == ["gpu:n1:n2:large:lan", "gpu:n1:n2:small:lan"]


# ---- the page ----

TOOLS = {
    "WdtTransfer": "wdt",
    "ScpTransfer": "scp",
    "BbcpTransfer": "bbcp",
}
LARGE, SMALL = FileSet(1, 2**30), FileSet(100, 2**16)


def case(
    check: str,
    rate: float | None,
    files: FileSet = LARGE,
    nodes: tuple[str, str] = ("n1", "n2"),
    **changes: Any,
) -> Case:
    """A good case, whose transfer took what its rate says."""
    tool, discarded = changes.pop("tool", "scp"), changes.pop("discarded", False)
    operation = files.name + ("-discarded" if discarded else "")
    delay_ms = changes.pop("delay_ms", None)
    values = {} if rate is None else {"bandwidth": rate}
    if rate:
        values["transfer_time"] = files.total_bytes * 8e-9 / rate
    measured = [
        Measurement(
            metric,
            value,
            tool,
            operation,
            "tcp",
            files.file_bytes,
            nodes=nodes,
            delay_ms=delay_ms,
        )
        for metric, value in values.items()
    ]
    said = {
        "name": f"{check} %pair=ns",
        "result": "pass",
        "reason": "",
        "failures": (),
        "folder": Path("stage"),
        "transfer_tool": TOOLS.get(check, ""),
        **changes,
    }
    rows = tuple(Row(m, None, None) for m in measured)
    return Case(check=check, partition="ns", nodes=nodes, run=0, rows=rows, **said)


def only_page(*cases: Case) -> page.Comparison:
    (found,) = page.compare(cases)
    return found


def test_a_tool_is_compared_with_the_slowest_of_the_same_files_and_way() -> None:
    found = only_page(
        case("WdtTransfer", 15.0),
        case("ScpTransfer", 1.0),
        case("ScpTransfer", 0.5, SMALL),
        case("ScpTransfer", 0.1, delay_ms=44.0),
    )
    assert found.tools == ["wdt", "scp"]
    lan = page.TransferColumn(LARGE.name, LARGE.file_bytes, None)
    assert found.times_the_slowest("wdt", lan) == pytest.approx(15.0)
    assert found.times_the_slowest("scp", lan) == 1.0
    alone = page.TransferColumn(SMALL.name, SMALL.file_bytes, None)
    assert found.times_the_slowest("scp", alone) is None
    assert [str(column) for column in found.columns] == [
        "one file 1 GiB\nLAN",
        "one file 1 GiB\n44 ms",
        "small files 64 KiB\nLAN",
    ]


def test_several_pairs_are_one_median() -> None:
    rates = {("n1", "n2"): 1.0, ("n2", "n3"): 3.0, ("n3", "n1"): 2.0}
    found = only_page(*(case("ScpTransfer", rate, nodes=pair) for pair, rate in rates.items()))
    (cell,) = found.cells.values()
    assert (cell.rate_gbits_s, cell.pairs) == (2.0, 3)


def test_what_was_thrown_away_is_a_row_of_its_own() -> None:
    found = only_page(case("WdtTransfer", 9.0), case("WdtTransfer", 12.0, discarded=True))
    assert found.tools == ["wdt", "wdt (discarded)"]
    assert len(found.columns) == 1


def test_what_was_thrown_away_is_compared_with_nothing_that_was_written() -> None:
    found = only_page(
        case("WdtTransfer", 15.0, discarded=True),
        case("WdtTransfer", 6.0),
        case("ScpTransfer", 2.0),
    )
    (lan,) = found.columns
    assert found.times_the_slowest("wdt (discarded)", lan) is None
    assert found.times_the_slowest("wdt", lan) == pytest.approx(3.0)
    assert found.times_the_slowest("scp", lan) == 1.0


# ---- what documents state ----


def ratio(of: str, over: str, value: float = 15, **changes: Any) -> Ratio:
    """A stated one of LAN, of WDT that throws away where it is WDT's."""
    provenance = {"source": "a document", "date": "2026-11-21"}
    sides = {
        name: {
            "check": check,
            "operation": LARGE.name + ("-discarded" if check == "WdtTransfer" else ""),
            "delay_ms": None,
        }
        for name, check in (("of", of), ("over", over))
    }
    fields = {"name": f"{of} over {over}", "metric": "bandwidth", "value": value, **sides}
    return Ratio.model_validate(
        {**fields, "condition": "unstated", "provenance": provenance, **changes}
    )


def stated(*cases: Case) -> list[tuple[str, ...]]:
    verdict = dataclasses.replace(verdict_of(cases), ratios=tuple(judge(cases)))
    return page.stated_rows(page.stated(verdict))


def test_a_stated_ratio_stands_beside_what_was_measured_under_its_conditions() -> None:
    known = (ratio("WdtTransfer", "HpnScpTransfer"),)
    thrown_away = case("WdtTransfer", 15.0, discarded=True, ratios=known)
    written = case("WdtTransfer", 6.0, ratios=known)
    other = case("HpnScpTransfer", 2.0, ratios=known)
    assert stated(thrown_away, written, other) == [
        ("WdtTransfer over HpnScpTransfer", "7.5x", "15x", "")
    ]
    # What was written is another condition than the one that is stated.
    assert stated(written, other)[0][1] == "-"


def test_a_ratio_of_ways_is_told_whatever_measured_it() -> None:
    sides = {
        "of": RatioSide(check="WanTcp", delay_ms=0),
        "over": RatioSide(check="WanTcp", delay_ms=44),
    }
    like = ratio("Lan", "Wan", 12, name="LAN over 44 ms")
    known = (like.model_copy(update=sides),)
    found = stated(case("ScpTransfer", 1.0), case("WanTcp", None, ratios=known))
    assert found == [("LAN over 44 ms", "-", "12x", "")]


def test_ratios_of_other_checks_are_not_of_the_page() -> None:
    known = (ratio("NcclAll", "NcclPair"),)
    assert stated(case("ScpTransfer", 1.0), case("NcclAll", None, ratios=known)) == []


def test_the_documents_ratios_are_stated_of_the_lab_and_of_400_gigabit_ethernet() -> None:
    for system in ("lab", "eth400g"):
        values = {r.value for r in references.load(system).ratios if r.is_context}
        assert {15, 2, 12} <= values, system


@pytest.mark.parametrize(
    "changes",
    [
        {"failures": (Failure("output", "changed: large.bin"),), "result": "fail"},
        {"result": "abort"},
        {"damage": "railgauge.json: no JSON"},
    ],
)
def test_a_number_that_its_check_does_not_vouch_for_is_not_compared(
    changes: dict[str, Any],
) -> None:
    found = only_page(case("ScpTransfer", 1.0), case("WdtTransfer", 99.0, **changes))
    assert ("wdt", found.columns[0]) not in found.cells
    assert found.failed == {"wdt": 1}


def test_a_tool_that_was_left_out_is_named() -> None:
    missing = Failure("tool-missing", "bbcp not found on n1", ("n1",), "spack install bbcp")
    found = only_page(case("ScpTransfer", 1.0), case("BbcpTransfer", None, left_out=missing))
    assert found.tools == ["scp", "bbcp"]
    assert found.left_out == {"bbcp": 1}


def test_other_checks_are_not_on_the_page() -> None:
    assert page.compare([case("Iperf2Pair", 9.0)]) == []


def test_only_transfers_of_files_are_of_the_page() -> None:
    (row, *_) = case("ScpTransfer", 1.0).rows
    assert page.is_of(row.measurement)
    streams = json.loads(json.dumps({**row.measurement.as_dict(), "operation": "tcp"}))
    assert not page.is_of(Measurement.from_dict(streams))


# ---- railgauge transfers ----


def shown(recorded: Recorded) -> Result:
    recorded.write()
    answer = invoke(cli, ["transfers", str(recorded.folder)])
    assert_fits(answer.output)
    return answer


def test_a_campaign_without_transfers_says_what_has_some(recorded: Recorded) -> None:
    answer = shown(recorded)
    assert isinstance(answer.exception, RailgaugeError)
    assert f"no transfers in campaign {recorded.folder.name}" in str(answer.exception)


def test_the_page_of_a_rehearsal_says_simulated_first(recorded: Recorded) -> None:
    for planned in recorded.plan:
        planned.update(check="WdtTransfer", transfer_tool="wdt")
    for row in recorded.rows():
        row["measurement"].update(tool="wdt", operation=LARGE.name, simulated=True)
    answer = shown(recorded)
    assert answer.exit_code == 0, answer.output
    assert answer.output.startswith("SIMULATED: ")
    assert "median of 4 pairs" in answer.output
