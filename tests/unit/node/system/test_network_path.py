"""The way between two nodes: what tc and ping say of it, and a long one made and taken away."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge.node.orders.places import LinkOrder, WanOrder
from railgauge.node.system import network_path, processes, rdma_devices
from railgauge.node.system.network_path import PathError, emulation, made, round_trip
from railgauge.node.system.rdma_devices import FactError, Gid
from railgauge.node.system.tool_call import address_of


class Programs:
    """Programs that stand before the real ones in PATH, and what they were called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "log"

    def put(self, name: str, output: str = "", code: int = 0, fails_on: str = "") -> None:
        """A program that prints `output`; it ends with `code` where its first words are these."""
        (self.folder / f"{name}.out").write_text(output)
        script = (
            f'#!/bin/sh\necho "{name} $*" >>{self._log}\ncat {self.folder}/{name}.out\n'
            f'case "$*" in "{fails_on}"*) exit {code};; esac\n'
        )
        program = self.folder / name
        program.write_text(script)
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return Programs(folder)


# ---- what tc does to an interface ----

QDISCS = {
    "nothing": ("", "none"),
    "the kernel's own": (
        "qdisc mq 0: root\nqdisc fq_codel 0: parent :1 limit 10240p flows 1024 quantum 1514\n",
        "none",
    ),
    "a shaper": ("qdisc tbf 8003: root refcnt 2 rate 10Gbit burst 5Mb lat 10ms\n", "none"),
    "netem": (
        "qdisc netem 8001: root refcnt 2 limit 200000 delay 22ms reorder 0.02% gap 1\n",
        "netem limit 200000 delay 22ms reorder 0.02% gap 1",
    ),
    "netem without a count of references": (
        "qdisc netem 1: root limit 1000 loss 1%\n",
        "netem limit 1000 loss 1%",
    ),
    "netem with a seed": (
        "qdisc netem 8002: root refcnt 2 limit 1000 delay 5ms seed 12345678901234567890\n",
        "netem limit 1000 delay 5ms",
    ),
    "netem under another": (
        "qdisc tbf 1: root refcnt 2 rate 1Gbit burst 5Kb lat 50ms\n"
        "qdisc netem 10: parent 1:1 limit 1000 delay 10ms\n",
        "netem limit 1000 delay 10ms",
    ),
    "netem under queues": (
        "qdisc mq 1: root\nqdisc netem 80ff: parent 1:2 limit 1000 loss 0.1%\n",
        "netem limit 1000 loss 0.1%",
    ),
    "bare netem": ("qdisc netem 8001: root refcnt 2 \n", "netem"),
}


@pytest.mark.parametrize("name", QDISCS)
def test_emulation_is_what_netem_says_of_itself(programs: Programs, name: str) -> None:
    text, expected = QDISCS[name]
    programs.put("tc", text)
    assert emulation("eth1") == expected


def test_tc_is_asked_for_the_interface_only(programs: Programs) -> None:
    programs.put("tc")
    emulation("eth1")
    assert programs.calls == ["tc qdisc show dev eth1"]


def test_emulation_that_tc_cannot_say_is_unknown_with_its_reason(programs: Programs) -> None:
    programs.put("tc", code=1)
    assert emulation("eth9") == "unknown (tc qdisc show dev eth9: exit code 1)"


def test_nothing_is_emulated_where_there_is_no_interface() -> None:
    assert emulation(None) == "none"


# ---- how long it is ----

PING = """\
PING 10.77.0.15 (10.77.0.15) 56(84) bytes of data.
64 bytes from 10.77.0.15: icmp_seq=1 ttl=64 time=48.5 ms
64 bytes from 10.77.0.15: icmp_seq=2 ttl=64 time=46.5 ms
64 bytes from 10.77.0.15: icmp_seq=3 ttl=64 time=46.7 ms
64 bytes from 10.77.0.15: icmp_seq=4 ttl=64 time=46.6 ms
64 bytes from 10.77.0.15: icmp_seq=5 ttl=64 time=46.8 ms

--- 10.77.0.15 ping statistics ---
5 packets transmitted, 5 received, 0% packet loss, time 805ms
rtt min/avg/max/mdev = 46.465/47.022/48.495/0.745 ms
"""
SILENT = """\
PING 10.77.0.99 (10.77.0.99) 56(84) bytes of data.

--- 10.77.0.99 ping statistics ---
5 packets transmitted, 0 received, 100% packet loss, time 4099ms
"""


