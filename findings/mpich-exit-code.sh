#!/bin/bash
# mpiexec of MPICH combines the exit codes of the ranks by a bitwise OR: its own may be the code of no rank.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi mpich==5.0.2

# 2 and 4 are, in nccl-tests, an error of CUDA and a timeout; 6 is a wrong command line.
code=0
# shellcheck disable=SC2016
"$WORK/python/bin/mpiexec" -n 2 sh -c 'exit $((2 << PMI_RANK))' >/dev/null 2>&1 || code=$?

finding \
  'rank 0 ends with 2, rank 1 with 4: the exit code of one of them' \
  'exit code 6' \
  "exit code $code"
