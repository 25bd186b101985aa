"""`railgauge system check NAME --run`: does the cluster have what an acceptance needs?

One tiny job a partition over the nodes that are idle, one that asks for what measuring jobs ask
for, and one that starts MPI. Each thing is a line, with what to type where it is not as needed;
nothing is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from railgauge import hostlist, paths, systems
from railgauge.cluster import mpi, probe, rights
from railgauge.cluster.look import Look, idle
from railgauge.cluster.ready import Trouble, looks, refusals, troubles
from railgauge.common.errors import PrerequisiteError
from railgauge.model.record import Listed
from railgauge.site.check import checks
from railgauge.site.check.line import Line, Status
from railgauge.slurm import client, ends
from railgauge.slurm import jobs as slurm_jobs
from railgauge.stack import activation
from railgauge.systems import Partition

#: So long accounting may take to know a job that has ended: slurmctld sends it every few seconds.
_RECORDED_S = 15


def lines(name: str, owner: str = "", planned: Sequence[Listed] = ()) -> list[Line]:
    """All of it, of the system `name`; nothing where this host, and its Slurm, is `owner`'s.

    `planned` are the cases of an acceptance.
    """
    if owner:
        step = f"on a login node of {name}: railgauge system check {name} --run"
        return [Line("not checked", "nodes", f"this host's Slurm is that of {owner}", step)]
    checked = [accounting()]
    if checked[0].status != "ok":
        return [*checked, Line("not checked", "nodes", "jobs are followed by sacct")]
    system = systems.load(name)
    refused = refusals(name, [partition.name for partition in system.partitions])
    checked += [_line(trouble, "account, QOS") for trouble in refused]
    if refused:
        return [*checked, Line("not checked", "nodes", "Slurm takes no job"), *gate_rights(name)]
    checked.append(Line("ok", "account, QOS", "Slurm takes this user's jobs in every partition"))
    tried = _measuring_jobs(system.partitions, planned)
    checked += tried.values()
    # Where no job of ours starts, a look would only wait.
    asked = {
        partition.name: partition.nodes
        for partition in system.partitions
        if partition.name not in tried or tried[partition.name].status != "problem"
    }
    try:
        seen = looks(name, asked, tools=tools)
    except PrerequisiteError as error:
        checked.append(Line("problem", "results area", error.message, error.next_step or ""))
        return [*checked, *gate_rights(name)]
    for look in seen:
        checked += _of_partition(name, system.partition(look.partition), look)
    return [*checked, _recorded(seen), *gate_rights(name)]


def accounting() -> Line:
    """Whether Slurm and its accounting answer."""
    try:
        slurm_jobs.require_answer()
    except PrerequisiteError as error:
        return Line("problem", "Slurm, accounting", error.message, error.next_step or "")
    return Line("ok", "Slurm, accounting", "sinfo and sacct answer")


def _line(trouble: Trouble, thing: str) -> Line:
    return Line("problem", thing, str(trouble), trouble.next_step)


def gate_rights(system: str) -> list[Line]:
    """Whether this user may do what the gate does."""
    try:
        missing = rights.missing(system)
    except PrerequisiteError as error:
        return [Line("not checked", "rights for the gate", error.message)]
    return [
        Line("hint", "rights for the gate", f"{one.step}: {one}", one.next_step) for one in missing
    ] or [Line("ok", "rights for the gate", "nodes are drained and resumed, reservations made")]


def _of_partition(system: str, partition: Partition, look: Look) -> Iterator[Line]:
    yield from _started(look)
    if not look.nodes:
        return
    problems = troubles(look.nodes.values())
    for trouble in problems:
        yield _line(trouble, f"{partition.name}: nodes")
    good = sorted(look.nodes.keys() - {node for trouble in problems for node in trouble.nodes})
    if good:
        yield from _good(partition, look, good)
    yield from _clocks(look)
    yield from _tools(system, partition, look)
    if "mpi" in partition.features:
        yield _mpi(system, partition, good)


def _started(look: Look) -> Iterator[Line]:
    thing = f"{look.partition}: start"
    if look.problem:
        step = "`srun --partition=... hostname` by hand says more"
        yield Line("problem", thing, look.problem, step)
    elif look.nodes:
        text = f"{hostlist.fold(look.nodes)} ran a job within {look.ended - look.began:.1f} s"
        yield Line("ok", thing, text)
    silent = [node for node in look.requested if node not in look.nodes]
    if silent and not look.problem:
        unreached = ends.launch_failed_on(look.stderr)
        text = "; ".join(f"{node}: {why}" for node, why in unreached.items())
        yield Line(
            "problem",
            thing,
            f"{hostlist.fold(silent)} started no task{': ' if text else ''}{text}",
            f"scontrol show node {hostlist.fold(silent)}, and slurmd's log there",
        )
    by_reason: dict[str, list[str]] = {}
    for node, why in look.left.items():
        by_reason.setdefault(why, []).append(node)
    for why, nodes in by_reason.items():
        text = f"{hostlist.fold(nodes)}: {why}"
        step = f"once jobs start there, again; scontrol show node {hostlist.fold(nodes)} says more"
        yield Line("not checked", thing, text, step)


def _good(partition: Partition, look: Look, nodes: Sequence[str]) -> Iterator[Line]:
    names = hostlist.fold(nodes)
    text = f"{names} see {paths.PROGRAM} and write into {paths.results_root()}"
    yield Line("ok", f"{partition.name}: folders", text)
    versions = _by_value({node: look.nodes[node].python for node in nodes})
    versions_text = ", ".join(
        f"{'.'.join(map(str, version))} on {hostlist.fold(where)}"
        for version, where in versions.items()
    )
    yield Line("ok", f"{partition.name}: Python", versions_text)
    text = f"{names} resolve a name of every other node"
    yield Line("ok", f"{partition.name}: names", text)


_Value = TypeVar("_Value")


def _by_value(values: Mapping[str, _Value]) -> dict[_Value, list[str]]:
    """The nodes that say the same, together."""
    nodes_by_value: dict[_Value, list[str]] = {}
    for node, value in sorted(values.items()):
        nodes_by_value.setdefault(value, []).append(node)
    return nodes_by_value


def _clocks(look: Look) -> Iterator[Line]:
    """Each node reported its time at a moment between the start and the end of the job."""
    thing = f"{look.partition}: clocks"
    clocks = {node: one.clock for node, one in look.nodes.items() if one.clock is not None}
    off = {
        node: clock - look.began if clock < look.began else clock - look.ended
        for node, clock in sorted(clocks.items())
        if not look.began <= clock <= look.ended
    }
    for node, seconds in off.items():
        text = f"{node} is at least {abs(seconds):.1f} s {'behind' if seconds < 0 else 'ahead of'}"
        yield Line("warning", thing, f"{text} this host", f"chronyc tracking, on {node}")
    if clocks and not off:
        within = look.ended - look.began
        text = f"{hostlist.fold(clocks)} as this host's, within {within:.1f} s"
        yield Line("ok", thing, text)


# --- tools ---------------------------------------------------------------------------------------


def tools(partition: Partition) -> dict[str, Sequence[str]]:
    """What the checks of a partition run on its nodes: program -> the argv that asks its version;
    none where it has no such.
    """
    wanted: dict[str, Sequence[str]] = {"ip": ["ip", "-V"]}
    for check in checks.described_on(partition):
        wanted |= check.programs.on(partition)
    return wanted


def _optional(partition: Partition) -> set[str]:
    """The programs without which nothing fails."""
    needed: set[str] = set()
    optional: set[str] = set()
    for check in checks.described_on(partition):
        can_be_missing = check.programs.may_be_missing(partition)
        (optional if can_be_missing else needed).update(check.programs.on(partition))
    return optional - needed


def _tools(system: str, partition: Partition, look: Look) -> Iterator[Line]:
    thing = f"{partition.name}: tools"
    answered = {node: one for node, one in look.nodes.items() if one.tools}
    versions: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for program in tools(partition):
        by_version = _by_value({node: one.tools.get(program, "") for node, one in answered.items()})
        for version, where in by_version.items():
            versions.setdefault((version, tuple(where)), []).append(program)
    present = []
    for (version, nodes), programs in versions.items():
        folded = hostlist.fold(nodes)
        if version:
            present.append(f"{', '.join(programs)}: {version} on {folded}")
            continue
        steps = dict.fromkeys(activation.bringing(p, system) or f"install {p}" for p in programs)
        optional = set(programs) <= _optional(partition)
        verb = "have" if len(nodes) > 1 else "has"
        text = f"{folded} {verb} no {', '.join(programs)}"
        yield Line("hint" if optional else "problem", thing, text, "; ".join(steps))
    for text in present:
        yield Line("ok", thing, text)
    unknown = [check.programs.unknown(partition) for check in checks.described_on(partition)]
    for reason in filter(None, dict.fromkeys(unknown)):
        yield Line("not checked", thing, reason)


# --- measuring jobs ------------------------------------------------------------------------------


def _measuring_jobs(partitions: Sequence[Partition], planned: Sequence[Listed]) -> dict[str, Line]:
    """By partition, whether a job starts that asks for what the largest of an acceptance does."""
    lines = {}
    for partition in partitions:
        free, _ = idle(partition, partition.nodes)
        cases = [case for case in planned if case.partition == partition.name]
        if free and cases:
            lines[partition.name] = _measuring_job(partition, free, cases)
    return lines


def _measuring_job(partition: Partition, nodes: Sequence[str], planned: Sequence[Listed]) -> Line:
    """A job with as many nodes, and as much time, as the largest of these cases."""
    thing = f"{partition.name}: measuring jobs"
    count = min(max(case.node_count for case in planned), len(nodes))
    try:
        result = probe.start(partition, nodes[:count], max(case.limit_s for case in planned))
    except PrerequisiteError as error:
        return Line("not checked", thing, error.message, error.next_step or "")
    if not result.reason:
        return Line("ok", thing, f"a job with {result.asked} started")
    text = f"a job with {result.asked} does not start: {result.reason}"
    status: Status = "problem" if result.standing else "not checked"
    return Line(status, thing, text, result.next_step)


# --- MPI -----------------------------------------------------------------------------------------


def _mpi(system: str, partition: Partition, nodes: Sequence[str]) -> Line:
    """A world of one rank a node, as the partition's checks start it."""
    thing = f"{partition.name}: MPI"
    edit = f"configs/systems/{system}/reframe.yaml, partition {partition.name}"
    if len(nodes) < 2:
        return Line("not checked", thing, "fewer than two nodes that are as they must be")
    if not mpi.can_be_started(partition, nodes):
        launcher = partition.model_dump().get("launcher")
        text = f"the launcher {launcher} starts only within a job: the check MpiWorld tests it"
        return Line("not checked", thing, text, "railgauge accept -- -n MpiWorld")
    try:
        start = mpi.start(system, partition, nodes)
    except PrerequisiteError as error:
        return Line("problem", thing, error.message)
    options = " ".join(start.options) or "no launch_options"
    if start.whole:
        text = f"one world of {len(start.ranks)} ranks on {hostlist.fold(nodes)} by {options}"
        return Line("ok", thing, f"{text}, in {start.seconds:.1f} s")
    trouble = start.trouble
    text = trouble.words if trouble else ends.quoted(start.stderr)
    text = text or f"exit code {start.exit_code}"
    step = trouble.next_step if trouble else "railgauge accept -- -n MpiWorld, and its outputs"
    return Line("problem", thing, f"{text} ({options})", f"{step}: {edit}")


# --- accounting ----------------------------------------------------------------------------------


def _recorded(seen: Sequence[Look]) -> Line:
    """Whether accounting knows the jobs that have just ended: by it ReFrame follows its own."""
    thing = "accounting"
    jobs = sorted({one.job for look in seen for one in look.nodes.values() if one.job}, key=int)
    if not jobs:
        return Line("not checked", thing, "no job was started")
    command = ("sacct", "--noheader", "--allocations", "--parsable2", "--format=jobid,state")
    deadline = time.monotonic() + _RECORDED_S
    while True:
        try:
            answer = client.output(*command, f"--jobs={','.join(jobs)}")
        except PrerequisiteError as error:
            return Line("problem", thing, error.message, error.next_step or "")
        states = dict(line.split("|", 1) for line in answer.splitlines() if "|" in line)
        missing = [job for job in jobs if job not in states]
        if not missing:
            return Line("ok", thing, f"sacct knows job {', '.join(jobs)}")
        if time.monotonic() > deadline:
            text = f"sacct does not know job {', '.join(missing)}, which has ended"
            step = "is the cluster registered? sacctmgr show cluster; sacctmgr add cluster NAME"
            return Line("problem", thing, text, step)
        time.sleep(0.5)
