"""What Slurm says of nodes, and what it is told."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from railgauge import hostlist
from railgauge.acceptance import session
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import SlurmNode

ALICES = (
    "NodeName=n1 Arch=x86_64 State=IDLE+DRAIN ThreadsPerCore=1  Reason=bad fan "
    "[alice@2026-11-20T10:00:00]\n"
)
OURS = (
    "NodeName=n2 Arch=x86_64 State=IDLE+DRAIN ThreadsPerCore=1  Reason=railgauge: update "
    "[root@2026-11-20T10:00:00]\n"
)
OPEN = "NodeName=n3 Arch=x86_64 State=IDLE ThreadsPerCore=1 \n"
RESERVATION = (
    "ReservationName=hpl StartTime=2026-11-20T10:00:00 EndTime=2026-11-22T10:00:00 Nodes=n3 "
    "NodeCnt=1 Flags=MAINT Users=alice State=ACTIVE BurstBuffer=(null)\n"
)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of Slurm to change."""
    changes: list[str] = []

    def ask(*command: str, limit_s: float = 30) -> str:
        if command[1:3] == ("show", "node"):
            return ALICES + OURS + OPEN
        if command[1:3] == ("show", "reservation"):
            return RESERVATION
        if command[1:3] == ("show", "hostnames"):
            return command[3]
        changes.append(" ".join(command[2:]))
        return ""

    monkeypatch.setattr(client, "output", ask)
    return changes


def test_the_reason_of_the_user_that_drained_a_node_is_never_overwritten(told: list[str]) -> None:
    slurm_nodes.drain(["n1", "n2", "n3"], "test")
    assert told == ["nodename=n[2-3] state=drain reason=railgauge: test"]


DOWN = "NodeName=n1 Arch=x86_64 State={} ThreadsPerCore=1  Reason={} [root@2026-11-20T10:00:00]\n"


@pytest.mark.parametrize(
    ("state", "reason", "then"),
    [
        ("DOWN", "bad fan", "bad fan (set by root)"),
        ("IDLE+FAIL", "RMA 4711", "RMA 4711 (set by root)"),
        ("DOWN*", "Not responding", "railgauge: test"),
        ("DOWN", "Node unexpectedly rebooted", "railgauge: test"),
        ("DOWN", "Low CPUs, Low TmpDisk : Not responding", "railgauge: test"),
        ("DOWN", "reboot requested : reboot issued", "railgauge: test"),
        ("DOWN", "gres/gpu count reported lower than configured (7 < 8)", "railgauge: test"),
        # An administrator's words may begin as Slurm's own do.
        ("DOWN", "reboot loop, RMA 4711", "reboot loop, RMA 4711 (set by root)"),
        ("DOWN", "Low CPUs: do not resume", "Low CPUs: do not resume (set by root)"),
        ("DOWN", "Not responding to IPMI", "Not responding to IPMI (set by root)"),
        ("DOWN", "bad fan : Not responding", "bad fan : Not responding (set by root)"),
        ("DOWN", "railgauge: update", "railgauge: test"),
        ("IDLE", "an old reason", "railgauge: test"),
    ],
)
def test_the_reason_of_the_user_that_set_a_node_down_is_kept(
    monkeypatch: pytest.MonkeyPatch, state: str, reason: str, then: str
) -> None:
    changes: list[str] = []

    def ask(*command: str, limit_s: float = 30) -> str:
        if command[1] == "show":
            return DOWN.format(state, reason) if command[2] == "node" else ""
        changes.append(" ".join(command[2:]))
        return ""

    monkeypatch.setattr(client, "output", ask)
    slurm_nodes.drain(["n1"], "test")
    assert changes == [f"nodename=n1 state=drain reason={then}"]


@pytest.mark.parametrize(
    "behind",
    [
        "",
        " Comment=railgauge: flaps",
        " Extra=x ReservationName=maint",
        " ReservationName=maint",
        " InstanceId=i-1 InstanceType=c5",
        " TLSCertTokenSet=yes  TLSCertLastRenewal=2026-11-20T10:00:00",
        " Topology=t:leaf1 Parameters=a=b",
    ],
)
def test_a_reason_ends_where_it_names_its_user(behind: str) -> None:
    """Whatever else Slurm 21.08 to 26.05 print in a node's line (node_info.c)."""
    node = slurm_nodes.parse(ALICES.rstrip("\n") + f"{behind}\n")["n1"]
    assert (node.reason, node.by, node.since) == ("bad fan", "alice", "2026-11-20T10:00:00")
    assert node.comment == ("railgauge: flaps" if "Comment" in behind else "")


