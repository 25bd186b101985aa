"""iperf2: what real outputs give, and that no damaged output is believed."""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railgauge.tools import Completeness, ParseError, Reading, iperf2
from tests.properties import tries
from tests.unit.tools.sides import both_calls

REPOSITORY = Path(__file__).parents[3]
RECORDED = REPOSITORY / "tests" / "data" / "iperf2"

QUICK = settings(
    max_examples=tries(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

PROVED, UNKNOWN, BROKEN = Completeness.PROVED, Completeness.UNKNOWN, Completeness.BROKEN

#: recorded runs of 2.2.1 that went well: name -> the options they were run with
RUNS = {
    "p4": iperf2.Options(streams=4, duration_s=3),
    "p1": iperf2.Options(streams=1, duration_s=2),
    "cubic": iperf2.Options(streams=4, duration_s=3, congestion="cubic"),
    # 44 ms by netem between two VMs in software emulation
    "wan": iperf2.Options(1, 4, 8 * 2**20, "cubic", interval_s=0.5, drain_s=5),
}

#: recorded client -> ok, completeness, bandwidth, streams, slowest stream, retransmits
BARE: dict[str, tuple[Any, ...]] = {
    "bounceback": (True, UNKNOWN, None, 1, None, None),
    "bounceback-2.1.8": (True, UNKNOWN, None, 1, None, None),
    "csv-enhanced-p2": (True, UNKNOWN, 15.203067612, 2, 7.407594360, 0),
    # Without a sum: the bytes of both streams over the time of the longer one.
    "csv-enhanced-p2-2.1.8": (True, UNKNOWN, 24.708533336, 2, 11.305847025, None),
    # The sum took 0.1 s longer than its streams: 2,577,662,016 bytes in 2.1 s.
    "csv-p2": (True, UNKNOWN, 20.168781181, 2, 9.819664823, None),
    "csv-p2-2.1.8": (True, UNKNOWN, 14.930643335, 2, 6.660414697, None),
    "enhanced-2.0.14a": (True, UNKNOWN, 9.79, 1, 9.79, 0),
    "enhanced-p4-2.1.8": (True, UNKNOWN, 12.4, 4, 2.728424813, 114),
    "plain-p1": (True, UNKNOWN, 13.1, 1, 13.1, None),
    "plain-p1-2.1.8": (True, UNKNOWN, 8.87, 1, 8.87, None),
    "refused": (False, BROKEN, None, None, None, None),
    "refused-2.1.8": (False, BROKEN, None, None, None, None),
    "sum-only-p4": (True, UNKNOWN, 6.82, None, None, None),
    "sum-only-p4-2.1.8": (True, UNKNOWN, 10.3, 4, None, None),
    "udp-csv": (False, UNKNOWN, None, None, None, None),
    "udp-csv-2.1.8": (False, UNKNOWN, None, None, None, None),
    "unknown-option": (False, BROKEN, None, None, None, None),
    "unknown-option-2.1.8": (False, BROKEN, None, None, None, None),
}


@functools.cache
def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8")


calls = functools.partial(both_calls, iperf2.TOOL, 6.0, "iperf version 2.2.1")


def judged(run: str, client: str | None = None, server: str | None = None) -> Reading:
    """A recorded good run with all its evidence, one side of it replaced."""
    return iperf2.read(
        recorded(f"{run}-client") if client is None else client,
        server=recorded(f"{run}-server") if server is None else server,
        calls=calls(),
        options=RUNS[run],
    )


def values(reading: Reading) -> dict[str, float]:
    return {measurement.metric: measurement.value for measurement in reading.measurements}


def row_numbers(text: str) -> list[int]:
    return [number for number, line in enumerate(text.split("\n")) if " sec " in line]


# ---- options and argv ----


def test_server_ends_by_itself_after_the_streams() -> None:
    argv = iperf2.server_argv(iperf2.Options(), port="5201")
    assert " ".join(argv) == "iperf -s -p 5201 -P 4 -e -f k"


def test_client_leaves_placeholders_to_the_runner() -> None:
    argv = iperf2.client_argv(iperf2.Options())
    assert " ".join(argv) == "iperf -c {server} -p {port} -P 4 -t 5 -e -i 1 -f k"


def test_every_option_reaches_the_client() -> None:
    options = iperf2.Options(8, 30, window_bytes=4194304, congestion="bbr", length_bytes=65536)
    asked = "-P 8 -t 30 -e -i 1 -f k -w 4194304 -Z bbr -l 65536"
    assert " ".join(iperf2.client_argv(options, "h", "1")) == f"iperf -c h -p 1 {asked}"


def test_window_is_asked_for_on_both_sides() -> None:
    options = iperf2.Options(window_bytes=4096)
    assert iperf2.server_argv(options)[-2:] == ["-w", "4096"]


def test_intervals_are_asked_for_on_both_sides() -> None:
    options = iperf2.Options(interval_s=0.5)
    assert iperf2.server_argv(options)[-2:] == ["-i", "0.5"]
    assert "-e -i 0.5 -f k" in " ".join(iperf2.client_argv(options))


def test_time_to_drain_is_nothing_that_the_tool_is_given() -> None:
    assert iperf2.client_argv(iperf2.Options(drain_s=5)) == iperf2.client_argv(iperf2.Options())


def test_version_is_asked_for() -> None:
    assert iperf2.version_argv() == ["iperf", "--version"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"streams": 0},
        {"streams": True},
        {"duration_s": 0},
        {"duration_s": 2.5},
        {"duration_s": None},
        {"window_bytes": -1},
        {"length_bytes": 0},
        {"congestion": ""},
        {"congestion": "-Z cubic"},
        {"interval_s": 0.05},
        {"interval_s": 0},
        {"interval_s": float("nan")},
        {"interval_s": float("inf")},
        {"drain_s": -1},
        {"drain_s": float("nan")},
    ],
)
def test_options_that_cannot_be_run_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        iperf2.Options(**wrong)


# ---- what was recorded ----


@pytest.mark.parametrize("name", BARE)
def test_a_bare_output_gives_what_a_person_reads_in_it(name: str) -> None:
    ok, completeness, bandwidth, streams, slowest, retransmits = BARE[name]
    reading = iperf2.read(recorded(f"{name}-client"))
    measured = values(reading)
    assert (reading.ok, reading.completeness) == (ok, completeness), reading.reason
    assert measured.get("bandwidth") == (bandwidth and pytest.approx(bandwidth))
    assert measured.get("stream_bandwidth_min") == (slowest and pytest.approx(slowest))
    assert measured.get("retransmits") == retransmits
    assert all(measurement.streams == streams for measurement in reading.measurements)


def test_conditions_are_seen() -> None:
    seen = iperf2.read(recorded("p4-client")).seen
    assert seen == {"duration_s": 3.0003, "streams": 4, "mss_bytes": 1448, "congestion": "bbr"}


@pytest.mark.parametrize(("version", "latency"), [("-2.1.8", 29.0), ("", 58.0)])
def test_bounceback_is_a_latency_in_us(version: str, latency: float) -> None:
    (measurement,) = iperf2.read(recorded(f"bounceback{version}-client")).measurements
    found = (measurement.metric, measurement.value, measurement.operation, measurement.unit)
    assert found == ("latency", latency, "bounceback", "us")


def test_udp_without_the_servers_report_names_that() -> None:
    assert "no report of the server" in iperf2.read(recorded("udp-csv-client")).reason


