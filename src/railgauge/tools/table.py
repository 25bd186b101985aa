"""The tools of this package, found in their modules: no other module has a list of them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType

from railgauge import tools
from railgauge.tools.common.by_hand import ByHand


def _modules(attribute: str) -> Iterator[ModuleType]:
    """The modules of tools that have it."""
    for entry in pkgutil.iter_modules(tools.__path__, f"{tools.__name__}."):
        if entry.name != __name__:
            module = importlib.import_module(entry.name)
            if hasattr(module, attribute):
                yield module


def modules() -> Iterator[ModuleType]:
    """The modules of tools that a Spack package brings."""
    return _modules("PACKAGES")


@functools.cache
def programs() -> Mapping[str, tuple[str, ...]]:
    """Spack package -> the programs that it brings; none of a library."""
    brought: dict[str, tuple[str, ...]] = {}
    for module in modules():
        brought |= getattr(module, "PACKAGES", {})
    return brought


def by_hand() -> Mapping[str, ByHand]:
    """Tool -> how an output of it is read by hand, of those that have an output to read."""
    return {m.TOOL: m.BY_HAND for m in _modules("BY_HAND")}
