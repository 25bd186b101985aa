"""The journals of patrols, one file each in the store: `patrols/<id>.json`."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator

import pydantic

from railgauge.campaign.folder import in_future
from railgauge.cluster.journals import Journals, Lost
from railgauge.patrol.choose import Way

_STAMP = "%Y%m%dT%H%M%SZ"


@dataclasses.dataclass
class Patrol:
    """The journal of a patrol. `leaves` are those of its nodes, where they are known; `cover`: each
    two of them were to meet. `ways` are those that were measured.

    `stopped` is why it broke off, "" where it came to its end. `found` has for each accused node
    what became of it, `not_tested` for each node that was not measured, or not completely, why.
    """

    id: str
    system: str
    started: str
    by: str
    partition: str
    nodes: list[str]
    leaves: dict[str, list[str]]
    cover: bool
    risks: dict[str, list[str]]
    campaign: str | None = None
    ways: list[Way] = dataclasses.field(default_factory=list)
    stopped: str = ""
    found: dict[str, str] = dataclasses.field(default_factory=dict)
    not_tested: dict[str, str] = dataclasses.field(default_factory=dict)
    ended: str | None = None
    exit_code: int | None = None

    def save(self) -> None:
        _PATROLS.save(self)


_PATROLS = Journals("patrols", pydantic.TypeAdapter(Patrol))


def read(system: str, now: datetime.datetime, since_days: float) -> tuple[list[Patrol], list[Lost]]:
    """The patrols that began since then, and their journals that cannot be read."""
    since = f"{now - datetime.timedelta(days=since_days):{_STAMP}}"

    def is_recent(name: str) -> bool:
        return name >= since and not in_future(name, now) and _began(name) is not None

    return _PATROLS.read(system, is_recent)


def set_aside_damaged(system: str, since_days: float) -> Iterator[str]:
    """Set the damaged journals of that time aside; say of each, and of one that cannot be read for
    now, what follows.
    """
    for lost in read(system, datetime.datetime.now(datetime.timezone.utc), since_days)[1]:
        aside = f"; set aside as {lost.set_aside()}" if lost.damaged else ""
        yield f"{lost.words}{aside}: what that patrol measured is measured again"


def ways(system: str, now: datetime.datetime, since_days: float) -> dict[Way, float]:
    """Way -> the days since a patrol last measured it. Patrols longer ago than `since_days` are not
    read.
    """
    days_by_way: dict[Way, float] = {}
    for patrol in read(system, now, since_days)[0]:
        moment = _began(patrol.id)
        assert moment is not None
        days = (now - moment).total_seconds() / 86400
        for way in patrol.ways:
            days_by_way[way] = min(days, days_by_way.get(way, days))
    return days_by_way


def across(system: str, now: datetime.datetime, since_days: float) -> set[str]:
    """The campaigns of patrols that measured across leaves."""
    patrols, _ = read(system, now, since_days)
    return {patrol.campaign for patrol in patrols if patrol.cover and patrol.campaign}


def _began(identifier: str) -> datetime.datetime | None:
    try:
        moment = datetime.datetime.strptime(identifier[:16], _STAMP)
    except ValueError:
        return None
    return moment.replace(tzinfo=datetime.timezone.utc)
