"""The first reading of an InfiniBand subnet in a campaign, for the checks that come later."""

from __future__ import annotations

import functools
from pathlib import Path

from railgauge.checks.framework.stages import stages_so_far
from railgauge.fabric import asking
from railgauge.fabric.static_routes import TOPOLOGY, StaticRoutes, from_reading

#: The concrete check in reframe/ that reads first.
FIRST = "InfinibandFabric"


def first(stagedir: Path) -> Path | None:
    """The outputs of the first reading of this campaign, in the partition of a check with this
    stage folder.
    """
    for stage in stages_so_far(stagedir):
        kept = stage.glob(f"{FIRST}*/{asking.FOLDER}/{TOPOLOGY}")
        if found := min(kept, key=lambda file: file.stat().st_mtime, default=None):
            return found.parent
    return None


def static_routes(stagedir: Path) -> StaticRoutes | None:
    """The routes by the forwarding tables of that reading; None where it is not whole."""
    reading = first(stagedir)
    return None if reading is None else _routes(reading)


#: What a session left is not changed, and every sweep of a session asks.
_routes = functools.lru_cache(maxsize=4)(from_reading)
