"""A week of patrol in quick motion: patrol after patrol on the larger lab, users' jobs meanwhile.

    python -m tests.lab.drill_week [--patrols N] [--seed S] [--minutes M] [--preemptions P]
                                   [--undisturbed]

Every patrol is real, with real Slurm jobs; only the hours between two of them are left out, and
with them the holds of earlier patrols that `max_hold` would count. At random moments, the same for
a seed, three links get faults that stay (a rate, a loss, an MTU) and two flap. In ten patrols
a user wants nodes that are under test, and in as many more as it takes until Slurm has preempted
ten patrols; three times the patrol is killed; neither where it is `--undisturbed`.
Prints the table of docs/figures.csv; the exit code is 1 where a node without a fault was accused or
held, a job of a user was disturbed, or a fault that stays was missed: its node was accepted with
it, or refused twice and not held. One whose turn did not come in the time is no such.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from railgauge import paths, systems
from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import STANDING
from railgauge.checks.framework import topology
from railgauge.lab import faults, spec
from railgauge.lab.cluster import Lab
from railgauge.model import record
from railgauge.node.gate import HOLDS
from railgauge.patrol.choose import ways_of
from railgauge.patrol.run import PREEMPTED
from railgauge.slurm import client
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes

SYSTEM = "lab32"
NODES = tuple(f"n{number}" for number in range(1, 33))

#: What happens to the links, and whether it stays: a flap is there for a fifth of the time.
FAULTS = (("rate", "0.04"), ("rail-loss", "20"), ("mtu", "1500"), ("flap", "10"), ("flap", "25"))
PREEMPTIONS, KILLED = 10, 3

#: So often a user wants a node in one patrol, until Slurm preempts a job of it. A job that begins
#: between two of the patrol's preempts none.
_TRIES = 5

#: As many jobs of users at once, on two nodes each.
_USERS = 3
_PATROL_S = 500
_SOON_S = 90


@dataclasses.dataclass
class Week:
    """What was done, and what came of it; times in seconds since the beginning. After `limit_s` no
    patrol begins, and the one that runs is ended.
    """

    limit_s: float
    began: float = dataclasses.field(default_factory=time.monotonic)
    #: the same, as the names of campaigns have it
    day: datetime.datetime = dataclasses.field(
        default_factory=lambda: datetime.datetime.now(datetime.timezone.utc)
    )
    #: node -> (fault, when)
    faulty: dict[str, tuple[str, float]] = dataclasses.field(default_factory=dict)
    #: node -> when it was held
    held: dict[str, float] = dataclasses.field(default_factory=dict)
    codes: list[int | None] = dataclasses.field(default_factory=list)
    #: how long jobs for nodes under test waited
    waits: list[float] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    @property
    def to_find(self) -> list[str]:
        """The nodes whose fault stays, and that are not held yet."""
        stays = [n for n, (fault, _) in self.faulty.items() if not fault.startswith("flap")]
        return [node for node in stays if node not in self.held]

    def say(self, words: str) -> None:
        print(f"[{self.now:5.0f} s] {words}", flush=True)


def _sbatch(name: str, seconds: float, *options: str) -> str:
    words = (f"--job-name={name}", "--partition=ns", "--exclusive", "--chdir=/tmp", "--parsable")
    output = ("--output=/dev/null", f"--wrap=sleep {seconds:.0f}")
    return client.output("sbatch", *words, *options, *output).strip()


@contextlib.contextmanager
def users(chance: random.Random) -> Iterator[None]:
    """Users whose jobs come one after the other."""
    ended = threading.Event()

    def submit() -> None:
        while not ended.wait(1):
            waiting = client.output("squeue", "--noheader", "--name=user", "--format=%A").split()
            if len(waiting) < _USERS:
                # Else Slurm takes the first nodes always, and the patrol never has them.
                others = ",".join(chance.sample(NODES, len(NODES) // 2))
                _sbatch("user", chance.uniform(5, 15), "--nodes=2", f"--exclude={others}")

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def patrol(area: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(paths.HOME / "bin/railgauge"), "patrol", "--system", SYSTEM, "--budget", "8m"],
        cwd=paths.HOME,
        env={**os.environ, "RAILGAUGE_RESULTS": str(area)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def under_test() -> list[tuple[str, str]]:
    """(campaign, node) for each node on which a job of a patrol runs."""
    listed = client.output("squeue", "--noheader", "--states=R", "--format=%k|%N").splitlines()
    jobs = (line.strip().partition("|") for line in listed)
    return [
        (comment.removeprefix("railgauge:"), node)
        for comment, _, folded in jobs
        if comment.startswith("railgauge:")
        for node in client.output("scontrol", "show", "hostnames", folded).split()
    ]


def wait_until_under_test(process: subprocess.Popen[str]) -> list[tuple[str, str]]:
    """What `under_test` has when a patrol's job runs; nothing where the patrol ends before."""
    deadline = time.monotonic() + _SOON_S
    while not (busy := under_test()):
        if process.poll() is not None or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return busy


