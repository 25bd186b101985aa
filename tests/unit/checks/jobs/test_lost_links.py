"""Links that went away, or came back, while NCCL's ranks ran."""

from __future__ import annotations

from typing import Any

import pytest

from railgauge.checks.jobs.lost_links import lost
from railgauge.verdict.decision.node_status import _carriers
from tests.unit.verdict.location.test_lost_rails import case


def said(before: Any, after: Any, changes: tuple[Any, Any] = (4, 4)) -> dict[str, Any]:
    link = {"before": {"states": before}, "after": {"states": after}}
    for when, count in zip(link.values(), changes, strict=True):
        when |= {} if count is None else {"carrier_changes": count}
    return {"links": {"mlx5_1": link}}


@pytest.mark.parametrize(
    ("before", "after", "changes", "kinds"),
    [
        (["ACTIVE"], ["ACTIVE"], (4, 4), []),
        (["ACTIVE"], ["ACTIVE"], (4, 6), ["link-flap"]),
        (["ACTIVE"], ["DOWN"], (4, 5), ["link-lost", "link-flap"]),
        (["ACTIVE"], [], (4, None), ["link-lost"]),
        (["ACTIVE"], [None], (None, None), ["link-lost"]),
        (["ACTIVE", "ACTIVE"], ["ACTIVE", "INIT"], (4, 4), ["link-lost"]),
        # It was down before: the path's check says so.
        (["DOWN"], ["DOWN"], (4, 4), []),
        # An interface has no ports.
        ([], [], (4, 4), []),
        ([], [], (4, 5), ["link-flap"]),
        ([], [], (None, 5), []),
    ],
)
def test_a_link_that_went_away_or_came_back_is_told_with_its_node(
    before: Any, after: Any, changes: Any, kinds: list[str]
) -> None:
    found = lost({"n1": said(["ACTIVE"], ["ACTIVE"]), "n2": said(before, after, changes)})
    assert [failure.kind for failure in found] == kinds
    assert all(failure.nodes == ("n2",) and "mlx5_1 on n2" in failure.message for failure in found)


def test_who_watched_no_link_says_nothing_of_it() -> None:
    assert lost({"n1": {"counters": {}}}) == []


def test_carriers_of_nccls_jobs_are_counted_as_those_of_pairs() -> None:
    one = case("n1", "n2", "default")
    vars(one)["facts"] = {"n1": said(["ACTIVE"], ["ACTIVE"], (4, 6)), "n2": {"links": None}}
    assert _carriers("n1", [one]) == {"mlx5_1": (4, 6)}
    assert _carriers("n2", [one]) == {}
