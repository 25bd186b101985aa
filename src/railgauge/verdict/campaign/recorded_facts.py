"""What a record says of its nodes, without keeping all of it.

Most of a record are the counters of its nodes, and a verdict asks few places for them. What it asks
of every place is kept; all else is read from the record again when it is asked for.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from railgauge.common.errors import PrerequisiteError
from railgauge.model.record import BrokenRecordError, Line, Result

#: What a verdict asks of every place.
_KEPT = (
    "collective",
    *("agreed", "after", "boot_id", "carrier_changes_before", "device", "fingerprint", "launch"),
    *("links", "sampled", "slowest_of"),
)

#: Counters of a device that stand still while its link is well.
_ERRORS = re.compile(
    r".*(link_down|link_error_recovery|symbol_err|crc_err|integrity_errors|discards|retrans"
    r"|out_of_sequence|packet_seq_err|local_ack_timeout).*|net/.*/[rt]x_errors"
)


class NodeFacts(Mapping[str, Any]):
    """What a record says of one node. `error_counters` are those of its counters that grow by
    errors of a link.
    """

    __slots__ = ("_kept", "_line", "_names", "_node", "error_counters")

    def __init__(self, facts: Mapping[str, Any], line: Line, node: str) -> None:
        self._names, kept = _names(tuple(facts))
        self._kept = {name: _shared(facts[name]) for name in kept}
        self._line, self._node = line, node
        self.error_counters = error_counters(facts)

    def __getitem__(self, name: str) -> Any:
        if name in self._kept:
            return self._kept[name]
        if name not in self._names:
            raise KeyError(name)
        return _read_again(self._line)[self._node][name]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._names else default

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def error_counters(facts: Mapping[str, Any]) -> Mapping[str, int]:
    """How much each counter of a node grew that grows by errors of a link."""
    if isinstance(facts, NodeFacts):
        return facts.error_counters
    device_record = facts.get("counters")
    counters = device_record.get("counters") if isinstance(device_record, dict) else None
    if not isinstance(counters, dict):
        return {}
    return {name: counters[name] for name in _of_errors(tuple(counters))}


@functools.lru_cache(maxsize=10_000)
def _of_errors(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if _ERRORS.fullmatch(name))


def without_details(result: Result, line: Line) -> Result:
    """This result, with facts that are read again when they are asked for, and without claims."""
    facts = {sys.intern(node): NodeFacts(of, line, node) for node, of in result.facts.items()}
    # A copy of each would take as long as all else here. Nobody has seen this one yet.
    vars(result).update(facts=facts, claims=())
    return result


@functools.lru_cache(maxsize=1000)
def _names(names: tuple[str, ...]) -> tuple[dict[str, None], tuple[str, ...]]:
    """All of these names, and which of them are kept."""
    return dict.fromkeys(names), tuple(name for name in _KEPT if name in names)


#: What was kept before, by its text: nodes have the same in many places.
_KNOWN: dict[str, Any] = {}
_MOST_KNOWN, _LONGEST_KNOWN = 100_000, 200


def _shared(value: Any) -> Any:
    """An equal value that was kept before, where it is a text or short."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, (dict, list)) and len(_KNOWN) < _MOST_KNOWN:
        text = repr(value)
        if len(text) < _LONGEST_KNOWN:
            return _KNOWN.setdefault(text, value)
    return value


@functools.lru_cache(maxsize=1)
def _read_again(line: Line) -> dict[str, dict[str, Any]]:
    """The facts in a line of a record; PrerequisiteError where it is not the one that was read."""
    try:
        return line.result().facts
    except BrokenRecordError as error:
        raise PrerequisiteError(
            f"{error}; what a node reported at {line.place or 'a place'} is not there any more",
            next_step="the same again, while no process changes the campaign's folder",
        ) from None
