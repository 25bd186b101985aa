"""The InfiniBand subnet in the page: links by switches, ports with what was found there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from railgauge.fabric import asking, expected, findings
from railgauge.fabric.check import check
from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.folder import Fabric
from railgauge.lab.subnet_topology import fat_tree, leaf_spine
from railgauge.report import page
from railgauge.report.page import subnet
from railgauge.report.page.subnet import Cell, SubnetOf
from tests import pages
from tests.unit.fabric.planted import fabric

HEALTHY = fabric(leaf_spine([f"n{number}" for number in range(1, 9)], 4, 2))


def without(of: Fabric, *names: str) -> Fabric:
    """The fabric without these devices and their cables."""
    gone = {guid for guid, device in of.subnet.devices.items() if device.name in names}
    cables = tuple(c for c in of.subnet.cables if gone.isdisjoint((c.a.guid, c.b.guid)))
    devices = {guid: one for guid, one in of.subnet.devices.items() if guid not in gone}
    left = dataclasses.replace(of.subnet, devices=devices, cables=cables)
    return dataclasses.replace(of, subnet=left)


def drawn(of: Fabric) -> SubnetOf:
    return subnet.drawn(of, check(of, expected.of_fabric(HEALTHY)), "InfinibandFabric")


def cell(of: SubnetOf, leaf: str, spine: str) -> Cell:
    (only,) = of.maps
    (row,) = (row for row in only.rows if row.name == leaf)
    return row.cells[only.columns.index(spine)]


def found_at(of: SubnetOf, switch: str) -> dict[str, str]:
    """Port -> what was found there, of a switch."""
    (ports,) = (ports for ports in of.ports if ports.name == switch)
    return {cells[0]: cells[4] for cells, _ in ports.rows if cells[4]}


def test_a_healthy_subnet_has_every_link_and_no_fault() -> None:
    shown = drawn(HEALTHY)
    (only,) = shown.maps
    assert (only.title, only.columns) == ("Leaves by spines", ("spine1", "spine2"))
    assert [row.name for row in only.rows] == ["leaf1", "leaf2", "leaf3", "leaf4"]
    assert {one for row in only.rows for one in row.cells} == {Cell("good", "12x QDR")}
    assert {row.hosts for row in only.rows} == {Cell("good", "2 hosts")}
    assert [ports.name for ports in shown.ports] == [f"leaf{n}" for n in range(1, 5)] + [
        "spine1",
        "spine2",
    ]
    assert not any(is_bad for ports in shown.ports for _, is_bad in ports.rows)
    assert shown.about.startswith("no faults; 6 switches, 8 hosts, 16 HCAs; links: 24 at 12x QDR")


def test_a_slow_link_is_shown_in_the_map_and_at_both_of_its_ports(tmp_path: Path) -> None:
    (shown,) = subnet.subnets(pages.on_subnet(pages.cluster(tmp_path, 4, 1), tmp_path))
    assert cell(shown, "leaf1", "spine2") == Cell("bad", "12x SDR, 1 fault")
    assert cell(shown, "leaf2", "spine2") == Cell("good", "12x QDR")
    (leaf, other) = shown.maps[0].rows
    assert (leaf.hosts, other.hosts) == (Cell("bad", "2 hosts, 1 fault"), Cell("good", "2 hosts"))
    assert found_at(shown, "leaf1")["6"].startswith("link-speed: SDR, expected QDR; next: ")
    assert list(found_at(shown, "spine2")) == ["1"]
    assert found_at(shown, "leaf1")["3"].startswith("link-width: 1 lanes of 12")
    # Counters of both kinds of ports, and no traffic.
    counters = {c[0]: c[5] for c, _ in shown.ports[0].rows}
    assert (counters["2"], counters["3"]) == ("SymbolErrorCounter 65535", "-")


def test_what_is_gone_is_shown_where_it_was() -> None:
    shown = drawn(without(HEALTHY, "spine2", "n1 mlx5_0"))
    (only,) = shown.maps
    assert only.columns == ("spine1",)
    assert only.rows[0].hosts == Cell("bad", "2 hosts, 1 fault")
    at_leaf = found_at(shown, "leaf1")
    (hca,) = [words for words in at_leaf.values() if "this HCA is not in the subnet" in words]
    assert hca.startswith("device-missing: ")
    # The spine's cables are one finding, at the first port of a leaf that had one.
    assert any("this switch is not in the subnet" in words for words in at_leaf.values())


def test_a_cable_that_is_gone_is_a_fault_of_its_two_switches() -> None:
    names = {guid: device.name for guid, device in HEALTHY.subnet.devices.items()}
    cables = tuple(
        c
        for c in HEALTHY.subnet.cables
        if {names[c.a.guid], names[c.b.guid]} != {"leaf3", "spine1"}
    )
    cut = dataclasses.replace(HEALTHY, subnet=dataclasses.replace(HEALTHY.subnet, cables=cables))
    shown = drawn(cut)
    assert cell(shown, "leaf3", "spine1") == Cell("bad", "no link, 1 fault")
    assert cell(shown, "leaf3", "spine2").kind == "good"
    assert [cells[1] for ports in shown.ports for cells, is_bad in ports.rows if is_bad] == [
        "no link"
    ] * 2


def test_what_is_at_no_port_is_listed() -> None:
    one = FabricFinding("lids-changed", "the subnet", 0, "", "2 devices", "save", "note")
    shown = subnet.drawn(HEALTHY, [one], "InfinibandCounters")
    assert shown.others == ("the subnet, note: lids-changed: 2 devices; next: save",)


def test_three_levels_have_a_map_for_each_group() -> None:
    shown = subnet.drawn(fabric(fat_tree(2, 2, 4, 2, 2)), [], "InfinibandFabric")
    titles = [one.title for one in shown.maps]
    assert len(titles) == len(set(titles))
    assert {title.partition(",")[0] for title in titles} == {"Leaves by spines", "Spines by cores"}
    switches = {name for one in shown.maps for name in (*one.columns, *(r.name for r in one.rows))}
    assert switches == {ports.name for ports in shown.ports}


def test_where_room_is_short_switches_with_faults_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subnet, "MOST_CELLS", 3)
    monkeypatch.setattr(subnet, "MOST_PORTS", 8)
    shown = drawn(without(HEALTHY, "n7 mlx5_0"))
    (only,) = shown.maps
    assert ([row.name for row in only.rows], shown.rows_left_out) == (["leaf4"], 3)
    assert ([ports.name for ports in shown.ports], shown.ports_left_out) == (["leaf4"], 5)


def test_without_a_reading_there_is_no_section(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 4, 1)
    assert subnet.subnets(verdict) == []
    assert 'id="subnet"' not in page.html(verdict)


@pytest.mark.parametrize("broken", [f"{asking.FOLDER}/ibnetdiscover.txt", findings.FILE])
def test_a_reading_that_is_not_whole_says_so(tmp_path: Path, broken: str) -> None:
    verdict = pages.on_subnet(pages.cluster(tmp_path, 4, 1), tmp_path)
    file = tmp_path / "InfinibandFabric_1" / broken
    file.write_text(file.read_text()[:-400])
    (shown,) = subnet.subnets(verdict)
    assert shown.problem.startswith("its reading cannot be shown: ")
    assert (shown.maps, shown.ports) == ((), ())
    assert "its reading cannot be shown" in page.html(verdict)


def test_no_description_breaks_out_of_the_page(tmp_path: Path) -> None:
    verdict = pages.on_subnet(pages.cluster(tmp_path, 4, 1), tmp_path)
    for file in (tmp_path / "InfinibandFabric_1").rglob("*.*"):
        file.write_text(file.read_text().replace("spine2", "<b>2"))
    text = page.html(verdict)
    assert "&lt;b&gt;2" in text and "<b>2" not in text


def test_the_page_of_a_large_subnet_stays_small() -> None:
    large = fabric(leaf_spine([f"n{number}" for number in range(600)], 40, 20, hcas=1))
    shown = subnet.drawn(large, [], "InfinibandFabric")
    assert sum(len(ports.rows) for ports in shown.ports) <= subnet.MOST_PORTS
    assert (shown.rows_left_out, len(shown.maps[0].rows)) == (0, 40)
    assert shown.ports_left_out == 60 - len(shown.ports) > 0
