#!/bin/bash
# ibqueryerrors ignores a misspelt counter in its thresholds, and a file of thresholds that is missing.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian ibsim-utils=0.10-2 libumad2sim0=0.10-2 infiniband-diags=44.0-2 \
  libibmad5=44.0-2 libibnetdisc5=44.0-2 libibumad3=44.0-2 \
  opensm=3.3.23-2+b1 libopensm9=3.3.23-2+b1 libosmcomp5=3.3.23-2+b1 libosmvendor5=3.3.23-2+b1 \
  libwrap0=7.6.q-32 libnsl2=1.3.0-2 libtirpc3=1.3.3+ds-1
isolate

# A switch and two hosts of ibsim, a simulated InfiniBand subnet, with opensm as its manager.
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

on_h1 opensm --log_file "$WORK/opensm.log" >opensm.txt 2>&1 &
for _ in $(seq 20); do
  grep -q 'SUBNET UP' opensm.log 2>/dev/null && break
  sleep 0.5
done

printf '%s\n' 'SymbolErrorCounter=10' 'LinkDownedCounterr=5' >limits.txt
check() { # FILE of thresholds
  code=0
  on_h1 ibqueryerrors --threshold-file "$1" >out.txt 2>&1 || code=$?
  cat out.txt
  messages=$(grep -vcE '^(##.*)?$' out.txt || true)
  printf '%s: %s messages, exit code %s; ' "$(basename "$1")" "$messages" "$code" >>seen.txt
}
check "$WORK/limits.txt"
check "$WORK/nosuch.txt"

finding \
  'a misspelt counter, and a file that does not exist: a message and an exit code other than 0' \
  'limits.txt: 0 messages, exit code 0; nosuch.txt: 0 messages, exit code 0; ' \
  "$(cat seen.txt)"
