"""A long text on the standard output of a task, while other tasks of the job print theirs.

srun passes on whole lines of up to 1,024 bytes; a longer one may be parted by those of other tasks.
So a text goes out as lines `NODE NUMBER/COUNT PART`, to which `srun --label` adds the task.
"""

from __future__ import annotations

import collections
import re

#: The characters of a text, all of them ASCII, that one line has.
LENGTH = 900

_PART = re.compile(r"^ *([0-9]+): (\S+) ([0-9]{1,6})/([0-9]{1,6}) (.*)$", re.MULTILINE)


def lines(node: str, text: str) -> list[str]:
    """A text of one line, as the task on that node prints it."""
    parts = [text[at : at + LENGTH] for at in range(0, len(text), LENGTH)]
    return [f"{node} {n}/{len(parts)} {part}" for n, part in enumerate(parts, start=1)]


def texts(printed: str) -> dict[str, str]:
    """Each node's text by what `srun --label` printed; without those that did not come whole, and
    those of a task that speaks for two nodes, or of a node for which two speak.
    """
    #: node -> task -> number -> part, and of how many
    found: dict[str, dict[str, dict[int, str]]] = {}
    counts: dict[str, int] = {}
    for task, node, number, count, part in _PART.findall(printed):
        found.setdefault(node, {}).setdefault(task, {})[int(number)] = part
        counts[node] = int(count)
    tasks = collections.Counter(task for of_node in found.values() for task in of_node)
    whole = {}
    for node, of_node in found.items():
        known = [parts for task, parts in of_node.items() if tasks[task] == 1]
        if len(known) == len(of_node) == 1 and set(known[0]) == set(range(1, counts[node] + 1)):
            whole[node] = "".join(known[0][number] for number in sorted(known[0]))
    return whole
