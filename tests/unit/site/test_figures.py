"""The figures: rows that are complete, and a page and plots of the last ones."""

from __future__ import annotations

import datetime
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies

from railgauge import paths
from railgauge.common.errors import RailgaugeError
from railgauge.site import figure_plot, figures
from railgauge.site.figure_plot import Point

ROW = {
    "area": "accept",
    "what": "make accept",
    "value": "168",
    "least": "161",
    "most": "173",
    "unit": "s",
    "n": "3",
    "command": "make accept",
    "date": "2026-11-24",
    "commit": "22291b2",
    "machine": "2 cores",
    "note": "",
}


def write(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text("\n".join([",".join(ROW), *(",".join(row.values()) for row in rows), ""]))
    return path


def row(**cells: str) -> figures.Row:
    return figures.Row(**{**ROW, **cells})


# ---- the file ----


def test_every_row_of_the_file_is_read() -> None:
    assert len(figures.read()) == figures.FILE.read_text(encoding="utf-8").count("\n") - 1


def test_no_row_of_the_file_is_there_twice() -> None:
    lines = (paths.HOME / "docs" / "figures.csv").read_text(encoding="utf-8").splitlines()
    assert [line for line, count in Counter(lines).items() if count > 1] == []


def test_a_row_keeps_its_digits(tmp_path: Path) -> None:
    (read,) = figures.read(write(tmp_path / "f.csv", {**ROW, "value": "168.50"}))
    assert read.value == "168.50"


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("area", ""),
        ("what", ""),
        ("unit", ""),
        ("value", "about 5"),
        ("value", "1e3"),
        ("value", "174"),
        ("least", "170"),
        ("most", "nan"),
        ("n", "0"),
        ("n", "3.0"),
        ("date", "2026-11-31"),
        ("date", "24.11.2026"),
        ("command", "rm -rf /"),
        ("command", "makeshift accept"),
        ("commit", "HEAD"),
    ],
)
def test_a_wrong_cell_is_refused_with_its_row(tmp_path: Path, column: str, cell: str) -> None:
    with pytest.raises(RailgaugeError, match="row 2 below the header"):
        figures.read(write(tmp_path / "f.csv", ROW, {**ROW, column: cell}))


@pytest.mark.parametrize("least", ["", "161"])
def test_a_row_without_a_value_has_both_extremes(tmp_path: Path, least: str) -> None:
    with pytest.raises(RailgaugeError, match="both least and most"):
        figures.read(write(tmp_path / "f.csv", {**ROW, "value": "", "least": least, "most": ""}))


@pytest.mark.parametrize(
    "earlier", [{"area": "aaa"}, {"date": "2026-11-23"}, {"date": ""}], ids=str
)
def test_rows_are_sorted_by_area_and_date(tmp_path: Path, earlier: dict[str, str]) -> None:
    with pytest.raises(RailgaugeError, match="sorted by area and date"):
        figures.read(write(tmp_path / "f.csv", ROW, {**ROW, **earlier}))


def test_a_comma_too_many_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RailgaugeError, match="13 cells, expected 12"):
        figures.read(write(tmp_path / "f.csv", {**ROW, "note": "nice 19, load 3"}))


