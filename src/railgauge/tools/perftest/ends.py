"""Which hosts an output of perftest is of."""

from __future__ import annotations

import re

from railgauge.tools.common.ends import Ends, Role, of_two

#: A GID is 16 numbers; an output that was cut may hold the beginning of one.
_PORT = re.compile(
    r"\b(local|remote) address:\s+LID (\S+) QPN [^\n]*\n"
    r"(?:[^\n]*\bGID:\s*((?:[0-9A-Fa-f]{2,3}:){15}[0-9A-Fa-f]{2,3})\s)?"
)
_MAPPED = re.compile(r"(?:00:){10}(?:255:255|[fF]{2}:[fF]{2}):(\w+):(\w+):(\w+):(\w+)")


def ends(text: str) -> Ends:
    """The ports by which the two sides know each other: IPv4 addresses, LIDs or GIDs."""
    role: Role = "server" if "Waiting for client to connect" in text else "client"
    ports = {side: _name(lid, gid) for side, lid, gid in reversed(_PORT.findall(text))}
    return of_two(ports.get("local", ""), ports.get("remote", ""), role)


def _name(lid: str, gid: str) -> str:
    """The first queue pair's. A GID of IPv4 is printed in decimals, or in hexadecimal digits."""
    if found := _MAPPED.fullmatch(gid):
        base = 10 if ":255:255:" in gid else 16
        return ".".join(str(int(part, base)) for part in found.groups())
    return gid if int(lid, 16) == 0 else f"LID {int(lid, 16)}"