def test_round_trip_is_read_in_ms(programs: Programs) -> None:
    programs.put("ping", PING)
    assert round_trip("10.77.0.15", 60) == {
        "rtt_ms": 46.6,
        "rtt_echoes_ms": [48.5, 46.5, 46.7, 46.6, 46.8],
    }


def test_an_echo_that_overtakes_does_not_make_a_way_short(programs: Programs) -> None:
    """As a healthy lab was rejected: 26.564 ms of 44, as netem lets 0.02 % of the packets by."""
    programs.put("ping", PING.replace("time=46.7", "time=26.564"))
    assert round_trip("10.77.0.15", 60)["rtt_ms"] == 46.5
    # All of a way that is short are.
    programs.put("ping", PING.replace("time=4", "time=2"))
    assert round_trip("10.77.0.15", 60)["rtt_ms"] == 26.6


def test_an_echo_that_comes_twice_is_one(programs: Programs) -> None:
    line = "64 bytes from 10.77.0.15: icmp_seq=3 ttl=64 time=26.7 ms (DUP!)\n"
    first, last = PING.split("64 bytes from 10.77.0.15: icmp_seq=5")
    programs.put("ping", f"{first}{line}64 bytes from 10.77.0.15: icmp_seq=5{last}")
    assert round_trip("10.77.0.15", 60)["rtt_ms"] == 46.6


def test_echoes_are_sent_to_the_address_once_where_one_is_short_enough(programs: Programs) -> None:
    programs.put("ping", PING)
    round_trip("10.77.0.15", 60)
    (call,) = programs.calls
    assert "-c 5 " in call
    assert call.endswith(" 10.77.0.15")


def test_echoes_that_all_came_late_are_sent_again_up_to_a_limit(programs: Programs) -> None:
    """As a healthy lab was rejected whose virtual machines had little CPU: 62.3 ms of 59."""
    programs.put("ping", PING)
    assert round_trip("10.77.0.15", 46.4)["rtt_ms"] == 46.6
    assert len(programs.calls) == 8


def test_the_shortest_of_all_pings_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter({"rtt_ms": rtt, "rtt_echoes_ms": [rtt]} for rtt in (62.3, 80.0, 58.0, 40.0))
    monkeypatch.setattr(network_path, "_pinged", lambda _: next(answers))
    assert round_trip("10.77.0.15", 59)["rtt_ms"] == 58.0
    monkeypatch.setattr(
        network_path, "_pinged", lambda _: next(answers, {"rtt_unknown": "ping got no answer"})
    )
    assert round_trip("10.77.0.15", 30)["rtt_ms"] == 40.0


@pytest.mark.parametrize(("left", "rtt_ms"), [(4, 46.6), (3, 46.7), (2, 46.5), (1, 48.5)])
def test_some_lost_echoes_leave_a_round_trip(programs: Programs, left: int, rtt_ms: float) -> None:
    head, *lines = PING.splitlines(keepends=True)
    programs.put("ping", "".join((head, *lines[:left], *lines[5:])), code=1)
    assert round_trip("10.77.0.15", 60)["rtt_ms"] == rtt_ms


def test_no_answer_is_reported_with_the_address(programs: Programs) -> None:
    programs.put("ping", SILENT, code=1)
    assert round_trip("10.77.0.99", 60) == {"rtt_unknown": "ping got no answer from 10.77.0.99"}


def test_missing_ping_is_reported(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs.folder))
    assert "ping: [Errno 2]" in round_trip("10.77.0.15", 60)["rtt_unknown"]


# ---- a long way, made and taken away ----

FACTS = {"device": "eth0", "emulation": "none"}
SET = "tc qdisc replace dev eth0 root netem delay 22ms reorder 0.02% limit 200000"
CLEAR = "tc qdisc delete dev eth0 root"


def wan(**changes: Any) -> WanOrder:
    order = {
        "set": [
            "tc qdisc replace dev {device} root netem delay {one_way_ms}ms "
            "reorder {reorder_percent}% limit 200000"
        ],
        "clear": ["tc qdisc delete dev {device} root"],
        "ends": "both",
        "round_trip_ms": 44.0,
        "reorder_percent": 0.02,
    }
    return WanOrder.read({**order, **changes})


