"""What is known of each node from all campaigns."""

from __future__ import annotations

import datetime
import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import systems
from railgauge.campaign.folder import STANDING
from railgauge.cli import cli
from railgauge.gate import coverage
from railgauge.model.record import Standing, write_standings
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import SlurmNode
from tests.command_line import invoke
from tests.unit.widths import assert_fits

NOW = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.timezone.utc)
FIRST = "20261101T120000Z-lab-000001"
SECOND = "20261112T120000Z-lab-000002"
THIRD = "20261121T120000Z-lab-000003"


def standing(outcome: Any = "accepted", **changes: Any) -> Standing:
    why = "" if outcome == "accepted" else "slow"
    told = {"measured": True, "checks": ("Path",), "rails": {}, "fingerprint": "f1", **changes}
    return Standing(outcome=outcome, why=why, **told)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    (tmp_path / "gate" / "lab").mkdir(parents=True)
    return tmp_path


def ended(results: Path, campaign: str, **nodes: Standing) -> Path:
    folder = results / "campaigns" / campaign
    folder.mkdir(parents=True, exist_ok=True)
    write_standings(folder / STANDING, nodes)
    return folder / STANDING


def links(*counts: tuple[int, int]) -> Standing:
    return standing(carriers={f"eth{number}": count for number, count in enumerate(counts)})


def test_a_link_that_went_and_came_between_two_tests_is_reported(results: Path) -> None:
    ended(results, FIRST, n1=links((2, 2), (2, 4)), n2=links((2, 2)))
    assert coverage.read("lab").nodes["n1"].flaps == 0
    ended(results, SECOND, n1=links((6, 6), (4, 4)), n2=links((2, 2)))
    found = coverage.read("lab").nodes
    assert (found["n1"].flaps, found["n2"].flaps) == (4, 0)
    (line,) = coverage.lines("lab", ["n1"], {}, NOW)
    assert line.flaps == 4
    first, second = "2026-11-01 12:00+00:00", "2026-11-12 12:00+00:00"
    assert line.flapped == f"its links went or came 4 times between {first} and {second}"
    # It has settled: of the last test nothing went in between.
    ended(results, THIRD, n1=links((6, 6), (4, 4)))
    assert coverage.read("lab").nodes["n1"].flaps == 0


def test_a_node_that_started_again_has_counted_again(results: Path) -> None:
    ended(results, FIRST, n1=links((12, 12)))
    ended(results, SECOND, n1=links((2, 2)))
    assert coverage.read("lab").nodes["n1"].flaps == 0


def test_what_comes_late_says_nothing_of_links(results: Path) -> None:
    ended(results, THIRD, n1=links((6, 6)))
    assert coverage.read("lab").nodes["n1"].carriers == {"eth0": 6}
    ended(results, FIRST, n1=links((2, 2)))
    known = coverage.read("lab").nodes["n1"]
    assert (known.carriers, known.flaps) == ({"eth0": 6}, 0)


@pytest.mark.parametrize(
    ("then", "now", "changed"),
    [((), ("gpu/0/vbios",), False), (("gpu/0/vbios",), (), False), (("x",), ("x",), True)],
)
def test_a_field_that_could_not_be_read_is_no_change(
    results: Path, then: tuple[str, ...], now: tuple[str, ...], changed: bool
) -> None:
    """It alone makes another fingerprint."""
    ended(results, FIRST, n1=standing(unknown=then))
    ended(results, SECOND, n1=standing("not accepted", fingerprint="f2", unknown=now))
    assert coverage.read("lab").nodes["n1"].changed is changed


def test_the_last_campaign_that_accepted_a_node_counts(results: Path) -> None:
    ended(results, FIRST, n1=standing(), n2=standing())
    ended(results, SECOND, n1=standing("provisional"))
    ended(results, THIRD, n1=standing("not accepted", fingerprint="f2"))
    found = coverage.read("lab").nodes
    assert found["n1"].accepted is not None and found["n1"].accepted.campaign == SECOND
    assert found["n1"].tested is not None and found["n1"].tested.campaign == THIRD
    assert found["n1"].changed
    assert found["n2"].accepted is not None and found["n2"].accepted.campaign == FIRST
    assert not found["n2"].changed


def test_a_node_that_was_not_tested_is_neither_accepted_nor_judged_by_that(results: Path) -> None:
    ended(results, FIRST, n1=standing())
    ended(results, SECOND, n1=standing("not tested").model_copy(update={"alarms": {}}))
    found = coverage.read("lab").nodes["n1"]
    assert found.tested is not None and found.tested.campaign == SECOND
    assert found.accepted is not None and found.accepted.campaign == FIRST
    assert found.judged is None or found.judged.campaign == FIRST


