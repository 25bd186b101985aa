"""CSV files that people and spreadsheets write."""

from __future__ import annotations


def separator(text: str) -> str:
    """What parts the cells: of spreadsheets in some languages it is no comma."""
    rows = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    header = next(rows, "")
    return next((one for one in (",", ";", "\t") if one in header), ",")