def someone_wants(week: Week, process: subprocess.Popen[str], chance: random.Random) -> None:
    """Users' jobs for nodes that are under test, one after the other until Slurm preempts a job of
    the patrol for one: how long each waits.
    """
    for _ in range(_TRIES):
        # Not always in the first seconds of its first job.
        wait_until_under_test(process)
        time.sleep(chance.uniform(0, 4))
        busy = wait_until_under_test(process)
        if not busy:
            return
        campaign, node = chance.choice(busy)
        began = time.monotonic()
        job = _sbatch("urgent", 8, f"--nodelist={node}")
        while _waits(job):
            if time.monotonic() - began > _SOON_S:
                week.problems.append(f"the job for {node} waited for more than {_SOON_S} s")
                return
            time.sleep(0.1)
        week.waits.append(time.monotonic() - began)
        # Slurm says so when the job has left all of its nodes.
        for _ in range(10):
            if slurm_jobs.preempted_jobs_of(campaign):
                return
            time.sleep(0.5)


def _waits(job: str) -> bool:
    options = ("--noheader", "--states=all", f"--jobs={job}", "--format=%T")
    return client.output("squeue", *options).strip() == "PENDING"


def one_patrol(week: Week, area: Path, what: str, chance: random.Random) -> None:
    # Six hours lie between two patrols: no job of the last one is left, also where it was killed,
    # and what it held is not within `window_s`.
    deadline = time.monotonic() + _SOON_S
    while left := under_test():
        if time.monotonic() > deadline:
            week.problems.append(f"jobs are left of the patrol before: {left}")
            break
        time.sleep(0.2)
    (area / "gate" / SYSTEM / HOLDS).unlink(missing_ok=True)
    process = patrol(area)
    if what == "wanted":
        someone_wants(week, process, chance)
    elif what == "killed":
        wait_until_under_test(process)
        time.sleep(chance.uniform(0, 8))
        process.kill()
    left_s = week.limit_s - week.now
    try:
        out, _ = process.communicate(timeout=max(1, min(_PATROL_S, left_s)))
    except subprocess.TimeoutExpired:
        process.terminate()
        out, _ = process.communicate()
        if left_s > _PATROL_S:
            week.problems.append(f"a patrol ran for more than {_PATROL_S} s: {out[-300:]}")
    week.codes.append(process.returncode)
    for node, state in slurm_nodes.show(NODES).items():
        if state.drained and node not in week.held:
            week.held[node] = week.now
            week.say(f"{node} held: {state.reason}")
    ends = [line for line in out.splitlines() if "node-minutes" in line or "stopped:" in line]
    week.say(f"patrol {len(week.codes)} {what} {process.returncode}: {'; '.join(ends)[:200]}")


def jobs_of_users() -> tuple[int, list[str]]:
    """How many jobs of users there were, and those that did not come to their end."""
    words = ("--noheader", "--allocations", "--parsable2", "--name=user,urgent")
    # By itself it begins at midnight.
    since = "--starttime=now-12hours"
    rows = [
        line.split("|")
        for line in client.output("sacct", *words, since, "--format=jobid,state").splitlines()
    ]
    fine = ("COMPLETED", "RUNNING", "PENDING")
    return len(rows), [" ".join(row) for row in rows if not row[1].startswith(fine)]


def journals(area: Path) -> list[dict[str, Any]]:
    return [
        json.loads(path.read_text())
        for path in sorted((area / "gate" / SYSTEM / "patrols").glob("*.json"))
    ]


