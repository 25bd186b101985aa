"""The facts of a record: what is kept, and what is read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.campaign.folder import RESULT_FILE
from railgauge.common.errors import PrerequisiteError
from railgauge.model import record
from railgauge.model.record import Line, Result
from railgauge.verdict.campaign import cases, recorded_facts
from railgauge.verdict.campaign.recorded_facts import NodeFacts, ReducedResult, error_counters
from tests.unit import measured, records

FACTS = {
    "kernel": "6.12.0",
    "boot_id": "40853c6c",
    "device": "mlx5_0",
    "sampled": ["eth0", "mlx5_0"],
    "counters": {
        "seconds": 2.0,
        "counters": {
            "net/eth0/rx_bytes": 10**12,
            "net/eth0/rx_errors": 3,
            "rdma/mlx5_0/1/counters/symbol_error": 7,
        },
    },
    "after": {"state": "ACTIVE", "carrier_changes": 0},
}
PLACE = measured.PLACES[0]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A record with two places, of which both nodes tell the same but for a number."""
    path = tmp_path / RESULT_FILE
    results = []
    for number, place in enumerate(("n1:n2", "n3:n4")):
        nodes = place.split(":")
        facts = {node: {**FACTS, "rail": number} for node in nodes}
        results.append({**records.record(facts=facts)["results"][0], "place": place})
    records.write(path, {**records.record(), "results": results})
    return path


def reduced(path: Path) -> tuple[Result, ...]:
    found = record.read_record(path, recorded_facts.without_details, ReducedResult)
    assert found is not None
    return found.results


def test_all_that_was_recorded_can_be_asked_for(written: Path) -> None:
    whole = record.read_record(written)
    assert whole is not None
    for full, short in zip(whole.results, reduced(written), strict=True):
        assert {node: dict(of) for node, of in short.facts.items()} == full.facts
        assert [list(of) for of in short.facts.values()] == [list(of) for of in full.facts.values()]


def test_what_a_verdict_asks_of_every_place_is_kept(written: Path) -> None:
    facts = reduced(written)[1].facts["n4"]
    written.unlink()
    assert facts["boot_id"] == "40853c6c" and facts.get("sampled") == ["eth0", "mlx5_0"]
    assert facts.get("agreed") is None and "agreed" not in facts
    assert error_counters(facts) == {
        "net/eth0/rx_errors": 3,
        "rdma/mlx5_0/1/counters/symbol_error": 7,
    }


def test_a_record_that_is_gone_is_no_fact(written: Path) -> None:
    facts = reduced(written)[0].facts["n1"]
    written.unlink()
    with pytest.raises(PrerequisiteError, match="No such file"):
        facts.get("counters")


def test_another_record_in_its_place_is_no_fact(written: Path) -> None:
    facts = reduced(written)[0].facts["n1"]
    written.write_text(written.read_text().replace("n1:n2", "n5:n6"))
    with pytest.raises(PrerequisiteError, match="while it was read: has n5:n6 where n1:n2"):
        facts["counters"]


def test_a_line_that_was_cut_is_no_fact(written: Path) -> None:
    facts = reduced(written)[1].facts["n3"]
    written.write_bytes(written.read_bytes()[:-40])
    with pytest.raises(PrerequisiteError):
        facts["counters"]


def test_places_do_not_get_each_others_facts(written: Path) -> None:
    rails = [of["rail"] for result in reduced(written) for of in result.facts.values()]
    assert rails == [0, 0, 1, 1]


@given(
    st.dictionaries(
        st.sampled_from(["after", "boot_id", "counters", "device", "links", "port", "sampled"]),
        st.recursive(
            st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(st.text(max_size=2), inner, max_size=2)
            ),
            max_leaves=5,
        ),
    )
)
def test_a_kept_fact_is_the_recorded_one(facts: dict[str, Any]) -> None:
    text = json.dumps({**records.record()["results"][0], "facts": {"n1": facts}})
    read = ReducedResult.model_validate_json(text).facts["n1"]
    kept = NodeFacts(read, Line(Path("/gone"), 0, 0, ""), "n1")
    for name in ("after", "boot_id", "device", "links", "sampled"):
        assert (name in kept) == (name in facts)
        # True is 1 to Python, and not to a reader.
        assert json.dumps(kept.get(name)) == json.dumps(facts.get(name))
    assert ("counters" in kept) == ("counters" in facts)
    assert dict(error_counters(kept)) == dict(error_counters(facts))


def test_a_campaigns_cases_have_the_facts_of_their_record(tmp_path: Path) -> None:
    facts = dict.fromkeys(PLACE.split(":")[:2], FACTS)
    campaign = measured.leave(tmp_path, 1, {PLACE: 380.0}, facts=facts)
    (case,) = cases.read(campaign)
    assert {node: dict(of) for node, of in case.facts.items()} == facts
