"""Which GPU of a node is slow, or which link between two of them, by matrices of copies.

A matrix has a row for each GPU that copies, and a column for each partner; copies from and to the
host have one row. A slow GPU makes a whole row or column slow, a slow link one cell. Cells are
compared with a bound, where one is known, and with the other cells of their matrix. A cell accuses
a link only where every matrix that has this way between two GPUs has it slow: one slow run of
several is a moment.

Where most of a matrix is slow nothing tells which part is at fault, and none is named.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from railgauge.common.spread import NORMAL

#: Which way data goes: from or to the host; a GPU reads from another one, or writes to it.
Way = Literal["from_host", "to_host", "read", "write"]

#: What equal cells differ by where all GPUs have the same links to switches, as a share. Published
#: matrices of A100 (README of nvbandwidth 0.2) differ by 0.1 %, but for a cell at 0.5 %. One of 18
#: NVLinks is 5.6 %, and 3.5 times this is less. A choice of ours.
EVEN_SPREAD = 0.012

#: So many spreads below the others a cell is slow (Iglewicz and Hoaglin's modified z-score).
SLOW_SPREADS = 3.5

#: Fewer cells do not tell which of them is slow.
LEAST_CELLS = 4

#: A row or column with fewer cells is no evidence against a GPU: it may be the link.
LEAST_LINE = 2


class Matrix(NamedTuple):
    """The copies of one test, in GB/s; a cell is None where no copy was possible. `bound` is the
    least that a reference admits.
    """

    test: str
    way: Way
    cells: tuple[tuple[float | None, ...], ...]
    bound: float | None = None


class SlowPart(NamedTuple):
    """A GPU (`gpu3`) or a link (`gpu1-gpu3`, `gpu3-host`), and what speaks against it."""

    kind: Literal["gpu", "gpu-link"]
    name: str
    gpus: tuple[int, ...]
    why: str


class Judged(NamedTuple):
    """The slow parts of a node. `unnamed` says what is slow without a part at fault, "" for
    nothing; `once` are cells that were slow in one of several matrices.
    """

    parts: tuple[SlowPart, ...] = ()
    unnamed: str = ""
    once: tuple[str, ...] = ()


class _Slow(NamedTuple):
    """A slow cell: the matrix, its row and column, its value and the one expected."""

    matrix: Matrix
    row: int
    column: int
    value: float
    expected: float

    @property
    def sender(self) -> int:
        return self.column if self.matrix.way == "read" else self.row

    @property
    def receiver(self) -> int:
        return self.row if self.matrix.way == "read" else self.column


def locate_gpus(
    matrices: Sequence[Matrix],
    *,
    even: bool,
    peer_spread: float = 0.05,
    links: int | None = None,
) -> Judged:
    """Name the slow GPUs and links of one node.

    `even`: all GPUs reach each other over equal links, as through NVSwitches. `peer_spread` is what
    other equal cells differ by, as a share. `links` is the number of NVLinks of a GPU.
    """
    slow = {
        (matrix.test, cell.row, cell.column): cell
        for matrix in matrices
        for cell in _slow_cells(matrix, even, peer_spread)
    }
    between = [matrix for matrix in matrices if matrix.way in ("read", "write")]
    count = max((len(matrix.cells[0]) for matrix in matrices if matrix.cells), default=0)
    lines = {gpu: _slow_lines(gpu, between, slow) for gpu in range(count)}
    bad = {gpu for gpu, found in lines.items() if found}
    hosts = {
        gpu: [c for c in slow.values() if c.matrix.way not in ("read", "write") and c.column == gpu]
        for gpu in range(count)
    }
    pairs, once = _pairs(between, slow, bad)
    behind_host = [gpu for gpu, cells in hosts.items() if cells]
    crowded = [2 * len(each) > count > 1 for each in (bad, behind_host)]
    if any(crowded) or len(pairs) > count > 1:
        worst = min(slow.values(), key=lambda cell: cell.value / cell.expected)
        total = sum(value is not None for m in matrices for row in m.cells for value in row)
        return Judged(
            unnamed=f"{len(slow)} of {total} copies between GPUs and host are slow, the worst "
            f"{_words(worst)}: no GPU is named where most are"
        )
    parts = [_gpu(gpu, lines[gpu], hosts[gpu], links) for gpu in sorted(bad)]
    parts += [_link(pair, found) for pair, found in sorted(pairs.items())]
    parts += [_host_link(gpu, hosts[gpu]) for gpu in behind_host if gpu not in bad]
    return Judged(tuple(parts), "", tuple(once))


def _slow_cells(matrix: Matrix, even: bool, peer_spread: float) -> Iterator[_Slow]:
    values = [value for row in matrix.cells for value in row if value is not None]
    of_host = matrix.way in ("from_host", "to_host")
    middle, least = 0.0, 0.0
    if len(values) >= LEAST_CELLS:
        # A bad GPU of four makes half of the cells slow: the upper half says what is usual. Where
        # cells are of several kinds, as across sockets, only the median of all does not accuse one.
        usual = sorted(values)[len(values) // 2 :] if even or of_host else values
        middle = statistics.median(usual)
        spread = EVEN_SPREAD if even and not of_host else peer_spread
        mad = NORMAL * statistics.median(abs(value - middle) for value in usual)
        least = middle - SLOW_SPREADS * max(mad, spread * middle)
    bound = matrix.bound or 0.0
    for row, cells in enumerate(matrix.cells):
        for column, value in enumerate(cells):
            if value is not None and value < max(least, bound):
                yield _Slow(matrix, row, column, value, max(middle, bound))


#: What a GPU does in the cells of a row and of a column.
_ACTS = {
    ("read", "row"): "reads from",
    ("read", "column"): "is read by",
    ("write", "row"): "writes to",
    ("write", "column"): "is written by",
}


def _slow_lines(
    gpu: int, between: Iterable[Matrix], slow: Mapping[tuple[str, int, int], _Slow]
) -> dict[str, list[_Slow]]:
    """What a GPU does slowly with every partner -> the cells."""
    found: dict[str, list[_Slow]] = {}
    for matrix in between:
        others = [other for other in range(len(matrix.cells)) if other != gpu]
        for line, places in (
            ("row", [(gpu, other) for other in others]),
            ("column", [(other, gpu) for other in others]),
        ):
            measured = [(r, c) for r, c in places if matrix.cells[r][c] is not None]
            cells = [slow.get((matrix.test, r, c)) for r, c in measured]
            if len(measured) >= LEAST_LINE and all(cells):
                of_line = found.setdefault(_ACTS[matrix.way, line], [])
                of_line += [cell for cell in cells if cell is not None]
    return found


def _pairs(
    between: Sequence[Matrix], slow: Mapping[tuple[str, int, int], _Slow], bad: set[int]
) -> tuple[dict[tuple[int, int], list[_Slow]], list[str]]:
    """The slow links between GPUs that are not bad themselves, and the cells that were slow in one
    matrix and good in another.
    """
    ways: dict[tuple[int, int], list[_Slow]] = {}
    for cell in slow.values():
        is_between = cell.matrix.way in ("read", "write")
        if is_between and not bad.intersection((cell.sender, cell.receiver)):
            ways.setdefault((cell.sender, cell.receiver), []).append(cell)
    pairs: dict[tuple[int, int], list[_Slow]] = {}
    once = []
    for (sender, receiver), cells in sorted(ways.items()):
        measured = sum(
            matrix.cells[r][c] is not None
            for matrix in between
            for r, c in [(receiver, sender) if matrix.way == "read" else (sender, receiver)]
        )
        if len(cells) == measured:
            pair = (min(sender, receiver), max(sender, receiver))
            pairs.setdefault(pair, []).extend(cells)
        else:
            once += [f"{_words(cell)}, good in another test" for cell in cells]
    return pairs, once


def _words(cell: _Slow) -> str:
    """`7.1 GB/s from GPU 1 to GPU 3 in TEST, -82% of the 393.2 expected`."""
    share = cell.value / cell.expected - 1
    ends = {
        "from_host": f"from the host to GPU {cell.column}",
        "to_host": f"from GPU {cell.column} to the host",
    }.get(cell.matrix.way, f"from GPU {cell.sender} to GPU {cell.receiver}")
    return (
        f"{cell.value:.4g} GB/s {ends} in {cell.matrix.test}, {share:+.1%} of the "
        f"{cell.expected:.4g} expected"
    )


def _gpu(
    gpu: int, lines: Mapping[str, list[_Slow]], of_host: Sequence[_Slow], links: int | None
) -> SlowPart:
    cells = [cell for of_line in lines.values() for cell in of_line]
    left = statistics.median(cell.value / cell.expected for cell in cells)
    typical = statistics.median(cell.value for cell in cells)
    why = (
        f"GPU {gpu} is slow wherever it {' or '.join(f'{act} another' for act in lines)}: median "
        f"{typical:.4g} GB/s, {left - 1:+.1%}"
    )
    if links and (missing := _missing_links(1 - left, links)):
        why += f", as without {missing} of its {links} NVLinks"
    if of_host:
        why += f"; also {_words(of_host[0])}"
    return SlowPart("gpu", f"gpu{gpu}", (gpu,), why)


def _missing_links(lost: float, links: int) -> int:
    """The number of links that carry about as much as is missing; 0 where it is none's."""
    missing = round(lost * links)
    return missing if 0 < missing < links and abs(lost * links - missing) < 0.25 else 0


def _link(pair: tuple[int, int], cells: Sequence[_Slow]) -> SlowPart:
    worst = min(cells, key=lambda cell: cell.value / cell.expected)
    both = len({cell.sender for cell in cells}) > 1
    ways = "both ways" if both else "one way"
    why = f"the link between GPU {pair[0]} and GPU {pair[1]} is slow, {ways}: {_words(worst)}"
    return SlowPart("gpu-link", f"gpu{pair[0]}-gpu{pair[1]}", pair, why)


def _host_link(gpu: int, cells: Sequence[_Slow]) -> SlowPart:
    worst = min(cells, key=lambda cell: cell.value / cell.expected)
    why = f"the link between GPU {gpu} and its host is slow: {_words(worst)}"
    return SlowPart("gpu-link", f"gpu{gpu}-host", (gpu,), why)
