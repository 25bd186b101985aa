"""The bytes that a tool claims to have moved, against the counters of the node's own devices.

Every result is measured twice. A tool that counts wrongly, or was made to, prints any number; the
byte counters of the interface or RDMA port that it names are independent of it. Pure: claims come
from a check, records from `railgauge.node.system.counter_watch.Watch`.

The tolerance follows from the limit model: no counter shows less than the payload, and none more
than the payload with the headers of its layer and with retransmissions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from railgauge.model.reported_traffic import Claim, Counted
from railgauge.node.system.counter_sampler import PERIOD_S, WINDOW_S

#: The tolerance for rounding, and for the clocks of tool and counter.
_SLACK = 0.01
#: The tolerance for what leaves after the last reading, or is shown rounded; smaller claims are not
#: judged.
_SLACK_BYTES = 2**20
#: Beside the headers a counter shows retransmissions, and a job's own small traffic: this share and
#: these bytes. More than that was somebody else's.
_SENT_AGAIN = 0.25
_OTHERS_BYTES = 2**26
#: The missing bytes went over another device that counted this share of them.
_WENT = 0.5

#: A node's record of a test, as `Watch.stop` leaves it.
Record = Mapping[str, Any]


class Contradiction(NamedTuple):
    """Why a claim is not believed: a kind of failure, the message, and the next step."""

    kind: str
    message: str
    next_step: str


class _Carried(NamedTuple):
    """The counts of devices: bytes, the sum of their peaks in Gb/s, and their counters' names."""

    counted_bytes: int
    peak_gbits: float | None
    names: tuple[str, ...]


def contradictions(claim: Claim, record: Record) -> Iterator[Contradiction]:
    """The contradictions of the node's counters to a claim; none for less than 1 MiB."""
    if claim.payload_bytes <= _SLACK_BYTES:
        return
    carried = _carried(claim, record)
    if carried is None:
        yield Contradiction(
            "counters-unread",
            f"no bytes counted by {_named(claim) or 'any device'} of {claim.node}, over which "
            f"{claim.tool} says it moved {_gb(claim.payload_bytes)}",
            f"ls /sys/class/net/*/statistics /sys/class/infiniband/*/ports/*/counters "
            f"on {claim.node}",
        )
        return
    mean_gbits = 8e-9 * claim.payload_bytes / claim.seconds if claim.seconds > 0 else 0.0
    counted_by = ", ".join(_shown((name,)) for name in carried.names)
    beneath = f" (by {counted_by})" if counted_by != _named(claim) else ""
    message = (
        f"{claim.tool} says it moved {_gb(claim.payload_bytes)} in {claim.seconds:.3g} s "
        f"({mean_gbits:.3g} Gb/s), {_named(claim)}{beneath} of {claim.node} "
        f"{_verb(claim.direction)} {_gb(carried.counted_bytes)}"
    )
    if carried.peak_gbits is not None:
        message += f", at most {carried.peak_gbits:.3g} Gb/s"
    missing = (1 - _SLACK) * claim.payload_bytes - _SLACK_BYTES - carried.counted_bytes
    gap_s = max(record.get("sampler_gap_s", 0), PERIOD_S)
    if missing > 0 or _is_faster(mean_gbits, claim.seconds, carried.peak_gbits, gap_s):
        elsewhere = _elsewhere(claim, record, _WENT * missing) if missing > 0 else ""
        elsewhere = elsewhere and f"; in the same time {elsewhere}: the traffic took that way"
        yield Contradiction(
            "counters",
            f"counters contradict: {message}{elsewhere}",
            f"ip route get from {claim.node} to its peer; which file and package is the tool?"
            if elsewhere
            else "which file and package is the tool? compare with another tool",
        )
    elif claim.wire_bytes is not None:
        most = (1 + _SENT_AGAIN) * claim.wire_bytes + _OTHERS_BYTES
        if carried.counted_bytes > most:
            yield Contradiction(
                "counters-exceeded",
                f"not alone: {message}, expected at most {_gb(most)} with headers",
                f"who else uses {claim.node}? squeue --nodelist={claim.node}",
            )
    elif claim.related is not None:
        least = _SENT_AGAIN * claim.payload_bytes + _OTHERS_BYTES
        if elsewhere := _elsewhere(claim, _without_loopback(record), least):
            yield Contradiction(
                "counters-elsewhere",
                f"not alone: {message}; in the same time {elsewhere}, which it was not to use",
                f"who else uses {claim.node}? squeue --nodelist={claim.node}; NCCL_IB_HCA and "
                "NCCL_SOCKET_IFNAME in the logs",
            )


