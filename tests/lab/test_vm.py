"""The VM nodes: RDMA, long ways and bonds for real, and every fault of theirs found and named."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from railgauge import systems
from railgauge.campaign.folder import RESULT_FILE, load
from railgauge.cli.system import system as system_commands
from railgauge.lab import faults
from railgauge.lab.cluster import Lab
from railgauge.lab.nodes import VM
from railgauge.model.record import read_record
from railgauge.node.orchestration.sweep_file import FILE as ORDERS
from railgauge.node.transport import results_file
from railgauge.verdict.campaign import cases
from tests.command_line import invoke

from .conftest import PATIENCE_S, Run, area_of, running, start_dead
from .test_accept import jobs_left, start, suspects, wait_for_agents, wait_for_traffic
from .test_contention import STRESSORS

Verdict = Callable[[], dict[str, Any]]

WRITE_LATENCY = ("^RdmaLatency", "--places", ":0-0:write$")
PROBE = r"^RailProbe\b"


@pytest.fixture(scope="module", autouse=True)
def virtual_machines(cluster: Lab) -> Iterator[None]:
    """The lab has them during this module only: emulated, they cost CPU time also when idle."""
    without = [node.name for node in cluster.in_use()]
    cluster.up()
    yield
    if len(without) < len(cluster.spec.all_nodes()):
        cluster.down()
        cluster.up(nodes=without)


def reasons(verdict: dict[str, Any]) -> dict[str, str]:
    """Why each node is a suspect."""
    found = [s for s in verdict["suspects"] if s["kind"] in ("node", "rail")]
    return {node: s["why"] for s in found for node in s["nodes"]}


class Seen(NamedTuple):
    """A campaign that several tests look at."""

    area: Path
    code: int
    output: str
    verdict: dict[str, Any]


@contextlib.contextmanager
def one_campaign(
    request: pytest.FixtureRequest,
    name: str,
    checks: str,
    *options: str,
    meanwhile: Callable[[Path], None] = lambda _: None,
) -> Iterator[Seen]:
    """The VM partition with these checks, and their preflight, while something happens; its results
    stay where a test of it failed.
    """
    failed = request.session.testsfailed
    with area_of(name, keep=lambda: request.session.testsfailed > failed) as area:
        campaign = start(area, "--partition", "vm", *options, "--", "-n", checks)
        meanwhile(area)
        output, _ = campaign.communicate(timeout=PATIENCE_S)
        written = max((area / "campaigns").glob("*/verdict.json"), default=None)
        assert written is not None, output
        yield Seen(area, campaign.returncode, output, json.loads(written.read_text()))


def messages(verdict: dict[str, Any]) -> str:
    return "\n".join(finding["message"] for finding in verdict["findings"])


def case_folder(area: Path, check: str) -> Path:
    return next(area.glob(f"campaigns/*/stage/lab/vm/builtin/{check}_*"))


def side(area: Path, check: str, role: str, place: str = "n5:n6") -> results_file.Side:
    """What a side of a place of a check has left."""
    folder = case_folder(area, check)
    places = [one["name"] for one in json.loads((folder / ORDERS).read_text())["places"]]
    return results_file.read(folder / results_file.FILE).sides[places.index(place)][role]


def run_on(lab: Lab, node: str, *command: str) -> str:
    outcome = VM.run(lab, lab.node(node), list(command))
    assert outcome.returncode == 0, outcome
    return outcome.stdout


def wait_for_bytes(lab: Lab, node: str, device: str, count: int = 2**22) -> None:
    """Until the device has carried so many more: a tool's connections stand, and it sends."""
    counters = [f"/sys/class/net/{device}/statistics/{way}_bytes" for way in ("rx", "tx")]

    def carried() -> int:
        return sum(map(int, run_on(lab, node, "cat", *counters).split()))

    before = carried()
    deadline = time.monotonic() + PATIENCE_S
    while carried() < before + count:
        assert time.monotonic() < deadline, f"{device} of {node} carries nothing"


