"""The smallest loss that is found with a certainty, by the chance of finding a loss."""

from __future__ import annotations

import math
from collections.abc import Callable

#: How surely the smallest loss is found.
POWER = 0.99

#: Losses are looked for up to MOST, and found within STEP, as logarithms.
MOST, STEP = 20.0, 1e-5


def of_each(links: int) -> float:
    """The power that each link of a node needs: the node is found where one of them is."""
    return float(1 - (1 - POWER) ** (1 / links))


def least(chance: Callable[[float], float], power: float, low: float = 0.0) -> float | None:
    """The least loss above `low`, as a logarithm, that is found with that power."""
    high = MOST
    if chance(high) < power:
        return None
    while high - low > STEP:
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) >= power else (middle, high)
    return high


def share(loss: float) -> float:
    """Of a loss as a logarithm."""
    return -math.expm1(-loss)