def test_a_reason_of_several_lines_is_read_whole() -> None:
    line = ALICES.rstrip("\n") + "        and PSU 2 ReservationName=maint\n"
    assert slurm_nodes.parse(line)["n1"].reason == "bad fan and PSU 2"
    assert slurm_nodes.parse(line.replace("alice@2026-11-20T10:00:00", ""))["n1"].by == ""


@pytest.mark.parametrize(
    ("state", "next_state", "returns"),
    [
        # scontrol reboot ASAP; with nextstate=RESUME; of a node that was drained before; with DOWN
        ("DOWN+DRAIN+REBOOT_ISSUED", "UNDRAIN", True),
        ("DOWN+REBOOT_ISSUED+NOT_RESPONDING", "RESUME", True),
        ("DOWN+REBOOT_ISSUED", "", True),
        ("DOWN+DRAIN+REBOOT_ISSUED", "", False),
        ("DOWN+REBOOT_ISSUED", "DOWN", False),
        ("IDLE+DRAIN+REBOOT_REQUESTED", "RESUME", True),
        ("MIXED+DRAIN+REBOOT_REQUESTED", "", False),
        ("DOWN+DRAIN", "", False),
    ],
)
def test_whether_a_node_comes_back_from_its_reboot_in_service(
    state: str, next_state: str, returns: bool
) -> None:
    after = f" NextState={next_state}" if next_state else ""
    node = slurm_nodes.parse(f"NodeName=n1 State={state} ThreadsPerCore=1{after} Reason=BIOS\n")
    assert node["n1"].resumes_after_reboot is returns


@pytest.mark.parametrize(
    ("state", "commands"),
    [
        ("DOWN+DRAIN+REBOOT_ISSUED NextState=RESUME", ["resume", "drain"]),
        ("DOWN+REBOOT_ISSUED", ["resume", "drain"]),
        ("IDLE+DRAIN+REBOOT_REQUESTED NextState=UNDRAIN", ["resume", "drain"]),
        ("DOWN+DRAIN+REBOOT_ISSUED", []),
        ("DOWN+DRAIN+REBOOT_ISSUED NextState=DOWN", []),
    ],
)
def test_a_restarted_node_is_drained_so_that_slurm_leaves_it_drained(
    monkeypatch: pytest.MonkeyPatch, state: str, commands: list[str]
) -> None:
    changes: list[str] = []

    def ask(*command: str, limit_s: float = 30) -> str:
        if command[1] == "show":
            line = f"NodeName=n3 State={state} Reason=BIOS [bob@2026-11-26T10:00:00]\n"
            return line if command[2] == "node" else ""
        changes.append(" ".join(command[2:]))
        return ""

    monkeypatch.setattr(client, "output", ask)
    slurm_nodes.drain(["n3"], "firmware changed")
    words = {"resume": "", "drain": " reason=railgauge: firmware changed"}
    assert changes == [f"nodename=n3 state={c}{words[c]}" for c in commands]


def test_the_user_of_a_reason_may_have_a_name_with_a_domain() -> None:
    line = ALICES.replace("alice@", "alice@corp.example.com@")
    node = slurm_nodes.parse(line)["n1"]
    assert (node.reason, node.by) == ("bad fan", "alice@corp.example.com")


def test_a_node_that_registered_wrongly_keeps_no_other_from_being_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes: list[str] = []

    def ask(*command: str, limit_s: float = 30) -> str:
        if command[1] == "show":
            bad = OURS.replace("n2", "n4").replace("DRAIN", "DRAIN+INVALID_REG")
            return OURS + bad if command[2] == "node" else ""
        changes.append(" ".join(command[2:]))
        return ""

    monkeypatch.setattr(client, "output", ask)
    slurm_nodes.resume(["n2", "n4"])
    assert changes == ["nodename=n2 state=resume"]


def test_variables_of_the_user_do_not_change_what_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\nenv\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    shown = ("SQUEUE_STATES", "SLURM_TOPO_LEN", "SLURM_TIME_FORMAT", "SACCT_FORMAT", "SLURM_CONF")
    for name in shown:
        monkeypatch.setenv(name, "x")
    seen = client.output("squeue")
    assert [name for name in shown if f"{name}=" in seen] == ["SLURM_CONF"]


