#!/bin/bash
# jc reads "Auto-negotiation: on" of ethtool as false, the same as "off".
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi jc==1.26.1

read_back() {
  printf 'Settings for eth0:\n\tSpeed: 100000Mb/s\n\tDuplex: Full\n\tAuto-negotiation: %s\n\tLink detected: yes\n' "$1" |
    "$WORK/python/bin/jc" --ethtool |
    python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["auto_negotiation"]))'
}

finding \
  'on: true, off: false' \
  'on: false, off: false' \
  "on: $(read_back on), off: $(read_back off)"
