"""The smallest loss that is found, against theory and against what the comparison does."""

from __future__ import annotations

import dataclasses
import datetime
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.cli import cli
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.model.references import Provenance, Reference
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.outliers import outliers
from railgauge.verdict.comparison import campaign_power, power, smallest_loss
from railgauge.verdict.comparison.link_changes import FALSE_DISCOVERIES, WORSE, Samples, contrast
from railgauge.verdict.comparison.significance import Floats
from tests.command_line import invoke

LINKS = 512


@pytest.mark.parametrize(("baseline", "theory"), [(10, 0.02422), (10**9, 0.01713)])
def test_without_a_margin_it_is_what_normal_theory_says(baseline: int, theory: float) -> None:
    # (z of 1/1000 + z of 99 %) x 1 % x sqrt(1/10 + 1/baseline), one-sided.
    se = np.array([0.01 * np.sqrt(1 / 10 + 1 / baseline)])
    loss = power.smallest_loss(se, np.array([1e9]), alpha=0.002, margin=0)
    assert loss is not None and -np.log1p(-loss) == pytest.approx(theory, abs=2e-5)


def test_a_margin_adds_to_it() -> None:
    se, df = np.array([0.01]), np.array([20.0])
    small, large = (power.smallest_loss(se, df, 1e-4, margin) for margin in (0.0, 0.02))
    assert small is not None and large is not None and 0.015 < large - small < 0.02


def test_links_without_an_error_find_nothing() -> None:
    assert power.smallest_loss(np.array([np.nan]), np.array([0.0]), 1e-4) is None


@given(
    st.lists(
        # Degrees of freedom are none, or at least one (Welch's are not below the smaller sample's).
        st.tuples(
            st.floats(1e-6, 30) | st.just(float("nan")),
            st.sampled_from([-1, 0]) | st.floats(1, 1e6),
        ),
        max_size=6,
    ),
    st.sampled_from([0.0, 0.02]),
)
def test_the_losses_of_all_links_are_those_of_each(
    links: list[tuple[float, float]], margin: float
) -> None:
    se, df = np.array(links, dtype=float).reshape(-1, 2).T
    each = [power.smallest_loss(se[[n]], df[[n]], 1e-4, margin) for n in range(len(links))]
    found = power.smallest_losses(se, df, 1e-4, margin)
    assert [np.isnan(loss) for loss in found] == [loss is None for loss in each]
    # smallest_loss looks for it in steps.
    assert found[~np.isnan(found)] == pytest.approx(
        [loss for loss in each if loss is not None], abs=2 * smallest_loss.STEP
    )


def test_more_runs_find_less() -> None:
    losses = [power.planned(0.01, runs, runs, LINKS).link for runs in (2, 3, 5, 10)]
    assert losses == sorted(losses, key=lambda loss: -(loss or 0)) and None not in losses


def test_a_node_needs_less_than_a_link_and_all_links_the_least() -> None:
    found = power.planned(0.01, 3, 3, LINKS, of_node=16)
    assert found.link and found.node and found.all and found.link > found.node > found.all


#: Campaigns of which a share is found. The seeds are fixed.
TRIALS = 50


def compared(values: Floats, runs: int) -> tuple[Samples, int]:
    link, run = (axis.reshape(-1) for axis in np.indices(values.shape))
    none = np.zeros(values.shape[0], dtype=np.int64)
    after = np.arange(values.shape[1]) >= runs
    less = np.zeros(values.shape[0], dtype=bool)
    samples = Samples(values.reshape(-1), link, run, after, none, none, less)
    return samples, int(contrast(samples).word[0])


@pytest.mark.parametrize(("factor", "least", "most"), [(1.0, 0.96, 1.0), (0.75, 0.0, 0.75)])
def test_the_planned_loss_is_found_and_a_smaller_one_is_not(
    factor: float, least: float, most: float
) -> None:
    loss = power.planned(0.01, 3, 3, LINKS).link
    assert loss is not None
    random = np.random.default_rng(0)
    found = 0
    for _ in range(200):
        values = random.normal(0, 0.01, (LINKS, 6))
        values[0, 3:] += np.log1p(-factor * loss)
        found += compared(values, 3)[1] == WORSE
    assert least <= found / 200 <= most


def test_what_a_comparison_says_that_it_finds_it_finds() -> None:
    random = np.random.default_rng(1)
    sd = 0.01 * np.exp(random.normal(0, 0.25, (LINKS, 1)))
    noise = sd * random.standard_normal((LINKS, 10))
    samples, _ = compared(noise, 5)
    loss = power.of_links(contrast(samples), samples, 0, 0.02, FALSE_DISCOVERIES)
    assert loss is not None
    found = 0
    for link in range(TRIALS):
        values = np.roll(noise, -link, axis=0).copy()
        values[0, 5:] += np.log1p(-loss)
        found += compared(values, 5)[1] == WORSE
    assert found / TRIALS >= 0.96


