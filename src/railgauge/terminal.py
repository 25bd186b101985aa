"""What long commands say while they run: on a terminal one line that moves, below plain lines."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

#: So often a second the line is drawn again.
_A_SECOND = 2


@functools.cache
def console() -> Console:
    """Standard error, which both kinds of lines go to."""
    return Console(stderr=True, highlight=False)


@contextlib.contextmanager
def moving(words: Callable[[], str]) -> Iterator[None]:
    """Show the time since it began and `words`, on a terminal; elsewhere nothing is asked or shown.

    Of words that cannot be had at a time (OSError, ValueError) the last ones stay.
    """
    shown = console()
    if not shown.is_terminal or shown.is_dumb_terminal:
        yield
        return
    began, last = time.monotonic(), ""

    def line() -> Text:
        nonlocal last
        with contextlib.suppress(OSError, ValueError):
            last = words()
        took = clock(time.monotonic() - began)
        return Text(f"{took}  {last}", no_wrap=True, overflow="ellipsis", style="dim")

    with Live(
        get_renderable=line,
        console=shown,
        refresh_per_second=_A_SECOND,
        transient=True,
        # What is piped elsewhere goes there.
        redirect_stdout=sys.stdout.isatty(),
    ):
        yield


def clock(seconds: float) -> str:
    """`2:05`, or `1:02:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
