"""How a Slurm job ended: whether that says anything of its nodes, and which line says why.

The words of Slurm are those of 22.05 to 26.05 (src/srun, src/api, src/slurmd in its sources); those
of 24.11 and 26.05, of Python 3.13 and of Open MPI 5.0 were seen in the embedded cluster.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

#: The states that a job's nodes, or what ran on them, bring about. Any other end (a user
#: cancelled it, Slurm forgot it, it was preempted) says nothing of the nodes.
OF_THE_NODES = frozenset(
    {"COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"}
)

_LAUNCH_FAILED = re.compile(r"Task launch for \S+ failed on node (?P<node>[^\s:]+): (?P<why>.*)")

#: srun's message when one task's exit code ends all others, and its messages for each node then.
_ABORTED = re.compile(r"^srun: .*Job step aborted|^srun: Terminating StepId=", re.MULTILINE)
#: 143 is how a rank of ours ends at SIGTERM, which Slurm sends before SIGKILL.
_ENDED = re.compile(
    r"^srun: error: (?P<node>[^\s:]+): tasks? [\d,-]+: "
    r"(?:Killed|Terminated|Exited with exit code 143$)",
    re.MULTILINE,
)

#: srun, where the controller does not answer it, or no longer knows its job.
_CONTROLLER = re.compile(
    r"Unable to contact slurm controller|Unable to confirm allocation|Unable to create step for job"
    r"|Socket timed out on send/recv|Zero Bytes were transmitted or received"
    r"|Invalid job id specified|Slurm job \d+ has expired"
    r"|Unable to connect to .*slurmctld",
    re.IGNORECASE,
)

_NO_SPACE = re.compile(
    r"No space left on device|Disk quota exceeded|No usable temporary directory", re.IGNORECASE
)

#: How the lines of slurmstepd begin. Most versions name the node; in 26.05 the time is
#: there instead.
_OF_STEPD = r"(?:slurmstepd(?:-(?P<node>\S+))?:|\[[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+\]) error: "

#: Lines that follow from a job's end, whatever its reason: never the reason itself.
_FOLLOWS = re.compile(
    r"task \S+: (Killed|Terminated|Exited with exit code)|tasks \S+: (Killed|Terminated)"
    r"|tasks \S+: Exited with exit code|Force Terminated StepId"
    r"|Job step aborted|STEP \S+ ON \S+ CANCELLED|JOB \S+ ON \S+ CANCELLED"
    r"|Terminating StepId|Application launch failed|forcing job termination|got SIG"
    r"|Timed out waiting for job step to complete|^\(null\)$"
)

#: How a program says that it cannot go on.
_ERROR = re.compile(
    r"\b(error|fatal|failed|failure|abort(ed|ing)?|cannot|can't|could ?n[o']t|unable|invalid"
    r"|denied|refused|unreachable|not found|no such|exceeded|out of memory|segmentation fault)\b"
    r"|\w+Error\b",
    re.IGNORECASE,
)
#: Of Slurm's own accounting of memory, and of the kernel's groups (task_cgroup_memory.c).
_OVER_MEMORY = re.compile(r"memory limit|\boom[_-]kill event")
_STEPD = re.compile(_OF_STEPD)
_KILLED = re.compile(
    r"^srun: error: (?P<node>[^\s:]+): tasks? [\d,-]+: (?:Killed|Out Of Memory)", re.MULTILINE
)
_WARNING = re.compile(r"\bwarn(ing)?\b", re.IGNORECASE)
_OF_SRUN = re.compile(r"^(srun|sbatch): ")

#: The line of a traceback that names the exception: the first that is not indented.
_TRACEBACK = "Traceback (most recent call last):"
_RULE = re.compile(r"^-{20,}$")


@dataclasses.dataclass(frozen=True)
class EnvironmentTrouble:
    """What is missing where a job runs, and no node's fault; `next_step` is what to type."""

    words: str
    next_step: str
    #: the nodes that lack it, where its words name them
    nodes: tuple[str, ...] = ()


#: What to type where MPI finds no launcher.
MPI_STEP = (
    "set launch_options of the partition in reframe.yaml (--mpi=pmix is what Open MPI needs, "
    "--mpi=pmi2 what MPICH does; `srun --mpi=list` says what this Slurm has)"
)
#: What to type where a node has no Python that runs our programs.
PYTHON_STEP = (
    "jobs start `python3`, 3.9 or newer, as the node's PATH finds it: fix it there, or put "
    "another first by prepare_cmds of the partition"
)
#: What to type where a node lacks a folder.
SEES_STEP = (
    "a clone, and RAILGAUGE_RESULTS where it is set, in a folder that the login node and all nodes "
    "share; `railgauge system check NAME --run` says what each node sees"
)

