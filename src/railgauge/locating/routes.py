"""The spine that data takes between two leaves, where a fabric routes statically."""

from __future__ import annotations

from collections.abc import Mapping

from railgauge.locating.results import End


class Routes:
    """Forwarding tables: at a leaf, the spine to which data for a destination goes.

    `spines` maps (leaf, destination) to a spine, where a destination is the name of an end or of
    its node; with (leaf, source, destination) a source's data has a spine of its own, as with a
    hash of both addresses.
    """

    def __init__(self, spines: Mapping[tuple[str, ...], str]) -> None:
        self._spines = dict(spines)
        #: the number of spines
        self.spines = len(set(self._spines.values()))

    def spine(self, leaf: str, sender: End, receiver: End) -> str:
        """The spine of data that leaves `leaf`; "" where it is not known."""
        for destination in (receiver.name, receiver.node):
            for source in (sender.name, sender.node):
                if found := self._spines.get((leaf, source, destination)):
                    return found
            if found := self._spines.get((leaf, destination)):
                return found
        return ""