def _is_faster(mean_gbits: float, seconds: float, peak_gbits: float | None, gap_s: float) -> bool:
    """Whether a mean over `seconds` is above what a peak allows.

    The windows of the sampler lie side by side over the whole run, and reach beyond it by one
    window and a reading at either end: nothing in that time was moved faster than the peak.
    """
    if peak_gbits is None:
        return False
    return mean_gbits * (1 - _SLACK) * seconds / (seconds + WINDOW_S + 2 * gap_s) > peak_gbits


def _carried(claim: Claim, record: Record) -> _Carried | None:
    """The counts of the claim's devices; None where one of them has no count."""
    candidates = []
    for direction in ("rx", "tx") if claim.direction == "either" else (claim.direction,):
        of_devices = [_device(ways, direction, record) for ways in claim.devices]
        known = [device for device in of_devices if device is not None]
        if known and len(known) == len(of_devices):
            peaks = [device.peak_gbits for device in known if device.peak_gbits is not None]
            candidates.append(
                _Carried(
                    sum(device.counted_bytes for device in known),
                    sum(peaks) if len(peaks) == len(known) else None,
                    tuple(name for device in known for name in device.names),
                )
            )
    return max(candidates, key=lambda carried: carried.counted_bytes, default=None)


def counted(ways: Sequence[Counted], direction: str, record: Record) -> int | None:
    """The bytes of one device in a direction, `rx` or `tx`; None where it has no count."""
    device = _device(ways, direction, record)
    return None if device is None else device.counted_bytes


def _device(ways: Sequence[Counted], direction: str, record: Record) -> _Carried | None:
    """The counts of one device, by the counters that show most."""
    moved, peaks = record.get("bytes", {}), record.get("peak_gbits", {})
    candidates = []
    for names in ways:
        counts = [moved.get(name, {}).get(direction) for name in names]
        if counts and None not in counts:
            rates = [peaks.get(_sampled(name), {}).get(direction) for name in names]
            peak = None if None in rates else sum(rates)
            candidates.append(_Carried(sum(counts), peak, tuple(names)))
    return max(candidates, key=lambda carried: carried.counted_bytes, default=None)


def _sampled(name: str) -> str:
    """The name under which peaks are kept: `net/` before an interface."""
    return name if "/" in name else f"net/{name}"


def _elsewhere(claim: Claim, record: Record, least: float) -> str:
    """The other devices of the node that carried so many bytes, in words; "" where none did."""
    own = {name for ways in claim.devices for names in ways for name in names}
    own |= {*(claim.related or ()), *(f"ethtool/{name}" for name in claim.related or ())}
    most_by_device = {}
    for name, ways in record.get("bytes", {}).items():
        directions = ("rx", "tx") if claim.direction == "either" else (claim.direction,)
        most = max((ways.get(direction, 0) for direction in directions), default=0)
        if name not in own and most >= least:
            most_by_device[name] = most
    return ", ".join(
        f"{_shown((name,))} {_gb(most)}" for name, most in sorted(most_by_device.items())
    )


def _without_loopback(record: Record) -> Record:
    """The record without `lo`: its traffic crosses no link, and takes nothing from one."""
    return {"bytes": {n: ways for n, ways in record.get("bytes", {}).items() if n != "lo"}}


def _named(claim: Claim) -> str:
    """The names of the claim's devices, by the first counter of each."""
    return ", ".join(_shown(ways[0]) for ways in claim.devices)


def _shown(names: Counted) -> str:
    """The device's name: `mlx5_0` of `rdma/mlx5_0/1`, `eth0`."""
    return "+".join(name.split("/")[1] if "/" in name else name for name in names)


def _verb(direction: str) -> str:
    return {"rx": "received", "tx": "sent"}.get(direction, "received or sent")


def _gb(count: float) -> str:
    return f"{count / 1e9:.3g} GB"
