"""What the uplinks between nodes carried while a job ran, as a command of the site counts it.

How the leaves spread it (`mode`) is a part of what is measured, as in `alltoall packet`: the site's
own word, which no measurement can prove.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from railgauge.campaign import variables
from railgauge.checks.framework.site_command import SiteCommandError, printed
from railgauge.model.uplinks import (
    CountersError,
    Shares,
    Uplink,
    carried,
    document,
    parse,
    shares,
)
from railgauge.systems import Fabric

#: What each uplink carried, in the case's folder.
CARRIED = "uplinks.json"

#: What the uplinks counted is held against what the tool moved: a pair may be on one leaf, and
#: headers, acknowledgements and Slurm's own messages come along.
LEAST_SHARE, MOST_SHARE = 0.5, 1.25

#: What is received is acknowledged, with so many bytes for each at most.
_ACKS = 0.05

#: What sends less than so many bytes is no flow of a test: nobody answered it.
_FLOW = 100_000

#: So long the site's command may take; a sweep of pairs waits for it.
_COMMAND_S, _IN_SWEEP_S = 60, 5


def count(command: Sequence[str], limit_s: float = _COMMAND_S) -> list[Uplink]:
    """What the site's command says now; CountersError where it says nothing."""
    try:
        return parse(printed(command, limit_s))
    except SiteCommandError as error:
        raise CountersError(str(error)) from None


class Counting:
    """The counters before a job and after it."""

    def __init__(self, command: Sequence[str], in_sweep: bool = False) -> None:
        self._command = list(command)
        self._limit_s = _IN_SWEEP_S if in_sweep else _COMMAND_S
        self.before: Sequence[Uplink] | CountersError = self._count()
        self.after: Sequence[Uplink] | CountersError = CountersError("the job did not end")

    def end(self) -> None:
        self.after = self._count()

    def carried(self) -> list[Uplink]:
        """Between both; CountersError where that is not known."""
        for counted in (self.before, self.after):
            if isinstance(counted, CountersError):
                raise counted
        assert not isinstance(self.before, CountersError)
        assert not isinstance(self.after, CountersError)
        return carried(self.before, self.after)

    def kept(self, folder: Path) -> list[Uplink]:
        """The same, which the folder of the case then has as a file."""
        uplinks = self.carried()
        (folder / CARRIED).write_text(document(uplinks), encoding="utf-8")
        return uplinks

    @property
    def unread(self) -> str:
        """Which command did not say what they carried, when, and why; "" where it did."""
        try:
            self.carried()
        except CountersError as error:
            when = "before the job" if error is self.before else "after the job"
            return f"by `{shlex.join(self._command)}`, {when}: {error}"
        return ""

    def _count(self) -> Sequence[Uplink] | CountersError:
        try:
            return count(self._command, self._limit_s)
        except CountersError as error:
            return error


class OwnTraffic:
    """What the nodes of a job counted themselves of what went between leaves: bytes, headers too,
    and flows. Runs that failed count: what they sent went over the uplinks.

    `apart`: each stream of a run takes an uplink by chance, not all between two nodes the same.
    """

    def __init__(self, leaf_of: Mapping[str, str], apart: bool) -> None:
        self._leaf_of = leaf_of
        self._apart = apart
        self._sent: Counter[str] = Counter()
        self._received: Counter[str] = Counter()
        #: (from, to) -> streams
        self._streams: Counter[tuple[str, str]] = Counter()

    def add(self, counted: Mapping[str, tuple[int, int]], streams: int) -> None:
        """A run between two nodes; `counted` are the bytes that each received and sent."""
        for node, other in itertools.permutations(counted, 2):
            leaf, received, sent = self._leaf_of[node], *counted[node]
            self._sent[leaf] += sent
            self._received[leaf] += received
            if sent >= max(_FLOW, _ACKS * received):
                self._streams[node, other] += streams

    def alone_on(
        self, uplinks: Sequence[Uplink]
    ) -> tuple[list[Uplink], dict[str, tuple[int, int]]]:
        """Those of leaves on which it was alone, or nearly; leaf -> its flows sent, received."""
        kept = {}
        for leaf in dict.fromkeys(one.leaf for one in uplinks):
            own = [one for one in uplinks if one.leaf == leaf]
            out, back = self._sent[leaf], self._received[leaf]
            if sum(one.sent_bytes for one in own) <= MOST_SHARE * (out + _ACKS * back) and sum(
                one.received_bytes for one in own
            ) <= MOST_SHARE * (back + _ACKS * out):
                kept[leaf] = own
        ways = {way: count if self._apart else 1 for way, count in self._streams.items()}
        flows = {
            leaf: (
                sum(count for (node, _), count in ways.items() if self._leaf_of[node] == leaf),
                sum(count for (_, node), count in ways.items() if self._leaf_of[node] == leaf),
            )
            for leaf in kept
        }
        return list(itertools.chain.from_iterable(kept.values())), flows


def in_mode(traffic: str, fabric: Fabric) -> str:
    """The operation, with the mode of the leaves as its state where somebody says it."""
    mode = os.environ.get(variables.FABRIC_MODE) or fabric.mode
    return f"{traffic} {mode}" if mode else traffic


def least_even_first(uplinks: Sequence[Uplink]) -> list[Shares]:
    """The shares of leaves with several uplinks; CountersError where there is none."""
    uneven = sorted((s for s in shares(uplinks) if len(s.of_spine) > 1), key=lambda s: s.jain)
    if not uneven:
        raise CountersError("no leaf with two uplinks, expected some to share the traffic")
    return uneven


def least_even_note(uneven: Sequence[Shares]) -> str:
    return f"the least even of {len(uneven)}: {uneven[0]}"


def confirm(sent_bytes: int, moved_bytes: int, tool: str) -> None:
    """CountersError where the leaves cannot have sent this of what the tool moved between them."""
    counted = f"the leaves counted {sent_bytes / 1e6:.4g} MB while {tool} moved"
    moved = f"{moved_bytes / 1e6:.4g} MB"
    if sent_bytes < LEAST_SHARE * moved_bytes:
        raise CountersError(
            f"{counted} {moved}, expected at least {LEAST_SHARE:.0%} of it: are these the uplinks "
            "between the nodes, and are they counted in time?"
        )
    if sent_bytes > MOST_SHARE * moved_bytes:
        raise CountersError(
            f"{counted} {moved}, expected at most {MOST_SHARE:.0%} of it: something else used them"
        )
