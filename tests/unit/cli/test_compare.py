"""`railgauge compare`: before and after, of campaigns and of anyone's numbers."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from railgauge import systems
from railgauge.campaign import inventories
from railgauge.campaign.folder import Campaign
from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from railgauge.model.failure import DIRECTION, NO_REFERENCE, Failure
from railgauge.model.inventory import Inventory
from railgauge.model.measurement import Measurement
from railgauge.verdict.campaign import cases as of_campaign
from railgauge.verdict.comparison import before_after, measurement_table
from tests.command_line import invoke
from tests.unit import measured
from tests.unit.measured import PLACES
from tests.unit.widths import assert_fits


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    return tmp_path


def values(seed: int, **factors: float) -> dict[str, float]:
    """390 Gb/s with 0.1 % noise; of a place a factor of it, by its first node."""
    noise = np.random.default_rng(seed).normal(0, 0.001, len(PLACES))
    return {
        place: 390 * float(np.exp(e)) * factors.get(place.partition(":")[0], 1.0)
        for place, e in zip(PLACES, noise, strict=True)
    }


def several(root: Path, first: int, many: int = 5, **factors: float) -> str:
    """Campaigns from that number on, by their ids."""
    campaigns = [measured.leave(root, n, values(n, **factors)) for n in range(first, first + many)]
    return ",".join(campaign.id for campaign in campaigns)


def compare(*words: str) -> Result:
    answer = invoke(cli, ["compare", *words])
    if "--json" not in words:
        assert_fits(answer.output)
    return answer


def document(*words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(compare(*words, "--json").output)
    return answer


def test_a_healthy_second_set_is_the_same(root: Path) -> None:
    answer = compare(several(root, 0), several(root, 10))
    assert answer.exit_code == 0 and "SAME: 8 same of 8 places" in answer.output


def test_a_slower_link_is_named_and_no_other(root: Path) -> None:
    found = document(several(root, 0), several(root, 10, n3=0.95))
    (worse,) = [place for place in found["places"] if place["verdict"] != "same"]
    assert (worse["place"], worse["verdict"]) == ("n3:n4:0-0", "worse")
    low, high = worse["interval"]
    assert low < worse["change"] < high and worse["change"] == pytest.approx(-0.05, abs=0.005)
    assert worse["p"] < 1e-4 and (found["verdict"], found["exit_code"]) == ("worse", 1)


def test_what_all_lose_is_a_shift_and_no_node_is_accused(root: Path) -> None:
    every = {place.partition(":")[0]: 0.97 for place in PLACES}
    answer = compare(several(root, 20), several(root, 30, **every)).output
    answer = " ".join(answer.split())
    words = r"WORSE: all 8 places of .* worse by 3\.\d%; apart from that, 8 same of 8"
    assert re.search(words, answer)
    found = document(several(root, 0), several(root, 10, **every))
    (shift,) = found["shifts"]
    assert (shift["verdict"], shift["places"]) == ("worse", 8)
    assert shift["change"] == pytest.approx(-0.03, abs=0.002)
    assert {place["verdict"] for place in found["places"]} == {"same"} and found["exit_code"] == 1


def test_a_place_that_is_gone_is_missing_and_the_answer_no_yes(root: Path) -> None:
    after = values(10)
    del after["n3:n4:0-0"]
    measured.leave(root, 10, after)
    answer = compare(several(root, 0), "latest")
    assert answer.exit_code == 2 and "missing after: n3:n4:0-0" in answer.output


def test_a_number_that_its_check_does_not_vouch_for_is_missing(root: Path) -> None:
    before = several(root, 0)
    failure = Failure("counters", "the counters contradict")
    measured.leave(root, 10, values(10), failures={"n3:n4:0-0": failure})
    found = document(before, "latest")
    assert [(m["place"], m["side"]) for m in found["missing"]] == [("n3:n4:0-0", "after")]


@pytest.mark.parametrize("kind", [DIRECTION, NO_REFERENCE])
def test_what_speaks_of_the_number_alone_leaves_it_in_the_comparison(root: Path, kind: str) -> None:
    """A link below its reference is measured the other way too; on the first day there is none."""
    before = several(root, 0)
    failure = Failure(kind, "n3 -> n4 carries 350 Gb/s, n4 -> n3 390 Gb/s")
    measured.leave(root, 10, values(10, n3=0.9), failures={"n3:n4:0-0": failure})
    found = document(before, "latest")
    assert found["missing"] == []
    assert [p["place"] for p in found["places"] if p["verdict"] == "worse"] == ["n3:n4:0-0"]


def test_what_a_stream_gets_by_chance_is_not_compared(root: Path) -> None:
    for number, share in ((0, 90.0), (1, 30.0)):
        slowest = {"value": share, "metric": "stream_bandwidth_min"}
        also = {p: dataclasses.replace(measured.bandwidth(p, 1), **slowest) for p in PLACES}
        measured.leave(root, number, values(number), also=also)
    conditions = {p["condition"] for p in document(measured.name(0), measured.name(1))["places"]}
    assert [c.split(": ")[1].split()[0] for c in conditions] == ["bandwidth"]


def test_noise_of_two_runs_does_not_decide_and_names_the_runs_needed(root: Path) -> None:
    sides = []
    for first in (0, 10):
        for n in range(first, first + 2):
            noise = np.random.default_rng(n).normal(0, 0.02, len(PLACES))
            rates = {p: 390 * float(np.exp(e)) for p, e in zip(PLACES, noise, strict=True)}
            measured.leave(root, n, rates)
        sides.append(f"{measured.name(first)},{measured.name(first + 1)}")
    answer = compare(*sides)
    assert answer.exit_code == 2 and "more runs a side would decide" in answer.output


def test_one_run_of_two_places_says_that_there_is_no_spread(root: Path) -> None:
    for number in range(2):
        measured.leave(root, number, dict(list(values(number).items())[:2]))
    answer = compare(measured.name(0), measured.name(1))
    assert answer.exit_code == 2 and "measure them twice a side" in answer.output


def test_a_time_that_varies_leaves_the_rest_its_answer(root: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(10):
        starts = {
            place: Measurement("startup", 3 * random.uniform(1, 2), "mpirun", "init", "any")
            for place in PLACES
        }
        measured.leave(root, number, values(number), also=starts)
    sides = [",".join(measured.name(n) for n in r) for r in (range(5), range(5, 10))]
    answer = compare(*sides)
    assert "8 same, 8 cannot tell" in answer.output and answer.exit_code == 0


NODES = [node for place in PLACES for node in place.split(":")[:2]]


def firmware(changed: Sequence[str]) -> Callable[[Campaign], dict[str, Inventory]]:
    """The inventories of a campaign: from the tenth on, with a new firmware on some nodes."""

    def of(campaign: Campaign) -> dict[str, Inventory]:
        later = campaign.id >= measured.name(10)
        fields = {
            node: {"nic/mlx5_0/firmware": "2" if later and node in changed else "1"}
            for node in NODES
        }
        return {n: Inventory(n, "b", "2026-11-01", 1.0, has, {}) for n, has in fields.items()}

    return of


def test_what_changed_on_the_nodes_stands_next_to_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventories, "in_campaign", firmware(NODES))
    answer = compare(several(root, 0), several(root, 10))
    assert 'changed: nic/mlx5_0/firmware was "1", is "2" (all 16 nodes)' in answer.output


def test_a_change_that_goes_with_slower_places_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventories, "in_campaign", firmware(["n3", "n4"]))
    answer = compare(several(root, 0), several(root, 10, n3=0.95))
    words = "better or worse: 1 of 1 places with these nodes, 0 of 7 others"
    assert words in answer.output


def test_accepted_is_the_last_accepted_campaign_of_the_system(root: Path) -> None:
    measured.leave(root, 0, values(0), gate="acceptance", verdict="accept")
    measured.leave(root, 1, values(1, n3=0.5), gate="acceptance", verdict="accept", system="other")
    measured.leave(root, 2, values(2, n3=0.5), gate="acceptance", verdict="reject")
    measured.leave(root, 3, values(3))
    assert document("accepted", "latest")["places"][1]["before"] == pytest.approx(390, rel=0.01)


def test_simulated_numbers_never_end_with_0(root: Path) -> None:
    for number in range(10):
        measured.leave(root, number, values(number), simulated=True)
    sides = [",".join(measured.name(n) for n in r) for r in (range(5), range(5, 10))]
    answer = compare(*sides)
    assert answer.exit_code == 2 and answer.output.startswith("SIMULATED")


def failing(*words: str) -> RailgaugeError:
    error = compare(*words).exception
    assert isinstance(error, RailgaugeError) and error.exit_code == 2
    return error


def test_campaigns_of_two_systems_are_not_compared(root: Path) -> None:
    one = measured.leave(root, 0, values(0)).id
    other = measured.leave(root, 1, values(1), system="other").id
    assert "several systems: lab, other" in str(failing(one, other))


@pytest.mark.parametrize("words", [("latest", "latest"), ("accepted", "accepted")])
def test_a_campaign_is_not_compared_with_itself(root: Path, words: tuple[str, str]) -> None:
    measured.leave(root, 0, values(0), gate="acceptance", verdict="accept")
    assert failing(*words)


def test_a_campaign_counts_once_on_its_side_and_so_does_its_copy(root: Path) -> None:
    """Its numbers a second time would make chance look certain."""
    one, other = (measured.leave(root, n, values(n)) for n in range(2))
    copy = root / "campaigns" / measured.name(2)
    shutil.copytree(one.folder, copy)
    assert f"campaign {one.id} is there twice" in str(failing(f"{one.id},{one.id}", other.id))
    assert f"campaign {one.id} is there twice" in str(failing(f"{one.id},{copy.name}", other.id))
    assert f"campaign {one.id} is there twice" in str(failing(one.id, copy.name))


def test_no_accepted_campaign_is_an_error(root: Path) -> None:
    measured.leave(root, 0, values(0))
    assert "accepted nodes of lab" in str(failing("accepted", "latest"))


def test_the_table_next_to_the_records_is_made_once_and_again_when_they_change(root: Path) -> None:
    campaign = measured.leave(root, 0, values(0))
    first = measurement_table.read(campaign)
    path = campaign.folder / measurement_table.FILE
    made = path.stat().st_mtime_ns
    assert measurement_table.read(campaign).equals(first) and path.stat().st_mtime_ns == made
    os.utime(campaign.folder / "report.json", ns=(made + 10**9, made + 10**9))
    measurement_table.read(campaign)
    assert path.stat().st_mtime_ns > made


def test_a_table_that_cannot_be_written_leaves_nothing_and_is_made_each_time(root: Path) -> None:
    campaign = measured.leave(root, 0, values(0))
    (campaign.folder / measurement_table.FILE).mkdir()
    assert measurement_table.read(campaign).height == len(PLACES)
    assert not list(campaign.folder.glob(".measurements*"))


def test_a_broken_table_is_made_again(root: Path) -> None:
    campaign = measured.leave(root, 0, values(0))
    first = measurement_table.read(campaign)
    (campaign.folder / measurement_table.FILE).write_bytes(b"PAR1")
    assert measurement_table.read(campaign).equals(first)


# ---- anyone's numbers ----


def csv(path: Path, runs: range, condition: str = "write 64 KiB", **factors: float) -> str:
    lines = ["place,condition,run,value"]
    for run in runs:
        lines += [f"{p},{condition},{run},{v}" for p, v in values(run, **factors).items()]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_two_files_of_anyones_numbers_are_compared(tmp_path: Path) -> None:
    sides = csv(tmp_path / "a.csv", range(5)), csv(tmp_path / "b.csv", range(9, 14), n3=0.95)
    found = document(*sides)
    worse = [place["place"] for place in found["places"] if place["verdict"] == "worse"]
    assert worse == ["n3:n4:0-0"] and found["exit_code"] == 1


def test_a_metric_that_is_better_when_it_is_less_is_known_by_its_name(tmp_path: Path) -> None:
    rows = range(5), range(9, 14)
    sides = [
        csv(tmp_path / f"{n}.csv", runs, "latency 2 B", n3=(1.0, 0.95)[n])
        for n, runs in enumerate(rows)
    ]
    assert compare(*sides).exit_code == 0
    assert compare(*sides, "--better", "more").exit_code == 1


@pytest.mark.parametrize(
    ("condition", "code", "told"),
    [
        ("latency_us", 0, False),
        ("Latency(us) 2 B", 0, False),
        ("RTT", 0, False),
        ("duration_s", 0, False),
        ("ib_write_lat 2 B", 0, False),
        ("ib_write_bw 2 B", 1, False),
        ("bandwidth at 1 % loss", 1, False),
        ("write_us", 0, False),
        ("loss_rate", 0, False),
        ("error-rate", 0, False),
        ("ops/sec", 1, False),
        ("msgs_per_us", 1, False),
        ("write ns 10 ms", 1, True),
        ("us-east-1 gbps", 1, True),
        ("throughput_ms", 1, False),
        ("latency_p99", 0, False),
        ("busbw 8 GiB", 1, False),
        ("Bandwidth", 1, False),
        ("write 64 KiB", 1, True),
    ],
)
def test_what_is_better_when_it_is_less_is_known_by_its_words_or_what_was_taken_is_said(
    tmp_path: Path, condition: str, code: int, told: bool
) -> None:
    sides = [
        csv(tmp_path / f"{n}.csv", runs, condition, n3=(1.0, 0.95)[n])
        for n, runs in enumerate((range(5), range(9, 14)))
    ]
    answer = compare(*sides)
    assert answer.exit_code == code
    assert (f"assumed that more is better: {condition}" in answer.output) == told
    assert "assumed" not in compare(*sides, "--better", "more").output


def test_a_copy_of_a_file_is_no_other_run(tmp_path: Path) -> None:
    a, b = csv(tmp_path / "a.csv", range(5)), csv(tmp_path / "b.csv", range(5, 9))
    copy = shutil.copy(a, tmp_path / "copy.csv")
    for sides in ((a, a), (a, str(copy)), (f"{a},{copy}", b), (a, f"{b},{b}")):
        assert "the same content as" in str(failing(*sides))
    link = tmp_path / "link.csv"
    link.symlink_to(b)
    assert "the same content as" in str(failing(b, str(link)))


def test_a_smaller_margin_finds_a_smaller_change(tmp_path: Path) -> None:
    sides = csv(tmp_path / "a.csv", range(5)), csv(tmp_path / "b.csv", range(9, 14), n3=0.99)
    assert compare(*sides).exit_code == 0
    assert compare(*sides, "--margin", "0.002").exit_code == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("place,run,value\na,1,2\n", "no column condition (found place, run, value)"),
        ("place,condition,run,value\na,c,1,fast\n", "b.csv:2: found place 'a', condition"),
        ("place,condition,run,value\na,c,1,1\na,c,2,0\n", "run '2', value '0'; expected a place"),
        ("place,condition,run,value\na,c,1,nan\n", "b.csv:2"),
        ("place,condition,run,value\n,c,1,1\n", "b.csv:2"),
        ("", "b.csv: cannot be read"),
        ("place,condition,run,value\n", "b.csv: no row below its heading"),
        ("place,condition,run,value\nelsewhere,c,1,1\n", "no place was measured"),
    ],
)
def test_a_bad_file_is_one_error_that_says_where(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "b.csv").write_text(text)
    error = failing(csv(tmp_path / "a.csv", range(3)), str(tmp_path / "b.csv"))
    assert words in error.message and error.next_step


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    error = failing(csv(tmp_path / "a.csv", range(3)), "none.csv")
    assert "none.csv: cannot be read: No such file or directory; expected" in error.message
    assert error.next_step == "ls -l none.csv; railgauge compare --help"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "b.csv").mkdir()
    error = failing(csv(tmp_path / "a.csv", range(3)), str(tmp_path / "b.csv"))
    assert "b.csv: cannot be read: Is a directory; expected" in error.message and error.next_step


def test_files_without_a_condition_in_common_say_what_to_do(tmp_path: Path) -> None:
    error = failing(
        csv(tmp_path / "a.csv", range(3)), csv(tmp_path / "b.csv", range(3), "read 64 KiB")
    )
    assert "no place was measured under one condition on both sides" in error.message
    assert "use the same places and conditions" in str(error.next_step)


def test_a_name_that_is_too_long_for_a_file_is_one_error(root: Path) -> None:
    measured.leave(root, 0, values(0))
    assert "File name too long" in failing("a" * 300, "latest").message


def test_a_file_and_a_campaign_have_no_places_in_common(root: Path, tmp_path: Path) -> None:
    measured.leave(root, 0, values(0))
    error = str(failing(csv(tmp_path / "a.csv", range(3)), "latest"))
    assert "latest: no such file, and the other side is one: a file and a campaign" in error


@pytest.mark.parametrize("separator", [";", "\t"])
def test_what_parts_the_cells_of_a_spreadsheet_may_be_no_comma(
    tmp_path: Path, separator: str
) -> None:
    sides = csv(tmp_path / "a.csv", range(5)), csv(tmp_path / "b.csv", range(9, 14), n3=0.9)
    for side in sides:
        text = Path(side).read_text()
        Path(side).write_text("\ufeff" + text.replace(",", separator), encoding="utf-8")
    answer = compare(*sides)
    assert answer.exit_code == 1 and "WORSE: 1 worse, 7 same of 8 places" in answer.output


def test_a_file_in_another_encoding_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes("place,condition,run,value\n".encode("utf-16"))
    error = failing(csv(tmp_path / "a.csv", range(3)), str(tmp_path / "b.csv"))
    assert "b.csv: in UTF-16 by its first bytes, ff fe; expected UTF-8" in error.message
    assert "iconv -f UTF-16 -t UTF-8" in str(error.next_step)


def test_what_is_no_utf8_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes("place,condition,run,value,Größe\n".encode("latin-1"))
    error = failing(csv(tmp_path / "a.csv", range(3)), str(tmp_path / "b.csv"))
    assert "expected a CSV file in UTF-8" in error.message


def test_the_margin_of_a_system_is_in_its_data(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = several(root, 0), several(root, 10, n3=0.985)
    assert compare(*sides).exit_code == 0
    monkeypatch.setattr(systems, "least_changes", lambda _: {"ns": 0.005})
    assert compare(*sides).exit_code == 1
    assert document(*sides)["finds"][0]["margin"] == 0.005
    assert compare(*sides, "--margin", "0.02").exit_code == 0


def test_what_all_groups_of_a_launch_share_is_one_place(root: Path) -> None:
    facts = {"n1": {"slowest_of": len(PLACES), "launch": 0}}
    for number in (0, 1):
        rates = dict.fromkeys(PLACES, 390 - number * 30)
        measured.leave(root, number, rates, facts=facts)
    (place,) = document(measured.name(0), measured.name(1))["places"]
    assert place["place"] == f"launch 0 of {len(PLACES)} places, n[1-{2 * len(PLACES)}]"
    # One number on a side has no spread: no node is accused.
    assert place["verdict"] == "unknown"


def test_the_launches_of_several_jobs_of_a_check_are_several_places(root: Path) -> None:
    """As `nodes_per_job` cuts them."""
    facts = {"n1": {"slowest_of": len(PLACES), "launch": 0}}
    campaign = measured.leave(root, 0, dict.fromkeys(PLACES, 390.0), facts=facts)
    cases = of_campaign.read(campaign)
    jobs = [dataclasses.replace(case, unique_name=f"job{n // 4}") for n, case in enumerate(cases)]
    side = before_after.of_tables([measurement_table.made_of(jobs)], {})
    whole = "launch 0 of 8 places"
    assert sorted(side["place"]) == [f"{whole}, n[1-8]", f"{whole}, n[9-16]"]