def test_what_measured_nothing_on_a_node_tested_nothing(results: Path) -> None:
    ended(results, FIRST, n1=standing("not accepted", measured=False))
    assert coverage.read("lab").nodes == {}


def test_a_rail_has_the_last_campaign_in_which_it_was_well(results: Path) -> None:
    ended(results, FIRST, n1=standing(rails={"0": True, "1": True}))
    ended(results, SECOND, n1=standing("not accepted", rails={"0": True, "1": False}))
    assert coverage.read("lab").nodes["n1"].rails == {"0": SECOND, "1": FIRST}


def test_campaigns_of_other_systems_do_not_count(results: Path) -> None:
    ended(results, "20261101T120000Z-lab32-000001", n1=standing())
    ended(results, "20261101T120000Z-my-lab-000001", n1=standing())
    assert coverage.read("lab").nodes == {}


def test_only_new_campaigns_are_read_again(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(results, FIRST, n1=standing())
    before = coverage.read("lab")
    opened: list[Path] = []
    original = coverage.record.read_standings

    def noted(path: Path) -> Any:
        opened.append(path)
        return original(path)

    monkeypatch.setattr(coverage.record, "read_standings", noted)
    assert coverage.read("lab") == before and opened == []
    new = ended(results, SECOND, n1=standing())
    coverage.read("lab")
    assert opened == [new]


def test_a_campaign_that_went_on_is_read_again(results: Path) -> None:
    path = ended(results, SECOND, n1=standing())
    ended(results, FIRST, n1=standing())
    coverage.read("lab")
    ended(results, SECOND, n1=standing("not accepted"))
    os.utime(path, ns=(1, 1))
    found = coverage.read("lab").nodes["n1"]
    assert found.accepted is not None and found.accepted.campaign == FIRST


def test_a_campaign_that_was_removed_counts_no_more(results: Path) -> None:
    path = ended(results, FIRST, n1=standing())
    coverage.read("lab")
    path.unlink()
    assert coverage.read("lab").nodes == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"n1": 1}', '{"n1": {"outcome": "yes"}}'])
def test_a_broken_record_says_nothing_of_any_node(results: Path, content: str) -> None:
    ended(results, FIRST, n1=standing("not accepted"))
    ended(results, SECOND, n1=standing()).write_text(content)
    found = coverage.read("lab").nodes["n1"]
    assert found.accepted is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"campaigns": 1}', '{"nodes": {"n1": 2}}'])
def test_a_broken_file_of_the_store_is_made_again(results: Path, content: str) -> None:
    ended(results, FIRST, n1=standing())
    good = coverage.read("lab")
    (results / "gate" / "lab" / "coverage-6.json").write_text(content)
    assert coverage.read("lab") == good


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["accepted", "provisional", "not accepted"]),
            st.dictionaries(st.sampled_from(["0", "1"]), st.booleans()),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_it_does_not_matter_in_which_order_campaigns_end(
    stories: list[tuple[str, dict[str, bool]]],
) -> None:
    told = [
        (f"202611{day:02}T000000Z-lab-{day:06}", {"n1": standing(outcome, rails=rails)})
        for day, (outcome, rails) in enumerate(stories, start=1)
    ]
    found = []
    for order in itertools.permutations(told):
        known: dict[str, coverage.NodeCoverage] = {}
        for campaign, standings in order:
            known = coverage.with_campaign(known, campaign, standings)
        found.append(known)
    assert all(one == found[0] for one in found)


# ---- the command ----


def asked(
    monkeypatch: pytest.MonkeyPatch,
    states: dict[str, SlurmNode],
    *options: str,
    stderr: Sequence[str] = (),
) -> str:
    monkeypatch.setattr("railgauge.acceptance.session.in_lab", lambda system: False)
    monkeypatch.setattr(slurm_nodes, "show", lambda names=(): states)
    answer = invoke(cli, ["coverage", "--system", "lab", *options], stderr=stderr)
    assert answer.exit_code == 0, answer.output
    if "--json" not in options:
        assert_fits(answer.stdout)
    return answer.output