def test_rails_have_the_mtu_that_rdma_needs(cluster: Lab) -> None:
    for device in ("rxe0", "rxe1"):
        shown = run_on(cluster, "n5", "ibv_devinfo", "-d", device)
        assert "PORT_ACTIVE" in shown and re.search(r"active_mtu:\s+4096", shown)


def test_a_command_on_a_vm_gives_its_output_and_exit_code(railgauge: Run) -> None:
    answer = railgauge("lab", "exec", "n6", "sh", "-c", "hostname; exit 7")
    assert (answer.stdout, answer.returncode) == ("n6\n", 7)


def test_a_vm_with_a_killed_process_comes_back(repaired: Lab) -> None:
    machine = repaired.machine("n6")
    assert machine is not None
    machine.kill()
    assert machine.wait_until_ended(PATIENCE_S)
    start_dead(repaired)
    assert run_on(repaired, "n6", "hostname") == "n6\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["delay", "n1", "1"], "needs a VM node (n[5-6])"),
        (["loss", "n5:eth9", "1"], "no interface 'eth9'"),
        (["rdma-removed", "n5:eth0"], "eth1, eth2"),
        (["off", "n5:eth0"], "concerns no single interface"),
    ],
)
def test_a_fault_that_cannot_be_is_one_clear_error(
    railgauge: Run, arguments: list[str], says: str
) -> None:
    answer = railgauge("lab", "fault", "add", *arguments)
    assert answer.returncode == 3 and says in answer.stdout


def test_netem_is_one_setting_of_an_interface(repaired: Lab) -> None:
    faults.add(repaired, "delay", "n5", 1)
    with pytest.raises(Exception, match="in place already"):
        faults.add(repaired, "loss", "n5", 1)
    faults.add(repaired, "loss", "n5", 1, "eth2")
    faults.clear(repaired)
    assert "netem" not in run_on(repaired, "n5", "tc", "qdisc", "show")


# ---- faults that are there from the start --------------------------------------------------


@pytest.fixture(scope="module")
def emulated(request: pytest.FixtureRequest, cluster: Lab) -> Iterator[Seen]:
    """One rail that n5 delays, one that n6 loses packets of and n5 puts out of order."""
    try:
        faults.add(cluster, "delay", "n5", 1)
        faults.add(cluster, "reorder", "n5", 5, "eth2")
        faults.add(cluster, "loss", "n6", 1, "eth2")
        with one_campaign(request, "emulated", *WRITE_LATENCY) as seen:
            faults.clear(cluster)
            assert seen.code == 1, seen.output
            yield seen
    finally:
        faults.clear(cluster)


def test_a_delay_is_rejected_and_named(emulated: Seen) -> None:
    delay = r"emulation on n5 rxe0 is netem .*delay 1ms, expected none"
    assert re.search(delay, messages(emulated.verdict))
    assert re.fullmatch(delay, reasons(emulated.verdict)["n5"])


def test_nothing_more_is_measured_over_a_rail_that_fails_its_probe(emulated: Seen) -> None:
    left = {f["check"]: f for f in emulated.verdict["findings"] if f["kind"] == "not-run"}
    assert "failed: RailProbe n5:n6:0-0" in left["RdmaLatency"]["message"]


def test_loss_and_reordering_are_rejected_and_named(emulated: Seen) -> None:
    said = messages(emulated.verdict)
    assert re.search(r"emulation on n6 rxe1 is netem .*loss 1%", said)
    assert re.search(r"emulation on n5 rxe1 is netem .*reorder 5%", said)
    # Of its own rail alone, whatever its partner's does.
    assert re.match(r"emulation on n6 rxe1 is netem .*loss 1%", reasons(emulated.verdict)["n6"])
    assert suspects(emulated.verdict) == ["n5", "n6"]


