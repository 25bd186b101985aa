"""Whether what Spack installed is still as it was built. Spack itself never looks again.

A program that was overwritten, or a folder that a user cleaned up, counts as installed for ever:
`make stack` would end well, and every campaign note that the tool is not as packaged.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge.node.system import tool_package
from railgauge.tools.table import programs


def damaged(packages: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Hash to what is wrong, of each installed package that is to be built again.

    `packages` is what spack/describe.py prints; the damaged no longer count as installed in it. Of
    the roots the programs that checks look for are read, of the others only that they are there.
    """
    wrong = {
        package["hash"]: reason
        for package in packages
        if package["installed"] and (reason := next(_problems(package), None))
    }
    for package in packages:
        package["installed"] = package["installed"] and package["hash"] not in wrong
    return wrong


def _problems(package: Mapping[str, Any]) -> Iterator[str]:
    name = f"{package['name']}@{package['version']} /{package['hash'][:7]}"
    prefix = Path(package["prefix"])
    if not prefix.is_dir():
        yield f"{name}: found no folder {prefix}, expected what was built there"
        return
    folders = path_folders(package)
    built: set[str] = set()
    if package["root"]:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            noted = (prefix / ".spack/install_manifest.json").read_text(encoding="utf-8")
            built = {Path(file).name for file in json.loads(noted)}
    for program in programs().get(package["name"], ()) if package["root"] else ():
        path = next((p for p in (Path(f, program) for f in folders) if p.is_file()), None)
        if path is None and program in built:
            yield f"{name}: found no {program} in {prefix}, expected it, as it was built"
        elif path is not None:
            _, origin = tool_package.of(str(path))
            if origin.startswith(tool_package.CHANGED):
                yield f"{name}: {path}: found it changed since it was built"


def path_folders(root: Mapping[str, Any]) -> list[str]:
    """The folders that the recipe of a root puts on the path."""
    return [
        change["value"]
        for change in root["run_environment"]
        if change["name"] == "PATH" and change["action"] == "prepend"
    ]
