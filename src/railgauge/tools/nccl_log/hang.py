"""The last lines of NCCL's logs, for a report of a hang; without secrets."""

from __future__ import annotations

import collections
import re
from collections.abc import Mapping

from railgauge.hostlist import fold_ranks
from railgauge.tools.nccl_log.text import ADVICE, MARK, without_secrets

_PER_RANK = (
    (re.compile(r"\b0x[0-9a-f]+\b"), "*"),
    (re.compile(r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:<[0-9]+>|:[0-9]+)?"), "*"),
    (re.compile(r"^((?:Channel|Ring|Coll(?:Net)?) )[0-9]+(?:/[0-9]+)? : .*?(?= via |$)"), r"\1*"),
    (re.compile(r"( via (?:COLL)?NET/[^/]+/)[0-9]+(?:\([0-9]+\))?"), r"\1*"),
    (re.compile(r"\b((?:\w*rank|peer|\w*dev)[ =:]+)-?[0-9]+\b", re.IGNORECASE), r"\1*"),
    (re.compile(r"\b(busid[ =:]+)[0-9a-f]+\b", re.IGNORECASE), r"\1*"),
)
_MOST_GROUPS = 4


def last_words_of_all(logs: Mapping[int, str]) -> str:
    """The last words of a job that hangs: ranks that say the same together, a line for each group.

    The smallest groups come first, of four at most: the straggler is what one looks for. Hosts,
    processes, pointers and the numbers of ranks, their devices and channels are left out. A last
    line names the ranks that are in no group that is shown. Without secrets.
    """
    groups: dict[str, list[int]] = collections.defaultdict(list)
    for rank in sorted(logs):
        groups[_last_word(logs[rank])].append(rank)
    ordered = sorted(groups.items(), key=lambda group: (len(group[1]), group[1]))
    lines = [f"{fold_ranks(ranks)}: {line}" for line, ranks in ordered[:_MOST_GROUPS]]
    others = [rank for _, ranks in ordered[_MOST_GROUPS:] for rank in ranks]
    if others:
        lines.append(f"and {fold_ranks(others)}, with {len(ordered) - _MOST_GROUPS} other lines")
    return "\n".join(lines)


def _last_word(text: str) -> str:
    """The last warning that is no advice, else the last line; as all ranks would say it."""
    level, last, weight = "", "", 0
    for line in text.split("\n"):
        for mark in MARK.finditer(line):
            message = line[mark.end() :].strip()
            own = 1 if mark[1] == "INFO" or ADVICE.search(message) else 2
            if message and own >= weight:
                level, last, weight = mark[0], message, own
    if not weight:
        return "nothing of NCCL"
    last = without_secrets(last)
    for pattern, replacement in _PER_RANK:
        last = pattern.sub(replacement, last)
    return f"{level}{last}"
