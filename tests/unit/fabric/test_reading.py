"""Outputs of infiniband-diags, opensm and ibdiagnet2: values exact, and none passes for a whole one
that is not.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.fabric.folder import FabricError, from_texts, kind_of
from railgauge.fabric.reading import counters, discover, linkinfo, managers, others, tables
from railgauge.fabric.subnet import Cable, End, PortId, PortState, Rate
from railgauge.tools import ParseError

DATA = paths.HOME / "tests" / "data" / "infiniband"
LEAF1, SPINE1, SPINE2 = 0x0200000000000001, 0x0200000000000003, 0x0200000000000004
N2 = 0x0201000000000030


def text(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


READERS: list[tuple[str, Callable[[str], Any]]] = [
    ("slow/ibnetdiscover.txt", discover.topology),
    ("slow/ibnetdiscover-p.txt", discover.ports),
    ("slow/iblinkinfo.txt", linkinfo.read),
    ("slow/iblinkinfo-l.txt", linkinfo.read),
    ("slow/ibqueryerrors.txt", counters.queryerrors),
    ("slow/ibqueryerrors-all.txt", counters.queryerrors),
    ("counting/before/ibqueryerrors.txt", counters.queryerrors),
    ("slow/perfquery.txt", counters.perfquery),
    ("slow/perfquery-x.txt", counters.perfquery),
    ("slow/dump_fts.txt", tables.dumped),
    ("slow/opensm-lfts.dump", tables.dumped),
    ("slow/opensm.fdbs", tables.fdbs),
    ("slow/opensm-subnet.lst", others.subnet_lst),
    ("ibdiagnet2.db_csv", others.database),
    ("masters/saquery.txt", managers.listed),
    ("masters/sminfo.txt", managers.states),
]
#: Ports that are cabled with each other alone look whole: a folder has the topology too.
#: A table a switch, and no mark behind the last one.
IN_PARTS = {"slow/dump_fts.txt", "slow/opensm-lfts.dump", "slow/opensm.fdbs"}
ISLANDS = {"slow/iblinkinfo.txt", "slow/iblinkinfo-l.txt"}
#: An output of sminfo for each manager: the check says which ones are missing.
ONE_A_LINE = {"masters/sminfo.txt"}
#: ibdiagnet's sections stand for themselves, and NODES_INFO may be missing.
SECTIONS = {"ibdiagnet2.db_csv"}


def is_whole(name: str, part: Any, whole: Any) -> bool:
    """Whether what was read of a part says no more and no other thing than the whole."""
    if name in IN_PARTS:
        return all(whole[guid] == table for guid, table in part.items())
    if name in ONE_A_LINE:
        return bool(part == whole[: len(part)])
    if name in SECTIONS:
        return {g: dataclasses.replace(d, firmware="") for g, d in whole.items()} == part
    return bool(part == whole)


@pytest.mark.parametrize(("name", "read"), READERS, ids=[name for name, _ in READERS])
def test_a_beginning_never_passes_for_a_whole_output(name: str, read: Callable[[str], Any]) -> None:
    content, lines = text(name), text(name).splitlines(keepends=True)
    whole = read(content)
    for count in range(len(lines)):
        beginning = "".join(lines[:count])
        try:
            part = read(beginning)
        except ParseError:
            continue
        if name in ISLANDS and part != whole:
            with pytest.raises(FabricError):
                from_texts({"a": text("slow/ibnetdiscover.txt"), "b": beginning})
            continue
        assert is_whole(name, part, whole), count


@pytest.mark.parametrize(("name", "read"), READERS, ids=[name for name, _ in READERS])
@given(data=st.data())
def test_a_cut_within_a_line_never_passes(
    name: str, read: Callable[[str], Any], data: st.DataObject
) -> None:
    content = text(name)
    whole = read(content)
    cut = data.draw(st.integers(0, len(content) - 2))
    try:
        part = read(content[:cut])
    except ParseError:
        return
    assert is_whole(name, part, whole) or name in ISLANDS


@pytest.mark.parametrize(("name", "read"), READERS, ids=[name for name, _ in READERS])
@given(data=st.data())
def test_a_changed_output_is_read_or_refused(
    name: str, read: Callable[[str], Any], data: st.DataObject
) -> None:
    content = text(name)
    place = data.draw(st.integers(0, len(content) - 1))
    new = data.draw(st.text(max_size=8))
    with contextlib.suppress(ParseError):
        read(content[:place] + new + content[place + data.draw(st.integers(0, 8)) :])


@given(st.text())
def test_any_text_is_read_or_refused(content: str) -> None:
    for _, read in [*READERS, ("", others.name_map)]:
        with contextlib.suppress(ParseError):
            read(content)


def test_a_topology_has_devices_cables_and_rates() -> None:
    subnet = discover.topology(text("slow/ibnetdiscover.txt"))
    leaf = subnet.devices[LEAF1]
    assert (leaf.name, leaf.kind, leaf.ports, leaf.lid) == ("leaf1", "switch", 6, 2)
    assert subnet.devices[N2].lid == 10
    assert Cable(PortId(LEAF1, 3), PortId(N2, 1), Rate(1, "QDR")) in subnet.cables
    assert Cable(PortId(LEAF1, 6), PortId(SPINE2, 1), Rate(12, "SDR")) in subnet.cables
    assert len(subnet.cables) == 12
    assert subnet.port_guids[N2 + 1] == PortId(N2, 1)


def test_ports_and_opensms_list_have_the_cables_of_the_topology() -> None:
    subnet = discover.topology(text("slow/ibnetdiscover.txt"))
    listed = others.subnet_lst(text("slow/opensm-subnet.lst"))
    assert listed.cables == subnet.cables and listed.devices == subnet.devices
    by_ports = discover.ports(text("slow/ibnetdiscover-p.txt"))
    ends = {frozenset(map(by_ports.end, (c.a, c.b))): c.rate for c in by_ports.cables}
    assert ends == {frozenset(map(subnet.end, (c.a, c.b))): c.rate for c in subnet.cables}


REAL = """\
#
# Topology file: generated on Tue Mar  5 10:00:00 2024
#
# Initiated from node b83fd20300a1b2c0 port b83fd20300a1b2c0

