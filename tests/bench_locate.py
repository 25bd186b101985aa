"""Figures of the location of faults: rounds, false accusations, seconds, by simulated campaigns.

    python -m tests.bench_locate [--campaigns N] [--nodes N] [--rails N] [--leaves N] [MODEL...]
    python -m tests.bench_locate --figures     what docs/figures.md has

A campaign measures rounds until nobody is undecided; a part is found when it is a confirmed
suspect. Healthy parts that are confirmed are false accusations. Where runs fail by themselves a
campaign has all its rounds, though the fault is named: such runs accuse the innocent. Model, of
`Simulation`: a result is the rate of 48.5 GB/s, less the largest loss of what it uses, times one
plus noise with a standard deviation of 1 %. Everything follows from the seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import random
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from scipy import special

from railgauge.systems.schema import Schedule
from railgauge.verdict.locating import End, Evidence, Located, Observation, locate
from railgauge.verdict.locating.table import read
from tests import swept
from tests.rounds import next_round, settled

RATE = 48.5
SPREAD = 0.01
UPLINKS = 16
#: Values of noise that are drawn once; a round draws from them with replacement.
_POOL = 1_000_000

#: By this round what comes and goes is to be named, and a run meets it with this chance.
_LATEST, _AT_TIMES = 25, 0.2

Places = list[tuple[End, End]]


def normal(chance: random.Random) -> float:
    return chance.gauss(0, SPREAD)


def heavy(chance: random.Random) -> float:
    """Student's t of three degrees: standard deviation 1 %, quartiles nearer than the normal's."""
    squares = sum(chance.gauss(0, 1) ** 2 for _ in range(3))
    return float(SPREAD / 3**0.5 * chance.gauss(0, 1) / (squares / 3) ** 0.5)


def pool(kind: str, count: int = _POOL) -> list[float]:
    chance = random.Random(kind)
    draw = heavy if kind == "heavy" else normal
    return [draw(chance) for _ in range(count)]


@dataclasses.dataclass(frozen=True)
class Fabric:
    """Nodes with rails at leaves, all rails of a node at the same one."""

    nodes: int
    rails: int
    leaves: int

    @functools.cached_property
    def ends(self) -> list[End]:
        return [
            End(f"n{node:05}", f"mlx5_{rail}")
            for node in range(self.nodes)
            for rail in range(self.rails)
        ]

    def leaf(self, node: int) -> str:
        return f"leaf{node * self.leaves // self.nodes:02}"

    @functools.cached_property
    def by_end(self) -> dict[End, str]:
        return {end: self.leaf(place // self.rails) for place, end in enumerate(self.ends)}


@dataclasses.dataclass
class Faults:
    """Loss by end (1: it hangs), by pair of nodes, and of one uplink of `uplinks`: of a leaf, or
    with `spine` of all leaves, which is one spine. A run that has one of its `flows` there is slow.
    Of all runs `failing` fail by themselves.

    `share` is how often a run meets a loss, drawn for each round: the fault is on for a fifth of
    every round, at any moment of it, and a run takes a short part of the round. Those of `steady`
    are there in every run all the same, those of `busy` where others are measured at once. With
    `counters`, those of the end are read before and after the round: they move in each.
    """

    ends: dict[End, float] = dataclasses.field(default_factory=dict)
    steady: dict[End, float] = dataclasses.field(default_factory=dict)
    busy: dict[End, float] = dataclasses.field(default_factory=dict)
    pairs: dict[frozenset[str], float] = dataclasses.field(default_factory=dict)
    uplink: str = ""
    uplink_loss: float = 0.4
    uplinks: int = UPLINKS
    flows: int = 1
    spine: bool = False
    share: float = 1.0
    counters: bool = False
    failing: float = 0.0


class Simulation:
    """One campaign's cluster: it measures places."""

    def __init__(
        self, fabric: Fabric, faults: Faults, noise: Sequence[float], seed: int, correlated: bool
    ) -> None:
        self.ends = fabric.ends
        self.leaves = fabric.by_end
        self.faults = faults
        self.noise = noise
        self.chance = random.Random(seed)
        self.correlated = correlated

    def measure(self, places: Places, number: int) -> list[Observation]:
        faults, leaves, chance = self.faults, self.leaves, self.chance
        noise = chance.choices(self.noise, k=len(places))
        common = {leaf: chance.gauss(0, SPREAD) for leaf in dict.fromkeys(leaves.values())}
        present = {
            end: loss
            for end, loss in faults.ends.items()
            if faults.share == 1 or chance.random() < faults.share
        }
        present |= faults.steady | (faults.busy if len(places) > 1 else {})
        moved = set(faults.ends) if faults.counters else set()
        takes_it = 1 - (1 - 1 / faults.uplinks) ** faults.flows
        found = []
        for (a, b), of_noise in zip(places, noise, strict=True):
            loss = 0.0
            if a in present or b in present:
                loss = max(present.get(a, 0.0), present.get(b, 0.0))
            if faults.pairs:
                loss = max(loss, faults.pairs.get(frozenset((a.node, b.node)), 0.0))
            if (
                (faults.spine or faults.uplink in (leaves[a], leaves[b]))
                and leaves[a] != leaves[b]
                and chance.random() < takes_it
            ):
                loss = max(loss, faults.uplink_loss)
            if faults.failing and chance.random() < faults.failing:
                loss = 1.0
            if self.correlated:
                of_noise += common[leaves[a]]
                if leaves[a] != leaves[b]:
                    of_noise += common[leaves[b]]
            value = None if loss >= 1 else RATE * (1 - loss) * (1 + of_noise)
            events = (int(a in moved), int(b in moved)) if moved else (0, 0)
            found.append(Observation(a, b, value, number, "", None, *events))
        return found


