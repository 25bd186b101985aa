"""Bounds of a tool's options: ValueError names the tool, the option, its value, what is allowed."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection

from railgauge.model.measurement import CONGESTION_CONTROL


def require_integers(tool: str, options: object, /, **bounds: tuple[int, int | None]) -> None:
    """Each named field is an integer of least to most (None: no most), or None by default."""
    optional = {field.name for field in dataclasses.fields(options) if field.default is None}  # type: ignore[arg-type]
    for name, (least, most) in bounds.items():
        value = getattr(options, name)
        if value is None and name in optional:
            continue
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or not least <= value <= (value if most is None else most)
        ):
            expected = f"{least} or more" if most is None else f"{least} to {most}"
            raise ValueError(f"{tool} {name} is {value!r}, expected an integer of {expected}")


def require_seconds(tool: str, name: str, value: float | None, least: float = 0) -> None:
    """A finite time of `least` or more, or None."""
    if value is not None and not (math.isfinite(value) and value >= least):
        raise ValueError(f"{tool} {name} is {value!r}, expected {least} or more")


def require_one_of(tool: str, options: object, /, **known: Collection[object]) -> None:
    """Each named field is one of the known values."""
    for name, values in known.items():
        value = getattr(options, name)
        if (type(value), value) not in [(type(one), one) for one in values]:
            expected = ", ".join(map(str, values))
            raise ValueError(f"{tool} {name} is {value!r}, expected one of {expected}")


def require_congestion(tool: str, name: str | None) -> None:
    """The name of a congestion control, or None."""
    if name is not None and not re.fullmatch(CONGESTION_CONTROL, name):
        raise ValueError(f"{tool} congestion is {name!r}, expected a name such as cubic")
