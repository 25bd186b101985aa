"""The URL that a WDT receiver prints, which holds the transfer's encryption key.

The key must not reach a log, an exit line, the arguments of a process, or a file. So the runner
reads the receiver's stdout and stderr through pipes, `keep_redacted` keeps what may be kept, and
the sender reads the URL from its stdin. From one node to the other it goes over the sweep's own
connections (`railgauge.node.transport.protocol`), which no other program can join or alter. One
that listens on the network between the nodes can read the URL: it may write to the receiver's
folder while the transfer runs, and decrypt what was recorded of random test data.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import IO

#: what stands in place of a key
REDACTED = "[redacted]"

_URL = re.compile(r"\s*(wdt://\S+)\s*")
# WDT writes the URL's parameters, what it could not decode of a key, and a hash of the key.
_KEYS = (
    re.compile(r"(\benc(?:=|%3d))[^&\s\"'<>\\]+", re.IGNORECASE),
    re.compile(r"(encryption data from \"?)[^\"\s]+", re.IGNORECASE),
    re.compile(r"(type still none when ':' reached )\S+", re.IGNORECASE),
    re.compile(r"(Not hex found -?[0-9]+ in )\S+", re.IGNORECASE),
    re.compile(r"(test_only_encryption_secret[= ])\S+", re.IGNORECASE),
    re.compile(r"(New encryption params \S+ )\S+", re.IGNORECASE),
    re.compile(r"(\b[0-9a-f](?::|%3a))(?:[0-9a-f]{16,}|\.\.\.[0-9]+\.\.\.)", re.IGNORECASE),
)


def redacted(text: str) -> str:
    """`text` without any encryption key of WDT, and without the hash that WDT logs of a key.

    Whole lines only: a key that begins in another piece of text cannot be recognised.
    """
    for key in _KEYS:
        text = key.sub(rf"\g<1>{REDACTED}", text)
    return text


def url_in(line: str) -> str | None:
    """The connection URL, where the line is one."""
    matched = _URL.fullmatch(line)
    return matched[1] if matched else None


def keep_redacted(
    source: IO[bytes],
    kept: IO[str],
    on_url: Callable[[str], None] = lambda url: None,
    most: int = sys.maxsize,
) -> None:
    """Copy a tool's output to `kept` until it ends, line by line and without keys.

    `on_url` gets every connection URL, with its key. A line is kept when it is complete, so that no
    key is cut in two; beyond `most` characters none is.
    """
    for raw in source:
        line = raw.decode("utf-8", "replace")
        if kept.tell() <= most:
            kept.write(redacted(line))
        url = url_in(line)
        if url is not None:
            on_url(url)
