"""Hold back a node with firmware that differs from what was last accepted.

    PYTHONPATH=CHECKOUT/src python3 -m railgauge.node.gate hold --store FOLDER [--act]

For a boot unit, cron or a node health check: it looks at sysfs, /proc and the boot id, starts no
process where nothing has changed, and asks Slurm only to drain this node. FOLDER is
`gate/<system>` in the results root, which `railgauge gate adopt` and `railgauge gate run` fill:

rules.json          what is watched, and how many nodes one pass may drain
nodes/<node>.json   what was last accepted of a node, when and by what
not_held/<node>.json  a changed node that was not held, and why
holds.json          what was held within the window, whatever has become of it
hold.lock           held while a process counts and drains

A store that cannot be read changes nothing; a damaged record concerns its own node. What a source
does not report (`unknown`) is no change.

Exit code: 0 nothing to hold, 1 a node differs from what was accepted, 3 nothing could be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import fnmatch
import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge.node.inventory import compare
from railgauge.node.inventory.compare import Change
from railgauge.node.inventory.document import take
from railgauge.node.inventory.kinds import LASTING, kind
from railgauge.node.system.tool_call import node_name, write_whole
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode

#: A store on a file server that hangs is given up after this.
STORE_LIMIT_S = 5.0

#: So long a pass waits for others that count and drain; a service manager gives it 90 s.
LOCK_LIMIT_S = 30.0

#: What the reason of a node says first that was held for a change.
CHANGED = "firmware changed"

#: What was held within the window, next to the rules.
HOLDS = "holds.json"

#: A part that was replaced is as untested as one that was updated.
_HARDWARE = re.compile(r".*/(serial|uuid|node_guid)")

Document = Mapping[str, Any]


class StoreError(Exception):
    """The store, or a part of it, cannot be read: nothing is compared and nothing changed."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """What counts, for all nodes of a system.

    A field counts if it is firmware or tuning, or identifies a piece of hardware, and
    matches none of the patterns (fnmatch) in `ignore`. No more than `max_hold` times is a node
    drained within `window_s` seconds, whatever became of those that were.
    """

    ignore: tuple[str, ...]
    max_hold: int
    window_s: int

    def counts(self, key: str) -> bool:
        if kind(key) not in LASTING and not _HARDWARE.fullmatch(key):
            return False
        return not any(fnmatch.fnmatchcase(key, pattern) for pattern in self.ignore)

    @classmethod
    def from_dict(cls, content: Document) -> Rules:
        return cls(
            tuple(content["ignore"]),
            int(content["max_hold"]),
            int(content["window_s"]),
        )


def changes(accepted: Document, seen: Document, rules: Rules) -> list[Change]:
    """The fields in which an inventory differs from the accepted one; unknown on either side is no
    change.
    """
    differing = compare.changes(
        accepted["fields"], seen["fields"], accepted["unknown"], seen["unknown"]
    )
    return [c for c in differing if rules.counts(c.key) and c.what not in compare.OF_KNOWLEDGE]


# --- the store -----------------------------------------------------------------------------------


def _within(limit_s: float, read: Callable[[], Any]) -> Any:
    """What `read` returns (JSON), called in its own process: a file server may never answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            answer = json.dumps(read()).encode()
            with os.fdopen(writer, "wb") as stream:
                stream.write(answer)
            code = 0
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.write(writer, str(error).encode())
        finally:
            os._exit(code)
    os.close(writer)
    deadline, received = time.monotonic() + limit_s, b""
    try:
        while True:
            ready, _, _ = select.select([reader], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                os.kill(child, signal.SIGKILL)
                raise StoreError(f"no answer within {limit_s:g} s")
            piece = os.read(reader, 1 << 16)
            if not piece:
                break
            received += piece
    finally:
        os.close(reader)
        # One that hangs in the file server's hands is left to it.
        ended, status = os.waitpid(child, os.WNOHANG if time.monotonic() >= deadline else 0)
    if not ended or status != 0:
        raise StoreError(received.decode("utf-8", "replace") or "the reader ended without a word")
    return json.loads(received)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None


def record_path(store: Path, node: str) -> Path:
    return store / "nodes" / f"{node}.json"


def not_held_path(store: Path, node: str) -> Path:
    """The file that says of a node in service that it has changed, and why it was not held."""
    return store / "not_held" / f"{node}.json"


def _record(path: Path) -> Any:
    """[the record or None, what is wrong with it]"""
    try:
        return [_load(path), ""]
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        return [None, str(words) or "cannot be read"]


@dataclasses.dataclass(frozen=True)
class Stored:
    """The rules, and by node what was accepted of it; of a damaged record what is wrong with it.

    A node never accepted is in neither. `not_held` are those that an earlier pass did not hold.
    """

    rules: Rules
    accepted: Mapping[str, Document]
    damaged: Mapping[str, str]
    not_held: Collection[str] = ()


def read_store(store: Path, nodes: list[str]) -> Stored:
    """What the store knows of these nodes. StoreError where it does not answer, or has no rules."""

    def read() -> Any:
        left = [node for node in nodes if has_note(store, node)]
        records = {node: _record(record_path(store, node)) for node in nodes}
        return [_load(store / "rules.json"), records, left]

    try:
        rules, records, not_held = _within(STORE_LIMIT_S, read)
    except StoreError as error:
        raise StoreError(f"{store}: {error}; nothing was compared") from None
    if rules is None:
        raise StoreError(
            f"{store}: no rules.json; nothing was compared\n  next: railgauge gate adopt --act"
        )
    try:
        known = Rules.from_dict(rules)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{store}: rules.json: not the store's form: {error!r}; nothing was compared\n"
            "  next: railgauge gate adopt --act writes it again"
        ) from None
    accepted: dict[str, Document] = {}
    damaged = {}
    for node, (record, wrong) in records.items():
        if wrong:
            damaged[node] = wrong
        elif record is not None:
            try:
                fields = {"fields": dict(record["fields"]), "unknown": list(record["unknown"])}
            except (KeyError, TypeError, ValueError) as error:
                damaged[node] = f"{record_path(store, node)}: not a record's form: {error!r}"
            else:
                accepted[node] = fields
    return Stored(known, accepted, damaged, not_held)


