"""What the page says outside its figures: sections of plain texts, for the template."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import re
import shlex
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from railgauge import hostlist
from railgauge.common.names import natural
from railgauge.locating import Suspect
from railgauge.model.record import BrokenRecordError
from railgauge.node.inventory.compare import by_value, shown
from railgauge.node.transport import results_file
from railgauge.report import located, numbers, transfers
from railgauge.report.numbers import Number
from railgauge.report.outputs import Outputs
from railgauge.report.page.drawing import Drawing, draw
from railgauge.terminal import clock
from railgauge.verdict.campaign import tool_builds
from railgauge.verdict.campaign.cases import Case, Outcome, read_possible
from railgauge.verdict.campaign.finding import Finding, places_of
from railgauge.verdict.decision.verdict import Verdict

#: How much the page shows; the rest is counted, and in the campaign's folder.
MOST_FINDINGS = 200
_MOST_SUSPECTS = 24
_MOST_OUTPUTS = 24
_MOST_OUTPUT_CHARACTERS = 12_000
_NO_MORE_OUTPUTS = (
    f"the page has the outputs of {_MOST_OUTPUTS} places; the command shows those here"
)

#: How many runs of a place are shown, those first that did not pass.
_MOST_RUNS = 2
MOST_LINES = 400
_MOST_REASONS = 3

#: More messages of one place than these are folded.
MOST_MESSAGES = 6

#: A table of conditions that is longer is folded, where all of it is fine.
_LONG = 12

#: Larger files of outputs are not opened for the page.
_MOST_RAW_BYTES = 32 << 20

#: Statuses of conditions that need no look.
_FINE = {"recorded", "ok", "no reference"}

#: Counters of trouble, by words in their names.
_TROUBLE = re.compile(
    r"err|drop|discard|retrans|timeout|down|symbol|out_of|pause|cnp|ecn|carrier|lost|crc|nak|"
    r"missed|overrun|collision|recover|rnr|slow_restart"
)


@dataclasses.dataclass(frozen=True)
class TableOf:
    """A table of texts; `numeric` are the columns that are numbers."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    #: rows that did not fit
    left_out: int = 0


@dataclasses.dataclass(frozen=True)
class FindingsOfPlace:
    """What is wrong at one place, each message, the numbers there, and what both sides printed."""

    weight: str
    where: str
    #: other places of the check with the same reason, where nothing speaks against the nodes
    also: tuple[str, ...]
    messages: tuple[str, ...]
    next_steps: tuple[str, ...]
    #: what to type for all that there is of it
    evidence: str
    numbers: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, str], ...]
    #: why outputs are not here
    no_outputs: str


@dataclasses.dataclass(frozen=True)
class SuspectOf:
    """What to look at first, why, and with which partners it is good and bad."""

    names: str
    state: str
    why: str
    evidence: tuple[str, ...]
    drawing: Drawing | None


def folded(nodes: Sequence[str]) -> str:
    """As a host list, n[1-4]; names that cannot stand in one side by side."""
    try:
        return hostlist.fold(list(nodes))
    except ValueError:
        return ", ".join(nodes)


def reasons(verdict: Verdict) -> list[str]:
    """What speaks against the first suspects; where there is none the first finding."""
    if verdict.suspects:
        return [
            f"{located.name(suspect)}, {_state(suspect)}: {suspect.why}."
            for suspect in verdict.suspects[:_MOST_REASONS]
        ]
    first = places_of(verdict.findings)[:1]
    return [
        f"{_where(group)}: {group[0].message}."
        for group in first
        if group[0].message != verdict.reason
    ]


def moment(time: str) -> str:
    """`2026-11-22 10:16:55 UTC` of ISO 8601."""
    at = datetime.datetime.fromisoformat(time).astimezone(datetime.timezone.utc)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def took(started: str, finished: str | None) -> str:
    """`2:53 min`, or `1:02:03 h`."""
    if finished is None:
        return "it has not ended"
    begin, end = (datetime.datetime.fromisoformat(time) for time in (started, finished))
    seconds = (end - begin).total_seconds()
    return f"{clock(seconds)} {'min' if seconds < 3600 else 'h'}"


