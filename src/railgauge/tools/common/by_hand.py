"""What `railgauge parse` needs to know of a tool: its files, and what can be expected of a run.

A tool with `BY_HAND` in its module has a command there; nothing else names it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from railgauge.model.call import Call
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.changes import Change
from railgauge.tools.common.ends import Ends
from railgauge.tools.common.marks import Marks


class ReadSides(Protocol):
    """`read()` of a tool with two sides."""

    def __call__(
        self, client: str, *, server: str | None, calls: Sequence[Call], options: Any
    ) -> Reading: ...


@dataclasses.dataclass(frozen=True)
class ByHand:
    """How to judge the output of a run that a user made by hand."""

    #: what each file is, in their order; the first one must be there
    files: tuple[str, ...]
    #: what must be known for a proof that the run finished, for --help
    proof: str
    #: what can be expected by name, and how its value is read: ValueError says what belongs there
    conditions: Mapping[str, Callable[[str], Any]]
    #: from such conditions the tool's options; ValueError where they cannot be
    options: Callable[..., Any]
    #: (texts, exit codes as far as they are known, options)
    read: Callable[[Sequence[str], Sequence[int], Any], Reading]
    #: conditions for an error's next step
    example: tuple[str, ...]
    #: what must be expected besides any other condition: an output that lacks a part states less
    needed: tuple[str, ...] = ()
    #: what an output itself states; it counts where nothing else is expected
    stated: Callable[[str], Mapping[str, Any]] = lambda text: {}
    #: how many exit codes a run has: 1 of a launcher, or one a side
    exit_codes: int = 1
    #: how `railgauge read` recognizes its outputs; None: it does not
    marks: Marks | None = None
    #: which hosts an output is of
    ends: Callable[[str], Ends] = lambda text: Ends()
    #: what its versions changed in the numbers
    changes: tuple[Change, ...] = ()
    #: whether a text without any tool's mark is an output of this one
    is_output: Callable[[str], bool] | None = None
    #: reads a large file piece by piece; None where it is no output of the tool by itself: the
    #: words are those of other tools' marks
    read_pieces: Callable[[Iterable[str], Sequence[str]], Reading | None] | None = None

    def expected(self, words: Sequence[str]) -> dict[str, Any]:
        """`name=value` of each word; ValueError names the word, and what was expected."""
        expected: dict[str, Any] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or name not in self.conditions:
                known = ", ".join(self.conditions)
                raise ValueError(f"{word}: expected NAME=VALUE with a name of {known}")
            if name in expected:
                raise ValueError(f"{word}: {name} is there twice, expected every name once")
            try:
                expected[name] = self.conditions[name](value)
            except ValueError as error:
                raise ValueError(f"{word}: {error}") from None
        missing = [name for name in self.needed if name not in expected]
        if expected and missing:
            given, lacking = ", ".join(expected), " and ".join(missing)
            raise ValueError(f"{given} without {lacking}: they belong together")
        return expected

    def requested(self, text: str, words: Sequence[str]) -> Any:
        """The options of a run with the output `text`; None without words, or a readable output.

        What no word says is as the output states it. ValueError where a word is wrong.
        """
        expected = self.expected(words)
        if not expected:
            return None
        try:
            stated = self.stated(text)
        except ParseError:
            return None
        return self.options(**{**stated, **expected})


def of_sides(tool: str, read: ReadSides) -> Callable[[Sequence[str], Sequence[int], Any], Reading]:
    """`read` of a tool with two files, the client's output and the server's; so do exit codes."""

    def judged(texts: Sequence[str], codes: Sequence[int], options: Any) -> Reading:
        server = texts[1] if len(texts) > 1 else None
        return read(texts[0], server=server, calls=_side_calls(tool, codes), options=options)

    return judged


def _side_calls(tool: str, codes: Sequence[int]) -> list[Call]:
    """Calls of known exit codes; how long they took is not known, which contradicts nothing.

    One of them proves nothing where the other is not known, but may be a failure.
    """
    if len(codes) < 2 and not any(codes):
        return []
    sides = zip(("client", "server"), (1, 0), [*codes, 0], strict=False)
    return [Call(tool, role, rank, role, code, math.inf) for role, rank, code in sides]


def integer(value: str) -> int:
    """A whole number."""
    if not value.isascii() or not value.isdigit():
        raise ValueError(f"{value!r} is not a whole number")
    return int(value)


def yes_or_no(value: str) -> bool:
    """`yes` or `no`."""
    if value not in ("yes", "no"):
        raise ValueError(f"{value!r} is neither yes nor no")
    return value == "yes"


def identifier(value: str) -> str:
    """A name; the tool's options say which they know."""
    if not value:
        raise ValueError("nothing behind the equals sign, expected a name")
    return value
