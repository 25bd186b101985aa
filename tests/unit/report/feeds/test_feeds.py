"""The verdict for other programs: JUnit, Markdown, Prometheus, CSV and Parquet."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import polars
import pytest
from prometheus_client.parser import text_string_to_metric_families

from railgauge import paths
from railgauge.campaign.folder import STANDING
from railgauge.cli.export import export
from railgauge.common.errors import RailgaugeError
from railgauge.gate.coverage import NodeSummary, Rail
from railgauge.model.failure import Failure
from railgauge.model.measurement import METRICS
from railgauge.model.record import write_standings
from railgauge.report.feeds import junit, markdown, prometheus, rows
from railgauge.report.visible import clean
from railgauge.verdict.decision.verdict import Verdict
from tests import pages
from tests.command_line import invoke
from tests.unit.gate.test_coverage import standing
from tests.unit.verdict.decision.test_rules import Recorded

FINISHED = "2026-11-22T10:19:48+00:00"


@pytest.fixture
def bad(tmp_path: Path) -> Verdict:
    return pages.cluster(tmp_path, 4, 2, bad=(1, 1))


def cases(verdict: Verdict, suite: str) -> dict[str, ElementTree.Element | None]:
    """Name -> what speaks against it, of each case of a suite."""
    root = ElementTree.fromstring(junit.xml(verdict))
    (found,) = [element for element in root if element.get("name") == suite]
    return {case.get("name", ""): next(iter(case), None) for case in found}


# --- JUnit ---------------------------------------------------------------------------------------


def test_junit_has_a_case_a_passed_condition_and_one_a_failed_place(bad: Verdict) -> None:
    found = cases(bad, "RdmaBandwidth")
    assert list(found) == [
        "hdr bandwidth 1 MiB write",
        "hdr n1:n2:1-1",
        "hdr n2:n3:1-1",
    ]
    passed = found["hdr bandwidth 1 MiB write"]
    assert passed is not None and passed.tag == "system-out"
    assert passed.text == "6 places, the worst 385 Gb/s at n1:n2:0-0"
    against = found["hdr n1:n2:1-1"]
    assert against is not None and against.tag == "failure"
    assert against.get("message") == (
        "bandwidth 1 MiB write is 171.4 Gb/s, expected >= 361 (baseline)"
    )


@pytest.mark.parametrize(
    ("decision", "tag"),
    [("reject", "failure"), ("inconclusive", "error"), ("provisional accept", "error")],
)
def test_junit_is_never_all_green_but_for_an_accept(
    tmp_path: Path, decision: str, tag: str
) -> None:
    verdict = dataclasses.replace(pages.cluster(tmp_path, 4, 1), decision=decision)
    against = cases(verdict, "verdict")["verdict"]
    assert against is not None and against.tag == tag


def test_junit_of_an_accept_is_green(tmp_path: Path) -> None:
    assert cases(pages.cluster(tmp_path, 4, 1), "verdict") == {"verdict": None}


def test_junit_of_an_accepted_rehearsal_passes_nothing(tmp_path: Path) -> None:
    verdict = pages.simulated(pages.cluster(tmp_path, 4, 1))
    against = cases(verdict, "verdict")["verdict"]
    assert against is not None and against.tag == "skipped"
    assert 'classname="SIMULATED.dgx.RdmaBandwidth"' in junit.xml(verdict)


def test_junit_has_an_error_for_what_came_to_nothing(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 4, 1)
    silent = pages.case("RdmaBandwidth", ("n1", "n3"), "", [], result="not run", reason="n3 died")
    against = cases(dataclasses.replace(verdict, cases=(silent,)), "RdmaBandwidth")["hdr n1:n3"]
    assert against is not None and against.tag == "error" and against.text == "n3 died"


def test_junit_skips_an_optional_tool_and_says_what_brings_it(tmp_path: Path) -> None:
    left = Failure("missing-tool", "wdt is not installed", (), "make stack")
    case = pages.case("Transfer", ("n1", "n2"), "", [], left_out=left)
    verdict = dataclasses.replace(pages.cluster(tmp_path, 4, 1), cases=(case,))
    against = cases(verdict, "Transfer")["hdr n1:n2"]
    assert against is not None and against.tag == "skipped"
    assert against.text == "wdt is not installed\nnext: make stack"


def test_junit_counts_what_it_has(bad: Verdict) -> None:
    root = ElementTree.fromstring(junit.xml(bad))
    for suite in root:
        for name, tag in (("tests", "."), ("failures", "failure"), ("errors", "error")):
            found = suite.findall("testcase" if tag == "." else f"testcase/{tag}")
            assert int(suite.get(name, "")) == len(found)
    assert root.get("failures") == "3"


# --- what comes from outside ---------------------------------------------------------------------


@pytest.mark.parametrize("text", pages.HOSTILE)
def test_hostile_texts_leave_junit_whole(tmp_path: Path, text: str) -> None:
    root = ElementTree.fromstring(junit.xml(pages.hostile(tmp_path, text)))
    assert {element.tag for element in root.iter()} == {
        *("testsuites", "testsuite", "testcase", "failure", "error")
    }


@pytest.mark.parametrize("text", pages.HOSTILE)
def test_hostile_texts_leave_csv_with_its_columns(tmp_path: Path, text: str) -> None:
    table = list(csv.reader(io.StringIO(rows.as_csv(pages.hostile(tmp_path, text)))))
    assert [len(row) for row in table] == [len(rows.COLUMNS)] * 2


def test_a_cell_is_no_formula(tmp_path: Path) -> None:
    verdict = pages.hostile(tmp_path, "x")
    of = dataclasses.replace(verdict.campaign, system="=1+1")
    table = list(
        csv.DictReader(io.StringIO(rows.as_csv(dataclasses.replace(verdict, campaign=of))))
    )
    assert table[0]["system"] == "'=1+1"


@pytest.mark.parametrize("text", pages.HOSTILE)
def test_hostile_texts_are_no_markup_in_markdown(tmp_path: Path, text: str) -> None:
    made = markdown.markdown(pages.hostile(tmp_path, text))
    outside = re.sub(r"(`+).*?\1", "", made)
    assert not re.search(r"(?<!\\)<|(?<!\\)\]\(|(?<!\\)!\[|://", outside)


@pytest.mark.parametrize("text", pages.HOSTILE)
def test_hostile_texts_are_labels_in_prometheus(tmp_path: Path, text: str) -> None:
    hostile = pages.hostile(tmp_path, text)
    of = dataclasses.replace(hostile.campaign, simulated=None)
    made = prometheus.metrics(dataclasses.replace(hostile, campaign=of), {})
    families = list(text_string_to_metric_families(made))
    systems = {sample.labels["system"] for family in families for sample in family.samples}
    assert systems == {clean(text)}


# --- Markdown ------------------------------------------------------------------------------------


def test_markdown_says_verdict_suspect_finding_and_next_step(bad: Verdict) -> None:
    text = markdown.markdown(bad)
    for said in (
        "## REJECT: dgx",
        "2 findings; n2 is at fault.",
        "- **n2**: in 2 failing cases",
        "- reject: **RdmaBandwidth hdr n1:n2:1-1**",
        "next: `look at the link rate",
        "| RdmaBandwidth | bandwidth 1 MiB write | 8 | 171.4 Gb/s | n1:n2:1-1 |",
    ):
        assert said in text


def test_markdown_of_a_rehearsal_says_simulated_with_each_heading(bad: Verdict) -> None:
    text = markdown.markdown(pages.simulated(bad))
    headings = re.findall(r"^##+ (\w+)", text, re.MULTILINE)
    assert set(headings) == {"SIMULATED"} and len(headings) == 4


# --- Prometheus ----------------------------------------------------------------------------------


def samples(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Metric -> (its labels' values but system) -> value."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for name, value in sample.labels.items() if name != "system")
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_prometheus_has_the_verdict_as_a_set_of_states(bad: Verdict) -> None:
    assert samples(prometheus.metrics(bad, {}))["railgauge_campaign_verdict"] == {
        ("accept",): 0,
        ("provisional accept",): 0,
        ("reject",): 1,
        ("inconclusive",): 0,
    }


def test_prometheus_has_numbers_in_base_units(bad: Verdict) -> None:
    found = samples(prometheus.metrics(bad, {}))["railgauge_bandwidth_bytes_per_second"]
    key = "hdr", "RdmaBandwidth", "bandwidth 1 MiB write", "worst"
    assert found[key] == pytest.approx(171.4e9 / 8)


def test_prometheus_has_the_last_accept_of_each_node_and_0_where_there_is_none(
    bad: Verdict,
) -> None:
    found = samples(prometheus.metrics(bad, {"n1": FINISHED}))
    accepted = found["railgauge_node_last_accept_timestamp_seconds"]
    assert accepted["hdr", "n1"] == 1795342788 and accepted["hdr", "n2"] == 0


def line(partition: str, node: str, kept_by: Any = "", **rails: Rail) -> NodeSummary:
    """Of a node that was never tested."""
    state = "held: railgauge: Path" if kept_by else "in service"
    never = dict.fromkeys(("age_days", "accepted", "tested", "judged", "doubted"))
    return NodeSummary(
        node=node,
        partition=partition,
        state=state,
        kept_by=kept_by,
        changed=False,
        rails=rails,
        **never,
    )


def test_prometheus_has_when_each_rail_was_last_well_and_the_nodes_out_of_service(
    bad: Verdict,
) -> None:
    campaign = "20261124T100000Z-hdr-000001"
    well = {"0": Rail(campaign=campaign, age_days=1.0), "1": Rail()}
    kept: dict[str, Any] = {"kept_by": "railgauge"}
    covered = [line("hdr", "n1", **kept, **well), line("hdr", "n2")]
    found = samples(prometheus.metrics(bad, {}, covered))
    began = datetime.datetime(2026, 11, 24, 10, tzinfo=datetime.timezone.utc).timestamp()
    assert found["railgauge_rail_last_well_timestamp_seconds"] == {
        ("hdr", "n1", "0"): began,
        ("hdr", "n1", "1"): 0,
    }
    assert found["railgauge_node_out_of_service"] == {("hdr", "n1", "railgauge"): 1}


def test_prometheus_has_the_nodes_that_changed_since_they_were_accepted(bad: Verdict) -> None:
    changed = line("hdr", "n1").model_copy(update={"changed": True})
    found = samples(prometheus.metrics(bad, {}, [changed, line("hdr", "n2")]))
    assert found["railgauge_node_changed_since_accept"] == {("hdr", "n1"): 1, ("hdr", "n2"): 0}


def test_prometheus_has_the_nodes_that_this_campaign_left_out(bad: Verdict) -> None:
    """After a patrol of some, the others' age still grows."""
    covered = [line(*of) for of in (("hdr", "n1"), ("hdr", "n99"), ("cpu", "c1"))]
    found = samples(prometheus.metrics(bad, {"n99": FINISHED}, covered))
    accepted = found["railgauge_node_last_accept_timestamp_seconds"]
    assert accepted["hdr", "n99"] == 1795342788 and accepted["cpu", "c1"] == 0
    assert ("hdr", "n2") in accepted


