"""The JSON that nccl-tests writes (-J), without the environment that it holds."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from railgauge.node.ranks import without_environment
from railgauge.tools import ParseError
from railgauge.tools.nccl_tests.layout import HUGE
from railgauge.tools.nccl_tests.result import Column, Device, Intervals, Result, Row
from railgauge.tools.nccl_tests.text import nccl_version_of, operation_of

#: All that is kept of a document. `env` is not among it: it holds whatever the user exported.
_KEPT = (
    *("version", "start_time", "args", "nccl_version", "config", "results", "out_of_bounds"),
    *("bitwise_mismatches", "average_bus_bandwidth", "errors", "end_time", "simulated"),
)
#: Numbers are written with %lf.
JSON_HALF = 5e-7


def _document(text: str) -> dict[str, Any]:
    """The document without the environment; ParseError tells nothing of its contents."""
    document: Any = None
    # The decoder's exception holds the whole text, so ours must not be raised while it is handled.
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
    if not isinstance(document, dict):
        raise ParseError(0, "no whole JSON document", "the file that nccl-tests -J writes")
    return {name: without_environment(document[name]) for name in _KEPT if name in document}


def _no_constant(name: str) -> float:
    raise ValueError("no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def scrubbed_json(text: str) -> str:
    """The JSON document to be kept: without the environment, and what else is not known.

    ParseError where it is not whole: its remains may hold the environment.
    """
    return json.dumps(_document(text), indent=1)


def parse_json(text: str) -> Result:
    """The result of a -J file; ParseError where it is broken off, or has no results.

    Of its devices the tool writes the first of each process.
    """
    document = _document(text)
    config = _get(document, "config", dict, "JSON")
    results = _get(document, "results", list, "JSON")
    words = _get(document, "args", list, "JSON")
    if not words or not isinstance(words[0], str):
        raise ParseError(0, "JSON without the program's name", "args")
    program = PurePosixPath(words[0]).name
    bounds = _get(document, "out_of_bounds", dict, "JSON")
    average = _get(document, "average_bus_bandwidth", dict, "JSON")
    bandwidth = _json_number(average, "bandwidth", "average_bus_bandwidth")
    conditions = [
        f"{name}: {config[name]}"
        for name in ("graph", "blocking_collectives")
        if str(config.get(name, 0)).lower() not in ("0", "false")
    ]
    errors = document.get("errors", [])
    if not isinstance(errors, list) or not all(isinstance(error, str) for error in errors):
        raise ParseError(
            0, "JSON: errors that are no list of messages", "a list, empty if all good"
        )
    code = document.get("nccl_version")
    return Result(
        operation=operation_of(program),
        program=program,
        nccl_version=nccl_version_of(code) if isinstance(code, int) and code > 0 else "",
        devices=tuple(_json_device(entry) for entry in _get(config, "devices", list, "config")),
        threads=_json_count(config, "nthreads"),
        gpus_per_thread=_json_count(config, "ngpus"),
        min_bytes=_json_count(config, "minimum_bytes"),
        max_bytes=_json_count(config, "maximum_bytes"),
        step_factor=_json_count(config, "step_factor") if "step_factor" in config else None,
        step_bytes=_json_count(config, "step_bytes") if "step_bytes" in config else None,
        warmup=_json_count(config, "warmup_iters"),
        iterations=_json_count(config, "iterations"),
        aggregated=_json_count(config, "aggregated_iterations"),
        validation=_json_count(config, "validation"),
        conditions=tuple(conditions),
        cpu_time=any("cpu_time" in str(row) for row in results[:1]),
        rows=tuple(_json_row(place, row) for place, row in enumerate(results, 1)),
        out_of_bounds=_json_count(bounds, "count"),
        out_of_bounds_ok=bounds.get("okay") in ("true", True),
        average_busbw_gbytes_s=bandwidth,
        average_ok=average.get("okay") in ("true", "unchecked", True),
        errors=tuple(error.strip()[:160] for error in errors if error.strip()),
        concluded="end_time" in document,
        simulated=document.get("simulated", False) not in (False, "false", None),
    )


def _get(mapping: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    found = mapping.get(name)
    if not isinstance(found, kind) or isinstance(found, bool):
        raise ParseError(0, f"{where} without {name}", "what nccl-tests -J writes of a whole run")
    return found


def _json_number(mapping: Mapping[str, Any], name: str, where: str) -> float:
    found = mapping.get(name)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < HUGE:
        raise ParseError(0, f"{where}: no number as {name}", "a number of 0 or more")
    return float(found)


def _json_count(mapping: Mapping[str, Any], name: str) -> int:
    found = _get(mapping, name, int, "JSON")
    if not 0 <= found < HUGE:
        raise ParseError(0, f"JSON: no count as {name}", "a number of 0 or more")
    return int(found)


def _json_device(entry: Any) -> Device:
    if not isinstance(entry, dict):
        raise ParseError(0, "JSON: a device that is none", "rank, hostname, device, device_hex")
    return Device(
        rank=_json_count(entry, "rank"),
        host=str(_get(entry, "hostname", str, "device")),
        device=_json_count(entry, "device"),
        bus_id=str(_get(entry, "device_hex", str, "device")),
        name=str(entry.get("device_info", "")).strip(),
        pid=_json_count(entry, "pid") if "pid" in entry else None,
        group=_json_count(entry, "group") if "group" in entry else 0,
    )


def _json_row(place: int, row: Any) -> Row:
    where = f"result {place}"
    if not isinstance(row, dict):
        raise ParseError(0, f"JSON: {where} is none", "size, count, out_of_place, in_place")
    root = str(row.get("root", "")).strip()
    if not re.fullmatch(r"-1|[0-9]{1,9}", root):
        raise ParseError(0, f"JSON: {where}: no root", "-1, or a rank")
    out = _json_column(row, "out_of_place", where)
    if out is None:
        raise ParseError(0, f"JSON: {where} without out_of_place", "both sides")
    return Row(
        size_bytes=_json_count(row, "size"),
        count=_json_count(row, "count"),
        datatype=str(_get(row, "type", str, where)),
        redop=str(_get(row, "redop", str, where)).strip(),
        root=int(root),
        out_of_place=out,
        in_place=_json_column(row, "in_place", where),
        line=place,
    )


def _json_column(row: Mapping[str, Any], name: str, where: str) -> Column | None:
    if row.get(name) is None:
        return None
    side = _get(row, name, dict, where)
    wrong = None if side.get("nwrong") is None else _json_number(side, "nwrong", where)
    timed = row.get(f"{name}_per_iter")
    return Column(
        time_us=_json_number(side, "cpu_time" if "cpu_time" in side else "time", where),
        algbw_gbytes_s=_json_number(side, "alg_bw", where),
        busbw_gbytes_s=_json_number(side, "bus_bw", where),
        wrong=None if wrong is None else math.ceil(wrong),
        intervals=Intervals(
            *(_json_number(timed, n, where) for n in ("min_us", "max_us", "p99_us", "cv_pct"))
        )
        if isinstance(timed, dict)
        else None,
    )
