"""A sweep's own list, `sweep.json`: what is measured where, in which rounds, for how long at most.

    tool, nodes, names (node -> its other names), launch (srun's options), connect_limit_s
    rounds     lists of numbers of places; the places of a round share nothing
    places     {"name": "n1:n2", "program": "client_server", "order": 0,
                "roles": {"server": "n1", "client": "n2"}}
    orders     what client_server, file_transfer and single_node are told, but for the nodes
    retests    of pairs, when the rounds are over (locating/plan.py): so many `rounds` at
               most, by which share pairs are bad that are `slower` than their peers, `leaves`
               (node -> leaf), `routes` ([leaf, destination, spine] each), `before` (place -> what
               went there in an earlier campaign, Gb/s), and by which share of that a pair is bad
               that fell more than the others: `change`

Conductor and agents read the same file; between them only numbers of places go to and fro.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FILE = "sweep.json"

#: The roles of each program, the one first that is counted as rank 0.
ROLES = {
    "client_server": ("server", "client"),
    "file_transfer": ("server", "client"),
    "single_node": ("node",),
}

#: For what a node does before and after the tool, in a place's limit: describing its way, counters
#: that lag, buffers that drain, a server that ends after its client, exit lines.
MARGIN_S = 60.0

Spec = dict[str, Any]


class BadSweep(ValueError):
    """The list cannot be meant; the text says where, what is there and what was expected."""


class Place(NamedTuple):
    """One entry of the list; those with the same `of` are under one condition."""

    number: int
    name: str
    program: str
    roles: dict[str, str]
    order: int
    of: int = 0


class Retests(NamedTuple):
    """How pairs are measured again once all rounds are over."""

    rounds: int = 0
    slower: float = 0.0
    leaves: Mapping[str, str] = {}
    routes: Sequence[Sequence[str]] = ()
    before: Mapping[str, float] = {}
    change: float = 0.0


class Sweep(NamedTuple):
    """All of the list. Places and rounds are added where pairs are measured again."""

    tool: str
    nodes: tuple[str, ...]
    names: dict[str, list[str]]
    launch: tuple[str, ...]
    rounds: list[tuple[int, ...]]
    places: dict[int, Place]
    orders: tuple[Spec, ...]
    connect_limit_s: float
    retests: Retests = Retests()
    #: once this file has something in it, no round more is begun, and what runs is ended
    enough: str = ""

    def again(self, index: int, like: int, server: str, client: str) -> Place:
        """The place `like` with other nodes, added as number `index`; BadSweep where it cannot be:
        nothing else of the list changes.
        """
        known = self.places.get(like)
        if known is None or set(known.roles) != {"server", "client"} or not self.retests.rounds:
            raise BadSweep(f"place {like} is not one to be measured again")
        if (
            index < 0
            or index in self.places
            or server == client
            or not {server, client} <= set(self.nodes)
        ):
            raise BadSweep(f"place {index} of {server} and {client} cannot be added")
        roles = {"server": server, "client": client}
        place = known._replace(number=index, roles=roles)
        self.places[index] = place
        return place

    def spec(self, index: int) -> Spec:
        """What the sides of a place are told, with their nodes."""
        place = self.places[index]
        hosts = {f"{role}_host": node for role, node in place.roles.items()}
        return {"tool": self.tool, "names": self.names, **self.orders[place.order], **hosts}

    def prepare_limit_s(self, index: int) -> float:
        """From the order to prepare until a side is prepared."""
        order = self.orders[self.places[index].order]
        files_s = order.get("transfer", {}).get("prepare_limit_s", 0)
        return float(order.get("start_limit_s", 0)) + float(files_s) + MARGIN_S

    def run_limit_s(self, index: int) -> float:
        """From the order to go until both sides have ended."""
        order = self.orders[self.places[index].order]
        # What arrived is verified in as long as it was made.
        files_s = order.get("transfer", {}).get("prepare_limit_s", 0)
        start_s = float(order.get("start_limit_s", 0))
        run_s = float(order["run_limit_s"]) + float(files_s)
        once = start_s + run_s + MARGIN_S
        return once * (1 + ("least_gbits" in order) + ("unmeasured" in order))

    def is_prepared_early(self, index: int) -> bool:
        """Whether its servers may start while the round before still runs: not where they make
        files, or change the way.
        """
        place = self.places[index]
        return place.program != "file_transfer" and not self.orders[place.order].get("wan")

    def most_on_a_node(self) -> int:
        """How many sides run on one node at once at most: of a round, and of the one after it."""
        busiest = [0, 0]
        for one in self.rounds:
            counts: dict[str, int] = {}
            for index in one:
                for node in self.places[index].roles.values():
                    ways = len(self.orders[self.places[index].order].get("ways", [None]))
                    counts[node] = counts.get(node, 0) + ways
            busiest.append(max(counts.values(), default=0))
        return max(a + b for a, b in zip(busiest, busiest[1:]))


def read(path: str | Path) -> Sweep:
    """The list in a file; BadSweep where it cannot be meant, OSError where it cannot be read."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        return _sweep(document)
    except BadSweep as error:
        raise BadSweep(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadSweep(f"{path}: not a sweep: {type(error).__name__} {error}") from None


def names(path: str | Path) -> list[str]:
    """Those of the places, by their numbers, also of a list of launches (group_launches.py);
    BadSweep and OSError as of `read`.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        return [str(place["name"]) for place in document["places"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadSweep(f"{path}: not a sweep: {type(error).__name__} {error}") from None


def _sweep(document: dict[str, Any]) -> Sweep:
    sweep = Sweep(
        str(document["tool"]),
        tuple(document["nodes"]),
        dict(document.get("names", {})),
        tuple(document.get("launch", ())),
        [tuple(one) for one in document["rounds"]],
        {index: Place(index, **one) for index, one in enumerate(document["places"])},
        tuple(document["orders"]),
        float(document.get("connect_limit_s", 60)),
        Retests(**document.get("retests", {})),
        str(document.get("enough", "")),
    )
    nodes = frozenset(sweep.nodes)
    for place in sweep.places.values():
        expected = ROLES.get(place.program)
        if expected is None or sorted(place.roles) != sorted(expected):
            known = "; ".join(f"{name}: {', '.join(roles)}" for name, roles in ROLES.items())
            raise BadSweep(
                f"place {place.number} is {place.program} with the roles "
                f"{', '.join(sorted(place.roles)) or 'none'}, expected one of {known}"
            )
        strange = sorted(set(place.roles.values()) - nodes)
        if strange:
            raise BadSweep(f"place {place.number} is on {', '.join(strange)}, not in `nodes`")
        if not 0 <= place.order < len(sweep.orders):
            orders = len(sweep.orders)
            raise BadSweep(f"place {place.number} has order {place.order}, and there are {orders}")
    measured = [index for one in sweep.rounds for index in one]
    if sorted(measured) != list(range(len(sweep.places))):
        raise BadSweep("its rounds do not have every place once")
    return sweep
