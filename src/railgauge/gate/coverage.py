"""What was tested of each node, when, and how that ended: `railgauge coverage`.

Each campaign leaves `standing.json` when it ends. What follows from all of them is kept in
`coverage-4.json` of the store, which every call brings up to date: with ten thousand campaigns only
those are read that have ended, or went on, since the last call. Without the file all are.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic

from railgauge import systems
from railgauge.atomic import write_text
from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import STANDING
from railgauge.cluster import store
from railgauge.model import record
from railgauge.model.record import BrokenRecordError, Standing, StandingOutcome
from railgauge.slurm.nodes import SlurmNode
from railgauge.yamlfile import Strict

_FILE = "coverage-4.json"


class Tested(Strict):
    """How a campaign ended for a node."""

    campaign: str
    outcome: StandingOutcome
    why: str
    checks: tuple[str, ...]
    fingerprint: str | None
    #: something was wrong there, and nobody confirmed to be the reason
    open: bool = False


class NodeCoverage(Strict):
    """The last campaign that measured a node, the last that accepted it, also provisionally, and
    by rail the last in which all was well that was measured over it.

    `carriers` are the changes of each device's carrier at the end of the last campaign, `flaps`
    those between that one and the one before, which was `flaps_since`.
    """

    tested: Tested | None = None
    accepted: Tested | None = None
    #: the last that came to its end, and had all that it was to measure there
    judged: Tested | None = None
    rails: dict[str, str] = {}
    carriers: dict[str, int] = {}
    flaps: int = 0
    flaps_since: str = ""

    @property
    def changed(self) -> bool:
        """Whether it was seen since with another firmware or tuning than was accepted."""
        if self.tested is None or self.accepted is None:
            return False
        now, then = self.tested.fingerprint, self.accepted.fingerprint
        return None not in (now, then) and now != then


class Coverage(Strict):
    """Of all campaigns read, by name, with the time of their standing.json in ns."""

    campaigns: dict[str, int] = {}
    nodes: dict[str, NodeCoverage] = {}


def with_campaign(
    known: Mapping[str, NodeCoverage], campaign: str, standings: Mapping[str, Standing]
) -> dict[str, NodeCoverage]:
    """What is known, and what one more campaign says; in whatever order they come."""
    found = dict(known)
    for node, standing in standings.items():
        if not standing.measured:
            continue
        before = found.get(node, NodeCoverage())
        now = Tested(
            campaign=campaign,
            outcome=standing.outcome,
            why=standing.why,
            checks=standing.checks,
            fingerprint=standing.fingerprint,
            open=standing.open,
        )
        rails = dict(before.rails)
        for rail, well in standing.rails.items():
            if well:
                rails[rail] = max(campaign, rails.get(rail, ""))
        accepted = standing.outcome in ("accepted", "provisional")
        judged = standing.alarms is not None and standing.outcome != "not tested"
        found[node] = NodeCoverage(
            tested=_later(before.tested, now),
            accepted=_later(before.accepted, now) if accepted else before.accepted,
            judged=_later(before.judged, now) if judged else before.judged,
            rails=rails,
            **_links(before, campaign, standing),
        )
    return found


def _links(before: NodeCoverage, campaign: str, standing: Standing) -> dict[str, Any]:
    """What is known of its links after this campaign; fewer changes than before are those of a node
    that started again.
    """
    known = {name: getattr(before, name) for name in ("carriers", "flaps", "flaps_since")}
    older = before.tested is not None and before.tested.campaign > campaign
    if older or not standing.carriers:
        return known
    since = {
        device: max(0, first - before.carriers.get(device, first))
        for device, (first, _) in standing.carriers.items()
    }
    last = {device: last for device, (_, last) in standing.carriers.items()}
    flaps = sum(since.values())
    return {
        "carriers": {**before.carriers, **last},
        "flaps": flaps,
        "flaps_since": before.tested.campaign if flaps and before.tested else "",
    }


def _later(one: Tested | None, other: Tested) -> Tested:
    # Names of campaigns begin with their time.
    return other if one is None or other.campaign >= one.campaign else one


def read(system: str) -> Coverage:
    """As the campaigns say that have ended by now; the file of the store is brought up to date
    where it can be.
    """
    path = store.folder(system) / _FILE
    known = _kept(path)
    there = dict(ended(system))
    if any(there.get(name) != time for name, time in known.campaigns.items()):
        # One that went on, or was removed: what it had said is part of what is kept.
        known = Coverage()
    more = {name: time for name, time in there.items() if name not in known.campaigns}
    if not more:
        return known
    nodes: dict[str, NodeCoverage] = dict(known.nodes)
    for name in sorted(more):
        try:
            standings = record.read_standings(campaigns.campaigns_folder() / name / STANDING)
        except BrokenRecordError:
            # It says nothing of any node.
            continue
        nodes = with_campaign(nodes, name, standings or {})
    found = Coverage(campaigns={**known.campaigns, **more}, nodes=nodes)
    try:
        write_text(path, found.model_dump_json())
    except OSError:
        # Whoever may not write there reads all again the next time.
        return found
    return found


def _kept(path: Path) -> Coverage:
    try:
        return Coverage.model_validate_json(path.read_bytes())
    except (OSError, pydantic.ValidationError):
        return Coverage()


def ended(system: str) -> Iterator[tuple[str, int]]:
    """The campaigns of a system that have ended, with the time of their standing.json in ns."""
    for folder in campaigns.folders_of(system):
        with contextlib.suppress(OSError):
            yield folder.name, (folder / STANDING).stat().st_mtime_ns


def last_accepts(system: str) -> dict[str, str]:
    """Node -> when (ISO 8601) the newest campaign began that accepted it, also provisionally;
    a node of none is not there.
    """
    return {
        node: campaigns.began(covered.accepted.campaign).isoformat(timespec="seconds")
        for node, covered in read(system).nodes.items()
        if covered.accepted is not None
    }


class Line(Strict):
    """A node for people and programs. `age_days` is of its last acceptance; `tested` may be a
    campaign that broke off, `judged` is the last that judged it; `rails` are all that its partition
    has, with the days since each was last well, None for never; `flaps` is how often its links went
    or came between its last two tests, and `flapped` says so with their times, "" of none.
    """

    node: str
    partition: str
    state: str
    age_days: float | None
    accepted: Tested | None
    tested: Tested | None
    judged: Tested | None
    changed: bool
    rails: dict[str, float | None]
    flaps: int = 0
    flapped: str = ""


def lines(
    system: str,
    nodes: Sequence[str],
    states: Mapping[str, SlurmNode],
    now: datetime.datetime,
) -> list[Line]:
    """Of these nodes, by partition; those that were accepted longest ago first, and before them
    those that never were. `states` are Slurm's, none where it does not answer.
    """
    found, known = [], read(system).nodes
    for partition in systems.load(system).partitions:
        for node in partition.nodes:
            if node not in nodes:
                continue
            covered = known.get(node, NodeCoverage())
            ages = {
                rail: days_since(covered.rails.get(rail), now)
                for rail in map(str, partition.extras.rails_of(node))
            }
            found.append(
                Line(
                    node=node,
                    partition=partition.name,
                    state=_state(states, node),
                    age_days=days_since(
                        covered.accepted.campaign if covered.accepted else None, now
                    ),
                    accepted=covered.accepted,
                    tested=covered.tested,
                    judged=covered.judged,
                    changed=covered.changed,
                    rails=ages,
                    flaps=covered.flaps,
                    flapped=_flapped(covered),
                )
            )
    return sorted(found, key=lambda line: (line.age_days is not None, -(line.age_days or 0)))


def _flapped(covered: NodeCoverage) -> str:
    if not covered.flaps or covered.tested is None:
        return ""
    first, last = (
        campaigns.began(name).isoformat(sep=" ", timespec="minutes")
        for name in (covered.flaps_since, covered.tested.campaign)
    )
    return f"its links went or came {covered.flaps} times between {first} and {last}"


def days_since(campaign: str | None, now: datetime.datetime) -> float | None:
    """How long ago a campaign began, by its name; None of none."""
    if campaign is None:
        return None
    return max(0.0, (now - campaigns.began(campaign)).total_seconds() / 86400)


def _state(states: Mapping[str, SlurmNode], node: str) -> str:
    """In service, held by Railgauge, or out of service by anybody else."""
    state = states.get(node)
    if state is None:
        return "unknown" if not states else "not in Slurm"
    if state.ours:
        return f"held: {state.reason}"
    return f"out of service: {state.outside}" if state.outside else "in service"
