"""The orders for rounds that the conductor of a sweep adds, of pairs that tell who is at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from railgauge import paths
from railgauge.campaign.folder import BEFORE
from railgauge.checks.framework import subnet_reading, topology
from railgauge.model import record
from railgauge.model.measurement import STANDS_OUT
from railgauge.node.orchestration.sweep_file import Retests
from railgauge.systems import Partition


def orders(
    rounds: int, case: str, partition: Partition, nodes: Sequence[str], folder: Path
) -> Retests:
    """The orders for at most so many added rounds of a case; `folder` is that of its job."""
    extras, leaves = partition.extras, topology.leaves_of(partition)
    before = _rates_before(case, partition.name)
    routes = None
    if extras.infiniband.static_routes:
        routes = subnet_reading.static_routes(folder)
    hosts = {node.partition(".")[0] for node in nodes} | {*nodes}
    return Retests(
        rounds=rounds,
        slower=round(STANDS_OUT * extras.peer_spread, 3),
        leaves={node: leaves.of_node[node] for node in nodes} if leaves else {},
        hcas=[(guid, *of) for guid, of in routes.hcas(hosts).items()] if routes else (),
        routes=routes.rows(hosts) if routes else (),
        spines=[
            row
            for row in topology.routes_of(partition).rows
            if row.destination.partition(":")[0] in hosts
            and (not row.source or row.source.partition(":")[0] in hosts)
        ],
        before=before,
        change=extras.least_change if before else 0.0,
    )


def _rates_before(case: str, partition: str) -> Mapping[str, float]:
    """The rate of each place in the campaign that this one is compared with."""
    campaign = paths.campaign_folder()
    try:
        rates = record.read_rates(campaign / BEFORE) if campaign else None
    except record.BrokenRecordError:
        # Then nothing is measured again for what it was before; the comparison reads its own.
        rates = None
    return (rates or {}).get(case, {}).get(partition, {})
