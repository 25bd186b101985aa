"""What results do not exclude is said by a verdict as text and as page, where it is left open."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from railgauge.report import located, page, text
from tests import pages

LINE = (
    "An intermittent fault (there in 1 of 5 runs) would have been missed with probability 64% "
    "where there are only 2 good results."
)


def test_the_line_has_what_so_many_good_results_do_not_exclude() -> None:
    assert located.left_open(2) == LINE


@pytest.mark.parametrize(("fewest", "said"), [(2, True), (None, False)])
def test_a_verdict_says_it_as_text_and_as_page_where_it_is_left_open(
    tmp_path: Path, fewest: int | None, said: bool
) -> None:
    verdict = dataclasses.replace(
        pages.cluster(tmp_path, 4, 2, bad=(1, 1)), suspects=(), fewest_good=fewest
    )
    assert (LINE in text.plain(verdict)) == (LINE in page.html(verdict)) == said
