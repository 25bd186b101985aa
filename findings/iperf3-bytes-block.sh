#!/bin/bash
# iperf3 sends whole blocks of 128 KiB: --bytes 1K sends 131072 bytes, where iperf (version 2) sends 1024.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 libsctp1=1.0.19+dfsg-2 iperf=2.1.8+dfsg-1
isolate

iperf3 --server --port 5002 >/dev/null 2>&1 &
iperf --server --port 5001 >/dev/null 2>&1 &
sleep 1
iperf3 --client 127.0.0.1 --port 5002 --bytes 1K --json >three.json
three=$(python3 -c '
import json
run = json.load(open("three.json"))
print(run["start"]["test_start"]["bytes"], "asked for,", run["end"]["sum_sent"]["bytes"], "sent")')
two=$(iperf --client 127.0.0.1 --port 5001 --num 1K --format B | grep -o '[0-9]* Bytes ' | cut -d ' ' -f 1)

finding \
  '1024 bytes of both' \
  'iperf3: 1024 asked for, 131072 sent; iperf 2: 1024 sent' \
  "iperf3: $three; iperf 2: $two sent"
