"""The plan in a campaign's folder: the selected cases, and how many there are."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.builtins import parameter
from reframe.core.meta import make_test
from reframe.core.pipeline import RunOnlyRegressionTest

from railgauge import paths
from railgauge.checks.framework import plan
from railgauge.checks.framework.cases import (
    Case,
    GroupCase,
    NodeCase,
    PairCase,
    PartitionCase,
    Places,
    RailCase,
    SweepCase,
)
from railgauge.model.record import Listed


class Pairs(RunOnlyRegressionTest):  # type: ignore[misc]
    pair = parameter(
        [
            RailCase("ns", "a", "b", 0, 0),
            RailCase("ns", "a", "b", 1, 1),
            RailCase("ns", "b", "a", 0, 0),
            RailCase("gpu", "c", "d", 0, 0),
        ]
    )
    operation = parameter(["read", "send"])


RAILS = tuple(RailCase("ns", "a", "b", rail, rail) for rail in range(3))


class Swept(RunOnlyRegressionTest):  # type: ignore[misc]
    sweep = parameter(
        [
            SweepCase("ns", Places(RAILS), "a,b", possible=3),
            SweepCase("ns", Places([RailCase("ns", "c", "d", 0, 0)]), "c,d", possible=2),
            SweepCase("gpu", Places([NodeCase("gpu", "e")]), possible=1),
        ]
    )
    operation = parameter(["read", "send"])


class World(RunOnlyRegressionTest):  # type: ignore[misc]
    size = parameter([8, 64])
    partition = parameter([PartitionCase("ns", ("a", "b")), PartitionCase("gpu", ("c",))])


class Everywhere(RunOnlyRegressionTest):  # type: ignore[misc]
    operation = parameter(["read", "send"])


class Single(RunOnlyRegressionTest):  # type: ignore[misc]
    pass


def case(check: Any, partition: str = "ns") -> Any:
    """A case of `check`, or of a class, as ReFrame hands it to the runner."""
    made = object.__new__(check) if isinstance(check, type) else check
    return SimpleNamespace(check=made, partition=SimpleNamespace(name=partition), deps=[])


def possible(*cases: Any) -> dict[str, dict[str, int]]:
    return plan.possible_cases(cases)


def test_all_cases_of_a_selected_check_are_counted_by_partition() -> None:
    assert possible(case(Pairs)) == {"Pairs": {"ns": 6, "gpu": 2}}


def test_places_of_a_sweep_are_counted_also_those_that_were_not_chosen() -> None:
    assert possible(case(Swept)) == {"Swept": {"ns": 10, "gpu": 2}}


def test_partition_alone_is_a_place_too() -> None:
    assert possible(case(World)) == {"World": {"ns": 2, "gpu": 2}}


def test_check_without_a_place_is_counted_where_it_has_cases() -> None:
    cases = [case(Everywhere), case(Everywhere, "gpu"), case(Single, "gpu")]
    assert possible(*cases) == {"Everywhere": {"ns": 2, "gpu": 2}, "Single": {"gpu": 1}}


def test_repeated_check_is_counted_once_a_repetition_and_not_once_a_class() -> None:
    # As --repeat=3 makes them, one for each case that was selected.
    repetitions = {".repeat_no": parameter(range(3))}
    classes = [make_test("Pairs", (Pairs,), dict(repetitions)) for _ in range(2)]
    assert possible(*map(case, classes)) == {"Pairs": {"ns": 18, "gpu": 6}}


def test_nothing_selected_is_nothing_possible() -> None:
    assert possible() == {}


# ---- the plan ----


#: What ReFrame knows of a check.
SINGLE = {
    "num_variants": 1,
    "get_variant_info": staticmethod(lambda number: {"params": {}}),
    "display_name": "Single",
    "unique_name": "Single",
    "num_tasks": 2,
    "num_tasks_per_node": 1,
    "max_pending_time": "5m",
    "time_limit": 60,
}


def planned(folder: Path, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> dict[str, Any]:
    """The plan's entry for a check with these fields, of a campaign in `folder`."""
    system = SimpleNamespace(system=SimpleNamespace(name="lab"))
    monkeypatch.setattr(plan.runtime, "runtime", lambda: system)
    monkeypatch.setenv(paths.CAMPAIGN_VARIABLE, str(folder))
    check = type("Single", (), {**SINGLE, **fields})
    plan.write_plan([case(check())])
    (entry,) = json.loads((folder / "plan.json").read_text())
    assert isinstance(entry, dict)
    return entry


