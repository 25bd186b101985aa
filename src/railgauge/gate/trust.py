"""How far each check can be trusted: what its alarms turned out to be, over all campaigns.

An alarm is a node that a check accuses in a campaign. It was right where a retest in the same job
confirmed it, else where the campaign before or behind it that has the check on this node accuses it
too; it was false where none of these does. So a fault that was mended before anybody measured it
again counts as a false alarm: these figures rather accuse the check. Until there is a next campaign
the alarm is open.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from scipy import special

from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import STANDING
from railgauge.cluster.store import GateRules, Teeth
from railgauge.gate import coverage, teeth
from railgauge.model import record
from railgauge.model.record import BrokenRecordError, Standing

#: A check that may hold nodes is wrong less often than this, as a share of node-tests.
MOST_FALSE = 1 / 1000

#: How sure that must be; and how sure that it is more often wrong, for a step down.
CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Count:
    """Of one check. A node-test is a node on which a finished campaign had it measured, or one that
    broke off accused it.
    """

    tests: int = 0
    confirmed: int = 0
    false: int = 0
    open: int = 0

    @property
    def alarms(self) -> int:
        return self.confirmed + self.false + self.open


@dataclasses.dataclass(frozen=True)
class Trust:
    """What a check may do now, and what its record lets it: `proposed`.

    `lower` and `upper` are the bounds of its share of false alarms, each with CONFIDENCE; an open
    alarm counts for the upper one. `lacking` node-tests without a false alarm would let it hold.
    """

    check: str
    teeth: Teeth
    count: Count
    lower: float
    upper: float
    proposed: Teeth
    lacking: int


def counts(standings: Iterable[Mapping[str, Standing]]) -> dict[str, Count]:
    """By check, of campaigns from the oldest to the newest; of what nothing judged none."""
    tests: dict[str, int] = {}
    ended: dict[str, list[int]] = {}
    #: (node, check) -> of a node that was accused when it was tested last, whether rightly so;
    #: None where that is not decided
    accused: dict[tuple[str, str], bool | None] = {}
    for campaign in standings:
        for node, standing in campaign.items():
            if standing.alarms is None:
                continue
            for check in {*standing.checks, *standing.alarms}:
                tests[check] = tests.get(check, 0) + 1
                right_wrong, key = ended.setdefault(check, [0, 0]), (node, check)
                again = key in accused
                undecided = again and accused[key] is None
                if check in standing.alarms:
                    # With the one before it, which it confirms.
                    right = again or standing.alarms[check]
                    right_wrong[0] += int(right) + int(undecided)
                    accused[key] = True if right else None
                elif again:
                    right_wrong[1] += int(undecided)
                    del accused[key]
    waiting = [check for (_, check), right in accused.items() if right is None]
    return {
        check: Count(
            tests=tests[check],
            confirmed=ended[check][0],
            false=ended[check][1],
            open=waiting.count(check),
        )
        for check in sorted(tests)
    }


def bounds(count: Count) -> tuple[float, float]:
    """The share of false alarms that is too low, and too high, with CONFIDENCE each.

    Exact for a binomial: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404.
    """
    alpha, tests = 1 - CONFIDENCE, count.tests
    lower = (
        float(special.betaincinv(count.false, tests - count.false + 1, alpha))
        if count.false
        else 0.0
    )
    return lower, _upper(count.false + count.open, tests)


def _upper(wrong: int, tests: int) -> float:
    if wrong >= tests:
        return 1.0
    return float(special.betaincinv(wrong + 1, tests - wrong, CONFIDENCE))


def lacking(count: Count) -> int:
    """How many node-tests more, without another false alarm, would let it hold."""
    wrong, enough = count.false + count.open, count.tests
    step = 1
    while _upper(wrong, enough + step) >= MOST_FALSE:
        step *= 2
    too_few = step // 2
    if _upper(wrong, enough) < MOST_FALSE:
        return 0
    while step - too_few > 1:
        middle = (step + too_few) // 2
        if _upper(wrong, enough + middle) < MOST_FALSE:
            step = middle
        else:
            too_few = middle
    return step


def propose(now: Teeth, count: Count) -> Teeth:
    """`hold` below MOST_FALSE, a step down above, else as it is."""
    lower, upper = bounds(count)
    if upper < MOST_FALSE:
        return "hold"
    if lower > MOST_FALSE:
        return teeth.LEVELS[max(0, teeth.LEVELS.index(now) - 1)]
    return now


def read(system: str, rules: GateRules) -> list[Trust]:
    """Of every check that gate.yaml names or a campaign has."""
    found = counts(_standings(system))
    told = []
    for check in sorted({*found, *rules.teeth}):
        count, now = found.get(check, Count()), teeth.of(rules, check)
        told.append(Trust(check, now, count, *bounds(count), propose(now, count), lacking(count)))
    return told


def _standings(system: str) -> Sequence[Mapping[str, Standing]]:
    found = []
    for name in sorted(name for name, _ in coverage.ended(system)):
        try:
            standings = record.read_standings(campaigns.campaigns_folder() / name / STANDING)
        except BrokenRecordError:
            # It says nothing of any node.
            continue
        found.append(standings or {})
    return found
