"""What a sweep leaves: `raw.jsonl.gz`, one event a line, as it happened.

One gzip stream, flushed after every write, so that a file that was broken off is readable up to its
last whole line. Where hundreds of agents answer at once they are attended to first, and what they
said is written once no more of it came for `PAUSE_S`, at most `COLLECT_S` later. The events, by
`event`:

    begin      host, time (ISO 8601, UTC), nodes
    joined     node, seconds since the begin
    side       place, role, line ({"call": ..., "facts": ...}), out, err, files (name -> text)
    lost       node, why
    launch     launch, places, parent, why, seconds, out, err, files: of a sweep by launches
               (group_launches.py); what its places left follows it, and replaces what they
               left before
    again      place, name, like (the place of the list that it is like), server, client, quiet
               (true where it is measured alone on purpose), beside (true where it is there to keep
               its nodes busy)
    place      place, round, outcome (one of OUTCOMES), why, seconds
    round      round, seconds, tool_seconds (the longest call of a client in it)
    strangers  count, from: the first addresses
    end        seconds, why ("" where all places came to an event)

A role is that of the exit line: `server`, `client1`, `rank0`, and `back/server` where the other
direction was measured too, `anew/server` of a second run where a tool could not measure.
"""

from __future__ import annotations

import json
import queue
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FILE = "raw.jsonl.gz"

#: `done`: both sides ended by themselves, well or not; `late`: ended at the limit; `lost`: a node
#: of the place was, or the process of a side; `refused`: a side cannot make sense of its orders, or
#: launches of many places did not isolate it.
OUTCOMES = ("done", "late", "lost", "refused")

#: Why a node is lost if Slurm or a user ended its agent: it says nothing of the node.
TERMINATED = "its step was ended (SIGTERM)"

#: How the reason of a lost node begins where it is only silence: its connection ended, or nothing
#: came over it.
CONNECTION_ENDED, NO_ANSWER = "its connection ended", "did not answer within"
#: Why a node is lost that the job did not get: another user had it by then.
NOT_OURS = "it is not of the job"

Event = dict[str, Any]

#: After AT_ONCE events that were written as they came the next are written together, once none came
#: for PAUSE_S, or COLLECT_S have passed: what writes them would keep the conductor from its agents.
#: MOST_WAITING are written at once, as thousands take memory that a login node may lack.
AT_ONCE, PAUSE_S, COLLECT_S, MOST_WAITING = 100, 0.5, 2.0, 2000

#: zlib's number for a stream with gzip's head and tail
_GZIP = 31
_CHUNK_BYTES = 1 << 20


class Writer:
    """Writes events in a thread of its own: a slow file system stops no sweep."""

    def __init__(self, path: str | Path) -> None:
        self._stream = Path(path).open("wb")  # noqa: SIM115  open as long as the thread
        self._events: queue.SimpleQueue[Event | threading.Event | None] = queue.SimpleQueue()
        #: why nothing more is written, once that is so
        self.problem: OSError | None = None
        #: set where what waits is to be written without a pause
        self._at_once = threading.Event()
        self._thread = threading.Thread(target=self._run, name="raw", daemon=True)
        self._thread.start()

    def write(self, event: Event) -> None:
        self._events.put(event)
        if self._events.qsize() >= MOST_WAITING:
            self._at_once.set()

    def flush(self) -> None:
        """Wait until all is written: of much, not all is to be in memory."""
        written = threading.Event()
        self._events.put(written)
        self._at_once.set()
        written.wait()

    def close(self) -> None:
        """Write what is left, and the stream's end."""
        self._events.put(None)
        self._at_once.set()
        self._thread.join()

    def _run(self) -> None:
        pack = zlib.compressobj(level=4, wbits=_GZIP)
        open_end, began, written = True, 0.0, 0
        while open_end:
            events = [self._events.get()]
            is_over = time.monotonic() - began >= COLLECT_S
            if written > AT_ONCE and not is_over:
                self._wait_for_a_pause()
            if written > AT_ONCE or is_over:
                began, written = time.monotonic(), 0
            self._at_once.clear()
            while not self._events.empty():
                events.append(self._events.get())
            open_end = events[-1] is not None
            written += len(events)
            flushes = [event for event in events if isinstance(event, threading.Event)]
            data = b""
            while events:
                # Thousands of nodes answer at once, and their lines need not be in memory at once.
                lines = "".join(
                    f"{_encode(event)}\n" for event in events[:AT_ONCE] if isinstance(event, dict)
                )
                del events[:AT_ONCE]
                data += pack.compress(lines.encode("utf-8", "replace"))
            data += pack.flush(zlib.Z_SYNC_FLUSH if open_end else zlib.Z_FINISH)
            self._put(data)
            for event in flushes:
                event.set()
        try:
            self._stream.close()
        except OSError as error:
            self.problem = self.problem or error

    def _wait_for_a_pause(self) -> None:
        deadline, count = time.monotonic() + COLLECT_S, -1
        while count != self._events.qsize() and time.monotonic() < deadline:
            count = self._events.qsize()
            if self._at_once.wait(PAUSE_S):
                return

    def _put(self, data: bytes) -> None:
        if self.problem is None:
            try:
                self._stream.write(data)
                self._stream.flush()
            except OSError as error:
                self.problem = error


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Side(NamedTuple):
    """What one call of a place left: its exit line, its outputs, and files that belong to them."""

    line: dict[str, Any]
    out: str
    err: str
    files: Mapping[str, str]


