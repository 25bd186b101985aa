"""The documents: their links lead somewhere, and what they tell to type exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from railgauge import paths
from railgauge.cli import cli
from railgauge.site import schema

PAGES = sorted((paths.HOME / "docs").glob("*.md"))
DOCUMENTS = [
    *(paths.HOME / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")),
    paths.HOME / "changelog.d" / "README.md",
    *PAGES,
]

_FENCED = re.compile(r"^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)(?P<file>[^)#]*)(#(?P<anchor>[^)]+))?\)")
_INLINE = re.compile(r"`(railgauge [a-z][^`]*|make [a-z][^`]*)`")


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in kept}


def commands(document: Path) -> Iterator[str]:
    """What a reader is told to type: lines behind a prompt, and commands within a sentence."""
    text = document.read_text(encoding="utf-8")
    for block in _FENCED.finditer(text):
        if block["kind"] == "console":
            for line in block["text"].splitlines():
                if re.match(r" *[$#] ", line):
                    yield re.sub(r"^ *[$#] ", "", line).split("  #")[0].strip()
    for found in _INLINE.finditer(_FENCED.sub("", text)):
        yield " ".join(found[1].split())


def split(line: str) -> Iterator[list[str]]:
    """The commands of a shell's line, without pipes and what is redirected."""
    words: list[str] = []
    # A line that goes on ends in a backslash.
    reader = shlex.shlex(line.removesuffix("\\"), posix=True, punctuation_chars="|&;>")
    reader.whitespace_split = True
    reader.commenters = ""
    for word in [*reader, ";"]:
        if set(word) <= set("|&;>"):
            yield words
            words = []
        else:
            words.append(word)


def typed(program: str) -> list[tuple[str, str]]:
    """(document, command) of each command of a program."""
    return [
        (document.name, shlex.join(words))
        for document in DOCUMENTS
        for line in commands(document)
        for words in split(line)
        if len(words) > 1 and words[0].removeprefix("bin/") == program
    ]


def of_cluster(words: list[str]) -> str:
    """Why click would not take the words behind `railgauge`; "" where it would."""
    command: click.Command = cli
    rest = list(words)
    while isinstance(command, click.Group):
        if not rest:
            return ""
        name = rest.pop(0)
        if name.isupper() or name in ("--help", "--version"):
            return ""
        found = command.get_command(click.Context(command), name)
        if found is None:
            return f"there is no {name}"
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    given = rest[: rest.index("--")] if "--" in rest else rest
    strange = [
        word
        for word in given
        if word.startswith("--") and word.partition("=")[0] not in {*known, "--help"}
    ]
    return f"{command.name} has no {strange[0]}" if strange else ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in _LINK.finditer(document.read_text(encoding="utf-8")):
        target = document.parent / link["file"] if link["file"] else document
        assert target.exists(), link[0]
        if link["anchor"]:
            assert link["anchor"] in anchors(target), link[0]


def test_every_document_is_on_the_first_page_of_the_documents() -> None:
    index = paths.HOME / "docs" / "index.md"
    text = index.read_text(encoding="utf-8")
    missing = [d.name for d in PAGES if d != index and f"]({d.name})" not in text]
    assert missing == []


def test_a_page_that_is_written_by_hand_has_at_most_200_lines() -> None:
    generated = {path.name for path in schema.documents()}
    by_hand = [d for d in PAGES if d.name not in {*generated, "figures.md"}]
    lengths = {d.name: len(d.read_text(encoding="utf-8").splitlines()) for d in by_hand}
    assert {name: length for name, length in lengths.items() if length > 200} == {}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Sphinx needs Python 3.11")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    options = ["--quiet", "--fail-on-warning", "--keep-going"]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(paths.HOME / "docs"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.stderr == ""
    assert built.returncode == 0


def test_the_readme_is_short() -> None:
    assert len((paths.HOME / "README.md").read_text(encoding="utf-8").splitlines()) <= 115


@pytest.mark.parametrize(("document", "command"), typed("railgauge"))
def test_railgauge_has_the_commands_of_the_documents(document: str, command: str) -> None:
    words = shlex.split(command.removeprefix("bin/"))
    assert of_cluster(words[1:]) == "", command


@pytest.mark.parametrize(("document", "command"), typed("make"))
def test_make_has_the_targets_that_the_documents_name(document: str, command: str) -> None:
    makefile = (paths.HOME / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    words = [word for word in shlex.split(command)[1:] if "=" not in word]
    named = [word for word in words if re.fullmatch("[a-z-]+", word)]
    assert named and set(named) <= targets, command


# ---- what is made from the schema ----


WRITTEN = schema.documents()


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.name)
def test_a_document_says_what_the_schema_says_now(document: Path) -> None:
    """`make docs` writes it."""
    assert document.read_text(encoding="utf-8") == WRITTEN[document]
