"""The page: what it says, what it never lets out, and that no text of a campaign breaks out."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.acceptance import accept
from railgauge.campaign import variables
from railgauge.campaign.folder import Requested
from railgauge.cli.report import report
from railgauge.model.failure import Failure
from railgauge.model.record import Row
from railgauge.report import numbers, page
from railgauge.report.page import before, content, drawing, series
from railgauge.report.visible import clean
from railgauge.verdict.campaign.finding import Finding
from railgauge.verdict.comparison import measurement_table
from railgauge.verdict.decision.verdict import Verdict
from tests import pages
from tests.command_line import invoke
from tests.unit import measured
from tests.unit.checks.tcp.test_file_transfer import case as transfer
from tests.unit.report.test_numbers import verdict as verdict_of
from tests.unit.verdict.decision.test_rules import Recorded

UPLOT = paths.SOURCE / "railgauge" / "report" / "page" / "uplot-1.6.32"

#: Of the files in the released package uplot-1.6.32.
RELEASED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}

#: A page without any number: what each campaign's page has in common.
MOST_SHELL_BYTES = 1_300_000


class Elements(HTMLParser):
    """Every element with its attributes, and the text that is seen."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.seen: list[str] = []
        self._hidden = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.seen.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.seen))


def numbers_in(text: str) -> dict[str, Any]:
    """What is packed in the page."""
    packed = re.search('<script type="text/plain" id="data">([^<]*)</script>', text)
    assert packed is not None
    document = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    assert isinstance(document, dict)
    return document


def test_the_verdict_stands_first_with_its_reason_and_suspect(tmp_path: Path) -> None:
    text = Elements(page.html(pages.cluster(tmp_path, 4, 2, bad=(1, 1)))).text
    assert "✕ REJECT 2 findings; n2 is at fault." in text


def test_a_finding_has_place_number_reference_limit_and_what_to_type(tmp_path: Path) -> None:
    text = Elements(page.html(pages.cluster(tmp_path, 4, 2, bad=(1, 1)))).text
    for said in (
        "RdmaBandwidth hdr n1:n2:1-1",
        "171.4 Gb/s",
        ">= 361 (baseline)",
        "392.1 Gb/s: RoCE v2 at 400 Gb/s, path MTU 4096",
        "railgauge show 20261122T101655Z-dgx-7578a0 n1:n2:1-1 --check RdmaBandwidth",
    ):
        assert said in text


def test_below_the_verdict_stands_what_speaks_against_the_first_suspect(tmp_path: Path) -> None:
    text = Elements(page.html(pages.cluster(tmp_path, 4, 2, bad=(1, 1)))).text
    assert "n2 is at fault. n2, confirmed: in 2 failing cases, and in none that passed." in text


def test_without_a_suspect_the_first_finding_stands_below_the_verdict(tmp_path: Path) -> None:
    verdict = dataclasses.replace(pages.cluster(tmp_path, 4, 2, bad=(1, 1)), suspects=())
    assert content.reasons(verdict) == [
        "RdmaBandwidth hdr n1:n2:1-1: bandwidth is 171.4 Gb/s, expected at least 361 Gb/s "
        "(baseline)."
    ]


def test_findings_of_all_runs_of_a_place_stand_together(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 4, 2, bad=(1, 1))
    runs = [
        dataclasses.replace(finding, message=f"{finding.message}, run {run}", evidence=f"/{run}")
        for run in range(4)
        for finding in verdict.findings
    ]
    found = content.findings(dataclasses.replace(verdict, findings=tuple(runs)), [])
    assert [(one.where, len(one.messages)) for one in found] == [
        ("RdmaBandwidth hdr n1:n2:1-1", 4),
        ("RdmaBandwidth hdr n2:n3:1-1", 4),
    ]


