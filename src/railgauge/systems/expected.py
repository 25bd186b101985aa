"""What the nodes of a system must show: `configs/systems/<system>/expected.yaml`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated

import pydantic

from railgauge import paths
from railgauge.node.inventory.compare import same, shown
from railgauge.node.inventory.sheet import Scalar
from railgauge.systems import Expression
from railgauge.yamlfile import Strict, load_model

Text = Annotated[str, pydantic.Field(min_length=1)]


class Expectation(Strict):
    """Fields of the inventory, the values that they may have, and how to fix another one.

    `fields` is a regular expression for whole keys; on a node where none matches, the entry fails,
    unless `where_present`. One of `is`, `one_of` and `min` says what is right. In `fix` stands
    {device} for the second part of a key: eth0 of net/eth0/mtu_bytes.
    """

    RENAMED = {"mend": "fix", "least": "min"}

    fields: Expression
    exactly: str | int | float | bool | None = pydantic.Field(default=None, alias="is")
    one_of: list[str | int | float | bool] | None = pydantic.Field(default=None, min_length=1)
    min: float | None = pydantic.Field(default=None, allow_inf_nan=False)
    why: Text
    fix: Text
    partition: str | None = None
    where_present: bool = False

    @pydantic.model_validator(mode="after")
    def _says_what_is_right(self) -> Expectation:
        if sum(rule is not None for rule in (self.exactly, self.one_of, self.min)) != 1:
            raise ValueError("give one of is, one_of and min")
        return self

    def admits(self, value: Scalar) -> bool:
        if self.min is not None:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return number and float(value) >= self.min
        wanted = [self.exactly] if self.exactly is not None else self.one_of or []
        return any(same(value, right) for right in wanted)

    @property
    def right(self) -> str:
        """What is right, in words."""
        if self.min is not None:
            return f"at least {self.min:g}"
        wanted = [self.exactly] if self.exactly is not None else self.one_of or []
        return " or ".join(shown(value) for value in wanted)

    def fix_for(self, key: str) -> str:
        """The command for one field."""
        parts = key.split("/")
        return self.fix.replace("{device}", parts[1] if len(parts) > 2 else "")


class MayDiffer(Strict):
    """Fields in which healthy nodes of a partition may differ, and why."""

    fields: Expression
    why: Text


class Expected(Strict):
    """The file. `may_differ` is about the nodes of a partition among each other.

    Without entries nodes are looked at and compared with each other, and nothing more.
    """

    expected: Annotated[list[Expectation], pydantic.BeforeValidator(lambda entries: entries or [])]
    may_differ: list[MayDiffer] = []

    def of(self, partition: str) -> tuple[Expectation, ...]:
        return tuple(e for e in self.expected if e.partition in (None, partition))

    def differs_freely(self, key: str) -> bool:
        return any(re.fullmatch(entry.fields, key) for entry in self.may_differ)


def path_for(system: str) -> Path:
    return paths.system_folder(system) / "expected.yaml"


def load(system: str) -> Expected | None:
    """What the system's nodes must show, None where it does not say; ConfigurationError with file,
    line and field.
    """
    return _read(path_for(system))


@cache
def _read(path: Path) -> Expected | None:
    return load_model(path, Expected) if path.exists() else None
