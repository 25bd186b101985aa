"""Whether a transfer by WDT is believed, and what it measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.node.runners.wdt_url import redacted
from railgauge.tools import ParseError, Reading, file_transfer
from railgauge.tools.common.sides import collect
from railgauge.tools.wdt.options import TOOL, Options
from railgauge.tools.wdt.result import Output
from railgauge.tools.wdt.text import parse


def read(
    client: str,
    *,
    server: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
    arrived: str | None = None,
    sent: str | None = None,
) -> Reading:
    """Judges all that is known of one transfer; never raises for what a tool or a job wrote.

    The client is the sender, the server the receiver. `arrived` is what `file_set verify` printed
    on the receiver's node, `sent` the manifest of what was sent. Proved with both calls at exit 0,
    both outputs, the options and, unless writes are skipped, the sums of what arrived.
    """
    texts = redacted(client), None if server is None else redacted(server)
    sides = collect(TOOL, parse, *texts, calls, options, receiver="receiver")
    names, outputs, complaints = sides.names, sides.outputs, sides.complaints
    for role, output in outputs.items():
        # A receiver's log may be judged alone, with the options too.
        if server is not None or calls:
            sides.complain_of_role(role, output.role, "sender" if role == "client" else "receiver")
        complaints += [f"{names[role]}: {why}" for why in _complaints(output, options)]
        for call in sides.calls[role]:
            if call.exit_code is not None and call.exit_code != output.code:
                codes = f"{output.code}, but the exit code is {call.exit_code}"
                complaints.append(f"{names[role]}: it says that it returns {codes}")
        sides.complain_of_time(role, output.seconds or 0, "its transfer")
    if len(outputs) == 2:
        complaints += _disagreements(outputs["client"], outputs["server"], names)
    complaints += _arrival_complaints(arrived, sent, options, names["server"])
    simulated = any(output.simulated for output in outputs.values())
    if complaints:
        return Reading.invalid(redacted("; ".join(complaints)), simulated=simulated)
    output = outputs["client"]
    assert output.summary is not None, "an output without a summary has failed"
    missing = list(sides.missing)
    if options is None or not options.skip_writes:
        missing += [] if arrived is not None else ["the sums of what arrived"]
        missing += [] if sent is not None else ["the manifest of what was sent"]
    kept = "thrown away as asked" if options and options.skip_writes else "with their sha256"
    return Reading.valid(
        f"{output.summary.files} file(s) over {len(output.ports)} port(s) in "
        f"{output.seconds or 0:.2f} s: both sides ended with exit code 0 and agree; {kept}",
        missing,
        _measurements(output, options, sides.nodes, simulated),
        _seen(outputs),
        simulated,
    )


def _complaints(output: Output, options: Options | None) -> list[str]:
    """What contradicts a good transfer in one output, by itself and by the options."""
    if output.code != 0:
        failed = f"; failed: {', '.join(output.failed[:3])}" if output.failed else ""
        return [f"it returned {output.code} {output.status}{failed}"]
    complaints = []
    summary = output.summary
    assert summary is not None
    if output.failed:
        complaints.append(f"failed: {', '.join(output.failed[:3])}")
    if output.recovered:
        complaints.append(f"it recovered from {', '.join(output.recovered)}: the path is flaky")
    if summary.wasted_bytes:
        complaints.append(f"{summary.wasted_bytes} bytes had to be sent again: the path is flaky")
    if summary.previously_sent_bytes:
        complaints.append(f"{summary.previously_sent_bytes} bytes were there from before")
    if summary.data_bytes_high <= 0 or (summary.files or summary.blocks or 0) <= 0:
        complaints.append("nothing was transferred")
    if output.files_explored is not None and summary.files not in (None, output.files_explored):
        moved = f"{summary.files} files transferred"
        complaints.append(f"{moved}, but {output.files_explored} explored")
    if summary.blocks is not None and output.blocks not in (0, summary.blocks):
        complaints.append(f"{summary.blocks} blocks, but {output.blocks} by its threads")
    if options is None:
        return complaints
    requested = options.file_set
    if output.role == "sender" and summary.files != requested.files:
        complaints.append(
            f"{summary.files} files transferred, expected {requested.files}: "
            "WDT skips a dangling symlink without a word"
        )
    if not output.covers(requested.total_bytes):
        moved = f"{summary.data_bytes_low} to {summary.data_bytes_high} bytes of data"
        complaints.append(f"{moved}, expected {requested.total_bytes}")
    if len(output.ports) != options.streams:
        complaints.append(f"{len(output.ports)} ports, expected {options.streams}")
    if options.skip_writes and output.wrote and output.version is not None:
        complaints.append("it made folders to write to, expected a receiver that throws all away")
    if summary.encryption not in (None, options.encryption):
        complaints.append(f"encryption {summary.encryption}, expected {options.encryption}")
    wanted, stated = options.version, output.version
    if wanted is not None and not f"{stated}.".startswith(f"{wanted}."):
        complaints.append(f"version {stated or 'not stated'}, expected {wanted}")
    return complaints


def _disagreements(sent: Output, received: Output, side: Mapping[str, str]) -> list[str]:
    complaints = []
    both = f"{side['client']} and {side['server']}"
    for what in ("transfer_id", "version"):
        ours, theirs = getattr(sent, what), getattr(received, what)
        if None not in (ours, theirs) and ours != theirs:
            complaints.append(f"{both}: not one run, {what} {ours} and {theirs}")
    if sent.code or received.code or sent.summary is None or received.summary is None:
        return complaints
    if sent.ports != received.ports:
        complaints.append(f"{both}: they do not use the same ports")
    blocks = received.summary.blocks
    if None not in (blocks, sent.blocks) and sent.blocks and blocks != sent.blocks:
        complaints.append(f"{both}: {sent.blocks} blocks sent, {blocks} received")
    ours, theirs = sent.summary, received.summary
    if ours.data_bytes_low > theirs.data_bytes_high or theirs.data_bytes_low > ours.data_bytes_high:
        complaints.append(
            f"{both}: {ours.data_bytes_high} bytes sent, {theirs.data_bytes_high} received"
        )
    if ours.encryption != theirs.encryption:
        complaints.append(f"{both}: encryption {ours.encryption} and {theirs.encryption}")
    return complaints


def _arrival_complaints(
    arrived: str | None, sent: str | None, options: Options | None, where: str
) -> list[str]:
    if options is not None and options.skip_writes:
        return []
    try:
        manifest = None if sent is None else file_transfer.parse_manifest(sent)
        if arrived is None:
            return []
        arrival = file_transfer.parse(arrived)
    except ParseError as error:
        return [f"{where}: {error}"]
    requested = options.file_set if options else None
    return file_transfer.arrival_complaints(arrival, manifest, requested, where)


def _seen(outputs: Mapping[str, Output]) -> dict[str, Any]:
    output = outputs["client"]
    assert output.summary is not None
    seen: dict[str, Any] = {
        "files": output.summary.files,
        "streams": len(output.ports),
        "retries": sum(side.retries for side in outputs.values()),
        "error_lines": sum(side.error_lines for side in outputs.values()),
    }
    if output.version:
        seen["version"] = output.version
    if output.summary.encryption:
        seen["encryption"] = output.summary.encryption
    for name in ("seconds", "folder_seconds", "throughput_mbytes_s", "pure_mbytes_s"):
        value = getattr(output, name)
        if value is not None:
            seen[name] = round(value, 6)
    return seen


def _measurements(
    output: Output, options: Options | None, nodes: tuple[str, ...], simulated: bool
) -> tuple[Measurement, ...]:
    """Payload over the sender's whole time, its start and its search for files included."""
    summary = output.summary
    # A receiver's log alone has no time.
    if summary is None or not output.seconds:
        return ()
    size = (
        options.file_set.total_bytes
        if options
        else (summary.data_bytes_low + summary.data_bytes_high) // 2
    )
    requested = options.file_set if options else None
    transport = f"tcp-{summary.encryption}" if summary.encryption not in (None, "none") else "tcp"
    return tuple(
        Measurement(
            metric,
            value,
            TOOL,
            options.operation if options else "files",
            options.transport if options else transport,
            size_bytes=requested.file_bytes if requested else None,
            streams=len(output.ports) or None,
            nodes=nodes,
            simulated=simulated,
        )
        for metric, value in (
            ("bandwidth", size * 8e-9 / output.seconds),
            ("transfer_time", output.seconds),
        )
    )