def test_intervals_without_a_total_are_rejected() -> None:
    whole = recorded("enhanced-2.0.14a-client")
    with pytest.raises(ParseError, match="no total"):
        iperf2.parse(whole[: whole.index("[  3] 3.0000-3.0001 sec")])


# ---- parse ----


def test_client_rows_are_read() -> None:
    output = iperf2.parse(recorded("p4-client"))
    assert (output.role, output.connected, len(output.intervals)) == ("client", 4, 3)
    assert sum(row.transferred_bytes for row in output.streams) == output.total.transferred_bytes


def test_both_sides_of_a_run_show_the_same_connections() -> None:
    client, server = (iperf2.parse(recorded(f"p4-{side}")) for side in ("client", "server"))
    assert client.client_ports == server.client_ports
    assert len(client.client_ports) == 4


def test_congestion_control_is_the_senders() -> None:
    assert iperf2.parse(recorded("cubic-client")).congestion == "cubic"
    assert iperf2.parse(recorded("p4-server")).congestion is None


@pytest.mark.parametrize("name", ["csv-p2-client", "csv-enhanced-p2-client"])
def test_a_row_of_csv_that_is_cut_is_no_end_of_a_run(name: str) -> None:
    whole = recorded(name)
    last = whole.rindex("\n", 0, -1) + 1
    for columns in range(2, 6):
        cut = whole[:last] + ",".join(whole[last:].split(",")[:columns])
        assert "columns" in iperf2.read(cut).reason
        assert not iperf2.read(cut).ok


def test_csv_with_a_header_is_read_by_its_names() -> None:
    output = iperf2.parse(recorded("csv-enhanced-server"))
    assert (output.role, output.total.transferred_bytes) == ("server", 5935333504)


def test_udp_with_the_servers_report_counts_what_arrived() -> None:
    output = iperf2.parse(recorded("udp-client"))
    assert (output.udp, output.received, len(output.streams)) == (True, True, 2)


@pytest.mark.parametrize("label", ["0: ", " 1: ", "STDERR: 0: "])
def test_task_labels_of_srun_are_tolerated(label: str) -> None:
    text = "".join(f"{label}{line}\n" for line in recorded("p4-client").splitlines()[1:-1])
    assert iperf2.parse(text) == iperf2.parse(recorded("p4-client"))


@pytest.mark.parametrize(
    "noise",
    [
        "node1:123:456 [0] NCCL WARN NET/Socket : Connect to 10.0.0.1 failed : Connection refused",
        "srun: job 17 has been allocated resources",
        "[1732158000.1] [node1:99:0] parser.c:2036 UCX  WARN unused environment variable failed",
        "[0] 12.5 is not a row",
        "WARN: this test may have been CPU bound (1) (or may not be detecting the devices)",
        "TCP window size:  512 KByte (WARNING: requested  256 KByte)",
        "",
    ],
)
def test_unrelated_lines_are_tolerated(noise: str) -> None:
    text = recorded("p4-client").replace("\n", f"\n{noise}\n")
    assert iperf2.parse(text).streams == iperf2.parse(recorded("p4-client")).streams


def test_unknown_columns_are_tolerated() -> None:
    lines = recorded("p4-client").splitlines()
    text = "\n".join(
        line + ("  Future" if "Interval" in line else "  12.5 zz" if " sec " in line else "")
        for line in lines
    )
    assert iperf2.parse(text).streams == iperf2.parse(recorded("p4-client")).streams


def test_unknown_csv_columns_are_tolerated() -> None:
    header, *rows = recorded("csv-enhanced-server").splitlines()[1:-1]
    text = "\n".join([f"future,{header}".replace("future,time", "time,future")])
    text += "".join("\n" + row.replace(",", ",?,", 1) for row in rows)
    assert iperf2.parse(text) == iperf2.parse(recorded("csv-enhanced-server"))


@pytest.mark.parametrize(
    "message",
    [
        "iperf: unrecognized option `--nosuchflag'",
        "iperf: option requires an argument -- p",
        "Usage: iperf [-s|-c host] [options]",
        "tcp connect failed: Connection refused",
        "connect failed: Connection timed out",
        "[  1] tcp connect to 10.0.0.1 port 5001 failed (No route to host) on 2026-11-21",
        "[  1] tcp connect attempt timer expired on 2026-11-21",
        "write failed: Broken pipe",
        "[  2] tcp write failed",
        "[  1] tcp recv failed: Connection reset by peer",
        "read tcp flags (peer close) failed",
        "listener bind failed: Address already in use",
        "[  3] WARNING: did not receive ack of last datagram after 10 tries.",
        "[  3] WARNING: ack of last datagram failed.",
        "Attempt to set 'nosuch' congestion control failed: No such file or directory",
        "Failed to set 'bbr' congestion control got 'cubic'",
        "no.such.invalid: Host name lookup failure",
        "node9: Unknown host",
        "ERROR: expected reverse connect did not occur",
        "WARNING: Unable to change the window size",
        "Waiting for server threads to complete. Interrupt again to force quit.",
        "[ CT] final connect times (min/avg/max/stdev) = 0.1/0.1/0.1/0.1 ms (tot/err) = 4/1",
        "slurmstepd: error: *** STEP 17.0 ON node1 CANCELLED AT 2026-11-21T03:50:17 ***",
        "Segmentation fault (core dumped)",
        "bash: iperf: command not found",
    ],
)
def test_messages_of_failure_are_rejected(message: str) -> None:
    text = recorded("p4-client") + f"STDERR: {message}\n"
    with pytest.raises(ParseError, match="no error message"):
        iperf2.parse(text)


@pytest.mark.parametrize("text", ["", "\n \n", "# source: nothing\n# exit=0\n"])
def test_empty_output_is_rejected(text: str) -> None:
    with pytest.raises(ParseError, match="nothing"):
        iperf2.parse(text)


def test_output_without_rows_is_rejected() -> None:
    with pytest.raises(ParseError, match="no row with a transfer"):
        iperf2.parse(recorded("server-killed-server"))


P4 = "p4-client"


def edited(name: str, old: str, new: str) -> str:
    text = recorded(name)
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1e400", "9" * 400])
@pytest.mark.parametrize("unit", ["KBytes", "Kbits/sec"])
def test_impossible_numbers_are_rejected(number: str, unit: str) -> None:
    lines = recorded(P4).split("\n")
    row = row_numbers(recorded(P4))[-1]
    words = lines[row].split(" ")
    words[words.index(unit) - 1] = number
    lines[row] = " ".join(words)
    with pytest.raises(ParseError) as caught:
        iperf2.parse("\n".join(lines))
    assert caught.value.line == row + 1


def test_a_rate_that_is_not_bytes_by_time_is_rejected() -> None:
    row = "[  1] 0.0000-2.0136 sec  3321216 KBytes  13511921 Kbits/sec"
    text = edited("p1-client", row, row.replace("13511921", "15511921"))
    with pytest.raises(ParseError, match="by its bytes and time"):
        iperf2.parse(text)


def test_a_sum_of_more_streams_than_there_are_is_rejected() -> None:
    text = "\n".join(line for line in recorded(P4).split("\n") if not line.startswith("[  4] "))
    with pytest.raises(ParseError, match="the sum of 3 streams"):
        iperf2.parse(text)


