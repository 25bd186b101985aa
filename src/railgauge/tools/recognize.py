"""The outputs of tools in a text: a file may hold several, of several tools, with other lines.

An output goes from its first line to that of the next one, so that what is said of it below its
end counts, such as the error of its launcher; the first of a text also has what stands above it.
What launchers and terminals put before and into the lines is taken away. The tools' own readers
then judge whether an output is whole: nothing here does.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from railgauge.textfiles import Text, Unread
from railgauge.tools import Reading, table
from railgauge.tools.common.by_hand import ByHand
from railgauge.tools.common.changes import Change
from railgauge.tools.common.ends import Ends
from railgauge.tools.common.lines import STDERR, uncoloured
from railgauge.tools.common.marks import Mark, Marks

_DAY = r"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_MONTH = (
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?"
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ 0-9][0-9]"
)
_AFTER = r"\]?(?:: ?| |(?=\[))"
#: What stands before the lines of a tool: times, and how launchers mark those of a rank or host.
#: A kind stands there in each line or in none, for a row may begin with what looks like one.
_PREFIXES = {
    # kubectl logs --timestamps
    "iso": rf"\[?{_DAY}[T ]{_TIME}(?:Z|[-+][0-9]{{2}}:?[0-9]{{2}})?{_AFTER}",
    # mpirun --timestamp-output
    "year": rf"\[?{_MONTH} {_TIME} [0-9]{{4}}{_AFTER}",
    # ts
    "month": rf"\[?{_MONTH} {_TIME}{_AFTER}",
    "time": rf"\[?{_TIME}{_AFTER}",
    # srun --label
    "srun": r" *(?P<{}>[0-9]{{1,6}}): ?",
    # mpirun --tag-output of Open MPI
    "mpirun": r"\[[^\]\s]*,(?P<{}>[0-9]{{1,6}})\](?:\[[^\]\s]*\])?<std(?:out|err|diag)>: ?",
    # mpiexec -prepend-rank of MPICH
    "mpiexec": r"\[(?P<{}>[0-9]{{1,6}})\] ?",
    # pdsh, clush: any word may stand so, it is a host's where the output of a tool follows
    "host": r"(?P<{}>[A-Za-z0-9][\w.-]{{0,253}}): ",
}
_TAGS = ("srun", "mpirun", "mpiexec", "host")

#: What a stand-in program prints, which measures nothing.
_SIMULATED = re.compile(r"# ?SIMULATED")
#: So much of an output, at its begin and its end, is looked at for whether a mark goes on with it;
#: and so much for all marks of one. What they are is small, and no text keeps us busy.
_LOOKED_AT, _MOST_LOOKED_AT = 2**17, 2**27
#: So many lines of no rank or host are given to more than one output. Without a bound a log of many
#: hosts would be held as often as it has hosts.
_MOST_COPIES = 2**18
_SPARED = (
    "too many lines without the tag of a host stand between the outputs of its hosts, and each may "
    "be of this one: give each host a file of its own"
)
_LINE = re.compile(r"\bline ([0-9]+)(?=: found )")


@dataclasses.dataclass(frozen=True)
class Section:
    """An output of a tool. `line` is that of its first mark in the whole text, from 1; `lines` are
    those of all lines of `text`. `unread` says why no reader knows it. `simulated`: some line of
    the whole text is of a stand-in.
    """

    tool: str
    text: str
    line: int
    lines: Sequence[int]
    #: the rank or host that printed it, where a launcher says so
    tag: str = ""
    unread: str = ""
    simulated: bool = False

    def read(self) -> Reading:
        """What the tool's reader makes of it; its lines are those of the whole text."""
        reading = _by_hand()[self.tool].read([self.text], (), None)
        numbers = reading.measurements
        if self.simulated:
            numbers = tuple(dataclasses.replace(number, simulated=True) for number in numbers)
        return dataclasses.replace(
            reading,
            reason=_LINE.sub(self._renumbered, reading.reason),
            measurements=numbers,
            simulated=reading.simulated or self.simulated,
        )

    def ends(self) -> Ends:
        """Which hosts it is of."""
        return _by_hand()[self.tool].ends(self.text)

    def _renumbered(self, named: re.Match[str]) -> str:
        number = int(named[1])
        return f"line {self.lines[number - 1]}" if 0 < number <= len(self.lines) else named[0]


