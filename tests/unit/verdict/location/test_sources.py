"""Evidence from a campaign's places."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from railgauge.locating import End, Evidence, locate
from railgauge.model.failure import Failure
from railgauge.model.measurement import Load, Measurement
from railgauge.model.record import Row
from railgauge.model.references import Provenance, Reference
from railgauge.model.uplinks import Uplink
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.location import from_campaign
from tests.unit.locating.campaigns import told

# ---- a campaign ----


def case(a: str, b: str, value: float, rail: str | None = None) -> Case:
    m = Measurement(
        "bandwidth", value, "perftest", "write", "rdma", 65536, nodes=(a, b), rails=rail
    )
    return Case(
        "RdmaBandwidth",
        f"RdmaBandwidth {a}:{b}",
        "roce",
        (a, b),
        0,
        "pass",
        "",
        (Row(m, None, None),),
        (),
        Path("stage"),
        place=f"{a}:{b}:{rail}",
        recorded=True,
        facts={a: {"device": "mlx5_7"}} if rail == "7-7" else {},
    )


def read(cases: list[Case]) -> Evidence:
    """The evidence of one check and kind."""
    (family,) = from_campaign.families(cases, {})
    return family.evidence


def ring(slow: str, rails: tuple[str, ...] = ("0-0", "1-1")) -> list[Case]:
    """Eight nodes; `slow` is `node rail`."""
    nodes = [f"n{number}" for number in range(1, 9)]
    return [
        case(a, b, 250.0 if slow in (f"{a} {rail}", f"{b} {rail}") else 390.0, rail)
        for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True)
        for rail in rails
    ]


def test_a_slow_rail_of_a_campaign_is_named() -> None:
    assert told(locate(read(ring("n2 1-1")))) == ["rail n2:1?"]


def test_a_rail_has_the_name_of_its_device_where_the_node_told_it() -> None:
    (o,) = read([case("n1", "n2", 390.0, "7-7")]).results
    # Data goes to the server.
    assert o.ends == (End("n2", "7"), End("n1", "mlx5_7"))


def test_a_case_that_failed_is_a_run_that_failed() -> None:
    bad = dataclasses.replace(
        case("n1", "n2", 1.0, "0-0"), result="fail", failures=(Failure("lost", "n1: gone"),)
    )
    assert read([bad]).results[0].value is None


def test_what_was_not_measured_is_missing_and_accuses_nobody() -> None:
    cases = ring("nobody")
    cases[3] = dataclasses.replace(cases[3], result="not run", reason="its RailProbe failed")
    evidence = read(cases)
    assert [m.why for m in evidence.missing] == ["its RailProbe failed"]
    assert locate(evidence).suspects == ()


def test_what_equal_places_differ_by_is_taken_from_the_system() -> None:
    cases = [dataclasses.replace(c, peer_spread=0.3) for c in ring("n2 1-1")]
    assert told(locate(read(cases))) == []


def test_the_lowest_that_the_reference_admits_is_the_bound() -> None:
    provenance = Provenance(source="a test", date="2026-11-22")
    reference = Reference(
        value=400, lower=-0.1, unit="Gb/s", kind="baseline", provenance=provenance
    )
    whole = case("n1", "n2", 390.0)
    row = dataclasses.replace(whole.rows[0], reference=reference)
    (o,) = read([dataclasses.replace(whole, rows=(row,))]).results
    assert o.bound == pytest.approx(360)


def bounded(whole: Case, value: float, *failures: Failure) -> Case:
    """As it was, and failed against a reference of 400 Gb/s, at least 360."""
    provenance = Provenance(source="a test", date="2026-11-22")
    reference = Reference(
        value=400, lower=-0.1, unit="Gb/s", kind="baseline", provenance=provenance
    )
    (row,) = whole.rows
    m = dataclasses.replace(row.measurement, value=value)
    return dataclasses.replace(
        whole, result="fail", rows=(Row(m, reference, None),), failures=failures
    )


@pytest.mark.parametrize(
    ("value", "failures", "expected"),
    [
        (200.0, (), 200.0),
        # It was measured the other way round as well, for it was slow.
        (200.0, (Failure("direction", "n2 n1 carries 390 Gb/s"),), 200.0),
        (200.0, (Failure("tool-failed", "exit code 1"),), None),
        (390.0, (Failure("tool-failed", "exit code 1"),), None),
    ],
)
def test_a_number_that_is_low_is_weighed_and_any_other_failure_is_a_run_that_failed(
    value: float, failures: tuple[Failure, ...], expected: float | None
) -> None:
    (o,) = read([bounded(case("n1", "n2", 0.0), value, *failures)]).results
    assert o.value == expected


def test_a_check_of_what_should_be_small_passes_or_fails() -> None:
    def latency(a: str, b: str, passed: bool) -> Case:
        m = Measurement("latency", 2.0, "perftest", "write", "rdma", 8, nodes=(a, b))
        failures = () if passed else (Failure("slow", "too slow"),)
        result = "pass" if passed else "fail"
        whole = case(a, b, 0.0)
        return dataclasses.replace(
            whole, result=result, rows=(Row(m, None, None),), failures=failures
        )

    nodes = [f"n{number}" for number in range(1, 7)]
    pairs = list(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    cases = [latency(a, b, "n2" not in (a, b)) for a, b in pairs]
    assert told(locate(read(cases))) == ["node n2?"]


def test_a_group_of_a_launch_that_was_not_told_apart_is_missing() -> None:
    apart = Failure("not-told-apart", "both halves are good")
    evidence = read(
        [dataclasses.replace(case("n1", "n2", 390.0), result="fail", failures=(apart,))]
    )
    assert [m.why for m in evidence.missing] == ["both halves are good"]


def test_a_run_that_failed_before_it_told_its_device_has_the_one_that_others_told() -> None:
    known = case("n1", "n2", 390.0, "7-7")
    bad = Failure("tool-failed", "exit code 1")
    lost = dataclasses.replace(
        case("n1", "n3", 390.0), result="fail", rows=(), failures=(bad,), kind="7-7"
    )
    found = read([known, lost]).results
    assert [o.receiver for o in found] == [End("n1", "mlx5_7")] * 2
    # It is of the condition that the others were measured under.
    assert len({o.condition for o in found}) == 1


def test_error_counters_of_the_devices_in_use_are_events() -> None:
    counted = {
        "rdma/mlx5_7/1/counters/link_downed": 2,
        "rdma/mlx5_7/1/counters/port_rcv_data": 9000,
        "rdma/mlx5_3/1/counters/symbol_error": 5,
        "net/eth7/rx_errors": 3,
        "net/eth7/rx_packets": 4000,
        "net/eth1/tx_errors": 7,
        # Of the whole node, and some of it is usual.
        "tcp/RetransSegs": 11,
    }
    facts = {"n1": {"counters": {"counters": counted}, "sampled": ["mlx5_7", "eth7"]}}
    whole = dataclasses.replace(case("n1", "n2", 390.0), facts=facts)
    (o,) = read([whole]).results
    assert (o.sender_events, o.receiver_events) == (0, 5)


def loaded(whole: Case, load: Load) -> Case:
    (row,) = whole.rows
    m = dataclasses.replace(row.measurement, load=load)
    return dataclasses.replace(whole, rows=(Row(m, None, None),))


@pytest.mark.parametrize(("alone", "expected"), [(1, 0), (4, 4), (8, 0)])
def test_quiet_is_what_was_alone_by_intent_beside_what_was_not(alone: int, expected: int) -> None:
    """Of an odd ring one pair is; where all are, there is no other load."""
    cases = [
        loaded(one, "quiet" if number < alone else "loaded")
        for number, one in enumerate(ring("nobody", ("0-0",)))
    ]
    assert sum(o.quiet for o in read(cases).results) == expected


def test_rounds_are_those_of_their_jobs() -> None:
    cases = [
        dataclasses.replace(one, round=number % 2, unique_name=name)
        for name in ("read", "write")
        for number, one in enumerate(ring("nobody", ("0-0",)))
    ]
    assert read(cases).rounds == 4


def test_leaves_are_those_of_the_campaign() -> None:
    leaves = {"roce": {"n1": "leaf1", "n2": "leaf2"}}
    (family,) = from_campaign.families([case("n1", "n2", 390.0, "0-0")], leaves)
    assert family.evidence.leaves == {End("n1", "0"): "leaf1", End("n2", "0"): "leaf2"}


def test_checks_and_kinds_are_judged_apart() -> None:
    over_nics = [dataclasses.replace(c, kind="one-hca") for c in ring("nobody", ("0-0",))]
    over_nvlink = [dataclasses.replace(c, kind="mnnvl") for c in ring("nobody", ("0-0",))]
    assert len(from_campaign.families([*over_nics, *over_nvlink], {})) == 2


# ---- what switches counted ----


def test_what_the_uplinks_carried_is_added_up_over_the_jobs_and_counted_once_of_each() -> None:
    carried = (Uplink("leaf1", "spine1", 10, 4, errors=2), Uplink("leaf1", "spine2", 30, 6))
    jobs = [
        dataclasses.replace(case(a, b, 390.0), uplinks=carried, flows={"leaf1": (3, 1)}, run=run)
        for run in (0, 1)
        for a, b in (("n1", "n2"), ("n3", "n4"))
    ]
    (family,) = from_campaign.families(jobs, {})
    assert family.evidence.uplink_bytes == {"leaf1:spine1": (20, 8), "leaf1:spine2": (60, 12)}
    assert family.evidence.uplink_events == {"leaf1:spine1": 4, "leaf1:spine2": 0}
    # The second job may have had the same flows, over the same uplinks.
    assert family.evidence.uplink_flows == {"leaf1": (3, 1)}
