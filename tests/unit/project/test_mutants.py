"""The mutants of `make mutants` change what is there: one whose text is gone proves nothing."""

from __future__ import annotations

import ast

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