def test_prometheus_takes_no_rehearsal(bad: Verdict) -> None:
    with pytest.raises(RailgaugeError, match="is a rehearsal"):
        prometheus.metrics(pages.simulated(bad), {})


def test_every_metric_of_ours_has_a_name_of_its_own_with_its_unit() -> None:
    names = list(prometheus.names())
    assert len(set(names)) == len(names)
    assert prometheus.metric_of("latency_p99").name == "railgauge_latency_p99_seconds"
    assert {metric.unit for metric in METRICS.values()} <= prometheus.UNITS.keys()


def test_the_document_has_every_metric() -> None:
    document = (paths.HOME / "docs" / "report.md").read_text(encoding="utf-8")
    assert [name for name in prometheus.names() if f"`{name}`" not in document] == []


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    text = (paths.HOME / "docs" / "grafana" / "railgauge.json").read_text(encoding="utf-8")
    asked = set(re.findall(r"railgauge_\w+", text))
    assert len(asked) > 8 and asked <= set(prometheus.names())


def promtool(*words: str, given: str = "") -> str:
    """What it has to say of it; it has to accept it. `bin/bootstrap dev` fetches it."""
    program = shutil.which("promtool") or str(paths.HOME / ".lab" / "bin" / "promtool")
    done = subprocess.run(
        [program, *words],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("text", ["harmless", *pages.HOSTILE])
def test_promtool_has_nothing_to_say_of_the_metrics(tmp_path: Path, text: str) -> None:
    hostile = pages.hostile(tmp_path, text)
    of = dataclasses.replace(hostile.campaign, simulated=None)
    made = prometheus.metrics(dataclasses.replace(hostile, campaign=of), {"a": FINISHED})
    assert promtool("check", "metrics", given=made) == ""


def test_promtool_reads_each_query_of_the_dashboard(tmp_path: Path) -> None:
    text = (paths.HOME / "docs" / "grafana" / "railgauge.json").read_text(encoding="utf-8")
    queries = re.findall(r'"expr": ("(?:[^"\\]|\\.)*")', text)
    # Grafana puts a value in the place of each.
    plain = [re.sub(r"\$(\w+|{\w+})", "x", json.loads(query)) for query in queries]
    rules = [{"record": f"r{number}", "expr": query} for number, query in enumerate(plain)]
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"SUCCESS: {len(queries)} rules found" in promtool("check", "rules", str(path))


# --- tables --------------------------------------------------------------------------------------


def test_csv_has_a_row_a_number_with_its_condition(bad: Verdict) -> None:
    table = list(csv.DictReader(io.StringIO(rows.as_csv(bad))))
    (worst, _) = [row for row in table if row["value"] == "171.4"]
    assert len(table) == sum(len(case.rows) for case in bad.cases)
    for name, value in (
        ("place", "n1:n2:1-1"),
        ("unit", "Gb/s"),
        ("status", "out"),
        ("lowest", "361.0"),
        ("passed", "false"),
        ("delay_ms", ""),
    ):
        assert worst[name] == value


def test_parquet_has_the_same_as_csv(bad: Verdict, tmp_path: Path) -> None:
    rows.write_parquet(bad, tmp_path / "all.parquet")
    frame = polars.read_parquet(tmp_path / "all.parquet")
    assert frame.columns == list(rows.COLUMNS)
    assert frame["value"].to_list() == [row["value"] for row in rows.rows(bad)]


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_nodes_in_slurm: None) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    folder = tmp_path / "campaigns" / "20261122T101655Z-lab-7578a0"
    folder.parent.mkdir()
    return Recorded(folder).write().folder