@pytest.fixture(scope="module")
def broken_paths(request: pytest.FixtureRequest, cluster: Lab) -> Iterator[dict[str, Any]]:
    """The verdict on three broken paths: a low MTU, a missing device, a bond's lost link."""
    try:
        faults.add(cluster, "mtu", "n6", 1500)
        faults.add(cluster, "rdma-removed", "n5", interface="eth2")
        faults.add(cluster, "link-down", "n6", interface="eth4")
        checks = "^(BondPair|NodeState|RdmaBandwidth)"
        with one_campaign(request, "broken-paths", checks) as seen:
            faults.clear(cluster)
            assert seen.code == 1, seen.output
            yield seen.verdict
    finally:
        faults.clear(cluster)


def test_a_lowered_mtu_is_found_before_anything_is_measured(broken_paths: dict[str, Any]) -> None:
    said = messages(broken_paths)
    assert "n6: rail 0 (rxe0 port 1): active MTU is 1024, expected 4096" in said


def test_a_lowered_mtu_is_a_field_of_the_node_with_its_fix(broken_paths: dict[str, Any]) -> None:
    of_state = [f for f in broken_paths["findings"] if f["check"] == "NodeState"]
    mtu = [f for f in of_state if "n6: net/eth1/mtu_bytes is 1500, expected 4200" in f["message"]]
    assert [f["next_step"] for f in mtu] == ["ip link set eth1 mtu 4200"]


def test_a_removed_device_is_named_with_its_node(broken_paths: dict[str, Any]) -> None:
    said = messages(broken_paths)
    assert "n5: the number of RDMA devices like rxe[0-9]+ is 1 (rxe0), expected 2" in said
    assert "expected 2, rail 1 (rxe1) is not there" in said


def test_a_lost_link_of_a_bond_is_named(broken_paths: dict[str, Any]) -> None:
    assert "n6: bond0: link eth4 is down, expected up" in messages(broken_paths)


def test_what_needs_a_broken_path_is_not_run_and_listed(broken_paths: dict[str, Any]) -> None:
    left = [f for f in broken_paths["findings"] if f["kind"] == "not-run"]
    # One finding where several checks have one reason.
    named = " ".join(f"{f['check']} {f['message']}" for f in left)
    assert all(check in named for check in ("RailProbe", "RdmaBandwidth", "BondPair")), named
    assert all("its precondition failed: NodeState n" in f["message"] for f in left), named
    assert {m["check"] for m in broken_paths["measurements"]} == {"NodeState"}


def test_the_nodes_of_broken_paths_are_named(broken_paths: dict[str, Any]) -> None:
    assert suspects(broken_paths) == ["n5", "n6"]


@pytest.mark.release
def test_a_lost_link_halves_a_bond_and_does_not_break_it(repaired: Lab) -> None:
    link_gbits = 0.03

    def rate() -> float:
        run_on(repaired, "n5", "sh", "-c", "timeout 300 iperf -s -p 5999 -P 16 >/dev/null 2>&1 &")
        deadline = time.monotonic() + PATIENCE_S
        while ":5999 " not in run_on(repaired, "n5", "ss", "-Hltn"):
            assert time.monotonic() < deadline, "no server"
        client = ["iperf", "-c", "10.77.9.15", "-p", "5999", "-P", "16", "-t", "8", "-f", "k"]
        said = run_on(repaired, "n6", *client)
        # Nobody connects to it by mistake, and the next one has the port.
        end = "pkill -9 -x iperf; while pgrep -x iperf; do sleep 0.2; done"
        run_on(repaired, "n5", "sh", "-c", end)
        rows = re.findall(r"\[SUM\S*\].* ([0-9.]+) Kbits/sec", said)
        assert rows, said
        return float(rows[-1]) / 1e6

    # Links so slow that emulated machines fill two of them whatever else this machine does.
    for interface in ("eth3", "eth4"):
        faults.add(repaired, "rate", "n6", link_gbits, interface)
    both = rate()
    faults.add(repaired, "link-down", "n6", interface="eth4")
    one = rate()
    # Of a link 98 % is payload; what fills the sockets' buffers counts as sent.
    assert 0.5 * link_gbits < one < 1.5 * link_gbits
    assert 1.2 * one < both < 2.5 * link_gbits


