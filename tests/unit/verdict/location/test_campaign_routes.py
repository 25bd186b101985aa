"""Which link between switches a verdict names, by the tables that the campaign has recorded."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from railgauge.campaign.folder import ROUTES
from railgauge.gate import testing as gate_testing
from railgauge.locating import Suspect
from railgauge.model.record import BrokenRecordError
from railgauge.model.routes import Route
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.decision import node_status
from railgauge.verdict.decision.rules import decide
from railgauge.verdict.location import switch_ports
from railgauge.verdict.location.campaign_routes import CampaignRoutes
from railgauge.verdict.location.locate import locate, name_suspects
from tests import on_subnet
from tests.on_subnet import HOSTS64, PARTITION, RAILS, TWO_SUBNETS, Cluster


@functools.cache
def cluster(reading: Path) -> Cluster:
    return Cluster(reading)


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    return tmp_path / "stage" / "InfinibandFabric_1"


#: As a description may have them: other names than in the subnet, and the right nodes.
LEAVES = {PARTITION: {f"n{number + 1}": f"rack{number // 16}" for number in range(64)}}


def verdict_of(
    cases: Sequence[Case], tmp_path: Path, routed: Sequence[str] = (PARTITION,)
) -> list[Suspect]:
    """The suspects of the verdict."""
    campaign = on_subnet.campaign(tmp_path, routed)
    routes = CampaignRoutes(campaign, cases)
    named = name_suspects(cases, LEAVES, routes=routes).suspects
    return switch_ports.shown(campaign, named, routes)


def told(suspects: Sequence[Suspect]) -> list[str]:
    return [f"{s.kind} {s.name} {s.direction}{'' if s.confirmed else '?'}" for s in suspects]


@pytest.mark.parametrize(
    ("link", "way", "at"),
    [
        ("leaf2:spine3", "up", "leaf2 port 19 (cable to spine3 port 2)"),
        ("leaf4:spine1", "down", "leaf4 port 17 (cable to spine1 port 4)"),
    ],
)
def test_a_slow_link_between_switches_is_named_with_its_ports(
    tmp_path: Path, stage: Path, link: str, way: str, at: str
) -> None:
    on_subnet.keep_reading(HOSTS64, stage)
    of = cluster(HOSTS64)
    cases = of.cases(of.sweep({f"{link} {way}": 0.6}, seed=1, most=5), stage)
    (suspect,) = verdict_of(cases, tmp_path)
    assert (suspect.kind, suspect.name, suspect.direction) == ("uplink", link, way)
    assert suspect.confirmed and suspect.failing_nodes == ()
    assert suspect.ports == (at,)
    assert suspect.checks == (on_subnet.CHECK,)


@pytest.mark.parametrize("reading", [RAILS, TWO_SUBNETS], ids=["one subnet", "two subnets"])
@pytest.mark.parametrize("rail", ["mlx5_0", "mlx5_1"])
def test_of_several_rails_the_link_of_one_rail_is_named(
    tmp_path: Path, stage: Path, rail: str, reading: Path
) -> None:
    """Each rail has leaves of its own; the other rail's are good."""
    on_subnet.keep_reading(reading, stage)
    of = cluster(reading)
    way = of.uplinks("n9", "n1", rail)
    assert way is not None
    link = f"{of.leaf('n9', rail)}:{way.up}"
    slow = {f"{link} up": 0.5}
    cases = []
    for one in ("mlx5_0", "mlx5_1"):
        cases += of.cases(of.sweep(slow, seed=3, rail=one, most=6), stage, one)
    (suspect,) = verdict_of(cases, tmp_path)
    assert told([suspect]) == [f"uplink {link} up"]
    assert [f"cable to {way.up} " in port for port in suspect.ports] == [True]


@pytest.mark.parametrize("link", ["leaf6:spine1", "leaf4:spine4", "leaf8:spine2"])
def test_a_link_that_two_pairs_cross_is_named_by_a_third_pair(
    tmp_path: Path, stage: Path, link: str
) -> None:
    """In rounds that a sweep adds by default. The two pairs may be slow themselves."""
    on_subnet.keep_reading(RAILS, stage)
    of = cluster(RAILS)
    cases = of.cases(of.sweep({f"{link} up": 0.5}, seed=2, rail="mlx5_1"), stage, "mlx5_1")
    assert told(verdict_of(cases, tmp_path))[0].startswith(f"uplink {link} up")


