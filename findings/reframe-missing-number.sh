#!/bin/bash
# ReFrame passes a test that has a reference and prints no number: the reference is skipped.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi reframe-hpc==4.10.4

cat >number.py <<'X'
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function


@rfm.simple_test
class Number(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "echo bandwidth of 2 nodes: n/a"
    reference = {"*": {"bandwidth": (100, -0.05, None, "GB/s")}}

    @sanity_function
    def printed(self):
        return sn.assert_found("bandwidth", self.stdout)

    @performance_function("GB/s")
    def bandwidth(self):
        return sn.extractsingle(r"nodes: ([\d.]+)", self.stdout, 1, float)
X
code=0
"$WORK/python/bin/reframe" --nocolor --checkpath number.py --run --prefix "$WORK/run" --report-file report.json >out.txt 2>&1 || code=$?
grep -E 'WARNING|PASSED|FAILED' out.txt
python3 - <<'X' >seen.txt
import json

case = json.load(open("report.json"))["runs"][0]["testcases"][0]
print(f'{case["result"]}, {len(case["perfvalues"])} numbers in the report')
X

finding \
  'the reference asks for 95 GB/s, no bandwidth is found: the test fails' \
  'pass, 0 numbers in the report, exit code 0' \
  "$(cat seen.txt), exit code $code"