def tested(one: dict[str, Any]) -> set[str]:
    """The nodes that a patrol judged."""
    return set(one["nodes"]) - set(one["not_tested"]) if one["ended"] else set()


def minutes(patrols: Sequence[dict[str, Any]]) -> float:
    """The node-minutes of all that came to an end."""
    total = 0.0
    for one in patrols:
        if one["ended"]:
            times = [datetime.datetime.fromisoformat(one[key]) for key in ("started", "ended")]
            total += (times[1] - times[0]).total_seconds() * len(one["nodes"]) / 60
    return total


def preempted(patrols: Sequence[dict[str, Any]]) -> int:
    """How many of them Slurm preempted."""
    return sum(one["stopped"].startswith(PREEMPTED) for one in patrols)


def _had_fault(week: Week, node: str, campaign: str) -> bool:
    """Whether a campaign began with a fault of the node there."""
    if node not in week.faulty:
        return False
    broken = week.day + datetime.timedelta(seconds=week.faulty[node][1])
    return campaigns.began(campaign) > broken


def outcomes(week: Week, area: Path, node: str) -> list[str]:
    """How the campaigns ended for a faulty node that began with its fault there."""
    ended: list[str] = []
    for one in journals(area):
        campaign = one["campaign"]
        if node in one["nodes"] and campaign and _had_fault(week, node, campaign):
            standings = record.read_standings(area / "campaigns" / campaign / STANDING)
            ended.append(standings[node].outcome if standings else "killed")
    return ended


