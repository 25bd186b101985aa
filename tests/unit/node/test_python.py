"""What runs on compute nodes needs Python 3.9 and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge import paths

#: The gate asks Slurm. Between the rounds of a sweep its results are judged: `railgauge.locating`.
SHARED = ("slurm", "slurm.client", "slurm.nodes")
PROGRAMS = [
    paths.SOURCE / "railgauge" / "__init__.py",
    *(
        paths.SOURCE / "railgauge" / "slurm" / f"{name}.py"
        for name in ("__init__", "client", "nodes")
    ),
    *(
        program
        for room in ("common", "locating", "node")
        for program in sorted((paths.SOURCE / "railgauge" / room).rglob("*.py"))
    ),
]


def imported(program: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{program}: a relative import"
            module = node.module or ""
            packages = (f"{module}.{alias.name}" for alias in node.names)
            # `from railgauge.slurm import client` is of that module only.
            yield from packages if module == "railgauge.slurm" else [module]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_program_imports_the_standard_library_and_its_neighbours_only(program: Path) -> None:
    own = ("railgauge", "railgauge.node", *(f"railgauge.{name}" for name in SHARED))
    others = {
        name
        for name in imported(program)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("railgauge.common", "railgauge.node.", "railgauge.locating"))
        and name not in own
    }
    assert not others


@pytest.mark.parametrize(
    "program",
    [
        "orchestration.agent",
        "orchestration.conductor",
        "inventory",
        "runners.mpi_ranks",
        "system.readiness",
    ],
)
def test_programs_take_no_foreign_file_for_a_module_of_python(tmp_path: Path, program: str) -> None:
    for name in ("json", "os", "signal", "socket", "subprocess"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger')\n")
    ended = subprocess.run(
        [sys.executable, *paths.on_node(program)[3:]],
        cwd=tmp_path,
        env={"PYTHONPATH": str(paths.SOURCE)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "a stranger" not in ended.stderr


def vermin(*files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(str(Path(sys.executable).with_name("vermin")), "--target=3.9-", "--violations"),
            *("--no-tips", "--no-parse-comments", *map(str, files)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def test_programs_use_no_syntax_and_no_library_newer_than_3_9() -> None:
    answer = vermin(*PROGRAMS)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize(
    "newer",
    [
        "match 1:\n    case 1: pass\n",
        "list(zip([], [], strict=True))\n",
        "import asyncio\nasyncio.TaskGroup()\n",
        "import sys\nsys.stdlib_module_names\n",
    ],
)
def test_what_3_9_lacks_is_found(newer: str, tmp_path: Path) -> None:
    (tmp_path / "newer.py").write_text(newer)
    answer = vermin(tmp_path / "newer.py")
    assert answer.returncode != 0, answer.stdout
