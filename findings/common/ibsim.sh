# Sourced after setup.sh: a switch and two hosts of ibsim, a simulated InfiniBand subnet without a subnet manager.
# shellcheck shell=bash disable=SC2154

start_subnet() {
  debian ibsim-utils=0.10-2 libumad2sim0=0.10-2 infiniband-diags=44.0-2 \
    libibmad5=44.0-2 libibnetdisc5=44.0-2 libibumad3=44.0-2 \
    opensm=3.3.23-2+b1 libopensm9=3.3.23-2+b1 libosmcomp5=3.3.23-2+b1 libosmvendor5=3.3.23-2+b1 \
    libwrap0=7.6.q-32 libnsl2=1.3.0-2 libtirpc3=1.3.3+ds-1
  isolate
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
}

# Run a program as the host H1 of the subnet.
on_h1() { SIM_HOST=H1 LD_PRELOAD=$libraries/umad2sim/libumad2sim.so "$@"; }
