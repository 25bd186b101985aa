"""What the readers of TCP tools share: rows of what was moved."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    """What was moved from `start_s` to `end_s` of a run, by one stream or by all."""

    start_s: float
    end_s: float
    transferred_bytes: int
    bandwidth_gbits_s: float
    #: None where it is not counted: on a receiver, or in an output without such a column
    retransmits: int | None = None

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s
