"""Read the InfiniBand subnet from this node, and say which HCAs it has itself.

    python3 -m railgauge.node.system.fabric_outputs [--output FILE] [--limit SECONDS] [--read JSON]

JSON is {file: {"argv": [...], "good": [exit codes with which all was printed]}}, the commands that
read the subnet; without it none is run. With "each": [other file, pattern] a command is run for
each group that the pattern finds in that file's text, its last word.

FILE is written whole; without it the document is printed: {"guids": ["0x..."] of this node's HCAs,
"texts": {file: what its command printed, as base64 of zlib}, "errors": {file: why there is no
text}}. Nothing is judged here, and the exit code is 0.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from railgauge.node.system.tool_call import SERVER_FOLDERS, read_sysfs, write_whole

#: All texts go to the conductor in one line of at most 64 MiB (protocol.LINE_BYTES).
_PACKED_BYTES = 40 * 2**20
#: What ended may leave a process behind that holds on, such as one of sudo.
_KILLED_S = 2


class FabricOutputError(Exception):
    """A command that did not print all; the text says why."""


def guids(root: str = "/sys") -> list[str]:
    """The node GUIDs of this node's RDMA devices, as ibnetdiscover writes them."""
    found = []
    with contextlib.suppress(OSError):
        for device in sorted(Path(root, "class/infiniband").iterdir()):
            text = read_sysfs(f"{device}/node_guid")
            with contextlib.suppress(ValueError):
                found.append(f"{int((text or '').replace(':', ''), 16):#018x}")
    return found


def printed(argv: list[str], good: list[int], limit_s: float) -> bytes:
    """What a command prints; FabricOutputError where it does not come to a good end."""
    shown = " ".join(argv)
    # As in an administrator's PATH, in which /usr/local/sbin comes first.
    path = os.pathsep.join([*SERVER_FOLDERS, os.environ.get("PATH", os.defpath)])
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C", "PATH": path},
            )
        except FileNotFoundError:
            raise FabricOutputError(f"{argv[0]} is not installed") from None
        except OSError as error:
            raise FabricOutputError(f"{shown}: {error.strerror}") from None
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            # sudo runs as root, and is not killed by others.
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(_KILLED_S)
            raise FabricOutputError(f"{shown}: no end after {limit_s:.0f} s") from None
        text, words = (_content(file) for file in (out, err))
    if code not in good or not text:
        lines = words.decode("utf-8", "replace").strip().splitlines()
        raise FabricOutputError(f"{shown}: exit code {code}{': ' + lines[-1] if lines else ''}")
    return text


def _content(file: Any) -> bytes:
    file.seek(0)
    return bytes(file.read())


def calls(command: dict[str, Any], raw: dict[str, bytes]) -> list[list[str]]:
    """The calls of a command; Unread where it is run for each of several and none is known."""
    if not command.get("each"):
        return [command["argv"]]
    file, pattern = command["each"]
    words = re.findall(pattern, raw.get(file, b"").decode("utf-8", "replace"))
    if not words:
        raise FabricOutputError(f"{' '.join(command['argv'])}: {file} lists none to ask")
    return [[*command["argv"], word] for word in dict.fromkeys(words)]


def outputs(commands: dict[str, Any], limit_s: float) -> dict[str, dict[str, str]]:
    """What the commands print, one after the other within the limit, and why some did not."""
    deadline = time.monotonic() + limit_s
    raw: dict[str, bytes] = {}
    texts: dict[str, str] = {}
    errors: dict[str, str] = {}
    for file, command in commands.items():
        try:
            text = b"".join(
                printed(argv, command["good"], max(deadline - time.monotonic(), 0.1))
                for argv in calls(command, raw)
            )
            raw[file] = text
            packed = base64.b64encode(zlib.compress(text)).decode("ascii")
            if len(packed) + sum(map(len, texts.values())) > _PACKED_BYTES:
                raise FabricOutputError(
                    f"{' '.join(command['argv'])}: {len(text)} bytes are too many to keep"
                )
        except FabricOutputError as error:
            errors[file] = str(error)
        except OSError as error:
            errors[file] = f"{' '.join(command['argv'])}: {error}"
        else:
            texts[file] = packed
    return {"texts": texts, "errors": errors}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output")
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--read", type=json.loads, default={})
    options = parser.parse_args()
    document = {"guids": guids(), **outputs(options.read, options.limit)}
    if options.output:
        write_whole(options.output, document)
    else:
        print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
