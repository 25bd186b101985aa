"""The tools of this package, found by what their modules say: nobody else has a list of them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType

from railgauge import tools


def modules() -> Iterator[ModuleType]:
    """The modules of tools that a Spack package brings."""
    for found in pkgutil.iter_modules(tools.__path__, f"{tools.__name__}."):
        if found.name != __name__:
            module = importlib.import_module(found.name)
            if hasattr(module, "PACKAGES"):
                yield module


@functools.cache
def programs() -> Mapping[str, tuple[str, ...]]:
    """Spack package -> the programs that it brings; none of a library."""
    return {name: brought for m in modules() for name, brought in m.PACKAGES.items()}
