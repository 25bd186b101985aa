"""The catalogue of findings: each kind that the suite reports is in it, and no other."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.model import catalogue

#: The classes that take a kind, and the place of it among their arguments.
_MADE = {"Failure": 0, "Finding": 1, "Contradiction": 0, "FabricFinding": 0}


def _values(module: object, node: ast.expr, chosen: Mapping[str, ast.expr]) -> Iterator[object]:
    """The values that an argument may have: a text, a name of the module, or one that a function
    has `chosen` of two.
    """
    if isinstance(node, ast.Constant):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _values(module, node.body, chosen)
        yield from _values(module, node.orelse, chosen)
    elif ast.unparse(node) in chosen:
        yield from _values(module, chosen[ast.unparse(node)], {})
    else:
        value = module
        for name in ast.unparse(node).split("."):
            value = getattr(value, name, None)
        yield value


def _kinds_in(path: Path) -> Iterator[str]:
    name = ".".join(path.relative_to(paths.SOURCE.parent).with_suffix("").parts)
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    chosen = {
        ast.unparse(node.targets[0]): node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp)
    }
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        place = _MADE.get(ast.unparse(node.func).rpartition(".")[2])
        if place is not None and len(node.args) > place:
            module = importlib.import_module(name.removesuffix(".__init__"))
            found = _values(module, node.args[place], chosen)
            yield from (kind for kind in found if isinstance(kind, str))


def test_every_kind_of_finding_is_in_the_catalogue_and_no_other() -> None:
    files = sorted(paths.SOURCE.rglob("*.py"))
    made = {kind for path in files for kind in _kinds_in(path)}
    assert made == set(catalogue.kinds())


@pytest.mark.parametrize("name", sorted(catalogue.kinds()))
def test_a_kind_says_what_it_means_what_causes_it_and_what_to_do(name: str) -> None:
    kind = catalogue.kinds()[name]
    assert kind.means.endswith(".") and kind.example and kind.causes and kind.next
