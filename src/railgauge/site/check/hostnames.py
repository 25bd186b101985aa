"""Which system a host is of. No host may be of two systems."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from railgauge import systems
from railgauge.site import host_pattern
from railgauge.site.check.description import file_of
from railgauge.site.check.line import Line
from railgauge.systems import System

#: No system may take these for its own.
_OTHER_HOSTS = ("", "localhost", "zz-some-other-host-0")


def lines(system: System, others: Sequence[System], host: str) -> list[Line]:
    wrong = []
    edit = f"edit hostnames in {file_of(system.name)}: '{host_pattern(host)}' is exactly this host"
    for pattern in system.hostnames:
        if any(re.match(pattern, host) for host in _OTHER_HOSTS):
            text = f"{pattern!r} matches any host, expected the login nodes of {system.name} only"
            wrong.append(Line("problem", "hostnames", text, edit))
    for other in others:
        text = _overlap(system, other, host)
        if text:
            wrong.append(Line("problem", "hostnames", text, f"{edit}; or that of {other.name}"))
    if wrong:
        return wrong
    patterns = ", ".join(system.hostnames) or "none"
    if systems.matches(system, host):
        return [Line("ok", "hostnames", f"{patterns}: this host, {host}, and no other system's")]
    return [
        Line(
            "hint",
            "hostnames",
            f"{patterns}: no other system's, but this host, {host}, is not among them either",
            f"if it is a login node, {edit}; else name the system: --system {system.name}",
        )
    ]


def owner(system: System, others: Sequence[System], host: str, named_by: str) -> str:
    """The other system that this host, and so its Slurm, is of; "" where it may be `system`'s."""
    if named_by == system.name or systems.matches(system, host):
        return ""
    return next((other.name for other in others if systems.matches(other, host)), "")


def _overlap(system: System, other: System, host: str) -> str:
    """Why a host of one system may be taken for one of the other; "" where it may not."""
    if systems.is_of_lab(system.name) != systems.is_of_lab(other.name):
        return ""  # `systems.of_host` takes the site's
    same = sorted(set(system.hostnames) & set(other.hostnames))
    if same:
        return (
            f"{same[0]!r} is that of {other.name} too, and a host of both is refused by every "
            "command: a placeholder that was copied?"
        )
    if systems.matches(system, host) and systems.matches(other, host):
        return (
            f"this host, {host}, is of {system.name} and of {other.name}: every command refuses it"
        )
    for one, two in ((system, other), (other, system)):
        for example in (e for pattern in two.hostnames for e in examples(pattern)):
            for pattern in one.hostnames:
                if re.match(pattern, example):
                    return (
                        f"{pattern!r} of {one.name} matches {example!r}, a host of {two.name} "
                        f"({', '.join(two.hostnames)})"
                    )
    return ""


def examples(pattern: str) -> list[str]:
    """Names that a pattern matches: a short one, and one with every optional part."""
    # By the parser of `re`, which is not public: without it there are no examples.
    try:
        parser = importlib.import_module(
            "re._parser" if sys.version_info >= (3, 11) else "sre_parse"
        )
        tree = list(parser.parse(pattern))
    except (ImportError, AttributeError, re.error):
        return []
    names = dict.fromkeys(_example(tree, longer) for longer in (False, True))
    return [name for name in names if name is not None and re.match(pattern, name)]


def _example(tree: Sequence[Any], longer: bool) -> str | None:
    parts = [_example_of(str(kind), value, longer) for kind, value in tree]
    return None if None in parts else "".join(part for part in parts if part)


def _example_of(kind: str, value: Any, longer: bool) -> str | None:
    if kind == "LITERAL":
        return chr(value)
    if kind == "ANY":
        return "x"
    if kind == "AT":
        return ""
    if kind == "IN":
        return _member(value)
    if kind == "BRANCH":
        return _example(list(value[1][-1 if longer else 0]), longer)
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, tree = value
        part = _example(list(tree), longer)
        return None if part is None else part * min(int(most), int(least) + (1 if longer else 0))
    if kind == "SUBPATTERN":
        return _example(list(value[-1]), longer)
    return None


def _member(choices: Sequence[Any]) -> str | None:
    """A character of a class such as `[a-z]`."""
    kind, value = choices[0]
    if str(kind) == "LITERAL":
        return chr(value)
    if str(kind) == "RANGE":
        return chr(value[0])
    return {"CATEGORY_DIGIT": "0", "CATEGORY_WORD": "a"}.get(str(value))
