"""The line that moves: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import pytest
from rich.console import Console

from railgauge import terminal


def shown(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, words: Callable[[], str], seconds: float = 1
) -> str:
    """All that is written while plain lines are said, and the other one moves."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=is_terminal, width=60, highlight=False)
    monkeypatch.setattr(terminal, "console", lambda: console)
    monkeypatch.setenv("TERM", "xterm")
    with terminal.moving(words):
        console.print("a plain line")
        time.sleep(seconds)
    return written.getvalue()


def test_on_a_terminal_it_moves_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter(range(100))
    text = shown(monkeypatch, True, lambda: f"{next(counted)} of 99")
    assert "a plain line" in text and "0:00  0 of 99" in text and "1 of 99" in text
    # The last thing that is written takes the line away.
    assert text.endswith(("\x1b[2K", "\x1b[?25h")) or "\x1b[2K" in text[-12:]


def test_elsewhere_there_are_plain_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def words() -> str:
        asked.append(1)
        return "moving"

    assert shown(monkeypatch, False, words, 0) == "a plain line\n" and not asked


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
