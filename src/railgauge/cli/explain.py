"""`railgauge explain`: what a kind of finding means, or a term of a report."""

from __future__ import annotations

import difflib

import click

from railgauge.errors import RailgaugeError
from railgauge.model import catalogue


@click.command()
@click.argument("names", nargs=-1, metavar="[KIND|TERM]...")
def explain(names: tuple[str, ...]) -> None:
    """What a kind of finding means, what usually causes it, and what to type next.

    Also explains the terms of reports: places, floor, of limit. Without a name it lists the kinds.
    """
    if not names:
        _list()
        return
    # A term may have several words: railgauge explain of limit
    together = catalogue.explained(" ".join(names)) if len(names) > 1 else None
    answers = [together] if together else [_explained(name) for name in names]
    click.echo("\n\n".join("\n".join(answer) for answer in answers))


def _list() -> None:
    kinds = catalogue.kinds()
    width = max(map(len, kinds))
    for name in sorted(kinds):
        first, dot, _ = kinds[name].means.partition(". ")
        click.echo(f"{name:<{width}}  {first}{'.' * bool(dot)}")


def _explained(name: str) -> list[str]:
    found = catalogue.explained(name)
    if found is not None:
        return found
    known = [*catalogue.kinds(), *catalogue.terms()]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    raise RailgaugeError(
        f"no kind of finding and no term is called {name!r}"
        + (f", expected one such as {', '.join(near)}" if near else ""),
        next_step="railgauge explain (lists all kinds); docs/glossary.md has the terms",
    )
