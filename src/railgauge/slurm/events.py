"""What happened to nodes, as accounting has it."""

from __future__ import annotations

import datetime
from collections.abc import Collection

from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode


def set_down_since(nodes: Collection[str], since: datetime.datetime) -> dict[str, SlurmNode]:
    """The nodes that a person has set down since then, each as it was at that moment.

    With ReturnToService=2 such a node comes back within seconds, and its state shows nothing of it.
    Empty where accounting does not answer.
    """
    if not nodes:
        return {}
    start = since.astimezone().replace(tzinfo=None)
    printed, _ = client.answer(
        *("sacctmgr", "--noheader", "--parsable2", "list", "event"),
        *(f"nodes={slurm_nodes.fold(sorted(nodes))}", f"start={start.isoformat('T', 'seconds')}"),
        "format=nodename,start,state,reason,user",
    )
    found = {}
    for line in printed.splitlines():
        # A reason may hold the sign between two fields.
        name, _, rest = line.partition("|")
        began, _, rest = rest.partition("|")
        state, _, rest = rest.partition("|")
        reason, _, user = rest.rpartition("|")
        node = SlurmNode(name, frozenset({"DOWN"}), reason, user.partition("(")[0], began)
        if state.startswith("DOWN") and _moment(began) >= start and node.taken_down:
            found[name] = node
    return found


def _moment(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return datetime.datetime.min
