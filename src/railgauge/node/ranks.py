"""Run one tool on every rank of a Slurm step.

    srun ... python3 -m railgauge.node.ranks ranks.json

Every rank leaves its tool's `rank<N>.out` and `.err`, and last its exit line `rank<N>.json`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from railgauge.node.calls import Call, exit_line


def main() -> int:
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    # Slurm's own number: a rank that MPI took for a singleton would call itself 0.
    rank = int(os.environ["SLURM_PROCID"])
    call = Call(f"rank{rank}", spec["argv"])
    call.wait(spec["run_limit_s"])
    exit_line(call, spec["tool"], spec["version"], {}, rank)
    return 0 if call.exit_code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
