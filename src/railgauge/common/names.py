"""The order of names, and nouns with their number; also on nodes: standard library, Python 3.9."""

from __future__ import annotations

import functools
import re
from typing import Any


@functools.lru_cache(maxsize=65_536)
def natural(name: str) -> tuple[Any, ...]:
    """Sort key that puts mlx5_2 before mlx5_10."""
    parts = re.split("([0-9]+)", name)
    # Text and numbers alternate, so that equal places compare.
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def counted(count: int, noun: str, zero: str = "0") -> str:
    """`1 run`, `2 runs`, and `0 runs` with another word for 0 where one is given."""
    return f"{count or zero} {noun}{'' if count == 1 else 's'}"
