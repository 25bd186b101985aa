"""The rule of precedence: which bound applies to a number, and where it is from."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.checks.framework import bounds
from railgauge.checks.framework.bounds import Inputs, Known
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Entry, Kind, Provenance, Reference, References
from railgauge.model.shares import LeastShare

#: A loaded pair of 8 Gb/s.
NUMBER = Measurement("bandwidth", 8.0, "iperf2", "tcp", "tcp", nodes=("n1", "n2"), load="loaded")

#: The lowest value that each source of `every_source` admits.
DESCRIBED, BASELINE, PUBLISHED, FLOOR, MINIMUM, SHARE = 7.0, 6.0, 5.0, 4.0, 3.0, 2.0


def at_least(value: float, kind: Kind = "floor", **more: Any) -> Reference:
    provenance = Provenance(source="a test", date=datetime.date(2026, 11, 28))
    numbers = {"value": value, "lower": 0, "unit": "Gb/s", **more}
    return Reference(kind=kind, provenance=provenance, **numbers)


def stored(number: Reference, **condition: Any) -> Entry:
    """An entry for the condition of NUMBER, with parts of it changed."""
    parts = {"operation": "tcp", "transport": "tcp", "nodes": 2, "load": "loaded", **condition}
    metrics = {"bandwidth": number.model_dump(exclude_unset=True)}
    return Entry.model_validate({"check": "Pair", "partition": "ns", "metrics": metrics, **parts})


def inputs(*entries: Entry, **changes: Any) -> Inputs:
    """What bounds follow from where nothing is known but the entries."""
    nothing: dict[str, Any] = {
        "gate": "acceptance",
        "least_shares": [],
        "described": lambda number: None,
        "minimum": lambda number: None,
        "limit": lambda number: None,
        "gates": lambda number: True,
        "adjust": lambda reference, number: reference,
    }
    references = References("lab", list(entries), Path("lab.yaml"))
    return Inputs(check="Pair", partition="ns", references=references, **{**nothing, **changes})


BY_MINIMUM = {"minimum": lambda number: at_least(MINIMUM)}
BY_SHARE = {
    "limit": lambda number: Limit(10.0, "Gb/s", "of a test"),
    "least_shares": [LeastShare(share=SHARE / 10, source="a test")],
}
AS_BASELINE = stored(at_least(BASELINE, "baseline"))
AS_PUBLISHED = stored(at_least(PUBLISHED, "published"))
AS_FLOOR = stored(at_least(FLOOR))
FOR_QUIET = stored(at_least(9.0, "baseline"), load="quiet")


def lowest(of: Inputs, number: Measurement = NUMBER, known: Known = "value") -> Any:
    bound = bounds.find_bound(of, number, known)
    return None if bound is None else (bound.source, bound.kind, round(bound.lowest or 0.0, 6))


def every_source(**changes: Any) -> Inputs:
    """Each source has a bound of its own."""
    by_description = {"described": lambda number: at_least(DESCRIBED)}
    sources: dict[str, Any] = {**by_description, **BY_MINIMUM, **BY_SHARE, **changes}
    return inputs(AS_BASELINE, AS_PUBLISHED, AS_FLOOR, **sources)


#: Every row has all that the rows below have, and one source more.
ORDER = [
    (every_source(), ("description", "floor", DESCRIBED)),
    (every_source(described=lambda number: None), ("stored", "baseline", BASELINE)),
    (
        inputs(AS_FLOOR, AS_PUBLISHED, **BY_MINIMUM, **BY_SHARE),
        ("stored", "published", PUBLISHED),
    ),
    (inputs(AS_FLOOR, **BY_MINIMUM, **BY_SHARE), ("stored", "floor", FLOOR)),
    (inputs(**BY_MINIMUM, **BY_SHARE), ("minimum", "floor", MINIMUM)),
    (inputs(**BY_SHARE), ("share", "share", SHARE)),
    (inputs(), None),
]


@pytest.mark.parametrize(("of", "applies"), ORDER)
def test_the_first_source_that_has_a_bound_applies(of: Inputs, applies: object) -> None:
    assert lowest(of) == applies


#: Exceptions to the order: what is known, and what applies.
EXCEPTIONS = {
    "a run that records a baseline is judged by nothing": (every_source(gate="baseline"), None),
    "a number of another condition judges nothing": (inputs(FOR_QUIET), None),
    "a share is asked only of numbers that must have a reference": (
        inputs(**BY_SHARE, gates=lambda number: False),
        None,
    ),
    "a number that needs no reference is judged by what is stored": (
        inputs(AS_FLOOR, gates=lambda number: False),
        ("stored", "floor", FLOOR),
    ),
    "a stored floor does not accept beside a baseline of another condition": (
        inputs(AS_FLOOR, FOR_QUIET),
        None,
    ),
    "nor does a minimum": (inputs(FOR_QUIET, **BY_MINIMUM), None),
    "and then the share judges": (
        inputs(AS_FLOOR, FOR_QUIET, **BY_SHARE),
        ("share", "share", SHARE),
    ),
    "and no minimum that is stricter than the stored floor": (
        inputs(AS_FLOOR, FOR_QUIET, minimum=lambda number: at_least(9.0)),
        None,
    ),
    "a floor rejects beside a baseline of another condition": (
        inputs(stored(at_least(8.5)), FOR_QUIET, **BY_SHARE),
        ("stored", "floor", 8.5),
    ),
    "the description accepts beside a baseline of another condition": (
        inputs(FOR_QUIET, described=lambda number: at_least(DESCRIBED)),
        ("description", "floor", DESCRIBED),
    ),
    "a stored number is adjusted to the place": (
        inputs(AS_BASELINE, adjust=lambda r, number: r.model_copy(update={"value": r.value / 2})),
        ("stored", "baseline", BASELINE / 2),
    ),
}


@pytest.mark.parametrize("what", EXCEPTIONS)
def test_exceptions_to_the_order(what: str) -> None:
    of, applies = EXCEPTIONS[what]
    assert lowest(of) == applies


def test_all_bounds_come_in_the_order_of_their_sources() -> None:
    found = [bound.source for bound in bounds.in_order(every_source(), NUMBER)]
    assert found == ["description", "stored", "share"]


# ---- before the number is measured: what nodes act on ----


@pytest.mark.parametrize(("of", "applies"), ORDER)
def test_before_the_run_the_order_is_the_same(of: Inputs, applies: object) -> None:
    assert lowest(of, known="condition") == applies


def test_before_the_run_a_number_that_is_to_be_measured_gates() -> None:
    def not_known_yet(number: Measurement) -> bool:
        raise AssertionError("which numbers gate is known after the run")

    of = inputs(**BY_SHARE, gates=not_known_yet)
    assert lowest(of, known="condition") == ("share", "share", SHARE)


def test_before_the_run_a_floor_counts_beside_a_baseline_of_another_condition() -> None:
    """Nodes only reject by it."""
    of = inputs(AS_FLOOR, FOR_QUIET)
    assert lowest(of, known="condition") == ("stored", "floor", FLOOR)


def test_before_the_run_only_a_bound_on_the_worse_side_counts() -> None:
    at_most = stored(at_least(9.0, "baseline", lower=None, upper=0.1))
    assert lowest(inputs(at_most, **BY_SHARE), known="condition") == ("share", "share", SHARE)


def test_of_a_place_the_highest_bound_of_its_load_applies() -> None:
    entries = [
        AS_BASELINE,
        stored(at_least(6.5, "baseline"), streams=4),
        stored(at_least(9.0, "baseline"), load="quiet"),
    ]
    of = inputs(*entries, **BY_MINIMUM)
    assert lowest(of, known="place") == ("stored", "baseline", 6.5)


def test_of_a_place_the_minimum_applies_where_nothing_is_stored() -> None:
    assert lowest(inputs(**BY_MINIMUM), known="place") == ("minimum", "floor", MINIMUM)


def test_of_a_place_no_share_applies() -> None:
    """It would be of a condition that is not known yet."""
    assert lowest(inputs(**BY_SHARE), known="place") is None


def test_of_a_place_the_upper_bound_of_what_is_better_low_applies() -> None:
    number = Measurement("retransmits", 0, "iperf2", "tcp", "tcp")
    most = at_least(100.0, lower=None, upper=0.5, unit="segments")
    bound = bounds.find_bound(inputs(minimum=lambda number: most), number, known="place")
    assert bound is not None and bound.highest == 150


@given(st.floats(0, 100), st.sampled_from(["value", "condition", "place"]))
def test_a_floor_that_judges_beside_a_baseline_elsewhere_always_rejects(
    value: float, known: Known
) -> None:
    number = Measurement(
        "bandwidth", value, "iperf2", "tcp", "tcp", nodes=("n1", "n2"), load="loaded"
    )
    bound = bounds.find_bound(inputs(AS_FLOOR, FOR_QUIET), number, known)
    if known == "value":
        assert bound is None or not bound.reference.admits(value)
        assert (bound is None) == (value >= FLOOR)
    else:
        assert bound is not None


# ---- a baseline of another condition ----


def test_a_baseline_of_another_condition_is_named() -> None:
    assert bounds.baseline_elsewhere(inputs(FOR_QUIET), NUMBER) == "load quiet"


@pytest.mark.parametrize(
    "of",
    [
        inputs(),
        inputs(AS_BASELINE, FOR_QUIET),
        inputs(FOR_QUIET, gate="baseline"),
        inputs(FOR_QUIET, gates=lambda number: False),
    ],
    ids=["none", "serves", "recording", "no reference needed"],
)
def test_no_baseline_of_another_condition_is_named(of: Inputs) -> None:
    assert bounds.baseline_elsewhere(of, NUMBER) == ""
