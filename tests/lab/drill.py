"""The firmware gate against real faults: fault -> what the gate did -> the node's state -> seconds.

    make drill            (python -m tests.lab.drill [NAME...])

Throughout, the nodes are looked at several times a second: one that changed and was not accepted
since must never take anybody's jobs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from railgauge import paths
from railgauge.cli.lab import open_lab
from railgauge.common.errors import EXIT_SUSPECT, RailgaugeError
from railgauge.gate import journal, run
from railgauge.lab import faults
from railgauge.lab.cluster import Lab
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes

from . import drills_links, drills_patrol, drills_restart
from .conftest import PATIENCE_S
from .gate_lab import (
    AFTER,
    FIELD,
    NODES,
    Gate,
    delete_reservation,
    first_result,
    full,
    in_update,
    killed_at_first_result,
    prepared,
)


def changed_field(gate: Gate) -> None:
    """A changed field: held, tested, returned with the new value accepted."""
    gate.update("n2")
    assert "held" in gate.hold("n2")
    assert gate.state("n2").reason.startswith(f"railgauge: firmware changed: {FIELD}")
    gate("run", "--act")
    assert gate.state("n2").in_service
    assert gate.is_accepted("n2") and gate.accepted("n2")["how"] == "run"
    assert "unchanged" in gate.hold("n2", code=0)


def shaped_link(gate: Gate) -> None:
    """The same with a link at less than half its rate: it stays out, and sinfo -R says why."""
    gate.update("n2")
    gate.hold("n2")
    faults.add(gate.lab, "rate", "n2", 0.4)
    gate("run", "--act", code=1)
    reasons = client.output("sinfo", "-R", "--noheader", "--format=%E|%N").strip()
    assert "Iperf2Pair" in reasons and reasons.endswith("|n2"), reasons
    assert not gate.is_accepted("n2")


def power_off(gate: Gate) -> None:
    """The node loses power while it is tested."""
    gate.update("n2")
    gate.hold("n2")
    process = gate.start("run", "--act")
    first_result(gate)
    faults.add(gate.lab, "off", "n2")
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 1, out
    assert gate.state("n2").drained and not gate.is_accepted("n2"), out


def controller_restarted(gate: Gate) -> None:
    """slurmctld is restarted while a node is tested: the reservation and the jobs survive it."""
    gate.update("n2")
    gate.hold("n2")
    process = gate.start("run", "--act")
    first_result(gate)
    faults.add(gate.lab, "slurmctld-restart")
    out, _ = process.communicate(timeout=400)
    # Either is right, as long as it is so: returned accepted, or out with a reason.
    assert process.returncode in (0, 1), out
    assert gate.is_accepted("n2") or gate.state("n2").drained, out


def no_accounting(gate: Gate) -> None:
    """slurmdbd is stopped: nothing is tested, the node stays out; afterwards the run goes on."""
    gate.update("n2")
    gate.hold("n2")
    faults.add(gate.lab, "slurmdbd-stop")
    gate("run", "--act", code=3)
    gate.nothing_left()
    assert not gate.state("n2").in_service
    # `faults.clear` would wait for nodes that are reserved.
    gate.lab.start_service("slurmdbd")
    gate("run", "--act")
    assert gate.is_accepted("n2") and gate.state("n2").in_service


def results_full(gate: Gate) -> None:
    """No room for results: nothing is tested, the node stays out; afterwards it is tested."""
    gate.update("n2")
    gate.hold("n2")
    with full(gate):
        gate("run", "--act", code=3)
        assert not gate.state("n2").in_service
        assert all(gate.state(node).in_service for node in NODES if node != "n2")
    gate("run", "--act")
    assert gate.is_accepted("n2") and gate.state("n2").in_service


def killed_in_campaign(gate: Gate) -> None:
    """kill -9 in mid-campaign: the next run goes on with the same campaign."""
    first, kept = killed_at_first_result(gate)
    assert not gate.state("n2").in_service
    gate("run", "--act")
    assert len(list((gate.area / "campaigns").iterdir())) == 1, "a campaign of its own"
    assert first.read_bytes() == kept, "what was measured is measured again"
    assert gate.is_accepted("n2") and gate.accepted("n2")["how"] == "run"
    assert gate.state("n2").in_service
    assert "unchanged" in gate.hold("n2", code=0)


def killed_after(step: str) -> Callable[[Gate], None]:
    def drill(gate: Gate) -> None:
        gate.update("n2")
        gate.hold("n2")
        gate.killed_after(step)
        if step != "unreserve":
            assert not gate.state("n2").in_service
        gate("run", "--act")
        assert gate.is_accepted("n2") and gate.state("n2").in_service
        assert len(list((gate.area / "campaigns").iterdir())) == 1

    drill.__doc__ = f"kill -9 of `gate run` after its step `{step}`; the next run ends it."
    return drill


def lapsed(gate: Gate) -> None:
    """kill -9, and nobody goes on: the partners come back by themselves, the untested node not."""
    gate.update("n2")
    gate.hold("n2")
    gate.killed_after("resume", lease_s=20)
    broken = journal.unended("lab")
    assert broken is not None and broken.partners
    killed = time.monotonic()
    while not all(state.in_service for state in slurm_nodes.show(broken.partners).values()):
        assert time.monotonic() < killed + PATIENCE_S, slurm_nodes.show(broken.partners)
        time.sleep(0.5)
    print(f"partners are back {time.monotonic() - killed:.0f} s after the run with a lease of 20 s")
    assert gate.state("n2").reservations == (broken.untested,), gate.state("n2")
    gate("run", "--act")
    assert gate.is_accepted("n2") and gate.state("n2").in_service


def _update_command(gate: Gate, seconds: float) -> str:
    """An update as a site types it: it takes its time, and changes the nodes in the middle."""
    railgauge = shlex.quote(str(paths.HOME / "bin" / "railgauge"))
    change = f"{railgauge} lab exec {{nodes}} ip link set eth0 txqueuelen {AFTER}"
    return f"sleep {seconds}; {change}; sleep {seconds}"


def killed_in_update(gate: Gate) -> None:
    """kill -9 while firmware is written: the next run waits for it, and goes on with the rest."""
    command = _update_command(gate, 10)
    process = gate.start("run", "--nodes", "n[2-3]", "--update", command, "--act")
    in_update(gate, process)
    process.kill()
    process.wait()
    gate("release", "--nodes", "n2", "--why", "drill", "--act", code=3)
    out = gate("run", "--act")
    for node in ("n2", "n3"):
        assert gate.is_accepted(node) and gate.state(node).in_service, out


def update_lost(gate: Gate) -> None:
    """The update is killed with its run: nothing is tested until a user says that it is done."""
    process = gate.start("run", "--nodes", "n2", "--update", "sleep 600", "--act")
    roll = in_update(gate, process)
    process.kill()
    process.wait()
    assert roll.update is not None
    os.killpg(roll.update.pid, signal.SIGKILL)
    gate("run", "--act", code=1)
    assert not gate.state("n2").in_service
    gate.update("n2")
    gate("update-done", "--nodes", "n2", "--act")
    gate("run", "--act")
    assert gate.is_accepted("n2") and gate.state("n2").in_service


def drained_meanwhile(gate: Gate) -> None:
    """A human drains the node before it is returned: it is theirs, and the gate says so."""
    out = _taken_meanwhile(gate, "drain")
    assert "n2: stays out: drained by root: bad fan" in out, out
    assert gate.state("n2").reason == "bad fan", out


def down_meanwhile(gate: Gate) -> None:
    """A human sets the node down before it is returned: it stays out with their reason. Where
    Slurm returned it, the gate drains it.
    """
    assert "bad fan" in _taken_meanwhile(gate, "down")
    assert not gate.state("n2").in_service


def _taken_meanwhile(gate: Gate, state: str) -> str:
    """What the gate says of a node that a human took before it was returned; theirs it stays."""
    gate.update("n2")
    gate.hold("n2")
    gate.killed_after("drain")
    client.output("scontrol", "update", "nodename=n2", f"state={state}", "reason=bad fan")
    out = gate("run", "--act", code=1)
    assert "bad fan" in gate.state("n2").reason, out
    return out


def reservation_deleted(gate: Gate) -> None:
    """A user deletes the reservation in the middle: drained at once, and one more run ends it."""
    gate.update("n2")
    gate.hold("n2")
    process = gate.start("run", "--act")
    first_result(gate)
    broken = journal.unended("lab")
    assert broken is not None
    # What Slurm opens then is not the gate's doing; it drains it as soon as it sees.
    gate.watching.clear()
    delete_reservation(broken.reservation)
    out, _ = process.communicate(timeout=400)
    assert gate.state("n2").drained_by_us, out
    gate("run", "--act")
    assert gate.is_accepted("n2") and gate.state("n2").in_service


def in_maintenance(gate: Gate) -> None:
    """The node is in a user's maintenance: neither tested nor resumed without the word."""
    gate.update("n2")
    gate.hold("n2")
    words = ["starttime=now", "duration=60", "users=root", "flags=MAINT,IGNORE_JOBS", "nodes=n2"]
    client.output("scontrol", "create", "reservation", "reservationname=drill_other", *words)
    try:
        out = gate("run", "--act", code=1)
        assert "inside reservation drill_other" in out and gate.state("n2").drained, out
        gate("release", "--nodes", "n2", "--why", "drill", "--act", code=3)
        gate("run", "--nodes", "n2", "--despite-reservations", "--act", code=1)
        assert gate.is_accepted("n2") and gate.state("n2").reservations == ("drill_other",)
    finally:
        client.output("scontrol", "delete", "reservationname=drill_other")


