"""One module per measured tool: how to call it and how to read it. Pure functions only.

Every tool has the same four parts in the same order, sections of a module or modules of a package:
options (`Options`, frozen -> `argv()`), result (dataclasses with units in the names), text
(`parse()`, which raises `ParseError`), judge (`read()`: a `Reading` by all that is known of a run).
What all tools share is in `common`.

A tool that Railgauge reads and never starts has no `argv()`: its options are what was asked for.

A tool that comes by Spack says so: PACKAGES has the packages, with the programs of each
(`railgauge.tools.table`). If `railgauge parse` is to read its outputs, it has BY_HAND
(`railgauge.tools.common.by_hand`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from railgauge.model.measurement import Measurement


class ParseError(ValueError):
    """A tool's output that is no result: the line, what was found, what belongs there.

    `line` counts from 1; 0 stands for the text as a whole (nothing there, or its end is missing).
    """

    def __init__(self, line: int, found: str, expected: str) -> None:
        self.line = line
        self.found = found
        self.expected = expected
        where = f"line {line}" if line else "whole output"
        super().__init__(f"{where}: found {found}, expected {expected}")


class Completeness(str, enum.Enum):
    """Whether the evidence proves that the tool ran to its end."""

    PROVED = "proved"
    UNKNOWN = "unknown"
    BROKEN = "broken"


@dataclasses.dataclass(frozen=True)
class Moved:
    """Payload that a tool says it moved to one side, and the seconds that it says this took.

    `size_bytes` is the message size, None where the tool streams. `at_least`: the tool moved more
    than it counts, as before and after a time that it measures.
    """

    payload_bytes: int
    seconds: float
    to: Literal["server", "client"] = "server"
    size_bytes: int | None = None
    at_least: bool = False


@dataclasses.dataclass(frozen=True)
class Reading:
    """The judged result of one run of a tool.

    `seen` holds the conditions that the output itself states (streams, mtu_bytes, congestion,
    sizes, ranks, hosts); a check compares them with its request. `moved` is the payload that the
    tool reports; the counters of the devices must agree with it. `simulated` output comes from a
    stand-in program. `notes` are worth knowing and change no verdict. `inconclusive`: the tool
    could not measure for the reason given, which says nothing about the network. `corrupt`: bytes
    arrived as others than were sent.
    """

    ok: bool
    reason: str
    completeness: Completeness
    measurements: tuple[Measurement, ...] = ()
    seen: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    simulated: bool = False
    notes: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()
    inconclusive: bool = False
    corrupt: bool = False

    def with_state(self, state: str) -> Reading:
        """The same, with a state as part of what its numbers measure: `write rdma_cm`."""
        return dataclasses.replace(
            self, measurements=tuple(m.with_state(state) for m in self.measurements)
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "reason": self.reason,
            "completeness": self.completeness.value,
            "measurements": [m.as_dict() for m in self.measurements],
            "seen": dict(self.seen),
            "simulated": self.simulated,
            "notes": list(self.notes),
        }

    @classmethod
    def valid(
        cls,
        reason: str,
        missing: Sequence[str],
        measurements: tuple[Measurement, ...],
        seen: Mapping[str, Any],
        simulated: bool = False,
        *,
        notes: tuple[str, ...] = (),
        moved: tuple[Moved, ...] = (),
    ) -> Reading:
        """A run that nothing speaks against: proved, unless evidence is missing."""
        completeness = Completeness.UNKNOWN if missing else Completeness.PROVED
        if missing:
            reason = (
                "nothing in it is contradicted, but that the run finished is not proved without "
                + ", ".join(missing)
            )
        return cls(True, reason, completeness, measurements, seen, simulated, notes, moved)

    @classmethod
    def invalid(
        cls,
        reason: str,
        completeness: Completeness = Completeness.BROKEN,
        *,
        measurements: tuple[Measurement, ...] = (),
        seen: Mapping[str, Any] | None = None,
        simulated: bool = False,
        notes: tuple[str, ...] = (),
        moved: tuple[Moved, ...] = (),
        inconclusive: bool = False,
        corrupt: bool = False,
    ) -> Reading:
        return cls(
            *(False, reason, completeness, measurements, seen or {}),
            *(simulated, notes, moved, inconclusive, corrupt),
        )