#: Pattern in a job's standard error, description, and what to type.
_ENVIRONMENT: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], str], str]] = [
    (
        re.compile(r"OMPI was not built with (SLURM's )?PMI[\w/ -]*support"),
        lambda match: f"MPI finds no launcher: {match[0]}",
        MPI_STEP,
    ),
    (
        re.compile(r"No PMIx server was reachable, but a PMI1/2 was detected"),
        lambda match: f"MPI finds no launcher: {match[0]}",
        MPI_STEP,
    ),
    (
        re.compile(r"libmpi\.so\.\d+: cannot open shared object file"),
        lambda match: f"MPI does not start: {match[0]}",
        "install Open MPI 4 or newer on the nodes, or put its folder of libraries into "
        "LD_LIBRARY_PATH by env_vars of the partition in reframe.yaml",
    ),
    (
        re.compile(r"Invalid MPI type '[^']*'|Couldn't find the specified plugin name for mpi/\S+"),
        lambda match: f"srun cannot start MPI: {match[0]}",
        MPI_STEP,
    ),
    (
        # The folder of a case: what lies above it is seen by none of them either.
        re.compile(
            _OF_STEPD + r"couldn't chdir to "
            r"[`'](/[^']*?)(/(campaigns|reframe)/[^']*)?': ([^:\n]*)"
        ),
        lambda match: f"{match['node'] or 'a node'} does not see {match[2]}: {match[5]}",
        SEES_STEP,
    ),
    (
        re.compile(r"(\S*activate\.sh): No such file or directory"),
        lambda match: f"the job's node does not see {match[1]}",
        SEES_STEP,
    ),
    (
        re.compile(
            r"(env: .?python3.?: |execve\(\): (env|python3): |python3: (command )?not found"
            r"|python3: error while loading shared libraries: )[^\n]*"
        ),
        lambda match: f"Python does not start: {match[0]}",
        PYTHON_STEP,
    ),
    (
        re.compile(r"(No module named 'railgauge'|specification for 'railgauge\.)[^\n]*"),
        lambda match: "the job's node does not see the checkout: " + match[0],
        SEES_STEP,
    ),
    (
        re.compile(
            r"Fatal Python error: [^\n]*|ModuleNotFoundError: [^\n]*"
            r"|ImportError: [^\n]*cannot open shared object file[^\n]*"
        ),
        lambda match: f"Python is not complete: {match[0]}",
        PYTHON_STEP,
    ),
]


#: Pyxis, where a container does not start, and what its importer said of that. The words are those
#: of https://github.com/NVIDIA/pyxis, and of issues 127 and 135 there.
_NO_CONTAINER = re.compile(f"^{_OF_STEPD}pyxis: couldn't start container", re.MULTILINE)
_IMPORTER = re.compile(r"error: pyxis: +\[ERROR\] (?P<why>.+)")
#: A hook that failed, as where the GPU's driver is not loaded, is the node's own trouble.
_HOOK = re.compile(r"hooks\.d/|nvidia-container-cli")


def _container_trouble(stderr: str) -> EnvironmentTrouble | None:
    """Nodes on which Pyxis started no container: they lack its image, as a rule."""
    found = list(_NO_CONTAINER.finditer(stderr))
    if not found or _NO_SPACE.search(stderr) or _HOOK.search(stderr):
        return None
    # Not every Slurm says which slurmstepd speaks.
    nodes = tuple(dict.fromkeys(match["node"] for match in found if match["node"]))
    why = _IMPORTER.search(stderr)
    words = f"no container started on {', '.join(nodes) or 'a node'}"
    return EnvironmentTrouble(
        f"{words}: {' '.join(why['why'].split())}" if why else words,
        "is the image where reframe.yaml says, on these nodes, and readable? "
        "srun --container-image=IMAGE true, there",
        nodes,
    )


