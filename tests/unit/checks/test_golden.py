"""What the jobs of every check are told, system by system, against what is stored.

    make golden        writes tests/data/golden/ anew; read the diff before you commit it

A golden file holds the job script and the orders of one case of one check. Of a sweep it holds its
places by round, the order of the first place, and of the other orders what is different there; of
one by launches all orders.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from railgauge import hostlist, paths, systems
from railgauge.node.orchestration.conductor import launch_argv
from railgauge.node.orchestration.sweep_file import Sweep
from railgauge.slurm.client import option

GOLDEN = Path(__file__).parents[2] / "data" / "golden"

_SCRIPT = "rfm_job.sh"
_ORDERS = ("ranks.json", "mpi_under_load.json")
_SWEEP = "sweep.json"


# --- what a dry run writes ----------------------------------------------------------------------


def _nodes(system: str) -> tuple[list[str], list[str]]:
    """Enough nodes for a case of every check between two; and those that are not the first."""
    chosen, later = [], []
    for partition in systems.load(system).partitions:
        few = partition.nodes[:2]
        chosen += few
        later += few[1:]
    return chosen, later


def _of_pairs(system: str, folder: Path) -> dict[str, Path]:
    """A dry run with few nodes: one pair stands for all."""
    nodes, later = _nodes(system)
    others = rf"%pair=[^:]+:({'|'.join(later)})(:|$)"
    return _dry_run(system, folder, ["-x", others], RAILGAUGE_NODES=hostlist.fold(nodes))


def _of_many(system: str, folder: Path) -> dict[str, Path]:
    """A dry run of what is measured over more than two nodes, where there is any."""
    partitions = systems.load(system).partitions
    over_many = ("nccl", "fabric", "applications")
    if not any(getattr(p.extras, n) and len(p.nodes) > 2 for p in partitions for n in over_many):
        return {}
    checks = r"^(Nccl(Segment|All)|FabricBalance|ApplicationTime)\b"
    return _dry_run(system, folder, ["-n", checks])


def _dry_run(system: str, folder: Path, options: list[str], **env: str) -> dict[str, Path]:
    """The stage folder of every case of a session that submits nothing, below `folder`."""
    ours = ("RFM_", "RAILGAUGE_", "SLURM_", "SBATCH_")
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "railgauge.acceptance.session", "-c", str(paths.CHECKS)),
            *("--mode", "acceptance", "--dry-run", *options),
        ],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
            "RFM_SYSTEM": system,
            "RFM_COLORIZE": "no",
            "RAILGAUGE_CAMPAIGN": str(folder / "campaign"),
            "RAILGAUGE_RESULTS": str(folder),
            # Where no lab is: `lab` is then as any other system, whether it is up or not.
            "RAILGAUGE_LAB_DIR": str(folder / "lab"),
            "RAILGAUGE_STACK_DIR": str(folder / "stack"),
            # What is of the series only has a job too.
            "RAILGAUGE_SERIES": "1",
            **env,
        },
        cwd=paths.HOME,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout[-4000:]
    report = json.loads((folder / "campaign" / "report.json").read_text(encoding="utf-8"))
    # ReFrame runs them in any order; the names count them as the check lists them.
    cases = sorted(report["runs"][0]["testcases"], key=lambda case: str(case["unique_name"]))
    return {case["display_name"]: Path(case["stagedir"]) for case in cases}


def _flat(value: Any, indent: str = "") -> str:
    """JSON in which an argv stands on one line."""
    if isinstance(value, dict) and value:
        lines = [f"{indent}  {json.dumps(k)}: {_flat(v, indent + '  ')}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(len(str(item)) > 60 for item in value):
        lines = [f"{indent}  {_flat(item, indent + '  ')}" for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(value)


def _launches(orders: dict[str, Any]) -> str:
    """What the driver of launches is told, each group of nodes on one line."""
    rounds, places, specs = (orders.pop(name) for name in ("rounds", "places", "orders"))
    text = f"-- {_SWEEP}\n{_flat(orders)}\n-- rounds\n"
    for number, one in enumerate(rounds):
        for place in (places[member] for member in one["places"]):
            nodes = " ".join(place["nodes"])
            text += f"{number}: {place['name']} on {nodes} order {one['order']}\n"
    return text + "".join(f"-- order {n}\n{_flat(spec)}\n" for n, spec in enumerate(specs))


def _sweep(orders: dict[str, Any]) -> str:
    """What the conductor and its agents are told, each place on one line."""
    if "launcher" in orders:
        return _launches(orders)
    rounds, places, specs = (orders.pop(name) for name in ("rounds", "places", "orders"))
    text = f"-- {_SWEEP}\n{_flat(orders)}\n-- rounds\n"
    for number, members in enumerate(rounds):
        for place in (places[member] for member in members):
            roles = " ".join(f"{role}={node}" for role, node in place["roles"].items())
            text += f"{number}: {place['name']} {place['program']} {roles} order {place['order']}\n"
    text += f"-- order 0\n{_flat(specs[0])}\n"
    for number, spec in enumerate(specs[1:], 1):
        text += f"-- order {number} differs from order 0\n{json.dumps(_other(spec, specs[0]))}\n"
    return text


def _other(spec: Any, first: Any) -> Any:
    """What is not as in the first; null for what only that one has."""
    if not isinstance(spec, dict) or not isinstance(first, dict):
        return spec
    names = dict.fromkeys([*first, *spec])
    differs = [n for n in names if spec.get(n) != first.get(n)]
    return {name: _other(spec.get(name), first.get(name)) for name in differs}


def _written(stage: Path) -> str:
    """Job script and orders of one case, without what is this machine's."""
    text = (stage / _SCRIPT).read_text(encoding="utf-8")
    for name in (_SWEEP, *_ORDERS):
        if (stage / name).exists():
            orders = json.loads((stage / name).read_text(encoding="utf-8"))
            text += _sweep(orders) if name == _SWEEP else f"-- {name}\n{_flat(orders)}\n"
    # Quoted where this checkout's path asks for it.
    for words in (f"PYTHONPATH={paths.SOURCE}", str(paths.SOURCE)):
        text = text.replace(shlex.quote(words), words)
    return text.replace(str(stage), "$STAGE").replace(str(paths.HOME), "$HOME_OF_RAILGAUGE")


