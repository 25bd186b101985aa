"""Stored numbers: nothing wrong in the file goes unseen, and near is not the same."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.common.errors import ConfigurationError
from railgauge.model import references
from railgauge.model.measurement import METRICS, Load, Measurement
from railgauge.model.references import Provenance, Reference

COMMITTED = sorted((paths.HOME / "results" / "references").glob("*.yaml"))

ENTRY: dict[str, Any] = {
    "check": "Iperf2Pair",
    "partition": "ns",
    "operation": "tcp",
    "transport": "tcp",
    "nodes": 2,
    "streams": 4,
    "metrics": {
        "bandwidth": {
            "value": 9.5,
            "lower": -0.1,
            "unit": "Gb/s",
            "kind": "baseline",
            "provenance": {"source": "campaign x", "date": "2026-11-21"},
        }
    },
}

MEASUREMENT = Measurement(
    "bandwidth", 9.5, "iperf2", "tcp", "tcp", streams=4, nodes=("n1", "n2"), ranks=2
)


def entry(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(ENTRY), **changes}


def entry_with(**changes: Any) -> dict[str, Any]:
    """An entry whose one number is changed; None takes a field away."""
    changed = copy.deepcopy(ENTRY)
    number = {**changed["metrics"]["bandwidth"], **changes}
    changed["metrics"]["bandwidth"] = {k: v for k, v in number.items() if v is not None}
    return changed


def written(folder: Path, *entries: dict[str, Any], system: str = "lab") -> Path:
    # JSON is YAML; indented, so that every field has a line of its own.
    path = folder / "lab.yaml"
    path.write_text(json.dumps({"system": system, "references": list(entries)}, indent=1))
    return path


def error_for(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        references.load("lab", path)
    return str(caught.value)


def line_of(path: Path, text: str) -> int:
    return next(n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def number(**fields: Any) -> Reference:
    provenance = Provenance(source="a test", date=datetime.date(2026, 11, 21))
    return Reference(**{"unit": "Gb/s", "kind": "floor", "provenance": provenance, **fields})


# ---- the committed files ----


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_references_load(path: Path) -> None:
    assert references.load(path.stem, path).system == path.stem


def test_there_are_committed_references() -> None:
    assert COMMITTED


# ---- loading ----


def test_system_without_a_file_has_no_references(tmp_path: Path) -> None:
    stored = references.load("lab", tmp_path / "lab.yaml")
    assert stored.find("Iperf2Pair", "ns", MEASUREMENT) is None


def test_system_without_a_path_is_looked_up_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_REFERENCES", str(tmp_path))
    written(tmp_path, entry())
    assert references.load("lab").find("Iperf2Pair", "ns", MEASUREMENT) is not None


@pytest.mark.parametrize("unit", ["GB/s", "Mb/s", "gb/s", ""])
def test_wrong_unit_in_a_reference_is_an_error_at_load(tmp_path: Path, unit: str) -> None:
    path = written(tmp_path, entry_with(unit=unit))
    assert f"bandwidth is in {unit!r}, expected 'Gb/s'" in error_for(path)


def test_unknown_metric_is_an_error_with_the_known_ones(tmp_path: Path) -> None:
    metrics = {"bandwith": ENTRY["metrics"]["bandwidth"]}
    error = error_for(written(tmp_path, entry(metrics=metrics)))
    assert "'bandwith' is unknown" in error
    assert "retransmits" in error


def test_wrong_metric_is_named_with_file_line_and_field(tmp_path: Path) -> None:
    path = written(tmp_path, entry(), entry_with(unit="GB/s") | {"streams": 1})
    error = error_for(path)
    second = path.read_text().splitlines()
    line = [n for n, text in enumerate(second, 1) if '"metrics"' in text][1]
    assert error.startswith(f"{path}:{line}: references.1.metrics: ")


def test_reference_without_bounds_is_an_error(tmp_path: Path) -> None:
    assert "bounds nothing" in error_for(written(tmp_path, entry_with(lower=None)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lower", 0.1),
        ("lower", -1.5),
        ("lower", "low"),
        ("upper", -0.1),
        ("value", 0),
        ("value", -5),
        ("kind", "guess"),
        ("colour", "red"),
    ],
)
def test_wrong_field_of_a_number_is_named_with_file_and_line(
    tmp_path: Path, field: str, value: Any
) -> None:
    path = written(tmp_path, entry_with(**{field: value}))
    line = line_of(path, f'"{field}"')
    assert f"{path}:{line}: references.0.metrics.bandwidth.{field}: " in error_for(path)


@pytest.mark.parametrize("field", ["value", "unit", "kind", "provenance"])
def test_number_that_lacks_a_field_is_an_error(tmp_path: Path, field: str) -> None:
    path = written(tmp_path, entry_with(**{field: None}))
    assert f"references.0.metrics.bandwidth.{field}: " in error_for(path)


@pytest.mark.parametrize(
    "provenance",
    [
        {"date": "2026-11-21"},
        {"source": "x"},
        {"source": "", "date": "2026-11-21"},
        {"source": "x", "date": "last week"},
        {"source": "x", "date": "2026-11-21", "samples": 0},
        # 6.10 as a number would be 6.1.
        {"source": "x", "date": "2026-11-21", "tools": {"perftest": 6.10}},
        {"source": "x", "date": "2026-11-21", "tools": {"iperf2": "newest"}},
        {"source": "x", "date": "2026-11-21", "tools": {"NCCL": "2.28.9"}},
    ],
)
def test_number_must_say_where_it_comes_from(tmp_path: Path, provenance: Any) -> None:
    path = written(tmp_path, entry_with(provenance=provenance))
    assert "references.0.metrics.bandwidth.provenance" in error_for(path)


@pytest.mark.parametrize("field", ["check", "partition", "operation", "transport", "nodes"])
def test_condition_that_lacks_a_part_is_an_error(tmp_path: Path, field: str) -> None:
    incomplete = {name: value for name, value in ENTRY.items() if name != field}
    assert f"references.0.{field}: " in error_for(written(tmp_path, incomplete))


@pytest.mark.parametrize("nodes", [0, -2, "all", 1.5])
def test_number_of_nodes_is_a_count_or_any(tmp_path: Path, nodes: Any) -> None:
    assert "references.0.nodes" in error_for(written(tmp_path, entry(nodes=nodes)))


def test_unknown_key_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, entry(stream=4))
    expected = f"{path}:{line_of(path, chr(34) + 'stream' + chr(34))}: references.0.stream: "
    assert expected in error_for(path)


def test_entry_without_a_number_is_an_error(tmp_path: Path) -> None:
    assert "references.0.metrics: " in error_for(written(tmp_path, entry(metrics={})))


def test_two_entries_for_one_condition_are_an_error(tmp_path: Path) -> None:
    error = error_for(written(tmp_path, entry(), entry_with(value=5.0)))
    assert "two entries for the same condition" in error


def test_file_of_another_system_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, entry(), system="alps")
    assert f"{path}: system is 'alps', expected 'lab'" in error_for(path)


@pytest.mark.parametrize("text", ["references: [", "", "system: lab\n", "- system: lab\n"])
def test_file_that_is_no_reference_file_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    assert str(path) in error_for(path)


# ---- finding ----


def test_very_condition_finds_its_number(tmp_path: Path) -> None:
    found = references.load("lab", written(tmp_path, entry())).find("Iperf2Pair", "ns", MEASUREMENT)
    assert found is not None
    assert (found.value, found.lower, found.upper, found.unit) == (9.5, -0.1, None, "Gb/s")


@pytest.mark.parametrize(
    "other",
    [
        {"operation": "udp"},
        {"transport": "roce"},
        {"streams": 1},
        {"streams": None},
        {"size_bytes": 65536},
        {"nodes": ("n1",)},
        {"nodes": ("n1", "n2", "n3")},
        {"nodes": ()},
        {"metric": "stream_bandwidth_min"},
    ],
)
def test_near_condition_finds_nothing(tmp_path: Path, other: dict[str, Any]) -> None:
    stored = references.load("lab", written(tmp_path, entry()))
    assert stored.find("Iperf2Pair", "ns", dataclasses.replace(MEASUREMENT, **other)) is None


@pytest.mark.parametrize(("check", "partition"), [("Iperf3Pair", "ns"), ("Iperf2Pair", "gpu")])
def test_other_check_or_partition_finds_nothing(tmp_path: Path, check: str, partition: str) -> None:
    stored = references.load("lab", written(tmp_path, entry()))
    assert stored.find(check, partition, MEASUREMENT) is None


@pytest.mark.parametrize("nodes", [(), ("n1",), ("n1", "n2"), ("n1", "n2", "n3")])
def test_entry_for_any_number_of_nodes_serves_all(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    stored = references.load("lab", written(tmp_path, entry(nodes="any")))
    measurement = dataclasses.replace(MEASUREMENT, nodes=nodes)
    assert stored.find("Iperf2Pair", "ns", measurement) is not None


@pytest.mark.parametrize("exact_first", [True, False])
def test_entry_that_names_the_number_of_nodes_wins_over_any(
    tmp_path: Path, exact_first: bool
) -> None:
    entries = [entry(), entry_with(value=1.0) | {"nodes": "any"}]
    path = written(tmp_path, *(entries if exact_first else reversed(entries)))
    found = references.load("lab", path).find("Iperf2Pair", "ns", MEASUREMENT)
    assert found is not None
    assert found.value == 9.5


def of_way(value: float, **parts: str) -> dict[str, Any]:
    """An entry with that number for a way or a load."""
    return {**entry_with(value=value), **parts}


@pytest.mark.parametrize(
    "part", [{"load": "quiet"}, {"load": "loaded"}, {"within": "leaf"}, {"warmup": 5}, {}]
)
def test_entry_without_way_load_or_warmup_serves_all(tmp_path: Path, part: dict[str, Any]) -> None:
    found = references.load("lab", written(tmp_path, entry()))
    measured = dataclasses.replace(MEASUREMENT, **part)
    assert found.find("Iperf2Pair", "ns", measured) is not None


@pytest.mark.parametrize(
    ("stated", "measured"),
    [
        ({"load": "quiet"}, {"load": "loaded"}),
        ({"load": "loaded"}, {"load": "quiet"}),
        ({"load": "loaded"}, {}),
        ({"within": "leaf"}, {"within": "fabric"}),
        ({"within": "fabric"}, {"within": "leaf"}),
        ({"within": "leaf"}, {"load": "quiet"}),
        ({"warmup": 5}, {"warmup": 1}),
        ({"warmup": 5}, {}),
    ],
)
def test_entry_of_another_way_load_or_warmup_judges_nothing(
    tmp_path: Path, stated: dict[str, Any], measured: dict[str, Any]
) -> None:
    found = references.load("lab", written(tmp_path, entry(**stated)))
    number = dataclasses.replace(MEASUREMENT, **measured)
    assert found.find("Iperf2Pair", "ns", number) is None


def test_entry_of_the_very_way_and_load_wins(tmp_path: Path) -> None:
    stored = [
        of_way(9.0),
        of_way(8.0, load="loaded"),
        of_way(7.0, within="fabric"),
        of_way(6.0, within="fabric", load="loaded"),
    ]
    found = references.load("lab", written(tmp_path, *stored))

    def value(**parts: Any) -> float:
        reference = found.find("Iperf2Pair", "ns", dataclasses.replace(MEASUREMENT, **parts))
        assert reference is not None
        return reference.value

    assert value(load="quiet", within="leaf") == 9.0
    assert value(load="loaded", within="leaf") == 8.0
    assert value(load="quiet", within="fabric") == 7.0
    assert value(load="loaded", within="fabric") == 6.0


def test_least_bound_is_that_of_the_way_and_load(tmp_path: Path) -> None:
    """Or a loaded pair would be measured once more, and failed, for what a quiet one carries."""
    stored = [of_way(10.0, load="quiet"), of_way(5.0, load="loaded")]
    found = references.load("lab", written(tmp_path, *stored))

    def least(load: Load | None) -> float | None:
        reference = found.highest_bound("Iperf2Pair", "ns", "bandwidth", None, load)
        return None if reference is None else reference.lowest

    assert least("loaded") == 4.5
    assert least("quiet") == 9.0
    assert least(None) is None


def test_upper_bound_is_that_of_the_way_and_load(tmp_path: Path) -> None:
    def resent(value: float, load: str) -> dict[str, Any]:
        made = of_way(10.0, load=load)
        metric = {"value": value, "upper": 0.5, "unit": "segments", "kind": "floor"}
        made["metrics"] = {"retransmits": {**made["metrics"]["bandwidth"], **metric}}
        del made["metrics"]["retransmits"]["lower"]
        return made

    more = {**resent(400, "loaded"), "streams": 8}
    stored = [resent(100, "quiet"), resent(200, "loaded"), more, of_way(5.0, load="loaded")]
    found = references.load("lab", written(tmp_path, *stored))

    def most(metric: str, load: Load) -> float | None:
        reference = found.highest_bound("Iperf2Pair", "ns", metric, None, load)
        return None if reference is None else reference.highest

    assert most("retransmits", "loaded") == 600
    assert most("retransmits", "quiet") == 150
    assert most("bandwidth", "loaded") is None


def test_unknown_load_is_an_error(tmp_path: Path) -> None:
    assert "load" in error_for(written(tmp_path, entry(load="busy")))


def test_conditions_that_differ_in_streams_stand_side_by_side(tmp_path: Path) -> None:
    path = written(tmp_path, entry(), entry_with(value=3.0) | {"streams": 1})
    one_stream = dataclasses.replace(MEASUREMENT, streams=1)
    found = references.load("lab", path).find("Iperf2Pair", "ns", one_stream)
    assert found is not None
    assert found.value == 3.0


# ---- kinds ----

#: As a publication may leave it: no bounds of its own.
PUBLISHED = {"kind": "published", "lower": None}
UNSTATED = {**PUBLISHED, "condition": "unstated"}


def found_in(path: Path, measurement: Measurement = MEASUREMENT) -> Reference | None:
    return references.load("lab", path).find("Iperf2Pair", "ns", measurement)


def context_in(path: Path, measurement: Measurement = MEASUREMENT) -> list[Reference]:
    return references.load("lab", path).context("Iperf2Pair", "ns", measurement)


def context_entry(*left_out: str, **stated: Any) -> dict[str, Any]:
    """An entry whose number is context, without some parts of its condition."""
    whole = {**entry_with(**UNSTATED), **stated}
    return {name: value for name, value in whole.items() if name not in left_out}


@pytest.mark.parametrize("order", list(itertools.permutations(["floor", "published", "baseline"])))
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_baseline_wins_over_published_wins_over_floor(
    tmp_path: Path, order: tuple[str, ...], missing: int
) -> None:
    best_first = ["baseline", "published", "floor"][missing:]
    path = written(tmp_path, *(entry_with(kind=kind) for kind in order if kind in best_first))
    found = found_in(path)
    assert found is not None
    assert found.kind == best_first[0]


def test_baseline_for_any_nodes_wins_over_a_closer_published_number(tmp_path: Path) -> None:
    path = written(tmp_path, entry(nodes="any"), entry_with(kind="published"))
    found = found_in(path)
    assert found is not None
    assert found.kind == "baseline"


@pytest.mark.parametrize("kind", ["floor", "published", "baseline"])
def test_one_kind_twice_for_one_condition_is_an_error(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, entry_with(kind=kind), entry_with(kind=kind, value=5.0))
    assert f"two entries for the same condition have a {kind} bandwidth" in error_for(path)


def test_other_metrics_of_one_condition_may_stand_in_another_entry(tmp_path: Path) -> None:
    slowest = {"stream_bandwidth_min": ENTRY["metrics"]["bandwidth"]}
    assert found_in(written(tmp_path, entry(), entry(metrics=slowest))) is not None


@pytest.mark.parametrize(
    ("metric", "bounds"), [("bandwidth", (-0.1, None)), ("latency", (None, 0.1))]
)
def test_published_number_without_bounds_gates_on_its_worse_side(
    tmp_path: Path, metric: str, bounds: tuple[float | None, float | None]
) -> None:
    published = entry_with(**PUBLISHED, unit=METRICS[metric].unit)["metrics"]["bandwidth"]
    path = written(tmp_path, entry(metrics={metric: published}))
    found = found_in(path, dataclasses.replace(MEASUREMENT, metric=metric))
    assert found is not None
    assert (found.lower, found.upper) == bounds


def test_bounds_of_a_published_number_are_kept(tmp_path: Path) -> None:
    found = found_in(written(tmp_path, entry_with(kind="published", lower=None, upper=0.4)))
    assert found is not None
    assert (found.lower, found.upper) == (None, 0.4)


# ---- context ----


def test_number_of_unstated_condition_is_no_reference(tmp_path: Path) -> None:
    assert found_in(written(tmp_path, entry_with(**UNSTATED))) is None


def test_number_of_unstated_condition_is_context(tmp_path: Path) -> None:
    (number,) = context_in(written(tmp_path, entry_with(**UNSTATED)))
    assert (number.value, number.condition) == (9.5, "unstated")


def test_number_of_stated_condition_is_no_context(tmp_path: Path) -> None:
    assert context_in(written(tmp_path, entry_with(**PUBLISHED))) == []


def test_context_stands_next_to_a_reference_of_the_same_condition(tmp_path: Path) -> None:
    path = written(tmp_path, entry(), entry_with(**UNSTATED), entry_with(**UNSTATED, value=3.0))
    assert found_in(path) is not None
    assert [number.value for number in context_in(path)] == [9.5, 3.0]


@pytest.mark.parametrize("kind", ["floor", "baseline"])
def test_only_a_published_number_may_be_unstated(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, entry_with(**{**UNSTATED, "kind": kind}))
    assert "only published may be unstated" in error_for(path)


@pytest.mark.parametrize("bound", [{"lower": -0.1}, {"upper": 0.1}])
def test_bounds_of_a_number_that_gates_nothing_are_an_error(
    tmp_path: Path, bound: dict[str, float]
) -> None:
    assert "it gates nothing" in error_for(written(tmp_path, entry_with(**{**UNSTATED, **bound})))


@pytest.mark.parametrize("part", ["operation", "transport", "nodes", "streams"])
def test_part_that_context_leaves_out_matches_anything(tmp_path: Path, part: str) -> None:
    other = {"operation": "udp", "transport": "roce", "nodes": ("n1",), "streams": 16}[part]
    measurement = dataclasses.replace(MEASUREMENT, **{part: other})
    assert context_in(written(tmp_path, context_entry(part)), measurement)


@pytest.mark.parametrize(
    "other",
    [
        {"operation": "udp"},
        {"transport": "roce"},
        {"nodes": ("n1",)},
        {"streams": 16},
        {"streams": None},
        {"metric": "stream_bandwidth_min"},
    ],
)
def test_part_that_context_states_must_match(tmp_path: Path, other: dict[str, Any]) -> None:
    path = written(tmp_path, context_entry("rails", "size_bytes"))
    assert context_in(path, dataclasses.replace(MEASUREMENT, **other)) == []


def test_context_for_any_number_of_nodes_serves_all(tmp_path: Path) -> None:
    assert context_in(written(tmp_path, context_entry(nodes="any")))


@pytest.mark.parametrize(("window", "matches"), [(None, True), (2**27, False)])
def test_null_is_a_stated_part(tmp_path: Path, window: int | None, matches: bool) -> None:
    path = written(tmp_path, context_entry(window_bytes=None))
    measurement = dataclasses.replace(MEASUREMENT, window_bytes=window)
    assert bool(context_in(path, measurement)) is matches


@pytest.mark.parametrize(("check", "partition"), [("Iperf3Pair", "ns"), ("Iperf2Pair", "gpu")])
def test_context_of_another_check_or_partition_is_not_shown(
    tmp_path: Path, check: str, partition: str
) -> None:
    stored = references.load("lab", written(tmp_path, entry_with(**UNSTATED)))
    assert stored.context(check, partition, MEASUREMENT) == []


@given(st.sets(st.sampled_from(["operation", "transport", "nodes", "streams"])))
def test_whatever_context_leaves_out_its_own_condition_matches(left_out: set[str]) -> None:
    stored = references.Entry.model_validate(context_entry(*left_out))
    assert stored.matches("Iperf2Pair", "ns", MEASUREMENT)


@pytest.mark.parametrize("part", ["operation", "transport", "nodes"])
def test_gating_number_next_to_context_needs_its_whole_condition(tmp_path: Path, part: str) -> None:
    mixed = context_entry(part)
    mixed["metrics"]["stream_bandwidth_min"] = ENTRY["metrics"]["bandwidth"]
    error = error_for(written(tmp_path, mixed))
    assert f"references.0.{part}: must be stated" in error


# ---- ratios ----

RATIO: dict[str, Any] = {
    "name": "large buffers over default",
    "metric": "bandwidth",
    "of": {"check": "WanTcp", "window_bytes": 2**27},
    "over": {"check": "WanTcp", "window_bytes": None},
    "value": 2.0,
    "lower": -0.1,
    "provenance": {"source": "a test", "date": "2026-11-21"},
}


def with_ratios(folder: Path, *ratios: dict[str, Any]) -> Path:
    path = folder / "lab.yaml"
    document = {"system": "lab", "references": [], "ratios": list(ratios)}
    path.write_text(json.dumps(document, indent=1))
    return path


def test_ratio_is_loaded_with_its_two_conditions(tmp_path: Path) -> None:
    (ratio,) = references.load("lab", with_ratios(tmp_path, RATIO)).ratios
    assert (ratio.kind, ratio.of.window_bytes, ratio.over.stated["window_bytes"]) == (
        "ratio",
        2**27,
        None,
    )


@pytest.mark.parametrize(("check", "count"), [("WanTcp", 1), ("Iperf2Pair", 0)])
def test_ratio_is_of_the_checks_that_it_names(tmp_path: Path, check: str, count: int) -> None:
    stored = references.load("lab", with_ratios(tmp_path, RATIO))
    assert len(stored.ratios_of(check)) == count


def test_ratio_is_the_same_after_a_record(tmp_path: Path) -> None:
    # What a side leaves out must not come back as null, which would be stated.
    (ratio,) = references.load("lab", with_ratios(tmp_path, RATIO)).ratios
    recorded = ratio.model_dump(mode="json", exclude_unset=True)
    assert references.Ratio.model_validate(recorded).of.stated == ratio.of.stated


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lower": None}, "bounds nothing"),
        ({"metric": "speed"}, "'speed' is unknown"),
        ({"kind": "baseline"}, "ratios.0.kind"),
        ({"over": RATIO["of"]}, "the same condition"),
        ({"of": {"window_bytes": 1}}, "needs a check, or a state"),
        ({"of": {"check": "WanTcp", "state": "tuned"}}, "no campaign can show a state"),
        ({"condition": "unstated"}, "it gates nothing"),
        ({"name": ""}, "ratios.0.name"),
        ({"value": 0}, "ratios.0.value"),
    ],
)
def test_wrong_ratio_is_an_error_at_load(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    assert says in error_for(with_ratios(tmp_path, {**RATIO, **changes}))


def test_ratio_of_unstated_condition_may_name_a_state(tmp_path: Path) -> None:
    tuned = {"of": {"state": "tuned hosts"}, "over": {"state": "hosts as installed"}}
    context = {**RATIO, **tuned, "lower": None, "condition": "unstated"}
    (ratio,) = references.load("lab", with_ratios(tmp_path, context)).ratios
    assert ratio.is_context


def test_two_ratios_of_one_name_are_an_error(tmp_path: Path) -> None:
    error = error_for(with_ratios(tmp_path, RATIO, {**RATIO, "value": 3.0}))
    assert "two ratios are called 'large buffers over default'" in error


# ---- comparing ----


@pytest.mark.parametrize(
    ("lower", "upper", "lowest", "highest"),
    [(-0.1, None, 9.0, None), (None, 0.2, None, 12.0), (-0.5, 0.5, 5.0, 15.0), (0, 0, 10.0, 10.0)],
)
def test_bounds_are_fractions_of_the_value(
    lower: float | None, upper: float | None, lowest: float | None, highest: float | None
) -> None:
    reference = number(value=10.0, lower=lower, upper=upper)
    assert (reference.lowest, reference.highest) == (lowest, highest)


@pytest.mark.parametrize(
    ("value", "admitted"),
    [(8.999, False), (9.0, True), (10.0, True), (12.0, True), (12.001, False)],
)
def test_bounds_themselves_are_admitted(value: float, admitted: bool) -> None:
    assert number(value=10.0, lower=-0.1, upper=0.2).admits(value) is admitted


def test_without_an_upper_bound_more_is_admitted() -> None:
    assert number(value=10.0, lower=-0.1).admits(1e9)


def test_without_a_lower_bound_less_is_admitted() -> None:
    assert number(value=10.0, upper=0.1).admits(0.0)


@given(st.floats(0.001, 1e6), st.floats(-0.99, 0), st.floats(0, 2))
def test_a_reference_admits_itself(value: float, lower: float, upper: float) -> None:
    assert number(value=value, lower=lower, upper=upper).admits(value)


@given(st.floats(0.001, 1e6), st.floats(-0.99, 0), st.floats(0, 2), st.floats(1e-6, 1e6))
def test_what_lies_outside_a_bound_is_not_admitted(
    value: float, lower: float, upper: float, beyond: float
) -> None:
    reference = number(value=value, lower=lower, upper=upper)
    assert reference.lowest is not None
    assert reference.highest is not None
    assert not reference.admits(reference.lowest - beyond)
    assert not reference.admits(reference.highest + beyond)


@pytest.mark.parametrize(("value", "deviation"), [(9.0, -0.1), (10.0, 0.0), (15.0, 0.5)])
def test_deviation_is_a_fraction_of_the_reference(value: float, deviation: float) -> None:
    assert number(value=10.0, lower=0).deviation(value) == pytest.approx(deviation)


@pytest.mark.parametrize(
    "fields",
    [
        {"value": math.nan, "lower": -0.1},
        {"value": 10.0, "lower": math.nan},
        {"value": math.inf, "lower": -0.1},
        {"value": 10.0, "upper": math.inf},
        {"value": 10.0, "lower": -1},
        {"value": -1.0, "upper": 0},
        {"value": 0.0, "lower": 0},
        {"value": 0.0, "upper": 0.5},
    ],
)
def test_bounds_that_bound_nothing_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"bounds (any|no)thing|finite|greater than|less than"):
        number(**fields)


def test_nothing_may_be_what_is_expected() -> None:
    none = number(value=0.0, lower=0, upper=0)
    assert none.admits(0) and not none.admits(1)
    assert (none.deviation(0), none.deviation(1)) == (0, math.inf)
