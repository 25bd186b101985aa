"""Evidence from a campaign's places, and from outputs of nccl-tests that somebody else made."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.model.references import Provenance, Reference
from railgauge.verdict.compare import Case
from railgauge.verdict.locating import End, Evidence, campaign, locate, logs
from tests.unit.verdict.locating.campaigns import told

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
    (family,) = campaign.families(cases, {})
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
    assert told(locate(read(ring("n2 1-1")))) == ["rail n2:1"]


def test_a_rail_has_the_name_of_its_device_where_the_node_told_it() -> None:
    (o,) = read([case("n1", "n2", 390.0, "7-7")]).observations
    assert (o.a, o.b) == (End("n1", "mlx5_7"), End("n2", "7"))


def test_a_case_that_failed_is_a_run_that_failed() -> None:
    bad = dataclasses.replace(
        case("n1", "n2", 1.0, "0-0"), result="fail", failures=(Failure("lost", "n1: gone"),)
    )
    assert read([bad]).observations[0].value is None


def test_what_was_not_measured_is_missing_and_accuses_nobody() -> None:
    cases = ring("nobody")
    cases[3] = dataclasses.replace(cases[3], result="not run", reason="its RailProbe failed")
    evidence = read(cases)
    assert [m.why for m in evidence.missing] == ["its RailProbe failed"]
    assert locate(evidence).suspects == ()


def test_what_equal_places_differ_by_is_taken_from_the_system() -> None:
    cases = [dataclasses.replace(c, peer_spread=0.2) for c in ring("n2 1-1")]
    assert told(locate(read(cases))) == []


def test_the_lowest_that_the_reference_admits_is_the_bound() -> None:
    provenance = Provenance(source="a test", date="2026-11-22")
    reference = Reference(
        value=400, lower=-0.1, unit="Gb/s", kind="baseline", provenance=provenance
    )
    whole = case("n1", "n2", 390.0)
    row = dataclasses.replace(whole.rows[0], reference=reference)
    (o,) = read([dataclasses.replace(whole, rows=(row,))]).observations
    assert o.bound == pytest.approx(360)


# ---- outputs of nccl-tests ----

WHOLE = (paths.HOME / "tests/data/nccl-tests/gb200-2x4-ib-16GiB.txt").read_text()


def output(a: str, b: str, busbw: float) -> str:
    """The recorded one, of other hosts and with another bandwidth."""
    text = WHOLE.replace("nccl-test-6k8rm", a).replace("nccl-test-dbzk7", b)
    factor = busbw / 84.52

    def times(line: str) -> str:
        for number, decimals in (("355729", 0), ("353612", 0)):
            line = line.replace(number, f"{float(number) / factor:.{decimals}f}")
        for number in ("48.29", "84.52", "48.58", "85.02", "84.7689"):
            line = line.replace(number, f"{float(number) * factor:.{len(number) - 3}f}")
        return line

    return "\n".join(times(line) for line in text.split("\n"))


def folder(slow: str = "") -> dict[str, str]:
    nodes = [f"n{number}" for number in range(1, 9)]
    return {
        f"{a}-{b}.log": output(a, b, 59.0 if slow in (a, b) else 84.5)
        for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    }


def test_hosts_and_bandwidth_are_read_from_the_output() -> None:
    (o,) = logs.read({"any name": WHOLE}).observations
    assert (o.a.node, o.b.node, o.value) == ("nccl-test-6k8rm", "nccl-test-dbzk7", 84.52)


def test_the_slow_node_of_somebody_elses_pairs_is_named() -> None:
    assert told(locate(logs.read(folder("n3")))) == ["node n3"]


def test_an_output_that_breaks_off_is_a_run_that_failed() -> None:
    texts = folder()
    texts["n2-n3.log"] = texts["n2-n3.log"].partition("# Out of bounds")[0]
    assert told(locate(logs.read(texts))) == ["pair n2-n3?"]


def test_an_output_without_hosts_is_missing() -> None:
    evidence = logs.read({**folder(), "srun.log": "srun: error: n9: task 0: Killed\n"})
    assert [missing.place for missing in evidence.missing] == ["srun.log"]
    assert locate(evidence).suspects == ()


def test_an_output_of_three_hosts_is_no_pair() -> None:
    texts = {"three": WHOLE.replace("on nccl-test-6k8rm device  0", "on n9 device  0")}
    evidence = logs.read(texts)
    assert evidence.observations == [] and "3 hosts" in evidence.missing[0].why
