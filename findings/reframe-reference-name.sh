#!/bin/bash
# ReFrame takes a misspelt name in a reference without a message: 5 passes where 100 is asked for.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi reframe-hpc==4.10.4

cat >name.py <<'X'
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function


@rfm.simple_test
class Name(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "echo bandwidth 5"
    reference = {"*": {"bandwith": (100, -0.05, None, "GB/s")}}

    @sanity_function
    def printed(self):
        return sn.assert_found("bandwidth", self.stdout)

    @performance_function("GB/s")
    def bandwidth(self):
        return sn.extractsingle(r"bandwidth (\d+)", self.stdout, 1, float)
X
code=0
"$WORK/python/bin/reframe" --nocolor --checkpath name.py --run --prefix "$WORK/run" >out.txt 2>&1 || code=$?
grep -E 'P: |PASSED|FAILED' out.txt

finding \
  'a reference for "bandwith", and only "bandwidth" is measured: an error, or at least a warning' \
  'PASSED, 0 warnings, exit code 0' \
  "$(grep -oE 'PASSED|FAILED' out.txt), $(grep -c WARNING out.txt || true) warnings, exit code $code"
