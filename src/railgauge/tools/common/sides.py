"""What the readers of client/server tools share: the calls and outputs of both sides of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from railgauge.model.call import Call
from railgauge.tools import ParseError

Output = TypeVar("Output")

#: `Call.seconds` is taken outside the tool, and both are rounded.
CALL_SLACK_S = 0.2


@dataclasses.dataclass(frozen=True)
class Sides(Generic[Output]):
    """The sides of one run by role (client, server): calls, names for messages, parsed outputs."""

    calls: dict[str, list[Call]]
    names: dict[str, str]
    outputs: dict[str, Output]
    #: what speaks against the run
    complaints: list[str]
    #: every text that was given could be parsed
    parsed: bool
    #: what a proof of the run needs and was not given
    missing: list[str]
    #: one text is all that is known of the run: it may be that of either side
    alone: bool

    @property
    def nodes(self) -> tuple[str, ...]:
        """Receiver and sender, where the calls are known."""
        roles = ("server", "client")
        return tuple(self.calls[r][0].host for r in roles) if all(self.calls.values()) else ()

    def complain_of_role(self, role: str, stated: str, expected: str = "") -> None:
        """Complain where an output calls itself (`stated`) another side than the one that printed
        it.
        """
        if not self.alone and stated not in (expected or role, "unknown"):
            self.complaints.append(f"{self.names[role]}: the output is that of a {stated}")

    def complain_of_time(self, role: str, seconds: float, what: str) -> None:
        """Complain where a call was shorter than the seconds that the tool states for its run."""
        self.complaints.extend(
            f"{self.names[role]}: the call took {call.seconds:.1f} s but {what} {seconds:.1f} s"
            for call in self.calls[role]
            if not call.failure and call.seconds + CALL_SLACK_S < seconds
        )


def collect(
    tool: str,
    parse: Callable[[str], Output],
    client: str,
    server: str | None,
    calls: Sequence[Call],
    options: object,
    receiver: str = "server",
) -> Sides[Output]:
    """Sort the evidence of a run by side; `receiver` is what the tool calls its server."""
    by_role = {
        role: [call for call in calls if call.tool == tool and call.role == role]
        for role in ("client", "server")
    }
    names = {role: f"{role} on {own[0].host}" if own else role for role, own in by_role.items()}
    missing = [
        what
        for what, given in (
            ("the exit codes of both sides", bool(calls)),
            (f"the {receiver}'s output", server is not None),
            ("the options", options is not None),
        )
        if not given
    ]
    alone = len(missing) == 3
    if alone:
        # It may be that of either side.
        names["client"] = "output"
    complaints = []
    for role, own in by_role.items():
        if calls and len(own) != 1:
            complaints.append(f"{role}: {len(own)} {tool} calls recorded, expected 1")
        complaints += [call.failure for call in own if call.failure]
    texts = {"client": client, **({} if server is None else {"server": server})}
    outputs: dict[str, Output] = {}
    for role, text in texts.items():
        try:
            outputs[role] = parse(text)
        except ParseError as error:
            complaints.append(f"{names[role]}: {error}")
    return Sides(
        by_role,
        names,
        outputs,
        complaints,
        parsed=len(outputs) == len(texts),
        missing=missing,
        alone=alone,
    )
