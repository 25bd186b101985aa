"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re

_UNITS = {
    **{"": 1, "b": 1},
    **{"kib": 2**10, "mib": 2**20, "gib": 2**30},
    **{"kb": 10**3, "mb": 10**6, "gb": 10**9},
}


def parse_size(text: str) -> int:
    """`64KiB` -> 65536, `1MB` -> 1000000, `4096` -> 4096; ValueError for anything else."""
    found = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", text)
    if not found or found[2].lower() not in _UNITS or int(found[1]) == 0:
        raise ValueError(
            f"size is {text!r}, expected a number above 0 with KiB, MiB, GiB, kB, MB, GB or B"
        )
    return int(found[1]) * _UNITS[found[2].lower()]
