"""A rail whose device is gone when it is to be measured: that rail is named, and nobody else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge.checks.jobs.client_server import link_failures
from railgauge.model.failure import RAIL_MISSING, Failure
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.location.locate import suspects

GONE = "n2: no mlx5_1, rail 1, among the RDMA devices like mlx5_.* (mlx5_0)"


def case(a: str, b: str, rails: str, *failures: Failure) -> Case:
    return Case(
        *("RdmaBandwidth", f"RdmaBandwidth {a}:{b}:{rails}", "roce", (a, b), 0),
        *("fail" if failures else "pass", "", (), failures, Path("stage")),
        place=f"{a}:{b}:{rails}",
        kind=rails,
        recorded=True,
    )


def failures() -> Iterator[Failure]:
    """As the check finds them where the server's device is gone."""
    facts = {"n2": {"rail_missing": GONE.partition(": ")[2]}, "n3": {"device": "mlx5_1"}}
    yield from link_failures(facts)
    yield Failure("tool-failed", "client on n3: not started: no server on n2 after 0.1 s")


def test_a_missing_device_is_a_failure_of_its_node() -> None:
    first, *_ = failures()
    assert (first.kind, first.nodes, first.message) == (RAIL_MISSING, ("n2",), GONE)


@pytest.mark.parametrize("partners", [("n3",), ("n1", "n3"), ("n1", "n3", "n4")])
def test_the_rail_is_named_and_not_its_partner(partners: tuple[str, ...]) -> None:
    bad = [case("n2", partner, "1-1", *failures()) for partner in partners]
    good = [case("n2", partner, "0-0") for partner in partners]
    (only,) = suspects([*bad, *good])
    assert (only.kind, only.name, only.nodes, only.why) == ("rail", "n2:1", ("n2",), GONE)
    assert only.confirmed


def test_the_rail_is_the_one_of_its_node_where_both_have_another() -> None:
    (gone, *others) = failures()
    other = dataclasses.replace(gone, nodes=("n3",))
    (only,) = suspects([case("n2", "n3", "0-1", other, *others)])
    assert only.name == "n3:1"
