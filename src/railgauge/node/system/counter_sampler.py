"""How fast a node's links went at most, and while anything went: their byte counters, read again
and again in a thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from railgauge.node.system import processes
from railgauge.node.system.counters import RDMA_WORD_BYTES, interfaces, is_physical
from railgauge.node.system.rdma_devices import devices, ports

#: How often the byte counters are read.
PERIOD_S = 0.25

#: A peak is the mean rate over at least this long: a sampler that the scheduler held up for some
#: milliseconds, or a burst that sat in a buffer, is a small part of it.
WINDOW_S = 0.5

#: A period in which less than this share of the most went is idle: closing a connection takes some
#: packets. A reading that took longer says too little of when it was, and one that follows the last
#: too soon shows a burst. Of a long test every second one is dropped, again and again.
IDLE_SHARE, WIDEST_S, MOST_READINGS = 0.1, 0.01, 512

#: A driver may refresh its counters each second (bnxt_en), so that what a test moved last stands
#: there only a while after its end. That is waited for where a counter grew in steps, by more than
#: `STEP_BYTES`.
SETTLE_S = 1.2
STEP_BYTES = 2**20

#: Most counters that are sampled: 64 take 0.6 % of a core of a small VM.
MOST_SAMPLED = 96


class Reading(NamedTuple):
    """A counter's value, read at some time between two."""

    before_s: float
    after_s: float
    value: int


class Peak:
    """The highest rate that a byte counter shows, in Gb/s."""

    def __init__(self, unit_bytes: int) -> None:
        self._gbits_per_count = unit_bytes * 8 / 1e9
        self._readings: deque[Reading] = deque()
        self._grew = self._steady = False
        self._highest: float | None = None
        #: the longest time between two readings
        self.gap_s = 0.0

    def add(self, reading: Reading) -> None:
        readings = self._readings
        if readings and reading.value < readings[-1].value:
            readings.clear()  # reset: nothing before it compares
        if readings:
            self.gap_s = max(self.gap_s, reading.after_s - readings[-1].before_s)
        readings.append(reading)
        self._note_growth()
        # From every reading to the first one that is late enough: what is in no such window would
        # be in no peak.
        while readings[0] is not reading and reading.before_s - readings[0].after_s >= WINDOW_S:
            first = readings[0]
            # The longest time that fits, so that a sampler held up between clock and counter
            # never invents a rate.
            rate = (reading.value - first.value) / (reading.after_s - first.before_s)
            self._highest = max(self._highest or 0.0, rate * self._gbits_per_count)
            if len(readings) < 3 or reading.before_s - readings[1].after_s < WINDOW_S:
                break
            readings.popleft()

    def _note_growth(self) -> None:
        readings = self._readings
        if len(readings) < 2 or readings[-1].value == readings[-2].value:
            return
        self._grew = True
        # In more time than that, a counter that is refreshed slowly may step twice.
        if len(readings) > 2 and readings[-1].after_s - readings[-3].before_s <= 2.2 * PERIOD_S:
            self._steady = self._steady or readings[-2].value > readings[-3].value

    @property
    def in_steps(self) -> bool:
        """Whether the counter grew, but never in two periods in a row."""
        return self._grew and not self._steady

    @property
    def gbits(self) -> float | None:
        """None if the time was too short, or the counter grows in steps.

        A driver may refresh its counters each second (bnxt_en does): one step more or less in a
        window would be a peak that was never there. What is refreshed each 0.2 s or faster can be
        too high by a fifth at most.
        """
        return None if self._highest is None or self.in_steps else round(self._highest, 4)


