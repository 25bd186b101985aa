#!/bin/bash
# scontrol creates a reservation on a node of somebody's maintenance without OVERLAP; without MAINT the same is refused.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
source "$(dirname "$script")/common/slurm.sh"
start_controller

# On each node a reservation of root, of which only the first is a maintenance; then another one by the same words.
reserve() { scontrol create reservation "reservationname=$1" "nodes=$2" starttime=now duration=60 "${@:3}"; }
reserve maintenance n1 users=root flags=MAINT,IGNORE_JOBS
reserve training n2 users=root flags=IGNORE_JOBS
second() { reserve "second$1" "$1" users=nobody flags=IGNORE_JOBS >/dev/null 2>&1 && echo created || echo refused; }
in_maintenance=$(second n1)
in_training=$(second n2)
scontrol show reservation --oneliner | cut -d ' ' -f 1,5,10,15

finding \
  'both are refused: neither asks for OVERLAP' \
  'in a maintenance: created, in another reservation: refused' \
  "in a maintenance: $in_maintenance, in another reservation: $in_training"