@dataclasses.dataclass
class Outcome:
    """What a campaign came to: the round in which all faults were named and confirmed (None where
    they were not), innocent parts that were confirmed, CPU seconds of each decision. `at_times`: a
    fault came and went, and only results show it. Of a sweep, `doubted` are
    innocents that its end names, not confirmed, and `missed` those at fault that it does not name.
    """

    found: int | None
    innocent: list[str]
    seconds: list[float]
    rounds: int
    unconfirmed: int
    at_times: bool = False
    doubted: Sequence[str] = ()
    missed: Sequence[str] = ()


Choose = Callable[[Evidence, Simulation, int, Located | None], Places]


def adaptive(evidence: Evidence, sim: Simulation, number: int, located: Located | None) -> Places:
    return next_round(evidence, sim.ends, number, located)


def run(sim: Simulation, guilty: set[str], most: int, choose: Choose = adaptive) -> Outcome:
    """Rounds until all is decided, at most so many; three at least, where nobody was low."""
    evidence = Evidence(sim.leaves)
    located: Located | None = None
    comes_and_goes, uplink = sim.faults.share < 1, sim.faults.uplink
    goes_on = comes_and_goes or sim.faults.failing > 0
    outcome = Outcome(None, [], [], 0, 0, comes_and_goes and not sim.faults.counters)
    for number in range(most):
        began = time.process_time()
        places = choose(evidence, sim, number, located)
        chosen = time.process_time() - began
        results = sim.measure(places, number)
        began = time.process_time()
        evidence.add(results)
        if (sim.faults.uplink or sim.faults.spine) and sim.faults.counters:
            evidence.uplink_events = {
                f"{leaf}:spine{k}": 4000 if k == 3 else k
                for leaf in (dict.fromkeys(sim.leaves.values()) if sim.faults.spine else [uplink])
                for k in range(UPLINKS)
            }
        located = locate(evidence)
        outcome.seconds.append(chosen + time.process_time() - began)
        outcome.rounds = number + 1
        named = {suspect.name for suspect in located.suspects if suspect.confirmed}
        outcome.innocent = sorted(set(outcome.innocent) | {n for n in named if n not in guilty})
        if outcome.found is None and guilty and guilty <= named:
            outcome.found = number + 1
            if not sim.faults.failing:
                break
        if number >= 2 and not goes_on and settled(located):
            break
    outcome.unconfirmed = sum(not s.confirmed for s in located.suspects) if located else 0
    return outcome


