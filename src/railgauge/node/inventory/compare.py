"""What differs between inventories: flat documents, field -> value.

On nodes (the gate) and on the head (`inventory diff`, expected.yaml, a node's peers) alike.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Hashable, Mapping
from typing import Literal

from railgauge.common.names import natural
from railgauge.node.inventory.kinds import Kind, kind
from railgauge.node.inventory.sheet import Scalar

What = Literal["changed", "gone", "new", "became unknown", "now known"]

#: What is no change of a field, but of what is known of it.
OF_KNOWLEDGE: tuple[What, ...] = ("became unknown", "now known")


@dataclasses.dataclass(frozen=True)
class Change:
    """A field that is not as it was. None stands for a value that is not there, or unknown."""

    key: str
    before: Scalar | None
    after: Scalar | None
    what: What = "changed"

    @property
    def kind(self) -> Kind:
        return kind(self.key)

    def __str__(self) -> str:
        if self.what == "changed":
            return f"{self.key} was {shown(self.before)}, is {shown(self.after)}"
        known = self._known
        value = f" ({shown(known)})" if known is not None else ""
        return f"{self.key} {'' if self.what in OF_KNOWLEDGE else 'is '}{self.what}{value}"

    @property
    def _known(self) -> Scalar | None:
        return self.before if self.before is not None else self.after

    @property
    def brief(self) -> str:
        """For the reason of a drained node, which has no room."""
        if self.what == "changed":
            return f"{self.key} {self.before} -> {self.after}"
        return f"{self.key} is {self.what} ({'was ' * (self.what == 'gone')}{self._known})"


def shown(value: Scalar | None) -> str:
    return json.dumps(value) if isinstance(value, (bool, str)) else str(value)


def same(value: Scalar | None, other: Scalar | None) -> bool:
    """True is no 1 here, but 4 is 4.0."""
    return _identity(value) == _identity(other)


def _identity(value: Scalar | None) -> Hashable:
    return isinstance(value, bool), value


def changes(
    before: Mapping[str, Scalar],
    after: Mapping[str, Scalar],
    unknown_before: Collection[str],
    unknown_after: Collection[str],
) -> list[Change]:
    """All that is not the same, in the order of the keys.

    What is unknown on one side is no change of the field: it `became unknown`, or is `now known`.
    """
    changed = []
    for key in sorted({*before, *unknown_before, *after, *unknown_after}, key=natural):
        old, new = before.get(key), after.get(key)
        if key in before and key in after:
            what: What = "changed"
            if same(old, new):
                continue
        elif key in unknown_after:
            if key in unknown_before:
                continue
            what = "became unknown"
        elif key in unknown_before:
            what = "now known" if key in after else "gone"
        else:
            what = "gone" if key in before else "new"
        changed.append(Change(key, old, new, what))
    return changed


def by_value(values: Mapping[str, Scalar | None]) -> list[tuple[str, ...]]:
    """Nodes by the value of one field, node -> value: those that agree, the largest group first."""
    groups: dict[Hashable, list[str]] = {}
    for node, value in values.items():
        groups.setdefault(_identity(value), []).append(node)
    return sorted(map(tuple, groups.values()), key=len, reverse=True)
