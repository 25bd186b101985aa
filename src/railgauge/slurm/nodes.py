"""Slurm's nodes: what they have, their states, and the two that Railgauge sets: drained, and back
in service.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from railgauge.slurm import client
from railgauge.slurm.client import SlurmError

#: Beginning of the reason of every node that Railgauge drained; by this alone it recognises them.
OURS = "railgauge: "

#: Beginning of the name of every reservation that a gate run made.
OUR_RESERVATIONS = "railgauge_"

#: End of the name of a gate run's second reservation, which no job uses: it holds the nodes that
#: are not accepted yet.
UNTESTED = "_untested"

#: Time after the start of slurmctld until a node must have registered.
REGISTERED_S = 30

#: How long a node may take to answer after it was resumed.
ANSWER_LIMIT_S = 60
_POLL_S = 0.5

#: No test of a few nodes takes longer: what begins later is not disturbed by it.
SOON_S = 24 * 3600

#: Longest reason: Slurm cuts nothing, but `sinfo -R` gets hard to read.
_LONGEST_REASON = 160

#: The longest host list that is given to a command, in bytes: Linux takes no argument of more than
#: 128 KiB (MAX_ARG_STRLEN, execve(2)).
_LONGEST_LIST = 100_000

#: A name with a number that a range of a host list can hold.
_NUMBERED = re.compile("(.*?)([0-9]{1,9})", re.DOTALL)

_NOT_FOUND = re.compile(r"^(?:.*: )?Node (\S+) not found$", re.MULTILINE)

#: The whole texts that Slurm gives a node which it takes down itself (slurmctld 21.08 to 26.05:
#: node_mgr.c, controller.c, agent.c, ping_nodes.c, power_save.c, proc_req.c, read_config.c).
_SLURMS_REASON = re.compile(
    r"Not responding|Node unexpectedly rebooted|ResumeTimeout reached|NO NETWORK ADDRESS FOUND"
    r"|First Registration|Prolog error|Epilog error|Prolog/Epilog failure|Job env setup error"
    r"|Kill task failed|Duplicate jobid|batch job complete failure|Reboot ASAP"
    r"|reboot (?:requested|issued|complete|timed out)"
)
#: What a node registered with too little of, one behind the other.
_SLURMS_SHORTAGE = re.compile(
    r"Low (?:CPUs|TmpDisk|socket\*core(?:\*thread)? count)|CoreSpec differ"
    r"|Low RealMemory(?: \(reported:[0-9]+ < [0-9.]+% of configured:[0-9]+\))?"
    r"|\S+ count reported lower than configured(?: \([0-9]+ < [0-9]+\))?"
)
#: What it hangs on to whatever reason a node has (set_node_reason).
_AND = " : "

#: How a reason ends: the user that gave it and when. A second line of it stands behind that.
_GIVEN_BY = re.compile(r" \[([^\s\[\]]+)@([0-9T:-]+|Unknown)\]")
#: What a node's line may have behind a reason and a comment (slurm_sprint_node_table, node_info.c).
_BEHIND = re.compile(
    r" (?:Comment|Extra|ReservationName|InstanceId|InstanceType|TLSCert\w+|Topology|Parameters)="
)
_COMMENT = re.compile(r" Comment=(.*)$")
#: What Slurm is about to do with a node, or does.
_REBOOTED = frozenset({"REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED"})
_SWITCHED_OFF = frozenset({"POWER_DOWN", "POWERING_DOWN"})
#: Why nothing is asked of one that is `asleep`.
ASLEEP = "switched off by Slurm until a job wants it"

_FIELD = re.compile(r"(?:^| )(\w+)=(\S*)")


#: Why nothing is done with a node that Slurm has not.
UNKNOWN = "Slurm knows no such node"


class UnknownNodesError(SlurmError):
    """Slurm has no such nodes."""

    def __init__(self, nodes: Sequence[str]) -> None:
        super().__init__(f"Slurm knows no {','.join(nodes)}")
        self.nodes = tuple(nodes)


@dataclasses.dataclass(frozen=True)
class SlurmNode:
    """A node as the controller sees it. `flags` are its state's parts: IDLE, DRAIN, RESERVED.

    "" and None stand for what Slurm does not say.
    """

    name: str
    flags: frozenset[str] = frozenset()
    reason: str = ""
    #: the user that gave the reason, and when (the controller's local time)
    by: str = ""
    since: str = ""
    #: the names of the reservations that have begun on it, and of those that begin within SOON_S
    reservations: tuple[str, ...] = ()
    soon_reserved: tuple[str, ...] = ()
    #: its generic resources: gpu:h100:8(S:0-1)
    gres: str = ""
    cpus: int | None = None
    memory_mib: int | None = None
    #: comma-separated
    features: str = ""
    #: its NodeAddr and NodeHostName, as far as they are not its name
    other_names: tuple[str, ...] = ()
    comment: str = ""
    #: when it was started (the controller's local time)
    booted: datetime.datetime | None = None
    #: what it is to be after a reboot that a user requested: RESUME, DOWN
    next_state: str = ""

    @property
    def drained(self) -> bool:
        """Whether no job starts on it; one may still run there."""
        return "DRAIN" in self.flags

    @property
    def busy(self) -> bool:
        return bool(self.flags & {"ALLOCATED", "MIXED", "COMPLETING"})

    @property
    def answers(self) -> bool:
        """Whether it does, or will for the next job: one that is `asleep` is started then."""
        return not self.flags & {"DOWN", "NOT_RESPONDING", "UNKNOWN", "FAIL"}

    @property
    def asleep(self) -> bool:
        """Whether Slurm has switched it off until a job wants it."""
        return "POWERED_DOWN" in self.flags

    @property
    def restarts(self) -> bool:
        """Whether Slurm restarts it or switches it off, or is about to."""
        return bool(self.flags & (_REBOOTED | _SWITCHED_OFF))

    @property
    def takes_no_job(self) -> bool:
        """Whether Slurm starts no job on it, and will not where it is resumed: it is switched off,
        or has registered with less than slurm.conf says.
        """
        return bool(self.flags & (_SWITCHED_OFF | {"INVALID_REG", "FUTURE"}))

    @property
    def resumes_after_reboot(self) -> bool:
        """Whether it comes back from a reboot in service, whatever drain it has by then: once it
        registers Slurm makes its next state of it, and takes away a drain that has one
        (validate_node_specs, node_mgr.c).
        """
        if not self.flags & _REBOOTED or self.next_state.startswith("DOWN"):
            return False
        return bool(self.next_state) or ("REBOOT_ISSUED" in self.flags and not self.drained)

    @property
    def stays_drained(self) -> bool:
        return self.drained and not self.resumes_after_reboot

    @property
    def is_down(self) -> bool:
        """Whether Slurm no longer waits for its answer."""
        return bool(self.flags & {"DOWN", "FAIL"})

    @property
    def downed_by_admin(self) -> bool:
        """Whether a user set it down or failing, for a reason of their own. One that Slurm itself
        gives for a node that it gave up is none; a reason that is not known is a user's.
        """
        own = self.reason.startswith(OURS) or _is_slurms(self.reason)
        return self.is_down and bool(self.reason) and not own

    @property
    def drained_by_us(self) -> bool:
        """Whether Railgauge drained it; a user that sets another reason takes it over."""
        return self.drained and self.reason.startswith(OURS)

    @property
    def foreign_reservations(self) -> tuple[str, ...]:
        """Its reservations that no gate run made: their owners decide what happens in them."""
        return tuple(r for r in self.reservations if not r.startswith(OUR_RESERVATIONS))

    @property
    def under_test(self) -> bool:
        """Whether a gate run has it that has not accepted it; a partner of the test is not."""
        ours = (name for name in self.reservations if name.startswith(OUR_RESERVATIONS))
        return any(name.endswith(UNTESTED) for name in ours)

    @property
    def unavailable_reason(self) -> str:
        """Why it does not take everybody's jobs; "" where it does."""
        if self.drained:
            return f"drained by {self.by or 'an unknown user'}: {self.reason}"
        if not self.answers:
            return ": ".join(filter(None, [f"does not answer Slurm ({self.state})", self.reason]))
        if self.takes_no_job or self.restarts:
            return ": ".join(filter(None, [f"taking no job now ({self.state})", self.reason]))
        if self.reservations:
            return f"in reservation {' '.join(self.reservations)}"
        return "in a reservation" if self.flags & {"RESERVED", "MAINTENANCE"} else ""

    @property
    def in_service(self) -> bool:
        """Whether it takes everybody's jobs."""
        return not self.unavailable_reason

    @property
    def state(self) -> str:
        return "+".join(sorted(self.flags)).lower()

    @property
    def gpus(self) -> int:
        """How many GPUs Slurm can allocate on it."""
        return gpus_in(self.gres)


