"""The little that Railgauge itself asks of Slurm."""

from __future__ import annotations

import functools
import getpass
import os
import pwd
import re
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from railgauge import hostlist
from railgauge.errors import EnvironmentProblem

#: How long after the start of slurmctld a node may take until it is known to answer.
_REGISTERED_S = 30

#: Set by `railgauge gate run`: the reservation that all jobs of this process's tests run in.
RESERVATION_VARIABLE = "RAILGAUGE_RESERVATION"

#: How the name of a gate run's other reservation goes on, which no job uses: that of its nodes
#: which are not accepted yet.
UNTESTED = "_untested"


#: What Slurm says of jobs that it refuses, whatever nodes they are for; what to type then.
_REFUSED = (
    (
        re.compile(r"Invalid account|Invalid qos|accounting/QOS policy", re.IGNORECASE),
        "`sacctmgr show assoc user=$USER format=account,qos,partition` says what you may use; put "
        "--account=... or --qos=... into access of the partition, or behind it: railgauge accept "
        "-- -J account=...",
    ),
    (
        re.compile(
            r"not permitted to use this partition|Access/permission denied|Invalid partition"
            r"|requested reservation is invalid|invalid reservation",
            re.IGNORECASE,
        ),
        "`scontrol show partition` and `scontrol show reservation` say who may use which; edit "
        "access of the partition",
    ),
)

_NO_ACCOUNTING = re.compile(r"accounting storage is disabled", re.IGNORECASE)


def ask(*command: str, limit_s: float = 60) -> str:
    """What a Slurm command answers; EnvironmentProblem where it does not."""
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=limit_s
        )
    except FileNotFoundError:
        raise EnvironmentProblem(
            f"{command[0]} is not on the path: no Slurm here",
            next_step="`railgauge lab up` for the embedded cluster, or work on a login node",
        ) from None
    except subprocess.TimeoutExpired:
        raise EnvironmentProblem(f"{command[0]} did not answer within {limit_s:g} s") from None
    except subprocess.CalledProcessError as error:
        words = error.stderr.strip() or error.stdout.strip() or f"exit code {error.returncode}"
        if _NO_ACCOUNTING.search(words):
            raise NoAccounting from None
        raise EnvironmentProblem(f"`{' '.join(command)}` failed: {words}") from None
    return answer.stdout


class NoAccounting(EnvironmentProblem):
    """This Slurm keeps no record of its jobs."""

    def __init__(self) -> None:
        super().__init__(
            "Slurm accounting is off, and jobs are followed by sacct",
            next_step="AccountingStorageType=accounting_storage/slurmdbd in slurm.conf, with a "
            "slurmdbd, and `sacctmgr add cluster NAME`: slurm.schedmd.com/accounting.html",
        )


class Refusal(NamedTuple):
    """Why Slurm takes no job, in its words, and what to type."""

    reason: str
    next_step: str


def refusal(options: Sequence[str]) -> Refusal | None:
    """Why Slurm takes no job with these options, whatever nodes it is for: its account, its QOS,
    its partition. None where it takes them. Nothing is submitted.
    """
    try:
        ask("sbatch", "--test-only", "--output=/dev/null", "--time=2", *options, "--wrap=true")
    except EnvironmentProblem as error:
        for pattern, step in _REFUSED:
            told = next((w for w in error.message.splitlines() if pattern.search(w)), None)
            if told is not None:
                return Refusal(told.rpartition("error: ")[2].rpartition("failure: ")[2], step)
    return None


@functools.cache
def other_names() -> Mapping[str, tuple[str, ...]]:
    """NodeName -> the other names that a node goes by: its NodeAddr and its NodeHostName.

    Only of nodes that have any. EnvironmentProblem where Slurm does not answer.
    """
    found = {}
    for line in ask("scontrol", "show", "node", "--oneliner").splitlines():
        fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
        name = fields.get("NodeName", "")
        others = dict.fromkeys(fields.get(key, name) for key in ("NodeAddr", "NodeHostName"))
        others.pop(name, None)
        if others:
            found[name] = tuple(others)
    return found