def test_a_sum_of_other_bytes_than_its_streams_is_rejected() -> None:
    lines = recorded("p4-server").split("\n")
    missing = next(line for line in lines if line.startswith("[  4] 0.0000"))
    text = "\n".join(line for line in lines if line != missing).replace("[SUM-4]", "[SUM]")
    with pytest.raises(ParseError, match="bytes of its 3 streams"):
        iperf2.parse(text)


def test_a_sum_that_ended_before_its_streams_has_their_time() -> None:
    """2.2.1 on a link of 20 Mbit/s shows a sum of 32 Mbit/s, to 3.1 s; its streams end at 5.2 s."""
    total = iperf2.parse(recorded("slow-link-client")).total
    assert total.end_s == 5.1829
    assert total.transferred_bytes == 12126 * 1024
    assert total.bandwidth_gbits_s == pytest.approx(0.01917, rel=1e-3)


def test_streams_that_a_slow_link_held_too_long_are_no_result() -> None:
    options = iperf2.Options(streams=4, duration_s=3, congestion="cubic")
    reading = iperf2.read(recorded("slow-link-client"), options=options)
    assert not reading.ok
    assert "ran for 5.038 s, expected 2.6 to 4.3 s" in reading.reason


def test_a_sum_and_streams_on_two_clocks_are_one_run_by_bytes_and_time() -> None:
    """Refused once: [SUM] to 4.32 s, the streams to 5.06 s, the bytes of both sides the same."""
    output = iperf2.parse(with_sum(2.56))
    assert output.total.end_s == 3.0028
    assert output.total.bandwidth_gbits_s == pytest.approx(24.23, rel=1e-3)


def with_sum(end_s: float) -> str:
    """A recorded run with the sum's clock ended elsewhere, and its rate by that clock."""
    rate = round(8 * 8876544 * 1024 / end_s / 1e3)
    old = "[SUM-4] 0.0000-3.0014 sec  8876544 KBytes  24227311 Kbits/sec"
    return edited(
        "p4-server", old, f"[SUM-4] 0.0000-{end_s:.4f} sec  8876544 KBytes  {rate} Kbits/sec"
    )


@pytest.mark.parametrize("end_s", [5.99, 4.0, 3.0014])
def test_a_sum_may_end_after_streams_that_started_late(end_s: float) -> None:
    assert iperf2.parse(with_sum(end_s)).total.end_s == end_s


@pytest.mark.parametrize("end_s", [2.9, 2.0, 0.5])
def test_a_sum_that_ended_early_has_no_rate_above_that_of_its_streams(end_s: float) -> None:
    """They have 24.243 Gb/s together, by their own clocks."""
    assert iperf2.parse(with_sum(end_s)).total.bandwidth_gbits_s <= 24.243


@pytest.mark.parametrize("end_s", [6.01, 9.0])
def test_a_sum_that_took_twice_as_long_as_its_streams_is_rejected(end_s: float) -> None:
    with pytest.raises(ParseError, match=r"an end near the .* s of its streams"):
        iperf2.parse(with_sum(end_s))


def test_a_client_that_ended_before_its_last_sum_is_a_result() -> None:
    """Seen of 2.2.1 with exit 0, about once in fifty runs."""
    text = recorded("without-last-sum-client")
    total = iperf2.parse(text).total
    assert total.transferred_bytes == 3487488 * 1024
    options = iperf2.Options(streams=4, duration_s=3)
    server = recorded("without-last-sum-server")
    reading = iperf2.read(text, server=server, calls=calls(), options=options)
    assert (reading.ok, reading.completeness) == (True, PROVED)


def test_sums_that_came_in_parts_do_not_hide_the_total() -> None:
    """2.2.1 with -P 16 for 4 s on a busy VM: [SUM-12] 5-6, [SUM-1] 6-7, [SUM-0] 7-8."""
    output = iperf2.parse(recorded("sums-in-parts-client"))
    # Its own end is 4.9458, that of its last stream this.
    assert output.total.end_s == 5.0893
    assert len(output.streams) == 16
    assert all(interval.end_s <= 5 for interval in output.intervals)


def test_a_full_socket_buffer_may_take_its_time_to_arrive() -> None:
    """-t 3 -w 8M over 44 ms between two busy VMs: 16 MiB of buffer at 20 Mb/s take 6 s more."""
    options = iperf2.Options(1, 3, 8 * 2**20, "bbr", interval_s=0.5, drain_s=5)
    outputs = [recorded(f"wan-bbr-busy-{role}") for role in ("client", "server")]
    ended = [dataclasses.replace(call, seconds=13.0) for call in calls()]
    reading = iperf2.read(outputs[0], server=outputs[1], calls=ended, options=options)
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    (bandwidth,) = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert bandwidth == pytest.approx(0.021811)
    smaller = dataclasses.replace(options, window_bytes=2**18, drain_s=0)
    refused = iperf2.read(outputs[0], server=outputs[1], calls=ended, options=smaller)
    assert not refused.ok and "ran for 9.301 s" in refused.reason


def test_a_bond_is_not_refused_for_a_sum_that_ended_early() -> None:
    """Seen of a healthy one: [SUM] to 4.32 s, streams to 5.06 s, the same bytes on both sides."""
    rate = round(8 * 90570 * 1024 / 4.32 / 1e3)
    client = edited(
        "sums-in-parts-client",
        "[SUM-16] 0.0000-4.9458 sec  90570 KBytes  150017 Kbits/sec",
        f"[SUM-16] 0.0000-4.3200 sec  90570 KBytes  {rate} Kbits/sec",
    )
    reading = iperf2.read(
        client,
        server=recorded("sums-in-parts-server"),
        calls=calls(),
        options=iperf2.Options(streams=16, duration_s=4, drain_s=5),
    )
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    (bandwidth,) = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert bandwidth == pytest.approx(8e-9 * 90570 * 1024 / 5.1429, rel=1e-4)


def test_sums_in_parts_still_need_a_total_that_is_the_streams() -> None:
    text = recorded("sums-in-parts-client")
    (total,) = [line for line in text.splitlines() if "[SUM-16] 0.0000-4.9458" in line]
    with pytest.raises(ParseError):
        iperf2.parse(text.replace(total, total.replace("90570 KBytes", "80570 KBytes")))


def test_a_sum_is_missed_where_a_connected_stream_has_no_total() -> None:
    lines = recorded("without-last-sum-client").split("\n")
    lines.remove(next(line for line in lines if "connected with" in line))
    with pytest.raises(ParseError, match=r"\[SUM\] row"):
        iperf2.parse("\n".join(lines))


def test_retransmits_that_do_not_add_up_are_rejected() -> None:
    text = edited("p1-client", "25948/0      4290   ", "25948/0      4291   ")
    assert iperf2.parse(text).total.retransmits == 4291
    lines = recorded(P4).rstrip().split("\n")
    lines[-2] += "0"
    with pytest.raises(ParseError, match="retransmits"):
        iperf2.parse("\n".join(lines))


def test_a_stream_that_hung_after_its_last_interval_is_rejected() -> None:
    """The client exits 0 and the server counts its bytes, with the link down half the time."""
    with pytest.raises(ParseError, match="no interval"):
        iperf2.parse(recorded("link-down-client"))


def test_two_runs_in_one_text_are_rejected() -> None:
    with pytest.raises(ParseError, match="one run of one side"):
        iperf2.parse(recorded("p1-client") * 2)


def test_client_and_server_in_one_text_are_rejected() -> None:
    with pytest.raises(ParseError, match="one run of one side"):
        iperf2.parse(recorded("p1-server") + recorded("p1-client"))


