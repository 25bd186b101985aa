"""What tools print of their version, as numbers that can be compared."""

from __future__ import annotations

import re

_NUMBER = r"v?([0-9]+(?:\.[0-9]+)+)"
_NAMED = re.compile(rf"([A-Za-z]{{2,}})[ _-]?{_NUMBER}")


def normal(text: str) -> str:
    """The dotted number in a version: 2.28.9 of `2.28.9+cuda13.0`; as it is where there is none."""
    number = re.search(_NUMBER, text)
    return number[1] if number else text


def stated(tool: str, line: str) -> dict[str, str]:
    """The versions in what `tool` says of itself, by name in small letters; its own is the first.

    `2.17.6, NCCL 2.28.9` of nccl-tests is also a version of `nccl`.
    """
    named = {name.lower(): number for name, number in _NAMED.findall(line)}
    # `iperf version 2.2.1`: a word, and no name.
    named.pop("version", None)
    own = re.search(_NUMBER, line)
    return {**named, **({tool: own[1]} if own else {})}
