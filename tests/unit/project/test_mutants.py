"""The mutants of `make mutants` change what is there: one whose text is gone proves nothing."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from railgauge import paths
from tests.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_the_text_of_a_mutant_is_in_its_file_once(mutant: Mutant) -> None:
    text = (paths.HOME / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    if mutant.file.endswith(".py"):
        # What no program could be proves nothing either.
        ast.parse(text.replace(mutant.old, mutant.new))
    test = mutant.test.partition("::")[0].partition(" ")[0]
    assert (paths.HOME / test).exists()


def selected(test: str, tests: list[str]) -> list[str]:
    """Those of pytest's ids that a mutant's `PATH[::NAME] [-k WORD]` selects."""
    path, _, word = test.partition(" -k ")
    return [one for one in tests if one.startswith(path.strip()) and word in one]


def test_make_test_kills_every_mutant_that_needs_the_lab() -> None:
    """A protection must not depend on the tests of `make release` alone."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not release", "tests/lab"],
        cwd=paths.HOME,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    tests = [line for line in listed.stdout.splitlines() if "::" in line]
    of_lab = [mutant for mutant in MUTANTS if mutant.test.startswith("tests/lab/")]
    assert len(of_lab) > 10
    assert [mutant.what for mutant in of_lab if not selected(mutant.test, tests)] == []