# --- one pass ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class HoldOutcome:
    """What a pass found of one node, and what became of it.

    `state`: unchanged, unadopted, changed (would be held), held, was held (already drained),
    alarm (changed, and not held).
    """

    node: str
    state: str
    changes: tuple[Change, ...] = ()
    why: str = ""

    def __str__(self) -> str:
        what = _listed(self.changes)
        return ": ".join(filter(None, [self.node, self.state, self.why, what]))


class NotHeld(HoldOutcome):
    """A changed node that is not drained, and is in service now or once another user returns it:
    by the cap, by a count that cannot be read, or because that user drained or reserved it.
    """


@contextlib.contextmanager
def _exclusive_lock(store: Path) -> Iterator[tuple[float, bool]]:
    """One pass at a time counts and drains, on whichever node; the time by the store's clock, and
    whether it had to wait for another.
    """
    path = store / "hold.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}, so the holds cannot be counted") from None
    try:
        deadline, waited = time.monotonic() + LOCK_LIMIT_S, False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The nodes' own clocks may differ, or jump.
                os.utime(lock)
                break
            except BlockingIOError:
                waited = True
                if time.monotonic() >= deadline:
                    raise StoreError(f"{path}: taken for more than {LOCK_LIMIT_S:g} s") from None
                time.sleep(0.05)
            except OSError as error:
                raise StoreError(f"{path}: cannot be locked: {error.strerror}") from None
        yield os.fstat(lock).st_mtime, waited
    finally:
        os.close(lock)


