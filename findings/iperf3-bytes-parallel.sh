#!/bin/bash
# --bytes of iperf3 is the sum of all parallel streams; --num of iperf (version 2) is that of each.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 libsctp1=1.0.19+dfsg-2 iperf=2.1.8+dfsg-1
isolate

iperf3 --server --port 5002 >/dev/null 2>&1 &
iperf --server --port 5001 >/dev/null 2>&1 &
sleep 1
iperf3 --client 127.0.0.1 --port 5002 --bytes 8M --parallel 4 --format M | tee three.txt | grep sender
iperf --client 127.0.0.1 --port 5001 --num 8M --parallel 4 --format M | tee two.txt | grep sec
three=$(grep 'SUM.*sender' three.txt | grep -o '[0-9.]* MBytes ' | cut -d ' ' -f 1)
two=$(grep SUM two.txt | grep -o '[0-9.]* MBytes ' | cut -d ' ' -f 1)

finding \
  'four streams with the same option: the same sum of both' \
  'iperf3: 8 MiB, iperf 2: 32 MiB' \
  "iperf3: ${three%.*} MiB, iperf 2: ${two%.*} MiB"
