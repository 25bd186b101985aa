"""Our own recipes: what a machine with a network, or a mirror, can fetch, and as which bytes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from railgauge import paths

RECIPES = sorted((paths.HOME / "spack/spack_repo/railgauge/packages").glob("*/package.py"))


def names(path: Path) -> str:
    return path.parent.name


def test_there_are_recipes() -> None:
    assert {"hpn_ssh", "iperf2", "perftest", "wdt"} <= set(map(names, RECIPES))


@pytest.mark.parametrize("recipe", RECIPES, ids=names)
def test_no_recipe_needs_a_file_of_this_machine(recipe: Path) -> None:
    text = recipe.read_text()
    assert "file:" not in text and "/usr/src" not in text
    addresses = re.findall(r"\b(?:url|git)\s*=\s*f?\"([^\"{]*)", text)
    assert all(address.startswith("https://") for address in addresses if address), addresses


@pytest.mark.parametrize("recipe", RECIPES, ids=names)
def test_every_source_of_a_recipe_has_its_digest(recipe: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(recipe.read_text())) if isinstance(node, ast.Call)]
    sources = [call for call in calls if ast.unparse(call.func) in ("version", "resource")]
    assert sources
    for source in sources:
        digest = {word.arg: ast.unparse(word.value) for word in source.keywords}.get("sha256", "")
        assert re.fullmatch("'[0-9a-f]{64}'", digest), ast.unparse(source)


def test_a_server_of_hpn_ssh_as_root_has_an_account_to_leave_its_rights_for() -> None:
    """Its build looks for an account `sshd`, which a node need not have."""
    (recipe,) = (path for path in RECIPES if names(path) == "hpn_ssh")
    assert '"--with-privsep-user=nobody"' in recipe.read_text()
