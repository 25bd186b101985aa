"""What a campaign's folder says of its cases, as JSON documents that a test can change."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

from railgauge.campaign.folder import ENDED, RESULT_FILE
from railgauge.checks.framework.cases import Case
from railgauge.common.atomic import write_json
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.record import EndResult, Job, Place, Planned, Record, Result, Row

Json = dict[str, Any]


def names(cases: Iterable[Case]) -> list[str]:
    """As ReFrame shows them."""
    return [str(case) for case in cases]


def call(tool: str = "iperf2", **changes: Any) -> Call:
    """An exit line that says all is well."""
    line = {"role": "client", "rank": 0, "host": "", "exit_code": 0, "seconds": 1.0}
    return Call(tool, **{**line, **changes})


def planned(
    check: str,
    case: str,
    unique_name: str,
    nodes: Sequence[str],
    kind: str = "",
    needs: Sequence[str] = (),
    **changes: Any,
) -> Json:
    """A case of plan.json with one place, on partition ns and to be run once."""
    return Planned.model_validate(
        {
            "check": check,
            "case": case,
            "unique_name": unique_name,
            "partition": "ns",
            "places": (Place("", tuple(nodes), kind, tuple((name, "") for name in needs)),),
            "limit_s": 420.0,
            "depends_on": tuple(needs),
            "runs": 1,
            **changes,
        }
    ).model_dump(mode="json")


def record(
    rows: Sequence[Row] = (),
    failures: Sequence[Failure] = (),
    calls: Sequence[Call] = (),
    facts: Json | None = None,
    **changes: Any,
) -> Json:
    """A check's record with one result; `changes` are those of the record."""
    result = Result(
        place="",
        nodes=(),
        calls=tuple(calls),
        claims=(),
        facts=facts or {},
        rows=tuple(rows),
        notes=(),
        left_out=None,
        failures=tuple(failures),
    )
    return Record.model_validate(
        {
            "check": "Iperf2Pair",
            "case": "Iperf2Pair",
            "system": "lab",
            "partition": "ns",
            "gate": "acceptance",
            "strict_provenance": False,
            "peer_spread": 0.05,
            "simulated": False,
            "run": 0,
            "job": Job(id="1", state="COMPLETED", exit_code=0, nodes=()),
            "ratios": (),
            "not_run": {},
            "failures": (),
            "results": (result,),
            **changes,
        }
    ).model_dump(mode="json")


def write(path: Path, document: Json) -> None:
    """What `record` made, and a test changed, as a check leaves it: a line, and one a result."""
    results = document["results"]
    lines = [{**document, "results": len(results)}, *results]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def end(folder: Path, planned: Json, number: int, ran: Json, **changes: Any) -> Json:
    """What a case left of its end in the folder of a session, which is a campaign's or below it;
    `ran` is what ReFrame's report has of that run of it.
    """
    campaign = folder.parent.parent if folder.parent.name == "sessions" else folder
    one = Planned.model_validate(planned)
    stage = Path(ran["stagedir"]) if ran["stagedir"] else None
    left = stage / RESULT_FILE if stage else None
    return {
        "campaign": campaign.name,
        "session": 1 if campaign == folder else int(folder.name),
        "system": "lab",
        "partition": one.partition,
        "check": one.check,
        "unique_name": one.unique_name,
        "nodes": list(one.nodes),
        "run": number,
        "result": ran["result"],
        "reason": ran.get("fail_reason") or "",
        "stage": str(stage.relative_to(folder)) if stage else None,
        "record_sha256": hashlib.sha256(left.read_bytes()).hexdigest()
        if left and left.exists()
        else None,
        **changes,
    }


def leave_report(
    folder: Path, plan: Sequence[Json], runs: Sequence[Sequence[Json]], **changes: Any
) -> None:
    """ReFrame's report of a session, and the end of every case that came to one."""
    write_json(folder / "report.json", {"runs": [{"testcases": run} for run in runs]})
    shutil.rmtree(folder / ENDED, ignore_errors=True)
    (folder / ENDED).mkdir()
    by_key = {(one["unique_name"], one["partition"]): one for one in plan}
    for run, attempts in enumerate(runs):
        for number, ran in enumerate(attempts):
            if ran["result"] in get_args(EndResult):
                planned = by_key[ran["unique_name"], ran["partition"]]
                document = end(folder, planned, run, ran, **changes)
                write_json(folder / ENDED / f"{number}.{run}.json", document)
