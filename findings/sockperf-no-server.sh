#!/bin/bash
# sockperf throughput over UDP prints a bandwidth although there is no server, and ends with 0.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian sockperf=3.7-1
isolate

code=0
sockperf throughput --ip 127.0.0.1 --port 11111 --time 1 --msg-size 1000 >out.txt 2>&1 || code=$?
grep -a Summary out.txt
bandwidth=$(grep -aoE "[0-9.]+ MBps" out.txt | cut -d " " -f 1)
positive=$(awk -v bandwidth="$bandwidth" 'BEGIN { print (bandwidth > 0) ? "above 0" : "0" }')

finding \
  'nothing listens on the port: an error and an exit code other than 0, or a bandwidth of 0' \
  'bandwidth above 0, exit code 0' \
  "bandwidth $positive, exit code $code"
