"""The checks of a subnet: what a job left decides, and what it did not leave passes nothing."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.campaign.folder import RESULT_FILE, Campaign, Requested, Scope, Session
from railgauge.checks.framework.place_run import no_bound
from railgauge.checks.preflight import infiniband_fabric, subnet_state
from railgauge.model.failure import ENVIRONMENT
from railgauge.model.record import read_record
from railgauge.node.orders.places import SingleNodeOrder
from railgauge.verdict.decision import node_status
from railgauge.verdict.decision.rules import decide
from railgauge.verdict.decision.verdict import Verdict
from tests.unit import records
from tests.unit.checks import ended_jobs

DATA = paths.HOME / "tests" / "data" / "infiniband" / "counting"
TEXTS = {path.name: path.read_text() for path in sorted((DATA / "before").iterdir())}
LATER = (DATA / "after" / "ibqueryerrors.txt").read_text()
NODES = [f"n{number}" for number in range(1, 9)]

#: As ibnetdiscover ended where no umad device can be opened.
NO_RIGHTS = {
    "ibnetdiscover.txt": "ibnetdiscover: exit code 255: ./libibnetdisc/ibnetdisc.c:799; can't "
    "open MAD port ((null):0)"
}

#: As ibqueryerrors ended in lab-ib after `railgauge lab fault add opensm-stop`.
NO_MANAGER = (
    "ibqueryerrors --details --threshold-file /dev/null: exit code 0: Query SA failed: Connection "
    "timed out; sa call path_query failed"
)


def narrow(texts: Mapping[str, str], switch: str, far: str) -> dict[str, str]:
    """The outputs with one lane of twelve between a switch and another device, at both ends."""
    device, topology, links = "", [], []
    for line in texts["ibnetdiscover.txt"].split("\n"):
        if line.startswith(("Switch", "Ca")):
            device = _names(line.partition("# ")[2])[0]
        elif line.startswith("[") and {device, _names(line.partition("# ")[2])[0]} == {switch, far}:
            line = line.replace("12xQDR", "1xQDR")
        topology.append(line)
    for line in texts["iblinkinfo.txt"].split("\n"):
        same = set(_names(line)) == {switch, far}
        links.append(line.replace("(12X ", "( 1X ") if same else line)
    changed = {"ibnetdiscover.txt": "\n".join(topology), "iblinkinfo.txt": "\n".join(links)}
    assert changed["ibnetdiscover.txt"].count(" 1xQDR") > texts["ibnetdiscover.txt"].count(" 1xQDR")
    return {**texts, **changed}


def _names(line: str) -> list[str]:
    return [name.strip() for name in re.findall('"([^"]*)"', line)]


def left(texts: Mapping[str, str] | None = None, errors: Mapping[str, str] | None = None) -> str:
    """What a node's program leaves."""
    packed = {
        file: base64.b64encode(zlib.compress(text.encode())).decode()
        for file, text in (texts or {}).items()
    }
    return json.dumps({"guids": [], "texts": packed, "errors": dict(errors or {})})


Leave = Callable[..., Any]


def readers(check: Any) -> list[str]:
    """The nodes that read the subnet in the job of a check."""
    how = check.partition_data.extras.infiniband
    return list(infiniband_fabric.readers(how, check.pinned_nodes))


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    return tmp_path / "campaign"


