"""What a new system can be like: every template and system with a line, and the one that fits."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from railgauge import systems
from railgauge.common.errors import ConfigurationError
from railgauge.site import templates
from railgauge.site.detect import Seen
from railgauge.slurm.nodes import gpus_in
from railgauge.slurm.partitions import Cluster
from railgauge.systems import System


def listing() -> list[str]:
    """A line for each template, then for each system."""
    lines = ["templates, which hold nothing of anybody's machines:"]
    lines += [f"  {name:<14} {_descr(templates.load(name))}" for name in templates.names()]
    lines += ["systems that are described, with published numbers:"]
    for name in systems.known():
        # One that is broken is what `system check` reports.
        with contextlib.suppress(ConfigurationError):
            lines.append(f"  {name:<14} {_descr(systems.load(name))}")
    return lines


def _descr(system: System) -> str:
    return str((system.model_extra or {}).get("descr", ""))


def proposal(slurm: Cluster, seen: Sequence[Seen] = ()) -> tuple[str, str]:
    """The template or system that fits a cluster best, and why.

    By what its nodes show, where they were asked; else by what Slurm says of them.
    """
    for shown in seen:
        count, model = shown.values.get("gpus"), str(shown.values.get("gpu", ""))
        if count:
            like = _with_gpus(model, int(str(count)))
            why = f"{count} GPUs a node ({model or 'of an unknown model'})"
            return (like, why) if like else ("tcp", f"{why}, and no system with such is described")
    if any(s.values.get("devices") and s.values.get("link_layer") == "Ethernet" for s in seen):
        return "roce", "there are RDMA ports over Ethernet, and no GPUs"
    if seen:
        return "tcp", "there are no GPUs, and no RDMA ports over Ethernet"
    for node in slurm.nodes.values():
        with contextlib.suppress(ValueError):
            count = gpus_in(node.gres)
            if count:
                why = f"Slurm has {count} GPUs on {node.name} ({node.gres})"
                like = _with_gpus(f"{node.gres} {node.features}", count)
                reason = f"{why}, and no system with such is described"
                return (like, why) if like else ("tcp", reason)
    return "tcp", "Slurm has no GPUs; --detect finds out whether there is RDMA"


def _with_gpus(model: str, count: int) -> str:
    """The system of the GPUs that a node or Slurm names: H100, GB200; "" for none.

    Of several the one with as many of them a node.
    """
    fitting: dict[str, int] = {}
    for name in systems.known():
        with contextlib.suppress(ConfigurationError):
            for partition in systems.load(name).partitions:
                fabric = partition.extras.nccl
                # NVIDIA H100 80GB HBM3: the word after the maker's.
                words = fabric.gpu.split() if fabric else []
                if fabric and len(words) > 1 and words[1].lower() in model.lower():
                    fitting[name] = fabric.gpus_per_node
    return min(fitting, key=lambda name: (fitting[name] != count, name), default="")
