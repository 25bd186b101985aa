"""The systems under `configs/systems/`, as ReFrame and Railgauge see them.

A system is one folder; its `reframe.yaml` is a ReFrame system entry, with Railgauge's own fields
in each partition's `extras`.
"""

from __future__ import annotations

import importlib
import os
import re
import socket
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railgauge import lab, paths
from railgauge.common.errors import ConfigurationError
from railgauge.systems import rehearsal

if TYPE_CHECKING:
    from railgauge.systems.application import (
        Application as Application,
    )
    from railgauge.systems.contention import (
        Contention as Contention,
    )
    from railgauge.systems.contention import (
        HostState as HostState,
    )
    from railgauge.systems.fabric import (
        Fabric as Fabric,
    )
    from railgauge.systems.infiniband import (
        Infiniband as Infiniband,
    )
    from railgauge.systems.rdma import (
        Expression as Expression,
    )
    from railgauge.systems.rdma import (
        Perftest as Perftest,
    )
    from railgauge.systems.rdma import (
        Rdma as Rdma,
    )
    from railgauge.systems.schema import (
        DESCRIBED as DESCRIBED,
    )
    from railgauge.systems.schema import (
        Absent as Absent,
    )
    from railgauge.systems.schema import (
        Budget as Budget,
    )
    from railgauge.systems.schema import (
        Extras as Extras,
    )
    from railgauge.systems.schema import (
        FilesOfOneSize as FilesOfOneSize,
    )
    from railgauge.systems.schema import (
        Mpi as Mpi,
    )
    from railgauge.systems.schema import (
        Nics as Nics,
    )
    from railgauge.systems.schema import (
        NicScale as NicScale,
    )
    from railgauge.systems.schema import (
        Partition as Partition,
    )
    from railgauge.systems.schema import (
        Settings as Settings,
    )
    from railgauge.systems.schema import (
        Sweep as Sweep,
    )
    from railgauge.systems.schema import (
        System as System,
    )
    from railgauge.systems.schema import (
        Tcp as Tcp,
    )
    from railgauge.systems.schema import (
        Transfers as Transfers,
    )
    from railgauge.systems.schema import (
        TransferTool as TransferTool,
    )
    from railgauge.systems.schema import (
        Wdt as Wdt,
    )
    from railgauge.systems.wan import (
        Bond as Bond,
    )
    from railgauge.systems.wan import (
        RoundTrip as RoundTrip,
    )
    from railgauge.systems.wan import (
        Wan as Wan,
    )

#: The modules with the classes above.
_WITH_CLASSES = (*("schema", "application", "contention", "fabric", "infiniband", "rdma", "wan"),)


def __getattr__(name: str) -> Any:
    """The classes above, loaded when the first one is asked for: which systems there are is known
    without them, and they take half of the time of a short command.
    """
    # A submodule is looked for here too before it is imported.
    if name[0].isupper():
        for module in _WITH_CLASSES:
            found = getattr(importlib.import_module(f"{__name__}.{module}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def names() -> list[str]:
    """The systems of the site."""
    return sorted(path.parent.name for path in paths.SYSTEMS.glob("*/reframe.yaml"))


def known() -> list[str]:
    """The systems of the site, and those that come with the program: of the lab, and others to
    rehearse or to copy.
    """
    return sorted([*names(), *paths.systems_of_program()])


def of_session() -> list[str]:
    """The systems that a session of ReFrame reads: those of the site, and the chosen one."""
    of_site = names()
    return [name for name in known() if name in of_site or name == selected()]


def _file(name: str) -> Path:
    return paths.system_folder(name) / "reframe.yaml"


@cache
def load(name: str) -> System:
    """The system of that name; ConfigurationError with file, line and field, or the known names.

    In a rehearsal, as it is staged in the lab.
    """
    from railgauge.systems.schema import System
    from railgauge.yamlfile import load_model

    _require_known(name)
    system = load_model(_file(name), System)
    if system.name != name:
        raise ConfigurationError(
            f"{_file(name)}: name is {system.name!r}, expected that of the folder, {name!r}"
        )
    if rehearsal.scenario() is not None and name == selected():
        return System.model_validate(rehearsal.staged(entry(name)))
    return system


def _require_known(name: str) -> None:
    if name not in known():
        raise ConfigurationError(
            f"system {name!r} is unknown; {paths.SYSTEMS}/ has: {', '.join(names()) or 'none'}",
            next_step=f"name one of these, or: railgauge system new {name}",
        )


def least_changes(name: str) -> dict[str, float]:
    """Partition -> the smallest change that matters (a fraction); empty for a system that is not
    described.
    """
    if name not in known():
        return {}
    return {one.name: one.extras.least_change for one in load(name).partitions}


def is_of_lab(name: str) -> bool:
    """Whether the embedded cluster stages this system: `railgauge lab up --system NAME`."""
    try:
        return (paths.system_folder(name) / "lab.yaml").exists()
    except OSError:
        # No file has so long a name.
        return False


def entry(name: str) -> dict[str, Any]:
    """The system's description as written in its file."""
    from railgauge.yamlfile import plain

    entry: dict[str, Any] = plain(_file(name))
    return entry


def selected() -> str:
    """The system that RFM_SYSTEM names, without its partition; empty where it names none."""
    return os.environ.get("RFM_SYSTEM", "").partition(":")[0]


def matches(system: System, host: str) -> bool:
    """Whether `hostnames` match that host. Those of the lab match on machines of that lab only."""
    if is_of_lab(system.name) and lab.system_here() != system.name:
        return False
    return any(re.match(pattern, host) for pattern in system.hostnames)


def of_host(host: str) -> list[str]:
    """The systems with `hostnames` that match a host: those of the site, else that of the lab."""
    of_site = names()
    described = [name for name in known() if name in of_site or is_of_lab(name)]
    matching = [name for name in described if matches(load(name), host)]
    return [name for name in matching if not is_of_lab(name)] or matching


def current() -> str:
    """The system of this host: by `hostnames`, else that of this checkout's lab while it is up.

    ReFrame asks this only when neither `--system` nor RFM_SYSTEM names one. ConfigurationError
    where two systems say that the host is theirs: of the wrong one, other nodes would be measured,
    and held.
    """
    host = socket.gethostname()
    systems_of_host = of_host(host)
    if len(systems_of_host) > 1:
        raise ConfigurationError(
            f"host {host!r} is of {len(systems_of_host)} systems by their `hostnames`: "
            + "; ".join(
                f"{_file(name)}: {', '.join(load(name).hostnames)}" for name in systems_of_host
            ),
            next_step=f"edit hostnames in all but one, or name the system: "
            f"RFM_SYSTEM={systems_of_host[0]}, or RFM_SYSTEM={systems_of_host[1]}",
        )
    if systems_of_host:
        return systems_of_host[0]
    of_lab = lab.system_in(paths.lab_folder())
    if of_lab is not None:
        return of_lab
    raise ConfigurationError(
        f"host {host!r} matches no `hostnames` in configs/systems/*/reframe.yaml "
        f"({', '.join(names())}), and the lab of this checkout is not up\n"
        "  next: `railgauge lab up` for the embedded cluster, or name the system: RFM_SYSTEM=..."
    )


def chosen(option: str | None = None) -> str:
    """The system that a command works on: its `--system`, else RFM_SYSTEM, else this host's.

    ConfigurationError where it is not described.
    """
    name = option or selected() or current()
    _require_known(name)
    return name