def _rails(sim_ends: Sequence[End], count: int, loss: float, chance: random.Random) -> Faults:
    return Faults(ends=dict.fromkeys(chance.sample(sim_ends, count), loss))


def _node(ends: Sequence[End], loss: float, chance: random.Random) -> Faults:
    node = chance.choice(ends).node
    return Faults(ends={end: loss for end in ends if end.node == node})


Make = Callable[[Fabric, Sequence[End], random.Random], tuple[Faults, set[str]]]


def _named(faults: Faults, fabric: Fabric) -> set[str]:
    """A node of which most rails are slow is what there is to name."""
    rails = Counter(end.node for end in faults.ends)
    most = {node for node, count in rails.items() if 1 < count > fabric.rails / 2}
    return most | {end.name for end in faults.ends if end.node not in most}


def slow_rails(count: int, loss: float, share: float = 1.0, counters: bool = False) -> Make:
    def make(fabric: Fabric, ends: Sequence[End], chance: random.Random) -> tuple[Faults, set[str]]:
        faults = _rails(ends, count, loss, chance)
        faults.share, faults.counters = share, counters
        return faults, _named(faults, fabric)

    return make


def slow_node(
    fabric: Fabric, ends: Sequence[End], chance: random.Random
) -> tuple[Faults, set[str]]:
    faults = _node(ends, 0.3, chance)
    return faults, _named(faults, fabric)


def slow_pair(
    fabric: Fabric, ends: Sequence[End], chance: random.Random
) -> tuple[Faults, set[str]]:
    """One that the first round meets."""
    first = next_round(Evidence(fabric.by_end), ends, 0)
    a, b = chance.choice(first)
    names = sorted((a.node, b.node))
    return Faults(pairs={frozenset(names): 0.3}), {"-".join(names)}


def uplink(fabric: Fabric, ends: Sequence[End], chance: random.Random) -> tuple[Faults, set[str]]:
    leaf = fabric.leaf(chance.randrange(fabric.nodes))
    return Faults(uplink=leaf), {leaf}


def counted_uplink(
    fabric: Fabric, ends: Sequence[End], chance: random.Random
) -> tuple[Faults, set[str]]:
    """The switch's own counters are at hand: of 16 uplinks one counts errors, the others few."""
    faults, (leaf,) = uplink(fabric, ends, chance)
    faults.counters = True
    return faults, {f"{leaf}:spine3"}


def spine(fabric: Fabric, ends: Sequence[End], chance: random.Random) -> tuple[Faults, set[str]]:
    """Of all leaves the uplink to it counts errors."""
    return Faults(spine=True, counters=True), {"spine3"}


def lossy_uplink_and(rail: bool, failing: float = 0.0) -> Make:
    """One of 16 uplinks of a leaf, and a slow rail at another leaf, or runs that fail."""

    def make(fabric: Fabric, ends: Sequence[End], chance: random.Random) -> tuple[Faults, set[str]]:
        faults, guilty = uplink(fabric, ends, chance)
        faults.failing = failing
        if rail:
            elsewhere = [end for end in ends if fabric.by_end[end] != faults.uplink]
            faults.ends = _rails(elsewhere, 1, 0.3, chance).ends
        return faults, guilty | _named(faults, fabric)

    return make


def slow_rail_and_failing(
    fabric: Fabric, ends: Sequence[End], chance: random.Random
) -> tuple[Faults, set[str]]:
    faults = _rails(ends, 1, 0.3, chance)
    faults.failing = 0.01
    return faults, _named(faults, fabric)


