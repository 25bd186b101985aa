"""The larger lab: 32 nodes on leaves and spines, and faults of its links."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.lab import faults, network, switches, uplinks
from railgauge.lab.cluster import Lab
from railgauge.model.routes import parse as parse_routes
from railgauge.model.uplinks import Uplink, carried, parse
from railgauge.processes import Process

from .conftest import PATIENCE_S, lab_beside, lab_command, links_here, running
from .test_accept import start, suspects, sweeps

pytestmark = pytest.mark.release

#: More than what a link at half its rate carries, and what one at its rate cannot.
LEAST_GBITS, MOST_GBITS = 0.06, 0.11


@pytest.fixture(scope="module")
def leaves(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_beside(cluster, tmp_path_factory.mktemp("leaves") / "lab", "lab32") as lab:
        answer = lab_command(lab, "up", "--system", "lab32")
        assert answer.returncode == 0, answer.stdout
        assert answer.stdout.splitlines()[-1].endswith("up: n[1-32] idle")
        yield lab


@pytest.fixture
def mended(leaves: Lab) -> Iterator[Lab]:
    yield leaves
    faults.clear(leaves)


def on(lab: Lab, machine: str, *command: str) -> str:
    outcome = subprocess.run(
        lab.enter(machine, *command),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert outcome.returncode == 0, f"{machine}: {command}: {outcome.stdout}{outcome.stderr}"
    return outcome.stdout


def bandwidth(lab: Lab, client: str, server: str, *options: str) -> float:
    """What iperf2 moves in 6 s, in Gb/s, by hand."""
    serving = subprocess.Popen(lab.enter(server, "iperf", "-s"), stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while ":5001 " not in on(lab, server, "ss", "-Hltn"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        said = on(lab, client, "iperf", "-c", server, "-t", "6", "-f", "k", *options)
    finally:
        on(lab, server, "pkill", "-x", "iperf")
        serving.wait(20)
    (*_, last) = re.findall(r"([0-9.]+) Kbits/sec", said)
    return float(last) / 1e6


def busiest(lab: Lab, leaf: str, before: Sequence[Uplink], way: str = "sent") -> str:
    """The spine to which a leaf has sent most since, or from which it has received most."""
    found = [one for one in carried(before, uplinks.count(lab)) if one.leaf == leaf]
    return max(found, key=lambda one: getattr(one, f"{way}_bytes")).spine


def lost(lab: Lab, client: str, server: str, interval_s: float = 0.01, count: int = 400) -> float:
    """The share of pings without an answer, in percent. Between more of them in a second ping does
    not sleep.
    """
    words = ["ping", "-q", "-i", f"{interval_s:g}", "-c", f"{count}", server]
    outcome = subprocess.run(
        lab.enter(client, *words), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    found = re.search(r"([0-9.]+)% packet loss", outcome.stdout)
    assert found is not None, outcome.stdout + outcome.stderr
    return float(found[1])


def state_of(lab: Lab, *machines: str) -> str:
    """Links, neighbours and routes of some machines as they are now, for the words of a failure."""
    command = ("sh", "-c", "ip -brief link; ip neighbour; ip route")
    return "".join(f"--- {machine}\n{on(lab, machine, *command)}" for machine in machines)


def add(lab: Lab, kind: str, *words: str) -> None:
    faults.add_typed(lab, kind, words)


def settings(lab: Lab) -> dict[str, list[str]]:
    """What faults change of the network of some machines, as their kernel shows it."""
    found = {}
    for machine in ("leaf1", "leaf2", "spine2", "spine3", "n3", "n5"):
        shown = on(lab, machine, "sh", "-c", "ip route; tc qdisc; ip -o -d link")
        # Whether a link has its carrier, which comes a moment later; a bridge's timers; handles.
        shown = re.sub(r" state \S+|timer +[0-9.]+|(?<=tbf) \w+:", "", shown)
        found[machine] = sorted(shown.splitlines())
        rules = subprocess.run(
            network.inside(lab.require_machine(machine), "nft", "list", "ruleset"),
            capture_output=True,
            text=True,
            check=True,
        )
        found[machine] += rules.stdout.splitlines()
    return found


def processes_in(lab: Lab) -> list[Process]:
    """Every process of the lab, whatever its command line."""
    assert lab.init is not None
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [lab.init.pid]
    while todo:
        number = todo.pop()
        todo += parents.get(number, [])
        found.append(Process.of(number))
    return [process for process in found if process]


def test_every_node_is_idle(leaves: Lab) -> None:
    assert leaves.on_head("sinfo", "-h", "-o", "%P %D %t %N").stdout == "ns* 32 idle n[1-32]\n"


def test_slurm_knows_the_leaves(leaves: Lab) -> None:
    shown = leaves.on_head("scontrol", "show", "topology").stdout
    assert re.search(r"SwitchName=leaf1 Level=0 .*Nodes=n\[1-8\]$", shown, re.M)
    assert re.search(r"SwitchName=spines Level=1 .*Switches=leaf\[1-4\]$", shown, re.M)


def test_one_job_runs_on_all_of_them(leaves: Lab) -> None:
    said = leaves.on_head("srun", "--nodes=32", "hostname").stdout
    assert len(set(said.split())) == 32


def test_status_tells_the_leaves(leaves: Lab) -> None:
    lines = lab_command(leaves, "status").stdout.splitlines()
    assert "n9       namespace  10.78.2.11     on   idle  leaf2" in lines
    assert "leaf2    leaf       10.78.2.0/24   on   n[9-16]" in lines
    assert "spine4   spine                     on" in lines


def test_a_switch_can_be_looked_at(leaves: Lab) -> None:
    answer = lab_command(leaves, "exec", "leaf1", "ip", "route", "show", "10.78.0.0/16")
    assert re.findall(r"dev (spine\d)", answer.stdout) == ["spine1", "spine2", "spine3", "spine4"]


@pytest.mark.parametrize(("client", "server"), [("n1", "n2"), ("n1", "n32")])
def test_two_nodes_move_what_their_links_carry(leaves: Lab, client: str, server: str) -> None:
    assert LEAST_GBITS < bandwidth(leaves, client, server, "-P", "4") <= MOST_GBITS


def test_a_flow_keeps_to_its_spine_and_flows_spread_over_all(leaves: Lab) -> None:
    ways = []
    for port in [*range(40000, 40040), *range(40000, 40008)]:
        before = uplinks.count(leaves)
        # By its ports alone: a packet without anybody who answers.
        knock = f"import socket; s = socket.socket(2, 2); s.bind(('', {port})); [" + (
            "s.sendto(bytes(1000), ('n32', 9)) for _ in range(20)]"
        )
        on(leaves, "n1", "python3", "-c", knock)
        ways.append(busiest(leaves, "leaf1", before))
    assert ways[:8] == ways[40:]
    assert set(ways) == {"spine1", "spine2", "spine3", "spine4"}


#: A flow of 40 segments with pauses between, from the same port each time, once somebody listens.
_SEND = """\
import socket, time
deadline = time.monotonic() + 200
while True:
    try:
        flow = socket.create_connection(("n32", 5009), 100, ("", 41009))
        break
    except ConnectionRefusedError:
        assert time.monotonic() < deadline
        time.sleep(0.1)
