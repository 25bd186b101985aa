"""When nodes were last accepted, from the campaigns under the results root."""

from __future__ import annotations

import json
from collections.abc import Collection

from railgauge.campaign import folder as campaigns
from railgauge.errors import RailgaugeError


def last_accepts(system: str, nodes: Collection[str]) -> dict[str, str]:
    """Node -> the end (ISO 8601) of the newest campaign that accepted it; a node of none is not
    there. What cannot be read accepts nothing, and neither does a rehearsal.
    """
    found: dict[str, str] = {}
    for path in reversed(campaigns.all_folders()):
        if found.keys() >= set(nodes):
            break
        if f"-{system}-" not in path.name:
            continue
        try:
            campaign = campaigns.load(str(path))
            document = json.loads((path / "verdict.json").read_text(encoding="utf-8"))
            accepted = document["verdict"] == "accept" and not document["simulated"]
        except (RailgaugeError, OSError, ValueError, LookupError, TypeError):
            continue
        if campaign.system == system and accepted and campaign.finished:
            for node in (n for members in campaign.scope.nodes.values() for n in members):
                if node in nodes:
                    found.setdefault(node, campaign.finished)
    return found
