"""CSV files that people and spreadsheets write."""

from __future__ import annotations


def separator(text: str) -> str:
    """What parts the cells: of spreadsheets in some languages it is no comma. That of comma,
    semicolon and tabulator which the heading has most.
    """
    rows = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return max((",", ";", "\t"), key=next(rows, "").count)
