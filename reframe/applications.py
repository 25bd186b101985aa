"""How long programs of the site take: what the network is for."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.mpi.application import ApplicationCases, ApplicationCheck


@simple_test
class ApplicationTime(ApplicationCheck):
    """A program of the system's description (a solver, MLPerf training in a container), some runs.

    Good is: every run says that it came to the value that it must, and the olympic mean of their
    times, without the fastest and the slowest, is at the reference. Each run's time is next to it.
    """

    descr = "the time of a program of the site"
    tags = {"application", "mpi", "acceptance"}

    cases = ApplicationCases()
    program = parameter(cases, loggable=True)