def test_what_is_open_in_the_same_way_at_many_places_is_one_finding(tmp_path: Path) -> None:
    findings = [
        Finding(weight, "reference", "no reference", "Sweep", "hdr", ("n1",), f"n1:n{number}")
        for weight in ("inconclusive", "reject")
        for number in range(2, 5)
    ]
    verdict = dataclasses.replace(pages.cluster(tmp_path, 4, 1), findings=tuple(findings))
    found = [(one.weight, one.where, one.also) for one in content.findings(verdict, [])]
    assert found == [
        *(("reject", f"Sweep hdr n1:n{number}", ()) for number in range(2, 5)),
        ("inconclusive", "Sweep hdr n1:n2", ("n1:n3", "n1:n4")),
    ]


def test_of_many_equal_places_the_first_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "MOST_LINES", 2)
    findings = [
        Finding("inconclusive", "reference", "none", "Sweep", "hdr", ("n1",), f"n1:n{number}")
        for number in range(2, 7)
    ]
    verdict = dataclasses.replace(pages.cluster(tmp_path, 4, 1), findings=tuple(findings))
    text = Elements(page.html(verdict)).text
    assert "and at 4 more places n1:n3, n1:n4, and 2 more" in text


def test_places_of_which_the_same_is_said_are_counted_where_they_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "MOST_FINDINGS", 1)
    findings = [
        Finding("inconclusive", "peers", message, "Sweep", "hdr", ("n1",), f"{node}:n{number}")
        for message, node in (("one", "n1"), ("other", "n9"))
        for number in range(2, 5)
    ]
    verdict = dataclasses.replace(pages.cluster(tmp_path, 4, 1), findings=tuple(findings))
    assert "Findings of 3 more places are not" in Elements(page.html(verdict)).text


def test_what_is_not_fine_stands_first_among_the_conditions(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 4, 1)
    ends = "n1", "n2"
    sizes = [
        Row(pages.bandwidth(ends, "0-0", 390.0, size_bytes=2**n), None, None, gates=False)
        for n in range(9)
    ]
    slow = Row(pages.bandwidth(ends, "0-0", 1.0), pages.reference(), None)
    case = pages.case("RdmaBandwidth", ends, "0-0", [*sizes, slow])
    measured = numbers.collect(dataclasses.replace(verdict, cases=(case,)), all_numbers=True)
    rows = content.summary(measured)["RdmaBandwidth"].rows
    assert len(rows) == 10 and [row[-1] for row in rows[:2]] == ["1 out", "recorded"]


def test_a_long_table_is_folded_where_all_of_it_is_fine() -> None:
    def of(*words: str) -> content.TableOf:
        return content.TableOf("a", ("measured", "verdict"), tuple(("x", word) for word in words))

    assert content.can_be_folded(of(*["ok", "recorded"] * 7))
    assert not content.can_be_folded(of(*["ok", "recorded"] * 7, "1 out"))
    assert not content.can_be_folded(of("ok", "recorded"))


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (("2026-11-22T10:16:55+00:00", "2026-11-22T10:19:48+00:00"), "2:53 min"),
        (("2026-11-22T10:16:55+00:00", "2026-11-22T12:19:48+00:00"), "2:02:53 h"),
        (("2026-11-22T10:16:55+00:00", None), "it has not ended"),
    ],
)
def test_a_campaign_took_so_long(times: tuple[str, str | None], words: str) -> None:
    assert content.took(*times) == words


def test_a_time_is_reported_in_utc() -> None:
    assert content.moment("2026-11-22T11:16:55+01:00") == "2026-11-22 10:16:55 UTC"


def test_findings_that_reject_come_before_those_that_do_not(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 4, 1)
    open_one = Finding("inconclusive", "peers", "later", "RdmaBandwidth", "hdr", ("n1",))
    bad = Finding("reject", "reference", "sooner", "RdmaBandwidth", "hdr", ("n2",))
    text = page.html(dataclasses.replace(verdict, findings=(open_one, bad)))
    assert text.index("sooner") < text.index("later")


def test_a_rehearsal_says_simulated_wherever_it_says_a_verdict(tmp_path: Path) -> None:
    text = page.html(pages.simulated(pages.cluster(tmp_path, 4, 2, bad=(1, 1))))
    assert (
        re.findall(r"(\w+) REJECT", text) == ["SIMULATED"] * 2 and "<title>SIMULATED REJECT" in text
    )
    for heading in ("Suspects", "Findings", "By check", "All numbers"):
        assert f"<h2>SIMULATED {heading}" in text


