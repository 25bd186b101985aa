"""What was tested of each node, when, and with what outcome: `railgauge coverage`.

Each campaign leaves `standing.json` when it ends. Their summary is kept in `coverage-6.json` of the
store, which every call brings up to date: of ten thousand campaigns only those are read that ended,
or went on, since the last call. Without the file all are read.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pydantic

from railgauge import systems
from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import STANDING
from railgauge.cluster import store
from railgauge.common.atomic import write_text
from railgauge.model import record
from railgauge.model.record import BrokenRecordError, Standing, StandingOutcome
from railgauge.slurm.nodes import SlurmNode
from railgauge.yamlfile import Strict

_FILE = "coverage-6.json"


class Tested(Strict):
    """The outcome of a campaign for a node."""

    campaign: str
    outcome: StandingOutcome
    why: str
    checks: tuple[str, ...]
    fingerprint: str | None
    #: the fields of firmware and tuning that could not be read then
    unknown: tuple[str, ...] = ()
    #: whether something was wrong there, with no node confirmed to be the reason
    open: bool = False


class NodeCoverage(Strict):
    """The last campaign that measured a node, the last that accepted it, also provisionally, and
    for each rail the last in which all results over it were good.

    `carriers` are the changes of each device's carrier at the end of the last campaign, `flaps`
    those since the campaign before it, which is `flaps_since`.
    """

    tested: Tested | None = None
    accepted: Tested | None = None
    #: the last campaign that came to its end, and measured all that it was to measure there
    judged: Tested | None = None
    #: the last campaign that broke off, and left something open there
    doubted: Tested | None = None
    rails: dict[str, str] = {}
    carriers: dict[str, int] = {}
    flaps: int = 0
    flaps_since: str = ""

    @property
    def changed(self) -> bool:
        """Whether it was tested since with another firmware or tuning than was accepted. A field
        that could not be read in one of both is no change.
        """
        if self.tested is None or self.accepted is None:
            return False
        if self.tested.unknown != self.accepted.unknown:
            return False
        now, then = self.tested.fingerprint, self.accepted.fingerprint
        return None not in (now, then) and now != then

    @property
    def open_doubt(self) -> Tested | None:
        """The doubted test, if no later one judged the node."""
        doubted, judged = self.doubted, self.judged
        newer = doubted and (judged is None or doubted.campaign > judged.campaign)
        return doubted if newer else None

    @property
    def flapped(self) -> str:
        """How often its links went or came, and when, in words; "" for never."""
        if not self.flaps or self.tested is None:
            return ""
        first, last = (
            campaigns.began(name).isoformat(sep=" ", timespec="minutes")
            for name in (self.flaps_since, self.tested.campaign)
        )
        return f"its links went or came {self.flaps} times between {first} and {last}"


class Coverage(Strict):
    """What all campaigns read say of each node; `campaigns` has the time of their standing.json in
    ns.
    """

    campaigns: dict[str, int] = {}
    nodes: dict[str, NodeCoverage] = {}


def with_campaign(
    known: Mapping[str, NodeCoverage], campaign: str, standings: Mapping[str, Standing]
) -> dict[str, NodeCoverage]:
    """The coverage with one more campaign added; the order of campaigns does not matter."""
    nodes = dict(known)
    for node, standing in standings.items():
        if not standing.measured:
            continue
        before = nodes.get(node, NodeCoverage())
        now = Tested(
            campaign=campaign,
            outcome=standing.outcome,
            why=standing.why,
            checks=standing.checks,
            fingerprint=standing.fingerprint,
            unknown=standing.unknown,
            open=standing.open,
        )
        rails = dict(before.rails)
        for rail, well in standing.rails.items():
            if well:
                rails[rail] = max(campaign, rails.get(rail, ""))
        accepted = standing.outcome in ("accepted", "provisional")
        judged = standing.alarms is not None and standing.outcome != "not tested"
        doubted = standing.alarms is None and standing.open
        nodes[node] = NodeCoverage(
            tested=_later_of(before.tested, now),
            accepted=_later_of(before.accepted, now) if accepted else before.accepted,
            judged=_later_of(before.judged, now) if judged else before.judged,
            doubted=_later_of(before.doubted, now) if doubted else before.doubted,
            rails=rails,
            **_link_fields(before, campaign, standing),
        )
    return nodes


def _link_fields(before: NodeCoverage, campaign: str, standing: Standing) -> dict[str, Any]:
    """The fields of a node's links after this campaign. Fewer changes than before mean that the
    node started again.
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