class Steady:
    """The mean rate of a transfer while it was under way, in Gb/s.

    A tool on a busy host begins late and ends late, with an idle link: of the periods in which the
    counter grew, the first and the last are left out, as they may be idle in part.
    """

    def __init__(self, unit_bytes: int) -> None:
        self._gbits_per_count = unit_bytes * 8 / 1e9
        self._readings: list[tuple[float, int]] = []

    def add(self, reading: Reading) -> None:
        readings = self._readings
        if readings and (
            reading.after_s - reading.before_s > WIDEST_S
            or reading.before_s - readings[-1][0] < PERIOD_S / 2
        ):
            return
        if readings and reading.value < readings[-1][1]:
            readings.clear()
        readings.append((reading.before_s, reading.value))
        if len(readings) > MOST_READINGS:
            del readings[1:-1:2]

    @property
    def gbits(self) -> float | None:
        """None where it grew in less than three periods."""
        moving = self._moving()
        if len(moving) < 3:
            return None
        (_, _, began_s, first), (_, _, ended_s, last) = moving[0], moving[-2]
        rate = (last - first) / (ended_s - began_s) * self._gbits_per_count
        # Of a slow link, too, a change of a few thousandths is to be seen.
        return float(f"{rate:.6g}")

    @property
    def seconds(self) -> float:
        """From the first period in which it grew to the last one, both with what is idle in them;
        0 where it did not.
        """
        moving = self._moving()
        return round(moving[-1][2] - moving[0][1], 3) if moving else 0.0

    def _moving(self) -> list[tuple[float, float, float, int]]:
        """The periods in which it grew: rate, begin, end and the count then."""
        steps = [
            ((count - before) / (now_s - before_s), before_s, now_s, count)
            for (before_s, before), (now_s, count) in zip(self._readings, self._readings[1:])
        ]
        most = max((rate for rate, *_ in steps), default=0)
        return [step for step in steps if step[0] > most * IDLE_SHARE]


class _Counter:
    """A counter's file, held open: reading it again is one system call."""

    def __init__(self, device: str, direction: str, path: Path, unit_bytes: int) -> None:
        self.device = device
        self.direction = direction
        self.peak = Peak(unit_bytes)
        self.steady = Steady(unit_bytes)
        self._file = os.open(str(path), os.O_RDONLY)
        self._first: int | None = None
        self._last = 0

    def value(self) -> int:
        return int(os.pread(self._file, 32, 0))

    def sample(self) -> None:
        before_s = time.monotonic()
        self._last = self.value()
        reading = Reading(before_s, time.monotonic(), self._last)
        self.peak.add(reading)
        self.steady.add(reading)
        if self._first is None:
            self._first = self._last

    @property
    def may_lag(self) -> bool:
        """Whether it looks like a counter that its driver refreshes only now and then."""
        grown = self._last - (self._first or 0)
        return self.device.startswith("net/") and self.peak.in_steps and grown > STEP_BYTES

    @property
    def is_settled(self) -> bool:
        """Whether it has been refreshed since the last sample, or is gone."""
        try:
            return self.value() != self._last
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        os.close(self._file)


