"""The progress of a session: by what ReFrame prints, and by what its sweeps write meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

from railgauge.model.record import Planned
from railgauge.node.orchestration import sweep_file
from railgauge.node.transport import results_file
from railgauge.terminal import clock

_FINISHED = re.compile(
    r"\[\s+(?P<word>OK|FAIL|ABORT|SKIP)\s*\]\s*\(\s*(?P<done>\d+)/(?P<all>\d+)\)"
)

#: How many running checks are named.
_NAMED = 2

#: Before this share is done it is not known how long the rest takes.
_LEAST_SHARE = 0.05

#: zlib's number for a stream with gzip's head and tail
_GZIP = 31


@dataclasses.dataclass(frozen=True)
class Finished:
    """A case that has ended, as ReFrame says it."""

    word: str
    done: int
    all: int
    case: str


def finished(line: str) -> Finished | None:
    """What a line of ReFrame's output says; None of any other line."""
    matched = _FINISHED.search(line)
    if matched is None:
        return None
    case = line[matched.end() :].strip().split(" /", 1)[0]
    return Finished(matched["word"], int(matched["done"]), int(matched["all"]), case)


class RunningSweep:
    """A sweep that runs, by its raw.jsonl.gz: only what is new in it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.check = path.parent.name.rpartition("_")[0] or path.parent.name
        self.places = self.rounds = self.bad = 0
        self.over = False
        self._read = 0
        self._unpack = zlib.decompressobj(wbits=_GZIP)
        self._rest = b""
        #: of its list; 0 where it has none
        self.all_places = self.all_rounds = 0
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            document = json.loads((path.parent / sweep_file.FILE).read_text(encoding="utf-8"))
            places, rounds = len(document["places"]), len(document["rounds"])
            self.all_places, self.all_rounds = places, rounds

    def update(self) -> None:
        if self.over:
            return
        with self.path.open("rb") as stream:
            stream.seek(self._read)
            data = stream.read()
        self._read += len(data)
        try:
            *lines, self._rest = (self._rest + self._unpack.decompress(data)).split(b"\n")
        except zlib.error:
            self.over = True
            return
        for line in lines:
            # Outputs of tools need not be parsed for that.
            if line.startswith(b'{"event":"place"'):
                self.places += 1
                self.bad += b'"outcome":"done"' not in line
            elif line.startswith(b'{"event":"round"'):
                self.rounds += 1
            elif line.startswith(b'{"event":"end"'):
                self.over = True

    @property
    def words(self) -> str:
        rounds = f" round {min(self.rounds + 1, self.all_rounds)}/{self.all_rounds}"
        of = f"{self.places}/{self.all_places}" if self.all_places else f"{self.places}"
        return f"{self.check}{rounds if self.all_rounds else ''}, {of} places"


class Progress:
    """The progress of a session that runs in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.cases: Sequence[Planned] = ()
        self._folder = folder
        self._began = time.monotonic()
        self._last: Finished | None = None
        self._places_done = self._failed = 0
        self._sweeps: dict[Path, RunningSweep] = {}

    def heard(self, one: Finished) -> None:
        self._last = one
        self._failed += one.word in ("FAIL", "ABORT")
        planned = next((case for case in self.cases if case.case == one.case), None)
        self._places_done += len(planned.places) if planned else 1

    def words(self) -> str:
        """The line of progress: cases, what runs, the time left, and what was not good."""
        running = self._running()
        every = sum(case.runs for case in self.cases)
        done, of = (self._last.done, self._last.all) if self._last else (0, every)
        parts = [f"{done}/{of} cases" if of else "starting"]
        names = [one.words for one in running[:_NAMED]]
        more = f" and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
        parts += ["; ".join(names) + more] if names else []
        parts += self._left(sum(one.places for one in running))
        bad = sum(one.bad for one in self._sweeps.values())
        parts += [f"{self._failed} failed"] if self._failed else []
        parts += [f"{bad} places without a result"] if bad else []
        return "  ".join(parts)

    def _running(self) -> list[RunningSweep]:
        for path in self._folder.glob(f"stage/*/*/*/*/{results_file.FILE}"):
            if path not in self._sweeps:
                self._sweeps[path] = RunningSweep(path)
        for one in self._sweeps.values():
            one.update()
        return [one for one in self._sweeps.values() if not one.over]

    def _left(self, running: int) -> list[str]:
        """How long the rest takes, if its places take as long as those before."""
        every = sum(len(case.places) * case.runs for case in self.cases)
        share = (self._places_done + running) / every if every else 0.0
        if not _LEAST_SHARE <= share < 1:
            return []
        took = time.monotonic() - self._began
        return [f"about {clock(took * (1 - share) / share)} left"]
