"""A Slurm and campaigns of our own, for tests of the gate."""

from __future__ import annotations

import dataclasses
import getpass
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from railgauge.cli import cli
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.gate import journal, run
from railgauge.locating import Suspect
from railgauge.locating.suspects import Measure
from railgauge.model import inventory
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import Reservation, SlurmNode
from railgauge.verdict.campaign.finding import Finding
from tests.command_line import invoke
from tests.unit.widths import assert_fits


class Slurm:
    """Slurm's nodes and reservations, and what may never be: an untested node that is open.

    `at_each` is called after every change that a user made.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.comments: dict[str, str] = {}
        self.flags: dict[str, set[str]] = {name: {"IDLE"} for name in names}
        self.reason: dict[str, tuple[str, str, str]] = dict.fromkeys(names, ("", "", ""))
        self.reserved: dict[str, tuple[str, ...]] = {}
        self.lease: dict[str, int | None] = {}
        #: reservations for maintenance, next to the gate's own; and node -> one that begins soon
        self.maintenance: set[str] = set()
        self.soon: dict[str, str] = {}
        self.kernel: dict[str, str] = dict.fromkeys(names, "6.12")
        self.at_each: Callable[[], None] = lambda: None
        self.suspended: set[str] = set()
        #: the campaigns whose jobs were taken out of the queue
        self.cancelled: list[str] = []
        self.next_state: dict[str, str] = {}
        #: how long a node is silent after it was resumed, as Slurm 24.11 has it
        self.silence_s = 0.0
        self.silent: dict[str, float] = {}
        #: what the clock says of whoever waits for Slurm; it goes on as they sleep
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.silent = {name: left - seconds for name, left in self.silent.items() if left > seconds}

    def suspended_on(self, names: Any) -> set[str]:
        return self.suspended & set(names)

    def show(self, names: Any = ()) -> dict[str, SlurmNode]:
        found = {}
        wanted = list(names) or list(self.flags)
        if missing := [name for name in wanted if name not in self.flags]:
            raise slurm_nodes.UnknownNodesError(missing)
        for name in wanted:
            inside = tuple(r for r, nodes in sorted(self.reserved.items()) if name in nodes)
            more = {"NOT_RESPONDING"} if name in self.silent else set()
            flags = frozenset(self.flags[name] | more | ({"RESERVED"} if inside else set()))
            words, by, since = self.reason[name]
            after = self.next_state.get(name, "")
            soon = tuple(self.soon.get(name, "").split())
            found[name] = SlurmNode(name, flags, words, by, since, inside, soon, next_state=after)
        return found

    def drain(self, names: Any, reason: str, by: str = slurm_nodes.OURS) -> None:
        for name in names:
            node = self.show([name])[name]
            if by == slurm_nodes.OURS and node.resumes_after_reboot:
                self.resume([name])
            elif by == slurm_nodes.OURS and node.drained and not node.drained_by_us:
                continue
            self.flags[name] |= {"DRAIN"}
            self.reason[name] = (by + reason, "root", "2026-11-21T10:00:00")
            self.at_each()

    def forget(self, name: str) -> None:
        """Slurm's configuration no longer has the node."""
        del self.flags[name]

    def register(self, name: str) -> None:
        """Its slurmd has come back from a reboot (validate_node_specs, node_mgr.c)."""
        if self.flags[name] & {"REBOOT_ISSUED", "REBOOT_REQUESTED"}:
            after = self.next_state.pop(name, "")
            base = "DOWN" if after.startswith("DOWN") else "IDLE"
            kept = set() if after else self.flags[name] & {"DRAIN"}
            self.flags[name] = {base, *kept}

    def collect(self, system: str, names: Any, quick: bool = False) -> Any:
        there = [name for name in names if name not in self.silent]
        silent = {name: "it does not answer" for name in names if name in self.silent}
        return [taken(name, self.kernel[name]) for name in there], silent

    def resume(self, names: Any) -> None:
        for name in names:
            rebooted = self.flags[name] & {"REBOOT_ISSUED", "REBOOT_REQUESTED"}
            self.flags[name] -= {"DRAIN", *rebooted, *({"DOWN"} if rebooted else ())}
            self.next_state.pop(name, None)
            self.reason[name] = ("", "", "")
            if self.silence_s:
                self.silent[name] = self.silence_s
            self.at_each()

    def comment(self, name: str, words: str) -> bool:
        self.comments[name] = words
        return True

    def reserve(self, name: str, nodes: Any, lease_s: int | None = None) -> None:
        self.reserved[name], self.lease[name] = tuple(nodes), lease_s
        self.at_each()

    def reservations(self) -> list[Reservation]:
        return [
            Reservation(name, ",".join(nodes), "root", True, name in self.maintenance)
            for name, nodes in self.reserved.items()
        ]

    def renew(self, name: str, lease_s: int) -> None:
        assert name in self.reserved
        self.lease[name] = lease_s
        self.at_each()

    def lapse(self) -> None:
        """Time goes by, and nobody renews: what has an end has ended."""
        for name in [name for name in self.reserved if self.lease[name] is not None]:
            del self.reserved[name]

    def unreserve(self, name: str) -> None:
        if name not in self.reserved:
            raise PrerequisiteError("Requested reservation is invalid")
        del self.reserved[name]
        self.at_each()

    def open(self) -> set[str]:
        """The namespace nodes that take anybody's jobs."""
        return {n for n, node in self.show().items() if node.in_service and n < "n5"}


