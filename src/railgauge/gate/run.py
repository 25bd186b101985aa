"""`railgauge gate run`: test held nodes inside a reservation, then return them or keep them out.

Slurm starts no job on a drained node, reserved or not. So the nodes get a reservation that only the
operator's jobs enter, are resumed inside it, tested with healthy partners, and leave it only
accepted, or drained with a reason. At every moment a node that is not accepted is drained or
reserved; whatever kills a run, the next one goes on from its journal.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import getpass
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from railgauge import accept, hostlist, inventory, slurm, systems
from railgauge.campaign import Campaign, RunningError, load
from railgauge.errors import EnvironmentProblem, RailgaugeError
from railgauge.gate import decide, store
from railgauge.gate.store import Run
from railgauge.node import slurm_nodes
from railgauge.node.slurm_nodes import SlurmNode
from railgauge.verdict import rules
from railgauge.verdict.rules import Verdict

Say = Callable[[str], None]

#: How long a node may take to answer after it was resumed.
_ANSWER_LIMIT_S = 60
_POLL_S = 0.5

#: What a node's reason says while an update is installed.
UPDATE = "update"


def candidates(system: str, nodes: Sequence[str] | None) -> dict[str, SlurmNode]:
    """The nodes to test: those named, else all that Railgauge drained. They must be ours and idle.

    RailgaugeError where a named node is not held by Railgauge.
    """
    known = slurm_nodes.show(all_nodes(system))
    if nodes is None:
        return {name: node for name, node in known.items() if node.ours and not node.busy}
    found = {}
    for name in nodes:
        node = known[name]
        if not node.ours:
            held = f"drained by {node.by}: {node.reason}" if node.drained else node.state
            raise RailgaugeError(
                f"{name} is not held by railgauge ({held}), and only what it held is released",
                next_step=f'scontrol update nodename={name} state=drain reason="railgauge: test"',
            )
        if node.busy:
            raise RailgaugeError(
                f"{name} is drained, but a job still runs there",
                next_step=f"squeue -w {name}; then the same command again",
            )
        found[name] = node
    return found


def all_nodes(system: str) -> list[str]:
    partitions = systems.load(system).partitions
    return sorted({node for partition in partitions for node in partition.nodes})


def partners(system: str, nodes: Sequence[str]) -> list[str]:
    """Healthy nodes to test with: idle, in service, accepted as they are, of the same partitions.

    As many as gate.yaml says, so that of a failing pair the one at fault can be told.
    """
    wanted = store.rules(system).partners
    states = slurm_nodes.show(all_nodes(system))
    found: list[str] = []
    for partition in systems.load(system).partitions:
        if not set(partition.nodes) & set(nodes):
            continue
        able = [
            name
            for name in partition.nodes
            if name not in nodes
            and states[name].in_service
            and not states[name].busy
            and store.accepted(system, name) is not None
        ]
        have = [name for name in able if name in found]
        found += [name for name in able if name not in found][: max(wanted - len(have), 0)]
    return found


@contextlib.contextmanager
def alone(system: str) -> Iterator[None]:
    """One gate run of a system at a time; the lock ends with the process, however it ends."""
    path = store.folder(system) / "run.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise EnvironmentProblem(f"{path}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 200, 0).decode("utf-8", "replace").strip()
            raise RailgaugeError(
                f"a gate run of {system} is under way ({holder})",
                next_step="wait for it, or look at: railgauge gate status",
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{getpass.getuser()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(lock)


def plan(system: str, nodes: Sequence[str]) -> Run:
    """A new run for these nodes, with its partners; nothing is changed yet."""
    moment = datetime.datetime.now(datetime.timezone.utc)
    return Run(
        id=f"{moment:%Y%m%dT%H%M%SZ}_{secrets.token_hex(2)}",
        system=system,
        nodes=sorted(nodes),
        partners=partners(system, nodes),
        started=store.now(),
        by=f"{getpass.getuser()} on {socket.gethostname()}",
    )


def finish(run: Run, command: list[str], say: Say) -> Run:
    """Bring a run to its end, from wherever it is: every step leaves what is done alone."""
    for step in STEPS:
        step(run, command, say)
        run.step = step.__name__
        run.save()
    run.ended = store.now()
    run.save()
    return run


# --- the steps, in their order -------------------------------------------------------------------


def reserve(run: Run, command: list[str], say: Say) -> None:
    """Nobody else's job starts on the nodes, also once they are resumed."""
    if run.step not in ("planned", "reserve"):
        return
    run.save()
    if slurm.reservation_nodes(run.reservation) is not None:
        return
    say(f"reserving {hostlist.fold([*run.nodes, *run.partners])} as {run.reservation}")
    # Without an end: if this run is killed, the nodes must not fall out of it untested.
    slurm.reserve(run.reservation, [*run.nodes, *run.partners])


