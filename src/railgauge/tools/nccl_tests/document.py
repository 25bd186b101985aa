"""The JSON that nccl-tests writes (-J). What it holds of the environment is not read."""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import Any

import pydantic

from railgauge.tools.common.documents import Count, Number, Part, document, validated
from railgauge.tools.nccl_tests.result import Column, Device, Intervals, Result, Row
from railgauge.tools.nccl_tests.text import nccl_version_of, operation_of


class _Device(Part):
    rank: Count
    hostname: str
    device: Count
    device_hex: str
    device_info: Any = ""
    pid: Count | None = None
    group: Count = 0


class _Config(Part):
    nthreads: Count
    ngpus: Count
    minimum_bytes: Count
    maximum_bytes: Count
    step_factor: Count | None = None
    step_bytes: Count | None = None
    warmup_iters: Count
    iterations: Count
    aggregated_iterations: Count
    validation: Count
    graph: Any = 0
    blocking_collectives: Any = 0
    #: of its devices the tool writes the first of each process
    devices: list[_Device]


class _Side(Part):
    time: Number | None = None
    cpu_time: Number | None = None
    alg_bw: Number
    bus_bw: Number
    nwrong: Number | None = None

    @pydantic.model_validator(mode="after")
    def _timed(self) -> _Side:
        if self.time is None and self.cpu_time is None:
            raise ValueError("a time")
        return self


class _Iterations(Part):
    min_us: Number
    max_us: Number
    p99_us: Number
    cv_pct: Number


class _Row(Part):
    size: Count
    count: Count
    type: str
    redop: str
    root: int = pydantic.Field(ge=-1, lt=10**9, strict=False)
    out_of_place: _Side
    in_place: _Side | None = None
    out_of_place_per_iter: _Iterations | None = None
    in_place_per_iter: _Iterations | None = None


class _Bounds(Part):
    count: Count
    okay: Any = None


class _Average(Part):
    # "bandwidith" up to 2.17.8, as the name of the whole
    bandwidth: Number = pydantic.Field(
        validation_alias=pydantic.AliasChoices("bandwidth", "bandwidith")
    )
    okay: Any = None


class _Document(Part):
    args: list[Any] = pydantic.Field(min_length=1)
    config: _Config
    results: list[_Row]
    out_of_bounds: _Bounds
    average_bus_bandwidth: _Average = pydantic.Field(
        validation_alias=pydantic.AliasChoices("average_bus_bandwidth", "average_bus_bandwidith")
    )
    nccl_version: Any = None
    errors: list[str] = []
    end_time: Any = None
    simulated: Any = False


def parse_json(text: str) -> Result:
    """The result of a -J file; ParseError where it is broken off, or has no results.

    The error shows nothing of the contents but the names of fields.
    """
    run = validated(_Document, document(text, private=True), private=True)
    config, average = run.config, run.average_bus_bandwidth
    program = PurePosixPath(str(run.args[0])).name
    version = run.nccl_version
    return Result(
        operation=operation_of(program),
        program=program,
        nccl_version=nccl_version_of(version) if isinstance(version, int) and version > 0 else "",
        devices=tuple(
            Device(
                d.rank,
                d.hostname,
                d.device,
                d.device_hex,
                str(d.device_info).strip(),
                d.pid,
                d.group,
            )
            for d in config.devices
        ),
        threads=config.nthreads,
        gpus_per_thread=config.ngpus,
        min_bytes=config.minimum_bytes,
        max_bytes=config.maximum_bytes,
        step_factor=config.step_factor,
        step_bytes=config.step_bytes,
        warmup=config.warmup_iters,
        iterations=config.iterations,
        aggregated=config.aggregated_iterations,
        validation=config.validation,
        conditions=tuple(
            f"{name}: {value}"
            for name, value in (
                ("graph", config.graph),
                ("blocking_collectives", config.blocking_collectives),
            )
            if str(value).lower() not in ("0", "false")
        ),
        cpu_time=any(row.out_of_place.cpu_time is not None for row in run.results[:1]),
        rows=tuple(_row(place, row) for place, row in enumerate(run.results, 1)),
        out_of_bounds=run.out_of_bounds.count,
        out_of_bounds_ok=run.out_of_bounds.okay in ("true", True),
        average_busbw_gbytes_s=average.bandwidth,
        average_ok=average.okay in ("true", "unchecked", True),
        errors=tuple(error.strip()[:160] for error in run.errors if error.strip()),
        concluded="end_time" in run.model_fields_set,
        simulated=run.simulated not in (False, "false", None),
    )


def _row(place: int, row: _Row) -> Row:
    return Row(
        size_bytes=row.size,
        count=row.count,
        datatype=row.type,
        redop=row.redop.strip(),
        root=row.root,
        out_of_place=_column(row.out_of_place, row.out_of_place_per_iter),
        in_place=_column(row.in_place, row.in_place_per_iter) if row.in_place else None,
        line=place,
    )


def _column(side: _Side, timed: _Iterations | None) -> Column:
    time = side.time if side.cpu_time is None else side.cpu_time
    return Column(
        time_us=time or 0.0,
        algbw_gbytes_s=side.alg_bw,
        busbw_gbytes_s=side.bus_bw,
        wrong=None if side.nwrong is None else math.ceil(side.nwrong),
        intervals=Intervals(*timed.model_dump().values()) if timed else None,
    )
