"""What the sources of an inventory share: where they look, and the sheet that they fill."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Union

from railgauge.node.system.rdma_devices import FactError, text_of

Scalar = Union[str, int, float, bool]

#: What drivers and vendors' tools print where they do not know a value.
_NOT_SAID = re.compile(
    r"\[?(n/?a|not (available|supported|specified|present)|unknown( error)?|"
    r"to be filled by o\.e\.m\.|default string|requested functionality has been deprecated|"
    r"insufficient permissions|gpu is lost|err!)\]?",
    re.IGNORECASE,
)


class Places(NamedTuple):
    """Where a node's sources are; tests show other machines.

    `ask` gives what a tool prints, or raises FactError: node.rdma.ask.
    """

    sys: str
    proc: str
    root: str
    ask: Callable[[list[str]], str]


def raw_text(path: Path) -> str:
    """A file's text as it is; FactError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FactError(f"{path}: {error.strerror}") from None


class Sheet:
    """Fields, and those that cannot be had with the reason why."""

    def __init__(self) -> None:
        self.fields: dict[str, Scalar] = {}
        self.unknown: dict[str, str] = {}

    def put(self, key: str, source: Callable[..., Any], *about: Any) -> None:
        """The field that `source`, called with `about`, gives; or the reason why it does not."""
        self.several("", [key], lambda: {key: source(*about)})

    def several(
        self,
        prefix: str,
        names: Iterable[str],
        source: Callable[..., Mapping[str, Any]],
        *about: Any,
    ) -> None:
        """What `source` gives, each name behind `prefix`; `names` are those that it should."""
        try:
            values = dict(source(*about))
            reason = "not said"
        except FactError as error:
            values, reason = {}, str(error)
        # Whatever one source does, the others stay.
        except Exception as error:
            values, reason = {}, f"{type(error).__name__}: {error}"
        for name in dict.fromkeys([*names, *values]):
            value = _scalar(values.get(name))
            if value is None:
                self.unknown[prefix + name] = _short(reason)
            else:
                self.fields[prefix + name] = value

    def add(self, other: Sheet) -> None:
        """Add what `other` knows; of a field that both know, this one's value stays."""
        self.fields = {**other.fields, **self.fields}
        self.unknown = {
            key: why
            for key, why in {**other.unknown, **self.unknown}.items()
            if key not in self.fields
        }


def _scalar(value: Any) -> Scalar | None:
    """The value as a field has it; None where it says nothing."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return value if math.isfinite(value) else None
    text = _short(str(value))
    return text if text and not _NOT_SAID.fullmatch(text) else None


def _short(text: str) -> str:
    """One printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:400]


def whole_lines(text: str) -> list[str]:
    """The lines of a tool's output without one that is broken off: half a number is a wrong one."""
    *lines, _ = text.split("\n")
    return lines


def version_in(text: str, pattern: str, command: str) -> str:
    """The group of the first whole line that is of that pattern; FactError names the command."""
    for line in whole_lines(text):
        matched = re.fullmatch(pattern, line.strip())
        if matched:
            return matched[1]
    raise FactError(f"{command}: no version")


def number(text: str) -> int | float | None:
    """700 of `700`, 26.562 of `26.562 GB/s`; None where the text does not begin with a number."""
    matched = re.match(r"-?[0-9]{1,18}(\.[0-9]{1,9})?(?![0-9.])", text.strip())
    if not matched:
        return None
    return float(matched[0]) if matched[1] else int(matched[0])


def words_of(folder: Path, folders: str, name: str) -> str:
    """The different texts of a file in several folders, in order: `performance` if all say that."""
    words = sorted({text_of(path) for path in folder.glob(f"{folders}/{name}")})
    if not words:
        raise FactError(f"there is no {folder}/{folders}/{name}")
    return " ".join(words)


def chosen(text: str) -> str:
    """`always` of `[always] madvise never`."""
    matched = re.search(r"\[([^\]]+)\]", text)
    if not matched:
        raise FactError(f"found {text!r}, expected one in brackets")
    return matched[1]
