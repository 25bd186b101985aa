"""Published numbers: what may stand in their files, and which are near a measurement."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.common.errors import ConfigurationError
from railgauge.model import published, references
from railgauge.model.measurement import Measurement
from railgauge.model.nic import Nic

GIB = 2**30
H100 = {"gpu": "NVIDIA H100 80GB HBM3", "hosts": ["a"] * 8 + ["b"] * 8}


def busbw(size: int = 8 * GIB, ranks: int | None = 16, **fields: Any) -> Measurement:
    fields = {"operation": "all_reduce", "metric": "busbw", "value": 440.0, **fields}
    return Measurement(
        tool="nccl-tests", transport="any", size_bytes=size, ranks=ranks, samples=20, **fields
    )


def found(near: tuple[published.Near, ...]) -> set[float]:
    return {one.number.value for one in near}


# ---- the files ----


def test_there_are_more_than_100_numbers_of_each_named_system() -> None:
    library = published.load()
    assert len(library.numbers) > 100
    named = {"h100", "h200", "b200", "b300", "gb200", "gb300", "gh200", "mi300x", "mi350x", "a100"}
    assert named | {"dgx-spark"} <= {number.of.system for number in library.numbers}


def test_every_system_has_numbers() -> None:
    library = published.load()
    assert {number.of.system for number in library.numbers} == set(library.systems)


def test_faults_have_causes_and_are_no_context_of_a_measurement() -> None:
    faults = [number for number in published.load().numbers if number.of.kind == "fault"]
    assert {12.74, 4.47, 4.85, 8.8, 81.92, 52.02} <= {number.value for number in faults}
    throttled = Measurement("bandwidth", 12.74, "perftest", "write", "roce", 65536, 8)
    near = published.near(throttled, {}, "dgx-spark")
    assert near and all(one.number.of.kind == "normal" for one in near)


@pytest.mark.parametrize(
    ("system", "nodes", "operation", "size", "metric", "value"),
    [
        ("h100", 8, "all_reduce", 8 * GIB, "busbw", 386.56),
        ("h100", 8, "all_reduce", 8 * GIB, "busbw_in_place", 385.56),
        ("gb200", 360, "all_reduce", 16 * GIB, "busbw", 405.74),
        ("gb200", 360, "all_reduce", 16 * GIB, "busbw_in_place", 404.77),
        ("h100", 1, "all_reduce", 8 * GIB, "busbw_in_place", 478.87),
        ("gb300", 8, "alltoall", 16 * GIB, "busbw", 678.57),
        ("b300", 32, "all_reduce", 16 * GIB, "busbw", 764.78),
        ("mi300x", 2, "all_reduce", 16 * GIB, "busbw", 358.37),
        ("a100", 2, "all_reduce", 8 * 2**20, "busbw", 79.05),
        ("any-200g", 2, "read", 2, "latency_p99", 5.74),
        ("p5en", 2, "bibw", 4 * 2**20, "bandwidth", 46360.74 * 8 / 1000),
        ("p6-b200", 2, "bibw", 4 * 2**20, "bandwidth", 84985.45 * 8 / 1000),
        ("p6-b200", 2, "mbw_mr", 2**20, "bandwidth", 234811 * 8 / 1000),
        ("h200", 1, "host_to_device", None, "bandwidth", 55.43 * 8),
        ("h200", 1, "device_to_device_bidirectional", None, "bandwidth", 783.73 * 8),
        ("dgx-spark", 2, None, None, "busbw", 161 / 8),
    ],
)
def test_a_number_is_stored_as_published(
    system: str, nodes: int, operation: str | None, size: int | None, metric: str, value: float
) -> None:
    values = [
        number.value
        for number in published.load().numbers
        if (number.of.system, number.of.nodes, number.of.operation) == (system, nodes, operation)
        and (number.size_bytes, number.metric) == (size, metric)
    ]
    assert any(one == pytest.approx(value, rel=1e-12) for one in values)


def test_a_row_that_is_known_to_be_wrong_is_not_there() -> None:
    assert 837.76 not in {number.value for number in published.load().numbers}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("system: h100", "system: h10", "found 'h10', expected one of systems.yaml"),
        ("8GiB: 386.56", "8Gb: 386.56", "size is '8Gb'"),
        ("8GiB: 386.56", "8GiB: fast", "found 'fast'"),
        ("8GiB: 386.56", "8GiB: 0", "greater than 0"),
        ("busbw: {512MiB: 356.01", "busbandwidth: {512MiB: 356.01", "is unknown"),
        ("nic: 400g-ib", "nic: 400g", "expected RATEg-roce"),
        ("nodes: 8", "node: 8", "Extra inputs"),
        ("nodes: 8", "nodes: 8\n        kind: fault", "`cause` belongs to `kind: fault`"),
        ("url: https://github", "url: github", "should match pattern"),
        ("read_on: 2026-11-27", "read_on: yesterday", "valid date"),
    ],
)
def test_a_wrong_file_is_one_error_with_file_line_found_and_expected(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    shutil.copy(paths.PUBLISHED / "systems.yaml", tmp_path)
    text = (paths.PUBLISHED / "coreweave.yaml").read_text()
    assert old in text
    (tmp_path / "coreweave.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigurationError) as caught:
        published.load(tmp_path)
    assert complaint in str(caught.value)
    assert re.match(rf"{re.escape(str(tmp_path))}/coreweave.yaml:[1-9]\d*: ", str(caught.value))


def test_published_numbers_are_no_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """No check finds one: their folder has no file of a system that references read."""
    for path in paths.PUBLISHED.glob("*.yaml"):
        with pytest.raises(ConfigurationError):
            monkeypatch.setenv("RAILGAUGE_REFERENCES", str(paths.PUBLISHED))
            references.load(path.stem)


# ---- near a measurement ----


def test_the_same_condition_comes_first_and_differs_in_nothing() -> None:
    near = published.near(busbw(), {**H100, "nccl_version": "2.30.4"})
    assert (near[0].number.value, near[0].differs) == (441, ())


def test_what_differs_is_said() -> None:
    near = published.near(busbw(), {**H100, "nccl_version": "2.19.3"})
    of_other_version = next(one for one in near if one.number.value == 441)
    assert of_other_version.differs == ("NCCL 2.30.4, here 2.19.3",)
    four = next(one for one in near if one.number.value == 390.60)
    assert four.differs == ("nodes 4, here 2", "GPUs 32, here 16")


def test_the_accelerator_of_the_output_chooses_the_systems() -> None:
    near = published.near(busbw(), H100)
    assert {one.number.of.system for one in near} == {"h100"}


def test_gh200_is_no_h200() -> None:
    seen = {"gpu": "NVIDIA GH200 480GB", "hosts": ["a"]}
    assert published.near(busbw(ranks=8, metric="busbw_in_place"), seen) == ()


def test_a_node_is_not_near_two() -> None:
    one_node = {"gpu": H100["gpu"], "hosts": ["a"] * 8}
    near = published.near(busbw(ranks=8, metric="busbw_in_place"), one_node)
    assert {one.number.of.nodes for one in near} == {1}


def test_scale_and_size_are_near_up_to_a_factor_of_two() -> None:
    near = published.near(busbw(), H100)
    stated = [one.number for one in near if one.number.of.nodes]
    assert {number.of.nodes for number in stated} == {2, 4}
    assert {number.size_bytes for number in stated} == {4 * GIB, 8 * GIB, 16 * GIB}


def test_a_scale_that_is_not_stated_differs() -> None:
    unstated = [one for one in published.near(busbw(), H100) if one.number.of.nodes is None]
    assert unstated
    assert all("nodes not stated" in one.differs for one in unstated)


@pytest.mark.parametrize(
    "other",
    [{"operation": "all_gather"}, {"metric": "time"}, {"size": 2**20}, {"ranks": 2048}],
)
def test_nothing_is_near_another_subject_size_or_scale(other: dict[str, Any]) -> None:
    seen = {"gpu": H100["gpu"]} if "ranks" in other else H100
    found_values = found(published.near(busbw(**other), seen))
    assert found_values & {441, 390.60, 386.56} == set()


def test_a_link_narrows_to_numbers_of_such_a_link_and_of_none() -> None:
    write = Measurement("bandwidth", 190.0, "perftest", "write", "infiniband", 65536, 1)
    assert 190.24 in found(published.near(write, {}, None, Nic.of("200g-ib")))
    assert 190.24 not in found(published.near(write, {}, None, Nic.of("400g-ib")))


def test_a_size_that_is_not_stated_differs() -> None:
    write = Measurement("bandwidth", 225.0, "perftest", "write", "roce", 65536, 1)
    near = published.near(write, {}, "dgx-station")
    assert found(near) == {220, 230}
    assert all("size not stated" in " ".join(one.differs) for one in near)


@given(
    st.sampled_from(published.load().numbers),
    st.integers(1, 2**36),
    st.integers(1, 4096),
    st.integers(1, 512),
)
def test_no_near_number_is_far(
    like: published.Published, size: int, ranks: int, nodes: int
) -> None:
    measured = Measurement(
        like.metric, 1.0, like.of.tool, like.of.operation or "x", "any", size, ranks=ranks
    )
    seen = {"hosts": [f"n{node}" for node in range(nodes)]}
    for one in published.near(measured, seen):
        number = one.number
        assert number.of.kind == "normal"
        assert (number.of.tool, number.of.operation) == (measured.tool, measured.operation)
        if number.size_bytes:
            assert 0.5 <= size / number.size_bytes <= 2
            assert (size == number.size_bytes) or any("size" in words for words in one.differs)
        if number.of.nodes:
            assert 0.5 <= nodes / number.of.nodes <= 2
            assert (nodes == 1) == (number.of.nodes == 1)


def test_a_measurement_changes_nothing_of_what_is_near_by_its_value() -> None:
    seen = H100
    assert published.near(busbw(), seen) == published.near(
        dataclasses.replace(busbw(), value=1.0), seen
    )
