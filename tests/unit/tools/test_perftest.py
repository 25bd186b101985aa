"""perftest: what real outputs give, and that no damaged output is believed."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railgauge.model.call import Call
from railgauge.tools import Completeness, ParseError, Reading, perftest, table
from tests.command_line import railgauge
from tests.properties import tries
from tests.unit.tools.sides import both_calls, edited

REPOSITORY = Path(__file__).parents[3]
RECORDED = REPOSITORY / "tests" / "data" / "perftest"

QUICK = settings(
    max_examples=tries(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

PROVED, UNKNOWN, BROKEN = Completeness.PROVED, Completeness.UNKNOWN, Completeness.BROKEN

#: recorded run -> what was requested, and what its first row gives
REAL: dict[str, tuple[perftest.Options, dict[str, float]]] = {
    "write": (
        perftest.Options("write", "bw", 65536, iterations=200),
        {"bandwidth": 0.20, "bandwidth_peak": 0.20, "message_rate": 0.000374},
    ),
    "read": (
        perftest.Options("read", "bw", 65536, iterations=200),
        {"bandwidth": 0.25, "bandwidth_peak": 0.25, "message_rate": 0.000472},
    ),
    "send": (
        perftest.Options("send", "bw", 65536, iterations=200),
        {"bandwidth": 0.17, "bandwidth_peak": 0.17, "message_rate": 0.000316},
    ),
    "bidirectional": (
        perftest.Options("write", "bw", 65536, iterations=200, bidirectional=True),
        {"bandwidth": 0.24, "bandwidth_peak": 0.27, "message_rate": 0.000456},
    ),
    "queue-pairs": (
        perftest.Options("write", "bw", 65536, iterations=200, queue_pairs=4),
        {"bandwidth": 0.29, "bandwidth_peak": 0.29, "message_rate": 0.000556},
    ),
    "connection-manager": (
        perftest.Options("write", "bw", 65536, iterations=200, rdma_cm=True),
        {"bandwidth": 0.13, "bandwidth_peak": 0.15, "message_rate": 0.000251},
    ),
    # perftest 6.29 of 2026-07-27 (00b55b6), built with SSE4.2, between two VM nodes of the lab.
    "validated": (
        perftest.Options(
            "write", "bw", 65536, iterations=200, bidirectional=True, data_validation=True
        ),
        {"bandwidth": 0.47, "bandwidth_peak": 0.50, "message_rate": 0.000903},
    ),
    "duration": (
        perftest.Options("write", "bw", 65536, duration_s=2),
        {"bandwidth": 0.22, "message_rate": 0.000422},
    ),
    "sweep": (
        perftest.Options("write", "bw", sweep=True, iterations=5),
        {"bandwidth": 0.000014, "bandwidth_peak": 0.000014, "message_rate": 0.000900},
    ),
    "write-lat": (
        perftest.Options("write", "lat", 2, iterations=300),
        {
            "latency": 804.78,
            "latency_min": 419.73,
            "latency_avg": 1158.82,
            "latency_p99": 3507.45,
            "latency_max": 4100.60,
        },
    ),
    "send-lat": (
        perftest.Options("send", "lat", 2, iterations=300),
        {
            "latency": 811.83,
            "latency_min": 429.06,
            "latency_avg": 1335.73,
            "latency_p99": 5416.63,
            "latency_max": 6369.22,
        },
    ),
}

#: runs as perftest 25.01 prints them
RUNS = {
    "write": perftest.Options("write", "bw", 65536, iterations=5000),
    "sweep": perftest.Options("write", "bw", sweep=True, iterations=1000),
    "read": perftest.Options("read", "bw", 1048576, iterations=5000, queue_pairs=4),
    "send": perftest.Options("send", "bw", 65536, duration_s=10),
    "both": perftest.Options("write", "bw", 65536, iterations=5000, bidirectional=True),
    "write-lat": perftest.Options("write", "lat", 2, iterations=10000),
    "read-lat": perftest.Options("read", "lat", 2, iterations=10000),
    "send-lat": perftest.Options("send", "lat", 64, duration_s=10),
}
SIDES = [(run, side) for run in RUNS for side in ("client", "server")]

RULE = "-" * 87
BW_HEADER = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
LAT_HEADER = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
    "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
)
LAT_DURATION_HEADER = " #bytes        #iterations       t_avg[usec]    tps average"


def rows(options: perftest.Options, role: str) -> list[str]:
    """Header and rows (REPORT_FMT...), with the numbers of a link of 100 Gb/s."""
    sizes = options.sizes
    if options.test == "bw":
        if role == "server" and options.operation != "send" and not options.bidirectional:
            sizes = sizes[-1:]
        lines = [BW_HEADER]
        for size in sizes:
            rate = min(5.0, 92.5e3 / 8 / size) * (2 if options.bidirectional else 1)
            average = rate * size * 8e-3
            count = (options.iterations or 0) * options.queue_pairs
            peak = average * 1.01
            if options.duration_s is not None:
                count, peak = int(rate * 1e6 * (options.duration_s // 2)), 0.0
            digits = 6 if average < 0.1 else 2
            lines.append(
                f" {size:<7}    {count:<10}       {peak:<7.{digits}f}            "
                f"{average:<7.{digits}f}\t\t     {rate:<7.6f}"
            )
        return lines
    if role == "server" and options.operation == "read":
        return []
    if options.duration_s is not None:
        return [LAT_DURATION_HEADER, f" {sizes[0]:<7}       1700000            1.47        340136"]
    lines = [LAT_HEADER]
    for size in sizes:
        lines.append(
            f" {size:<7} {options.iterations}          1.42           1.93         1.47     "
            " \t       1.48     \t0.02   \t\t1.57    \t\t1.60   "
        )
    return lines


def printed(options: perftest.Options, role: str, link: str = "Ethernet") -> str:
    """What one side of a good run prints, as ctx_print_test_info and its neighbours do."""
    name = {"write": "RDMA_Write", "read": "RDMA_Read", "send": "Send"}[options.operation]
    kind = {"bw": "BW", "lat": "Latency"}[options.test]
    lines = []
    if role == "server":
        stars = "*" * 36
        lines += ["", stars, "* Waiting for client to connect... *", stars]
    both = "Bidirectional " if options.bidirectional else ""
    lines += [RULE, f"                    {name} {both}{kind} Test"]
    lines += [" Dual-port       : OFF\t\tDevice         : mlx5_0"]
    lines += [f" Number of qps   : {options.queue_pairs}\t\tTransport type : IB"]
    lines += [" Connection type : RC\t\tUsing SRQ      : OFF"]
    lines += [" PCIe relax order: Unsupported\t\tLock-free      : Unsupported"]
    lines += [" ibv_wr* API     : ON\t\tUsing DDP      : OFF"]
    if role == "client" or options.bidirectional:
        lines += [" TX depth        : 128"]
    lines += [" Mtu             : 4096[B]", f" Link type       : {link}"]
    if link == "Ethernet":
        lines += [" GID index       : 3"]
    lines += [f" rdma_cm QPs\t : {'ON' if options.rdma_cm else 'OFF'}"]
    lines += [" Data ex. method : Ethernet", RULE]
    ends = ["client", "server"] if role == "client" else ["server", "client"]
    for side, end in zip(("local", "remote"), ends, strict=True):
        last = {"client": 12, "server": 11}[end]
        for pair in range(options.queue_pairs):
            lid = "0000" if link == "Ethernet" else f"0x{last:02x}"
            psn = 0x7B509F + 256 * pair + last
            lines += [f" {side} address: LID {lid} QPN {0x12 + pair:#06x} PSN {psn:#06x}"]
            if link == "Ethernet":
                lines += [f" GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:{last}"]
    table = rows(options, role)
    return "\n".join([*lines, *([RULE, *table] if table else []), RULE, ""])


def recorded(name: str, side: str = "client") -> str:
    return (RECORDED / f"{name}-{side}.txt").read_text(encoding="utf-8")


calls = functools.partial(both_calls, perftest.TOOL, 11.0, "Version: 6.24")


def judged(run: str, client: str | None = None, server: str | None = None) -> Reading:
    """A good run with all its evidence, one side of it replaced."""
    return perftest.read(
        printed(RUNS[run], "client") if client is None else client,
        server=printed(RUNS[run], "server") if server is None else server,
        calls=calls(),
        options=RUNS[run],
    )


def first_values(reading: Reading) -> dict[str, float]:
    first = reading.measurements[0].size_bytes
    return {m.metric: m.value for m in reading.measurements if m.size_bytes == first}


# ---- options and argv ----


def test_server_leaves_placeholders_to_the_runner() -> None:
    asked = "-d {device} -i {ib_port} -x {gid_index} -p {port} -F -c RC"
    argv = " ".join(perftest.server_argv(RUNS["write"]))
    assert argv == f"ib_write_bw {asked} --report_gbits -s 65536 -n 5000"


@pytest.mark.parametrize("run", RUNS)
def test_client_is_given_the_servers_options_and_its_address(run: str) -> None:
    options = RUNS[run]
    assert perftest.client_argv(options) == [*perftest.server_argv(options), "{server}"]


def test_infiniband_has_no_gid_index() -> None:
    argv = perftest.client_argv(
        RUNS["read-lat"], "h", "1", device="mlx5_0", ib_port="2", gid_index=None
    )
    assert " ".join(argv) == "ib_read_lat -d mlx5_0 -i 2 -p 1 -F -c RC -s 2 -n 10000 h"


def test_every_option_reaches_the_program() -> None:
    options = perftest.Options(
        "send",
        "bw",
        sweep=True,
        iterations=100,
        bidirectional=True,
        queue_pairs=2,
        rdma_cm=True,
        traffic_class=106,
        qp_timeout=19,
        pkey_index=0,
        cuda_device=3,
    )
    asked = "-a -n 100 -b -q 2 -R -u 19 --tclass=106 --pkey_index=0 --use_cuda=3"
    assert " ".join(perftest.server_argv(options)).endswith(f"--report_gbits {asked}")


def test_a_duration_takes_the_place_of_iterations() -> None:
    assert perftest.server_argv(RUNS["send"])[-2:] == ["-D", "10"]


def test_version_is_asked_for() -> None:
    assert perftest.version_argv() == ["ib_write_bw", "--version"]


def test_a_sweep_has_the_sizes_of_perftest() -> None:
    sizes = RUNS["sweep"].sizes
    assert (sizes[0], sizes[-1], len(sizes)) == (2, 8388608, 23)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"operation": "atomic"}, "operation"),
        ({"test": "latency"}, "test"),
        ({"size_bytes": 0}, "size_bytes"),
        ({"size_bytes": 2**31}, "size_bytes"),
        ({"size_bytes": None}, "either size_bytes or sweep"),
        ({"sweep": True}, "either size_bytes or sweep"),
        ({"sweep": 1}, "sweep is 1"),
        ({"iterations": 4}, "iterations"),
        ({"iterations": None}, "either iterations or duration_s"),
        ({"duration_s": 5}, "either iterations or duration_s"),
        ({"duration_s": 0, "iterations": None}, "duration_s"),
        ({"duration_s": 2.5, "iterations": None}, "duration_s"),
        (
            {"duration_s": 5, "iterations": None, "sweep": True, "size_bytes": None},
            "no sweep with duration_s",
        ),
        ({"test": "lat", "bidirectional": True}, "bidirectional"),
        ({"test": "lat", "queue_pairs": 2}, "queue_pairs"),
        ({"test": "lat", "cuda_device": 0}, "cuda_device"),
        ({"queue_pairs": 0}, "queue_pairs"),
        ({"queue_pairs": True}, "queue_pairs"),
        ({"queue_pairs": None}, "queue_pairs"),
        ({"traffic_class": 256}, "traffic_class"),
        ({"pkey_index": -1}, "pkey_index"),
        ({"connection_type": "rc"}, "connection_type"),
        ({"connection_type": "UD"}, "UD with send only"),
        ({"connection_type": "SRD", "rdma_cm": True}, "no SRD with rdma_cm"),
        ({"data_validation": True, "test": "lat"}, "validates data in bandwidth tests"),
        ({"data_validation": True, "operation": "send"}, "validates data in bandwidth tests"),
        (
            {"data_validation": True, "sweep": True, "size_bytes": None},
            "validates data of one size",
        ),
        ({"data_validation": True, "connection_type": "UC"}, "validates data of one size"),
    ],
)
def test_options_that_cannot_be_run_are_rejected(wrong: dict[str, Any], words: str) -> None:
    good = {"operation": "write", "test": "bw", "size_bytes": 65536, "iterations": 5000}
    with pytest.raises(ValueError, match=words):
        perftest.Options(**{**good, **wrong})


# ---- what was recorded ----


@pytest.mark.parametrize("name", REAL)
def test_a_recorded_run_gives_what_a_person_reads_in_it(name: str) -> None:
    options, first = REAL[name]
    reading = perftest.read(
        recorded(name), server=recorded(name, "server"), calls=calls(), options=options
    )
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    assert first_values(reading) == first


@pytest.mark.parametrize("name", REAL)
def test_a_bare_recorded_file_proves_nothing(name: str) -> None:
    reading = perftest.read(recorded(name))
    assert (reading.ok, reading.completeness) == (True, UNKNOWN), reading.reason
    assert first_values(reading) == REAL[name][1]


def test_a_sweep_has_every_size() -> None:
    assert perftest.read(recorded("sweep")).seen["sizes"] == list(perftest.SWEEP_SIZES)


def test_conditions_are_seen() -> None:
    assert perftest.read(recorded("duration")).seen == {
        "active_mtu_bytes": 4096,
        "link_type": "Ethernet",
        "devices": ["rxe0"],
        "queue_pairs": 1,
        "rdma_cm": False,
        "connection_type": "RC",
        "sizes": [65536],
        "iterations": 846,
        "gid_index": 1,
        "bound_to_numa": False,
    }


#: As data_validation_stop_and_report of perftest 26.04.17 prints it (src/perftest_resources.c), and
#: read_bw.c and write_bw.c leave out its result: the exit code is 0 either way.
PASSED = "VALIDATION: PASSED - 12500 chunks, 819200000 bytes [races=3, retries=7, skips=42]\n"
CORRUPT = (
    "VALIDATION: FAILED - 2 error(s), first at QP 0, Chunk 17, Offset 4096 "
    "(expected 0x01, got 0x00)\n"
)
UNCHECKED = "VALIDATION: WARNING - no data validated\n"


def validated(operation: perftest.Operation, receiver: str, line: str, **changes: Any) -> Reading:
    """A run with --data_validation: `line` is below the table of the side that receives."""
    options = perftest.Options(operation, "bw", 65536, iterations=5000, data_validation=True)
    options = dataclasses.replace(options, **changes)
    texts = {side: printed(options, side) for side in ("client", "server")}
    texts[receiver] += line
    return perftest.read(texts["client"], server=texts["server"], calls=calls(), options=options)


@pytest.mark.parametrize(("operation", "receiver"), [("write", "server"), ("read", "client")])
def test_data_that_arrived_as_it_was_sent_is_proved(
    operation: perftest.Operation, receiver: str
) -> None:
    reading = validated(operation, receiver, PASSED)
    assert (reading.ok, reading.completeness) == (True, Completeness.PROVED), reading.reason
    assert reading.seen["data_validation"] is True


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (CORRUPT, "FAILED - 2 error"),
        (UNCHECKED, "no data validated"),
        ("", "no line VALIDATION"),
        (PASSED.replace("819200000", "0"), "0 bytes"),
        (PASSED[:20], "VALIDATION: PASSED"),
        (PASSED + PASSED, "another validation"),
    ],
)
def test_data_that_was_not_validated_is_refused(line: str, why: str) -> None:
    """Also where both ends ended with exit code 0."""
    reading = validated("write", "server", line)
    assert not reading.ok and why in reading.reason


def test_the_side_that_sends_does_not_vouch_for_what_arrived() -> None:
    assert not validated("write", "client", PASSED).ok


def test_a_run_with_validation_is_no_run_without() -> None:
    reading = validated("write", "server", PASSED, data_validation=False)
    assert not reading.ok and "expected a run without" in reading.reason


@given(st.integers(0, len(PASSED) - 1))
def test_no_cut_validation_is_taken_for_a_whole_one(end: int) -> None:
    reading = validated("write", "server", PASSED[:end])
    assert not reading.ok or "bytes" in PASSED[:end]


def test_corrupt_data_is_a_kind_of_its_own_whatever_else_is_wrong() -> None:
    assert validated("write", "server", CORRUPT).corrupt
    torn = perftest.read("", server=f"STDERR: n1: {CORRUPT}", calls=calls())
    assert torn.corrupt and torn.reason.startswith("server on node2: VALIDATION: FAI")
    assert not validated("write", "server", UNCHECKED).corrupt


def test_a_perftest_that_was_built_without_simd_accuses_no_node() -> None:
    """Seen of perftest 6.29; it has the option in its help."""
    said = f"{'-' * 87}\n --data_validation requires host CPU SIMD support (AVX2/SSE4.2/NEON)\n"
    options = perftest.Options("write", "bw", 65536, iterations=200, data_validation=True)
    ended = [dataclasses.replace(call, exit_code=1) for call in calls()]
    reading = perftest.read(said, server=said, calls=ended, options=options)
    assert not reading.ok and reading.inconclusive and "requires host CPU SIMD" in reading.reason


def test_both_ends_are_asked_to_validate() -> None:
    options = perftest.Options("write", "bw", 65536, iterations=5000, data_validation=True)
    assert "--data_validation" in perftest.server_argv(options)
    assert "--data_validation" in perftest.client_argv(options)


def test_the_numa_node_that_perftest_bound_itself_to_is_seen_of_each_end() -> None:
    """As ctx_print_test_info of perftest 26.04 prints it, below `Data ex. method`."""
    client, server = (
        printed(RUNS["write"], side).replace(
            " Data ex. method : Ethernet\n",
            " Data ex. method : Ethernet\n NUMA node       : 0\n",
        )
        for side in ("client", "server")
    )
    assert judged("write", client, server).seen["bound_to_numa"] is True
    assert judged("write", client).seen["bound_to_numa"] == [False, True]


def test_warnings_between_header_and_row_are_tolerated() -> None:
    # src/get_clock.c
    warning = (
        "Conflicting CPU frequency values detected: 1500.000000 != 3100.000000. "
        "CPU Frequency is not max.\n"
    )
    text = recorded("write-lat")
    warned = edited(text, "\n 2       300", f"\n{warning * 2} 2       300")
    assert perftest.parse(warned).rows == perftest.parse(text).rows


def test_mib_per_second_are_2_to_the_20_bytes() -> None:
    text = edited(recorded("write"), "[Gb/sec]", "[MB/sec]")
    text = edited(text, " 0.20               0.20 ", " 23.40              23.38 ")
    assert perftest.parse(text).rows[0] == perftest.Bandwidth(
        *(65536, 200, pytest.approx(23.38 * 2**20 * 8e-9), pytest.approx(23.40 * 2**20 * 8e-9)),
        0.000374,
    )


def test_a_port_without_a_link_layer_is_not_called_infiniband() -> None:
    """perftest prints 'Link type : IB' for it, and LID 0000."""
    text = edited(recorded("connection-manager"), "Link type       : Ethernet", "Link type : IB")
    text = re.sub(r" GID(?: index)? .*\n| GID: .*\n", "", text)
    assert {m.transport for m in perftest.read(text).measurements} == {"rdma"}


def test_srd_is_a_transport_of_its_own() -> None:
    text = printed(RUNS["send"], "client").replace("type : RC", "type : SRD")
    text = text.replace("type : IB", "type : Unknown").replace(
        ": Ethernet\n GID", ": Unknown\n GID"
    )
    assert {m.transport for m in perftest.read(text).measurements} == {"efa"}


def test_raw_ethernet_is_no_roce() -> None:
    text = printed(RUNS["send-lat"], "client").replace("type : RC", "type : RawEth")
    text = re.sub(r" (?:local|remote) address.*\n| GID: .*\n", "", text)
    assert {m.transport for m in perftest.read(text).measurements} == {"ethernet"}


@pytest.mark.parametrize("connection", ["UC", "UD", "XRC", "DC"])
def test_a_run_of_another_connection_type_is_proved_where_it_was_asked_for(connection: str) -> None:
    client, server = (
        printed(RUNS["send"], side, "IB").replace("type : RC", f"type : {connection}")
        for side in ("client", "server")
    )
    asked = dataclasses.replace(RUNS["send"], connection_type=connection)
    reading = perftest.read(client, server=server, calls=calls(), options=asked)
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    refused = perftest.read(client, server=server, calls=calls(), options=RUNS["send"])
    assert f"connection type {connection}, expected RC" in refused.reason


def test_by_hand_the_connection_type_is_as_the_output_states_it() -> None:
    text = printed(RUNS["write"], "client").replace("type : RC", "type : DC")
    words = ["size_bytes=65536", "iterations=5000"]
    assert perftest.BY_HAND.requested(text, words).connection_type == "DC"
    named = perftest.BY_HAND.requested(text, [*words, "connection_type=RC"])
    assert "connection type DC, expected RC" in perftest.read(text, options=named).reason


# ---- parse ----


@pytest.mark.parametrize(("run", "side"), SIDES)
def test_an_output_names_its_test_and_side(run: str, side: str) -> None:
    options, output = RUNS[run], perftest.parse(printed(RUNS[run], side))
    found = (output.role, output.operation, output.test, output.bidirectional)
    assert found == (side, options.operation, options.test, options.bidirectional)


def test_addresses_are_read_for_every_queue_pair() -> None:
    output = perftest.parse(printed(RUNS["read"], "client"))
    assert (len(output.local), len(output.remote)) == (4, 4)
    assert output.remote[0] == perftest.Address(
        0, 0x12, 0x7B509F + 11, "00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:11"
    )


def test_a_missing_address_is_rejected() -> None:
    lines = printed(RUNS["read"], "client").split("\n")
    lines.remove(next(line for line in lines if "remote address" in line))
    with pytest.raises(ParseError, match="3 remote addresses"):
        perftest.parse("\n".join(lines))


def test_a_peak_of_0_is_not_measured() -> None:
    (row,) = perftest.parse(printed(RUNS["send"], "client")).rows
    assert isinstance(row, perftest.Bandwidth)
    assert row.peak_gbits_s is None


def reported_both() -> str:
    """With --report-both: below the table of both ways one of each."""
    text = printed(RUNS["both"], "client")
    header, row = rows(RUNS["both"], "client")
    each = row.replace("185.00", "92.50").replace("186.85", "93.42").replace("0.352859", "0.176430")
    ways = [f"\n {side} results: \n{RULE}\n{header}\n{each}\n" for side in ("Local", "Remote")]
    return f"{text}{RULE.join(ways)}{RULE}\n"


def test_the_result_of_report_both_is_that_of_both_ways() -> None:
    whole = perftest.parse(printed(RUNS["both"], "client"))
    assert perftest.parse(reported_both()) == whole


@pytest.mark.parametrize(("old", "new"), [(" Remote ", " "), (" Remote ", " Local ")])
def test_ways_that_are_not_both_are_refused(old: str, new: str) -> None:
    with pytest.raises(ParseError):
        perftest.parse(edited(reported_both(), f"{old}results", f"{new}results"))


def test_ways_that_are_not_both_added_up_are_refused() -> None:
    less = edited(edited(reported_both(), "92.50", "82.50"), "0.176430", "0.157356")
    with pytest.raises(ParseError, match="165 Gb/s of both ways added up"):
        perftest.parse(less)


def test_a_text_of_report_both_that_is_cut_below_its_first_table_is_refused() -> None:
    text = reported_both().rstrip()
    for place in range(text.index(" Local results: ") + len(" Local results:"), len(text)):
        assert not perftest.read(text[:place]).ok, text[:place][-80:]


SAMPLES = """ 65536      953674           0.00               100.00  \t\t     0.190735
 65536      951767           0.00               99.80  \t\t     0.190353
 65536      953197           0.00               99.95  \t\t     0.190639