def recognize(text: str) -> list[Section]:
    """The outputs of tools in a text, in the order of their first lines; [] where there is none."""
    text = text.removeprefix("\ufeff")
    if "\x1b" in text:
        text = uncoloured(text)
    if "\r" in text:
        text = re.sub(r"\r+\n", "\n", text)
    found = _marked(text)
    if not found:
        return _without_marks(text)
    lines = text.split("\n")
    tags = [""] * len(lines)
    prefixed = [hit.prefix for hit in found.values() if hit.prefix]
    if prefixed:
        lines, tags = _untagged(lines, _tag_pattern(prefixed))
    splitter = _Splitter()
    for number, line in enumerate(lines):
        splitter.take(number, line, tags[number], found.get(number))
    splitter.take_what_is_claimed()
    simulated = "SIMULATED" in text and _SIMULATED.search(text) is not None
    last = len(lines) - 1
    return list(_joined([part.section(simulated, last) for part in splitter.parts]))


#: Of a text without an output of a tool.
_UNKNOWN = "no output of a tool that is known: railgauge read --help lists them"


def outputs(source: Text) -> Iterator[Section | Unread]:
    """The outputs of tools in a text that a reader knows, and what was not read with its reason."""
    sections = recognize(source.text)
    if not sections:
        yield Unread(source.name, _UNKNOWN if source.text.strip() else "nothing in it")
    for section in sections:
        if section.unread:
            yield Unread(f"{source.name}:{section.line}", section.unread)
        else:
            yield section


def read_large(open_pieces: Callable[[], Iterable[str]]) -> tuple[str, Reading] | None:
    """The tool and reading of a text that is one output and too large to be held, piece by piece;
    None where no tool reads it so.
    """
    for tool, known in _by_hand().items():
        if known.read_pieces is not None:
            others = [other for name, other in _marks().items() if name != tool]
            foreign = [mark.word for marks in others for mark in marks.begins]
            reading = known.read_pieces(open_pieces(), foreign)
            if reading is not None:
                return tool, reading
    return None


def tools() -> list[str]:
    """Those that are recognized."""
    return sorted(tool for tool, known in _by_hand().items() if known.marks or known.is_output)


def _without_marks(text: str) -> list[Section]:
    """The one output that a text is without any tool's mark."""
    for tool, known in _by_hand().items():
        if known.is_output is not None and known.is_output(text):
            simulated = _SIMULATED.search(text) is not None
            lines = range(1, text.count("\n") + 2)
            return [Section(tool, text, 1, lines, simulated=simulated)]
    return []


def changes(tool: str) -> tuple[Change, ...]:
    """What versions of a tool changed in its numbers; none of a tool that is not known here."""
    known = _by_hand().get(tool)
    return known.changes if known else ()


# ---- marks ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Hit:
    tool: str
    mark: Mark
    prefix: str


@functools.cache
def _by_hand() -> Mapping[str, ByHand]:
    return table.by_hand()


@functools.cache
def _marks() -> Mapping[str, Marks]:
    return {tool: known.marks for tool, known in _by_hand().items() if known.marks}


def _kinds(name: str) -> list[str]:
    """The patterns of all kinds, each a group of its name, as are the ranks and hosts in them."""
    kinds = _PREFIXES.items()
    return [
        f"(?P<{kind}_{name}>{rest.format(f'{kind}_tag_{name}') if kind in _TAGS else rest})"
        for kind, rest in kinds
    ]


@functools.cache
def _prefixed(pattern: str) -> re.Pattern[str]:
    kinds = "|".join(_kinds("any"))
    return re.compile(rf"(?P<prefix>(?:{kinds}){{0,3}}?)\s*(?P<mark>{pattern})")


def _marked(text: str) -> dict[int, _Hit]:
    """The lines, from 0, with a mark."""
    starts: list[int] = []
    found: dict[int, _Hit] = {}
    for tool, marks in _marks().items():
        for mark in marks.begins:
            position = text.find(mark.word)
            while position >= 0:
                starts = starts or _starts(text)
                number = bisect.bisect_right(starts, position) - 1
                end = starts[number + 1] if number + 1 < len(starts) else len(text)
                matched = _prefixed(mark.pattern).match(text, starts[number], end)
                # A pattern that matches nothing would begin an output with any line that has the
                # word, such as half a row of the output above that the line was joined to.
                begins = matched is not None and bool(matched["mark"])
                if matched and begins and (number not in found or found[number].mark.weak):
                    found[number] = _Hit(tool, mark, matched["prefix"])
                position = text.find(mark.word, end)
    return found


