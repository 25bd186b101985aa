"""perftest that compares all bytes that arrive with those that were sent, over one rail.

Comparing costs bandwidth and memory, so it is a run of its own, and a condition of its own.
"""

from __future__ import annotations

import dataclasses

from railgauge.checks.framework.cases import RailCase
from railgauge.checks.framework.observation import Facts
from railgauge.checks.jobs.client_server import PairRun, RunPart
from railgauge.checks.rdma.rail import ask, perftest_run, tuning_of
from railgauge.model.failure import Failure
from railgauge.node.orders.places import ClientServerOrder
from railgauge.systems import Partition
from railgauge.tools import Reading, perftest

SIZE_BYTES = 65536
_STATE = "validated"


@dataclasses.dataclass(frozen=True)
class DataValidation(RunPart):
    """Both ends compare the data: the tool of each must have the option."""

    place: RailCase

    def order(self, order: ClientServerOrder) -> ClientServerOrder:
        return dataclasses.replace(order, option=perftest.DATA_VALIDATION)

    def reading(self, reading: Reading, facts: Facts) -> Reading:
        if not reading.corrupt:
            return reading
        place = self.place
        reason = (
            f"data changed between {place.client} rail {place.client_rail} and {place.server} "
            f"rail {place.server_rail}: {reading.reason}"
        )
        return dataclasses.replace(reading, reason=reason)

    def missing(self, facts: Facts) -> Failure | None:
        lacking = {
            node: of_node["no_option"]
            for node, of_node in sorted(facts.items())
            if "no_option" in of_node
        }
        if not lacking:
            return None
        message = "; ".join(f"{node} has no {option}" for node, option in lacking.items())
        step = (
            "install perftest 26.04 or later there, or remove extras.rdma.perftest.data_validation"
        )
        return Failure("tool-missing", message, tuple(lacking), step)


def validated_run(place: RailCase, partition: Partition) -> PairRun:
    """ib_write_bw both ways at once, so that each end compares what it receives."""
    options = ask(
        *(partition, "write", "bw"),
        size_bytes=SIZE_BYTES,
        iterations=tuning_of(partition).bandwidth_iterations,
        bidirectional=True,
        data_validation=True,
    )
    required = [f"bandwidth_{_STATE}_{SIZE_BYTES}B"]
    parts = (DataValidation(place),)
    return perftest_run(place, partition, options, required, state=_STATE, parts=parts)
