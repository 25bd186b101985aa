"""`railgauge system check`: is a system's folder, with its references, what it must be?

Nothing runs but two questions to Slurm. What the checks in reframe/ need of a partition, they say
themselves (`railgauge.checks.framework.cases`).
"""

from __future__ import annotations

from collections.abc import Sequence

from railgauge import paths, systems
from railgauge.common.errors import ConfigurationError
from railgauge.site import shown
from railgauge.site.check import checks, description, fragments, hostnames, in_slurm, stored
from railgauge.site.check.line import Line
from railgauge.slurm.partitions import Run


def check(name: str, ask: Run, host: str, named_by: str = "") -> list[Line]:
    """Everything about the system `name`, as seen from `host`.

    `named_by` is the system that the environment names (RFM_SYSTEM), which says which Slurm `ask`
    reaches where the host does not. ConfigurationError where there is no such system.
    """
    if name not in systems.known():
        raise ConfigurationError(
            f"{shown(paths.SYSTEMS / name / 'reframe.yaml')}: no such file; there is: "
            f"{', '.join(systems.known())}",
            next_step=f"name one of these, or: railgauge system new {name}",
        )
    try:
        system = systems.load(name)
    except ConfigurationError as error:
        lines = [Line("problem", "description", line) for line in str(error).splitlines()]
        return [*lines, Line("not checked", "everything else", "it follows from the description")]
    others, broken = description.others(name)
    lines = [*description.whole(system), *broken, *hostnames.lines(system, others, host)]
    known, broken = checks.known(paths.CHECKS)
    lines += broken
    for partition in system.partitions:
        lines += description.fields(system, partition)
        lines += description.rates(system, partition)
        lines += checks.features(partition, known)
        if not systems.is_of_lab(name):  # its nodes are made to its description
            lines += description.placeholders(partition, others)
    numbers, broken = stored.lines(system, known)
    lines += broken
    for partition in system.partitions:
        lines += checks.required(partition, known, numbers)
        lines += checks.left_out(partition, known)
    lines += checks.expected_state(system, known)
    lines += fragments.lines(system)
    lines += description.gate(name)
    lines += in_slurm.lines(system, others, ask, host, named_by)
    return lines


def owner(name: str, host: str, named_by: str) -> str:
    """The other system that this host, and so its Slurm, is of; "" where it may be `name`'s."""
    others, _ = description.others(name)
    return hostnames.owner(systems.load(name), others, host, named_by)


def broken(lines: Sequence[Line]) -> bool:
    """Whether the description itself does not load."""
    return any(line.thing == "everything else" for line in lines)


def slurm_answered(lines: Sequence[Line]) -> bool:
    """Whether this host's Slurm is the system's, and has answered."""
    return any(line.thing.endswith(": nodes in Slurm") for line in lines)
