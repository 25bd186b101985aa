"""A check has few classes and few names: the rest are parts, which are values without ReFrame.

python -m tests.unit.project.test_check_classes     prints classes and names of each check
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from railgauge import paths
from tests.unit.checks import ended_jobs


class Size(NamedTuple):
    """The number of our classes in a check's MRO, and the names that they give it."""

    classes: int
    names: int


#: Of a kind of job, the most of each; "" for all others.
MOST = {
    "": Size(3, 104),
    "RanksCheck": Size(4, 88),
}


def ours(check: type) -> list[type]:
    """The classes of railgauge and of reframe/ in a check's MRO."""
    modules = {kind: sys.modules.get(kind.__module__) for kind in check.__mro__}
    files = {
        kind: Path(getattr(module, "__file__", None) or "/") for kind, module in modules.items()
    }
    ours = (paths.SOURCE / "railgauge", paths.CHECKS)
    return [kind for kind, file in files.items() if any(map(file.is_relative_to, ours))]


def size(check: type) -> Size:
    kinds = ours(check)
    by_reframe = ("_rfm_", "_abc_", "__")
    names = {n for kind in kinds for n in vars(kind) if not n.startswith(by_reframe)}
    return Size(len(kinds), len(names))


def sizes(folder: Path) -> dict[type, Size]:
    """The sizes of all checks of reframe/."""
    with ended_jobs.session("lab", folder) as known:
        return {known[name].kind: size(known[name].kind) for name in sorted(known)}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[type, Size]:
    return sizes(tmp_path_factory.mktemp("results"))


def most(check: type) -> Size:
    kinds = [kind.__name__ for kind in check.__mro__]
    return next((MOST[name] for name in kinds if name in MOST), MOST[""])


def test_a_check_has_no_more_classes_and_names_than_its_kind_of_job(
    found: dict[type, Size],
) -> None:
    larger = [
        f"{check.__name__} has {now}, at most {most(check)}"
        for check, now in found.items()
        if now.classes > most(check).classes or now.names > most(check).names
    ]
    assert len(found) > 30 and larger == []


@pytest.mark.parametrize("kind", MOST)
def test_the_most_of_a_kind_is_what_its_largest_check_has(
    found: dict[type, Size], kind: str
) -> None:
    of_kind = [now for check, now in found.items() if most(check) == MOST[kind]]
    assert Size(*map(max, zip(*of_kind, strict=True))) == MOST[kind]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for check, now in sizes(Path(folder)).items():
            print(f"{check.__name__:20} {now.classes} classes {now.names:4} names")
