"""`railgauge promote` and `references`: what becomes a baseline, and what never does."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import Result
from yamllint import linter
from yamllint.config import YamlLintConfig

from railgauge import paths
from railgauge.campaign import folder
from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from railgauge.model import reference_file, references
from railgauge.model.failure import DIRECTION, Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Entry
from railgauge.verdict.comparison import measurement_table, promotion
from tests.command_line import invoke
from tests.unit import measured
from tests.unit.measured import PLACES, bandwidth
from tests.unit.widths import assert_fits

STORED = """\
# The numbers of the lab.
system: lab
references:
  # A floor until there is better.
  - check: RdmaBandwidth
    partition: ns
    operation: write
    transport: roce
    nodes: 2
    streams: 4
    size_bytes: 65536
    window_bytes: null
    metrics:
      bandwidth: &floor
        value: 200   # half of the link
        lower: 0
        unit: Gb/s
        kind: floor
        provenance:
          source: >-
            half of the link,
            by hand
          date: 2026-10-01
ratios: []
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    monkeypatch.setenv("RAILGAUGE_REFERENCES", str(tmp_path))
    return tmp_path


def values(seed: int, noise: float = 0.001, scale: float = 1.0) -> dict[str, float]:
    errors = np.random.default_rng(seed).normal(0, noise, len(PLACES))
    return {p: scale * 390 * float(np.exp(e)) for p, e in zip(PLACES, errors, strict=True)}


def several(root: Path, many: int = 5, noise: float = 0.001, **options: Any) -> list[str]:
    return [measured.leave(root, n, values(n, noise), **options).id for n in range(many)]


#: What it says of a proposal, and of the file.
SAYS = ("left out: ", "wider: ", "tried: ", "lacking: ")
SAYS += ("wrote ", " has these baselines", "nothing is written")


def promote(*words: str) -> Result:
    return invoke(cli, ["promote", *words], may_say=SAYS)


def promoted(root: Path) -> references.Reference:
    """The baseline of the condition in the file."""
    found = references.load("lab", root / "lab.yaml").find(
        measured.CHECK, "ns", bandwidth(PLACES[0], 390)
    )
    assert found is not None and found.kind == "baseline"
    return found


def test_the_median_becomes_the_baseline_with_where_it_is_from(root: Path) -> None:
    ids = several(root)
    answer = promote(*ids, "--write")
    assert answer.exit_code == 0 and "git" not in answer.output
    number = promoted(root)
    assert number.value == pytest.approx(390, rel=0.001)
    assert number.provenance.samples == 40 and number.provenance.fingerprint == "0123456789ab"
    assert number.provenance.tools == {"perftest": "6.24"}
    assert ids[0] in number.provenance.source and str(number.provenance.date) == "2026-11-01"


def test_the_bound_follows_the_spread_and_is_never_nearer_than_the_least(root: Path) -> None:
    promote(*several(root), "--write")
    assert promoted(root).lower == -0.02
    root.joinpath("lab.yaml").unlink()
    ids = [measured.leave(root, n, values(n, 0.02, scale=0.9)).id for n in range(20, 40)]
    promote(*ids, "--write")
    # Four standard deviations of 2 %.
    assert promoted(root).lower == pytest.approx(-0.08, abs=0.025)


def test_what_is_proposed_is_shown_and_not_written(root: Path) -> None:
    answer = promote(*several(root))
    assert answer.exit_code == 0 and "+        kind: baseline" in answer.output
    assert not (root / "lab.yaml").exists()


def test_a_load_without_a_baseline_is_named_with_what_measures_it(root: Path) -> None:
    loaded = several(root, load="loaded")
    answer = promote(*loaded, "--write")
    assert "lacking: RdmaBandwidth has no baseline for load quiet" in answer.stderr
    assert "accept --mode baseline --schedule quiet --runs 5" in answer.stderr
    quiet = [measured.leave(root, n, values(n), load="quiet").id for n in range(20, 25)]
    assert "lacking" not in promote(*quiet, "--write").stderr
    stored = references.load("lab", root / "lab.yaml")
    for load in ("quiet", "loaded"):
        found = stored.find(measured.CHECK, "ns", bandwidth(PLACES[0], 390, load=load))
        assert found is not None and found.kind == "baseline"