"""


def sampled() -> str:
    """With --run_infinitely, which ends when a user ends it."""
    head = printed(RUNS["write"], "client").partition(BW_HEADER)[0]
    return f"{head}{BW_HEADER}\n{SAMPLES}"


def test_rows_without_an_end_are_samples_of_one_size() -> None:
    reading = perftest.read(sampled())
    values = [m.value for m in reading.measurements if m.metric == "bandwidth"]
    assert (reading.ok, reading.completeness, values) == (True, UNKNOWN, [100.00, 99.80, 99.95])


@pytest.mark.parametrize("samples", [1, 3])
def test_a_user_may_end_a_run_of_samples(samples: int) -> None:
    head, sample, _ = sampled().partition(SAMPLES)
    sample = "".join(sample.splitlines(keepends=True)[:samples])
    output = perftest.parse(f"{head}{sample}\n User stopped traffic\n{RULE}\n")
    assert (len(output.rows), output.sampled) == (samples, True)


def test_a_user_that_ends_another_run_made_it_fail() -> None:
    text = edited(printed(RUNS["write"], "client"), f"0.176430\n{RULE}", "0.176430\nX")
    assert not perftest.read(edited(text, "X", f" User stopped traffic\n{RULE}")).ok


def test_samples_are_never_the_run_that_was_asked_for() -> None:
    """One of the two sides may have measured to its end."""
    for options in (None, dataclasses.replace(RUNS["send"], operation="write")):
        server = printed(RUNS["write"], "server")
        reading = perftest.read(sampled(), server=server, calls=calls(), options=options)
        assert reading.completeness is not PROVED
    assert "samples without an end" in perftest.read(sampled(), options=options).reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SAMPLES, f"{SAMPLES}{RULE}\n"),
        ("951767           0.00", "951767           99.90"),
        (SAMPLES, SAMPLES.rstrip()),
        (SAMPLES, SAMPLES[: SAMPLES.index("\n") + 1]),
    ],
)
def test_rows_that_are_no_samples_need_an_end(old: str, new: str) -> None:
    with pytest.raises(ParseError):
        perftest.parse(edited(sampled(), old, new))


@pytest.mark.parametrize(
    "status",
    [
        "Failed status 12: Transport retry counter exceeded",
        "Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81",
    ],
)
def test_the_cause_of_a_failed_completion_is_reported(status: str) -> None:
    text = f"{sampled()} Completion with error at client\n {status}\n wr_id 0 syndrome 0x81\n"
    with pytest.raises(ParseError, match=re.escape(status)):
        perftest.parse(text)


def test_a_latency_over_a_duration_is_an_average() -> None:
    (row,) = perftest.parse(printed(RUNS["send-lat"], "client")).rows
    assert row == perftest.Latency(64, 1700000, 1.47, transactions_per_s=340136.0)


def test_a_standard_deviation_that_perftest_could_not_compute_is_no_failure() -> None:
    """Seen of ib_write_lat 6.24 between busy emulated machines, where latencies spread widely."""
    server = printed(RUNS["write-lat"], "server").replace("0.02", "-nan")
    assert "-nan" in server
    (known,) = perftest.parse(printed(RUNS["write-lat"], "server")).rows
    assert perftest.parse(server).rows == (known,)
    assert judged("write-lat", server=server).ok
    with pytest.raises(ParseError, match="-nan"):
        perftest.parse(printed(RUNS["write-lat"], "server").replace("1.57", "-nan"))


def test_the_server_of_a_read_latency_test_has_no_table() -> None:
    assert perftest.parse(printed(RUNS["read-lat"], "server")).rows == ()


@pytest.mark.parametrize("column", ["CPU_Util[%]", "BW Port1[Gb/sec]", "Future", "#sl"])
@pytest.mark.parametrize("place", range(1, 6))
def test_unknown_columns_are_tolerated(column: str, place: int) -> None:
    names = ["#bytes", "#iterations", "BW peak[Gb/sec]", "BW average[Gb/sec]", "MsgRate[Mpps]"]
    values = ["65536", "5000", "92.42", "92.40", "0.176230"]
    names.insert(place, column)
    values.insert(place, "7.5")
    text = printed(RUNS["write"], "client")
    header, row = rows(RUNS["write"], "client")
    text = edited(edited(text, header, "   ".join(names)), row, "  ".join(values))
    assert perftest.parse(text).rows == (perftest.Bandwidth(65536, 5000, 92.40, 92.42, 0.176230),)


@QUICK
@given(
    st.integers(1, 9),
    st.text("abXY_%/[]", min_size=1, max_size=8).filter(lambda name: not name.startswith("#")),
    st.text("0123456789abc./-", min_size=1, max_size=8),
)
def test_any_further_latency_column_is_tolerated(place: int, name: str, value: str) -> None:
    header, row = rows(RUNS["write-lat"], "client")
    names = ["#bytes", "#iterations", *header.split("    ", 1)[1].split("  ")]
    names = [part.strip() for part in names if part.strip()]
    words = row.split()
    names.insert(place, name)
    words.insert(place, value)
    text = printed(RUNS["write-lat"], "client")
    text = edited(edited(text, header, "   ".join(names)), row, "  ".join(words))
    assert perftest.parse(text).rows == perftest.parse(printed(RUNS["write-lat"], "client")).rows


@pytest.mark.parametrize(
    "noise",
    [
        "Conflicting CPU frequency values detected: 1200.535000 != 1251.336000. "
        "CPU Frequency is not max.",
        " WARNING: BW peak won't be measured in this run.",
        " WARNING: CPU is not PCIe relaxed ordering compliant.",
        "STDERR: libibverbs: Warning: couldn't load driver 'libocrdma-rdmav34.so'",
        "STDERR: Device not recognized to implement inline feature. Disabling it",
        "STDERR: 65536 5000 1 2 3",
        "Perftest doesn't supports CUDA tests with inline messages: inline size set to 0",
        "Perftest doesn't supports device memory tests with inline messages: inline size set to 0",
        "Perftest doesn't supports MLU tests with inline messages: inline size set to 0",
        "new post send flow is not supported, falling back to ibv_post_send",
        "STDERR: Warning: Blueflame is not supported in the system",
        "Warning: Failed to migrate memory to node 0",
        "Warning: 3 pages could not be migrated to node 0",
        "Warning: Bound to node 0 but could not set memory policy",
        "Warning: GPU touch functions not available in kernel plugin",
        "[HOST_MEMORY] 1GB pages not available, trying next...",
        # of NICs other than mlx5, and harmless
        "Requested SQ size might be too big. Try reducing TX depth and/or inline size.",
        "allocated GPU buffer of a 16777216 address at 0x594ca786d9b0 for type CUDA_MEM_DEVICE",
        "",
    ],
)
def test_unrelated_lines_are_tolerated(noise: str) -> None:
    text = printed(RUNS["write"], "client")
    assert perftest.parse(text.replace("\n", f"\n{noise}\n")) == perftest.parse(text)


@pytest.mark.parametrize(
    "message",
    [
        " Completion with error at client",
        " Failed status 10: wr_id 0 syndrom 0x88",
        " Failed to complete run_iter_bw function successfully",
        "mlx5: node1: got completion with error:",
        "Couldn't connect to 10.0.0.1:18515",
        "Couldn't allocate MR with error=14",
        " Unable to init the socket connection",
        " Unable to find the Infiniband/RoCE device",
        "IB device rxe0 not found",
        " Port number 1 state is Down",
        "Can't produce a report",
        " Did not get Message for 120 Seconds, exiting..",
        "Problems with warm up",
        "Poll send CQ ne=-2",
        "Bad wc status -- 12 -- 4",
        "Received 10 times ADDR_ERROR",
        "bad event waiting for connect request 8",
        " Error occurred while running infinitely! aborting ...",
        "slurmstepd: error: *** STEP 17.0 ON node1 CANCELLED AT 2026-11-21T03:50:17 ***",
        "Segmentation fault (core dumped)",
        "Warning: ib_write_bw: Killed",
        "[HOST_MEMORY] Failed to allocate memory",
        "bash: ib_write_bw: command not found",
    ],
)
@pytest.mark.parametrize("mark", ["", "STDERR: "])
def test_messages_of_failure_are_rejected_below_good_rows(message: str, mark: str) -> None:
    text = printed(RUNS["write"], "client") + f"{mark}{message}\n"
    with pytest.raises(ParseError, match="no error message"):
        perftest.parse(text)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_empty_output_is_rejected(text: str) -> None:
    with pytest.raises(ParseError, match="nothing"):
        perftest.parse(text)


@pytest.mark.parametrize("name", ["Device", "Number of qps", "Mtu", "Link type", "rdma_cm QPs"])
def test_a_head_without_a_condition_is_rejected(name: str) -> None:
    with pytest.raises(ParseError, match="the head of the output"):
        perftest.parse(edited(printed(RUNS["write"], "client"), name, "Something"))


@pytest.mark.parametrize(
    "banner", ["Atomic CMP_AND_SWAP BW Test", "RDMA_Write_imm BW Test", "Send BW Multicast Test"]
)
def test_other_tests_are_rejected(banner: str) -> None:
    with pytest.raises(ParseError, match="RDMA_Write, RDMA_Read or Send"):
        perftest.parse(edited(printed(RUNS["write"], "client"), "RDMA_Write BW Test", banner))


def test_two_sides_in_one_text_are_rejected() -> None:
    text = printed(RUNS["write"], "client") + printed(RUNS["write"], "server")
    with pytest.raises(ParseError, match="one run of one side"):
        perftest.parse(text)


def test_a_number_cut_by_the_end_is_rejected() -> None:
    text = printed(RUNS["write"], "client")
    with pytest.raises(ParseError, match="line of dashes"):
        perftest.parse(text[: text.index("0.17") + 6])


def sweep_row(text: str, size: int) -> str:
    lines = text.splitlines(keepends=True)
    (found,) = [line for line in lines if line.split()[:1] == [str(size)]]
    return found


@pytest.mark.parametrize("tag", ["[1,0]<stdout>: ", "[1,0]<stdout>:", "0: ", "[0] "])
@pytest.mark.parametrize("run", RUNS)
def test_the_tag_of_a_launcher_is_stripped(run: str, tag: str) -> None:
    text = printed(RUNS[run], "client")
    tagged = "".join(f"{tag}{line}\n" for line in text.splitlines())
    assert perftest.parse(tagged) == perftest.parse(text)


def test_colours_hide_no_row() -> None:
    text = printed(RUNS["sweep"], "client")
    row = sweep_row(text, 1024)
    coloured = text.replace(row, f"\x1b[32m{row.rstrip()}\x1b[0m\n")
    assert perftest.parse(coloured) == perftest.parse(text)


@pytest.mark.parametrize(
    "change", ["node7> {row}", "x {row}", "10x{row}", ".{row}", "[1,1]<stdout>: {row}", "9: {row}"]
)
@pytest.mark.parametrize("size", [2, 1024, 2**23])
def test_a_line_that_may_hold_a_row_and_is_none_is_no_result(change: str, size: int) -> None:
    text = printed(RUNS["sweep"], "client")
    row = sweep_row(text, size)
    damaged = text.replace(row, change.format(row=row.strip()) + "\n")
    assert not perftest.read(damaged).ok


@pytest.mark.parametrize("size", [2, 4, 65536, 2**22, 2**23])
def test_a_size_that_is_missing_is_found_without_knowing_what_was_asked(size: int) -> None:
    text = printed(RUNS["sweep"], "client")
    reading = perftest.read(text.replace(sweep_row(text, size), ""))
    assert not reading.ok and f"no row of {size} bytes" in reading.reason


@pytest.mark.parametrize(
    "notice",
    [
        '[n1:4711] Set "orte_base_help_aggregate" to 0 to see all help / error messages',
        "[n1:4711] 3 more processes have sent help message help-mpi-btl-openib.txt / init failed",
        "STDERR: srun: warning: can't honor --ntasks-per-node set to 2",
        "[warn] Epoll ADD(4) on fd 0 failed. Old events were 0",
    ],
)
def test_words_of_failure_in_a_launchers_notice_are_none(notice: str) -> None:
    text = printed(RUNS["write"], "client")
    for changed in (f"{notice}\n{text}", f"{text}{notice}\n"):
        assert perftest.parse(changed) == perftest.parse(text)


@pytest.mark.parametrize(
    "failure",
    [
        "srun: error: n1: task 0: Killed",
        "srun: Job step aborted: Waiting up to 32 seconds",
        "srun: Job step 17.0 Killed",
        "srun: job 17 failed",
    ],
)
def test_what_a_launcher_says_of_a_failure_is_one(failure: str) -> None:
    with pytest.raises(ParseError, match="no error message"):
        perftest.parse(printed(RUNS["write"], "client") + f"{failure}\n")


def test_the_dashes_must_be_whole() -> None:
    with pytest.raises(ParseError, match="line of dashes"):
        perftest.parse(printed(RUNS["write"], "client").rstrip()[:-1])


def test_intervals_are_no_result() -> None:
    _, row = rows(RUNS["write"], "client")
    text = edited(printed(RUNS["write"], "client"), row, f"{row}\n{row}")
    with pytest.raises(ParseError, match="65536 bytes after 65536"):
        perftest.parse(text)


@pytest.mark.parametrize("word", ["92.50", "93.42", "0.176430", "5000", "65536"])
@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1e400", "9" * 400, "12,5", "٣"])
def test_impossible_numbers_are_rejected(word: str, number: str) -> None:
    _, row = rows(RUNS["write"], "client")
    text = edited(printed(RUNS["write"], "client"), row, edited(row, word, number))
    with pytest.raises(ParseError):
        perftest.parse(text)


def test_a_rate_that_is_not_that_of_its_messages_is_rejected() -> None:
    text = edited(printed(RUNS["write"], "client"), " 92.50 ", " 82.50 ")
    with pytest.raises(ParseError, match=r"the 92\.5\d* Gb/s of its message rate"):
        perftest.parse(text)


def test_a_peak_below_the_average_is_rejected() -> None:
    with pytest.raises(ParseError, match="a peak of the average or more"):
        perftest.parse(edited(printed(RUNS["write"], "client"), " 93.42 ", " 91.42 "))


@pytest.mark.parametrize(
    ("old", "new"), [(" 1.42 ", " 1.48 "), (" 1.93 ", " 1.59 "), ("1.57", "1.61"), ("1.48", "1.4")]
)
def test_latencies_out_of_order_are_rejected(old: str, new: str) -> None:
    with pytest.raises(ParseError, match="min <= typical"):
        perftest.parse(edited(printed(RUNS["write-lat"], "client"), old, new))


def test_an_average_that_is_not_that_of_its_transactions_is_rejected() -> None:
    with pytest.raises(ParseError, match="tps of 500000 / t_avg"):
        perftest.parse(edited(printed(RUNS["send-lat"], "client"), "340136", "680272"))


HOSTILE = {
    "one long line": "x" * 200_000,
    "blanks": "Device" + " " * 100_000,
    "keys": "Device " * 30_000,
    "banner": "Send " + "a " * 40_000,
    "dashes": "-" * 200_000,
    "header": "#bytes " + "x " * 40_000,
    "row": "1 " * 40_000,
    "digits": "1" * 200_000,
    "can": "can " * 40_000,
    "no devices": "no ib devices " * 15_000,
    "address": "local address: LID 0x1 QPN 0x1 PSN 0x1" + " " * 100_000,
    "lines": "65536 5000\n" * 50_000,
}


def refused_within_s(text: str, times: int) -> float:
    """The CPU time that it takes to refuse the text so often, in the head and in the table."""
    head = "RDMA_Write BW Test\n"
    began = time.process_time()
    for whole in times * (head + text, f"{head}{BW_HEADER}\n{text}"):
        with pytest.raises(ParseError):
            perftest.parse(whole)
    return time.process_time() - began


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name: str) -> None:
    """Eight eighths of it take as long; where time grew as the square, an eighth of that. A host
    that is taken away meanwhile counts as CPU time, so one measurement of three is enough.
    """
    text = HOSTILE[name][: len(HOSTILE[name]) // 2]
    for _ in range(3):
        if refused_within_s(text, 1) < 4 * refused_within_s(text[: len(text) // 8], 8):
            return
    pytest.fail("far longer than its parts")


# ---- read ----


@pytest.mark.parametrize("run", RUNS)
def test_a_run_with_all_its_evidence_is_proved(run: str) -> None:
    reading = judged(run)
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason


def test_a_run_over_infiniband_is_known_by_its_lids() -> None:
    options = RUNS["write"]
    client, server = (printed(options, side, link="IB") for side in ("client", "server"))
    reading = perftest.read(client, server=server, calls=calls(), options=options)
    assert reading.completeness is PROVED, reading.reason
    assert reading.measurements[0].transport == "infiniband"


def test_a_measurement_carries_its_condition() -> None:
    first = judged("both").measurements[0]
    assert dataclasses.astuple(first)[:8] == (
        *("bandwidth", 185.0, "perftest", "write_bidirectional", "roce"),
        *(65536, 1, ("node2", "node1")),
    )
    assert first.samples == 5000


def test_streams_are_queue_pairs_and_samples_are_of_all_of_them() -> None:
    first = judged("read").measurements[0]
    assert (first.streams, first.samples) == (4, 20000)


def test_a_sweep_measures_every_size() -> None:
    sizes = [m.size_bytes for m in judged("sweep").measurements if m.metric == "bandwidth"]
    assert sizes == list(perftest.SWEEP_SIZES)


def swept_slowly(row: str) -> Reading:
    """The recorded sweep of five messages a size, with other numbers for its two bytes."""
    text = edited(recorded("sweep"), "0.000014            0.000014            0.000900", row)
    return perftest.read(text)


def test_a_bandwidth_below_six_digits_is_given_by_its_message_rate() -> None:
    """As a busy host printed it: five messages of two bytes that took 0.2 s."""
    reading = swept_slowly("0.000000            0.000000            0.000029")
    assert not reading.inconclusive and reading.reason and reading.measurements
    assert first_values(reading) == {
        "bandwidth": pytest.approx(2 * 8 * 29e-9),
        "message_rate": 0.000029,
    }


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("0.000000            0.000000            0.000000", "a bandwidth above 0"),
        # Of two bytes 32 messages a second are the most that a bandwidth of 0 can stand for.
        ("0.000000            0.000000            0.000033", "of its message rate and size"),
        ("0.000000            0.00                0.900000", "of its message rate and size"),
    ],
)
def test_a_bandwidth_of_0_that_its_message_rate_does_not_explain_is_no_result(
    row: str, expected: str
) -> None:
    reading = swept_slowly(row)
    assert not (reading.ok or reading.measurements) and expected in reading.reason


def test_a_message_rate_below_six_digits_is_not_reported() -> None:
    text = edited(printed(RUNS["write"], "client"), "92.50 ", "0.000100 ")
    text = edited(edited(text, "93.42 ", "0.000100 "), "0.176430", "0.000000")
    assert set(first_values(perftest.read(text))) == {"bandwidth", "bandwidth_peak"}


@pytest.mark.parametrize(
    ("iterations", "metric"),
    [(5, "latency_max"), (1000, "latency_max"), (1002, "latency_max"), (1003, "latency_p999")],
)
def test_too_few_iterations_have_a_maximum_instead_of_a_percentile(
    iterations: int, metric: str
) -> None:
    options = dataclasses.replace(RUNS["write-lat"], iterations=iterations)
    text = printed(options, "client").replace("1.60   ", "1.93   ")
    found = set(first_values(perftest.read(text))) & {"latency_max", "latency_p999"}
    assert found == {metric}


def test_without_calls_the_reading_is_unknown() -> None:
    options = RUNS["write"]
    client, server = (printed(options, side) for side in ("client", "server"))
    reading = perftest.read(client, server=server, options=options)
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)
    assert reading.reason.endswith("without the exit codes of both sides")


def test_a_bare_text_says_what_is_missing() -> None:
    reason = perftest.read(printed(RUNS["write"], "client")).reason
    assert reason.endswith("the exit codes of both sides, the server's output, the options")


@pytest.mark.parametrize("run", ["write", "send-lat"])
def test_a_bare_server_text_is_read(run: str) -> None:
    reading = perftest.read(printed(RUNS[run], "server"))
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)


def test_a_bare_server_text_without_rows_is_no_result() -> None:
    reading = perftest.read(printed(RUNS["read-lat"], "server"))
    assert not reading.ok
    assert "has none" in reading.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"client": {"exit_code": 1}}, "(client) on node1 ended with exit code 1"),
        ({"server": {"exit_code": None}}, "(server) on node2 was killed"),
        ({"server": {"tool": "iperf2"}}, "server: 0 perftest calls recorded"),
        ({"server": {"role": "client"}}, "client: 2 perftest calls recorded"),
        (
            {"client": {"seconds": 1.0}},
            "the call took 1.0 s but was to run 10.0 s",
        ),
    ],
)
def test_calls_that_contradict_refuse(change: dict[str, Any], words: str) -> None:
    reading = perftest.read(
        printed(RUNS["send"], "client"),
        server=printed(RUNS["send"], "server"),
        calls=calls(**change),
        options=RUNS["send"],
    )
    assert (reading.ok, reading.completeness) == (False, BROKEN)
    assert words in reading.reason


@pytest.mark.parametrize(
    ("run", "asked", "words"),
    [
        ("write", {"operation": "read"}, "operation write, expected read"),
        ("write", {"bidirectional": True}, "bidirectional False, expected True"),
        ("write", {"queue_pairs": 2}, "queue pairs 1, expected 2"),
        ("write", {"rdma_cm": True}, "rdma_cm False, expected True"),
        ("write", {"size_bytes": 4096}, "no row of 4096 bytes, expected 4096 bytes"),
        ("write", {"iterations": 1000}, "5000 iterations, expected 1000"),
        ("write", {"iterations": None, "duration_s": 10}, "a peak was measured"),
        ("send", {"duration_s": 60}, "too few for 60 s at its rate"),
        ("send", {"duration_s": 1}, "too many for 1 s at its rate"),
        ("write", {"sweep": True, "size_bytes": None}, "no row of 2 bytes, expected 2 to 8388608"),
        ("sweep", {"sweep": False, "size_bytes": 2}, "a row of 4 bytes, expected 2 bytes"),
        ("write-lat", {"iterations": None, "duration_s": 10}, "iterations one by one"),
        ("send-lat", {"iterations": 1700000, "duration_s": None}, "an average only"),
    ],
)
def test_options_that_contradict_refuse(run: str, asked: dict[str, Any], words: str) -> None:
    reading = perftest.read(
        printed(RUNS[run], "client"), options=dataclasses.replace(RUNS[run], **asked)
    )
    assert (reading.ok, reading.completeness) == (False, BROKEN)
    assert f"client: {words}" in reading.reason or words in reading.reason


def test_a_post_list_is_not_what_was_asked_for() -> None:
    text = edited(recorded("duration"), "RDMA_Write BW Test", "RDMA_Write Post List BW Test")
    reading = perftest.read(text, options=REAL["duration"][0])
    assert "post list True, expected False" in reading.reason


def test_a_duration_is_judged_by_its_middle_half() -> None:
    assert perftest.read(recorded("duration"), options=REAL["duration"][0]).ok


@pytest.mark.parametrize("size", perftest.SWEEP_SIZES)
def test_a_sweep_without_one_size_is_refused(size: int) -> None:
    lines = printed(RUNS["sweep"], "client").split("\n")
    lines.remove(next(line for line in lines if line.startswith(f" {size} ")))
    reading = judged("sweep", client="\n".join(lines))
    assert (reading.ok, reading.completeness) == (False, BROKEN)
    assert f"no row of {size} bytes" in reading.reason


def test_a_run_that_reached_another_node_is_refused() -> None:
    client = edited(printed(RUNS["write"], "client"), "10:77:00:11", "10:77:00:19")
    reading = judged("write", client=client)
    assert not reading.ok
    assert "client on node1 reached 00:00" in reading.reason
    assert "but server on node2 is 00:00" in reading.reason


def test_the_servers_output_of_another_run_is_refused() -> None:
    server = edited(printed(RUNS["write"], "server"), "PSN 0x7b50", "PSN 0x7b51")
    reading = judged("write", server=server)
    assert "its connections are not those of client on node1" in reading.reason


@pytest.mark.parametrize("link", ["Ethernet", "IB"])
def test_a_loopback_is_refused(link: str) -> None:
    text = printed(RUNS["write"], "client", link=link)
    reading = perftest.read(text.replace("00:11", "00:12").replace("0x0b", "0x0c"))
    assert not reading.ok
    assert "loopback: both ends are" in reading.reason


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("4096[B]", "1024[B]", "mtu_bytes 4096 and 1024"),
        ("type       : Ethernet", "type       : IB", "link_type Ethernet and IB"),
        ("type : IB", "type : IW", "transport_type IB and IW"),
        ("type : RC", "type : UC", "connection_type RC and UC"),
        ("OFF\n Data", "ON\n Data", "rdma_cm False and True"),
        (" 92.50 ", " 82.50 ", "found 82.5 Gb/s"),
        (" 5000 ", " 4000 ", "the rows of 65536 bytes differ"),
    ],
)
def test_sides_that_disagree_are_refused(old: str, new: str, words: str) -> None:
    server = edited(printed(RUNS["write"], "server"), old, new)
    reading = judged("write", server=server)
    assert not reading.ok
    assert words in reading.reason


def test_the_sum_of_both_directions_must_be_one_number() -> None:
    server = printed(RUNS["both"], "server")
    for old, new in (("185.00", "92.50"), ("0.352859", "0.176430")):
        server = edited(server, old, new)
    assert "the rows of 65536 bytes differ" in judged("both", server=server).reason


def test_the_same_text_for_both_sides_is_refused() -> None:
    reading = judged("write", server=printed(RUNS["write"], "client"))
    assert "server on node2: the output is that of a client" in reading.reason


def test_an_unknown_link_type_is_refused() -> None:
    text = edited(printed(RUNS["write"], "client"), "type       : Ethernet", "type : Unknown")
    assert "expected InfiniBand, RoCE, iWARP or EFA" in perftest.read(text).reason


def test_a_server_that_failed_refuses_although_everything_exited_0() -> None:
    server = printed(RUNS["write"], "server") + "STDERR:  Failed to close connection\n"
    assert "Failed to close connection" in judged("write", server=server).reason


# ---- no damaged output is believed ----


@pytest.mark.parametrize(("run", "side"), [where for where in SIDES if where[0] != "sweep"])
def test_a_text_cut_before_its_end_is_refused(run: str, side: str) -> None:
    text = printed(RUNS[run], side)
    end = len(text.rstrip())
    ends = {place for place, character in enumerate(text[:end]) if character == "\n"}
    for place in ends | set(range(end - 200, end)):
        assert not judged(run, **{side: text[:place]}).ok, text[:place][-80:]


@QUICK
@given(st.sampled_from(SIDES), st.data())
def test_a_text_cut_anywhere_is_refused(where: tuple[str, str], data: st.DataObject) -> None:
    run, side = where
    text = printed(RUNS[run], side)
    place = data.draw(st.integers(0, len(text.rstrip()) - 1))
    assert not judged(run, **{side: text[:place]}).ok


@QUICK
@given(st.sampled_from(SIDES), st.sampled_from([None, 1, 137]), st.data())
def test_without_good_exit_codes_no_text_is_proved(
    where: tuple[str, str], code: int | None, data: st.DataObject
) -> None:
    run, side = where
    texts = {role: printed(RUNS[run], role) for role in ("client", "server")}
    texts[side] = texts[side][: data.draw(st.integers(0, len(texts[side])))]
    found = calls(client={"exit_code": code}) if data.draw(st.booleans()) else []
    reading = perftest.read(texts["client"], server=texts["server"], calls=found, options=RUNS[run])
    assert reading.completeness is not PROVED


@pytest.mark.parametrize(("run", "side"), SIDES)
def test_a_deleted_row_or_end_is_refused(run: str, side: str) -> None:
    lines = printed(RUNS[run], side).split("\n")
    table = [number for number, line in enumerate(lines) if line[1:2].isdigit()]
    for number in [*table, len(lines) - 2]:
        reading = judged(run, **{side: "\n".join(lines[:number] + lines[number + 1 :])})
        assert not reading.ok, lines[number]


@pytest.mark.parametrize(("run", "side"), SIDES)
def test_a_row_twice_is_refused(run: str, side: str) -> None:
    lines = printed(RUNS[run], side).split("\n")
    for number, line in enumerate(lines):
        if line[1:2].isdigit():
            for place in (number, len(lines) - 1):
                damaged = [*lines[:place], line, *lines[place:]]
                assert not judged(run, **{side: "\n".join(damaged)}).ok, line


def never_raises(text: str) -> None:
    """`parse` may only refuse, `read` may not raise at all."""
    try:
        perftest.parse(text)
    except ParseError as error:
        assert str(error)
    assert perftest.read(text).completeness is not PROVED
    perftest.read(text, server=text, calls=calls(), options=RUNS["write"])
    perftest.read(
        printed(RUNS["sweep"], "client"), server=text, calls=calls(), options=RUNS["sweep"]
    )


#: what a run that failed leaves: good rows, then the error
FAILED = (
    printed(RUNS["sweep"], "client").rsplit("\n", 8)[0] + "\n Completion with error at client\n"
)


@QUICK
@given(st.sampled_from(SIDES), st.randoms(use_true_random=False))
def test_deleted_doubled_and_mixed_lines_never_pass_a_failed_run(
    other: tuple[str, str], random: Any
) -> None:
    lines, others = FAILED.split("\n"), printed(RUNS[other[0]], other[1]).split("\n")
    for _ in range(random.randrange(1, 6)):
        place = random.randrange(len(lines) + 1)
        lines[place : place + random.randrange(3)] = random.choice(
            [[], lines[place : place + 1] * 2, [random.choice(others)], ["\x00 65536 5000"]]
        )
    text = "\n".join(lines)
    never_raises(text)
    assert not judged("sweep", client=text).ok


@QUICK
@given(st.sampled_from(SIDES), st.randoms(use_true_random=False))
def test_changed_characters_raise_nothing_else(where: tuple[str, str], random: Any) -> None:
    text = list(printed(RUNS[where[0]], where[1]))
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


PIECES = ["RDMA_Write BW Test\n", "Send Latency Test\n", " Device : a", " Number of qps : 1", "\n"]
PIECES += [" Transport type : IB", " Connection type : RC", " Mtu : 4096[B]", " Link type : IB"]
PIECES += [" rdma_cm QPs : OFF", f"\n{BW_HEADER}\n", f"\n{LAT_HEADER}\n", f"\n{RULE}\n"]
PIECES += [" 65536 5000", " 92.42 92.40 0.176230", " 1.42 1.93 1.47 1.48 0.02 1.57 1.60", " nan"]
PIECES += ["\n#, usec\n", " 0", " local address: LID 0x0 QPN 0x1 PSN 0x1\n", " GID: 0\n"]
PIECES += ["* Waiting for client to connect... *\n", "9" * 20, "\n#bytes\n"]


@QUICK
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_pieces_of_outputs_raise_nothing_else(text: str) -> None:
    never_raises(text)


# ---- the command line ----


def command(*arguments: str, stderr: Sequence[str] = ()) -> Result:
    return railgauge("parse", "perftest", *arguments, stderr=stderr)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The outputs of one run over four queue pairs, which the command line need not be told."""
    for side in ("client", "server"):
        (tmp_path / side).write_text(printed(RUNS["read"], side), encoding="utf-8")
    return {side: str(tmp_path / side) for side in ("client", "server")}


