"""The inventories of nodes, by Slurm: of idle ones by one job for all of a partition, of others by
one each.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from railgauge import hostlist, paths, systems
from railgauge.cluster.look import job_options
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.model import inventory
from railgauge.model.inventory import Inventory
from railgauge.node.system import srun_output
from railgauge.slurm import client
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode

#: How long a node may be busy before its job gives up.
_QUEUE_S = 60
#: Jobs of one node that run at once.
_AT_ONCE = 32

#: How long idle nodes may be taken by other users before the job for all gives up; how long the
#: last of them may take after the first; and its limit as a whole.
_QUEUE_OF_ALL_S = 10
_WAIT_OF_ALL_S = 60
_LIMIT_OF_ALL_S = 300


def collect(
    system: str, nodes: Iterable[str], quick: bool = False
) -> tuple[list[Inventory], dict[str, str]]:
    """The inventories of nodes by Slurm jobs, and why those missing are missing.

    Idle nodes have one job for all that are reached by the same options, as those of a partition
    are; a node that does not answer in it, and every other one, has its own. The process must
    have called session.use for the system.
    """
    description = systems.load(system)
    access: dict[str, tuple[str, ...]] = {}
    for partition in description.partitions:
        for node in partition.nodes:
            access.setdefault(node, tuple(job_options(partition)))
    wanted = list(dict.fromkeys(nodes))
    unknown = [node for node in wanted if node not in access]
    if unknown:
        raise RailgaugeError(f"{hostlist.fold(unknown)} not in {system} ({hostlist.fold(access)})")
    states: Mapping[str, SlurmNode] = {}
    with contextlib.suppress(client.SlurmError):  # the job's own message is enough
        states = slurm_nodes.show_known(wanted)
    # Slurm starts no job of ours on these nodes: no job waits for them.
    invited = "SLURM_RESERVATION" in os.environ
    closed = {
        name: node.unavailable_reason
        for name, node in states.items()
        if node.unavailable_reason and not (invited and node.answers and not node.drained)
    }
    taken: dict[str, Inventory] = {}
    for options in dict.fromkeys(access[node] for node in wanted):
        reserved = any(word.startswith("--reservation") for word in options)
        idle = [
            node
            for node in wanted
            if access[node] == options
            and node in states
            and not states[node].busy
            and not states[node].asleep
            and not states[node].drained
            and states[node].answers
            and (reserved or node not in closed)
        ]
        if len(idle) > 1:
            taken.update(_of_all(idle, options, quick))

    def one(node: str) -> Inventory | RailgaugeError:
        if node in closed and not any(word.startswith("--reservation") for word in access[node]):
            return PrerequisiteError(f"no job starts on it: {closed[node]}")
        return _of_one(node, access[node], quick)

    left = [node for node in wanted if node not in taken]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        alone = dict(zip(left, pool.map(one, left), strict=True))
    answers = {node: taken.get(node) or alone[node] for node in wanted}
    failed = {n: str(a) for n, a in answers.items() if isinstance(a, RailgaugeError)}
    return [a for a in answers.values() if isinstance(a, Inventory)], failed


def _words(access: Sequence[str], quick: bool) -> list[str]:
    """The job's further options, and what it runs."""
    return [
        *(slurm_jobs.comment(), "--overlap", "--input=none", *access),
        *paths.on_node("inventory"),
        *(["--quick"] if quick else []),
    ]


def _of_one(node: str, access: Sequence[str], quick: bool) -> Inventory | RailgaugeError:
    """The inventory of a node by a job of its own, or why there is none."""
    try:
        printed = client.output(
            *("srun", "--quiet", "--nodes=1", "--ntasks=1", f"--nodelist={node}"),
            *(f"--immediate={_QUEUE_S}", f"--time={2 * _QUEUE_S // 60 + 1}"),
            *_words(access, quick),
            limit_s=2 * _QUEUE_S,
        )
        return inventory.load(printed, node)
    except RailgaugeError as error:
        return error


def _of_all(nodes: Sequence[str], access: Sequence[str], quick: bool) -> Mapping[str, Inventory]:
    """The inventories of nodes by one job; those that do not answer whole are left out."""
    printed, _ = client.answer(
        *("srun", "--quiet", f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}"),
        *(
            f"--time={_LIMIT_OF_ALL_S // 60 + 1}",
            "--ntasks-per-node=1",
            f"--nodelist={hostlist.fold(nodes)}",
            "--label",
        ),
        *("--no-kill", "--kill-on-bad-exit=0", f"--wait={_WAIT_OF_ALL_S}"),
        *(f"--immediate={_QUEUE_OF_ALL_S}", *_words(access, quick), "--lines"),
        limit_s=_LIMIT_OF_ALL_S,
    )
    texts = srun_output.texts(printed)
    taken = {}
    for node in [node for node in nodes if node in texts]:
        # A node with a wrong answer is asked alone, and then says what it is.
        with contextlib.suppress(RailgaugeError):
            taken[node] = inventory.load(texts[node], node)
    return taken