def test_without_a_load_nothing_is_lacking(root: Path) -> None:
    assert "lacking" not in promote(*several(root), "--write").stderr


def test_comments_and_order_of_the_file_stay(root: Path) -> None:
    path = root / "lab.yaml"
    path.write_text(STORED)
    promote(*several(root), "--write")
    changes = difflib.ndiff(STORED.splitlines(), path.read_text().splitlines())
    assert [line for line in changes if line.startswith("- ")] == []
    assert promoted(root).value == pytest.approx(390, rel=0.001)


def test_a_second_promotion_replaces_the_first_and_keeps_its_comments(root: Path) -> None:
    path = root / "lab.yaml"
    path.write_text(STORED)
    promote(*several(root), "--write")
    path.write_text(path.read_text().replace("kind: baseline", "kind: baseline  # of 2026"))
    ids = [measured.leave(root, n, values(n, scale=0.9)).id for n in range(20, 25)]
    assert promote(*ids, "--write").exit_code == 0
    assert promoted(root).value == pytest.approx(351, rel=0.001)
    assert path.read_text().count("kind: baseline") == 1 and "# of 2026" in path.read_text()


def test_the_same_campaigns_again_change_nothing(root: Path) -> None:
    ids = several(root)
    promote(*ids, "--write")
    before = (root / "lab.yaml").read_bytes()
    answer = promote(*ids, "--write")
    assert "has these baselines" in answer.output
    assert (root / "lab.yaml").read_bytes() == before


@pytest.mark.parametrize("system", ["dgx-h100", "dgx-spark", "eth400g", "gb200-nvl72", "lab"])
def test_a_file_into_which_nothing_is_put_stays_as_it_is(system: str) -> None:
    old, new = reference_file.with_baselines(system, references.path_for(system), [])
    assert old == new


def test_a_number_that_others_share_is_not_changed_for_them(root: Path) -> None:
    path = root / "lab.yaml"
    shared = STORED.replace("kind: floor", "kind: baseline").replace("ratios: []\n", "")
    shared += """\
  - check: RailProbe
    partition: ns
    operation: write
    transport: roce
    nodes: 2
    metrics:
      bandwidth: *floor
"""
    path.write_text(shared)
    promote(*several(root), "--write")
    other = references.load("lab", path).entries[1].metrics["bandwidth"]
    assert promoted(root).value == pytest.approx(390, rel=0.001) and other.value == 200


def test_a_path_across_rails_has_a_number_of_its_own(root: Path) -> None:
    across = {place.replace("0-0", "0-1"): v * 0.8 for place, v in values(9).items()}
    ids = [measured.leave(root, n, {**values(n), **across}).id for n in range(5)]
    promote(*ids, "--write")
    stored = references.load("lab", root / "lab.yaml")
    found = stored.find(measured.CHECK, "ns", bandwidth("n1:n2:0-1", 312))
    assert found is not None and found.value == pytest.approx(312, rel=0.002)
    assert promoted(root).value == pytest.approx(390, rel=0.001)


def test_what_is_written_is_as_the_project_writes_yaml(root: Path) -> None:
    promote(*several(root), "--write")
    config = YamlLintConfig(file=str(paths.HOME / ".yamllint"))
    assert list(linter.run((root / "lab.yaml").read_text(), config)) == []
    written = [line.split(":")[0].strip(" -") for line in (root / "lab.yaml").open()]
    assert written[2:4] == ["check", "partition"]
    assert written[9:12] == ["metrics", "bandwidth", "value"]


# ---- refusals ----


def left_out(root: Path) -> list[str]:
    return several(root, many=2)


def simulated(root: Path) -> list[str]:
    return several(root, simulated=True)


def failed(root: Path) -> list[str]:
    failure = Failure("counters", "the counters contradict")
    return [*several(root), measured.leave(root, 9, values(9), failures={PLACES[0]: failure}).id]


def low(root: Path) -> list[str]:
    failure = Failure(DIRECTION, "n2 -> n1 carries 350 Gb/s, n1 -> n2 390 Gb/s")
    return [*several(root), measured.leave(root, 9, values(9), failures={PLACES[0]: failure}).id]


