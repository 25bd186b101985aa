"""Whether an iperf2 run is believed, and what it measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Completeness, Moved, Reading
from railgauge.tools.common.sides import collect
from railgauge.tools.iperf2.options import TOOL, Options
from railgauge.tools.iperf2.result import BYTES_SLACK, SLACK, SUM_SHORTER, Output, Stream
from railgauge.tools.iperf2.text import parse

# iperf ends a stream at the first write after its time; a stream that took much longer hung. A
# server starts a stream's clock when it comes to accept it, and its last one of sixteen half a run
# late on a busy machine: that nothing is lost is seen from the bytes and from the client's clock,
# and the time of the whole run makes no rate too high.
_SHORT, _SHORT_S, _LONG, _LONG_S = 0.95, 0.25, 1.1, 1.0
# Times of connections are printed to 1 ms; what is less is the same.
_SAME = 1.002
#: So much longer than by the server's clock a run of several streams takes at most without a
#: server that came late: half of what a limit may be exceeded by.
_LATE = 1.005


def read(
    client: str,
    *,
    server: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
) -> Reading:
    """Judges all that is known of one run; never raises for what a tool or a job wrote.

    Proved only with both calls at exit 0, the server's output and the options, all in agreement.
    Evidence that is not given leaves the reading unknown; evidence that contradicts refuses it.
    """
    sides = collect(TOOL, parse, client, server, calls, options)
    names, outputs, complaints = sides.names, sides.outputs, sides.complaints
    runs = _runs(outputs) if sides.parsed else []
    if sides.parsed:
        complaints += _direction_complaints(outputs, options, names)
    for run in runs:
        for role, output in run.items():
            sides.complain_of_role(role, output.role)
            complaints += [f"{names[role]}: {why}" for why in _complaints(output, options)]
            sides.complain_of_time(role, output.total.duration_s, "its rows span")
        if len(run) == 2:
            ends = "client", "server"
            sender, receiver = ends if run["client"].direction == "forward" else ends[::-1]
            named = {"client": names[sender], "server": names[receiver]}
            complaints += _disagreements(run[sender], run[receiver], named)
    notes = tuple(
        f"{names[role]}: [{stall.id}] moved nothing from {stall.start_s:g} to {stall.end_s:g} s, "
        f"{stall.end_s - stall.start_s:g} s long"
        for run in runs
        for role, output in run.items()
        for stall in output.stalls
    )
    if complaints:
        reason, moved = "; ".join(dict.fromkeys(complaints)), tuple(map(_moved, runs))
        return Reading.invalid(reason, notes=notes, moved=moved)
    measured = _receiver(runs[0])
    seen = _seen(runs[0], measured)
    if measured.udp and not measured.received:
        reason = f"{names['client']}: no report of the server: UDP rows say only what was sent"
        return Reading.invalid(reason, Completeness.UNKNOWN, seen=seen)
    return Reading.valid(
        f"{measured.stream_count} stream(s) over {measured.total.duration_s:.1f} s: "
        "client and server ended with exit code 0 and agree on the bytes",
        [*sides.missing, *dict.fromkeys(what for run in runs for what in _missing(run, options))],
        tuple(m for run in runs for m in _measurements(run, sides.nodes, options)),
        seen,
        notes=notes,
        moved=tuple(map(_moved, runs)),
    )


def _runs(outputs: Mapping[str, Output]) -> list[dict[str, Output]]:
    """The outputs by role, for every direction that the client's has."""
    return [
        {
            role: way
            for role, output in outputs.items()
            for way in output.ways
            if way.direction == ours.direction
        }
        for ours in outputs["client"].ways
    ]


def _receiver(run: Mapping[str, Output]) -> Output:
    """The output of the side that the bytes went to, where it is there."""
    forward = run["client"].direction == "forward"
    return run.get("server", run["client"]) if forward else run["client"]


def _moved(run: Mapping[str, Output]) -> Moved:
    """What went over the network in one direction, as its receiver counts it."""
    total = _receiver(run).total
    to: Literal["server", "client"] = "client"
    if run["client"].direction == "forward":
        to = "server"
    return Moved(total.transferred_bytes, _seconds(run, total), to)


