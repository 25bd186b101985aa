#!/bin/bash
# The poll rate of ReFrame is an average since the last change: with a decay, jobs go unseen for longer than 1/poll_rate_min.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi reframe-hpc==4.10.4

cat >settings.py <<'X'
site_configuration = {
    "systems": [
        {
            "name": "here",
            "hostnames": [".*"],
            "partitions": [
                {"name": "all", "scheduler": "local", "launcher": "local", "environs": ["builtin"]}
            ],
        }
    ],
    "general": [{"poll_rate_max": 5, "poll_rate_min": 0.5, "poll_rate_decay": 0.1}],
    "logging": [{"handlers": [{"type": "file", "name": "reframe.log", "level": "debug2"}]}],
}
X
cat >long.py <<'X'
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import sanity_function


@rfm.simple_test
class Long(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sleep 40"

    @sanity_function
    def ended(self):
        return sn.assert_not_found("no such output", self.stdout)
X
"$WORK/python/bin/reframe" --nocolor -C settings.py -c long.py -r --prefix "$WORK/run" >out.txt 2>&1
grep ' Ran ' out.txt
python3 - <<'X' >seen.txt
import re

log = open("reframe.log").read()
intervals = [float(one) for one in re.findall(r"sleep_time=([0-9.]+)", log)]
print("intervals of more than 5 s" if max(intervals) > 5 else f"at most {max(intervals):.1f} s")
X

finding \
  'poll_rate_min 0.5: at most 2 s between two looks at a job' \
  'intervals of more than 5 s' \
  "$(cat seen.txt)"
