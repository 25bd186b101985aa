"""Which builds of the tools a campaign ran, and what about them is worth a look.

A notice never changes the decision: another version of a tool says nothing against a node, only
that two numbers may not compare. Where a system asks for `strict_provenance`, a tool that is not
as its package brought it is a finding: its numbers may be anything.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from railgauge import hostlist
from railgauge.common.names import natural
from railgauge.model.references import Bounded
from railgauge.tools.common import version
from railgauge.verdict.campaign.cases import Case, fingerprints
from railgauge.verdict.campaign.ratios import RatioRow


@dataclasses.dataclass(frozen=True)
class Notice:
    """Something to know of a campaign that speaks against no node."""

    kind: str
    message: str


@dataclasses.dataclass(frozen=True)
class Build:
    """A tool as it ran: what it printed as its version, which file, its package, where."""

    tool: str
    version: str
    path: str
    package: str
    nodes: tuple[str, ...]

    @property
    def program(self) -> str:
        return PurePath(self.path).name


def builds(cases: Sequence[Case]) -> tuple[Build, ...]:
    """Every one, with all nodes that it ran on. A call that was never started ran none."""
    nodes: dict[tuple[str, str, str, str], set[str]] = {}
    for case in cases:
        for call in case.calls:
            key = call.tool, call.version, call.path, call.package
            if (hosts := nodes.get(key)) is None and any(key[1:]):
                hosts = nodes[key] = set()
            if hosts is not None and call.host:
                hosts.add(call.host)
    return tuple(
        Build(*key, tuple(sorted(known, key=natural))) for key, known in sorted(nodes.items())
    )


def notices(cases: Sequence[Case], ratios: Sequence[RatioRow]) -> tuple[Notice, ...]:
    notices = [
        # Where it is strict it is a finding.
        *(Notice("tool-changed", f.message) for f in not_as_packaged(cases) if not f.strict),
        *_not_the_same(cases),
        *_other_than_referenced(cases, ratios),
        *_other_fingerprints(cases),
        *(Notice("output", f"{case.name}: {note}") for case in cases for note in case.notes),
        *(
            Notice("job", f"{case.check} {case.partition}: {note}")
            for case in cases
            for note in case.notes_of_job
        ),
    ]
    return tuple(dict.fromkeys(notices))


@dataclasses.dataclass(frozen=True)
class Unpackaged:
    """A program that ran and is not what a package brought; `strict` where that counts."""

    build: Build
    partition: str
    strict: bool

    @property
    def message(self) -> str:
        name = f"{self.build.tool} ({self.build.path or 'no file'})"
        where = hostlist.fold(self.build.nodes) if self.build.nodes else "unknown nodes"
        return f"{name} on {where} is not as packaged: {_LONG.sub(_CUT, self.build.package)}"


#: How railgauge.node.system.tool_package names what it found of no package, or changed since.
_UNKNOWN = "unknown"
_CHANGED = "unknown (changed since "


def not_as_packaged(cases: Sequence[Case]) -> list[Unpackaged]:
    """Programs with another file than their package's; of a strict partition also those of no
    package, or of an unknown one.
    """
    changed = []
    for partition in dict.fromkeys(case.partition for case in cases):
        partition_cases = [case for case in cases if case.partition == partition]
        strict = any(case.strict_provenance for case in partition_cases)
        for build in builds(partition_cases):
            if build.package.startswith(_UNKNOWN if strict else _CHANGED):
                changed.append(Unpackaged(build, partition, strict))
    return changed


def _not_the_same(cases: Sequence[Case]) -> Iterator[Notice]:
    """A program with different builds on the nodes of a partition."""
    for partition in dict.fromkeys(case.partition for case in cases):
        programs: dict[tuple[str, str], list[Build]] = {}
        for build in builds([case for case in cases if case.partition == partition]):
            programs.setdefault((build.tool, build.program), []).append(build)
        for (tool, program), several in programs.items():
            # What is empty was not stated, and is no difference.
            parts = [{b.version for b in several}, {b.path for b in several}]
            parts.append({b.package for b in several})
            if any(len(values - {""}) > 1 for values in parts):
                shown = "; ".join(_build_on_nodes(b) for b in several)
                name = f"{tool} ({program})" if program else tool
                yield Notice("tool-differs", f"{name} is not the same everywhere: {shown}")


def _build_on_nodes(build: Build) -> str:
    """A build with its file and nodes; of what was not stated nothing stands there."""
    description = ", ".join(filter(None, [describe(build), build.path])) or "nothing stated"
    return f"{description} on {hostlist.fold(build.nodes)}" if build.nodes else description


def _other_than_referenced(cases: Sequence[Case], ratios: Sequence[RatioRow]) -> Iterator[Notice]:
    """References, and ratios, that were measured with another version than this campaign's."""
    compared: list[tuple[str, Bounded, list[Case]]] = [
        (case.check, row.reference, [case])
        for case in cases
        for row in case.rows
        if row.reference is not None
    ]
    for ratio in (row.reference for row in ratios if row.within is not None):
        sides = ratio.of.check, ratio.over.check
        compared.append((f"ratio {ratio.name}", ratio, [c for c in cases if c.check in sides]))
    concerned: dict[str, dict[str, None]] = {}
    for what, reference, measured in compared:
        stated = frozenset((call.tool, call.version) for case in measured for call in case.calls)
        for difference in _differences(tuple(reference.provenance.tools.items()), stated):
            concerned.setdefault(difference, {})[what] = None
    for difference, names in concerned.items():
        yield Notice("reference-version", f"reference of {', '.join(names)} {difference}")


def _other_fingerprints(cases: Sequence[Case]) -> Iterator[Notice]:
    """References that were measured with other firmware or tuning than the nodes have now."""
    now = fingerprints(cases)
    for case in cases:
        here = sorted({now[node] for node in case.nodes if node in now})
        for row in case.rows:
            was = row.reference.provenance.fingerprint if row.reference else None
            if was is not None and here and here != [was]:
                yield Notice(
                    "reference-fingerprint",
                    f"{case.name}: the reference of {row.measurement.variable} was measured with "
                    f"fingerprint {was}, {hostlist.fold(case.nodes)} now has {', '.join(here)}",
                )


@functools.cache
def _differences(
    known_tools: tuple[tuple[str, str], ...], stated: frozenset[tuple[str, str]]
) -> tuple[str, ...]:
    """Between the versions of a reference, by tool, and what the tools here have printed."""
    used: dict[str, set[str]] = {}
    for tool, line in stated:
        for name, number in version.stated(tool, line).items():
            used.setdefault(name, set()).add(number)
    differences = []
    for name, known in known_tools:
        others = sorted(used.get(name, set()) - {version.normal(known)})
        if others:
            differences.append(
                f"measured with {name} {known}, this campaign used {' and '.join(others)}"
            )
        elif name not in used:
            differences.append(
                f"measured with {name} {known}; this campaign states no version of it"
            )
    return tuple(differences)


#: A hash of Spack's, or an image's digest: its beginning, and the rest.
_LONG = re.compile(r"(/[a-z2-7]{7})[a-z2-7]{25}|(sha256:[0-9a-f]{12})[0-9a-f]{52}")
_CUT = r"\1\2"


def describe(build: Build) -> str:
    """A build in few words: its version, and its package with the hash cut short."""
    numbers = version.stated(build.tool, build.version)
    stated = numbers.get(build.tool, build.version)
    return ", ".join(filter(None, [stated, _LONG.sub(_CUT, build.package)]))