def names_of(nodes: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Those of `other_names` that some nodes have; none where Slurm does not answer."""
    try:
        known = other_names()
    except EnvironmentProblem:
        return {}
    return {node: known[node] for node in nodes if node in known}


def require_answer() -> None:
    """EnvironmentProblem where the controller or the accounting does not answer.

    ReFrame follows its jobs by sacct; without it a session breaks off with jobs in the queue.
    """
    ask("sinfo", "--noheader", "--format=%P")
    ask("sacct", "--noheader", "--allocations", "--jobs=1", "--format=jobid")


def cancelled(job_id: str | None) -> str:
    """`CANCELLED by NAME`, as accounting has it; "" where it does not answer."""
    try:
        answer = ask(
            *("sacct", "--noheader", "--allocations", "--parsable2"),
            *(f"--jobs={job_id}", "--format=state%60"),
        ).strip()
    except EnvironmentProblem:
        return ""
    state, _, uid = answer.rpartition(" by ")
    try:
        return f"{state} by {pwd.getpwuid(int(uid)).pw_name}"
    except (KeyError, ValueError):
        return answer


def failed_nodes(job_id: str, nodes: Collection[str]) -> tuple[str, ...]:
    """Those of a job's nodes whose failure ended it; none where Slurm knows none.

    Accounting names one node only, the first that it missed: one that was just too busy to answer,
    perhaps. So those that do not answer now are named too.
    """
    try:
        answer = ask(
            *("sacct", "--noheader", "--allocations", "--parsable2"),
            *(f"--jobs={job_id}", "--format=failednode"),
        )
        named = hostlist.expand(answer.strip()) if answer.strip() else ()
    except (EnvironmentProblem, ValueError):
        return ()
    return tuple(sorted({*named, *dead(nodes)}))


def dead(nodes: Collection[str]) -> list[str]:
    """Those of `nodes` that do not answer Slurm; none where Slurm itself does not answer.

    Not those that somebody drained or reserved: no job starts there either, on purpose. And not
    those that answer within half a minute: a controller that was started anew takes every node for
    silent until it has registered again.
    """
    deadline = time.monotonic() + _REGISTERED_S
    while True:
        try:
            answer = ask("sinfo", "--noheader", "--Node", "--format=%N %T")
        except EnvironmentProblem:
            return []
        states = dict(line.split(maxsplit=1) for line in answer.splitlines() if " " in line)
        bad = ("down", "fail", "unknown", "not_resp", "*")
        silent = {
            n: s for n in nodes if any(word in (s := states.get(n, "").lower()) for word in bad)
        }
        given_up = all(word.startswith(("down", "fail")) for word in silent.values())
        if given_up or time.monotonic() > deadline:
            return sorted(silent)
        time.sleep(1)


def cancel_jobs_of(campaign: str) -> list[str]:
    """Cancel what a campaign has left in the queue; the ids of the jobs."""
    listed = ask("squeue", "--noheader", "--format=%A %k").splitlines()
    left = [line.split()[0] for line in listed if line.split()[1:] == [f"railgauge:{campaign}"]]
    if left:
        ask("scancel", *left)
    return left


def told_of_jobs_of(campaign: str) -> str:
    """What Slurm says of the jobs that a campaign has in the queue, or why it says nothing."""
    try:
        listed = ask("squeue", "--noheader", "--format=%k|%A|%T|%r", limit_s=10).splitlines()
    except EnvironmentProblem as error:
        return error.message
    ours = [line.split("|")[1:] for line in listed if line.startswith(f"railgauge:{campaign}|")]
    if not ours:
        return "Slurm has no job of this campaign"
    return "; ".join(f"job {job} is {state}, {reason}" for job, state, reason in ours)


# --- reservations --------------------------------------------------------------------------------


def our_reservations() -> set[str]:
    """Those of the gate run that this process works for."""
    name = os.environ.get(RESERVATION_VARIABLE)
    return {name, f"{name}{UNTESTED}"} if name else set()


def reservation_nodes(name: str) -> tuple[str, ...] | None:
    """The nodes of a reservation; None where there is none of that name."""
    for line in ask("scontrol", "show", "reservation", "--oneliner").splitlines():
        fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
        if fields.get("ReservationName") == name:
            return hostlist.expand(fields["Nodes"])
    return None


def reserve(name: str, nodes: Collection[str], lease_s: int | None = None) -> None:
    """Nodes on which only this user's jobs start that name the reservation.

    It ends `lease_s` seconds from now, never where that is None. MAINT: it may lie over others',
    its own jobs start there all the same, and it counts as maintenance. IGNORE_JOBS: running jobs
    go on.
    """
    ask(
        *("scontrol", "create", "reservation", f"reservationname={name}"),
        *(f"nodes={hostlist.fold(nodes)}", f"users={getpass.getuser()}", "starttime=now"),
        "duration=UNLIMITED" if lease_s is None else f"endtime=now+{lease_s}",
        "flags=MAINT,IGNORE_JOBS",
    )


def renew(name: str, lease_s: int) -> None:
    """Let a reservation end `lease_s` seconds from now, and be this user's."""
    ask(
        *("scontrol", "update", f"reservationname={name}", f"endtime=now+{lease_s}"),
        f"users={getpass.getuser()}",
    )


def unreserve(name: str) -> None:
    ask("scontrol", "delete", f"reservationname={name}")


def waiting_for_campaigns() -> dict[str, str]:
    """The jobs of campaigns that wait for nodes on which a campaign's job runs: id -> campaign."""
    listed = ask("squeue", "--noheader", "--format=%A|%T|%k|%N|%n").splitlines()
    jobs = [line.strip().split("|") for line in listed if line.count("|") == 4]
    jobs = [job for job in jobs if job[2].startswith("railgauge:")]

    def names(text: str) -> set[str]:
        try:
            return set(hostlist.expand(text)) if text.strip() else set()
        except ValueError:
            return set()

    taken = {node for _, state, _, nodes, _ in jobs if state != "PENDING" for node in names(nodes)}
    return {
        number: comment.removeprefix("railgauge:")
        for number, state, comment, _, wanted in jobs
        if state == "PENDING" and names(wanted) & taken
    }
