"""Whether a perftest run is believed, and what it measured."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Moved, Reading
from railgauge.tools.common.sides import collect
from railgauge.tools.perftest.options import TOOL, Options
from railgauge.tools.perftest.result import Address, Bandwidth, Latency, Output
from railgauge.tools.perftest.text import parse

# A run with -D counts in the middle half of its time, older versions in all but 4 s.
_SHORT, _LONG, _LONG_S = 0.2, 1.1, 1.0
# Before it measures it holds 200 readings of the CPU's counter against the time of day; where they
# do not lie on a line (an unstable counter, or a machine so busy that it was stopped between two of
# them) it says so on standard error, goes on, and prints 0 for every rate.
#: What it says then: https://github.com/linux-rdma/perftest, src/get_clock.c: sample_get_cpu_mhz
NO_CLOCK = re.compile(r"Correlation coefficient r\^2: [0-9.e+-]+ < 0\.9\b")
# With -R the sides shake hands over one connection, and then the server listens for those that are
# measured while the client already connects to it. On a busy host it is first: the connection
# manager of the server's node answers that no process listens (reason 8, InfiniBand Architecture
# 1.4, 12.6.7.2), the client crashes, and the server waits for ever.
#: What the client says then: https://github.com/linux-rdma/perftest, src/perftest_communication.c:
#: create_rdma_cm_connection
_NOT_LISTENING = re.compile(r"RDMA_CM_EVENT_REJECTED; error: 8\.")
#: A line of a side that received other bytes than were sent: https://github.com/linux-rdma/perftest
#: 26.04, src/perftest_resources.c: data_validation_stop_and_report
_CORRUPT = re.compile(r"\bVALIDATION: FAILED\b.*")
#: What a side prints that cannot compare data: its build has no SIMD code for its CPU.
_NO_SIMD = re.compile(r"--data_validation requires host CPU SIMD support.*")
# The two sides of one number may round it to another count of digits.
_AGREE, _AGREE_GBITS_S = 0.01, 0.01


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
    for role in names:
        sides.complain_of_time(role, (options.duration_s if options else None) or 0, "was to run")
    if sides.parsed:
        for role, output in outputs.items():
            sides.complain_of_role(role, output.role)
            complaints += [f"{names[role]}: {why}" for why in _complaints(output, role, options)]
        if server is not None:
            complaints += _disagreements(outputs["client"], outputs["server"], names)
            complaints += _too_few_both_ways(outputs, options)
    texts = {"client": client, "server": server or ""}
    corrupt = [
        f"{names[role]}: {found[0]}" for role in texts if (found := _CORRUPT.search(texts[role]))
    ]
    if corrupt:
        return Reading.invalid("; ".join(corrupt), corrupt=True)
    if complaints:
        failed = any(call.failure for call in calls)
        waits = all(call.exit_code is None for call in calls if call.role == "server")
        if failed and waits and (rejected := _NOT_LISTENING.search(client)):
            why = f"{names['client']}: {rejected[0]} It connected before the server listened"
            return Reading.invalid(f"{why}, for which perftest does not wait", inconclusive=True)
        for role, text in texts.items():
            if lacking := _NO_SIMD.search(text):
                why = f"{names[role]}: {lacking[0]}: this build of perftest cannot compare data"
                return Reading.invalid(why, inconclusive=True)
            if not (failed or sides.parsed) and (spread := NO_CLOCK.search(text)):
                why = f"{names[role]}: {spread[0]}, so that it could not calibrate its clock"
                return Reading.invalid(why, inconclusive=True)
        return Reading.invalid("; ".join(complaints))
    measured = outputs["client"]
    return Reading.valid(
        f"{len(measured.sizes)} size(s) of ib_{measured.operation}_{measured.test}: client and "
        "server ended with exit code 0 and agree on the connection",
        [*sides.missing, *_missing(outputs)],
        tuple(m for row in measured.rows for m in _measurements(measured, row, sides.nodes)),
        _seen(outputs),
        moved=_moved(measured, outputs.get("server"), options),
    )


def _moved(output: Output, theirs: Output | None, options: Options | None) -> tuple[Moved, ...]:
    """Every size's messages, each way that they went; a latency's are next to nothing.

    Both ways (-b) each side counts those that it sent. Without the options it is not known whether
    it was a time that was measured (-D): then what was counted is a part.
    """
    at_least = options is None or options.duration_s is not None
    ways: tuple[Literal["server", "client"], ...] = (
        ("server", "client")
        if output.bidirectional
        else ("client" if output.operation == "read" else "server",)
    )
    moved = []
    for row in output.rows:
        if not isinstance(row, Bandwidth):
            continue
        sent = dict.fromkeys(ways, row.iterations)
        if output.bidirectional and theirs is not None:
            back = {r.size_bytes: r.iterations for r in theirs.rows}
            sent["client"] = back.get(row.size_bytes, row.iterations)
        # Of both ways the rate is the sum.
        seconds = 8e-9 * row.size_bytes * sum(sent.values()) / row.bandwidth_gbits_s
        moved += [
            Moved(row.size_bytes * count, seconds, to, row.size_bytes, at_least)
            for to, count in sent.items()
        ]
    return tuple(moved)


def _too_few_both_ways(outputs: Mapping[str, Output], options: Options | None) -> list[str]:
    """Of a time both ways each side counts what it sent, and prints the rate of both."""
    if options is None or options.duration_s is None or not options.bidirectional:
        return []
    sizes = {row.size_bytes for output in outputs.values() for row in output.rows}
    for size in sorted(sizes):
        rows = [row for output in outputs.values() for row in output.rows if row.size_bytes == size]
        sent = sum(row.iterations for row in rows)
        rate = min(r.message_rate_mmsg_s for r in rows if isinstance(r, Bandwidth)) * 1e6
        if sent < _SHORT * options.duration_s * (rate - 0.5):
            lasted = f"{options.duration_s} s at their rate"
            return [f"{size} bytes: {sent} iterations of both sides, too few for {lasted}"]
    return []


def _one_sided(output: Output) -> bool:
    """Whether the server has nothing to measure and prints what the client sent it at the end."""
    return output.test == "bw" and output.operation != "send" and not output.bidirectional


def _complaints(output: Output, role: str, options: Options | None) -> list[str]:
    """What contradicts a good run in one output, by itself and by the options."""
    complaints = []
    if role == "client" and not output.rows:
        complaints.append("no row: the server of a read latency test has none")
    ours, theirs = _places(output.local), _places(output.remote)
    if ours & theirs:
        complaints.append(f"loopback: both ends are {min(ours & theirs)}")
    if _transport(output) is None:
        link = f"link type {output.link_type}, transport type {output.transport_type}"
        complaints.append(f"{link}, expected InfiniBand, RoCE, iWARP or EFA")
    if options is None:
        return complaints
    for name, stated, wanted in (
        ("operation", output.operation, options.operation),
        ("test", output.test, options.test),
        ("bidirectional", output.bidirectional, options.bidirectional),
        ("post list", output.post_list, False),
        ("queue pairs", output.queue_pairs, options.queue_pairs),
        ("rdma_cm", output.rdma_cm, options.rdma_cm),
        ("connection type", output.connection_type, options.connection_type),
    ):
        if stated != wanted:
            complaints.append(f"{name} {stated}, expected {wanted}")
    receives = options.bidirectional or role == (
        "client" if options.operation == "read" else "server"
    )
    if options.data_validation and receives and output.validated_bytes is None:
        complaints.append("no line VALIDATION, expected VALIDATION: PASSED with the bytes")
    if output.validated_bytes is not None and not options.data_validation:
        complaints.append("data was validated, expected a run without, which is faster")
    if output.sampled:
        complaints.append("samples without an end (--run_infinitely), expected a run that ends")
    expected = options.sizes
    if role == "server" and _one_sided(output):
        expected = expected[-1:]
    if output.rows and output.sizes != expected:
        missing = [size for size in expected if size not in output.sizes]
        other = [size for size in output.sizes if size not in expected]
        stated = f"no row of {missing[0]} bytes" if missing else f"a row of {other[0]} bytes"
        ends = f"{expected[0]} to " if len(expected) > 1 else ""
        complaints.append(f"{stated}, expected {ends}{expected[-1]} bytes")
    for row in output.rows:
        if why := _row_complaint(row, options):
            complaints.append(f"{row.size_bytes} bytes: {why}")
            break
    return complaints


def _places(addresses: Sequence[Address]) -> set[str]:
    """The ports that addresses name: by GID, or by LID where the port has one."""
    places = {address.gid or f"LID {address.lid:#x}" for address in addresses}
    return places - {"LID 0x0"}


def _row_complaint(row: Bandwidth | Latency, options: Options) -> str | None:
    if options.iterations is not None:
        wanted = options.iterations * options.queue_pairs
        if row.iterations != wanted:
            return f"{row.iterations} iterations, expected {wanted}"
        if isinstance(row, Latency) and row.typical_us is None:
            return "an average only, expected iterations one by one"
        return None
    assert options.duration_s is not None, "Options has iterations or a duration"
    if isinstance(row, Bandwidth):
        if row.peak_gbits_s is not None:
            return "a peak was measured, expected none with a duration"
        # the rate is printed to one message a second
        rate, half = row.message_rate_mmsg_s * 1e6, 0.5
    elif row.transactions_per_s is None:
        return "iterations one by one, expected an average over a duration"
    else:
        rate, half = row.transactions_per_s, 0.005
    # Both ways a side counts what it sent alone, and either may have sent less.
    if not options.bidirectional and row.iterations < _SHORT * options.duration_s * (rate - half):
        return f"{row.iterations} iterations, too few for {options.duration_s} s at its rate"
    if row.iterations > (_LONG * options.duration_s + _LONG_S) * (rate + half):
        return f"{row.iterations} iterations, too many for {options.duration_s} s at its rate"
    return None


def _disagreements(ours: Output, theirs: Output, side: Mapping[str, str]) -> list[str]:
    complaints = []
    both = f"{side['client']} and {side['server']}"
    for name in (
        "operation",
        "test",
        "bidirectional",
        "post_list",
        "queue_pairs",
        "rdma_cm",
        "connection_type",
        "transport_type",
        "mtu_bytes",
        "link_type",
    ):
        one, other = getattr(ours, name), getattr(theirs, name)
        if one != other:
            complaints.append(f"{both}: {name} {one} and {other}")
    complaints += _address_disagreements(ours, theirs, side)
    if not theirs.rows:
        return complaints
    copied = _one_sided(ours)
    if theirs.sizes != (ours.sizes[-1:] if copied else ours.sizes):
        complaints.append(f"{both}: the sizes of the rows differ")
    elif copied or (ours.bidirectional and ours.operation != "send"):
        for one, other in zip(ours.rows[-len(theirs.rows) :], theirs.rows, strict=True):
            if not _same_row(one, other, copied):
                complaints.append(f"{both}: the rows of {one.size_bytes} bytes differ")
                break
    return complaints


def _address_disagreements(ours: Output, theirs: Output, side: Mapping[str, str]) -> list[str]:
    for one, other, near, far in (
        (ours.remote, theirs.local, "client", "server"),
        (theirs.remote, ours.local, "server", "client"),
    ):
        if not one or not other or one == other:
            continue
        reached, there = _places(one), _places(other)
        if reached and there and reached != there:
            return [
                f"{side[near]} reached {', '.join(sorted(reached))}, "
                f"but {side[far]} is {', '.join(sorted(there))}"
            ]
        return [f"{side['server']}: its connections are not those of {side['client']}"]
    return []


def _same_row(one: Bandwidth | Latency, other: Bandwidth | Latency, copied: bool) -> bool:
    if not (isinstance(one, Bandwidth) and isinstance(other, Bandwidth)):
        return False
    if copied and one.iterations != other.iterations:
        return False
    apart = abs(one.bandwidth_gbits_s - other.bandwidth_gbits_s)
    return apart <= _AGREE_GBITS_S + _AGREE * one.bandwidth_gbits_s


def _missing(outputs: Mapping[str, Output]) -> list[str]:
    """What a proof lacks in the outputs themselves."""
    missing = []
    for role, output in outputs.items():
        if output.role != role:
            missing.append(f"a text that names its side ({role})")
        if output.sampled:
            missing.append(f"an end, which --run_infinitely has not ({role})")
        if not output.local:
            missing.append(f"the addresses of both ends ({role})")
        elif _transport(output) == "rdma":
            missing.append(f"a LID: link type IB with LID 0 may be RoCE ({role})")
    return missing


def _transport(output: Output) -> str | None:
    """The transport, None where it is none that is known.

    A port without a stated link layer counts as IB for perftest (seen of RoCE with rdma_cm). No
    InfiniBand port has LID 0, so such a run is only called 'rdma'. SRD is EFA's alone, and
    perftest knows neither of its types; raw Ethernet has no transport above it.
    """
    if output.connection_type == "SRD":
        return "efa"
    if output.connection_type == "RawEth":
        return "ethernet" if output.link_type == "Ethernet" else None
    if output.transport_type == "IW":
        return "iwarp"
    if output.transport_type != "IB" or output.link_type not in ("IB", "Ethernet"):
        return None
    if output.link_type == "Ethernet":
        return "roce"
    unknown = output.local and not any(end.lid for end in (*output.local, *output.remote))
    return "rdma" if unknown else "infiniband"


def _seen(outputs: Mapping[str, Output]) -> dict[str, Any]:
    measured = outputs["client"]
    sides = [outputs[role] for role in ("server", "client") if role in outputs]
    iterations = sorted({row.iterations for row in measured.rows})
    seen: dict[str, Any] = {
        "active_mtu_bytes": measured.mtu_bytes,
        "link_type": measured.link_type,
        "devices": [output.device for output in sides],
        "queue_pairs": measured.queue_pairs,
        "rdma_cm": measured.rdma_cm,
        "connection_type": measured.connection_type,
        "sizes": list(measured.sizes),
        "iterations": iterations[0] if len(iterations) == 1 else iterations,
    }
    if indices := [output.gid_index for output in sides if output.gid_index is not None]:
        seen["gid_index"] = indices[0] if len(set(indices)) == 1 else indices
    if any(output.validated_bytes is not None for output in sides):
        seen["data_validation"] = True
    if bound := [output.bound_to_numa for output in sides if output.bound_to_numa is not None]:
        seen["bound_to_numa"] = bound[0] if len(set(bound)) == 1 else bound
    return seen


def is_maximum(iterations: int, share: float) -> bool:
    """Whether perftest's percentile of so many iterations is nothing but its maximum.

    It takes both from the same sorted times: the maximum at n - 3, the percentile at
    ceil((n - 3) share).
    """
    last = iterations - 3
    return math.ceil(last * share) >= last


def _measurements(
    output: Output, row: Bandwidth | Latency, nodes: tuple[str, ...]
) -> list[Measurement]:
    metrics: dict[str, float | None] = {}
    if isinstance(row, Bandwidth):
        metrics["bandwidth"] = row.bandwidth_gbits_s
        metrics["bandwidth_peak"] = row.peak_gbits_s
        # 0 where it is below what six digits show
        metrics["message_rate"] = row.message_rate_mmsg_s or None
    else:
        metrics["latency"] = row.typical_us
        metrics["latency_min"] = row.min_us
        metrics["latency_avg"] = row.avg_us
        metrics["latency_p99"] = None if is_maximum(row.iterations, 0.99) else row.p99_us
        if is_maximum(row.iterations, 0.999):
            metrics["latency_max"] = row.max_us
        else:
            metrics["latency_p999"] = row.p999_us
    return [
        Measurement(
            metric,
            value,
            TOOL,
            f"{output.operation}_bidirectional" if output.bidirectional else output.operation,
            _transport(output) or "",
            size_bytes=row.size_bytes,
            streams=output.queue_pairs,
            nodes=nodes,
            samples=row.iterations,
        )
        for metric, value in metrics.items()
        if value is not None
    ]