def left_running(*runs: str) -> str:
    """What a server prints of those runs, one after the other."""
    head = "Server listening on TCP port 5001\nTCP window size:  128 KByte (default)\n"
    return head + "".join(runs)


def taken(name: int, *rows: str, marks: str = "") -> str:
    """A run of one stream, as a server prints it: where it came from, and its rows."""
    ends = f"local 192.0.2.1 port 5001 connected with 192.0.2.2 port {40000 + name}"
    lines = [f"[{name:>3}] {ends} (icwnd/mss/irtt=14/1448/200){marks}", HEADER]
    return "".join(f"{line}\n" for line in [*lines, *(f"[{name:>3}] {row}" for row in rows)])


HEADER = "[ ID] Interval       Transfer     Bandwidth"
GOOD = "0.0000-10.0100 sec  1.10 GBytes   940 Mbits/sec"
POOR = "0.0000-3.0000 sec  1.13 MBytes  3.16 Mbits/sec"
SECONDS = (
    "0.0000-1.0000 sec   112 MBytes   940 Mbits/sec",
    "1.0000-2.0000 sec   112 MBytes   940 Mbits/sec",
    "0.0000-2.0100 sec   225 MBytes   939 Mbits/sec",
)
AT_ONCE, LATER = (f" on 2026-01-05 10:0{minute}:00.100 (UTC)" for minute in (0, 5))
ROWS_ONLY = "".join(f"[  {name}] {row}\n" for name in (1, 2) for row in SECONDS)
CSV = (
    "20260105100010,192.0.2.1,5001,192.0.2.2,40001,4,0.0-10.0,1175000000,940000000\n"
    "20260105100510,192.0.2.1,5001,192.0.2.2,40002,5,0.0-10.0,1175000000,940000000\n"
)


@pytest.mark.parametrize(
    "text",
    [
        left_running(taken(1, GOOD), taken(2, GOOD)),
        left_running(taken(1, GOOD), taken(2, POOR)),
        left_running(taken(1, *SECONDS), taken(2, *SECONDS)),
        left_running(taken(4, GOOD), taken(4, POOR)),
        # times tell it even where lines are late
        left_running(
            taken(1, marks=AT_ONCE), taken(2, marks=LATER), f"[  1] {GOOD}\n[  2] {GOOD}\n"
        ),
        left_running(ROWS_ONLY),
        CSV,
    ],
)
def test_a_server_that_took_several_runs_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="several runs"):
        iperf2.parse(text)


def test_streams_that_began_together_are_one_run_although_their_lines_are_late() -> None:
    text = left_running(
        taken(1, GOOD, marks=AT_ONCE),
        taken(2, GOOD, marks=AT_ONCE),
        "[SUM-2] 0.0000-10.0100 sec  2.20 GBytes  1.88 Gbits/sec\n",
    )
    assert len(iperf2.parse(text).streams) == 2