@pytest.mark.parametrize("seed", range(8))
def test_beside_a_slow_link_a_bad_node_is_named_and_no_other(
    tmp_path: Path, stage: Path, seed: int
) -> None:
    on_subnet.keep_reading(HOSTS64, stage)
    of = cluster(HOSTS64)
    cases = of.cases(of.sweep({"leaf2:spine3 up": 0.6, "n40": 0.4}, seed), stage)
    suspects = verdict_of(cases, tmp_path)
    assert {n for suspect in suspects for n in suspect.failing_nodes} <= {"n40"}
    assert "uplink leaf2:spine3 up" in told(suspects)


@pytest.mark.parametrize("seed", range(8))
def test_a_bad_node_is_no_link(tmp_path: Path, stage: Path, seed: int) -> None:
    on_subnet.keep_reading(HOSTS64, stage)
    of = cluster(HOSTS64)
    cases = of.cases(of.sweep({"n40": 0.4}, seed), stage)
    confirmed = [suspect for suspect in verdict_of(cases, tmp_path) if suspect.confirmed]
    assert {(s.kind, s.nodes) for s in confirmed} <= {("rail", ("n40",)), ("node", ("n40",))}
    assert confirmed


def test_locate_uses_the_recorded_routes_too(tmp_path: Path, stage: Path) -> None:
    on_subnet.keep_reading(HOSTS64, stage)
    of = cluster(HOSTS64)
    cases = of.cases(of.sweep({"leaf2:spine3 up": 0.6}, seed=1), stage)
    routes = CampaignRoutes(on_subnet.campaign(tmp_path), cases)
    assert told(locate(cases, LEAVES, routes=routes).suspects) == ["uplink leaf2:spine3 up"]


def test_the_decision_names_the_link_and_the_gate_gives_it_as_the_reason(tmp_path: Path) -> None:
    """From the folder of a campaign, as an acceptance leaves it."""
    of = cluster(HOSTS64)
    folder = tmp_path / "20261128T120000Z-ib-000001"
    folder.mkdir()
    results = of.sweep({"leaf2:spine3 up": 0.6}, seed=1, most=5)
    verdict = decide(on_subnet.recorded(folder, HOSTS64, of, results))
    assert verdict.decision == "reject" and verdict.failing_nodes == []
    assert told(verdict.suspects) == ["uplink leaf2:spine3 up"]
    at = "uplink leaf2:spine3 (leaf2 port 19 (cable to spine3 port 2))"
    low = {n for c in verdict.cases if c.failed for n in c.nodes}
    told_of = {node for node in of.hosts if node_status.links_at_fault(verdict, node)}
    assert told_of == low
    assert {at} == {text for n in low for text in node_status.links_at_fault(verdict, n)}
    reason = gate_testing._reason_to_stay_out(verdict, min(low), "slow")
    assert reason.startswith(f"slow; at fault: {at} ({folder.name})")


# ---- what gives no routes ----


def links(suspects: Sequence[Suspect]) -> list[str]:
    return [suspect.name for suspect in suspects if ":spine" in suspect.name]


@pytest.fixture
def slow(stage: Path) -> list[Case]:
    """Cases with a slow link, of which the routes are known."""
    on_subnet.keep_reading(HOSTS64, stage)
    of = cluster(HOSTS64)
    return of.cases(of.sweep({"leaf2:spine3 up": 0.6}, seed=1), stage)


def test_where_data_takes_other_routes_no_link_is_named(tmp_path: Path, slow: list[Case]) -> None:
    assert links(verdict_of(slow, tmp_path)) == ["leaf2:spine3"]
    assert links(verdict_of(slow, tmp_path, routed=())) == []
    assert links(verdict_of(slow, tmp_path, routed=("other",))) == []