def run(*words: str) -> tuple[int, str]:
    answer = invoke(cli, ["power", *words])
    return answer.exit_code, answer.output


def test_the_places_of_a_system_are_counted() -> None:
    code, output = run("dgx-h100", "--runs", "3", "--noise", "0.01", "--json")
    (partition,) = json.loads(output)
    assert code == 0 and partition["places"] == 256
    assert 0.05 < partition["link"] < 0.1 and partition["all"] < 0.03


def test_it_is_said_in_a_line_a_partition() -> None:
    code, output = run("dgx-h100", "--runs", "3", "--noise", "0.01")
    assert code == 0 and output.startswith("h100: 256 places, 3 runs against 3: a loss of ")


# ---- a campaign by itself ----

REFERENCE = Reference(
    value=100.0,
    lower=-0.06,
    unit="Gb/s",
    kind="baseline",
    provenance=Provenance(source="a test", date=datetime.date(2026, 11, 21)),
)


def campaign(
    values: Floats, reference: Reference | None = None, peer_spread: float = 0.01
) -> list[Case]:
    """Of places of a ring by runs, as cases that passed."""
    many = values.shape[0]
    cases = []
    for (place, run), value in np.ndenumerate(values):
        nodes = (f"n{place}", f"n{(place + 1) % many}")
        m = Measurement("bandwidth", float(value), "iperf2", "tcp", "tcp", nodes=nodes)
        rows = (Row(m, reference, None),)
        name = f"Iperf2Pair {':'.join(nodes)}"
        of = Case("Iperf2Pair", name, "ns", nodes, run, "pass", "", rows, (), None)
        cases.append(dataclasses.replace(of, place=":".join(nodes), peer_spread=peer_spread))
    return cases


def noisy(random: np.random.Generator, places: int, runs: int) -> Floats:
    return 100 * np.exp(random.normal(0, 0.01, (places, runs)))


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("reference", [REFERENCE, None])
def test_the_stated_loss_of_a_place_is_found_and_a_smaller_one_is_not(
    runs: int, reference: Reference | None
) -> None:
    random = np.random.default_rng(7)
    stated = campaign_power.of(campaign(noisy(random, 64, runs), reference)).conditions[0].link
    assert stated is not None

    def found(loss: float) -> float:
        count = 0
        for _ in range(TRIALS):
            values = noisy(random, 64, runs)
            values[5] *= 1 - loss
            cases = campaign(values, reference)
            of_place = cases[5 * runs : 6 * runs]
            out = any(row.within is False for case in of_place for row in case.rows)
            count += out or ("n5", "n6") in [one.nodes for one in outliers(cases)]
        return count / TRIALS

    assert found(stated) >= 0.96
    assert found(0.6 * stated) <= 0.6


def test_what_all_places_lose_their_peers_do_not_show() -> None:
    values = noisy(np.random.default_rng(7), 64, 1)
    by_peers, by_reference = (
        campaign_power.of(campaign(values, known)).conditions[0] for known in (None, REFERENCE)
    )
    assert by_peers.by == ("peers",) and by_peers.all is None
    assert by_reference.by == ("baseline", "peers") and by_reference.all is not None
    assert by_reference.link is not None and by_reference.all < by_reference.link


def test_of_few_places_nothing_is_stated() -> None:
    found = campaign_power.of(campaign(noisy(np.random.default_rng(7), 3, 1), REFERENCE))
    assert found.sharpest is None and found.conditions[0].noise is None


def test_false_alarms_follow_from_how_near_the_bound_is() -> None:
    near = REFERENCE.model_copy(update={"lower": -0.01})
    values = noisy(np.random.default_rng(7), 400, 1)
    # 1 % below the median is one standard deviation: 16 % of 400 healthy places.
    alarms = campaign_power.of(campaign(values, near, peer_spread=0.2)).false_alarms
    assert alarms == pytest.approx(64, rel=0.2)


def test_groups_of_one_launch_are_one_number() -> None:
    shared = {"n1": {"slowest_of": 16, "launch": 0}}
    values = noisy(np.random.default_rng(7), 16, 1)
    cases = [dataclasses.replace(one, facts=shared) for one in campaign(values, REFERENCE)]
    assert campaign_power.of(cases).conditions[0].link is None
