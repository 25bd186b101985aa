"""Why no node is named for results between nodes that are bad, and what to measure next."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence

from railgauge import hostlist
from railgauge.common.names import natural
from railgauge.locating import Result, Suspect

#: As many nodes, at most, are named each by itself in a next step.
_NAMED = 8


@dataclasses.dataclass(frozen=True)
class Unnamed:
    """Results of a check between nodes that no suspect explains: `bad` of `results`.

    `good` is a pair of nodes with a good result, () where there is none; `others` are the other
    nodes with bad ones.
    """

    check: str
    partition: str
    bad: int
    results: int
    good: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def mostly_bad(self) -> bool:
        """Whether the reference, or something that all nodes share, may be wrong."""
        return 2 * self.bad > self.results

    @property
    def why(self) -> str:
        what = f"{self.bad} of {self.results} results are bad ({self.check} {self.partition})"
        if self.mostly_bad:
            reason = "so the reference, or something that all nodes share, may be wrong"
        else:
            reason = "too few to distinguish a bad node from its partners"
        good = f"; good: {' with '.join(self.good)}" if self.good else ""
        return f"no node is named: {what}, {reason}{good}"

    def next_step(self, accept: str) -> str:
        """What shows which nodes are bad; `accept` is the command, without its nodes."""
        if not self.good:
            return (
                f"{accept} --nodes with a node that is known to be good and one of "
                f"{hostlist.fold(self.others)}; and compare the reference: railgauge references"
            )
        step = f"{accept} --nodes {','.join(self.good)}"
        if not self.others:
            return step
        last = self.others[-1]
        named = f"{', '.join(self.others[:-1])} and {last}" if len(self.others) > 1 else last
        if len(self.others) > _NAMED:
            named = hostlist.fold(self.others)
        one = " one at a time" if len(self.others) > 1 else ""
        return f"{step}, then add {named}{one}"


def unnamed(
    check: str,
    partition: str,
    results: Sequence[Result],
    bad: Sequence[Result],
    suspects: Collection[Suspect],
) -> Unnamed | None:
    """Why none of `suspects` has a part in the `bad` results; None where one has, and where all is
    good.
    """
    nodes = {node for suspect in suspects for node in suspect.nodes}
    if not bad or any(nodes.intersection(result.nodes) for result in bad):
        return None
    times = Counter(node for result in bad for node in result.nodes)
    wrong = {id(result) for result in bad}
    good = {tuple(sorted(r.nodes, key=natural)) for r in results if id(r) not in wrong}
    # A pair that was good once and bad once more says less.
    good -= {tuple(sorted(r.nodes, key=natural)) for r in bad}
    first = min(
        good, key=lambda pair: (sum(times[n] for n in pair), *map(natural, pair)), default=()
    )
    others = tuple(sorted(times.keys() - set(first), key=natural))
    return Unnamed(check, partition, len(bad), len(results), first, others)
