"""The other direction of a pair, measured in the same job where the first was slow.

The client's side decides, by what its interface sent, and says so in `back.json`; then both sides
change roles. What they leave lies in the folder `back/`, with the names that it has for the first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from railgauge.node.calls import write_whole

FOLDER = "back"
DECISION = "back.json"

#: So long the server's side waits for the decision, once its own tool has ended.
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


def decide(least_gbits: float) -> bool:
    """The client's side: whether the other direction is measured too."""
    line = json.loads(Path("client.json").read_text(encoding="utf-8"))
    rate = rate_gbits(line)
    slow = rate is not None and rate < least_gbits
    write_whole(DECISION, {"measure": slow, "rate_gbits": rate, "least_gbits": least_gbits})
    return slow


def measure(
    spec: Spec,
    role: str,
    run: Callable[[Spec, str], int],
    wait_for: Callable[[str, float], bool],
) -> None:
    """Both sides, after the first direction: the same with the roles changed, if it was slow."""
    if role == "client":
        slow = decide(spec["least_gbits"])
    else:
        slow = wait_for(DECISION, ANSWER_S) and bool(
            json.loads(Path(DECISION).read_text(encoding="utf-8"))["measure"]
        )
    if not slow:
        return
    folder = Path(FOLDER)
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    changed = {**spec, "server_host": spec["client_host"], "client_host": spec["server_host"]}
    run(changed, "server" if role == "client" else "client")
