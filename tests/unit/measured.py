"""Campaigns on disk of one check, with numbers that a test chooses."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railgauge.campaign import variables
from railgauge.campaign.folder import RESULT_FILE, Campaign, Gate, Requested, Scope, Session
from railgauge.common.atomic import write_json
from railgauge.model import record
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Load, Measurement
from railgauge.model.record import Row
from tests.unit import records

CHECK = "RdmaBandwidth"
LIMIT = Limit(392.0, "Gb/s", "a 400G link")

#: Eight rails of a pair each, as the names of places.
PLACES = tuple(f"n{2 * n + 1}:n{2 * n + 2}:0-0" for n in range(8))


def name(number: int) -> str:
    """A campaign's id: the larger number is the later one."""
    began = datetime.datetime(2026, 11, 1) + datetime.timedelta(hours=number)
    return f"{began:%Y%m%dT%H%M%SZ}-lab-{number:06x}"


def bandwidth(place: str, value: float, **changes: Any) -> Measurement:
    nodes = tuple(place.split(":")[:2])
    condition = {"size_bytes": 65536, "streams": 4, "rails": place.rpartition(":")[2]}
    return Measurement(
        "bandwidth", value, "perftest", "write", "roce", nodes=nodes, **{**condition, **changes}
    )


def leave(
    root: Path,
    number: int,
    values: Mapping[str, float],
    *,
    gate: Gate = "baseline",
    simulated: bool = False,
    version: str = "6.24",
    fingerprints: Mapping[str, str] | None = None,
    failures: Mapping[str, Failure] | None = None,
    verdict: str = "inconclusive",
    retried: str = "",
    limit: Limit = LIMIT,
    system: str = "lab",
    also: Mapping[str, Measurement] | None = None,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    compare: str | None = None,
    again: Mapping[str, tuple[str, float]] | None = None,
    load: Load | None = None,
    server_version: str = "",
    warmup: int | None = None,
) -> Campaign:
    """A campaign below `root`/campaigns with a place's value each; `retried` is a place that failed
    in a first run. `also` has one more measurement of a place, `facts` are those of each.
    `compare` is the campaign that it is compared with; `server_version` is that of the other end,
    if there is one; `again` has pairs that were measured once more: name -> the planned place that
    they repeat, and the value.
    """
    folder = root / "campaigns" / name(number)
    folder.mkdir(parents=True)
    places = tuple(record.Place(place, tuple(place.split(":")[:2])) for place in values)
    unique = f"{CHECK}_1"
    runs = []
    for run in range(2 if retried else 1):
        stage = folder / "stage" / f"{CHECK}_{run}"
        stage.mkdir(parents=True)
        results = []
        for place, value in values.items():
            failure = (failures or {}).get(place)
            if place == retried and run == 0:
                failure = Failure("tool-failed", "perftest ended with exit code 1")
            condition = {"simulated": simulated, "load": load, "warmup": warmup}
            rows = [Row(bandwidth(place, value, **condition), None, limit)]
            rows += [Row(also[place], None, None)] if also else []
            calls = [
                records.call("perftest", version=f"Version: {one}")
                for one in filter(None, (server_version, version))
            ]
            failed = [failure] if failure else []
            document = records.record(rows, failed, calls, dict(facts or {}))
            results.append({**document["results"][0], "place": place})
        for place, (planned, value) in (again or {}).items():
            rows = [Row(bandwidth(place.partition("@")[0], value), None, limit)]
            one = records.record(rows)["results"][0]
            nodes = place.split(":")[:2]
            results.append({**one, "place": place, "repeats": planned, "nodes": nodes})
        whole = records.record(check=CHECK, run=run, gate=gate)
        records.write(stage / RESULT_FILE, {**whole, "results": results})
        runs.append(
            [
                {
                    "unique_name": unique,
                    "partition": "ns",
                    "result": "fail" if run == 0 and (failures or retried) else "pass",
                    "stagedir": str(stage),
                    "fail_reason": None,
                }
            ]
        )
    planned = records.planned(CHECK, f"{CHECK} %sweep=ns", unique, [], places=places)
    write_json(folder / "plan.json", [planned])
    records.leave_report(folder, [planned], runs, system=system)
    nodes = sorted({node for place in values for node in place.split(":")[:2]})
    campaign = Campaign(
        folder,
        system,
        gate,
        Scope({"ns": nodes}, {}),
        Requested([], {variables.COMPARE: compare}, {}),
        state="finished",
        started="2026-11-01T00:00:00+00:00",
        finished="2026-11-01T00:10:00+00:00",
        session=Session(0, ""),
        simulated="healthy" if simulated else None,
        fingerprints=dict.fromkeys(nodes, "0123456789ab") | dict(fingerprints or {}),
    )
    campaign.save()
    (folder / "verdict.json").write_text(json.dumps({"verdict": verdict}))
    return campaign
