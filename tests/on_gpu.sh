#!/usr/bin/env bash
# What a machine with an NVIDIA GPU can show, in at most ten minutes, as one folder of raw outputs.
#
#   tests/on_gpu.sh OUT              all steps; DRY_RUN=1 prints them, and runs none
#
# Programs and sources are brought along, for such a machine may reach nothing:
#   NVBANDWIDTH  the program, or the folder of its source: built with cmake, with MPI where mpicxx is
#   NCCL_TESTS   the folder of nccl-tests' programs (2.17.6)
#   CLOCK_LOCK   a clock in MHz to lock during one inventory, where you may set it; "" for none
#
# It never resets a GPU, and leaves MIG and persistence as they are. A lock that it sets it takes back.
# OUT/steps.csv has each step with its exit code and milliseconds; OUT/report has what was found.

set -uo pipefail
home=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
out=${1:?the folder for the outputs; next: tests/on_gpu.sh OUT}
mkdir -p "$out" && out=$(cd -- "$out" && pwd) || exit
export PYTHONPATH=$home/src CUDA_DEVICE_ORDER=PCI_BUS_ID
ends=$((SECONDS + 570))
[ -n "${DRY_RUN:-}" ] || printf 'step,exit_code,ms\n' >"$out/steps.csv"

# step NAME SECONDS COMMAND...: its outputs in OUT/NAME.out and .err; it never ends the script
step() {
  local name=$1 most=$2 left=$((ends - SECONDS)) began code=0
  shift 2
  [ "$left" -lt "$most" ] && most=$left
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%s (%s s): %s\n' "$name" "$most" "$*"
    return
  fi
  if [ "$most" -lt 1 ]; then
    printf '%s,none,0\n' "$name" >>"$out/steps.csv"
    return
  fi
  began=${EPOCHREALTIME/./}
  timeout --kill-after=5 "$most" "$@" >"$out/$name.out" 2>"$out/$name.err" </dev/null || code=$?
  printf '%s,%s,%s\n' "$name" "$code" "$(((${EPOCHREALTIME/./} - began) / 1000))" >>"$out/steps.csv"
}

inventory() { step "inventory-$1" 60 python3 -S -m railgauge.node.inventory --output "$out/inventory-$1.json"; }

# ---- the tools that NodeState asks, with their real delays ----
step smi 60 nvidia-smi -q -x
step smi-again 60 nvidia-smi -q -x
step nvlink-state 30 nvidia-smi nvlink -s
step nvlink-errors 30 nvidia-smi nvlink -e
step topology 30 nvidia-smi topo -m
step xids 30 dmesg
inventory before

# ---- copies ----
program=${NVBANDWIDTH:-nvbandwidth}
if [ -d "$program" ]; then
  mpi=$(command -v mpicxx >/dev/null && echo 1 || echo 0)
  step build-nvbandwidth 180 sh -c "cmake -S '$program' -B '$out/build' -DMULTINODE=$mpi && cmake --build '$out/build' -j16"
  program=$out/build/nvbandwidth
fi
copies=(
  host_to_device_memcpy_ce device_to_host_memcpy_ce
  device_to_device_memcpy_read_ce device_to_device_memcpy_write_ce
)
step nvbandwidth 90 "$program" --json --testcase "${copies[@]}"
step nvbandwidth-text 90 "$program" --testcase "${copies[@]}"
step nvbandwidth-several 60 mpirun --allow-run-as-root -np 2 --oversubscribe "$program" --disableAffinity \
  --testcase multinode_device_to_device_memcpy_read_ce multinode_device_to_device_memcpy_write_ce

# ---- PCIe under load, and a process of ours that is found by its name ----
if [ -n "${DRY_RUN:-}" ]; then
  echo "load (60 s): $program, with an inventory beside it"
else
  timeout 60 "$program" --testSamples 200 --testcase host_to_device_memcpy_ce >"$out/load.out" 2>&1 &
  load=$!
  sleep 8
fi
# shellcheck disable=SC2016
step pcie-under-load 10 sh -c 'for d in /sys/bus/pci/drivers/nvidia/????:*; do cat "$d/current_link_speed" "$d/current_link_width"; done'
inventory leaked
[ -n "${DRY_RUN:-}" ] || { kill "$load" && wait "$load"; } 2>/dev/null

# ---- a lock of the clocks, and back ----
if [ -n "${CLOCK_LOCK:-}" ]; then
  [ -n "${DRY_RUN:-}" ] || trap 'nvidia-smi -rgc >/dev/null' EXIT
  step lock 20 nvidia-smi -lgc "$CLOCK_LOCK,$CLOCK_LOCK"
  step clocks 20 nvidia-smi -q -d CLOCK,PERFORMANCE
  inventory locked
  step unlock 20 nvidia-smi -rgc
fi

# ---- collectives: one rank, then four ranks in two communicators ----
if [ -n "${NCCL_TESTS:-}" ]; then
  step nccl-one 60 env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,DESTROY NCCL_DEBUG_FILE="$out/one.nccl.log" \
    "$NCCL_TESTS/all_reduce_perf" -b 8 -e 1G -f 2 -g 1 -w 1 -n 20 -c 1 -a 3
  step nccl-split 60 env NCCL_TESTS_SPLIT='DIV 2' NCCL_DEBUG=INFO NCCL_DEBUG_FILE="$out/rank%p.nccl.log" \
    mpirun --allow-run-as-root -np 4 --oversubscribe "$NCCL_TESTS/all_reduce_perf_mpi" -b 8 -e 64M -f 2 -g 1 -w 1 -n 5 -c 1 -a 3
fi
inventory after

# ---- what it says ----
[ -n "${DRY_RUN:-}" ] && exit
{
  date -u +%F
  uname -r
  grep -o '"[^"]*driver"[^,]*' "$out/inventory-before.json"
  echo "processes on the GPUs, before and beside our own:"
  grep -oh '"gpu/[0-9]*/processes"[^,]*' "$out/inventory-before.json" "$out/inventory-leaked.json"
  cat "$out/steps.csv"
} >"$out/report" 2>/dev/null
cat "$out/report"
