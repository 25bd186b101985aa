"""perftest's --out_json: typed after src/perftest_parameters.c of perftest 26.07, whose print
statements put every key in a line of its own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.tools import Completeness, perftest
from railgauge.tools.recognize import recognize
from tests.properties import tries

QUICK = settings(max_examples=tries(150))

INFO = {
    "test": "RDMA_Write_BW_Test",
    "Dual_port": "OFF",
    "Device": "mlx5_0",
    "Number_of_qps": 1,
    "Transport_type": "IB",
    "Connection_type": "RC",
    "Using_SRQ": "OFF",
    "PCIe_relax_order": "ON",
    "ibv_wr_API": "ON",
    "TX_depth": 128,
    "CQ_Moderation": 1,
    "Mtu": 4096,
    "Link_type": "Ethernet",
    "GID_index": 3,
    "Max_inline_data": 0,
    "rdma_cm_QPs": "OFF",
    "Use_ROCm_memory": "OFF",
    "Data_ex_method": "Ethernet",
}
#: 65536 bytes at 0.747681 Mmsg/s are 392.00 Gb/s, or 46730 MiB/s.
BANDWIDTH = {
    "MsgSize": 65536,
    "n_iterations": 5000,
    "BW_peak": 392.10,
    "BW_average": 392.00,
    "MsgRate": 0.747681,
}
LATENCY = {
    **{"MsgSize": 2, "n_iterations": 1000, "t_min": 1.60, "t_max": 3.10, "t_typical": 1.70},
    **{"t_avg": 1.72, "t_stdev": 0.05, "percentile_99": 2.10, "percentile_99.9": 3.00},
}
OVER_TIME = {"MsgSize": 2, "n_iterations": 100000, "t_avg": 1.72, "tps_average": 290697.67}


def written(results: dict[str, Any], **info: Any) -> str:
    parts = {"test_info": {**INFO, **info}, "results": results}
    return json.dumps(parts, indent=0) + "\n"


def metrics(text: str) -> dict[str, float]:
    [section] = recognize(text)
    assert section.tool == "perftest"
    reading = section.read()
    assert (reading.ok, reading.completeness) == (True, Completeness.UNKNOWN), reading.reason
    return {m.metric: m.value for m in reading.measurements}


def test_a_bandwidth_is_read_with_the_unit_of_its_message_rate() -> None:
    found = metrics(written(BANDWIDTH))
    assert found == {"bandwidth": 392.0, "bandwidth_peak": 392.1, "message_rate": 0.747681}
    mebibytes = {**BANDWIDTH, "BW_peak": 46741.99, "BW_average": 46730.06}
    assert metrics(written(mebibytes))["bandwidth"] == pytest.approx(392.0, abs=1e-3)


def test_a_latency_is_read() -> None:
    found = metrics(written(LATENCY, test="RDMA_Write_Latency_Test"))
    assert (found["latency"], found["latency_min"], found["latency_p99"]) == (1.7, 1.6, 2.1)


def test_a_latency_over_a_time_has_its_average_alone() -> None:
    assert metrics(written(OVER_TIME, test="Send_Latency_Test")) == {"latency_avg": 1.72}


def test_its_conditions_are_read() -> None:
    output = perftest.parse(
        written(BANDWIDTH, test="Send_Bidirectional_Post_List_BW_Test", Connection_type="DC")
    )
    assert (output.operation, output.bidirectional, output.post_list) == ("send", True, True)
    assert (output.connection_type, output.gid_index, output.mtu_bytes) == ("DC", 3, 4096)


@pytest.mark.parametrize(
    ("results", "info", "why"),
    [
        ({**BANDWIDTH, "BW_average": 300.0}, {}, "by its message rate"),
        ({**BANDWIDTH, "BW_peak": 100.0}, {}, "the average or more"),
        ({**BANDWIDTH, "MsgRate": 0.0}, {}, "by its message rate"),
        ({**BANDWIDTH, "MsgSize": 0}, {}, "by its message rate"),
        ({**BANDWIDTH, "n_iterations": 0}, {}, "1 or more of each"),
        ({**LATENCY, "t_max": 1.0}, {"test": "Send_Latency_Test"}, "t_typical"),
        (LATENCY, {}, "no results.BW_peak"),
        (BANDWIDTH, {"test": "Atomic_CMP_AND_SWAP_BW_Test"}, "a test of Write, Read or Send"),
        (BANDWIDTH, {"Mtu": "4096[B]"}, "test_info.Mtu"),
    ],
)
def test_what_contradicts_itself_is_refused(
    results: dict[str, Any], info: dict[str, Any], why: str
) -> None:
    reading = perftest.read(written(results, **info))
    assert not reading.ok and why in reading.reason


def test_what_perftest_writes_without_quotes_is_no_document() -> None:
    # raw_qos: `sl: 0,` stands there so.
    assert not perftest.read(written(BANDWIDTH).replace('"n_iter', 'sl: 0,\n"n_iter')).ok


@QUICK
@given(st.integers(0, len(written(BANDWIDTH).rstrip()) - 1))
def test_no_cut_document_is_read(end: int) -> None:
    assert not perftest.read(written(BANDWIDTH)[:end]).ok


@QUICK
@given(
    st.sampled_from(sorted(BANDWIDTH)),
    st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=4), st.just([])),
)
def test_no_changed_field_crashes_or_raises_the_bandwidth(key: str, value: Any) -> None:
    reading = perftest.read(written({**BANDWIDTH, key: value}))
    found = {m.metric: m.value for m in reading.measurements}
    if reading.ok and key not in ("MsgSize", "MsgRate"):
        assert found["bandwidth"] == pytest.approx(392.0, rel=1e-3)
