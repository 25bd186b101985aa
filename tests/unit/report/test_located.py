"""What results do not exclude is said by a verdict as text and as page, where it is left open."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from railgauge.report import located, page, text
from tests import pages

LINE = "not excluded: a fault that is there a fifth of the time, 64% by 2 good results"


def test_the_line_has_what_so_many_good_results_do_not_exclude() -> None:
    assert located.left_open(2).startswith(LINE)


@pytest.mark.parametrize(("fewest", "said"), [(2, True), (None, False)])
def test_a_verdict_says_it_as_text_and_as_page_where_it_is_left_open(
    tmp_path: Path, fewest: int | None, said: bool
) -> None:
    verdict = dataclasses.replace(
        pages.cluster(tmp_path, 4, 2, bad=(1, 1)), suspects=(), fewest_good=fewest
    )
    assert (LINE in text.plain(verdict)) == (LINE in page.html(verdict)) == said
