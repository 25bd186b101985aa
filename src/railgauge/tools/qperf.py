"""qperf: bandwidth and latency of sockets and RDMA, test by test, by what its client prints.

Units are decimal: GB/sec are 10^9 bytes a second, Gb/sec (-ub) 10^9 bits; sizes in KiB are of
2^10 (view_band and view_size of src/qperf.c). A latency is one way, as qperf counts the messages
of both sides.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, identifier
from railgauge.tools.common.lines import quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.one_output import Conclusion, by_hand, judge, plain_lines

TOOL = "qperf"

#: The tests of 0.4.11, without those that only show a configuration.
_TESTS = re.compile(
    r"(?:rds|sctp|sdp|tcp|udp|rc|uc|ud|xrc|ver|rc_rdma_(?:read|write)|uc_rdma_write|"
    r"rc_compare_swap|rc_fetch_add|ver_rc_compare_swap|ver_rc_fetch_add|rc_rdma_write_poll|"
    r"uc_rdma_write_poll)_(?:bi_bw|bw|lat|mr)"
)


# ---- options -------------------------------------------------------------------------------


def tests(value: str) -> tuple[str, ...]:
    """`tcp_bw,tcp_lat`; ValueError for what is no test of a bandwidth, latency or rate."""
    names = tuple(value.split(","))
    for name in names:
        if not _TESTS.fullmatch(identifier(name)):
            raise ValueError(f"{name!r} is no test such as tcp_bw or rc_rdma_write_bw")
    return names


@dataclasses.dataclass(frozen=True)
class Options:
    """The tests that were asked for, in their order."""

    tests: tuple[str, ...]


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Test:
    """One test: its values in their base units (bytes/s, messages/s, us, bytes), by name."""

    name: str
    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Output:
    """The tests of one run."""

    tests: tuple[Test, ...]


# ---- parse ---------------------------------------------------------------------------------

_FAILURE = re.compile(
    r"^failed (?:to|receive|connect)|^error\b|server failed|connection refused|timed out|"
    r"^unable to|^cannot|^no such test|not (?:implemented|supported)|^usage:|"
    r"^(?:server|client):? .*(?:failed|error)",
    re.IGNORECASE,
)
_NAME = re.compile(rf"({_TESTS.pattern}):")
_VALUE = re.compile(
    r"(?P<name>[a-z_]+) += +(?P<number>[0-9][0-9,]*(?:\.[0-9]+)?)"
    r"(?: (?P<unit>[A-Za-z%/]+(?: cpus)?))?(?: \((?P<exact>[0-9,]+)\))?"
)
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS: Mapping[str, Mapping[str, float]] = {
    "rate": {
        **{"bytes/sec": 1.0, "bits/sec": 0.125},
        **{f"{k}B/sec": factor for k, factor in _PREFIXES.items() if k},
        **{f"{k}b/sec": factor / 8 for k, factor in _PREFIXES.items() if k},
    },
    "messages": {f"{k}/sec": factor for k, factor in _PREFIXES.items()},
    "time": {"ns": 1e-3, "us": 1.0, "ms": 1e3, "sec": 1e6},
    "size": {"bytes": 1.0, **{f"{k}B": factor for k, factor in _PREFIXES.items() if k}},
}
_KINDS = {
    **{"bw": "rate", "send_bw": "rate", "recv_bw": "rate", "msg_rate": "messages"},
    **{"latency": "time", "time": "time", "msg_size": "size"},
}
#: What each kind of test measures.
_RESULT = {"bw": ("bw", "recv_bw"), "lat": ("latency",), "mr": ("msg_rate",)}


def parse(text: str) -> Output:
    """The tests of one run. ParseError where there is none, one has no result, or a value of it is
    not known.
    """
    found: list[Test] = []
    values: dict[str, float] | None = None
    for number, line in plain_lines(text, _FAILURE):
        if name := _NAME.fullmatch(line):
            _check(number, found)
            values = {}
            found.append(Test(name[1], values))
        elif values is not None and (value := _VALUE.fullmatch(line)):
            if (kind := _KINDS.get(value["name"])) is not None:
                if value["name"] in values:
                    raise ParseError(number, f"a second {value['name']}", "one of each a test")
                values[value["name"]] = _base(number, value, _UNITS[kind])
        elif values is not None and re.match(r"(?:bw|send_bw|recv_bw|latency|msg_rate)\b", line):
            raise ParseError(number, quote(line), "a value with its unit")
    if not found:
        raise ParseError(0, "no test", "a test such as 'tcp_bw:' with its values below")
    _check(0, found)
    return Output(tuple(found))


def _check(number: int, tests: Sequence[Test]) -> None:
    """Whether the last test has what it measures."""
    if tests:
        last = tests[-1]
        names = _RESULT[last.name.rpartition("_")[2]]
        if not any(last.values.get(name) for name in names):
            raise ParseError(number, f"no {names[0]} of {last.name}", "it, and above 0")


def _base(number: int, value: re.Match[str], units: Mapping[str, float]) -> float:
    if value["exact"]:
        return float(value["exact"].replace(",", ""))
    unit = value["unit"] or ""
    if unit not in units:
        raise ParseError(number, quote(value[0]), f"a unit of {', '.join(units)}")
    return float(value["number"].replace(",", "")) * units[unit]


# ---- read ----------------------------------------------------------------------------------


def read(text: str, *, calls: Sequence[Call] = (), options: Options | None = None) -> Reading:
    """Judge what one client printed. Proved with exit code 0 and the tests that were asked for."""
    return judge(text, parse, _conclude, calls, options)


def _conclude(output: Output, options: Options | None) -> Conclusion:
    names = tuple(test.name for test in output.tests)
    complaints: list[str] = []
    if options is not None and names != options.tests:
        asked = ", ".join(options.tests)
        complaints.append(f"the tests are {', '.join(names)}, expected {asked}")
    measurements = tuple(m for test in output.tests for m in _measurements(test))
    notes = tuple(
        f"{test.name}: {test.values['send_bw'] - test.values['recv_bw']:.0f} of "
        f"{test.values['send_bw']:.0f} bytes/s sent did not arrive"
        for test in output.tests
        if test.values.get("send_bw", 0) > test.values.get("recv_bw", 0) * 1.01 > 0
    )
    reason = f"{', '.join(names)}: every test has its result"
    return Conclusion(reason, measurements, {"tests": list(names)}, tuple(complaints), notes)


def _measurements(test: Test) -> list[Measurement]:
    values = test.values
    protocol = test.name.partition("_")[0]
    operation, _, kind = test.name.rpartition("_")
    metrics: dict[str, float] = {}
    if kind == "bw":
        metrics["bandwidth"] = values.get("recv_bw", values.get("bw", 0.0)) * 8e-9
    elif kind == "lat":
        metrics["latency_avg"] = values["latency"]
    if kind != "lat" and values.get("msg_rate"):
        metrics["message_rate"] = values["msg_rate"] * 1e-6
    if operation.endswith("_bi"):
        operation = f"{operation.removesuffix('_bi')}_bidirectional"
    size = int(values["msg_size"]) if values.get("msg_size") else None
    transport = protocol if protocol in ("tcp", "udp", "sctp", "rds", "sdp") else "rdma"
    return [
        Measurement(metric, value, TOOL, operation, transport, size)
        for metric, value in metrics.items()
    ]


# ---- by hand -------------------------------------------------------------------------------


def _joins(section: str, line: str) -> bool:
    """One run prints several tests, one below the other, as several runs do."""
    return True


BY_HAND = ByHand(
    ("what the client printed",),
    "No line of it says that the run finished, so its completeness is `unknown`. It is `proved` by "
    "the exit code and the tests that were expected.",
    {"tests": tests},
    Options,
    by_hand(TOOL, read),
    example=("tests=tcp_bw,tcp_lat",),
    marks=Marks(
        tuple(Mark(f"_{kind}:", rf"{_NAME.pattern}\s*(?:$|\n)") for kind in _RESULT),
        joins=_joins,
    ),
)
