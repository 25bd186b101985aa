"""The InfiniBand subnet in the page: from the map to the ports of a switch, on any screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from railgauge.verdict.decision.verdict import Verdict
from tests import pages

from .conftest import PHONE, WIDE, Open


@pytest.fixture
def read(tmp_path: Path) -> Verdict:
    return pages.on_subnet(pages.cluster(tmp_path, 4, 2), tmp_path)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
def test_the_subnet_is_for_everybody(
    opened: Open, read: Verdict, size: tuple[int, int], dark: bool
) -> None:
    seen = opened(read, size, dark)
    assert seen.complaints == [] and not seen.is_too_wide
    assert Axe().run(seen.page).response["violations"] == []


def test_a_switch_leads_to_its_ports_by_keyboard(opened: Open, read: Verdict) -> None:
    seen = opened(read)
    section = seen.page.locator("#subnet")
    leaf2 = section.locator("details", has_text="leaf2: 6 of 6 ports")
    expect(leaf2.locator("table")).to_be_hidden()
    section.get_by_role("link", name="leaf2").press("Enter")
    expect(leaf2.locator("table")).to_be_in_viewport()
    expect(leaf2.locator("tbody tr")).to_have_count(6)


def test_a_link_with_a_fault_is_marked_without_its_colour(opened: Open, read: Verdict) -> None:
    section = opened(read).page.locator("#subnet")
    row = section.locator(".links tbody tr", has_text="leaf1")
    assert row.locator("td").all_inner_texts() == [
        "✕ 2 hosts, 1 fault",
        "✓ 12x QDR",
        "✕ 12x SDR, 1 fault",
    ]
    # The ports of a switch with faults are open.
    port = section.locator("details", has_text="leaf1: 6 of 6").locator("tr.bad").first
    assert port.is_visible() and "link-width" in port.inner_text()


def test_a_campaign_without_a_subnet_has_no_such_section(opened: Open, tmp_path: Path) -> None:
    page = opened(pages.cluster(tmp_path, 4, 2)).page
    assert page.locator("#subnet").count() == page.locator("a[href='#subnet']").count() == 0
