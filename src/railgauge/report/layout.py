"""Text that fits a terminal: words are wrapped whole, and tables that are too wide are grouped.

A name, a number or a command is never broken, because a reader copies and searches for them. One
that is wider than the terminal goes beyond its edge.
"""

from __future__ import annotations

import itertools
import re
import sys
import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Columns of a file, and of standard output that is not a terminal.
WIDTH = 80

#: A command within a sentence, up to a mark that ends it.
_COMMAND = re.compile(
    r'\b(?:railgauge|reframe|scontrol|sbatch) (?:"[^"]*"|[^;:,()"]|[:,](?! |$))*(?<! )'
)

#: Stands for a blank at which no line may end.
_FIXED = "\0"


def console(least: int = 0) -> Console:
    """Standard output, at least `least` wide: as its terminal, or WIDTH columns where it is none.

    Rich leaves out colours where NO_COLOR is set or standard output is no terminal.
    """
    return Console(width=max(Console().width if sys.stdout.isatty() else WIDTH, least))


def wrap(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Lines of at most `width` columns, with `first` before the first one and `rest` before the
    others; blanks of the same length if `rest` is not given.
    """

    def keep_whole(command: re.Match[str]) -> str:
        # Without an option or a value it may be a sentence about a command.
        is_typed = " -" in command[0] or "=" in command[0]
        whole = is_typed or len(command[0]) <= width - len(first)
        return command[0].replace(" ", _FIXED) if whole else command[0]

    lines = textwrap.wrap(
        _COMMAND.sub(keep_whole, text),
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first) if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_FIXED, " ") for line in lines] or [first.rstrip()]


def say(console: Console, text: str, first: str = "", rest: str | None = None) -> None:
    """Print the text as it is, wrapped between words."""
    for line in wrap(text, console.width, first, rest):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def say_step(console: Console, label: str, step: str, indent: str) -> None:
    """Print `label: step`; the lines after the first one are indented below it."""
    say(console, f"{label}: {step}", indent, indent + "  ")


def first_part(text: str, width: int) -> str:
    """As many clauses of the text as fit, else as many words, with dots for what is left out."""
    if len(text) <= width:
        return text
    ends = [at for at in range(width + 1) if text.startswith(("; ", ": "), at)]
    if ends:
        return text[: max(ends)]
    return textwrap.shorten(text, max(width, len(" ...")), placeholder=" ...")


def fits(console: Console, table: Table) -> bool:
    """Whether the table fits the width without a cell that wraps."""
    widths = []
    for column in table.columns:
        lines = [str(column.header)]
        lines += [line for cell in column.cells for line in _cell(cell).plain.split("\n")]
        widths.append(max(map(len, lines)))
    return _width(widths, 3) <= console.width


def print_table(
    console: Console,
    table: Table,
    group: int = 1,
    optional: Sequence[str] = (),
    below: Sequence[str] = (),
) -> None:
    """The table where it fits the width. Where it does not, each group of rows with the same first
    `group` cells has these as its heading, and the rows below it have the other cells.

    The cells with the `below` headers, such as sentences, follow their row, a line each. Of the
    columns with the `optional` headers the first ones are left out where that makes the rows fit,
    and a line at the end says so.
    """
    if fits(console, table):
        console.print(table)
        return
    headers = [str(column.header) for column in table.columns]
    rows = list(zip(*(map(_cell, column.cells) for column in table.columns), strict=True))
    shown = [n for n in range(group, len(headers)) if headers[n] not in below]
    beneath = [n for n in range(group, len(headers)) if headers[n] in below]
    indent = "  " if group else ""
    left_out = []
    for name in (None, *optional):
        if name in headers:
            shown.remove(headers.index(name))
            left_out.append(name)
        widths = [max(len(headers[n]), *(row[n].cell_len for row in rows)) for n in shown]
        if len(indent) + _width(widths, 2) <= console.width:
            break
    in_columns = len(indent) + _width(widths, 2) <= console.width
    if in_columns:
        head = [Text(headers[n]) for n in shown]
        _print_row(console, table, head, shown, widths, indent, "bold")
    else:
        shown = [n for n in range(group, len(headers)) if n not in beneath]
        left_out = []
    for heading, members in itertools.groupby(rows, key=lambda row: [c.plain for c in row[:group]]):
        if group:
            say(console, "  ".join(filter(None, heading)), rest="    ")
        for row in members:
            if in_columns:
                _print_row(console, table, [row[n] for n in shown], shown, widths, indent)
            else:
                _print_record(console, [headers[n] for n in shown], [row[n] for n in shown], indent)
            for n in beneath:
                if row[n].plain not in ("", "-"):
                    label = f"{indent}  {headers[n]}: "
                    say(console, row[n].plain, label, f"{indent}    ")
    if left_out:
        names = ", ".join(left_out)
        say(console, f"not shown at {console.width} columns: {names}")


def _width(widths: Sequence[int], between: int) -> int:
    return sum(widths) + between * (len(widths) - 1)


def _cell(cell: object) -> Text:
    """What a table was given for a cell, on one line."""
    text = cell if isinstance(cell, Text) else Text.from_markup(str(cell))
    return Text(text.plain.replace(":\n", ":"), style=text.style)


def _print_row(
    console: Console,
    table: Table,
    cells: Sequence[Text],
    shown: Sequence[int],
    widths: Sequence[int],
    indent: str,
    style: str = "",
) -> None:
    line = Text(indent, style=style)
    for cell, column, width in zip(cells, shown, widths, strict=True):
        blanks = " " * (width - cell.cell_len)
        right = table.columns[column].justify == "right"
        line.append(blanks if right else "").append_text(cell).append("" if right else blanks)
        line.append("  ")
    line.rstrip()
    console.print(line, soft_wrap=True)


def _print_record(
    console: Console, headers: Sequence[str], row: Sequence[Text], indent: str
) -> None:
    """A row that fits in no way: its first cell, then the others with their headers."""
    parts = [
        f"{header} {cell.plain}".replace(" ", _FIXED)
        for header, cell in zip(headers[1:], row[1:], strict=True)
        if cell.plain not in ("", "-")
    ]
    say(console, row[0].plain, indent, f"{indent}  ")
    if parts:
        say(console, ", ".join(parts), f"{indent}  ")
