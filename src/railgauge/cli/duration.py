"""How long something may take, as people type it."""

from __future__ import annotations

import re

import click


class Duration(click.ParamType[float]):
    """`20m`, `90s`, `2h`: seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        matched = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh])", str(value))
        if matched is None or float(matched[1]) <= 0:
            self.fail(f"{value!r}, expected a number with s, m or h behind it: 20m", param, ctx)
        return float(matched[1]) * {"s": 1, "m": 60, "h": 3600}[matched[2]]