def alarms(patrols: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """(node, campaign, what became of it and why) for each node that a patrol accused."""
    return [
        (node, one["campaign"], words) for one in patrols for node, words in one["found"].items()
    ]


def _alarm_lines(week: Week, patrols: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of the table about whom the patrols accused."""
    every = alarms(patrols)
    false = [(n, words) for n, campaign, words in every if not _had_fault(week, n, campaign)]
    week.problems += [f"{node} was accused, and had no fault: {words}" for node, words in false]
    kinds = [words.partition(":")[0].partition(",")[0] for _, _, words in every]
    by_kind = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    lines = [
        f"| alarms: recorded, commented on, held | {len(every)}: {by_kind or 'none'} |",
        f"| false alarms | {len(false)} {' '.join(node for node, _ in false)} |",
    ]
    capped = [node for node, _, words in every if "max_hold" in words]
    if capped:
        lines.append(f"| not held, as `max_hold` was reached in one patrol | {' '.join(capped)} |")
    return lines


def _ways_line(patrols: Sequence[dict[str, Any]]) -> str:
    measured = {tuple(way) for one in patrols for way in one["ways"]}
    by_partition = topology.described(SYSTEM).values()
    all_ways = {way for leaves in by_partition for way in ways_of(leaves)}
    return f"| ways between leaves measured | {len(measured & all_ways)} of {len(all_ways)} |"


def _missed(ended: Sequence[str]) -> bool:
    return "accepted" in ended or ended.count("not accepted") > 1


def _judged(patrols: Sequence[dict[str, Any]]) -> str:
    everybody = sum(tested(one) == set(one["nodes"]) for one in patrols)
    nobody = sum(not tested(one) for one in patrols)
    return f"{everybody}; {len(patrols) - everybody - nobody}; {nobody}"


def table(week: Week, area: Path, events: Sequence[str]) -> list[str]:
    """The lines of the table; `events` is what befell each patrol."""
    patrols = journals(area)
    had = [tested(one) for one in patrols]
    seen = set().union(*had)
    jobs, wrong = jobs_of_users()
    week.problems += [f"job {job}" for job in wrong]
    lines = []
    for node, (fault, when) in week.faulty.items():
        held, ended = week.held.get(node), outcomes(week, area, node)
        outcome = f"held after {held - when:.0f} s" if held is not None else "not held"
        tests = ", ".join(ended) or "its turn did not come"
        lines.append(f"| {fault} on {node} at {when:.0f} s | {outcome}; tested: {tests} |")
        if node in week.to_find and _missed(ended):
            week.problems.append(f"the fault of {node} was missed: {tests}")
    innocent = [
        node
        for node, when in sorted(week.held.items())
        if node not in week.faulty or when < week.faulty[node][1]
    ]
    week.problems += [f"{node} was held, and has no fault" for node in innocent]
    codes = {code: week.codes.count(code) for code in dict.fromkeys(week.codes)}
    by_code = ", ".join(f"{count} with {code}" for code, count in codes.items())
    lines += [
        f"| patrols in {week.now:.0f} s | {len(week.codes)}: {by_code} |",
        f"| wanted by somebody; preempted by Slurm; killed | {events.count('wanted')}; "
        f"{preempted(patrols)}; {events.count('killed')} |",
        f"| judged all of their nodes; some; nobody | {_judged(patrols)} |",
        f"| nodes tested | {len(seen)} of {len(NODES)}, {sum(map(len, had))} times; "
        f"{minutes(patrols):.0f} node-minutes |",
        _ways_line(patrols),
        f"| jobs of users | {jobs}, {len(wrong)} disturbed |",
        f"| nodes held without a fault | {len(innocent)} {' '.join(innocent)} |",
        *_alarm_lines(week, patrols),
    ]
    if waits := sorted(week.waits):
        most = f"{waits[len(waits) // 2]:.1f} s, at most {waits[-1]:.1f}"
        lines.append(f"| {len(waits)} jobs for nodes under test waited | {most} |")
    return lines


def run(
    lab: Lab, area: Path, patrols: int, seed: int, limit_s: float, preemptions: int, kills: int
) -> list[str]:
    """The problems; none where all was right."""
    chance = random.Random(seed)
    chosen = dict(zip(chance.sample(NODES, len(FAULTS)), FAULTS, strict=True))
    # Not in the last third, so that patrols are left which find them.
    when = {node: chance.randrange(1, max(2, patrols * 2 // 3)) for node in chosen}
    drawn = ["killed"] * kills + ["wanted"] * preemptions
    drawn = (drawn + ["alone"] * max(0, patrols - len(drawn)))[:patrols]
    chance.shuffle(drawn)
    week = Week(limit_s)
    events: list[str] = []
    with users(chance):
        for number, what in enumerate(drawn):
            if week.now > week.limit_s:
                week.problems.append(f"{patrols - number} patrols were not run: no time was left")
                break
            for node in [node for node, first in when.items() if first == number]:
                kind, value = chosen[node]
                faults.add_typed(lab, kind, (node, value))
                week.faulty[node] = (f"{kind} {value}", week.now)
                week.say(f"{kind} {value} on {node}")
            events.append(what)
            one_patrol(week, area, what, chance)
        while week.now < week.limit_s and len(events) < 3 * patrols:
            if preempted(journals(area)) < preemptions:
                what = "wanted"
            elif week.to_find and len(events) < 2 * patrols:
                # A fault of the last days has its turn as well.
                what = "alone"
            else:
                break
            events.append(what)
            one_patrol(week, area, what, chance)
    lines = table(week, area, events)
    print("\n".join(["| what | outcome |", "|---|---|", *lines]), flush=True)
    return week.problems


@contextlib.contextmanager
def entered_lab(folder: Path) -> Iterator[Lab]:
    """The larger lab, its commands on the path; taken down if it was not up before."""
    partitions = {p.name: p.extras.nodes for p in systems.load(SYSTEM).partitions}
    lab = Lab(spec.load(spec.file(SYSTEM)), partitions, folder, system=SYSTEM)
    was_up = lab.init is not None
    lab.up()
    os.environ["PATH"] = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    try:
        yield lab
    finally:
        faults.clear(lab)
        for node, state in slurm_nodes.show(NODES).items():
            if state.drained:
                client.output("scontrol", "update", f"nodename={node}", "state=resume")
        if not was_up:
            lab.down()


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--patrols", type=int, default=28, help="four a day")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--preemptions", type=int, default=PREEMPTIONS)
    parser.add_argument("--undisturbed", action="store_true")
    chosen = parser.parse_args(words)
    area = paths.HOME / "results" / "tests" / "week"
    shutil.rmtree(area, ignore_errors=True)
    area.mkdir(parents=True)
    with entered_lab(paths.lab_folder()) as lab:
        disturbances = (0, 0) if chosen.undisturbed else (chosen.preemptions, KILLED)
        limit_s = chosen.minutes * 60
        problems = run(lab, area, chosen.patrols, chosen.seed, limit_s, *disturbances)
    for problem in problems:
        print(f"WRONG: {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
