"""Start Open MPI and say who is in the world: `world of N: rank R on HOST`, once a rank.

Calls the library directly, so that it needs no compiler and no mpi4py on the node. Each rank
prints its own line; the size that it prints is the one that MPI told it.
"""

from __future__ import annotations

import ctypes
import sys

#: Open MPI 4 and 5 share this ABI number.
LIBRARY = "libmpi.so.40"


def main() -> int:
    try:
        mpi = ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
        world = ctypes.addressof(ctypes.c_void_p.in_dll(mpi, "ompi_mpi_comm_world"))
    except (OSError, ValueError) as error:
        print(f"mpi_world: {error}", file=sys.stderr)
        return 1
    if sys.argv[1:] == ["--version"]:
        text, length = ctypes.create_string_buffer(4096), ctypes.c_int()
        mpi.MPI_Get_library_version(text, ctypes.byref(length))
        print(text.value.decode())
        return 0
    if mpi.MPI_Init(None, None) != 0:
        print("mpi_world: MPI_Init failed", file=sys.stderr)
        return 1
    communicator = ctypes.c_void_p(world)
    size, rank, length = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(1024)
    mpi.MPI_Comm_size(communicator, ctypes.byref(size))
    mpi.MPI_Comm_rank(communicator, ctypes.byref(rank))
    mpi.MPI_Get_processor_name(name, ctypes.byref(length))
    # Every rank must have come this far: a world that only exists on paper hangs here.
    if mpi.MPI_Barrier(communicator) != 0:
        print("mpi_world: MPI_Barrier failed", file=sys.stderr)
        return 1
    print(f"world of {size.value}: rank {rank.value} on {name.value.decode()}", flush=True)
    mpi.MPI_Finalize()
    return 0


if __name__ == "__main__":
    sys.exit(main())