def resume(run: Run, command: list[str], say: Say) -> None:
    """The nodes take the jobs of the reservation."""
    if not run.open_nodes:
        return
    _require_reserved(run)
    states = slurm_nodes.show(run.open_nodes)
    ours = [name for name, node in states.items() if node.ours]
    lost = [name for name, node in states.items() if node.drained and not node.ours]
    for name in lost:
        # Somebody else drained it since: it is theirs now.
        run.decided[name] = f"drained by {states[name].by}: {states[name].reason}"
    if ours:
        say(f"resuming {hostlist.fold(ours)} inside of it")
        slurm_nodes.resume(ours)
    deadline = time.monotonic() + _ANSWER_LIMIT_S
    while run.open_nodes:
        states = slurm_nodes.show(run.open_nodes)
        silent = [name for name, node in states.items() if not node.answers]
        if not silent:
            return
        if time.monotonic() > deadline:
            for name in silent:
                run.decided[name] = f"does not answer Slurm ({states[name].state})"
            return
        time.sleep(_POLL_S)


def test(run: Run, command: list[str], say: Say) -> None:
    """Campaigns until every node is decided: one that the evidence points at leaves the others."""
    os.environ[slurm.RESERVATION_VARIABLE] = run.reservation
    try:
        while run.open_nodes:
            _require_reserved(run)
            verdict = _campaign(run, command, say)
            _judge(run, verdict, say)
            run.judged.append(verdict.campaign.id)
            run.save()
    finally:
        del os.environ[slurm.RESERVATION_VARIABLE]


def _campaign(run: Run, command: list[str], say: Say) -> Verdict:
    """The campaign of this round: the one that broke off, continued, or a new one."""
    last = _found(run.campaigns[-1]) if run.campaigns else None
    if last is not None and last.id not in run.judged and set(run.open_nodes) <= _nodes_of(last):
        if last.state == "finished":
            return rules.decide(last)
        try:
            return accept.resume(last, command, say)
        except (EnvironmentProblem, RunningError):
            raise
        except RailgaugeError as error:
            say(f"{error.message}; measuring anew")
    names = hostlist.fold([*run.open_nodes, *run.partners])
    say(f"testing {hostlist.fold(run.open_nodes)} with {' '.join(run.partners) or 'nobody'}")
    scope = dataclasses.replace(accept.scope(run.system, None, names), updated=list(run.open_nodes))

    def begun(campaign: Campaign) -> None:
        run.campaigns.append(campaign.id)
        run.save()

    return accept.run(run.system, scope, names, "acceptance", (), command, say, begun=begun)


def _found(campaign: str) -> Campaign | None:
    """The campaign; None where its folder is gone, or holds no record: it is measured anew."""
    try:
        return load(campaign)
    except RailgaugeError:
        return None


def _nodes_of(campaign: Campaign) -> set[str]:
    return {node for members in campaign.scope.nodes.values() for node in members}


def _judge(run: Run, verdict: Verdict, say: Say) -> None:
    """Decide all of the round, or first those that the evidence points at."""
    kept = {node: why for node in run.open_nodes if (why := decide.why_not(verdict, node))}
    guilty = decide.culprits(verdict, [*run.open_nodes, *run.partners])
    # Those that failed beside a guilty one are tested again, without it.
    again = set(kept) - guilty if guilty else set()
    for node in run.open_nodes:
        if node not in again:
            run.decided[node] = f"{kept[node]} ({verdict.campaign.id})" if node in kept else ""
    for node in sorted(guilty & set(run.partners)):
        # It was in service, and is not ours to drain.
        say(f"partner {node} is at fault, hold it: {decide.why_not(verdict, node)}")
        run.partners.remove(node)
        run.bad_partners.append(node)
    if again:
        # Drained before the next round, so that nothing can open it.
        _drain_rejected(run)
        say(f"once more without {hostlist.fold(guilty)}: {hostlist.fold(again)}")


def record(run: Run, command: list[str], say: Say) -> None:
    """What was accepted is written down before its node returns."""
    for node in [name for name, why in run.decided.items() if not why]:
        known = store.accepted(run.system, node)
        if known is not None and known.by in run.campaigns:
            continue
        found = None
        for campaign in reversed(run.campaigns):
            kept = _found(campaign)
            found = inventory.in_campaign(kept).get(node) if kept else None
            if found is not None:
                store.accept(run.system, found, "run", campaign)
                break
        if found is None:
            run.decided[node] = "passed, but its campaign has no inventory of it"