def _held_lately(store: Path, now: float, window_s: float) -> list[dict[str, Any]]:
    """What was held in the time before now, as `holds.json` has it; StoreError where that cannot be
    read. What a clock that was wrong has dated later than the time after now does not count.
    """
    path = store / HOLDS
    try:
        held = _within(STORE_LIMIT_S, lambda: _load(path)) or []
        return [dict(one) for one in held if abs(now - float(one["at"])) <= window_s]
    except (StoreError, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{path}: {error}, so it is not known how many were held; next: rm {path}"
        ) from None


def hold(store: Path, seen: Mapping[str, Document], act: bool) -> list[HoldOutcome]:
    """Compare these inventories with what was accepted, and drain the nodes that differ.

    Without `act` it only says what it would do. Raises StoreError, having changed nothing, where
    the store does not answer; SlurmError where Slurm does not.
    """
    stored = read_store(store, sorted(seen))
    outcomes = []
    differing: dict[str, tuple[Change, ...]] = {}
    for node, document in sorted(seen.items()):
        accepted = stored.accepted.get(node)
        if node in stored.damaged:
            next_step = f"next: railgauge gate adopt --again --act --nodes {node}"
            why = f"not compared: its record is damaged: {stored.damaged[node]}; {next_step}"
            outcomes.append(HoldOutcome(node, "alarm", why=why))
        elif accepted is None:
            outcomes.append(HoldOutcome(node, "unadopted", why="never accepted, not held"))
        elif changed := changes(accepted, document, stored.rules):
            differing[node] = tuple(changed)
        else:
            outcomes.append(HoldOutcome(node, "unchanged"))
    if differing:
        # Slurm is asked only here: where nothing changed it need not even be up.
        reasons = {node: f"{CHANGED}: {_listed(changed)}" for node, changed in differing.items()}
        held = drain_within_cap(store, stored.rules, reasons, act)
        outcomes += [dataclasses.replace(one, changes=differing[one.node]) for one in held]
    if act:
        _note_not_held(store, stored.not_held, outcomes)
    return sorted(outcomes, key=lambda outcome: outcome.node)


def _note_not_held(store: Path, noted: Collection[str], outcomes: Sequence[HoldOutcome]) -> None:
    """Note which changed nodes are not held: what a pass prints at boot may go unread. The note
    goes when the node is held, as it was accepted, or accepted as it is.
    """
    for outcome in outcomes:
        if isinstance(outcome, NotHeld):
            path = not_held_path(store, outcome.node)
            why = f"{outcome.why}: {CHANGED}: {_listed(outcome.changes)}"
            # What is not noted was printed all the same.
            with contextlib.suppress(OSError):
                write_whole(str(path), {"node": outcome.node, "why": why})
        elif outcome.node in noted and outcome.state in ("unchanged", "was held"):
            remove_note(store, outcome.node)


def has_note(store: Path, node: str) -> bool:
    """Whether a note says that the node was not held. A folder that this user may not enter shows
    none.
    """
    try:
        return not_held_path(store, node).exists()
    except OSError:
        return False


def remove_note(store: Path, node: str) -> None:
    """Remove the note that the node was not held."""
    with contextlib.suppress(OSError):
        not_held_path(store, node).unlink(missing_ok=True)


def _listed(changed: Sequence[Change]) -> str:
    return "; ".join(change.brief for change in changed)


def drain_within_cap(
    store: Path, rules: Rules, reasons: Mapping[str, str], act: bool
) -> list[HoldOutcome]:
    """Drain these nodes, each with its reason, as far as the cap lets. Raises StoreError,
    SlurmError.
    """
    # Outside of the lock: after an outage a whole cluster's nodes come to it at once.
    states = slurm_nodes.show()
    outcomes = {name: _reason_not_to_drain(name, states.get(name)) for name in reasons}
    wanted = [name for name, outcome in outcomes.items() if outcome is None]
    if wanted:
        with (
            _exclusive_lock(store) if act else contextlib.nullcontext((time.time(), False)) as (
                now,
                late,
            )
        ):
            left = {name: states[name] for name in wanted}
            for outcome in _keep_out(store, rules, reasons, left, act, now, late):
                outcomes[outcome.node] = outcome
    return [outcome for outcome in outcomes.values() if outcome is not None]


