"""A sweep's own list, `sweep.json`: what is measured where, in which rounds, for how long at most.

    tool, nodes, names (node -> its other names), launch (srun's options), connect_limit_s
    rounds     lists of numbers of places; the places of a round share nothing
    places     {"name": "n1:n2", "program": "client_server", "order": 0,
                "roles": {"server": "n1", "client": "n2"}}
    orders     of node/orders/places.py: one by the program of the places that name it
    retests    of pairs, when the rounds are over (locating/plan.py): so many `rounds` at
               most, by which share pairs are bad that are `slower` than their peers, `leaves`
               (node -> leaf), `hcas` ([GUID, leaf, LID] each), `routes` ([leaf, spine up, spine
               down, GUIDs of destinations] each), `spines` ([leaf, source or "", destination,
               spine] each), `before` (place -> what went there in an earlier
               campaign, Gb/s), and by which share of that a pair is bad that fell more than the
               others: `change`

Conductor and agents read the same file; between them only numbers of places go to and fro.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union

from railgauge.node.orders.codec import OrderError
from railgauge.node.orders.places import ClientServerOrder, PlaceOrder, SingleNodeOrder

FILE = "sweep.json"

_PlaceOrder = Union[ClientServerOrder, SingleNodeOrder]

#: The kind of order of each program.
ORDERS: Mapping[str, type[_PlaceOrder]] = {
    "client_server": ClientServerOrder,
    "file_transfer": ClientServerOrder,
    "single_node": SingleNodeOrder,
    "gpu_links": SingleNodeOrder,
}

#: The roles of each program, the one first that is counted as rank 0.
ROLES = {
    "client_server": ("server", "client"),
    "file_transfer": ("server", "client"),
    "single_node": ("node",),
    "gpu_links": ("node",),
}

#: For what a node does before and after the tool, in a place's limit: describing its way, counters
#: that lag, buffers that drain, a server that ends after its client, exit lines.
MARGIN_S = 60.0


class SweepError(ValueError):
    """The list cannot be meant; the text says where, what is there and what was expected."""


class Place(NamedTuple):
    """One entry of the list; those with the same `of` are under one condition."""

    number: int
    name: str
    program: str
    roles: Mapping[str, str]
    order: int
    of: int = 0


class Retests(NamedTuple):
    """How pairs are measured again once all rounds are over."""

    rounds: int = 0
    slower: float = 0.0
    leaves: Mapping[str, str] = {}
    hcas: Sequence[tuple[int, str, int]] = ()
    routes: Sequence[tuple[str, str, str, Sequence[int]]] = ()
    spines: Sequence[Sequence[str]] = ()
    before: Mapping[str, float] = {}
    change: float = 0.0


class Sweep(NamedTuple):
    """All of the list. Places and rounds are added where pairs are measured again."""

    tool: str
    nodes: tuple[str, ...]
    names: Mapping[str, tuple[str, ...]]
    launch: tuple[str, ...]
    rounds: list[tuple[int, ...]]
    places: dict[int, Place]
    orders: tuple[_PlaceOrder, ...]
    connect_limit_s: float
    retests: Retests = Retests()
    #: once this file has something in it, no round more is begun, and what runs is ended
    enough: str = ""

    def again(self, index: int, like: int, server: str, client: str) -> Place:
        """The place `like` with other nodes, added as number `index`; SweepError where it cannot
        be: nothing else of the list changes.
        """
        known = self.places.get(like)
        if known is None or set(known.roles) != {"server", "client"} or not self.retests.rounds:
            raise SweepError(f"place {like} is not one to be measured again")
        if (
            index < 0
            or index in self.places
            or server == client
            or not {server, client} <= set(self.nodes)
        ):
            raise SweepError(f"place {index} of {server} and {client} cannot be added")
        roles = {"server": server, "client": client}
        place = known._replace(number=index, roles=roles)
        self.places[index] = place
        return place

    def place_order(self, index: int) -> PlaceOrder[Any]:
        """The order of the sides of a place, with their nodes."""
        place = self.places[index]
        return PlaceOrder(self.tool, self.names, place.roles, self.orders[place.order])

    def pair_order(self, index: int) -> ClientServerOrder | None:
        """The order of a place of a pair; None for a place of one node."""
        order = self.orders[self.places[index].order]
        return order if isinstance(order, ClientServerOrder) else None

    def prepare_limit_s(self, index: int) -> float:
        """From the order to prepare until a side is prepared."""
        order = self.pair_order(index)
        return MARGIN_S if order is None else order.start_limit_s + _files_s(order) + MARGIN_S

    def run_limit_s(self, index: int) -> float:
        """From the order to go until both sides have ended."""
        place = self.places[index]
        order = self.pair_order(index)
        if order is None:
            return self.orders[place.order].run_limit_s + MARGIN_S
        # What arrived is verified in as long as it was made.
        once = order.start_limit_s + order.run_limit_s + _files_s(order) + MARGIN_S
        return once * (1 + (order.least_gbits is not None) + (order.unmeasured is not None))

    def is_prepared_early(self, index: int) -> bool:
        """Whether its servers may start while the round before still runs: not where they make
        files, or change the way.
        """
        order = self.pair_order(index)
        return order is None or (order.transfer is None and order.wan is None)

    def most_on_a_node(self) -> int:
        """How many sides run on one node at once at most: of a round, and of the one after it."""
        busiest = [0, 0]
        for one in self.rounds:
            counts: dict[str, int] = {}
            for index in one:
                order = self.pair_order(index)
                links = len(order.links) if order else 0
                for node in self.places[index].roles.values():
                    counts[node] = counts.get(node, 0) + (links or 1)
            busiest.append(max(counts.values(), default=0))
        return max(a + b for a, b in zip(busiest, busiest[1:]))

    def document(self) -> dict[str, Any]:
        """The list as JSON has it."""
        retests = {
            n: v for n, v in self.retests._asdict().items() if v or n in ("rounds", "slower")
        }
        return {
            "tool": self.tool,
            "nodes": list(self.nodes),
            "names": self.names,
            "launch": list(self.launch),
            "rounds": [list(one) for one in self.rounds],
            "places": [_entry(place) for _, place in sorted(self.places.items())],
            "orders": [order.document() for order in self.orders],
            "connect_limit_s": self.connect_limit_s,
            **({"enough": self.enough} if self.enough else {}),
            **({"retests": retests} if self.retests.rounds else {}),
        }


def _entry(place: Place) -> dict[str, Any]:
    return {n: value for n, value in place._asdict().items() if n != "number"}


def _files_s(order: ClientServerOrder) -> float:
    return order.transfer.prepare_limit_s if order.transfer else 0.0


def read(path: str | Path) -> Sweep:
    """The list in a file; SweepError where it cannot be meant, OSError where it cannot be read."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        return _sweep(document)
    except (SweepError, OrderError) as error:
        raise SweepError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SweepError(f"{path}: not a sweep: {type(error).__name__} {error}") from None