@pytest.mark.parametrize(
    ("mark", "why"),
    [("(reverse)", "the client receives on this stream"), ("(full-duplex)", "no row with")],
)
def test_rows_of_another_direction_than_their_connection_are_rejected(mark: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        iperf2.parse(edited("p1-client", "(icwnd", f"{mark} (icwnd"))


# ---- other directions, other units ----

REVERSE = iperf2.Options(streams=2, duration_s=2, direction="reverse")
DUPLEX = iperf2.Options(streams=1, duration_s=2, direction="both")
#: recorded run -> what was asked for
OTHER_WAYS = {
    "reverse-p2": REVERSE,
    "reverse-plain-p2": REVERSE,
    "reverse-p2-2.1.8": REVERSE,
    "duplex-p1": DUPLEX,
    "duplex-p2": dataclasses.replace(DUPLEX, streams=2),
    "duplex-p1-2.1.8": DUPLEX,
    "dual-p1": DUPLEX,
    "tradeoff-p1": DUPLEX,
    "mbytes-p2": iperf2.Options(streams=2, duration_s=2),
    "gbytes-p2": iperf2.Options(streams=2, duration_s=2),
    "mbytes-p2-2.1.8": iperf2.Options(streams=2, duration_s=2),
}


def both_sides(run: str, options: iperf2.Options | None = None) -> Reading:
    client, server = recorded(f"{run}-client"), recorded(f"{run}-server")
    asked = options or OTHER_WAYS[run]
    return iperf2.read(client, server=server, calls=calls(), options=asked)


@pytest.mark.parametrize("run", OTHER_WAYS)
def test_recordings_of_every_way_and_unit_are_proved(run: str) -> None:
    reading = both_sides(run)
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason


@pytest.mark.parametrize("run", OTHER_WAYS)
def test_recordings_of_every_way_are_read_without_their_server(run: str) -> None:
    assert iperf2.read(recorded(f"{run}-client")).completeness is UNKNOWN
    assert iperf2.read(recorded(f"{run}-client")).ok
    assert iperf2.read(recorded(f"{run}-server")).ok


def test_a_reversed_run_is_what_the_client_received() -> None:
    found = [m for m in both_sides("reverse-p2").measurements if m.metric == "bandwidth"]
    assert [(m.operation, m.value, m.nodes) for m in found] == [
        ("tcp reverse", pytest.approx(2.281448), ("node1", "node2"))
    ]


@pytest.mark.parametrize(
    ("run", "forward", "reverse"),
    [
        # Over the client's 2.0307 s: the server's clock started late.
        ("duplex-p1", 8e-9 * 229760 * 1024 / 2.0307, 0.909116),
        ("dual-p1", 1.063321, 1.106484),
        ("tradeoff-p1", 2.054586, 2.472395),
        ("duplex-p1-2.1.8", 2.399560, 2.323665),
    ],
)
def test_both_ways_are_measured_where_they_arrive(run: str, forward: float, reverse: float) -> None:
    found = {m.operation: m.value for m in both_sides(run).measurements if m.metric == "bandwidth"}
    assert found == {"tcp": pytest.approx(forward), "tcp reverse": pytest.approx(reverse)}


def test_a_direction_that_was_not_asked_for_refuses() -> None:
    for run, asked in (("reverse-p2", "forward"), ("duplex-p1", "reverse"), ("p1", "both")):
        options = dataclasses.replace(
            OTHER_WAYS.get(run, RUNS.get(run, DUPLEX)),
            direction=asked,  # type: ignore[arg-type]
        )
        reading = both_sides(run, options)
        assert not reading.ok and "expected" in reading.reason


def test_sides_that_go_other_ways_refuse() -> None:
    reading = iperf2.read(recorded("p1-client"), server=recorded("duplex-p1-server"))
    assert "their streams go other ways" in reading.reason


def test_a_sum_of_other_bytes_than_both_ways_is_rejected() -> None:
    total = "[SUM] 0.0000-2.0080 sec  457856 KBytes  1867881 Kbits/sec"
    other = "[SUM] 0.0000-2.0080 sec  557856 KBytes  2275840 Kbits/sec"
    text = edited("duplex-p1-server", total, other)
    with pytest.raises(ParseError, match="of both directions"):
        iperf2.parse(text)


def test_a_port_that_cannot_be_bound_is_a_failure() -> None:
    with pytest.raises(ParseError, match="no error message"):
        iperf2.parse(recorded("dual-without-a-port-2.1.8-client"))


@pytest.mark.parametrize("run", OTHER_WAYS)
@pytest.mark.parametrize("side", ["client", "server"])
def test_no_missing_row_of_any_way_proves_another_result(run: str, side: str) -> None:
    lines = recorded(f"{run}-{side}").split("\n")
    whole = both_sides(run)
    for place in row_numbers(recorded(f"{run}-{side}")):
        text = "\n".join(lines[:place] + lines[place + 1 :])
        texts = {
            "client": recorded(f"{run}-client"),
            "server": recorded(f"{run}-server"),
            side: text,
        }
        reading = iperf2.read(
            texts["client"], server=texts["server"], calls=calls(), options=OTHER_WAYS[run]
        )
        if reading.ok and reading.completeness is PROVED:
            # The clocks of a stream and of the run may differ by 2 %, and a sum by its rounding.
            assert values(reading) == pytest.approx(values(whole), rel=0.025), place


@pytest.mark.parametrize("first", ["client", "server"])
def test_both_sides_of_any_way_in_one_text_are_rejected(first: str) -> None:
    second = "server" if first == "client" else "client"
    for run in OTHER_WAYS:
        with pytest.raises(ParseError):
            iperf2.parse(recorded(f"{run}-{first}") + recorded(f"{run}-{second}"))


def test_megabytes_are_of_1024_and_so_is_their_rate() -> None:
    reading = both_sides("mbytes-p2")
    assert values(reading)["bandwidth"] == pytest.approx(197 * 8 * 2**20 / 1e9)


def test_a_rate_in_bytes_must_be_that_of_its_bytes() -> None:
    with pytest.raises(ParseError, match="by its bytes and time"):
        iperf2.parse(edited("mbytes-p2-client", "197 MBytes/sec", "297 MBytes/sec"))


def test_a_stall_of_whole_intervals_is_a_note_with_its_length() -> None:
    text = recorded("p1-client")
    (interval,) = [line for line in text.split("\n") if "1.0000-2.0000" in line]
    nothing = "0.000 KBytes  0.000 Kbits/sec  0/0  0  0K(0)/1K(1)/9(9) us  0"
    stalled = f"{interval.split(' sec ')[0]} sec  {nothing}"
    reading = iperf2.read(text.replace(interval, stalled))
    assert reading.ok, reading.reason
    assert reading.notes == ("output: [1] moved nothing from 1 to 2 s, 1 s long",)


def test_a_stall_of_several_intervals_is_one() -> None:
    head = recorded("p1-client").split("[ ID]")[0]
    rows = [
        "[  1] 0.0000-1.0000 sec  100000 KBytes  819200 Kbits/sec",
        *(f"[  1] {t}.0000-{t + 1}.0000 sec  0.000 KBytes  0.000 Kbits/sec" for t in (1, 2, 3)),
        "[  1] 4.0000-5.0000 sec  100000 KBytes  819200 Kbits/sec",
        "[  1] 0.0000-5.0000 sec  200000 KBytes  327680 Kbits/sec",
    ]
    (note,) = iperf2.read("\n".join([head, *rows, ""])).notes
    assert "from 1 to 4 s, 3 s long" in note


def test_streams_that_starve_to_the_end_next_to_others_are_a_note() -> None:
    """Emulated machines at a load of 6: ten of sixteen stood still for seconds."""
    reading = iperf2.read(
        recorded("starved-streams-client"),
        server=recorded("starved-streams-server"),
        calls=calls(),
        options=iperf2.Options(streams=16, duration_s=4, drain_s=5),
    )
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    assert "client on node1: [10] moved nothing from 1 to 5.1313 s, 4.1313 s long" in reading.notes
    assert len(reading.notes) == 10


def test_a_client_may_come_to_its_first_lines_after_its_first_rows() -> None:
    """Emulated machines at a load of 8: its first lines stand below rows."""
    reading = iperf2.read(
        recorded("late-banner-client"),
        server=recorded("late-banner-server"),
        calls=calls(),
        options=iperf2.Options(streams=16, duration_s=4, drain_s=5),
    )
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    (bandwidth,) = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert bandwidth == pytest.approx(8e-9 * 82607 * 1024 / 4.7322, rel=0.01)


def test_a_run_behind_the_rows_of_one_without_a_beginning_is_rejected() -> None:
    torn = recorded("p1-client").split("[ ID]")[1]
    with pytest.raises(ParseError):
        iperf2.parse(f"[ ID]{torn}{recorded('p1-client')}")


def test_a_starved_stream_that_lacks_bytes_is_rejected() -> None:
    text = recorded("starved-streams-client")
    total = "[ 10] 0.0000-5.1313 sec   758 KBytes  1209 K"
    with pytest.raises(ParseError, match="no interval"):
        iperf2.parse(text.replace(total, "[ 10] 0.0000-5.1313 sec   958 KBytes  1529 K"))


def test_a_run_without_a_stall_has_no_note() -> None:
    assert not any(both_sides(run).notes for run in OTHER_WAYS)


@pytest.mark.parametrize(("direction", "flag"), [("reverse", "-R"), ("both", "--full-duplex")])
def test_another_direction_is_asked_of_the_client(direction: Any, flag: str) -> None:
    assert flag in iperf2.client_argv(iperf2.Options(direction=direction))


# ---- read ----


@pytest.mark.parametrize("run", RUNS)
def test_a_run_with_all_its_evidence_is_proved(run: str) -> None:
    reading = judged(run)
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason


def test_measurements_are_the_receivers() -> None:
    found = values(judged("p1"))
    assert found == {
        "bandwidth": pytest.approx(13.602545),
        "stream_bandwidth_min": pytest.approx(13.602545),
        "retransmits": 4290,
    }


def test_nodes_are_receiver_and_sender() -> None:
    assert {measurement.nodes for measurement in judged("p4").measurements} == {("node2", "node1")}


def test_without_calls_the_reading_is_unknown() -> None:
    reading = iperf2.read(recorded(P4), server=recorded("p4-server"), options=RUNS["p4"])
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)
    assert reading.reason.endswith("without the exit codes of both sides")


def test_a_bare_text_says_what_is_missing() -> None:
    reason = iperf2.read(recorded(P4)).reason
    assert reason.endswith("the exit codes of both sides, the server's output, the options")


def test_a_bare_server_text_is_read() -> None:
    reading = iperf2.read(recorded("p4-server"))
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"client": {"exit_code": 1}}, "(client) on node1 ended with exit code 1"),
        ({"server": {"exit_code": None}}, "(server) on node2 was killed"),
        ({"server": {"tool": "iperf3"}}, "server: 0 iperf2 calls recorded"),
        ({"server": {"role": "client"}}, "client: 2 iperf2 calls recorded"),
        ({"client": {"seconds": 1.0}}, "client on node1: the call took 1.0 s"),
    ],
)
def test_calls_that_contradict_refuse(change: dict[str, Any], words: str) -> None:
    reading = iperf2.read(
        recorded(P4),
        server=recorded("p4-server"),
        calls=calls(**change),
        options=RUNS["p4"],
    )
    assert (reading.ok, reading.completeness) == (False, BROKEN)
    assert words in reading.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (iperf2.Options(streams=8, duration_s=3), "client on node1: 4 streams, expected 8"),
        (
            iperf2.Options(streams=4, duration_s=5),
            "client on node1: [SUM] ran for 3 s, expected 4.5 to",
        ),
        (
            iperf2.Options(streams=4, duration_s=1),
            "client on node1: [SUM] ran for 3 s, expected 0.7 to",
        ),
        (iperf2.Options(4, 3, congestion="cubic"), "client on node1: bbr, expected cubic"),
        (iperf2.Options(4, 3, window_bytes=2**20), "server on node2: a window of 131072 bytes"),
    ],
)
def test_options_that_contradict_refuse(options: iperf2.Options, words: str) -> None:
    reading = iperf2.read(
        recorded(P4), server=recorded("p4-server"), calls=calls(), options=options
    )
    assert (reading.ok, reading.completeness) == (False, BROKEN)
    assert words in reading.reason


