"""What was accepted of each node, under `gate/<system>` in the results root.

rules.json             what `railgauge.node.gate` needs of the system's gate.yaml, for the nodes
nodes/<node>.json      an accepted node: the fields that count, when, by which user and campaign
not_held/<node>.json   a changed node in service, and why it was not held (railgauge.node.gate)
suspects/<node>.json   a node in service that failed as the partner of a tested one
holds.json             what was held within the window (railgauge.node.gate)
runs/<id>.json         the journal of a gate run;  rolls/<id>.json  of a rolling update
                       (railgauge.gate.journal)
patrols/<id>.json      what a patrol did (railgauge.patrol.journal)
run.lock, hold.lock, patrol.lock
                       held by the run, by the process that counts and drains, and by the patrol
"""

from __future__ import annotations

import contextlib
import datetime
import getpass
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic_core import PydanticCustomError

from railgauge import paths
from railgauge.cluster import check_names
from railgauge.common.atomic import write_json
from railgauge.common.errors import ConfigurationError, PrerequisiteError
from railgauge.model import inventory
from railgauge.node import gate as node_gate
from railgauge.node.inventory.compare import by_value
from railgauge.node.inventory.kinds import LASTING, kind
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.yamlfile import Strict, load_model, read_old_checks

#: What happens to a node in service that a check accuses: it is only recorded, or Slurm's comment
#: of the node says so too, or the node is held.
Enforcement = Literal["record", "comment", "hold"]


def _known(name: str) -> str:
    """A misspelt check would lose its enforcement in silence: a check without one only records."""
    if why := check_names.unknown(name):
        raise PydanticCustomError("unknown_check", "{why}", {"why": why})
    return name


#: A check in reframe/, a site's own as well.
CheckName = Annotated[str, pydantic.AfterValidator(_known)]


class PatrolRules(Strict):
    """How `railgauge patrol` chooses and tests nodes in service."""

    max_under_test: int = pydantic.Field(default=8, ge=2)
    """The most nodes of the system that are under test at a time."""
    every_days: float = pydantic.Field(default=7, gt=0)
    """How often every node, and every two leaves, should be tested, in days."""
    settle_s: int = pydantic.Field(default=600, ge=0)
    """How long a node that restarted is left alone."""
    turn_s: int = pydantic.Field(default=3600, ge=0)
    """After a mass restart `max_under_test` nodes are tested in each such time."""
    job_options: list[str] = ["nice=10000"]
    """Options of its jobs, as sbatch has them without the dashes: a low priority, and what makes
    the jobs preemptible.
    """


class GateRules(Strict):
    """`configs/systems/SYSTEM/gate.yaml`: what the gate watches, and how many nodes it may take
    out.
    """

    RENAMED = {"teeth": "enforcement"}

    ignore: list[str] = []
    """Patterns (fnmatch) of inventory fields. A change of such a field holds no node. A change of
    any other firmware, tuning or serial number does.
    """
    max_hold: int = pydantic.Field(default=4, ge=1)
    """The most nodes that are drained within `window_s`, whatever became of them since. Other
    changed nodes stay in service, and `gate status` and `coverage` show them. A change of many
    nodes at once is for a person to look at.
    """
    window_s: int = pydantic.Field(default=900, ge=1)
    """The time in which `max_hold` counts."""
    partners: int = pydantic.Field(default=2, ge=0)
    """The healthy nodes that a test borrows at least, to distinguish a bad pair from a bad node."""
    budget: int = pydantic.Field(default=4, ge=1)
    """The most nodes of the system that a rolling update may have out of service."""
    enforcement: Annotated[
        dict[CheckName, Enforcement], pydantic.BeforeValidator(read_old_checks)
    ] = {}
    """By check, what a patrol does with a node in service that the check accuses. `record`: it is
    written down. `comment`: Slurm's comment of the node says it. `hold`: the node is drained, as
    far as `max_hold` goes. A check that is not listed only records. An unknown name is an error.
    """
    patrol: PatrolRules = PatrolRules()
    """How `railgauge patrol` chooses and tests nodes."""

    @property
    def counted(self) -> node_gate.Rules:
        """The rules in the form that nodes read: which fields count, and how many nodes may be
        held.
        """
        return node_gate.Rules(tuple(self.ignore), self.max_hold, self.window_s)


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
    #: the gate run, the campaign, or the reason of a release
    by: str
    user: str
    date: str

    @property
    def document(self) -> node_gate.Document:
        """What a quick look is compared with."""
        return {"fields": self.fields, "unknown": self.unknown}


def folder(system: str) -> Path:
    return paths.results_root() / "gate" / system


def left_behind(system: str) -> Path | None:
    """The store of the checkout or the site, where $RAILGAUGE_RESULTS names another."""
    own = paths.SITE / "results" / "gate" / system
    return own if own != folder(system) and (own / "rules.json").exists() else None


