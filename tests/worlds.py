"""Simulated worlds, against which the location of faults is held: fabric, faults, noise, schedule.

A world is drawn from a seed and knows what is at fault in it. It knows nothing of how `locate`
decides: it measures the places that it is asked for, and says afterwards which of the parts that
were confirmed are innocent (`World.innocents`) and which of those at fault were named.

A result is 100, times what the worst part on its way leaves of it (1: whole, 0: the run fails),
times one plus noise with a standard deviation of 1 %. Data flow from the sender's leaf up to a
spine and down to the receiver's leaf; within a leaf they pass no spine. Losses are shares.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from railgauge import locating
from railgauge.locating import End, Evidence, Located, Result, Suspect, locate
from railgauge.locating.plan import next_round

#: (leaf, name of the receiver), or (leaf, name of the sender, name of the receiver) -> spine
Routes = Mapping[tuple[str, ...], str]
Place = tuple[End, End]


class Judge:
    """The locator, fed round by round."""

    def __init__(
        self, leaves: Mapping[End, str] | None, directed: bool, routes: Routes | None = None
    ) -> None:
        tables = locating.Routes(routes) if routes else None
        self.evidence = Evidence(leaves, directed=directed, routes=tables)
        self._located: Located | None = None

    def add(self, results: Iterable[Result]) -> None:
        self._located = None
        self.evidence.add(results)

    def suspects(self) -> tuple[Suspect, ...]:
        return self._locate().suspects

    def next_round(self, ends: Sequence[End], number: int) -> list[Place]:
        """The places that the planner wants next, sender first."""
        return next_round(self.evidence, self._locate(), ends, number)

    def _locate(self) -> Located:
        if self._located is None:
            self._located = locate(self.evidence)
        return self._located


# ---- chance ----

RATE = 100.0
SPREAD = 0.01
#: Two parts that have each half of a variance.
_HALF = math.sqrt(0.5)
_MASK = (1 << 64) - 1

Noise = Literal["normal", "heavy", "correlated"]
NOISES: tuple[Noise, ...] = ("normal", "heavy", "correlated")


def mix(*numbers: int) -> int:
    """64 bits that depend on the numbers alone: what a switch hashes, what is so for good."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state ^ number) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state


def share_of(*numbers: int) -> float:
    """A number from 0 to 1 that depends on the numbers alone."""
    return mix(*numbers) / 2.0**64


def loss_by(u: float, fails: float = 0.08) -> float:
    """The loss that belongs to a number from 0 to 1: 5 % to 30 % in half of all cases, up to 97 %
    in the others, and 1 (the run fails) in a share of `fails`.
    """
    if u < fails:
        return 1.0
    u = (u - fails) / (1 - fails)
    return 0.05 + 0.5 * u if u < 0.5 else 0.3 + 1.34 * (u - 0.5)


def heavy(chance: random.Random) -> float:
    """Student's t of three degrees, with a standard deviation of 1."""
    squares = sum(chance.gauss(0, 1) ** 2 for _ in range(3))
    return chance.gauss(0, 1) / math.sqrt(squares)


# ---- routes ----


class Routing(Protocol):
    """Which spine a run takes, and whether that is the same for a sender and receiver each time."""

    @property
    def spines(self) -> int: ...
    @property
    def static(self) -> bool: ...

    def spine(self, sender: int, receiver: int, leaf: int, chance: random.Random) -> int: ...


@dataclasses.dataclass(frozen=True)
class ByDestination:
    """A table in every leaf, as on InfiniBand: receiver -> spine. `seed` 0: the receiver's number
    modulo the spines at all leaves, otherwise another table at each.
    """

    spines: int
    seed: int = 0
    static: bool = True

    def spine(self, sender: int, receiver: int, leaf: int, chance: random.Random) -> int:
        if self.seed:
            return mix(self.seed, leaf, receiver) % self.spines
        return receiver % self.spines


@dataclasses.dataclass(frozen=True)
class ByFlow:
    """ECMP whose hash of sender and receiver is the same each time."""

    spines: int
    seed: int
    static: bool = True

    def spine(self, sender: int, receiver: int, leaf: int, chance: random.Random) -> int:
        return mix(self.seed, sender, receiver) % self.spines


@dataclasses.dataclass(frozen=True)
class ByRun:
    """ECMP with other ports in every run."""

    spines: int
    static: bool = False

    def spine(self, sender: int, receiver: int, leaf: int, chance: random.Random) -> int:
        return chance.randrange(self.spines)


# ---- faults ----


class Run(NamedTuple):
    """Numbers of the ends and of their leaves; spine -1 within a leaf."""

    sender: int
    receiver: int
    leaf_of_sender: int
    leaf_of_receiver: int
    spine: int
    round: int


class Link(NamedTuple):
    """A leaf's link with a spine, one way: "up" to the spine, "down" to the leaf."""

    leaf: int
    spine: int
    direction: Literal["up", "down"]


class Fault(Protocol):
    def left(self, run: Run, chance: random.Random) -> float:
        """What is left of a run: 1 all, 0 it fails."""

    def blames(self, run: Run) -> bool:
        """Whether sender and receiver are bad with each other for good (or at times, the same)."""


@dataclasses.dataclass(frozen=True)
class Ends:
    """Bad ends, with their losses: in one part or both, in a share of the runs, with a share of
    their partners, always the same ones.
    """

    losses: Mapping[int, float]
    part: Literal["both", "sender", "receiver"] = "both"
    share: float = 1.0
    partners: float = 1.0
    seed: int = 0

    def left(self, run: Run, chance: random.Random) -> float:
        left = 1.0
        for end, other, part in _parts(run):
            loss = self.losses.get(end)
            if loss is None or self.part not in ("both", part):
                continue
            if self.partners < 1 and share_of(self.seed, end, other) >= self.partners:
                continue
            if self.share == 1 or chance.random() < self.share:
                left = min(left, 1 - loss)
        return left

    def blames(self, run: Run) -> bool:
        return any(end in self.losses for end in run[:2])


def _parts(run: Run) -> tuple[tuple[int, int, str], tuple[int, int, str]]:
    return (run.sender, run.receiver, "sender"), (run.receiver, run.sender, "receiver")


