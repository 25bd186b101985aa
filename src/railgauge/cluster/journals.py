"""Journals in the store: `KIND/ID.json`, written whole after each step.

One rule for those that cannot be read. A damaged journal is reported and set aside as `ID.damaged`,
and what it recorded is done again. One that cannot be read for now stays, as on a store that does
not answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pydantic

from railgauge.cluster import store


class Journal(Protocol):
    """A dataclass that names its file."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    id: str
    system: str


AnyJournal = TypeVar("AnyJournal", bound=Journal)


@dataclasses.dataclass(frozen=True)
class Lost:
    """A journal, or a folder of journals, that cannot be read, and why.

    `content` is that of a damaged one. One that is not `damaged` may be readable later, or by
    another user.
    """

    path: Path
    why: str
    damaged: bool = True
    content: bytes = b""

    @property
    def words(self) -> str:
        if self.damaged:
            return f"journal {self.path} is damaged ({self.why})"
        return f"journal {self.path} cannot be read: {self.why}"

    def set_aside(self) -> Path:
        """Rename a damaged journal; PrerequisiteError where the store does not let."""
        target = self.path.with_suffix(".damaged")
        try:
            self.path.replace(target)
        except OSError as error:
            raise store.unwritable(self.path, error) from None
        return target


@dataclasses.dataclass(frozen=True)
class Journals(Generic[AnyJournal]):
    """The journals of one kind, `schema` reads them."""

    kind: str
    schema: pydantic.TypeAdapter[AnyJournal]

    def save(self, journal: AnyJournal) -> None:
        path = store.folder(journal.system) / self.kind / f"{journal.id}.json"
        store.write(path, dataclasses.asdict(journal))

    def read(
        self, system: str, wanted: Callable[[str], bool] = lambda _: True
    ) -> tuple[list[AnyJournal], list[Lost]]:
        """The journals of `wanted` ids that can be read, oldest first, and the others."""
        folder = store.folder(system) / self.kind
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix == ".json")
        except FileNotFoundError:
            return [], []
        except OSError as error:
            return [], [Lost(folder, error.strerror or str(error), damaged=False)]
        journals: list[AnyJournal] = []
        lost: list[Lost] = []
        for path in (path for path in paths if wanted(path.stem)):
            try:
                content = path.read_bytes()
            except OSError as error:
                lost.append(Lost(path, error.strerror or str(error), damaged=False))
                continue
            try:
                journal = self.schema.validate_json(content)
            except pydantic.ValidationError as error:
                lost.append(Lost(path, store.first_error(error), content=content))
                continue
            if journal.id == path.stem:
                journals.append(journal)
            else:
                # A copy would be continued, or count, for ever: its steps are saved elsewhere.
                why = f"id: found {journal.id}, expected the name of the file"
                lost.append(Lost(path, why, content=content))
        return journals, lost
