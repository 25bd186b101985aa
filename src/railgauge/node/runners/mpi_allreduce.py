"""Time the sum of an array over all ranks, many times: a real MPI program without a compiler.

    python3 -m railgauge.node.runners.mpi_allreduce BYTES ITERATIONS

Each rank prints one line:

    allreduce of 65536 bytes, 200 times: 0.019323 s, rank 0 of 2 on n1

The time is the rank's own, from a barrier to its last result. A wrong sum is an error.
"""

from __future__ import annotations

import ctypes
import sys
import time

from railgauge.node.runners.mpi_world import World, library_version

#: Untimed iterations, until connections are made and buffers allocated.
WARM_UP = 5


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        print(library_version())
        return 0
    size_bytes, iterations = (int(word) for word in sys.argv[1:3])
    try:
        world = World()
        count = size_bytes // 4
        mine = (ctypes.c_int * count)(*[world.rank + 1] * count)
        total = (ctypes.c_int * count)()
        for _ in range(WARM_UP):
            world.sum(mine, total)
        world.barrier()
        began = time.perf_counter()
        for _ in range(iterations):
            world.sum(mine, total)
        seconds = time.perf_counter() - began
    except (OSError, ValueError, RuntimeError) as error:
        print(f"mpi_allreduce: {error}", file=sys.stderr)
        return 1
    expected = world.size * (world.size + 1) // 2
    if any(value != expected for value in total):
        print(f"mpi_allreduce: a sum is wrong, expected {expected}", file=sys.stderr)
        return 1
    measured = f"allreduce of {size_bytes} bytes, {iterations} times: {seconds:.6f} s"
    print(f"{measured}, rank {world.rank} of {world.size} on {world.host}", flush=True)
    world.finalize()
    return 0


if __name__ == "__main__":
    sys.exit(main())
