"""The published numbers as a document: docs/numbers.md, which `make docs` writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from railgauge.model import published
from railgauge.model.measurement import METRICS
from railgauge.model.published import Published

_HEADINGS: dict[published.Kind, str] = {
    "normal": "Of good hardware:",
    "fault": "Of known faults:",
    "gate": "What a site requires at least:",
}
_IN_PLACE = "_in_place"


def page() -> str:
    """What good hardware reaches, in short, and a section for each system."""
    library = published.load()
    sections = (
        f"## {system.title}\n\n`{name}` in commands and options.\n\n"
        + "\n".join(_tables([number for number in library.numbers if number.of.system == name]))
        for name, system in library.systems.items()
    )
    return "\n".join(["\n".join(_in_short(library)), *sections])


def _in_short(library: published.Library) -> Iterator[str]:
    """A row for each operation, system and scale: rates of the largest message, times of the
    smallest one.
    """
    yield "## In short\n"
    yield (
        "Good hardware: rates at the largest published size, latencies at the smallest. A range is "
        "over fabrics, versions and conditions. The system's section lists them.\n"
    )
    yield "| tool, operation | system | scale | size | numbers |"
    yield "|---|---|---|---|---|"
    stated = [
        number
        for number in library.numbers
        if number.of.kind == "normal"
        and number.of.operation is not None
        and number.metric.removesuffix(_IN_PLACE) not in set(number.of.values) - {number.metric}
    ]
    for _, same in itertools.groupby(sorted(stated, key=_subject), key=_subject):
        numbers = list(same)
        choose = max if METRICS[numbers[0].metric].better == "more" else min
        size = choose(number.size_bytes or 0 for number in numbers)
        of_size = [number for number in numbers if (number.size_bytes or 0) == size]
        first, values = of_size[0], [number.value for number in of_size]
        least, most = f"{min(values):.6g}", f"{max(values):.6g}"
        shown = least if least == most else f"{least} to {most}"
        yield _joined(
            f"{first.of.tool}, {first.of.operation}",
            first.of.system,
            first.scale,
            first.size,
            f"{first.metric} {shown} {first.unit}",
        )
    yield ""


def _subject(number: Published) -> tuple[str, str, str, int, int, str]:
    """In place and out of place are of one row of a table, and of two subjects."""
    of = number.of
    scale = (of.nodes or 0, of.gpus_per_node or 0)
    return (of.tool, of.operation or "", of.system, *scale, number.metric)


def _tables(numbers: Sequence[Published]) -> Iterator[str]:
    for kind, heading in _HEADINGS.items():
        of_kind = [number for number in numbers if number.of.kind == kind]
        if not of_kind:
            continue
        yield f"{heading}\n"
        yield "| tool, operation | scale | fabric and conditions | numbers | source |"
        yield "|---|---|---|---|---|"
        runs = [list(run) for _, run in itertools.groupby(of_kind, lambda number: id(number.of))]
        for run in sorted(runs, key=lambda run: _subject(run[0])):
            yield _row(run)
        yield ""


def _row(run: Sequence[Published]) -> str:
    first = run[0]
    of, publication = first.of, first.publication
    conditions = (of.fabric, of.conditions.words, f"cause: {of.cause}" if of.cause else None)
    excerpt = ", an excerpt" if publication.read == "excerpt" else ""
    return _joined(
        f"{of.tool}, {of.operation or 'operation not stated'}",
        first.scale,
        ", ".join(filter(None, conditions)),
        _values(run),
        f"[{publication.title}]({publication.url}){excerpt}",
    )


def _joined(*cells: str) -> str:
    return "|" + "|".join(f" {cell.replace('|', chr(92) + '|')} " for cell in cells) + "|"


def _values(run: Sequence[Published]) -> str:
    """`busbw GB/s: 1 GiB 365.9 (361.28), 2 GiB 380.73`; in place in brackets."""
    by_metric: dict[str, dict[str, str]] = {}
    for number in run:
        sizes = by_metric.setdefault(number.metric, {})
        sizes[number.size] = f"{number.value:.6g}"
    parts = []
    for metric, sizes in by_metric.items():
        if metric.removesuffix(_IN_PLACE) != metric and metric.removesuffix(_IN_PLACE) in by_metric:
            continue
        in_place = by_metric.get(metric + _IN_PLACE, {})
        values = (
            " ".join(filter(None, (size, value, f"({in_place[size]})" if size in in_place else "")))
            for size, value in sizes.items()
        )
        unit = next(number.unit for number in run if number.metric == metric)
        parts.append(f"{metric} {unit}: {', '.join(values)}")
    return "; ".join(parts)
