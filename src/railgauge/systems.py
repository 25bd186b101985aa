"""The systems under `configs/systems/`, as ReFrame and Railgauge see them.

A system is one folder; its `reframe.yaml` is a ReFrame system entry, with Railgauge's own fields
in each partition's `extras`.
"""

from __future__ import annotations

import os
import re
import socket
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pydantic
from ruamel.yaml import YAML

from railgauge import hostlist, lab, paths
from railgauge.errors import ConfigurationError
from railgauge.yamlfile import Strict, load_model


class Extras(Strict):
    """What Railgauge needs to know of a partition.

    `nodes` are all that belong there, also those that are down. `link_gbits` is the raw rate of
    the link that TCP uses; without it no share of a limit is known. `srun_options` is how srun
    starts MPI here. `required` names the checks
    without which no campaign can end in `accept`.
    """

    nodes: str
    mtu_bytes: int | None = pydantic.Field(default=None, ge=576, le=65535)
    link_gbits: float | None = pydantic.Field(default=None, gt=0)
    srun_options: list[str] = []
    required: list[str] = []

    @pydantic.field_validator("nodes")
    @classmethod
    def _is_hostlist(cls, value: str) -> str:
        hostlist.expand(value)
        return value


class Partition(pydantic.BaseModel):
    """A ReFrame partition: fields not named here pass through to ReFrame, which checks them."""

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)

    name: str
    features: list[str] = []
    extras: Extras

    @property
    def nodes(self) -> tuple[str, ...]:
        return hostlist.expand(self.extras.nodes)


def _expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


class System(pydantic.BaseModel):
    """A ReFrame system with its partitions."""

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)

    name: str
    hostnames: list[Annotated[str, pydantic.AfterValidator(_expression)]]
    partitions: list[Partition] = pydantic.Field(min_length=1)

    def partition(self, name: str) -> Partition:
        for partition in self.partitions:
            if partition.name == name:
                return partition
        raise ConfigurationError(f"system {self.name} has no partition {name!r}")


def names() -> list[str]:
    return sorted(path.parent.name for path in paths.SYSTEMS.glob("*/reframe.yaml"))


def _file(name: str) -> Path:
    return paths.SYSTEMS / name / "reframe.yaml"


@cache
def load(name: str) -> System:
    """The system of that name; ConfigurationError with file, line and field, or the known names."""
    if name not in names():
        raise ConfigurationError(
            f"system {name!r} is unknown; configs/systems/ has: {', '.join(names())}"
        )
    system = load_model(_file(name), System)
    if system.name != name:
        raise ConfigurationError(
            f"{_file(name)}: name is {system.name!r}, expected that of the folder, {name!r}"
        )
    return system


def current() -> str:
    """The system of this host: by `hostnames`, else the lab of this checkout while it is up.

    ReFrame asks this only when neither `--system` nor RFM_SYSTEM names one.
    """
    host = socket.gethostname()
    for name in names():
        if any(re.match(pattern, host) for pattern in load(name).hostnames):
            return name
    if lab.first_process(paths.lab_folder()) is not None:
        return "lab"
    raise ConfigurationError(
        f"host {host!r} matches no `hostnames` in configs/systems/*/reframe.yaml "
        f"({', '.join(names())}), and the lab of this checkout is not up\n"
        "  next: `railgauge lab up` for the embedded cluster, or name the system: RFM_SYSTEM=..."
    )


def chosen(option: str | None = None) -> str:
    """The system that a command works on: its `--system`, else RFM_SYSTEM, else this host's."""
    return option or os.environ.get("RFM_SYSTEM", "").partition(":")[0] or current()


def site_configuration() -> dict[str, Any]:
    """All systems as ReFrame's site configuration."""
    session = paths.session_folder()
    entries = []
    for name in names():
        load(name)  # its errors say more than ReFrame's
        entry = YAML(typ="safe", pure=True).load(_file(name))
        # The one way to find the system is `current`, which answers with its name.
        entries.append({**entry, "hostnames": [f"{name}$"], "prefix": str(session)})
    return {
        "systems": entries,
        "autodetect_methods": ["py::this_system"],
        "general": [
            {
                "check_search_path": [str(paths.CHECKS)],
                # A finished job is noticed within 0.2 s, also at the end of a long campaign.
                "poll_rate_max": 10,
                "poll_rate_min": 5,
                "poll_rate_decay": 0,
                "report_file": str(session / "report.json"),
                "report_junit": str(session / "junit.xml"),
                "keep_stage_files": True,
            }
        ],
        "modes": [
            {"name": "baseline", "options": ["-S gate=baseline"]},
            {"name": "acceptance", "options": ["-S gate=acceptance"]},
        ],
        "logging": [
            {
                "handlers": [
                    {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"},
                    {
                        "type": "file",
                        "name": str(session / "reframe.log"),
                        "level": "debug2",
                        "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                        "append": False,
                    },
                ],
                "handlers_perflog": [
                    {
                        "type": "filelog",
                        "prefix": "%(check_system)s/%(check_partition)s",
                        "level": "info",
                        "format": "%(check_result)s|%(check_job_completion_time)s|%(check_info)s"
                        "|%(check_jobid)s|%(check_job_nodelist)s|%(check_perfvalues)s",
                        "format_perfvars": "%(check_perf_value)s|%(check_perf_unit)s|"
                        "%(check_perf_ref)s|%(check_perf_lower_thres)s|%(check_perf_upper_thres)s|",
                        "append": True,
                    }
                ],
            }
        ],
        "storage": [{"enable": True, "sqlite_db_file": str(paths.results_root() / "history.db")}],
    }