def made(system: str, folder: Path) -> dict[str, str]:
    """Name and text of every golden file of a system, made in an empty `folder`."""
    chosen: dict[str, tuple[str, Path]] = {}
    # What the many need is also there of few.
    found = {**_of_many(system, folder / "many"), **_of_pairs(system, folder / "pairs")}
    for case, stage in found.items():
        chosen.setdefault(case.split()[0], (case, stage))
    return {f"{c}.txt": f"== {case}\n{_written(stage)}" for c, (case, stage) in chosen.items()}


def write() -> None:
    """Put the golden files of all systems in the place of those stored."""
    shutil.rmtree(GOLDEN, ignore_errors=True)
    for system in systems.names():
        with tempfile.TemporaryDirectory(prefix="railgauge-golden-") as folder:
            files = made(system, Path(folder))
        (GOLDEN / system).mkdir(parents=True)
        for name, text in files.items():
            (GOLDEN / system / name).write_text(text, encoding="utf-8")


# --- what is stored -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Job:
    """One case of a golden file: its script, and the orders of the program that it starts; of a
    sweep those of its first place, of one by launches a job for each order.
    """

    case: str
    script: str
    orders: Mapping[str, Any]
    #: how the driver of a sweep starts what runs on the nodes
    launched: str

    @property
    def sbatch_options(self) -> list[str]:
        return re.findall(r"^#SBATCH (.+)$", self.script, re.MULTILINE)

    @property
    def launch(self) -> str:
        """The line that starts the tasks; of a sweep that of its conductor."""
        return self.launched or self.script.splitlines()[-1]

    @property
    def environment(self) -> dict[str, str]:
        """Of the job and of its tasks."""
        exported = dict(re.findall(r"^export (\w+)=(.*)$", self.script, re.MULTILINE))
        return {**exported, **self.orders.get("environment", {})}


