"""The spine that data takes between two leaves, where a fabric routes statically."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from railgauge.locating.results import End


class Routes:
    """Forwarding tables: at a leaf, the spine to which data for a destination goes.

    `spines` maps (leaf, destination) to a spine, where a destination is the name of an end or of
    its node; with (leaf, source, destination) a source's data has a spine of its own, as with a
    hash of both addresses. `arriving` has the spine from which it comes down to the destination's
    leaf, where that may be another one: of parallel links each is named at its own leaf.
    """

    def __init__(
        self,
        spines: Mapping[tuple[str, ...], str],
        arriving: Mapping[tuple[str, ...], str] | None = None,
    ) -> None:
        self._spines, self._arriving = dict(spines), dict(arriving or {})
        #: the number of spines
        self.spines = len({*self._spines.values(), *self._arriving.values()})

    @classmethod
    def of_rows(cls, rows: Iterable[Sequence[str]]) -> Routes:
        """Those of rows of leaf, source ("" for any), destination and spine."""
        return cls(
            {
                (leaf, source, destination) if source else (leaf, destination): spine
                for leaf, source, destination, spine in rows
            }
        )

    def spine(self, leaf: str, sender: End, receiver: End) -> str:
        """The spine of data that leaves `leaf`; "" where it is not known."""
        return _of(self._spines, leaf, sender, receiver)

    def arriving_from(self, leaf: str, sender: End, receiver: End) -> str:
        """The spine from which data that left `leaf` comes down; "" where it is not known."""
        return _of(self._arriving or self._spines, leaf, sender, receiver)


def _of(spines: Mapping[tuple[str, ...], str], leaf: str, sender: End, receiver: End) -> str:
    for destination in (receiver.name, receiver.node):
        for source in (sender.name, sender.node):
            if found := spines.get((leaf, source, destination)):
                return found
        if found := spines.get((leaf, destination)):
            return found
    return ""