def test_a_required_check_of_which_nothing_ran_is_in_the_scope(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 4, 1)
    rows = {row[1]: row[2:] for row in content.scope(dataclasses.replace(verdict, cases=())).rows}
    assert rows["RdmaBandwidth"] == ("required", "0", "0", "0", "all")


def test_every_number_of_a_campaign_is_in_the_page(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 6, 2)
    data = numbers_in(page.html(verdict))
    assert sorted(data["rows"][2]) == sorted(
        row.measurement.value for case in verdict.cases for row in case.rows
    )


def test_a_place_without_a_number_is_in_the_map(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 4, 1)
    silent = pages.case("RdmaBandwidth", ("n1", "n3"), "", [], result="not run", reason="n3 died")
    text = page.html(dataclasses.replace(verdict, cases=(*verdict.cases, silent)))
    data = numbers_in(text)
    ((check, place, status),) = data["silent"]
    assert data["checks"][check] == "RdmaBandwidth" and data["places"][place] == "n1:n3"
    assert data["statuses"][status] == "not run" and "n3 died" in Elements(text).text


def test_of_too_many_numbers_those_that_are_fine_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "MOST", 6)
    data = numbers_in(text := page.html(pages.cluster(tmp_path, 6, 2, bad=(1, 1))))
    out = data["statuses"].index("out")
    assert data["left_out"] == 22 and data["rows"][3].count(out) == 2
    assert "22 numbers that are fine are not in this page" in Elements(text).text


def test_of_too_many_findings_the_page_says_how_many_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "MOST_FINDINGS", 1)
    text = Elements(page.html(pages.cluster(tmp_path, 4, 2, bad=(1, 1)))).text
    assert "Findings of 1 more places are not in this page" in text


def test_counters_of_trouble_are_shown_and_those_of_traffic_are_not(tmp_path: Path) -> None:
    table = content.counters(pages.cluster(tmp_path, 4, 1).cases)
    assert [row[:3] for row in table.rows] == [("n1", "ethtool/eth1/rx_discards_phy", "12")]


def test_a_field_in_which_nodes_differ_is_reported_with_its_values(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 4, 1)
    field = "nic/mlx5_0/firmware"
    facts = {
        node: {"agreed": {"fields": {field: version}}}
        for node, version in (("n1", "28.43"), ("n2", "28.39"), ("n3", "28.43"))
    }
    case = dataclasses.replace(verdict.cases[0], facts=facts)
    assert content.drift(dataclasses.replace(verdict, cases=(case,))).rows == (
        ("hdr", field, '"28.43"', "2", "n[1,3]"),
        ("hdr", field, '"28.39"', "1", "n2"),
    )


def test_a_node_that_is_not_as_it_was_accepted_is_reported(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 4, 1)
    scope = dataclasses.replace(verdict.campaign.scope, accepted={"n1": "aa", "n2": "bb"})
    campaign = dataclasses.replace(
        verdict.campaign, scope=scope, fingerprints={"n1": "cc", "n2": "bb"}
    )
    (row,) = content.drift(dataclasses.replace(verdict, campaign=campaign)).rows
    assert row[1:] == ("fingerprint", "cc, was accepted with aa", "1", "n1")


def test_tools_that_moved_files_stand_next_to_each_other() -> None:
    (table_of,) = content.transfer_tables(
        verdict_of([transfer("WdtTransfer", 15.0), transfer("ScpTransfer", 1.0)])
    )
    fast, slow = table_of.rows
    assert (fast[0], slow[0]) == ("wdt", "scp") and fast[1].startswith("15") and "x" in fast[1]


def test_provenance_has_the_command_the_host_and_where_the_references_are_from(
    tmp_path: Path,
) -> None:
    text = Elements(page.html(pages.cluster(tmp_path, 4, 1))).text
    provenance = text[text.rindex("Provenance") :]
    for said in ("login1", "railgauge accept", "baseline", "a test", "2026-11-22"):
        assert said in provenance


