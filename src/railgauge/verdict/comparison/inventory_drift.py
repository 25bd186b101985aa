"""What of the nodes' firmware and tuning is not as it was, with what their links now do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from railgauge.common.names import natural
from railgauge.model.inventory import Inventory, diff
from railgauge.node.inventory.compare import OF_KNOWLEDGE, Change
from railgauge.node.inventory.kinds import LASTING


@dataclasses.dataclass(frozen=True)
class Drift:
    """A change of a field, the nodes that have it, and those of both sides that have not, which
    are the odd ones where they are fewer.
    """

    change: Change
    nodes: tuple[str, ...]
    others: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            **dataclasses.asdict(self.change),
            "kind": self.change.kind,
            "nodes": list(self.nodes),
            "others": list(self.others),
        }


def drift(before: Mapping[str, Inventory], after: Mapping[str, Inventory]) -> list[Drift]:
    """Every change of the nodes that both sides know, by field; of one field the change that most
    nodes have comes first.
    """
    known = sorted((node for node in before if node in after), key=natural)
    nodes: dict[Change, list[str]] = {}
    having: dict[str, set[str]] = {}
    for node in known:
        for change in diff(before[node], after[node]):
            if change.kind in LASTING and change.what not in OF_KNOWLEDGE:
                nodes.setdefault(change, []).append(node)
        for key in (*before[node].fields, *after[node].fields):
            having.setdefault(key, set()).add(node)
    ordered = sorted(nodes.items(), key=lambda item: (natural(item[0].key), -len(item[1])))
    return [
        Drift(
            change,
            tuple(changed),
            tuple(node for node in known if node in having[change.key] and node not in changed),
        )
        for change, changed in ordered
    ]