def retried(root: Path) -> list[str]:
    return [*several(root), measured.leave(root, 9, values(9), retried=PLACES[0]).id]


def other_ends(root: Path) -> list[str]:
    one = measured.leave(root, 9, values(9), server_version="6.25")
    return [*several(root), one.id]


def other_version(root: Path) -> list[str]:
    return [*several(root), measured.leave(root, 9, values(9), version="6.25").id]


def other_node(root: Path) -> list[str]:
    prints = {"n3": "ba9876543210"}
    return [*several(root), measured.leave(root, 9, values(9), fingerprints=prints).id]


def suspects(root: Path) -> list[str]:
    ids = several(root)
    path = root / "campaigns" / ids[0] / "verdict.json"
    path.write_text('{"verdict": "reject", "findings": [], "suspects": [{"node": "n3"}]}')
    return ids


def rejected(root: Path) -> list[str]:
    ids = several(root)
    path = root / "campaigns" / ids[0] / "verdict.json"
    path.write_text('{"findings": [{"weight": "reject", "message": "n3 died"}], "suspects": []}')
    return ids


def without_verdict(root: Path) -> list[str]:
    ids = several(root)
    (root / "campaigns" / ids[0] / "verdict.json").unlink()
    return ids


def damaged_verdict(root: Path) -> list[str]:
    ids = several(root)
    (root / "campaigns" / ids[0] / "verdict.json").write_text("[")
    return ids


def above(root: Path) -> list[str]:
    return several(root, limit=Limit(350, "Gb/s", "a slower link"))


def far_off(root: Path) -> list[str]:
    return [measured.leave(root, n, {**values(n), PLACES[2]: 250}).id for n in range(5)]


def other_system(root: Path) -> list[str]:
    return [*several(root), measured.leave(root, 9, values(9), system="other").id]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (left_out, "no condition has enough measurements"),
        (simulated, "simulated, stand-ins were run"),
        (failed, f"results that failed: {PLACES[0]}"),
        (low, f"results that failed: {PLACES[0]}"),
        (retried, f"results of a second try: {PLACES[0]}"),
        (other_version, "several versions of perftest: Version: 6.24, Version: 6.25"),
        (other_ends, "several versions of perftest: Version: 6.24, Version: 6.25"),
        (other_node, "several fingerprints on ns"),
        (other_node, "or measure those of one fingerprint: --nodes '"),
        (suspects, "1 suspect"),
        (rejected, "findings that reject, such as: n3 died"),
        (without_verdict, "no verdict can be read"),
        (damaged_verdict, "no verdict can be read"),
        (above, "above the limit"),
        (far_off, "far from their peers in RdmaBandwidth ns: bandwidth 64 KiB, write, roce, "),
        (other_system, "several systems: lab, other"),
    ],
)
def test_what_looks_wrong_is_no_baseline(
    root: Path, make: Callable[[Path], list[str]], words: str
) -> None:
    error = promote(*make(root), "--write").exception
    assert isinstance(error, RailgaugeError) and error.exit_code == 3
    assert words in str(error) and not (root / "lab.yaml").exists()


def test_a_condition_with_too_few_runs_is_left_out_and_said(root: Path) -> None:
    answer = promote(*left_out(root))
    assert "left out: RdmaBandwidth ns: bandwidth 64 KiB" in answer.output


