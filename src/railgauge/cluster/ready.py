"""Whether a cluster is ready for an acceptance: what is checked before anything is measured.

The environment is never a node's fault: what it lacks is one message with exit code 3 that names
the nodes. Nodes that are busy, drained or down are left out; what happens on them then is a matter
of the campaign.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from railgauge import hostlist, paths, systems
from railgauge.cluster import mpi
from railgauge.cluster.look import Look, NodeLook, idle, job_options, look, own_source
from railgauge.common.errors import PrerequisiteError
from railgauge.common.names import natural
from railgauge.hooks import Say
from railgauge.slurm import ends
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.stack import activation

#: What node programs are written for.
LEAST_PYTHON = (3, 9)

Tools = Callable[[systems.Partition], Mapping[str, Sequence[str]]]


@dataclasses.dataclass(frozen=True)
class Trouble:
    """Something that an acceptance needs and that is not so: `nodes`, `verb` and `rest` make a
    sentence, `rest` alone where it concerns no single node.
    """

    verb: str
    rest: str
    nodes: tuple[str, ...] = ()
    next_step: str = ""

    def __str__(self) -> str:
        if not self.nodes:
            return self.rest
        verb = _PLURAL.get(self.verb, self.verb) if len(self.nodes) > 1 else self.verb
        return f"{hostlist.fold(self.nodes)} {verb} {self.rest}"


_PLURAL = {"does": "do", "has": "have", "sees": "see", "fails": "fail", "runs": "run"}


def none(_: systems.Partition) -> Mapping[str, Sequence[str]]:
    """No tools are asked for their versions."""
    return {}


def looks(
    system: str,
    nodes: Mapping[str, Collection[str]],
    more: Sequence[str] = (),
    tools: Tools = none,
) -> list[Look]:
    """What the nodes say of themselves, by partition, all partitions at the same time.

    PrerequisiteError where the results area cannot be written, or Slurm does not answer.
    """
    description = systems.load(system)
    names = slurm_nodes.other_names()

    def of(name: str) -> Look:
        partition = description.partition(name)
        free, left = idle(partition, nodes[name], more)
        return look(system, partition, free, left, names, tools(partition), more)

    with concurrent.futures.ThreadPoolExecutor(max(len(nodes), 1)) as pool:
        return list(pool.map(of, nodes))


def require(
    system: str,
    nodes: Mapping[str, Collection[str]],
    more: Sequence[str] = (),
    say: Say = lambda _: None,
    with_mpi: Collection[str] = (),
    tools: Tools = none,
    own: Collection[str] = (),
) -> None:
    """PrerequisiteError, with all that is wrong, where an acceptance would fail for want of it.

    `nodes` are those in question, by partition; `more` are options of all jobs; `with_mpi` are the
    partitions in which checks start MPI; `tools` are the programs that checks need on a partition;
    `own` are the nodes of the job that this process is in.
    """
    problems = [*_of_own_job(nodes, own), *refusals(system, nodes, more)]
    if not problems:
        looked = looks(system, nodes, more, tools)
        for one in looked:
            if one.problem:
                say(f"partition {one.partition}: what its nodes see is not known: {one.problem}")
            problems += troubles(one.nodes.values())
            problems += missing_tools(system, one.nodes.values())
        if not problems:
            problems += _of_mpi(system, [one for one in looked if one.partition in with_mpi], more)
    if problems:
        steps = dict.fromkeys(trouble.next_step for trouble in problems if trouble.next_step)
        lacking = {node for trouble in problems for node in trouble.nodes}
        others = {node for members in nodes.values() for node in members} - lacking
        if lacking and others:
            without = f"without {hostlist.fold(lacking)}"
            steps[f"{without}: railgauge accept --nodes {hostlist.fold(others)}"] = None
        raise PrerequisiteError(
            "nothing was measured: "
            + "; ".join(dict.fromkeys(str(trouble) for trouble in problems)),
            next_step="\n        ".join(steps),
        )


def _of_own_job(nodes: Mapping[str, Collection[str]], own: Collection[str]) -> Iterator[Trouble]:
    """The checks' jobs want their nodes alone: they would wait for the job that waits for them."""
    tested = {node for members in nodes.values() for node in members}
    if here := sorted(tested.intersection(own), key=natural):
        yield Trouble(
            "runs",
            "the job in which this was started, and no check can start there until it has ended",
            tuple(here),
            "start it on the login node, or in a job on a node that is not tested: "
            "sbatch --partition=service jobs/accept.sbatch",
        )


def refusals(system: str, names: Iterable[str], more: Sequence[str] = ()) -> list[Trouble]:
    """Why Slurm takes no jobs for these partitions: account, QOS, rights. Each reason once."""
    refused: dict[slurm_jobs.Refusal, dict[str, None]] = {}
    for name in names:
        options = job_options(systems.load(system).partition(name), more)
        refusal = slurm_jobs.refusal(options)
        if refusal is not None:
            refused.setdefault(refusal, {})[" ".join(options)] = None
    return [
        Trouble("", f"Slurm takes no job with {' or '.join(submitted)}: {reason}", next_step=step)
        for (reason, step), submitted in refused.items()
    ]


def troubles(looks: Iterable[NodeLook]) -> list[Trouble]:
    """What these nodes lack, grouped by what is lacking."""
    source = own_source()
    by_trouble: dict[Trouble, list[str]] = {}
    for one in looks:
        for trouble in (*_of_folders(one), *_of_python(one), *_of_others(one, source)):
            by_trouble.setdefault(trouble, []).append(one.node)
    return [dataclasses.replace(t, nodes=tuple(sorted(nodes))) for t, nodes in by_trouble.items()]