def test_a_bare_file_is_ok_and_not_proved(files: dict[str, str]) -> None:
    answer = command(files["client"])
    document = json.loads(answer.stdout)
    assert (answer.exit_code, document["completeness"]) == (0, "unknown")


def test_a_file_with_all_its_evidence_is_proved(files: dict[str, str]) -> None:
    answer = command(
        *(files["client"], files["server"], "--exit-code", "0", "--exit-code", "0"),
        *("--expect", "size_bytes=1MiB", "--expect", "iterations=5000"),
    )
    assert json.loads(answer.stdout)["completeness"] == "proved", answer.stdout


def test_a_size_that_was_not_measured_exits_with_1(files: dict[str, str]) -> None:
    answer = command(files["client"], "--expect", "sweep=yes", "--expect", "iterations=5000")
    assert (answer.exit_code, json.loads(answer.stdout)["ok"]) == (1, False)


def test_half_of_what_was_asked_for_is_a_usage_error(files: dict[str, str]) -> None:
    says = "needs either size_bytes or sweep"
    answer = command(files["client"], "--expect", "iterations=5000", stderr=[says])
    assert answer.exit_code == 3


def test_iterations_that_the_output_shows_one_by_one_need_not_be_expected() -> None:
    by_hand = table.by_hand()[perftest.TOOL]
    shown = by_hand.requested(printed(RUNS["read"], "client"), ["size_bytes=1MiB"])
    assert shown.iterations == 5000
    with pytest.raises(ValueError, match="needs either iterations or duration_s"):
        by_hand.requested(recorded("duration"), ["size_bytes=64KiB"])


