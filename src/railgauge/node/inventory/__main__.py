"""Print the inventory of this node."""

from __future__ import annotations

import argparse
import json
import sys

from railgauge.node.inventory.document import take
from railgauge.node.system import srun_output
from railgauge.node.system.tool_call import write_whole


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m railgauge.node.inventory", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="sysfs and /proc only, no process")
    parser.add_argument("--root", default="/sys", metavar="DIR", help="what stands for /sys")
    parser.add_argument("--proc", default="/proc", metavar="DIR", help="what stands for /proc")
    parser.add_argument("--output", metavar="FILE", help="write it there, whole or not at all")
    parser.add_argument(
        "--lines",
        action="store_true",
        help="print it as lines that tasks of other nodes may part (srun_output.py)",
    )
    options = parser.parse_args()
    document = take(options.quick, options.root, options.proc)
    if options.output:
        write_whole(options.output, document)
    elif options.lines:
        print(*srun_output.lines(document["node"], json.dumps(document)), sep="\n")
    else:
        print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
