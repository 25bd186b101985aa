"""The other direction of a pair, measured at the same place if the first one was slow.

The client's side decides, by what its interface sent, and says so; then both sides change roles.
What they leave has the roles `back/server` and `back/client`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from railgauge.node.peer import Peer

PREFIX = "back/"
DECISION = "decision"

#: How far above the bound an interface's rate may be while the payload is still below it, as
#: interfaces count headers too. `least_gbits` of an order includes this.
HEADROOM = 1.05

#: How long the server's side waits for the decision, once its own tool has ended.
ANSWER_S = 30

Spec = dict[str, Any]


def rate_gbits(line: dict[str, Any]) -> float | None:
    """The mean rate of what the client's interface sent, by its exit line; None where unknown."""
    call, facts = line["call"], line["facts"]
    counted = facts.get("counters", {}).get("counters", {})
    sent = counted.get(f"net/{facts.get('device')}/tx_bytes")
    if not sent or not call["seconds"] or call["exit_code"] != 0:
        return None
    return float(sent) * 8 / float(call["seconds"]) / 1e9


def measure(
    spec: Spec,
    role: str,
    peer: Peer,
    line: dict[str, Any],
    run: Callable[[Spec, str, Peer], object],
) -> None:
    """Both sides, after the first direction: the same with the roles changed, if it was slow.

    `line` is this side's exit line of the first direction.
    """
    other = peer.within(PREFIX)
    if role == "client":
        rate = rate_gbits(line)
        slow = rate is not None and rate < spec["least_gbits"]
        other.tell(DECISION, slow)
    else:
        slow = bool(other.hear(DECISION, ANSWER_S))
    if slow:
        changed = {**spec, "server_host": spec["client_host"], "client_host": spec["server_host"]}
        run(changed, "server" if role == "client" else "client", other)