# ---- faults in mid-transfer ----------------------------------------------------------------


@pytest.fixture(scope="module")
def links_lost(request: pytest.FixtureRequest, cluster: Lab) -> Iterator[Seen]:
    """In one campaign a link of n5 goes down while its bond is measured, then n6's first rail."""

    def break_them(area: Path) -> None:
        # While a link that went down is still in its partner's bond, nobody new can connect by it.
        wait_for_bytes(cluster, "n6", "bond0")
        faults.add(cluster, "link-down", "n5", interface="eth4")
        wait_for_agents(area, check="RdmaUsage")
        # Of 80 MiB that this place moves, the largest messages last.
        wait_for_bytes(cluster, "n6", "eth1", 2**20)
        faults.add(cluster, "link-down", "n6")

    try:
        checks, places = "^(BondPair|RdmaUsage)", "^n5:n6$|:sizes$"
        with one_campaign(
            request, "links-lost", checks, "--places", places, meanwhile=break_them
        ) as seen:
            faults.clear(cluster)
            assert seen.code == 1, seen.output
            yield seen
    finally:
        faults.clear(cluster)


@pytest.mark.release
def test_a_rail_that_goes_down_in_mid_transfer_is_named(links_lost: Seen, cluster: Lab) -> None:
    assert "rxe0 on n6 was ACTIVE, and is DOWN now" in messages(links_lost.verdict)
    assert "n6" in suspects(links_lost.verdict)
    assert "bond" not in reasons(links_lost.verdict)["n6"]
    assert jobs_left(cluster) == ""


@pytest.mark.release
def test_a_bond_survives_a_link_lost_in_mid_transfer(links_lost: Seen) -> None:
    said = messages(links_lost.verdict)
    assert "link eth4 of bond0 on n5 is down after the test" in said
    record = read_record(case_folder(links_lost.area, "BondPair") / RESULT_FILE)
    assert record is not None
    (result,) = record.results
    assert [call.exit_code for call in result.calls] == [0, 0]


@pytest.mark.release
def test_a_vm_that_loses_power_in_mid_transfer_is_named(
    area: Path, verdict: Verdict, repaired: Lab
) -> None:
    campaign = start(area, "--partition", "vm", "--", "-n", PROBE)
    wait_for_traffic(area, check="RailProbe")
    faults.add(repaired, "off", "n6")
    output, _ = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 1, output
    found = verdict()
    assert re.search("n6: (its connection ended|did not answer)", messages(found))
    assert "n6" in suspects(found)
    assert jobs_left(repaired) == ""


# ---- long ways -----------------------------------------------------------------------------


#: Of the long ways two; not BBR over the long one: its window is twice what it got in its least
#: RTT. Guests without a CPU have a RTT of twice that, and then it stays where it began.
OF_SERIES = "^(?!.*(ms:|:tuned$))|:(0ms:default:bbr|100ms:8388608:cubic)$"


@pytest.fixture(scope="module")
def series(request: pytest.FixtureRequest, cluster: Lab) -> Iterator[Seen]:
    """What is measured with `--series` alone, for a part of it."""
    checks = "^(WanTcp|RdmaRailsTogether|CablePair|Contention)"
    with one_campaign(request, "series", checks, "--series", "--places", OF_SERIES) as seen:
        yield seen


def rejected(seen: Seen, *checks: str) -> list[dict[str, Any]]:
    """What these checks, or their preflight, are rejected for."""
    of = {"", "NodeState", "RailProbe", *checks}
    return [f for f in seen.verdict["findings"] if f["check"] in of and f["weight"] == "reject"]


