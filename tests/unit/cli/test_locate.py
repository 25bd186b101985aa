"""`railgauge locate`: exit codes, JSON, lists of nodes, and errors."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import Result

from railgauge import paths
from railgauge.campaign.folder import RESULT_FILE, Campaign, Requested, Scope, Session
from railgauge.common.atomic import write_json
from railgauge.model import record
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from tests.command_line import railgauge
from tests.unit import records
from tests.unit.verdict.location.test_logs import folder

BETWEEN = paths.HOME / "tests/data/locate/healthy-between.csv"
#: How a message of an error begins.
ERROR = ["railgauge: "]
RETESTED = paths.HOME / "tests/data/locate/retested.csv"


def locate(*words: str | Path, stderr: Sequence[str] = (), **env: str) -> Result:
    return railgauge("locate", *map(str, words), stderr=stderr, **env)


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    path = tmp_path / "healthy.csv"
    path.write_text("a,b,value\n" + "".join(f"n{k},n{k + 1},24.{k}\n" for k in range(1, 9)))
    return path


def test_no_suspect_is_exit_code_0(healthy: Path) -> None:
    done = locate(healthy)
    assert (done.exit_code, done.stderr) == (0, "") and done.stdout.startswith("no suspect")


def test_a_pipe_is_read_as_a_table(healthy: Path) -> None:
    words = f"'{paths.HOME}/bin/railgauge' locate <(cat '{healthy}')"
    assert subprocess.run(["bash", "-c", words], check=False).returncode == 0


def test_what_is_not_excluded_is_of_the_node_that_was_measured_least(tmp_path: Path) -> None:
    """A reference node has as many good results as there are others, which have one each."""
    path = tmp_path / "star.csv"
    rows = "".join(f"n0,n{k},24.{k},{k}\n" for k in range(1, 9))
    path.write_text(f"a,b,value,round\n{rows}")
    assert "80 % on n1, which has only 1 good result." in locate(path).stdout


def test_values_that_are_too_few_to_compare_are_said(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("a,b,value\nn1,n2,24.5\nn2,n3,9\n")
    assert "no evidence: 2 values of a condition" in locate(path).stdout


@pytest.mark.parametrize("rows", ["n1,n2,24.5,1\nn2,n3,9,1\n", "n1,n2,,0\nn2,n3,,0\nn3,n1,,0\n"])
def test_nodes_that_are_not_judged_are_not_no_suspect(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"a,b,value,ok\n{rows}")
    done = locate(path, "--nodes-files", tmp_path)
    assert (done.exit_code, done.stderr) == (2, "")
    assert done.stdout.startswith("not judged: n[1-3]") and "nobody" not in done.stdout
    assert (tmp_path / "passing_nodes.txt").read_text() == ""
    assert json.loads(locate(path, "--json").stdout)["unjudged"] == ["n1", "n2", "n3"]


@pytest.mark.parametrize("rails", [False, True])
def test_a_node_that_has_missing_results_alone_is_not_judged(tmp_path: Path, rails: bool) -> None:
    """Or a rail of which all are missing, next to another that is good."""
    nodes = [f"n{number}" for number in range(1, 7)]
    rows = ["a,b,rail,value"]
    for rail in ("0", "1") if rails else ("",):
        for a, b in itertools.combinations(nodes, 2):
            lacks = "n3" in (a, b) and rail != "0"
            rows.append(f"{a},{b},{rail},{'' if lacks else 24}")
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(rows) + "\n")
    done = locate(path, "--nodes-files", tmp_path)
    assert done.exit_code == 2 and done.stdout.startswith("not judged: n3: ")
    assert "n3" not in (tmp_path / "passing_nodes.txt").read_text().split()


def test_suspects_are_exit_code_1_confirmed_or_not() -> None:
    assert [locate(path).exit_code for path in (BETWEEN, RETESTED)] == [1, 1]


def test_the_json_has_these_fields_and_no_others() -> None:
    document = json.loads(locate(RETESTED, "--json").stdout)
    assert list(document) == [
        "suspects",
        "missing",
        "rounds",
        "accuses_nobody",
        "unjudged",
        "cleared",
    ]
    assert document["rounds"] == 7 and document["missing"] == []
    first, second = document["suspects"]
    assert {first["name"], second["name"]} == {"n2", "n4"}
    for suspect in (first, second):
        assert list(suspect) == ["kind", "name", "state", "score", "why", "evidence", "confirm"]
        assert suspect["kind"] == "node" and suspect["confirm"] == []
        assert suspect["evidence"][0]["says"] == "convicts"


def test_what_is_not_confirmed_says_what_would() -> None:
    suspects = json.loads(locate(BETWEEN, "--json").stdout)["suspects"]
    assert [bool(suspect["confirm"]) for suspect in suspects] == [True, True]


def test_only_confirmed_nodes_are_excluded(tmp_path: Path) -> None:
    for path, failing, open_ones in ((BETWEEN, [], 4), (RETESTED, ["n2", "n4"], 0)):
        locate(path, "--nodes-files", tmp_path / path.stem)
        lists = [
            (tmp_path / path.stem / f"{kind}_nodes.txt").read_text().split()
            for kind in ("failing", "passing")
        ]
        assert lists[0] == failing and len(lists[0]) + len(lists[1]) == 12 - open_ones


def test_counters_of_a_switch_are_taken(healthy: Path, tmp_path: Path) -> None:
    counters = tmp_path / "uplinks.csv"
    counters.write_text("leaf,spine,events\nleaf1,spine1,3\n")
    assert locate(healthy, "--uplink-counters", counters).exit_code == 0
    counters.write_text("leaf,events\nleaf1,3\n")
    done = locate(healthy, "--uplink-counters", counters, stderr=ERROR)
    assert done.exit_code == 2 and "line 1, column spine" in done.stderr


def test_a_folder_of_outputs_of_nccl_tests_is_read(tmp_path: Path) -> None:
    for name, text in folder("n3").items():
        (tmp_path / name).write_text(text)
    done = locate(tmp_path, "--json")
    assert done.exit_code == 1
    assert [s["name"] for s in json.loads(done.stdout)["suspects"]] == ["n3"]


def test_a_file_without_a_result_next_to_outputs_leaves_nodes_not_judged(tmp_path: Path) -> None:
    for name, text in folder().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "README").write_text("one file for each pair\n")
    assert locate(tmp_path).exit_code == 0
    (tmp_path / "n1-n9.log").write_text("")
    done = locate(tmp_path)
    assert done.exit_code == 2 and "not judged: n9: " in done.stdout
    assert "left out: " in done.stdout and "n1-n9.log: nothing in it\n" in done.stdout
    (tmp_path / "n1-n9.log").rename(tmp_path / "last.log")
    done = locate(tmp_path)
    assert done.exit_code == 2 and f"not judged: the nodes in {tmp_path}/last.log\n" in done.stdout


def test_a_file_of_one_node_alone_or_without_an_ending_leaves_no_node_not_judged(
    tmp_path: Path,
) -> None:
    within = folder()["n1-n2.log"].replace(" on n2 ", " on n1 ")
    assert " n2 " not in within
    (tmp_path / "README").write_text("one file for each pair\n")
    for name, text in folder().items():
        (tmp_path / name.removesuffix(".log")).write_text(text)
    assert locate(tmp_path).exit_code == 0
    (tmp_path / "n1.log").write_text(within)
    (tmp_path / "n9-n1.log").write_text(folder()["n1-n2.log"])
    done = locate(tmp_path)
    assert done.exit_code == 0 and "n1.log:2: 1 host, n1, expected two" in done.stdout


def test_an_output_that_breaks_off_before_its_second_host_is_reported(tmp_path: Path) -> None:
    for name, text in folder().items():
        (tmp_path / name).write_text(text)
    head, found, _ = folder()["n8-n1.log"].replace(" on n8 ", " on n9 ").partition(" on n1 ")
    assert found and " on n9 " in head
    (tmp_path / "last.log").write_text(head.rpartition("\n")[0] + "\n")
    done = locate(tmp_path)
    assert done.exit_code == 2 and f"not judged: the nodes in {tmp_path}/last.log\n" in done.stdout


@pytest.mark.parametrize("name", ["g@n1", "@all"])
def test_a_name_with_an_at_is_a_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"a,b,value\n{name},n2,10\n")
    done = locate(path)
    assert done.exit_code == 2 and name in done.stdout and done.stderr == ""


def test_of_one_file_with_all_runs_one_that_broke_off_is_reported(tmp_path: Path) -> None:
    texts = list(folder().values())
    head = texts[0].partition("# Using devices")[0]
    (tmp_path / "all.log").write_text("".join([*texts, head, head]))
    done = locate(tmp_path)
    assert done.exit_code == 2 and f"not judged: the nodes in {tmp_path}/all.log\n" in done.stdout


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A ring of eight nodes; n3 is slow, and one place was not run."""
    folder = tmp_path / "campaigns" / "20261122T102033Z-lab-567bea"
    stage = folder / "stage" / "RdmaBandwidth"
    stage.mkdir(parents=True)
    nodes = [f"n{number}" for number in range(1, 9)]
    pairs = list(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    places = tuple(record.Place(f"{a}:{b}", (a, b)) for a, b in pairs)
    results = []
    for place in places[:-1]:
        value = 240.0 if "n3" in place.nodes else 390.0
        m = Measurement("bandwidth", value, "perftest", "write", "rdma", nodes=place.nodes)
        document = records.record([Row(m, None, None)])
        results.append({**document["results"][0], "place": place.name})
    whole = records.record(check="RdmaBandwidth", not_run={places[-1].name: "n1 went"})
    records.write(stage / RESULT_FILE, {**whole, "results": results})
    planned = records.planned("RdmaBandwidth", "RdmaBandwidth", "b_1", [], places=places)
    write_json(folder / "plan.json", [planned])
    ran = {"unique_name": "b_1", "partition": "ns", "result": "pass", "stagedir": str(stage)}
    records.leave_report(folder, [planned], [[ran]])
    scope, requested = Scope({"ns": nodes}, {}), Requested([], {}, {})
    done = Campaign(folder, "lab", "acceptance", scope, requested, state="finished")
    done.session = Session(0, "")
    done.save()
    return folder


@pytest.mark.parametrize("name", ["latest", "20261122T102033Z-lab-567bea", "path"])
def test_a_campaign_is_read_by_id_path_or_as_the_latest(campaign: Path, name: str) -> None:
    results = str(campaign.parent.parent)
    done = locate(campaign if name == "path" else name, "--json", RAILGAUGE_RESULTS=results)
    document = json.loads(done.stdout)
    assert [s["name"] for s in document["suspects"]] == ["n3"]
    assert [(m["place"], m["why"]) for m in document["missing"]] == [("n8:n1", "n1 went")]


def test_a_damaged_campaign_is_refused(campaign: Path) -> None:
    (campaign / "plan.json").write_text("[{")
    done = locate(campaign, stderr=ERROR)
    assert done.exit_code == 2 and "plan.json" in done.stderr


def test_a_wrong_cell_is_one_error_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,value\nn1,n2,fast\n")
    done = locate(path, "--json", stderr=ERROR)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{path}: line 2, column value: 'fast', expected" in done.stderr
    assert "next: " in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", [(), ("--nosuch", "x.csv"), ("nosuch.csv",), ("a", "b"), ("",), ("a" * 300,)]
)
def test_wrong_usage_is_exit_code_2_and_says_what_to_type(words: tuple[str, ...]) -> None:
    done = locate(*words, stderr=ERROR)
    assert done.exit_code == 2 and "next: railgauge " in done.stderr


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b,value\nn1,n2,\xff\xfe\n")
    assert locate(path, stderr=ERROR).exit_code == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_table_in_utf16_is_refused_by_its_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("a,b,value\nn1,n2,24.5\n".encode(encoding))
    for words in ([path], [BETWEEN, "--uplink-counters", path]):
        done = locate(*words, stderr=ERROR)
        assert done.exit_code == 2 and f"{path}: in UTF-16" in done.stderr
        assert "next: iconv -f UTF-16" in done.stderr


def test_an_output_in_utf16_is_missing_by_its_encoding(tmp_path: Path) -> None:
    for name, text in folder().items():
        (tmp_path / name).write_text(text, encoding="utf-16" if name == "n1-n2.log" else "utf-8")
    assert "n1-n2.log: in UTF-16 by its first bytes" in locate(tmp_path).stdout


def test_a_folder_of_outputs_in_utf16_is_refused_by_their_encoding(tmp_path: Path) -> None:
    (tmp_path / "n1-n2.txt").write_bytes("# nThread 1\n".encode("utf-16"))
    done = locate(tmp_path, stderr=ERROR)
    assert done.exit_code == 2 and "n1-n2.txt: in UTF-16 by its first bytes" in done.stderr
    assert "iconv -f UTF-16 -t UTF-8" in done.stderr


def test_a_folder_without_outputs_is_refused(tmp_path: Path) -> None:
    done = locate(tmp_path, stderr=ERROR)
    assert done.exit_code == 2 and "none with a result" in done.stderr


def test_help_is_exit_code_0() -> None:
    assert locate("--help").exit_code == 0
