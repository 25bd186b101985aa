"""TCP streams between two nodes, by iperf2."""

from __future__ import annotations

from typing import Any

from railgauge.checks.framework.cases import PairCase
from railgauge.checks.framework.observation import Facts
from railgauge.checks.framework.place_run import LimitOf
from railgauge.checks.jobs.client_server import PairRun, PairTool
from railgauge.model import limits
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.systems import Partition
from railgauge.tools import iperf2


def stream_run(
    place: PairCase,
    partition: Partition,
    options: iperf2.Options,
    *,
    run_limit_s: int,
    around_s: float = 1,
    **fields: Any,
) -> PairRun:
    """iperf2 between the nodes of a place; `around_s` is what it takes beside its duration."""
    return PairRun(
        place=place,
        partition=partition,
        tool=PairTool(module=iperf2, options=options, **iperf2.commands(options)),
        expected_run_s=options.duration_s + around_s,
        run_limit_s=run_limit_s,
        **{"states": iperf2.requested(options), "limit_of": path_limit(partition), **fields},
    )


def path_limit(partition: Partition) -> LimitOf:
    """The limit of TCP over the partition's link."""
    return link_limit(partition.extras.link_gbits, partition.extras.mtu_bytes)


def link_limit(link_gbits: float | None, mtu_bytes: int | None) -> LimitOf:
    """The limit of TCP's rates over a link; None where either is not known."""

    def limit(measurement: Measurement, facts: Facts) -> Limit | None:
        if measurement.unit == "Gb/s" and link_gbits and mtu_bytes:
            return limits.tcp(link_gbits, mtu_bytes)
        return None

    return limit
