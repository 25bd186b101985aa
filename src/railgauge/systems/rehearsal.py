"""Rehearsals: a system's checks in the lab, with stand-ins for its GPUs, and for WDT.

`railgauge rehearse SYSTEM` lets the real Slurm of the lab run the NCCL checks of any system under
configs/systems/ as they would run there: same operations, scales, transports, options and
references, fewer nodes. In place of nccl-tests runs the replayer (`railgauge.lab.replay`), which
prints what was recorded on such a system, or numbers after its references. Of a partition without
GPUs that has transfers WDT is rehearsed, with files as small as the lab can move: a stand-in copies
them and logs what WDT logs. Whatever a rehearsal prints or stores says SIMULATED; nothing of it can
become a reference.
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railgauge import hostlist, lab, paths
from railgauge.common.errors import PrerequisiteError, RailgaugeError

if TYPE_CHECKING:
    from railgauge.systems import System
    from railgauge.systems.nccl import Nccl
    from railgauge.tools import nccl_tests

#: Set by `railgauge rehearse`: the scenario, as `NAME`, `NAME:NODE` or `NAME:NODE:NODE`.
VARIABLE = "RAILGAUGE_REHEARSAL"

#: What can go wrong in a rehearsal, and what it stands for.
SCENARIOS = {
    "healthy": "everything as recorded",
    "slow": "a node at half the bandwidth",
    "slow-pair": "half the bandwidth between two nodes, each good with others",
    "crowded": "half the bandwidth where several groups of nodes run at once",
    "singletons": "every rank starts alone: no usable PMIx",
    "wrong-host": "a rank runs on a host that was not asked for",
    "sockets": "NCCL finds no RDMA device and falls back to sockets",
    "lost-nic": "a node's last RDMA device is down, and NCCL goes on without it",
    "no-mnnvl": "the IMEX service is down: NVLink ends at the node",
    "truncated": "the output breaks off, exit code 0",
    "cut-log": "the debug log of the last rank breaks off",
    "wrong-results": "wrong values in the largest message, exit code 0",
    "less-memory": "half of the largest message fits into the GPUs",
    "no-memory": "something holds nearly all memory of the GPUs",
    "hang": "the job never ends",
    "exit-7": "a good table, exit code 7",
    "receiver-gone": "WDT's receiver is killed in the middle",
    "disk-full": "WDT's receiver has no room for the files",
}
#: The nodes between which these happen by default.
_OF_A_PAIR = {"slow-pair": ("n2", "n3")}
#: The scenarios that can happen to WDT.
OF_WDT = (
    *("healthy", "truncated", "wrong-results", "hang", "exit-7"),
    *("receiver-gone", "disk-full"),
)
_OF_WDT_ALONE = ("receiver-gone", "disk-full")

#: The most that a rehearsal of WDT moves.
_FILES, _FILE_BYTES = 50, 2**22

#: The lab's partition that rehearsals run in, and the most nodes that it has.
PARTITION = "ns"
NODES = ("n1", "n2", "n3", "n4")

#: Variables with the names of a site's interfaces, which the lab's nodes do not have.
_NAMES_INTERFACES = re.compile("if_include|if_exclude|NET_DEVICES")

#: The folder in the results root for everything of a rehearsal, apart from campaigns and history.
RESULTS = "rehearsals"

REPLAYER = paths.SOURCE / "railgauge" / "lab" / "replay" / "bin"


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What happens, and to ranks that are together on which nodes; none stands for every job."""

    name: str
    nodes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Scenario:
        """RailgaugeError where it is none of SCENARIOS."""
        name, _, rest = text.partition(":")
        nodes = tuple(rest.split(":")) if rest else ()
        pair = _OF_A_PAIR.get(name, ())
        nodes = nodes or pair
        if name not in SCENARIOS or not set(nodes) <= set(NODES) or len(nodes) > 2:
            raise RailgaugeError(
                f"scenario {text!r} is unknown; one of {', '.join(SCENARIOS)}, with a node of "
                f"{', '.join(NODES)} behind a colon if it is to happen only there, or with two if "
                "only between them",
                next_step="railgauge rehearse SYSTEM --scenario slow:n2",
            )
        return cls(name, nodes)

    def __str__(self) -> str:
        return ":".join((self.name, *self.nodes))


def scenario() -> Scenario | None:
    """The scenario of this process's rehearsal; None outside of one."""
    text = os.environ.get(VARIABLE)
    try:
        return Scenario.parse(text) if text else None
    except RailgaugeError as error:
        raise RailgaugeError(
            f"{VARIABLE} is {text!r}: {error.message}", next_step=f"unset {VARIABLE}"
        ) from None


