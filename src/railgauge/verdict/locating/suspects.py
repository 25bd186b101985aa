"""Suspects, and what is said of them: the results against each, and what would confirm it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

from railgauge.node.rdma import natural
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.results import End, Missing


@dataclasses.dataclass(frozen=True)
class Witness:
    """A result that convicts a suspect, or that clears its partner; `value` None: it failed. `b` is
    "" of a node that does not answer.
    """

    a: str
    b: str
    round: int | None
    value: float | None
    expected: float | None
    says: Literal["convicts", "clears", "counter"]


@dataclasses.dataclass(frozen=True)
class Measure:
    """A place that would confirm or clear a suspect. `b` may stand for any of several, and is ""
    where `a` is measured alone.
    """

    a: str
    b: str
    why: str

    @property
    def words(self) -> str:
        return f"{self.a} with {self.b} ({self.why})" if self.b else f"{self.a} ({self.why})"


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A part that is suspect. It is confirmed when nothing is left in `confirm`.

    `own_reason` is that for which it is named by itself, without a partner; `checks` are those that
    show it; `ports` are the switch ports of its devices, where these are known. `only_as` is the
    part in which alone it is bad, where it is good in the other one: its link is slow one way.
    """

    kind: Literal["node", "rail", "pair", "leaf", "uplink", "load"]
    name: str
    score: float
    nodes: tuple[str, ...]
    ends: tuple[End, ...]
    evidence: tuple[Witness, ...]
    confirm: tuple[Measure, ...]
    own_reason: str = ""
    checks: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    only_as: Literal["", "server", "client"] = ""

    @property
    def confirmed(self) -> bool:
        return not self.confirm

    @property
    def accuses_nodes(self) -> bool:
        """Whether its nodes are at fault as well: also those of a leaf of which none answers."""
        return self.kind in ("node", "rail") or (self.kind == "leaf" and bool(self.own_reason))

    @property
    def failing_nodes(self) -> tuple[str, ...]:
        """The nodes that must not be used: those of a confirmed node or rail, or silent leaf."""
        return self.nodes if self.confirmed and self.accuses_nodes else ()

    @property
    def why(self) -> str:
        """What speaks against it, in one sentence."""
        if self.own_reason:
            return self.own_reason
        checks_shown = f" ({', '.join(self.checks)})" if self.checks else ""
        convicts = [witness for witness in self.evidence if witness.says == "convicts"]
        if self.kind in ("leaf", "uplink"):
            return f"low results gather there, of nodes that are good elsewhere{checks_shown}"
        own = set(self.nodes)
        partners = {
            name: None
            for witness in convicts
            for name in (witness.a, witness.b)
            if name.partition(":")[0] not in own
        }
        if not partners:
            words = "counts errors" if not convicts else "bad with each other"
            clears = [witness for witness in self.evidence if witness.says == "clears"]
            return f"{words}{', and good with others' if convicts and clears else ''}{checks_shown}"
        cleared = any(witness.says == "clears" for witness in self.evidence)
        good = ", good with others" if cleared else ""
        if self.kind == "load":
            good = " while others are busy, good while all else is quiet"
        one_way = f", only as {self.only_as}" if self.only_as else ""
        with_whom = ", ".join(sorted(partners, key=natural))
        return f"bad with {with_whom}{good}{one_way}{checks_shown}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "score": round(self.score, 1),
            "evidence": [dataclasses.asdict(witness) for witness in self.evidence],
            "confirm": [dataclasses.asdict(measure) for measure in self.confirm],
            # Only where they are known.
            **({"ports": list(self.ports)} if self.ports else {}),
        }


@dataclasses.dataclass(frozen=True)
class Located:
    """The suspects, the most certain first, and the missing results.

    `alike` says where results accuse no end, as all are bad. `watched` are ends that were low
    without a suspect that explains it, or were never good, with the number of their good results.
    `doubtful` are pairs of them that were low with each other and never good. `fewest` is the least
    number of good results of an end that is no suspect. `passed` are the nodes that are good, but
    for what the suspects say; of `unjudged` nothing tells whether they are.
    """

    suspects: tuple[Suspect, ...]
    missing: tuple[Missing, ...]
    rounds: int
    nodes: tuple[str, ...]
    alike: tuple[str, ...]
    watched: dict[End, int]
    doubtful: tuple[tuple[End, End], ...]
    fewest: int = 0
    passed: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def failing_nodes(self) -> list[str]:
        """The nodes of confirmed suspect nodes and rails."""
        failing = {node for suspect in self.suspects for node in suspect.failing_nodes}
        return [node for node in self.nodes if node in failing]

    @property
    def passing_nodes(self) -> list[str]:
        """Those that passed, and are in no suspect that may be themselves."""
        suspected = suspected_nodes(self.suspects)
        return [node for node in self.passed if node not in suspected]

    def as_dict(self) -> dict[str, Any]:
        return {
            "suspects": [suspect.as_dict() for suspect in self.suspects],
            "missing": [{"place": m.place, "round": m.round, "why": m.why} for m in self.missing],
            "rounds": self.rounds,
            "accuses_nobody": list(self.alike),
            "unjudged": list(self.unjudged),
        }


def suspected_nodes(suspects: Iterable[Suspect]) -> set[str]:
    """The nodes of suspect nodes, rails, pairs and silent leaves, confirmed or not; those at a leaf
    or uplink are good elsewhere.
    """
    return {
        node
        for suspect in suspects
        if suspect.accuses_nodes or suspect.kind not in ("leaf", "uplink")
        for node in suspect.nodes
    }


def not_excluded(good: int) -> float:
    """The chance that a fault which is there a fifth of the time was missed by `good` results."""
    return float((1 - scoring.SHARE_OF_TIME) ** good)
