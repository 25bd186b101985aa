"""How far each check can be trusted: which of its alarms were right, over all campaigns.

An alarm is a node that a check accuses in a campaign. It was right where a retest in the same job
confirmed it, or where the previous or the next campaign with this check on the node accuses it,
too; else it was false. So a fault that was repaired before it was measured again counts as a false
alarm: these figures rather accuse the check. Until there is a next campaign the alarm is open.

A check may fail at first, and its node be cleared when it is measured again with another partner.
No node is accused then: this is no alarm, and it is counted separately. A check that is cleared
often is noisy, and costs the time of the retests.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import scipy

from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import STANDING
from railgauge.cluster.store import Enforcement, GateRules
from railgauge.gate import coverage, enforcement
from railgauge.model import record
from railgauge.model.record import BrokenRecordError, Standing

#: A check may hold nodes when it is wrong less often than this, as a share of node-tests.
MOST_FALSE = 1 / 1000

#: The confidence that this needs; and, for a step down, that it is wrong more often.
CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Count:
    """The alarms of a check. A node-test is a node on which it was measured in a finished campaign,
    or which it accused in one that broke off. In `cleared` of them it failed at first, and a retest
    in the same job cleared the node: no alarms.
    """

    tests: int = 0
    confirmed: int = 0
    false: int = 0
    open: int = 0
    cleared: int = 0

    @property
    def alarms(self) -> int:
        return self.confirmed + self.false + self.open


@dataclasses.dataclass(frozen=True)
class Trust:
    """What a check may do now, and what its record allows: `proposed`.

    `lower` and `upper` are the bounds of its share of false alarms, each with CONFIDENCE; open
    alarms count for the upper one. After `lacking` more node-tests without a false alarm it may
    hold.
    """

    check: str
    enforcement: Enforcement
    count: Count
    lower: float
    upper: float
    proposed: Enforcement
    lacking: int


def counts(standings: Iterable[Mapping[str, Standing]]) -> dict[str, Count]:
    """Check -> its count, by campaigns from the oldest to the newest; what nothing judged is left
    out.
    """
    tests: dict[str, int] = {}
    cleared: collections.Counter[str] = collections.Counter()
    right_and_wrong: dict[str, list[int]] = {}
    #: (node, check) of a node that was accused when it was tested last -> whether rightly so; None
    #: where that is not decided
    accused: dict[tuple[str, str], bool | None] = {}
    for campaign in standings:
        for node, standing in campaign.items():
            if standing.alarms is None:
                continue
            cleared.update(standing.cleared)
            for check in {*standing.checks, *standing.alarms}:
                tests[check] = tests.get(check, 0) + 1
                counted, key = right_and_wrong.setdefault(check, [0, 0]), (node, check)
                again = key in accused
                undecided = again and accused[key] is None
                if check in standing.alarms:
                    # It confirms an undecided alarm before it.
                    right = again or standing.alarms[check]
                    counted[0] += int(right) + int(undecided)
                    accused[key] = True if right else None
                elif again:
                    counted[1] += int(undecided)
                    del accused[key]
    waiting = [check for (_, check), right in accused.items() if right is None]
    return {
        check: Count(
            tests=tests[check],
            confirmed=right_and_wrong[check][0],
            false=right_and_wrong[check][1],
            open=waiting.count(check),
            cleared=cleared[check],
        )
        for check in sorted(tests)
    }


def bounds(count: Count) -> tuple[float, float]:
    """The lower and the upper bound of the share of false alarms, with CONFIDENCE each.

    Exact for a binomial: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404.
    """
    alpha, tests = 1 - CONFIDENCE, count.tests
    lower = (
        float(scipy.special.betaincinv(count.false, tests - count.false + 1, alpha))
        if count.false
        else 0.0
    )
    return lower, _upper(count.false + count.open, tests)


def _upper(false_alarms: int, tests: int) -> float:
    if false_alarms >= tests:
        return 1.0
    return float(scipy.special.betaincinv(false_alarms + 1, tests - false_alarms, CONFIDENCE))


def lacking(count: Count) -> int:
    """How many more node-tests without another false alarm would let a check hold."""
    false_alarms, tests = count.false + count.open, count.tests
    step = 1
    while _upper(false_alarms, tests + step) >= MOST_FALSE:
        step *= 2
    too_few = step // 2
    if _upper(false_alarms, tests) < MOST_FALSE:
        return 0
    while step - too_few > 1:
        middle = (step + too_few) // 2
        if _upper(false_alarms, tests + middle) < MOST_FALSE:
            step = middle
        else:
            too_few = middle
    return step


def propose(now: Enforcement, count: Count) -> Enforcement:
    """The proposed enforcement: `hold` below MOST_FALSE, a step down above, else as they are."""
    lower, upper = bounds(count)
    if upper < MOST_FALSE:
        return "hold"
    if lower > MOST_FALSE:
        return enforcement.LEVELS[max(0, enforcement.LEVELS.index(now) - 1)]
    return now


def read(system: str, rules: GateRules) -> list[Trust]:
    """The trust in every check that gate.yaml names or a campaign has."""
    counts_by_check = counts(_standings(system))
    trusts = []
    for check in sorted({*counts_by_check, *rules.enforcement}):
        count, now = counts_by_check.get(check, Count()), enforcement.of(rules, check)
        trusts.append(Trust(check, now, count, *bounds(count), propose(now, count), lacking(count)))
    return trusts


def _standings(system: str) -> Sequence[Mapping[str, Standing]]:
    by_campaign = []
    for name in sorted(name for name, _ in coverage.ended(system)):
        try:
            standings = record.read_standings(campaigns.campaigns_folder() / name / STANDING)
        except BrokenRecordError:
            # It says nothing of any node.
            continue
        by_campaign.append(standings or {})
    return by_campaign
