"""Why a case is no pass."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Failure:
    """One reason why a case is no pass. `nodes` are those it points at, if it can tell."""

    kind: str
    message: str
    nodes: tuple[str, ...] = ()
    next_step: str = ""


#: A job whose end says nothing of its nodes: it is Slurm's trouble, or somebody's will.
DISTURBED = "job-disturbed"

#: Kinds of failure that say nothing against a node: something was not measured, and why; or not
#: alone.
NOT_MEASURED = ("tool-missing", "counters-exceeded", DISTURBED)
