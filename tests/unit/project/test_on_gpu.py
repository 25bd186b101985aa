"""tests/on_gpu.sh, with stand-ins of the tools: no GPU is here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.tools import nvbandwidth

SCRIPT = paths.HOME / "tests" / "on_gpu.sh"
SMI = paths.HOME / "tests" / "data" / "gpu" / "inventory" / "nvidia-smi-q-x.xml"
STAND_IN = """#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
case "${0##*/} $*" in
  "nvidia-smi -q -x") cat "$SMI" ;;
  *testSamples*) sleep 60 ;;
  mpirun*) exit 7 ;;
esac
"""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """A machine with stand-ins, that notes each call."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("nvidia-smi", "nvbandwidth", "all_reduce_perf", "mpirun", "dmesg", "sleep"):
        text = "#!/bin/sh\nexec /bin/sleep 0.2\n" if name == "sleep" else STAND_IN
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return {
        **{n: v for n, v in os.environ.items() if n not in ("DRY_RUN", "CLOCK_LOCK")},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "SMI": str(SMI),
        "NCCL_TESTS": str(programs),
    }


def run(folder: Path, environment: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), str(folder)],
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_each_step_leaves_its_outputs_exit_code_and_time(
    tmp_path: Path, bare: dict[str, str]
) -> None:
    out = tmp_path / "out"
    done = run(out, bare)
    assert done.returncode == 0, done.stderr
    steps = [line.split(",") for line in (out / "steps.csv").read_text().splitlines()[1:]]
    codes = {name: code for name, code, _ in steps}
    assert codes["smi"] == "0" and codes["nvbandwidth-several"] == "7"
    assert codes["inventory-after"] == "0" and codes["nccl-one"] == "0"
    assert (out / "smi.out").read_text() == SMI.read_text()
    assert "fields" in json.loads((out / "inventory-leaked.json").read_text())
    assert "-lgc" not in Path(bare["CALLS"]).read_text()


def test_a_lock_of_the_clocks_is_taken_back(tmp_path: Path, bare: dict[str, str]) -> None:
    assert run(tmp_path / "out", bare, CLOCK_LOCK="600").returncode == 0
    calls = Path(bare["CALLS"]).read_text()
    assert calls.index("nvidia-smi -lgc 600,600") < calls.index("nvidia-smi -rgc")


def test_a_dry_run_names_the_tests_of_the_check_and_runs_nothing(
    tmp_path: Path, bare: dict[str, str]
) -> None:
    shown = run(tmp_path / "out", bare, DRY_RUN="1", CLOCK_LOCK="600").stdout
    assert " ".join(nvbandwidth.argv(nvbandwidth.options_of(8))) in shown
    assert " ".join(nvbandwidth.MULTINODE) in shown
    assert not Path(bare["CALLS"]).exists() and list((tmp_path / "out").iterdir()) == []


def test_without_a_folder_it_says_what_to_type(bare: dict[str, str]) -> None:
    done = subprocess.run([str(SCRIPT)], env=bare, capture_output=True, text=True)
    assert done.returncode != 0 and "next: tests/on_gpu.sh OUT" in done.stderr
