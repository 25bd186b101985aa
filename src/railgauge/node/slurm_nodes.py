"""The states of Slurm's nodes, and the two that Railgauge sets: drained, and back in service."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Iterable, Sequence

#: How the reason of a node begins that Railgauge drained. By this alone it knows its own.
OURS = "railgauge: "

#: How the name of a reservation begins that a gate run made.
OUR_RESERVATIONS = "railgauge_"

#: How Slurm's reason of a job begins that waits for nodes it has given up; under load also where
#: they are only busy, and without naming them.
NOT_AVAILABLE = "ReqNodeNotAvail"

#: Slurm cuts nothing, but `sinfo -R` gets hard to read.
_LONGEST_REASON = 160

_NOT_FOUND = re.compile(r"^(?:.*: )?Node (\S+) not found$", re.MULTILINE)
_RECORD = re.compile(r"^NodeName=(\S+) ", re.MULTILINE)
_STATE = re.compile(r" State=(\S+) ")
_RESERVATION = re.compile(r"^ReservationName=(\S+) .* Nodes=(\S+) ")
_REASON = re.compile(r" Reason=(.*?)(?: \[(\S+)@(\S+)\])?(?: Comment=.*)?\s*$")


class SlurmProblem(Exception):
    """Slurm did not do what it was asked, and its words."""


class UnknownNodes(SlurmProblem):
    """Slurm has no such nodes."""

    def __init__(self, nodes: Sequence[str]) -> None:
        super().__init__(f"Slurm knows no {','.join(nodes)}")
        self.nodes = tuple(nodes)


@dataclasses.dataclass(frozen=True)
class SlurmNode:
    """A node as the controller sees it. `flags` are its state's parts: IDLE, DRAIN, RESERVED."""

    name: str
    flags: frozenset[str]
    reason: str = ""
    #: who gave the reason, and when (the controller's local time)
    by: str = ""
    since: str = ""
    #: the names of the reservations that have begun on it
    reservations: tuple[str, ...] = ()

    @property
    def drained(self) -> bool:
        """No job starts on it, whether one still runs there or not."""
        return "DRAIN" in self.flags

    @property
    def busy(self) -> bool:
        return bool(self.flags & {"ALLOCATED", "MIXED", "COMPLETING"})

    @property
    def answers(self) -> bool:
        return not self.flags & {"DOWN", "NOT_RESPONDING", "UNKNOWN", "FAIL", "POWERED_DOWN"}

    @property
    def ours(self) -> bool:
        """Drained, and by Railgauge; whoever gives it another reason takes it over."""
        return self.drained and self.reason.startswith(OURS)

    @property
    def foreign_reservations(self) -> tuple[str, ...]:
        """Those that no gate run made: what happens in them is their owner's."""
        return tuple(r for r in self.reservations if not r.startswith(OUR_RESERVATIONS))

    @property
    def outside(self) -> str:
        """Why it does not take anybody's jobs; "" where it does."""
        if self.drained:
            return f"drained by {self.by or 'somebody'}: {self.reason}"
        if not self.answers:
            return ": ".join(filter(None, [f"does not answer Slurm ({self.state})", self.reason]))
        if self.reservations:
            return f"in reservation {' '.join(self.reservations)}"
        return "in a reservation" if self.flags & {"RESERVED", "MAINTENANCE"} else ""

    @property
    def in_service(self) -> bool:
        """It takes anybody's jobs."""
        return not self.outside

    @property
    def state(self) -> str:
        return "+".join(sorted(self.flags)).lower()


def ask(*command: str, limit_s: float = 30) -> str:
    """What a Slurm command answers; SlurmProblem where it does not."""
    shown = " ".join(command)
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except OSError as error:
        raise SlurmProblem(f"`{shown}`: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise SlurmProblem(f"`{shown}`: no answer within {limit_s:g} s") from None
    out, err = (text.decode("utf-8", "replace").strip() for text in (answer.stdout, answer.stderr))
    if answer.returncode != 0:
        # scontrol says some of its errors on stdout.
        raise SlurmProblem(f"`{shown}`: {err or out or f'exit code {answer.returncode}'}")
    return out


def parse(text: str) -> dict[str, SlurmNode]:
    """The nodes in what `scontrol show node --oneliner` prints, by name."""
    nodes = {}
    for line in text.splitlines():
        named, state = _RECORD.match(line), _STATE.search(line)
        if not named or not state:
            continue
        # NOT_RESPONDING stands as a suffix in some versions.
        flags = state[1].replace("*", "+NOT_RESPONDING").split("+")
        reason = _REASON.search(line)
        words, by, since = reason.groups(default="") if reason else ("", "", "")
        nodes[named[1]] = SlurmNode(named[1], frozenset(flags), words, by, since)
    return nodes


def show(names: Iterable[str] = ()) -> dict[str, SlurmNode]:
    """These nodes, or all. UnknownNodes for those that Slurm has not, SlurmProblem where it does
    not answer.
    """
    wanted = list(names)
    chosen = [",".join(wanted)] if wanted else []
    try:
        nodes = parse(ask("scontrol", "show", "node", *chosen, "--oneliner"))
    except SlurmProblem as error:
        missing = _NOT_FOUND.findall(str(error))
        if missing:
            raise UnknownNodes(missing) from None
        raise
    missing = [name for name in wanted if name not in nodes]
    if missing:
        raise UnknownNodes(missing)
    reserved = _reserved()
    return {
        name: dataclasses.replace(
            node, flags=node.flags | {"RESERVED"}, reservations=tuple(sorted(reserved[name]))
        )
        if name in reserved
        else node
        for name, node in nodes.items()
    }


def _reserved() -> dict[str, list[str]]:
    """The reservations that have begun, by node: a node's own state does not always say so."""
    shown = ask("scontrol", "show", "reservation", "--oneliner").splitlines()
    reserved: dict[str, list[str]] = {}
    for line in shown:
        found = _RESERVATION.match(line)
        if not found or " State=ACTIVE" not in line or found[2] == "(null)":
            continue
        for node in ask("scontrol", "show", "hostnames", found[2]).split():
            reserved.setdefault(node, []).append(found[1])
    return reserved


def drain(names: Iterable[str], reason: str) -> None:
    """Let no new job start on these nodes; running ones go on. `reason` follows OURS.

    A node that somebody else has drained stays theirs, with their reason.
    """
    words = OURS + " ".join(reason.split())
    if len(words) > _LONGEST_REASON:
        words = words[: _LONGEST_REASON - 3] + "..."
    free = [name for name, node in _asked(names).items() if node.ours or not node.drained]
    if free:
        ask("scontrol", "update", f"nodename={','.join(free)}", "state=drain", f"reason={words}")


def resume(names: Iterable[str]) -> None:
    """Let jobs start again on these nodes, as far as Railgauge drained them.

    In a reservation those of the reservation only.
    """
    ours = [name for name, node in _asked(names).items() if node.ours]
    if ours:
        ask("scontrol", "update", f"nodename={','.join(ours)}", "state=resume")


def _asked(names: Iterable[str]) -> dict[str, SlurmNode]:
    """These nodes, none where none is named."""
    wanted = list(names)
    return show(wanted) if wanted else {}