flow.setsockopt(6, 1, 1)
for _ in range(40):
    flow.sendall(bytes(3000))
    time.sleep(0.02)
flow.setsockopt(1, 13, bytes([1, 0, 0, 0, 0, 0, 0, 0]))  # ends at once: the port is free again
"""
_TAKE = """\
import socket
flow = socket.create_server(("", 5009)).accept()[0]
try:
    while flow.recv(9999):
        pass
except ConnectionResetError:
    pass
"""


def used(lab: Lab) -> set[str]:
    """The spines to which leaf1 sends a part of one flow with pauses, from n1 to n32."""
    taking = subprocess.Popen(lab.enter("n32", "python3", "-c", _TAKE))
    try:
        before = uplinks.count(lab)
        on(lab, "n1", "python3", "-c", _SEND)
        sent = [one for one in carried(before, uplinks.count(lab)) if one.leaf == "leaf1"]
    finally:
        taking.kill()
        taking.wait(20)
    return {one.spine for one in sent if one.sent_bytes > 0.1 * 40 * 3000}


def test_a_flow_takes_the_ways_of_the_leaves_mode(leaves: Lab) -> None:
    """How packets are marked and routed is the kernel's."""
    try:
        counts = {}
        for mode in switches.MODES:
            assert lab_command(leaves, "uplinks", "--mode", mode).returncode == 0
            counts[mode] = len(used(leaves))
    finally:
        switches.spread(leaves, "ecmp")
    assert counts == {"ecmp": 1, "ecmp-l3": 1, "flowlet": 4, "packet": 4}