def _is_slurms(reason: str) -> bool:
    """Whether all of a reason is Slurm's own, and none of it a user's."""
    return all(
        _SLURMS_REASON.fullmatch(part)
        or all(_SLURMS_SHORTAGE.fullmatch(word) for word in part.split(", "))
        for part in reason.split(_AND)
    )


def gpus_in(gres: str) -> int:
    """The GPUs in Slurm's Gres of a node: `gpu:h100:8(S:0-1),nic:4` -> 8, `(null)` -> 0.

    ValueError where a count is no number.
    """
    count = 0
    # What is in parentheses (sockets, indices) may hold commas.
    for item in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *details = item.strip().split(":")
        if name != "gpu":
            continue
        last = details[-1] if details else "1"
        if last.isdigit():
            count += int(last)
        elif len(details) == 1 or last == "no_consume":
            # A type alone. slurm.conf(5): without a number it is one.
            count += 1
        else:
            raise ValueError(f"Gres is {gres!r}, expected a number of GPUs behind the last colon")
    return count


def fields_of(line: str) -> dict[str, str]:
    """A line of `scontrol show ... --oneliner`, field -> value; "" for `(null)`.

    A value with blanks in it is cut at the first.
    """
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(line):
        # What a reason or a comment holds comes last.
        fields.setdefault(name, "" if value == "(null)" else value)
    return fields


