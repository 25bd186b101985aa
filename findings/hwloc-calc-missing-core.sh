#!/bin/bash
# hwloc-calc of a core that is not there prints the mask 0x0 and ends with 0.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian hwloc=2.9.0-1 libhwloc15=2.9.0-1

code=0
mask=$(hwloc-calc --input 'pack:1 core:4 pu:1' core:9 2>words.txt) || code=$?
cat words.txt

finding \
  'there are 4 cores: an exit code other than 0, and no mask' \
  'exit code 0, mask 0x0' \
  "exit code $code, mask $mask"
