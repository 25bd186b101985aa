"""Numbers as ranges."""

from __future__ import annotations

from collections.abc import Iterable


def fold_numbers(numbers: Iterable[int], separator: str = ", ") -> str:
    """1, 2, 3, 7 -> `1-3, 7`, as ranks are listed."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return separator.join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)