def rail_at_times_and_slow_node(
    fabric: Fabric, ends: Sequence[End], chance: random.Random
) -> tuple[Faults, set[str]]:
    """A rail of another node comes and goes."""
    slow = _node(ends, 0.3, chance)
    faults = _rails([end for end in ends if end not in slow.ends], 1, 0.3, chance)
    faults.share, faults.steady = _AT_TIMES, slow.ends
    return faults, _named(slow, fabric) | _named(faults, fabric)


def healthy(fabric: Fabric, ends: Sequence[End], chance: random.Random) -> tuple[Faults, set[str]]:
    return Faults(), set()


MODELS: dict[str, tuple[Make, int]] = {
    "healthy": (healthy, 6),
    "1 slow rail, 30 %": (slow_rails(1, 0.3), 12),
    "8 slow rails, 30 %": (slow_rails(8, 0.3), 12),
    "32 slow rails, 30 %": (slow_rails(32, 0.3), 12),
    "32 slow rails, 10 %": (slow_rails(32, 0.1), 20),
    "8 slow rails, 5 %": (slow_rails(8, 0.05), 30),
    "slow node, 30 %": (slow_node, 12),
    "slow pair, 30 %": (slow_pair, 12),
    "a rail hangs": (slow_rails(1, 1.0), 12),
    "one lossy uplink of 16": (uplink, 12),
    "the same, with switch counters": (counted_uplink, 12),
    "one lossy spine of 16, with switch counters": (spine, 12),
    "a fifth of the time, 30 %": (slow_rails(1, 0.3, _AT_TIMES), 60),
    "a fifth of the time, with counters": (slow_rails(1, 0.3, _AT_TIMES, True), 60),
    "a slow rail, and a lossy uplink of another leaf": (lossy_uplink_and(rail=True), 12),
    "a slow rail, and 1 % of runs fail": (slow_rail_and_failing, 12),
    "a lossy uplink, and 1 % of runs fail": (lossy_uplink_and(rail=False, failing=0.01), 12),
    "a slow node, and a rail a fifth of the time": (rail_at_times_and_slow_node, 60),
}

NOISES = ("normal", "heavy", "correlated")


def campaigns(
    fabric: Fabric, model: str, noise: str, count: int, pools: dict[str, list[float]]
) -> Iterator[Outcome]:
    make, most = MODELS[model]
    ends = fabric.ends
    for seed in range(count):
        chance = random.Random(f"{model} {noise} {seed}")
        faults, guilty = make(fabric, ends, chance)
        values = pools["heavy" if noise == "heavy" else "normal"]
        sim = Simulation(fabric, faults, values, chance.randrange(2**60), noise == "correlated")
        yield run(sim, guilty, most)


def at_least(lows: int, rounds: int = _LATEST) -> float:
    """The chance that a part at fault a fifth of the time is low so often, by one run a round."""
    return float(special.bdtrc(lows - 1, rounds, _AT_TIMES))


def by_latest(outcomes: Sequence[Outcome]) -> str:
    """The share of campaigns in which all was named by round 25, beside what one run a round
    allows; "" where nothing comes and goes.
    """
    if not any(o.at_times for o in outcomes):
        return ""
    named = sum(o.found is not None and o.found <= _LATEST for o in outcomes) / len(outcomes)
    return f"{named:.0%} of {' / '.join(f'{at_least(lows):.0%}' for lows in (2, 3, 4))}"


#: What `line` has behind the first column.
_COLUMNS = (
    "noise | n | rounds 50 / 99 % | named by round 25, of 2 / 3 / 4 lows in 25 rounds "
    "| falsely accused | unconfirmed left | CPU s |"
)


