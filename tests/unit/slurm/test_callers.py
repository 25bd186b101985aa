"""Jobs and their steps start without the options and settings of whoever calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from railgauge import paths, systems
from railgauge.acceptance import session
from railgauge.slurm import client
from railgauge.systems import rehearsal

#: The names in the programs that read them.
READ = (paths.HOME / "tests/data/help/slurm-24.11-variables.txt").read_text().split("\n")[1:-1]
OF_MPI = ["PMIX_MCA_gds", "OMPI_MCA_pml", "UCX_TLS", "NCCL_ALGO", "PRTE_MCA_ras", "UCC_TLS"]

#: These turn all commands to another cluster, and are refused.
ELSEWHERE = {"SLURM_CLUSTERS", "SBATCH_CLUSTERS"}


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test leaves is gone after it."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(client, "_kept", [])


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an sbatch that prints its environment."""
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\nenv | cut -d = -f 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize("name", sorted({*READ, *OF_MPI} - ELSEWHERE))
def test_no_variable_that_sbatch_or_srun_read_reaches_jobs(name: str) -> None:
    os.environ[name] = "arbitrary"
    session.use("lab")
    assert name not in os.environ


def test_slurms_commands_get_none_of_them_either(seen: Path) -> None:
    """Where no system was chosen yet: `railgauge system new --detect`."""
    names = sorted({*READ, *OF_MPI} - ELSEWHERE)
    os.environ.update(dict.fromkeys(names, "x"))
    assert not set(names) & set(client.output("sbatch").split())


@pytest.mark.parametrize("name", ["SLURM_CONF", "SLURM_JWT", "SLURM_CONF_SERVER", "PATH", "LANG"])
def test_what_finds_the_cluster_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    os.environ.setdefault(name, "x")
    os.environ["SLURM_DISTRIBUTION"] = "arbitrary"
    session.use("lab")
    assert name in os.environ and name in client.environment()


def test_a_system_names_what_it_wants_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    system = systems.load("lab")
    ns = system.partition("ns")
    extras = ns.extras.model_copy(update={"keep_variables": ["SBATCH_ACCOUNT", "UCX_*"]})
    kept = system.model_copy(update={"partitions": [ns.model_copy(update={"extras": extras})]})
    monkeypatch.setattr(systems, "load", lambda _: kept)
    os.environ.update(SBATCH_ACCOUNT="net", SBATCH_QOS="low", UCX_TLS="tcp", UCX_NET_DEVICES="x")
    session.use("lab")
    assert {"SBATCH_ACCOUNT", "UCX_TLS", "UCX_NET_DEVICES"} <= os.environ.keys()
    assert "SBATCH_QOS" not in os.environ
    assert {"SBATCH_ACCOUNT", "UCX_TLS"} <= client.environment().keys()
    assert "not passed on to jobs: SBATCH_QOS;" in capsys.readouterr().err


def test_a_rehearsal_has_the_nodes_of_the_lab_whatever_the_caller_has_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    systems.load.cache_clear()
    monkeypatch.delenv("RFM_SYSTEM", raising=False)
    os.environ.update({rehearsal.VARIABLE: "healthy", "NCCL_ALGO": "Ring"})
    try:
        session.use("dgx-spark")
        assert "not passed on to jobs: NCCL_ALGO" in capsys.readouterr().err
        assert "n1" in {node for p in systems.load("dgx-spark").partitions for node in p.nodes}
    finally:
        systems.load.cache_clear()


def test_what_is_not_passed_on_is_said_but_for_the_job_that_it_is_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    os.environ.update(SLURM_JOB_ID="5", SLURM_NTASKS="1", SBATCH_ACCOUNT="net")
    session.use("lab")
    assert "not passed on to jobs: SBATCH_ACCOUNT; a system" in capsys.readouterr().err
    session.use("lab")
    assert capsys.readouterr().err == ""
