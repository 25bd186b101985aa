"""Who may return to service."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from railgauge.gate import decide
from railgauge.verdict.answer import Finding

# ---- who may return ----


def verdict(*findings: Finding, **other: Any) -> Any:
    case = SimpleNamespace(
        check="C", partition="ns", nodes=("n1",), passed=True, result="pass", was_left_out=False
    )
    campaign = SimpleNamespace(
        id="c", gate="acceptance", state="finished", scope=SimpleNamespace(nodes={"ns": ["n1"]})
    )
    for name in ("gate", "state"):
        if name in other:
            setattr(campaign, name, other.pop(name))
    content = {"campaign": campaign, "simulated": False, "cases": [case], "suspects": []}
    return SimpleNamespace(**{**content, "findings": findings, **other})


def test_a_clean_verdict_lets_the_node_return() -> None:
    assert decide.why_not(verdict(), "n1") == ""


@pytest.mark.parametrize(
    "given",
    [
        verdict(simulated=True),
        verdict(gate="baseline"),
        verdict(state="interrupted"),
        verdict(Finding("reject", "k", "slow", "C", "ns", ("n1",))),
        verdict(Finding("inconclusive", "k", "left out", "C", "ns")),
        verdict(Finding("inconclusive", "session", "broken")),
        verdict(cases=[]),
        verdict(
            cases=[
                SimpleNamespace(
                    check="C",
                    partition="x",
                    nodes=("n1",),
                    passed=True,
                    result="",
                    was_left_out=False,
                )
            ]
        ),
    ],
    ids=["simulated", "baseline", "interrupted", "named", "partition", "all", "none", "elsewhere"],
)
def test_anything_else_keeps_it_out(given: Any) -> None:
    assert decide.why_not(given, "n1")


def test_a_finding_of_another_partition_keeps_nobody_out() -> None:
    assert decide.why_not(verdict(Finding("reject", "k", "m", "C", "vm", ("n5",))), "n1") == ""
    assert decide.why_not(verdict(Finding("inconclusive", "k", "m", "C", "vm")), "n1") == ""
