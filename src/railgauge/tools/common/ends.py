"""Which hosts took part in a run, by what its output says of them."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Role = Literal["client", "server", ""]


class Ends(NamedTuple):
    """The hosts of a run: names, or addresses where the output has nothing else, each once.

    Of a client and a server the client comes first, whichever side printed the output; `role` is
    the side that did. `why` says why the run says nothing of the path between two hosts, "" where
    it may.
    """

    hosts: tuple[str, ...] = ()
    role: Role = ""
    why: str = ""


_CONNECTED = re.compile(r"\blocal (\S+?)(?:%\S+)? port [0-9]+ connected (?:with|to) (\S+) port ")
_ADDRESS = re.compile(r"[0-9.]+|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*")
_LOOPBACK = re.compile(r"127\.[0-9.]+|::1|localhost")


def of_connection(text: str, role: Role, server: str = "") -> Ends:
    """The ends of the connections that iperf prints, `local A port N connected with B port M`."""
    found = _CONNECTED.search(text)
    return of_two(found[1] if found else "", found[2] if found else "", role, server)


def of_two(local: str, remote: str, role: Role, server: str = "") -> Ends:
    """The ends of a run between the host of an output and another one; either may be unknown.

    `server` is what a client was to connect to, which is a name where one was given.
    """
    if role == "client" and server and not _ADDRESS.fullmatch(server):
        remote = server
    if any(map(_LOOPBACK.fullmatch, (local, remote))) or (local and local == remote):
        return Ends((), role, "both ends are one host")
    if not local or not remote:
        return Ends((), role)
    return Ends((remote, local) if role == "server" else (local, remote), role)
