"""The names of checks that a file may state, as gate.yaml does in `enforcement`.

The files in reframe/, a site's own among them, are read and not run: to load ReFrame takes seconds,
which a gate has not, and a node may not have it.
"""

from __future__ import annotations

import ast
import difflib
import functools
from pathlib import Path

from railgauge import paths

#: How many of the nearest names are printed.
_NEAREST = 3

#: Checks of before, and what measures the same now.
_NOW = dict.fromkeys(
    (
        *("RdmaOperation", "RdmaSweep", "RdmaBidirectional"),
        *("RdmaQueuePairs", "RdmaDuration", "RdmaConnectionManager"),
    ),
    "RdmaUsage",
)


def declared(folder: Path) -> tuple[frozenset[str], tuple[str, ...]]:
    """The checks of a folder: what a decorator registers there (`@rfm.simple_test`), or ReFrame's
    `make_test`; and the files that are not Python, which are not understood.
    """
    names: set[str] = set()
    broken = []
    for path in sorted(folder.glob("*.py")):
        try:
            names |= _of_file(path, path.stat().st_mtime_ns)
        except (OSError, SyntaxError, ValueError):
            broken.append(path.name)
    return frozenset(names), tuple(broken)


def unknown(name: str) -> str:
    """What is wrong with a name of a check, and what to type; "" where there is such a check."""
    there, broken = declared(paths.CHECKS)
    if name in there:
        return ""
    folder = f"{paths.CHECKS.name}/"
    now = _NOW.get(name, "")
    near = [now] if now in there else []
    near = near or difflib.get_close_matches(name, sorted(there), n=_NEAREST)
    nearest = f"; nearest: {', '.join(near)}" if near else ""
    unread = f" ({', '.join(broken)} there is no Python, and may have it)" if broken else ""
    meant = f"write {near[0]}, or take the line out" if near else "take the line out"
    listed = f"railgauge system check, or reframe -c {folder} -L, has all names"
    return f"found {name}, expected a check of {folder}{unread}{nearest}; {meant}: {listed}"


@functools.lru_cache(maxsize=256)
def _of_file(path: Path, changed_ns: int) -> frozenset[str]:
    """Those of a file as it was when it last changed."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.ClassDef) and node.decorator_list:
            names.add(node.name)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("make_test"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                names.add(first.value)
    return frozenset(names)