def bad_partner(gate: Gate) -> None:
    """A healthy node is tested next to a bad one in service: the bad one is held, a suspect."""
    gate.update("n2")
    gate.hold("n2")
    faults.add(gate.lab, "rate", "n1", 0.4)
    out = gate("run", "--act", code=EXIT_SUSPECT)
    assert gate.is_accepted("n2") and gate.state("n2").in_service, out
    assert gate.state("n1").reason.startswith("railgauge: suspect"), out
    assert "suspect, by gate run" in gate("status", "--nodes", "n1")


def cap(gate: Gate) -> None:
    """Nodes change one after the other, with runs between: beyond max_hold only the alarm."""
    for node in ("n1", "n2"):
        gate.update(node)
        assert "held" in gate.hold(node)
        # Whatever becomes of it: returned, or out with another reason.
        gate("run", "--act", code=None)
    gate.update("n3")
    out = gate("hold", "--nodes", "n3", "--act", code=1)
    assert "alarm" in out and "max_hold" in out and gate.state("n3").in_service, out


def resumed_by_another(gate: Gate) -> None:
    """`accept --resume latest` after kill -9 of a run: the campaign is the run's."""
    gate.update("n2")
    gate.hold("n2")
    process = gate.start("run", "--act")
    first_result(gate)
    process.kill()
    process.wait()
    command = [str(paths.HOME / "bin" / "railgauge"), "accept", "--system", "lab"]
    done = subprocess.run(
        [*command, "--resume", "latest"],
        cwd=paths.HOME,
        env=gate.environment(),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 3 and "railgauge gate run --act" in done.stderr, done.stderr
    gate("run", "--act")
    assert gate.is_accepted("n2") and gate.state("n2").in_service


def not_odd(gate: Gate) -> None:
    """What the gate accepted differs from its peers, and the next acceptance knows why."""
    gate.update("n2")
    gate.hold("n2")
    gate("run", "--act")
    verdict = gate.accept("--", "-n", "NodeState", code=2)
    kinds = {finding["kind"] for finding in verdict["findings"]}
    assert kinds and "odd-node" not in kinds, verdict


DRILLS: dict[str, Callable[[Gate], None]] = {
    "changed-field": changed_field,
    "shaped-link": shaped_link,
    "power-off": power_off,
    "slurmctld-restart": controller_restarted,
    "slurmdbd-stop": no_accounting,
    "results-full": results_full,
    "killed-in-campaign": killed_in_campaign,
    "killed-and-lapsed": lapsed,
    "killed-in-update": killed_in_update,
    "update-lost": update_lost,
    "drained-meanwhile": drained_meanwhile,
    "down-meanwhile": down_meanwhile,
    "reservation-deleted": reservation_deleted,
    "in-maintenance": in_maintenance,
    "bad-partner": bad_partner,
    "cap": cap,
    "resumed-by-another": resumed_by_another,
    "not-odd": not_odd,
    **drills_restart.DRILLS,
    **drills_links.DRILLS,
    **drills_patrol.DRILLS,
    **{f"killed-after-{step.__name__}": killed_after(step.__name__) for step in run.STEPS},
}


def drill(lab: Lab, area: Path, name: str) -> tuple[str, str, float]:
    """(what the gate did, the node's state, seconds); AssertionError where that is wrong."""
    shutil.rmtree(area, ignore_errors=True)
    area.mkdir(parents=True)
    os.environ["RAILGAUGE_RESULTS"] = str(area)
    started = time.monotonic()
    with prepared(lab, area) as gate:
        DRILLS[name](gate)
        gate.nothing_left()
        ended = [r for r in journal.runs("lab") if r.ended]
        # A drill without a gate run says itself what `accept` has to say.
        verdict = "-"
        if ended:
            verdict = "rejected" if ended[-1].decided.get("n2") else "accepted"
        state = gate.state("n2")
        shown = f"{state.state}: {state.reason}" if state.drained else state.state
        return verdict, shown, time.monotonic() - started


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    names = parser.parse_args(words).names
    if unknown := [name for name in names if name not in DRILLS]:
        parser.error(f"no drill {', '.join(unknown)}; there are {', '.join(DRILLS)}")
    lab = open_lab()
    was_up = lab.init is not None
    lab.up(nodes=NODES)
    area = paths.HOME / "results" / "tests" / "drill"
    failed = 0
    print(f"{'fault':<24} {'verdict':<9} {'s':>5}  n2 afterwards")
    for name in names or DRILLS:
        try:
            verdict, state, seconds = drill(lab, area / name, name)
            print(f"{name:<24} {verdict:<9} {seconds:>5.0f}  {state}", flush=True)
        except (AssertionError, RailgaugeError) as error:
            failed += 1
            print(f"{name:<24} WRONG            {error}", flush=True)
    if not was_up:
        lab.down()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
