#!/bin/bash
# scancel of an unknown job, node or partition ends with 0, with no message; of an unknown user it fails.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
source "$(dirname "$script")/common/slurm.sh"
start_controller

for words in 999 --nodelist=nosuch --partition=nosuch --user=nosuch; do
  code=0
  scancel "$words" >said.txt 2>&1 || code=$?
  echo "scancel $words, exit code $code: $(paste -sd ' ' said.txt)"
  printf '%s %s, ' "$words" "$code" >>codes.txt
done

finding \
  'nothing has this name: an exit code other than 0 each time' \
  '999 0, --nodelist=nosuch 0, --partition=nosuch 0, --user=nosuch 1, ' \
  "$(cat codes.txt)"