def _starts(text: str) -> list[int]:
    lengths = (len(line) + 1 for line in text.split("\n"))
    return [0, *itertools.accumulate(lengths)][:-1]


# ---- tags ----------------------------------------------------------------------------------


def _tag_pattern(prefixes: Sequence[str]) -> re.Pattern[str]:
    """What stands before lines: of the kinds, and in the order, as before marks. A host's name
    counts only where it does there, as other words are followed by a colon, too.
    """
    one = re.compile("|".join(_kinds("one")))
    orders: dict[tuple[str, ...], None] = {}
    hosts: set[str] = set()
    for prefix in dict.fromkeys(prefixes):
        position, order = 0, []
        while position < len(prefix) and (matched := one.match(prefix, position)):
            position = matched.end()
            order.append(next(kind for kind in _PREFIXES if matched[f"{kind}_one"] is not None))
            if order[-1] == "host":
                hosts.add(matched["host_tag_one"])
        orders[tuple(order)] = None
    known = {**_PREFIXES, "host": rf"(?P<{{}}>{'|'.join(map(re.escape, sorted(hosts)))}):(?: |$)"}
    alternatives = []
    for place, kinds in enumerate(sorted(orders, key=len, reverse=True)):
        parts = [
            known[kind].format(f"tag_{place}_{number}") if kind in _TAGS else known[kind]
            for number, kind in enumerate(kinds)
        ]
        alternatives.append("".join(parts))
    return re.compile("|".join(alternatives))


