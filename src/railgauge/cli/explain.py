"""`railgauge explain`: a kind of finding, a term, a symptom, or what a log or campaign shows."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from railgauge.cli.link import link_options, nic_of
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_INCONCLUSIVE, RailgaugeError
from railgauge.model import catalogue, signatures

if TYPE_CHECKING:
    from railgauge.model.nic import Nic
    from railgauge.report.explained import Explained

_EXAMPLE = "railgauge explain slurm-1234.out --nic 400g-roce --nics 8"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|LOG|CAMPAIGN]...")
@link_options
@json_option("explain", "symptoms")
def explain(names: tuple[str, ...], word: str | None, nics: int | None, as_json: bool) -> None:
    """What a kind of finding means, or what a log shows, and what to type next.

    NAME is a kind of finding (node-lost), a term of reports (floor, of limit) or a known symptom
    (spark-power-state). Without one it lists the kinds.

    LOG is a file, a folder, a tar.gz or `-`: its measurements and lines are held against the known
    symptoms, each with its likely cause, what would confirm it, and what to type. CAMPAIGN is
    `latest`, an id or its folder. --nic and --nics say what was measured, where a log does not.

    A symptom is a hint, and changes no verdict. Exit code 0: all was read; 2: something could not
    be read; 3: wrong usage.
    """
    nic = nic_of(word, nics, _EXAMPLE)
    # A term may have several words: railgauge explain of limit
    together = " ".join(names)
    known = (together,) if _explained(together) else names
    explained = None if any(map(_explained, known)) else _in_logs(names, nic)
    if explained is not None:
        _print(explained, as_json)
    elif nic is not None:
        raise RailgaugeError("--nic without a log: nothing is measured", next_step=_EXAMPLE)
    else:
        answers = [_explained(name) or _refuse(name) for name in known]
        if as_json:
            print_json(_document(known))
        elif names:
            click.echo("\n\n".join("\n".join(answer) for answer in answers))
        else:
            _list()


def _explained(name: str) -> list[str] | None:
    return catalogue.explained(name) or signatures.explained(name)


def _in_logs(names: tuple[str, ...], nic: Nic | None) -> Explained | None:
    """What logs show, or a campaign; None where the names are of neither."""
    from railgauge.campaign.folder import campaigns_folder

    if "" in (names or ("",)):
        # Such as a variable that is not set: it is not this folder.
        return None
    first = names[0]
    is_folder_of_campaign = _exists(Path(first) / "campaign.json")
    if "-" in names or (_exists(Path(first)) and not is_folder_of_campaign):
        from railgauge.report.explained import of_logs

        return of_logs(names, nic)
    is_id = first == "latest" or _exists(campaigns_folder() / first)
    if not is_folder_of_campaign and not is_id:
        return None
    if len(names) > 1 or nic is not None:
        raise RailgaugeError(
            "expected one campaign, without --nic: its records have the limits of its links",
            next_step=f"railgauge explain {first}",
        )
    return _in_campaign(str(Path(first).absolute()) if is_folder_of_campaign else first)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # Such as a name that is too long.
        return False


def _in_campaign(name: str) -> Explained:
    from railgauge.campaign.folder import load
    from railgauge.model.record import BrokenRecordError
    from railgauge.report.explained import of_campaign
    from railgauge.verdict.campaign.cases import read

    try:
        return of_campaign(read(load(name)))
    except BrokenRecordError as error:
        raise RailgaugeError(str(error)) from None


def _print(explained: Explained, as_json: bool) -> None:
    if as_json:
        print_json(explained.as_dict())
    else:
        for line in explained.lines():
            click.echo(line)
    if explained.unread:
        sys.exit(EXIT_INCONCLUSIVE)


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
        "symptoms": {
            name: signature.model_dump(exclude={"when"})
            for name, signature in signatures.load().items()
            if not names or name in names
        },
    }


def _list() -> None:
    kinds = catalogue.kinds()
    width = max(map(len, kinds))
    for name in sorted(kinds):
        first, dot, _ = kinds[name].means.partition(". ")
        click.echo(f"{name:<{width}}  {first}{'.' * bool(dot)}")


def _refuse(name: str) -> NoReturn:
    known = [*catalogue.kinds(), *catalogue.terms(), *signatures.load()]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    raise RailgaugeError(
        f"no kind of finding, no term, no symptom and no file is called {name!r}"
        + (f", expected one such as {', '.join(near)}" if near else ""),
        next_step="railgauge explain (lists all kinds); docs/glossary.md has the terms, "
        "docs/explain.md the symptoms",
    )
