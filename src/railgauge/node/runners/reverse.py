"""The other direction of a pair, measured at the same place if the first one was slow.

The client's side decides, by what its interface sent, and says so; then both sides change roles.
What they leave has the roles `back/server` and `back/client`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from railgauge.node.orders.places import ClientServerOrder, PlaceOrder
from railgauge.node.transport.channel import Peer

PREFIX = "back/"
DECISION = "decision"

#: The headers of a packet of TCP: Ethernet's, which the MTU has not in it, and those of IPv4 and
#: TCP with its time stamps (RFC 791, 9293, 7323), which it has.
_ETHERNET_BYTES, _INSIDE_BYTES = 14, 52
#: The MTU where it is not known.
_MTU_BYTES = 1500
#: So much more for what two ways of measuring one rate differ by.
_NOISE = 1.01

#: The share of a call in which traffic must have been under way for its rate to be that of then.
_MOSTLY = 0.75

#: How long the server's side waits for the decision, once its own tool has ended.
ANSWER_S = 30


def rate_gbits(line: dict[str, Any]) -> float | None:
    """The rate of what the client's interface sent, by its exit line, headers included: while it
    sent, or over the whole call where that was not sampled, or was not most of it. None where it is
    unknown.
    """
    call, facts = line["call"], line["facts"]
    counters, name = facts.get("counters", {}), f"net/{facts.get('device')}"
    sent = counters.get("counters", {}).get(f"{name}/tx_bytes")
    if not sent or not call["seconds"] or call["exit_code"] != 0:
        return None
    steady = counters.get("steady_gbits", {}).get(name, {}).get("tx")
    moving_s = counters.get("moving_s", {}).get(name, {}).get("tx") or 0.0
    if steady and moving_s >= _MOSTLY * call["seconds"]:
        return float(steady)
    return float(sent) * 8 / float(call["seconds"]) / 1e9


def on_the_wire(least_gbits: float, mtu_bytes: int | None) -> float:
    """The rate of an interface below which the payload's may be below `least_gbits`."""
    mtu = mtu_bytes or _MTU_BYTES
    return least_gbits * (mtu + _ETHERNET_BYTES) / (mtu - _INSIDE_BYTES) * _NOISE


def measure(
    place: PlaceOrder[ClientServerOrder],
    role: str,
    peer: Peer,
    line: dict[str, Any],
    least_gbits: float,
    run: Callable[[PlaceOrder[ClientServerOrder], str, Peer], object],
) -> None:
    """Both sides, after the first direction: the same with the roles changed, if it was slow.

    `line` is this side's exit line of the first direction.
    """
    other = peer.within(PREFIX)
    if role == "client":
        rate, mtu_bytes = rate_gbits(line), line["facts"].get("mtu_bytes")
        slow = rate is not None and rate < on_the_wire(least_gbits, mtu_bytes)
        other.send(DECISION, slow)
    else:
        slow = bool(other.receive(DECISION, ANSWER_S))
    if slow:
        hosts = {"server": place.hosts["client"], "client": place.hosts["server"]}
        changed = dataclasses.replace(place, hosts=hosts)
        run(changed, "server" if role == "client" else "client", other)
