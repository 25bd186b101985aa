"""Whether nccl-tests was built without MPI, so that each process of a launcher ran a test alone."""

from __future__ import annotations

import collections

from railgauge.tools.common.lines import plain
from railgauge.tools.nccl_tests.text import DEVICE

#: A test says so once; tests that differ in it were started by different commands.
_PARAMETERS = ("Collective test starting", "nThread")
_READ = ("Rank ", *_PARAMETERS)


def why_alone(text: str) -> str:
    """The reason, '' where it is none.

    Every process has the ranks from 0 of its own, and they are on several hosts. Of one test over
    several hosts only the first process has rank 0.
    """
    ranks: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
    stated: dict[str, set[str]] = collections.defaultdict(set)
    for line in text.split("\n"):
        if not any(word in line for word in _READ):
            continue
        body = plain(line)[0].strip(" \t\r#")
        if (device := DEVICE.fullmatch(body)) and device[3]:
            ranks[device[4], device[3]].add(int(device[1]))
        for word in _PARAMETERS:
            if body.startswith(word):
                stated[word].add(body)
    hosts = list(dict.fromkeys(host for host, _ in ranks))
    own = all(numbers == set(range(len(numbers))) for numbers in ranks.values())
    if len(hosts) < 2 or not own or any(len(lines) > 1 for lines in stated.values()):
        return ""
    return f"each rank started alone (no MPI): {hosts[0]} and {hosts[1]} have a rank 0 each"
