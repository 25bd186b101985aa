"""What a job of NCCL's checks leaves: launches of many groups, with each rank's log."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from railgauge.lab.replay import debug_log
from railgauge.node.transport import results_file
from railgauge.systems import rehearsal
from railgauge.tools import nccl_tests
from tests.unit.checks import ended_jobs
from tests.unit.tools import nccl_outputs


@dataclasses.dataclass
class Launch:
    """One launch, whose parts a test may change before it is written."""

    event: results_file.Event
    #: place -> role -> what that rank left
    sides: dict[int, dict[str, results_file.Side]]


Change = Callable[[Launch], None]


def outcome(place: int, why: str = "", outcome: str = "done") -> results_file.Event:
    event = {"event": "place", "place": place, "round": 0, "seconds": 0.0}
    return {**event, "outcome": outcome, "why": why}


def launch(
    check: Any, orders: Any, order: int, places: Sequence[int], number: int, rate: float
) -> Launch:
    """A good one, with this algbw in GB/s."""
    spec = orders["orders"][order]["ranks"]
    groups = [orders["places"][place]["nodes"] for place in places]
    each = len(groups[0]) * orders["ranks_per_node"]
    hosts = [node for nodes in groups for node in nodes for _ in range(orders["ranks_per_node"])]
    first = next(p for p in check.places if p.place == orders["places"][places[0]]["name"])
    with check.at(first):
        fabric, options = (
            check.sweep_run.fabric,
            dataclasses.replace(
                check.sweep_run.options, ranks=len(hosts), groups=len(groups), hosts=tuple(hosts)
            ),
        )
    run = nccl_outputs.Run(options, rate=rate)
    gpu, table = fabric.gpu, nccl_outputs.printed(run).replace("NVIDIA GB200", "GPU")
    table = table.replace("] GPU", f"] {gpu}")
    document = json.loads(nccl_outputs.json_text(run))
    document.pop("env", None)
    sides: dict[int, dict[str, results_file.Side]] = {}
    for rank, host in enumerate(hosts):
        group, local = divmod(rank, each)
        # The first rank of a node watches its counters.
        facts = {} if rank % orders["ranks_per_node"] else {"counters": {}, "links": {}}
        line = ended_jobs.exit_line(nccl_tests.TOOL, f"rank{rank}", host, rank, **facts)
        log = debug_log.lines(
            rank=local,
            hosts=hosts[group * each : (group + 1) * each],
            pid=1000 + rank,
            environment=spec.get("environment", {}),
            fabric=rehearsal.replayed_fabric(fabric),
        )
        text = "".join(f"{said}\n" for said in log if "SIMULATED" not in said)
        files = {f"rank{local}.nccl.log": text}
        out = table if rank == 0 else ""
        sides.setdefault(places[group], {})[f"rank{local}"] = ended_jobs.side(line, out, "", files)
    event = {
        **{"event": "launch", "launch": number, "places": list(places), "parent": None},
        **{"why": "", "seconds": 9.0, "out": table, "err": ""},
        "files": {"nccl-tests.json": json.dumps(document)},
    }
    return Launch(event, sides)


def write(check: Any, events: Sequence[results_file.Event]) -> None:
    writer = results_file.Writer(Path(check.stagedir, results_file.FILE))
    for event in (*events, {"event": "end", "seconds": 9.0, "why": ""}):
        writer.write(event)
    writer.close()
    assert writer.problem is None


def events_of(one: Launch) -> list[results_file.Event]:
    """The launch, and what its ranks left."""
    sides = [
        {"event": "side", "place": place, "role": role, **side._asdict()}
        for place, roles in one.sides.items()
        for role, side in roles.items()
    ]
    return [one.event, *sides]


def leave(check: Any, change: Change = lambda _: None, rate: float = 50.0) -> None:
    """One launch a round, each good but for what `change` does to the first."""
    orders = check.orders().document()
    events: list[results_file.Event] = []
    for number, one in enumerate(orders["rounds"]):
        made = launch(check, orders, one["order"], one["places"], number, rate)
        if number == 0:
            change(made)
        events += events_of(made)
        events += [outcome(place) for place in one["places"]]
    write(check, events)
