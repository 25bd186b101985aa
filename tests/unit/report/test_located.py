"""What results do not exclude is said by a verdict as text and as page, where it is left open."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from railgauge.locating.suspects import Fewest
from railgauge.report import located, page, text
from tests import pages

_TWO = Fewest(2, "n1")
LINE = (
    "An intermittent fault (20 % of the time) would have been missed with probability 64 % on n1, "
    "which has only 2 good results."
)


def test_the_line_has_what_so_many_good_results_do_not_exclude() -> None:
    assert located.left_open(_TWO) == LINE


def test_without_a_good_result_there_is_no_line() -> None:
    assert located.left_open(Fewest(0, "n1")) == ""


@pytest.mark.parametrize(("fewest", "said"), [(_TWO, True), (None, False)])
def test_a_verdict_says_it_as_text_and_as_page_where_it_is_left_open(
    tmp_path: Path, fewest: Fewest | None, said: bool
) -> None:
    verdict = dataclasses.replace(
        pages.cluster(tmp_path, 4, 2, bad=(1, 1)),
        suspects=(),
        min_good_results_of_cleared_end=fewest,
    )
    assert (LINE in text.plain(verdict, width=200)) == (LINE in page.html(verdict)) == said
