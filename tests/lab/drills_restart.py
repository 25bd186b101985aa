"""Drills: nodes and login nodes that start again in the middle, and clocks that jump."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator

from railgauge import paths
from railgauge.common.errors import EXIT_SUSPECT
from railgauge.gate import journal
from railgauge.lab.nodes import KINDS as NODE_KINDS

from .gate_lab import AFTER, BEFORE, Gate, first_result, in_update, killed_at_first_result
from .test_accept import wait_for_traffic


def _restart(gate: Gate, node: str, firmware: int) -> None:
    """Power off and on; what stands for firmware lasts, as firmware does.

    Namespace nodes share this kernel's boot id, and get another one as a node with its own has.
    """
    known = gate.lab.node(node)
    kind = NODE_KINDS[known.kind]
    kind.power_off(gate.lab, known)
    kind.start(gate.lab, known)
    gate.on(node, "ip", "link", "set", "eth0", "txqueuelen", str(firmware))
    _other_boot(gate, lambda *command: gate.lab.enter(node, *command))


_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def _other_boot(gate: Gate, inside: Callable[..., list[str]]) -> None:
    """Let who looks there read another boot id."""
    other = gate.area / "boot_id"
    other.write_text(f"{uuid.uuid4()}\n")
    subprocess.run(inside("mount", "--bind", str(other), _BOOT_ID), check=True)


def rebooted(gate: Gate) -> None:
    """The tested node is started again in the middle: not returned on what it was before."""
    gate.update("n2")
    gate.hold("n2")
    process = gate.start("run", "--act")
    first_result(gate)
    _restart(gate, "n2", AFTER)
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 1, out
    assert gate.state("n2").drained_by_us and not gate.is_accepted("n2"), out
    # In order again: a held node is tested by the next run, as any other.
    gate("run", "--nodes", "n2", "--act")
    assert gate.is_accepted("n2") and gate.state("n2").in_service


def partner_rebooted(gate: Gate) -> None:
    """A partner is started again in the middle: whatever the verdict, it is said of the partner."""
    gate.update("n2")
    gate.hold("n2")
    process = gate.start("run", "--act")
    first_result(gate)
    broken = journal.unended("lab")
    assert broken is not None
    partner = broken.partners[0]
    _restart(gate, partner, BEFORE)
    out, _ = process.communicate(timeout=400)
    # The other partner clears n2; the restarted one is the suspect.
    assert process.returncode == EXIT_SUSPECT, out
    assert gate.is_accepted("n2") and gate.state("n2").in_service, out
    assert gate.state(partner).reason.startswith("railgauge: suspect"), out


@contextlib.contextmanager
def _login_node_rebooted(gate: Gate) -> Iterator[None]:
    """This host as after a boot: what is started in the lab's mounts reads another boot id."""
    _other_boot(gate, gate.lab.in_lab_mounts)
    try:
        yield
    finally:
        subprocess.run(gate.lab.in_lab_mounts("umount", _BOOT_ID), check=True)


def login_rebooted_in_update(gate: Gate) -> None:
    """The login node loses power in mid-update: its process ids are worth nothing afterwards."""
    process = gate.start("run", "--nodes", "n2", "--update", "sleep 600", "--act")
    roll = in_update(gate, process)
    process.kill()
    process.wait()
    assert roll.update is not None
    try:
        with _login_node_rebooted(gate):
            # Its number is some other process's by now: here it is the update itself, alive.
            out = gate("run", "--act", code=1)
            assert "was started again since" in out, out
            assert not gate.state("n2").in_service, out
            gate("release", "--nodes", "n2", "--why", "drill", "--act", code=3)
            gate.update("n2")
            gate("update-done", "--nodes", "n2", "--act")
            out = gate("run", "--act")
    finally:
        os.killpg(roll.update.pid, signal.SIGKILL)
    assert gate.is_accepted("n2") and gate.state("n2").in_service, out


def login_rebooted_in_test(gate: Gate) -> None:
    """The login node loses power in mid-campaign: the next run goes on with what was measured."""
    first, kept = killed_at_first_result(gate)
    with _login_node_rebooted(gate):
        gate("run", "--act")
    assert first.read_bytes() == kept, "what was measured is measured again"
    assert gate.is_accepted("n2") and gate.state("n2").in_service


def clock_jump(gate: Gate) -> None:
    """The clock of a virtual machine is set by half a minute: not measured, and nobody accused.

    Namespace nodes have their host's clock.
    """
    nodes = ("n5", "n6")
    gate.lab.up(nodes=nodes)
    command = [str(paths.HOME / "bin" / "railgauge"), "accept", "--system", "lab", "--json"]
    campaign = subprocess.Popen(
        [*command, "--nodes", ",".join(nodes), "--", "-n", "Iperf2Pair"],
        cwd=paths.HOME,
        env=gate.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for_traffic(gate.area)
    _set_clock(gate, "n5", 30)
    try:
        out, _ = campaign.communicate(timeout=400)
    finally:
        _set_clock(gate, "n5", -30)
    verdict = json.loads(out)
    told = [f for f in verdict["findings"] if f["kind"] == "job-disturbed"]
    assert told and all(f["nodes"] == ["n5"] for f in told), out
    shown = [re.search(r"the clock of n5 was set by \+([0-9.]+) s", f["message"]) for f in told]
    assert all(one and 29 < float(one[1]) < 31 for one in shown), out
    assert verdict["verdict"] == "inconclusive" and not verdict["suspects"], out


def _set_clock(gate: Gate, node: str, by_s: float) -> None:
    known = gate.lab.node(node)
    clock = "time.clock_settime(time.CLOCK_REALTIME, time.time() + "
    command = ["python3", "-c", f"import time; {clock}{by_s})"]
    done = NODE_KINDS[known.kind].run(gate.lab, known, command)
    assert done.returncode == 0, done.stderr


DRILLS: dict[str, Callable[[Gate], None]] = {
    "rebooted": rebooted,
    "partner-rebooted": partner_rebooted,
    "login-rebooted-in-update": login_rebooted_in_update,
    "login-rebooted-in-test": login_rebooted_in_test,
    "clock-jump": clock_jump,
}