def test_a_slow_uplink_slows_the_flows_that_go_by_it(mended: Lab) -> None:
    # From one port, so that the flow goes the same way again.
    flow = ("--bind", f"{mended.node('n1').address}:41000")
    before = uplinks.count(mended)
    assert bandwidth(mended, "n1", "n32", *flow) > LEAST_GBITS
    spine = busiest(mended, "leaf1", before)
    add(mended, "uplink-rate", f"leaf1:{spine}", "0.01")
    assert bandwidth(mended, "n2", "n3") > LEAST_GBITS
    assert bandwidth(mended, "n1", "n32", *flow) < 0.03
    faults.clear(mended)
    assert bandwidth(mended, "n1", "n32", *flow) > LEAST_GBITS


@pytest.mark.parametrize("way", ["sent", "received"])
def test_a_lossy_uplink_loses_what_goes_by_it_both_ways(mended: Lab, way: str) -> None:
    before = uplinks.count(mended)
    assert lost(mended, "n1", "n32") == 0
    uplink = f"leaf1:{busiest(mended, 'leaf1', before, way)}"
    add(mended, "uplink-loss", uplink, "40")
    # The answers may go by the same uplink as the questions.
    assert 25 < lost(mended, "n1", "n32") < 80
    assert lost(mended, "n2", "n3") == 0
    if way == "received":
        assert {str(one) for one in uplinks.count(mended) if one.errors} == {uplink}
    faults.clear(mended)
    assert lost(mended, "n1", "n32") == 0


def test_a_lossy_rail_loses_both_ways(mended: Lab) -> None:
    add(mended, "rail-loss", "n5", "30")
    # 1 - 0.7^2 is 51 %; of one way 30 %.
    assert 40 < lost(mended, "n6", "n5", count=600) < 62
    assert lost(mended, "n6", "n7") == 0
    faults.clear(mended)
    assert lost(mended, "n6", "n5") == 0


def test_a_leaf_that_is_down_takes_its_nodes_along_and_no_other(mended: Lab) -> None:
    add(mended, "leaf-down", "leaf2")
    for client, server in (("n1", "n9"), ("n9", "n10")):
        assert lost(mended, client, server, 0.1, 5) == 100
    assert lost(mended, "n1", "n17", 0.1, 5) == 0
    faults.clear(mended)
    for client, server in (("n1", "n9"), ("n9", "n10")):
        share = lost(mended, client, server, 0.1, 5)
        shown = share and state_of(mended, client, server, "leaf1", "leaf2", "spine1", "spine2")
        assert share == 0, shown


def test_a_flapping_link_is_down_for_a_fifth_of_the_time(mended: Lab) -> None:
    changes = ("cat", "/sys/class/net/eth0/carrier_changes")
    before = int(on(mended, "n3", *changes))
    add(mended, "flap", "n3", "2")
    assert 5 < lost(mended, "n4", "n3", 0.05, 120) < 45
    assert int(on(mended, "n3", *changes)) - before >= 4
    faults.clear(mended)
    assert lost(mended, "n4", "n3") == 0


def test_a_flapping_uplink_comes_and_goes(mended: Lab) -> None:
    add(mended, "flap", "leaf1:spine2", "1")
    shown = [on(mended, "leaf1", "ip", "-o", "link", "show", "spine2") for _ in range(100)]
    assert {",UP," in line for line in shown} == {True, False}
    # A leaf takes another uplink meanwhile.
    assert bandwidth(mended, "n1", "n32", "-P", "4") > LEAST_GBITS / 2


def test_a_flapping_link_whose_process_was_killed_is_told_and_mended(mended: Lab) -> None:
    add(mended, "flap", "n3", "2")
    process = mended.machine("flap-n3-eth0")
    assert process is not None
    process.kill()
    assert process.wait_until_ended(PATIENCE_S)
    shown = lab_command(mended, "status").stdout
    assert "fault    flap n3:eth0 2  (its process has ended: railgauge lab fault clear)" in shown
    faults.clear(mended)
    assert lost(mended, "n4", "n3") == 0


def test_faults_go_together_and_leave_nothing(mended: Lab) -> None:
    before = settings(mended)
    words = [
        "uplink-rate leaf1:spine2 0.05",
        "uplink-loss leaf1:spine2 1",
        "uplink-loss leaf1:spine3 1",
        "leaf-down leaf2",
        "flap n3:eth0 5",
        "rail-loss n5:eth0 1",
        "rate n5:eth0 0.05",
    ]
    for fault in words:
        answer = lab_command(mended, "fault", "add", *fault.split())
        assert answer.stdout == f"in place: {fault}\n"
    process = mended.machine("flap-n3-eth0")
    assert process is not None
    shown = lab_command(mended, "status").stdout.splitlines()
    assert [line for line in shown if line.startswith("fault")] == [f"fault    {f}" for f in words]
    answer = lab_command(mended, "fault", "clear")
    assert answer.stdout == f"cleared: {'; '.join(words)}\n"
    assert settings(mended) == before
    assert not process.alive
    assert "fault" not in lab_command(mended, "status").stdout