def parse(text: str) -> dict[str, SlurmNode]:
    """The nodes in what `scontrol show node --oneliner` prints, by name."""
    nodes = {}
    for line in text.splitlines():
        fields = fields_of(line)
        name, state = fields.get("NodeName", ""), fields.get("State", "")
        if not name or not state:
            continue
        words, by, since = _reason(line)
        cpus, memory = (fields.get(key, "") for key in ("CPUTot", "RealMemory"))
        others = dict.fromkeys(fields.get(key, "") for key in ("NodeAddr", "NodeHostName"))
        nodes[name] = SlurmNode(
            name=name,
            # NOT_RESPONDING stands as a suffix in some versions.
            flags=frozenset(state.replace("*", "+NOT_RESPONDING").split("+")),
            reason=words,
            by=by,
            since=since,
            gres=fields.get("Gres", ""),
            cpus=int(cpus) if cpus.isdigit() else None,
            memory_mib=int(memory) if memory.isdigit() else None,
            features=fields.get("AvailableFeatures", ""),
            other_names=tuple(other for other in others if other not in ("", name)),
            comment=_BEHIND.split(commented[1])[0].rstrip()
            if (commented := _COMMENT.search(line))
            else "",
            next_state=fields.get("NextState", ""),
            booted=moment(fields.get("BootTime", "")),
        )
    return nodes


def _reason(line: str) -> tuple[str, str, str]:
    """A node's reason, the user that gave it, and when; "" for what its line does not say."""
    _, _, text = line.partition(" Reason=")
    given = _GIVEN_BY.search(text)
    if given is None:
        return _BEHIND.split(text)[0].rstrip(), "", ""
    more = _BEHIND.split(text[given.end() :])[0].split()
    return " ".join([text[: given.start()].rstrip(), *more]), given[1], given[2]


