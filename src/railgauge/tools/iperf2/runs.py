"""Whether an output of iperf2 is that of one run: a server that is left running takes several."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from railgauge.tools import ParseError

#: `-y C` prints the end of an interval, to 1 s without -e, and its length to 0.1 s.
_CSV_SLACK_S = 1.2
_CSV_TIME = re.compile(r"(?:[-+][0-9]{4}:)?([0-9]{14})(\.[0-9]{1,9})?")


class Connection(NamedTuple):
    line: int
    id: str
    #: None where the output does not say when
    began_s: float | None


class Total(NamedTuple):
    line: int
    #: of the first row of its stream, and whether that is an interval
    first_line: int
    after_intervals: bool
    duration_s: float
    #: None where the output does not say when
    ended_s: float | None


def require_one_run(connections: Sequence[Connection], totals: Mapping[str, Total]) -> None:
    """ParseError where a stream begins after the totals of all that began before it.

    One of them alone may be starved, and end before a busy server comes to the others. Times show
    it where connections have them: a busy machine prints lines late. `totals` are by stream.
    """
    known: dict[str, Connection] = {}
    for connection in connections:
        if connection.id in known:
            raise _several(connection.line, f"[{connection.id}] connects twice")
        known[connection.id] = connection
    timed = [(c.began_s, c) for c in known.values() if c.began_s is not None]
    if len(timed) == len(known):
        _require_overlap([(began, _end(began, totals.get(c.id)), c) for began, c in timed])
    else:
        _require_overlap([(c.line, _line(totals.get(c.id)), c) for c in known.values()])
    if not known:
        ends = [(_began(total), total.ended_s, total) for total in totals.values()]
        _require_overlap([(began, end, t) for began, end, t in ends if end is not None])
        _require_overlap(
            [(t.first_line if t.after_intervals else 0, t.line, t) for t in totals.values()]
        )


def _require_overlap(spans: Sequence[tuple[float, float, Connection | Total]]) -> None:
    """`spans` are of streams: when each began and ended, in any unit, and what says so."""
    latest: float | None = None
    for began, end, stream in sorted(spans, key=lambda span: span[0]):
        if latest is not None and began > latest:
            raise _several(stream.line, "a stream begins after the total of those before it")
        latest = end if latest is None else max(latest, end)


def _end(began_s: float, total: Total | None) -> float:
    return math.inf if total is None else began_s + total.duration_s


def _line(total: Total | None) -> float:
    return math.inf if total is None else total.line


def _began(total: Total) -> float:
    return 0.0 if total.ended_s is None else total.ended_s - total.duration_s - _CSV_SLACK_S


def require_own_ports(line: int, row: Mapping[str, str], known: dict[str, list[str]]) -> None:
    """ParseError where a row of csv is of a stream that had other ports: another run's. `known` are
    those of streams by id; what a server reports of UDP has its own end first.
    """
    ports = sorted(row.get(name, "") for name in ("srcport", "dstport"))
    name = row.get("transferid", "")
    if name != "-1" and known.setdefault(name, ports) != ports:
        raise _several(line, f"[{name}] has other ports than above")


def csv_time_s(text: str) -> float | None:
    """The seconds of a time of `-y C`; None where it is none."""
    matched = _CSV_TIME.fullmatch(text)
    if matched is None:
        return None
    try:
        whole = datetime.datetime.strptime(f"{matched[1]}+0000", "%Y%m%d%H%M%S%z")
    except ValueError:
        return None
    return whole.timestamp() + float(matched[2] or 0)


def _several(line: int, what: str) -> ParseError:
    expected = "the output of one run: start a server for each"
    return ParseError(line, f"several runs: {what}", expected)
