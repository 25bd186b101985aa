"""The URL that a WDT receiver prints, which holds the transfer's encryption key.

The key must not reach a log, an exit line, the arguments of a process, or a file that others can
read. So the runner reads the receiver's stdout and stderr through pipes, `keep_redacted` writes
what may be kept, and the sender reads the URL from its stdin. From one node to the other it goes in
a file of mode 0600 in the job's folder (`railgauge.node.transfer.hand_over`): who has it may write
to the receiver's folder while the transfer runs, and decrypt what was recorded of random test data.

- Users of these nodes, and of every machine that has the job's folder, cannot read it.
- It is removed when the sender's side has read it, when the receiver's side ends, and by the check
  when the job has ended. If all of them die it stays, for its owner, with a key that opens nothing
  any more: the receiver is gone, and the key was made for this one transfer.
- Root of a machine that has the folder by NFS can read it as its user; with root squashed and a
  job of root, so can whoever is nobody there. Both may change the job's scripts in that folder.
- Not protected: who reads along on the storage network. A secret in the job's environment, as Slurm
  sends it to the nodes, is readable on the cluster's network in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
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

    Whole lines only: a key whose beginning is in another piece of text cannot be recognised.
    """
    for key in _KEYS:
        text = key.sub(rf"\g<1>{REDACTED}", text)
    return text


def url_in(line: str) -> str | None:
    """The connection URL, where the line is one."""
    matched = _URL.fullmatch(line)
    return matched[1] if matched else None


def keep_redacted(
    source: IO[bytes], path: str | Path, on_url: Callable[[str], None] = lambda url: None
) -> None:
    """Copy a tool's output to `path` until it ends, line by line and without keys.

    `on_url` gets every connection URL, with its key. A line is written when it is complete, so
    that no key is cut in two.
    """
    with Path(path).open("w", encoding="utf-8") as kept:
        for raw in source:
            line = raw.decode("utf-8", "replace")
            kept.write(redacted(line))
            kept.flush()
            url = url_in(line)
            if url is not None:
                on_url(url)
