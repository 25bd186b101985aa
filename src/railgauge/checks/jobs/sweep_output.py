"""What a sweep's conductor left, and the places that it has added to those of the job."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from railgauge.checks.framework.cases import Case, PairCase
from railgauge.checks.framework.observation import ExitLine
from railgauge.model.call import Call
from railgauge.node.transport import results_file
from railgauge.tools.common.lines import with_errors


class AddedPlace(NamedTuple):
    """A place that the conductor has added, and the name of the planned one that it is like; and
    whether all else was quiet meanwhile, to tell load from a fault.
    """

    place: PairCase
    like: str
    quiet: bool


class SweepOutput:
    """What the conductor of a job recorded of each place, empty where it did not begin.

    `planned` are the places of the job in the order of their numbers. `unreadable` says why the
    record cannot be read: then nothing counts. ValueError for a place that cannot have been added.
    """

    def __init__(
        self, planned: Sequence[Case], recorded: results_file.Raw, unreadable: str = ""
    ) -> None:
        self.recorded, self.unreadable = recorded, unreadable
        added = _added_places(planned, recorded.again)
        self._added = {one.place.place: one for one in added.values()}
        self._numbers = {place.place: number for number, place in enumerate(planned)}
        self._numbers.update({one.place.place: number for number, one in added.items()})

    @property
    def added(self) -> Sequence[AddedPlace]:
        """The places that the conductor has added."""
        return list(self._added.values())

    def added_as(self, place: Case) -> AddedPlace | None:
        """How a place was added; None for a planned one."""
        return self._added.get(place.place)

    def number(self, place: Case) -> int:
        """The number that the conductor has for a place of the job; -1 for another one."""
        return self._numbers.get(place.place, -1)

    def event(self, place: Case) -> results_file.Event | None:
        """How a place ended; None where nothing was recorded of it."""
        return self.recorded.places.get(self.number(place))

    def sides(self, place: Case) -> Mapping[str, results_file.Side]:
        """What each side of a place left, by its role."""
        return self.recorded.sides.get(self.number(place), {})

    def exit_line(self, place: Case, role: str) -> ExitLine | None:
        """The exit line of a side, None where it left none; ValueError where it is none."""
        side = self.sides(place).get(role)
        if side is None:
            return None
        call, facts = call_of(side.line), side.line.get("facts")
        if call is None or not isinstance(facts, dict):
            raise ValueError(f"{role} of {place.place}: not an exit line: {side.line}")
        return ExitLine(call, facts)

    def text(self, place: Case, file: str) -> str:
        """The text of a file that a side of a place left, or its launch; "" where there is none."""
        sides = self.sides(place)
        role, _, kind = file.rpartition(".")
        if role in sides and kind in ("out", "err"):
            found = sides[role].out if kind == "out" else sides[role].err
        else:
            found = next((side.files[file] for side in sides.values() if file in side.files), "")
        return found or str(self.launch(place).get("files", {}).get(file, ""))

    def launch(self, place: Case) -> results_file.Event:
        """The last launch that a group was in; empty of other places."""
        return self.recorded.launches.get(self.number(place), {})

    def printed(self, place: Case, role: str) -> str:
        """What a side printed, with the lines of its standard error marked."""
        return with_errors(self.text(place, f"{role}.out"), self.text(place, f"{role}.err"))


def read(path: Path, planned: Sequence[Case]) -> SweepOutput:
    """The output of a job of these places; an empty one where there is no file."""
    try:
        return SweepOutput(planned, results_file.read(path))
    except FileNotFoundError:
        return SweepOutput(planned, results_file.Raw())
    except (OSError, ValueError) as error:
        return SweepOutput(planned, results_file.Raw(), unreadable=str(error))


def _added_places(
    planned: Sequence[Case], added: Mapping[int, results_file.Added]
) -> dict[int, AddedPlace]:
    """The places that the conductor has added, by number; ValueError for an impossible one."""
    nodes = {node for place in planned for node in place.nodes}
    places = {}
    for number, (name, like, server, client, quiet) in added.items():
        original = planned[like] if 0 <= like < len(planned) else None
        if not isinstance(original, PairCase) or not {server, client} <= nodes or server == client:
            raise ValueError(f"place {number} is like {like}, with {server} and {client}")
        again = int(name.rpartition("@")[2])
        place = dataclasses.replace(original, server=server, client=client, again=again)
        if place.place != name:
            raise ValueError(f"place {number} is named {name}, expected {place.place}")
        places[number] = AddedPlace(place, original.place, quiet)
    return places


def call_of(line: Mapping[str, Any]) -> Call | None:
    """The tool's call of an exit line; None where it is none."""
    try:
        return Call(**line["call"])
    except (KeyError, TypeError):
        return None