@pytest.fixture
def tc(programs: Programs) -> Programs:
    programs.put("tc")
    return programs


def test_way_is_long_while_the_inside_runs(tc: Programs) -> None:
    with made(wan(), "client", FACTS):
        assert tc.calls == [SET]


def test_way_is_as_before_afterwards(tc: Programs) -> None:
    with made(wan(), "client", FACTS):
        pass
    assert tc.calls == [SET, CLEAR]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_way_is_as_before_also_when_the_inside_raises(
    tc: Programs, error: type[BaseException]
) -> None:
    with pytest.raises(error), made(wan(), "client", FACTS):
        raise error
    assert tc.calls == [SET, CLEAR]


@pytest.mark.parametrize("interrupted", ["replace", "delete"])
def test_a_signal_waits_for_what_makes_the_way_long_and_what_clears_it(
    monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    """A program that is interrupted while it starts goes on behind what takes the way away."""
    events: list[str] = []

    def ask(argv: list[str]) -> str:
        events.append(f"{argv[2]} begins")
        if argv[2] == interrupted:
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        events.append(f"{argv[2]} ends")
        return ""

    monkeypatch.setattr(rdma_devices, "ask", ask)
    before = signal.signal(signal.SIGTERM, processes.terminate)
    try:
        with pytest.raises(SystemExit), made(wan(), "client", FACTS):
            events.append("inside")
    finally:
        signal.signal(signal.SIGTERM, before)
    inside = ["inside"] if interrupted == "delete" else []
    expected = ["replace begins", "replace ends", *inside, "delete begins", "delete ends"]
    assert events == expected


def test_a_signal_ends_what_is_measured_over_a_long_way(tc: Programs) -> None:
    before = signal.signal(signal.SIGTERM, processes.terminate)
    try:
        with pytest.raises(SystemExit), made(wan(), "client", FACTS):
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
            pytest.fail("it went on")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert tc.calls == [SET, CLEAR]


def test_every_command_line_is_run_in_order(tc: Programs) -> None:
    lines = wan(set=["tc first", "tc second"], clear=["tc third", "tc fourth"])
    with made(lines, "client", FACTS):
        pass
    assert tc.calls == ["tc first", "tc second", "tc third", "tc fourth"]


def test_values_are_filled_in_as_short_numbers(tc: Programs) -> None:
    line = "tc {device} {one_way_ms} {round_trip_ms} {reorder_percent} {other}"
    with made(wan(set=[line], round_trip_ms=25.0, reorder_percent=0.0), "client", FACTS):
        assert tc.calls == ["tc eth0 12.5 25 0 {other}"]


def test_words_are_those_of_a_shell(tc: Programs) -> None:
    with made(wan(set=["tc 'two words' \"$HOME\""]), "client", FACTS):
        assert tc.calls == ["tc two words $HOME"]


@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize("ends", ["both", "server", "client"])
def test_way_is_made_only_on_the_side_that_ends_names(tc: Programs, ends: str, role: str) -> None:
    with made(wan(ends=ends), role, FACTS):
        pass
    assert tc.calls == ([SET, CLEAR] if ends in ("both", role) else [])


def test_nothing_is_made_without_orders(tc: Programs) -> None:
    with made(None, "client", {}):
        pass
    assert tc.calls == []


def test_nothing_is_made_where_there_is_no_delay(tc: Programs) -> None:
    with made(wan(round_trip_ms=0.0), "client", FACTS):
        pass
    assert tc.calls == []


@pytest.mark.parametrize("round_trip_ms", [44.0, 0.0])
@pytest.mark.parametrize("there", ["netem delay 5ms", "unknown (tc is not installed)"])
def test_emulation_that_is_there_already_is_refused_and_left_alone(
    tc: Programs, there: str, round_trip_ms: float
) -> None:
    facts = {**FACTS, "emulation": there}
    with (
        pytest.raises(PathError) as caught,
        made(wan(round_trip_ms=round_trip_ms), "client", facts),
    ):
        pytest.fail("the inside ran")
    assert there in str(caught.value)
    assert tc.calls == []


def test_node_without_an_interface_has_no_way(tc: Programs) -> None:
    facts = {"emulation": emulation(None), "route_unknown": "gaierror: no such host"}
    with (
        pytest.raises(PathError, match=r"no interface .*no such host"),
        made(wan(), "client", facts),
    ):
        pytest.fail("the inside ran")


def test_way_that_cannot_be_made_is_reported_with_the_command_line(programs: Programs) -> None:
    programs.put("tc", code=2, fails_on="qdisc replace")
    with pytest.raises(PathError) as caught, made(wan(), "client", FACTS):
        pytest.fail("the inside ran")
    assert str(caught.value) == f"`{SET}`: {SET}: exit code 2"


def test_way_that_cannot_be_made_is_cleared_all_the_same(programs: Programs) -> None:
    programs.put("tc", code=2, fails_on="qdisc replace")
    with contextlib.suppress(PathError), made(wan(), "client", FACTS):
        pytest.fail("the inside ran")
    assert programs.calls == [SET, CLEAR]


def test_reason_is_that_of_making_it_also_where_clearing_fails_too(programs: Programs) -> None:
    programs.put("tc", code=2, fails_on="qdisc")
    with pytest.raises(PathError, match="qdisc replace"), made(wan(), "client", FACTS):
        pytest.fail("the inside ran")


def test_way_that_cannot_be_cleared_is_reported(programs: Programs) -> None:
    programs.put("tc", code=2, fails_on="qdisc delete")
    facts = dict(FACTS)
    with made(wan(), "client", facts):
        pass
    assert "qdisc delete" in facts["way_left"]


def test_command_line_that_is_none_is_no_way(tc: Programs) -> None:
    with (
        pytest.raises(PathError, match="No closing quotation"),
        made(wan(set=["tc 'x"]), "client", FACTS),
    ):
        pytest.fail("the inside ran")


# ---- which device it is over ----


class Rails:
    """The RDMA devices of a node, one port each, in place of sysfs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.no_gid = ""
        monkeypatch.setattr(rdma_devices, "devices", lambda pattern: list(names))
        monkeypatch.setattr(rdma_devices, "ports", lambda device: [1])
        monkeypatch.setattr(rdma_devices, "port_facts", self._facts)
        monkeypatch.setattr(rdma_devices, "gid_index", self._gid)

    def _facts(self, device: str, port: int) -> dict[str, Any]:
        return {"state": "ACTIVE", "netdev": f"eth-{device}", "unknown": {}}

    def _gid(self, device: str, port: int, gid_type: str) -> Gid:
        if self.no_gid:
            raise FactError(self.no_gid)
        return Gid(3, "::ffff:0a00:0001", "10.0.0.1", (3,))


def rail_link(server: int = 0, client: int = 1, **changes: Any) -> LinkOrder:
    order = {
        "devices": "mlx5_.*",
        "names": [],
        "count": 2,
        "gid_type": "RoCE v2",
        "connection_manager": False,
        "rails": {"server": server, "client": client},
    }
    return LinkOrder.read({"rdma": {**order, **changes}})


@pytest.fixture
def rails(monkeypatch: pytest.MonkeyPatch, tc: Programs) -> Rails:
    return Rails(monkeypatch, "mlx5_0", "mlx5_1")


def described(link: LinkOrder, role: str = "client") -> tuple[dict[str, str], dict[str, Any]]:
    facts: dict[str, Any] = {}
    values = network_path.describe(link, role, "127.0.0.1", (), facts)
    return values, facts


@pytest.mark.parametrize(("role", "device"), [("server", "mlx5_0"), ("client", "mlx5_1")])
def test_each_side_uses_its_own_rail(rails: Rails, role: str, device: str) -> None:
    values, _ = described(rail_link(), role)
    assert values == {"device": device, "ib_port": "1", "gid_index": "3"}


def test_infiniband_needs_no_gid(rails: Rails) -> None:
    rails.no_gid = "not to be asked for"
    values, facts = described(rail_link(gid_type=None))
    assert values["gid_index"] == ""
    assert "gid" not in facts


def test_facts_are_those_of_the_rail(rails: Rails) -> None:
    _, facts = described(rail_link())
    told = ("rail", "device", "port", "gid_index", "gid", "rail_address", "state")
    assert [facts[name] for name in told] == [
        1,
        "mlx5_1",
        1,
        3,
        "::ffff:0a00:0001",
        "10.0.0.1",
        "ACTIVE",
    ]


def test_counters_are_sampled_of_device_and_interface(rails: Rails) -> None:
    assert described(rail_link())[1]["sampled"] == ["eth-mlx5_1", "mlx5_1"]


def test_emulation_is_that_of_the_rails_interface(rails: Rails, tc: Programs) -> None:
    described(rail_link())
    assert tc.calls == ["tc qdisc show dev eth-mlx5_1"]


@pytest.mark.parametrize("rail", [2, 7])
def test_missing_rail_is_no_way_and_names_those_that_are_there(rails: Rails, rail: int) -> None:
    message = rf"no rail {rail} among the RDMA devices like mlx5_\.\* \(mlx5_0, mlx5_1\)"
    with pytest.raises(PathError, match=message):
        described(rail_link(client=rail))


def test_node_without_rdma_devices_has_no_way(
    monkeypatch: pytest.MonkeyPatch, tc: Programs
) -> None:
    Rails(monkeypatch)
    with pytest.raises(PathError, match=r"\(none\)"):
        described(rail_link())


THREE = {"names": ["mlx5_0", "mlx5_1", "mlx5_2"], "count": 3}


def test_a_device_that_vanished_is_missed_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tc: Programs
) -> None:
    Rails(monkeypatch, "mlx5_0", "mlx5_2")
    facts: dict[str, Any] = {}
    with pytest.raises(PathError, match=r"no mlx5_1, rail 1, among .* \(mlx5_0, mlx5_2\)"):
        network_path.describe(rail_link(client=1, **THREE), "client", "127.0.0.1", (), facts)
    assert facts["rail_missing"].startswith("no mlx5_1, rail 1,")


def test_no_other_device_is_measured_in_the_place_of_one_that_vanished(
    monkeypatch: pytest.MonkeyPatch, tc: Programs
) -> None:
    Rails(monkeypatch, "mlx5_0", "mlx5_2")
    assert described(rail_link(client=2, **THREE))[1]["device"] == "mlx5_2"


def test_a_device_too_many_is_no_rail(monkeypatch: pytest.MonkeyPatch, tc: Programs) -> None:
    Rails(monkeypatch, "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
    with pytest.raises(PathError, match="rail 1 is not identified"):
        described(rail_link(client=1, count=3))
    assert described(rail_link(client=1, **THREE))[1]["device"] == "mlx5_1"


def test_without_names_nothing_shows_the_rails_of_a_node_that_lacks_a_device(
    monkeypatch: pytest.MonkeyPatch, tc: Programs
) -> None:
    Rails(monkeypatch, "mlx5_0", "mlx5_2")
    with pytest.raises(PathError, match=r"rail 1 is not identified .*, expected 3 of them"):
        described(rail_link(client=1, count=3))


def test_rail_without_a_gid_is_no_way(rails: Rails) -> None:
    rails.no_gid = "mlx5_1 port 1 has no RoCE v2 GID"
    with pytest.raises(PathError, match="mlx5_1 port 1 has no RoCE v2 GID"):
        described(rail_link())


def test_way_without_a_rail_is_the_route_to_the_other_node(tc: Programs) -> None:
    values, facts = described(LinkOrder())
    assert (values, facts["emulation"]) == ({}, "none")
    assert facts["sampled"] == [facts["device"]] == ["lo"]


def test_named_interface_is_used_whatever_the_route(programs: Programs) -> None:
    programs.put("tc")
    answer = [{"ifname": "bond0", "addr_info": [{"local": "10.77.9.15"}]}]
    programs.put("ip", json.dumps(answer))
    _, facts = described(LinkOrder(interface="bond0"))
    assert (facts["device"], facts["address"]) == ("bond0", "10.77.9.15")


@pytest.mark.parametrize("answer", ["[]", '[{"addr_info": []}]', "", "no JSON", "[{}]"])
def test_named_interface_without_an_address_is_no_way(programs: Programs, answer: str) -> None:
    programs.put("ip", answer)
    with pytest.raises(PathError, match="bond0 has no IPv4 address"):
        described(LinkOrder(interface="bond0"))


def test_named_interface_that_is_missing_is_no_way(programs: Programs) -> None:
    programs.put("ip", code=1)
    with pytest.raises(PathError, match="address show dev bond0: exit code 1"):
        described(LinkOrder(interface="bond0"))


def test_socket_buffers_are_the_largest_that_the_kernel_allows(tc: Programs) -> None:
    _, facts = described(LinkOrder())
    most = Path("/proc/sys/net/ipv4/tcp_rmem").read_text().split()[-1]
    assert facts["tcp_rmem_max_bytes"] == int(most)


# ---- what has become of it ----


class Sysfs:
    """Files of sysfs by their path, in place of this machine's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: dict[str, str] = {}
        monkeypatch.setattr(network_path, "read_sysfs", self.files.get)


@pytest.fixture
def sysfs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    return Sysfs(monkeypatch).files


def test_carrier_changes_during_the_test_are_counted(sysfs: dict[str, str]) -> None:
    sysfs["/sys/class/net/eth1/carrier_changes"] = "7"
    facts = {"device": "mlx5_0", "port": 1, "netdev": "eth1", "carrier_changes_before": 5}
    assert network_path.state_after(facts)["after"]["carrier_changes"] == 2


@pytest.mark.parametrize("before", [None, 5])
def test_unknown_carrier_changes_are_left_out(sysfs: dict[str, str], before: int | None) -> None:
    assert network_path.state_after({"device": "eth1", "carrier_changes_before": before}) == {
        "after": {}
    }


def test_links_of_a_bond_that_are_down_are_named(sysfs: dict[str, str]) -> None:
    sysfs["/sys/class/net/bond0/bonding/slaves"] = "eth3 eth4"
    sysfs["/sys/class/net/eth3/operstate"] = "up"
    sysfs["/sys/class/net/eth4/operstate"] = "down"
    assert network_path.state_after({"device": "bond0"}) == {"after": {"links_down": ["eth4"]}}


@pytest.mark.parametrize(
    ("said", "state"),
    [("ACTIVE", "ACTIVE"), ("DOWN", "DOWN"), (None, "gone: no device mlx5_0")],
)
def test_state_of_the_port_is_reported_also_where_it_is_gone(
    sysfs: dict[str, str], monkeypatch: pytest.MonkeyPatch, said: str | None, state: str
) -> None:
    monkeypatch.setattr(rdma_devices, "port_state", lambda device, port: said)
    assert network_path.state_after({"device": "mlx5_0", "port": 1})["after"]["state"] == state


def test_nothing_is_known_of_a_way_that_was_not_found(sysfs: dict[str, str]) -> None:
    assert network_path.state_after({}) == {"after": {}}


# ---- what no job can change ----

# The form is that of ethtool 6.1 on a virtio interface.
RINGS = """\
Ring parameters for eth1:
Pre-set maximums:
RX:\t\t1024
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\t1024
Current hardware settings:
RX:\t\t256
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\t512
RX Buf Len:\t\tn/a
"""


def test_ring_buffers_are_those_that_are_set() -> None:
    assert network_path.ring_sizes(RINGS) == {"ring_rx": 256, "ring_tx": 512}


def test_an_interface_without_ring_buffers_states_none() -> None:
    assert network_path.ring_sizes("netlink error: Operation not supported\n") == {}


def test_an_interface_that_is_down_is_no_way(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.put("ip", json.dumps([{"addr_info": [{"local": "10.0.0.1"}]}]))
    monkeypatch.setattr(
        network_path, "read_sysfs", lambda path: "down" if "operstate" in path else None
    )
    with pytest.raises(PathError, match="eth1 is down"):
        network_path.describe(LinkOrder(interface="eth1"), "client", "127.0.0.1", (), {})


# ---- names of the other node ----


def known(names: dict[str, str]) -> Callable[[str], str]:
    """What resolves names here."""

    def resolve(name: str) -> str:
        if name not in names:
            raise OSError(-2, "Name or service not known")
        return names[name]

    return resolve


@pytest.mark.parametrize(
    ("names", "resolved", "address"),
    [
        (["n2", "10.0.0.2"], {"n2": "10.0.0.9", "10.0.0.2": "10.0.0.2"}, "10.0.0.9"),
        (["n2", "10.0.0.2"], {"10.0.0.2": "10.0.0.2"}, "10.0.0.2"),
        (["n2", "n2-ib"], {"n2": "127.0.1.1", "n2-ib": "10.1.0.2"}, "10.1.0.2"),
        (["127.0.0.1"], {"127.0.0.1": "127.0.0.1"}, "127.0.0.1"),
    ],
)
def test_the_first_name_that_leads_to_another_machine_is_taken(
    monkeypatch: pytest.MonkeyPatch, names: list[str], resolved: dict[str, str], address: str
) -> None:
    monkeypatch.setattr("socket.gethostbyname", known(resolved))
    assert address_of(names) == address


def test_names_that_lead_nowhere_are_all_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostbyname", known({"n2-eth": "127.0.1.1"}))
    with pytest.raises(OSError, match=r"n2: Name or service not known; n2-eth: leads to 127\.0\."):
        address_of(["n2", "n2-eth"])


def test_a_node_that_no_name_leads_to_is_no_way_and_reported(
    tc: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostbyname", known({}))
    facts: dict[str, Any] = {}
    with pytest.raises(PathError, match="no name of n2 leads to it"):
        network_path.describe(LinkOrder(), "client", "n2", ["n2-ib"], facts)
    assert set(facts["unresolved"]) == {"n2"}


def test_a_named_interface_needs_no_name_of_the_other_node(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostbyname", known({}))
    programs.put("ip", json.dumps([{"addr_info": [{"local": "10.0.0.1"}]}]))
    programs.put("tc")
    facts: dict[str, Any] = {}
    network_path.describe(LinkOrder(interface="lo"), "client", "n2", (), facts)
    assert facts["address"] == "10.0.0.1"
    assert "unresolved" not in facts


# ---- what lies in the kernel's buffers ----


def test_what_a_sender_left_behind_is_waited_for() -> None:
    """The client has ended, its buffer has not; then the other side takes what is there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            there, _ = listening.accept()
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    client.send(bytes(1 << 16))
        with there:
            assert network_path.unsent(port) > 0
            assert network_path.wait_until_sent(port, 0.1) > 0
            while there.recv(1 << 20):
                pass
            assert network_path.wait_until_sent(port, 10) == 0
    assert network_path.unsent(port) == 0


# ---- the CPUs near a device ----


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("", set()),
        ("0-", set()),
        ("all", set()),
    ],
)
def test_a_list_of_cpus_is_read_as_the_kernel_writes_it(text: str, cpus: set[int]) -> None:
    assert network_path.cpus_of({"cpus": text}) == cpus


def test_a_node_that_names_no_cpus_binds_nothing() -> None:
    assert network_path.cpus_of({}) == frozenset()


def near(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], may_use: set[int], facts: Any
) -> str:
    monkeypatch.setattr(network_path, "read_sysfs", files.get)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: may_use)
    return network_path._near_cpus(facts, ["eth0"])


NIC, RAIL = (f"/sys/class/{kind}/device/local_cpulist" for kind in ("net/eth0", "infiniband/rxe0"))


def test_the_cpus_of_the_rdma_device_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {NIC: "0-3", RAIL: "4-7"}
    assert near(monkeypatch, files, set(range(8)), {"device": "rxe0", "port": 1}) == "4-7"
    assert near(monkeypatch, files, set(range(8)), {"device": "eth0"}) == "0-3"


def test_the_cpus_of_a_virtio_device_are_those_of_its_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent = NIC.replace("device/", "device/../")
    assert near(monkeypatch, {parent: "2-3"}, set(range(4)), {"device": "eth0"}) == "2-3"
    # What a function is below says nothing of it where it speaks for itself.
    assert near(monkeypatch, {NIC: "0", parent: "1"}, {0, 1}, {"device": "eth0"}) == "0"


def test_only_cpus_that_the_job_has_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert near(monkeypatch, {NIC: "0-7,16-23"}, {2, 3, 4, 16}, {"device": "eth0"}) == "2-4,16"
    assert near(monkeypatch, {NIC: "0-7"}, {8, 9}, {"device": "eth0"}) == ""


def test_where_nothing_says_which_cpus_are_near_none_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert near(monkeypatch, {}, {0, 1}, {"device": "eth0"}) == ""
