#!/bin/bash
# infiniband-diags end a name of the node-name-map at "#", also within quotes: two leaves get one name.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian ibsim-utils=0.10-2 libumad2sim0=0.10-2 infiniband-diags=44.0-2 \
  libibmad5=44.0-2 libibnetdisc5=44.0-2 libibumad3=44.0-2
isolate

# Two hosts and two switches of ibsim, a simulated InfiniBand subnet.
cat >net <<X
Switch 2 "L1"
[1] "H1"[1]
[2] "L2"[2]

Switch 2 "L2"
[1] "H2"[1]
[2] "L1"[2]

Hca 1 "H1"
[1] "L1"[1]

Hca 1 "H2"
[1] "L2"[1]
X
mkfifo console
ibsim -s net <>console >ibsim.log 2>&1 &
sleep 1

printf '%s\n' '0x200000 "leaf #1"' '0x200001 "leaf #2"' >names
SIM_HOST=H1 LD_PRELOAD=$libraries/umad2sim/libumad2sim.so \
  iblinkinfo --switches-only --node-name-map names 2>warnings.txt | grep ^Switch: | sort | tee switches.txt

finding \
  'the names as quoted: leaf #1, leaf #2' \
  'leaf,leaf' \
  "$(sed 's/^Switch: 0x[0-9a-f]* //; s/ *:$//' switches.txt | paste -sd ,)"