@given(cells=strategies.lists(strategies.text(), max_size=14))
def test_no_row_raises_another_error(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    text = ",".join(ROW) + "\n" + ",".join(cells)
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        rows = figures.read(path)
    except RailgaugeError:
        return
    assert all(row.area and row.what and row.unit for row in rows)


# ---- the page ----


def test_the_page_is_short() -> None:
    page = figures.FILE.with_suffix(".md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 200


def test_the_folder_has_the_plots_of_the_page_and_no_others() -> None:
    there = {path.name for path in (figures.FILE.parent / figures.PLOTS).iterdir()}
    assert there == set(figures.plots(figures.read()))


def test_every_plot_has_a_name_of_its_own() -> None:
    names = [figure.plot for section in figures.SECTIONS.values() for figure in section]
    assert len(names) == len(set(names))


def one(monkeypatch: pytest.MonkeyPatch, sentence: str = "It takes {}.") -> None:
    figure = figures.Figure("plot", sentence, "accept", ("make accept",))
    monkeypatch.setattr(figures, "SECTIONS", {"Time": (figure,)})


def test_a_sentence_states_the_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    one(monkeypatch)
    page = figures.page([row(value="165", date="2026-11-23"), row(note="Load 3.")])
    assert "It takes **168 s** (161 to 173, n = 3, 2026-11-24).\n" in page
    assert "Command: `make accept`. Conditions: Load 3.\n" in page


def test_a_count_is_stated_as_a_part_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    one(monkeypatch, "It failed in {}.")
    counted = row(value="18", least="", most="", unit="campaigns", n="1500")
    assert "**18 of 1,500 campaigns** (2026-11-24)" in figures.page([counted])


def test_a_row_without_a_median_states_its_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    one(monkeypatch)
    assert "**161 to 173 s** (n = 3, 2026-11-24)" in figures.page([row(value="")])


def test_an_area_without_a_sentence_is_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    one(monkeypatch)
    assert "- `soak`, 2 rows\n" in figures.page([row(), row(area="soak"), row(area="soak")])


def test_a_series_without_a_row_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    one(monkeypatch)
    with pytest.raises(RailgaugeError, match="no row of 'accept', 'make accept'"):
        figures.page([row(what="make test")])


def test_a_series_of_two_units_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    one(monkeypatch)
    with pytest.raises(RailgaugeError, match="units ms, s of"):
        figures.page([row(), row(unit="ms")])


# ---- the plots ----

DAYS = ("2026-11-22", "2026-11-23", "2026-11-24")


def test_two_dates_are_no_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    one(monkeypatch)
    rows = [row(date=day) for day in ("", *DAYS[:2], DAYS[1])]
    assert figures.plots(rows) == {}
    assert ".svg" not in figures.page(rows)


def test_three_dates_are_a_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    one(monkeypatch)
    rows = [row(date=day) for day in DAYS]
    assert list(figures.plots(rows)) == ["plot.svg"]
    assert "(figures/plot.svg)" in figures.page(rows)


def test_minutes_and_seconds_are_drawn_in_the_unit_of_the_last_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one(monkeypatch)
    minutes = {"value": "2", "least": "", "most": "", "unit": "min"}
    seconds = {"value": "120", "least": "", "most": "", "unit": "s"}
    of_days = zip(DAYS, (minutes, seconds, minutes), strict=True)
    rows = [row(date=day, **cells) for day, cells in of_days]
    drawn = figures.plots(rows)["plot.svg"]
    assert "<title>make accept, min</title>" in drawn
    assert len({circle.attrib["cy"] for circle in circles(drawn)}) == 1


def circles(drawn: str) -> list[ET.Element]:
    return ET.fromstring(drawn).findall("{http://www.w3.org/2000/svg}circle")


def test_runs_of_one_day_stand_side_by_side_in_their_order() -> None:
    day = datetime.date(2026, 11, 22)
    points = [Point(day, 3.0, None, None), Point(day, 3.0, None, None), Point(day, 1.0, None, None)]
    x = [float(circle.attrib["cx"]) for circle in circles(figure_plot.svg("time, s", points))]
    assert len(x) == 3 and x == sorted(set(x))


positive = strategies.floats(0, 1e9)


@given(
    strategies.lists(
        strategies.tuples(
            strategies.dates(datetime.date(2020, 1, 1), datetime.date(2040, 1, 1)),
            strategies.tuples(positive, positive, positive).map(sorted),
            strategies.booleans(),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_every_point_lies_within_the_picture(
    drawn: list[tuple[datetime.date, list[float], bool]],
) -> None:
    points = [
        Point(date, value if has_value else None, least, most)
        for date, (least, value, most), has_value in sorted(drawn, key=lambda point: point[0])
    ]
    picture = circles(figure_plot.svg("a < b & c", points))
    assert len(picture) == sum(has_value for _, _, has_value in drawn)
    assert all(40 <= float(c.attrib["cy"]) <= 168 for c in picture)
    assert all(56 <= float(c.attrib["cx"]) <= 624 for c in picture)


# ---- how cost grows ----


def test_growth_is_drawn_without_the_cost_of_the_start() -> None:
    cells = {"area": "growth", "least": "", "most": "", "unit": "s of CPU"}
    rows = [
        row(what=f"CPU time by nodes, {size}", value=value, **cells)
        for size, value in (("0", "1"), ("576", "2"), ("1,152", "3"), ("2,304", "5"))
    ]
    assert figures._growth(rows) == {"nodes": [(576, 1.0), (1152, 2.0), (2304, 4.0)]}
    drawn = ET.fromstring(figures.plots([*figures.read(), *rows])["growth.svg"])
    points = [line.get("points") for line in drawn.iter() if line.tag.endswith("polyline")]
    # What is linear lies on the dashed line.
    assert str(points[1]).startswith(str(points[0]).split()[0])


def test_growth_is_of_the_last_measurement_of_a_size() -> None:
    cells = {"area": "growth", "least": "", "most": ""}
    rows = [row(what="CPU time by nodes, 8", value=value, **cells) for value in ("1", "2")]
    assert figures._growth(rows) == {"nodes": [(8, 2.0)]}