@pytest.fixture
def ended(tmp_path: Path, campaign: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leave]:
    """A check of lab-ib that judges what its nodes left, both readers with these outputs."""
    with ended_jobs.session("lab-ib", tmp_path) as known:

        def leave(
            texts: Mapping[str, str] | None = TEXTS,
            errors: Mapping[str, str] | None = None,
            name: str = infiniband_fabric.FIRST,
            lost: Mapping[str, str] | None = None,
            **files: str,
        ) -> Any:
            stage = paths.session_folder() / "stage" / "lab-ib" / "ns" / "builtin" / f"{name}_1"
            check = ended_jobs.ended(known[name].kind(variant_num=0), stage)
            check._rfm_dry_run = True
            check.select_places()
            of_node = {place.place: left() for place in check.places}
            of_node |= dict.fromkeys(readers(check), left(texts, errors))
            of_node |= files
            sides = {
                place: {
                    "rank0": ended_jobs.side(
                        ended_jobs.exit_line(subnet_state.TOOL, "rank0", place),
                        "",
                        files={subnet_state.FILE: text} if text else {},
                    )
                }
                for place, text in of_node.items()
                if place not in (lost or {})
            }
            outcomes = dict.fromkeys(of_node, ended_jobs.DONE)
            outcomes |= {place: ("lost", why) for place, why in (lost or {}).items()}
            ended_jobs.Left(sides, outcomes, tuple(NODES), dict(lost or {})).write(check)
            ended_jobs.judge(check)
            return check

        yield leave


