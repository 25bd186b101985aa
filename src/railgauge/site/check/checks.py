"""What the checks in reframe/ need of a partition, as they say themselves."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.utility import import_module_from_file

from railgauge import paths, systems
from railgauge.checks.framework import reframe_guard
from railgauge.checks.framework.cases import Cases, LeftOut
from railgauge.checks.framework.check import TESTS, StrictCheck
from railgauge.checks.preflight.node_state import NodeStateCases, has_links
from railgauge.cluster.look import BY_NAME, FILTERS
from railgauge.common.errors import ConfigurationError
from railgauge.model.measurement import COUNTS, Load
from railgauge.model.references import References, missing_loads, step_to_record
from railgauge.site import shown
from railgauge.site.check.line import Line
from railgauge.systems import Extras, Partition, System, expected
from railgauge.systems.nccl import Nccl

#: Features that make no cases: `mnnvl` adds transports, `gpu` is for people and for sites' checks.
_OTHER_FEATURES = frozenset({"mnnvl", "sockets", "gpu"})


@dataclasses.dataclass(frozen=True)
class Check:
    """A check in reframe/, which may be a site's own and know nothing of Railgauge."""

    kind: Any

    @property
    def name(self) -> str:
        return str(self.kind.__name__)

    @property
    def _is_ours(self) -> bool:
        return issubclass(self.kind, StrictCheck)

    @property
    def cases(self) -> Cases[Any] | None:
        return self.kind.cases if self._is_ours else None

    @property
    def features(self) -> tuple[str, ...]:
        """What a partition must have for this check to have a case on it: of a site's own check,
        X of ReFrame's `valid_systems = ["+X"]`.
        """
        if self.cases is not None:
            return self.cases.features
        systems_of = getattr(self.kind.valid_systems, "default_value", None)
        wanted = systems_of if isinstance(systems_of, list) else []
        return tuple(feature for text in wanted for feature in re.findall(r"\+([\w-]+)", text))

    def lacks(self, partition: Partition) -> str:
        """Why it has no case on a partition; "" where it has, or where that is not known."""
        reason = self.cases.lacks(partition) if self.cases is not None else ""
        return f"{self.name} {reason}" if reason else ""

    def leaves_out(self, partition: Partition) -> Sequence[LeftOut]:
        """Why it leaves nodes, or whole acceptances, without a result."""
        if self.cases is None or not self.cases.is_described(partition):
            return ()
        return self.cases.leaves_out(partition)

    def unstated(self, extras: Extras) -> Sequence[str] | None:
        """What the description must still say for a reference to follow from it (StrictCheck)."""
        return self.kind.unstated(extras) if self._is_ours else None

    def rests_on_floors(self, partition: Partition, stored: References) -> bool:
        """Whether every metric that gates has a floor at best: stored, or by the description."""
        numbers = [
            (metric, number.kind)
            for entry in stored.entries
            if (entry.check, entry.partition) == (self.name, partition.name)
            for metric, number in entry.metrics.items()
            if not number.is_context and number.unit not in COUNTS
        ]
        better = {metric for metric, kind in numbers if kind != "floor"}
        needed = self.kind.needs_references_of() if self._is_ours else ()
        by_description = (
            self._is_ours
            and self.kind.floor is not StrictCheck.floor
            and self.unstated(partition.extras) == []
        )
        has_floor = by_description or any(kind == "floor" for _, kind in numbers)
        return has_floor and better.isdisjoint(needed)

    def without_reference(self, partition: Partition, stored: References) -> str:
        """Its name, with those of its metrics that nothing gates; "" where each has a number."""
        known = {
            metric
            for entry in stored.entries
            if (entry.check, entry.partition) == (self.name, partition.name)
            for metric, number in entry.metrics.items()
            if not number.is_context
        }
        needed = self.kind.needs_references_of() if self._is_ours else ()
        missing = [metric for metric in needed if metric not in known]
        if missing:
            return f"{self.name} ({', '.join(missing)})"
        return "" if known else self.name


def known(folder: Path) -> tuple[Mapping[str, Check], list[Line]]:
    """The checks in a folder by name, and a line for every file that does not load."""
    checks: dict[str, Check] = {}
    lines = []
    for path in sorted(folder.glob("*.py")):
        try:
            checks.update({check.name: check for check in _of_file(path)})
        except Exception as error:
            # Whatever a file of the site's own raises.
            reason = f"{shown(path)}: does not load: {type(error).__name__}: {error}"
            lines.append(Line("problem", "checks", reason, f"fix {shown(path)}"))
    return checks, lines


def described_on(partition: Partition) -> list[type[StrictCheck]]:
    """Those of this checkout that have cases on a partition, as far as its description says."""
    checks, _ = known(paths.CHECKS)
    return [
        check.kind
        for check in checks.values()
        if check.cases is not None and check.cases.is_described(partition)
    ]


