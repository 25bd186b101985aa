#!/bin/bash
# clush takes a misspelt group as an empty one: what "-x @group" should spare is not spared.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi ClusterShell==1.10.1

mkdir -p groups.d
printf '[Main]\ndefault: site\nautodir: %s/groups.d\n' "$WORK" >groups.conf
printf 'site:\n  compute: "n[1-8]"\n  updating: "n[3-4]"\n' >groups.d/site.yaml
export CLUSTERSHELL_CFGDIR=$WORK

run_except() { # the nodes on which clush runs a command; "exec" runs it here, once a node
  "$WORK/python/bin/clush" --worker=exec --nostdin -S -w @compute -x "$1" echo %h 2>&1 | sed 's/:.*//' | sort | paste -sd ' '
}
code=0
"$WORK/python/bin/clush" --worker=exec --nostdin -S -w @compute -x @updatnig true || code=$?
echo "-x @updating: $(run_except @updating)"

finding \
  'no group is named updatnig: an error, and the command runs nowhere' \
  '-x @updatnig: n1 n2 n3 n4 n5 n6 n7 n8, exit code 0' \
  "-x @updatnig: $(run_except @updatnig), exit code $code"
