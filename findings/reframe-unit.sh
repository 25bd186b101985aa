#!/bin/bash
# ReFrame warns of two units, gives the reference the unit of the number, and passes: 500 MB/s for 500 GB/s.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi reframe-hpc==4.10.4

cat >unit.py <<'X'
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function


@rfm.simple_test
class Unit(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "echo bandwidth 500"
    reference = {"*": {"bandwidth": (500, -0.05, 0.05, "GB/s")}}

    @sanity_function
    def printed(self):
        return sn.assert_found("bandwidth", self.stdout)

    @performance_function("MB/s")
    def bandwidth(self):
        return sn.extractsingle(r"bandwidth (\d+)", self.stdout, 1, float)
X
code=0
"$WORK/python/bin/reframe" --checkpath unit.py --run --prefix "$WORK/run" --report-file report.json >out.txt 2>&1 || code=$?
grep -E 'WARNING|P: |PASSED|FAILED' out.txt
python3 - <<'X' >seen.txt
import json

case = json.load(open("report.json"))["runs"][0]["testcases"][0]
(number,) = case["perfvalues"].values()
print(f'{case["result"]}, {number[0]:.0f} with reference {number[1]} {number[4]}')
X

finding \
  'the reference is 500 GB/s, the test measures 500 MB/s: the test fails, or the report keeps GB/s' \
  'exit code 0, pass, 500 with reference 500 MB/s' \
  "exit code $code, $(cat seen.txt)"
