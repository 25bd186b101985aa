#!/bin/bash
# iperf (version 2) ends with 0 where the server refuses the connection.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian iperf=2.1.8+dfsg-1
isolate

code=0
iperf --client 127.0.0.1 --port 5001 --time 1 --reportstyle C >out.csv 2>errors.txt || code=$?
cat errors.txt

finding \
  'nothing listens on the port: an exit code other than 0' \
  'no line of results, exit code 0' \
  "$(grep -q , out.csv && echo results || echo no line of results), exit code $code"