class Sampler:
    """Reads byte counters every 0.25 s in a thread of its own.

    Devices are named `rdma/<device>/<port>` and `net/<interface>`. The rates are those that the
    counters see: `net` without preamble, gap and checksum, and on most NICs without RDMA; `rdma`
    only RDMA, and only where the port has `port_rcv_data` (Soft-RoCE has none, its traffic is in
    `net`). `names` restricts it to these RDMA devices and interfaces.
    """

    def __init__(self, names: Sequence[str] | None = None, root: str = "/sys") -> None:
        self.notes: list[str] = []
        self._counters: list[_Counter] = []
        self._ended = threading.Event()
        self._cpu_share = 0.0
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._open(_byte_counters(names, root))

    def _open(self, files: Iterable[tuple[str, str, Path, int]]) -> None:
        unsampled = []
        for device, direction, path, unit_bytes in files:
            if len(self._counters) >= MOST_SAMPLED:
                unsampled.append(device)
                continue
            try:
                self._counters.append(_Counter(device, direction, path, unit_bytes))
            except OSError as error:
                self.notes.append(f"not sampled: {device} {direction}: {error.strerror}")
        if unsampled:
            devices_left = ", ".join(dict.fromkeys(unsampled))
            self.notes.append(f"not sampled, more than {MOST_SAMPLED} counters: {devices_left}")

    def start(self) -> None:
        # A thread that took SIGTERM would let it into what the main thread keeps it from.
        with processes.undisturbed():
            self._thread.start()

    def stop(self) -> dict[str, Any]:
        """Peak and steady rates in Gb/s by device and direction, how long anything went there, the
        longest time that the sampler was held up, and the share of a core that it took.
        """
        self._ended.set()
        self._thread.join()
        self._settle()
        peaks: dict[str, dict[str, float | None]] = {}
        steady: dict[str, dict[str, float | None]] = {}
        moving: dict[str, dict[str, float]] = {}
        in_steps = []
        for counter in self._counters:
            counter.close()
            peaks.setdefault(counter.device, {})[counter.direction] = counter.peak.gbits
            steady.setdefault(counter.device, {})[counter.direction] = counter.steady.gbits
            if not counter.peak.in_steps:
                moving.setdefault(counter.device, {})[counter.direction] = counter.steady.seconds
            else:
                in_steps.append(f"{counter.device} {counter.direction}")
        if in_steps:
            self.notes.append(
                f"no peak, never grew in two periods of {PERIOD_S} s running (next to idle, or "
                f"refreshed more slowly): {', '.join(in_steps)}"
            )
        return {
            "peak_gbits": peaks,
            "steady_gbits": steady,
            "moving_s": moving,
            "sampler_gap_s": round(max((c.peak.gap_s for c in self._counters), default=0.0), 3),
            "sampler_cpu_share": round(self._cpu_share, 5),
            "notes": self.notes,
        }

    def _settle(self) -> None:
        """Wait until what lags has been refreshed once more, or as long as that may take."""
        deadline = time.monotonic() + SETTLE_S
        late = [counter for counter in self._counters if counter.may_lag]
        while late and time.monotonic() < deadline:
            time.sleep(PERIOD_S / 5)
            late = [counter for counter in late if not counter.is_settled]

    def _run(self) -> None:
        began_s, began_cpu_s = time.monotonic(), time.thread_time()
        live = list(self._counters)
        due_s = began_s
        ended = False
        while True:
            live = [counter for counter in live if self._sample(counter, began_s)]
            if ended:
                break
            # Readings that were missed are not made up for.
            due_s = max(due_s + PERIOD_S, time.monotonic())
            ended = self._ended.wait(due_s - time.monotonic())
        self._cpu_share = (time.thread_time() - began_cpu_s) / (time.monotonic() - began_s)

    def _sample(self, counter: _Counter, began_s: float) -> bool:
        try:
            counter.sample()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self.notes.append(
                f"{counter.device} {counter.direction} could not be read any more after "
                f"{time.monotonic() - began_s:.1f} s: {why}"
            )
            return False
        return True


def _byte_counters(names: Sequence[str] | None, root: str) -> Iterator[tuple[str, str, Path, int]]:
    """Device, direction, file and bytes per count: RDMA ports, physical interfaces, the others."""
    for device in devices(".*", root):
        for port in ports(device, root):
            folder = Path(root, "class/infiniband", device, "ports", str(port), "counters")
            for direction, name in (("rx", "port_rcv_data"), ("tx", "port_xmit_data")):
                if (names is None or device in names) and (folder / name).exists():
                    yield f"rdma/{device}/{port}", direction, folder / name, RDMA_WORD_BYTES
    for interface in sorted(interfaces(root), key=lambda name: not is_physical(name, root)):
        folder = Path(root, "class/net", interface, "statistics")
        for direction in ("rx", "tx"):
            if names is None or interface in names:
                yield f"net/{interface}", direction, folder / f"{direction}_bytes", 1
