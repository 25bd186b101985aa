"""The environment variables with which a command tells its ReFrame session what to measure."""

from __future__ import annotations

#: The nodes, as a host list: `railgauge accept --nodes`.
NODES = "RAILGAUGE_NODES"
#: A regular expression for the places: `railgauge accept --places`.
PLACES = "RAILGAUGE_PLACES"
#: What is not in every acceptance too, the whole series of long ways: `railgauge accept --series`.
SERIES = "RAILGAUGE_SERIES"
#: Only nodes that are idle now: `railgauge accept --idle`.
IDLE = "RAILGAUGE_IDLE"
#: The schedule, instead of the partitions' own: `railgauge accept --schedule`.
SCHEDULE = "RAILGAUGE_SCHEDULE"
#: The seed of the schedule `random`, instead of theirs: `railgauge accept --seed`.
SEED = "RAILGAUGE_SEED"
#: How many rounds a sweep may add, instead of theirs: `railgauge accept --locate-rounds`.
LOCATE_ROUNDS = "RAILGAUGE_LOCATE_ROUNDS"
#: The leaves' load balancing while it runs: `railgauge accept --fabric-mode`.
FABRIC_MODE = "RAILGAUGE_FABRIC_MODE"
#: The campaign that this one is compared with at its end, an id or a path: `accept --compare`.
COMPARE = "RAILGAUGE_COMPARE"

#: Only a list of the cases is written: no plan of all places, no session.
PLAN_ONLY = "RAILGAUGE_PLAN_ONLY"

#: What of the environment says what is measured; a resumed session gets the same.
MEASURED_BY = (
    *("RFM_SYSTEM", NODES, PLACES, SERIES, IDLE, SCHEDULE, SEED, LOCATE_ROUNDS, COMPARE),
    *(FABRIC_MODE, "RAILGAUGE_REFERENCES", "RAILGAUGE_SITE"),
)