def test_a_curve_has_the_sizes_in_order_and_the_limit(tmp_path: Path) -> None:
    data = numbers_in(page.html(pages.cluster(tmp_path, 4, 1)))
    over_sizes = next(c for c in data["curves"] if c["by"] == "size")
    assert over_sizes["x"] == pages.SIZES
    assert set(over_sizes["limit"]) == {392.15}


def test_the_page_says_what_the_campaign_would_have_found(tmp_path: Path) -> None:
    verdict = pages.cluster(tmp_path, 8, 2)
    sharpest = verdict.power.sharpest
    assert sharpest is not None and sharpest.link is not None
    text = Elements(page.html(verdict)).text
    assert f"With 99 % probability: a loss of {sharpest.link * 100:.1f} % on one place" in text


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    return pages.after_accepted(tmp_path)


def test_a_place_that_lost_since_the_last_accepted_campaign_stands_first(later: Verdict) -> None:
    changes = numbers_in(page.html(later))["changes"]
    _, places, change, p, *_, words = changes["rows"]
    worse = [place for place, word in zip(places, words, strict=True) if word == 0]
    assert {changes["places"][place] for place in worse} == {f"n7:n8:{r}-{r}" for r in range(4)}
    assert words == sorted(words) and change[0] == pytest.approx(-0.08, abs=0.02) and p[0] > 3


def test_before_and_after_names_the_campaign_and_each_condition(later: Verdict) -> None:
    text = Elements(page.html(later)).text
    assert (
        f"Against {measured.name(1)}, the last campaign that was accepted before: 4 worse" in text
    )
    assert "RdmaBandwidth ns: bandwidth 64 KiB, write, roce, 4 streams" in text


def test_a_campaign_is_compared_with_the_one_that_was_asked_for(
    tmp_path: Path, later: Verdict
) -> None:
    values = dict.fromkeys(measured.PLACES, 385.0)
    other = measured.leave(tmp_path, 3, values)
    asked = measured.leave(tmp_path, 4, values, gate="acceptance", compare=other.id)
    text = Elements(page.html(dataclasses.replace(later, campaign=asked))).text
    assert f"Against {other.id}:" in text


def test_a_place_without_a_number_before_is_named(tmp_path: Path, later: Verdict) -> None:
    values = dict.fromkeys(["n1:n2:0-0", "n1:n3:0-0"], 385.0)
    more = measured.leave(tmp_path, 3, values, gate="acceptance")
    found = before.before(dataclasses.replace(later, campaign=more))
    assert isinstance(found, before.Before)
    assert ("before", "n1:n3:0-0") in {row[:2] for row in before.missing(found.compared).rows}


def test_what_is_undecided_is_listed_and_not_drawn(tmp_path: Path, later: Verdict) -> None:
    few = measured.leave(tmp_path, 3, {"n1:n2:0-0": 385.0}, gate="acceptance")
    html = page.html(dataclasses.replace(later, campaign=few))
    changes = numbers_in(html)["changes"]
    assert len(changes["rows"][0]) == 1 and not changes["drawn"]
    assert 'id="changes"' in html and 'id="volcano"' not in html


def test_what_was_accepted_later_is_not_before(tmp_path: Path, later: Verdict) -> None:
    measured.leave(tmp_path, 3, {measured.PLACES[0]: 1.0}, gate="acceptance", verdict="accept")
    found = before.before(later)
    assert isinstance(found, before.Before) and found.campaign.id == measured.name(1)


def test_a_rehearsal_is_not_compared_with_what_was_measured(later: Verdict) -> None:
    html = page.html(pages.simulated(later))
    assert numbers_in(html)["changes"] is None and "A rehearsal is not compared" in html


def test_the_campaign_that_it_was_to_be_compared_with_is_before(
    tmp_path: Path, later: Verdict
) -> None:
    measured.leave(tmp_path, 0, dict.fromkeys(["n1:n2:0-0"], 380.0))
    requested = Requested([], {variables.COMPARE: measured.name(0)}, {})
    campaign = dataclasses.replace(later.campaign, requested=requested)
    found = before.before(dataclasses.replace(later, campaign=campaign))
    assert isinstance(found, before.Before) and found.campaign.id == measured.name(0)


