"""Other people's outputs, in a folder of samples that is no part of the project.

They came by other versions, machines and launchers than ours, and some were damaged by the pages
that they stood on. Nothing else needs them: what Railgauge promises is tested with outputs of our
own, in tests/data.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.model.call import Call
from railgauge.tools import Completeness, ParseError, iperf2, iperf3, nccl_tests, perftest, wdt

SAMPLES = Path(os.environ.get("RAILGAUGE_SAMPLES", paths.HOME.parent / "shared" / "samples"))
if not SAMPLES.is_dir():
    pytest.skip(
        f"no folder of samples at {SAMPLES}: RAILGAUGE_SAMPLES=DIR names one",
        allow_module_level=True,
    )

PROVED, UNKNOWN, BROKEN = Completeness.PROVED, Completeness.UNKNOWN, Completeness.BROKEN


def sample(tool: str, name: str) -> str:
    return (SAMPLES / tool / name).read_text(encoding="utf-8")


#: sample -> ok, completeness, bandwidth, streams, slowest stream, retransmits
IPERF2: dict[str, tuple[Any, ...]] = {
    "local-2.1.8-badflag.txt": (False, BROKEN, None, None, None, None),
    "local-2.1.8-bounceback.txt": (True, UNKNOWN, None, 1, None, None),
    "local-2.1.8-refused.txt": (False, BROKEN, None, None, None, None),
    "local-2.1.8-tcp-csv-enh.txt": (True, UNKNOWN, 26.910154228, 2, 12.768986970, None),
    "local-2.1.8-tcp-p2-csv.txt": (True, UNKNOWN, 24.519145897, 2, 12.208004263, None),
    "local-2.1.8-tcp-p4-enhanced.txt": (True, UNKNOWN, 31.8, 4, 7.52, 74),
    "local-2.1.8-tcp-plain.txt": (True, UNKNOWN, 18.2, 1, 18.2, None),
    "local-2.1.8-tcp-sumonly.txt": (True, UNKNOWN, 36.1, 4, None, None),
    "local-2.1.8-udp-csv.txt": (False, UNKNOWN, None, None, None, None),
    "local-2.2.1-badflag.txt": (False, BROKEN, None, None, None, None),
    "local-2.2.1-bounceback.txt": (True, UNKNOWN, None, 1, None, None),
    "local-2.2.1-refused.txt": (False, BROKEN, None, None, None, None),
    "local-2.2.1-tcp-csv-enh.txt": (True, UNKNOWN, 108.624146875, 2, 54.152831971, 0),
    "local-2.2.1-tcp-p2-csv.txt": (True, UNKNOWN, 110.698858656, 2, 55.278693414, None),
    "local-2.2.1-tcp-p4-enhanced.txt": (True, UNKNOWN, 102.0, 4, 24.2, 118),
    "local-2.2.1-tcp-plain.txt": (True, UNKNOWN, 51.8, 1, 51.8, None),
    "local-2.2.1-tcp-sumonly.txt": (True, UNKNOWN, 98.6, None, None, None),
    "local-2.2.1-udp-csv.txt": (False, UNKNOWN, None, None, None, None),
    "v2.0.9-enhanced-tcp.txt": (False, BROKEN, None, None, None, None),
}

#: sample -> what its first row gives where it is a result, else words of the reason
PERFTEST: dict[str, dict[str, float] | str] = {
    "connect-refused-unable-to-init-socket.txt": "Couldn't connect to 192.168.125.211:18515",
    "deepops-roce-perf-k8s-1.txt": {
        "bandwidth": 92.40,
        "bandwidth_peak": 92.42,
        "message_rate": 0.176230,
    },
    "dgx-spark-1.txt": {"bandwidth": 92.57, "message_rate": 0.176555},
    "dranet-README-1.txt": "line 44: found 'Failed status 10: wr_id 0 syndrom 0x88'",
    "ib_read_bw-all-mbsec-truncated.txt": "expected a line of dashes below the last row",
    "ib_read_lat-cpufreq-warning-interleaved.txt": "no name of the test",
    "infinite-interval-then-completion-error-2025.txt": "line 25: found 3 values",
    "mr-fail-error14-2025.txt": "Couldn't allocate MR with error=14",
    "post-list-duration-peak-zero.txt": {"bandwidth": 0.48, "message_rate": 7.498617},
    "rxe-612-ib_read_bw-a.txt": {
        "bandwidth": 0.000046,
        "bandwidth_peak": 0.000047,
        "message_rate": 0.002851,
    },
    "rxe-612-ib_write_bw-a.txt": {
        "bandwidth": 0.000043,
        "bandwidth_peak": 0.000045,
        "message_rate": 0.002704,
    },
    "rxe-612-write_bw-D10.txt": {"bandwidth": 0.17, "message_rate": 0.000320},
    "rxe-612-write_bw-bidir.txt": {
        "bandwidth": 0.22,
        "bandwidth_peak": 0.25,
        "message_rate": 0.000026,
    },
    "rxe-612-write_lat-H.txt": {
        "latency": 1683.30,
        "latency_min": 272.06,
        "latency_avg": 2372.69,
        "latency_p99": 10695.52,
        "latency_max": 44646.00,
    },
    "rxe-612-write_lat_2.txt": {
        "latency": 335.21,
        "latency_min": 213.44,
        "latency_avg": 609.84,
        "latency_p99": 2789.83,
        "latency_p999": 4036.02,
    },
    "spark-ib_write_lat-2B.txt": {
        "latency": 1.47,
        "latency_min": 1.42,
        "latency_avg": 1.47,
        "latency_p99": 1.57,
        "latency_max": 1.93,
    },
    "superbench-ib_loopback_8M_size.txt": "line 21: found another test",
}

#: sample -> role, exit code, bandwidth; or what is missing
WDT: dict[str, tuple[str, int, float | None] | str] = {
    "local-big_p8_skip1-recv.txt": ("receiver", 0, None),
    "local-big_p8_skip1-send.txt": ("sender", 0, 6.99851),
    "local-fail-absent-send.txt": ("sender", 3, None),
    "local-fail-diskfull-recv.txt": ("receiver", 8, None),
    "local-fail-diskfull-send.txt": ("sender", 8, None),
    "local-fail-recvkilled-send.txt": ("sender", 6, None),
    "old-no-prefix-progress-stall.txt": "no end",
    "v1.26-sender-static-ports-head.txt": "no end",
}

#: sample -> operation, busbw of the largest size on both sides, proof; else words of the reason
NCCL_TESTS: dict[str, tuple[str, float, float, Completeness] | str] = {
    "aws-aws-batch-1.txt": ("", 483.05, 483.35, UNKNOWN),
    "aws-nccl-tests-1.txt": "no line 'Out of bounds values'",
    "bfloat16-redop-none.txt": "line 2: found a row without a header",
    "coreweave-1.txt": "5 sizes, not those that the header announces: 4 to 2147483648 bytes",
    "coreweave-3.txt": "the header numbers its ranks 143, expected 0 to 0",
    "dcgm-mock-output_fail_bw.txt": "line 16: found '.. testhost pid 12345: Test failure",
    "dcgm-mock-output_pass.txt": ("all_reduce", 0.0, 0.0, PROVED),
    "deepops-slurm-perf-cluster-1.txt": ("", 191.05, 191.56, UNKNOWN),
    "gb10-spark-v2.20-git-hash.txt": "no row of 131072 bytes, expected 8192 to 8589934592 bytes",
    "gcm-sample-0.txt": ("all_reduce", 231.72, 231.70, UNKNOWN),
    "gcm-sample-2.txt": ("all_reduce", 182.80, 181.39, UNKNOWN),
    "h20-2node-roce-old-error-col.txt": "no line 'Out of bounds values'",
    "hyperpod-1.txt": "1048576 bytes (line 5): algbw is not size / time",
    "local-nogpu-v2.19.6.txt": "CUDA driver version is insufficient",
    "mpi-tag-output-nccl-info-interleaved.txt": "line 2: found a row without a header",
    "nccl1-very-old-format-unhandled-cuda-error.txt": "unhandled cuda error",
    "rank-prefix-in-mid-line.txt": "sum      -1[0]    1626.5",
    "rccl-internal-error.txt": "Test NCCL failure common.cu:1285",
    "superbench-nccl_allreduce.txt": ("all_reduce", 235.26, 235.03, UNKNOWN),
    "superbench-nccl_alltoall.txt": ("", 224.31, 226.16, UNKNOWN),
    "unhandled-system-error-socket-warn.txt": "NCCL WARN Net : Connection closed by remote peer",
    "v100-old-format-error-col-oob-failed.txt": "out of bounds values: 2 FAILED",
}

IPERF3 = [
    "text-sender-receiver-uneven-intervals.txt",
    "udp-reverse-84pct-loss.txt",
    "v3.7-verbose-pfsense.txt",
]


@pytest.mark.parametrize(
    ("tool", "table"),
    [
        ("iperf2", IPERF2),
        ("iperf3", IPERF3),
        ("nccl-tests", NCCL_TESTS),
        ("perftest", PERFTEST),
        ("wdt", WDT),
    ],
)
def test_every_sample_is_in_its_table(tool: str, table: Any) -> None:
    assert {path.name for path in (SAMPLES / tool).iterdir()} == set(table)


@pytest.mark.parametrize("name", IPERF2)
def test_iperf2(name: str) -> None:
    ok, completeness, bandwidth, streams, slowest, retransmits = IPERF2[name]
    reading = iperf2.read(sample("iperf2", name))
    measured = {measurement.metric: measurement.value for measurement in reading.measurements}
    assert (reading.ok, reading.completeness) == (ok, completeness), reading.reason
    assert measured.get("bandwidth") == (bandwidth and pytest.approx(bandwidth))
    assert measured.get("stream_bandwidth_min") == (slowest and pytest.approx(slowest))
    assert measured.get("retransmits") == retransmits
    assert all(measurement.streams == streams for measurement in reading.measurements)


def test_iperf2_of_2013_without_a_total_is_rejected() -> None:
    with pytest.raises(ParseError, match="no total"):
        iperf2.parse(sample("iperf2", "v2.0.9-enhanced-tcp.txt"))


@pytest.mark.parametrize("name", IPERF3)
def test_iperf3_without_json_proves_nothing(name: str) -> None:
    """Excerpts, without a beginning or an end."""
    reading = iperf3.read(sample("iperf3", name))
    assert (reading.ok, reading.completeness) == (False, BROKEN)
    assert re.search("breaks off|expected one JSON document", reading.reason)


@pytest.mark.parametrize("name", PERFTEST)
def test_perftest(name: str) -> None:
    expected = PERFTEST[name]
    reading = perftest.read(sample("perftest", name))
    if isinstance(expected, str):
        assert (reading.ok, reading.completeness) == (False, BROKEN)
        assert expected in reading.reason
        return
    assert (reading.ok, reading.completeness) == (True, UNKNOWN), reading.reason
    first = reading.measurements[0].size_bytes
    assert {m.metric: m.value for m in reading.measurements if m.size_bytes == first} == expected


def test_perftest_of_a_port_without_a_link_layer_is_not_called_infiniband() -> None:
    reading = perftest.read(sample("perftest", "spark-ib_write_lat-2B.txt"))
    assert {measurement.transport for measurement in reading.measurements} == {"rdma"}


@pytest.mark.parametrize("name", WDT)
def test_wdt(name: str) -> None:
    expected, text = WDT[name], sample("wdt", name)
    reading = wdt.read(text)
    if isinstance(expected, str):
        assert not reading.ok
        assert expected in reading.reason
        return
    role, code, bandwidth = expected
    output = wdt.parse(text)
    assert (output.role, output.code, output.version) == (role, code, "1.32.1910230")
    assert (reading.ok, reading.completeness) == (code == 0, BROKEN if code else UNKNOWN)
    measured = {m.metric: m.value for m in reading.measurements}
    assert measured.get("bandwidth") == (bandwidth and pytest.approx(bandwidth, rel=1e-5))


def test_wdts_both_sides_prove_a_transfer() -> None:
    reading = wdt.read(
        sample("wdt", "local-big_p8_skip1-send.txt"),
        server=sample("wdt", "local-big_p8_skip1-recv.txt"),
        calls=[
            Call(wdt.TOOL, "server", 0, "n2", 0, 3.0),
            Call(wdt.TOOL, "client", 1, "n1", 0, 3.0),
        ],
        options=wdt.Options(wdt.FileSet(1, 2**31), 8, skip_writes=True, version="1.32"),
    )
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    assert reading.measurements[1].value == pytest.approx(2.4548, abs=1e-4)


def test_wdts_throughput_to_a_killed_receiver_is_no_result() -> None:
    text = sample("wdt", "local-fail-recvkilled-send.txt")
    reading = wdt.read(text)
    assert "64.56 Mbytes/sec" in text
    assert (reading.ok, reading.measurements) == (False, ())
    assert "returned 6 SOCKET_WRITE_ERROR" in reading.reason


def test_wdts_receiver_says_whether_it_wrote() -> None:
    assert not wdt.parse(sample("wdt", "local-big_p8_skip1-recv.txt")).wrote
    assert wdt.parse(sample("wdt", "local-fail-diskfull-recv.txt")).wrote


@pytest.mark.parametrize("name", NCCL_TESTS)
def test_nccl_tests(name: str) -> None:
    reading = nccl_tests.read({0: sample("nccl-tests", name)})
    expected = NCCL_TESTS[name]
    if isinstance(expected, str):
        assert (reading.ok, reading.measurements) == (False, ())
        assert expected in reading.reason
        return
    assert reading.ok, reading.reason
    last = reading.measurements[-4:]
    assert [m.metric for m in last] == ["busbw", "time", "busbw_in_place", "time_in_place"]
    found = (last[0].operation, last[0].value, last[2].value, reading.completeness)
    assert found == expected