# ---- a clock that it could not calibrate ----


def test_a_tool_without_a_clock_measured_nothing_and_says_so() -> None:
    """Recorded on a busy machine: it exits 0, and every rate is 0."""
    options = perftest.Options("write", "bw", size_bytes=65536, duration_s=2)
    client, server = recorded("no-clock"), recorded("no-clock", "server")
    reading = perftest.read(client, server=server, calls=calls(), options=options)
    assert reading.inconclusive and not reading.ok and not reading.measurements
    assert reading.reason.startswith("client on node1: Correlation coefficient r^2: 0.892656 < 0.9")


def test_rates_of_0_without_such_words_speak_against_the_run() -> None:
    client = recorded("no-clock").replace("Correlation coefficient", "Coefficient")
    reading = perftest.read(client, server=recorded("no-clock", "server"), calls=calls())
    assert (
        not (reading.inconclusive or reading.ok)
        and "expected a bandwidth above 0" in reading.reason
    )


def test_words_of_a_clock_excuse_nothing_else() -> None:
    """What is wrong with a table that has its numbers still counts."""
    words = "STDERR: Correlation coefficient r^2: 0.892656 < 0.9\n"
    other = perftest.Options("read", "bw", size_bytes=65536, duration_s=2)
    reading = perftest.read(recorded("duration") + words, options=other)
    assert not (reading.inconclusive or reading.ok) and "operation write" in reading.reason


