"""The line that moves: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from railgauge import terminal
from tests.unit.node.sweeping import wait_until


def shown(monkeypatch: pytest.MonkeyPatch, is_terminal: bool, words: Callable[[], str]) -> str:
    """All that is written while plain lines are said, and on a terminal the other one moves once or
    more.
    """
    asked: list[int] = []

    def counted() -> str:
        asked.append(1)
        return words()

    written = io.StringIO()
    console = Console(file=written, force_terminal=is_terminal, width=60, highlight=False)
    monkeypatch.setattr(terminal, "console", lambda: console)
    monkeypatch.setenv("TERM", "xterm")
    with terminal.moving(counted):
        console.print("a plain line")
        # Whoever is asked a third time has written what was said at the second.
        if is_terminal:
            wait_until(lambda: len(asked) >= 3, "it does not move")
    return written.getvalue()


def test_on_a_terminal_it_moves_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = itertools.count()
    text = shown(monkeypatch, True, lambda: f"{next(counted)} of many")
    assert "a plain line" in text and re.search(r"\d:\d\d  0 of many", text)
    assert "1 of many" in text
    # The last thing that is written takes the line away.
    assert text.endswith(("\x1b[2K", "\x1b[?25h")) or "\x1b[2K" in text[-12:]


def test_elsewhere_there_are_plain_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def words() -> str:
        asked.append(1)
        return "moving"

    assert shown(monkeypatch, False, words) == "a plain line\n" and not asked


def test_words_that_cannot_be_had_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def words() -> str:
        raise OSError("a file system does not answer")

    assert "a plain line" in shown(monkeypatch, True, words)


def test_a_long_text_stays_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, True, lambda: "x" * 200)
    assert "…" in text and "x" * 61 not in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (125.4, "2:05"), (3725, "1:02:05"), (59.6, "1:00")]
)
def test_time_is_that_of_a_clock(seconds: float, text: str) -> None:
    assert terminal.clock(seconds) == text