def test_what_went_over_each_uplink_is_told(leaves: Lab) -> None:
    before = uplinks.count(leaves)
    assert len(before) == 16
    moved = 3 * LEAST_GBITS * 1e9 / 8
    bandwidth(leaves, "n1", "n32", "-P", "8")
    answer = lab_command(leaves, "uplinks", "--json")
    after = parse(answer.stdout)
    sent = {"leaf1": 0, "leaf2": 0, "leaf3": 0, "leaf4": 0}
    for one in carried(before, after):
        sent[one.leaf] += one.sent_bytes
    assert sent["leaf1"] > moved
    assert max(sent["leaf2"], sent["leaf3"]) < moved / 10


def test_how_evenly_uplinks_are_used_is_shown(leaves: Lab) -> None:
    answer = lab_command(leaves, "uplinks", "--seconds", "0.2")
    shown = [line.split()[:2] for line in answer.stdout.splitlines()]
    assert ["leaf1", "spine4"] in shown and ["leaf4", "balance"] in shown


def test_the_routes_of_the_leaves_kernels_are_printed(leaves: Lab) -> None:
    """By addresses each pair takes one spine; by ports no route is fixed."""
    assert lab_command(leaves, "routes").stdout == ""
    try:
        lab_command(leaves, "uplinks", "--mode", "ecmp-l3")
        found = parse_routes(lab_command(leaves, "routes").stdout)
        before = uplinks.count(leaves)
        bandwidth(leaves, "n1", "n32", "-P", "8")
        sent = {
            o.spine: o.sent_bytes
            for o in carried(before, uplinks.count(leaves))
            if o.leaf == "leaf1"
        }
    finally:
        lab_command(leaves, "uplinks", "--mode", "ecmp")
    assert len(found) == 32 * 24
    (route,) = [r for r in found if (r.source, r.destination) == ("n1", "n32")]
    assert route.leaf == "leaf1" and max(sent, key=sent.__getitem__) == route.spine


def test_a_lossy_link_loses_what_leaves_the_node(mended: Lab) -> None:
    add(mended, "loss", "n5", "30")
    assert 15 < lost(mended, "n5", "n6") < 45


def test_a_full_disk_takes_nothing_until_it_is_mended(mended: Lab) -> None:
    lab_command(mended, "fault", "add", "disk-full", "n7")
    write = ["sh", "-c", "for f in /tmp/x /root/x; do echo text >$f || echo full; done"]
    assert on(mended, "n7", *write) == "full\nfull\n"
    lab_command(mended, "fault", "clear")
    assert on(mended, "n7", *write) == ""


def test_a_stopped_process_goes_on_after_it_is_mended(mended: Lab) -> None:
    state = ["ps", "-o", "stat=", "-C", "slurmd"]
    lab_command(mended, "fault", "add", "stopped", "n8", "--process", "slurmd -D")
    assert "T" in on(mended, "n8", *state)
    lab_command(mended, "fault", "clear")
    assert "T" not in on(mended, "n8", *state)


@pytest.mark.parametrize("victim", ["leaf2", "spine3"])
def test_a_switch_that_died_comes_back_with_its_links(leaves: Lab, victim: str) -> None:
    switch = leaves.machine(victim)
    assert switch is not None
    switch.kill()
    assert switch.wait_until_ended(PATIENCE_S)
    answer = lab_command(leaves, "up")
    assert answer.returncode == 0, answer.stdout
    for client, server in (("n1", "n9"), ("n9", "n32")):
        on(leaves, client, "ping", "-q", "-c", "2", "-w", str(PATIENCE_S), server)


def test_an_up_that_was_killed_is_made_good_by_the_next(leaves: Lab) -> None:
    (leaves.folders.run / "switches").unlink()
    answer = lab_command(leaves, "up")
    assert answer.returncode == 0, answer.stdout
    assert "starting leaf[1-4],spine[1-4]" in answer.stdout
    for client, server in (("n1", "n9"), ("n9", "n32")):
        on(leaves, client, "ping", "-q", "-c", "2", "-w", str(PATIENCE_S), server)