def drain(run: Run, command: list[str], say: Say) -> None:
    """Who stays out is drained before the reservation goes."""
    _drain_rejected(run)


def _drain_rejected(run: Run) -> None:
    rejected = {node: why for node, why in run.decided.items() if why}
    states = slurm_nodes.show(rejected) if rejected else {}
    for node, why in rejected.items():
        if not states[node].drained:
            slurm_nodes.drain([node], why)


def unreserve(run: Run, command: list[str], say: Say) -> None:
    """The accepted nodes, and the partners, are everybody's again."""
    if slurm.reservation_nodes(run.reservation) is None:
        return
    if run.open_nodes:
        raise RuntimeError(f"{run.open_nodes} are not decided")
    slurm.unreserve(run.reservation)
    for node, why in sorted(run.decided.items()):
        say(f"{node}: stays out: {why}" if why else f"{node}: accepted, back in service")


STEPS = (reserve, resume, test, record, drain, unreserve)


def _require_reserved(run: Run) -> None:
    """Somebody may have deleted it; then the nodes must not be open."""
    reserved = slurm.reservation_nodes(run.reservation)
    missing = sorted(set(run.open_nodes) - set(reserved or ()))
    if not missing:
        return
    states = slurm_nodes.show(missing)
    slurm_nodes.drain(
        [n for n in missing if not states[n].drained] or missing,
        f"gate run {run.id} lost its reservation",
    )
    for node in missing:
        run.decided[node] = "its reservation was deleted by somebody during the test"
    if reserved is None:
        raise RailgaugeError(
            f"reservation {run.reservation} is gone; {hostlist.fold(missing)} drained again",
            next_step="railgauge gate run --act",
        )


# --- rolling updates -----------------------------------------------------------------------------


def roll(
    system: str,
    nodes: Sequence[str],
    update: str,
    batch: int,
    wait_s: float,
    command: list[str],
    say: Say,
) -> list[Run]:
    """Take `nodes` out in batches, run `update` on each, test, and go on while the budget lasts.

    `update` is a shell command line with {nodes} the batch's host list. A batch starts only if the
    system's nodes out of service are then within gate.yaml's budget.
    """
    ended = []
    waiting = list(nodes)
    while waiting:
        states = slurm_nodes.show(all_nodes(system))
        out = [n for n, s in states.items() if not s.in_service and n not in waiting]
        budget = store.rules(system).budget
        size = min(batch, budget - len(out))
        if size < 1:
            raise RailgaugeError(
                f"{len(out)} nodes are out of service ({hostlist.fold(out)}), and the budget is "
                f"{budget}; not begun: {hostlist.fold(waiting)}",
                next_step="railgauge gate status; or raise budget in gate.yaml",
            )
        chosen, waiting = waiting[:size], waiting[size:]
        say(f"draining {hostlist.fold(chosen)}")
        _take(chosen, states)
        _wait_until_idle(chosen, wait_s)
        _update(update, chosen, say)
        run = finish(plan(system, chosen), command, say)
        ended.append(run)
    return ended


def _take(nodes: Sequence[str], states: Mapping[str, SlurmNode]) -> None:
    foreign = [n for n in nodes if states[n].drained and not states[n].ours]
    if foreign:
        raise RailgaugeError(
            f"{hostlist.fold(foreign)} drained by somebody else: {states[foreign[0]].reason}",
            next_step="leave them out of --nodes",
        )
    slurm_nodes.drain(nodes, UPDATE)


def _wait_until_idle(nodes: Sequence[str], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while any(node.busy for node in slurm_nodes.show(nodes).values()):
        if time.monotonic() > deadline:
            raise RailgaugeError(
                f"jobs still run on {hostlist.fold(nodes)} after {limit_s:g} s; they stay drained",
                next_step="the same command again, or --wait with more seconds",
            )
        time.sleep(5 * _POLL_S)


def _update(line: str, nodes: Sequence[str], say: Say) -> None:
    filled = line.replace("{nodes}", hostlist.fold(nodes))
    say(f"update: {filled}")
    code = subprocess.run(["bash", "-c", filled], stdin=subprocess.DEVNULL, check=False).returncode
    if code != 0:
        slurm_nodes.drain(nodes, f"{UPDATE} failed with exit code {code}")
        raise RailgaugeError(
            f"`{filled}` ended with exit code {code}; {hostlist.fold(nodes)} stay drained",
            next_step="mend it, then: railgauge gate run --nodes ... --act",
        )