def needed(partition: Partition, options: Sequence[str] = ()) -> dict[str, Sequence[str]]:
    """The programs that required checks cannot do without: name -> no argv, as no version is asked.

    `options` are ReFrame's: with a filter by name only the checks that it selects count, with any
    other filter none, as only ReFrame knows.
    """
    names, others = _name_filters(options)
    return {
        program: ()
        for check in ([] if others else described_on(partition))
        if not names or any(re.match(name, check.__name__) for name in names)
        for program in reframe_guard.required_programs(check, partition)
    }


def _name_filters(options: Sequence[str]) -> tuple[list[str], bool]:
    """The values of ReFrame's -n, and whether it has another filter."""
    names, others = [], False
    words = iter(options)
    for word in words:
        if word in BY_NAME:
            names.append(next(words, ""))
        elif word.startswith(BY_NAME):
            names.append(re.sub("^(-n|--name=?)", "", word))
        else:
            others = others or word.startswith(FILTERS)
    return names, others


@functools.cache
def _of_file(path: Path) -> tuple[Check, ...]:
    """Those that a file registers, with this checkout's `simple_test` or ReFrame's own."""
    module = import_module_from_file(str(path))
    theirs = getattr(module, "_rfm_test_registry", ())
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    return tuple(Check(kind) for kind in dict.fromkeys(kinds) if kind in TESTS or kind in theirs)


def features(partition: Partition, checks: Mapping[str, Check]) -> list[Line]:
    """Whether the features are those of checks, and of the extras that describe them."""
    known = {f for check in checks.values() for f in check.features} | _OTHER_FEATURES
    strange = sorted(set(partition.features) - known)
    thing = f"{partition.name}: features"
    lines = [
        Line(
            "problem",
            thing,
            f"{feature!r} is used by no check, expected some of {', '.join(sorted(known))}",
            "a misspelling? its checks would not run",
        )
        for feature in strange
    ]
    extras = partition.extras
    nvlink = extras.nccl.nvlink if extras.nccl else None
    if "mnnvl" in partition.features and (nvlink is None or nvlink.domain_nodes == 1):
        reason = "'mnnvl' needs extras.nccl.nvlink.domain_nodes above 1: NVLink ends at the node"
        lines.append(Line("problem", thing, reason, "set domain_nodes, or leave mnnvl out"))
    if extras.nccl is not None:
        lines += _gpus(thing, partition, extras.nccl.gpus_per_node)
    lines += [
        Line(
            "warning",
            thing,
            f"extras.{name} describes what features does not have: none of its checks run",
            f"add {name} to features, or leave extras.{name} out",
        )
        for name in systems.DESCRIBED
        if getattr(extras, name) is not None and name not in partition.features
    ]
    if lines:
        return lines
    measured = sorted(
        check.name
        for check in checks.values()
        if check.cases is not None and check.cases.measures_features and not check.lacks(partition)
    )
    stated = ", ".join(partition.features) or "none"
    if not measured:
        step = f"features are some of {', '.join(sorted(known))}; pairs need two nodes"
        return [Line("problem", thing, f"{stated}: no check has a case here", step)]
    ok = Line("ok", thing, f"{stated}: {', '.join(measured)}")
    return [ok, *(_split(thing, extras.nccl) if extras.nccl else [])]


def _gpus(thing: str, partition: Partition, expected: int) -> list[Line]:
    """ReFrame's own description of the GPUs, next to extras.nccl."""
    devices = partition.model_dump().get("devices") or []
    counts = [d.get("num_devices") for d in devices if isinstance(d, dict) and d["type"] == "gpu"]
    return [
        Line(
            "problem",
            thing,
            f"devices has {count} GPUs, expected {expected} as extras.nccl.gpus_per_node says",
            "fix the one that is wrong",
        )
        for count in counts
        if count != expected
    ]


def _split(thing: str, fabric: Nccl) -> list[Line]:
    """Whether one launch can run many groups of nodes at once."""
    if fabric.binaries.has_split:
        return []
    reason = (
        f"extras.nccl.binaries: {fabric.binaries.version} runs one group of nodes at a time, so "
        "that every node, pair and segment is a launch of its own"
    )
    step = "2.14.0 or newer measures all groups of a round in one launch"
    return [Line("warning", f"{thing}: nccl", reason, step)]


