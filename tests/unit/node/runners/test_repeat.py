"""A second run where a side's tool says that it could not measure: when, and how often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railgauge.node.orchestration.sweep_file import MARGIN_S, Place, Sweep
from railgauge.node.orders.places import ClientServerOrder
from railgauge.node.runners import repeat
from tests.unit.node.sweeping import ANSWER, ASK, PATIENCE_S, both_sides, pair_of, pair_order

#: Says so at its first start, or at every one: the file counts them.
NO_CLOCK = """
import pathlib
starts = pathlib.Path({file!r})
count = len(starts.read_text()) if starts.exists() else 0
starts.write_text("x" * (count + 1))
if count < {bad}:
    print("no clock: r^2 0.77", file=sys.stderr)
"""


HOSTS = ("127.0.0.1", "127.0.0.2")


def left(tmp_path: Path, side: str, bad: int) -> dict[str, dict[str, Any]]:
    """What both sides leave, by role, where the tool of one says so at its first `bad` starts."""
    tools = {"server": ANSWER, "client": ASK}
    tools[side] += NO_CLOCK.format(file=str(tmp_path / "starts"), bad=bad)
    order = pair_order(**tools, unmeasured=r"no clock: r\^2 [0-9.]+")
    messages = both_sides(pair_of(order, *HOSTS))
    return {message["role"]: message["line"] for message in messages}


@pytest.mark.parametrize("side", ["server", "client"])
def test_both_sides_run_once_more_where_one_could_not_measure(tmp_path: Path, side: str) -> None:
    lines = left(tmp_path, side, bad=1)
    assert set(lines) == {"server", "client", "anew/server", "anew/client"}
    assert {line["call"]["exit_code"] for line in lines.values()} == {0}
    told = {role for role, line in lines.items() if repeat.FACT in line["facts"]}
    assert told == {side}
    assert lines[side]["facts"][repeat.FACT] == "no clock: r^2 0.77"


def test_there_is_no_third_run(tmp_path: Path) -> None:
    lines = left(tmp_path, "client", bad=9)
    assert set(lines) == {"server", "client", "anew/server", "anew/client"}
    assert repeat.FACT in lines["anew/client"]["facts"]


def test_a_run_that_measured_is_the_only_one(tmp_path: Path) -> None:
    assert set(left(tmp_path, "client", bad=0)) == {"server", "client"}


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_run_of_which_a_side_failed_has_no_second(tmp_path: Path, side: str) -> None:
    """Whatever either says of a clock: it is the failure that counts."""
    says = NO_CLOCK.format(file=str(tmp_path / "starts"), bad=9)
    tools = {"server": ANSWER + says, "client": ASK + says}
    tools[side] += "\nsys.exit(3)"
    messages = both_sides(pair_of(pair_order(**tools, unmeasured="no clock"), *HOSTS))
    assert {message["role"] for message in messages} == {"server", "client"}


def test_a_place_has_the_time_for_its_second_run() -> None:
    def limit_s(**more: Any) -> float:
        places = {0: Place(0, "n1:n2", "client_server", {"server": "n1", "client": "n2"}, 0)}
        orders = (ClientServerOrder.read(pair_order(**more)),)
        return Sweep("tool", ("n1", "n2"), {}, (), [(0,)], places, orders, 30).run_limit_s(0)

    once = 2 * PATIENCE_S + MARGIN_S
    assert (limit_s(), limit_s(unmeasured="x")) == (once, 2 * once)