# --- scope ---------------------------------------------------------------------------------------


def scope(verdict: Verdict) -> TableOf:
    """A line a check and partition: how many places were measured of how many there are, and what
    was not tested.
    """
    campaign = verdict.campaign
    try:
        possible = read_possible(campaign)
    except BrokenRecordError:
        possible = {}
    counts: dict[tuple[str, str], collections.Counter[str]] = {}
    for case in verdict.cases:
        if not case.of_job:
            counter = counts.setdefault((case.partition, case.check), collections.Counter())
            counter[case.outcome.value] += 1
            counter["all"] += 1
    for check, partitions in possible.items():
        for partition in partitions:
            if partition in campaign.scope.nodes:
                counts.setdefault((partition, check), collections.Counter())
    for partition, checks in campaign.scope.required.items():
        for check in checks:
            counts.setdefault((partition, check), collections.Counter())
    rows = []
    for (partition, check), counter in sorted(counts.items()):
        there_are = max(possible.get(check, {}).get(partition, 0), counter["all"])
        needed = check in campaign.scope.required.get(partition, ())
        rows.append(
            (
                partition,
                check,
                "required" if needed else "as well",
                *(str(counter[outcome.value]) for outcome in Outcome),
                str(there_are - counter["all"]) if there_are else "all",
            )
        )
    columns = ("partition", "check", "", "passed", "failed", "not measured", "not selected")
    return TableOf("Scope", columns, tuple(rows), numeric=(3, 4, 5, 6))


def power(verdict: Verdict) -> TableOf:
    """A line a condition: the smallest losses that such a campaign finds, the smallest first."""
    conditions = sorted(
        verdict.power.conditions,
        key=lambda one: (not one.decides, one.link is None, one.link or 0.0),
    )
    rows = [
        (
            one.partition,
            one.check,
            one.measured,
            str(one.places),
            str(one.runs),
            *(
                "-" if loss is None else f"{loss:.1%}"
                for loss in (one.noise, one.link, one.node, one.all)
            ),
            ", ".join(one.by),
            "-" if one.false_alarms is None else f"{one.false_alarms:.2g}",
        )
        for one in conditions
    ]
    columns = (
        *("partition", "check", "measured", "places", "runs", "noise"),
        *("loss on a place", "on a node", "on all", "by", "false alarms"),
    )
    return table("Power", columns, rows, (3, 4, 5, 6, 7, 8, 10))


# --- suspects and findings -----------------------------------------------------------------------


def suspects(verdict: Verdict) -> list[SuspectOf]:
    return [
        SuspectOf(
            located.name(suspect),
            _state(suspect),
            suspect.why,
            tuple(located.evidence(suspect)),
            _drawing(suspect, verdict.cases),
        )
        for suspect in verdict.suspects[:_MOST_SUSPECTS]
    ]


def _state(suspect: Suspect) -> str:
    return "confirmed" if suspect.confirmed else "not confirmed"


def _drawing(suspect: Suspect, cases: Sequence[Case]) -> Drawing | None:
    """Its node with all partners; of a pair the first one, where it shows the pair."""
    if suspect.kind in ("leaf", "uplink"):
        return None
    drawing = draw(suspect.nodes[0], cases)
    if suspect.kind != "pair" or drawing is None:
        return drawing
    shows = any(line.bad and line.partner in suspect.nodes for line in drawing.lines)
    return drawing if shows else None


