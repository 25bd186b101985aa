"""Print the inventory of this node."""

from __future__ import annotations

import argparse
import json
import sys

from railgauge.node.calls import write_whole
from railgauge.node.inventory import take

#: What a line of `--lines` has of the document; Slurm passes on shorter lines whole.
_OF_A_LINE = 900


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
        help="print it as lines `NODE NUMBER/COUNT PART`, which those of other nodes may part",
    )
    options = parser.parse_args()
    document = take(options.quick, options.root, options.proc)
    if options.output:
        write_whole(options.output, document)
    elif options.lines:
        text = json.dumps(document)
        parts = [text[at : at + _OF_A_LINE] for at in range(0, len(text), _OF_A_LINE)]
        for number, part in enumerate(parts, start=1):
            print(f"{document['node']} {number}/{len(parts)} {part}")
    else:
        print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
