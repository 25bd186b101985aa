"""Start MPI and say who is in the world: `world of N: rank R on HOST`, once a rank.

Calls the library directly, so that it needs no compiler and no mpi4py on the node. Each rank
prints its own line; the size that it prints is the one that MPI gave it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import Any

#: Open MPI 4, 5 and 6 share this ABI number.
LIBRARY = "libmpi.so.40"
#: MPICH 3, 4 and 5 share this one.
MPICH = "libmpich.so.12"

#: Open MPI's objects by MPICH's handles (mpi.h).
_MPICH_HANDLES = {
    "ompi_mpi_comm_world": 0x44000000,
    "ompi_mpi_char": 0x4C000101,
    "ompi_mpi_int": 0x4C000405,
    "ompi_mpi_op_sum": 0x58000003,
}

#: MPI_MAX_LIBRARY_VERSION_STRING of MPICH, and more.
_VERSION_BYTES = 16384

#: MPI_MAX_PROCESSOR_NAME of Open MPI, and more.
_NAME_BYTES = 1024


class World:
    """MPI's world, as MPI reports it: `size`, this process's `rank`, its `host`.

    OSError or ValueError where there is no MPI, RuntimeError where it does not start.
    """

    def __init__(self) -> None:
        self._mpi, self._is_mpich = load_library()
        self._world = self._handle("ompi_mpi_comm_world")
        self._call("MPI_Init", None, None)
        size, rank, length = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("MPI_Comm_size", self._world, ctypes.byref(size))
        self._call("MPI_Comm_rank", self._world, ctypes.byref(rank))
        self._call("MPI_Get_processor_name", name, ctypes.byref(length))
        self.size, self.rank, self.host = size.value, rank.value, name.value.decode()

    def _handle(self, name: str) -> ctypes.c_void_p | ctypes.c_int:
        if self._is_mpich:
            return ctypes.c_int(_MPICH_HANDLES[name])
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_void_p.in_dll(self._mpi, name)))

    def _call(self, function: str, *arguments: Any) -> None:
        if getattr(self._mpi, function)(*arguments) != 0:
            raise RuntimeError(f"{function} failed")

    def barrier(self) -> None:
        """Every rank must come this far: a world that only exists on paper hangs here."""
        self._call("MPI_Barrier", self._world)

    def hosts(self) -> list[str]:
        """The host of every rank, in their order."""
        byte = self._handle("ompi_mpi_char")
        own = ctypes.create_string_buffer(self.host.encode(), _NAME_BYTES)
        every = ctypes.create_string_buffer(_NAME_BYTES * self.size)
        self._call("MPI_Allgather", own, _NAME_BYTES, byte, every, _NAME_BYTES, byte, self._world)
        parts = (every.raw[n * _NAME_BYTES : (n + 1) * _NAME_BYTES] for n in range(self.size))
        return [part.split(b"\0", 1)[0].decode() for part in parts]

    def sum(self, mine: ctypes.Array[ctypes.c_int], total: ctypes.Array[ctypes.c_int]) -> None:
        """The sum of every rank's `mine`, element by element, into `total` on all of them."""
        kind, add = self._handle("ompi_mpi_int"), self._handle("ompi_mpi_op_sum")
        self._call("MPI_Allreduce", mine, total, len(mine), kind, add, self._world)

    def finalize(self) -> None:
        self._call("MPI_Finalize")


def load_library() -> tuple[ctypes.CDLL, bool]:
    """The MPI that the launcher of this process can start, and whether it is MPICH: Open MPI, as a
    rule. A launcher that offers PMI (PMI_FD) and no PMIx starts MPICH where that is installed; Open
    MPI 5 and later would start every rank alone.
    """
    if "PMI_FD" in os.environ and "PMIX_NAMESPACE" not in os.environ:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(MPICH, mode=ctypes.RTLD_GLOBAL), True
    return ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL), False


def library_version() -> str:
    mpi, _ = load_library()
    text, length = ctypes.create_string_buffer(_VERSION_BYTES), ctypes.c_int()
    mpi.MPI_Get_library_version(text, ctypes.byref(length))
    # MPICH prints how it was built in further lines.
    return " ".join(text.value.decode().partition("\n")[0].split())


def main() -> int:
    try:
        if sys.argv[1:] == ["--version"]:
            print(library_version())
            return 0
        world = World()
        world.barrier()
    except (OSError, ValueError, RuntimeError) as error:
        print(f"mpi_world: {error}", file=sys.stderr)
        return 1
    print(f"world of {world.size}: rank {world.rank} on {world.host}", flush=True)
    world.finalize()
    return 0


if __name__ == "__main__":
    sys.exit(main())