def document(node: str, kernel: str = "6.12") -> dict[str, Any]:
    return {
        "schema": "railgauge-inventory-1",
        "node": node,
        "boot_id": "b",
        "taken": "2026-11-21T10:00:00+00:00",
        "seconds": 0.1,
        "fields": {"kernel/release": kernel},
        "unknown": {},
        "quick": ["kernel/release"],
    }


def taken(node: str, kernel: str = "6.12") -> inventory.Inventory:
    return inventory.load(json.dumps(document(node, kernel)))


@dataclasses.dataclass
class Campaigns:
    """Stands in for campaigns: `bad` nodes fail with everyone who is tested next to them.

    `at_each` is called in the middle of each. Of one bad node among three it is known which it is,
    unless `confirms` says that it must be measured again.
    """

    bad: set[str]
    at_each: Callable[[], None]
    confirms: bool = True
    #: the next campaign's session is interrupted, once
    interrupts: bool = False
    #: the bad nodes are good after the first campaign
    heals: bool = False
    #: two that fail with each other in the first campaign only, besides the bad ones
    once: tuple[str, ...] = ()
    #: why none is continued
    changed: str = ""
    made: dict[str, Any] = dataclasses.field(default_factory=dict)
    resumed: list[str] = dataclasses.field(default_factory=list)

    def run(self, system: str, scope: Any, nodes: str, *_: Any, begun: Any, owner: str) -> Any:
        name = f"20261121T100000Z-lab-{len(self.made):06}"
        self.made[name] = SimpleNamespace(
            id=name, gate="acceptance", state="running", scope=scope, folder=None
        )
        begun(self.made[name])
        return self.ended(self.made[name])

    def resume(self, campaign: Any, *_: Any, owner: str) -> Any:
        assert campaign.state == "running"
        if self.changed:
            raise RailgaugeError(self.changed)
        self.resumed.append(campaign.id)
        return self.ended(campaign)

    def ended(self, campaign: Any) -> Any:
        self.at_each()
        campaign.state = "interrupted" if self.interrupts else "finished"
        self.interrupts = False
        self.at_each()
        return self.verdict(campaign)

    def verdict(self, campaign: Any) -> Any:
        members = sorted({n for part in campaign.scope.nodes.values() for n in part})
        healed = self.heals and campaign.id != next(iter(self.made))
        now = set() if healed else self.bad
        bad = sorted(now & set(members))
        pairs = list(zip(members, [*members[1:], members[0]], strict=True))
        once = self.once if campaign.id == next(iter(self.made)) else ()
        cases = [
            SimpleNamespace(
                check="Iperf2Pair",
                partition="ns",
                place="",
                of_job=False,
                nodes=p,
                passed=not set(p) & now and p != once,
                failed=bool(set(p) & now) or p == once,
                result="",
                failures=(),
                to_measure=False,
                was_left_out=False,
            )
            for p in [*pairs, *([once] if once else [])]
        ]
        findings = [
            Finding("reject", "out", "too slow", "Iperf2Pair", "ns", c.nodes)
            for c in cases
            if not c.passed
        ]
        told = bad if len(members) > 2 and len(bad) == 1 else []
        return SimpleNamespace(
            campaign=campaign,
            simulated=False,
            findings=findings,
            cases=cases,
            suspects=[self.suspect(node) for node in told],
            failing_nodes=told if self.confirms else [],
        )

    def suspect(self, node: str) -> Suspect:
        again = () if self.confirms else (Measure(node, "n9", "another round"),)
        return Suspect("node", node, 9.0, (node,), (), (), again)


