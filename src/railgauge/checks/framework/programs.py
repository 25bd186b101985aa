"""The programs that a check runs on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from railgauge.systems import Partition


class Programs:
    """A tool's program, and those that nodes call in addition, each as the argv that prints its
    version.
    """

    def __init__(self, tool: Any = None, *helpers: Sequence[str]) -> None:
        own = [tool.version_argv()] if tool is not None else []
        self._argvs = {argv[0]: argv for argv in (*own, *helpers)}

    def on(self, partition: Partition) -> Mapping[str, Sequence[str]]:
        """Name -> argv, on the nodes of a partition."""
        return self._argvs

    def folders(self, partition: Partition) -> Sequence[str]:
        """The folders of a partition's nodes in which they are looked for before PATH."""
        return ()

    def may_be_missing(self, partition: Partition) -> bool:
        """Whether a place is left out, and fails nothing, where a node lacks them."""
        return False

    def provider(self, program: str, system: str) -> str:
        """The command, or the package to install, for a program that a node lacks."""
        return f"install {program} there"
