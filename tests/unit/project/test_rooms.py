"""The order of the rooms: docs/architecture.md says it, and the imports keep to it."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge import paths

SOURCE = paths.SOURCE / "railgauge"
DOCUMENT = paths.HOME / "docs" / "architecture.md"

#: All rooms of the document's tables, the highest of each table first.
LISTED = re.findall(r"^\| `([a-z/]+)/` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
ROOMS = [name for name in LISTED if "/" not in name]
#: Modules that lie in no room, above `common/` only.
NO_ROOM = ""
FLOORS = [*ROOMS[:-1], NO_ROOM, ROOMS[-1]]
INSIDE = [name for name in LISTED if "/" in name]

MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
    if path not in (SOURCE / "__init__.py", SOURCE / "__main__.py")
}


def imports(path: Path) -> Iterator[str]:
    """Our modules that a module imports, also within a function, but not for types alone."""
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
            package, _, module = name.partition(".")
            while package == "railgauge" and module and module not in MODULES:
                module = module.rpartition(".")[0]
            if package == "railgauge" and module:
                yield module


IMPORTS = {name: set(imports(path)) for name, path in MODULES.items()}


def room(module: str) -> str:
    """The first part, NO_ROOM for a module that lies in none."""
    first = module.partition(".")[0]
    return first if first in ROOMS else NO_ROOM


def inner_room(module: str) -> str:
    """`checks/tcp` for `checks.tcp.nics`, "" for a module of a room that lies in none inside."""
    inside = "/".join(module.split(".")[:2])
    return inside if inside in INSIDE else ""


def test_the_document_has_all_rooms() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(ROOMS) == packages and len(ROOMS) == len(packages)


@pytest.mark.parametrize("name", sorted({name.partition("/")[0] for name in INSIDE}))
def test_the_document_has_all_rooms_inside(name: str) -> None:
    packages = {f"{name}/{path.parent.name}" for path in (SOURCE / name).glob("*/__init__.py")}
    assert {inside for inside in INSIDE if inside.startswith(f"{name}/")} == packages


@pytest.mark.parametrize("name", LISTED)
def test_a_room_has_its_tests(name: str) -> None:
    assert list((paths.HOME / "tests" / "unit" / name).rglob("test_*.py"))


@pytest.mark.parametrize("name", FLOORS, ids=[name or "no room" for name in FLOORS])
def test_a_room_imports_lower_ones_only(name: str) -> None:
    above = set(FLOORS[: FLOORS.index(name)])
    wrong = [
        f"{module} imports {target}"
        for module, targets in IMPORTS.items()
        if room(module) == name
        for target in sorted(targets)
        if room(target) in above
    ]
    assert wrong == []


@pytest.mark.parametrize("name", INSIDE)
def test_a_room_inside_imports_lower_ones_only(name: str) -> None:
    """Modules of the outer room that lie in no room inside are above all of them."""
    outer = name.partition("/")[0]
    floors = ["", *(inside for inside in INSIDE if inside.startswith(f"{outer}/"))]
    above = set(floors[: floors.index(name)])
    wrong = [
        f"{module} imports {target}"
        for module, targets in IMPORTS.items()
        if inner_room(module) == name
        for target in sorted(targets)
        if target.startswith(f"{outer}.") and inner_room(target) in above
    ]
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """A package's own file imports its modules; that they lie in it is no import."""
    try:
        graphlib.TopologicalSorter(IMPORTS).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


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
