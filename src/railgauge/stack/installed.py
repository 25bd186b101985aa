"""What `make stack` has built of a system, for those that run it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from railgauge import paths


def folder(system: str) -> Path:
    """Where activate.sh and stack.json of the system are, once there is anything."""
    return paths.stack_folder() / system


def activating(system: str) -> list[str]:
    """The commands that put the system's stack on the path of a job; none without a stack.

    A node that does not see it fails: with what is installed there it would measure another build.
    """
    script = folder(system) / "activate.sh"
    return [f"source {shlex.quote(str(script))} || exit 1"] if script.is_file() else []


def provides(system: str, spec: str) -> bool:
    """Whether the stack has what `spec` asks for, by name and version."""
    asked = re.fullmatch(r"([\w-]+)(?:@=?([\w.-]+))?", spec.strip())
    if asked is None or not activating(system):
        return False
    roots = json.loads((folder(system) / "stack.json").read_text(encoding="utf-8"))
    name, version = asked.groups()
    return any(root["name"] == name and version in (None, root["version"]) for root in roots)
