"""Options that say what was measured, where an output does not: `--nic`, `--nics`, `--system`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from railgauge.common.errors import RailgaugeError

if TYPE_CHECKING:
    from railgauge.model.nic import Nic

_Command = TypeVar("_Command", bound=Callable[..., Any])


def link_options(command: _Command) -> _Command:
    """`--nic` as `word`, and `--nics`; `nic_of` makes a Nic of them."""
    nic = click.option(
        "--nic",
        "word",
        metavar="RATEg-FABRIC",
        help="The link that was measured: 400g-roce, 400g-ib, 100g-tcp.",
    )
    nics = click.option(
        "--nics", type=click.IntRange(1, 64), help="NICs of a node, for collectives."
    )
    return nic(nics(command))


def system_option(command: _Command) -> _Command:
    """`--system`, which `known_system` checks."""
    return click.option(
        "--system",
        metavar="SYSTEM",
        help="Only published numbers of this system: railgauge published lists them.",
    )(command)


def nic_of(word: str | None, count: int | None, example: str) -> Nic | None:
    from railgauge.model.nic import Nic

    if word is None and count is not None:
        raise RailgaugeError("--nics without --nic: the rate is not known", next_step=example)
    try:
        return Nic.of(word, count) if word is not None else None
    except ValueError as error:
        raise RailgaugeError(f"--nic {error}", next_step=example) from None


def known_system(name: str | None) -> str | None:
    """A system that has published numbers; RailgaugeError with the nearest names for another."""
    from railgauge.model import published

    if name is None or name in (systems := published.load().systems):
        return name
    near = difflib.get_close_matches(name, systems, n=3, cutoff=0.4) or list(systems)
    raise RailgaugeError(
        f"no published number is of a system {name!r}, expected one such as {', '.join(near)}",
        next_step="railgauge published (lists the systems)",
    )