def _reason_not_to_drain(name: str, state: SlurmNode | None) -> HoldOutcome | None:
    """What there is to say of a node that is not to be drained; None of one that is.

    A partner of a gate run is drained as any node in service: no step of the run looks at it again
    before it returns. A gate run decides the nodes under test itself.
    """
    if state is None:
        return HoldOutcome(name, "alarm", why=slurm_nodes.UNKNOWN)
    if state.stays_drained:
        if state.drained_by_us:
            return HoldOutcome(name, "was held", why=state.reason)
        return NotHeld(name, "alarm", why=f"not held: it was {state.unavailable_reason}")
    if state.under_test:
        why = f"{state.unavailable_reason} ({state.state}), left to the gate run"
        return HoldOutcome(name, "alarm", why=why)
    reserved = state.flags & {"RESERVED", "MAINTENANCE"}
    if reserved and (state.foreign_reservations or not state.reservations):
        why = f"not held: it was {state.unavailable_reason} ({state.state})"
        return NotHeld(name, "alarm", why=why)
    return None


def _look_at(name: str) -> SlurmNode | None:
    try:
        return slurm_nodes.show([name])[name]
    except slurm_nodes.UnknownNodesError:
        return None


def _keep_out(
    store: Path,
    rules: Rules,
    reasons: Mapping[str, str],
    wanted: Mapping[str, SlurmNode],
    act: bool,
    now: float,
    again: bool,
) -> Iterator[HoldOutcome]:
    """`again`: look at each node again, as others were at work since the last look."""
    full = ""
    try:
        holds = _held_lately(store, now, rules.window_s)
    except StoreError as error:
        holds, full = [], str(error)
    for name, state in wanted.items():
        if not full and len(holds) >= rules.max_hold:
            full = f"max_hold, {rules.max_hold} in {rules.window_s} s, is reached"
        if full:
            yield NotHeld(name, "alarm", why=f"not held: {full}")
            continue
        if again and (outcome := _reason_not_to_drain(name, _look_at(name))) is not None:
            yield outcome
            continue
        holds.append({"node": name, "at": now, "why": reasons[name]})
        if act:
            _write_holds(store, holds)
            slurm_nodes.drain([name], reasons[name])
            remove_note(store, name)
        if state.downed_by_admin and not state.resumes_after_reboot:
            # It may come back by itself, and then stays out, for the user that took it down.
            yield HoldOutcome(
                name,
                "alarm",
                why=f"{state.unavailable_reason}; down until a user resumes it",
            )
        else:
            yield HoldOutcome(
                name, "held" if act else "changed", why="" if act else "would be held"
            )


def _write_holds(store: Path, holds: Sequence[Mapping[str, Any]]) -> None:
    """Before the node is drained: a process killed in between has counted one too many."""
    try:
        write_whole(str(store / HOLDS), holds)
    except OSError as error:
        raise StoreError(
            f"{store / HOLDS}: {error.strerror}, so this hold cannot be counted"
        ) from None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m railgauge.node.gate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    orders = parser.add_subparsers(dest="order", required=True)
    holding = orders.add_parser("hold", help="drain this node if it differs from what was accepted")
    holding.add_argument("--store", type=Path, required=True)
    holding.add_argument("--node", default=None, help="Slurm's name of this node")
    holding.add_argument("--act", action="store_true", help="drain; without it, only say so")
    options = parser.parse_args(arguments)
    node = options.node or node_name()
    try:
        outcomes = hold(options.store, {node: take(quick=True)}, options.act)
    except (StoreError, client.SlurmError) as error:
        print(f"railgauge gate: {error}", file=sys.stderr)
        return 3
    for outcome in outcomes:
        print(outcome)
    return int(any(o.state not in ("unchanged", "unadopted") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
