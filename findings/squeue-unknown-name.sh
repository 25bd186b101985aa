#!/bin/bash
# squeue of an unknown partition or user shows no job and ends with 0; of an unknown node it fails.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
source "$(dirname "$script")/common/slurm.sh"
start_controller

for option in --nodelist --partition --user; do
  code=0
  squeue --noheader "$option=nosuch" >jobs.txt 2>&1 || code=$?
  echo "squeue $option=nosuch, exit code $code: $(paste -sd ' ' jobs.txt)"
  printf '%s %s, ' "$option" "$code" >>codes.txt
done

finding \
  'the name does not exist: an exit code other than 0 each time' \
  '--nodelist 1, --partition 0, --user 0, ' \
  "$(cat codes.txt)"