def required(
    partition: Partition, checks: Mapping[str, Check], stored: References | None
) -> list[Line]:
    """Whether the required checks can run here, and have something to be judged by."""
    lines = []
    names = partition.extras.required
    thing = f"{partition.name}: required"
    for name in names:
        if name not in checks:
            reason = f"{name} is no check in {shown(paths.CHECKS)}/, expected one of "
            reason += ", ".join(sorted(checks))
            lines.append(Line("problem", thing, reason, "a misspelling? nothing could be accepted"))
        elif reason := checks[name].lacks(partition):
            reason = f"{name} has no case here, so nothing could be accepted: {reason}"
            step = f"take {name} out of required, or describe what it needs"
            lines.append(Line("problem", thing, reason, step))
        else:
            lines += [
                Line(
                    "problem",
                    thing,
                    f"{name} is required, and {left.reason}",
                    f"fix {left.field}, or take {name} out of required"
                    if left.field
                    else f"take {name} out of required",
                )
                for left in checks[name].leaves_out(partition)
            ]
    if not names:
        reason = "no check is: a campaign that measures next to nothing could end in accept"
        lines.append(Line("warning", thing, reason, "name the checks that must have run"))
    elif not lines:
        lines.append(Line("ok", thing, ", ".join(names)))
    there = [checks[name] for name in names if name in checks]
    return [*lines, *_baselines(partition, there, stored)]


def left_out(partition: Partition, checks: Mapping[str, Check]) -> list[Line]:
    """What fields of the data leave out of acceptances, of checks that are not required."""
    names: dict[str, list[str]] = {}
    fields: dict[str, list[str]] = {}
    for name, check in sorted(checks.items()):
        for left in () if name in partition.extras.required else check.leaves_out(partition):
            if left.field:
                names.setdefault(left.reason, []).append(name)
                fields.setdefault(left.reason, []).append(left.field)
    return [
        Line(
            "hint",
            f"{partition.name}: left out",
            f"{', '.join(dict.fromkeys(of))}: {reason}",
            f"as {', '.join(dict.fromkeys(fields[reason]))} says",
        )
        for reason, of in names.items()
    ]


def _baselines(
    partition: Partition, checks: Sequence[Check], stored: References | None
) -> list[Line]:
    thing = f"{partition.name}: baselines"
    if stored is None:
        return [Line("not checked", thing, "the reference file does not load")]
    unstated = {check.name: check.unstated(partition.extras) for check in checks}
    # What follows from the description alone needs no stored number.
    of_numbers = [check for check in checks if unstated[check.name] is None or unstated[check.name]]
    bare = [name for check in of_numbers if (name := check.without_reference(partition, stored))]
    if bare:
        reason = f"no reference for {', '.join(bare)}: needs a baseline before it can be accepted"
        stating = [field for fields in unstated.values() for field in fields or ()]
        floors = f"state {', '.join(stating)}, which give floors; or " if stating else ""
        return [Line("hint", thing, reason, f"{floors}railgauge accept --mode baseline")]
    if not checks:
        return []
    lines = [
        Line(
            "hint",
            thing,
            f"{name} has no baseline for load {load}: a campaign that measures it {_WHEN[load]} is "
            "inconclusive, and the gate returns no node on it",
            step_to_record(load),
        )
        for name, load in missing_loads(stored.entries, partition.name)
        if name in {check.name for check in checks}
    ]
    on_floors = [c.name for c in of_numbers if c.rests_on_floors(partition, stored)]
    if on_floors and partition.extras.floors_suffice is None:
        reason = (
            f"{', '.join(on_floors)}: judged by floors alone, so PROVISIONAL ACCEPT at best, and "
            "the gate returns no node"
        )
        lines.append(Line("hint", thing, reason, step_to_record(None)))
    return lines or [Line("ok", thing, "every required check has a reference")]


#: When a pair is measured under a load.
_WHEN: Mapping[Load, str] = {
    "quiet": "one pair at a time, as one of two or three nodes does,",
    "loaded": "several pairs at a time, as one of four nodes and more does,",
}


def expected_state(system: System, checks: Mapping[str, Check]) -> list[Line]:
    """expected.yaml: what the nodes of the system must show."""
    path, thing = expected.path_for(system.name), "expected state"
    try:
        stated = expected.load(system.name)
    except ConfigurationError as error:
        return [Line("problem", thing, line) for line in str(error).splitlines()]
    if stated is None:
        of_nodes = {n for n, check in checks.items() if isinstance(check.cases, NodeStateCases)}
        bare = [p for p in system.partitions if not has_links(p.extras)]
        needed = sorted(of_nodes & {name for p in bare for name in p.extras.required})
        step = "write one; configs/systems/dgx-h100/expected.yaml shows the form"
        if needed:
            reason = f"{shown(path)}: no such file, and {', '.join(needed)} is required"
            return [Line("problem", thing, reason, step)]
        reason = f"{shown(path)}: no such file: firmware and tuning are not checked"
        return [Line("hint", thing, reason, step)]
    names = {partition.name for partition in system.partitions}
    unknown = sorted({e.partition for e in stated.expected if e.partition} - names)
    if unknown:
        reason = f"{shown(path)}: no partition {', '.join(unknown)}; there is {', '.join(names)}"
        return [Line("problem", thing, reason, "fix the entry's partition")]
    return [Line("ok", thing, f"{shown(path)}: {len(stated.expected)} entries")]
