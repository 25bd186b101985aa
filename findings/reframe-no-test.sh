#!/bin/bash
# ReFrame prints PASSED and ends with 0 where --name selects no test.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi reframe-hpc==4.10.4

cat >hello.py <<'X'
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import sanity_function


@rfm.simple_test
class Hello(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "echo hello"

    @sanity_function
    def printed(self):
        return sn.assert_found("hello", self.stdout)
X
code=0
"$WORK/python/bin/reframe" --nocolor --checkpath hello.py --run --name Helo --prefix "$WORK/run" >out.txt 2>&1 || code=$?
grep ' Ran ' out.txt

finding \
  'no test is named Helo: an error and an exit code other than 0, as of pytest' \
  'PASSED, Ran 0/0 test case(s), exit code 0' \
  "$(grep -oE 'PASSED|FAILED' out.txt), $(grep -oE 'Ran [0-9/]+ test case\(s\)' out.txt), exit code $code"