def findings(verdict: Verdict, measured: Sequence[Number]) -> list[FindingsOfPlace]:
    """The findings by weight, then in the verdict's order; no more than `MOST_FINDINGS` places."""

    groups = places_of(verdict.findings)
    by_place: dict[tuple[str, str, str], list[Case]] = {}
    for case in verdict.cases:
        by_place.setdefault((case.check, case.partition, case.place), []).append(case)
    by_case: dict[int, list[Number]] = {}
    for one in measured:
        by_case.setdefault(id(one.case), []).append(one)
    budget, recorded = _MOST_OUTPUTS, Outputs()
    described = []
    for group, also in _alike(groups)[:MOST_FINDINGS]:
        first = group[0]
        cases = by_place.get((first.check, first.partition, first.place), ())
        if not first.place:
            cases = [case for case in cases if set(first.nodes) & set(case.nodes)][:1]
        outputs, why = _outputs(cases, recorded) if budget else ([], _NO_MORE_OUTPUTS)
        budget -= bool(outputs)
        described.append(_of_place(verdict, group, also, cases, by_case, outputs, why))
    return described


def left_out(verdict: Verdict) -> int:
    """Places with findings that `findings` has no room for."""
    alike = _alike(places_of(verdict.findings))[MOST_FINDINGS:]
    return len(alike) + sum(len(also) for _, also in alike)


_Group = tuple[Finding, ...]


def _alike(groups: Sequence[_Group]) -> list[tuple[_Group, tuple[str, ...]]]:
    """The groups, each with the other places that have the same messages. What rejects is not
    grouped.
    """
    first: dict[Hashable, tuple[_Group, list[str]]] = {}
    for number, group in enumerate(groups):
        one = group[0]
        messages = tuple(dict.fromkeys((finding.message, finding.next_step) for finding in group))
        alone = number if one.weight == "reject" or not one.place else None
        key = alone, one.weight, one.check, one.partition, messages
        if key in first:
            first[key][1].append(one.place)
        else:
            first[key] = group, []
    return [(group, tuple(also)) for group, also in first.values()]


def _where(group: Sequence[Finding]) -> str:
    """Check, partition and place, as a heading."""
    first = group[0]
    nodes = list(dict.fromkeys(node for finding in group for node in finding.nodes))
    where = [first.check, first.partition, first.place or folded(nodes) if nodes else ""]
    return " ".join(filter(None, where)) or "the campaign"


def _of_place(
    verdict: Verdict,
    group: Sequence[Finding],
    also: tuple[str, ...],
    cases: Sequence[Case],
    by_case: Mapping[int, Sequence[Number]],
    outputs: Sequence[tuple[str, str]],
    why: str,
) -> FindingsOfPlace:
    first = group[0]
    campaign = verdict.campaign.id
    evidence = (
        f"railgauge show {campaign} {shlex.quote(first.place)} --check {first.check}"
        if first.place
        else f"ls {shlex.quote(first.evidence)}"
        if first.evidence
        else ""
    )
    measured = [one for case in cases for one in by_case.get(id(case), ())]
    return FindingsOfPlace(
        first.weight,
        _where(group),
        also,
        tuple(dict.fromkeys(f"{finding.message} [{finding.kind}]" for finding in group)),
        tuple(dict.fromkeys(f.next_step for f in group if f.next_step)),
        evidence,
        tuple(number_row(one)[2:] for one in measured[:MOST_LINES]),
        tuple(outputs),
        why,
    )


def number_row(one: Number) -> tuple[str, ...]:
    """Check, place, and what was measured, its number, reference, limit and status."""
    limit = one.row.limit
    return (
        one.case.check,
        numbers.location(one),
        numbers.measured(one.row.measurement),
        numbers.quantity(one.row.measurement),
        numbers.reference_of(one.row),
        f"{numbers.number(limit.value)} {limit.unit}: {limit.reason}" if limit else "-",
        numbers.share_of_limit(one.row),
        one.words,
    )


def _outputs(cases: Sequence[Case], recorded: Outputs) -> tuple[list[tuple[str, str]], str]:
    """What both sides printed, shortened in the middle; or why it is not here."""
    shown = []
    chosen = sorted(cases, key=lambda case: case.outcome is Outcome.PASSED)[:_MOST_RUNS]
    several = len({case.run for case in chosen}) > 1
    for case in chosen:
        run = f", run {case.run + 1}" if several else ""
        try:
            if case.folder and (case.folder / results_file.FILE).exists():
                size = (case.folder / results_file.FILE).stat().st_size
                if size > _MOST_RAW_BYTES:
                    return [], f"{size >> 20} MiB of outputs are too large for a page"
            outputs = recorded.of(case)
            shown += [(f"{of}{run}", shortened(text)) for of, text in outputs if text.strip()]
        except (OSError, ValueError) as error:
            return [], f"outputs cannot be read: {error}"
    return shown, ""