def test_a_campaign_keeps_the_switch_ports_that_the_systems_data_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = {"n1": {"eth0": "leaf1 swp1"}}
    monkeypatch.setattr(plan.topology, "switch_ports", lambda system: ports)
    planned(tmp_path, monkeypatch)
    assert json.loads((tmp_path / "switch_ports.json").read_text()) == ports


def measuring(*places: Case, needs: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """The fields of a check that measures these places."""
    target = places[0] if len(places) == 1 else SweepCase("ns", Places(places))
    return {"target": target, "places": places, "needs": lambda self, place: needs}


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (PairCase("ns", "a", "b"), ""),
        (RailCase("ns", "a", "b", 0, 1), "0-1"),
        (GroupCase("ns", "all_reduce", "one-hca", ("a", "b")), "all_reduce one-hca"),
    ],
)
def test_plan_has_the_kind_of_each_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Case, kind: str
) -> None:
    (planned_place,) = planned(tmp_path, monkeypatch, **measuring(place))["places"]
    assert planned_place["kind"] == kind


def test_plan_has_the_tool_whose_transfers_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(tmp_path, monkeypatch, transfer_tool="scp")["transfer_tool"] == "scp"
    assert planned(tmp_path, monkeypatch)["transfer_tool"] == ""


def test_plan_has_every_place_of_a_sweep_with_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = planned(tmp_path, monkeypatch, **measuring(*RAILS))
    names = [place["name"] for place in entry["places"]]
    assert names == ["a:b:0-0", "a:b:1-1", "a:b:2-2"]
    assert {tuple(place["nodes"]) for place in entry["places"]} == {("a", "b")}


def test_plan_has_the_places_that_each_place_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = ("Path", "a"), ("Path", "b")
    entry = planned(tmp_path, monkeypatch, **measuring(*RAILS, needs=needed))
    assert [place["needs"] for place in entry["places"]] == [[["Path", "a"], ["Path", "b"]]] * 3


def test_a_check_that_knows_of_no_places_is_one_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place,) = planned(tmp_path, monkeypatch, pinned_nodes=["a", "b"])["places"]
    assert (place["name"], place["nodes"]) == ("", ["a", "b"])


def test_the_longest_that_a_sweep_may_take_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(tmp_path, monkeypatch, longest_seconds=1000)["limit_s"] == 1300
    assert planned(tmp_path, monkeypatch)["limit_s"] == 360


def test_number_of_possible_cases_is_beside_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(tmp_path, monkeypatch)
    assert json.loads((tmp_path / "possible.json").read_text()) == {"Single": {"ns": 1}}


def listed(**fields: Any) -> Listed:
    check = type("Single", (), {"display_name": "Single", "pinned_nodes": ["a"], **fields})
    return plan.listed(case(check()))


def test_a_sweep_is_listed_with_the_number_of_its_places_rounds_and_nodes() -> None:
    of_job = {"planned_rounds": 3, "expected_seconds": 9.0, "longest_seconds": 648.0}
    found = listed(**measuring(*RAILS), **of_job)
    assert (found.places, found.rounds, found.node_count, found.seconds) == (3, 3, 2, 9.0)
    assert found.limit_s == 648


def test_a_check_that_knows_of_no_places_is_listed_as_one() -> None:
    found = listed()
    assert (found.places, found.rounds, found.node_count, found.seconds) == (1, 1, 1, None)
