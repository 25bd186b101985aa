"""The verdict of a large campaign: the records of a sweep of many nodes on eight rails each."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

from railgauge.campaign import variables
from railgauge.campaign.folder import RESULT_FILE, Campaign, Requested, Scope, Session
from railgauge.common.atomic import write_json
from railgauge.model import record
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.record import Job, Record, Result, Row
from railgauge.model.reported_traffic import Claim
from tests import pages
from tests.unit import records

RAILS = 8

_CHECK, _UNIQUE = "RdmaBandwidth", "RdmaBandwidth_1"
_LIMIT = Limit(392.15, "Gb/s", "RoCE v2 at 400 Gb/s, path MTU 4096")


def leave(root: Path, nodes: int, rails: int = RAILS, number: int = 1) -> Campaign:
    """The finished campaign of that number below `root`, every node with the next one on every
    rail: about 8 kB a place. One rail is slow.
    """
    folder = root / "campaigns" / f"20261101T01{number:04}Z-lab-{number:06}"
    stage = folder / "stage" / "RdmaBandwidth_0"
    stage.mkdir(parents=True)
    chance = random.Random(1)
    names = [f"n{number + 1}" for number in range(nodes)]
    ways = [(one, rail) for one in range(nodes) for rail in range(rails)]
    places = tuple(_place(names, one, rail) for one, rail in ways)
    whole = Record.model_validate(
        {
            **records.record(check=_CHECK),
            "job": Job(id="1", state="COMPLETED", exit_code=0, nodes=tuple(names)),
            "results": tuple(
                _result(place, one, rail, chance)
                for place, (one, rail) in zip(places, ways, strict=True)
            ),
        }
    )
    whole.write(stage / RESULT_FILE)
    planned = records.planned(_CHECK, f"{_CHECK} %sweep=ns", _UNIQUE, [], places=places)
    write_json(folder / "plan.json", [planned])
    ran = {"unique_name": _UNIQUE, "partition": "ns", "result": "pass", "fail_reason": None}
    records.leave_report(folder, [planned], [[{**ran, "stagedir": str(stage)}]])
    campaign = Campaign(
        folder,
        "lab",
        "acceptance",
        Scope({"ns": names}, {}),
        Requested([], {variables.COMPARE: None}, {}),
        state="finished",
        started="2026-11-01T00:00:00+00:00",
        finished="2026-11-01T00:10:00+00:00",
        session=Session(0, ""),
        fingerprints=dict.fromkeys(names, "0123456789ab"),
    )
    campaign.save()
    return campaign


def _place(names: list[str], one: int, rail: int) -> record.Place:
    ends = names[one], names[(one + 1) % len(names)]
    way = f"{rail}-{rail}"
    return record.Place(":".join((*ends, way)), ends, way)


def _result(place: record.Place, one: int, rail: int, chance: random.Random) -> Result:
    value = 190.0 if (one, rail) == (1, 1) else 385.0 * (1 + chance.gauss(0, 0.002))
    found = Measurement(
        *("bandwidth", value, "perftest", "write", "roce"),
        size_bytes=65536,
        streams=1,
        nodes=place.nodes,
        ranks=2,
        rails=place.kind,
        samples=5000,
        load="loaded",
    )
    rates = {"bandwidth_peak": value * 1.02, "message_rate": value / 524.288}
    more = [dataclasses.replace(found, metric=name, value=rate) for name, rate in rates.items()]
    return Result(
        place=place.name,
        nodes=place.nodes,
        calls=tuple(
            records.call(
                "perftest", role=role, rank=rank, host=node, version="Version: 6.24",
                seconds=2.0 + chance.random(), path="/usr/bin/ib_write_bw",
                package="dpkg perftest 25.01.0+0.80-1",
            )
            for rank, (role, node) in enumerate(zip(("server", "client"), place.nodes, strict=True))
        ),
        claims=tuple(
            Claim(f"perftest ({way})", node, way, (((f"rdma/mlx5_{rail}/1",),),), 10**9, 2.0, 1.1e9)
            for way, node in zip(("rx", "tx"), place.nodes, strict=True)
        ),
        facts={node: _facts(node, rail, chance) for node in place.nodes},
        rows=(
            Row(found, pages.reference(), _LIMIT),
            *(Row(each, None, None, gates=False) for each in more),
        ),
        notes=(),
        left_out=None,
        failures=(),
        round=one % 2,
    )  # fmt: skip


def _facts(node: str, rail: int, chance: random.Random) -> dict[str, Any]:
    """What a node says of itself next to a bandwidth of RDMA: most of it are counters."""
    moved = {
        f"net/eth{n}/{way}_{what}": chance.randrange(10**12)
        for n in range(RAILS)
        for way in ("rx", "tx")
        for what in ("bytes", "packets")
    }
    sent = {f"rdma/mlx5_{rail}/1/counters/port_{way}_data": 10**10 for way in ("rcv", "xmit")}
    rates = {f"net/eth{rail}": {"rx": chance.random() * 390, "tx": chance.random() * 390}}
    return {
        "boot_id": f"40853c6c-3d35-40d5-8773-{int(node[1:]):012d}",
        "clock": {"moved_s": 0.0, "watched_s": 2.4},
        "kernel": "6.12.0",
        "device": f"mlx5_{rail}",
        "mtu_bytes": 4200,
        "rail": rail,
        "port": 1,
        "state": "ACTIVE",
        "rate": "400 Gb/sec (4X NDR)",
        "netdev": f"eth{rail}",
        "unknown": {
            name: f"/sys/class/infiniband/mlx5_{rail}/{name}: No such file or directory"
            for name in ("fw_ver", "hca_type", "board_id", "numa_node", "pcie_link_width")
        },
        "sampled": [f"eth{rail}", f"mlx5_{rail}"],
        "carrier_changes_before": 2,
        "counters": {
            "seconds": 2.1,
            "counters": {**moved, **sent},
            "bytes": {f"eth{n}": {"rx": 10**9 + n, "tx": 10**9 - n} for n in range(RAILS)},
            "peak_gbits": rates,
            "steady_gbits": rates,
            "moving_s": rates,
            "notes": [],
        },
        "after": {"carrier_changes": 0, "state": "ACTIVE"},
    }