def shortened(text: str) -> str:
    """Begin and end of a long output."""
    over = len(text) - _MOST_OUTPUT_CHARACTERS
    if over <= 0:
        return text
    half = _MOST_OUTPUT_CHARACTERS // 2
    return f"{text[:half]}\n... {over} characters left out ...\n{text[-half:]}"


# --- the rest ------------------------------------------------------------------------------------


def summary(measured: Sequence[Number], limit: int = 2000) -> dict[str, TableOf]:
    """Check -> a line a condition, with its worst place and its median; what is not fine first."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for line in numbers.conditions(measured):
        share = numbers.share_of_limit(line.worst.row)
        tables.setdefault(line.worst.case.check, []).append(
            (
                line.worst.case.partition,
                numbers.measured(line.worst.row.measurement),
                str(line.places),
                numbers.quantity(line.worst.row.measurement),
                numbers.worst_at(line.worst),
                line.median,
                numbers.reference_of(line.worst.row),
                share,
                line.status,
            )
        )
    columns = (
        *("partition", "measured", "places", "worst", "at", "median"),
        *("reference", "of limit", "verdict"),
    )
    return {
        check: TableOf(
            check,
            columns,
            tuple(sorted(rows, key=lambda row: row[-1] in _FINE)[:limit]),
            numeric=(2, 3, 5, 7),
            left_out=max(len(rows) - limit, 0),
        )
        for check, rows in tables.items()
    }


def can_be_folded(conditions: TableOf) -> bool:
    """Long, and nothing in it that a reader has to see."""
    return len(conditions.rows) > _LONG and {row[-1] for row in conditions.rows} <= _FINE


def counters(cases: Sequence[Case]) -> TableOf:
    """Counters of trouble that moved while something was measured: a line a node and counter."""
    total: collections.Counter[tuple[str, str]] = collections.Counter()
    most: dict[tuple[str, str], tuple[int, str]] = {}
    for case in cases:
        for node, facts in case.facts.items():
            counted = facts.get("counters")
            moved = counted.get("counters") if isinstance(counted, Mapping) else None
            for name, value in moved.items() if isinstance(moved, Mapping) else ():
                if isinstance(value, int) and value and _TROUBLE.search(str(name)):
                    key = node, str(name)
                    total[key] += value
                    most[key] = max(most.get(key, (0, "")), (value, f"{case.check} {case.place}"))
    rows = [
        (node, name, str(count), str(most[node, name][0]), most[node, name][1])
        for (node, name), count in total.most_common()
    ]
    columns = ("node", "counter", "events", "most at once", "there")
    return table("Counters that moved", columns, rows, (2, 3))


def drift(verdict: Verdict) -> TableOf:
    """Fields of firmware and tuning in which nodes of a partition differ, and nodes that are not
    as they were accepted: a line a field and value, the most common first.
    """
    values: dict[tuple[str, str], dict[str, str]] = {}
    for case in verdict.cases:
        for node, facts in case.facts.items():
            agreed = facts.get("agreed")
            fields = agreed.get("fields") if isinstance(agreed, Mapping) else None
            for field, value in fields.items() if isinstance(fields, Mapping) else ():
                if value is not None:
                    values.setdefault((case.partition, str(field)), {})[node] = shown(value)
    rows = []
    for (partition, field), of_nodes in sorted(values.items(), key=lambda i: natural(i[0][1])):
        sides = by_value(of_nodes)
        if len(sides) > 1:
            rows += [
                (partition, field, of_nodes[side[0]], str(len(side)), folded(side))
                for side in sides
            ]
    accepted = verdict.campaign.scope.accepted
    for node, now in sorted(verdict.campaign.fingerprints.items()):
        if node in accepted and accepted[node] != now:
            rows.append(
                ("", "fingerprint", f"{now}, was accepted with {accepted[node]}", "1", node)
            )
    columns = ("partition", "field", "value", "nodes", "which")
    return table("Inventory drift", columns, rows, (3,))


def transfer_tables(verdict: Verdict) -> list[TableOf]:
    """The tools that moved files, next to each other, and what documents state."""
    tables = []
    for comparison in transfers.compare(verdict.cases):
        columns = tuple(str(column).replace("\n", ", ") for column in comparison.columns)
        rows = [
            (
                tool,
                *(transfers.cell_text(comparison, tool, c) for c in comparison.columns),
                transfers.remark(comparison, tool),
            )
            for tool in comparison.tools
        ]
        columns = ("tool", *columns, "remark")
        tables.append(table(f"Transfers, {comparison.partition}", columns, rows))
    if tables and (stated := transfers.stated_rows(transfers.stated(verdict))):
        tables.append(table("As stated elsewhere", ("ratio", "here", "stated", "of"), stated))
    return tables


def not_run(verdict: Verdict) -> TableOf:
    """What came to no result of its own, and why: a line a check and reason."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for case in verdict.cases:
        if case.outcome is not Outcome.UNMEASURED:
            continue
        why, step = case.reason or case.damage or case.result, ""
        if case.left_out is not None:
            why, step = f"left out: {case.left_out.message}", case.left_out.next_step
        elif case.failures:
            why, step = case.failures[0].message, case.failures[0].next_step
        key = case.partition, case.check, why, step
        groups.setdefault(key, []).append(case.place or folded(case.nodes))
    rows = [
        (
            *key[:2],
            str(len(places)),
            ", ".join(places[:6]) + (f" and {len(places) - 6} more" if len(places) > 6 else ""),
            *key[2:],
        )
        for key, places in groups.items()
    ]
    for what, why in verdict.campaign.scope.absent.items():
        rows.append(("", "declared absent", "1", what, why, ""))
    columns = ("partition", "check", "places", "which", "why", "next")
    return table("What did not run, and why", columns, rows, (2,))