@dataclasses.dataclass(frozen=True)
class Pairs:
    """A share of all pairs of ends is bad in every run; `ordered`: each way for itself."""

    share: float
    ordered: bool
    seed: int

    def left(self, run: Run, chance: random.Random) -> float:
        a, b = self._key(run)
        if share_of(self.seed, a, b) >= self.share:
            return 1.0
        return 1 - loss_by(share_of(self.seed, b, a, 1))

    def blames(self, run: Run) -> bool:
        return share_of(self.seed, *self._key(run)) < self.share

    def _key(self, run: Run) -> tuple[int, int]:
        ends = run.sender, run.receiver
        return ends if self.ordered or ends[0] < ends[1] else (ends[1], ends[0])


@dataclasses.dataclass(frozen=True)
class FewPairs:
    """These pairs are bad both ways, in a share of the runs."""

    losses: Mapping[frozenset[int], float]
    share: float = 1.0

    def left(self, run: Run, chance: random.Random) -> float:
        loss = self.losses.get(frozenset(run[:2]))
        if loss is None or (self.share < 1 and chance.random() >= self.share):
            return 1.0
        return 1 - loss

    def blames(self, run: Run) -> bool:
        return frozenset(run[:2]) in self.losses


@dataclasses.dataclass(frozen=True)
class Links:
    """Bad links. `static`: a pair that takes one takes it each time. `of_spine`: they are all those
    of one spine, whose leaves are not to be named.
    """

    losses: Mapping[Link, float]
    static: bool
    share: float = 1.0
    of_spine: bool = False

    def left(self, run: Run, chance: random.Random) -> float:
        loss = self._loss(run)
        if loss == 0 or (self.share < 1 and chance.random() >= self.share):
            return 1.0
        return 1 - loss

    def blames(self, run: Run) -> bool:
        return self.static and self._loss(run) > 0

    def _loss(self, run: Run) -> float:
        if run.spine < 0:
            return 0.0
        up = self.losses.get(Link(run.leaf_of_sender, run.spine, "up"), 0.0)
        return max(up, self.losses.get(Link(run.leaf_of_receiver, run.spine, "down"), 0.0))


@dataclasses.dataclass(frozen=True)
class AtRandom:
    """Of all runs (of these rounds) a share fails or halves by itself: no node is at fault."""

    share: float
    loss: float
    rounds: frozenset[int] | None = None

    def left(self, run: Run, chance: random.Random) -> float:
        if self.rounds is not None and run.round not in self.rounds:
            return 1.0
        return 1 - self.loss if chance.random() < self.share else 1.0

    def blames(self, run: Run) -> bool:
        return False


@dataclasses.dataclass(frozen=True)
class InRound:
    """(leaf, or -1 for all, and round) -> what each of its runs loses: no node is at fault."""

    losses: Mapping[tuple[int, int], float]

    def left(self, run: Run, chance: random.Random) -> float:
        leaves = -1, run.leaf_of_sender, run.leaf_of_receiver
        return 1 - max(self.losses.get((leaf, run.round), 0.0) for leaf in leaves)

    def blames(self, run: Run) -> bool:
        return False


# ---- a world ----

#: Whether a result is of data that flow from its sender to its receiver, of such of which nothing
#: says which one sent, or of data that flow both ways at once.
Flow = Literal["directed", "unknown", "both"]
Plan = Literal["adaptive", "ring", "random", "every pair"]
#: kind, and what it is: a name, two nodes, a link
Part = tuple[str, Any]


