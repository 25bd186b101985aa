"""All measurements of a verdict as a table, CSV or Parquet: a row a number, with its condition."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from railgauge.common.atomic import write_bytes
from railgauge.report import numbers
from railgauge.report.visible import clean
from railgauge.verdict.decision.verdict import Verdict

#: Column -> its type.
COLUMNS: dict[str, type] = {
    **dict.fromkeys(("campaign", "system"), str),
    "simulated": bool,
    **dict.fromkeys(("started", "partition", "check", "place", "nodes", "rails", "nics"), str),
    **dict.fromkeys(("run", "session"), int),
    **dict.fromkeys(("tool", "operation", "transport"), str),
    **dict.fromkeys(("size_bytes", "streams", "ranks", "samples", "warmup", "window_bytes"), int),
    "congestion": str,
    "delay_ms": float,
    "metric": str,
    "value": float,
    "unit": str,
    "status": str,
    **dict.fromkeys(("gates", "passed"), bool),
    "reference": str,
    **dict.fromkeys(("lowest", "highest", "limit", "share_of_limit"), float),
    "limit_reason": str,
}


def rows(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """A row a number, in the order of the records; of texts what cannot be seen is its code."""
    campaign = verdict.campaign
    for one in numbers.collect(verdict, all_numbers=True):
        m, reference, limit = one.row.measurement, one.row.reference, one.row.limit
        row = {
            **m.as_dict(),
            "campaign": campaign.id,
            "system": campaign.system,
            "simulated": verdict.simulated,
            "started": campaign.started,
            "partition": one.case.partition,
            "check": one.case.check,
            "place": one.case.place,
            "nodes": " ".join(m.nodes),
            "run": one.case.run,
            "session": one.case.session,
            "status": one.status,
            "gates": one.row.gates,
            "passed": one.case.passed,
            "reference": reference.kind if reference else None,
            "lowest": reference.lowest if reference else None,
            "highest": reference.highest if reference else None,
            "limit": limit.value if limit else None,
            "share_of_limit": one.row.share_of_limit,
            "limit_reason": limit.reason if limit else None,
        }
        yield {n: clean(row[n]) if isinstance(row[n], str) else row[n] for n in COLUMNS}


def as_csv(verdict: Verdict) -> str:
    """With a head; what is not known is empty, true and false are words."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows(verdict):
        writer.writerow([_cell(value) for value in row.values()])
    return stream.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    # A spreadsheet takes such a text for a formula.
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@")):
        return f"'{value}"
    return value


def write_parquet(verdict: Verdict, path: Path) -> None:
    """At `path`, whole or not at all."""
    # Polars takes a tenth of a second to load.
    import polars

    types = {str: polars.String, bool: polars.Boolean, int: polars.Int64, float: polars.Float64}
    schema = {name: types[kind] for name, kind in COLUMNS.items()}
    frame = polars.DataFrame(list(rows(verdict)), schema=schema)
    stream = io.BytesIO()
    frame.write_parquet(stream, compression="zstd")
    write_bytes(path, stream.getvalue())