# ---- a client that connected before its server listened ----

#: Recorded in the lab, 2026-11-26, of 31 acceptances once: the client's standard error.
REJECTED = """RDMA CM event error:
Event: RDMA_CM_EVENT_REJECTED; error: 8.

ERRNO: Operation not supported.
Failed to handle RDMA CM event.
ERRNO: Operation not supported.
Failed to connect RDMA CM events.
ERRNO: Operation not supported.
"""


def rejected(client: str, *codes: int | None) -> Reading:
    both = [
        dataclasses.replace(call, exit_code=code) for call, code in zip(calls(), codes, strict=True)
    ]
    options = perftest.Options("write", "bw", size_bytes=65536, iterations=1000)
    return perftest.read(client, server="", calls=both, options=options)


def test_a_client_that_came_before_its_server_listened_measured_nothing() -> None:
    reading = rejected(REJECTED, None, -11)
    assert reading.inconclusive and not reading.ok and not reading.measurements
    assert "It connected before the server listened" in reading.reason


@pytest.mark.parametrize(
    ("client", "codes"),
    [
        # of a server that ended by itself it is no wonder
        (REJECTED, (1, -11)),
        (REJECTED.replace("error: 8.", "error: 28."), (None, -11)),
        (REJECTED.replace("REJECTED", "UNREACHABLE"), (None, -11)),
        ("", (None, -11)),
    ],
)
def test_any_other_end_of_a_connection_speaks_against_the_run(
    client: str, codes: tuple[int | None, int | None]
) -> None:
    reading = rejected(client, *codes)
    assert not (reading.inconclusive or reading.ok)