def _later_of(known: Tested | None, new: Tested) -> Tested:
    # Names of campaigns begin with their time.
    return new if known is None or new.campaign >= known.campaign else known


def read(system: str) -> Coverage:
    """The coverage by all campaigns that have ended by now. The file of the store is brought up to
    date where it can be written.
    """
    path = store.folder(system) / _FILE
    try:
        kept = Coverage.model_validate_json(path.read_bytes())
    except (OSError, pydantic.ValidationError):
        kept = Coverage()
    ended_campaigns = dict(ended(system))
    if any(ended_campaigns.get(name) != time for name, time in kept.campaigns.items()):
        # One of them went on, or was removed: what is stored has its earlier result in it.
        kept = Coverage()
    unread = {name: time for name, time in ended_campaigns.items() if name not in kept.campaigns}
    if not unread:
        return kept
    nodes: dict[str, NodeCoverage] = dict(kept.nodes)
    for name in sorted(unread):
        try:
            standings = record.read_standings(campaigns.campaigns_folder() / name / STANDING)
        except BrokenRecordError:
            # A damaged standing says nothing of any node.
            continue
        nodes = with_campaign(nodes, name, standings or {})
    updated = Coverage(campaigns={**kept.campaigns, **unread}, nodes=nodes)
    # A user without the right to write there reads all again the next time.
    with contextlib.suppress(OSError):
        write_text(path, updated.model_dump_json())
    return updated


def ended(system: str) -> Iterator[tuple[str, int]]:
    """The campaigns of a system that have ended, with the time of their standing.json in ns. Not
    those dated in the future, which would hide what comes after them.
    """
    for folder in campaigns.folders_of(system):
        if campaigns.in_future(folder.name):
            continue
        with contextlib.suppress(OSError):
            yield folder.name, (folder / STANDING).stat().st_mtime_ns


def last_accepts(system: str) -> dict[str, str]:
    """Node -> when (ISO 8601) the newest campaign began that accepted it, also provisionally. Nodes
    that no campaign accepted are left out.
    """
    return {
        node: campaigns.began(covered.accepted.campaign).isoformat(timespec="seconds")
        for node, covered in read(system).nodes.items()
        if covered.accepted is not None
    }


class Rail(Strict):
    """The last campaign in which all results over a rail were good, and its age in days; None for
    none.
    """

    campaign: str | None = None
    age_days: float | None = None


class NodeSummary(Strict):
    """A node for people and programs. `age_days` is the age of its last acceptance. `tested` may be
    a campaign that broke off, `judged` is the last that judged it, `doubted` a later one that broke
    off and left something open there. `kept_by` is what keeps it from everybody's jobs, "" for
    nothing, or not known. `rails` are all that the node has by the system's data. `flaps` is how
    often its links went or came between its last two tests; `flapped` says so with their times, ""
    for none.
    """

    node: str
    partition: str
    state: str
    kept_by: Literal["", "railgauge", "somebody", "reservation", "silence"] = ""
    age_days: float | None
    accepted: Tested | None
    tested: Tested | None
    judged: Tested | None
    doubted: Tested | None
    changed: bool
    #: why it was not held for a change; "" where it has none, or is out of service
    not_held: str = ""
    rails: dict[str, Rail]
    flaps: int = 0
    flapped: str = ""

    @property
    def older_rails(self) -> dict[str, Rail]:
        """The rails that were never well, or longer ago than the node was accepted."""
        accepted = self.age_days
        return {
            name: rail
            for name, rail in self.rails.items()
            if rail.age_days is None or (accepted is not None and rail.age_days > accepted)
        }

    @property
    def remarks(self) -> list[str]:
        """What is to know of it besides its last acceptance and its state."""
        remarks = []
        accepted, tested = self.accepted, self.tested
        if tested is None:
            remarks.append("never tested")
        elif tested != accepted:
            remarks.append(f"{tested.outcome} by {tested.campaign}: {tested.why}")
        if accepted is not None and accepted.outcome == "provisional":
            remarks.append("provisionally")
        if self.changed:
            assert tested is not None and accepted is not None
            remarks.append(
                f"changed since: its fingerprint is {tested.fingerprint}, "
                f"{accepted.fingerprint} was accepted"
            )
        if self.not_held:
            remarks.append(f"changed, and {self.not_held}")
        if self.flaps:
            remarks.append(self.flapped)
        never = [name for name, rail in self.older_rails.items() if rail.age_days is None]
        if never and tested is not None:
            remarks.append(f"rail {', '.join(never)} never well")
        remarks += [
            f"rail {name} last well {age_text(rail.age_days)} ago"
            for name, rail in self.older_rails.items()
            if rail.age_days is not None
        ]
        return remarks


