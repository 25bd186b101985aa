"""A place in a terminal: its calls, numbers, failures, facts, counters, outputs."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railgauge.model.record import Row
from railgauge.report import numbers
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.decision.verdict import row_as_dict

#: Width of lines of facts.
_WIDTH = 118

#: Facts that are shown in another way, or not at all.
_ELSEWHERE = ("counters", "clock", "boot_id", "unknown")


def lines(case: Case, outputs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """All of it; `outputs` are (source, what was printed)."""
    run = f", run {case.run}" if case.run else ""
    session = f", session {case.session}" if case.session > 1 else ""
    where = case.place or " ".join(case.nodes)
    yield f"=== {case.check} {case.partition} {where}: {case.result}{run}{session}"
    # ReFrame's reason is of all places of the case: this one's own failures say more.
    for why in filter(None, ["" if case.failures else case.reason, case.damage]):
        yield f"  {why}"
    for call in case.calls:
        ended = "no exit code" if call.exit_code is None else f"exit code {call.exit_code}"
        of_call = [call.tool, f"{call.role} on {call.host}", ended, f"{call.seconds:.2f} s"]
        of_call += filter(None, [call.version, call.path, call.package, call.note])
        yield f"  {', '.join(of_call)}"
    yield from _section("numbers", [_row(case, row) for row in case.rows])
    yield from _section("failures", list(_failures(case)))
    yield from _section("notes", (*case.notes, *case.notes_of_job))
    for node, facts in case.facts.items():
        yield from _section(f"facts of {node}", list(_facts(facts)))
    yield from _section("counters that moved", list(_counters(case.facts)))
    if case.folder:
        yield f"all of it: {case.folder}"
    for source, content in outputs:
        yield f"--- {source}{'' if content else ': nothing'}"
        if content:
            yield content.rstrip("\n")
    yield ""


def as_dict(case: Case, outputs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The same as a document (docs/schema/show.json)."""
    left = [case.left_out] if case.left_out else []
    return {
        "check": case.check,
        "partition": case.partition,
        "place": case.place,
        "nodes": list(case.nodes),
        "run": case.run,
        "session": case.session,
        "result": case.result,
        "reason": case.reason or case.damage,
        "passed": case.passed,
        "folder": str(case.folder) if case.folder else None,
        "calls": [dataclasses.asdict(call) for call in case.calls],
        "measurements": [row_as_dict(case, row) for row in case.rows],
        "failures": [
            {**dataclasses.asdict(failure), "nodes": list(failure.nodes)}
            for failure in [*case.failures, *left]
        ],
        "notes": [*case.notes, *case.notes_of_job],
        "facts": {node: dict(facts) for node, facts in case.facts.items()},
        "outputs": [{"of": source, "text": text} for source, text in outputs],
    }


def _section(title: str, content: Sequence[str]) -> Iterator[str]:
    if content:
        yield f"{title}:"
        yield from (f"  {line}" for line in content)


def _row(case: Case, row: Row) -> str:
    m = row.measurement
    value = f"{numbers.metric(m)} {numbers.quantity(m)}"
    if row.reference is None:
        return value if not row.gates else f"{value}: no reference"
    share = row.share_of_limit
    of_limit = f", {share:.1%} of the limit" if share is not None else ""
    expected = f"expected {numbers.reference_of(row)}"
    return f"{value}, {expected}{of_limit}: {numbers.status(case, row)}"


def _failures(case: Case) -> Iterator[str]:
    for failure in [*case.failures, *([case.left_out] if case.left_out else [])]:
        yield f"{failure.kind}: {failure.message}"
        if failure.next_step:
            yield f"  next: {failure.next_step}"


def _facts(facts: Mapping[str, Any]) -> Iterator[str]:
    """Plain values together, entries and lists of them a line each; what is deeper by its name."""
    yield from _wrapped(_plain(facts))
    deeper = []
    for name, value in facts.items():
        entries = value if isinstance(value, list) else [value]
        if name in _ELSEWHERE or not value or not all(isinstance(e, Mapping) for e in entries):
            continue
        if any(isinstance(inner, Mapping) for entry in entries for inner in entry.values()):
            deeper.append(name)
        else:
            for entry in entries:
                yield from _wrapped(f"{name}: {_plain(entry)}")
    if deeper:
        yield f"and {', '.join(deeper)} in the record"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _plain(facts: Mapping[str, Any]) -> str:
    values = {
        name: " ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in facts.items()
        if name not in _ELSEWHERE and _is_plain(value)
    }
    return ", ".join(f"{name} {value}" for name, value in values.items() if value != "")


def _is_plain(value: object) -> bool:
    """A value, or a list of values."""
    if isinstance(value, list):
        return not any(isinstance(one, (Mapping, list)) for one in value)
    return isinstance(value, (str, int, float))


def _counters(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A line for each counter, a column for each node."""
    counted = {
        node: recorded["counters"].get("counters", {})
        for node, recorded in facts.items()
        if isinstance(recorded.get("counters"), Mapping)
    }
    names = sorted({name for of_node in counted.values() for name in of_node if of_node[name]})
    if not names:
        return
    width = max(map(len, names))
    columns = {node: max(len(node), 14) for node in counted}
    yield " ".join([" " * width, *(f"{node:>{columns[node]}}" for node in counted)])
    for name in names:
        values = [f"{of_node.get(name, 0)!s:>{columns[n]}}" for n, of_node in counted.items()]
        yield " ".join([f"{name:<{width}}", *values])
