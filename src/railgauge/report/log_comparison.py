"""Before and after of logs: a line a place, then what was not compared, and the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from railgauge.common.names import counted
from railgauge.model.sizes import format_size
from railgauge.report.visible import clean
from railgauge.verdict.comparison.link_changes import Word
from railgauge.verdict.logs.before_after import Comparison, Pair, Row

_SHOWN: dict[Word, str] = {
    "same": "same",
    "better": "better",
    "unknown": "cannot tell",
    "worse": "worse",
}
#: One run a side shows no noise; so many more do.
_RUNS_FOR_NOISE = 2


def lines(compared: Comparison) -> Iterator[str]:
    """All of it; the places that got worse stand last, next to the answer."""
    order = list(_SHOWN)
    for pair in sorted(compared.pairs, key=lambda pair: order.index(pair.word)):
        yield _pair(pair, compared.margin)
    yield from _notes(compared.pairs)
    for one in compared.different:
        places = f" ({counted(one.pairs, 'place')})" if len(compared.pairs) > 1 else ""
        yield f"different: {one.what}: {clean(one.before)} before, {clean(one.after)} after{places}"
    for missing in compared.missing:
        yield (
            f"missing {missing.side}: {clean(missing.place)}  {clean(missing.condition)}: "
            f"{clean(missing.reason)}"
        )
    for left_out in compared.left_out:
        yield f"left out {left_out.side}: {clean(left_out.name)}: {clean(left_out.reason)}"
    for shift in compared.shifts:
        if shift["verdict"] in ("worse", "better"):
            low, high = shift["interval"]
            yield (
                f"{shift['verdict']}: all {shift['places']} places of {clean(shift['class'])} "
                f"together: {shift['change']:+.1%} ({low:+.1%} to {high:+.1%})"
            )
    if any(pair.main.assumed and not pair.main.why for pair in compared.pairs):
        yield _assumed(compared)
    by = Counter(pair.match.by for pair in compared.pairs)
    named = [f"{one} ({counted(count, 'place')})" for one, count in by.items()]
    yield f"paired by: {', '.join(by if len(by) == 1 else named)}"
    yield f"{_SHOWN[compared.word].upper()}: {_answer(compared)}"


def _pair(pair: Pair, margin: float) -> str:
    row = pair.main
    values = f"{row.before:.4g} to {row.after:.4g} {pair.series.unit}"
    others = [other for other in pair.rows if other is not row]
    return "  ".join(
        filter(
            None,
            (
                clean(pair.match.place),
                pair.series.run.tool,
                clean(pair.condition(row)),
                values,
                f"{row.total:+.1%}",
                _word(pair, row, margin),
                _of_other_sizes(pair, others),
            ),
        )
    )


def _word(pair: Pair, row: Row, margin: float) -> str:
    """Whether the change is beyond the noise, by how many runs, and how many more are needed."""
    before, after = row.runs
    runs = counted(before, "run") + " a side" if before == after else f"{before} and {after} runs"
    if row.why:
        return f"not judged, {runs}"
    if row.word in ("worse", "better"):
        return f"{row.word}: beyond the noise, {runs}"
    if row.word == "same" and pair.shift in ("worse", "better"):
        return f"as all others, which are {pair.shift}, {runs}"
    if row.word == "same":
        return f"same, {runs}"
    if row.low is not None and row.high is not None and row.low * row.high > 0:
        least = f"{margin:.1%}"
        return (
            f"cannot tell: beyond the noise, but not surely more than {least}, {runs}, {_more(row)}"
        )
    return f"cannot tell: within the noise, {runs}, {_more(row)}"


def _more(row: Row) -> str:
    needed = row.runs_needed
    if row.assumed:
        more = _RUNS_FOR_NOISE if needed is None else min(needed, _RUNS_FOR_NOISE)
        return f"{more} more a side would show the noise"
    if needed is None:
        return "no number of runs would decide"
    return f"{needed} more a side would decide"


def _of_other_sizes(pair: Pair, others: Sequence[Row]) -> str:
    judged = [row for row in others if not row.why]
    if not judged:
        return ""
    counts = Counter(row.word for row in judged)
    changes = [row.total for row in judged]
    summary = ", ".join(f"{counts[word]} {shown}" for word, shown in _SHOWN.items() if counts[word])
    of_all = f"({min(changes):+.1%} to {max(changes):+.1%})"
    if len(counts) == 1 and len(judged) > 1:
        summary = f"all {_SHOWN[judged[0].word]}"
    text = f"{counted(len(judged), 'other size')}: {summary} {of_all}"
    worse = sorted((row for row in judged if row.word == "worse"), key=lambda row: row.total)
    if worse and pair.main.word != "worse":
        worst = worse[-1 if pair.less_is_better else 0]
        size = "" if worst.size_bytes is None else f" at {format_size(worst.size_bytes)}"
        text += f", worse{size}: {worst.before:.4g} to {worst.after:.4g} {pair.series.unit}"
    return text


def _notes(pairs: Sequence[Pair]) -> Iterator[str]:
    places: dict[str, list[str]] = {}
    for pair in pairs:
        for note in pair.notes:
            places.setdefault(note, []).append(pair.match.place)
    for note, of in places.items():
        where = of[0] if len(of) == 1 else f"{of[0]} and {len(of) - 1} more"
        yield f"note: {clean(where)}: {clean(note)}"


def _assumed(compared: Comparison) -> str:
    finds = [pair.main.finds for pair in compared.pairs if pair.main.assumed and pair.main.finds]
    text = (
        f"noise: one run a side shows none, so equal runs are taken to differ by "
        f"{compared.noise:.1%} (--noise)"
    )
    return f"{text}; a loss of {max(finds):.0%} or more would be found" if finds else text


def _answer(compared: Comparison) -> str:
    counts = Counter(pair.word for pair in compared.pairs)
    summary = ", ".join(f"{counts[word]} {shown}" for word, shown in _SHOWN.items() if counts[word])
    text = (
        f"{summary} of {counted(len(compared.pairs), 'place')} under a condition, against a change "
        f"of {compared.margin:.1%}"
    )
    lacking = len(compared.missing)
    refused = sum(one.is_run for one in compared.left_out)
    parts = [
        text,
        f"{lacking} on one side only" if lacking else "",
        f"{counted(refused, 'run')} without a valid result" if refused else "",
        "SIMULATED: nothing follows for any node" if compared.simulated else "",
    ]
    return "; ".join(filter(None, parts))
