"""JSON of others that is nested too deeply is damaged as all else that is no JSON: Python's reader
raises RecursionError of it, which is no ValueError. Of files that only Railgauge writes no reader
knows of that. Tools have a test of their own (tests/unit/tools).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from railgauge.common.errors import ConfigurationError
from railgauge.model import uplinks
from railgauge.node.transport import protocol
from railgauge.stack import lock

NESTED = "[" * 100_000


def _lock(folder: Path) -> None:
    """Spack writes it, and a site may bring it along."""
    (folder / "spack.lock").write_text(NESTED)
    lock.read(folder / "spack.lock")


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (_lock, ConfigurationError),
        # What a site's own command prints.
        (lambda _: uplinks.parse(NESTED), uplinks.CountersError),
        # Of a stranger, which has not proved itself.
        (
            lambda _: protocol.document_of(NESTED.encode()[: protocol.HELLO_BYTES]),
            protocol.ProtocolError,
        ),
    ],
)
def test_what_is_nested_too_deeply_is_damaged(
    tmp_path: Path, read: Callable[[Path], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        read(tmp_path)
