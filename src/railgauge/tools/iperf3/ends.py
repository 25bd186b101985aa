"""Which hosts an output of iperf3 is of."""

from __future__ import annotations

import re

from railgauge.tools.common.ends import Ends, Role, of_connection, of_two

_HOST = re.compile(r'"(local|remote)_host"\s*:\s*"([^"\s]+)"')
_SERVER = re.compile(
    r'Connecting to host (\S+?),|"connecting_to"\s*:\s*\{\s*"host"\s*:\s*"([^"\s]+)"'
)


def ends(text: str) -> Ends:
    """The two addresses of its connections, or the server's name; of its text and its JSON."""
    named = _SERVER.search(text)
    accepted = "accepted_connection" in text or "Accepted connection from" in text
    role: Role = "client" if named else "server" if accepted else ""
    server = (named[1] or named[2]) if named else ""
    found = dict(reversed(_HOST.findall(text)))
    if not found:
        return of_connection(text, role, server)
    return of_two(found.get("local", ""), found.get("remote", ""), role, server)