def line(model: str, noise: str, outcomes: Sequence[Outcome]) -> str:
    rounds = sorted(o.found if o.found is not None else 10**6 for o in outcomes)

    def at(share: float) -> str:
        value = rounds[min(len(rounds) - 1, int(share * len(rounds)))]
        return str(value) if value < 10**6 else "-"

    seconds = [s for o in outcomes for s in o.seconds] or [0.0]
    wrong = sum(bool(o.innocent) for o in outcomes)
    return (
        f"| {model} | {noise} | {len(outcomes)} | "
        f"{'' if model == 'healthy' else f'{at(0.5)} / {at(0.99)}'} | "
        f"{by_latest(outcomes)} | {wrong} | "
        f"{sum(bool(o.unconfirmed) for o in outcomes)} | "
        f"{statistics.median(seconds):.2f} / {max(seconds):.2f} |"
    )


# ---- other schedules ----


def tournament(evidence: Evidence, sim: Simulation, number: int, located: Located | None) -> Places:
    """Every two nodes by the circle method, all rails of a node with the same one."""
    nodes = list(dict.fromkeys(end.node for end in sim.ends))
    rest = nodes[1:]
    turn = number % len(rest)
    row = [nodes[0], *rest[turn:], *rest[:turn]]
    half = len(row) // 2
    return _of_nodes(sim, zip(row[:half], reversed(row[half:]), strict=True))


def at_random(evidence: Evidence, sim: Simulation, number: int, located: Located | None) -> Places:
    nodes = list(dict.fromkeys(end.node for end in sim.ends))
    random.Random(f"{number} {sim.faults}").shuffle(nodes)
    return _of_nodes(sim, zip(nodes[::2], nodes[1::2], strict=True))


def _of_nodes(sim: Simulation, pairs: Iterable[tuple[str, str]]) -> Places:
    rails = list(dict.fromkeys(end.rail for end in sim.ends))
    return [(End(a, rail), End(b, rail)) for a, b in pairs for rail in rails]


def by_reference(sim: Simulation, guilty: set[str]) -> Outcome:
    """Every node with the first one, one at a time; who is low with it is accused."""
    evidence = Evidence(sim.leaves)
    reference = sim.ends[0]
    for number, end in enumerate(sim.ends[1:]):
        evidence.add(sim.measure([(reference, end)], number))
    accused = {low.b.name for low in evidence.lows}
    rounds = len(sim.ends) - 1
    found = rounds if guilty <= accused else None
    return Outcome(found, sorted(accused - guilty), [], rounds, 0)


#: The schedules of sweeps that are measured.
SHIPPED: tuple[Schedule, ...] = ("neighbours", "cover")


def by_sweep(
    sim: Simulation, guilty: set[str], schedule: Schedule, most: int | None = None
) -> Outcome:
    """What a sweep measures by itself, judged at its end. A pair that has a bad node is no innocent
    as long as it is not confirmed.
    """
    evidence, rounds = swept.sweep(sim.measure, sim.leaves, schedule, most)
    began = time.process_time()
    suspects = locate(evidence).suspects
    seconds = time.process_time() - began
    confirmed = {suspect.name for suspect in suspects if suspect.confirmed}
    unsure = [suspect for suspect in suspects if not suspect.confirmed]
    nodes = {name.partition(":")[0] for name in guilty}
    doubted = [
        s.name
        for s in unsure
        if s.name not in guilty and (s.kind != "pair" or nodes.isdisjoint(s.nodes))
    ]
    found = rounds if guilty <= confirmed else None
    missed = sorted(guilty - {suspect.name for suspect in suspects})
    innocent = sorted(confirmed - guilty)
    return Outcome(found, innocent, [seconds], rounds, len(unsure), False, doubted, missed)


