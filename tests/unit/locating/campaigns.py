"""Campaigns as data: who meets whom, what they measure, and what is broken."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from railgauge.locating import End, Evidence, Located, Result, locate
from tests import worlds

Noise = Callable[[random.Random], float]


def normal(chance: random.Random) -> float:
    """Of 1 %."""
    return chance.gauss(0, 0.01)


def heavy(chance: random.Random) -> float:
    """Student's t of 3 degrees, standard deviation 1 %."""
    squares = sum(chance.gauss(0, 1) ** 2 for _ in range(3))
    return 0.01 / 3**0.5 * chance.gauss(0, 1) / (squares / 3) ** 0.5


@dataclasses.dataclass
class Fabric:
    """`slow` has the share that a part loses: a node `n3`, a rail `n3:1`, a pair `n3-n4`, a leaf
    `leaf1` or its way out `leaf1>`. What loses all fails.
    """

    nodes: int
    slow: dict[str, float] = dataclasses.field(default_factory=dict)
    rails: Sequence[str | None] = (None,)
    per_leaf: int = 0
    noise: Noise = normal
    seed: int = 1
    rate: float = 24.5

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    @property
    def names(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    @property
    def ends(self) -> list[End]:
        return [End(node, rail) for node in self.names for rail in self.rails]

    def leaf(self, node: str) -> str:
        return f"leaf{(int(node[1:]) - 1) // self.per_leaf + 1}"

    @property
    def leaves(self) -> dict[End, str]:
        return {end: self.leaf(end.node) for end in self.ends} if self.per_leaf else {}

    def parts(self, a: End, b: End) -> Iterator[str]:
        yield from (a.node, b.node, a.name, b.name, f"{a.node}-{b.node}", f"{b.node}-{a.node}")
        if self.per_leaf:
            leaves = (self.leaf(a.node), self.leaf(b.node))
            yield from leaves
            if leaves[0] != leaves[1]:
                yield from (f"{leaf}>" for leaf in leaves)

    def measure(
        self, a: End, b: End, round: int | None = None, quiet: bool = False, shift: float = 0.0
    ) -> Result:
        loss = max([0.0, *(self.slow.get(part, 0.0) for part in self.parts(a, b))])
        noise = self.noise(self.chance)
        value = None if loss == 1 else self.rate * (1 - loss) * (1 - shift) * (1 + noise)
        return Result(a, b, value, round, quiet=quiet)

    def places(self, pairs: Iterable[tuple[str, str]], round: int | None) -> list[Result]:
        return [
            self.measure(End(a, rail), End(b, rail), round) for a, b in pairs for rail in self.rails
        ]

    def ring(self) -> list[Result]:
        """Every node with its neighbours, in two rounds (three of an odd number)."""
        names = self.names
        pairs = list(zip(names, [*names[1:], names[0]], strict=True))
        odd = len(names) % 2
        return [
            observation
            for number, pair in enumerate(pairs)
            for observation in self.places(
                [pair], 2 if odd and number == len(pairs) - 1 else number % 2
            )
        ]

    def tournament(self) -> list[Result]:
        """Every two nodes, by the circle method."""
        names = self.names
        turning = names[1:]
        found = []
        for number in range(len(turning)):
            row = [names[0], *turning]
            half = len(row) // 2
            pairs = zip(row[:half], reversed(row[half:]), strict=True)
            found += self.places(pairs, number)
            turning = turning[1:] + turning[:1]
        return found

    def random_rounds(self, count: int) -> list[Result]:
        found = []
        for number in range(count):
            names = self.names
            self.chance.shuffle(names)
            found += self.places(zip(names[::2], names[1::2], strict=False), number)
        return found


def located(fabric: Fabric, observations: Iterable[Result]) -> Located:
    evidence = Evidence(fabric.leaves)
    evidence.add(observations)
    return locate(evidence)


def told(result: Located) -> list[str]:
    """`node n3`, and with a question mark what is not confirmed."""
    return [f"{s.kind} {s.name}{'' if s.confirmed else '?'}" for s in result.suspects]


def main() -> None:
    """Some campaigns, with all that is said of them."""
    faults = {"n2": 0.3, "n5-n6": 0.3, "n9:1": 1.0, "leaf3>": 0.2}
    for noise in (normal, heavy):
        fabric = Fabric(16, faults, rails=("0", "1"), per_leaf=4, noise=noise)
        for observations in (fabric.ring(), fabric.tournament()):
            print(located(fabric, observations))
    for name in ("destination routes", "re-hashed, a link one way", "rails"):
        world = worlds.draw(name, 3)
        judge = world.judge()
        for number in range(5):
            judge.add(world.measure(world.places(number, judge), number))
            print(judge.suspects())


if __name__ == "__main__":
    main()