def _seconds(run: Mapping[str, Output], row: Stream) -> float:
    """How long what the receiver's row counts took: by its own clock, or that of the whole run
    where that started well before.

    On a busy machine a server comes to a stream late, and a client to its end. So the time is the
    server's, from its first stream to the end of the last one, and what was sent before the first.
    The run began no earlier than any of its streams says: so much before the server came to it as
    it lacks to the client's, later by what the client itself began it after the others. Where
    connections have no times, or there is one stream, it is the client's.
    """
    client, server = run["client"], _receiver(run)
    whole = client.total.duration_s
    ours, theirs = client.clocks, server.clocks
    if server is not client and len(theirs) > 1 and ours.keys() == theirs.keys():
        began = min(clock.began_s for clock in theirs.values())
        wall = max(clock.began_s + clock.seconds for clock in theirs.values()) - began
        first = min(clock.began_s for clock in ours.values())
        if whole < min(clock.seconds for clock in ours.values()):
            # The sum's clock is that of none of its streams.
            whole = max(clock.began_s + clock.seconds for clock in ours.values()) - first
        before = min(
            began - clock.began_s + own.seconds - clock.seconds + own.began_s - first
            for own, clock in ((ours[port], clock) for port, clock in theirs.items())
        )
        whole = min(wall + max(before, 0.0), whole)
        # The sum has the clock of a stream, whichever began when.
        if row is server.total and row.duration_s * _SAME < wall < whole * _SAME:
            return whole if whole > SUM_SHORTER * row.duration_s else wall
        if row is server.total and whole > _LATE * row.duration_s:
            return whole
    return whole if whole > SUM_SHORTER * row.duration_s else row.duration_s


def _rate_gbits_s(run: Mapping[str, Output], row: Stream) -> float:
    if _seconds(run, row) == row.duration_s:
        return row.bandwidth_gbits_s
    return row.transferred_bytes * 8e-9 / _seconds(run, row)


def _direction_complaints(
    outputs: Mapping[str, Output], options: Options | None, names: Mapping[str, str]
) -> list[str]:
    directions = {role: {way.direction for way in output.ways} for role, output in outputs.items()}
    complaints = []
    if len(set(map(frozenset, directions.values()))) > 1:
        ways = " and ".join(f"{names[r]} {'+'.join(sorted(w))}" for r, w in directions.items())
        complaints.append(f"their streams go other ways: {ways}")
    if options is not None:
        requested = {options.direction}
        if options.direction == "both":
            requested = {"forward", "reverse"}
        for role, ways_of_side in directions.items():
            if ways_of_side != requested:
                ways = " and ".join(sorted(ways_of_side))
                wanted = " and ".join(sorted(requested))
                complaints.append(f"{names[role]}: streams {ways}, expected {wanted}")
    return complaints


def _buffered_s(row: Stream, options: Options) -> float:
    """How long what is in the socket buffer when the client stops writing takes, at the row's rate.

    With -w that is twice what was asked for (socket(7), SO_SNDBUF); the kernel's own is smaller.
    """
    if options.window_bytes is None or row.transferred_bytes == 0:
        return 0.0
    return row.duration_s * min(2 * options.window_bytes / row.transferred_bytes, 1)


def _complaints(output: Output, options: Options | None) -> list[str]:
    """What contradicts a good run in one output, by itself and by the options."""
    complaints = []
    still = [row.id for row in (*output.streams, output.total) if row.transferred_bytes == 0]
    if still:
        complaints.append(f"[{still[0]}] moved 0 bytes")
    if output.bounceback_requested and output.role != "server" and output.bounceback is None:
        complaints.append("a bounceback test without exactly one stream")
    if options is None:
        if output.bounceback_requested and output.role == "server":
            complaints.append("the server of a bounceback test prints no latency")
        return complaints
    if output.udp or output.bounceback_requested:
        complaints.append("the options ask for a TCP transfer, found UDP or bounceback")
    if output.stream_count not in (None, options.streams):
        complaints.append(f"{output.stream_count} streams, expected {options.streams}")
    least = 0 if output.role == "server" else _SHORT * options.duration_s - _SHORT_S
    rows = sorted((*output.streams, output.total), key=lambda row: row.duration_s)
    for row in (rows[0], rows[-1]):
        most = _LONG * options.duration_s + _LONG_S + options.drain_s + _buffered_s(row, options)
        if not least <= row.duration_s <= most:
            ran = f"[{row.id}] ran for {row.duration_s:.4g} s"
            complaints.append(f"{ran}, expected {least:g} to {most:g} s")
            break
    if options.congestion is not None and output.role != "server":
        if output.congestion != options.congestion:
            shown = output.congestion or "no congestion control shown"
            complaints.append(f"{shown}, expected {options.congestion}")
    elif options.congestion is not None and output.congestion not in (None, options.congestion):
        complaints.append(f"{output.congestion}, expected {options.congestion}")
    wanted, got = options.window_bytes, output.window_bytes
    if wanted is not None and got is not None and got < wanted * (1 - SLACK):
        limits = "net.core.wmem_max and rmem_max"
        complaints.append(f"a window of {got:.0f} bytes, expected {wanted}: look at {limits}")
    return complaints


