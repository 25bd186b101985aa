"""Campaigns on an InfiniBand subnet with the forwarding tables of opensm (tests/data/infiniband):
what the sweep of a rail measures where some links are slow, as cases of a verdict.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import random
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from railgauge import paths
from railgauge.campaign.folder import (
    PLAN,
    RESULT_FILE,
    STATIC_ROUTES,
    Campaign,
    Requested,
    Scope,
    Session,
)
from railgauge.common.atomic import write_json
from railgauge.fabric import folder
from railgauge.fabric.static_routes import StaticRoutes, Uplinks
from railgauge.fabric.subnet import Device
from railgauge.locating import End, Result, Routes
from railgauge.model import record
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.model.references import Provenance, Reference
from railgauge.systems.schema import Schedule
from railgauge.verdict.campaign.cases import Case
from tests import swept
from tests.unit import records

DATA = paths.HOME / "tests" / "data" / "infiniband"
#: 64 hosts with one HCA each, and 32 hosts with two HCAs on leaves of their own
HOSTS64, RAILS = DATA / "hosts64", DATA / "rails"
#: the same, with a subnet for each rail
TWO_SUBNETS = DATA / "two-subnets"

PARTITION, CHECK, RATE = "ib", "RdmaBandwidth", 97.0

#: An uplink with the way that data goes slowly over it: `leaf1:spine2 up`.
Slow = str


class Cluster:
    """The hosts of a subnet, and what its tables say. `slow` are links, with the share of the rate
    that they leave; `bad` are nodes, likewise.
    """

    def __init__(self, reading: Path) -> None:
        self.reading = reading
        self.routes = StaticRoutes(folder.from_folder(reading))
        devices = folder.from_folder(reading).subnet.hcas()
        self.hcas: dict[tuple[str, str], Device] = {
            (device.host, device.name.split()[1]): device for device in devices
        }
        self.hosts = sorted({device.host for device in devices}, key=lambda name: int(name[1:]))

    def leaf(self, host: str, rail: str) -> str:
        return self.routes.leaf(self.hcas[host, rail].guid)

    def uplinks(self, sender: str, receiver: str, rail: str) -> Uplinks | None:
        return self.routes.uplinks(self.hcas[sender, rail].guid, self.hcas[receiver, rail].guid)

    def links(self, sender: str, receiver: str, rail: str) -> tuple[Slow, ...]:
        """The links that data crosses, each with its way."""
        way = self.uplinks(sender, receiver, rail)
        if way is None:
            return ()
        up = f"{self.leaf(sender, rail)}:{way.up} up"
        return up, f"{self.leaf(receiver, rail)}:{way.down} down"

    def routes_of(self, rail: str) -> Routes:
        """As the conductor has them."""
        node_of = {self.hcas[host, rail].guid: host for host in self.hosts}
        spines: dict[tuple[str, ...], str] = {}
        arriving: dict[tuple[str, ...], str] = {}
        for leaf, up, down, guids in self.routes.rows(self.hosts):
            for node in (node_of[guid] for guid in guids if guid in node_of):
                spines[leaf, node], arriving[leaf, node] = up, down
        return Routes(spines, arriving)

    def sweep(
        self,
        slow: dict[str, float],
        seed: int,
        rail: str = "mlx5_0",
        schedule: Schedule = "cover",
        most: int | None = None,
        with_routes: bool = True,
    ) -> list[Result]:
        """What a sweep measures over one rail: its listed rounds, and those that it adds. `slow`
        has links, and nodes, and the share of the rate that each leaves.
        """
        noise = random.Random(seed)

        def measure(pairs: list[tuple[End, End]], number: int) -> list[Result]:
            results = []
            for sender, receiver in pairs:
                crossed = self.links(sender.node, receiver.node, rail)
                left = min([slow.get(n, 1.0) for n in (*crossed, sender.node, receiver.node)])
                value = RATE * noise.gauss(1, 0.01) * left
                results.append(Result(sender, receiver, value, number))
            return results

        leaf_of = {End(host): self.leaf(host, rail) for host in self.hosts}
        routes = self.routes_of(rail) if with_routes else None
        return swept.sweep(measure, leaf_of, schedule, most, routes)[0].results

    def cases(self, results: Sequence[Result], stage: Path, rail: str = "mlx5_0") -> list[Case]:
        """The places of a sweep, as records have them, and that of the check that read the subnet,
        with its folder below `stage`.
        """
        reader = self.hosts[0]
        first = Case("InfinibandFabric", "", PARTITION, (reader,), 0, "pass", "", (), (), stage)
        return [first, *(self._case(result, rail) for result in results)]

    def _case(self, result: Result, rail: str) -> Case:
        server, client = result.receiver.node, result.sender.node
        number = rail.removeprefix("mlx5_")
        rails = f"{number}-{number}"
        assert result.value is not None
        m = Measurement(
            *("bandwidth", result.value, "perftest", "write", "rdma", 65536),
            nodes=(server, client),
            rails=rails,
        )
        row = Row(m, REFERENCE, None)
        facts = {node: facts_of(self.hcas[node, rail]) for node in (server, client)}
        return Case(
            *(CHECK, f"{CHECK} {server}:{client}", PARTITION, (server, client), 0),
            *("pass" if row.within else "fail", "", (row,), (), None),
            kind=rails,
            place=f"{server}:{client}:{rails}",
            recorded=True,
            facts=facts,
            round=result.round,
            peer_spread=swept.SPREAD,
        )


REFERENCE = Reference(
    value=RATE,
    lower=-0.1,
    unit="Gb/s",
    kind="baseline",
    provenance=Provenance(source="a test", date=datetime.date(2026, 11, 28)),
)


def facts_of(hca: Device) -> dict[str, object]:
    """What a node says of its HCA (node/system/rdma_devices.py)."""
    guid = f"{hca.guid:016x}"
    return {
        "device": hca.name.split()[1],
        "port": 1,
        "link_layer": "InfiniBand",
        "node_guid": ":".join(guid[n : n + 4] for n in range(0, 16, 4)),
        "lid": f"{hca.lid:#x}",
    }


def campaign(tmp_path: Path, routed: Collection[str] = (PARTITION,)) -> Campaign:
    """A campaign's folder, in which data of these partitions takes the routes of the tables."""
    (tmp_path / STATIC_ROUTES).write_text(json.dumps(list(routed)))
    requested = Requested([], {}, {})
    return Campaign(tmp_path, "ib", "acceptance", Scope({}, {}), requested, state="finished")


