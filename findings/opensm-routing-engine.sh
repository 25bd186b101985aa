#!/bin/bash
# opensm with a misspelt routing engine routes by minhop, prints no error and ends with 0.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian ibsim-utils=0.10-2 libumad2sim0=0.10-2 infiniband-diags=44.0-2 \
  libibmad5=44.0-2 libibnetdisc5=44.0-2 libibumad3=44.0-2 \
  opensm=3.3.23-2+b1 libopensm9=3.3.23-2+b1 libosmcomp5=3.3.23-2+b1 libosmvendor5=3.3.23-2+b1 \
  libwrap0=7.6.q-32 libnsl2=1.3.0-2 libtirpc3=1.3.3+ds-1
isolate

# A switch and two hosts of ibsim, a simulated InfiniBand subnet.
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

code=0
on_h1 opensm --once --routing_engine updnm --log_file "$WORK/opensm.log" >out.txt 2>&1 || code=$?
grep updnm out.txt
grep -E 'updnm|minhop' opensm.log
minhop=$(grep -c 'minhop tables configured' opensm.log)
warnings=$(grep -icE 'error|fail|cannot' out.txt || true)

finding \
  'no engine is named updnm: an error, and no tables are configured' \
  'warnings printed: 0, minhop tables configured: 1 time, exit code 0' \
  "warnings printed: $warnings, minhop tables configured: $minhop time, exit code $code"
