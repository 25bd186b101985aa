"""Uplinks of the lab, as its leaves' kernels count them."""

from __future__ import annotations

from railgauge.lab import uplinks

#: /proc/net/dev of a leaf, as Linux 6.1 writes it.
COUNTED = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0
   br0: 1000       0    0    0    0     0          0         0        2000       0    0    0    0
spine1:     701       6    0    0    0     0          0         0     1234       9    0    0    0
spine2:12345678901234      6    0    0    0     0          0         0     0       0    0    0    0
"""


def test_sent_and_received_bytes_are_told_apart() -> None:
    counted = uplinks.counts(COUNTED)
    assert counted["spine1"] == (1234, 701)
    assert counted["spine2"] == (0, 12345678901234)