def test_numbers_all_over_the_place_are_left_out_and_said(root: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(5):
        starts = {
            place: Measurement("startup", 3 * 10 ** random.uniform(-2, 2), "mpirun", "init", "any")
            for place in PLACES
        }
        measured.leave(root, number, values(number), also=starts)
    answer = promote(*(measured.name(number) for number in range(5)))
    assert "left out: RdmaBandwidth ns: startup" in answer.output and answer.exit_code == 0


def leave_with(
    root: Path,
    metric: str,
    factor: float,
    runs: range,
    places: tuple[str, ...] = PLACES,
    noise: float = 0.02,
) -> list[str]:
    """Campaigns with one more number of each place; the first place's is bad in some runs."""
    for number in range(5):
        errors = values(number, noise)
        if number in runs:
            errors[places[0]] *= factor
        also = {p: dataclasses.replace(bandwidth(p, errors[p]), metric=metric) for p in places}
        measured.leave(root, number, {p: values(number)[p] for p in places}, also=also)
    return [measured.name(number) for number in range(5)]


@pytest.mark.parametrize(
    ("metric", "factor", "runs", "places"),
    [
        ("latency_avg", 3, range(4, 5), PLACES),
        ("latency_avg", 20, range(5), PLACES),
        ("latency_avg", 3, range(5), PLACES[:3]),
        ("bandwidth_peak", 0.3, range(4, 5), PLACES),
    ],
)
def test_a_number_that_stands_out_is_left_out_with_its_run(
    root: Path, metric: str, factor: float, runs: range, places: tuple[str, ...]
) -> None:
    answer = promote(*leave_with(root, metric, factor, runs, places), "--write")
    (line,) = [line for line in answer.stderr.splitlines() if line.startswith("left out")]
    assert f"left out: RdmaBandwidth ns: {metric} 64 KiB" in line
    assert f": {places[0]} is {'+' if factor > 1 else '-'}" in line
    assert any(f"% in run {measured.name(run)}/" in line for run in runs)
    assert f"{metric}:" not in (root / "lab.yaml").read_text()
    assert promoted(root).value == pytest.approx(390, rel=0.001)


def test_of_two_places_that_vary_too_much_neither_is_right(root: Path) -> None:
    answer = promote(*leave_with(root, "latency_avg", 3, range(5), PLACES[:2]), "--write")
    assert "latency_avg 64 KiB, write, roce, 4 streams: its measurements vary" in answer.stderr
    assert "latency_avg:" not in (root / "lab.yaml").read_text()


@pytest.mark.parametrize(("noise", "factor"), [(0.02, 1.5), (0.3, 1)])
def test_a_noisy_latency_of_good_places_has_a_bound(
    root: Path, noise: float, factor: float
) -> None:
    ids = leave_with(root, "latency_avg", factor, range(4, 5), noise=noise)
    answer = promote(*ids, "--write")
    assert "left out" not in answer.stderr
    assert "latency_avg:" in (root / "lab.yaml").read_text()


def test_a_file_that_is_wrong_is_not_touched(root: Path) -> None:
    path = root / "lab.yaml"
    path.write_text(STORED.replace("Gb/s", "MB/s"))
    answer = promote(*several(root), "--write")
    assert isinstance(answer.exception, RailgaugeError) and "MB/s" in path.read_text()


def test_a_new_file_is_one_that_loads(root: Path) -> None:
    entry = Entry.model_validate(
        {
            "check": "RailProbe",
            "partition": "ns",
            "operation": "write",
            "transport": "roce",
            "nodes": 2,
            "metrics": {
                "bandwidth": {
                    "value": 1,
                    "lower": -0.1,
                    "unit": "Gb/s",
                    "kind": "baseline",
                    "provenance": {"source": "a test", "date": "2026-11-22"},
                }
            },
        }
    )
    _, new = reference_file.with_baselines("lab", root / "lab.yaml", [entry])
    (root / "lab.yaml").write_text(new)
    assert references.load("lab", root / "lab.yaml").entries == [entry]


# ---- references ----


def listed(*words: str) -> str:
    answer = invoke(cli, ["references", "--system", "lab", *words])
    assert answer.exit_code == 0, answer.exception
    if "--json" not in words:
        assert_fits(answer.output)
    return answer.output


def test_a_baseline_is_listed_with_its_age_and_source(root: Path) -> None:
    ids = several(root)
    promote(*ids, "--write")
    output = listed()
    assert "baseline" in output and "0 of 1 stale" in output
    assert re.search(r"\b[0-9]+ d\b", output)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "6.25"}, "perftest 6.24, now 6.25"),
        ({"fingerprints": {f"n{n}": "ba9876543210" for n in range(1, 17)}}, "now ba9876543210"),
    ],
)
def test_a_baseline_is_stale_where_tool_or_firmware_has_moved(
    root: Path, changes: dict[str, Any], words: str
) -> None:
    promote(*several(root), "--write")
    measured.leave(root, 9, values(9), **changes)
    output = " ".join(listed().split())
    assert "1 of 1 stale" in output and words.split(", ")[-1] in output