def failures(check: Any) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Place -> kind and nodes of each failure; those of the job at ""."""
    record = read_record(Path(check.stagedir, RESULT_FILE))
    assert record is not None
    found = {r.place: [(f.kind, f.nodes) for f in r.failures] for r in record.results}
    found[""] = [(f.kind, f.nodes) for f in record.failures]
    return {place: of for place, of in found.items() if of}


def verdict(check: Any, campaign: Path, result: str = "fail") -> Verdict:
    """The verdict of a campaign of this check alone, which is required."""
    plan = records.planned(
        type(check).__name__,
        check.display_name,
        check.unique_name,
        NODES,
        places=[{"name": node, "nodes": [node]} for node in NODES],
    )
    (campaign / "plan.json").write_text(json.dumps([plan]))
    end = {"unique_name": check.unique_name, "result": result, "stagedir": check.stagedir}
    records.leave_report(campaign, [plan], [[{**end, "partition": "ns"}]], system="lab-ib")
    scope = Scope({"ns": NODES}, {"ns": [type(check).__name__]})
    found = Campaign(campaign, "lab-ib", "acceptance", scope, Requested([], {}, {}), "finished")
    found.session = Session(int(result == "fail"), "")
    found.save()
    return decide(found)


# ---- the first reading ----


def test_a_healthy_subnet_passes_on_every_node(ended: Leave, campaign: Path) -> None:
    check = ended()
    assert failures(check) == {}
    assert verdict(check, campaign, "pass").decision == "accept"
    kept = Path(check.stagedir, infiniband_fabric.OUTPUTS)
    assert {path.name: path.read_text() for path in kept.iterdir()} == TEXTS


def test_a_narrow_link_of_a_host_rejects_that_host(ended: Leave, campaign: Path) -> None:
    check = ended(narrow(TEXTS, "leaf1", "n1 mlx5_0"))
    assert failures(check) == {"n1": [("link-width", ("n1",))]}
    found = verdict(check, campaign)
    (finding,) = found.findings
    assert (found.decision, finding.nodes, found.failing_nodes) == ("reject", ("n1",), ["n1"])
    for words in ("leaf1 port 3", "n1 mlx5_0 port 1", "1 lanes of 12"):
        assert words in finding.message
    assert finding.next_step
    assert found.passing_nodes == NODES[1:]
    assert [node_status.why_not(found, node) for node in NODES[1:]] == [""] * 7
    assert "1 lanes of 12" in node_status.why_not(found, "n1")


def test_a_narrow_link_between_switches_accuses_no_node(ended: Leave, campaign: Path) -> None:
    check = ended(narrow(TEXTS, "leaf1", "spine2"))
    assert failures(check) == {"": [("link-width", ())]}
    found = verdict(check, campaign)
    (finding,) = found.findings
    assert (found.decision, finding.kind, finding.nodes) == ("reject", "link-width", ())
    assert "spine2 port 1 (cable to leaf1 port 8)" in finding.message
    assert (found.suspects, found.failing_nodes) == ((), [])
    assert found.passing_nodes == NODES
    # The gate keeps no node out for it, and blames none.
    assert [node_status.why_not(found, node) for node in NODES] == [""] * 8
    assert [node_status.failed(found, node) for node in NODES] == [""] * 8


@pytest.mark.parametrize(
    ("texts", "errors", "says", "step"),
    [
        ({}, NO_RIGHTS, "can't open MAD port", 'KERNEL=="umad*"'),
        ({}, {"a": "ibnetdiscover is not installed"}, "not installed", "install infiniband-diags"),
        (
            {**TEXTS, "ibnetdiscover.txt": TEXTS["ibnetdiscover.txt"][:3000]},
            {},
            "ibnetdiscover",
            "save it again",
        ),
        (
            {file: text for file, text in TEXTS.items() if file != "dump_fts.txt"},
            {"dump_fts.txt": "dump_fts: no end after 3 s"},
            "no end after 3 s",
            "timeout_s",
        ),
        (TEXTS, {"ibqueryerrors.txt": NO_MANAGER}, "Query SA failed", "sminfo"),
    ],
    ids=["no rights", "no program", "a part of a text", "one text is missing", "no manager"],
)
def test_what_was_not_read_is_inconclusive_and_accuses_no_node(
    ended: Leave,
    campaign: Path,
    texts: Mapping[str, str],
    errors: Mapping[str, str],
    says: str,
    step: str,
) -> None:
    check = ended(texts, errors)
    assert failures(check) == {node: [(ENVIRONMENT, ())] for node in NODES}
    found = verdict(check, campaign)
    (finding,) = found.findings
    assert found.decision == "inconclusive"
    assert says in finding.message and step in finding.next_step
    assert (found.suspects, found.failing_nodes) == ((), [])


def test_faults_are_reported_although_not_all_was_read(ended: Leave, campaign: Path) -> None:
    texts = narrow(narrow(TEXTS, "leaf1", "n1 mlx5_0"), "leaf1", "spine2")
    del texts["dump_fts.txt"]
    check = ended(texts, {"dump_fts.txt": "dump_fts: no end after 3 s"})
    others = {node: [(ENVIRONMENT, ())] for node in NODES[1:]}
    assert failures(check) == {
        **others,
        "": [("link-width", ())],
        "n1": [("link-width", ("n1",))],
    }
    assert verdict(check, campaign).decision == "reject"


@pytest.mark.parametrize("text", ["", "{", left({}, {})])
def test_readers_that_left_nothing_pass_no_node(ended: Leave, campaign: Path, text: str) -> None:
    check = ended(n1=text, n8=text)
    assert failures(check) == {node: [(ENVIRONMENT, ())] for node in NODES}
    assert verdict(check, campaign).decision == "inconclusive"


@pytest.mark.parametrize("text", ["", left({}, NO_RIGHTS)], ids=["nothing", "no link"])
def test_one_good_reading_is_enough(ended: Leave, text: str) -> None:
    """n1's own link may be what is broken."""
    check = ended(narrow(TEXTS, "leaf1", "n1 mlx5_0"), n1=text)
    assert failures(check) == {"n1": [("link-width", ("n1",))]}


def test_a_reader_that_is_lost_is_the_only_one_that_is_named(ended: Leave, campaign: Path) -> None:
    check = ended(lost={"n1": "its agent did not connect within 60 s"})
    assert list(failures(check)) == ["n1"]
    assert verdict(check, campaign).decision == "reject"


def test_without_expected_cabling_the_links_are_judged_by_their_ends(
    ended: Leave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infiniband_fabric, "EXPECTED", "nothing.json")
    check = ended()
    assert failures(check) == {}
    (note,) = check.notes_of_job()
    assert "configs/systems/lab-ib/nothing.json is missing" in note


