#!/bin/bash
# iperf (version 2) dates a line of its CSV output 1970 unless --interval is set.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian iperf=2.1.8+dfsg-1
isolate

iperf --server --port 5001 >/dev/null 2>&1 &
sleep 1
client() { iperf --client 127.0.0.1 --port 5001 --time 2 --reportstyle C "$@" | tail -1; }
client --interval 1 >intervals.csv
client >total.csv
cat intervals.csv total.csv
year() { # the year of a line, or "now" where it is this year's
  sed "s/^$(date --utc +%Y).*/now/; s/^\(....\)[0-9]*,.*/\1/" "$1"
}

finding \
  'both lines have the time of the test' \
  'with --interval: now, without: 1970' \
  "with --interval: $(year intervals.csv), without: $(year total.csv)"
