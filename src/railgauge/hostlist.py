"""Slurm host lists (`n[1-4]`), by ClusterShell."""

from __future__ import annotations

from collections.abc import Iterable

from ClusterShell.NodeSet import NodeSet, NodeSetParseError


def expand(hostlist: str) -> tuple[str, ...]:
    """`n[1-3]` -> (n1, n2, n3); ValueError where it is not a host list or names nobody."""
    try:
        names = tuple(str(name) for name in NodeSet(hostlist))
    except NodeSetParseError as error:
        raise ValueError(f"not a host list: {error}") from None
    if not names:
        raise ValueError("an empty host list")
    return names


def fold(names: Iterable[str]) -> str:
    """(n1, n2, n3) -> `n[1-3]`."""
    return str(NodeSet.fromlist(list(names)))
