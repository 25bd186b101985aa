"""What is made ready before ReFrame starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.acceptance import session

#: Names what it has imported of Railgauge, and what of it has no bytecode.
_IMPORTS = """
import sys
from pathlib import Path
import railgauge.node.{module}
ours = {{name: found.__cached__ for name, found in sys.modules.items() if "railgauge" in name}}
print(len(ours), *sorted(name for name, cached in ours.items() if not Path(cached).exists()))
"""


@pytest.mark.parametrize(
    "module",
    [
        "orchestration.agent",
        "orchestration.server",
        "orchestration.group_launches",
        "runners.mpi_ranks",
        "runners.mpi_under_load",
    ],
)
def test_nothing_that_nodes_import_is_compiled_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(paths.SOURCE, tmp_path / "a clone", ignore=unwanted)
    monkeypatch.setattr(paths, "SOURCE", tmp_path / "a clone")
    session.compile_for_nodes()
    answer = subprocess.run(
        [sys.executable, "-c", _IMPORTS.format(module=module)],
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path / "a clone"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    count, *without = answer.stdout.split()
    assert int(count) > 1 and without == []


def test_a_checkout_that_cannot_be_written_to_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "railgauge" / "node").mkdir(parents=True)
    (tmp_path / "railgauge" / "node" / "agent.py").write_text("pass\n")
    # In place of a file system that is read only: root may write anywhere else.
    (tmp_path / "railgauge" / "node" / "__pycache__").write_text("")
    monkeypatch.setattr(paths, "SOURCE", tmp_path)
    session.compile_for_nodes()
