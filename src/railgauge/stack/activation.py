"""What puts the built tools on the path of jobs and shells: activate.sh and stack.json of a system.

The path is what Spack says of each package's run environment (spack/describe.py): some have their
programs elsewhere than in bin. Every program that a check looks for must be found there, and a tool
that was built once is never left out without a word.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge.common import atomic
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.stack import installed, intact, manifest
from railgauge.stack.manifest import Stack
from railgauge.tools.table import programs

#: Where the node's own tools are: never before the stack's.
_SYSTEM = {
    f"{prefix}/{folder}" for prefix in ("", "/usr", "/usr/local") for folder in ("bin", "sbin")
}


def bringing(program: str, system: str) -> str | None:
    """What to type where a node of `system` lacks `program`; None where it is not in the stack."""
    package = _package(program)
    if package is None:
        return None
    if installed.provides(system, package):
        return (
            f"look whether that node sees {installed.folder(system)}: make stack built {package} "
            f"there, which has {program}"
        )
    if system not in manifest.systems():
        return (
            f"{program} is in the pinned stack's {package}: write configs/systems/{system}/spack "
            f"after another system's, then make stack SYSTEM={system}"
        )
    return f"make stack SYSTEM={system} brings {program}"


def has_built(program: str, system: str) -> bool:
    """Whether `make stack` has built what brings `program` for `system`."""
    package = _package(program)
    return package is not None and installed.provides(system, package)


def _package(program: str) -> str | None:
    return next((name for name, brought in programs().items() if program in brought), None)


def write(stack: Stack, packages: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """Write activate.sh and stack.json into `folder`; the tools that are there, one line each.

    `packages` is what spack/describe.py prints. PrerequisiteError, and nothing written, where no
    tool is installed or one lacks a program that the checks look for.
    """
    roots = [package for package in packages if package["root"] and package["installed"]]
    if not roots:
        raise PrerequisiteError(
            f"{folder}: found nothing installed, expected the tools of spack.yaml",
            next_step=f"make stack SYSTEM={stack.system}",
        )
    for root in roots:
        _require_programs(root)
    lines = [line for root in roots for line in _shell(root["run_environment"])]
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(
        folder / "activate.sh",
        "# shellcheck shell=bash\n"
        f"# Written by `make stack SYSTEM={stack.system}`; activate.sh sources it.\n"
        f"export RAILGAUGE_STACK={shlex.quote(str(folder))}\n"
        + "".join(f"{line}\n" for line in dict.fromkeys(lines)),
    )
    tools = [{key: root[key] for key in installed.KEYS} for root in roots]
    atomic.write_json(folder / "stack.json", tools)
    return [_named(root) for root in roots]


def _require_programs(root: Mapping[str, Any]) -> None:
    folders = intact.path_folders(root)
    expected = programs().get(root["name"], ())
    lacking = [
        program
        for program in expected
        if not any(os.access(Path(folder, program), os.X_OK) for folder in folders)
    ]
    if lacking:
        raise PrerequisiteError(
            f"{_named(root)}: found no {', '.join(lacking)} in {', '.join(folders) or 'no folder'}"
            f", which its recipe puts on the path; expected {', '.join(expected)}",
            next_step=f"look below {root['prefix']}: a folder other than bin is named by "
            "setup_run_environment of the recipe",
        )


def _shell(changes: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Spack's changes of the environment as sh commands."""
    for change in changes:
        name, value = change["name"], shlex.quote(change.get("value", ""))
        between = change.get("separator", ":")
        action = change["action"]
        if action == "prepend" and value in _SYSTEM:
            # A recipe's words for an external in /usr.
            action = "append"
        match action:
            case "set":
                yield f"export {name}={value}"
            case "unset":
                yield f"unset {name}"
            case "prepend":
                yield f'export {name}={value}"${{{name}:+{between}${name}}}"'
            case "append":
                yield f'export {name}="${{{name}:+${name}{between}}}"{value}'
            case other:
                raise ValueError(f"{other}: no change of the environment")


def require_all(
    stack: Stack, packages: Sequence[Mapping[str, Any]], only: Sequence[str], folder: Path
) -> list[str]:
    """RailgaugeError where a build of `only` would leave out a tool that was built before.

    The new solve may have changed it (another compiler, version or recipe), and jobs would then
    take the node's own. Returns what spack.yaml no longer asks for, one line each.
    """
    earlier = installed.tools(folder)
    solved = {package["name"]: package for package in packages if package["root"]}
    lost = [
        tool
        for tool in earlier
        if tool["name"] in solved
        and not solved[tool["name"]]["installed"]
        and only
        and tool["name"] not in only
    ]
    if lost:
        names = " ".join([*only, *(tool["name"] for tool in lost)])
        raise RailgaugeError(
            "\n".join(
                f"{folder}/activate.sh: found {_named(tool)}, {_why(tool, solved[tool['name']])}, "
                f"which ONLY={' '.join(only)} does not build"
                for tool in lost
            ),
            next_step=f'make stack SYSTEM={stack.system} ONLY="{names}"',
        )
    return [_named(tool) for tool in earlier if tool["name"] not in solved]


def _why(tool: Mapping[str, Any], solved: Mapping[str, Any]) -> str:
    if tool["hash"] == solved["hash"]:
        return "changed or gone since it was built"
    return f"and the solve now asks for {_named(solved)}"


def _named(tool: Mapping[str, Any]) -> str:
    return f"{tool['name']}@{tool['version']} /{tool['hash'][:7]}"
