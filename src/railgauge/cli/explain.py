"""`railgauge explain`: what a kind of finding means, or a term of a report."""

from __future__ import annotations

import difflib
from typing import NoReturn

import click

from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import RailgaugeError
from railgauge.model import catalogue


@click.command()
@click.argument("names", nargs=-1, metavar="[KIND|TERM]...")
@json_option("explain")
def explain(names: tuple[str, ...], as_json: bool) -> None:
    """What a kind of finding means, what usually causes it, and what to type next.

    Also explains the terms of reports: places, floor, of limit. Without a name it lists the kinds.
    """
    # A term may have several words: railgauge explain of limit
    together = " ".join(names)
    known = (together,) if catalogue.explained(together) else names
    answers = [catalogue.explained(name) or _refuse(name) for name in known]
    if as_json:
        print_json(_document(known))
    elif names:
        click.echo("\n\n".join("\n".join(answer) for answer in answers))
    else:
        _list()


def _document(names: tuple[str, ...]) -> dict[str, object]:
    folded = {name.casefold() for name in names}
    return {
        "kinds": {
            name: kind.model_dump()
            for name, kind in catalogue.kinds().items()
            if not names or name in names
        },
        "terms": {
            term: meaning
            for term, meaning in catalogue.terms().items()
            if not names or term.casefold() in folded
        },
    }


def _list() -> None:
    kinds = catalogue.kinds()
    width = max(map(len, kinds))
    for name in sorted(kinds):
        first, dot, _ = kinds[name].means.partition(". ")
        click.echo(f"{name:<{width}}  {first}{'.' * bool(dot)}")


def _refuse(name: str) -> NoReturn:
    known = [*catalogue.kinds(), *catalogue.terms()]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    raise RailgaugeError(
        f"no kind of finding and no term is called {name!r}"
        + (f", expected one such as {', '.join(near)}" if near else ""),
        next_step="railgauge explain (lists all kinds); docs/glossary.md has the terms",
    )