def environment_trouble(stderr: str) -> EnvironmentTrouble | None:
    """What of a job's environment its standard error, or a tool's, says is missing."""
    if trouble := _container_trouble(stderr):
        return trouble
    # Open MPI breaks its lines at 70 characters.
    joined = re.sub(r"(?<=\S)\n(?=[a-z])", " ", "\n".join(_lines(stderr)))
    for pattern, words, step in _ENVIRONMENT:
        for text in (joined, stderr):
            match = pattern.search(text)
            if match:
                node = match.groupdict().get("node")
                reason = " ".join(words(match).split())
                return EnvironmentTrouble(reason, step, (node,) if node else ())
    return None


def _lines(stderr: str) -> list[str]:
    # What kills a job may leave NULs behind.
    lines = ("".join(filter(str.isprintable, line)).strip() for line in stderr.splitlines())
    return [line for line in lines if line]


def quoted(stderr: str) -> str:
    """The line of a job's standard error that says why it ended; "" where there is none.

    Slurm's own reason first, then the first error of Python, MPI or the tool; else the last line
    that is no consequence of the job's end. srun's own lines count only where nothing else does.
    """
    lines = _lines(stderr)
    for pattern in (_LAUNCH_FAILED, _NO_SPACE, _CONTROLLER):
        reason = next((line for line in lines if pattern.search(line)), None)
        if reason:
            return reason
    reasons = [line for line in lines if not _FOLLOWS.search(line)]
    others = [line for line in reasons if not _OF_SRUN.search(line)]
    first = next(_errors(stderr, others), None)
    # Of consequences alone the first is the nearest to the cause.
    return first or (others or reasons or lines[:1] or [""])[-1]


def _errors(stderr: str, lines: Sequence[str]) -> Iterator[str]:
    """The lines that say what went wrong, the first of them first."""
    boxed = _box(lines)
    exception = _exception(stderr)
    for line in lines:
        if line == _TRACEBACK and exception:
            yield exception
        elif boxed and _RULE.match(line):
            yield boxed
        elif _ERROR.search(line) and not _WARNING.search(line):
            yield line


def _exception(stderr: str) -> str:
    """The exception of the first traceback, `json.decoder.JSONDecodeError: Expecting value`."""
    after = stderr.partition(_TRACEBACK)[2].splitlines()[1:]
    # Two programs that fail at once mix their lines.
    unindented = (line for line in after if line[:1].strip() and line != _TRACEBACK)
    return next((line.strip() for line in unindented if not _FOLLOWS.search(line)), "")


def _box(lines: Sequence[str]) -> str:
    """The first sentence of what Open MPI prints between two rules."""
    rules = [place for place, line in enumerate(lines) if _RULE.match(line)]
    if len(rules) < 2:
        return ""
    text = " ".join(lines[rules[0] + 1 : rules[1]])
    return re.split(r"(?<=[.!])\s", text)[0]


def launch_failed_on(stderr: str) -> dict[str, str]:
    """The nodes on which srun could not start its tasks: node -> why."""
    matches = (_LAUNCH_FAILED.search(line) for line in _lines(stderr))
    return {match["node"]: match["why"] for match in matches if match}


def out_of_memory_on(stderr: str, node: str) -> str | None:
    """Slurm's words where a job's processes had more memory on a node than the job may have. Where
    they name no node, it is one on which srun reports that tasks were killed.
    """
    killed = {match["node"] for match in _KILLED.finditer(stderr)}
    for line in _lines(stderr):
        said = _STEPD.match(line)
        if said is None or not _OVER_MEMORY.search(line):
            continue
        if said["node"] == node or (said["node"] is None and node in killed):
            return line[said.end() :]
    return None


def lost_its_connection(stderr: str, node: str) -> bool:
    """Whether the agent on a node reports that it lost its conductor, so that it was there itself:
    one that was killed, or on a node that went, reports nothing.
    """
    start = f"agent on {node}: its connection ended"
    return any(line.startswith(start) for line in _lines(stderr))


def ended_by_launcher(stderr: str) -> frozenset[str]:
    """The nodes with tasks that srun ended as another task had failed (--kill-on-bad-exit)."""
    aborted = _ABORTED.search(stderr)
    if aborted is None:
        return frozenset()
    # The task that failed first was reported before.
    return frozenset(match["node"] for match in _ENDED.finditer(stderr, aborted.end()))


def controller_trouble(stderr: str) -> str:
    """srun's words where it was the controller that failed the job; "" where not."""
    if launch_failed_on(stderr):
        return ""
    return next((line for line in _lines(stderr) if _CONTROLLER.search(line)), "")
