"""Readers of tools that people run: exact values, no cut text that is another result, any text."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railgauge import paths
from railgauge.tools import (
    Completeness,
    ParseError,
    Reading,
    all_reduce_bench,
    fabtests,
    hp2p,
    nvbandwidth,
    qperf,
    sockperf,
    transferbench,
    ucx_perftest,
)
from railgauge.tools.recognize import recognize
from tests.properties import tries

QUICK = settings(max_examples=tries(100), suppress_health_check=[HealthCheck.too_slow])
DATA = paths.HOME / "tests" / "data"
MODULES: tuple[ModuleType, ...] = (
    *(all_reduce_bench, fabtests, hp2p, nvbandwidth, qperf, sockperf),
    *(transferbench, ucx_perftest),
)
FILES: Mapping[str, tuple[ModuleType, str]] = {
    f"{module.TOOL}/{path.name}": (module, path.read_text(encoding="utf-8"))
    for module in MODULES
    for path in sorted((DATA / module.TOOL).iterdir())
}
NAMES = sorted(FILES)


def read(name: str) -> Reading:
    module, text = FILES[name]
    return judged(module, text)


def judged(module: ModuleType, text: str, **known: Any) -> Reading:
    return module.read(text, **known)  # type: ignore[no-any-return]


def values(reading: Reading) -> dict[tuple[str, str, int | None], float]:
    return {(m.metric, m.operation, m.size_bytes): m.value for m in reading.measurements}


# ---- exact values ----

EXACT: list[tuple[str, str, str, int | None, float]] = [
    ("ucx_perftest/tag_lat-client.txt", "latency", "lat", None, 6.652),
    ("ucx_perftest/tag_lat-client.txt", "latency_avg", "lat", None, 298.002),
    ("ucx_perftest/tag_lat-p99-client.txt", "latency_p99", "lat", None, 9324.260),
    # MB/s of 2^20 bytes
    ("ucx_perftest/stream_bw-client.txt", "bandwidth", "bw", None, 259.70 * 2**20 * 8e-9),
    ("ucx_perftest/loopback-client.txt", "bandwidth", "tag_bw", 1024, 13212.90 * 2**20 * 8e-9),
    ("ucx_perftest/loopback-client.txt", "message_rate", "tag_bw", 1024, 13.530013),
    ("ucx_perftest/threads-client.txt", "latency_avg", "lat", None, 1790.279),
    ("ucx_perftest/batch-csv-client.txt", "message_rate", "first", None, 0.001455),
    ("fabtests/pingpong-tcp-msg-client.txt", "latency_avg", "pingpong", 2**20, 14435.62),
    ("fabtests/rdm-bw.txt", "bandwidth", "bandwidth", 65536, 12012.17 * 8e-3),
    ("fabtests/rdm-tagged-bw-machine.txt", "bandwidth", "fi_rdm_tagged_bw", 64, 1.024),
    ("sockperf/ping-pong-tcp-client.txt", "latency", "ping-pong", None, 6.990),
    ("sockperf/ping-pong-tcp-client.txt", "latency_p999", "ping-pong", None, 2819.384),
    # half of a round trip
    ("sockperf/full-rtt-client.txt", "latency_avg", "ping-pong", None, 100.441 / 2),
    # MBps of 2^20 bytes
    ("sockperf/throughput-client.txt", "bandwidth", "udp sent", 1400, 76.298 * 2**20 * 8e-9),
    ("qperf/precise.txt", "bandwidth", "tcp", None, 7.017152),
    ("qperf/precise.txt", "latency_avg", "tcp", None, 25.6463),
    ("qperf/bits.txt", "bandwidth", "tcp", None, 8.93),
    ("qperf/units.txt", "latency_avg", "tcp", None, 23.597),
    # what arrived, and not what was sent
    ("qperf/udp.txt", "bandwidth", "udp", None, 6.384),
    ("qperf/loop.txt", "bandwidth", "tcp", 65536, 3.136),
    ("nvbandwidth/h100-0.8.txt", "copy_bandwidth", "copy host_to_device_memcpy_ce", None, 55.37),
    (
        "nvbandwidth/h100-0.8.txt",
        "copy_bandwidth_min",
        "copy host_to_device_memcpy_sm",
        None,
        41.07,
    ),
    ("nvbandwidth/h100-0.8.txt", "latency_max", "copy host_device_latency_sm", None, 0.76105),
    (
        *("nvbandwidth/h100-0.8.json", "copy_bandwidth"),
        *("copy device_to_device_bidirectional_memcpy_write_ce total", None, 780.6),
    ),
    (
        "nvbandwidth/readme-0.2.txt",
        "copy_bandwidth_min",
        "copy device_to_device_memcpy_write_ce",
        None,
        276.07,
    ),
    # of the nearer CPU
    ("transferbench/mi300x-1.62.txt", "copy_bandwidth_min", "copy p2p_cpu_to_gpu", None, 42.0),
    (
        *("transferbench/mi300x-1.62.txt", "copy_bandwidth_min"),
        *("copy p2p_gpu_to_gpu_write", None, 29.95),
    ),
    (
        *("transferbench/remote-read-1.52.txt", "copy_bandwidth"),
        *("copy p2p_gpu_to_gpu_read", None, 48.5),
    ),
    ("hp2p/whole.txt", "bandwidth", "pairs", 2**20, 11021.40 * 2**20 * 8e-9),
    ("hp2p/whole.txt", "latency_max", "pairs", 2**20, 203.77),
    ("all_reduce_bench/scan.txt", "busbw", "allreduce", 2**34, 480.17),
    ("all_reduce_bench/profile.txt", "busbw", "allreduce", 2**29, (471.08 + 465.27) / 2),
]


@pytest.mark.parametrize(("name", "metric", "operation", "size", "value"), EXACT)
def test_a_number_is_that_of_the_tool_in_the_metrics_unit(
    name: str, metric: str, operation: str, size: int | None, value: float
) -> None:
    assert values(read(name))[metric, operation, size] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_output_is_a_good_run(name: str) -> None:
    reading = read(name)
    assert reading.ok == (name not in BROKEN), reading.reason


#: What the tool printed of a run that is none.
BROKEN = {"hp2p/stopped.txt"}


@pytest.mark.parametrize("name", [name for name in NAMES if "server" not in name])
def test_a_bare_output_with_an_exit_code_that_is_not_0_is_refused(name: str) -> None:
    module, text = FILES[name]
    calls = module.BY_HAND.read([text], [1], None)
    assert not calls.ok


# ---- proofs ----


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ucx_perftest/tag_bw-client.txt", ucx_perftest.Options("tag_bw", 65536, 3000)),
        ("fabtests/rdm-bw.txt", None),
        ("fabtests/pingpong-sockets-rdm-client.txt", fabtests.Options(4096, 20)),
        ("sockperf/throughput-client.txt", sockperf.Options(2, 1400)),
        ("qperf/tcp.txt", qperf.Options(("tcp_bw", "tcp_lat"))),
        ("nvbandwidth/readme-0.2.txt", nvbandwidth.Options(("device_to_device_memcpy_write_ce",))),
        ("transferbench/mi300x-1.62.txt", transferbench.Options(8)),
        ("hp2p/whole.txt", hp2p.Options(1000, 2**20)),
        ("all_reduce_bench/scan.txt", all_reduce_bench.Options(16, 2**34)),
    ],
)
def test_exit_code_0_and_what_was_asked_for_prove_a_run(name: str, options: Any) -> None:
    module, text = FILES[name]
    reading = module.BY_HAND.read([text], [0], options)
    assert reading.ok
    assert (reading.completeness is Completeness.PROVED) == (options is not None)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("ucx_perftest/tag_bw-client.txt", ucx_perftest.Options(iterations=4000), "3000 as iter"),
        ("ucx_perftest/tag_bw-client.txt", ucx_perftest.Options(size_bytes=8), "by the message r"),
        ("ucx_perftest/tag_bw-server.txt", ucx_perftest.Options("tag_bw"), "expected the client's"),
        ("fabtests/pingpong-sockets-rdm-client.txt", fabtests.Options(64), "expected 64 alone"),
        ("sockperf/throughput-client.txt", sockperf.Options(20), "20 s were asked for"),
        ("sockperf/udp-server.txt", sockperf.Options(2), "expected the client's"),
        ("qperf/tcp.txt", qperf.Options(("tcp_bw",)), "the tests are tcp_bw, tcp_lat"),
        ("nvbandwidth/h100-0.8.txt", nvbandwidth.Options(("device_local_copy",)), "the tests are"),
        ("transferbench/mi300x-1.62.txt", transferbench.Options(4), "8 GPUs, expected 4"),
        (
            "transferbench/remote-read-1.52.txt",
            transferbench.Options(2),
            "gpu_to_gpu_read, expected",
        ),
        ("hp2p/whole.txt", hp2p.Options(5000), "1000 as iterations, expected 5000"),
        ("all_reduce_bench/scan.txt", all_reduce_bench.Options(32, 2**34), "16 ranks, expected 32"),
        ("all_reduce_bench/stopped.txt", all_reduce_bench.Options(16, 2**34), "payloads up to"),
    ],
)
def test_a_run_that_is_not_as_asked_is_refused(name: str, options: Any, says: str) -> None:
    module, text = FILES[name]
    reading = module.BY_HAND.read([text], [0], options)
    assert not reading.ok
    assert says in reading.reason


@pytest.mark.parametrize(
    ("run", "number"),
    [
        ("tag_lat", ("latency", "tag_lat", 8, 6.652)),
        ("tag_lat-1.18", ("latency", "tag_lat", 8, 5.016)),
        ("put_lat-1.18", ("latency_avg", "ucp_put_lat", 64, 3644.171)),
        ("am_bw-csv-1.18", ("message_rate", "ucp_am_bw", 8192, 0.000862)),
        ("uct_am_bw", ("bandwidth", "am_bw", 1024, 6.42 * 2**20 * 8e-9)),
    ],
)
def test_the_servers_output_of_ucx_adds_the_test_and_the_size(
    run: str, number: tuple[str, str, int, float]
) -> None:
    texts = [FILES[f"ucx_perftest/{run}-{side}.txt"][1] for side in ("client", "server")]
    reading = ucx_perftest.BY_HAND.read(texts, (), None)
    *key, value = number
    assert values(reading)[tuple(key)] == pytest.approx(value)  # type: ignore[index]


def test_messages_lost_under_load_are_a_note() -> None:
    text = FILES["sockperf/under-load-client.txt"][1]
    reading = sockperf.read(text.replace("dropped messages = 0", "dropped messages = 3"))
    assert reading.ok
    assert "3 messages dropped" in reading.notes[0]


def test_the_header_of_ucx_before_1_12_is_read() -> None:
    text = FILES["ucx_perftest/tag_lat-client.txt"][1].replace("| 50.0%ile |", "|  typical |")
    reading = ucx_perftest.read(text)
    assert values(reading)["latency", "lat", None] == 6.652


def test_a_damaged_row_of_csv_is_not_passed_over() -> None:
    text = FILES["ucx_perftest/batch-csv-client.txt"][1]
    reading = ucx_perftest.read(text + "second, 500,5.052,687.124\n")
    assert "the columns of the header" in reading.reason


def test_thousands_of_ucx_are_numbers() -> None:
    text = FILES["ucx_perftest/tag_lat-client.txt"][1]
    text = text.replace("                  3000 ", "                 3,000 ")
    assert ucx_perftest.parse(text).rows[0].iterations == 3000


def test_two_clients_of_ucx_are_no_run() -> None:
    text = FILES["ucx_perftest/tag_lat-client.txt"][1]
    assert "two outputs of one side" in ucx_perftest.BY_HAND.read([text, text], (), None).reason


# ---- what a text says against itself ----


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("ucx_perftest/tag_lat-client.txt", "Final:", "final:", "no result of the whole test"),
        ("ucx_perftest/tag_lat-client.txt", "   298.002 ", "   298.0 ", "a whole row of numbers"),
        ("fabtests/pingpong-udp-client.txt", "=20 ", "+3  ", "answered messages differ"),
        ("fabtests/rdm-bw.txt", "12012.17", "1201.227", "the columns of the header"),
        ("fabtests/rdm-bw.txt", "12012.17", "1201.27", "that are those of its size"),
        (
            "sockperf/ping-pong-tcp-client.txt",
            "dropped messages = 0",
            "dropped messages = 7",
            "7 m",
        ),
        ("sockperf/ping-pong-tcp-client.txt", "by timer", "by signal 2", "by a signal"),
        ("sockperf/throughput-client.txt", "610.385", "710.385", "8 Mbps a MBps"),
        ("sockperf/throughput-client.txt", "msg-size=1400.", "msg-size=140.", "by the messages"),
        ("qperf/tcp.txt", "290 MB/sec", "290 Mx/sec", "a unit of"),
        ("qperf/tcp.txt", "    latency  =  28.4 us\n", "", "no latency of tcp_lat"),
        ("qperf/tcp.txt", "=  290 MB", "=  0 MB", "no bw of tcp_bw"),
        ("nvbandwidth/h100-0.8.txt", " 41.07", " 47.07", "of its sum"),
        ("nvbandwidth/h100-0.8.txt", "     55.41\n", "\n", "a name and 4 numbers"),
        ("nvbandwidth/h100-0.8.json", "55.3632", "155.3632", "of its sum"),
        ("nvbandwidth/h100-0.8.json", "Passed", "Error", "the status Passed"),
        ("nvbandwidth/readme-0.2.txt", "276.07", "0.00", "0 from 0 to 1"),
        ("transferbench/mi300x-1.62.txt", " 30.01 ", " 39.01 ", "from GPU to GPU, expected the"),
        ("transferbench/mi300x-1.62.txt", "     30.01     48.50", "     30.01", "10 rows of as"),
        ("transferbench/mi300x-1.62.txt", "   30.01 ", "   30.0x ", "numbers with two decimals"),
        ("transferbench/mi300x-1.62.txt", "During  BiDir", "", "no averages at the end"),
        ("transferbench/mi300x-1.62.txt", "Bidirectional copy", "Both ways", "no matrix of both"),
        ("transferbench/remote-read-1.52.txt", "GPU 01", "GPU 02", "GPUs from 00 on"),
        ("nvbandwidth/readme-0.2.txt", "2    276.33    276.29      0.00\n", "", "expected 3 rows"),
        ("hp2p/whole.txt", " Max latency ", " Min latency ", "each value once"),
        ("hp2p/whole.txt", "11021.40", "-nan", "each value once, and a number"),
        ("hp2p/whole.txt", ": 1000 \n", ": 400 \n", "400 of 1000 iterations"),
        ("all_reduce_bench/scan.txt", "480.17GBps", "580.17GBps", "times the algbw"),
        ("all_reduce_bench/scan.txt", "|   32MiB |", "|   99MiB |", "twice the one before"),
    ],
)
def test_a_text_that_contradicts_itself_is_no_result(
    name: str, old: str, new: str, says: str
) -> None:
    module, text = FILES[name]
    assert old in text
    reading = judged(module, text.replace(old, new))
    assert not reading.ok
    assert says in reading.reason


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 5000])
@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_hundreds_of_digits_raises_nothing_else(name: str, digits: str) -> None:
    module, text = FILES[name]
    lines = text.split("\n")
    for number, line in enumerate(lines):
        long = re.sub(r"[0-9]+", digits, line)
        never_raises(module, "\n".join([*lines[:number], long, *lines[number + 1 :]]))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ucx_perftest/tag_lat-client.txt", "[1.2] [n1:7:0] sock.c:1 UCX  ERROR recv() failed"),
        ("fabtests/rdm-bw.txt", "fi_cq_readerr 5 (Input/output error), provider errno: ret=-5 (x)"),
        ("sockperf/full-rtt-client.txt", "sockperf: ERROR: Can`t connect socket (errno=111)"),
        ("qperf/tcp.txt", "failed to connect to 10.0.0.2"),
        ("nvbandwidth/h100-0.8.txt", "[CUDA_ERROR_OUT_OF_MEMORY] out of memory in expression x"),
        ("transferbench/mi300x-1.62.txt", "[ERROR] Unable to enable peer access from GPU devices"),
        ("hp2p/whole.txt", "srun: error: n1: task 0: Killed"),
        ("all_reduce_bench/scan.txt", "Traceback (most recent call last):"),
    ],
)
def test_an_error_below_a_result_refuses_it(name: str, error: str) -> None:
    module, text = FILES[name]
    assert "no error message" in judged(module, f"{text}{error}\n").reason
    assert "no error message" in judged(module, f"{text}STDERR: {error}\n").reason


@pytest.mark.parametrize(
    "name",
    [
        *("fabtests/rdm-bw.txt", "fabtests/rdm-tagged-bw-machine.txt"),
        *("ucx_perftest/tag_bw-csv-client.txt", "ucx_perftest/batch-csv-client.txt"),
    ],
)
def test_lines_of_a_log_below_a_table_are_no_rows(name: str) -> None:
    module, text = FILES[name]
    lines = "2026-11-23 10:00:00 epilog\n10:00:01 up 3 days\n7 nodes were used\na, b, c, d, e\n"
    assert values(judged(module, text + lines)) == alone(name)


@pytest.mark.parametrize("change", ["64k ", "64k  2k", "x 64k     2k    ", "64k 2k 125m 0.01s 1.0"])
def test_a_damaged_row_is_not_passed_over(change: str) -> None:
    text = FILES["fabtests/rdm-bw.txt"][1]
    (row,) = re.findall(r"^64k .*$", text, re.MULTILINE)
    end = row.split("0.01s")[1]
    damaged = f"{change}125m  0.01s{end}" if change.startswith("x") else change
    assert "the columns of the header" in fabtests.read(text.replace(row, damaged)).reason


# ---- among the lines of a job's log ----


@functools.cache
def alone(name: str) -> dict[tuple[str, str, int | None], float]:
    return values(read(name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tag", ["", "0: ", "[1,0]<stdout>: ", "n1: ", "2026-11-21T10:00:00 "])
def test_it_is_recognized_behind_the_tags_of_launchers(name: str, tag: str) -> None:
    module, text = FILES[name]
    body = re.sub(r"\A(?:# .*\n)+", "", text)
    tagged = "".join(f"{tag}{line}\n" for line in body.splitlines())
    noise = "Mon Nov 23 10:00:00 UTC 2026\nsrun: job 7 has been allocated resources\n"
    (section,) = recognize(f"{noise}{tagged}slurm epilog: all is well\n")
    assert section.tool == module.TOOL
    assert values(section.read()) == alone(name)


@QUICK
@given(st.lists(st.sampled_from([n for n in NAMES if "server" not in n]), min_size=2, max_size=4))
def test_several_runs_in_one_file_are_each_read(names: list[str]) -> None:
    # Without a version, and of qperf always, nothing tells tests of one run from those of two.
    kinds = [name if "readme" in name else name[: 5 * (name[:5] == "qperf")] for name in names]
    names = [n for i, n in enumerate(names) if not i or not kinds[i] or kinds[i] != kinds[i - 1]]
    text = "".join(re.sub(r"\A(?:# .*\n)+", "", FILES[name][1]) for name in names)
    sections = recognize(text)
    assert [section.tool for section in sections] == [FILES[name][0].TOOL for name in names]
    for section, name in zip(sections, names, strict=True):
        assert values(section.read()) == alone(name)


# ---- whatever comes ----


def never_raises(module: ModuleType, text: str) -> Reading:
    with contextlib.suppress(ParseError):
        module.parse(text)
    return judged(module, text)


@QUICK
@given(st.sampled_from(NAMES), st.data())
def test_a_text_cut_anywhere_is_never_another_result(name: str, data: st.DataObject) -> None:
    module, text = FILES[name]
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    reading = never_raises(module, cut)
    if reading.ok:
        whole = alone(name)
        # Before the line with its size, a result is that of a run that prints no size.
        sizeless = {((*key[:2], None), value) for key, value in whole.items()}
        assert values(reading).items() <= {*whole.items(), *sizeless} or name in MEANS
        assert reading.completeness is not Completeness.PROVED or values(reading) == alone(name)


#: Of these a line is a trial, and the number their mean.
MEANS = {"all_reduce_bench/profile.txt"}


@QUICK
@given(st.sampled_from(NAMES), st.randoms(use_true_random=False))
def test_changed_characters_raise_nothing_else(name: str, random: Any) -> None:
    module, whole = FILES[name]
    text = list(whole)
    for _ in range(random.randrange(1, 12)):
        text[random.randrange(len(text))] = random.choice("0123456789.-\n #\u0663\ufffdnaiek|\x00")
    never_raises(module, "".join(text))


@QUICK
@given(
    st.sampled_from(MODULES),
    st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))),
)
def test_any_text_raises_nothing_else(module: ModuleType, text: str) -> None:
    never_raises(module, text)


@QUICK
@given(st.sampled_from(MODULES), st.data())
def test_lines_of_outputs_in_any_order_raise_nothing_else(
    module: ModuleType, data: st.DataObject
) -> None:
    own = "".join(text for of, text in FILES.values() if of is module).splitlines(keepends=True)
    never_raises(module, "".join(data.draw(st.lists(st.sampled_from(own), max_size=20))))
