"""The first reading of an InfiniBand subnet in a campaign, for the checks that come later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from railgauge import textfile
from railgauge.checks.framework.stages import stages_so_far
from railgauge.fabric import asking, routes
from railgauge.fabric import folder as folders
from railgauge.fabric.folder import FabricError

#: The concrete check in reframe/ that reads first.
FIRST = "InfinibandFabric"

#: The outputs that have the routes.
_TOPOLOGY, _TABLES = "ibnetdiscover.txt", "dump_fts.txt"


def first(stagedir: Path) -> Path | None:
    """The outputs of the first reading of this campaign, in the partition of a check with this
    stage folder.
    """
    for stage in stages_so_far(stagedir):
        kept = stage.glob(f"{FIRST}*/{asking.FOLDER}/{_TOPOLOGY}")
        if found := min(kept, key=lambda file: file.stat().st_mtime, default=None):
            return found.parent
    return None


def static_routes(stagedir: Path, nodes: Sequence[str]) -> list[tuple[str, str, str]]:
    """(leaf, node or node:rail, spine) by the forwarding tables of that reading, of the data for
    these nodes; none where it lacks them, or names no host.
    """
    reading = first(stagedir)
    if reading is None:
        return []
    try:
        texts = {name: textfile.read(reading / name) for name in (_TOPOLOGY, _TABLES)}
        fabric = folders.from_texts(texts)
        routes.require_names(fabric.subnet)
    except (FabricError, OSError, ValueError):
        # What was not read is said by the check that reads.
        return []
    node_of = {name: node for node in nodes for name in (node.partition(".")[0], node)}
    found = []
    for route in routes.routes(fabric.subnet, fabric.tables or {}):
        host, colon, rail = route.destination.partition(":")
        if host in node_of:
            found.append((route.leaf, f"{node_of[host]}{colon}{rail}", route.spine))
    return found
