"""Verdicts for the tests of the page: what is there, bad on purpose, large, or hostile."""

from __future__ import annotations

import dataclasses
import datetime
import math
import random
from pathlib import Path
from typing import Any

from railgauge import hostlist, paths
from railgauge.campaign.folder import LEAVES, Campaign, Requested, Scope
from railgauge.common.atomic import write_json
from railgauge.fabric import asking, expected, findings
from railgauge.fabric import folder as folders
from railgauge.fabric.check import check
from railgauge.locating import Suspect
from railgauge.locating.suspects import Measure, Witness
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.model.references import Provenance, Reference
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.finding import Decision, Finding
from railgauge.verdict.decision.rules import decide
from railgauge.verdict.decision.verdict import Verdict
from railgauge.verdict.location.direct_evidence import by_itself
from tests.unit import measured, records

SIZES = [2**power for power in range(1, 24, 2)]
LIMIT = Limit(392.15, "Gb/s", "RoCE v2 at 400 Gb/s, path MTU 4096")


def reference(source: str = "a test", note: str = "") -> Reference:
    return Reference(
        value=380.0,
        lower=-0.05,
        unit="Gb/s",
        kind="baseline",
        note=note,
        provenance=Provenance(source=source, date=datetime.date(2026, 11, 22)),
    )


def case(check: str, nodes: tuple[str, ...], rails: str, rows: list[Row], **changes: Any) -> Case:
    good = all(row.within is not False for row in rows)
    made = Case(
        check=check,
        name=check,
        partition="hdr",
        nodes=nodes,
        run=0,
        result="pass" if good else "fail",
        reason="",
        rows=tuple(rows),
        failures=(),
        folder=None,
        place=":".join([*nodes, *([rails] if rails else [])]),
        kind=rails,
        unique_name=f"{check}_1",
    )
    return dataclasses.replace(made, **changes)


def bandwidth(nodes: tuple[str, ...], rails: str, value: float, **changes: Any) -> Measurement:
    fields = {"size_bytes": 1 << 20, "rails": rails, **changes}
    return Measurement("bandwidth", value, "perftest", "write", "rdma", nodes=nodes, **fields)


def campaign(folder: Path, nodes: list[str], **changes: Any) -> Campaign:
    made = Campaign(
        folder / "20261122T101655Z-dgx-7578a0",
        "dgx",
        "acceptance",
        Scope({"hdr": nodes}, {"hdr": ["RdmaBandwidth"]}),
        Requested([], {}, {}),
        started="2026-11-22T10:16:55+00:00",
        finished="2026-11-22T10:19:48+00:00",
        context={"host": "login1", "command": ["railgauge", "accept"]},
    )
    return dataclasses.replace(made, **changes)


def cluster(folder: Path, nodes: int, rails: int, bad: tuple[int, int] | None = None) -> Verdict:
    """Every node with the next one on every rail; the rail of the `bad` node carries too little."""
    names = [f"n{number + 1}" for number in range(nodes)]
    cases, findings = [], []
    for number, name in enumerate(names):
        for rail in range(rails):
            ends = name, names[(number + 1) % nodes]
            of_rail = f"{rail}-{rail}"
            slow = bad is not None and rail == bad[1] and names[bad[0]] in ends
            value = 171.4 if slow else 385.0 + (number * 7 + rail * 3) % 5
            row = Row(bandwidth(ends, of_rail, value), reference(), LIMIT)
            cases.append(case("RdmaBandwidth", ends, of_rail, [row]))
            if slow:
                findings.append(
                    Finding(
                        "reject",
                        "reference",
                        f"bandwidth is {value} Gb/s, expected at least 361 Gb/s (baseline)",
                        "RdmaBandwidth",
                        "hdr",
                        ends,
                        cases[-1].place,
                        next_step="look at the link rate, errors and cabling of the nodes named",
                    )
                )
    cases += sweeps(names[:2])
    suspects = (
        (by_itself(names[bad[0]], "in 2 failing cases, and in none that passed"),) if bad else ()
    )
    decision: Decision = "reject" if findings else "accept"
    reason = f"{len(findings)} findings" if findings else f"{len(cases)} of {len(cases)} passed"
    return Verdict(
        decision, reason, campaign(folder, names), tuple(cases), tuple(findings), suspects
    )


def sweeps(nodes: list[str]) -> list[Case]:
    """A bandwidth over sizes, and the percentiles of a latency."""
    ends = nodes[0], nodes[1]
    rows = [
        Row(
            bandwidth(ends, "0-0", min(385.0, size / 20), size_bytes=size), None, LIMIT, gates=False
        )
        for size in SIZES
    ]
    values = {"latency_min": 1.1, "latency": 1.3, "latency_p99": 1.9, "latency_max": 14.0}
    latencies = [
        Row(
            dataclasses.replace(bandwidth(ends, "0-0", value, size_bytes=2), metric=metric),
            None,
            None,
            gates=False,
        )
        for metric, value in values.items()
    ]
    counters = {"counters": {"counters": {"ethtool/eth1/rx_discards_phy": 12, "net/eth1/rx": 9}}}
    return [
        case("RdmaUsage", ends, "0-0", rows),
        case("RdmaLatency", ends, "0-0", latencies, facts={ends[0]: counters}),
    ]


