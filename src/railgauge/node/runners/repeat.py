"""The same direction of a pair once more, where a side's tool ended well and could not measure.

perftest finds out how fast the CPU's counter ticks. Where it has no CPU for some milliseconds just
then, as on a busy host, it prints no number; of the link that says nothing. What shows that in a
tool's output is the order's expression `unmeasured`. What is left of the second run has the roles
`anew/server` and `anew/client`; there is no third one. A run with a failed side has no second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from railgauge.node.orders.places import ClientServerOrder, PlaceOrder
from railgauge.node.system.tool_call import Call
from railgauge.node.transport.channel import Peer

PREFIX = "anew/"
#: Of an exit line's facts: what the tool said.
FACT = "unmeasured"

#: How long a side waits for the other one's answer, once its own tool has ended.
ANSWER_S = 30


def note(unmeasured: str, calls: Iterable[Call], facts: dict[str, Any]) -> None:
    """Put into a side's facts what a call that ended well says of why it could not measure."""
    for call in calls:
        found = call.exit_code == 0 and re.search(
            unmeasured, call.output("out") + call.output("err")
        )
        if found:
            facts[FACT] = found[0]


def measure(
    place: PlaceOrder[ClientServerOrder],
    role: str,
    peer: Peer,
    line: dict[str, Any],
    run: Callable[[PlaceOrder[ClientServerOrder], str, Peer], dict[str, Any]],
) -> dict[str, Any]:
    """This side's exit line of the run that counts: `line`, or that of the second one."""
    other = peer.within(PREFIX)
    well, unmeasured = line["call"]["exit_code"] == 0, FACT in line["facts"]
    other.send(FACT, [well, unmeasured])
    # Both sides hear of both.
    theirs = other.receive(FACT, ANSWER_S) or [False, False]
    again = well and theirs[0] and (unmeasured or theirs[1])
    return run(place, role, other) if again else line
