"""The settings of nccl-tests, and the sizes that it then prints."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence

from railgauge.tools import names
from railgauge.tools.common.options import require_integers, require_one_of

TOOL = names.NCCL_TESTS

#: What the programs `<operation>_perf` measure.
OPERATIONS: tuple[str, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "alltoall",
    "gather",
    "scatter",
    "sendrecv",
    "hypercube",
)

REDUCING = {"all_reduce", "reduce_scatter", "reduce"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
#: A rank's share is 1/n of the size that is printed.
DIVIDED = {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube"}
#: The tool cannot check their results in place: N/A there.
CHECKED_OUT_OF_PLACE_ONLY = {"alltoall", "sendrecv"}

#: Operations that no check runs: their numbers have the formulas of another one
#: (src/alltoallv.cu of nccl-tests and of rccl-tests).
LIKE = {"alltoallv": "alltoall"}

#: Bytes of an element. The first versions said char and int.
ELEMENT_BYTES = {
    **{"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8},
    **{"half": 2, "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1},
    **{"char": 1, "int": 4},
}

#: The first versions with a feature. -I stands in the sources of 2.19.1, but perhaps came after it.
ALIGNS_TO_16_BYTES = (2, 14, 0)
ALIGNS_TO_4_ELEMENTS = (2, 13, 0)
PRINTS_END = (2, 16, 7)
_HAS_JSON = (2, 17, 3)
_HAS_INTERVALS = (2, 19, 2)
#: NCCL_TESTS_SPLIT, in the sources of the tag v2.14.0 and of none before it.
_HAS_SPLIT = (2, 14, 0)

#: The variable that splits the processes into groups, and a value of it: each so many in a row.
SPLIT, SPLIT_IN_RANKS = "NCCL_TESTS_SPLIT", "DIV {ranks}"

#: What -a takes for the longest time of all processes.
_SLOWEST = 3


def busbw_factor(operation: str, ranks: int) -> float:
    """busbw over size / time (nccl-tests' doc/PERFORMANCE.md, and src/<operation>.cu).

    That is busbw over algbw, but for hypercube: it prints the same number as both.
    """
    if operation not in OPERATIONS:
        raise ValueError(f"operation is {operation!r}, expected one of {', '.join(OPERATIONS)}")
    if ranks < 1:
        raise ValueError(f"ranks is {ranks}, expected 1 or more")
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if operation in DIVIDED else 1.0


@dataclasses.dataclass(frozen=True)
class Options:
    """The settings of one run; ValueError where it cannot be run.

    `ranks` are processes, each with `gpus_per_rank` GPUs, which NCCL counts as its ranks. Sizes
    are multiplied by `factor` from `min_bytes` until they exceed `max_bytes`. `transport` is what
    NCCL was set to use: the tool does not know it.

    `groups` of equal size, each with a communicator of its own, run the operation at once
    (NCCL_TESTS_SPLIT): a process is of group rank / (ranks of a group), which the lines of devices
    show. Rank 0 alone prints. Its time is the longest of all processes of all groups, as all are
    set to do (-a 3: MPI_MAX over MPI_COMM_WORLD; the default is the mean), its #wrong the sum over
    all of them, its busbw that of one group [nccl-tests 2.17 and 2.19, README.md and src/common.cu:
    run, Allreduce, BenchTime]. The table does not say which -a it was.
    """

    operation: str
    ranks: int
    min_bytes: int
    max_bytes: int
    factor: int = 2
    #: timed operations per size
    iterations: int = 20
    warmup: int = 5
    #: for one wait for the GPUs, not for the run
    timeout_s: int = 600
    datatype: str = "float"
    #: the version that will run; its options and the sizes that it prints depend on it
    version: str = "2.17.6"
    transport: str = "any"
    #: of each rank, in rank order; () where they are not known
    hosts: tuple[str, ...] = ()
    gpus_per_rank: int = 1
    groups: int = 1

    def __post_init__(self) -> None:
        require_one_of(TOOL, self, operation=OPERATIONS, datatype=tuple(ELEMENT_BYTES))
        # sizes pass through a double; with 0 the tool would never end
        size, count = (1, 2**53), (1, 2**31 - 1)
        require_integers(
            TOOL,
            self,
            ranks=(1, 2**20),
            min_bytes=size,
            max_bytes=size,
            factor=(2, 2**31 - 1),
            iterations=count,
            warmup=(0, 2**31 - 1),
            timeout_s=count,
            gpus_per_rank=(1, 1024),
            groups=(1, 2**20),
        )
        if not isinstance(self.version, str) or not re.fullmatch(
            r"2\.[0-9]{1,4}\.[0-9]{1,4}", self.version
        ):
            raise ValueError(f"nccl-tests version is {self.version!r}, expected 2.minor.patch")
        if not isinstance(self.transport, str) or not self.transport:
            raise ValueError(f"nccl-tests transport is {self.transport!r}, expected a name")
        if self.min_bytes > self.max_bytes:
            raise ValueError(
                f"nccl-tests min_bytes is {self.min_bytes}, expected at most max_bytes, "
                f"{self.max_bytes}"
            )
        if self.hosts and len(self.hosts) != self.ranks:
            raise ValueError(
                f"nccl-tests hosts are {len(self.hosts)}, expected one for each of the "
                f"{self.ranks} ranks, or none"
            )
        if self.ranks % self.groups:
            raise ValueError(
                f"nccl-tests groups are {self.groups}, expected a number that divides "
                f"{self.ranks} ranks: groups have one size"
            )
        if self.groups > 1 and not self.has_split:
            raise ValueError(
                f"nccl-tests {self.version} runs one group at a time, 2.14.0 and later several"
            )
        if self.operation == "hypercube" and self.gpus & (self.gpus - 1):
            raise ValueError(f"hypercube runs on a power of 2 of GPUs, not on {self.gpus}")

    @property
    def gpus(self) -> int:
        """NCCL's ranks in one communicator, n in all formulas."""
        return self.ranks // self.groups * self.gpus_per_rank

    @property
    def has_split(self) -> bool:
        """Whether that version runs several groups at once (NCCL_TESTS_SPLIT)."""
        return version_numbers(self.version) >= _HAS_SPLIT

    @property
    def has_json(self) -> bool:
        """Whether that version writes its results as JSON too (-J)."""
        return version_numbers(self.version) >= _HAS_JSON

    @property
    def has_intervals(self) -> bool:
        """Whether that version times every iteration on its own (-I)."""
        return version_numbers(self.version) >= _HAS_INTERVALS

    def sizes(self, up_to: int | None = None) -> tuple[int, ...]:
        """The sizes that the tool prints, in order; `up_to` where memory ended the sweep earlier.

        It rounds down to whole elements, and where a rank has 1/n of them, to the same multiple of
        16 bytes for each rank. So small sizes may be 0, several times.
        """
        most = self.max_bytes if up_to is None else min(self.max_bytes, up_to)
        requested = itertools.takewhile(
            lambda size: size <= most,
            (self.min_bytes * self.factor**power for power in itertools.count()),
        )
        element = ELEMENT_BYTES[self.datatype]
        version = version_numbers(self.version)
        return tuple(
            printed_bytes(self.operation, size, element, self.gpus, version) for size in requested
        )

    def run_bytes(self, sizes: Sequence[int]) -> int:
        """The sizes of all operations of a run together: warm-ups, and out of place and in place
        those that are timed, one before them and one that is checked [nccl-tests, src/common.cu:
        TimeTest, BenchTime; older versions warm up with the largest and the smallest alone].
        """
        return (self.warmup + 2 * (self.iterations + 2)) * sum(sizes)


def version_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def printed_bytes(
    operation: str, requested_bytes: int, element: int, ranks: int, version: tuple[int, ...]
) -> int:
    """The size column for a size of the sweep (getCollByteCount of each operation)."""
    count = requested_bytes // element
    if operation not in DIVIDED:
        return count * element
    aligned = operation in ("all_gather", "reduce_scatter", "hypercube")
    if version >= ALIGNS_TO_16_BYTES:
        multiple = 16 // element
    elif aligned and (version >= ALIGNS_TO_4_ELEMENTS or operation == "hypercube"):
        multiple = 4
    else:
        multiple = 1
    share = count // ranks
    return (share - share % multiple) * ranks * element


def version_argv() -> list[str]:
    """Nothing to call: the output states its version."""
    return []


def argv(options: Options, program: str, json_file: str | None = None) -> list[str]:
    """Every rank's command. `json_file` must not exist: the tool would write to another one."""
    words = [program]
    for flag, value in (
        ("-b", options.min_bytes),
        ("-e", options.max_bytes),
        ("-f", options.factor),
        ("-g", options.gpus_per_rank),
        ("-w", options.warmup),
        ("-n", options.iterations),
        ("-c", 1),
        ("-T", options.timeout_s),
        ("-a", _SLOWEST),
        ("-d", options.datatype),
    ):
        words += [flag, str(value)]
    if options.operation in REDUCING:
        words += ["-o", "sum"]
    if options.has_intervals:
        words += ["-I", "1"]
    if json_file is not None:
        if not options.has_json:
            raise ValueError(
                f"nccl-tests {options.version} writes no JSON (-J), 2.17.3 and later do"
            )
        if not json_file.endswith(".json"):
            raise ValueError(f"JSON file is {json_file!r}, expected a name that ends with .json")
        words += ["-J", json_file]
    return words
