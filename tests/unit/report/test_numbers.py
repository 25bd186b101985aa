"""The verdict's numbers: a line a condition, and a line for what fails or stands out."""

from __future__ import annotations

import dataclasses
import datetime
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from railgauge.campaign.folder import Campaign, Requested, Scope
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.model.references import Provenance, Reference
from railgauge.report import numbers, text
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.finding import Finding
from railgauge.verdict.campaign.outliers import outliers
from railgauge.verdict.decision.verdict import Verdict

FLOOR = Reference(
    value=5.0,
    lower=0.0,
    unit="Gb/s",
    kind="floor",
    provenance=Provenance(source="a test", date=datetime.date(2026, 11, 22)),
)
BELOW = "places that fail or stand out"


def measured(value: float, nodes: Sequence[str], **condition: object) -> Measurement:
    number = Measurement("bandwidth", value, "perftest", "write", "rdma", nodes=tuple(nodes))
    return dataclasses.replace(number, **condition)  # type: ignore[arg-type]


def case(number: Measurement, **changes: object) -> Case:
    """A place with that one number, good as far as it alone tells."""
    row = Row(number, FLOOR, None)
    made = Case(
        check="RdmaBandwidth",
        name="",
        partition="hdr",
        nodes=number.nodes,
        run=0,
        result="pass" if row.within else "fail",
        reason="",
        rows=(row,),
        failures=(),
        folder=Path("stage"),
        place=":".join([*number.nodes, *([number.rails] if number.rails else [])]),
        unique_name="RdmaBandwidth_1",
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def verdict(cases: Iterable[Case], findings: Sequence[Finding] = ()) -> Verdict:
    campaign = Campaign(
        Path("20261122T101655Z-lab-7578a0"), "s", "acceptance", Scope({}, {}), Requested([], {}, {})
    )
    cases = tuple(cases)
    far = tuple(outliers(cases))
    return Verdict("accept", "", campaign, cases, tuple(findings), (), outliers=far)


def lines(cases: Iterable[Case], all_places: bool = False) -> list[list[str]]:
    """The cells of each line that is of the check, in tables that have the width they need."""
    decided, shown = verdict(cases), io.StringIO()
    tables = [numbers.by_place(decided, all_places)]
    for table in tables if all_places else [numbers.by_condition(decided), *tables]:
        if table is not None:
            Console(file=shown, width=138, color_system=None).print(table)
    report = shown.getvalue()
    rows = [line.split("│") for line in report.splitlines() if line.startswith("RdmaBandwidth")]
    return [[cell.strip() for cell in row] for row in rows]


def pairs(values: Sequence[float], **condition: object) -> list[Case]:
    return [
        case(measured(value, (f"n{2 * n + 1}", f"n{2 * n + 2}"), **condition))
        for n, value in enumerate(values)
    ]


def test_places_of_a_condition_are_one_line_with_the_worst_and_its_name() -> None:
    (line,) = lines(pairs((9.0, 8.0, 10.0)))
    assert line == [
        *("RdmaBandwidth", "bandwidth", "3", "8 Gb/s", "n3:n4", "9 ±11%", ">= 5 (floor)", "-"),
        "ok",
    ]


def test_the_worst_of_a_latency_is_the_largest() -> None:
    slow = [
        case(measured(value, (node, "n9"), metric="latency"))
        for node, value in (("n1", 6.0), ("n2", 7.0))
    ]
    assert lines(slow)[0][3:5] == ["7 us", "n2:n9"]


def test_what_is_out_of_its_reference_comes_before_what_is_slowest() -> None:
    wide = FLOOR.model_copy(update={"upper": 1.0})
    bounded = [
        dataclasses.replace(c, rows=(dataclasses.replace(c.rows[0], reference=wide),))
        for c in pairs((12.0, 6.0))
    ]
    assert lines(bounded)[0][3:5] == ["12 Gb/s", "n1:n2"]


def test_rails_are_places_of_one_condition_and_across_rails_is_another() -> None:
    rails = [case(measured(9.0, ("n1", "n2"), rails=name)) for name in ("0-0", "1-1", "0-1")]
    first, second = lines(rails)
    assert (first[1:3], second[1:3]) == (
        ["bandwidth write", "2"],
        ["bandwidth write across rails", "1"],
    )


def test_quiet_and_loaded_are_conditions_of_their_own() -> None:
    both = [*pairs((9.0, 8.0), load="loaded"), *pairs((9.5, 9.4), load="quiet")]
    first, second = lines(both)
    assert (first[1:4], second[1:4]) == (
        ["bandwidth loaded", "2", "8 Gb/s"],
        ["bandwidth quiet", "2", "9.4 Gb/s"],
    )


def test_a_load_that_all_places_of_a_check_have_is_not_reported() -> None:
    (line,) = lines(pairs((9.0, 8.0), load="loaded"))
    assert line[1] == "bandwidth"


def test_within_a_leaf_and_across_are_conditions_of_their_own() -> None:
    both = [*pairs((9.0, 8.0), within="leaf"), *pairs((7.0,), within="fabric")]
    first, second = lines(both)
    assert (first[1:3], second[1:3]) == (
        ["bandwidth within a leaf", "2"],
        ["bandwidth across leaves", "1"],
    )


def test_states_of_the_hosts_are_conditions_of_their_own_and_named() -> None:
    both = [*pairs((9.0,), operation="tcp idle"), *pairs((7.0,), operation="tcp busy")]
    assert [line[1] for line in lines(both)] == ["bandwidth tcp idle", "bandwidth tcp busy"]


def test_the_time_of_a_program_names_its_operation_once() -> None:
    time = {"metric": "mpi_time", "operation": "allreduce alone", "size_bytes": 65536}
    ((_, label, *_),) = lines([case(measured(5.5, ("n1", "n2"), **time))])
    assert label == "mpi_time 64 KiB allreduce alone"


def test_a_number_alone_has_no_median() -> None:
    assert lines(pairs((9.0,)))[0][5] == "-"


def test_partitions_are_separated_where_there_are_several() -> None:
    two = [*pairs((9.0,)), dataclasses.replace(pairs((8.0,))[0], partition="ndr")]
    assert [line[0] for line in lines(two)] == ["RdmaBandwidth hdr", "RdmaBandwidth ndr"]


def test_other_references_are_other_lines() -> None:
    first, second = pairs((9.0, 9.0))
    other = FLOOR.model_copy(update={"value": 6.0})
    rows = (dataclasses.replace(second.rows[0], reference=other),)
    assert len(lines([first, dataclasses.replace(second, rows=rows)])) == 2


def test_several_runs_of_a_place_are_one_place() -> None:
    (one,) = pairs((9.0,))
    assert lines([one, dataclasses.replace(one, run=1)])[0][2] == "1"


def test_places_that_are_well_are_not_listed() -> None:
    assert BELOW not in text.plain(verdict(pairs((9.0, 9.1, 9.2, 9.3))))


def test_only_places_that_fail_are_listed_below() -> None:
    crash = Failure("tool-failed", "exit code 1")
    cases = pairs((9.0, 4.0, 9.2))
    cases[2] = dataclasses.replace(cases[2], result="fail", failures=(crash,))
    whole, *below = lines(cases)
    assert whole[-1] == "1 out, 1 failed otherwise"
    said = [(line[1], line[-1]) for line in below]
    assert said == [("n3 n4", "out"), ("n5 n6", "failed otherwise")]


def test_a_place_that_stands_out_is_listed_below() -> None:
    whole, below = lines(pairs((9.0, 9.1, 9.2, 9.3, 5.5)))
    # Of a pair that meets no other node either node may be why: the first is named.
    assert whole[-1] == "1 stands out"
    assert (below[1], below[-1]) == ("n9 n10", "stands out")


def test_all_places_are_listed_where_that_is_asked_for() -> None:
    listed = lines(pairs((9.0, 9.1, 9.2)), all_places=True)
    assert [line[1] for line in listed] == ["n1 n2", "n3 n4", "n5 n6"]


@pytest.mark.parametrize("all_places", [False, True])
def test_long_names_are_never_broken(all_places: bool) -> None:
    nodes = tuple(f"gpu-a100-rack{rack:02}-node{rack:03}.cluster.example.org" for rack in range(2))
    number = measured(4.0, nodes, metric="latency_p999", operation="write_bidirectional")
    long = case(dataclasses.replace(number, rails="0-1", delay_ms=44.0, congestion="cubic"))
    report = text.plain(verdict([long]), all_places=all_places)
    assert all(node in report for node in nodes)


def test_a_finding_of_a_place_says_what_shows_it() -> None:
    place = Finding("reject", "x", "slow", "RdmaBandwidth", "hdr", ("n1",), "n1:n2:0-0", "stage/x")
    assert (
        "evidence:\n"
        "      railgauge show 20261122T101655Z-lab-7578a0 n1:n2:0-0 --check RdmaBandwidth\n"
    ) in text.plain(verdict([], [place]))


def test_a_finding_of_a_whole_job_has_its_folder() -> None:
    job = Finding("reject", "x", "slow", "RdmaBandwidth", "hdr", ("n1",), "", "stage/x")
    assert "    evidence: stage/x\n" in text.plain(verdict([], [job]))


def test_findings_of_two_places_stand_apart() -> None:
    two = [
        Finding("reject", "x", "slow", "RdmaBandwidth", "hdr", (node,), node, "stage/x")
        for node in ("n1", "n2")
    ]
    assert text.plain(verdict([], two)).count("  reject: RdmaBandwidth hdr") == 2


def together(value: float, nodes: Sequence[str], groups: int) -> Case:
    """A group of nodes that ran next to others, with the number of the slowest."""
    facts = {nodes[0]: {"launch": 0, "slowest_of": groups}}
    return case(measured(value, nodes), facts=facts)


def test_of_groups_that_ran_at_once_none_is_called_the_worst() -> None:
    pairs = [together(9.0, pair, 2) for pair in (("n1", "n2"), ("n3", "n4"))]
    (line,) = lines(pairs)
    assert "one of 2" in line and "n1:n2" not in line


def test_a_group_that_ran_alone_is_named() -> None:
    pairs = [together(9.0, ("n1", "n2"), 2), together(7.0, ("n3", "n4"), 1)]
    (line,) = lines(pairs)
    assert "n3:n4" in line


def test_the_list_of_places_marks_the_number_of_the_slowest_of_many() -> None:
    report = text.plain(verdict([together(9.0, ("n1", "n2"), 2)]), all_places=True)
    assert "9 Gb/s, slowest of 2" in report


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ({"operation": "write_bidirectional"}, "write both ways"),
        ({"operation": "write_bidirectional rail3", "rails": "3-3"}, "write both ways rail3"),
        ({"metric": "application_time", "operation": "bert", "tool": "application"}, "bert"),
    ],
)
def test_a_line_has_the_difference_between_the_numbers_of_a_check(
    condition: dict[str, object], said: str
) -> None:
    ((_, label, *_),) = lines([case(measured(5.5, ("n1", "n2"), **condition))])
    assert said in label
