#!/bin/bash
# iperf3 --json over UDP: end.sum joins the rate of the sender with the loss of the receiver.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 libsctp1=1.0.19+dfsg-2
isolate

# A receive buffer of 4 KiB cannot hold a burst of datagrams of 60 kB: the receiver loses many.
iperf3 --server --one-off --port 5201 >/dev/null 2>&1 &
sleep 1
iperf3 --client 127.0.0.1 --udp --bitrate 8G --time 2 --length 60000 --window 4K --json >out.json 2>/dev/null
wait
python3 - <<'X' >seen.txt
import json

end = json.load(open("out.json"))["end"]
total, received = end["sum"], end["sum_received"]
print("end.sum:", {name: total[name] for name in ("bits_per_second", "lost_percent")})
print("end.sum_received:", {name: received[name] for name in ("bits_per_second", "lost_percent")})
sent = total["packets"] * 60000 * 8 / total["seconds"]
lost = "packets lost" if total["lost_percent"] > 5 else "few packets lost"
rate = "the rate sent" if abs(total["bits_per_second"] / sent - 1) < 0.02 else "another rate"
print(f"{lost}, bits_per_second of end.sum is {rate}")
X
head -2 seen.txt

finding \
  'end.sum has the packets lost, so its bits_per_second is the rate that arrived' \
  'packets lost, bits_per_second of end.sum is the rate sent' \
  "$(tail -1 seen.txt)"