def test_a_broken_expected_cabling_is_inconclusive(
    ended: Leave, campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.json").write_text("{")
    monkeypatch.setattr(infiniband_fabric, "EXPECTED", str(tmp_path / "broken.json"))
    found = verdict(ended(), campaign)
    assert found.decision == "inconclusive"
    assert "broken.json" in found.findings[0].message


def test_the_named_node_reads_else_the_first_and_the_last_one(ended: Leave) -> None:
    check = ended()
    reading = [p.node for p in check.places if "--read" in _argv(check, p)]
    assert reading == readers(check) == ["n1", "n8"]
    how = check.partition_data.extras.infiniband
    named = how.model_copy(update={"node": "n5"})
    assert infiniband_fabric.readers(named, NODES) == ["n5"]
    assert infiniband_fabric.readers(named, ["n2", "n3", "n4"]) == ["n2", "n4"]
    assert infiniband_fabric.readers(how, ["n2"]) == ["n2"]


def _argv(check: Any, place: Any) -> tuple[str, ...]:
    order = check.run_at(place, check.partition_data).order(no_bound)
    assert isinstance(order, SingleNodeOrder)
    return order.argv


# ---- the second reading ----

SECOND = "InfinibandCounters"


def test_a_subnet_that_stayed_as_it_was_passes(ended: Leave, campaign: Path) -> None:
    ended()
    check = ended(name=SECOND)
    assert failures(check) == {}
    assert verdict(check, campaign, "pass").decision == "accept"


def test_errors_that_were_counted_meanwhile_reject_and_accuse_no_node(
    ended: Leave, campaign: Path
) -> None:
    ended()
    check = ended({**TEXTS, "ibqueryerrors.txt": LATER}, name=SECOND)
    assert failures(check) == {"": [("counter-moved", ())], "n5": [(ENVIRONMENT, ())]}
    found = verdict(check, campaign)
    finding = next(finding for finding in found.findings if finding.weight == "reject")
    assert (found.decision, finding.nodes, found.suspects) == ("reject", (), ())
    # The port is at n5, and the cause may be at the switch: n5 is not judged, all others are.
    assert "one end of a fault" in node_status.why_not(found, "n5")
    assert [node for node in NODES if node_status.why_not(found, node)] == ["n5"]
    assert "SymbolErrorCounter moved by 91, from 21 to 112" in finding.message


def test_a_few_errors_are_a_note(ended: Leave, monkeypatch: pytest.MonkeyPatch) -> None:
    ended()
    later = LATER.replace("== 112]", "== 31]")
    assert later != LATER
    check = ended({**TEXTS, "ibqueryerrors.txt": later}, name=SECOND)
    assert failures(check) == {}
    assert "SymbolErrorCounter moved by 10" in check.notes_of_job()[0]


def test_a_link_that_lost_lanes_meanwhile_is_its_hosts(ended: Leave) -> None:
    ended(narrow(TEXTS, "leaf1", "n1 mlx5_0"))
    both = narrow(narrow(TEXTS, "leaf1", "n1 mlx5_0"), "leaf2", "n3 mlx5_1")
    assert failures(ended(both, name=SECOND)) == {"n3": [("link-width", ("n3",))]}


@pytest.mark.parametrize("without", ["all", "ibqueryerrors.txt"])
def test_without_a_first_reading_nothing_passes(ended: Leave, campaign: Path, without: str) -> None:
    if without != "all":
        ended({file: text for file, text in TEXTS.items() if file != without}, {without: "failed"})
    check = ended(name=SECOND)
    assert failures(check) == {node: [(ENVIRONMENT, ())] for node in NODES}
    assert verdict(check, campaign).decision == "inconclusive"


def test_a_resumed_session_compares_with_the_first_reading_of_the_campaign(
    ended: Leave, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Path(ended().stagedir)
    monkeypatch.setenv(paths.SESSION_VARIABLE, "2")
    again = {**TEXTS, "ibqueryerrors.txt": LATER}
    assert Path(ended(again).stagedir) != first
    found = failures(ended(again, name=SECOND))
    assert found == {"": [("counter-moved", ())], "n5": [(ENVIRONMENT, ())]}
