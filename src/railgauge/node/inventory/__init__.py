"""What a node is made of and how it is set: one flat JSON document.

    python3 -m railgauge.node.inventory [--quick] [--root /sys] [--proc /proc] [--output FILE]

    {"schema": "railgauge-inventory-1", "node": "n1", "boot_id": "...", "taken": "<UTC>",
     "seconds": 0.21,
     "fields": {"kernel/release": "6.12.0", "net/eth0/mtu_bytes": 4200, ...},
     "unknown": {"gpu/0/serial": "nvidia-smi is not installed", ...},
     "counters": {"gpu/0/ecc_uncorrected": 0, ...}, "uncounted": {"xid/log": "dmesg: ...", ...}}

Keys are parted by "/", values are scalars, units stand in the last part of a key. A field is in
`fields` or, with the reason, in `unknown`: what cannot be read is never guessed. Nothing in these
moves by itself (no counters, temperatures, times), so that two looks at an unchanged node agree.
What moves, and shows that a GPU is failing, is in `counters` or in `uncounted`.

`--quick` reads sysfs and /proc only and starts no process; its fields are among those of the whole
document, with the same values. Nothing is judged here: what a field is for, and how documents
differ, is the head's (`railgauge.model.inventory`).
"""

from __future__ import annotations

SCHEMA = "railgauge-inventory-1"
