"""The file that perftest writes with --out_json: one row, without the addresses of both sides.

It does not say the unit of its bandwidth (--report_gbits or not): its message rate shows it. Of a
sweep (-a) it has the last size alone, because each size replaces the file. perftest writes no valid
JSON with `--output=bandwidth` or raw_qos, and none where its deviation is no number.

Format: https://github.com/linux-rdma/perftest 26.07, src/perftest_parameters.c (the functions
write_test_info_to_file, write_bw_report_to_file and write_report_lat_to_file) and the formats in
src/perftest_parameters.h.
"""

from __future__ import annotations

import re
from typing import Any

import pydantic

from railgauge.tools import ParseError
from railgauge.tools.common.documents import Count, Number, Part, document, validated
from railgauge.tools.common.lines import numbered, quote
from railgauge.tools.perftest.options import Operation, Test
from railgauge.tools.perftest.result import Bandwidth, Latency, Output

_TEST = re.compile(
    r"(?P<verb>RDMA_Write|RDMA_Read|Send)_(?P<both>Bidirectional_)?(?P<list>Post_List_)?"
    r"(?P<test>BW|Latency)_Test"
)
_OPERATIONS: dict[str, Operation] = {"RDMA_Write": "write", "RDMA_Read": "read", "Send": "send"}
#: Gb/s in one of the units that perftest may have used.
_UNITS = (1.0, 2**20 * 8e-9)
#: Half a unit of the digits that are there at least.
_HALF, _RATE_HALF = 0.005, 5e-7


class _Info(Part):
    test: str
    device: str = pydantic.Field(alias="Device")
    queue_pairs: Count = pydantic.Field(alias="Number_of_qps")
    transport_type: str = pydantic.Field(alias="Transport_type")
    connection_type: str = pydantic.Field(alias="Connection_type")
    tx_depth: Any = pydantic.Field(None, alias="TX_depth")
    mtu: Count = pydantic.Field(alias="Mtu")
    link_type: str = pydantic.Field(alias="Link_type")
    gid_index: Count | None = pydantic.Field(None, alias="GID_index")
    rdma_cm: str = pydantic.Field(alias="rdma_cm_QPs")


class _Row(Part):
    size: Count = pydantic.Field(alias="MsgSize")
    iterations: Count = pydantic.Field(alias="n_iterations")


class _Bandwidth(_Row):
    peak: Number = pydantic.Field(alias="BW_peak")
    average: Number = pydantic.Field(alias="BW_average")
    rate: Number = pydantic.Field(alias="MsgRate")

    def row(self) -> Bandwidth:
        """In the unit that agrees with the message rate."""
        factor = self.size * 8e-3
        exact = self.rate * factor
        allowed = _RATE_HALF * factor + 1e-9 * exact
        fitting = [
            unit for unit in _UNITS if abs(self.average * unit - exact) <= allowed + _HALF * unit
        ]
        if not exact or not fitting:
            found = f"results.BW_average {self.average:g}"
            raise ParseError(0, found, f"{exact:.6g} Gb/s, by its message rate, in a known unit")
        if self.peak and self.peak + _HALF < self.average - _HALF:
            raise ParseError(0, f"results.BW_peak {self.peak:g}", "the average or more")
        unit = fitting[0]
        is_known = len(fitting) == 1
        average = self.average * unit if is_known else exact
        peak = self.peak * unit if is_known and self.peak else None
        return Bandwidth(self.size, self.iterations, average, peak, self.rate)


class _Latency(_Row):
    least: Number = pydantic.Field(alias="t_min")
    most: Number = pydantic.Field(alias="t_max")
    typical: Number = pydantic.Field(alias="t_typical")
    avg: Number = pydantic.Field(alias="t_avg")
    p99: Number = pydantic.Field(alias="percentile_99")
    p999: Number = pydantic.Field(alias="percentile_99.9")

    def row(self) -> Latency:
        ordered = self.least <= self.typical <= self.p99 <= self.p999 <= self.most
        if not (self.typical > 0 and ordered and self.least <= self.avg <= self.most):
            expected = "0 < min <= typical <= 99 % <= 99.9 % <= max, and the average between"
            raise ParseError(0, f"results.t_typical {self.typical:g}", expected)
        return Latency(
            *(self.size, self.iterations, self.avg, self.least, self.most),
            *(self.typical, self.p99, self.p999),
        )


class _LatencyOverTime(_Row):
    avg: Number = pydantic.Field(alias="t_avg")
    tps: Number = pydantic.Field(alias="tps_average")

    def row(self) -> Latency:
        if not self.avg:
            raise ParseError(0, "results.t_avg 0", "a latency above 0")
        return Latency(self.size, self.iterations, self.avg, transactions_per_s=self.tps)


def is_document(text: str) -> bool:
    """Whether the first line that is none of a recorder begins a document."""
    lines = (line.strip() for _, line in numbered(text))
    return next((line for line in lines if line and line[0] != "#"), "").startswith("{")


def parse_json(text: str) -> Output:
    """The result of a --out_json file; ParseError where it is not whole, or contradicts itself."""
    lines = ("" if line.startswith("#") else line for _, line in numbered(text))
    run = document("\n".join(lines))
    info = validated(_Info, run.get("test_info"), "test_info")
    name = _TEST.fullmatch(info.test)
    if name is None:
        raise ParseError(0, f"test_info.test {quote(info.test)}", "a test of Write, Read or Send")
    results = run.get("results")
    test: Test = "bw" if name["test"] == "BW" else "lat"
    row = _row(test, results)
    if not row.size_bytes or not row.iterations:
        raise ParseError(0, "results of no size or no iterations", "1 or more of each")
    both = name["both"] is not None
    return Output(
        role="client" if info.tx_depth is not None and not both else "unknown",
        operation=_OPERATIONS[name["verb"]],
        test=test,
        bidirectional=both,
        post_list=name["list"] is not None,
        device=info.device,
        queue_pairs=info.queue_pairs,
        transport_type=info.transport_type,
        connection_type=info.connection_type,
        mtu_bytes=info.mtu,
        link_type=info.link_type,
        gid_index=info.gid_index,
        rdma_cm=info.rdma_cm == "ON",
        local=(),
        remote=(),
        rows=(row,),
    )


def _row(test: Test, results: object) -> Bandwidth | Latency:
    if test == "bw":
        return validated(_Bandwidth, results, "results").row()
    if isinstance(results, dict) and "tps_average" in results:
        return validated(_LatencyOverTime, results, "results").row()
    return validated(_Latency, results, "results").row()
