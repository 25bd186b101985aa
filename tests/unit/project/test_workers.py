"""How the tests are spread over xdist's workers, and what is left of their labs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests import conftest
from tests.conftest import LABS, LabsBesideUnits

ITEMS = [
    *("tests/lab/test_fooling.py::test_a", "tests/lab/test_fooling.py::test_b[x::y]"),
    *("tests/lab/test_vm.py::test_a", "tests/lab/test_accept.py::test_a"),
    *("tests/unit/model/test_limits.py::test_a", "tests/unit/checks/test_golden.py::test_a"),
]


class Worker:
    """What the scheduler asks of a worker, and what it was sent."""

    shutting_down = False

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw0")
        self.sent: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += [ITEMS[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def workers() -> list[Worker]:
    """Three of them, with what they begin with."""

    option = SimpleNamespace(loadscopereorder=True, tx=["popen"] * 3)
    config: Any = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    scheduler = LabsBesideUnits(config)
    started = [Worker() for _ in range(3)]
    for worker in started:
        scheduler.add_node(worker)
    for worker in started:
        scheduler.add_node_collection(worker, ITEMS)
    scheduler.schedule()
    return started


def test_two_of_three_workers_begin_with_the_longest_files_of_the_lab(
    workers: list[Worker],
) -> None:
    assert [worker.sent[0] for worker in workers[:2]] == [ITEMS[2], ITEMS[3]]


def test_the_third_begins_with_the_longest_file_of_units(workers: list[Worker]) -> None:
    assert workers[2].sent[0] == ITEMS[5]


def test_every_test_is_sent_once_and_those_of_a_file_to_one_worker(workers: list[Worker]) -> None:
    assert sorted(item for worker in workers for item in worker.sent) == sorted(ITEMS)
    assert [set(ITEMS[:2]) <= set(worker.sent) for worker in workers].count(True) == 1


def test_files_stay_together_as_xdist_keeps_them() -> None:
    assert issubclass(LabsBesideUnits, LoadFileScheduling)


def test_the_labs_of_this_run_and_of_runs_that_are_gone_are_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Path] = []
    monkeypatch.setattr(conftest.Lab, "down", lambda lab: ended.append(lab.folders.lab))
    gone, other = "999999999", "1"
    labs = tmp_path / "labs"
    for run in (str(os.getpid()), gone, other):
        (labs / run / "gw0").mkdir(parents=True)
    (tmp_path / "second").mkdir()
    (labs / gone / "second-7").symlink_to(tmp_path / "second")
    monkeypatch.setenv(LABS, str(labs / str(os.getpid())))
    conftest.take_labs_down()
    of_workers = [labs / run / "gw0" for run in (str(os.getpid()), gone)]
    assert sorted(ended) == sorted([*of_workers, tmp_path / "second"])
    assert [folder.name for folder in labs.iterdir()] == [other]


@pytest.mark.parametrize(
    ("value", "name", "refused"),
    [
        ({(0, 0), (1, 1)}, "test_a[{name}]", True),
        (frozenset({"n1"}), "test_a[{name}]", True),
        ({"n1", "n2"}, "test_a[bad0]", False),
        ([(0, 0), (1, 1)], "test_a[{name}]", False),
    ],
    ids=["set", "frozenset", "set, named by pytest", "list"],
)
def test_no_test_is_named_by_a_set_whose_order_differs_between_workers(
    value: object, name: str, refused: bool
) -> None:
    item: Any = SimpleNamespace(
        callspec=SimpleNamespace(params={"bad": value}),
        name=name.format(name=value),
        nodeid=f"tests/test_a.py::{name}",
    )
    with contextlib.ExitStack() as stack:
        if refused:
            stack.enter_context(pytest.raises(pytest.UsageError, match="named by a set"))
        conftest.pytest_itemcollected(item)
    conftest.pytest_itemcollected(SimpleNamespace(name="test_a"))  # type: ignore[arg-type]