def moment(text: str) -> datetime.datetime | None:
    """`2026-11-22T10:00:00`; None of `None`, `Unknown`, or a time of another form."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def fold(names: Iterable[str]) -> str:
    """A host list of the names in their order, those that follow on one another as a range: n1, n2,
    n3, n9, n10 are `n[1-3],n9,n10`.

    Linux takes no argument and no variable of more than 128 KiB (MAX_ARG_STRLEN, execve(2)), which
    the names of some thousand nodes exceed.
    """
    #: what stands before the numbers, the first of them, and the last
    runs: list[tuple[str, str, str]] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        prefix, number = match.groups() if match else (name, "")
        if runs and number and _follows(runs[-1], prefix, number):
            runs[-1] = (prefix, runs[-1][1], number)
        else:
            runs.append((prefix, number, number))
    return ",".join(
        f"{prefix}[{first}-{last}]" if first != last else f"{prefix}{first}"
        for prefix, first, last in runs
    )


def _follows(run: tuple[str, str, str], prefix: str, number: str) -> bool:
    """Whether a name is the next of a run; 10 after 9 and 10 after 09 are written differently."""
    before, _, last = run
    same = prefix == before and len(number) == len(last)
    return same and int(number) == int(last) + 1


def _lists(names: Iterable[str]) -> Iterator[str]:
    """Host lists of all these names together, each short enough for a command; their order does
    not matter.
    """
    # By length first: numbers of one width ascend, and stand next to the others of their prefix.
    in_order = sorted(set(names), key=lambda name: (len(name), name))
    folded = fold(in_order)
    if len(folded.encode()) <= _LONGEST_LIST:
        yield folded
        return
    half = len(in_order) // 2
    yield from _lists(in_order[:half])
    yield from _lists(in_order[half:])


def show(names: Iterable[str] = ()) -> dict[str, SlurmNode]:
    """These nodes, or all. UnknownNodesError for those that Slurm has not, SlurmError where it does
    not answer.
    """
    wanted = list(names)
    nodes = _without_reservations(wanted)
    if missing := [name for name in wanted if name not in nodes]:
        raise UnknownNodesError(missing)
    # A node's own state does not always say that it is reserved.
    for reservation in reservations():
        if not reservation.hostlist or not (reservation.active or reservation.begins_soon):
            continue
        members = client.output("scontrol", "show", "hostnames", reservation.hostlist).split()
        for name in nodes.keys() & set(members):
            node = nodes[name]
            if reservation.active:
                now = tuple(sorted((*node.reservations, reservation.name)))
                flags = node.flags | {"RESERVED"}
                nodes[name] = dataclasses.replace(node, flags=flags, reservations=now)
            else:
                soon = tuple(sorted((*node.soon_reserved, reservation.name)))
                nodes[name] = dataclasses.replace(node, soon_reserved=soon)
    return nodes


def show_known(names: Iterable[str]) -> dict[str, SlurmNode]:
    """These nodes without those that Slurm has not; SlurmError where it does not answer."""
    known = show()
    return {name: known[name] for name in names if name in known}


def _without_reservations(names: Sequence[str] = ()) -> dict[str, SlurmNode]:
    chosen = [[hosts] for hosts in _lists(names)] if names else [[]]
    known: dict[str, SlurmNode] = {}
    try:
        for hosts in chosen:
            known |= parse(client.output("scontrol", "show", "node", *hosts, "--all", "--oneliner"))
        return known
    except SlurmError as error:
        if missing := _NOT_FOUND.findall(error.message):
            raise UnknownNodesError(missing) from None
        raise


def drain(names: Iterable[str], reason: str) -> None:
    """Let no new job start on these nodes; running ones go on. `reason` follows OURS.

    A node that another user has drained, or set down, stays theirs, with their reason and name.
    From one that `resumes_after_reboot` Slurm would take the drain away again. It forgets the
    reboot, and what was to be after it, where the node is resumed first. If its slurmd is not
    up no job starts in between.
    """
    words = _shortened(OURS + " ".join(reason.split()))
    by_reason: dict[str, list[str]] = {}
    known = _named(names)
    restarted = [name for name, node in known.items() if node.resumes_after_reboot]
    for hosts in _lists(restarted) if restarted else ():
        client.output("scontrol", "update", f"nodename={hosts}", "state=resume")
    for name, node in known.items():
        if name in restarted:
            by_reason.setdefault(words, []).append(name)
        elif node.drained_by_us or not node.drained:
            # A node that is down may come back by itself.
            theirs = f"{node.reason} (set by {node.by or 'an unknown user'})"
            by_reason.setdefault(theirs if node.downed_by_admin else words, []).append(name)
    for why, members in by_reason.items():
        for hosts in _lists(members):
            chosen = f"nodename={hosts}"
            client.output("scontrol", "update", chosen, "state=drain", f"reason={why}")


def comment(name: str, words: str) -> bool:
    """Set Slurm's comment of a node, which keeps no job from it; "" takes it away.

    One that another user wrote stays; whether it is ours now.
    """
    before = _named([name])[name].comment
    if before and not before.startswith(OURS):
        return False
    text = _shortened(OURS + " ".join(words.split())) if words else ""
    if text != before:
        client.output("scontrol", "update", f"nodename={name}", f"comment={text}")
    return True


def _shortened(words: str) -> str:
    """The beginning of a long reason, cut between two words: half a path names another file."""
    if len(words) <= _LONGEST_REASON:
        return words
    room = _LONGEST_REASON - len(" ...")
    whole, _, _ = words[: room + 1].rpartition(" ")
    return f"{whole if len(whole) > len(OURS) else words[:room]} ..."


def resume(names: Iterable[str]) -> None:
    """Let jobs start again on these nodes, as far as Railgauge drained them; done once they answer.

    In a reservation those of the reservation only.
    """
    ours = [
        name
        for name, node in _named(names).items()
        # Slurm resumes none of a list that has one of these.
        if node.drained_by_us and "INVALID_REG" not in node.flags
    ]
    if ours:
        _set_resumed(ours)
        once_answering(ours)


def _set_resumed(names: Collection[str]) -> None:
    for hosts in _lists(names):
        client.output("scontrol", "update", f"nodename={hosts}", "state=resume")


def once_answering(names: Collection[str]) -> dict[str, SlurmNode]:
    """The states of these nodes once all of them answer, and after ANSWER_LIMIT_S as they are then.

    Slurm 24.11 shows NOT_RESPONDING for about a second of every node that was resumed.
    """
    deadline = time.monotonic() + ANSWER_LIMIT_S
    while True:
        states = _named(names)
        if all(node.answers for node in states.values()) or time.monotonic() > deadline:
            return states
        time.sleep(_POLL_S)


def _named(names: Iterable[str]) -> dict[str, SlurmNode]:
    """The state of these nodes; empty where none is named."""
    wanted = list(names)
    return show(wanted) if wanted else {}


@functools.cache
def other_names() -> Mapping[str, tuple[str, ...]]:
    """Node -> its other names, for nodes that have any.

    SlurmError where Slurm does not answer.
    """
    known = _without_reservations()
    return {name: node.other_names for name, node in known.items() if node.other_names}


def names_of(nodes: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The entries of `other_names` for some nodes; empty where Slurm does not answer."""
    try:
        known = other_names()
    except SlurmError:
        return {}
    return {node: known[node] for node in nodes if node in known}