#: Stands in for python3 on a node: its agent is another one.
_OTHER_AGENT = """\
#!/bin/sh
case "$3" in
railgauge.node.orchestration.agent) exec "{python}" "$1" "{agent}" "$4" ;;
*) exec "{python}" "$@" ;;
esac
"""


@pytest.fixture
def garbled(mended: Lab, area: Path) -> Iterator[str]:
    """A node whose agent answers garbage as soon as it has something to measure."""
    node, python = "n20", "/usr/bin/python3"
    # Its checkout stays as it is: accept looks at that.
    real = on(mended, node, "readlink", "-f", python).strip()
    begin = "    def _prepare(self, index: int, role: str) -> None:\n"
    agent = paths.SOURCE / "railgauge/node/orchestration/agent.py"
    good, bad = agent.read_text(), area / "agent.py"
    assert begin in good
    rubbish = "        return self.transport.write(os.urandom(1000))\n"
    bad.write_text(good.replace(begin, begin + rubbish))
    wrapper = area / "python3"
    wrapper.write_text(_OTHER_AGENT.format(python=real, agent=bad))
    wrapper.chmod(0o755)
    on(mended, node, "cp", "--remove-destination", str(wrapper), python)
    yield node
    on(mended, node, "ln", "--symbolic", "--force", real, python)


def test_six_faults_in_one_sweep_are_each_named_and_all_else_is_measured(
    mended: Lab, area: Path, verdict: Callable[[], dict[str, Any]], garbled: str
) -> None:
    """Two links that are shaped, with a node between them that is bad with both, measured again and
    cleared; and in mid-round a node that dies, an agent that stops, one that answers garbage, and a
    disk that is full.
    """
    slow = {"n2", "n4"}
    for node in slow:
        faults.add(mended, "rate", node, 0.03)
    campaign = start(
        area,
        *("--system", "lab32", "--", "-n", "Iperf2Pair"),
        RAILGAUGE_LAB_DIR=str(mended.folders.lab),
    )
    deadline = time.monotonic() + PATIENCE_S
    # The client of a place of the first round; another one than those to come.
    while not running(mended, "n12", "iperf -c"):
        assert campaign.poll() is None, campaign.communicate()[0]
        assert time.monotonic() < deadline, "no round runs"
        time.sleep(0.3)
    on(mended, "n15", "pkill", "-STOP", "--oldest", "--full", "railgauge.node.orchestration.agent")
    faults.add(mended, "off", "n10")
    faults.add(mended, "disk-full", "n25")
    output, _ = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 1, output
    (sweep,) = sweeps(area, "Iperf2Pair")
    # It came to its own end, not to its job's limit.
    assert sweep.end is not None and sweep.end["why"] == "", output
    # Two rounds of neighbours, and those in which who is bad with both meets a third.
    assert 3 <= len(sweep.rounds) <= 5
    # Of the leaf of the slow links those three meet others.
    again = [{one.server, one.client} for one in sweep.again.values()]
    met = {node: [ends for ends in again if node in ends] for node in ("n2", "n3", "n4")}
    assert all(met.values()), again
    assert set(sweep.lost) == {"n10", "n15", garbled}, sweep.lost
    found = verdict()
    bad = slow | {"n10", "n15", garbled, "n25"}
    assert set(suspects(found)) == bad, output
    everyone = [f"n{number}" for number in range(1, 33)]
    rings = [everyone[first : first + 8] for first in range(0, 32, 8)]
    pairs = {
        frozenset(pair) for ring in rings for pair in zip(ring, [*ring[1:], ring[0]], strict=True)
    }
    measured = {frozenset(m["nodes"]) for m in found["measurements"]}
    assert {pair for pair in pairs if not pair & bad} <= measured
    left = [
        node for node in set(everyone) - {"n10"} if running(mended, node, "railgauge.node|iperf")
    ]
    assert left == []


# The last one: it takes the lab down.
def test_down_leaves_nothing(leaves: Lab) -> None:
    before = links_here()
    add(leaves, "flap", "n3")
    ours = processes_in(leaves)
    flapping = leaves.machine("flap-n3-eth0")
    assert flapping in ours
    assert len(ours) > 100
    assert lab_command(leaves, "down").stdout == "the lab is down\n"
    assert [process for process in ours if process.alive] == []
    assert str(leaves.folders.run) not in Path("/proc/mounts").read_text()
    assert links_here() == before
    assert not leaves.folders.run.exists()