def test_a_server_may_start_its_clock_late() -> None:
    # Four streams of 3 s for what should be sixteen of 4 s: the server's clock is not at fault.
    options = iperf2.Options(streams=16, duration_s=4)
    reading = iperf2.read(
        recorded(P4), server=recorded("p4-server"), calls=calls(), options=options
    )
    assert "client on node1: [SUM] ran for 3 s, expected 3.55 to 5.4 s" in reading.reason
    assert "server on node2: [4] ran" not in reading.reason


def test_a_server_may_come_to_its_last_stream_half_a_run_late() -> None:
    """Of sixteen streams of 4 s the last one's clock shows 2.2 s; the bytes are all there."""
    options = iperf2.Options(streams=16, duration_s=4, drain_s=5)
    client, server = recorded("starved-vm-client"), recorded("starved-vm-server")
    reading = iperf2.read(client, server=server, calls=calls(), options=options)
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    found = {m.metric: m.value for m in reading.measurements}
    # Of 107,393 KiB in all, and of 2,447 in the slowest stream, whose own clock shows 2.36 s.
    assert found["bandwidth"] == pytest.approx(8e-9 * 107393 * 1024 / 4.9421, rel=0.01)
    assert found["stream_bandwidth_min"] == pytest.approx(8e-9 * 2447 * 1024 / 4.9421, rel=0.01)


def test_a_sum_by_the_clock_of_one_stream_is_no_faster_than_its_link() -> None:
    """Its last stream began 63 ms after the first: by its clock 101.7 % of what the link allows."""
    options = iperf2.Options(
        streams=4, duration_s=3, window_bytes=524288, congestion="cubic", drain_s=5
    )
    client, server = recorded("late-stream-client"), recorded("late-stream-server")
    reading = iperf2.read(client, server=server, calls=calls(), options=options)
    assert reading.ok, reading.reason
    (rate,) = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert rate == pytest.approx(0.02951, rel=0.0005)


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        # The server came to the first stream at once, to the others 157 ms late: that is no time
        # before the first.
        ("late-accept", 0.009860),
        # All streams end with the client's; the sum's clock is one that began 156 ms late.
        ("sum-short", 0.009884),
        # The same, and the client's clock ends 0.5 ms before the server's.
        ("sum-of-late-clock", 0.009873),
    ],
)
def test_a_server_that_comes_late_to_some_streams_changes_no_rate(name: str, rate: float) -> None:
    """Links of 0.01 Gb/s on a starved host, whose devices carried 0.00988 with all headers."""
    options = iperf2.Options(
        streams=4, duration_s=5, window_bytes=131072, congestion="cubic", drain_s=5
    )
    client, server = recorded(f"{name}-client"), recorded(f"{name}-server")
    both = both_calls(iperf2.TOOL, 6.8, "iperf version 2.2.1")
    reading = iperf2.read(client, server=server, calls=both, options=options)
    assert reading.ok, reading.reason
    found = {m.metric: m.value for m in reading.measurements}
    assert found["bandwidth"] == pytest.approx(rate, rel=5e-4)


def test_a_sum_with_a_clock_shorter_than_any_stream_makes_no_rate_too_high() -> None:
    """A link of 1 Gb/s carries 0.9788 with this MTU; the client's sum is of 3.0397 s, and its
    streams are of 3.0838 to 3.0989.
    """
    client, server = recorded("sum-of-no-clock-client"), recorded("sum-of-no-clock-server")
    options = iperf2.Options(streams=4, duration_s=3, interval_s=1, drain_s=5)
    both = both_calls(iperf2.TOOL, 3.2, "iperf version 2.2.1")
    reading = iperf2.read(client, server=server, calls=both, options=options)
    assert reading.ok, reading.reason
    (rate,) = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert rate == pytest.approx(8e-9 * 370048 * 1024 / 3.1024, rel=0.001) and rate < 0.9788


def test_a_client_that_comes_late_to_the_end_of_a_stream_slows_nothing() -> None:
    """It closed a stream at 4.94 s whose last byte the server had at 3.94 s, and all at 4.14 s."""
    options = iperf2.Options(
        streams=4, duration_s=3, window_bytes=524288, congestion="cubic", drain_s=5
    )
    client, server = recorded("late-client-client"), recorded("late-client-server")
    reading = iperf2.read(client, server=server, calls=calls(), options=options)
    assert reading.ok, reading.reason
    found = {m.metric: m.value for m in reading.measurements}
    assert found["bandwidth"] == pytest.approx(0.029469)
    assert found["stream_bandwidth_min"] == pytest.approx(8e-9 * 2613 * 1024 / 4.15, rel=0.01)


def test_a_server_that_comes_a_little_late_makes_no_rate_above_its_link() -> None:
    """It came to all streams 71 ms after the client's start: of 3.44 s that is 1.9 %, and by its
    own clock the link of 0.1 Gb/s carried 0.09906, where 0.09788 are possible (lab32, 2026-11-28).
    """
    options = iperf2.Options(streams=4, duration_s=3, interval_s=1, drain_s=5)
    client, server = recorded("late-server-client"), recorded("late-server-server")
    both = both_calls(iperf2.TOOL, 3.48, "iperf version 2.2.1")
    reading = iperf2.read(client, server=server, calls=both, options=options)
    assert reading.ok, reading.reason
    (rate,) = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert rate == pytest.approx(8e-9 * 40826 * 1024 / 3.4397, rel=0.001) and rate < 0.09788


def test_a_server_that_comes_late_to_all_streams_makes_no_rate_too_high() -> None:
    late = re.sub(
        r"0\.0000-([0-9.]+) sec( +[0-9]+ KBytes) +([0-9]+)",
        lambda row: (
            f"0.0000-{float(row[1]) - 0.3:.4f} sec{row[2]} "
            f"{float(row[3]) * float(row[1]) / (float(row[1]) - 0.3):.0f}"
        ),
        recorded("late-client-server"),
    )
    reading = iperf2.read(recorded("late-client-client"), server=late, calls=calls())
    rates = {m.metric: m.value for m in reading.measurements}
    assert rates["bandwidth"] == pytest.approx(0.029469, rel=0.01)


def test_the_sum_of_the_first_interval_is_not_taken_for_the_total() -> None:
    """2.2.1 on a starved machine: the only [SUM] row is that of its first second; it exits 0."""
    options = iperf2.Options(streams=16, duration_s=4, interval_s=1, drain_s=5)
    client, server = recorded("no-last-sum-client"), recorded("no-last-sum-server")
    reading = iperf2.read(client, server=server, calls=calls(), options=options)
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    (bandwidth,) = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert bandwidth == pytest.approx(8e-9 * 58319 * 1024 / 4.8065, rel=0.01)
    # Where a stream's own total lacks, nothing shows that the rest is all.
    without = "".join(
        line for line in client.splitlines(keepends=True) if "[  8] 0.0000-4.5798" not in line
    )
    assert not iperf2.read(without, server=server, calls=calls(), options=options).ok


