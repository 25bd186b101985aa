"""The published example: it is there, small, and tells nothing of the machine that made it."""

from __future__ import annotations

import pytest

from railgauge import paths
from tests import example
from tests.unit.report.test_page import Elements, numbers_in

PAGES = {"accept": "ACCEPT", "reject": "REJECT"}

#: Both pages together.
MOST_BYTES = 1_000_000


@pytest.mark.parametrize("name", PAGES)
def test_the_page_of_each_kind_of_campaign_is_there(name: str) -> None:
    text = (example.EXAMPLE / f"{name}.html").read_text(encoding="utf-8")
    assert PAGES[name] in Elements(text).text and numbers_in(text)["rows"][0]
    assert PAGES[name] in (example.EXAMPLE / f"{name}.md").read_text(encoding="utf-8")


def test_the_example_is_small_and_of_no_machine() -> None:
    files = list(example.EXAMPLE.iterdir())
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    for path in files:
        assert str(paths.HOME) not in path.read_text(encoding="utf-8")


def test_paths_and_the_host_are_replaced_and_no_part_of_a_word() -> None:
    text = "ran on vega7 in /home/me/suite/results by vega7.example, not vega70 or my-vega7"
    assert example.anywhere(text, "/home/me/suite", "vega7") == (
        "ran on login1 in /opt/railgauge/results by login1.example, not vega70 or my-vega7"
    )
