"""Whether what a command printed fits 80 columns."""

from __future__ import annotations


def assert_fits(printed: str, width: int = 80) -> None:
    """Every line of it does, but for one with a single name that is wider, such as a path."""
    wide = [line for line in printed.splitlines() if len(line) > width and " " in line.strip()]
    assert wide == []
