#!/bin/bash
# ibqueryerrors ends with 0 where it checked no port: there is no subnet manager, or the GUID is not in the subnet.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
source "$(dirname "$script")/common/ibsim.sh"
start_subnet

all=0 guid=0
on_h1 ibqueryerrors >all.txt 2>&1 || all=$?
on_h1 ibqueryerrors --port-guid 0x999 >guid.txt 2>&1 || guid=$?
tail -n 20 all.txt guid.txt

finding \
  'no port is checked: an exit code that is not the one of a subnet without errors' \
  'no subnet manager: 0 summaries, exit code 0; unknown GUID: 0 nodes checked, exit code 0' \
  "no subnet manager: $(grep -c Summary all.txt || true) summaries, exit code $all; unknown GUID: $(grep -o '0 nodes checked' guid.txt), exit code $guid"
