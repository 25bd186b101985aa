"""WDT: files or a folder, over many TCP connections from one node to another.

WDT prints a throughput for a transfer that failed, too, and skips a dangling symlink without a
word. So `read` believes a run only where both sides exited 0, both summaries agree on the blocks
and bytes, and these are the files that were asked for; when they were written, with their sha256.

The receiver prints a URL on stdout that holds the encryption key. Nothing here takes a URL with a
key, and all text is redacted before it is looked at. `railgauge.node.runners.wdt_url` brings
the URL from one node to the other; the sender reads it from stdin.
"""

from __future__ import annotations

from railgauge.node.runners.wdt_url import redacted
from railgauge.tools.file_transfer import FileSet
from railgauge.tools.wdt.by_hand import BY_HAND
from railgauge.tools.wdt.judge import read
from railgauge.tools.wdt.options import (
    TOOL,
    Encryption,
    Options,
    receiver_argv,
    sender_argv,
    version_argv,
)
from railgauge.tools.wdt.result import ERRORS
from railgauge.tools.wdt.text import parse

#: The Spack packages that it needs, with the programs that each brings.
PACKAGES = {TOOL: ("wdt",)}

__all__ = [
    "BY_HAND",
    "ERRORS",
    "PACKAGES",
    "TOOL",
    "Encryption",
    "FileSet",
    "Options",
    "parse",
    "read",
    "receiver_argv",
    "redacted",
    "sender_argv",
    "version_argv",
]