vendid=0x2c9
devid=0xd2f0
sysimgguid=0xfc6a1c0300aaaa00
switchguid=0xfc6a1c0300aaaa00(fc6a1c0300aaaa00)
Switch\t41 "S-fc6a1c0300aaaa00"\t\t# "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 12 lmc 0
[1]\t"H-b83fd20300a1b2c0"[1](b83fd20300a1b2c0) \t\t# "n1 mlx5_0" lid 3 4xHDR
[2]\t"H-b83fd20300a1b2d0"[1](b83fd20300a1b2d0) \t\t# "n2 mlx5_0" lid 4 2xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xb83fd20300a1b2c0
caguid=0xb83fd20300a1b2c0
Ca\t1 "H-b83fd20300a1b2c0"\t\t# "n1 mlx5_0"
[1](b83fd20300a1b2c0) \t"S-fc6a1c0300aaaa00"[1]\t\t# lid 3 lmc 0 "MF0;leaf1:MQM8700/U1" lid 12 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xb83fd20300a1b2d0
caguid=0xb83fd20300a1b2d0
Ca\t1 "H-b83fd20300a1b2d0"\t\t# "n2 mlx5_0"
[1](b83fd20300a1b2d0) \t"S-fc6a1c0300aaaa00"[2]\t\t# lid 4 lmc 0 "MF0;leaf1:MQM8700/U1" lid 12 2xHDR
"""


def test_a_topology_of_real_hardware_is_read() -> None:
    """Typed from ibnetdiscover's source: an enhanced port 0, and models that are not 0."""
    subnet = discover.topology(REAL)
    switch = subnet.devices[0xFC6A1C0300AAAA00]
    assert (switch.name, switch.lid, switch.model) == ("MF0;leaf1:MQM8700/U1", 12, "0xd2f0")
    assert [cable.rate for cable in subnet.cables] == [Rate(4, "HDR"), Rate(2, "HDR")]


