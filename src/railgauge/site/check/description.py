"""The description itself: does it load, does ReFrame know its fields, can a job start?"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from railgauge import hostlist, paths, systems
from railgauge.cluster.store import rules as gate_rules
from railgauge.common.errors import ConfigurationError
from railgauge.site import shown
from railgauge.site.check.line import Line
from railgauge.site.templates import PLACEHOLDER
from railgauge.slurm import client
from railgauge.systems import Partition, System
from railgauge.systems.schema import words_of


def file_of(name: str) -> str:
    return shown(paths.system_folder(name) / "reframe.yaml")


def others(name: str) -> tuple[list[System], list[Line]]:
    """The other systems of this checkout; one that is broken breaks every session."""
    loaded, lines = [], []
    for other in systems.names():
        if other != name:
            try:
                loaded.append(systems.load(other))
            except ConfigurationError as error:
                message = f"does not load, and ReFrame loads all: {str(error).splitlines()[0]}"
                lines.append(Line("problem", f"system {other}", message, f"fix {file_of(other)}"))
    return loaded, lines


def whole(system: System) -> list[Line]:
    names = [partition.name for partition in system.partitions]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"{file_of(system.name)}: {', '.join(twice)} twice; ReFrame would see one of them"
        return [Line("problem", "description", message, "give each partition a name of its own")]
    known = _reframe_fields() or {
        "system": frozenset(system.model_fields_set),
        "partition": frozenset(f for p in system.partitions for f in p.model_fields_set),
    }
    strange = sorted((key, "system") for key in system.model_fields_set - known["system"])
    for partition in system.partitions:
        where = f"partition {partition.name}"
        strange += sorted((key, where) for key in partition.model_fields_set - known["partition"])
    lines = [
        Line(
            "problem",
            "description",
            f"{file_of(system.name)}: {where}: ReFrame knows no field {key!r}",
            "a misspelling? the manual's Configuration Reference lists them",
        )
        for key, where in strange
    ]
    text = (paths.system_folder(system.name) / "reframe.yaml").read_text(encoding="utf-8")
    lines += [
        Line(
            "problem",
            "description",
            f"{file_of(system.name)}:{number}: still a placeholder: {line.split('#')[0].strip()}",
            "fill it in, and take the comment away",
        )
        for number, line in enumerate(text.splitlines(), start=1)
        if PLACEHOLDER in line
    ]
    message = f"{file_of(system.name)}: it loads, with partitions {', '.join(names)}"
    return lines or [Line("ok", "description", message)]


@functools.cache
def _reframe_fields() -> Mapping[str, frozenset[str]]:
    """The fields that ReFrame's own schema has; none where ReFrame cannot be found."""
    # This finds the package without loading it.
    package = importlib.util.find_spec("reframe")
    for folder in (package.submodule_search_locations or []) if package else []:
        schema = Path(folder, "schemas", "config.json")
        if schema.exists():
            system = json.loads(schema.read_text(encoding="utf-8"))["properties"]["systems"]
            fields = system["items"]["properties"]
            partition = fields["partitions"]["items"]["properties"]
            return {"system": frozenset(fields), "partition": frozenset(partition)}
    return {}


def slurm_partition(access: object) -> str | None:
    """The Slurm partition that jobs with this `access` are sent to."""
    return client.option("partition", "p", words_of(access)) or None


#: As the kernel writes the rate of a port (drivers/infiniband/core/sysfs.c).
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) Gb/sec \([0-9]+X [A-Z]+\)")


def rates(system: System, partition: Partition) -> list[Line]:
    """Whether the description says one thing of a rail's rate, and in Gb/s."""
    rdma, nccl = partition.extras.rdma, partition.extras.nccl
    if rdma is None:
        return []
    where, matched = f"{partition.name}: rate", _RATE.fullmatch(rdma.rate)
    if matched is None:
        found = f"rate is {rdma.rate!r}, expected such as '400 Gb/sec (4X NDR)'"
        step = "cat /sys/class/infiniband/*/ports/*/rate on a node, and copy it"
        return [Line("warning", where, f"{file_of(system.name)}: {found}", step)]
    rate = float(matched[1])
    nics = nccl.nics if nccl else None
    stated = {"rdma.line_gbits": rdma.line_gbits, "nccl.nics.gbits": nics.gbits if nics else None}
    return [
        Line(
            "warning",
            where,
            f"{file_of(system.name)}: {field} is {gbits:g}, and rate says {rdma.rate}",
            "GB/s are eight times as many Gb/s" if gbits < rate else "correct one of the two",
        )
        for field, gbits in stated.items()
        # A port may have less behind it, as of PCIe, but not an eighth.
        if gbits and (gbits > 1.01 * rate or 0.95 < 8 * gbits / rate < 1.05)
    ]


def fields(system: System, partition: Partition) -> list[Line]:
    """What ReFrame, and the checks, need to start a job."""
    given = partition.model_dump()
    thing = f"{partition.name}: scheduler, launcher, environs, access"
    expected = {
        "scheduler": (
            given.get("scheduler") == "slurm",
            "slurm: jobs are followed by sacct",
        ),
        "launcher": (
            given.get("launcher") in ("srun", "mpirun"),
            "srun or mpirun: by these a rank knows its number",
        ),
        "environs": (
            given.get("environs") == ["builtin"],
            "[builtin]: no other is defined",
        ),
        "access": (
            slurm_partition(given.get("access")) is not None,
            "[--partition=X], or Slurm takes its default partition",
        ),
    }
    lines = [
        Line(
            "problem",
            f"{partition.name}: {field}",
            f"found {given.get(field, 'nothing')}, expected {wanted}",
            f"edit partition {partition.name} in {file_of(system.name)}",
        )
        for field, (good, wanted) in expected.items()
        if not good
    ]
    values = f"slurm, {given.get('launcher')}, builtin, {slurm_partition(given.get('access'))}"
    return lines or [Line("ok", thing, values)]


def placeholders(partition: Partition, others: Sequence[System]) -> list[Line]:
    """Nodes that are still those of the system which this one was copied from."""
    nodes = set(hostlist.expand(partition.extras.nodes))
    for other in others:
        if any(nodes == set(hostlist.expand(p.extras.nodes)) for p in other.partitions):
            message = (
                f"{partition.extras.nodes} are those of {other.name} too: still to be filled in?"
            )
            return [Line("warning", f"{partition.name}: nodes", message, "scontrol show partition")]
    return []


def gate(name: str) -> list[Line]:
    """What the firmware gate of the system watches, and how much it may take away."""
    try:
        rules = gate_rules(name)
    except ConfigurationError as error:
        return [Line("problem", "gate", line) for line in str(error).splitlines()]
    message = f"holds at most {rules.max_hold} nodes in {rules.window_s} s"
    return [Line("ok", "gate", f"{message}, tests with {rules.partners} healthy ones")]