def staged(entry: dict[str, Any]) -> dict[str, Any]:
    """A system's description (as in reframe.yaml) for the lab; RailgaugeError where it has neither
    GPUs nor transfers by WDT.
    """
    partitions = []
    for partition in entry["partitions"]:
        if "nccl" in partition.get("features", ()):
            partitions.append(_partition(partition))
        elif _has_wdt(partition):
            partitions.append(_partition_with_wdt(partition))
    if not partitions:
        raise RailgaugeError(
            f"{entry['name']} has no partition with feature nccl, nor transfers by wdt: there is "
            "nothing to rehearse"
        )
    return {**entry, "modules_system": "nomod", "partitions": partitions}


def _partition(partition: dict[str, Any]) -> dict[str, Any]:
    from railgauge.systems.nccl import Binaries

    extras, launcher = partition["extras"], partition["launcher"]
    nccl = extras["nccl"]
    binaries = Binaries(path=str(REPLAYER), version=nccl["binaries"]["version"])
    options = list(extras.get("launch_options", []))
    happening = scenario()
    if happening and happening.name == "singletons" and launcher == "srun":
        options = [f"--mpi={'none'}" if o.startswith("--mpi=") else o for o in options]
    if happening and happening.name == "hang":
        # Long enough for the groups that do not hang, on a machine that is busy.
        nccl = {**nccl, "timeout_s": 9}
    described = {name: extras[name] for name in ("mtu_bytes", "link_gbits") if name in extras}
    # It is the lab's MPI that starts the stand-ins, as the lab's description says.
    of_lab = _variables_of_lab()
    variables = [
        variable
        for variable in partition.get("env_vars", [])
        if not _NAMES_INTERFACES.search(variable[0]) and variable[0] not in dict(of_lab)
    ] + of_lab
    if launcher == "mpirun":
        variables += _AS_ROOT
    return {
        **{k: v for k, v in partition.items() if k not in ("container_platforms", "modules")},
        "env_vars": variables,
        "access": [f"--partition={PARTITION}"],
        "features": [f for f in partition["features"] if f not in _LEFT_OUT],
        "extras": {
            **described,
            "nodes": _nodes(extras),
            "launch_options": options,
            "required": [c for c in extras.get("required", []) if c.startswith("Nccl")],
            "nccl": {
                **nccl,
                "binaries": binaries.model_dump(exclude_defaults=True),
                "ras": str(REPLAYER / "ncclras"),
            },
        },
    }


def _variables_of_lab() -> list[list[str]]:
    """What the lab's description gives to every program of its namespace nodes."""
    from railgauge.yamlfile import load

    described = load(paths.HOME / "configs/systems/lab/reframe.yaml")
    (partition,) = [p for p in described["partitions"] if p["name"] == PARTITION]
    return [list(variable) for variable in partition.get("env_vars", [])]


#: The lab's jobs run as root, which mpirun otherwise refuses, whichever check calls it.
_AS_ROOT = [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]

#: Features of checks without stand-ins.
_LEFT_OUT = (
    *("tcp", "rdma", "wan", "bond", "nics", "transfers", "fabric", "applications"),
    *("contention", "infiniband", "gpu_links"),
)


def _nodes(extras: dict[str, Any]) -> str:
    count = min(len(NODES), len(hostlist.expand(extras["nodes"])))
    return f"n[1-{count}]" if count > 1 else "n1"


def _has_wdt(partition: dict[str, Any]) -> bool:
    transfers = partition["extras"].get("transfers", {})
    tools = (*transfers.get("tools", ()), *transfers.get("optional", ()))
    return "transfers" in partition.get("features", ()) and "wdt" in tools


def _partition_with_wdt(partition: dict[str, Any]) -> dict[str, Any]:
    """Its transfers by WDT and nothing else; MTU and rate are the lab's, so none is expected."""
    extras, happening = partition["extras"], scenario()
    files = {
        name: {
            "files": min(chosen["files"], _FILES),
            "file_bytes": min(chosen["file_bytes"], _FILE_BYTES),
        }
        for name, chosen in extras["transfers"]["file_sets"].items()
    }
    hangs = happening is not None and happening.name == "hang"
    return {
        **{k: v for k, v in partition.items() if k not in ("container_platforms", "modules")},
        "env_vars": [],
        "access": [f"--partition={PARTITION}"],
        "features": ["transfers"],
        "extras": {
            "nodes": _nodes(extras),
            "required": [c for c in extras.get("required", []) if c == "WdtTransfer"],
            "transfers": {
                **extras["transfers"],
                "tools": ["wdt"],
                "optional": [],
                "file_sets": files,
                "scratch": "/tmp",
                "path": [str(REPLAYER)],
                "timeout_s": 5 if hangs else 60,
                "series_only": False,
                "always": {},
            },
        },
    }


