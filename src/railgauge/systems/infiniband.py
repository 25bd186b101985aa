"""`extras.infiniband` of a partition: how its subnet is read."""

from __future__ import annotations

from typing import Annotated

import pydantic

from railgauge.yamlfile import Strict

#: A device and its port.
_PORT = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*:[0-9]+$"


class Infiniband(Strict):
    """How the subnet of a partition is read. Nothing in it is changed."""

    device: str = pydantic.Field(default="", pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*:[0-9]+)?$")
    """The local port that the subnet is read by, such as `mlx5_0:1`. Empty: infiniband-diags
    chooses one.
    """
    more_devices: list[Annotated[str, pydantic.Field(pattern=_PORT)]] = []
    """A local port of each further subnet, where rails are subnets of their own: `[mlx5_1:1]`. Then
    `device` is that of the first subnet. Switches need other names in each.
    """
    node: str = ""
    """The node that reads the subnet. Empty, or a node that the session does not test: the first
    node of the session, and the last one in case the link of the first one is down.
    """
    prefix: list[str] = []
    """Words before each command that reads the subnet: `[sudo, -n]` where users may not read
    /dev/infiniband/umad*, `[ssh, -n, sm1]` for the host of the subnet manager. They run on `node`.
    """
    timeout_s: int = pydantic.Field(default=120, ge=5)
    """Longest time for all commands together."""
    most_errors: int = pydantic.Field(default=10, ge=0)
    """What an error counter of a port may grow by from InfinibandFabric to InfinibandCounters: more
    is a fault. The default is what ibqueryerrors admits of symbol errors. A link that went down, or
    was trained again, is a fault each time.
    """
    static_routes: bool = False
    """Whether data takes the routes of the forwarding tables, without adaptive routing. If true,
    the rounds that a sweep adds cross the links that low results suspect, and the verdict names a
    slow link between switches.
    """