def missing_tools(system: str, looks: Iterable[NodeLook]) -> list[Trouble]:
    """The programs that these nodes were asked for and do not have."""
    lacking: dict[str, list[str]] = {}
    for one in looks:
        for program, found in one.tools.items():
            if not found:
                lacking.setdefault(program, []).append(one.node)
    return [
        Trouble(
            "has",
            f"no {program}",
            tuple(sorted(nodes)),
            activation.bringing(program, system) or f"install {program} on {hostlist.fold(nodes)}",
        )
        for program, nodes in lacking.items()
    ]


def _of_mpi(system: str, looked: Iterable[Look], more: Sequence[str]) -> Iterator[Trouble]:
    """MPI that finds no launcher, or does not start, in a partition."""
    description = systems.load(system)
    for one in looked:
        partition = description.partition(one.partition)
        if mpi.can_be_started(partition, one.nodes):
            trouble = mpi.start(system, partition, sorted(one.nodes), more).trouble
            if trouble is not None:
                edit = f"configs/systems/{system}/reframe.yaml, partition {partition.name}"
                words = f"partition {partition.name}: {trouble.words}"
                yield Trouble("", words, next_step=f"{trouble.next_step}: {edit}")


#: What the program is, and what lets the nodes have the same one.
_PROGRAM, _PROGRAM_STEP = (
    ("checkout", "clone into a folder that the login node and all nodes share, and work there")
    if paths.is_checkout()
    else ("package", "install the same package on all nodes, or into a folder that they share")
)
_RESULTS_STEP = (
    "RAILGAUGE_RESULTS=... with a folder that the login node and all nodes share, as in "
    "RAILGAUGE_RESULTS=$HOME/railgauge railgauge accept"
)
_SITE_STEP = f"{paths.SITE_VARIABLE}=... with a folder that the login node and all nodes share"


def _of_folders(node: NodeLook) -> Iterator[Trouble]:
    results = paths.results_root()
    for files, verb in ((node.unseen, "see"), (node.unreadable, "read")):
        for folder, what, step in _folders(files):
            yield Trouble("does", f"not {verb} {folder} ({what})", next_step=step)
    if node.unshared:
        rest = f"another {results} (the results area) than this host"
        yield Trouble("has", rest, next_step=_RESULTS_STEP)
    if node.unwritable:
        reason = node.unwritable.splitlines()[0].rpartition(": ")[2]
        rest = f"write into {results} (the results area): {reason}"
        step = f"may this user write there, on that node? else {_RESULTS_STEP}"
        yield Trouble("cannot", rest, next_step=step)


def _folders(files: Sequence[str]) -> Iterator[tuple[Path, str, str]]:
    """Folder, what it is, and what to type, of files that a node lacks; the outermost alone."""
    lacking = [Path(file) for file in files]
    without_program = any(
        path == paths.PROGRAM or path.is_relative_to(paths.SOURCE) for path in lacking
    )
    if without_program:
        yield paths.PROGRAM, f"the {_PROGRAM}", _PROGRAM_STEP
    for folder, what, step in (
        (paths.results_root(), "the results area", _RESULTS_STEP),
        (paths.SYSTEMS, "the site's descriptions", _SITE_STEP),
        (
            paths.stack_folder(),
            "the stack",
            "RAILGAUGE_STACK_DIR=... with a shared folder, and make stack once more",
        ),
    ):
        follows = without_program and folder.is_relative_to(paths.PROGRAM)
        if not follows and any(path.is_relative_to(folder) for path in lacking):
            yield folder, what, step


def _of_python(node: NodeLook) -> Iterator[Trouble]:
    if node.python_failed:
        trouble = ends.environment_trouble(node.python_failed)
        words = trouble.words if trouble else ends.quoted(node.python_failed)
        words = words.removeprefix("Python does not start: ")
        yield Trouble("does", f"not start python3: {words}", next_step=ends.PYTHON_STEP)
    elif node.python and node.python[:2] < LEAST_PYTHON:
        version = ".".join(map(str, node.python))
        rest = f"Python {version}, expected 3.9 or newer"
        yield Trouble("has", rest, next_step=ends.PYTHON_STEP)


def _of_others(node: NodeLook, source: str) -> Iterator[Trouble]:
    if node.unprepared:
        rest = f"at what jobs begin with: {ends.quoted(node.unprepared)}"
        step = "look at the stack that jobs activate: make stack"
        yield Trouble("fails", rest, next_step=step)
    if node.source and node.source != source:
        rest = f"another {_PROGRAM} in {paths.PROGRAM} than this host"
        yield Trouble("sees", rest, next_step=_PROGRAM_STEP)
    for peer, why in node.unresolved.items():
        yield Trouble(
            "does",
            f"not resolve {peer} ({why})",
            next_step=f"`getent hosts {peer}` there: its NodeName in DNS or /etc/hosts of the "
            "nodes, or in slurm.conf a NodeAddr that is an address",
        )
    if not node.ended:
        yield Trouble(
            "does",
            f"not come to an end while {node.at or 'starting'}",
            next_step="look there whether a file system hangs: timeout 10 ls ...; and whether its "
            "network loses packets, so that its answer is late: ping -c 20 NODE",
        )
