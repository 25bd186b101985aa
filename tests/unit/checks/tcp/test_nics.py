"""Logical NICs: what is measured at once, and what a NIC that lets the others work is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railgauge import paths, systems
from railgauge.checks.tcp.nics import NicCases, uneven
from railgauge.model import references
from railgauge.model.measurement import Measurement
from railgauge.model.references import Condition
from railgauge.site.check import checks, stored
from tests.unit.checks.rdma.test_rail import Describe, describe, partition  # noqa: F401 (a fixture)
from tests.unit.records import names

NICS = {
    "cables": [["eth1", "eth2"], ["eth3", "eth4"]],
    "mtu_bytes": 9000,
    "settings": {"default": {}, "tuned": {"congestion": "bbr"}},
}
MB = 10**6


def test_every_nic_is_measured_alone_with_every_setting(describe: Describe) -> None:  # noqa: F811
    describe(partition(nics=NICS))
    assert names(list(NicCases("nic"))[:3]) == [
        "gpu:n1:n2:eth1:default",
        "gpu:n1:n2:eth1:tuned",
        "gpu:n1:n2:eth2:default",
    ]
    assert len(list(NicCases("nic"))) == 8


def test_nics_of_a_cable_and_of_all_cables_are_measured_at_once(
    describe: Describe,  # noqa: F811
) -> None:
    describe(partition(nics={**NICS, "settings": {"default": {}}}))
    assert names(NicCases("cable")) == [
        "gpu:n1:n2:eth1+eth2:default",
        "gpu:n1:n2:eth3+eth4:default",
    ]
    assert names(NicCases("all")) == ["gpu:n1:n2:eth1+eth2+eth3+eth4:default"]


@pytest.mark.parametrize(("asked", "cases"), [("", 0), ("1", 4)])
def test_nics_of_the_series_are_measured_when_it_is_asked_for(
    describe: Describe,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    cases: int,
) -> None:
    describe(partition(nics={**NICS, "series_only": True}))
    monkeypatch.setenv("RAILGAUGE_SERIES", asked)
    assert len(list(NicCases("cable"))) == cases


# ---- what went over each ----


@pytest.mark.parametrize(
    ("carried", "slow"),
    [
        ({"eth1": 100 * MB, "eth2": 60 * MB}, []),
        ({"eth1": 100 * MB, "eth2": 40 * MB}, ["eth2"]),
        ({"eth1": 0, "eth2": 60 * MB, "eth3": 61 * MB}, ["eth1"]),
        ({"eth1": 10 * MB}, []),
    ],
)
def test_a_nic_far_behind_its_peers_is_named(carried: dict[str, int], slow: list[str]) -> None:
    found = uneven("n2 and n1", carried, 0.5)
    assert [failure.message.split()[0] for failure in found] == slow


# ---- references and `railgauge system check` ----


def test_a_reference_without_nics_serves_each_that_has_none_of_its_own(tmp_path: Path) -> None:
    common = "check: NicPair, partition: p, operation: tcp, transport: tcp, nodes: 2, streams: 4"
    number = "{{value: {}, lower: 0, unit: Gb/s, kind: floor, provenance: {{source: s, date: {}}}}}"
    entries = [
        f"  - {{{common}{own}, metrics: {{bandwidth: {number.format(value, '2026-11-21')}}}}}"
        for own, value in (("", 1), (", nics: eth2", 2))
    ]
    (tmp_path / "alps.yaml").write_text("\n".join(["system: alps", "references:", *entries]) + "\n")
    numbers = references.load("alps", tmp_path / "alps.yaml")
    for nics, value in (("eth1", 1), ("eth2", 2)):
        measured = Measurement(
            "bandwidth", 5, "iperf2", "tcp", "tcp", streams=4, nodes=("n1", "n2"), nics=nics
        )
        found = numbers.find("NicPair", "p", measured)
        assert found is not None and found.value == value


@pytest.mark.parametrize(
    ("check", "stated", "says"),
    [
        ("NicPair", {"nics": "eth9"}, "nics is 'eth9', expected one of eth1, eth2"),
        ("NicPair", {"nics": "eth1", "congestion": "bbr"}, ""),
        ("NicPair", {"congestion": "cubic"}, "expected one that extras.nics.settings has"),
        ("CablePair", {"nics": "eth1+eth2"}, ""),
        ("NicsTogether", {}, "finds no such NICs in extras.nics.cables"),
    ],
)
def test_a_reference_that_no_case_of_these_nics_is_under_is_told(
    check: str, stated: dict[str, Any], says: str
) -> None:
    described = {**NICS, "cables": [["eth1", "eth2"]]}
    place = systems.Partition.model_validate(partition(nics=described))
    known, _ = checks.known(paths.CHECKS)
    mismatch = stored.impossible(Condition(**stated), known[check], place, gates=True)
    reason = mismatch.reason if mismatch else ""
    assert says in reason and bool(says) == bool(reason)
