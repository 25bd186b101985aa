"""What a careful person takes from a run of iperf3, by all that is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Completeness, Moved, Reading
from railgauge.tools.common.sides import collect
from railgauge.tools.iperf3.options import TOOL, Options
from railgauge.tools.iperf3.result import Flow, Output
from railgauge.tools.iperf3.text import parse

# iperf3 ends at its time; what a server still gets then is not counted.
_SHORT, _LONG, _EDGE_S = 0.95, 1.1, 1.0
# What is counted in two ways may differ by this.
_SLACK = 0.01
# What a client alone says to have sent more than arrived, where it may still be in buffers.
_LOST, _BUFFER_BYTES = 0.1, 8 * 2**20


def read(
    client: str,
    *,
    server: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
    parse: Callable[[str], Output] = parse,
) -> Reading:
    """Judges all that is known of one run; never raises for what a tool or a job wrote.

    A client's whole document proves that the run came to its end, where its totals, intervals and
    duration are there and agree, and nearly all that it sent has arrived; the server's document
    proves the latter too. A text's numbers are rounded, and it does not say what was asked for: it
    proves nothing by itself. Evidence that contradicts it refuses; without exit codes, the server's
    document and the options the reading says that they were not there.
    """
    sides = collect(TOOL, parse, client, server, calls, options)
    names, outputs, complaints = sides.names, sides.outputs, sides.complaints
    for role, output in outputs.items():
        sides.complain_of_role(role, output.role)
        complaints += [f"{names[role]}: {why}" for why in _complaints(output, options)]
        for own in filter(None, (flow.sent or flow.received for flow in output.flows[:1])):
            sides.complain_of_time(role, own.duration_s, "its run")
    if len(outputs) == 2:
        complaints += _disagreements(outputs["client"], outputs["server"], names)
    simulated = any(output.simulated for output in outputs.values())
    if complaints:
        return Reading.invalid("; ".join(complaints), simulated=simulated)
    measured = [flow for reverse in (False, True) if (flow := _best(outputs, reverse)) is not None]
    seen = _seen(outputs, measured)
    reason = _summary(outputs["client"].stream_count, measured)
    # A whole document is a proof by itself: it exists only after the end of the run.
    if sides.missing:
        reason += "; not known: " + ", ".join(sides.missing)
    doubts = _doubts(outputs)
    if doubts:
        reason += "; not proved: " + ", ".join(doubts)
    return Reading(
        True,
        reason,
        Completeness.UNKNOWN if doubts else Completeness.PROVED,
        tuple(_measurements(measured, outputs, sides.nodes, options, simulated)),
        seen,
        simulated,
        notes=tuple(_notes(outputs, measured)),
        moved=tuple(
            Moved(
                flow.received.transferred_bytes,
                flow.received.duration_s,
                "client" if flow.reverse else "server",
            )
            for flow in measured
            if flow.received
        ),
    )


def _best(outputs: Mapping[str, Output], reverse: bool) -> Flow | None:
    """The direction as its receiver has it, or else as the sender reports it."""
    flows = [
        (output.sends(flow), flow)
        for output in outputs.values()
        for flow in output.flows
        if flow.reverse is reverse and flow.received is not None
    ]
    return min(flows, key=lambda known: known[0])[1] if flows else None


def _seen(outputs: Mapping[str, Output], measured: Sequence[Flow]) -> dict[str, Any]:
    one, sender = outputs.get("server", outputs["client"]), outputs["client"]
    row = measured[0].received if measured else None
    seen = {
        "streams": one.stream_count,
        "duration_s": row.duration_s if row else None,
        "version": one.version or None,
        "mss_bytes": one.mss_bytes,
        "congestion": sender.congestion,
    }
    return {name: value for name, value in seen.items() if value is not None}


def _summary(streams: int, measured: Sequence[Flow]) -> str:
    rows = [flow.received for flow in measured if flow.received]
    if not rows:
        return f"{streams} stream(s), sent to their end"
    received = " and ".join(f"{row.transferred_bytes} bytes received" for row in rows)
    return f"{streams} stream(s) over {rows[0].duration_s:.1f} s to their end, {received}"


def _notes(outputs: Mapping[str, Output], measured: Sequence[Flow]) -> Iterator[str]:
    known = {flow.reverse for flow in measured}
    if any(flow.reverse not in known for output in outputs.values() for flow in output.flows):
        yield "of what this side sent only the other side's output says what arrived"
    lost = next((output.lost for output in outputs.values() if output.lost), None)
    if lost:
        yield f"{lost} datagrams were lost"


def _doubts(outputs: Mapping[str, Output]) -> list[str]:
    """What keeps documents without a contradiction from being a proof."""
    sender = outputs["client"]
    doubts = []
    # The sender's document exists only after the server's results.
    if sender.role != "client":
        doubts.append("a server's document alone does not say what was sent")
    if not all(flow.intervals for output in outputs.values() for flow in output.flows):
        doubts.append("no interval to compare the total with")
    if any(output.duration_s is None for output in outputs.values()):
        doubts.append("a text does not say what was asked for")
    elif not sender.duration_s and not sender.requested_bytes:
        doubts.append("neither a time nor an amount was asked for")
    for flow in sender.flows:
        if "server" in outputs or flow.sent is None or flow.received is None:
            continue
        left = flow.sent.transferred_bytes - flow.received.transferred_bytes
        buffered = sender.stream_count * _BUFFER_BYTES
        if left > _LOST * flow.sent.transferred_bytes + buffered:
            doubts.append(f"{left} of {flow.sent.transferred_bytes} bytes sent did not arrive")
    return doubts


def _complaints(output: Output, options: Options | None) -> list[str]:
    complaints = []
    for flow in output.flows:
        still = sum(stream.transferred_bytes == 0 for stream in flow.streams)
        if still:
            complaints.append(f"{still} of {output.stream_count} streams moved nothing")
    own = output.flows[0].sent if output.sends(output.flows[0]) else output.flows[0].received
    asked = output.duration_s
    if options is None and own and asked and own.duration_s < _SHORT * asked - 0.25:
        ran = f"it ran for {own.duration_s:.4g} s"
        complaints.append(f"{ran}, {asked:g} s were asked for")
    sent = output.flows[0].sent if output.role == "client" else None
    if sent and sent.transferred_bytes < output.requested_bytes * (1 - _SLACK):
        moved = f"{sent.transferred_bytes} bytes sent"
        complaints.append(f"{moved}, {output.requested_bytes} were asked for")
    return complaints if options is None else [*complaints, *_differences(output, options)]


def _differences(output: Output, options: Options) -> Iterator[str]:
    """What is not as the options ask for."""
    if output.protocol != "TCP":
        yield f"{output.protocol}, expected TCP"
    ways = [flow.reverse for flow in output.flows]
    if ways != [False]:
        shown = "both ways at once" if len(ways) > 1 else "a run from server to client"
        yield f"{shown}, expected a run from client to server"
        return
    if output.requested_bytes or output.omitted_s:
        what = (
            f"{output.requested_bytes} bytes"
            if output.requested_bytes
            else f"-O {output.omitted_s:g}"
        )
        yield f"{what} asked for, expected a time that counts from its start"
    if output.stream_count != options.streams:
        yield f"{output.stream_count} streams, expected {options.streams}"
    if output.duration_s is not None and output.duration_s != options.duration_s:
        yield f"{output.duration_s:g} s asked for, expected {options.duration_s} s"
    least = _SHORT * options.duration_s - 0.25
    most = _LONG * options.duration_s + _EDGE_S + options.drain_s
    [flow] = output.flows
    for what, row in (("received", flow.received), ("sent", flow.sent)):
        if row is None or (what == "sent" and output.role == "server"):
            continue
        if not least <= row.duration_s <= most:
            yield f"{what} for {row.duration_s:.4g} s, expected {least:g} to {most:g} s"
    wanted = options.congestion if output.role == "client" else None
    if wanted is not None and output.congestion != wanted:
        shown = output.congestion or "no congestion control shown"
        yield f"{shown}, expected {wanted}"


def _disagreements(sent: Output, received: Output, side: Mapping[str, str]) -> list[str]:
    both = f"{side['client']} and {side['server']}"
    complaints = []
    cookies = (sent.cookie, received.cookie)
    # A text has none.
    texts = sent.duration_s is None and received.duration_s is None
    if cookies[0] != cookies[1] or (None in cookies and not texts):
        complaints.append(f"{both}: not the same run, by their cookies")
    if sent.stream_count != received.stream_count:
        counts = f"{sent.stream_count} and {received.stream_count} streams"
        complaints.append(f"{both}: {counts}")
    theirs = {flow.reverse: flow for flow in received.flows}
    if theirs.keys() != {flow.reverse for flow in sent.flows}:
        complaints.append(f"{both}: other directions")
        return complaints
    for flow in sent.flows:
        one, other = flow.received, theirs[flow.reverse].received
        if one is None or other is None:
            continue
        if abs(one.transferred_bytes - other.transferred_bytes) > _SLACK * other.transferred_bytes:
            complaints.append(
                f"{both}: {one.transferred_bytes} bytes received by one, "
                f"{other.transferred_bytes} by the other"
            )
    return complaints


def _measurements(
    measured: Sequence[Flow],
    outputs: Mapping[str, Output],
    nodes: tuple[str, ...],
    options: Options | None,
    simulated: bool,
) -> Iterator[Measurement]:
    sender = outputs["client"]
    protocol = sender.protocol.lower()
    for flow in measured:
        received = flow.received
        assert received is not None, "_best has those that are known"
        # The rate of a text has more digits than its bytes over its time.
        exact = received.transferred_bytes * 8e-9 / received.duration_s
        rate = exact if sender.duration_s is not None else received.bandwidth_gbits_s
        metrics: dict[str, float] = {"bandwidth": rate}
        if flow.streams:
            metrics["stream_bandwidth_min"] = min(s.bandwidth_gbits_s for s in flow.streams)
        reported = [own.sent for own in sender.flows if own.reverse == flow.reverse]
        counted = reported[0].retransmits if reported and reported[0] else None
        if sender.role == "client" and protocol == "tcp" and counted is not None:
            metrics["retransmits"] = counted
        for metric, value in metrics.items():
            yield Measurement(
                metric,
                value,
                TOOL,
                f"{protocol} reverse" if flow.reverse else protocol,
                protocol,
                streams=sender.stream_count,
                nodes=nodes,
                window_bytes=options.window_bytes if options else None,
                congestion=options.congestion if options else None,
                simulated=simulated,
            )
