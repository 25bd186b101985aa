#!/bin/bash
# sinfo of a misspelt node prints a line for each partition and ends with 0; squeue of one fails.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
source "$(dirname "$script")/common/slurm.sh"
start_controller

code=0
sinfo --noheader --nodes=nosuch --format='%P %D %T' >nodes.txt 2>&1 || code=$?
cat nodes.txt

finding \
  'the node does not exist: an exit code other than 0, and no line' \
  'exit code 0, lines: 2' \
  "exit code $code, lines: $(wc -l <nodes.txt)"