def tools(verdict: Verdict) -> TableOf:
    rows = [
        (build.tool, tool_builds.describe(build), build.path, folded(build.nodes))
        for build in verdict.tools
    ]
    return table("Tools", ("tool", "build", "path", "nodes"), rows)


def sessions(verdict: Verdict) -> TableOf:
    names = ("started", "host", "user", "commit", "railgauge", "references")
    rows = [
        (
            *(str(context.get(name, "unknown")) for name in names),
            shlex.join(str(word) for word in context.get("command", ())),
        )
        for context in verdict.campaign.contexts
    ]
    return table("Sessions", (*names, "command"), rows)


def references(measured: Sequence[Number]) -> TableOf:
    """The sources of the references that were compared with."""
    counts: collections.Counter[tuple[str, ...]] = collections.Counter()
    for one in measured:
        reference = one.row.reference
        if reference is not None:
            source = reference.provenance
            counts[reference.kind, source.source, str(source.date), reference.note] += 1
    rows = [(*key, str(count)) for key, count in counts.most_common()]
    columns = ("kind", "source", "date", "note", "numbers")
    return table("References", columns, rows, (4,))


def fingerprints(verdict: Verdict) -> TableOf:
    groups: dict[str, list[str]] = {}
    for node, fingerprint in verdict.campaign.fingerprints.items():
        groups.setdefault(fingerprint, []).append(node)
    rows = [(f, str(len(nodes)), folded(nodes)) for f, nodes in groups.items()]
    return table("Fingerprints", ("fingerprint", "nodes", "which"), rows, (1,))


def table(
    name: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], numeric: Any = ()
) -> TableOf:
    """A table, cut to the rows that the page shows."""
    texts = tuple(tuple(str(cell) for cell in row) for row in rows[:MOST_LINES])
    return TableOf(name, columns, texts, tuple(numeric), max(len(rows) - MOST_LINES, 0))
