"""How the tests are spread over xdist's workers, and what is left of their labs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from xdist.scheduler import LoadFileScheduling

from tests import conftest
from tests.conftest import LABS, LabsDuringUnits

ITEMS = [
    *("tests/lab/test_fooling.py::test_a", "tests/lab/test_fooling.py::test_b[x::y]"),
    *("tests/lab/test_vm.py::test_a", "tests/lab/test_accept.py::test_a"),
    *("tests/unit/model/test_limits.py::test_a", "tests/unit/checks/test_golden.py::test_a"),
    *("tests/lab/test_before_after.py::test_a", "tests/lab/test_jobs.py::test_a"),
    *("tests/lab/test_site.py::test_a", "tests/lab/test_lab.py::test_a"),
    *("tests/lab/test_gate.py::test_a", "tests/lab/test_leaves.py::test_a"),
    *(f"tests/lab/test_{name}.py::test_a" for name in ("resume", "schedules", "transfers", "new")),
]


#: The tests whose machines are emulated.
VM = ITEMS[2]
#: What measures most finely.
FINEST = ITEMS[6]


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


class Run(NamedTuple):
    """Five workers, with what they begin with, and who sends it to them."""

    scheduler: LabsDuringUnits
    workers: list[Worker]

    def end(self, worker: Worker, item: str) -> None:
        assert item in worker.sent
        self.scheduler.mark_test_complete(worker, ITEMS.index(item))


@pytest.fixture
def run() -> Run:
    option = SimpleNamespace(loadscopereorder=True, tx=["popen"] * 5)
    config: Any = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    scheduler = LabsDuringUnits(config)
    started = [Worker() for _ in range(5)]
    for worker in started:
        scheduler.add_node(worker)
    for worker in started:
        scheduler.add_node_collection(worker, ITEMS)
    scheduler.schedule()
    return Run(scheduler, started)


def test_the_first_begins_with_the_longest_file_of_the_lab(run: Run) -> None:
    assert run.workers[0].sent[0] == VM


def test_the_second_begins_with_the_longest_file_of_units(run: Run) -> None:
    assert run.workers[1].sent[0] == ITEMS[5]


def test_one_runs_during_the_emulated_machines_then_a_second_and_at_last_all(run: Run) -> None:
    first, second, third, fourth, fifth = run.workers
    assert third.sent[0] == FINEST and fourth.sent == fifth.sent == []
    run.end(third, FINEST)
    assert fourth.sent and fifth.sent == []
    assert not fourth.shutting_down and not fifth.shutting_down
    run.end(first, VM)
    others = {*first.sent, *second.sent, *third.sent, *fourth.sent}
    assert fifth.sent and not set(fifth.sent) & others


def end_all(run: Run, workers: list[Worker]) -> list[str]:
    """All that is sent to these workers ends; what that was."""
    ended: list[str] = []
    while left := [(w, i) for w in workers for i in w.sent if i not in ended]:
        for worker, item in left:
            run.end(worker, item)
            ended.append(item)
    return ended


def test_every_test_is_sent_once_and_those_of_a_file_to_one_worker(run: Run) -> None:
    assert sorted(end_all(run, run.workers)) == sorted(ITEMS)
    assert sum(len(worker.sent) for worker in run.workers) == len(ITEMS)
    assert [set(ITEMS[:2]) <= set(worker.sent) for worker in run.workers].count(True) == 1
    assert all(worker.shutting_down for worker in run.workers)


def test_what_a_worker_that_crashed_had_is_sent_to_the_others(run: Run) -> None:
    first, *others = run.workers
    assert run.scheduler.remove_node(first) == VM
    assert sorted(end_all(run, others)) == sorted(ITEMS)


def test_files_stay_together_as_xdist_keeps_them() -> None:
    assert issubclass(LabsDuringUnits, LoadFileScheduling)


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
def test_no_test_is_named_by_a_set_with_an_order_that_differs_between_workers(
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
