"""Which MPI a rank loads, by what its launcher offers."""

from __future__ import annotations

import ctypes

import pytest

from railgauge.node.runners import mpi_world

MPICH, OPEN_MPI = mpi_world.MPICH, mpi_world.LIBRARY


@pytest.mark.parametrize(
    ("variables", "installed", "loaded"),
    [
        ({}, {MPICH, OPEN_MPI}, OPEN_MPI),
        ({"PMIX_NAMESPACE": "slurm.1.0"}, {MPICH, OPEN_MPI}, OPEN_MPI),
        ({"PMI_FD": "17"}, {MPICH, OPEN_MPI}, MPICH),
        ({"PMI_FD": "17", "PMIX_NAMESPACE": "slurm.1.0"}, {MPICH, OPEN_MPI}, OPEN_MPI),
        # It says itself that it finds no PMIx, which is a cause with a next step.
        ({"PMI_FD": "17"}, {OPEN_MPI}, OPEN_MPI),
    ],
)
def test_a_rank_loads_the_mpi_that_its_launcher_can_start(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], installed: set[str], loaded: str
) -> None:
    def load(name: str, mode: int) -> str:
        if name not in installed:
            raise OSError(f"{name}: cannot open shared object file")
        return name

    for name in ("PMI_FD", "PMIX_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ctypes, "CDLL", load)
    assert mpi_world.load_library() == (loaded, loaded == MPICH)
