#!/bin/bash
# squeue --json takes --jobs, --states and --partition, and prints every job all the same.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
source "$(dirname "$script")/common/slurm.sh"
start_controller

printf '#!/bin/sh\ntrue\n' >job.sh
for partition in blue blue green; do sbatch --partition="$partition" job.sh; done

count() { squeue --json "$@" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["jobs"]))'; }
echo "text of --partition=green:"
squeue --partition=green

finding \
  'three jobs, one in the partition green, none that runs: 1 and 0 jobs, as in the text' \
  '--partition=green: 3, --states=RUNNING: 3, --jobs=1: 3' \
  "--partition=green: $(count --partition=green), --states=RUNNING: $(count --states=RUNNING), --jobs=1: $(count --jobs=1)"