class Added(NamedTuple):
    """A place that was added to the list, and the number of the listed one that it is like; and
    whether it is measured while all else is quiet, to distinguish load from a fault.
    """

    name: str
    like: int
    server: str
    client: str
    quiet: bool = False


class Packed(Mapping[str, str]):
    """Texts by name, compressed: NCCL's logs of tens of thousands of ranks fit into memory."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._packed = {name: zlib.compress(text.encode(), 1) for name, text in texts.items()}

    def __getitem__(self, name: str) -> str:
        return zlib.decompress(self._packed[name]).decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


class Raw:
    """A sweep's events, by what they are about; `end` is None where it was broken off.

    Of a sweep by launches `launches` are the last of each place.
    """

    def __init__(self) -> None:
        self.launches: dict[int, Event] = {}
        self.sides: dict[int, dict[str, Side]] = {}
        self.places: dict[int, Event] = {}
        self.again: dict[int, Added] = {}
        self.rounds: dict[int, Event] = {}
        self.lost: dict[str, str] = {}
        self.joined: dict[str, float] = {}
        self.begin: Event | None = None
        self.strangers: Event | None = None
        self.end: Event | None = None

    def take(self, event: Event) -> None:
        """KeyError, TypeError or ValueError where it is no event of a sweep."""
        kind = event["event"]
        if kind == "side":
            files = Packed(event.get("files", {}))
            side = Side(event["line"], event["out"], event["err"], files)
            self.sides.setdefault(event["place"], {})[event["role"]] = side
        elif kind == "launch":
            for place in event["places"]:
                self.launches[place] = event
                self.sides.pop(place, None)
        elif kind == "again":
            ends = str(event["server"]), str(event["client"])
            quiet = event.get("quiet") is True
            self.again[event["place"]] = Added(
                str(event["name"]), int(event["like"]), *ends, quiet=quiet
            )
        elif kind == "place":
            self.places[event["place"]] = event
        elif kind == "round":
            self.rounds[event["round"]] = event
        elif kind == "lost":
            self.lost[event["node"]] = event["why"]
        elif kind == "joined":
            self.joined[event["node"]] = event["seconds"]
        elif kind in ("begin", "strangers", "end"):
            setattr(self, kind, event)
        else:
            raise KeyError(kind)


def read(path: str | Path) -> Raw:
    """All whole lines of the file, also of one that was broken off; nothing of one that is empty.

    OSError where it cannot be read, ValueError with the place where it is damaged.
    """
    raw, unpack, rest, number = Raw(), zlib.decompressobj(wbits=_GZIP), b"", 0
    with Path(path).open("rb") as stream:
        while not unpack.eof:
            packed = stream.read(_CHUNK_BYTES)
            if not packed:
                break
            try:
                *lines, rest = (rest + unpack.decompress(packed)).split(b"\n")
            except zlib.error as error:
                raise ValueError(f"{path}: damaged after line {number}: {error}") from None
            for line in lines:
                number += 1
                try:
                    raw.take(json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(
                        f"{path}: line {number} is no event of a sweep: {error!r}"
                    ) from None
        if unpack.eof and (rest or unpack.unused_data or stream.read(1)):
            raise ValueError(f"{path}: something stands behind its end, after line {number}")
    return raw