def test_each_node_says_when_it_was_accepted_and_what_became_of_it(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(results, FIRST, n1=standing(), n2=standing())
    ended(results, THIRD, n1=standing("not accepted", fingerprint="f2"))
    drained = frozenset({"IDLE", "DRAIN"})
    shown = asked(
        monkeypatch,
        {
            "n1": SlurmNode("n1", drained, reason="railgauge: Path n1: MTU", by="root"),
            "n2": SlurmNode("n2", frozenset({"IDLE"})),
            "n3": SlurmNode("n3", drained, reason="fan", by="bob"),
        },
        *("--nodes", "n[1-4]"),
    )
    text = " ".join(shown.split())
    assert "never accepted (n[3-4])" in text and "1 held (n1)" in text
    assert "1 out of service (n3)" in text and "never tested" in text
    assert "changed since" in text and FIRST in shown and THIRD in text.replace(" ", "")


def test_programs_get_the_same(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(results, FIRST, n5=standing(rails={"0": True}))
    shown = json.loads(asked(monkeypatch, {}, "--nodes", "n[5-6]", "--json"))
    nodes = {line["node"]: line for line in shown["nodes"]}
    assert nodes["n5"]["accepted"]["campaign"] == FIRST
    assert nodes["n5"]["rails"]["0"]["campaign"] == FIRST
    assert nodes["n6"]["rails"]["0"] == {"campaign": None, "age_days": None}
    assert nodes["n6"]["age_days"] is None and nodes["n6"]["state"] == "unknown"
    # Who waits longest comes first.
    assert [line["node"] for line in shown["nodes"]] == ["n6", "n5"]


def test_a_rail_that_a_node_is_known_to_lack_is_not_waited_for(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = systems.load("lab")
    vm = system.partition("vm")
    absent = [systems.Absent(node="n6", devices=["rxe1"], why="cable")]
    extras = vm.extras.model_copy(update={"absent": absent})
    lacking = vm.model_copy(update={"extras": extras})
    changed = system.model_copy(update={"partitions": [lacking]})
    monkeypatch.setattr(systems, "load", lambda name: changed)
    found = {line.node: set(line.rails) for line in coverage.lines("lab", ["n5", "n6"], {}, NOW)}
    assert found == {"n5": {"0", "1"}, "n6": {"0"}}


def test_a_rail_that_was_well_longer_ago_than_its_node_is_reported(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(results, FIRST, n5=standing(rails={"0": True, "1": True}))
    ended(results, SECOND, n5=standing(checks=("Path", "NodeState"), rails={"0": True}))
    text = " ".join(asked(monkeypatch, {}, "--nodes", "n5").split())
    assert "rail 1 last well" in text and "1 of 2 rails last well before their node was" in text
    by_rail = asked(monkeypatch, {}, "--nodes", "n5", "--rails").splitlines()
    last = {line.split()[2]: line for line in by_rail if line.startswith("n5")}
    assert SECOND in last["0"] and FIRST in last["1"]


def test_only_those_that_wait_longer_are_listed(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    ended(results, f"{now:%Y%m%dT%H%M%SZ}-lab-000001", n1=standing(), n2=standing())
    options = ("--nodes", "n[1-3]", "--older-than", "7", "--json")
    shown = json.loads(asked(monkeypatch, {}, *options))
    assert [line["node"] for line in shown["nodes"]] == ["n3"]


def test_without_slurm_the_records_are_shown(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(results, FIRST, n1=standing())
    monkeypatch.setattr("railgauge.acceptance.session.in_lab", lambda system: False)

    def silent(names: Any = ()) -> Any:
        raise SlurmError("slurmctld does not answer")

    monkeypatch.setattr(slurm_nodes, "show", silent)
    words = ["coverage", "--system", "lab", "--nodes", "n1"]
    answer = invoke(cli, words, stderr=["slurmctld does not answer"])
    assert answer.exit_code == 0 and FIRST in answer.stdout


FUTURE = "29380101T000000Z-lab-000004"


def test_a_campaign_from_the_future_hides_none_of_now(results: Path) -> None:
    ended(results, FUTURE, n1=standing(rails={"0": True}))
    ended(results, THIRD, n1=standing("not accepted", rails={"0": False}))
    found = coverage.read("lab").nodes["n1"]
    assert found.tested is not None and found.tested.campaign == THIRD
    assert found.accepted is None and found.rails == {}


def test_a_campaign_from_the_future_is_said(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(results, FUTURE, n1=standing())
    note = f"note: not counted, dated in the future by a clock that was wrong: {FUTURE}"
    asked(monkeypatch, {}, stderr=[note])