REFUSED = "Invalid user id"
NO_NODE = "slurm_update error: Invalid node name specified"
NO_RESERVATION = "delete_reservation reservationname=x: Requested reservation is invalid"


class Answers:
    """scontrol and sacctmgr, to a user of that admin level."""

    def __init__(
        self, level: str, known: bool = True, accounting: str = "accounting_storage/slurmdbd"
    ) -> None:
        self.node = NO_NODE if level == "admin" else REFUSED
        self.reservation = REFUSED if level == "none" else NO_RESERVATION
        self.known, self.accounting = known, accounting

    def __call__(self, *command: str, limit_s: float = 30) -> str:
        words = " ".join(command)
        if "update nodename=" in words:
            raise SlurmError(self.node)
        if "delete reservationname=" in words:
            raise SlurmError(self.reservation)
        if "--version" in words:
            return "slurm-wlm 22.05.8"
        if "show config" in words:
            return (
                f"AccountingStorageType   = {self.accounting}\nSlurmUser    = slurm(64030)\n"
                "SLURM_VERSION           = 22.05.8"
            )
        assert command[0] == "sacctmgr", words
        return getpass.getuser() if self.known else ""


class Killed(BaseException):
    """As SIGKILL does, nothing of ours runs after it; locks and Slurm stay as they are."""


def held(nodes: Slurm, *names: str) -> None:
    nodes.drain(names, "firmware changed: kernel/release 6.12 -> 6.13")
    nodes.kernel.update(dict.fromkeys(names, "6.13"))


def go(nodes: Slurm) -> journal.Run:
    """What `gate run --act` does: finish what broke off, then what is held."""
    broken = journal.unended("lab")
    if broken is not None:
        run.finish(broken, [], lambda _: None)
    rest = sorted(run.candidates("lab", None).nodes)
    ended = run.finish(run.plan("lab", rest), [], lambda _: None) if rest and not broken else broken
    assert ended is not None
    return ended


def gate(*words: str) -> int:
    """`railgauge gate ...`: its exit code; what it says with `said`."""
    return said(*words)[1]


#: Where a variable of the test's or of an interrupted run asks for it.
_MAY_SAY = ("RAILGAUGE_RESULTS moves", "not passed on to jobs: SLURMD_NODENAME", "Aborted!")


def said(*words: str) -> tuple[str, int]:
    """What `railgauge gate ...` says, and its exit code."""
    answer = invoke(cli, ["gate", words[0], "--system", "lab", *words[1:]], may_say=_MAY_SAY)
    error = answer.exception
    if words[0] == "status" and "--json" not in words:
        assert_fits(answer.stdout)
    if isinstance(error, RailgaugeError):
        return f"{answer.output}{error}", error.exit_code
    assert error is None or isinstance(error, SystemExit), repr(error)
    return answer.output, answer.exit_code