def dead(nodes: Collection[str]) -> list[str]:
    """Those of `nodes` that do not answer Slurm; none where Slurm itself does not answer.

    Not those that a user drained or reserved: no job starts there either, on purpose. And not
    those that answer within half a minute: a controller that was started again takes every node for
    silent until it has registered again.
    """
    deadline = time.monotonic() + REGISTERED_S
    while True:
        try:
            now_silent = _silent_of(nodes, _without_reservations())
        except SlurmError:
            return []
        given_up = all(node.is_down for node in now_silent.values())
        if given_up or time.monotonic() > deadline:
            return sorted(now_silent)
        time.sleep(1)


def silent(nodes: Collection[str]) -> dict[str, SlurmNode]:
    """Those of `nodes` that do not answer Slurm at this moment; SlurmError where it does not
    answer itself.
    """
    return _silent_of(nodes, _without_reservations(sorted(nodes))) if nodes else {}


def stays_silent(node: str) -> bool:
    """Whether a node stays silent for half a minute: a controller that stood still takes healthy
    nodes for down at first. False where Slurm itself does not answer.
    """
    deadline = time.monotonic() + REGISTERED_S
    try:
        while silent([node]):
            if time.monotonic() > deadline:
                return True
            time.sleep(1)
    except SlurmError:
        pass
    return False


def _silent_of(nodes: Collection[str], known: Mapping[str, SlurmNode]) -> dict[str, SlurmNode]:
    return {name: known[name] for name in nodes if name in known and _silent(known[name])}


def _silent(node: SlurmNode) -> bool:
    # One that Slurm switches on has its ResumeTimeout.
    if "POWERING_UP" in node.flags:
        return False
    if "NOT_RESPONDING" in node.flags:
        return True
    return not node.drained and bool(node.flags & {"DOWN", "FAIL", "UNKNOWN"})


@dataclasses.dataclass(frozen=True)
class Reservation:
    """`active`: it has begun. `maintenance`: its jobs start in spite of other reservations.
    `hostlist` is "" where it has no nodes, `users` where it has none. `begins` is of this host's
    local time, None where Slurm says no time.
    """

    name: str
    hostlist: str
    users: str
    active: bool
    maintenance: bool = False
    begins: datetime.datetime | None = None

    @property
    def begins_soon(self) -> bool:
        """Whether it has not begun, and does within SOON_S."""
        if self.active or self.begins is None:
            return False
        left = self.begins - datetime.datetime.now()
        return datetime.timedelta(0) <= left <= datetime.timedelta(seconds=SOON_S)


def reservations() -> list[Reservation]:
    """All of them; SlurmError where Slurm does not answer."""
    answer = client.output("scontrol", "show", "reservation", "--oneliner")
    return [
        Reservation(
            fields["ReservationName"],
            fields.get("Nodes", ""),
            fields.get("Users", ""),
            fields.get("State") == "ACTIVE",
            "MAINT" in fields.get("Flags", "").split(","),
            moment(fields.get("StartTime", "")),
        )
        for fields in map(fields_of, answer.splitlines())
        if "ReservationName" in fields
    ]
