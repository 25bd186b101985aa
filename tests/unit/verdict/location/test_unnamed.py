"""A campaign with bad pairs and no suspect says why, and what to measure next."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from railgauge.report import page, text
from railgauge.report.feeds import markdown
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.decision.verdict import Verdict
from railgauge.verdict.location.locate import name_suspects
from railgauge.verdict.location.unnamed import Unnamed
from tests.unit.verdict.decision.test_rules import PAIR_FAILURE, Recorded, case_on

#: All pairs of four nodes.
_PAIRS = [("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n1"), ("n1", "n3"), ("n2", "n4")]


def two_of_four_are_slow() -> list[Case]:
    return [
        case_on(pair, passed=not {"n2", "n3"} & set(pair), round=number)
        for number, pair in enumerate(_PAIRS)
    ]


def judged(folder: Path, unnamed: tuple[Unnamed, ...], command: list[str]) -> Verdict:
    recorded = Recorded(folder / "20261121T042325Z-lab-91c33c")
    recorded.fail(0, PAIR_FAILURE)
    verdict = recorded.decide()
    verdict.campaign.context["command"] = command
    return dataclasses.replace(verdict, suspects=(), unnamed=unnamed)


def test_two_slow_nodes_of_four_leave_nobody_named_with_the_reason() -> None:
    named = name_suspects(two_of_four_are_slow())
    assert named.suspects == () and named.fewest is None
    (unnamed,) = named.unnamed
    assert unnamed.why == (
        "no node is named: 5 of 6 results are bad (Iperf2Pair ns), so the reference, or something "
        "that all nodes share, may be wrong; good: n1 with n4"
    )
    assert unnamed.next_step("railgauge accept") == (
        "railgauge accept --nodes n1,n4, then add n2 and n3 one at a time"
    )


def test_where_all_is_bad_a_good_node_is_asked_for() -> None:
    (unnamed,) = name_suspects([case_on(pair, passed=False) for pair in _PAIRS]).unnamed
    assert (unnamed.bad, unnamed.good) == (6, ())
    assert "a node that is known to be good and one of n[1-4]" in unnamed.next_step("accept")


@pytest.mark.parametrize("bad", [(), ("n2",)])
def test_nothing_is_said_where_all_is_good_and_where_a_node_is_named(bad: tuple[str, ...]) -> None:
    cases = [case_on(pair, passed=not set(bad) & set(pair)) for pair in _PAIRS]
    named = name_suspects(cases)
    assert {node for suspect in named.suspects for node in suspect.nodes} == set(bad)
    assert named.unnamed == ()


def test_text_page_and_summary_say_it_with_the_partition_that_was_asked_for(tmp_path: Path) -> None:
    typed = ["railgauge", "accept", "--partition", "ns", "--places", "n1:n2"]
    unnamed = Unnamed("Iperf2Pair", "ns", 5, 6, ("n1", "n4"), ("n2", "n3"))
    verdict = judged(tmp_path, (unnamed,), typed)
    step = "railgauge accept --partition ns --nodes n1,n4, then add n2 and n3 one at a time"
    for shown in (text.plain(verdict, width=200), page.html(verdict), markdown.markdown(verdict)):
        assert "no node is named: 5 of 6 results are bad" in re.sub(r"\\", "", shown)
        assert step in shown
    assert verdict.as_dict()["no_suspect"][0]["next_step"] == step


def test_the_last_line_counts_the_places_that_are_printed(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "20261121T042325Z-lab-91c33c")
    recorded.fail(0, PAIR_FAILURE, PAIR_FAILURE, value=1.0)
    recorded.fail(1, PAIR_FAILURE)
    assert recorded.decide().reason == "4 findings at 2 places"