@dataclasses.dataclass
class World:
    """One simulated cluster and the campaign that measures it.

    `carries`: so many flows at once go through a link without loss; more share its rate, unevenly.
    0: links carry all flows.

    `known`: the locator is told the leaves, `routed`: and the routes. `plan`: the rounds of the
    locator's planner, the same after two rounds of neighbours, random ones, or every pair.
    `by_repeat`: all results of one pass over every pair have the same round number.
    """

    ends: tuple[End, ...]
    #: the leaf of each end
    leaf: tuple[int, ...]
    routing: Routing
    seed: int
    faults: list[Fault] = dataclasses.field(default_factory=list)
    flow: Flow = "directed"
    known: bool = True
    routed: bool = False
    noise: Noise = "normal"
    plan: Plan = "adaptive"
    rounds: int = 12
    by_repeat: bool = False
    carries: int = 0
    #: the parts at fault that are to be named
    wanted: list[Part] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.index = {end: number for number, end in enumerate(self.ends)}
        self._shift: dict[tuple[int, int], float] = {}

    @functools.cached_property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(end.node for end in self.ends))

    @functools.cached_property
    def leaves(self) -> dict[End, str]:
        return {end: f"leaf{leaf}" for end, leaf in zip(self.ends, self.leaf, strict=True)}

    @functools.cached_property
    def number_of(self) -> dict[str, int]:
        return {node: number for number, node in enumerate(self.nodes)}

    @functools.cached_property
    def routes(self) -> Routes:
        """Of every leaf to every end, or of every end to every other where the sender counts."""
        spine, chance = self.routing.spine, self.chance
        names = [end.name for end in self.ends]
        leaves = [f"leaf{leaf}" for leaf in self.leaf]
        if isinstance(self.routing, ByDestination):
            return {
                (f"leaf{leaf}", name): f"spine{spine(-1, receiver, leaf, chance)}"
                for leaf in sorted(set(self.leaf))
                for receiver, name in enumerate(names)
            }
        return {
            (leaves[a], names[a], names[b]): f"spine{spine(a, b, self.leaf[a], chance)}"
            for a, b in itertools.permutations(range(len(names)), 2)
        }

    def judge(self) -> Judge:
        return Judge(
            self.leaves if self.known else None,
            self.flow == "directed",
            self.routes if self.known and self.routed else None,
        )

    # ---- measuring ----

    def measure(self, places: Iterable[Place], number: int) -> list[Result]:
        """A result of each place (sender, receiver); the round is `number` from 0."""
        results = []
        label = number // self.rounds_a_pass if self.by_repeat else number
        places = list(places)
        flows = self._flows(places) if self.carries else Counter[Link]()
        for sender, receiver in places:
            s, r = self.index[sender], self.index[receiver]
            left = self._left(s, r, number)
            if self.flow == "both":
                left = min(left, self._left(r, s, number))
            if self.carries:
                most = max((flows[link] for link in self._links(s, r)), default=0)
                if most > self.carries:
                    left = min(left, self.carries / most * self.chance.uniform(0.6, 1.2))
            value = RATE * left * (1 + self._noise(s, r, number)) if left > 0 else None
            if value is not None:
                value = max(value, 0.001)
            if self.flow == "unknown" and self.chance.random() < 0.5:
                sender, receiver = receiver, sender
            results.append(Result(sender, receiver, value, label))
        return results

    def _links(self, sender: int, receiver: int) -> tuple[Link, ...]:
        run = self.run(sender, receiver)
        if run.spine < 0:
            return ()
        up = Link(run.leaf_of_sender, run.spine, "up")
        return up, Link(run.leaf_of_receiver, run.spine, "down")

    def _flows(self, places: Iterable[Place]) -> Counter[Link]:
        """How many flows take each link at once; routes are static."""
        ends = ((self.index[a], self.index[b]) for a, b in places)
        return Counter(link for a, b in ends for link in self._links(a, b))

    def run(self, sender: int, receiver: int, number: int = 0) -> Run:
        up, down = self.leaf[sender], self.leaf[receiver]
        spine = -1 if up == down else self.routing.spine(sender, receiver, up, self.chance)
        return Run(sender, receiver, up, down, spine, number)

    def _left(self, sender: int, receiver: int, number: int) -> float:
        if not self.faults:
            return 1.0
        run = self.run(sender, receiver, number)
        return min(fault.left(run, self.chance) for fault in self.faults)

    def _noise(self, sender: int, receiver: int, number: int) -> float:
        """What is heavy, or shared by the leaf's results of a round, has the same deviation."""
        if self.noise == "heavy":
            return SPREAD * heavy(self.chance)
        own = self.chance.gauss(0, 1)
        if self.noise == "normal":
            return SPREAD * own
        up, down = self.leaf[sender], self.leaf[receiver]
        shared = self._shared(up, number)
        if up != down:
            shared = (shared + self._shared(down, number)) * _HALF
        return SPREAD * _HALF * (own + shared)

    def _shared(self, leaf: int, number: int) -> float:
        if (leaf, number) not in self._shift:
            drawn = random.Random(mix(self.seed, leaf, number))
            self._shift[leaf, number] = drawn.gauss(0, 1)
        return self._shift[leaf, number]

    # ---- schedules ----

    def idle(self, places: Sequence[Place]) -> int:
        """How many ends have no partner; ValueError where one has two, or none of another node."""
        busy = [end for place in places for end in place]
        if len(set(busy)) < len(busy) or not self.index.keys() >= set(busy):
            raise ValueError(f"an end twice, or an unknown one, in {places}")
        if any(a.node == b.node for a, b in places):
            raise ValueError(f"a node with itself in {places}")
        return len(self.ends) - len(busy)

    @property
    def rounds_a_pass(self) -> int:
        """Rounds in which every two nodes meet once."""
        return len(self.nodes) - 1 + len(self.nodes) % 2

    def places(self, number: int, judge: Judge) -> list[Place]:
        """Those of round `number`, from 0."""
        if self.plan == "random":
            return self._at_random(number)
        if self.plan == "every pair":
            return self.of_nodes(self._tournament(number))
        if self.plan == "ring" and number < 2:
            turned = self.nodes[number:] + self.nodes[:number]
            return self.of_nodes(zip(turned[::2], turned[1::2], strict=False))
        return judge.next_round(self.ends, number)

    def is_judged(self, number: int) -> bool:
        """Whether it is asked who is at fault after round `number`: for adaptive rounds always, of
        others that are many now and then, and at the end.
        """
        if self.plan in ("adaptive", "ring") or number + 1 == self.rounds:
            return True
        if self.plan == "every pair":
            return (number + 1) % self.rounds_a_pass in (0, 3, self.rounds_a_pass // 2)
        return len(self.ends) <= 64 or number + 1 in (1, 2, 3, 5, 8, 13, 21)

    def of_nodes(self, pairs: Iterable[tuple[str, str]]) -> list[Place]:
        """All rails of these nodes, sender first."""
        rails = list(dict.fromkeys(end.rail for end in self.ends))
        return [(End(a, rail), End(b, rail)) for a, b in pairs for rail in rails]

    def _at_random(self, number: int) -> list[Place]:
        """Half of all worlds with rails pair each rail for itself."""
        drawn = random.Random(mix(self.seed, 77, number))
        rails = list(dict.fromkeys(end.rail for end in self.ends))
        nodes = list(self.nodes)
        drawn.shuffle(nodes)
        places: list[Place] = []
        for rail in rails:
            if self.seed % 2:
                drawn.shuffle(nodes)
            pairs = zip(nodes[::2], nodes[1::2], strict=False)
            places += [(End(a, rail), End(b, rail)) for a, b in pairs]
        return places

    def _tournament(self, number: int) -> Iterator[tuple[str, str]]:
        """The circle method; the sender is drawn, and in the next pass it is the other one."""
        row: list[str | None] = [*self.nodes, *([None] if len(self.nodes) % 2 else [])]
        turn = number % (len(row) - 1)
        row = [row[0], *row[1 + turn :], *row[1 : 1 + turn]]
        again = number // (len(row) - 1) % 2
        for a, b in zip(row[: len(row) // 2], reversed(row), strict=False):
            if a is not None and b is not None:
                low, high = sorted((self.number_of[a], self.number_of[b]))
                turned = mix(self.seed, low, high) % 2 != again
                yield (
                    (self.nodes[high], self.nodes[low])
                    if turned
                    else (self.nodes[low], self.nodes[high])
                )

    # ---- the truth ----

    @functools.cached_property
    def bad(self) -> set[End]:
        faults = [fault for fault in self.faults if isinstance(fault, Ends)]
        return {self.ends[place] for fault in faults for place in fault.losses}

    @functools.cached_property
    def bad_nodes(self) -> set[str]:
        """Those of which half of the rails are bad, or more."""
        ends: dict[str, list[bool]] = {}
        for end in self.ends:
            ends.setdefault(end.node, []).append(end in self.bad)
        return {node for node, bad in ends.items() if 2 * sum(bad) >= len(bad)}

    @functools.cached_property
    def bad_links(self) -> set[Link]:
        return {f for fault in self.faults if isinstance(fault, Links) for f in fault.losses}

    def want_ends(self) -> None:
        """The bad nodes are to be named, and of others the bad rails."""
        self.wanted += [("node", node) for node in self.nodes if node in self.bad_nodes]
        rails = [end for end in self.ends if end in self.bad and end.node not in self.bad_nodes]
        self.wanted += [("rail", end.name) for end in rails]

    def innocents(self, suspects: Iterable[Suspect]) -> tuple[list[str], list[str]]:
        """Of the confirmed suspects the innocent nodes and rails, and the other innocents."""
        ends: list[str] = []
        others: list[str] = []
        for suspect in suspects:
            if suspect.confirmed and not self._is_true(suspect):
                mine = suspect.kind in ("node", "rail")
                label = f"{suspect.kind} {suspect.name} {suspect.direction}".strip()
                (ends if mine else others).append(label)
        return ends, others

    def _is_true(self, suspect: Suspect) -> bool:
        if suspect.kind == "node":
            return suspect.name in self.bad_nodes
        if suspect.kind == "rail":
            bad = suspect.name in {end.name for end in self.bad}
            return bad or suspect.name.partition(":")[0] in self.bad_nodes
        if suspect.kind == "pair":
            return self._is_bad_pair(suspect)
        if suspect.kind in ("leaf", "uplink"):
            return any(self._is_link(suspect, link) for link in self.bad_links)
        return not self.bad_nodes.isdisjoint(suspect.nodes)

    def _is_bad_pair(self, suspect: Suspect) -> bool:
        """Whether any two of its ends are bad with each other, one way or the other."""
        ends = [self.index[end] for end in suspect.ends if end in self.index]
        if not ends:
            ends = [place for end, place in self.index.items() if end.node in suspect.nodes]
        return any(
            fault.blames(self.run(a, b))
            for a, b in itertools.permutations(ends, 2)
            if self.ends[a].node != self.ends[b].node and self.ends[a].rail == self.ends[b].rail
            for fault in self.faults
        )

    def _is_link(self, suspect: Suspect, link: Link) -> bool:
        """A leaf's name alone is that of any of its links, and no direction is any."""
        if suspect.direction not in ("", link.direction):
            return False
        spine = f"spine{link.spine}"
        return suspect.name in (f"leaf{link.leaf}", f"leaf{link.leaf}:{spine}", spine)

    def is_named(self, part: Part, suspects: Sequence[Suspect]) -> bool:
        kind, what = part
        if kind == "node":
            rails = {("rail", end.name) for end in self.ends if end.node == what}
            named = {(suspect.kind, suspect.name) for suspect in suspects}
            return part in named or (len(rails) > 1 and rails <= named)
        if kind == "link":
            fabric = [s for s in suspects if s.kind in ("leaf", "uplink")]
            return any(self._is_link(suspect, what) for suspect in fabric)
        if kind == "pair":
            return any(s.kind == "pair" and set(s.nodes) == what for s in suspects)
        return any((suspect.kind, suspect.name) == part for suspect in suspects)


# ---- drawing worlds ----

Make = Callable[[random.Random], World]


def cluster(
    chance: random.Random,
    nodes: int,
    per_leaf: int = 8,
    routing: Routing | None = None,
    rails: int = 1,
    by_rail: bool = False,
) -> World:
    """A cluster without faults. `by_rail`: the rails of a node are at leaves of their own."""
    names = [f"n{node:0{len(str(nodes - 1))}}" for node in range(nodes)]
    ends, leaf = [], []
    for node, name in enumerate(names):
        for rail in range(rails):
            ends.append(End(name, f"mlx5_{rail}" if rails > 1 else None))
            leaf.append(node // per_leaf * (rails if by_rail else 1) + (rail if by_rail else 0))
    world = World(tuple(ends), tuple(leaf), routing or ByRun(8), chance.randrange(2**60))
    world.noise = chance.choice(NOISES)
    return world


def _any_flow(chance: random.Random, world: World) -> None:
    flows: tuple[Flow, ...] = ("directed", "directed", "unknown", "both")
    world.flow = chance.choice(flows)
    world.known = chance.random() < 0.5


def _loss(chance: random.Random) -> float:
    return loss_by(chance.random())


def _add_bad(chance: random.Random, world: World, odds: float, without: Iterable[int] = ()) -> None:
    """With these odds a bad node, not of the ends `without`."""
    if chance.random() >= odds:
        return
    left = {world.ends[place].node for place in range(len(world.ends))}
    left -= {world.ends[place].node for place in without}
    node = chance.choice(sorted(left))
    loss = _loss(chance)
    losses = {place: loss for place, end in enumerate(world.ends) if end.node == node}
    world.faults.append(Ends(losses))
    world.want_ends()


def pairs_all(share: float) -> Make:
    """A share of pairs is slow in every round, every pair is measured once or twice."""

    def make(chance: random.Random) -> World:
        world = cluster(chance, chance.choice((8, 17, 32)))
        _any_flow(chance, world)
        world.faults = [Pairs(share, chance.random() < 0.4, chance.randrange(2**60))]
        world.plan, world.by_repeat = "every pair", chance.random() < 0.5
        world.rounds = world.rounds_a_pass * chance.choice((1, 2))
        _add_bad(chance, world, 0.5)
        return world

    return make


def pairs_sparse(share: float) -> Make:
    """The same, measured in two rounds of neighbours and one to six of the planner."""

    def make(chance: random.Random) -> World:
        world = cluster(chance, chance.choice((8, 16, 17, 32, 64, 128, 256)))
        _any_flow(chance, world)
        world.faults = [Pairs(share, chance.random() < 0.4, chance.randrange(2**60))]
        world.plan, world.rounds = "ring", 2 + chance.randint(1, 6)
        _add_bad(chance, world, 0.5)
        return world

    return make


def one_pair(chance: random.Random) -> World:
    """A pair that the first round of neighbours meets."""
    world = cluster(chance, chance.choice((8, 16, 32, 64)))
    _any_flow(chance, world)
    first = 2 * chance.randrange(len(world.ends) // 2)
    world.faults = [FewPairs({frozenset((first, first + 1)): _loss(chance)})]
    world.plan, world.rounds = "ring", 12
    world.wanted = [("pair", {world.ends[first].node, world.ends[first + 1].node})]
    return world


def _links(
    chance: random.Random, world: World, count: int, share: float = 1.0, both: bool = False
) -> None:
    """Bad links on the way of a user, which are to be named where the leaves are known."""
    losses: dict[Link, float] = {}
    while len(losses) < count:
        run = world.run(*chance.sample(range(len(world.ends)), 2))
        if run.spine < 0:
            continue
        up = Link(run.leaf_of_sender, run.spine, "up")
        down = Link(run.leaf_of_receiver, run.spine, "down")
        losses[chance.choice((up, down))] = _loss(chance)
    if both:
        losses |= {
            Link(leaf, spine, "down" if direction == "up" else "up"): loss
            for (leaf, spine, direction), loss in losses.items()
        }
    world.faults.append(Links(losses, world.routing.static, share))
    if world.known:
        world.wanted += [("link", link) for link in losses]


def _two_plans(chance: random.Random, world: World) -> None:
    """Three to thirty rounds, at random or the planner's."""
    world.plan = "random" if chance.random() < 0.5 else "adaptive"
    world.rounds = chance.choice((3, 5, 8, 12, 20, 30))


def destination(
    nodes: Sequence[int],
    known: bool = True,
    routed: bool = False,
    by_leaf: bool = False,
    rounds: Sequence[int] = (),
    odds: float = 0.3,
) -> Make:
    """Routes by destination, one slow link one way. `by_leaf`: another table at each leaf; `odds`
    of a bad node next to it.
    """

    def make(chance: random.Random) -> World:
        seed = chance.randrange(1, 2**60) if by_leaf else 0
        size = chance.choice(nodes)
        routing = ByDestination(chance.choice((4, 8, 16)), seed)
        world = cluster(chance, size, 16 if size > 32 else 8, routing)
        world.known, world.routed = known, routed
        if not routed and chance.random() < 0.3:
            world.flow = chance.choice(("unknown", "both"))
        _two_plans(chance, world)
        if rounds:
            world.rounds = chance.choice(rounds)
        _links(chance, world, 1)
        _add_bad(chance, world, odds)
        return world

    return make


def static_ecmp(links: int, routed: bool = False) -> Make:
    """A hash of sender and receiver picks the spine, the same each time."""

    def make(chance: random.Random) -> World:
        routing = ByFlow(chance.choice((2, 4, 8, 16)), chance.randrange(2**60))
        world = cluster(chance, chance.choice((32, 64, 128)), 16, routing)
        world.routed = routed
        if not routed and chance.random() < 0.4:
            _any_flow(chance, world)
        _two_plans(chance, world)
        _links(chance, world, links)
        _add_bad(chance, world, 0.3)
        return world

    return make


def rehashed(both: bool, share: float = 1.0) -> Make:
    """Another spine in every run; one slow link, one way or both."""

    def make(chance: random.Random) -> World:
        world = cluster(chance, chance.choice((32, 64, 128)), 16, ByRun(chance.choice((2, 4, 8))))
        if chance.random() < 0.4:
            _any_flow(chance, world)
        _two_plans(chance, world)
        _links(chance, world, 1, share, both)
        _add_bad(chance, world, 0.3)
        return world

    return make


def lossy_spine(chance: random.Random) -> World:
    """All links of one spine, with another one in every run: a share of all runs is slow."""
    world = cluster(chance, chance.choice((32, 64, 128)), 16, ByRun(chance.choice((4, 8, 16))))
    _any_flow(chance, world)
    _two_plans(chance, world)
    spine, loss = chance.randrange(world.routing.spines), _loss(chance)
    links = {
        link: loss
        for leaf in set(world.leaf)
        for link in (Link(leaf, spine, "up"), Link(leaf, spine, "down"))
    }
    world.faults = [Links(links, False, of_spine=True)]
    _add_bad(chance, world, 0.3)
    return world


def _adaptive(chance: random.Random, sizes: Sequence[int], rounds: int) -> World:
    world = cluster(chance, chance.choice(sizes))
    _any_flow(chance, world)
    world.rounds = rounds
    return world


def node_at_times(chance: random.Random) -> World:
    """Bad in 20 or 50 % of its runs."""
    world = _adaptive(chance, (16, 32, 64), 30)
    place = chance.randrange(len(world.ends))
    world.faults = [Ends({place: _loss(chance)}, share=chance.choice((0.2, 0.5)))]
    world.want_ends()
    return world


def pair_at_times(chance: random.Random) -> World:
    """Several pairs are bad in 20 or 50 % of their runs."""
    world = _adaptive(chance, (8, 16, 32), 30)
    count = chance.randint(1, 2 * len(world.ends))
    pairs = {
        frozenset(chance.sample(range(len(world.ends)), 2)): _loss(chance) for _ in range(count)
    }
    world.faults = [FewPairs(pairs, chance.choice((0.2, 0.5)))]
    if chance.random() < 0.5:
        world.plan, world.rounds = "every pair", 2 * world.rounds_a_pass
    return world


def link_at_times(chance: random.Random) -> World:
    """A link of any kind of routes is bad in 20 or 50 % of the runs that take it."""
    spines, seed = chance.choice((2, 4, 8)), chance.randrange(1, 2**60)
    routing: Routing = chance.choice((ByDestination(spines), ByFlow(spines, seed), ByRun(spines)))
    world = cluster(chance, chance.choice((32, 64)), 16, routing)
    if chance.random() < 0.4:
        _any_flow(chance, world)
    _two_plans(chance, world)
    _links(chance, world, 1, chance.choice((0.2, 0.5)))
    return world


def failing(share: float) -> Make:
    """Of all runs a share fails or halves by itself."""

    def make(chance: random.Random) -> World:
        world = cluster(chance, chance.choice((8, 17, 32, 64, 128)))
        _any_flow(chance, world)
        _two_plans(chance, world)
        world.faults = [AtRandom(share, chance.choice((1.0, 0.5)))]
        _add_bad(chance, world, 0.5)
        return world

    return make


def failing_rounds(chance: random.Random) -> World:
    """Runs fail or halve in some rounds only, up to half of them."""
    world = cluster(chance, chance.choice((16, 17, 32, 64)))
    _any_flow(chance, world)
    _two_plans(chance, world)
    rounds = frozenset(chance.sample(range(world.rounds), chance.randint(1, 3)))
    world.faults = [AtRandom(chance.choice((0.1, 0.3, 0.5)), chance.choice((1.0, 0.5)), rounds)]
    _add_bad(chance, world, 0.5)
    return world


def bad_round(chance: random.Random) -> World:
    """One round in which all runs are slow, or fail."""
    world = _adaptive(chance, (8, 17, 32, 64), 8)
    world.faults = [InRound({(-1, chance.randrange(world.rounds)): _loss(chance)})]
    _add_bad(chance, world, 0.5)
    return world


def leaf_in_round(chance: random.Random) -> World:
    """In one or two rounds all results of a leaf are lower."""
    world = _adaptive(chance, (32, 64), 8)
    leaf = chance.choice(world.leaf)
    rounds = chance.sample(range(world.rounds), chance.randint(1, 2))
    loss = chance.uniform(0.03, 0.4)
    world.faults = [InRound({(leaf, number): loss for number in rounds})]
    _add_bad(chance, world, 0.3)
    return world


def hot_rack(chance: random.Random) -> World:
    """Of a rack six of eight nodes are slow by heat; two others, leaf and links are not."""
    world = _adaptive(chance, (32, 64), 12)
    rack = chance.choice(world.leaf)
    places = [place for place, leaf in enumerate(world.leaf) if leaf == rack]
    loss = chance.uniform(0.05, 0.4)
    world.faults = [
        Ends({place: loss * chance.uniform(0.8, 1.2) for place in chance.sample(places, 6)})
    ]
    world.want_ends()
    return world


def one_way(part: Literal["sender", "receiver"]) -> Make:
    """A node that is slow in one part only."""

    def make(chance: random.Random) -> World:
        world = _adaptive(chance, (8, 17, 32, 64), 12)
        world.faults = [Ends({chance.randrange(len(world.ends)): _loss(chance)}, part)]
        if chance.random() < 0.5:
            world.plan = "random"
        world.want_ends()
        return world

    return make


def neighbours(between: bool) -> Make:
    """Two bad nodes, one next to the other, or a healthy one between them."""

    def make(chance: random.Random) -> World:
        world = _adaptive(chance, (8, 16, 17, 32, 64), 8)
        world.plan = "ring"
        first = chance.randrange(len(world.ends) - 2)
        second = first + (2 if between else 1)
        world.faults = [Ends({first: _loss(chance), second: _loss(chance)})]
        world.want_ends()
        return world

    return make


def half_bad(chance: random.Random) -> World:
    """Of all nodes half are slow, the same loss or each its own."""
    world = _adaptive(chance, (8, 16, 32), 12)
    if chance.random() < 0.5:
        world.plan, world.rounds = "every pair", world.rounds_a_pass
    places = chance.sample(range(len(world.ends)), len(world.ends) // 2)
    alike = chance.uniform(0.1, 0.6)
    same = chance.random() < 0.5
    world.faults = [Ends({place: alike if same else _loss(chance) for place in places})]
    world.want_ends()
    return world


def most_partners(chance: random.Random) -> World:
    """A node that is bad with 70 % of its partners, among 15 % of bad pairs: 17 nodes, twice."""
    world = cluster(chance, 17)
    world.noise, world.known = "normal", False
    world.flow = chance.choice(("directed", "unknown"))
    world.plan, world.rounds = "every pair", 2 * world.rounds_a_pass
    world.by_repeat = chance.random() < 0.5
    node = chance.randrange(17)
    pairs = {
        frozenset((node, other)): chance.uniform(0.05, 0.6)
        for other in range(17)
        if other != node and chance.random() < 0.7
    }
    losses = {
        frozenset(pair): chance.uniform(0.05, 0.6)
        for pair in itertools.combinations(range(17), 2)
        if chance.random() < 0.15
    }
    # The node is at fault; what it loses depends on the partner.
    world.faults = [FewPairs({**pairs, **losses}), Ends({node: 0.0})]
    world.want_ends()
    return world


def _railed(chance: random.Random, rounds: int = 8) -> World:
    nodes, rails = chance.choice(((16, 4), (16, 8), (32, 8), (64, 4), (64, 8), (256, 4)))
    world = cluster(chance, nodes, 8, None, rails, chance.random() < 0.5)
    _any_flow(chance, world)
    world.plan = chance.choice(("adaptive", "ring", "random"))
    world.rounds = rounds
    return world


def slow_rails(chance: random.Random) -> World:
    """One to eight rails."""
    world = _railed(chance)
    places = chance.sample(range(len(world.ends)), chance.choice((1, 2, 4, 8)))
    world.faults = [Ends({place: _loss(chance) for place in places})]
    world.want_ends()
    return world


def slow_node_of_rails(chance: random.Random) -> World:
    """All rails of a node."""
    world = _railed(chance)
    _add_bad(chance, world, 1.0)
    return world


def rail_pairs(chance: random.Random) -> World:
    """A share of the pairs of rails is bad in every run, and at times a rail."""
    world = _railed(chance, 6)
    share = chance.choice((0.01, 0.05, 0.1, 0.15))
    world.faults = [Pairs(share, chance.random() < 0.4, chance.randrange(2**60))]
    if chance.random() < 0.5:
        world.faults.append(Ends({chance.randrange(len(world.ends)): _loss(chance)}))
        world.want_ends()
    return world


def rail_links(chance: random.Random) -> World:
    """A slow link of a fabric with rails, of any kind of routes."""
    world = _railed(chance, 10)
    spines, seed = chance.choice((2, 4, 8)), chance.randrange(1, 2**60)
    routings: tuple[Routing, ...] = (
        ByDestination(spines),
        ByDestination(spines, seed),
        ByFlow(spines, seed),
        ByRun(spines),
    )
    world.routing = chance.choice(routings)
    _links(chance, world, 1)
    return world


def several(chance: random.Random) -> World:
    """A static fabric with bad pairs, a bad link, a bad node, and runs that fail by themselves."""
    spines, seed = chance.choice((4, 8)), chance.randrange(1, 2**60)
    routing = chance.choice((ByDestination(spines), ByFlow(spines, seed)))
    world = cluster(chance, chance.choice((17, 32, 64)), 8, routing)
    _any_flow(chance, world)
    _two_plans(chance, world)
    share = chance.choice((0.01, 0.05, 0.1))
    world.faults = [
        Pairs(share, chance.random() < 0.4, chance.randrange(2**60)),
        AtRandom(chance.choice((0.01, 0.05)), chance.choice((1.0, 0.5))),
    ]
    _links(chance, world, 1)
    _add_bad(chance, world, 0.5)
    return world


def healthy(chance: random.Random) -> World:
    """No node is at fault."""
    world = cluster(chance, chance.choice((8, 17, 32, 64, 256)))
    _any_flow(chance, world)
    _two_plans(chance, world)
    return world


def one_node(chance: random.Random) -> World:
    """One bad node and nothing else."""
    world = cluster(chance, chance.choice((8, 17, 32, 64, 256)))
    _any_flow(chance, world)
    _two_plans(chance, world)
    _add_bad(chance, world, 1.0)
    return world


def large(chance: random.Random) -> World:
    """4,608 nodes with 8 rails, at 64 leaves: 1 to 32 rails have lost 30 %."""
    world = cluster(chance, 4608, 72, ByRun(16), 8)
    world.rounds = 4
    places = chance.sample(range(len(world.ends)), chance.choice((1, 8, 32)))
    world.faults = [Ends(dict.fromkeys(places, 0.3))]
    world.want_ends()
    return world


_PERCENT = (1, 5, 10, 15, 20)

WORLDS: dict[str, Make] = {
    "healthy": healthy,
    "one bad node": one_node,
    **{f"static pairs {p} %, every pair": pairs_all(p / 100) for p in _PERCENT},
    **{f"static pairs {p} %, sparse": pairs_sparse(p / 100) for p in _PERCENT},
    "one bad pair": one_pair,
    "destination routes": destination((32, 64)),
    "destination routes, a table a leaf": destination((32, 64), by_leaf=True),
    "destination routes, given": destination((32, 64), routed=True),
    "destination routes, a table a leaf, given": destination((32, 64), routed=True, by_leaf=True),
    "destination routes, leaves unknown": destination((32, 64), known=False),
    "destination routes, 512 nodes": destination((512,), rounds=(3, 6, 12)),
    "static ECMP, one link": static_ecmp(1),
    "static ECMP, two links": static_ecmp(2),
    "static ECMP, one link, given": static_ecmp(1, routed=True),
    "re-hashed, a link one way": rehashed(False),
    "re-hashed, a link both ways": rehashed(True),
    "lossy spine": lossy_spine,
    "a node at times": node_at_times,
    "pairs at times": pair_at_times,
    "a link at times": link_at_times,
    **{f"runs fail or halve, {p} %": failing(p / 100) for p in (1, 5, 10, 20)},
    "runs fail or halve in some rounds": failing_rounds,
    "a round bad for all": bad_round,
    "a leaf low in a round": leaf_in_round,
    "a hot rack": hot_rack,
    "slow as sender": one_way("sender"),
    "slow as receiver": one_way("receiver"),
    "two neighbours": neighbours(False),
    "between two bad": neighbours(True),
    "half are bad": half_bad,
    "bad with 70 %, pairs 15 %": most_partners,
    "several at once": several,
    "rails": slow_rails,
    "rails, a node": slow_node_of_rails,
    "rails, static pairs": rail_pairs,
    "rails, a link": rail_links,
}


def shared_links(by_flow: bool, faulty: bool, routed: bool = False) -> Make:
    """Static routes through links that carry few flows at once. `faulty`: a link sends slowly."""

    def make(chance: random.Random) -> World:
        sizes = ((16, 4, 4, 2), (32, 8, 4, 2), (32, 8, 8, 1), (64, 16, 8, 2), (64, 8, 8, 1))
        nodes, at_leaf, spines, carries = chance.choice(sizes)
        seed = chance.randrange(1, 2**60)
        by_destination = ByDestination(spines, chance.choice((0, seed)))
        world = cluster(chance, nodes, at_leaf, ByFlow(spines, seed) if by_flow else by_destination)
        world.carries, world.routed, world.rounds = carries, routed, 10
        if faulty:
            link = Link(chance.randrange(nodes // at_leaf), chance.randrange(spines), "up")
            world.faults.append(Links({link: chance.uniform(0.3, 0.8)}, True))
            world.wanted.append(("link", link))
        return world

    return make


#: Flows share links. Not in the mixture, so that its seeds keep their worlds.
SHARING: dict[str, Make] = {
    f"shared links, {name}, {'a slow link' if faulty else 'healthy'}{', given' * routed}": (
        shared_links(by_flow, faulty, routed)
    )
    for by_flow, name in ((True, "static ECMP"), (False, "destination routes"))
    for faulty in (False, True)
    for routed in (False, True)
}
#: Not in the mixture: a campaign takes seconds to minutes.
LARGE: dict[str, Make] = {"4,608 nodes x 8 rails": large}


def draw(name: str, seed: int) -> World:
    """The world of this name and seed."""
    return {**WORLDS, **SHARING, **LARGE, **BESIDE}[name](random.Random(f"{name} {seed}"))


def _with_another(faults: Callable[[random.Random], Sequence[Fault]], routing: Routing) -> Make:
    """64 nodes, one of them bad, and what else is bad there."""

    def make(chance: random.Random) -> World:
        world = cluster(chance, 64, 16, routing)
        world.rounds = 30
        world.faults = [Ends({chance.randrange(64): chance.uniform(0.1, 0.6)})]
        world.want_ends()
        world.faults += faults(chance)
        return world

    return make


def _pairs(share: float) -> Callable[[random.Random], Sequence[Fault]]:
    return lambda chance: [Pairs(share, False, chance.randrange(2**60))]


def _link(chance: random.Random) -> Sequence[Fault]:
    way: Literal["up", "down"] = "up" if chance.random() < 0.5 else "down"
    link = Link(chance.randrange(4), chance.randrange(8), way)
    return [Links({link: chance.uniform(0.1, 0.6)}, True)]


#: What ways to find a bad node are compared in.
BESIDE: dict[str, Make] = {
    "one bad node": _with_another(lambda chance: [], ByRun(8)),
    "and 5 % of pairs": _with_another(_pairs(0.05), ByRun(8)),
    "and 15 % of pairs": _with_another(_pairs(0.15), ByRun(8)),
    "and a link, routes by destination": _with_another(_link, ByDestination(8)),
    "and a link, static ECMP": _with_another(_link, ByFlow(8, 1)),
    "and 2 % of runs halve": _with_another(lambda chance: [AtRandom(0.02, 0.5)], ByRun(8)),
}


def drawn_name(seed: int) -> str:
    """The kind of world that the mixture has for a seed; all are as likely."""
    return random.Random(f"mixture {seed}").choice(list(WORLDS))


def mixture(count: int, base: int = 0) -> Iterator[tuple[str, int, World]]:
    """`count` worlds of all kinds but the large ones, with name and seed (from `base`)."""
    for seed in range(base, base + count):
        name = drawn_name(seed)
        yield name, seed, draw(name, seed)


# ---- campaigns ----


class Score(NamedTuple):
    """Of the parts at fault of a kind: how many there are, are suspects, are confirmed."""

    wanted: int
    named: int
    confirmed: int

    def __add__(self, other: tuple[int, ...]) -> Score:  # type: ignore[override]
        return Score(*(a + b for a, b in zip(self, other, strict=True)))


NO_SCORE = Score(0, 0, 0)


@dataclasses.dataclass
class Outcome:
    """What a campaign has named at its end, of nodes and rails, and of pairs and links. `found`:
    the first round, from 1, with all of them confirmed. Innocents are those that were confirmed at
    any time. `seconds`: CPU of the locator, of all rounds.
    """

    seed: int
    of_ends: Score = NO_SCORE
    of_others: Score = NO_SCORE
    found: int | None = None
    measured: int = 0
    ends: list[str] = dataclasses.field(default_factory=list)
    others: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    #: the most ends without a partner in a round
    idle: int = 0
    #: it was cut off, as the locator took too long
    cut: bool = False

    @property
    def wanted(self) -> int:
        return self.of_ends.wanted + self.of_others.wanted


class TooLongError(Exception):
    """The locator has had its time."""


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """TooLongError after so many seconds of CPU; 0: no limit."""

    def stop(number: int, frame: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def campaign(world: World, seed: int, stop: bool = False, limit: float = 0) -> Outcome:
    """Measure all rounds and judge after each; `stop` when all at fault are confirmed. `limit`:
    seconds of CPU after which the campaign is cut off; 0: none.
    """
    outcome = Outcome(seed)
    _take(outcome, world, [], -1)
    began = time.process_time()
    try:
        with _at_most(limit):
            _measure(world, outcome, stop)
    except TooLongError:
        outcome.cut, outcome.seconds = True, time.process_time() - began
    return outcome


def _measure(world: World, outcome: Outcome, stop: bool) -> None:
    clock = time.process_time
    judge = world.judge()
    for number in range(world.rounds):
        began = clock()
        places = world.places(number, judge)
        outcome.seconds += clock() - began
        outcome.idle = max(outcome.idle, world.idle(places))
        results = world.measure(places, number)
        if outcome.found is None:
            outcome.measured += len(results)
        began = clock()
        judge.add(results)
        suspects = judge.suspects() if world.is_judged(number) else None
        outcome.seconds += clock() - began
        if suspects is None:
            continue
        _take(outcome, world, suspects, number)
        if stop and outcome.found is not None:
            return


def _take(outcome: Outcome, world: World, suspects: Sequence[Suspect], number: int) -> None:
    ends, others = world.innocents(suspects)
    outcome.ends = list(dict.fromkeys([*outcome.ends, *ends]))
    outcome.others = list(dict.fromkeys([*outcome.others, *others]))
    confirmed = [suspect for suspect in suspects if suspect.confirmed]
    scores = {True: NO_SCORE, False: NO_SCORE}
    for part in world.wanted:
        one = 1, world.is_named(part, suspects), world.is_named(part, confirmed)
        scores[part[0] in ("node", "rail")] += one
    outcome.of_ends, outcome.of_others = scores[True], scores[False]
    done = outcome.of_ends.confirmed + outcome.of_others.confirmed
    if outcome.found is None and 0 < outcome.wanted == done:
        outcome.found = number + 1


# ---- the cases of the issue, number by number ----


def issue_pairs(seed: int, share: float, node: float, repeats: int) -> list[Result]:
    """17 nodes, every pair once in each round; a share of the pairs is slow in every round, and of
    those of n03 this share as well.
    """
    rng = random.Random(seed)
    names = [f"n{i:02d}" for i in range(1, 18)]
    pairs = list(itertools.combinations(names, 2))
    slow = {p: rng.uniform(0.05, 0.6) for p in pairs if rng.random() < share}
    for p in pairs:
        if "n03" in p and rng.random() < node:
            slow.setdefault(p, rng.uniform(0.05, 0.6))
    return [
        Result(End(a), End(b), round(13.5 * rng.gauss(1, 0.01) * slow.get((a, b), 1), 3), r)
        for r in range(repeats)
        for a, b in pairs
    ]


def issue_static_routes(
    seed: int, rounds: int, bad: float, what: Literal["up", "down"]
) -> tuple[list[Result], dict[End, str]]:
    """Four leaves of 16 nodes, eight spines, routes by destination (number of the receiver modulo
    8); the link between leaf1 and spine3 is slow one way. Also the leaf of each end.
    """
    rng = random.Random(seed)
    ends = [End(f"n{i:02d}") for i in range(64)]
    results = []
    for r in range(rounds):
        order = list(range(64))
        rng.shuffle(order)
        for a, b in zip(order[::2], order[1::2], strict=True):
            up, down = a // 16, b // 16
            left = 1.0
            if what == "up" and up == 1 and down != 1 and b % 8 == 3:
                left = bad
            if what == "down" and down == 1 and up != 1 and b % 8 == 3:
                left = bad
            results.append(Result(ends[a], ends[b], round(390 * rng.gauss(1, 0.01) * left, 2), r))
    return results, {end: f"leaf{i // 16}" for i, end in enumerate(ends)}
