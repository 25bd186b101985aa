"""A toy check between two nodes."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.client_server import PairCheck, RingPairs
from railgauge.tools import wirerate


@simple_test
class WirePair(PairCheck):
    """wirerate between neighbouring nodes. Good is: the rate at the reference."""

    descr = "one stream between two nodes"
    tags = {"acceptance"}
    tool = wirerate
    metrics = ["bandwidth"]

    cases = RingPairs("wire")
    sweep = parameter(cases.sweeps, loggable=True)
    options = wirerate.Options(duration_s=3)

    def commands(self):
        return {
            "server": wirerate.server_argv(),
            "client": wirerate.client_argv(self.options),
            "version": wirerate.version_argv(),
        }

    def expected_run_s(self):
        return self.options.duration_s + 1

    def run_limit_s(self):
        return self.options.duration_s + 20
