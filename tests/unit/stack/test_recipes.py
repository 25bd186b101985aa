"""Our own recipes: what a machine with a network, or a mirror, can fetch, and as which bytes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from railgauge import __version__, paths

RECIPES = sorted((paths.HOME / "spack/spack_repo/railgauge/packages").glob("*/package.py"))


def names(path: Path) -> str:
    return path.parent.name


def test_there_are_recipes() -> None:
    assert {"hpn_ssh", "iperf2", "perftest", "railgauge", "wdt"} == set(map(names, RECIPES))


@pytest.mark.parametrize("recipe", RECIPES, ids=names)
def test_no_recipe_needs_a_file_of_this_machine(recipe: Path) -> None:
    text = recipe.read_text()
    assert "file:" not in text and "/usr/src" not in text
    addresses = re.findall(r"\b(?:url|git)\s*=\s*f?\"([^\"{]*)", text)
    assert all(address.startswith("https://") for address in addresses if address), addresses


@pytest.mark.parametrize("recipe", [r for r in RECIPES if names(r) != "railgauge"], ids=names)
def test_every_source_of_a_recipe_has_its_digest(recipe: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(recipe.read_text())) if isinstance(node, ast.Call)]
    sources = [call for call in calls if ast.unparse(call.func) in ("version", "resource")]
    assert sources
    for source in sources:
        digest = {word.arg: ast.unparse(word.value) for word in source.keywords}.get("sha256", "")
        assert re.fullmatch("'[0-9a-f]{64}'", digest), ast.unparse(source)


class Recipe:
    """What railgauge/package.py says: its directives, as Spack's would be called."""

    def __init__(self) -> None:
        (path,) = (path for path in RECIPES if names(path) == "railgauge")
        tree = ast.parse(path.read_text())
        (self.body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
        self.path = path

    def calls(self, name: str) -> list[tuple[str, dict[str, object]]]:
        found = []
        for node in self.body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                call = node.value
                if ast.unparse(call.func) == name:
                    words = {str(w.arg): ast.literal_eval(w.value) for w in call.keywords}
                    found.append((ast.literal_eval(call.args[0]), words))
        return found


def test_railgauge_runs_with_the_tools_of_the_stack_in_their_versions() -> None:
    definitions = yaml.safe_load((paths.HOME / "spack.yaml").read_text())["spack"]["definitions"]
    stack = {name: specs for one in definitions for name, specs in one.items()}
    runs = [(s, w.get("when")) for s, w in Recipe().calls("depends_on") if w["type"] == "run"]
    # The version of iperf2 is the system's.
    assert [s for s, when in runs if when is None and s != "iperf2"] == stack["tools"]
    assert [s for s, when in runs if when == "+gpu"] == stack["gpu_tools"]
    assert ("iperf2", None) in runs


def test_railgauge_has_the_version_and_the_python_of_the_project() -> None:
    recipe = Recipe()
    assert [version for version, _ in recipe.calls("version")] == [__version__]
    python = re.search(r'requires-python = ">=(.*)"', (paths.HOME / "pyproject.toml").read_text())
    assert python and recipe.calls("depends_on")[0][0] == f"python@{python[1]}:"


def test_railgauge_runs_with_the_python_of_its_recipe() -> None:
    """Not with the first one on the path, which Spack knows nothing of."""
    (install,) = (one for one in Recipe().body if isinstance(one, ast.FunctionDef))
    first = [ast.unparse(one) for one in install.body if "'venv'" in ast.unparse(one)]
    assert first and all(one.startswith("spec['python'].command(") for one in first)


def test_railgauge_is_installed_from_the_checkout_that_its_recipe_lies_in() -> None:
    """The recipe goes up so many folders."""
    recipe = Recipe()
    assert "[os.pardir] * 5" in recipe.path.read_text()
    assert recipe.path.parents[5] == paths.HOME


def test_a_server_of_hpn_ssh_as_root_has_an_account_to_leave_its_rights_for() -> None:
    """Its build looks for an account `sshd`, which a node need not have."""
    (recipe,) = (path for path in RECIPES if names(path) == "hpn_ssh")
    assert '"--with-privsep-user=nobody"' in recipe.read_text()
