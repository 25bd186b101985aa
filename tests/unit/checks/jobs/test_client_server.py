"""What the sides of a client and a server leave behind: links that went away during the test."""

from __future__ import annotations

from typing import Any

import pytest

from railgauge.checks.jobs.client_server import link_failures


def violations(**facts: Any) -> list[tuple[str, str]]:
    """(kind, message) of what one node's facts amount to."""
    found = link_failures({"n6": {"device": "rxe0", **facts}})
    assert all(failure.nodes == ("n6",) for failure in found)
    return [(failure.kind, failure.message) for failure in found]


def test_a_rail_that_is_active_afterwards_is_well() -> None:
    assert violations(state="ACTIVE", after={"state": "ACTIVE", "links_down": []}) == []
    assert violations() == []


@pytest.mark.parametrize(
    ("after", "kind", "message"),
    [
        ({"state": "DOWN"}, "link-lost", "rxe0 on n6 was ACTIVE, and is DOWN now"),
        ({"links_down": ["eth4"]}, "link-lost", "link eth4 of rxe0 on n6 is down after the test"),
        (
            {"state": "ACTIVE", "carrier_changes": 2},
            "link-flap",
            "the carrier of rxe0 on n6 changed 2 times during the test",
        ),
    ],
)
def test_a_link_that_went_away_is_a_failure_of_its_node(
    after: dict[str, Any], kind: str, message: str
) -> None:
    assert violations(state="ACTIVE", after=after) == [(kind, message)]