def keep_reading(reading: Path, stage: Path) -> Path:
    """The stage folder of the check that read the subnet, with its outputs."""
    shutil.copytree(reading, stage / "subnet")
    return stage


def with_facts(case: Case, node: str, **facts: object) -> Case:
    """A case of which a node says something else of its HCA."""
    return dataclasses.replace(case, facts={**case.facts, node: {**case.facts[node], **facts}})


def recorded(folder: Path, reading: Path, of: Cluster, results: Sequence[Result]) -> Campaign:
    """A campaign's folder as an acceptance leaves it: the reading of the subnet, and the sweep of
    the first rail.
    """
    cases = of.cases(results, folder)[1:]
    places = [f"{case.place}@{number}" for number, case in enumerate(cases)]
    stages = {check: folder / "stage" / f"{check}_1" for check in ("InfinibandFabric", CHECK)}
    keep_reading(reading, stages["InfinibandFabric"])
    stages[CHECK].mkdir()
    done = []
    for place, case in zip(places, cases, strict=True):
        document = records.record(case.rows, (), [records.call("perftest")], dict(case.facts))
        more = {"place": place, "nodes": case.nodes, "round": case.round}
        done.append({**document["results"][0], **more})
    whole = records.record(check=CHECK, partition=PARTITION, peer_spread=swept.SPREAD)
    records.write(stages[CHECK] / RESULT_FILE, {**whole, "results": done})
    read = records.record(check="InfinibandFabric", partition=PARTITION)
    records.write(stages["InfinibandFabric"] / RESULT_FILE, read)
    listed = {
        CHECK: [
            record.Place(place, case.nodes, case.kind)
            for place, case in zip(places, cases, strict=True)
        ],
        "InfinibandFabric": [record.Place("", (of.hosts[0],))],
    }
    plan = [
        records.planned(check, check, f"{check}_1", [], places=tuple(at), partition=PARTITION)
        for check, at in listed.items()
    ]
    write_json(folder / PLAN, plan)
    ended = [
        {
            "unique_name": f"{check}_1",
            "partition": PARTITION,
            "result": "fail" if check == CHECK and any(c.failed for c in cases) else "pass",
            "stagedir": str(stage),
            "fail_reason": None,
        }
        for check, stage in stages.items()
    ]
    records.leave_report(folder, plan, [ended], system="ib")
    made = campaign(folder)
    made.scope = Scope({PARTITION: of.hosts}, {PARTITION: [CHECK]})
    made.session = Session(0, "")
    made.save()
    return made
