"""The preflight of a node: what it judges, and which checks its result keeps from the node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from railgauge.checks.framework.observation import Judged
from railgauge.checks.preflight import inventory_state
from railgauge.model import inventory
from railgauge.model.inventory import Inventory
from railgauge.node.inventory.sheet import Scalar
from railgauge.systems import expected
from railgauge.systems.expected import Expectation, Expected
from tests.unit.checks import ended_jobs

SYSTEM, NODE, NODES = "dgx-h100", "dgx-h100-n01", "dgx-h100-n[01-02]"

ENTRY = Expectation.model_validate(
    {"fields": "kernel/release", "is": "6.12", "why": "w", "fix": "install it"}
)

#: What is wrong on the first node.
TUNING: dict[str, Scalar | None] = {"kernel/release": "6.11"}
RAIL: dict[str, Scalar | None] = {"nic/mlx5_0/1/state": "DOWN"}

Wrong = Mapping[str, "Scalar | None"]


def healthy(rdma: Any) -> dict[str, Scalar]:
    """The fields that the preflight judges, on a node with all rails."""
    fields: dict[str, Scalar] = {"kernel/release": "6.12", "limits/memlock_kib": "unlimited"}
    for device in rdma.names:
        fields |= {
            f"nic/{device}/1/state": "ACTIVE",
            f"nic/{device}/1/phys_state": "LinkUp",
            f"nic/{device}/1/link_layer": rdma.link_layer,
            f"nic/{device}/1/rate": rdma.rate,
            f"nic/{device}/1/gid_types_ipv4": str(rdma.gid_type),
            f"nic/{device}/1/active_mtu_bytes": rdma.active_mtu_bytes,
        }
    return fields


class Preflight:
    """A session in which NodeState has judged two nodes, the first with something wrong."""

    def __init__(self, known: Mapping[str, Any], stage: Path) -> None:
        self.known, self.stage = known, stage

    def judge(self, wrong: Wrong, taken_of: str = NODE) -> Any:
        """NodeState, once its job has left inventories; the first is of the node `taken_of`."""
        check = ended_jobs.ended(self.known["NodeState"].kind(variant_num=0), self.stage)
        check._rfm_dry_run = True
        check.select_places()
        sides = {}
        for place in check.places:
            is_first = place.place == NODE
            fields = {**healthy(check.partition_data.extras.rdma), **(wrong if is_first else {})}
            document = Inventory(
                taken_of if is_first else place.place,
                *("b", "2026-11-28T10:00:00+00:00", 0.1),
                {key: value for key, value in fields.items() if value is not None},
                {},
            )
            line = ended_jobs.exit_line(inventory_state.TOOL, "rank0", place.place)
            files = {inventory.FILE: json.dumps(document.as_dict())}
            sides[place.place] = {"rank0": ended_jobs.side(line, "", files=files)}
        ended_jobs.Left(sides, dict.fromkeys(sides, ended_jobs.DONE), tuple(sides)).write(check)
        ended_jobs.judge(check)
        return check

    def kept_away(self, check: Any, dependent: str) -> bool:
        """Whether no place of a check with the first node is measured; else all are."""
        other = self.known[dependent].kind(variant_num=0)
        other.getdep = lambda name: check
        other.needs = lambda place, needs=other.needs: [
            need for need in needs(place) if need[0] == "NodeState"
        ]
        with_it = [place for place in other.places if NODE in place.nodes]
        refused = other.failed_preconditions(other.places)
        assert len(refused) in (0, len(with_it))
        assert all(f"NodeState {NODE}" in reason for reason in refused.values())
        return bool(refused)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Preflight]:
    monkeypatch.setattr(expected, "load", lambda _: Expected(expected=[ENTRY]))
    with ended_jobs.session(SYSTEM, tmp_path, RAILGAUGE_NODES=NODES) as known:
        yield Preflight(known, tmp_path / "stage")


def first(check: Any) -> Judged:
    found = next(judged for judged in check.results if judged.place.place == NODE)
    assert isinstance(found, Judged)
    return found


def numbers(check: Any) -> dict[str, tuple[float, float | None]]:
    """Variable -> the number of the first node, and the one that it should be."""
    evidence = first(check).evidence
    return {
        m.variable: (m.value, evidence.references[m.variable].value) for m in evidence.measurements
    }


def failures(check: Any) -> list[tuple[str, str]]:
    return [(failure.kind, failure.message) for failure in first(check).failures]


def test_a_healthy_node_passes_with_its_entries_and_links(session: Preflight) -> None:
    check = session.judge({})
    assert all(judged.passed for judged in check.results)
    assert numbers(check) == {"expectations": (1, 1), "links": (8, 8)}


def test_each_judgement_has_its_kind_of_failure(session: Preflight) -> None:
    check = session.judge({**TUNING, **RAIL})
    assert failures(check) == [
        ("path", f"{NODE}: rail 0 (mlx5_0 port 1): state is DOWN, expected ACTIVE"),
        ("state", f'{NODE}: kernel/release is "6.11", expected "6.12"'),
    ]
    assert numbers(check) == {"expectations": (0, 1), "links": (7, 8)}


@pytest.mark.parametrize(
    ("wrong", "kept_away"),
    [
        ({}, []),
        # The numbers of a pair tell what a setting costs; NCCL takes many nodes for minutes.
        (TUNING, ["GpuLinks", "NcclPair"]),
        (RAIL, ["RailProbe", "RdmaBandwidth"]),
        ({**TUNING, **RAIL}, ["GpuLinks", "NcclPair", "RailProbe", "RdmaBandwidth"]),
    ],
)
def test_a_failed_node_is_kept_from_the_checks_that_rest_on_what_failed(
    session: Preflight, wrong: Wrong, kept_away: list[str]
) -> None:
    check = session.judge(wrong)
    names = ("GpuLinks", "NcclPair", "RailProbe", "RdmaBandwidth")
    assert [name for name in names if session.kept_away(check, name)] == kept_away


def test_an_inventory_of_another_node_passes_nothing(session: Preflight) -> None:
    check = session.judge({}, taken_of="dgx-h100-n07")
    reason = f"the inventory is of dgx-h100-n07, expected {NODE}"
    assert failures(check) == [("output", reason)]
    assert all(session.kept_away(check, name) for name in ("NcclPair", "RailProbe"))


def test_rails_are_judged_without_an_expected_yaml(
    session: Preflight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expected, "load", lambda _: None)
    check = session.judge(RAIL)
    assert numbers(check) == {"links": (7, 8)}
    assert [kind for kind, _ in failures(check)] == ["path"]
    # Peers are compared only where the system has the file.
    assert "agreed" not in first(check).evidence.seen_on[NODE]


def test_a_bond_is_kept_from_a_node_as_a_rail_is(session: Preflight) -> None:
    known = session.known
    assert known["BondPair"].kind.preconditions.stopped_by == {"path"}
