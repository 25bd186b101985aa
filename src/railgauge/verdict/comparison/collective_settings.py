"""Settings of a collective that move its numbers, and are no part of a measurement's condition.

NVLS and SHARP are what NCCL's logs show; the number of warm-ups is what was asked for. A campaign
of an older Railgauge has none of them: what is not known is compared as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from railgauge.verdict.campaign.cases import Case


def of_case(case: Case) -> str | None:
    """`NVLS on, SHARP off, warm-up 5` of a collective; None where nothing says it."""
    for facts in case.facts.values():
        known = facts.get("collective")
        if isinstance(known, Mapping):
            words = [
                f"{name} {'on' if known.get(key) else 'off'}"
                for name, key in (("NVLS", "nvls"), ("SHARP", "sharp"))
            ]
            return ", ".join([*words, f"warm-up {known.get('warmup')}"])
    return None


def apart(before: pl.DataFrame, after: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both sides without the column `settings`. Where both know them for a place and condition, and
    they differ, they become part of the condition: such numbers are not compared.
    """
    unparted = before.drop("settings", strict=False), after.drop("settings", strict=False)
    if "settings" not in before.columns or "settings" not in after.columns:
        return unparted
    key = ["place", "condition"]
    known = [
        side.filter(pl.col("settings").is_not_null())
        .group_by(key)
        .agg(pl.col("settings").unique().sort().str.join(" and "))
        for side in (before, after)
    ]
    differing = (
        known[0]
        .join(known[1], on=key, suffix="_after")
        .filter(pl.col("settings") != pl.col("settings_after"))
        .select(key)
        .with_columns(apart=True)
    )
    if differing.is_empty():
        return unparted
    return _parted(before, differing), _parted(after, differing)


def _parted(side: pl.DataFrame, differing: pl.DataFrame) -> pl.DataFrame:
    suffix = pl.format(", with {}", pl.col("settings").fill_null("settings unknown"))
    is_apart = pl.col("apart").is_not_null()
    return (
        side.join(differing, on=["place", "condition"], how="left", maintain_order="left")
        .with_columns(
            pl.when(is_apart).then(pl.col(name) + suffix).otherwise(pl.col(name)).alias(name)
            for name in ("condition", "of_class")
        )
        .drop("apart", "settings")
    )