def test_a_guid_of_two_devices_is_a_clash_and_no_error() -> None:
    twice = REAL.replace("b83fd20300a1b2d0", "b83fd20300a1b2c0", 2).partition(
        "\nvendid=0x2c9\ndevid=0x101b\nsysimgguid=0xb83fd20300a1b2d0"
    )[0]
    (clash,) = discover.topology(twice).clashes
    switch = 0xFC6A1C0300AAAA00
    assert clash.port == PortId(0xB83FD20300A1B2C0, 1)
    assert clash.claimed_by == (PortId(switch, 1), PortId(switch, 2))


def test_iblinkinfo_has_what_both_ends_could() -> None:
    as_text, as_lines = (linkinfo.read(text(f"slow/iblinkinfo{s}.txt")) for s in ("", "-l"))
    assert as_text == as_lines
    states = {End(one.name, one.port): one.state for one in as_lines}
    assert states[End("leaf1", 3)] == PortState("Active", "LinkUp", Rate(1, "QDR"), 12)
    assert states[End("leaf1", 6)] == PortState("Active", "LinkUp", Rate(12, "SDR"), None, "QDR")
    assert states[End("spine1", 6)] == PortState("Down", "Polling", None)


def test_an_hca_without_a_description_is_read() -> None:
    whole = text("healthy/iblinkinfo.txt")
    unnamed = whole.replace("CA: n3 mlx5_0:", "CA: :").replace('"n3 mlx5_0"', '""')
    names = {one.guid: one.name for one in linkinfo.read(unnamed)}
    assert names[0x0201000000000051] == ""
    assert len(linkinfo.read(unnamed)) == len(linkinfo.read(whole))


def test_errors_have_their_ports_and_values() -> None:
    counted = counters.queryerrors(text("slow/ibqueryerrors.txt"))
    assert counted.of_port == {
        PortId(SPINE1, 1): {"PortRcvErrors": 12, "PortXmitDiscards": 120},
        PortId(LEAF1, 2): {"SymbolErrorCounter": 65535},
        PortId(LEAF1, 5): {"LinkDownedCounter": 7},
    }
    assert counted.nodes == 12


def test_errors_of_an_hca_are_those_of_its_port() -> None:
    """ibqueryerrors names it without a GUID, and prints that of the port below."""
    files = ("ibnetdiscover", "iblinkinfo", "ibqueryerrors", "dump_fts")
    read = from_texts({f"{file}.txt": text(f"counting/before/{file}.txt") for file in files})
    assert read.counted is not None
    ((port, values),) = read.counted.of_port.items()
    assert (read.subnet.end(port), values) == (End("n5 mlx5_0", 1), {"SymbolErrorCounter": 21})
    assert "ibqueryerrors" in read.sources


def test_errors_of_hcas_alone_are_known_as_an_output() -> None:
    """Of so many that the summary stands far below."""
    (head, line, *rest) = text("counting/before/ibqueryerrors.txt").split("\n")
    many = "\n".join([head, line] * 100 + rest).replace("1 bad nodes", "100 bad nodes")
    assert kind_of(many) == "ibqueryerrors"
    assert counters.queryerrors(many).of_port


def test_thresholds_are_known() -> None:
    content = text("slow/ibqueryerrors.txt")
    assert not counters.queryerrors(content).thresholds
    with_file = content.replace("## (null)", "## Thresholds: SymbolErrorCounter=10 ")
    assert counters.queryerrors(with_file).thresholds
    assert not counters.queryerrors(content.replace("## (null)", "## Thresholds: ")).thresholds


def test_perfquery_has_the_counters_of_a_port() -> None:
    (read,) = counters.perfquery(text("slow/perfquery.txt"))
    assert (read.lid, read.port, read.counters["LinkDownedCounter"]) == (2, 5, 7)
    (extended,) = counters.perfquery(text("slow/perfquery-x.txt"))
    assert extended.counters["PortXmitData"] == 66168


def test_extended_errors_are_read_whole() -> None:
    """Typed from perfquery's source: errors of 64 bits stand behind the other counters."""
    names = ("SymbolErrorCounter", "PortXmitWait", "QP1Dropped")
    lines = [f"{name}:{'.' * (33 - len(name))}70000\n" for name in names]
    (read,) = counters.perfquery(text("slow/perfquery-x.txt") + "".join(lines))
    assert read.counters["SymbolErrorCounter"] == 70000
    with pytest.raises(ParseError):
        counters.perfquery(text("slow/perfquery-x.txt") + "".join(lines[:2]))


