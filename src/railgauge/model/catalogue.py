"""The kinds of findings, and the terms of reports: what each means, and what to do.

`railgauge explain` prints one of them; `make docs` writes docs/findings.md and docs/glossary.md.
"""

from __future__ import annotations

import functools
from pathlib import Path

from railgauge import yamlfile

_FOLDER = Path(__file__).parent


class Kind(yamlfile.Strict):
    """A kind of finding."""

    means: str
    "What was found."
    example: str
    "The message as it is printed."
    causes: list[str]
    "What it usually is, the most likely first."
    next: list[str]
    "What to type, or where to look."


@functools.cache
def kinds() -> dict[str, Kind]:
    """Kind of finding -> its entry, in the order of the file."""
    return {
        name: Kind.model_validate(entry)
        for name, entry in yamlfile.plain(_FOLDER / "findings.yaml").items()
    }


@functools.cache
def terms() -> dict[str, str]:
    """Term -> its meaning, in alphabetical order."""
    known: dict[str, str] = yamlfile.plain(_FOLDER / "terms.yaml")
    return {term: " ".join(known[term].split()) for term in sorted(known, key=str.casefold)}


def explained(name: str) -> list[str] | None:
    """The lines that explain a kind of finding, or a term; None where it is neither."""
    lines = []
    if (kind := kinds().get(name)) is not None:
        lines += [f"{name}: {kind.means}", "", f"  example: {kind.example}", ""]
        lines += ["  usual causes:", *(f"    - {cause}" for cause in kind.causes)]
        lines += ["  next:", *(f"    - {step}" for step in kind.next)]
    if not name:
        return None
    by_folded = {term.casefold(): term for term in terms()}
    if (term := by_folded.get(name.casefold())) is not None:
        lines += [""] * bool(lines) + [f"{term}: {terms()[term]}"]
    return lines or None


def kinds_page() -> str:
    """The section of each kind, for docs/findings.md."""
    return "\n".join(
        f"## {name}\n\n{kind.means} Example: `{kind.example}`\n\n"
        f"- usual causes: {'; '.join(kind.causes)}\n"
        f"- next: {'; '.join(kind.next)}\n"
        for name, kind in sorted(kinds().items())
    )


def terms_page() -> str:
    """The table of the terms, for docs/glossary.md."""
    rows = (
        f"| {term} | {meaning.replace('|', chr(92) + '|')} |\n" for term, meaning in terms().items()
    )
    return "| term | meaning |\n|---|---|\n" + "".join(rows)
