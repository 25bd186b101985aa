"""The stored numbers: is there a case under the condition of each?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from railgauge import paths
from railgauge.checks.framework.cases import Mismatch
from railgauge.common.errors import ConfigurationError
from railgauge.model import references
from railgauge.model.references import Condition, Entry, Ratio, RatioSide, References
from railgauge.site import shown
from railgauge.site.check.checks import Check
from railgauge.site.check.line import Line
from railgauge.systems import Partition, System
from railgauge.yamlfile import load as load_yaml


def lines(system: System, checks: Mapping[str, Check]) -> tuple[References | None, list[Line]]:
    """The stored numbers, None where they do not load, and what is to be text of them."""
    path = references.path_for(system.name)
    try:
        stored = references.load(system.name)
    except ConfigurationError as error:
        step = f"fix {shown(path)}"
        return None, [Line("problem", "references", line, step) for line in str(error).splitlines()]
    if not path.exists():
        text = f"{shown(path)}: no such file: no number is known yet"
        step = "railgauge accept --mode baseline"
        return stored, [Line("hint", "references", text, step)]
    items: list[tuple[str, int, Entry | Ratio]] = [
        *(("references", place, entry) for place, entry in enumerate(stored.entries)),
        *(("ratios", place, ratio) for place, ratio in enumerate(stored.ratios)),
    ]
    wrong = [
        (kind, place, item, mismatch)
        for kind, place, item in items
        for mismatch in _mismatches(item, system, checks)
    ]
    if not wrong:
        text = f"{shown(path)}: {len(stored.entries)} entries, {len(stored.ratios)} ratios"
        return stored, [Line("ok", "references", text)]
    document = load_yaml(path)
    problems = []
    for kind, place, item, mismatch in wrong:
        where = f"{shown(path)}:{document[kind].lc.item(place)[0] + 1}"
        text = f"{_title(item)}: {mismatch.reason}"
        if mismatch.by_count and published(item):
            step = "keep it for a larger system, or remove it"
            problems.append(Line("warning", f"references: {where}", text, step))
        else:
            problems.append(Line("problem", f"references: {where}", text, f"edit {where}"))
    return stored, problems


def _title(item: Entry | Ratio) -> str:
    if isinstance(item, Ratio):
        return f"ratio {item.name!r}"
    parts = (item.check, item.partition, item.operation, item.transport)
    return " ".join(part for part in parts if part)


def published(item: Entry | Ratio) -> bool:
    """Whether all of its numbers are of other sites.

    Only a campaign knows the firmware that it was taken under.
    """
    if isinstance(item, Ratio):
        return item.provenance.fingerprint is None
    return all(number.kind == "published" for number in item.metrics.values())


def _mismatches(
    item: Entry | Ratio, system: System, checks: Mapping[str, Check]
) -> Iterator[Mismatch]:
    if isinstance(item, Entry):
        gates = not all(number.is_context for number in item.metrics.values())
        yield from _mismatch(item, item.check, item.partition, gates, system, checks)
        return
    for name, side in (("of", item.of), ("over", item.over)):
        # What a state says is measured by nothing here.
        if side.check is not None:
            for mismatch in _mismatch(side, side.check, side.partition, False, system, checks):
                yield dataclasses.replace(mismatch, reason=f"{name}: {mismatch.reason}")


def impossible(
    condition: Condition, check: Check, partition: Partition, gates: bool
) -> Mismatch | None:
    """Why no case of the check on this partition is under the condition."""
    if check.cases is None:
        return None
    if reason := check.lacks(partition):
        small = check.cases.would_grow(partition)
        return Mismatch(f"no case on {partition.name}: {reason}", by_count=small)
    return check.cases.mismatch(condition, partition, gates)


def _mismatch(
    condition: Entry | RatioSide,
    name: str,
    partition: str | None,
    gates: bool,
    system: System,
    checks: Mapping[str, Check],
) -> Iterator[Mismatch]:
    check = checks.get(name)
    if check is None:
        known = ", ".join(sorted(checks))
        yield Mismatch(f"check {name!r} is not in {shown(paths.CHECKS)}/, expected one of {known}")
    places = {p.name: p for p in system.partitions}
    if partition is not None and partition not in places:
        known = ", ".join(places)
        yield Mismatch(f"partition {partition!r} is not of {system.name}, which has {known}")
    if check is None or (partition is not None and partition not in places):
        return
    tried = [places[partition]] if partition is not None else list(system.partitions)
    mismatches = [impossible(condition, check, place, gates) for place in tried]
    # Without a partition it is enough that one has such a case.
    if all(mismatch is not None for mismatch in mismatches):
        best = next((m for m in mismatches if m is not None and m.by_count), mismatches[0])
        assert best is not None
        yield best