def _untagged(lines: Sequence[str], pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    bodies, tags = [], []
    for line in lines:
        matched = pattern.match(line)
        bodies.append(line[matched.end() :] if matched else line)
        tags.append(next(filter(None, matched.groups()), "") if matched else "")
    return bodies, tags


# ---- outputs -------------------------------------------------------------------------------


class _Line(NamedTuple):
    number: int
    text: str
    #: with the number of its rank, where one is known
    tagged: str


@dataclasses.dataclass
class _Part:
    """An output while its lines are taken: their numbers, from 0, and what is left of them."""

    hit: _Hit
    marks: Marks
    #: of the rank or host that its first line is of
    tag: str
    #: the lines of all ranks are its
    shared: bool
    first: int
    lines: list[_Line] = dataclasses.field(default_factory=list)
    #: the one with the lines directly above
    before: _Part | None = None
    #: how many of them stand above what the output begins with
    above: int = 0
    #: some that may be its are not among them
    spared: bool = False

    #: how much of it was looked at for marks
    looked_at: int = 0

    @property
    def text(self) -> str:
        """What is looked at of it."""
        head = _some(line.text for line in self.lines)
        if len(head) == len(self.lines):
            return "\n".join(head)
        tail = _some(line.text for line in reversed(self.lines))
        return "\n".join([*head, *reversed(tail)])

    def section(self, simulated: bool, last: int) -> Section:
        """`last` is the number of the text's last line, the only one that may lack its end."""
        lines = [line.tagged if self.shared else line.text for line in self.lines]
        if self.marks.end is not None:
            lines = list(self._alone(lines, self.marks.end))
        end = "" if self.lines[-1].number == last else "\n"
        return Section(
            self.hit.tool,
            "\n".join(lines) + end,
            self.first + 1,
            [line.number + 1 for line in self.lines],
            "" if self.shared else self.tag,
            self.hit.mark.unread or (_SPARED if self.spared else ""),
            simulated,
        )

    def _alone(self, lines: Sequence[str], end: re.Pattern[str]) -> Iterator[str]:
        """The lines of a document, and those above and below it as lines of standard error."""
        inside = True
        for place, line in enumerate(lines):
            apart = place < self.above or not inside
            if apart and line.strip() and not line.startswith(("#", STDERR)):
                yield f"{STDERR}{line}"
            else:
                yield line
            if place >= self.above and end.fullmatch(line):
                inside = False


def _some(lines: Iterable[str]) -> list[str]:
    """The first lines, up to the bound."""
    taken: list[str] = []
    size = 0
    for line in lines:
        if size > _LOOKED_AT:
            break
        taken.append(line[:_LOOKED_AT])
        size += len(line)
    return taken


class _Splitter:
    """Takes the lines of a text in their order, and gives each to the outputs that it is of."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        #: the output under way of each rank or host
        self.open: dict[str, _Part] = {}
        #: those that began together: lines of no rank, and of others, are theirs
        self.together: dict[str, _Part] = {}
        #: the output that has the lines of all ranks
        self.shared: _Part | None = None
        #: lines above the first output
        self.above: list[_Line] = []
        self.numbers: dict[str, int] = {}
        #: how often lines were given to one more output
        self.copies = 0

    def take(self, number: int, line: str, tag: str, hit: _Hit | None) -> None:
        current = self.shared or self.open.get(tag)
        if hit is not None and not self._goes_on(hit, current, line, tag):
            current = self._begin(number, hit, current, tag)
        taken = _Line(number, line, self._tagged(line, tag))
        if not self.parts:
            self.above.append(taken)
        elif current is not None:
            current.lines.append(taken)
        else:
            self._give_to_all(taken)

    def _give_to_all(self, line: _Line) -> None:
        parts = self.together.values()
        self.copies += len(parts) - 1
        for part in parts:
            if len(parts) > 1 and self.copies > _MOST_COPIES:
                part.spared = True
            else:
                part.lines.append(line)

    def _tagged(self, line: str, tag: str) -> str:
        if not tag:
            return line
        rank = int(tag) if tag.isdigit() else self.numbers.setdefault(tag, len(self.numbers))
        return f"{rank}: {line}"

    def _goes_on(self, hit: _Hit, current: _Part | None, line: str, tag: str) -> bool:
        if current is None or current.hit.tool != hit.tool:
            return False
        # One rank prints for all: another one that begins as well was started alone.
        alone = current.shared and current.tag.isdigit() and tag.isdigit() and current.tag != tag
        if hit.mark.weak or alone:
            return True
        if hit.mark.unread or current.hit.mark.unread:
            return False
        if current.looked_at > _MOST_LOOKED_AT:
            return True
        text = current.text
        current.looked_at += len(text)
        return current.marks.joins(text, line)

    def _begin(self, number: int, hit: _Hit, current: _Part | None, tag: str) -> _Part:
        marks = _marks()[hit.tool]
        # `pdsh` starts a program on each host, and not one on all of them.
        shared = marks.shared and (not tag or tag.isdigit())
        part = _Part(hit, marks, tag, shared, number)
        part.before = current
        lead = self._lead(current, hit.mark.lead)
        if not self.parts:
            part.above = len(self.above) - len(lead)
            part.lines = self.above
        else:
            part.lines = lead
        self.parts.append(part)
        if shared:
            self.open.clear()
            self.together = {tag: part}
            self.shared = part
            return part
        if self.shared is not None or tag in self.together:
            self.together = {}
        self.shared = None
        self.together[tag] = self.open[tag] = part
        return part

    def take_what_is_claimed(self) -> None:
        for part in self.parts:
            if part.before is not None:
                part.lines[:0] = self._lead(part.before, part.marks.claims(part.text))

    def _lead(self, current: _Part | None, patterns: Sequence[str]) -> list[_Line]:
        """Those of the lines above that are of an output that begins now; taken from the one before
        it.
        """
        lines = self.above if not self.parts else current.lines if current is not None else []
        # What the one before it begins with stays.
        least = current.first if self.parts and current is not None else -1
        count = 0
        for pattern in patterns:
            line = lines[-1 - count] if count < len(lines) else None
            if line and line.number > least and re.fullmatch(rf"\s*(?:{pattern})\s*", line.text):
                count += 1
        lead = lines[len(lines) - count :]
        if self.parts:
            del lines[len(lines) - count :]
        return lead


def _joined(sections: Sequence[Section]) -> Iterator[Section]:
    """Join sections if the tool says that they are one."""
    held: Section | None = None
    last = ""
    for section in sections:
        why = _marks()[section.tool].why_one
        same = held is not None and (held.tool, held.tag) == (section.tool, section.tag)
        if held is not None and same and why and why(last + section.text):
            text = held.text + section.text
            held = dataclasses.replace(held, text=text, lines=[*held.lines, *section.lines])
        else:
            if held is not None:
                yield held
            held = section
        last = section.text
    if held is not None:
        yield held
