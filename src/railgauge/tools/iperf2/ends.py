"""Which hosts an output of iperf2 is of."""

from __future__ import annotations

import re

from railgauge.tools.common.ends import Ends, of_connection, of_two

_SERVER = re.compile(r"Client connecting to (\S+?),")
#: time, source, its port, destination
_CSV = re.compile(r"^[-+0-9:.]{14,40},([^,\s]+),[0-9]+,([^,\s]+),[0-9]+,", re.MULTILINE)


def ends(text: str) -> Ends:
    """The two addresses of its connections, or the server's name; also of csv."""
    if found := _SERVER.search(text):
        return of_connection(text, "client", found[1])
    if "Server listening on" in text:
        return of_connection(text, "server")
    if found := _CSV.search(text):
        return of_two(found[1], found[2], "")
    return of_connection(text, "")
