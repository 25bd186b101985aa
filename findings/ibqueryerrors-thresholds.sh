#!/bin/bash
# ibqueryerrors ignores a misspelt counter in its thresholds, and a file of thresholds that is missing.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
source "$(dirname "$script")/common/ibsim.sh"
start_subnet

on_h1 opensm --log_file "$WORK/opensm.log" >opensm.txt 2>&1 &
for _ in $(seq 20); do
  grep -q 'SUBNET UP' opensm.log 2>/dev/null && break
  sleep 0.5
done

printf '%s\n' 'SymbolErrorCounter=10' 'LinkDownedCounterr=5' >limits.txt
check() { # FILE of thresholds
  code=0
  on_h1 ibqueryerrors --threshold-file "$1" >out.txt 2>&1 || code=$?
  cat out.txt
  messages=$(grep -vcE '^(##.*)?$' out.txt || true)
  printf '%s: %s messages, exit code %s; ' "$(basename "$1")" "$messages" "$code" >>seen.txt
}
check "$WORK/limits.txt"
check "$WORK/nosuch.txt"

finding \
  'a misspelt counter, and a file that does not exist: a message and an exit code other than 0' \
  'limits.txt: 0 messages, exit code 0; nosuch.txt: 0 messages, exit code 0; ' \
  "$(cat seen.txt)"
