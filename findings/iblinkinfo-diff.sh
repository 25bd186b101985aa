#!/bin/bash
# iblinkinfo --diff does not see that an InfiniBand link fell from 40 to 2.5 Gb/s, and ends with 0 where it sees a lost link.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian ibsim-utils=0.10-2 libumad2sim0=0.10-2 infiniband-diags=44.0-2 \
  libibmad5=44.0-2 libibnetdisc5=44.0-2 libibumad3=44.0-2
isolate

# Two switches of ibsim, a simulated InfiniBand subnet, with a host at each.
subnet() { # WIDTH SPEED of the link between the switches, as in PortInfo
  cat <<X
Switch 2 "L1"
[1] "H1"[1]
[2] "L2"[2] w=$1 s=$2

Switch 2 "L2"
[1] "H2"[1]
[2] "L1"[2] w=$1 s=$2

Hca 1 "H1"
[1] "L1"[1]

Hca 1 "H2"
[1] "L2"[1]
X
}
simulate() { # SUBNET COMMAND...
  rm -f console
  mkfifo console
  ibsim -s "$1" <>console >ibsim.log 2>&1 &
  sleep 1
  shift
  "$@"
  echo quit >console
  wait
}
on_h1() { SIM_HOST=H1 LD_PRELOAD=$libraries/umad2sim/libumad2sim.so "$@" 2>>warnings.txt; }
links() { on_h1 iblinkinfo --line --switches-only | grep "L1.*L2"; }
compare() {
  links
  on_h1 iblinkinfo --diff before.cache >slower.txt || slower_code=$?
  printf 'Unlink "L1"[2]\n' >console
  sleep 1
  on_h1 iblinkinfo --diff before.cache >lost.txt || lost_code=$?
}
keep() { links && on_h1 ibnetdiscover --cache before.cache >/dev/null; }

subnet 2 4 >before
subnet 1 1 >after
slower_code=0 lost_code=0
simulate before keep
simulate after compare
cat lost.txt

finding \
  'as diff: a line of the slower link, then those of the lost one, and exit code 1 both times' \
  '0 lines, exit code 0; lost: 7 lines, exit code 0' \
  "$(wc -l <slower.txt) lines, exit code $slower_code; lost: $(grep -c '^[<>]' lost.txt) lines, exit code $lost_code"
