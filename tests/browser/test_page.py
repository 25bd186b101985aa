"""The page in a browser: it asks for nothing, on any screen, by keyboard, on paper."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from railgauge.verdict.decision.verdict import Verdict
from tests import example, pages

from .conftest import PHONE, WIDE, Open, Opened

ALL_ROWS = "#all tbody tr"
MAP = ".heat canvas[role=application]"


@pytest.fixture
def bad(tmp_path: Path) -> Verdict:
    return pages.cluster(tmp_path, 12, 4, bad=(3, 2))


def test_it_asks_for_nothing_and_complains_of_nothing(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    assert seen.requests == [seen.path.as_uri()] and seen.complaints == []


def test_a_request_that_is_tried_does_not_leave(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    tried = "fetch('http://localhost:9/x').then(() => 'left', () => 'held')"
    assert seen.page.evaluate(tried) == "held"
    assert "Content Security Policy" in "".join(seen.complaints)


@pytest.mark.parametrize("text", pages.HOSTILE)
def test_nothing_of_a_hostile_campaign_runs(opened: Open, tmp_path: Path, text: str) -> None:
    seen = opened(pages.hostile(tmp_path, text))
    for details in seen.page.locator("details").all():
        details.evaluate("one => { one.open = true; }")
    assert seen.page.evaluate("window.broken") is None
    assert seen.requests == [seen.path.as_uri()] and seen.complaints == []


@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
@pytest.mark.parametrize("name", ["accept", "reject"])
def test_a_page_of_the_lab_is_for_everybody(opened: Open, name: str, size: tuple[int, int]) -> None:
    seen = opened((example.EXAMPLE / f"{name}.html").read_text(encoding="utf-8"), size)
    assert seen.requests == [seen.path.as_uri()] and seen.complaints == []
    assert not seen.is_too_wide and Axe().run(seen.page).response["violations"] == []


@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
def test_the_page_of_a_rehearsal_is_for_everybody(
    opened: Open, bad: Verdict, size: tuple[int, int]
) -> None:
    seen = opened(pages.simulated(bad), size)
    assert seen.requests == [seen.path.as_uri()] and seen.complaints == []
    assert not seen.is_too_wide and Axe().run(seen.page).response["violations"] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, (820, 1100), WIDE], ids=["phone", "tablet", "wide"])
def test_it_does_not_scroll_to_the_side(
    opened: Open, bad: Verdict, size: tuple[int, int], dark: bool
) -> None:
    assert not opened(bad, size, dark).is_too_wide


def test_long_names_do_not_make_it_scroll_to_the_side(opened: Open, tmp_path: Path) -> None:
    assert not opened(pages.hostile(tmp_path, "x" * 300), PHONE).is_too_wide


def test_dark_and_light_have_the_ground_that_was_asked_for(opened: Open, bad: Verdict) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = opened(bad).page.evaluate(ground)
    dark = opened(bad, dark=True).page.evaluate(ground)
    assert sum(map(int, light[4:-1].split(","))) > 700 > 150 > sum(map(int, dark[4:-1].split(",")))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_in_the_way_of_anybody(opened: Open, bad: Verdict, dark: bool) -> None:
    response = Axe().run(opened(bad, dark=dark).page).response
    found = response["violations"]
    assert len(response["passes"]) > 20
    assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found] == []


def test_the_keyboard_goes_through_it_in_order(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    tops = []
    for _ in range(30):
        seen.page.keyboard.press("Tab")
        top = "document.activeElement.getBoundingClientRect().top + scrollY"
        tops.append((seen.page.evaluate("document.activeElement.tagName"), seen.page.evaluate(top)))
    assert tops[0][0] == "A" and all(tag != "BODY" for tag, _ in tops)
    # Below the head of the page, which stays in sight, each stands no higher than the one before.
    below = [top for _, top in tops[8:]]
    assert all(later >= before - 60 for before, later in itertools.pairwise(below))


def test_a_table_sorts_by_number_and_says_so(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    heads = seen.page.locator("#all thead th")
    heads.nth(4).locator("button").click()
    values = [
        float(cell) for cell in seen.page.locator("#all tbody td:nth-child(5)").all_inner_texts()
    ]
    assert values == sorted(values) and heads.nth(4).get_attribute("aria-sort") == "ascending"
    heads.nth(4).locator("button").press("Enter")
    assert heads.nth(4).get_attribute("aria-sort") == "descending"


def test_a_filter_leaves_what_has_all_its_words(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    seen.page.locator("#all input").fill("n4:n5 OUT")
    expect(seen.page.locator(ALL_ROWS)).to_have_count(1)
    assert "171.4" in seen.page.locator(ALL_ROWS).inner_text()
    assert seen.page.locator("#all .count").inner_text() == "1 of 64 rows"


def test_a_table_is_copied_as_tsv(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    seen.page.locator("#all input").fill("171.4")
    expect(seen.page.locator(ALL_ROWS)).to_have_count(2)
    seen.page.locator("#all .copy").click()
    seen.page.wait_for_selector("#all .copy:text('Copied 2 rows')")
    lines = seen.page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].split("\t")[:3] == ["check", "partition", "place"]
    assert [line.split("\t")[2] for line in lines[1:]] == ["n3:n4:2-2", "n4:n5:2-2"]


def test_a_map_leads_to_the_numbers_of_a_cell_by_keyboard(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    seen.page.locator(MAP).first.focus()
    seen.page.keyboard.press("ArrowRight")
    assert "Gb/s" in seen.page.locator(".heat .read").first.inner_text()
    seen.page.keyboard.press("Enter")
    # A node's rail: all of the node, four rails with two partners each.
    expect(seen.page.locator(ALL_ROWS)).to_have_count(8)
    assert seen.page.evaluate("document.activeElement.type") == "search"


def test_a_map_leads_to_the_numbers_of_a_cell_by_pointer(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    canvas = seen.page.locator(MAP).first
    box = canvas.bounding_box()
    assert box is not None
    canvas.click(position={"x": 60, "y": 70})
    assert seen.page.locator("#all input").input_value() == '"n1" RdmaBandwidth'


def test_a_map_of_pairs_leads_to_all_rails_of_a_pair(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    select = seen.page.locator(".heat select").first
    select.select_option(index=1)
    seen.page.locator(MAP).first.focus()
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator(ALL_ROWS)).to_have_count(4)


def test_a_rail_is_not_good_where_it_is_so_with_each_partner(opened: Open, bad: Verdict) -> None:
    legend = opened(bad).page.locator(".heat .legend").first.inner_text()
    assert "not good: 1 of 48 cells" in legend


def test_a_word_in_quotes_stands_alone(opened: Open, tmp_path: Path) -> None:
    seen = opened(pages.cluster(tmp_path, 12, 1))
    seen.page.locator("#all input").fill('"n1" RdmaBandwidth')
    expect(seen.page.locator(ALL_ROWS)).to_have_count(2)


def test_every_figure_is_drawn_and_has_its_numbers(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    figures = seen.page.locator("figure.curve")
    assert figures.count() == 2
    for figure in figures.all():
        assert (
            figure.locator("canvas").count() == 1 and figure.locator("table tbody tr").count() > 3
        )


def test_paper_has_all_that_was_folded(opened: Open, bad: Verdict) -> None:
    seen = opened(bad, dark=True)
    seen.page.emulate_media(media="print", color_scheme="light")
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator("details:not([open])").count() == 0
    assert (
        seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert not seen.page.locator(".tools >> visible=true").count()
    seen.page.set_viewport_size({"width": 794, "height": 1123})
    assert not seen.is_too_wide
    assert len(seen.page.pdf()) > 20_000


def watched(seen: Opened, script: str, asked: str) -> object:
    """What the page answers at its end where that script ran before its own."""
    browser = seen.page.context.browser
    assert browser is not None
    context = browser.new_context()
    context.add_init_script(script)
    page = context.new_page()
    page.goto(seen.path.as_uri())
    page.wait_for_selector("html[data-drawn]")
    answer = page.evaluate(asked)
    context.close()
    return answer


#: As soon as the tables answer, before any figure is drawn, a user prints.
PRINT_EARLY = """
window.figures = [];
const count = () => figures.push(document.querySelectorAll("figure.curve canvas").length);
const seen = () => {
  if (!document.documentElement.dataset.ready || figures.length) return;
  count();
  dispatchEvent(new Event("beforeprint"));
  count();
};
new MutationObserver(seen).observe(document, { attributes: true, subtree: true });
"""

#: All that is written on a canvas.
WRITTEN = """
window.texts = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  texts.push(text);
  return write.call(this, text, ...rest);
};
"""


def test_paper_has_the_figures_that_were_not_drawn_yet(opened: Open, bad: Verdict) -> None:
    assert watched(opened(bad), PRINT_EARLY, "figures") == [0, 2]


def test_a_curve_names_each_size_and_the_last(opened: Open, bad: Verdict) -> None:
    texts = watched(opened(bad), WRITTEN, "texts")
    assert isinstance(texts, list) and {"2 B", "8 B", "8 MiB"} <= set(texts)


def test_a_line_of_a_curve_is_marked_by_its_dashes_in_the_legend(
    opened: Open, bad: Verdict
) -> None:
    legend = opened(bad).page.locator("figure.curve .u-marker")
    grounds = legend.evaluate_all("all => all.map((one) => one.style.background)")
    assert "repeating-linear-gradient" in "".join(grounds)


def test_without_script_the_verdict_and_the_findings_are_there(opened: Open, bad: Verdict) -> None:
    seen = opened(bad)
    browser = seen.page.context.browser
    assert browser is not None
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(seen.path.as_uri())
    assert "REJECT" in plain.locator("h1").inner_text()
    assert plain.locator(".finding").count() == 2
    plain.context.close()


# --- leaves, and before and after ----------------------------------------------------------------


@pytest.fixture
def on_leaves(tmp_path: Path) -> Verdict:
    return pages.on_leaves(pages.cluster(tmp_path, 12, 4, bad=(3, 2)), 4)


def test_a_leaf_leads_to_its_nodes_and_back(opened: Open, on_leaves: Verdict) -> None:
    seen = opened(on_leaves)
    heat = seen.page.locator(".heat").first
    heat.locator("select").select_option(
        label=heat.locator("option", has_text="leaf ").inner_text()
    )
    assert "not good: 1 of 12 cells" in heat.locator(".legend").inner_text()
    heat.locator(MAP.split()[1]).focus()
    seen.page.keyboard.press("Enter")
    assert "not good: 1 of 16 cells" in heat.locator(".legend").inner_text()
    heat.get_by_role("button", name="All leaves").click()
    assert "of 12 cells" in heat.locator(".legend").inner_text()


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    return pages.after_accepted(tmp_path)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, (820, 1100), WIDE], ids=["phone", "tablet", "wide"])
def test_before_and_after_is_for_everybody(
    opened: Open, later: Verdict, size: tuple[int, int], dark: bool
) -> None:
    seen = opened(later, size, dark)
    assert seen.complaints == [] and not seen.is_too_wide
    assert "✕ worse: 4" in seen.page.locator("#volcano .legend").inner_text()
    assert Axe().run(seen.page).response["violations"] == []


def test_a_place_that_moved_leads_to_its_numbers_by_keyboard(opened: Open, later: Verdict) -> None:
    seen = opened(later)
    seen.page.locator("#volcano canvas").focus()
    seen.page.keyboard.press("ArrowLeft")
    assert "n7:n8" in seen.page.locator("#volcano .read").inner_text()
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("#changes tbody tr")).to_have_count(1)


def test_a_place_that_moved_leads_to_its_numbers_by_pointer(opened: Open, later: Verdict) -> None:
    seen = opened(later)
    at = "[...document.querySelectorAll('#changes tbody tr')].length"
    assert seen.page.evaluate(at) == 200
    canvas = seen.page.locator("#volcano canvas")
    box = canvas.bounding_box()
    assert box is not None
    # Somewhere in the dense middle of those that did not move.
    canvas.click(position={"x": box["width"] * 0.53, "y": box["height"] - 44})
    expect(seen.page.locator("#changes tbody tr")).to_have_count(1)