def test_a_system_without_references_says_what_makes_them(root: Path) -> None:
    answer = invoke(cli, ["references", "--system", "lab"])
    assert isinstance(answer.exception, RailgaugeError)
    assert answer.exception.next_step and "--mode baseline" in answer.exception.next_step


def test_what_all_groups_of_a_launch_share_is_one_sample(root: Path) -> None:
    facts = {"n1": {"slowest_of": len(PLACES), "launch": 0}}
    ids = [
        measured.leave(root, n, dict.fromkeys(PLACES, 390 + n / 10), facts=facts).id
        for n in range(12)
    ]
    assert "5 measurements in 5 runs, expected 10" in promote(*ids[:5]).output
    assert promote(*ids, "--write").exit_code == 0
    assert promoted(root).provenance.samples == 12
    assert f"12 runs of {len(PLACES)} places" in promoted(root).provenance.source


def test_what_another_promote_has_written_meanwhile_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "lab.yaml"
    ids = several(root)
    read = reference_file.with_baselines

    def then_another_writes(*words: Any) -> tuple[str, str]:
        texts = read(*words)
        path.write_text(STORED)
        return texts

    monkeypatch.setattr(reference_file, "with_baselines", then_another_writes)
    error = promote(*ids, "--write").exception
    assert isinstance(error, RailgaugeError) and "changed meanwhile" in error.message
    assert path.read_text() == STORED


# ---- tried at once ----


def test_a_metric_that_depends_on_chance_is_not_promoted(root: Path) -> None:
    for number in range(5):
        slowest = {
            place: dataclasses.replace(bandwidth(place, 90), metric="stream_bandwidth_min")
            for place in PLACES
        }
        measured.leave(root, number, values(number), also=slowest)
    assert promote(*(measured.name(n) for n in range(5)), "--write").exit_code == 0
    assert "stream_bandwidth_min" not in (root / "lab.yaml").read_text()


def test_the_bounds_are_tried_and_the_rate_is_said(root: Path) -> None:
    answer = promote(*several(root))
    assert "tried: all 40 numbers that have a bound are within it" in answer.stderr
    assert "wider" not in answer.stderr
    rate = float(answer.stderr.partition("runs do ")[2].split()[0])
    assert 0 <= rate <= 1


def test_runs_of_one_campaign_do_not_show_how_campaigns_differ(root: Path) -> None:
    ids = several(root, 2)
    tables = [measurement_table.read(folder.load(name)) for name in ids]
    one = folder.load(ids[0])
    runs = [frame.with_columns(run=pl.lit(f"{n}")) for n, frame in enumerate(tables * 2)]
    (entry,) = promotion.propose([(one, pl.concat(runs))]).entries
    assert entry.metrics["bandwidth"].lower == -0.03


def test_runs_with_a_tail_have_a_wider_bound_that_is_said(root: Path) -> None:
    ids = [measured.leave(root, n, values(n, 0.003)).id for n in range(4)]
    ids.append(measured.leave(root, 9, {**values(9, 0.003), PLACES[2]: 390 * 0.93}).id)
    answer = promote(*ids, "--write")
    assert (
        f"wider: RdmaBandwidth ns: bandwidth 64 KiB, write, roce, 4 streams: {PLACES[2]} is -7"
        in (answer.stderr)
    )
    lower = promoted(root).lower
    assert lower is not None and -0.12 < lower < -0.07


def test_a_pair_that_stands_out_in_one_run_of_five_is_refused(root: Path) -> None:
    ids = [measured.leave(root, n, values(n)).id for n in range(4)]
    ids.append(measured.leave(root, 9, {**values(9), PLACES[2]: 390 * 0.75}).id)
    error = promote(*ids, "--write").exception
    assert isinstance(error, RailgaugeError) and error.exit_code == 3
    assert f"{PLACES[2]} (-25% in run {ids[-1]}/" in str(error)
