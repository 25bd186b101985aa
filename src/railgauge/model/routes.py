"""The routes between leaves, as a table has them: columns leaf,destination,spine, and source."""

from __future__ import annotations

from typing import NamedTuple

from railgauge.common.table import quote, read_lines


class Route(NamedTuple):
    """Data for `destination`, a node or rail, leaves `leaf` by `spine`: from `source`, or from all
    nodes of the leaf where it is "".
    """

    leaf: str
    source: str
    destination: str
    spine: str


def parse(text: str) -> list[Route]:
    """The routes of a table; TableError where it is none, or one route has two spines."""
    spines: dict[tuple[str, str, str], str] = {}
    for line in read_lines(text, ("leaf", "destination", "spine"), ("source",)):
        for column in ("leaf", "destination", "spine"):
            if not line[column]:
                raise line.error(column, "a name")
        key = (line["leaf"], line["source"], line["destination"])
        known = spines.setdefault(key, line["spine"])
        if known != line["spine"]:
            raise line.error("spine", f"{quote(known)}, as another line of this destination has")
    return [Route(*key, spine) for key, spine in spines.items()]
