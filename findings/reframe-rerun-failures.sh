#!/bin/bash
# With --reruns, num_failures in the report of ReFrame counts the last run only: 0 of a session that failed.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi reframe-hpc==4.10.4

cat >once.py <<'X'
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import sanity_function


@rfm.simple_test
class Once(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = 'mkdir "$FLAG" && echo slow || echo fast'

    @sanity_function
    def fast(self):
        return sn.assert_found("fast", self.stdout)
X
code=0
FLAG=$WORK/flag "$WORK/python/bin/reframe" --nocolor --checkpath once.py --run --reruns 1 --prefix "$WORK/run" \
  --report-file report.json >out.txt 2>&1 || code=$?
grep ' Ran ' out.txt
python3 - <<'X' >seen.txt
import json

report = json.load(open("report.json"))
results = [case["result"] for run in report["runs"] for case in run["testcases"]]
print(f'results {" ".join(results)}, num_failures {report["session_info"]["num_failures"]}')
X

finding \
  'the first run of two fails: num_failures of the session is 1' \
  'results fail pass, num_failures 0, exit code 1' \
  "$(cat seen.txt), exit code $code"
