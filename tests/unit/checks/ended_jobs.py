"""Jobs that have ended: a check of reframe/, and what its job left, without Slurm.

with session("lab") as known:
    check = ended(known["Iperf2Pair"].kind(variant_num=0), tmp_path / "stage")
    check.select_places()
    leave(check, {place.place: sides(place) for place in check.places})
    results = judged(check)
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import reframe.core.runtime as rt
from reframe.core.exceptions import SanityError
from reframe.utility.sanity import evaluate

from railgauge import paths
from railgauge.model.call import Call
from railgauge.node.transport import results_file
from railgauge.site.check import checks
from railgauge.site.check.checks import Check


@contextlib.contextmanager
def runtime(system: str, results: Path, **environment: str) -> Iterator[None]:
    """ReFrame's own, of a system; what checks leave is below `results`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAILGAUGE_NODES", raising=False)
        for name, value in {
            "RAILGAUGE_CAMPAIGN": str(results / "campaign"),
            "RAILGAUGE_RESULTS": str(results),
            "RAILGAUGE_LAB_DIR": str(results / "lab"),
            "RAILGAUGE_STACK_DIR": str(results / "stack"),
            **environment,
        }.items():
            patch.setenv(name, value)
        with rt.temp_runtime(str(paths.HOME / "configs" / "settings.py"), system):
            yield


@contextlib.contextmanager
def session(system: str, results: Path, **environment: str) -> Iterator[Mapping[str, Check]]:
    """The checks of reframe/, with their cases on a system."""
    with runtime(system, results, **environment), pytest.MonkeyPatch.context() as patch:
        # Its classes are those of the session's system.
        for loaded in [module for module in sys.modules if "@" in module]:
            patch.delitem(sys.modules, loaded)
        checks._of_file.cache_clear()
        known, broken = checks.known(paths.CHECKS)
        assert broken == []
        yield known
        checks._of_file.cache_clear()


def ended(check: Any, stage: Path, state: str = "COMPLETED", code: int = 0) -> Any:
    """The check, with a job that came to this state."""
    system, partition = rt.runtime().system.name, check.target.partition
    check._current_partition = SimpleNamespace(name=partition, fullname=f"{system}:{partition}")
    check._stagedir = str(stage)
    check._job = SimpleNamespace(
        **{"jobid": "1", "state": state, "exitcode": code, "name": "job"},
        **{"stdout": "rfm_job.out", "stderr": "rfm_job.err", "options": [], "cli_options": []},
        nodelist=list(check.target.nodes),
        launcher=SimpleNamespace(registered_name="srun", options=[]),
    )
    stage.mkdir(parents=True, exist_ok=True)
    (stage / "rfm_job.out").write_text("")
    return check


def exit_line(tool: str, role: str, node: str, rank: int = 0, **changes: Any) -> dict[str, Any]:
    """What a call leaves that has ended well; `changes` are those of the facts."""
    call = Call(tool, role.rpartition("/")[2], rank, node, 0, 60.0)
    facts = {"span_s": 3.0, "hostname": node, "beside": {"outlasted": True}, "counters": {}}
    return {"call": vars(call), "facts": {**facts, **changes}}


def side(
    line: Mapping[str, Any], out: str, err: str = "", files: Mapping[str, str] | None = None
) -> results_file.Side:
    return results_file.Side(dict(line), out, err, dict(files or {}))


#: How a place ended: one of raw.OUTCOMES, and why.
Outcome = tuple[str, str]
DONE: Outcome = ("done", "")


@dataclasses.dataclass
class Left:
    """What a sweep's job has left: of each place its sides by role, and how it ended, both by the
    place's name. A place without an outcome has no event; `end` is why the conductor ended, None
    where it left no end. `again` are places that the conductor added: name -> what that is like,
    server and client; `quiet` those of them that it measured alone on purpose.
    """

    sides: dict[str, dict[str, results_file.Side]]
    outcomes: dict[str, Outcome]
    joined: tuple[str, ...] = ()
    lost: dict[str, str] = dataclasses.field(default_factory=dict)
    end: str | None = ""
    again: dict[str, tuple[int, str, str]] = dataclasses.field(default_factory=dict)
    quiet: set[str] = dataclasses.field(default_factory=set)

    def write(self, check: Any) -> None:
        """As the conductor of this check's job, by the numbers of its orders."""
        numbers = {place["name"]: n for n, place in enumerate(check.orders().document()["places"])}
        writer = results_file.Writer(Path(check.stagedir, results_file.FILE))
        for node in self.joined:
            writer.write({"event": "joined", "node": node, "seconds": 0.5})
        for node, why in self.lost.items():
            writer.write({"event": "lost", "node": node, "why": why})
        for name, (like, server, client) in self.again.items():
            numbers[name] = len(numbers)
            event = {"event": "again", "place": numbers[name], "name": name, "like": like}
            more = {"quiet": True} if name in self.quiet else {}
            writer.write({**event, "server": server, "client": client, **more})
        for name, roles in self.sides.items():
            for role, one in roles.items():
                event = {"event": "side", "place": numbers[name], "role": role}
                writer.write({**event, **one._asdict()})
        for name, (outcome, why) in self.outcomes.items():
            event = {"event": "place", "place": numbers[name], "round": 0, "seconds": 1.0}
            writer.write({**event, "outcome": outcome, "why": why})
        if self.end is not None:
            writer.write({"event": "end", "seconds": 9.0, "why": self.end})
        writer.close()
        assert writer.problem is None


def judge(check: Any) -> str:
    """Have the check judge what its job left; what ReFrame would report, "" of a pass."""
    try:
        assert evaluate(check.judge()) is True
    except SanityError as error:
        return str(error)
    return ""