@pytest.mark.parametrize("file", ["ibnetdiscover.txt", "dump_fts.txt"])
def test_a_reading_that_is_not_whole_gives_no_routes(
    tmp_path: Path, stage: Path, slow: list[Case], file: str
) -> None:
    whole = (stage / "subnet" / file).read_text()
    (stage / "subnet" / file).write_text(whole[: len(whole) * 9 // 10])
    assert links(verdict_of(slow, tmp_path)) == []


def test_of_two_subnets_one_that_was_not_read_whole_gives_no_routes(
    tmp_path: Path, stage: Path
) -> None:
    on_subnet.keep_reading(TWO_SUBNETS, stage)
    of = cluster(TWO_SUBNETS)
    way = of.uplinks("n9", "n1", "mlx5_0")
    assert way is not None
    slow = {f"{of.leaf('n9', 'mlx5_0')}:{way.up} up": 0.5}
    cases = of.cases(of.sweep(slow, seed=3, most=6), stage)
    assert links(verdict_of(cases, tmp_path)) != []
    (stage / "subnet" / "mlx5_1:1" / "dump_fts.txt").unlink()
    assert links(verdict_of(cases, tmp_path)) == []


def second_reading(stage: Path, slow: list[Case], **changes: str) -> list[Case]:
    """The cases with those of a check that has read the subnet after all else, where the texts have
    other words.
    """
    later = stage.parent / "InfinibandCounters_1"
    on_subnet.keep_reading(HOSTS64, later)
    for old, new in changes.items():
        for file in (later / "subnet").iterdir():
            file.write_text(file.read_text().replace(old, new))
    return [*slow, *cluster(HOSTS64).cases([], later)]


def test_a_second_reading_that_is_the_same_keeps_the_routes(
    tmp_path: Path, stage: Path, slow: list[Case]
) -> None:
    assert links(verdict_of(second_reading(stage, slow), tmp_path)) == ["leaf2:spine3"]


def test_routes_that_changed_during_the_campaign_are_not_used(
    tmp_path: Path, stage: Path, slow: list[Case]
) -> None:
    cases = second_reading(stage, slow)
    file = stage.parent / "InfinibandCounters_1" / "subnet" / "dump_fts.txt"
    text = file.read_text()
    # At leaf2 data for n64 has another port up.
    head, leaf, rest = text.partition("leaf2")
    number = next(n for n in (17, 18, 19, 20) if f"0x0006 {n:03} " in rest)
    other = 17 + (number - 16) % 4
    assert rest.startswith(rest.split(f"0x0006 {number:03} ")[0])
    file.write_text(head + leaf + rest.replace(f"0x0006 {number:03} ", f"0x0006 {other:03} ", 1))
    assert file.read_text() != text
    assert links(verdict_of(cases, tmp_path)) == []


def test_a_second_reading_that_is_not_whole_gives_no_routes(
    tmp_path: Path, stage: Path, slow: list[Case]
) -> None:
    cases = second_reading(stage, slow)
    (stage.parent / "InfinibandCounters_1" / "subnet" / "dump_fts.txt").unlink()
    assert links(verdict_of(cases, tmp_path)) == []


@pytest.mark.parametrize(
    "facts",
    [{"lid": "0x3ff"}, {"node_guid": "0000:0000:0000:0001"}, {"lid": None}, {"node_guid": ""}],
    ids=["another LID", "another HCA", "no LID", "no GUID"],
)
def test_a_node_whose_hca_the_tables_lack_gives_no_routes(
    tmp_path: Path, slow: list[Case], facts: dict[str, object]
) -> None:
    """As where LIDs were given again, or data took a NIC that is on no subnet."""
    node = slow[5].nodes[0]
    cases = [
        on_subnet.with_facts(case, node, **facts) if node in case.facts else case for case in slow
    ]
    assert links(verdict_of(cases, tmp_path)) == []


def test_a_damaged_list_of_partitions_is_an_error(tmp_path: Path, slow: list[Case]) -> None:
    campaign = on_subnet.campaign(tmp_path)
    (tmp_path / "static_routes.json").write_text('{"ib": 1')
    with pytest.raises(BrokenRecordError, match="static_routes"):
        CampaignRoutes(campaign, slow)


# ---- a table of the site ----


def by_table(cases: Sequence[Case], tmp_path: Path, partition: str) -> list[Suspect]:
    """The suspects of the verdict, where the campaign has the routes as a table."""
    of = cluster(HOSTS64)
    campaign = on_subnet.campaign(tmp_path, ())
    leaf_of = {host: of.leaf(host, "mlx5_0") for host in of.hosts}
    rows = [
        Route(leaf_of[a], a, b, way.up)
        for a, b in itertools.permutations(of.hosts, 2)
        if leaf_of[a] != leaf_of[b] and (way := of.uplinks(a, b, "mlx5_0"))
    ]
    known = {partition: {"rows": rows, "problem": ""}}
    (tmp_path / ROUTES).write_text(json.dumps(known))
    routes = CampaignRoutes(campaign, cases)
    return list(name_suspects(cases, {PARTITION: leaf_of}, routes=routes).suspects)


def test_a_slow_link_is_named_by_a_table_of_its_partition(tmp_path: Path, slow: list[Case]) -> None:
    (suspect,) = by_table(slow, tmp_path, PARTITION)
    assert told([suspect]) == ["uplink leaf2:spine3 up"]
    assert links(by_table(slow, tmp_path, "other")) == []


def test_a_damaged_table_is_an_error(tmp_path: Path, slow: list[Case]) -> None:
    campaign = on_subnet.campaign(tmp_path)
    (tmp_path / ROUTES).write_text('{"ib": {"rows": [["leaf1", "n1"]]}}')
    with pytest.raises(BrokenRecordError, match=r"routes\.json"):
        CampaignRoutes(campaign, slow)