def test_streams_that_a_server_came_to_in_turn_are_not_added_by_their_rates() -> None:
    """Its last [SUM] row is of 13 of 16 streams, the clocks of which show 0.28 to 5.85 s: the
    rates that it printed make 0.202 Gb/s of a link that carries 0.2.
    """
    options = iperf2.Options(streams=16, duration_s=4, interval_s=1, drain_s=5)
    client, server = recorded("sum-of-some-client"), recorded("sum-of-some-server")
    reading = iperf2.read(client, server=server, calls=calls(), options=options)
    assert reading.ok, reading.reason
    (bandwidth,) = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert bandwidth == pytest.approx(8e-9 * 64573440 / 5.8455, rel=0.01)


def test_a_client_that_stopped_early_is_no_result_however_late_its_server_was() -> None:
    client, server = recorded("starved-vm-client"), recorded("starved-vm-server")
    options = iperf2.Options(streams=16, duration_s=6, drain_s=5)
    reading = iperf2.read(client, server=server, calls=calls(), options=options)
    assert "client on node1: [2] ran for 4.374 s, expected 5.45 to" in reading.reason


def busy(side: str) -> str:
    return recorded(f"busy-vm-{side}")


def test_a_run_on_a_busy_machine_is_judged_by_bytes_and_time() -> None:
    """Its sum ends at 3.3 s, its streams at 4.3 to 5.7 s; one waited its last two seconds."""
    options = iperf2.Options(streams=4, duration_s=3, drain_s=5)
    reading = iperf2.read(busy("client"), server=busy("server"), calls=calls(), options=options)
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    (bandwidth,) = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert bandwidth == pytest.approx(8e-9 * 68664 * 1024 / 5.7163, rel=0.025)


def test_a_stream_that_moved_something_untold_at_its_end_is_no_result() -> None:
    total = "[  2] 0.0000-4.9737 sec  18726 KBytes  30842 Kbits/sec"
    assert total in busy("client")
    more = busy("client").replace(total, "[  2] 0.0000-4.9737 sec  19726 KBytes  32490 Kbits/sec")
    with pytest.raises(ParseError, match=r"no interval of \[2\] from 3 to 4.9737 s"):
        iperf2.parse(more)


def test_what_is_buffered_may_drain_after_the_time_if_that_was_said() -> None:
    # So small a buffer is empty at once.
    options = dataclasses.replace(RUNS["wan"], duration_s=2, window_bytes=1)
    read = functools.partial(
        iperf2.read, recorded("wan-client"), server=recorded("wan-server"), calls=calls()
    )
    assert "expected 1.65 to 3.2 s" in read(options=dataclasses.replace(options, drain_s=0)).reason
    assert read(options=options).ok


def test_window_and_congestion_are_part_of_every_measurements_condition() -> None:
    found = {(m.window_bytes, m.congestion) for m in judged("wan").measurements}
    assert found == {(8 * 2**20, "cubic")}


def test_condition_that_was_not_asked_for_is_none() -> None:
    found = {(m.window_bytes, m.congestion) for m in judged("p4").measurements}
    assert found == {(None, None)}


# ---- the time until the rate is stable ----


def test_time_to_stable_is_the_receivers() -> None:
    """Half of the first half second went by before the first bytes came."""
    assert values(judged("wan"))["time_to_stable"] == 0.5


def test_time_to_stable_is_measured_only_with_intervals_of_the_receiver() -> None:
    assert "time_to_stable" not in values(judged("p4"))


def intervals(*rates: float, length_s: float = 0.5) -> list[iperf2.Stream]:
    """One stream's intervals of the same length, with these rates in Gb/s."""
    return [
        iperf2.Stream(
            place * length_s, (place + 1) * length_s, round(rate * length_s * 125e6), rate, id="1"
        )
        for place, rate in enumerate(rates)
    ]


@pytest.mark.parametrize(
    ("rates", "seconds"),
    [
        ([9.0], 0),
        ([9, 9, 9, 9], 0),
        ([1, 2, 4, 8, 9, 9, 9, 9], 2.0),
        ([1, 2, 4, 8.2, 9, 9, 9, 9], 1.5),
        ([8.1, 8.0, 9, 9], 0),
        ([8.0, 8.1, 9, 9], 0.5),
        ([0, 0, 0, 9], 1.5),
        ([0, 0, 0, 0], 0),
        # What comes after half of the run counts: not its rest of an interval at the end.
        ([1, 9, 9, 9, 9, 0.1], 0.5),
    ],
)
def test_rate_is_stable_from_the_first_interval_that_is_near_what_follows(
    rates: list[float], seconds: float
) -> None:
    assert iperf2.time_to_stable_s(intervals(*rates)) == seconds


def test_without_intervals_there_is_no_time() -> None:
    with pytest.raises(ValueError, match="no intervals"):
        iperf2.time_to_stable_s([])


RATES = st.lists(st.floats(0, 1e3), min_size=1, max_size=80)


@given(RATES, st.floats(0.1, 10))
def test_time_to_stable_is_the_start_of_an_interval_of_the_run(
    rates: list[float], length_s: float
) -> None:
    run = intervals(*rates, length_s=length_s)
    assert iperf2.time_to_stable_s(run) in [interval.start_s for interval in run]


@given(st.floats(0.001, 1e3), st.integers(1, 80), st.floats(0, 5))
def test_steady_run_is_stable_from_its_first_interval(
    rate: float, count: int, start_s: float
) -> None:
    run = [
        dataclasses.replace(i, start_s=i.start_s + start_s, end_s=i.end_s + start_s)
        for i in intervals(*[rate] * count)
    ]
    assert iperf2.time_to_stable_s(run) == run[0].start_s


@given(st.integers(0, 20), st.floats(1, 1e3), st.floats(0, 0.89))
def test_slow_start_in_the_first_half_is_found(slow: int, rate: float, share: float) -> None:
    rates = [rate * share] * slow + [rate] * (slow + 1)
    assert iperf2.time_to_stable_s(intervals(*rates)) == slow * 0.5


def test_congestion_control_must_be_shown_if_it_was_asked_for() -> None:
    client = edited("cubic-client", "(cubic) ", "")
    client = client.replace("TCP congestion control set to cubic using cubic\n", "")
    assert "no congestion control shown" in judged("cubic", client=client).reason


def test_a_client_stopped_halfway_refuses_although_everything_exited_0() -> None:
    reading = iperf2.read(
        recorded("client-terminated-client"),
        server=recorded("client-terminated-server"),
        calls=calls(),
        options=RUNS["p4"],
    )
    assert not reading.ok
    assert "ran for 1.33 s, expected 2.6 to 4.3 s" in reading.reason


def test_a_killed_server_refuses() -> None:
    reading = iperf2.read(
        recorded("server-killed-client"),
        server=recorded("server-killed-server"),
        calls=calls(server={"exit_code": 137}),
        options=RUNS["p4"],
    )
    assert "(server) on node2 ended with exit code 137" in reading.reason
    assert "client on node1: line 30: found '[  2] tcp write failed'" in reading.reason


def test_a_refused_client_refuses() -> None:
    assert "Connection refused" in iperf2.read(recorded("refused-client")).reason


def test_the_servers_output_of_another_run_refuses() -> None:
    reading = judged("p4", server=recorded("cubic-server"))
    assert not reading.ok
    assert "its connections are not those of client on node1" in reading.reason


