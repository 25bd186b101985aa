"""Which hosts an output of nccl-tests is of."""

from __future__ import annotations

from railgauge.tools.common.ends import Ends
from railgauge.tools.common.lines import plain
from railgauge.tools.nccl_tests.alone import why_alone
from railgauge.tools.nccl_tests.text import DEVICE


def ends(text: str) -> Ends:
    """The hosts of the device lines, also of an output that breaks off below them.

    A run in several groups, or of ranks that each started alone, says nothing of the path between
    two hosts.
    """
    hosts: dict[str, None] = {}
    groups = set()
    for line in text.split("\n"):
        if "Rank " in line and (found := DEVICE.fullmatch(plain(line)[0].strip(" \t\r#"))):
            hosts[found[4]] = None
            groups.add(found[2])
    if len(groups) > 1:
        return Ends(tuple(hosts), "", "several groups of ranks (NCCL_TESTS_SPLIT), expected one")
    return Ends(tuple(hosts), "", why_alone(text))