# ---- a time, both ways ----

BOTH_WAYS = perftest.Options("write", "bw", 65536, duration_s=12, bidirectional=True)


def both_ways(client: int, server: int) -> Reading:
    """Of the messages that each side sent in the middle half of twelve seconds."""
    rate = (client + server) / 6
    row = f" 65536      {{}}   0.00   {rate * 65536 * 8e-9:.6f}   {rate / 1e6:.6f}\n"
    texts = {}
    for side, count in (("client", client), ("server", server)):
        lines = (RECORDED / f"bidirectional-{side}.txt").read_text().splitlines(keepends=True)
        texts[side] = "".join([*lines[:-2], row.format(count), lines[-1]])
    ended = [Call("perftest", side, n, f"n{n}", 0, 13.0) for n, side in enumerate(texts)]
    return perftest.read(texts["client"], server=texts["server"], calls=ended, options=BOTH_WAYS)


@pytest.mark.parametrize(("client", "server"), [(3000, 3000), (5000, 1000), (600, 5400)])
def test_each_way_has_the_messages_of_its_own_sender(client: int, server: int) -> None:
    reading = both_ways(client, server)
    assert reading.completeness is PROVED, reading.reason
    moved = {m.to: m.payload_bytes // 65536 for m in reading.moved}
    assert moved == {"server": client, "client": server}
    assert [m.seconds for m in reading.moved] == pytest.approx([6.0, 6.0], rel=0.01)


def test_fewer_messages_than_the_rate_of_both_ways_has_are_refused() -> None:
    shown = both_ways(3000, 3000).measurements[0]
    assert shown.value == pytest.approx(0.524, rel=0.01)
    client = (RECORDED / "bidirectional-client.txt").read_text()
    server = (RECORDED / "bidirectional-server.txt").read_text()
    # 200 messages each at this rate took less than a second.
    reading = perftest.read(
        client.replace("0.27  ", "0.00  "),
        server=server.replace("0.27  ", "0.00  "),
        calls=[
            Call("perftest", s, n, f"n{n}", 0, 13.0) for n, s in enumerate(("client", "server"))
        ],
        options=BOTH_WAYS,
    )
    assert not reading.ok and "400 iterations of both sides, too few for 12 s" in reading.reason
