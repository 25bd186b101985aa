"""What was accepted of each node, under `gate/<system>` in the results root.

rules.json          what `railgauge.node.gate` needs of the system's gate.yaml, for the nodes
nodes/<node>.json   an accepted node: the fields that count, when, by whom, by which campaign
runs/<id>.json      the journal of a gate run (railgauge.gate.run)
"""

from __future__ import annotations

import dataclasses
import datetime
import getpass
from pathlib import Path
from typing import Any, Literal

import pydantic

from railgauge import inventory, paths
from railgauge.atomic import write_json
from railgauge.errors import ConfigurationError, EnvironmentProblem
from railgauge.node import gate as node_gate
from railgauge.yamlfile import Strict, load_model


class GateRules(Strict):
    """`configs/systems/<system>/gate.yaml`: what the gate watches, and how much it may take away.

    `ignore` are patterns (fnmatch) of inventory fields whose change holds no node; all others that
    are firmware or tuning do, and serial numbers. No more than `max_hold` nodes are drained within
    `window_s` seconds: a change everywhere at once is for a person to look at. `partners` is how
    many healthy nodes a test borrows at least, so that a bad pair can be told from a bad node;
    `budget` how many nodes of the system a rolling update may have out of service.
    """

    ignore: list[str] = []
    max_hold: int = pydantic.Field(default=4, ge=1)
    window_s: int = pydantic.Field(default=900, ge=1)
    partners: int = pydantic.Field(default=2, ge=0)
    budget: int = pydantic.Field(default=4, ge=1)


How = Literal["adopt", "run", "release"]


class Accepted(Strict):
    """What was accepted of a node: its inventory.

    `fields` and `unknown` are those that a quick look shows again, `more` the other fields.
    """

    node: str
    fields: dict[str, Any]
    unknown: list[str]
    more: dict[str, Any]
    fingerprint: str
    how: How
    #: the gate run, the campaign, or the words of who released it
    by: str
    user: str
    date: str


def folder(system: str) -> Path:
    return paths.results_root() / "gate" / system


def rules(system: str) -> GateRules:
    """The system's gate.yaml; the defaults where it has none."""
    path = paths.SYSTEMS / system / "gate.yaml"
    return load_model(path, GateRules) if path.exists() else GateRules()


def publish_rules(system: str) -> GateRules:
    """Tell the nodes the rules of gate.yaml as it is now."""
    found = rules(system)
    store = folder(system)
    try:
        (store / "nodes").mkdir(parents=True, exist_ok=True)
        (store / "runs").mkdir(exist_ok=True)
        write_json(
            store / "rules.json",
            {
                "system": system,
                "ignore": found.ignore,
                "max_hold": found.max_hold,
                "window_s": found.window_s,
            },
        )
    except OSError as error:
        raise EnvironmentProblem(
            f"{store}: cannot be written: {error.strerror}",
            next_step="make room, or set RAILGAUGE_RESULTS to a folder that the nodes share",
        ) from None
    return found


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def accept(system: str, taken: inventory.Inventory, how: How, by: str) -> Accepted:
    """Record the inventory of a node as accepted."""
    quick = set(taken.quick)
    record = Accepted(
        node=taken.node,
        fields={key: value for key, value in taken.fields.items() if key in quick},
        unknown=sorted(key for key in taken.unknown if key in quick),
        more={key: value for key, value in taken.fields.items() if key not in quick},
        fingerprint=inventory.fingerprint(taken),
        how=how,
        by=by,
        user=getpass.getuser(),
        date=now(),
    )
    write_json(node_gate.record_path(folder(system), taken.node), record.model_dump(mode="json"))
    return record


def accepted(system: str, node: str) -> Accepted | None:
    """What was last accepted of a node; ConfigurationError where its record is damaged."""
    path = node_gate.record_path(folder(system), node)
    try:
        return Accepted.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EnvironmentProblem(f"{path}: {error.strerror}") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise ConfigurationError(f"{path}: {place}: {first['msg']}") from None


# --- journals ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Run:
    """The journal of a gate run; whatever ends it, the next run goes on from here.

    `nodes` are those to be tested, `partners` healthy ones borrowed for it. `campaigns` are the ids
    of its campaigns, one a round, `judged` of those that have decided something. `decided` has of
    every node that a round decided why it stays out, "" for one that may return.
    """

    id: str
    system: str
    nodes: list[str]
    partners: list[str]
    started: str
    by: str
    campaigns: list[str] = dataclasses.field(default_factory=list)
    judged: list[str] = dataclasses.field(default_factory=list)
    decided: dict[str, str] = dataclasses.field(default_factory=dict)
    #: partners that turned out to be at fault themselves
    bad_partners: list[str] = dataclasses.field(default_factory=list)
    step: str = "planned"
    ended: str | None = None

    @property
    def reservation(self) -> str:
        return f"railgauge_{self.id}"

    @property
    def open_nodes(self) -> list[str]:
        """Those that no round has decided yet."""
        return [node for node in self.nodes if node not in self.decided]

    def save(self) -> None:
        write_json(folder(self.system) / "runs" / f"{self.id}.json", dataclasses.asdict(self))


_RUN = pydantic.TypeAdapter(Run)


def runs(system: str) -> list[Run]:
    """All gate runs of a system, oldest first."""
    found = []
    for path in sorted((folder(system) / "runs").glob("*.json")):
        try:
            found.append(_RUN.validate_json(path.read_bytes()))
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            raise ConfigurationError(
                f"{path}: {'.'.join(map(str, first['loc'])) or 'the document'}: {first['msg']}"
            ) from None
    return found


def unended(system: str) -> Run | None:
    """The run that broke off, if one did. There is one at a time."""
    return next((run for run in runs(system) if run.ended is None), None)