def lines(
    system: str,
    nodes: Sequence[str],
    states: Mapping[str, SlurmNode],
    now: datetime.datetime,
) -> list[NodeSummary]:
    """A line for each of these nodes and each of its partitions: first the nodes that were never
    accepted, then those accepted longest ago. `states` are Slurm's, empty where it does not answer.
    """
    lines, coverage_of = [], read(system).nodes
    for partition in systems.load(system).partitions:
        for node in partition.nodes:
            if node not in nodes:
                continue
            covered = coverage_of.get(node, NodeCoverage())
            last_well = {
                rail: covered.rails.get(rail) for rail in map(str, partition.extras.rails_of(node))
            }
            state = _state(states, node)
            # Where Slurm does not answer the node may be in service.
            may_serve = state in ("in service", "unknown")
            lines.append(
                NodeSummary(
                    node=node,
                    partition=partition.name,
                    state=state,
                    kept_by=_kept_by(states.get(node)),
                    age_days=days_since(
                        covered.accepted.campaign if covered.accepted else None, now
                    ),
                    accepted=covered.accepted,
                    tested=covered.tested,
                    judged=covered.judged,
                    doubted=covered.open_doubt,
                    changed=covered.changed,
                    not_held=store.not_held(system, node) if may_serve else "",
                    rails={
                        rail: Rail(campaign=campaign, age_days=days_since(campaign, now))
                        for rail, campaign in last_well.items()
                    },
                    flaps=covered.flaps,
                    flapped=covered.flapped,
                )
            )
    return sorted(lines, key=lambda line: (line.age_days is not None, -(line.age_days or 0)))


def days_since(campaign: str | None, now: datetime.datetime) -> float | None:
    """How many days ago a campaign began, by its name; None for none."""
    if campaign is None:
        return None
    return max(0.0, (now - campaigns.began(campaign)).total_seconds() / 86400)


def age_text(days: float) -> str:
    hours = days * 24
    if hours < 1:
        return f"{hours * 60:.0f} min"
    return f"{hours:.0f} h" if days < 2 else f"{days:.0f} days"


def _state(states: Mapping[str, SlurmNode], node: str) -> str:
    """The state in words: in service, held by Railgauge, or out of service by another user."""
    state = states.get(node)
    if state is None:
        return "unknown" if not states else "not in Slurm"
    if state.drained_by_us:
        return f"held: {state.reason}"
    return (
        f"out of service: {state.unavailable_reason}" if state.unavailable_reason else "in service"
    )


def _kept_by(
    node: SlurmNode | None,
) -> Literal["", "railgauge", "somebody", "reservation", "silence"]:
    """What keeps all jobs from a node."""
    if node is None or node.in_service:
        return ""
    if node.drained or node.downed_by_admin:
        return "railgauge" if node.drained_by_us else "somebody"
    if not node.answers or node.takes_no_job or node.restarts:
        return "silence"
    ours = node.reservations and not node.foreign_reservations
    return "railgauge" if ours else "reservation"
