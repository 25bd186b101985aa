"""The programs that a check runs on nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from railgauge.systems import Partition


class Programs:
    """A tool's program, others that it needs, and `helpers` that nodes call to look at themselves.

    Each is the argv that prints its version. `more` has those of a partition alone.
    """

    def __init__(
        self,
        tool: Any = None,
        *others: Sequence[str],
        helpers: Sequence[Sequence[str]] = (),
        more: Callable[[Partition], Mapping[str, Sequence[str]]] = lambda partition: {},
    ) -> None:
        self._more = more
        own = [tool.version_argv()] if tool is not None else []
        self._argvs = {argv[0]: argv for argv in (*own, *helpers, *others)}
        self._helpers = {argv[0] for argv in helpers}

    def on(self, partition: Partition) -> Mapping[str, Sequence[str]]:
        """Name -> argv, on the nodes of a partition; empty where none prints a version."""
        return {**self._argvs, **self._more(partition)}

    def needed(self, partition: Partition) -> list[str]:
        """Those without which the tool cannot run."""
        return [program for program in self.on(partition) if program not in self._helpers]

    def unknown(self, partition: Partition) -> str:
        """Why only the check's own job can look for them; "" where others can."""
        return ""

    def folders(self, partition: Partition) -> Sequence[str]:
        """The folders of a partition's nodes in which they are looked for before PATH."""
        return ()

    def may_be_missing(self, partition: Partition) -> bool:
        """Whether a place is left out, and fails nothing, where a node lacks them."""
        return False

    def provider(self, program: str, system: str) -> str:
        """The command, or the package to install, for a program that a node lacks."""
        return f"install {program} there"
