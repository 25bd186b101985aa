"""How a system's description is staged for the lab, and what the replayer is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths, systems
from railgauge.common.errors import RailgaugeError
from railgauge.systems import rehearsal
from railgauge.systems.nccl import Nccl
from railgauge.tools import nccl_tests
from railgauge.yamlfile import load


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rehearsal.VARIABLE, "healthy")


def partition(**changes: Any) -> dict[str, Any]:
    return {
        "name": "batch",
        "launcher": "srun",
        "scheduler": "slurm",
        "environs": ["builtin"],
        "access": ["--partition=batch", "--account=ops"],
        "features": ["tcp", "rdma", "nccl"],
        "env_vars": [["UCX_NET_DEVICES", "mlx5_0:1"], ["UCX_TLS", "tcp"]],
        "extras": {
            "nodes": "dgx[01-32]",
            "launch_options": ["--mpi=pmix"],
            "required": ["NodeState", "NcclPair"],
            "absent": [{"node": "dgx07", "why": "baseboard"}],
            "rdma": {"devices": "mlx5_.*"},
            "nccl": {
                "gpus_per_node": 8,
                "gpu": "NVIDIA H100 80GB HBM3",
                "nics": {"devices": ["mlx5_0"], "gbits": 400, "link_layer": "Ethernet"},
                "binaries": {"image": f"docker://nccl@sha256:{'0' * 64}", "version": "2.17.6"},
                "operations": {"pair": ["all_reduce"]},
            },
        },
        **changes,
    }


def staged(**changes: Any) -> dict[str, Any]:
    entry = {"name": "site", "hostnames": ["x"], "partitions": [partition(**changes)]}
    found: dict[str, Any] = rehearsal.staged(entry)["partitions"][0]
    return found


@pytest.mark.usefixtures("healthy")
def test_a_partition_moves_to_the_lab() -> None:
    found = staged()
    assert found["access"] == ["--partition=ns"]
    assert found["extras"]["nodes"] == "n[1-4]"
    assert found["extras"]["launch_options"] == ["--mpi=pmix"]
    assert "absent" not in found["extras"]


@pytest.mark.usefixtures("healthy")
def test_only_nccls_checks_are_required() -> None:
    found = staged()
    assert found["extras"]["required"] == ["NcclPair"]
    # TCP has no stand-in: what it measured would be the lab's link, judged as the system's.
    assert found["features"] == ["nccl"]
    assert "rdma" not in found["extras"]


@pytest.mark.usefixtures("healthy")
def test_load_next_to_tcp_and_rdma_is_left_out_with_them() -> None:
    assert staged(features=["tcp", "nccl", "contention"])["features"] == ["nccl"]


@pytest.mark.usefixtures("healthy")
def test_interfaces_of_the_site_are_not_named() -> None:
    variables = dict(staged()["env_vars"])
    # The system's own for the interfaces of another machine would be wrong, and the lab's MPI
    # starts by what the lab says: Open MPI's own transport dies now and then (docs/figures.csv).
    assert variables["UCX_NET_DEVICES"] == "eth0"
    assert (variables["UCX_TLS"], variables["OMPI_MCA_pml"]) == ("self,sm,tcp", "ucx")


@pytest.mark.usefixtures("healthy")
def test_mpirun_may_start_the_ranks_of_root() -> None:
    variables = dict(staged(launcher="mpirun")["env_vars"])
    assert variables["OMPI_ALLOW_RUN_AS_ROOT"] == variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert "OMPI_ALLOW_RUN_AS_ROOT" not in dict(staged(launcher="srun")["env_vars"])


def test_the_replayer_stands_in_with_the_sites_version() -> None:
    binaries = staged()["extras"]["nccl"]["binaries"]
    assert binaries == {"path": str(rehearsal.REPLAYER), "version": "2.17.6"}
    for operation in nccl_tests.OPERATIONS:
        assert (rehearsal.REPLAYER / f"{operation}_perf").exists(), operation


@pytest.mark.usefixtures("healthy")
def test_a_system_without_gpus_cannot_be_rehearsed() -> None:
    entry = {"name": "site", "partitions": [partition(features=["tcp"])]}
    with pytest.raises(RailgaugeError, match="nothing to rehearse"):
        rehearsal.staged(entry)


def test_singletons_are_real_where_srun_starts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rehearsal.VARIABLE, "singletons")
    assert staged()["extras"]["launch_options"] == ["--mpi=none"]


def test_a_hang_is_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rehearsal.VARIABLE, "hang")
    assert staged()["extras"]["nccl"]["timeout_s"] < 10


@pytest.mark.parametrize("text", ["", "well", "slow:n9", "slow:", "slow:n1:n2:n3"])
def test_unknown_scenarios_are_refused_with_the_known(text: str) -> None:
    if text == "slow:":
        assert rehearsal.Scenario.parse(text).nodes == ()
        return
    with pytest.raises(RailgaugeError, match="healthy, slow"):
        rehearsal.Scenario.parse(text)


def test_no_variable_is_no_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(rehearsal.VARIABLE, raising=False)
    assert rehearsal.scenario() is None


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("transport", "ranks", "recorded"),
    [
        ("mnnvl", 8, [37038.7, 37101.0]),
        ("default", 8, [37038.7, 37101.0]),
        ("one-hca", 8, [355729.0, 353612.0]),
        ("sockets", 8, None),
        # The recording is of 8 ranks.
        ("mnnvl", 16, None),
    ],
)
def test_the_recording_of_the_very_case_is_replayed(
    transport: str, ranks: int, recorded: list[float] | None
) -> None:
    largest = 16 * 2**30
    told = rehearsal.replay(
        systems_folder=paths.SYSTEMS / "gb200-nvl72",
        fabric=Nccl.model_validate(partition()["extras"]["nccl"]),
        scale="pair",
        options=nccl_tests.Options(
            "all_reduce", ranks, min_bytes=8, max_bytes=largest, transport=transport
        ),
        busbw_gbytes_s=100,
    )
    assert told["recorded"].get(str(largest)) == recorded
    assert told["sizes"][-1] == largest


@pytest.mark.usefixtures("healthy")
def test_without_a_recording_nothing_is_replayed(tmp_path: Path) -> None:
    told = rehearsal.replay(
        systems_folder=tmp_path,
        fabric=Nccl.model_validate(partition()["extras"]["nccl"]),
        scale="node",
        options=nccl_tests.Options("alltoall", 8, min_bytes=8, max_bytes=1024),
        busbw_gbytes_s=100,
    )
    assert told["recorded"] == {} == told["fallback"]


@pytest.mark.parametrize("system", ["lab", "dgx-h100"])
@pytest.mark.parametrize("scenario", ["none", "healthy"])
def test_reframe_with_a_scenario_left_in_the_environment_is_one_clear_error(
    scenario: str, system: str
) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "railgauge.acceptance.session", "-c", str(paths.CHECKS), "-l"],
        env={**os.environ, rehearsal.VARIABLE: scenario, "RFM_SYSTEM": system},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert rehearsal.VARIABLE in answer.stdout and "next:" in answer.stdout
    assert "Traceback" not in answer.stdout


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize("name", ["dgx-h100", "dgx-spark", "gb200-nvl72"])
def test_a_committed_system_is_whole_when_it_is_staged(name: str) -> None:
    entry = load(paths.SYSTEMS / name / "reframe.yaml")
    staged_system = systems.System.model_validate(rehearsal.staged(entry))
    assert all("nccl" in p.features for p in staged_system.partitions)
