"""How the programs of a sweep start soon: where the CPU is emulated they took seconds for it."""

from __future__ import annotations

import gc
import sys
from typing import Any


def begin() -> None:
    """Before a program imports what it needs.

    Without ssl, as where Python was built so: asyncio goes on, no sweep uses it (protocol.py), and
    OpenSSL takes long to load. Reference cycles among what is only made to stay are not looked for.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("ssl", None)
    gc.disable()


def loaded() -> None:
    """Once it has imported that; processes that are forked now share it."""
    gc.freeze()
    gc.enable()
