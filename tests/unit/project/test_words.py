"""Words that no message, help text or document has: the field has others for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge import paths

#: Word -> what to write.
REPLACED = {
    "alike": "the same, comparable",
    "anew": "again",
    "at times": "sometimes, intermittent",
    "beside": "with, next to, apart from",
    "mend": "fix, repair",
    "mended": "fixed, repaired",
    "nobody": "no node, no user",
    "of which": "a sentence of its own",
    "somebody": "a user, another user",
    "teeth": "enforcement",
    "told": "given, printed, reported, distinguished",
    "whoever": "the user, the process",
    "whom": "the node",
    "whose": "its, with",
}

#: Names of states, of kinds of findings, of values in outputs: they are read by programs.
NAMES = re.compile(
    r"not-told-apart|beside: stress-ng|`beside`|patrol-beside-a-job|`busy, beside`|\"beside\"|"
    r"`somebody[^`]*`"
)

_WORDS = re.compile(rf"\b({'|'.join(REPLACED)})\b", re.IGNORECASE)

SOURCE = paths.HOME / "src" / "railgauge"
DOCUMENTS = [*sorted((paths.HOME / "docs").glob("*.md")), paths.HOME / "README.md"]


def replaced_words(text: str) -> list[str]:
    return [match[0].lower() for match in _WORDS.finditer(NAMES.sub("", text))]


def shown_texts(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of each string with a blank in it, also of click's help texts; what stands
    in braces of an f-string is left out, and so are other docstrings.
    """
    tree = ast.parse(source)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out.update(map(id, node.values))
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and node.body
        ):
            first = node.body[0]
            decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
            is_help = any("command" in one or "group" in one for one in decorators)
            if isinstance(first, ast.Expr) and not is_help:
                left_out.add(id(first.value))
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
            text = "".join(map(str, parts))
            if " " in text:
                yield node.lineno, text
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def test_no_message_has_a_word_of_our_own() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {word}: write {REPLACED[word]}: {text[:80]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in shown_texts(path.read_text(encoding="utf-8"))
        for word in replaced_words(text)
    ]
    assert found == []


@pytest.mark.parametrize("name", ["findings.yaml", "terms.yaml"])
def test_no_finding_or_term_has_a_word_of_our_own(name: str) -> None:
    text = (SOURCE / "model" / name).read_text(encoding="utf-8")
    assert replaced_words(text) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_no_document_has_a_word_of_our_own(document: Path) -> None:
    found = [
        f"{number}: {word}: write {REPLACED[word]}"
        for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1)
        for word in replaced_words(line)
    ]
    assert found == []


def test_a_text_of_a_message_is_seen_and_a_docstring_is_not() -> None:
    source = '''
def one():
    """Nobody reads this."""
    say(f"beside {nobody}", "anew", f"whose{nobody}")

@click.command()
def two():
    """Somebody's help."""
'''
    words = [word for _, text in shown_texts(source) for word in replaced_words(text)]
    assert words == ["somebody", "beside"] or words == ["beside", "somebody"]
