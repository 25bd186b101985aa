"""The rooms: their order is in docs/architecture.md, and the imports keep to it; the most lines and
classes of each are in pyproject.toml.

    python -m tests.unit.project.test_rooms     prints budgets that are 3 % above today's sizes
"""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from railgauge import paths

try:
    import tomllib
except ImportError:  # Python 3.10, for which pytest brings it
    import tomli as tomllib

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


# ---- budgets ----


class Size(NamedTuple):
    lines: int
    classes: int


#: The name in pyproject.toml of the modules that lie in no room.
_BUDGET_OF_NO_ROOM = "no-room"


def size(name: str) -> Size:
    """Of all modules of a room."""
    lines = classes = 0
    for module, path in MODULES.items():
        if room(module) == name:
            text = path.read_text(encoding="utf-8")
            lines += len(text.splitlines())
            classes += sum(isinstance(node, ast.ClassDef) for node in ast.walk(ast.parse(text)))
    return Size(lines, classes)


def budgets() -> dict[str, Size]:
    """Room -> the most that it may have."""
    text = (paths.HOME / "pyproject.toml").read_text(encoding="utf-8")
    rooms = tomllib.loads(text)["tool"]["railgauge"]["rooms"]
    return {name.replace(_BUDGET_OF_NO_ROOM, NO_ROOM): Size(**most) for name, most in rooms.items()}


def as_written(name: str, most: Size) -> str:
    name = name or _BUDGET_OF_NO_ROOM
    return f"{name} = {{ lines = {most.lines}, classes = {most.classes} }}"


def test_every_room_has_a_budget_and_nothing_else_has() -> None:
    assert set(budgets()) == set(FLOORS)


@pytest.mark.parametrize("name", FLOORS, ids=[name or "no room" for name in FLOORS])
def test_a_room_is_within_its_budget(name: str) -> None:
    now, most = size(name), budgets()[name]
    assert now.lines <= most.lines and now.classes <= most.classes, (
        f"{as_written(name, now)} now, and pyproject.toml has {as_written(name, most)}: make it "
        "smaller, or change the budget and say why in the commit (CONTRIBUTING.md)"
    )


if __name__ == "__main__":
    for floor in FLOORS:
        print(as_written(floor, Size(*(int(1.03 * count) for count in size(floor)))))