def names(path: str | Path) -> list[str]:
    """Those of the places, by their numbers, also of a list of launches (group_launches.py);
    SweepError and OSError as of `read`.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        return [str(place["name"]) for place in document["places"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SweepError(f"{path}: not a sweep: {type(error).__name__} {error}") from None


def _sweep(document: dict[str, Any]) -> Sweep:
    if unknown := [name for name in document if name not in Sweep._fields]:
        keys = ", ".join(Sweep._fields)
        raise SweepError(f"unknown key {', '.join(unknown)}, expected one of {keys}")
    places = {index: Place(index, **one) for index, one in enumerate(document["places"])}
    nodes = frozenset(document["nodes"])
    for place in places.values():
        _check_place(place, nodes, len(document["orders"]))
    programs = {place.order: place.program for place in places.values()}
    unused = [number for number in range(len(document["orders"])) if number not in programs]
    if unused:
        raise SweepError(f"order {unused[0]} is of no place")
    sweep = Sweep(
        str(document["tool"]),
        tuple(document["nodes"]),
        {node: tuple(others) for node, others in document.get("names", {}).items()},
        tuple(document.get("launch", ())),
        [tuple(one) for one in document["rounds"]],
        places,
        tuple(
            ORDERS[programs[number]].read(order, f"order {number}")
            for number, order in enumerate(document["orders"])
        ),
        float(document.get("connect_limit_s", 60)),
        Retests(**document.get("retests", {})),
        str(document.get("enough", "")),
    )
    measured = [index for one in sweep.rounds for index in one]
    if sorted(measured) != list(range(len(sweep.places))):
        raise SweepError("its rounds do not have every place once")
    return sweep


def _check_place(place: Place, nodes: frozenset[str], orders: int) -> None:
    expected = ROLES.get(place.program)
    if expected is None or sorted(place.roles) != sorted(expected):
        known = "; ".join(f"{name}: {', '.join(roles)}" for name, roles in ROLES.items())
        raise SweepError(
            f"place {place.number} is {place.program} with the roles "
            f"{', '.join(sorted(place.roles)) or 'none'}, expected one of {known}"
        )
    strange = sorted(set(place.roles.values()) - nodes)
    if strange:
        raise SweepError(f"place {place.number} is on {', '.join(strange)}, not in `nodes`")
    if not 0 <= place.order < orders:
        raise SweepError(f"place {place.number} has order {place.order}, and there are {orders}")
