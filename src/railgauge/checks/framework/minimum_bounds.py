"""Floors that follow from a system's description: they prove that what it names is there and works,
and no more. `bounds.py` says when they apply.
"""

from __future__ import annotations

import datetime

from railgauge.model import limits
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Provenance, Reference
from railgauge.systems import Extras

#: No more is asked of a stream, in Gb/s: between hosts that nobody tuned one core ends it, long
#: before a fast link does. A choice of ours, on the low side, as a floor must reject no good link.
_UNTUNED_GBITS = 5

#: Of several streams the slowest may carry this part of an even share of the floor.
_STREAM_SHARE = 0.25

#: A healthy rail carries at least this share of what its link can.
_RAIL_SHARE = 0.7

#: Segments that may be sent again, of those of a run at the limit. Beyond it TCP's rate collapses:
#: M. Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", 1997.
_RETRANSMITTED = 0.01


def unstated(extras: Extras) -> list[str] | None:
    """What the description must still say for floors to follow from it; None where it asks for
    none (`floor_share`).
    """
    if extras.floor_share is None:
        return None
    return [f for f in ("link_gbits", "mtu_bytes") if getattr(extras, f) is None]


def of_link(
    measurement: Measurement, extras: Extras, system: str, seconds: float
) -> Reference | None:
    """The floor of one of TCP's metrics over the link that `extras` describes.

    None where the description does not ask for floors (`floor_share`), or not say what the link is,
    and for metrics of which the link says nothing. `seconds` is how long the tool runs.
    """
    share, rate, mtu = extras.floor_share, extras.link_gbits, extras.mtu_bytes
    if share is None or rate is None or mtu is None:
        return None
    limit = limits.tcp(rate, mtu)
    streams = measurement.streams or 1
    least = min(share, _UNTUNED_GBITS * streams / limit.value)
    segments = limit.value * 1e9 / 8 * seconds / (mtu - limits.TCP_HEADERS_BYTES)
    # The value, and how far below or above it a measurement may be.
    bounds: dict[str, tuple[float, float | None, float | None]] = {
        "bandwidth": (limit.value, least - 1, None),
        "stream_bandwidth_min": (limit.value / streams, least * _STREAM_SHARE - 1, None),
        "retransmits": (segments * _RETRANSMITTED, None, 0),
    }
    if measurement.metric not in bounds:
        return None
    value, lower, upper = bounds[measurement.metric]
    return Reference(
        value=value,
        lower=lower,
        upper=upper,
        unit=measurement.unit,
        kind="floor",
        note=f"{least:.0%} of {limit.reason}: function only",
        provenance=Provenance(
            source=f"configs/systems/{system}/reframe.yaml: link_gbits, mtu_bytes, floor_share",
            date=datetime.date.today(),
        ),
    )


def of_rail(measurement: Measurement, limit: Limit, system: str) -> Reference:
    """The floor of a rail, a share of the limit of its link."""
    return Reference(
        value=limit.value,
        lower=_RAIL_SHARE - 1,
        unit=measurement.unit,
        kind="floor",
        note=f"{_RAIL_SHARE:.0%} of the limit: {limit.reason}",
        provenance=Provenance(
            source=f"configs/systems/{system}/reframe.yaml: line_gbits",
            date=datetime.date.today(),
        ),
    )


def of_count(measurement: Measurement, count: int, source: str) -> Reference:
    """Exactly so many, as a file of the system's description says, `source`."""
    return Reference(
        value=count,
        lower=0,
        upper=0,
        unit=measurement.unit,
        kind="floor",
        provenance=Provenance(source=source, date=datetime.date.today()),
    )


def at_least(measurement: Measurement, count: int, source: str) -> Reference:
    """So many or more, as a file of the system's description says, `source`."""
    return of_count(measurement, count, source).model_copy(update={"upper": None})
