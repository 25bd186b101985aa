"""`railgauge gate run` that is killed as by `kill -9` right after one of its steps.

python -m tests.lab.gate_killed STEP LEASE_S ARGUMENTS...
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from railgauge.cli import cli
from railgauge.gate import lease, run


def dying(step: Any) -> Any:
    def after(*arguments: Any) -> None:
        step(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    after.__name__ = step.__name__
    return after


if __name__ == "__main__":
    chosen = sys.argv.pop(1)
    lease.LEASE_S = int(sys.argv.pop(1))
    assert chosen in [step.__name__ for step in run.STEPS], chosen
    run.STEPS = tuple(dying(s) if s.__name__ == chosen else s for s in run.STEPS)
    cli()
