"""Numbers as a tool printed them."""

from __future__ import annotations

from typing import NamedTuple


class Shown(NamedTuple):
    """A number as printed, and half a unit of its last digit: what it was before is within."""

    value: float
    half: float

    @classmethod
    def of(cls, text: str, factor: float = 1.0) -> Shown:
        """`text` is digits with or without a decimal point; `factor` converts its unit."""
        decimals = len(text.partition(".")[2])
        return cls(float(text) * factor, 0.5 * 10.0**-decimals * factor)

    @property
    def low(self) -> float:
        return max(self.value - self.half, 0.0)

    @property
    def high(self) -> float:
        return self.value + self.half
