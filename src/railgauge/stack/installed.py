"""What `make stack` has built of a system, for those that run it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from railgauge import paths
from railgauge.common.errors import ConfigurationError

#: What stack.json says of a tool.
KEYS = ("name", "version", "hash", "prefix")


def folder(system: str) -> Path:
    """Where activate.sh and stack.json of the system are, once there is anything."""
    return paths.stack_folder() / system


def activating(system: str) -> list[str]:
    """The commands that put the system's stack on the path of a job; none without a stack.

    A node that does not see it fails: with what is installed there it would measure another build.
    """
    script = folder(system) / "activate.sh"
    return [f"source {shlex.quote(str(script))} || exit 1"] if script.is_file() else []


def tools(where: Path) -> list[dict[str, str]]:
    """Name, version, hash and prefix of the tools that the last build left in `where`.

    None before the first; ConfigurationError where their list is damaged.
    """
    path = where / "stack.json"
    if not path.exists():
        return []
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return [{key: str(tool[key]) for key in KEYS} for tool in stored]
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(
            f"{path}: found no list of tools: {type(error).__name__}: {error}",
            next_step=f"rm -r {where}, then make stack SYSTEM={where.name}, without ONLY",
        ) from None


def provides(system: str, spec: str) -> bool:
    """Whether the stack has what `spec` asks for, by name and version."""
    wanted = re.fullmatch(r"([\w-]+)(?:@=?([\w.-]+))?", spec.strip())
    if wanted is None or not activating(system):
        return False
    name, version = wanted.groups()
    return any(
        tool["name"] == name and version in (None, tool["version"])
        for tool in tools(folder(system))
    )