def _disagreements(sent: Output, received: Output, side: Mapping[str, str]) -> list[str]:
    complaints = []
    left, arrived = sent.total.transferred_bytes, received.total.transferred_bytes
    if sent.udp != received.udp:
        complaints.append(f"{side['client']} and {side['server']}: one is UDP, the other TCP")
    elif not sent.udp and abs(left - arrived) > BYTES_SLACK * left:
        moved = f"{side['client']} sent {left} bytes but {side['server']} received {arrived}"
        complaints.append(moved)
    if None not in (sent.stream_count, received.stream_count) and (
        sent.stream_count != received.stream_count
    ):
        counts = f"{sent.stream_count} streams of {side['client']}"
        complaints.append(f"{counts} but {received.stream_count} of {side['server']}")
    ours, theirs = sent.client_ports, received.client_ports
    if ours and theirs and ours != theirs:
        complaints.append(f"{side['server']}: its connections are not those of {side['client']}")
    return complaints


def _missing(outputs: Mapping[str, Output], options: Options | None) -> list[str]:
    """What a proof lacks in the outputs themselves."""
    missing = []
    for role, output in outputs.items():
        if output.role != role:
            missing.append(f"a text that names its side ({role})")
        if not output.streams:
            missing.append(f"a row for every stream ({role})")
        elif output.connected != len(output.streams):
            missing.append(f"a 'connected with' line for every stream ({role})")
    # A client cut before its total would leave its first interval in the total's place.
    interval = (options.interval_s if options else None) or 1
    if options is not None and options.duration_s <= interval and not outputs["client"].intervals:
        missing.append("an interval as well as the total (client)")
    return missing


def _seen(outputs: Mapping[str, Output], measured: Output) -> dict[str, Any]:
    seen: dict[str, Any] = {"duration_s": measured.total.duration_s}
    if measured.stream_count is not None:
        seen["streams"] = measured.stream_count
    if mss := [size for output in outputs.values() for size in output.mss_bytes]:
        seen["mss_bytes"] = min(mss)
    if names := [output.congestion for output in outputs.values() if output.congestion]:
        seen["congestion"] = names[0]
    return seen


def _measurements(
    run: Mapping[str, Output], nodes: tuple[str, ...], options: Options | None
) -> tuple[Measurement, ...]:
    client, measured = run["client"], _receiver(run)
    sender = client if client.direction == "forward" else run.get("server")
    transport = "udp" if measured.udp else "tcp"
    operation = "bounceback" if client.bounceback else transport
    if client.direction == "reverse":
        # from server to client
        operation, nodes = f"{operation} reverse", nodes[::-1]
    metrics: dict[str, float] = {}
    if client.bounceback:
        metrics["latency"] = client.bounceback.avg_us
    else:
        metrics["bandwidth"] = _rate_gbits_s(run, measured.total)
        if measured.streams:
            slowest = min(_rate_gbits_s(run, stream) for stream in measured.streams)
            metrics["stream_bandwidth_min"] = slowest
        rows = (sender.streams or (sender.total,)) if sender else ()
        counts = [stream.retransmits for stream in rows]
        known = [count for count in counts if count is not None]
        if known and len(known) == len(counts):
            metrics["retransmits"] = sum(known)
        if options and options.interval_s is not None and measured.intervals:
            metrics["time_to_stable"] = time_to_stable_s(measured.intervals)
    return tuple(
        Measurement(
            metric,
            value,
            TOOL,
            operation,
            transport,
            streams=measured.stream_count,
            nodes=nodes,
            window_bytes=options.window_bytes if options else None,
            congestion=options.congestion if options else None,
        )
        for metric, value in metrics.items()
    )


#: A rate has come to stay where it is this share of what follows.
_STABLE = 0.9


def time_to_stable_s(intervals: Sequence[Stream]) -> float:
    """Seconds until the first interval that has 90 % of the median rate of the run's second half.

    The resolution is the length of an interval. ValueError where there are none.
    """
    if not intervals:
        raise ValueError("no intervals to find a stable rate in")
    rates = [interval.bandwidth_gbits_s for interval in intervals]
    stable = statistics.median(rates[len(rates) // 2 :])
    return next(i.start_s for i in intervals if i.bandwidth_gbits_s >= _STABLE * stable)
