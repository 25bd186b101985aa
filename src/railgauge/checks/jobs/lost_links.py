"""Links of nodes that went away while a job of many ranks ran, also if they came back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railgauge.model.failure import Failure

_UP = "ACTIVE"


def lost(facts: Mapping[str, Mapping[str, Any]]) -> list[Failure]:
    """Node -> facts, whose `links` railgauge.node.runners.mpi_ranks has left."""
    failures = []
    for node, node_facts in sorted(facts.items()):
        for name, link in sorted(node_facts.get("links", {}).items()):
            before, after = link["before"], link["after"]
            if _UP in before["states"] and after["states"] != before["states"]:
                now = ", ".join(state or "gone" for state in after["states"]) or "gone"
                message = f"{name} on {node} was {_UP}, and is {now} now"
                failures.append(Failure("link-lost", message, (node,)))
            changes = after.get("carrier_changes", 0) - before.get("carrier_changes", 0)
            if {"carrier_changes"} <= before.keys() & after.keys() and changes > 0:
                message = f"the carrier of {name} on {node} changed {changes} times during the test"
                failures.append(Failure("link-flap", message, (node,)))
    return failures