@pytest.mark.release
def test_the_series_of_long_ways_is_measured(series: Seen, cluster: Lab) -> None:
    # The rest of what is required was left out.
    assert (series.verdict["verdict"] != "accept", rejected(series, "WanTcp")) == (True, [])
    rows = [m for m in series.verdict["measurements"] if m["check"] == "WanTcp"]
    found = [m for m in rows if m["metric"] == "rtt"]
    measured = sorted((m["delay_ms"], m["congestion"]) for m in found)
    assert measured == [(0.0, "bbr"), (100.0, "cubic")]
    assert all(m["delay_ms"] <= m["value"] < m["delay_ms"] + 15 for m in found)
    limited = [m for m in rows if m["limit"] and m["delay_ms"] == 100]
    assert limited and all("one window of" in m["limit"]["reason"] for m in limited)
    assert "netem" not in run_on(cluster, "n5", "tc", "qdisc", "show")


@pytest.mark.release
def test_all_rails_are_measured_at_once_both_ways(series: Seen) -> None:
    rows = [m for m in series.verdict["measurements"] if m["check"] == "RdmaRailsTogether"]
    gbits = {m["operation"]: m["value"] for m in rows if m["passed"]}
    each = [gbits.pop(f"write_bidirectional rail{rail}", 0) for rail in (0, 1)]
    assert gbits == {"write_bidirectional": pytest.approx(sum(each))}, series.output
    assert min(each) > 0
    for role in ("server0", "client0", "server1", "client1"):
        together = side(series.area, "RdmaRailsTogether", role)
        assert together.line["call"]["exit_code"] == 0


@pytest.mark.release
def test_nics_of_a_cable_are_measured_at_once_each_by_its_own_bytes(series: Seen) -> None:
    rows = [m for m in series.verdict["measurements"] if m["check"] == "CablePair"]
    measured = {m["metric"]: m for m in rows}
    assert {"bandwidth", "jain_index"} <= set(measured), series.output
    assert measured["bandwidth"]["nics"] == "eth1+eth2"
    assert [f for f in series.verdict["findings"] if f["kind"].startswith("nic-")] == []


@pytest.mark.release
def test_virtual_machines_are_measured_next_to_load_on_their_hypervisor(
    series: Seen, cluster: Lab
) -> None:
    ratios = {ratio["name"]: ratio["value"] for ratio in series.verdict["ratios"]}
    assert {name for name, value in ratios.items() if value} == {
        "TCP, vm, busy over idle",
        "RDMA latency, vm, typical, busy over idle",
        "RDMA latency, vm, p99, busy over idle",
    }, series.output
    # Each side looked at the CPUs of the machine below, and kept them busy.
    (campaign,) = (series.area / "campaigns").iterdir()
    of_sides = [
        facts["contention"]
        for case in cases.read(load(str(campaign)))
        for facts in case.facts.values()
        if "contention" in facts
    ]
    assert {(of["on"], of["state"]) for of in of_sides} == {("head", "idle"), ("head", "busy")}
    assert running(cluster, "head", STRESSORS) == ""


