"""What must be so before anything is worth measuring."""

from reframe.core.builtins import parameter

from railgauge.checks import PathCheck, path_places, simple_test


@simple_test
class Path(PathCheck):
    """The state of every node's rails and bond.

    Good is: as many RDMA devices as the node has rails, each active, with the link layer, rate and
    active MTU that its system's data expects, a GID to use, and memory that may be locked; a bond
    in its mode with all its links. Checks that need a node's path do not run where this fails.
    """

    descr = "rails and bond of one node are as they should be"
    tags = {"preflight", "rdma", "acceptance"}

    place = parameter(path_places(), loggable=True)
