"""How the tests are spread over the workers of pytest-xdist: `make test` runs five on two cores.

A test of the lab waits for Slurm half of its time. So labs go on next to each other: each worker
brings up a lab of its own, from one image. The emulated machines keep the two cores at work with
the units and one file of the lab next to them, which measures most finely; then a second worker has
labs next to them, and the last one once they have ended. A file of tests stays on one worker, for
what its fixtures measure once. Without xdist the tests use the lab of the checkout.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from railgauge import paths, systems
from railgauge.lab import spec
from railgauge.lab.cluster import Lab
from tests import properties

#: The folder of the labs of this run's workers, which inherit it.
LABS = "RAILGAUGE_TEST_LABS"

# Tests start hundreds of commands: one that may leave no bytecode compiles all of Railgauge first,
# which is 40 % of the CPU time that it takes to start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

hypothesis.settings.load_profile(properties.QUICK)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[LABS] = str(paths.lab_folder() / "tests" / str(os.getpid()))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        take_labs_down()


def take_labs_down() -> None:
    """Of this run, whose workers have ended: one that crashed, or was killed, has left its lab.
    And of runs that were killed themselves.
    """
    own = Path(os.environ[LABS])
    for run in own.parent.glob("[0-9]*"):
        if run == own or not Path("/proc", run.name).exists():
            for folder in run.iterdir():
                partitions = {p.name: p.extras.nodes for p in systems.load("lab").partitions}
                # A test's own lab, elsewhere, has a link here.
                of_lab = folder.readlink() if folder.is_symlink() else folder
                Lab(spec.load(), partitions, of_lab).down()
            shutil.rmtree(run)


def pytest_itemcollected(item: pytest.Item) -> None:
    """The workers of xdist must name a test alike. The order of a set is not the same where a file
    of tests was compiled just now and where its bytecode was read.
    """
    for value in item.callspec.params.values() if hasattr(item, "callspec") else ():
        if isinstance(value, (set, frozenset)) and str(value) in item.name:
            raise pytest.UsageError(
                f"{item.nodeid}: is named by a set, whose order changes; give a list or a tuple"
            )


#: Keeps two thirds of a CPU at work, for longer than all else: the machines are emulated.
EMULATED = "test_vm"
#: Tells 5 % of a slow link, and so is next to no other lab for as long as there is a choice: its
#: numbers vary more next to one.
FINEST = "test_before_after"

#: What takes longest of each: begun last, it would keep one worker at work when the others end.
LONGEST = (
    *(EMULATED, FINEST, "test_accept", "test_gate", "test_leaves", "test_fooling"),
    *("test_rehearsal", "test_sweep_ends", "test_slurm_trouble", "test_lab", "test_contention"),
    *("test_campaigns", "test_golden", "test_update", "test_rules", "test_nccl_tests"),
)


def _is_of_lab(file: str) -> bool:
    return file.startswith("tests/lab/")


def _place(file: str) -> int:
    name = Path(file).stem
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


with contextlib.suppress(ImportError):
    from xdist.scheduler import LoadFileScheduling

    class LabsDuringUnits(LoadFileScheduling):
        """The second worker begins with the units, the others with the lab: one beside the emulated
        machines, two once the finest measurement has ended, all of them once the machines have.
        Before, they would only take from each other what they get.
        """

        def _assign_work_unit(self, node: Any) -> None:
            number = self.nodes.index(node)
            if (number >= 3 and self._goes_on(FINEST)) or (number >= 4 and self._goes_on(EMULATED)):
                return
            files = [file for file in self.workqueue if _is_of_lab(file) != (number == 1)]
            if files:
                self.workqueue.move_to_end(min(files, key=_place), last=False)
            super()._assign_work_unit(node)

        def _goes_on(self, name: str) -> bool:
            """Whether that file of the lab has tests that have not ended."""
            units = [self.workqueue, *self.assigned_work.values()]
            return any(
                Path(file).stem == name and _is_of_lab(file) and not all(tests.values())
                for of_worker in units
                for file, tests in of_worker.items()
            )

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            going_on = [name for name in (EMULATED, FINEST) if self._goes_on(name)]
            super().mark_test_complete(node, item_index, duration)
            if not all(map(self._goes_on, going_on)):
                for waiting in self.nodes:
                    self._reschedule(waiting)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LabsDuringUnits:
        return LabsDuringUnits(config, log)
