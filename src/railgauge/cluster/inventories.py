"""The inventories of nodes, by one Slurm job each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from railgauge import hostlist, paths, systems
from railgauge.errors import (
    EnvironmentProblem,
    RailgaugeError,
)
from railgauge.model import inventory
from railgauge.model.inventory import Inventory
from railgauge.slurm import client
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes

#: How long a node may be busy before its job gives up.
_QUEUE_S = 60
#: Jobs that run at once.
_AT_ONCE = 32


def collect(
    system: str, nodes: Iterable[str], quick: bool = False
) -> tuple[list[Inventory], dict[str, str]]:
    """The inventories of nodes by one Slurm job each, and why those missing are missing.

    The process must have been told of the system: session.use.
    """
    description = systems.load(system)
    access: dict[str, list[str]] = {}
    for partition in description.partitions:
        for node in partition.nodes:
            access.setdefault(node, list((partition.model_extra or {}).get("access", [])))
    wanted = list(nodes)
    strangers = [node for node in wanted if node not in access]
    if strangers:
        raise RailgaugeError(
            f"{hostlist.fold(strangers)} not in {system} ({hostlist.fold(access)})"
        )

    closed = _closed(wanted)

    def one(node: str) -> Inventory | RailgaugeError:
        if node in closed and not any(word.startswith("--reservation") for word in access[node]):
            return EnvironmentProblem(f"no job starts on it: {closed[node]}")
        try:
            printed = client.output(
                *("srun", "--quiet", "--nodes=1", "--ntasks=1", f"--nodelist={node}"),
                slurm_jobs.comment(),
                *("--overlap", f"--immediate={_QUEUE_S}", "--input=none", *access[node]),
                *("env", f"PYTHONPATH={paths.SOURCE}", "python3", "-m", "railgauge.node.inventory"),
                *(["--quick"] if quick else []),
                limit_s=2 * _QUEUE_S,
            )
            return inventory.load(printed, node)
        except RailgaugeError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(wanted, pool.map(one, wanted), strict=True))
    failed = {n: str(a) for n, a in answers.items() if isinstance(a, RailgaugeError)}
    return [a for a in answers.values() if isinstance(a, Inventory)], failed


def _closed(nodes: Sequence[str]) -> dict[str, str]:
    """The nodes on which Slurm starts no job of ours, and why; no one waits for them."""
    try:
        states = slurm_nodes.show(nodes) if nodes else {}
    except client.SlurmProblem:
        # The job's own message is enough.
        return {}
    invited = "SLURM_RESERVATION" in os.environ
    return {
        name: node.outside
        for name, node in states.items()
        if node.outside and not (invited and node.answers and not node.drained)
    }
