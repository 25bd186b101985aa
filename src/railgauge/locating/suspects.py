"""The answer: the suspects, the results against each, and what would confirm or clear it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from railgauge.common.names import natural
from railgauge.locating.results import End, Missing

#: How likely a fault that is there a fifth of the time shows in one run.
SHARE_OF_TIME = 0.2

#: The score of a suspect that needs no statistics: it does not answer, or shows its own fault.
CERTAIN = 99.0

#: What a measurement is for: another partner, one on the end's own leaf, the same two ends once
#: more, more paths of a leaf, low paths while no other flow shares a link with them, or the ends
#: while all else is quiet.
Need = Literal["partner", "home", "pair", "paths", "alone", "quiet", ""]

SuspectKind = Literal["node", "rail", "pair", "leaf", "uplink", "load", "gpu", "gpu-link"]

#: Parts of a node: it must not be used with them.
_IN_NODES = ("node", "rail", "gpu", "gpu-link")

#: What a result says: it is low, it clears the partner, or an error counter grew.
Says = Literal["convicts", "clears", "counter"]


@dataclasses.dataclass(frozen=True)
class Witness:
    """A result that speaks against a suspect, or that clears its partner; `value` None: it failed.
    Data went from `a` to `b`, which is "" of a node that does not answer.
    """

    a: str
    b: str
    round: int | None
    value: float | None
    expected: float | None
    says: Says


@dataclasses.dataclass(frozen=True)
class Measure:
    """A measurement that would confirm or clear a suspect. `b` is "" where `a` is measured alone,
    and may stand for any of several.
    """

    a: str
    b: str
    why: str
    need: Need = ""

    @property
    def words(self) -> str:
        where = f"{self.a} with {self.b}" if self.b else self.a
        return f"{where} ({self.why})" if self.why else where


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A part that is suspect. It is confirmed when nothing is left in `confirm`.

    `low_with` is the number of partners with which it is slow, of all `partners` that it met.
    `own_reason` is that for which it is named by itself, without a partner; `checks` are those that
    show it; `ports` are the switch ports of its devices, where these are known. `only_as` is the
    part in which alone a node or rail is slow. Of an uplink `direction` says which way data is
    slow, from the leaf or to it, and `ends` at which of its nodes that shows.
    """

    kind: SuspectKind
    name: str
    score: float
    nodes: tuple[str, ...]
    ends: tuple[End, ...]
    evidence: tuple[Witness, ...]
    confirm: tuple[Measure, ...]
    own_reason: str = ""
    checks: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    only_as: Literal["", "sender", "receiver"] = ""
    direction: Literal["", "up", "down"] = ""
    low_with: int = 0
    partners: int = 0

    @property
    def confirmed(self) -> bool:
        return not self.confirm

    @property
    def accuses_nodes(self) -> bool:
        """Whether its nodes are at fault as well: also those of a leaf that does not answer."""
        return self.kind in _IN_NODES or (self.kind == "leaf" and bool(self.own_reason))

    @property
    def failing_nodes(self) -> tuple[str, ...]:
        """The nodes that must not be used: of a confirmed node, rail or GPU, or a silent leaf."""
        return self.nodes if self.confirmed and self.accuses_nodes else ()

    @property
    def why(self) -> str:
        """What speaks against it, in one sentence."""
        checks = f" ({', '.join(self.checks)})" if self.checks else ""
        return self.own_reason or f"{self._reason()}{checks}"

    def _reason(self) -> str:
        if self.kind == "leaf":
            return "slow with nearly all that it was measured with"
        if self.kind == "uplink":
            return self._of_uplink()
        if self.kind == "pair":
            shown = {n for w in self.evidence if w.says == "clears" for n in (w.a, w.b)}
            both = {name.partition(":")[0] for name in shown}.issuperset(self.nodes)
            return "slow with each other" + (", both good with others" if both else "")
        slow = f"slow with {self._partners()}"
        if not self.low_with:
            return "its error counters grow"
        if self.kind == "load":
            return f"{slow} while others are busy, good while all else is quiet"
        one_way = f", only as {self.only_as}" if self.only_as else ""
        clears = any(witness.says == "clears" for witness in self.evidence)
        good = ", good with others" if clears and self.low_with < 2 else ""
        if clears and self.low_with > 1:
            good = (
                f"; {'these are' if self.low_with < self.partners else 'all are'} good with others"
            )
        return f"{slow}{one_way}{good}"

    def _partners(self) -> str:
        names = {
            name: None
            for witness in self.evidence
            if witness.says == "convicts"
            for name in (witness.a, witness.b)
            if name.partition(":")[0] not in self.nodes
        }
        count = f"{self.low_with} of {self.partners} partners"
        if 0 < len(names) == self.low_with <= 4:
            return f"{count} ({', '.join(sorted(names, key=natural))})"
        return count

    def _of_uplink(self) -> str:
        at = sorted({end.node for end in self.ends}, key=natural)
        where = f" at {', '.join(at[:8])}{' and others' if len(at) > 8 else ''}" if at else ""
        if self.direction == "down":
            return f"receives slowly from other leaves{where}"
        if self.direction == "up":
            return f"sends slowly to other leaves, seen{where}"
        return "slow with other leaves, good within"

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "state": "confirmed" if self.confirmed else "suspected",
            "score": round(self.score, 1),
            "why": self.why,
            "evidence": [dataclasses.asdict(witness) for witness in self.evidence],
            "confirm": [
                {"a": measure.a, "b": measure.b, "why": measure.why} for measure in self.confirm
            ],
            # Only where they are known.
            **({"direction": self.direction} if self.direction else {}),
            **({"ports": list(self.ports)} if self.ports else {}),
        }


