"""A campaign that is compared with an earlier one: what of it is a finding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from railgauge.campaign import folder
from railgauge.campaign.folder import Campaign
from railgauge.model.failure import Failure
from railgauge.verdict.campaign.finding import Finding
from railgauge.verdict.comparison import before_after, measurement_table, regressions
from railgauge.verdict.decision.rules import decide
from tests.unit import measured
from tests.unit.measured import PLACES

SLOW = PLACES[2]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    measured.leave(tmp_path, 0, rates(0))
    return tmp_path


def rates(seed: int, factor: float = 1.0, **changed: float) -> dict[str, float]:
    """Of each place, with 0.05 % of noise that follows from the seed."""
    spread = [0.9995 + 0.0001 * ((7 * n + 3 * seed) % 11) for n in range(len(PLACES))]
    return {
        place: 390 * factor * s * changed.get(place.partition(":")[0], 1.0)
        for place, s in zip(PLACES, spread, strict=True)
    }


def later(root: Path, values: Mapping[str, float], **options: Any) -> Campaign:
    return measured.leave(root, 1, values, compare=measured.name(0), **options)


def of_comparison(campaign: Campaign) -> list[Finding]:
    kinds = ("worse", "missing", "cannot-tell", "not-compared")
    return [finding for finding in decide(campaign).findings if finding.kind in kinds]


def test_a_campaign_that_is_as_before_has_no_finding_and_says_what_it_would_have_found(
    root: Path,
) -> None:
    campaign = later(root, rates(1))
    assert of_comparison(campaign) == []
    (told,) = [notice.message for notice in decide(campaign).notices if notice.kind == "compared"]
    assert "8 same; it finds a loss of" in told


def test_a_slower_link_is_named_and_no_other(root: Path) -> None:
    (finding,) = of_comparison(later(root, rates(1, n5=0.95)))
    assert (finding.kind, finding.weight, finding.place) == ("worse", "reject", SLOW)
    assert finding.nodes == ("n5", "n6") and "-5.0%" in finding.message


def test_what_all_lose_is_a_common_shift_and_names_no_node(root: Path) -> None:
    (finding,) = of_comparison(later(root, rates(1, factor=0.97)))
    assert (finding.kind, finding.nodes) == ("worse", ())
    assert "all 8 places" in finding.message and "-3.0%" in finding.message


def test_where_all_is_undecided_that_is_said(root: Path) -> None:
    """At the smallest change that matters no number of places tells more, and none."""
    (finding,) = of_comparison(later(root, rates(1, factor=0.98)))
    assert (finding.kind, finding.weight, finding.nodes) == ("cannot-tell", "inconclusive", ())
    assert "-2.0%" in finding.message and "all are as they were" in finding.message


def test_what_is_undecided_is_named(root: Path) -> None:
    (finding,) = of_comparison(later(root, rates(1, n5=0.98)))
    assert (finding.kind, finding.weight) == ("cannot-tell", "inconclusive")
    assert "whether 1 of 8 places" in finding.message
    assert finding.message.endswith(f"as in {measured.name(0)}: RdmaBandwidth {SLOW}")


def test_a_pair_that_was_measured_again_counts_as_it_was_then(root: Path) -> None:
    again = {f"{SLOW}@1": (SLOW, 390.0)}
    assert of_comparison(later(root, rates(1, n5=0.95), again=again)) == []


def test_the_measurement_that_was_made_again_confirms(root: Path) -> None:
    again = {f"{SLOW}@1": (SLOW, 370.0)}
    (finding,) = of_comparison(later(root, rates(1, n5=0.95), again=again))
    assert finding.place == SLOW


def test_another_pair_that_separated_nodes_is_no_place_of_before(root: Path) -> None:
    again = {"n5:n1:0-0@1": (SLOW, 390.0)}
    assert of_comparison(later(root, rates(1), again=again)) == []


def test_a_place_that_failed_has_nothing_to_compare(root: Path) -> None:
    failures = {SLOW: Failure("tool-failed", "perftest ended with exit code 1")}
    (finding,) = of_comparison(later(root, rates(1), failures=failures))
    assert (finding.kind, finding.weight) == ("missing", "inconclusive")
    assert SLOW in finding.message


@pytest.mark.parametrize(
    ("changes", "condition"),
    [
        ({"version": "6.29"}, "perftest of 26.04 and later"),
        (
            {"version": "6.29", "server_version": "6.24"},
            "perftest of 26.04 and later at one end",
        ),
    ],
)
def test_versions_that_bind_themselves_are_not_compared_with_those_that_do_not(
    root: Path, changes: dict[str, str], condition: str
) -> None:
    (finding,) = of_comparison(later(root, rates(1, factor=0.5), **changes))
    assert (finding.kind, finding.weight) == ("not-compared", "inconclusive")
    assert f"{condition})" in finding.message


def test_a_version_that_changed_nothing_is_compared(root: Path) -> None:
    assert of_comparison(later(root, rates(1), version="6.28")) == []


def test_numbers_of_another_warm_up_are_not_compared(root: Path) -> None:
    measured.leave(root, 2, rates(0), warmup=5)
    campaign = measured.leave(root, 3, rates(1), warmup=1, compare=measured.name(2))
    (finding,) = of_comparison(campaign)
    assert finding.kind == "not-compared" and "warm-up 5" in finding.message


def test_a_warm_up_that_the_earlier_campaign_does_not_state_is_compared(root: Path) -> None:
    assert of_comparison(later(root, rates(1), warmup=5)) == []


def test_places_of_one_version_are_compared_where_others_have_another(root: Path) -> None:
    """As in an update of some nodes."""
    values = rates(1, n5=0.9)
    some, others = dict(list(values.items())[:4]), dict(list(values.items())[4:])
    before = measured.leave(root, 2, rates(0))
    measured.leave(root, 3, some)
    measured.leave(root, 4, others, version="6.29")
    sides = [
        before_after.of_tables([measurement_table.read(one) for one in side], {})
        for side in ([before], [folder.load(measured.name(n)) for n in (3, 4)])
    ]
    compared = before_after.compare(*sides)
    assert compared.places["place"].to_list() == list(some)
    assert set(compared.missing["condition"]) == {
        "RdmaBandwidth ns: bandwidth 64 KiB, write, roce, 4 streams",
        "RdmaBandwidth ns: bandwidth 64 KiB, write, roce, 4 streams, perftest of 26.04 and later",
    }


def test_nodes_that_are_not_measured_now_are_not_missed(root: Path) -> None:
    some = dict(list(rates(1).items())[:6])
    assert of_comparison(later(root, some)) == []


def test_an_earlier_campaign_that_is_gone_is_said_and_nothing_accepted(root: Path) -> None:
    campaign = measured.leave(root, 1, rates(1), compare=measured.name(9))
    (finding,) = of_comparison(campaign)
    assert (finding.kind, finding.weight) == ("not-compared", "inconclusive")


def test_the_rates_of_before_are_what_the_clients_devices_carried(root: Path) -> None:
    counters = {"bytes": {"eth0": {"rx": 10**6, "tx": 4 * 10**9}, "lo": {"rx": 9**12, "tx": 0}}}
    facts = {"": {"counters": counters}}
    campaign = measured.leave(root, 3, rates(1), facts=facts)
    found = regressions.rates(campaign)[f"{measured.CHECK} %sweep=ns"]["ns"]
    # 4 GB in the second that the call took.
    assert found == dict.fromkeys(PLACES, pytest.approx(32.0))
