"""Slurm host lists (`n[1-4]`), by ClusterShell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError

from railgauge.common.names import natural
from railgauge.common.ranges import fold_numbers

_COMMA = re.compile(r",(?![^\[]*\])")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
#: More names than any cluster has nodes: a range with a digit too many would take minutes.
MOST_NAMES = 100_000
#: Difference, intersection and the like hold for the whole list.
_OPERATORS = re.compile(r"[!&^]")


def expand(hostlist: str) -> tuple[str, ...]:
    """`n[1-3]` -> (n1, n2, n3), `b[1-2],a1` -> (b1, b2, a1): in the order of its parts.

    ValueError where it is not a host list or names no host.
    """
    _refuse_groups(hostlist)
    # NodeSet sorts all of it; a comma within brackets parts nothing.
    parts = [hostlist] if _OPERATORS.search(hostlist) else _COMMA.split(hostlist)
    if len(parts) > 1 and not all(part.strip() for part in parts):
        raise ValueError("not a host list: nothing between two commas")
    for part in parts:
        # ClusterShell would make `n[1-2] n[3-4]` four names with a blank in each.
        if len(part.split()) > 1:
            raise ValueError(f"not a host list: a blank in {part.strip()!r}, expected a comma")
    if (count := sum(map(_size, parts))) > MOST_NAMES:
        raise ValueError(f"not a host list: {count:,} names, expected at most {MOST_NAMES:,}")
    try:
        sets = [NodeSet(part, resolver=RESOLVER_NOGROUP) for part in parts]
        names = tuple(dict.fromkeys(str(name) for part in sets for name in part))
    except NodeSetParseError as error:
        raise ValueError(f"not a host list: {error}") from None
    if not names:
        raise ValueError("an empty host list")
    return names


def _refuse_groups(text: str) -> None:
    """Reject ClusterShell node groups: they differ per host."""
    if "@" in text:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise ValueError(
            f"not a host list: an @ in {shown!r}, expected names such as n[1-4]: groups of "
            "ClusterShell are not read"
        )


def _size(part: str) -> int:
    """How many names a part of a host list has, before any of them is made."""
    size = 1
    for inside in _BRACKETS.findall(part):
        ends = [word.partition("/")[0].partition("-") for word in inside.split(",")]
        sizes = [
            int(last) - int(first) + 1 if first.isdecimal() and last.isdecimal() else 1
            for first, _, last in ends
        ]
        size *= max(sum(sizes), 1)
    return size


def fold(names: Iterable[str]) -> str:
    """(n1, n2, n3) -> `n[1-3]`; ValueError of a name that cannot stand in a host list.

    Names with text after their last number stay as they are: Slurm 22.05 refuses `gpu-[01-02]a`.
    """
    try:
        folded = str(NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP))
    except NodeSetParseError as error:
        raise ValueError(f"not a name of a node: {error}") from None
    return ",".join(map(_for_slurm, _COMMA.split(folded)))


def _for_slurm(word: str) -> str:
    if "[" not in word or word.endswith("]"):
        return word
    return ",".join(map(str, NodeSet(word, resolver=RESOLVER_NOGROUP)))


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, n2 before n10."""
    return tuple(sorted(set(names), key=lambda name: (natural(name), name)))


def fold_ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, or `ranks 1-3, 7`."""
    return f"rank{'' if len(ranks) == 1 else 's'} {fold_numbers(ranks)}"