class Fewest(NamedTuple):
    """An end that is no suspect and has the fewest good results, and their number."""

    good: int
    end: str


@dataclasses.dataclass(frozen=True)
class Located:
    """The suspects, the most certain first, and the missing results.

    `no_evidence` says where results accuse no end, as all are bad. `unrepeated` are pairs of ends
    that were low once and good when they were measured again. `fewest` is the end that is no
    suspect with the fewest good results; None where all are suspects. `passed` are the nodes that
    are good, but for what the suspects say; nothing shows that of `unjudged` ones.
    """

    suspects: tuple[Suspect, ...]
    missing: tuple[Missing, ...]
    rounds: int
    nodes: tuple[str, ...]
    no_evidence: tuple[str, ...]
    unrepeated: tuple[tuple[End, End], ...] = ()
    fewest: Fewest | None = None
    passed: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def failing_nodes(self) -> list[str]:
        """The nodes of confirmed suspect nodes, rails and GPUs."""
        failing = {node for suspect in self.suspects for node in suspect.failing_nodes}
        return [node for node in self.nodes if node in failing]

    @property
    def passing_nodes(self) -> list[str]:
        """The nodes that passed, and are in no suspect that may be themselves."""
        suspected = suspected_nodes(self.suspects)
        return [node for node in self.passed if node not in suspected]

    def as_dict(self) -> dict[str, Any]:
        return {
            "suspects": [suspect.as_dict() for suspect in self.suspects],
            "missing": [{"place": m.place, "round": m.round, "why": m.why} for m in self.missing],
            "rounds": self.rounds,
            "accuses_nobody": list(self.no_evidence),
            "unjudged": list(self.unjudged),
            "cleared": self.passing_nodes,
        }


def suspected_nodes(suspects: Iterable[Suspect]) -> set[str]:
    """The nodes of suspect nodes, rails, pairs and silent leaves, confirmed or not. Those at a leaf
    or uplink are good elsewhere, but for an end that may receive slowly itself.
    """
    return {
        node
        for suspect in suspects
        if suspect.accuses_nodes
        or suspect.kind not in ("leaf", "uplink")
        or any(measure.need == "home" for measure in suspect.confirm)
        for node in suspect.nodes
    }


def not_excluded(good: int) -> float:
    """The chance that `good` results missed a fault that is there a fifth of the time."""
    return float((1 - SHARE_OF_TIME) ** good)