@pytest.mark.parametrize("name", ["SLURM_CLUSTERS", "SBATCH_CLUSTERS"])
def test_no_command_is_turned_to_another_cluster(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """scontrol, squeue, scancel, sbatch and srun obey it, and sacct does not."""
    monkeypatch.setenv(name, "other")
    for ask in (lambda: client.output("true"), lambda: session.use("lab")):
        with pytest.raises(SlurmError, match=f"{name} is other") as refused:
            ask()
        assert f"unset {name}" in str(refused.value.next_step)
    monkeypatch.setenv(name, "")
    assert client.output("true") == ""


def test_reservations_that_begin_soon_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Slurm 24.11 prints them, cut."""
    now = datetime.datetime.now()

    def line(name: str, hours: float, state: str, flags: str = "SPEC_NODES") -> str:
        begins = (now + datetime.timedelta(hours=hours)).isoformat(timespec="seconds")
        return (
            f"ReservationName={name} StartTime={begins} EndTime=2038-01-01T00:00:00 Nodes=n[1-2] "
            f"Flags={flags} Users=alice State={state} BurstBuffer=(null)\n"
        )

    answers = {
        "node": "NodeName=n1 State=IDLE\nNodeName=n2 State=IDLE\nNodeName=n3 State=IDLE\n",
        "hostnames": "n1\nn2\n",
        "reservation": line("soon", 2, "INACTIVE")
        + line("later", 48, "INACTIVE")
        + line("now", -1, "ACTIVE", "MAINT,SPEC_NODES")
        + line("over", -9, "INACTIVE"),
    }
    monkeypatch.setattr(client, "output", lambda *words: answers[words[2]])
    nodes = slurm_nodes.show()
    assert nodes["n1"].soon_reserved == ("soon",) and nodes["n1"].reservations == ("now",)
    assert nodes["n3"].soon_reserved == nodes["n3"].reservations == ()
    assert [r.name for r in slurm_nodes.reservations() if r.maintenance] == ["now"]


def test_only_what_railgauge_drained_is_resumed(told: list[str]) -> None:
    slurm_nodes.resume(["n1", "n2", "n3"])
    assert told == ["nodename=n2 state=resume"]


@pytest.mark.parametrize("padding", range(40))
def test_a_long_reason_is_not_cut_within_a_path(told: list[str], padding: int) -> None:
    path = "/shared/results/gate/lab/rolls/20261121T100000Z_abcd.1.log"
    slurm_nodes.drain(["n1"], "x" * (70 + padding) + f" failed: look at {path} there and again")
    (reason,) = (line.partition("reason=")[2] for line in told if "reason=" in line)
    assert len(reason) <= 160
    assert path in reason or path[:8] not in reason


def test_without_nodes_nothing_is_asked_for(told: list[str]) -> None:
    slurm_nodes.drain([], "test")
    slurm_nodes.resume([])
    assert told == []


def test_the_reservation_of_a_node_is_known(told: list[str]) -> None:
    nodes = slurm_nodes.show(["n1", "n2", "n3"])
    assert nodes["n3"].foreign_reservations == ("hpl",)
    assert not nodes["n3"].in_service and "RESERVED" in nodes["n3"].flags
    assert nodes["n1"].reservations == ()


def test_a_gate_runs_reservation_is_not_foreign() -> None:
    idle = frozenset({"IDLE"})
    assert SlurmNode("n1", idle, reservations=("railgauge_x",)).foreign_reservations == ()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("IDLE", ""),
        ("MIXED", ""),
        ("IDLE+DRAIN", "drained by alice: bad fan"),
        ("DOWN+DRAIN", "drained by alice: bad fan"),
        ("DOWN", "does not answer Slurm (down): bad fan"),
        ("IDLE+NOT_RESPONDING", "does not answer Slurm (idle+not_responding): bad fan"),
        ("IDLE+MAINTENANCE", "in a reservation"),
    ],
)
def test_why_a_node_takes_no_jobs_is_said(flags: str, words: str) -> None:
    node = SlurmNode("n1", frozenset(flags.split("+")), "bad fan", "alice")
    assert node.unavailable_reason == words


def test_nodes_that_slurm_has_not_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of 24.11.5, which come after those it has, and with exit code 1."""

    def ask(*command: str, limit_s: float = 30) -> str:
        words = "Node c05 not found\nNode c06 not found"
        raise client.SlurmError(f"`{' '.join(command)}` failed: {words}")

    monkeypatch.setattr(client, "output", ask)
    with pytest.raises(slurm_nodes.UnknownNodesError) as unknown:
        slurm_nodes.show(["n3", "c05", "c06"])
    assert unknown.value.nodes == ("c05", "c06")


def test_what_a_node_has_is_read_with_its_state() -> None:
    """The fields of 24.11.5, as far as they are used."""
    line = (
        "NodeName=c1 Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 CPUTot=112 AvailableFeatures=h100,ib "
        "ActiveFeatures=h100 Gres=gpu:h100:8(S:0-1) NodeAddr=10.0.0.1 NodeHostName=c1 "
        "OS=Linux 6.1.0 RealMemory=2000 State=MIXED*+DRAIN ThreadsPerCore=1 "
        "Reason=Gres=none State=odd [root@2026-11-20T10:00:00]\n"
    )
    (node,) = slurm_nodes.parse(line).values()
    assert node == SlurmNode(
        "c1",
        frozenset({"MIXED", "NOT_RESPONDING", "DRAIN"}),
        "Gres=none State=odd",
        "root",
        "2026-11-20T10:00:00",
        gres="gpu:h100:8(S:0-1)",
        cpus=112,
        memory_mib=2000,
        features="h100,ib",
        other_names=("10.0.0.1",),
    )
    assert node.gpus == 8


@pytest.mark.parametrize(
    ("before", "words", "changed"),
    [
        ("", "slow", "railgauge: slow"),
        ("railgauge: old", "slow", "railgauge: slow"),
        ("railgauge: slow", "slow", None),
        ("railgauge: slow", "", ""),
        ("ask Ann first", "slow", None),
        ("ask Ann first", "", None),
    ],
)
def test_only_a_comment_of_ours_is_replaced(
    monkeypatch: pytest.MonkeyPatch, before: str, words: str, changed: str | None
) -> None:
    changes: list[str] = []

    def ask(*command: str, limit_s: float = 30) -> str:
        if command[1:3] == ("show", "node"):
            comment = f" Comment={before}" if before else ""
            return f"NodeName=n1 Arch=x86_64 State=IDLE Reason=a fan [root@2026-11-20]{comment}\n"
        if command[1] == "show":
            return ""
        changes.append(command[-1])
        return ""

    monkeypatch.setattr(client, "output", ask)
    assert slurm_nodes.comment("n1", words) == (before != "ask Ann first")
    assert changes == ([] if changed is None else [f"comment={changed}"])


def test_when_a_node_was_started_is_known() -> None:
    text = "NodeName=n1 State=IDLE BootTime=2026-11-20T10:00:00 SlurmdStartTime=None\n"
    assert slurm_nodes.parse(text)["n1"].booted == datetime.datetime(2026, 11, 20, 10)
    assert slurm_nodes.parse("NodeName=n1 State=DOWN BootTime=None\n")["n1"].booted is None


# ---- lists of nodes ----

#: Of one argument or variable: 32 pages (MAX_ARG_STRLEN, execve(2)).
MOST_BYTES = 131_072

#: 28 characters each.
MANY = [f"dgx-h100-su{n // 32:04d}-node-{n:07d}" for n in range(4608)]


@pytest.mark.parametrize(
    "names",
    [
        ["n1", "n2", "n3"],
        ["n8", "n9", "n10", "n11"],
        ["n08", "n09", "n10", "n11"],
        ["n3", "n2", "n1"],
        ["n1", "n3", "m4", "m5"],
        ["head", "n1", "n2", "login"],
        ["c1n1", "c1n2", "c2n1", "c2n2"],
        ["127.0.0.1", "127.0.0.2"],
        ["n00000000000000000001", "n00000000000000000002"],
        MANY,
    ],
    ids=lambda names: ",".join(names[:4]),
)
def test_a_folded_list_names_the_same_nodes_in_the_same_order(names: list[str]) -> None:
    assert list(hostlist.expand(slurm_nodes.fold(names))) == names


def test_names_that_follow_on_one_another_are_a_range() -> None:
    assert slurm_nodes.fold(["n1", "n2", "n3", "n9", "n10"]) == "n[1-3],n9,n10"


#: No two of them stand in a range.
APART = [f"su{n:04d}.dgx-h100.pod{n % 7}.example.org-node{2 * n:07d}" for n in range(4608)]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A Slurm that has all nodes that it is asked for, held by Railgauge."""
    commands: list[tuple[str, ...]] = []

    def ask(*command: str, limit_s: float = 30) -> str:
        commands.append(command)
        if command[1:3] != ("show", "node"):
            return ""
        names = hostlist.expand(command[3])
        return "".join(OURS.replace("NodeName=n2", f"NodeName={name}") for name in names)

    monkeypatch.setattr(client, "output", ask)
    return commands


@pytest.mark.parametrize("names", [MANY, APART, sorted(MANY, key=lambda name: name[::-1])])
def test_thousands_of_nodes_are_named_in_arguments_that_linux_takes(
    commands: list[tuple[str, ...]], names: list[str]
) -> None:
    assert slurm_nodes.show(names).keys() == set(names)
    slurm_nodes.drain(names, "test")
    slurm_nodes.resume(names)
    assert max(len(word.encode()) for command in commands for word in command) < MOST_BYTES
    for order in ("state=drain", "state=resume"):
        lists = [c[2].removeprefix("nodename=") for c in commands if order in c]
        assert sorted(n for hosts in lists for n in hostlist.expand(hosts)) == sorted(names)


def test_nodes_that_fold_are_one_command(commands: list[tuple[str, ...]]) -> None:
    slurm_nodes.resume(MANY)
    assert sum("state=resume" in command for command in commands) == 1