def test_of_other_nodes_than_its_own_nothing_is_missing(tmp_path: Path, later: Verdict) -> None:
    few = measured.leave(tmp_path, 3, {"n1:n2:0-0": 385.0, "n3:n4:0-0": 385.0}, gate="acceptance")
    found = before.before(dataclasses.replace(later, campaign=few))
    assert isinstance(found, before.Before)
    assert {place.rsplit(":", 1)[0] for _, place, _ in before.missing(found.compared).rows} == {
        "n1:n2",
        "n3:n4",
    }


def test_without_an_accepted_campaign_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    html = page.html(pages.cluster(tmp_path, 4, 1))
    assert "No before and after: no other campaign" in Elements(html).text
    assert numbers_in(html)["changes"] is None


def test_of_too_many_places_those_that_moved_least_are_left_out(
    later: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(before, "MOST", 5)
    html = page.html(later)
    changes = numbers_in(html)["changes"]
    assert changes["rows"][-1][:4] == [0] * 4 and changes["left_out"] == 235
    assert "235 places that moved least are not in this page" in Elements(html).text


def test_a_node_has_its_leaf(tmp_path: Path) -> None:
    data = numbers_in(page.html(pages.on_leaves(pages.cluster(tmp_path, 4, 2), 2)))
    of_node = dict(zip(data["nodes"], data["leaf_of"], strict=True))
    assert {node: data["leaves"][leaf] for node, leaf in of_node.items()} == {
        "n1": "leaf1",
        "n2": "leaf1",
        "n3": "leaf2",
        "n4": "leaf2",
    }


def test_damaged_leaves_cost_a_map_and_not_the_page(tmp_path: Path) -> None:
    verdict = pages.on_leaves(pages.cluster(tmp_path, 4, 2), 2)
    (verdict.campaign.folder / "leaves.json").write_text("[")
    assert numbers_in(page.html(verdict))["leaf_of"] == [-1] * 4


def test_a_long_output_keeps_its_begin_and_its_end() -> None:
    text = content.shortened("begin" + "x" * 50_000 + "end")
    assert text.startswith("begin") and text.endswith("end") and len(text) < 13_000


def test_a_drawing_shows_the_bad_partners_first(tmp_path: Path) -> None:
    drawn = drawing.draw("n2", pages.cluster(tmp_path, 8, 2, bad=(1, 1)).cases)
    assert drawn is not None and drawn.words == "n2 is bad with n1, n3"


def test_a_drawing_says_with_how_many_others_a_partner_is_good(tmp_path: Path) -> None:
    drawn = drawing.draw("n2", pages.cluster(tmp_path, 8, 2, bad=(1, 1)).cases)
    assert drawn is not None and [line.cleared for line in drawn.lines] == [1, 1]


@pytest.mark.parametrize("partners", [1, 2, 3, 5, 14])
def test_every_name_in_a_drawing_is_within_it(tmp_path: Path, partners: int) -> None:
    pairs = [("n0", f"n{number}") for number in range(1, partners + 1)]
    cases = [pages.case("RdmaBandwidth", pair, "", [], result="fail") for pair in pairs]
    cases += [
        pages.case(
            "RdmaBandwidth",
            (name, "other"),
            "",
            [Row(pages.bandwidth((name, "other"), "", 1.0), None, None)],
        )
        for _, name in pairs
    ]
    drawn = drawing.draw("n0", cases)
    assert drawn is not None and len(drawn.lines) == partners
    for line in drawn.lines:
        assert line.text_y >= 10 and line.text_y + 13 <= drawn.height


# --- nothing breaks out --------------------------------------------------------------------------


@pytest.mark.parametrize("text", pages.HOSTILE)
def test_no_text_of_a_campaign_becomes_markup(tmp_path: Path, text: str) -> None:
    plain = Elements(page.html(pages.hostile(tmp_path / "plain", "harmless"))).tags
    found = Elements(page.html(pages.hostile(tmp_path / "hostile", text))).tags
    # The same elements with the same names of attributes: nothing has begun, ended or been added.
    assert [(tag, list(attributes)) for tag, attributes in found] == [
        (tag, list(attributes)) for tag, attributes in plain
    ]
    assert not [a for _, a in found if re.search("^\\s*javascript:", a.get("href") or "")]


@pytest.mark.parametrize("text", pages.HOSTILE)
def test_every_text_of_a_campaign_is_shown_as_it_is(tmp_path: Path, text: str) -> None:
    html = page.html(pages.hostile(tmp_path, text))
    assert re.sub(r"\s+", " ", clean(text)) in Elements(html).text and clean(html) == html


def test_what_hides_or_turns_the_text_is_shown_as_its_code() -> None:
    assert clean("a\u202eb\x1b[1m\u2028\udce9") == r"a\u202eb\u001b[1m\u2028\udce9"


def test_only_our_own_script_and_style_may_run_and_nothing_may_be_asked_for(tmp_path: Path) -> None:
    text = page.html(pages.cluster(tmp_path, 4, 1))
    elements = Elements(text)
    (policy,) = [a["content"] for tag, a in elements.tags if "http-equiv" in a]
    assert policy is not None and policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy and "http" not in policy
    for tag in ("script", "style"):
        (own,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    sources = [a.get("src") or a.get("href") or "" for _, a in elements.tags]
    assert {source[:1] for source in sources if source} <= {"#", "d"}


# --- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RELEASED)
def test_the_library_is_the_released_one(name: str) -> None:
    assert hashlib.sha256((UPLOT / name).read_bytes()).hexdigest() == RELEASED[name]


def test_the_shell_is_small(tmp_path: Path) -> None:
    assert len(page.html(pages.cluster(tmp_path, 2, 1)).encode()) < MOST_SHELL_BYTES


def test_report_writes_the_page_where_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Recorded(tmp_path / "20261122T101655Z-lab-7578a0").write().folder
    result = invoke(report, [str(folder), "-o", str(tmp_path / "page.html")])
    assert result.exit_code == 0 and "ACCEPT" in (tmp_path / "page.html").read_text()
    assert not (folder / page.FILE).exists()


def test_report_says_where_it_cannot_write(tmp_path: Path) -> None:
    folder = Recorded(tmp_path / "20261122T101655Z-lab-7578a0").write().folder
    result = invoke(report, [str(folder), "-o", str(tmp_path / "no" / "page.html")])
    assert "No such file or directory" in str(result.exception) and result.exit_code != 0


def test_a_page_that_cannot_be_written_changes_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    campaign = Recorded(tmp_path / "20261122T101655Z-lab-7578a0").write()
    monkeypatch.setattr(page, "html", lambda verdict: 1 / 0)
    verdict = accept._conclude(campaign, "finished", said.append)
    assert verdict.decision == "accept" and (campaign.folder / "verdict.json").exists()
    assert said[0].startswith("report.html was not written: ZeroDivisionError") and len(said) == 1


def test_a_table_that_cannot_be_written_keeps_no_page_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    campaign = Recorded(tmp_path / "20261122T101655Z-lab-7578a0").write()
    monkeypatch.setattr(measurement_table, "write", lambda campaign, cases: 1 / 0)
    accept._conclude(campaign, "finished", said.append)
    assert (campaign.folder / page.FILE).exists()
    assert [line.partition(":")[0] for line in said] == ["measurements.parquet was not written"]


def test_a_campaign_ends_with_its_page(tmp_path: Path) -> None:
    campaign = Recorded(tmp_path / "20261122T101655Z-lab-7578a0").write()
    accept._conclude(campaign, "finished", print)
    assert "ACCEPT" in (campaign.folder / page.FILE).read_text()


def test_a_campaign_ends_with_its_lists_of_nodes(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "20261122T101655Z-lab-7578a0")
    recorded.fail(0, Failure("condition", "mtu_bytes on n2 is 1500", ("n2",)))
    campaign = recorded.write()
    accept._conclude(campaign, "finished", print)
    lists = [(campaign.folder / f"{w}_nodes.txt").read_text() for w in ("failing", "passing")]
    assert lists == ["n2\n", "n1\nn3\nn4\n"]
