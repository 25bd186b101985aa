"""The uplinks of a fabric's leaves: what each has carried, and how evenly those of a leaf share it.

A site's command says it as JSON, as the lab's does (`railgauge lab uplinks --json`):

    {"uplinks": [{"leaf": "leaf1", "spine": "spine1", "sent_bytes": 1, "received_bytes": 2}, ...]}

and with "errors" also what its ports counted of errors (CRC, symbols, FEC): not what they discarded
under congestion, which a healthy uplink does too.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import pydantic

from railgauge.common.spread import jain

Bytes = Annotated[int, pydantic.Field(ge=0, strict=True)]


class CountersError(Exception):
    """The uplinks' counters cannot be read; the text says what was found and what was expected."""


@dataclasses.dataclass(frozen=True)
class Uplink:
    """Bytes that a leaf has sent to a spine and received from it, since its counters began."""

    leaf: str
    spine: str
    sent_bytes: Bytes
    received_bytes: Bytes
    #: errors of its ports, where a site counts them
    errors: Bytes = 0

    def __str__(self) -> str:
        return f"{self.leaf}:{self.spine}"


def leaf_of(name: str) -> str:
    """The leaf of an uplink's name, `leaf2:spine1`; a leaf's name is its own."""
    return name.partition(":")[0]


def spine_of(name: str) -> str:
    """The spine of an uplink's name; "" of a leaf's."""
    return name.partition(":")[2]


@dataclasses.dataclass(frozen=True)
class _Document:
    uplinks: list[Uplink]


_DOCUMENT = pydantic.TypeAdapter(_Document)


def document(uplinks: Sequence[Uplink]) -> str:
    """The JSON that `parse` reads."""
    return json.dumps({"uplinks": [dataclasses.asdict(one) for one in uplinks]}, indent=1)


def parse(text: str) -> list[Uplink]:
    """The uplinks of such a document; CountersError where it is none."""
    try:
        uplinks = _DOCUMENT.validate_python(json.loads(text)).uplinks
    except (ValueError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, pydantic.ValidationError) else None
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
        raise CountersError(
            f'{what}, expected {{"uplinks": [{{"leaf": ..., "spine": ..., "sent_bytes": ..., '
            '"received_bytes": ...}, ...]}'
        ) from None
    names = [str(one) for one in uplinks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CountersError(f"{', '.join(twice)} twice, expected each uplink once")
    return uplinks


def carried(before: Sequence[Uplink], after: Sequence[Uplink]) -> list[Uplink]:
    """Bytes over each uplink between two counts; CountersError where a counter was reset, or an
    uplink is in one count only.
    """
    first = {str(one): one for one in before}
    once = first.keys() ^ {str(one) for one in after}
    if once:
        names = ", ".join(sorted(once))
        raise CountersError(f"{names} was counted once, expected before and after")
    differences = []
    for one in after:
        was = first[str(one)]
        sent = one.sent_bytes - was.sent_bytes
        received = one.received_bytes - was.received_bytes
        errors = one.errors - was.errors
        if sent < 0 or received < 0 or errors < 0:
            raise CountersError(f"{one} went backwards: its counters were reset")
        differences.append(Uplink(one.leaf, one.spine, sent, received, errors))
    return differences


@dataclasses.dataclass(frozen=True)
class Shares:
    """What the uplinks of a leaf carried in one direction, in bytes by spine."""

    leaf: str
    way: Literal["sent", "received"]
    of_spine: Mapping[str, int]

    @property
    def jain(self) -> float:
        """Jain's index: 1 where all carried the same, 1/n where one of n carried all; 0 where
        nothing was carried.
        """
        values = list(self.of_spine.values())
        return jain(values) if any(values) else 0.0

    def __str__(self) -> str:
        total = sum(self.of_spine.values())
        parts = [f"{s} {n / total if total else 0:.0%}" for s, n in self.of_spine.items()]
        return f"{self.leaf} {self.way} {total / 1e6:.4g} MB: {', '.join(parts)}"


def shares(uplinks: Sequence[Uplink]) -> list[Shares]:
    """The shares of every leaf, of what it sent and of what it received."""
    shared = []
    for leaf in dict.fromkeys(one.leaf for one in uplinks):
        own = [one for one in uplinks if one.leaf == leaf]
        shared += [
            Shares(leaf, "sent", {one.spine: one.sent_bytes for one in own}),
            Shares(leaf, "received", {one.spine: one.received_bytes for one in own}),
        ]
    return shared