def beside(count: int, pools: dict[str, list[float]]) -> None:
    """Slow nodes of a small fabric, by each schedule, with the same judge."""
    fabric = Fabric(128, 1, 8)
    print(f"{fabric}, 8 slow nodes of 30 %, n = {count} each")
    print(f"| schedule | {_COLUMNS}")
    schedules: dict[str, Choose] = {
        "adaptive": adaptive,
        "every pair (tournament)": tournament,
        "random rounds": at_random,
    }
    shipped = {f"shipped, {name}": name for name in SHIPPED}
    for noise in NOISES:
        for name in (*schedules, *shipped, "one reference node"):
            outcomes = []
            for seed in range(count):
                chance = random.Random(f"{noise} {seed}")
                faults, guilty = slow_rails(8, 0.3)(fabric, fabric.ends, chance)
                values = pools["heavy" if noise == "heavy" else "normal"]
                seeded = chance.randrange(2**60)
                sim = Simulation(fabric, faults, values, seeded, noise == "correlated")
                if name in schedules:
                    outcomes.append(run(sim, guilty, 127, schedules[name]))
                elif name in shipped:
                    outcomes.append(by_sweep(sim, guilty, shipped[name]))
                else:
                    outcomes.append(by_reference(sim, guilty))
            print(line(name, noise, outcomes), flush=True)


def table(
    fabric: Fabric,
    models: Sequence[str],
    noises: Sequence[str],
    count: int,
    pools: dict[str, list[float]],
) -> None:
    """A line a model and kind of noise, and who was accused falsely."""
    print(f"{fabric}, {count} campaigns a line")
    print(f"| fault | {_COLUMNS}")
    total = wrong = 0
    for model in models:
        for noise in noises:
            outcomes = list(campaigns(fabric, model, noise, count, pools))
            print(line(model, noise, outcomes), flush=True)
            for outcome in outcomes:
                total += 1
                wrong += bool(outcome.innocent)
                if outcome.innocent:
                    print("   falsely accused:", ", ".join(outcome.innocent))
    print(f"{total} campaigns, {wrong} with a false accusation", flush=True)


def of_table(fabric: Fabric) -> None:
    """A CSV of one round, each rail once: read and judged."""
    chance = random.Random(1)
    ends, leaves = fabric.ends, fabric.by_end
    rows = [
        f"{a.node},{b.node},{RATE * (1 + normal(chance)):.3f},0,{a.rail},{leaves[a]},{leaves[b]}\n"
        for a, b in zip(ends, ends[fabric.rails :] + ends[: fabric.rails], strict=True)
    ]
    text = "a,b,value,round,rail,leaf_a,leaf_b\n" + "".join(rows)
    began = time.process_time()
    located = locate(read(text))
    seconds = time.process_time() - began
    print(f"CSV of {len(rows)} rows: {seconds:.2f} s CPU, {len(located.suspects)} suspects")


#: What is run at full size: a campaign of 36,864 rails takes a second or two.
_AT_FULL_SIZE = (
    *("healthy", "32 slow rails, 30 %", "32 slow rails, 10 %", "slow node, 30 %"),
    *("a rail hangs", "one lossy uplink of 16"),
)


def figures() -> None:
    """A thousand campaigns of all models on 1,024 rails, some of 36,864, and other schedules."""
    pools = {kind: pool(kind) for kind in ("normal", "heavy")}
    table(Fabric(256, 4, 16), list(MODELS), NOISES, 26, pools)
    table(Fabric(4608, 8, 64), _AT_FULL_SIZE, NOISES, 3, pools)
    of_table(Fabric(4608, 8, 64))
    beside(20, pools)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--campaigns", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=4608)
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--leaves", type=int, default=64)
    parser.add_argument("--noise", nargs="*", default=list(NOISES))
    parser.add_argument("--figures", action="store_true", help="what docs/figures.md has")
    parser.add_argument("models", nargs="*")
    asked = parser.parse_args()
    fabric = Fabric(asked.nodes, asked.rails, asked.leaves)
    if asked.figures:
        figures()
    else:
        pools = {kind: pool(kind) for kind in ("normal", "heavy")}
        table(fabric, asked.models or list(MODELS), asked.noise, asked.campaigns, pools)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MB")


if __name__ == "__main__":
    main()
