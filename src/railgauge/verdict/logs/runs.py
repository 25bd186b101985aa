"""The runs in logs, and what is known of where each was measured."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from railgauge.textfiles import Large, Text, Unread
from railgauge.tools import Reading, recognize
from railgauge.tools.common.ends import Ends
from railgauge.verdict.logs import names


@dataclasses.dataclass(frozen=True)
class LogRun:
    """An output of a tool in a file, what its reader makes of it, and its ends.

    `hosts_in_name` are the two hosts that the file is named after; `digest` is of its text, so that
    a copy is known.
    """

    file: str
    line: int
    #: the rank or host that printed it, where a launcher says so
    tag: str
    tool: str
    reading: Reading
    ends: Ends
    hosts_in_name: tuple[str, ...]
    digest: bytes

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Those of the output. A host's tag is better than its own address."""
        known = self.ends.hosts
        if self.tag and not self.tag.isdigit() and len(known) == 2 and self.ends.role:
            local = self.ends.role == "server"
            return (known[0], self.tag) if local else (self.tag, known[1])
        return known

    @property
    def pair(self) -> tuple[str, ...]:
        """The two hosts of a run between two: names rather than addresses; () where not known."""
        if len(self.hosts) == 2 and not self._has_addresses:
            return self.hosts
        if self.hosts_in_name and len(self.hosts) in (0, 2):
            return self.hosts_in_name
        return self.hosts if len(self.hosts) == 2 else ()

    @property
    def _has_addresses(self) -> bool:
        return any(not host[:1].isalpha() or host.startswith("LID ") for host in self.hosts)

    @property
    def failure(self) -> str:
        """What the output itself says went wrong, "" where it is whole, or says nothing of a
        failure: one that is cut may have been cut by anything.
        """
        reason = "" if self.reading.ok else self.reading.reason
        return reason if any(words in reason for words in _SAYS_FAILURE) else ""


#: How readers begin what they expected where an output states a failure or wrong data.
_SAYS_FAILURE = (", expected no failure", ", expected no error", " wrong value")


def read(sources: Iterable[Text | Large | Unread]) -> Iterator[LogRun | Unread]:
    """The runs of texts in their order, and what was not read with its reason."""
    for found in sources:
        # Of a large one too: the hosts of its runs may stand anywhere in it.
        source = found.whole() if isinstance(found, Large) else found
        if isinstance(source, Unread):
            yield source
            continue
        named = names.hosts_in(source.name)
        for section in recognize.outputs(source):
            if isinstance(section, Unread):
                yield section
                continue
            yield LogRun(
                source.name,
                section.line,
                section.tag,
                section.tool,
                section.read(),
                section.ends(),
                named,
                hashlib.sha256(section.text.strip().encode()).digest(),
            )


def below(files: Iterable[str]) -> dict[str, str]:
    """File -> its path below the folder that all of them are in; of a single one its name."""
    paths = {file: PurePath(file.replace(":", "/")) for file in files}
    if len(paths) == 1:
        return {file: path.name for file, path in paths.items()}
    top = os.path.commonpath([path.parent for path in paths.values()]) if paths else ""
    return {file: str(path.relative_to(top)) for file, path in paths.items()}
