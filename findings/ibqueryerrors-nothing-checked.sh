#!/bin/bash
# ibqueryerrors ends with 0 where it checked no port: there is no subnet manager, or the GUID is not in the subnet.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian ibsim-utils=0.10-2 libumad2sim0=0.10-2 infiniband-diags=44.0-2 \
  libibmad5=44.0-2 libibnetdisc5=44.0-2 libibumad3=44.0-2
isolate

# A switch and two hosts of ibsim, a simulated InfiniBand subnet without a subnet manager.
cat >net <<X
Switch 2 "L1"
[1] "H1"[1]
[2] "H2"[1]

Hca 1 "H1"
[1] "L1"[1]

Hca 1 "H2"
[1] "L1"[2]
X
mkfifo console
ibsim -s net <>console >ibsim.log 2>&1 &
sleep 1
on_h1() { SIM_HOST=H1 LD_PRELOAD=$libraries/umad2sim/libumad2sim.so "$@"; }

all=0 guid=0
on_h1 ibqueryerrors >all.txt 2>&1 || all=$?
on_h1 ibqueryerrors --port-guid 0x999 >guid.txt 2>&1 || guid=$?
tail -n 20 all.txt guid.txt

finding \
  'no port is checked: an exit code that is not the one of a subnet without errors' \
  'no subnet manager: 0 summaries, exit code 0; unknown GUID: 0 nodes checked, exit code 0' \
  "no subnet manager: $(grep -c Summary all.txt || true) summaries, exit code $all; unknown GUID: $(grep -o '0 nodes checked' guid.txt), exit code $guid"
