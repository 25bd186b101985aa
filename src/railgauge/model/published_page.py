"""The published numbers as a document: docs/numbers.md, which `make docs` writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from railgauge.model import published
from railgauge.model.published import Published

_HEADINGS: dict[published.Kind, str] = {
    "normal": "Of good hardware:",
    "fault": "Of known faults:",
    "gate": "What a site requires at least:",
}
_IN_PLACE = "_in_place"


def page() -> str:
    """A section for each system."""
    library = published.load()
    return "\n".join(
        f"## {system.title}\n\n`{name}` in commands and options.\n\n"
        + "\n".join(_tables([number for number in library.numbers if number.of.system == name]))
        for name, system in library.systems.items()
    )


def _tables(numbers: Sequence[Published]) -> Iterator[str]:
    for kind, heading in _HEADINGS.items():
        of_kind = [number for number in numbers if number.of.kind == kind]
        if not of_kind:
            continue
        yield f"{heading}\n"
        yield "| tool, operation | scale | fabric and conditions | numbers | source |"
        yield "|---|---|---|---|---|"
        for _, run in itertools.groupby(of_kind, lambda number: id(number.of)):
            yield _row(list(run))
        yield ""


def _row(run: Sequence[Published]) -> str:
    first = run[0]
    of, publication = first.of, first.publication
    conditions = (of.fabric, of.conditions.words, f"cause: {of.cause}" if of.cause else None)
    excerpt = ", an excerpt" if publication.read == "excerpt" else ""
    cells = (
        f"{of.tool}, {of.operation or 'operation not stated'}",
        first.scale,
        ", ".join(filter(None, conditions)),
        _values(run),
        f"[{publication.title}]({publication.url}){excerpt}",
    )
    return "|" + "|".join(f" {cell.replace('|', chr(92) + '|')} " for cell in cells) + "|"


def _values(run: Sequence[Published]) -> str:
    """`busbw GB/s: 1 GiB 365.9 (361.28), 2 GiB 380.73`; in place in brackets."""
    by_metric: dict[str, dict[str, str]] = {}
    for number in run:
        sizes = by_metric.setdefault(number.metric, {})
        sizes[number.size] = f"{number.value:.6g}"
    parts = []
    for metric, sizes in by_metric.items():
        if metric.endswith(_IN_PLACE) and metric.removesuffix(_IN_PLACE) in by_metric:
            continue
        in_place = by_metric.get(metric + _IN_PLACE, {})
        values = (
            " ".join(filter(None, (size, value, f"({in_place[size]})" if size in in_place else "")))
            for size, value in sizes.items()
        )
        unit = next(number.unit for number in run if number.metric == metric)
        parts.append(f"{metric} {unit}: {', '.join(values)}")
    return "; ".join(parts)