def stored(system: str, check: str) -> list[Job]:
    """The cases in one golden file."""
    text = (GOLDEN / system / f"{check}.txt").read_text(encoding="utf-8")
    jobs = []
    for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        case, _, rest = part.partition("\n")
        script, *parts = re.split(r"^-- (.+)\n", rest, flags=re.MULTILINE)
        orders = dict(zip(parts[::2], parts[1::2], strict=True))
        if '"launcher"' in orders.get(_SWEEP, ""):
            jobs += _stored_launches(case, script, orders)
            continue
        known = next(orders[name] for name in ("order 0", *_ORDERS) if name in orders)
        told, launched = json.loads(known), ""
        if _SWEEP in orders:
            sweep = Sweep(**json.loads(orders[_SWEEP]), rounds=(), places=(), orders=())
            told = {"tool": sweep.tool, "names": sweep.names, **told}
            launched = shlex.join(launch_argv(sweep, _SWEEP, sweep.nodes))
        # Of an MPI program beside a transfer, with the order of the transfer.
        told = {**told, **told.get("order", {})}
        jobs.append(Job(case, script, told, launched))
    return jobs


def _stored_launches(case: str, script: str, orders: Mapping[str, str]) -> list[Job]:
    """A job for each order, with the first of its groups in the case's name."""
    sweep = json.loads(orders[_SWEEP])
    launched = shlex.join([*sweep["launcher"]["argv"], *sweep["program"]])
    first: dict[str, str] = {}
    for line in orders["rounds"].splitlines():
        place, order = line.split(": ", 1)[1].split(" on ")[0], line.rpartition(" ")[2]
        first.setdefault(order, place)
    return [
        Job(f"{case}:{place}", script, json.loads(orders[f"order {order}"])["ranks"], launched)
        for order, place in first.items()
    ]


# --- tests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", systems.names())
def test_the_jobs_of_a_system_are_as_stored(system: str, tmp_path: Path) -> None:
    fresh = made(system, tmp_path)
    before = {path.name: path.read_text() for path in (GOLDEN / system).glob("*.txt")}
    changes = [
        line
        for name in sorted({*fresh, *before})
        for line in difflib.unified_diff(
            before.get(name, "").splitlines(),
            fresh.get(name, "").splitlines(),
            f"stored/{system}/{name}",
            f"written/{system}/{name}",
            lineterm="",
        )
    ]
    assert not changes, "\n".join([*changes, "", "as it should be? make golden"])


def test_a_checkout_whose_path_has_a_blank_is_one_word_of_a_job(tmp_path: Path) -> None:
    home = tmp_path / "a checkout"
    for folder in ("src", "configs", "results/references"):
        shutil.copytree(paths.HOME / folder, home / folder)
    source = str(home / "src")
    cases = _dry_run("lab", tmp_path / "out", ["-n", "^Iperf2Pair"], PYTHONPATH=source)
    assert cases
    for stage in cases.values():
        launch = (stage / _SCRIPT).read_text(encoding="utf-8").splitlines()[-1]
        assert f"PYTHONPATH={source}" in shlex.split(launch)


@pytest.mark.parametrize("system", systems.names())
def test_a_job_has_a_task_on_each_of_its_nodes(system: str) -> None:
    """Slurm 26.05 refuses fewer tasks than nodes, and takes their number for that of the nodes."""
    jobs = [
        job
        for path in (GOLDEN / system).glob("*.txt")
        for job in path.read_text(encoding="utf-8").split("\n== ")
    ]
    asked = [
        (option("ntasks", "n", words), option("nodelist", "w", words))
        for words in (re.findall(r"^#SBATCH (\S+)$", job, re.MULTILINE) for job in jobs)
    ]
    sizes = [(int(tasks), len(hostlist.expand(nodes))) for tasks, nodes in asked if nodes]
    assert sizes
    assert [size for size in sizes if size[0] < size[1]] == []


def test_every_golden_file_is_of_a_system() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(systems.names())


@pytest.mark.parametrize("system", systems.names())
def test_every_required_check_has_a_job(system: str) -> None:
    required = {check for p in systems.load(system).partitions for check in p.extras.required}
    assert required <= {path.stem for path in (GOLDEN / system).glob("*.txt")}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.unit.checks.test_golden --write")
    write()
