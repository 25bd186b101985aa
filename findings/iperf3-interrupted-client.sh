#!/bin/bash
# iperf3: where the client is interrupted, the total of the server has the bytes of more seconds than it states.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 libsctp1=1.0.19+dfsg-2
isolate

# A client that is paced to 100 Mbit/s and interrupted 0.7 s after an interval of the server.
iperf3 --server --one-off --port 5201 >server.txt 2>&1 &
server=$!
sleep 1
iperf3 --client 127.0.0.1 --bitrate 100M --time 20 >client.txt 2>&1 &
client=$!
sleep 2.7
kill -s INT "$client"
code=0
wait "$server" || code=$?
wait "$client" || true
grep sec server.txt

repeated=$(grep -oE '[0-9.]+-[0-9.]+ +sec .*' server.txt | sort | uniq -d | wc -l)
total=$(awk '/receiver/ { print ($7 > 115) ? "above 115 Mbit/s" : "about 100 Mbit/s" }' server.txt)
finding \
  'one line an interval, and a total of about 100 Mbit/s' \
  'repeated intervals: 1; total: above 115 Mbit/s, exit code 0' \
  "repeated intervals: $repeated; total: $total, exit code $code"
