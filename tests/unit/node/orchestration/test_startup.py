"""What the programs of a sweep load before they work."""

from __future__ import annotations

import subprocess
import sys

from railgauge import paths

_LOADED = """
import sys
import railgauge.node.orchestration.conductor
from railgauge.node.orchestration import startup
startup.begin()
import railgauge.node.orchestration.server
print(*sys.modules)
"""


def test_a_conductor_loads_the_locator_where_it_adds_rounds_alone() -> None:
    """It takes an emulated CPU half a second in each job."""
    found = subprocess.run(
        [sys.executable, "-S", "-c", _LOADED],
        env={"PYTHONPATH": str(paths.SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "railgauge.node.orchestration.rounds" in found
    assert not [name for name in found if name.startswith("railgauge.locating")]
