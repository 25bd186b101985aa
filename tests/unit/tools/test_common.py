"""What the readers of all tools share: lines, numbers, bounds of options, JSON, sides."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.model.call import Call
from railgauge.tools import Completeness, ParseError, Reading
from railgauge.tools.common import lines
from railgauge.tools.common.documents import Count, Number, Part, document, validated
from railgauge.tools.common.numbers import Shown
from railgauge.tools.common.options import (
    require_congestion,
    require_integers,
    require_one_of,
    require_seconds,
)
from railgauge.tools.common.sides import collect

SECRET = "s3cr3t"


@given(st.text(max_size=300))
def test_a_quote_can_be_printed_on_one_line(text: str) -> None:
    assert lines.quote(text).isprintable()


def test_a_quote_that_is_cut_shows_it() -> None:
    assert lines.quote("x" * 121) == repr("x" * 117 + "...")
    assert lines.quote([1] * 100).endswith("...")


@pytest.mark.parametrize(
    ("text", "low", "high"), [("12.5", 12.45, 12.55), ("12", 11.5, 12.5), ("0.0", 0, 0.05)]
)
def test_a_printed_number_may_be_what_rounds_to_it(text: str, low: float, high: float) -> None:
    assert (Shown.of(text).low, Shown.of(text).high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    "line", ["[1,0]<stdout>:\x1b[31mx 1\x1b[0m", "0: x 1", "[0] x 1", "  x 1\r"]
)
def test_what_launchers_and_terminals_add_is_cut(line: str) -> None:
    assert lines.plain(line)[0] == "x 1"


@dataclasses.dataclass(frozen=True)
class Options:
    streams: Any = 4
    window: Any = None
    direction: Any = "forward"


@pytest.mark.parametrize("streams", [0, 129, 1.0, True, "4", None])
def test_an_option_out_of_bounds_is_named_with_its_value(streams: Any) -> None:
    with pytest.raises(ValueError, match=f"t streams is {streams!r}, expected an integer of 1 to"):
        require_integers("t", Options(streams), streams=(1, 128))


def test_only_an_option_that_is_none_by_itself_may_be_none() -> None:
    require_integers("t", Options(), streams=(1, None), window=(1, None))
    with pytest.raises(ValueError, match="streams is None"):
        require_integers("t", Options(None), streams=(1, None))


@pytest.mark.parametrize("direction", ["", "back", True, None])
def test_an_unknown_choice_is_refused(direction: Any) -> None:
    with pytest.raises(ValueError, match="expected one of forward, 1"):
        require_one_of("t", Options(direction=direction), direction=("forward", 1))


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
def test_a_time_is_finite_and_not_before_its_least(value: float) -> None:
    require_seconds("t", "drain_s", None)
    with pytest.raises(ValueError, match="drain_s"):
        require_seconds("t", "drain_s", value)


def test_a_congestion_control_is_a_name() -> None:
    require_congestion("t", "dctcp-2")
    with pytest.raises(ValueError, match="a name such as cubic"):
        require_congestion("t", "bbr; reboot")


class Inner(Part):
    bytes: Count
    rate: Number = 0.0


class Outer(Part):
    rows: list[Inner]
    digest: str = pydantic.Field("ab", pattern="^[a-f]+$")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no whole JSON"),
        ("[]", "no object"),
        ('{"rows": []', "to its end"),
        ('{"rows": [], "rows": []}', "the key 'rows' twice"),
        ("{}", "no at.rows"),
        ('{"rows": {}}', "at.rows {}, expected a list"),
        ('{"rows": [5]}', r"at.rows\[0\] 5, expected an object"),
        ('{"rows": [{"bytes": true}]}', r"at.rows\[0\].bytes True, expected an integer"),
        ('{"rows": [{"bytes": -1}]}', "bytes -1, expected an integer of 0 or more"),
        ('{"rows": [{"bytes": 1, "rate": true}]}', "rate True, expected a number of 0 or more"),
        ('{"rows": [{"bytes": 1, "rate": NaN}]}', "rate nan"),
        ('{"rows": [], "digest": "xyz"}', "digest 'xyz'"),
    ],
)
def test_a_document_that_is_not_as_stated_says_where(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        validated(Outer, document(text), "at")


def test_keys_that_are_not_stated_are_passed_over() -> None:
    text = '{"rows": [{"bytes": 1}], "a": 1, "a": 2}'
    assert validated(Outer, document(text, repeated={"a"})).rows[0].bytes == 1


@pytest.mark.parametrize(
    "text",
    [
        f'{{"rows": "{SECRET}"}}',
        f'{{"{SECRET}": 1, "{SECRET}": 2}}',
        f'["{SECRET}"]',
        f'{{"rows": "{SECRET}',
        json.dumps({"rows": [{"bytes": SECRET}]}),
    ],
)
def test_no_content_of_a_private_document_is_in_an_exception(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        validated(Outer, document(text, private=True), private=True)
    chain: BaseException | None = caught.value
    while chain is not None:
        assert SECRET not in repr(vars(chain)) + str(chain)
        chain = chain.__cause__ or chain.__context__


def call(role: str, exit_code: int = 0) -> Call:
    return Call("t", role, rank=0, host=f"{role}-node", exit_code=exit_code, seconds=1.0)


def test_a_call_shorter_than_the_run_contradicts_it_unless_it_failed() -> None:
    sides = collect("t", str, "", "", [call("client"), call("server", exit_code=1)], options=None)
    sides.complain_of_time("client", 3, "its run")
    sides.complain_of_time("server", 3, "its run")
    assert sides.complaints[1:] == ["client on client-node: the call took 1.0 s but its run 3.0 s"]


def test_one_text_alone_may_be_that_of_either_side() -> None:
    alone = collect("t", str, "", None, (), options=None)
    alone.complain_of_role("client", "server")
    both = collect("t", str, "", "", (), options=None)
    both.complain_of_role("client", "server")
    assert (alone.complaints, both.complaints) == ([], ["client: the output is that of a server"])


def test_what_a_proof_lacks_leaves_a_reading_unknown() -> None:
    lacking = collect("t", str, "", None, (), options=None).missing
    reading = Reading.valid("good", lacking, (), {})
    assert (reading.ok, reading.completeness) == (True, Completeness.UNKNOWN)
    assert reading.reason.endswith(
        "without the exit codes of both sides, the server's output, the options"
    )
    assert Reading.valid("good", [], (), {}).completeness is Completeness.PROVED
