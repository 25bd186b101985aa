#!/bin/bash
# iperf3 with --bytes reports that fewer bytes were received than were sent, or none, over TCP.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 libsctp1=1.0.19+dfsg-2
isolate

iperf3 --server --port 5002 >/dev/null 2>&1 &
sleep 1
incomplete=0
for run in $(seq 20); do
  iperf3 --client 127.0.0.1 --port 5002 --bytes 10M --parallel 4 --json >run.json
  received=$(python3 -c 'import json; end = json.load(open("run.json"))["end"]; print(end["sum_received"]["bytes"])')
  echo "run $run: sent 10485760, received $received"
  [ "$received" -eq 10485760 ] || incomplete=$((incomplete + 1))
done

finding \
  'each of 20 runs ends with 0, and the receiver has all bytes: 0 runs with fewer' \
  'runs with fewer' \
  "$([ $incomplete -gt 0 ] && echo 'runs with fewer' || echo 'none')"
