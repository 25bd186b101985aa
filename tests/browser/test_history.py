"""The page of a system's history in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.unit.conftest import no_nodes_in_slurm  # noqa: F401
from tests.unit.report.test_history import leave, of_lab, results

from .conftest import PHONE, WIDE, Open

__all__ = ["results"]


@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
def test_it_asks_for_nothing_and_is_for_everybody(
    opened: Open, results: Path, size: tuple[int, int]
) -> None:
    for day in range(10, 24):
        leave(results, day, 9.0 + day % 3 / 5, firmware="ab"[day > 20])
    seen = opened(of_lab(), size)
    assert seen.requests == [seen.path.as_uri()] and seen.complaints == []
    assert not seen.is_too_wide and seen.page.locator("figure.curve canvas").count() == 1
    assert Axe().run(seen.page).response["violations"] == []
