"""What went between two nodes, by their devices, and below what a pair is bad."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from railgauge.common.spread import NORMAL
from railgauge.node.system.counter_sampler import PERIOD_S
from railgauge.node.system.counters import RESENT

#: Pairs that a round needs at least for one of them to be judged by the others.
LEAST_PAIRS = 4

#: Retest pairs this many deviations below the median (false retests: 1 in 160).
DEVIATIONS = 2.5

#: Two counts of the same bytes differ by less than this leaves.
_SAME = 0.99

#: Times that differ by less may be the same: each begins and ends within a period.
_SHORT_S = 2.5 * PERIOD_S

#: A client that takes so many times what usual ones do has a stream that crawls, too slow to be
#: traffic that is under way: of several streams those of one bad uplink, while the others fill the
#: link as long as they last.
_CRAWLING = 1.5


class InterfaceRate(NamedTuple):
    """What the busiest device of a side carried in its busier direction, headers included: the mean
    over the call, the tool's own start and end in it; and where the device was sampled for long
    enough, the rate while it was under way, and for how long that was, 0 where its counter does not
    count. `seconds` are the call's.
    """

    mean_gbits: float
    steady_gbits: float | None = None
    moving_s: float = 0.0
    seconds: float = 0.0


def carried(line: Mapping[str, Any]) -> InterfaceRate | None:
    """By the exit line of a side; None where it is not known."""
    seconds = line["call"]["seconds"]
    counters = line.get("facts", {}).get("counters")
    counters = counters if isinstance(counters, dict) else {}
    moved = counters.get("bytes", {})
    ways = [(n, name, way) for name in moved if name != "lo" for way, n in moved[name].items()]
    if not ways or not seconds > 0:
        return None

    def sampled(what: str, name: str, way: str) -> Any:
        devices = counters.get(what, {})
        return devices.get(name, devices.get(f"net/{name}", {})).get(way)

    most = max(ways)[0]
    # One NIC's bytes may be counted twice, in other units, and sampled once.
    steady, _, name, way = max(
        (sampled("steady_gbits", name, way) or 0.0, n, name, way)
        for n, name, way in ways
        if n >= most * _SAME
    )
    mean = most * 8 / seconds / 1e9
    return InterfaceRate(mean, steady or None, sampled("moving_s", name, way) or 0.0, seconds)


def rates(places: Mapping[Any, Mapping[str, InterfaceRate]]) -> dict[Any, float]:
    """The rate at places under one condition, each with what its sides carried, by their roles.

    It is the rate while traffic was under way, by the slower side, as the sender counts what it
    sends again. A place that sent for a shorter time, as a link came late or went early,
    has no more for that. Where not all places were sampled for long enough, it is for all of them
    what arrived, over the whole time of the client; and so it is of a client that took far longer
    than the others.
    """
    slower = {
        place: min(known, key=operator.attrgetter("steady_gbits"))
        for place, sides in places.items()
        if (known := [side for side in sides.values() if side.steady_gbits is not None])
    }
    if len(slower) < len(places):
        return {place: _arrived(sides) for place, sides in places.items()}
    known_s = [side.moving_s for side in slower.values() if side.moving_s]
    usual_s = statistics.median(known_s) if known_s else 0.0
    calls_s = [sides["client"].seconds for sides in places.values()]
    longest_s = _CRAWLING * statistics.median(calls_s) if calls_s else 0.0
    steady = {
        place: (side.steady_gbits or 0.0)
        * (side.moving_s / usual_s if 0 < side.moving_s < usual_s - _SHORT_S else 1.0)
        for place, side in slower.items()
    }
    late = {p: _arrived(of) for p, of in places.items() if of["client"].seconds > longest_s}
    return {**steady, **late}


def _arrived(sides: Mapping[str, InterfaceRate]) -> float:
    """The rate (Gb/s) of what both sides carried, over the client's time."""
    client = sides["client"]
    least = min(side.mean_gbits * side.seconds for side in sides.values())
    return least / client.seconds if client.seconds else client.mean_gbits


def resent(line: Mapping[str, Any]) -> int:
    """The TCP segments that the node of a side sent again, for all programs, by its exit line."""
    below: Any = line
    for name in ("facts", "counters", "counters", RESENT):
        below = below.get(name) if isinstance(below, dict) else None
    return below if isinstance(below, int) else 0


def bound(rates: Sequence[float | None], slower: float) -> float:
    """The rate (Gb/s) below which a pair of a round is bad: the share `slower` below the median of
    all pairs; 0 where there are too few.
    """
    known = [rate for rate in rates if rate is not None]
    if len(known) < LEAST_PAIRS or not slower:
        return 0.0
    return (1 - slower) * statistics.median(known)


def bound_since(shares: Sequence[float | None], change: float) -> float:
    """The share of what went there before, below which a pair is bad: `change` below the median of
    all pairs. Where the pairs differ by little, half of it: one run does not show
    whether that is the change. Those above the median show how much they differ: a fault, or a
    host that stops for a moment, makes pairs slower, many at once, and none faster.
    """
    known = [share for share in shares if share is not None]
    if len(known) < LEAST_PAIRS or not change:
        return 0.0
    median = statistics.median(known)
    if not median:
        return 0.0
    above = [share - median for share in known if share > median]
    sd = NORMAL * statistics.median(above) if above else 0.0
    return bound(known, min(change, max(change / 2, DEVIATIONS * sd / median)))


def most_resent(segments: Sequence[int], most: float) -> float:
    """The segments above which a pair is bad that may send `most` again: as many more as the node
    of a usual pair does, for whatever else it sends.
    """
    return most + (statistics.median(segments) if len(segments) >= LEAST_PAIRS else 0)
