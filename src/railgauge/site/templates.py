"""The templates in `configs/templates/`: what is true of a class of network, and of no machine.

A template is a folder as one of `configs/systems/`, with one partition, which stands for as many as
Slurm has. What is filled in replaces the value on its line; comments stay.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from railgauge import hostlist, paths
from railgauge.common.errors import RailgaugeError
from railgauge.site import host_pattern
from railgauge.site.detect import Seen, Value, shown
from railgauge.slurm.partitions import Cluster
from railgauge.systems import System
from railgauge.yamlfile import load_model

#: Behind a value that is not filled in yet.
PLACEHOLDER = "# a placeholder: fill in"

#: Fields that a description may lack; all others have a value, if only a placeholder.
_OPTIONAL = ("mtu_bytes", "link_gbits", "line_gbits", "names")

#: What is filled in from the nodes, where the template has it.
_FILLED = (
    *_OPTIONAL,
    *("devices", "rails", "link_layer", "active_mtu_bytes", "rate", "gid_type"),
)


def names() -> list[str]:
    return sorted(path.parent.name for path in paths.TEMPLATES.glob("*/reframe.yaml"))


def load(name: str) -> System:
    """The template as a system; ConfigurationError with file, line and field."""
    return load_model(paths.TEMPLATES / name / "reframe.yaml", System)


@dataclasses.dataclass(frozen=True)
class DescribedPartition:
    """A partition to be described: Slurm's, with what is known of its nodes."""

    slurm_partition: str
    nodes: str
    #: what srun and sbatch need besides the partition: an account, a QOS
    access: tuple[str, ...] = ()
    values: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    #: why a field has no value
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name to ReFrame: letters, digits, hyphens and underscores."""
        return re.sub("[^A-Za-z0-9_-]", "-", self.slurm_partition)


def partitions(
    slurm: Cluster, wanted: Sequence[str], access: Sequence[str], stated: Mapping[str, Value]
) -> tuple[list[DescribedPartition], list[str]]:
    """Slurm's partitions to describe, and a note on each of the others.

    Those that are `wanted`; else all that have nodes of their own, the largest first, as a node
    that two partitions describe would be measured twice. RailgaugeError where one of `wanted` is
    not there, or where partitions overlap.
    """
    peopled = {name: set(nodes) for name, nodes in slurm.partitions.items() if nodes}
    unknown = [name for name in wanted if name not in peopled]
    if unknown or not peopled:
        raise RailgaugeError(
            f"Slurm has no partition {', '.join(unknown) or 'with nodes'}: it has "
            f"{slurm.describe()}",
            next_step="--partition ONE_OF_THESE",
        )
    lines = []
    chosen: list[str] = []
    for name in wanted or sorted(peopled, key=lambda name: -len(peopled[name])):
        others = [other for other in chosen if peopled[other] & peopled[name]]
        within = next((other for other in others if peopled[name] <= peopled[other]), None)
        if within and not wanted:
            lines.append(f"not described: Slurm's partition {name}: {within} has its nodes too")
        elif others:
            both = hostlist.fold(peopled[others[0]] & peopled[name])
            raise RailgaugeError(
                f"{both} in Slurm's partitions {others[0]} and {name}: described twice, they would "
                "be measured twice",
                next_step=f"--partition {others[0]}, or --partition {name}",
            )
        else:
            chosen.append(name)
    order = [name for name in slurm.partitions if name in chosen]
    return [
        DescribedPartition(name, hostlist.fold(slurm.partitions[name]), tuple(access), stated)
        for name in order
    ], lines


def seen(partition: DescribedPartition, show: Seen) -> DescribedPartition:
    """The partition with what its nodes show; what was stated stays."""
    missing = {name: why for name, why in show.missing.items() if name not in partition.values}
    return dataclasses.replace(
        partition,
        values={**show.values, **partition.values},
        missing={**partition.missing, **missing},
    )


def description(
    template: str, name: str, host: str, described: Sequence[DescribedPartition]
) -> str:
    """The text of reframe.yaml for the system `name` with the login node `host`."""
    text = (paths.TEMPLATES / template / "reframe.yaml").read_text(encoding="utf-8")
    head, begin, body = text.partition("  - name: ")
    head = _with(head, "name", name)
    head = _with(head, "hostnames", f"['{host_pattern(host)}']")
    if not described:
        # There is no Slurm to ask: placeholders all of it.
        unknown = begin + body
        for field in ("access", "nodes", *_FILLED):
            unknown = _open(unknown, field, "")
        return head + unknown
    return head + "".join(_partition(begin + body, partition) for partition in described)


def _with(text: str, field: str, value: str) -> str:
    return re.sub(rf"(?m)^([ -]*{field}: ).*$", lambda line: line[1] + value, text, count=1)


def _partition(text: str, partition: DescribedPartition) -> str:
    access = ", ".join([f"--partition={partition.slurm_partition}", *partition.access])
    text = _with(text, "name", partition.name)
    text = _with(text, "access", f"[{access}]")
    text = _with(text, "nodes", partition.nodes)
    for field in _FILLED:
        if field in partition.values:
            text = _with(text, field, shown(partition.values[field]))
        else:
            text = _open(text, field, partition.missing.get(field, "not stated"))
    return text


def _open(text: str, field: str, why: str) -> str:
    """A field without a known value: left out where it may be, else marked."""
    pattern = rf"(?m)^( *)({field}: .*)$"
    if field in _OPTIONAL:
        return re.sub(pattern, lambda line: f"{line[1]}# fill in: {line[2]}", text, count=1)
    return re.sub(pattern, lambda line: f"{line[0]}  {PLACEHOLDER}", text, count=1)


def open_fields(template: str, described: Sequence[DescribedPartition]) -> Iterator[str]:
    """What has no value, by partition, and why."""
    text = (paths.TEMPLATES / template / "reframe.yaml").read_text(encoding="utf-8")
    wanted = [field for field in _FILLED if re.search(rf"(?m)^ *{field}: ", text)]
    for partition in described:
        for field in wanted:
            if field not in partition.values:
                why = partition.missing.get(field, "not stated, and no node was asked (--detect)")
                yield f"{partition.name}: {field} is open: {why}"


def files(template: str) -> Iterator[Path]:
    """The other files of a template, which a system takes over as they are."""
    for path in sorted((paths.TEMPLATES / template).iterdir()):
        if path.name != "reframe.yaml" and path.suffix == ".yaml":
            yield path