def require_lab() -> None:
    """PrerequisiteError while the lab is down: whatever Slurm there is would get the jobs."""
    if lab.first_process(paths.lab_folder()) is None:
        raise PrerequisiteError(
            f"the lab in {paths.lab_folder()} is not up, and a rehearsal runs in nothing else",
            next_step="railgauge lab up --nodes n[1-4]",
        )


def require_effect(system: System, nodes: str | None) -> None:
    """RailgaugeError where the scenario cannot happen to what is rehearsed."""
    happening = scenario()
    assert happening is not None
    measured = set(system.nodes)
    if nodes:
        measured &= set(hostlist.expand(nodes))
    fabrics = [p.extras.nccl for p in system.partitions if p.extras.nccl]
    without = (
        f"{hostlist.fold(happening.nodes)} is not among the nodes, {hostlist.fold(measured)}"
        if not measured.issuperset(happening.nodes)
        else f"{system.name} has no NVLink between nodes"
        if happening.name == "no-mnnvl"
        and not any(f.nvlink and f.nvlink.domain_nodes > 1 for f in fabrics)
        else f"{system.name} has no RDMA devices"
        if happening.name in ("sockets", "lost-nic") and not any(f.nics for f in fabrics)
        else f"{system.name} has no NCCL to rehearse, and of WDT one of {', '.join(OF_WDT)}"
        if not fabrics and happening.name not in OF_WDT
        else f"{system.name} has no transfers to rehearse"
        if happening.name in _OF_WDT_ALONE and all(p.extras.nccl for p in system.partitions)
        else ""
    )
    if without:
        raise RailgaugeError(f"scenario {happening} would change nothing: {without}")


# --- what the replayer is given ----------------------------------------------------------------


def replay(
    *,
    systems_folder: Path,
    fabric: Nccl,
    scale: str,
    options: nccl_tests.Options,
    busbw_gbytes_s: float,
) -> dict[str, Any]:
    """The contents of `replay.json`: the scenario, the fabric, and the numbers to print.

    `recorded` are times (us, out of place and in place) by size, of a recording of this very case:
    configs/systems/<system>/recorded/<scale>-<operation>-<transport>.txt; the other sizes follow
    from `busbw_gbytes_s`, that of the largest.
    """
    from railgauge.tools import nccl_tests

    happening = scenario()
    assert happening is not None

    def recorded(transport: str) -> dict[str, list[float]]:
        name = f"{scale}-{options.operation}-{transport}.txt"
        return _recorded(systems_folder / "recorded" / name, options)

    return {
        "scenario": happening.name,
        "nodes": list(happening.nodes),
        "operation": options.operation,
        "factor": nccl_tests.busbw_factor(options.operation, options.ranks),
        "sizes": list(options.sizes()),
        "busbw_gbytes_s": busbw_gbytes_s,
        "recorded": recorded(options.transport) or recorded("mnnvl")
        if options.transport in ("default", "mnnvl")
        else recorded(options.transport),
        # What is left where NVLink ends at the node.
        "fallback": recorded("one-hca"),
        "version": options.version,
        "gpu": fabric.gpu,
        "fabric": replayed_fabric(fabric),
    }


def replayed_fabric(fabric: Nccl) -> dict[str, Any]:
    """What NCCL finds on a node, as the replayer has it from the system's description."""
    nics, nvlink = fabric.nics, fabric.nvlink
    return {
        "nvlink_domain_nodes": nvlink.domain_nodes if nvlink else 1,
        "nvlink": nvlink is not None,
        "nvls": bool(nvlink and nvlink.nvls),
        "hcas": list(nics.devices) if nics else [],
        "link_layer": "RoCE" if nics and nics.link_layer == "Ethernet" else "IB",
        "gdr": bool(nics and nics.gpudirect),
        "nccl_version": "2.28.9+cuda13.0",
        "gpu": fabric.gpu,
    }


def _recorded(path: Path, options: nccl_tests.Options) -> dict[str, list[float]]:
    if not path.exists():
        return {}
    from railgauge.tools import nccl_tests

    recorded = {}
    for result in nccl_tests.parse(path.read_text(encoding="utf-8")):
        if len(result.devices) == options.ranks:
            for row in result.rows:
                sides = [row.out_of_place, row.in_place or row.out_of_place]
                recorded[str(row.size_bytes)] = [side.time_us for side in sides]
    return recorded
