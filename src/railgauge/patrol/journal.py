"""What patrols did: one file each in the store, `patrols/<id>.json`."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator

import pydantic

from railgauge.cluster import store
from railgauge.patrol.choose import Way, ways_of

_STAMP = "%Y%m%dT%H%M%SZ"


@dataclasses.dataclass
class Patrol:
    """`leaves` are those of its nodes, as far as they are known; `cover`: each two of them met.

    `stopped` is why it broke off, "" where it came to its end; `found` says of each accused node
    what became of it, `not_tested` of each that was not measured, or not all of it, why.
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
    stopped: str = ""
    found: dict[str, str] = dataclasses.field(default_factory=dict)
    not_tested: dict[str, str] = dataclasses.field(default_factory=dict)
    ended: str | None = None
    exit_code: int | None = None

    def save(self) -> None:
        folder = store.folder(self.system) / "patrols"
        folder.mkdir(parents=True, exist_ok=True)
        store.write(folder / f"{self.id}.json", dataclasses.asdict(self))


_JOURNAL = pydantic.TypeAdapter(Patrol)


def ways(system: str, now: datetime.datetime, since_days: float) -> dict[Way, float]:
    """Of every two leaves that a patrol measured with each other: the days since the last time.

    Those longer ago than `since_days` are not looked for.
    """
    found: dict[Way, float] = {}
    for one in _read(system, now - datetime.timedelta(days=since_days)):
        if one.cover and one.ended is not None and not one.stopped:
            days = (now - _moment(one.id)).total_seconds() / 86400
            for way in ways_of(
                [leaf for leaf, of_it in one.leaves.items() if set(of_it) - set(one.not_tested)]
            ):
                found[way] = min(days, found.get(way, days))
    return found


def across(system: str, now: datetime.datetime, since_days: float) -> set[str]:
    """The campaigns of patrols whose nodes were all measured across leaves."""
    since = now - datetime.timedelta(days=since_days)
    return {one.campaign for one in _read(system, since) if one.cover and one.campaign}


def _read(system: str, since: datetime.datetime) -> Iterator[Patrol]:
    for path in sorted((store.folder(system) / "patrols").glob("*.json")):
        if path.stem[:16] < since.strftime(_STAMP):
            continue
        try:
            one = _JOURNAL.validate_json(path.read_bytes())
            _moment(one.id)
        except (OSError, ValueError):
            # Of one that cannot be read the ways are seen once more.
            continue
        yield one


def _moment(identifier: str) -> datetime.datetime:
    moment = datetime.datetime.strptime(identifier[:16], _STAMP)
    return moment.replace(tzinfo=datetime.timezone.utc)
