#!/bin/bash
# "MB/s" of ucx_perftest is 2^20 bytes, "MB/sec" of qperf is 10^6: equal numbers differ by 5 %.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian ucx-utils=1.13.1-1 libucx0=1.13.1-1 libnuma1=2.0.16-1 libgomp1=12.2.0-14+deb12u1 \
  qperf=0.4.11-3 libibverbs1=44.0-2 librdmacm1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1
isolate

export UCX_TLS=tcp UCX_NET_DEVICES=lo UCX_MODULE_DIR=$libraries/ucx
ucx_perftest -p 13337 >/dev/null 2>&1 &
qperf --listen_port 19765 &
sleep 1
ucx_perftest 127.0.0.1 -p 13337 -t tag_bw -s 1000000 -n 1000 -f -v | tee ucx.csv
qperf --listen_port 19765 127.0.0.1 --time 1 --verbose_more tcp_bw >qperf.txt
grep -wE "bw|msg_rate|msg_size" qperf.txt
python3 - <<'X' >seen.txt
import csv, re

def megabyte(size):
    return "10^6" if abs(size / 1e6 - 1) < 0.02 else "2^20" if abs(size / 2**20 - 1) < 0.02 else f"{size:.0f}"

row = list(csv.DictReader(open("ucx.csv")))[-1]
print("ucx_perftest", megabyte(float(row["overall_mr"]) * 1000000 / float(row["overall_bw"])), end=", ")

text = open("qperf.txt").read()
prefix = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}
bandwidth, unit = re.search(r"bw += +([\d.]+) (\w*)B/sec", text).groups()
rate, thousand = re.search(r"msg_rate += +([\d.]+) (\w*)/sec", text).groups()
size = int(re.search(r"msg_size += .*\(([\d,]+)\)", text).group(1).replace(",", ""))
megabytes = float(bandwidth) * prefix[unit] / 1e6
print("qperf", megabyte(float(rate) * prefix[thousand] * size / megabytes))
X

finding \
  'one meaning of MB: 10^6 bytes in both' \
  'ucx_perftest 2^20, qperf 10^6' \
  "$(cat seen.txt)"