def test_lost_bytes_refuse() -> None:
    client = recorded("p1-client")
    server = recorded("p1-server")
    for old, new in (("3321216", "3221216"), ("13602545", "13192971")):
        server = server.replace(old, new)
    reading = judged("p1", client, server)
    assert not reading.ok
    assert "client on node1 sent 3400925184 bytes but server on node2 received" in reading.reason


def test_the_same_text_for_both_sides_refuses() -> None:
    reading = judged("p4", server=recorded(P4))
    assert "server on node2: the output is that of a client" in reading.reason


def test_a_stream_that_moved_nothing_refuses() -> None:
    text = "[  1] 0.0000-5.0000 sec  0.000 KBytes  0.000 Kbits/sec\n"
    assert "[1] moved 0 bytes" in iperf2.read(text).reason


def test_bounceback_is_not_what_tcp_options_asked_for() -> None:
    options = iperf2.Options(streams=1, duration_s=2)
    assert not iperf2.read(recorded("bounceback-client"), options=options).ok


def test_the_server_of_a_bounceback_gives_no_bandwidth() -> None:
    assert not iperf2.read(recorded("bounceback-server")).ok


def test_csv_cannot_be_proved() -> None:
    options = iperf2.Options(streams=2, duration_s=2)
    server = recorded("csv-enhanced-server")
    client = server.replace("readcnt", "writecnt")
    reading = iperf2.read(client, server=server, calls=calls(), options=options)
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)


# ---- no damaged output is believed ----


def same_result(one: Reading, other: Reading) -> bool:
    """Alike to 1 %: a lost [SUM] row is made up for by the streams' totals."""
    return values(one) == pytest.approx(values(other), rel=0.01) and all(
        one.seen[name] == other.seen[name] for name in ("streams", "mss_bytes", "congestion")
    )


#: The rest of a run that ends between two intervals; its total has its bytes too.
WAN_TAIL = "4.0000-4.1696"

SIDES = [(run, side) for run in RUNS for side in ("client", "server")]


# `cubic` has the rows of `p4`; it is cut at random places below.
@pytest.mark.parametrize(("run", "side"), [where for where in SIDES if where[0] != "cubic"])
def test_truncation_never_proves_another_result(run: str, side: str) -> None:
    """At every line end and at every character of the last rows."""
    whole, text = judged(run), recorded(f"{run}-{side}")
    ends = {place for place, character in enumerate(text) if character == "\n"}
    for place in ends | set(range(len(text) - 300, len(text))):
        reading = judged(run, **{side: text[:place]})
        proved = reading.ok and reading.completeness is PROVED
        assert not proved or same_result(reading, whole), text[:place][-80:]


@QUICK
@given(st.sampled_from(SIDES), st.data())
def test_truncation_anywhere_never_proves_another_result(
    where: tuple[str, str], data: st.DataObject
) -> None:
    run, side = where
    whole, text = judged(run), recorded(f"{run}-{side}")
    reading = judged(run, **{side: text[: data.draw(st.integers(0, len(text) - 1))]})
    assert not (reading.ok and reading.completeness is PROVED) or same_result(reading, whole)


@QUICK
@given(st.sampled_from(SIDES), st.data())
def test_a_truncated_bare_text_is_never_proved(where: tuple[str, str], data: st.DataObject) -> None:
    text = recorded("-".join(where))
    reading = iperf2.read(text[: data.draw(st.integers(0, len(text)))])
    assert reading.completeness is not PROVED


@pytest.mark.parametrize(("run", "side"), SIDES)
def test_a_deleted_row_never_proves_another_result(run: str, side: str) -> None:
    whole, lines = judged(run), recorded(f"{run}-{side}").split("\n")
    for number in row_numbers("\n".join(lines)):
        reading = judged(run, **{side: "\n".join(lines[:number] + lines[number + 1 :])})
        spare = "[SUM" in lines[number] or WAN_TAIL in lines[number]
        made_up_for = spare and same_result(reading, whole)
        assert not reading.ok or made_up_for, lines[number]


@pytest.mark.parametrize(("run", "side"), SIDES)
def test_a_row_twice_is_never_proved(run: str, side: str) -> None:
    lines = recorded(f"{run}-{side}").split("\n")
    for number in row_numbers("\n".join(lines)):
        for place in (number, len(lines) - 1):
            damaged = [*lines[:place], lines[number], *lines[place:]]
            reading = judged(run, **{side: "\n".join(damaged)})
            assert not reading.ok, lines[number]


def never_raises(text: str) -> None:
    """`parse` may only refuse, `read` may not raise at all."""
    try:
        iperf2.parse(text)
    except ParseError as error:
        assert str(error)
    assert iperf2.read(text).completeness is not PROVED
    iperf2.read(text, server=text, calls=calls(), options=RUNS["p4"])
    iperf2.read(recorded(P4), server=text, calls=calls(), options=RUNS["p4"])


NAMES = sorted(path.stem for path in RECORDED.glob("*.txt"))


@QUICK
@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.randoms(use_true_random=False))
def test_deleted_doubled_and_mixed_lines_raise_nothing_else(
    one: str, other: str, random: Any
) -> None:
    lines, others = recorded(one).split("\n"), recorded(other).split("\n")
    for _ in range(random.randrange(1, 6)):
        place = random.randrange(len(lines) + 1)
        lines[place : place + random.randrange(3)] = random.choice(
            [[], lines[place : place + 1] * 2, [random.choice(others)], ["\x00 [  1] 0.0-"]]
        )
    never_raises("\n".join(lines))


@QUICK
@given(st.sampled_from(NAMES), st.randoms(use_true_random=False))
def test_changed_characters_raise_nothing_else(name: str, random: Any) -> None:
    text = list(recorded(name))
    digits = [place for place, character in enumerate(text) if character.isdigit()]
    for _ in range(random.randrange(1, 12)):
        text[random.choice(digits)] = random.choice("0123456789")
        if random.random() < 0.3:
            text[random.randrange(len(text))] = random.choice("-.,[]/ \n\t#=\u0663\ufffdnaie")
    never_raises("".join(text))


@QUICK
@given(st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))))
def test_any_text_raises_nothing_else(text: str) -> None:
    never_raises(text)


ROW_PIECES = ["[  1]", "[SUM]", "[SUM-2]", "[ *1]", " 0.0000-1.0000", " 0.0- 1.0", " sec "]
ROW_PIECES += [" 1.00", " nan", " MBytes", " 8.39", " Mbits/sec", " 1/0", "-1", "9" * 20, "\n"]
ROW_PIECES += [" 3=0.1/0.1/0.1/0.1 ms", "[ ID] Interval Transfer Bandwidth BB Rtry\n"]
ROW_PIECES += ["Client connecting to x, TCP port 1\n", "time,transferid\n", "20261121022144,"]
ROW_PIECES += ["10.0.0.1,5001,", "1,0.0-2.0,", "2000000,8000000"]


@QUICK
@given(st.lists(st.sampled_from(ROW_PIECES), max_size=40).map("".join))
def test_pieces_of_rows_raise_nothing_else(text: str) -> None:
    never_raises(text)


@QUICK
@given(st.lists(st.text("abXY0123456789./()-%", min_size=1, max_size=9), max_size=6))
def test_any_further_columns_are_tolerated(columns: list[str]) -> None:
    lines = recorded("p1-client").split("\n")
    for number in row_numbers("\n".join(lines)):
        lines[number] += "  " + "  ".join(columns)
    assert iperf2.parse("\n".join(lines)).total == iperf2.parse(recorded("p1-client")).total
