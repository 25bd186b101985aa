"""A toy check between two nodes."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.client_server import PairRun, PairTool
from railgauge.checks.jobs.pairs import RingPairs
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.tools import wirerate


@simple_test
class WirePair(SweepCheck):
    """wirerate between neighbouring nodes. Good is: the rate at the reference."""

    descr = "one stream between two nodes"
    tags = {"acceptance"}
    tool = wirerate
    programs = Programs(wirerate)
    metrics = ["bandwidth"]

    cases = RingPairs("wire")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        options = wirerate.Options(duration_s=3)
        return PairRun(
            place=place,
            partition=partition,
            tool=PairTool(
                module=wirerate,
                options=options,
                server=wirerate.server_argv(),
                client=wirerate.client_argv(options),
                version=wirerate.version_argv(),
            ),
            expected_run_s=options.duration_s + 1,
            run_limit_s=options.duration_s + 20,
        )
