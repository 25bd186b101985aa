#!/bin/bash
# iperf (version 2) leaves the sum of parallel connections out of its CSV output; its text has one.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian iperf=2.1.8+dfsg-1
isolate

iperf --server --port 5001 >/dev/null 2>&1 &
sleep 1
client() { iperf --client 127.0.0.1 --port 5001 --time 2 --parallel 3 --bandwidth 50M "$@"; }
client | tee text.txt | grep sec
client --reportstyle C | tee lines.csv
highest=$(awk -F , '$9 > 100e6 { sum = 1 } END { print sum ? "above 100" : "about 50" }' lines.csv)

finding \
  'three connections of 50 Mbit/s: three lines and a sum of 150 in both outputs' \
  'text: 1 sum; CSV: 3 lines, the highest about 50 Mbit/s' \
  "text: $(grep -c SUM text.txt) sum; CSV: $(wc -l <lines.csv) lines, the highest $highest Mbit/s"
