#!/bin/bash
# scontrol update of two nodes, one of them unknown, ends with an error and has drained the other.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
source "$(dirname "$script")/common/slurm.sh"
start_controller

code=0
scontrol update NodeName=n1,nosuch State=DRAIN Reason=firmware || code=$?
sinfo --Node --noheader --partition=blue --format='%N %T'
state=$(sinfo --Node --noheader --nodes=n1 --partition=blue --format=%T)

finding \
  'an error, and no node is changed: the whole command was refused' \
  'exit code 1, n1 is drained' \
  "exit code $code, n1 is $state"
