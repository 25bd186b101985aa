"""Figures of an InfiniBand fabric.

python -m tests.bench_fabric locate [--campaigns N] [--rounds N]
    64 hosts with the forwarding tables that opensm made (tests/data/infiniband/hosts64): one
    link of a leaf is slow one way; how often it is confirmed, and what else is
python -m tests.bench_fabric sweep [--campaigns N] [--rounds N] [--seed-base N]
    the same with what a sweep measures (schedule cover, and up to N rounds that it adds), as a
    campaign's cases: how often its verdict names the link; of one HCA a host and of two
    (tests/data/infiniband/rails), with and without a bad node
python -m tests.bench_fabric check FOLDER...
    CPU s to read and check a folder of saved outputs, by their kind
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from railgauge.fabric import expected, folder, routes
from railgauge.fabric.check import check
from railgauge.fabric.folder import Fabric
from railgauge.locating import End
from railgauge.verdict.location.campaign_routes import CampaignRoutes
from railgauge.verdict.location.locate import name_suspects
from tests import on_subnet, worlds
from tests.on_subnet import HOSTS64, Cluster
from tests.worlds import Link, Links, World


@dataclasses.dataclass(frozen=True)
class FromTables:
    """The spine of (leaf, receiver), by their numbers, as real tables have it."""

    of: dict[tuple[int, int], int]
    spines: int
    static: bool = True

    def spine(self, sender: int, receiver: int, leaf: int, chance: random.Random) -> int:
        return self.of.get((leaf, receiver), 0)


def number(name: str) -> int:
    return int(name.removeprefix("leaf").removeprefix("spine"))


def world(fabric: Fabric, seed: int, rounds: int) -> World:
    """One slow link one way, on the path of two hosts; the locator has the routes."""
    assert fabric.tables is not None
    chance = random.Random(seed)
    leaf_of = {h: leaf for leaf, of in routes.leaves(fabric.subnet).items() for h in of}
    ends = tuple(End(host) for host in sorted(leaf_of))
    index = {end.node: place for place, end in enumerate(ends)}
    rows = routes.routes(fabric.subnet, fabric.tables)
    of = {(number(row.leaf), index[row.destination]): number(row.spine) for row in rows}
    routing = FromTables(of, len({row.spine for row in rows}))
    leaves = tuple(number(leaf_of[end.node]) for end in ends)
    made = World(ends, leaves, routing, chance.randrange(2**60), routed=True, rounds=rounds)
    made.noise = chance.choice(worlds.NOISES)
    while True:
        run = made.run(*chance.sample(range(len(ends)), 2))
        if run.spine > 0:
            break
    up = Link(run.leaf_of_sender, run.spine, "up")
    link = chance.choice((up, Link(run.leaf_of_receiver, run.spine, "down")))
    made.faults.append(Links({link: worlds.loss_by(chance.random())}, True))
    made.wanted.append(("link", link))
    return made


def locate(campaigns: int, rounds: int) -> None:
    fabric = folder.from_folder(HOSTS64)
    found: Counter[int] = Counter()
    nodes = others = named = 0
    for seed in range(campaigns):
        outcome = worlds.campaign(world(fabric, seed, rounds), seed)
        found[outcome.found or 0] += 1
        nodes += bool(outcome.ends)
        others += bool(outcome.others)
        named += outcome.of_others.named
    by_round = ", ".join(
        f"{sum(count for r, count in found.items() if 0 < r <= until) / campaigns:.1%} by {until}"
        for until in range(1, rounds + 1)
    )
    print(f"named after round {rounds}, confirmed or not: {named / campaigns:.1%}")
    print(f"{campaigns} campaigns: link and direction confirmed {by_round}")
    print(f"campaigns that confirm an innocent node or rail: {nodes}; another innocent: {others}")


#: What a link or node loses, as a share: enough for a sweep to measure its pairs again.
LOSSES = 0.2, 0.95


def draw(of: Cluster, rail: str, chance: random.Random) -> str:
    """A link one way, on the path of two hosts."""
    while True:
        if crossed := of.links(*chance.sample(of.hosts, 2), rail):
            return chance.choice(crossed)


def sweep(campaigns: int, rounds: int, base: int) -> None:
    for reading, rail in ((HOSTS64, "mlx5_0"), (on_subnet.RAILS, "mlx5_1")):
        of = Cluster(reading)
        for beside in (False, True):
            counts: Counter[str] = Counter()
            cpu_s = []
            for seed in range(base, base + campaigns):
                chance = random.Random(seed)
                link = draw(of, rail, chance)
                slow = {link: 1 - chance.uniform(*LOSSES)}
                bad = chance.choice(of.hosts) if beside else ""
                if bad:
                    slow[bad] = 1 - chance.uniform(*LOSSES)
                results = of.sweep(slow, seed, rail, most=rounds)
                with tempfile.TemporaryDirectory() as folder:
                    stage = on_subnet.keep_reading(reading, Path(folder, "InfinibandFabric_1"))
                    cases = of.cases(results, stage, rail)
                    routes = CampaignRoutes(on_subnet.campaign(Path(folder)), cases)
                    began = time.process_time()
                    suspects = name_suspects(cases, routes=routes).suspects
                    cpu_s.append(time.process_time() - began)
                named = {f"{s.name} {s.direction}": s.confirmed for s in suspects}
                counts["named"] += link in named
                counts["confirmed"] += named.get(link, False)
                wrong = {n for s in suspects for n in s.failing_nodes} - {bad}
                counts["innocent nodes"] += bool(wrong)
                innocent = [
                    s for s in suspects if s.confirmed and s.kind in ("uplink", "leaf", "pair")
                ]
                counts["innocent parts"] += any(f"{s.name} {s.direction}" != link for s in innocent)
            cpu_s.sort()
            print(f"{reading.name}, {rail}{', a bad node beside it' if beside else ''}:")
            for what in ("named", "confirmed", "innocent nodes", "innocent parts"):
                print(f"  {what}: {counts[what] / campaigns:.1%} of {campaigns} campaigns")
            middle, most = cpu_s[campaigns // 2], cpu_s[-1]
            print(f"  verdict's locator: {middle:.3f} s of CPU, at most {most:.3f}")


def measure(of: Path) -> None:
    whole = folder.from_folder(of)
    wanted = expected.of_fabric(whole)
    texts = {path.name: path.read_text() for path in sorted(of.iterdir())}
    kinds = {folder.kind_of(text): {name: text} for name, text in texts.items()}
    print(f"{of}: {len(whole.subnet.devices)} devices, {len(whole.subnet.cables)} cables")
    for given in (["ibnetdiscover"], ["ibnetdiscover", "iblinkinfo", "ibqueryerrors"], list(kinds)):
        chosen = {name: text for kind in given for name, text in kinds.get(kind, {}).items()}
        times = []
        for _ in range(5):
            began = time.process_time()
            check(folder.from_texts(chosen), wanted)
            times.append(time.process_time() - began)
        times.sort()
        print(f"  {', '.join(map(str, given))}: {times[2]:.3f} ({times[0]:.3f} to {times[-1]:.3f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("locate", "sweep", "check"))
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed-base", type=int, default=0)
    asked = parser.parse_args()
    if asked.what == "locate":
        locate(asked.campaigns, asked.rounds)
    if asked.what == "sweep":
        sweep(asked.campaigns, asked.rounds, asked.seed_base)
    for of in asked.folders:
        measure(of)


if __name__ == "__main__":
    main()