def test_all_kinds_of_tables_are_the_same() -> None:
    dumped = tables.dumped(text("slow/dump_fts.txt"))
    assert dumped[LEAF1][0xC] == 5 and dumped[LEAF1][0xD] == 6 and len(dumped) == 4
    assert tables.fdbs(text("slow/opensm.fdbs")) == dumped
    assert tables.dumped(text("slow/opensm-lfts.dump")) == dumped


def test_db_csv_has_firmware_and_models() -> None:
    read = others.database(text("ibdiagnet2.db_csv"))
    assert read[LEAF1].firmware == "31.2012.1024"
    assert read[SPINE1].firmware == "31.2014.2036"
    assert read[0x0201000000000010].firmware == ""
    assert (read[LEAF1].model, read[LEAF1].ports) == ("0xd2f0", 6)


def test_a_name_map_names_guids() -> None:
    content = '# remark\n0x0200000000000001 "leaf one"\n'
    assert others.name_map(content) == {LEAF1: "leaf one"}
    with pytest.raises(ParseError):
        others.name_map(content + '0x0200000000000001 "other"\n')


def test_states_of_a_folder_are_those_of_its_ports() -> None:
    read = from_texts({n: text(f"slow/{n}.txt") for n in ("ibnetdiscover", "iblinkinfo")}).subnet
    assert read.states[PortId(N2, 1)].could_width == 12
    assert read.states.keys() >= read.cable_at.keys()


def test_a_folder_without_a_topology_or_of_two_readings_is_refused() -> None:
    with pytest.raises(FabricError, match="no topology"):
        from_texts({"a": text("slow/iblinkinfo.txt")})
    with pytest.raises(FabricError, match="two outputs"):
        from_texts({n: text("slow/ibnetdiscover.txt") for n in ("a", "b")})
    topology, tables_text = text("slow/ibnetdiscover.txt"), text("slow/dump_fts.txt")
    with pytest.raises(FabricError, match="tables of 1 switch"):
        from_texts({"a": topology, "b": tables_text[: tables_text.rindex("Unicast")]})
    with pytest.raises(FabricError, match="two readings"):
        from_texts({"a": topology.replace("lid 2 lmc", "lid 3 lmc"), "b": tables_text})


def test_firmware_and_names_come_from_further_files() -> None:
    read = from_texts(
        {
            "a": text("slow/ibnetdiscover.txt"),
            "b": text("ibdiagnet2.db_csv"),
            "c": '0x0200000000000001 "rack 1 leaf"\n',
        }
    )
    leaf = read.subnet.devices[LEAF1]
    assert (leaf.name, leaf.firmware) == ("rack 1 leaf", "31.2012.1024")


def test_every_manager_has_its_state() -> None:
    assert managers.listed(text("masters/saquery.txt")) == (1, 9)
    first, second = managers.states(text("masters/sminfo.txt"))
    assert first == managers.Manager(1, 0x0201000000000011, 0, "master")
    assert second == managers.Manager(9, 0x0201000000000111, 0, "master")


@pytest.mark.parametrize(
    ("word", "state"),
    [("STANDBY", "standby"), ("DISCOVER", "discovering"), ("NOTACT", "not active")],
)
def test_a_state_is_named(word: str, state: str) -> None:
    """As sminfo.c of infiniband-diags prints them."""
    line = text("masters/sminfo.txt").splitlines()[0].replace("MASTER", word)
    assert [one.state for one in managers.states(f"{line}\n")] == [state]
    with pytest.raises(ParseError):
        managers.states(f"{line}S\n")


def test_a_port_without_a_manager_is_not_listed() -> None:
    """Ports with a manager that is disabled are listed behind the others."""
    shown = text("masters/saquery.txt")
    record = shown.split("PortInfoRecord dump:")[1].replace("EndPortLid..............1", "x")
    assert managers.listed(f"{shown}PortInfoRecord dump:{record}") == (1, 9)
    assert managers.listed("IsSM ports\n\nIsSMdisabled ports\n") == ()
