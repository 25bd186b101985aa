"""Whether what a command printed fits 80 columns."""

from __future__ import annotations


def assert_fits(printed: str, width: int = 80) -> None:
    """Every line of it does, but for a single name that is wider, such as a path, and a command."""
    wide = [line.strip() for line in printed.splitlines() if len(line) > width]
    commands = ("railgauge ", "scontrol ")
    assert [line for line in wide if " " in line and not line.startswith(commands)] == []
