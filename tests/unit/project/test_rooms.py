"""The order of the rooms: docs/architecture.md says it, and the imports keep to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge import paths

SOURCE = paths.SOURCE / "railgauge"
DOCUMENT = paths.HOME / "docs" / "architecture.md"

#: The rooms of the document's table, the highest first; what lies in none is below all of them.
ROOMS = re.findall(r"^\| `([a-z]+)/` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)


def room(path: Path) -> str:
    """The first part below src/railgauge, "" for a module that lies in no room."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


def imported(path: Path) -> Iterator[str]:
    """The rooms of what a module imports, also within a function, but not for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, _, rest = name.partition(".")
            if first == "railgauge":
                yield rest.split(".")[0]


def test_the_document_has_all_rooms() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(ROOMS) == packages and len(ROOMS) == len(packages)


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_has_its_tests(name: str) -> None:
    assert list((paths.HOME / "tests" / "unit" / name).rglob("test_*.py"))


@pytest.mark.parametrize("name", [*ROOMS, ""], ids=[*ROOMS, "no room"])
def test_a_room_imports_lower_ones_only(name: str) -> None:
    above = set(ROOMS[: ROOMS.index(name)]) if name else set(ROOMS)
    wrong = [
        f"{path.relative_to(SOURCE)} imports {target}"
        for path in sorted(SOURCE.rglob("*.py"))
        if room(path) == name and path.name != "__main__.py"
        for target in sorted(set(imported(path)))
        if target in above
    ]
    assert wrong == []


def test_a_path_that_the_document_names_is_there() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    # What stands in code, with a slash in it: below src/railgauge, or the root of the checkout.
    named = {word for word in re.findall(r"`([a-z_<>./]+)`", text) if "/" in word}
    missing = [
        word
        for word in sorted(named)
        if "<" not in word
        and not any((base / word).exists() for base in (SOURCE, paths.HOME))
        and not (SOURCE / f"{word}.py").exists()
    ]
    assert missing == []
