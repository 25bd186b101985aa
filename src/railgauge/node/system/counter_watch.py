"""What a node's counters did during a test, and how fast its links went at most.

watch = Watch()
watch.start()
...                      # the test
record = watch.stop()    # ready for JSON
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from railgauge.node.system.counter_sampler import Sampler
from railgauge.node.system.counters import delta, full, loopback, moved_bytes, resent, snapshot


class Watch:
    """The counters around a test, and the peak rates during it.

    The snapshots are of the whole node; `sampled` restricts the peak rates, and what drivers count
    besides the kernel, to these RDMA devices and interfaces. `budgets` are patterns of counters
    that a check judges: those that match nothing here are reported.
    """

    def __init__(
        self,
        sampled: Sequence[str] | None = None,
        root: str = "/sys",
        budgets: Sequence[str] = (),
    ) -> None:
        self._root = root
        self._budgets = budgets
        self._sampled = sampled

    def start(self) -> None:
        began_s = time.monotonic()
        before, self._notes = snapshot(self._root, self._sampled)
        self._before = {**before, **resent(self._root)}
        self._loopback = loopback(self._root)
        self._sampler = Sampler(self._sampled, self._root)
        self._started_s = time.monotonic()
        self._snapshot_s = self._started_s - began_s
        self._sampler.start()

    def stop(self) -> dict[str, Any]:
        """The record, ready for JSON; `snapshot_s` is what the two snapshots took besides it."""
        ended_s = time.monotonic()
        sampled = self._sampler.stop()
        began_s = time.monotonic()
        after, notes = snapshot(self._root, self._sampled)
        after.update(resent(self._root))
        self._snapshot_s += time.monotonic() - began_s
        changes = delta(self._before, after)
        return {
            "seconds": round(ended_s - self._started_s, 3),
            "counters": changes.changed,
            "reset": changes.reset,
            "unmatched": [
                budget
                for budget in self._budgets
                if not any(re.fullmatch(budget, name) for name in self._before)
            ],
            "full": [
                name
                for name in full(after)
                if any(re.fullmatch(budget, name) for budget in self._budgets)
            ],
            "gone": changes.gone,
            "new": changes.new,
            "bytes": moved_bytes(
                {**self._before, **self._loopback}, {**after, **loopback(self._root)}
            ),
            "peak_gbits": sampled["peak_gbits"],
            "steady_gbits": sampled["steady_gbits"],
            "moving_s": sampled["moving_s"],
            "sampler_gap_s": sampled["sampler_gap_s"],
            "sampler_cpu_share": sampled["sampler_cpu_share"],
            "snapshot_s": round(self._snapshot_s, 3),
            "notes": list(dict.fromkeys([*self._notes, *sampled["notes"], *notes])),
        }
