"""How far values lie apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: The standard deviation of normal values over the median of their distances from the median (F. R.
#: Hampel, J. Am. Stat. Assoc. 69, 1974).
NORMAL = 1.4826

#: The standard deviation of a logarithm that counts at least: no tool prints more digits.
LEAST_SD = 1e-4


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness (sum x)^2 / (n sum x^2): 1 for equal shares, 1/n for one alone.

    R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness and Discrimination for Resource
    Allocation in Shared Computer Systems, DEC-TR-301, 1984. ValueError unless there are values,
    finite and not negative, and one of them above zero.
    """
    if not all(math.isfinite(x) and x >= 0 for x in values) or not any(values):
        raise ValueError(f"Jain's index needs shares of at least 0, not all zero: {list(values)}")
    # The index does not depend on the scale; squares of shares of the largest cannot overflow.
    most = max(values)
    shares = [x / most for x in values]
    total = math.fsum(shares)
    return min(total * total / math.fsum(x * x for x in shares) / len(shares), 1.0)
