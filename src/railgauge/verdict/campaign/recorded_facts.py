"""What a record says of its nodes, without reading all of it.

Most of a record are the counters of its nodes, and a verdict asks few places for them. What it asks
of every place is read and kept; all else is read from the record when it is asked for.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import pydantic
from pydantic_core import CoreSchema, core_schema

from railgauge.common.errors import PrerequisiteError
from railgauge.model.record import BrokenRecordError, Line, Result

#: What a verdict asks of every place.
_KEPT = (
    *("agreed", "after", "boot_id", "carrier_changes_before", "collective", "device"),
    *("fingerprint", "launch", "lid", "links", "node_guid", "sampled", "slowest_of"),
    "unknown_fields",
)

#: Counters of a device that stand still while its link is well.
_ERRORS = re.compile(
    r".*(link_down|link_error_recovery|symbol_err|crc_err|integrity_errors|discards|retrans"
    r"|out_of_sequence|packet_seq_err|local_ack_timeout).*|net/.*/[rt]x_errors"
)


#: What is read of each place: of the counters those that count, and not the rates next to them.
_READ = frozenset((*_KEPT, "counters"))


def _schema_of_facts(source: object, handler: pydantic.GetCoreSchemaHandler) -> CoreSchema:
    """The facts in `_READ`, as they are; the parser passes over all others."""
    anything = core_schema.any_schema()
    of_device = core_schema.typed_dict_schema(
        {"counters": core_schema.typed_dict_field(anything, required=False)}
    )
    schemas = {
        **dict.fromkeys(_KEPT, anything),
        "counters": core_schema.union_schema([of_device, anything], mode="left_to_right"),
    }
    return core_schema.typed_dict_schema(
        {
            name: core_schema.typed_dict_field(schema, required=False)
            for name, schema in schemas.items()
        }
    )


class ReducedResult(Result):
    """A result with the facts alone that a verdict asks of every place."""

    facts: dict[str, Annotated[dict[str, Any], pydantic.GetPydanticSchema(_schema_of_facts)]]


class NodeFacts(Mapping[str, Any]):
    """What a record says of one node. `error_counters` are those of its counters that grow by
    errors of a link.
    """

    __slots__ = ("_kept", "_line", "_node", "_there", "error_counters")

    def __init__(self, facts: Mapping[str, Any], line: Line, node: str) -> None:
        self._there, kept = _names(tuple(facts))
        self._kept = {name: _shared(facts[name]) for name in kept}
        self._line, self._node = line, node
        self.error_counters = error_counters(facts)

    def _all(self) -> Mapping[str, Any]:
        return _read_again(self._line)[self._node]

    def __getitem__(self, name: str) -> Any:
        if name in self._kept:
            return self._kept[name]
        if name in _READ and name not in self._there:
            raise KeyError(name)
        return self._all()[name]

    def get(self, name: str, default: Any = None) -> Any:
        if name in self._kept:
            return self._kept[name]
        if name in _READ and name not in self._there:
            return default
        return self._all().get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._there if name in _READ else name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


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
    """This result, with facts that are read when they are asked for, and without claims."""
    facts = {sys.intern(node): NodeFacts(of, line, node) for node, of in result.facts.items()}
    # A copy of each would take as long as all else here. No other code has this one yet.
    vars(result).update(facts=facts, claims=())
    return result


@functools.lru_cache(maxsize=1000)
def _names(names: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Which of these names are in `_READ`, and which are kept."""
    return _READ.intersection(names), tuple(name for name in _KEPT if name in names)


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