def rules(system: str) -> GateRules:
    """The system's gate.yaml; the defaults where it has none."""
    path = paths.system_folder(system) / "gate.yaml"
    return load_model(path, GateRules) if path.exists() else GateRules()


def publish_rules(system: str) -> GateRules:
    """Give the nodes the rules of gate.yaml as it is now."""
    stated = rules(system)
    store = folder(system)
    try:
        for name in ("nodes", "not_held", "suspects", "runs", "rolls"):
            (store / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(store, error) from None
    document = {
        "system": system,
        "ignore": stated.ignore,
        "max_hold": stated.max_hold,
        "window_s": stated.window_s,
    }
    write(store / "rules.json", document)
    return stated


def write(path: Path, document: Any) -> None:
    """Write a file of the store, whole; PrerequisiteError where that fails."""
    try:
        path.parent.mkdir(exist_ok=True)
        write_json(path, document)
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> PrerequisiteError:
    return PrerequisiteError(
        f"{path}: cannot be written: {error.strerror}",
        next_step="make room there, or set RAILGAUGE_RESULTS to a folder that the nodes share; "
        "then the same command again",
    )


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
    write(node_gate.record_path(folder(system), taken.node), record.model_dump(mode="json"))
    clear_suspect(system, taken.node)
    # Where that may not be done the node's next pass does it.
    node_gate.remove_note(folder(system), taken.node)
    return record


def not_held(system: str, node: str) -> str:
    """Why a node in service that has changed was not held; "" of every other node."""
    path = node_gate.not_held_path(folder(system), node)
    try:
        return str(json.loads(path.read_bytes())["why"])
    except (OSError, ValueError, LookupError, TypeError):
        # That there is one is what counts.
        return f"{path} is damaged" if node_gate.has_note(folder(system), node) else ""


def accepted(system: str, node: str) -> Accepted | None:
    """What was last accepted of a node; ConfigurationError where its record is damaged."""
    path = node_gate.record_path(folder(system), node)
    try:
        return Accepted.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PrerequisiteError(f"{path}: {error.strerror}") from None
    except pydantic.ValidationError as error:
        raise ConfigurationError(
            f"{path}: {first_error(error)}",
            next_step=f"railgauge gate adopt --again --act --nodes {node}",
        ) from None


def readable(system: str, node: str) -> Accepted | None:
    """As `accepted`, but None for a damaged record."""
    try:
        return accepted(system, node)
    except ConfigurationError:
        return None


def first_error(error: pydantic.ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or "the document"
    return f"{place}: {first['msg']}"


def tested(
    system: str, partitions: Mapping[str, list[str]], partners: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Node -> the lasting fields in which its record differs from that of another node of its
    partition, with their values in the record: in these it may differ.

    Of nodes that a gate run accepted, and of the `partners` of one, however they were accepted: a
    partner is healthy in its accepted state, and nodes on both sides of an update are partners.
    """
    lasting: dict[str, dict[str, Any]] = {}
    for nodes in partitions.values():
        records = {node: record for node in nodes if (record := readable(system, node))}
        fields = {node: {**record.fields, **record.more} for node, record in records.items()}
        keys = {key for one in fields.values() for key in one if kind(key) in LASTING}
        apart = {k for k in keys if len(by_value({n: fields[n].get(k) for n in fields})) > 1}
        for node, record in records.items():
            if record.how == "run" or node in partners:
                own = {key: fields[node].get(key) for key in sorted(apart)}
                lasting.setdefault(node, {}).update(own)
    return {node: own for node, own in lasting.items() if own}


# --- suspects ------------------------------------------------------------------------------------


class SuspectedPartner(Strict):
    """A node in service that a gate run found at fault as a partner, or a patrol, until it is
    accepted again.
    """

    node: str
    why: str
    #: the gate run, or the patrol
    by: str
    date: str

    @property
    def words(self) -> str:
        if not self.date:
            return f"suspect: {self.why}"
        by = self.by if self.by.startswith("patrol ") else f"gate run {self.by}"
        return f"suspect, by {by} {self.date}: {self.why}"


def _suspect_path(system: str, node: str) -> Path:
    return folder(system) / "suspects" / f"{node}.json"


def suspect(system: str, node: str, why: str, by: str) -> None:
    partner = SuspectedPartner(node=node, why=why, by=by, date=now())
    write(_suspect_path(system, node), partner.model_dump(mode="json"))


def clear_suspect(system: str, node: str) -> None:
    """Remove a node from the suspects, and its comment in Slurm if that was ours."""
    path = _suspect_path(system, node)
    if path.exists():
        path.unlink(missing_ok=True)
        # It is accepted also where Slurm does not take that.
        with contextlib.suppress(SlurmError):
            slurm_nodes.comment(node, "")


def suspected(system: str, node: str) -> SuspectedPartner | None:
    path = _suspect_path(system, node)
    try:
        return SuspectedPartner.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, pydantic.ValidationError):
        # That there is one is what counts.
        return SuspectedPartner(node=node, why=f"{path} is damaged", by="unknown", date="")
