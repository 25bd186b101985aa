"""The GPUs of nodes in the page: a heat map of each matrix of copies."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from railgauge.common.names import natural
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.decision.verdict import Verdict

#: What the page shows at most. Nodes with a slow part come first.
MOST_NODES = 64

#: The loss against the middle of a matrix, as a share, from which a cell has the next colour.
_STEPS = (0.01, 0.03, 0.06, 0.2)

#: What a row and a column of a matrix are.
_TITLES = {
    "from_host": "from the host, to the GPU of the column",
    "to_host": "to the host, from the GPU of the column",
    "read": "the GPU of the row reads from that of the column",
    "write": "the GPU of the row writes to that of the column",
}


class GpuCell(NamedTuple):
    """A copy: its colour (`s0` to `s4`), whether a slow part has it, and its GB/s or `-`."""

    colour: str
    is_slow: bool
    words: str


class GpuMap(NamedTuple):
    """A matrix, by the names of its columns; each row has a name and its cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[GpuCell, ...]], ...]


class GpusOfNode(NamedTuple):
    """The matrices of a node, and why parts of it are slow."""

    node: str
    slow: tuple[str, ...]
    maps: tuple[GpuMap, ...]


class Gpus(NamedTuple):
    """The nodes with matrices, those with a slow part first, and how many are left out."""

    nodes: tuple[GpusOfNode, ...]
    left_out: int


def gpus(verdict: Verdict) -> Gpus:
    """The last matrices of each node of the campaign."""
    last: dict[str, Mapping[str, Any]] = {}
    for case in verdict.cases:
        for where, copies in _copies(case):
            last[where] = copies
    nodes = sorted(last, key=lambda node: (not last[node].get("parts"), natural(node)))
    shown = tuple(_of_node(node, last[node]) for node in nodes[:MOST_NODES])
    return Gpus(shown, len(nodes) - len(shown))


def _copies(case: Case) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A node, or two with the copies between their GPUs, and what was copied there."""
    for node, facts in case.facts.items():
        for kind, where in (("copies", node), ("copies_between", " and ".join(case.nodes))):
            copies = facts.get(kind)
            if isinstance(copies, Mapping) and copies.get("matrices"):
                yield where, copies


def _of_node(node: str, copies: Mapping[str, Any]) -> GpusOfNode:
    parts: Sequence[Mapping[str, Any]] = copies.get("parts", ())
    names = copies.get("names")
    maps = tuple(_map(matrix, parts, names) for matrix in copies["matrices"])
    return GpusOfNode(node, tuple(part["why"] for part in parts), maps)


def _map(
    matrix: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], names: Sequence[str] | None
) -> GpuMap:
    """`names` are those of the GPUs where they are of several nodes."""
    way, cells = matrix["way"], matrix["cells"]
    columns = names or [f"GPU {c}" for c in range(len(cells[0]) if cells else 0)]
    of_host = way in ("from_host", "to_host")
    values = [value for row in cells for value in row if value is not None]
    middle = statistics.median(values) if values else 0.0
    rows = tuple(
        (
            "host" if of_host else columns[r],
            tuple(
                _cell(value, middle, _is_slow({c} if of_host else {r, c}, of_host, parts))
                for c, value in enumerate(row)
            ),
        )
        for r, row in enumerate(cells)
    )
    return GpuMap(f"{matrix['test']}: {_TITLES[way]}", tuple(columns), rows)


def _cell(value: float | None, middle: float, is_slow: bool) -> GpuCell:
    if value is None:
        return GpuCell("s0", False, "-")
    lost = 1 - value / middle if middle else 0.0
    return GpuCell(f"s{sum(lost >= step for step in _STEPS)}", is_slow, f"{value:.4g}")


def _is_slow(ends: set[int], of_host: bool, parts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a slow part has the cell: a GPU or link between GPUs, a host link with the host."""
    for part in parts:
        if of_host and part["name"].endswith("-host"):
            is_of = ends <= set(part["gpus"])
        elif of_host or part["name"].endswith("-host"):
            continue
        elif part["kind"] == "gpu":
            is_of = not ends.isdisjoint(part["gpus"])
        else:
            is_of = ends == set(part["gpus"])
        if is_of:
            return True
    return False
