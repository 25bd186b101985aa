"""What tests of client/server tools share: both calls of a good run, an output that is edited."""

from __future__ import annotations

import dataclasses
from typing import Any

from railgauge.model.call import Call


def both_calls(tool: str, seconds: float, version: str = "", **changes: Any) -> list[Call]:
    """Both calls as the runner records a good run; `client` and `server` change one of them."""
    hosts = {"server": "node2", "client": "node1"}
    return [
        dataclasses.replace(
            Call(tool, role, rank, host, 0, seconds, version), **changes.get(role, {})
        )
        for rank, (role, host) in enumerate(hosts.items())
    ]


def edited(text: str, old: str, new: str) -> str:
    """The text with all of `old` replaced, which must be there."""
    assert old in text
    return text.replace(old, new)
