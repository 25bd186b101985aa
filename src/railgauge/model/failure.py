"""Why a case is no pass."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Failure:
    """One reason why a case is no pass. `nodes` are those it points at, if that is known."""

    kind: str
    message: str
    nodes: tuple[str, ...] = ()
    next_step: str = ""


#: A job with an end that says nothing of its nodes: Slurm failed, or a user cancelled it.
DISTURBED = "job-disturbed"

#: A node that another user had where only idle nodes are measured: it is not waited for.
TAKEN = "node-taken"

#: What a job needs of its cluster, and did not have: a folder, Python, a launcher for MPI, names.
ENVIRONMENT = "environment"

#: A node on which Slurm starts no job, as it does not answer.
UNAVAILABLE = "unavailable"

#: A node that went while it was measured, or that lost its agent.
LOST = "node-lost"

#: The device of a node's rail is not there, though its path was as it should be before.
RAIL_MISSING = "rail-missing"

#: A GPU of a node, or a link of one, is slow; the node's facts `copies` name it.
GPU_LINKS = "gpu-links"

#: One node does not reach another, and both answer Slurm's controller: it speaks against what lies
#: between them, and against neither.
UNREACHED = "unreached"

#: A host that was not as busy, or as idle, as what was measured with it says.
HOST_STATE = "host-state"

#: What the other way round of a slow pair showed, next to its number.
DIRECTION = "direction"

#: Groups of a launch that was bad, and good in both halves: no node is accused of it.
NOT_TOLD_APART = "not-told-apart"

#: Begins the reason of what was not measured because the case named next did not pass.
PRECONDITION_FAILED = "its precondition failed: "

#: A number without a reference.
NO_REFERENCE = "no-reference"

#: Kinds that say of a number that it is low, or that nothing judges it, and not that it is wrong.
OF_THE_NUMBER = (DIRECTION, NO_REFERENCE)

#: Bytes that arrived as others than were sent. It speaks against what lies between two nodes, and
#: names neither.
DATA_CORRUPT = "data-corrupt"

#: Rails that were to be measured at once, and were not.
RAILS_APART = "rails-apart"

#: Kinds after which nothing else that is wrong with a case counts: it may follow from them.
OVERRIDING_KINDS = (DISTURBED, TAKEN, ENVIRONMENT)

#: What is wrong with an InfiniBand subnet (railgauge.fabric). It speaks against the nodes that the
#: failure names, and against no other node that was measured with it.
OF_THE_SUBNET = (
    *("cable-missing", "cable-moved", "cable-unexpected", "counter-moved", "device-missing"),
    *("device-renamed", "device-unexpected", "guid-duplicated", "host-hcas", "link-speed"),
    *("link-width", "masters-several", "name-duplicated", "port-not-active", "routes-unbalanced"),
    *("subnet-not-active", "switch-firmware"),
)

#: Those of them that concern every host, wherever they show. Others that name no node are between
#: switches: they reject a campaign, and keep no node out of service.
OF_EVERY_HOST = ("guid-duplicated", "masters-several", "subnet-not-active")

#: Kinds that say only that another user was in the way: the place is still to be measured.
EXTERNAL_CAUSES = (DISTURBED, TAKEN)

#: Kinds of failure that say nothing against a node: something was not measured, and why; or not
#: alone; or there is nothing yet to compare it with.
NOT_MEASURED = (
    "tool-missing",
    "counters-exceeded",
    "counters-elsewhere",
    HOST_STATE,
    RAILS_APART,
    NO_REFERENCE,
    *OVERRIDING_KINDS,
)
