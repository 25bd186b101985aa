"""What a sweep's conductor left, and the places that it has added to those of the job."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from railgauge.checks.framework.cases import Case, PairCase
from railgauge.model.call import Call
from railgauge.node.transport import results_file


class AddedPlace(NamedTuple):
    """A place that the conductor has added, and the name of the planned one that it is like; and
    whether all else was quiet meanwhile, to tell load from a fault.
    """

    place: PairCase
    like: str
    quiet: bool


class SweepOutput(NamedTuple):
    """The conductor's record, empty where it did not begin. `added` are the places that it has
    added, by their numbers. `unreadable` says why the file cannot be read: then nothing counts.
    """

    recorded: results_file.Raw = results_file.Raw()
    added: Mapping[int, AddedPlace] = {}
    unreadable: str = ""


def read(path: Path, planned: Sequence[Case]) -> SweepOutput:
    """The output of a job of these places; an empty one where there is no file."""
    try:
        recorded = results_file.read(path)
        return SweepOutput(recorded, _added_places(planned, recorded.again))
    except FileNotFoundError:
        return SweepOutput()
    except (OSError, ValueError) as error:
        return SweepOutput(unreadable=str(error))


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
