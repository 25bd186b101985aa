"""Tables that people and spreadsheets write: CSV with a heading, read line by line."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence


class TableError(ValueError):
    """A table that cannot be read: line (from 1) and column, what is there, what was expected."""

    def __init__(self, line: int, column: str, found: str, expected: str) -> None:
        where = f"line {line}" + (f", column {column}" if column else "")
        super().__init__(f"{where}: {found}, expected {expected}")


@dataclasses.dataclass(frozen=True)
class Line:
    number: int
    cells: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells.get(column, "")

    def error(self, column: str, expected: str) -> TableError:
        return TableError(self.number, column, quote(self[column]), expected)


def quote(text: str) -> str:
    shown = repr(text if len(text) <= 40 else text[:40] + "...")
    return shown if text else "nothing"


def separator(text: str) -> str:
    """What parts the cells: of spreadsheets in some languages it is no comma. That of comma,
    semicolon and tabulator which the heading has most.
    """
    rows = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return max((",", ";", "\t"), key=next(rows, "").count)


def read_lines(text: str, needed: Sequence[str], known: Sequence[str]) -> Iterator[Line]:
    """The lines below the heading; columns but the `needed` and `known` ones are not checked. Lines
    that begin with # are remarks. TableError where a needed column, or every line, is missing.
    """
    text = text.removeprefix("\ufeff")
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator(text),
        strict=True,
        skipinitialspace=True,
    )
    header: list[str] = []
    rows = 0
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if not header:
                header = _header(reader.line_num, cells, needed, known)
                continue
            if len(cells) != len(header):
                raise TableError(
                    reader.line_num, "", f"{len(cells)} cells", f"{len(header)} as in the header"
                )
            rows += 1
            row = dict(zip(header, cells))
            for column, cell in row.items():
                if column in (*needed, *known) and not cell.isprintable():
                    raise TableError(reader.line_num, column, quote(cell), "printable characters")
            yield Line(reader.line_num, row)
    except csv.Error as error:
        raise TableError(reader.line_num, "", str(error), "comma-separated cells") from None
    if not rows:
        raise TableError(reader.line_num or 1, "", "no row", "a header and a row for each result")


def _header(
    number: int, cells: Sequence[str], needed: Sequence[str], known: Sequence[str]
) -> list[str]:
    header = [cell.lower() for cell in cells]
    for name in needed:
        if name not in header:
            raise TableError(
                number, name, f"the columns {', '.join(header)[:80]}", ",".join(needed)
            )
    for name, count in Counter(header).items():
        if count > 1 and name in (*needed, *known):
            raise TableError(number, name, f"it {count} times", "each column once")
    return header