def on_leaves(verdict: Verdict, of_leaf: int) -> Verdict:
    """The same with so many nodes a leaf, as the campaign's folder says."""
    folder = verdict.campaign.folder
    folder.mkdir(parents=True, exist_ok=True)
    (partition, nodes), *_ = verdict.campaign.scope.nodes.items()
    leaves = {
        f"leaf{number + 1}": hostlist.fold(nodes[start : start + of_leaf])
        for number, start in enumerate(range(0, len(nodes), of_leaf))
    }
    write_json(folder / LEAVES, {partition: leaves})
    return verdict


#: Outputs of a subnet; the file of iblinkinfo has another name there than in a campaign.
_SUBNET_DATA = paths.HOME / "tests" / "data" / "infiniband"
_SUBNET_FILES = {
    "ibnetdiscover.txt": "ibnetdiscover.txt",
    "iblinkinfo.txt": "iblinkinfo-l.txt",
    "ibqueryerrors.txt": "ibqueryerrors.txt",
    "dump_fts.txt": "dump_fts.txt",
}


def on_subnet(verdict: Verdict, folder: Path, of: str = "slow") -> Verdict:
    """The same with a reading of a subnet of two leaves, two spines and four hosts: `slow` has
    faults at `n2 mlx5_0` and from leaf1 to spine2.
    """
    texts = {
        name: {f: (_SUBNET_DATA / name / file).read_text() for f, file in _SUBNET_FILES.items()}
        for name in ("healthy", of)
    }
    stage = folder / "InfinibandFabric_1"
    asking.save(texts[of], stage / asking.FOLDER)
    wanted = expected.of_fabric(folders.from_texts(texts["healthy"]))
    findings.save(check(folders.from_texts(texts[of]), wanted), stage / findings.FILE)
    read = case("InfinibandFabric", ("n1",), "", [], folder=stage)
    return dataclasses.replace(verdict, cases=(*verdict.cases, read))


def after_accepted(root: Path, many: int = 60, slow: str = "n7", loss: float = 0.08) -> Verdict:
    """A campaign of pairs after one that was accepted: those of one node lost something. The
    results root has to be `root`.
    """
    places = [f"n{2 * n + 1}:n{2 * n + 2}:{rail}-{rail}" for n in range(many) for rail in range(4)]

    def values(seed: int, share: float) -> dict[str, float]:
        noise = random.Random(seed)
        return {
            place: 385 * math.exp(noise.gauss(0, 0.002)) * (share if f"{slow}:" in place else 1.0)
            for place in places
        }

    measured.leave(root, 1, values(1, 1.0), gate="acceptance", verdict="accept")
    return decide(measured.leave(root, 2, values(2, 1.0 - loss), gate="acceptance"))


def simulated(verdict: Verdict) -> Verdict:
    rehearsed = dataclasses.replace(verdict.campaign, simulated="slow-rail")
    return dataclasses.replace(verdict, campaign=rehearsed)


#: What would run, or end an element, if any of it came into the page as markup; and what hides.
HOSTILE = (
    "<script>window.broken=1</script>",
    '"><img src=x onerror="window.broken=1">',
    "' onmouseover='window.broken=1' x='",
    "</script><script>window.broken=1</script>",
    "<!--<script>",
    "javascript:window.broken=1",
    "{{ 7 * 7 }}{% raw %}",
    "a\u2028b\u2029c\u202ed\x00e\x1b[31m\udce9",
    "</style><svg onload=window.broken=1>",
    "]]>&lt;b&gt;&#x3c;i&#x3e;",
)


def hostile(folder: Path, text: str) -> Verdict:
    """A verdict with that text wherever one comes from outside."""
    names = [f"a{text}", f"b{text}"]
    ends = names[0], names[1]
    stage = folder / "stage"
    stage.mkdir(parents=True, exist_ok=True)
    written = text.encode("utf-8", "replace").decode()
    place = f"{ends[0]}:{ends[1]}"
    row = Row(
        bandwidth(ends, "0-0", 9.0, congestion=text),
        reference(written, written),
        Limit(1, "Gb/s", text),
    )
    failure = Failure(text, text, names, text)
    bad = case(
        f"Check{text}",
        ends,
        "0-0",
        [row],
        partition=f"p{text}",
        failures=(failure,),
        facts={
            names[0]: {
                "counters": {"counters": {f"errors{text}": 3}},
                "agreed": {"fields": {f"f{text}": text}},
            },
            names[1]: {"agreed": {"fields": {f"f{text}": "other"}}},
        },
        folder=stage,
        calls=(records.call("perftest", host=text),),
        recorded=True,
        place=place,
    )
    (stage / "client.out").write_text(written)
    left = case(f"Check{text}", ends, "", [], result="not run", reason=text, partition=f"p{text}")
    finding = Finding(
        "reject", text, text, bad.check, bad.partition, ends, bad.place, str(stage / text), text
    )
    of = campaign(
        folder,
        names,
        system=text,
        scope=Scope({f"p{text}": names}, {f"p{text}": [text]}, absent={text: text}, updated=names),
        context={"host": text, "commit": text, "command": ["x", text]},
        fingerprints={names[0]: text},
        simulated=text,
    )
    witness = Witness(text, text, 0, 1.0, 2.0, "convicts")
    again = Measure(text, text, text)
    suspects = (
        by_itself(names[0], text),
        Suspect("rail", text, 1.0, (names[0],), (), (witness,), (again,), checks=(text,)),
    )
    return Verdict("reject", text, of, (bad, left), (finding,), suspects)
