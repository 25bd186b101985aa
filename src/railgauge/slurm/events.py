"""What happened to nodes, as accounting has it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode, moment

#: What Slurm hangs on to the reason of a reboot that a user asked for.
_REBOOT = (" : reboot issued", " : reboot complete")


def set_down_since(since: Mapping[str, datetime.datetime]) -> dict[str, SlurmNode]:
    """The nodes that a person has set down since the node's own moment, each as it was then.

    With ReturnToService=2 such a node comes back within seconds, and its state shows nothing of it.
    A reboot is no setting down. SlurmError where accounting does not answer.
    """
    if not since:
        return {}
    starts = {name: began.astimezone().replace(tzinfo=None) for name, began in since.items()}
    first = min(starts.values()).isoformat("T", "seconds")
    printed = client.output(
        *("sacctmgr", "--noheader", "--parsable2", "list", "event"),
        *(f"nodes={slurm_nodes.fold(sorted(since))}", f"start={first}"),
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
        by_person = node.downed_by_admin and not reason.endswith(_REBOOT)
        recent = name in starts and (moment(began) or datetime.datetime.min) >= starts[name]
        if state.startswith("DOWN") and by_person and recent:
            found[name] = node
    return found