@pytest.mark.parametrize("kind", ["csv", "parquet", "junit", "markdown", "prometheus"])
def test_export_writes_each_kind(campaign: Path, tmp_path: Path, kind: str) -> None:
    result = invoke(export, ["latest", f"--{kind}", str(tmp_path / "made")])
    assert result.exit_code == 0, result.exception
    assert (tmp_path / "made").stat().st_size > 100 and not list(tmp_path.glob(".made*"))


def test_export_prints_to_standard_output(campaign: Path) -> None:
    assert invoke(export, ["latest", "--csv", "-"]).output.startswith("campaign,system")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "nothing to write"),
        (["--parquet", "-"], "Parquet is no text"),
        (["--csv", "/nowhere/x.csv"], "No such file or directory"),
        (["--parquet", "/nowhere/x.parquet"], "No such file or directory"),
    ],
)
def test_export_says_what_is_wrong(campaign: Path, options: list[str], said: str) -> None:
    result = invoke(export, ["latest", *options])
    assert result.exit_code != 0 and said in str(result.exception)


def test_the_age_of_a_node_is_that_of_its_newest_acceptance(campaign: Path) -> None:
    older = campaign.with_name("20261121T101655Z-lab-7578a1")
    older.mkdir()
    write_standings(older / STANDING, {"n1": standing(), "n2": standing()})
    write_standings(campaign / STANDING, {"n1": standing("not accepted")})
    text = invoke(export, ["latest", "--prometheus", "-"]).stdout
    found = samples(text)["railgauge_node_last_accept_timestamp_seconds"]
    assert {node: when for (_, node), when in found.items()}["n1"] == 1795256215


def test_prometheus_counts_findings_of_each_weight(bad: Verdict) -> None:
    provisional = dataclasses.replace(bad.findings[0], weight="provisional accept")
    verdict = dataclasses.replace(bad, findings=(*bad.findings, provisional))
    found = samples(prometheus.metrics(verdict, {}))["railgauge_findings"]
    assert found == {("reject",): 2, ("inconclusive",): 0, ("provisional accept",): 1}