@pytest.mark.release
def test_a_cancelled_long_way_leaves_no_emulation(area: Path, cluster: Lab) -> None:
    only = ("--partition", "vm", "--places", ":44ms:default:cubic$")
    campaign = start(area, *only, "--", "-n", "^WanTcp")
    wait_for_traffic(area, check="WanTcp")
    campaign.terminate()
    campaign.communicate(timeout=PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while any("netem" in run_on(cluster, n, "tc", "qdisc", "show") for n in ("n5", "n6")):
        assert time.monotonic() < deadline, "netem is still there"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def in_the_way(request: pytest.FixtureRequest, cluster: Lab) -> Iterator[dict[str, Any]]:
    """The verdict on a way that is long already, and on a NIC that is down."""
    try:
        faults.add(cluster, "delay", "n5", 3, "eth0")
        faults.add(cluster, "link-down", "n6", interface="eth2")
        checks, places = "^(WanTcp|NicPair|CablePair)", ":44ms:default:cubic$|[1+].*:default$"
        options = ("--series", "--places", places)
        with one_campaign(request, "in-the-way", checks, *options) as seen:
            faults.clear(cluster)
            assert seen.code == 1, seen.output
            yield seen.verdict
    finally:
        faults.clear(cluster)


@pytest.mark.release
def test_a_way_that_is_long_already_is_not_made_longer(in_the_way: dict[str, Any]) -> None:
    said = messages(in_the_way)
    assert re.search(r"on n5: not started: eth0 has netem .*delay 3ms already", said)
    assert "WanTcp" not in {m["check"] for m in in_the_way["measurements"]}


@pytest.mark.release
def test_a_nic_that_is_down_is_named_and_not_measured_around(in_the_way: dict[str, Any]) -> None:
    assert "iperf2 (client1) on n6: not started: eth2 is down" in messages(in_the_way)
    of_nics = [m for m in in_the_way["measurements"] if m["check"] in ("NicPair", "CablePair")]
    assert {m["nics"] for m in of_nics} == {"eth1"}


# ---- all of it -----------------------------------------------------------------------------


def test_a_healthy_lab_is_accepted(
    railgauge: Run, area: Path, verdict: Verdict, cluster: Lab
) -> None:
    """Last, so that it also shows that nothing of the faults above is left.

    Without the long ways, which have tests of their own.
    """
    answer = railgauge("accept", "--", "-x", "^WanTcp")
    assert answer.returncode == 0, answer.stdout
    found = verdict()
    assert (found["verdict"], found["findings"]) == ("accept", [])
    limited = [m for m in found["measurements"] if m["check"] == "Iperf2Pair" and m["limit"]]
    assert {m["partition"] for m in limited} == {"ns"}
    assert all(m["share_of_limit"] > 0.5 for m in limited if m["metric"] == "bandwidth")
    (iperf2,) = [tool for tool in found["tools"] if tool["tool"] == "iperf2"]
    assert iperf2["version"].startswith("iperf version 2.2.1")
    assert iperf2["package"].startswith("dpkg iperf 2.2.1")
    assert len(iperf2["nodes"]) == 6
    of_rails = {(m["check"], m["rails"]) for m in found["measurements"] if m["rails"]}
    assert {("RailProbe", "0-0"), ("RailProbe", "1-1")} <= of_rails
    assert {("RdmaBandwidth", "0-1"), ("RdmaBandwidth", "1-0")} <= of_rails
    sizes = {m["size_bytes"] for m in found["measurements"] if m["operation"] == "write sizes"}
    assert {2, 65536, 8 * 2**20} <= sizes
    facts = side(area, "RdmaUsage", "client", "n5:n6:0-0:duration").line["facts"]
    # The control connection is by eth0, the data by the rail.
    assert facts["address"].startswith("10.77.0.") and facts["netdev"] == "eth1"
    assert facts["counters"]["counters"]["rdma/rxe0/1/hw_counters/sent_pkts"] > 1000
    assert facts["counters"]["peak_gbits"]["net/eth1"]["tx"] > 0.02
    # Nothing is lost in a healthy lab: what is only slow is not sent again.
    facts = side(area, "RdmaUsage", "server", "n5:n6:0-0:queue_pairs").line["facts"]
    grown = facts["counters"]["counters"]
    again = grown.get("rdma/rxe0/1/hw_counters/duplicate_request", 0)
    assert again < 0.1 * grown["rdma/rxe0/1/hw_counters/rcvd_pkts"]
    assert jobs_left(cluster) == ""


def test_rails_are_found_on_the_nodes(login_node: None) -> None:
    words = ["new", "mine", "--like", "roce", "--detect", "--partition", "vm"]
    answer = invoke(system_commands, words)
    assert answer.exit_code == 0, answer.exception
    rdma = systems.load("mine").partition("vm").extras.rdma
    assert rdma is not None
    assert (rdma.devices, rdma.rails, rdma.active_mtu_bytes) == ("rxe0|rxe1", 2, 4096)
    assert (rdma.gid_type, rdma.line_gbits) == ("RoCE v2", None)


def test_a_dead_sshd_of_their_hypervisor_is_started_again(cluster: Lab) -> None:
    cluster.stop_service("sshd")
    start_dead(cluster)
    assert cluster.service_runs("sshd")
