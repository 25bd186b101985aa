"""What the readers of client/server tools share: the calls and outputs of both sides of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from railgauge.tools import Call, ParseError

Output = TypeVar("Output")

#: `Call.seconds` is taken outside the tool, and both are rounded.
CALL_SLACK_S = 0.2


@dataclasses.dataclass(frozen=True)
class Sides(Generic[Output]):
    """The sides of one run by role (client, server): calls, names for messages, parsed outputs."""

    calls: dict[str, list[Call]]
    names: dict[str, str]
    outputs: dict[str, Output]
    complaints: list[str]
    #: every text that was given could be parsed
    parsed: bool

    @property
    def nodes(self) -> tuple[str, ...]:
        """Receiver and sender, where the calls are known."""
        roles = ("server", "client")
        return tuple(self.calls[r][0].host for r in roles) if all(self.calls.values()) else ()


def collect(
    tool: str,
    parse: Callable[[str], Output],
    client: str,
    server: str | None,
    calls: Sequence[Call],
) -> Sides[Output]:
    """Sort the evidence of a run by side; complaints are what speaks against it already."""
    mine = {
        role: [call for call in calls if call.tool == tool and call.role == role]
        for role in ("client", "server")
    }
    names = {role: f"{role} on {found[0].host}" if found else role for role, found in mine.items()}
    complaints = []
    for role, found in mine.items():
        if calls and len(found) != 1:
            complaints.append(f"{role}: {len(found)} {tool} calls recorded, expected 1")
        complaints += [call.failure for call in found if call.failure]
    texts = {"client": client, **({} if server is None else {"server": server})}
    outputs: dict[str, Output] = {}
    for role, text in texts.items():
        try:
            outputs[role] = parse(text)
        except ParseError as error:
            complaints.append(f"{names[role]}: {error}")
    return Sides(mine, names, outputs, complaints, parsed=len(outputs) == len(texts))
