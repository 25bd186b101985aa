#!/bin/bash
# opensm with a misspelt routing engine routes by minhop, prints no error and ends with 0.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
source "$(dirname "$script")/common/ibsim.sh"
start_subnet

code=0
on_h1 opensm --once --routing_engine updnm --log_file "$WORK/opensm.log" >out.txt 2>&1 || code=$?
grep updnm out.txt
grep -E 'updnm|minhop' opensm.log
minhop=$(grep -c 'minhop tables configured' opensm.log)
warnings=$(grep -icE 'error|fail|cannot' out.txt || true)

finding \
  'no engine is named updnm: an error, and no tables are configured' \
  'warnings printed: 0, minhop tables configured: 1 time, exit code 0' \
  "warnings printed: $warnings, minhop tables configured: $minhop time, exit code $code"
