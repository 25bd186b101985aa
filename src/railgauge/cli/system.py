"""`railgauge system ...`"""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import click

from railgauge import systems
from railgauge.acceptance import request, session
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import EXIT_ACCEPT, EXIT_REJECT, PrerequisiteError, RailgaugeError
from railgauge.fabric import folder as folders
from railgauge.fabric.folder import Fabric
from railgauge.model.record import Listed
from railgauge.site import check as checking
from railgauge.site import detect as detecting
from railgauge.site import from_subnet, mapping, propose, templates
from railgauge.site import new as making
from railgauge.site import run as running
from railgauge.site.check.line import failed, summary
from railgauge.site.detect import Seen, Value
from railgauge.slurm import client
from railgauge.slurm.partitions import Cluster, cluster
from railgauge.systems.rdma import MOST_GBITS


@click.group()
def system() -> None:
    """Describe your own cluster, and check its description."""


@system.command()
@click.argument("name")
@click.option("--run", "with_jobs", is_flag=True, help="Ask the nodes too, by small jobs.")
@json_option("system-check")
def check(name: str, with_jobs: bool, as_json: bool) -> NoReturn:
    """Check the folder configs/systems/NAME and the references of NAME.

    Prints a line for each thing checked, then the number of problems. It queries Slurm and starts
    no job.

    With --run, type it on a login node of NAME. Three small jobs a partition check on idle nodes
    what an acceptance needs: jobs start; nodes read this checkout and write to the results area;
    Python, names, clocks and tools fit; Slurm gives whole nodes with all memory for the time that
    measuring takes; MPI starts. It also checks accounting, and the rights of the gate.

    Exit code: 0 no problems; 1 problems; 3 wrong usage.
    """
    named_by = os.environ.get("RFM_SYSTEM", "").partition(":")[0]
    if systems.is_of_lab(name):
        # Its Slurm answers by commands of its own.
        session.use(name)
        named_by = name
        if with_jobs:
            session.enter_lab_mounts(name)
    host = socket.gethostname()
    lines = checking.check(name, client.output, host, named_by)
    if with_jobs and not checking.broken(lines):
        owner = checking.owner(name, host, named_by)
        lines += running.lines(name, owner, () if owner else _planned(name))
    elif checking.slurm_answered(lines):
        lines.append(running.accounting())
    if as_json:
        documents = [dataclasses.asdict(line) for line in lines]
        print_json({"system": name, "problems": failed(lines), "lines": documents})
    else:
        for line in lines:
            click.echo(str(line))
        click.echo(summary(name, lines))
    sys.exit(EXIT_REJECT if failed(lines) else EXIT_ACCEPT)


def _planned(name: str) -> Sequence[Listed]:
    """The cases of an acceptance; none where ReFrame lists none, which the other lines explain."""
    try:
        session.use(name)
        return request.plan(name, request.scope(name, None, None), None, "acceptance", [])
    except RailgaugeError:
        return ()


@system.command()
@click.argument("name", required=False)
@click.option("--like", help="What to begin with: a template (tcp, roce), or a system (dgx-h100).")
@click.option("--list", "list_only", is_flag=True, help="Say what there is to begin with.")
@click.option("--from-slurm", is_flag=True, help="Take partitions, nodes and GPUs from Slurm.")
@click.option(
    "--detect",
    is_flag=True,
    help="Take links, rates, MTU, RDMA ports and GPUs from the nodes, by one job a partition, and "
    "leaves and cables from the InfiniBand subnet, where a node may read it; with it goes "
    "--from-slurm.",
)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="[P=]SLURM_PARTITION",
    help="Which of Slurm's partitions to describe; like a system, which of them P is. More than "
    "once for several.",
)
@click.option("--access", multiple=True, help="What jobs need: --access --account=NAME.")
@click.option("--link-gbits", type=float, help="Raw rate of the link that TCP takes, in Gb/s.")
@click.option("--mtu-bytes", type=int, help="MTU of that link.")
@click.option(
    "--subnet",
    "subnet_folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Take leaves, switch ports and the expected cables from an InfiniBand subnet, as "
    "`railgauge fabric show --save FOLDER` has kept it.",
)
def new(
    name: str | None,
    like: str | None,
    list_only: bool,
    from_slurm: bool,
    detect: bool,
    partitions: tuple[str, ...],
    access: tuple[str, ...],
    link_gbits: float | None,
    mtu_bytes: int | None,
    subnet_folder: Path | None,
) -> None:
    """Begin configs/systems/NAME and results/references/NAME.yaml.

    From a template, which holds nothing of anybody's machine, or from a system: its fabric and its
    published numbers are taken over; baselines, ratios, tuning and recordings are not. The login
    node is this host. Without NAME, and without --like, says what there is, and what fits.

    Exit code: 0 made, 3 not made, and nothing left behind.
    """
    if list_only or name is None or like is None:
        _show(name, detect, partitions, access)
        if (name is not None or like is not None) and not list_only:
            raise RailgaugeError(
                f"nothing was made: {'NAME' if name is None else '--like'} is not given",
                next_step=f"railgauge system new {name or 'NAME'} --like {like or 'ONE_OF_THESE'}",
            )
        return
    making.require_new(name, like)
    stated: dict[str, Value] = {}
    if link_gbits is not None:
        stated["link_gbits"] = _positive("--link-gbits", link_gbits, MOST_GBITS)
    if mtu_bytes is not None:
        stated["mtu_bytes"] = int(_positive("--mtu-bytes", mtu_bytes))
    subnet = folders.from_folder(subnet_folder) if subnet_folder is not None else None
    begin = _from_template if like in templates.names() else _like_system
    host = socket.gethostname()
    lines = begin(name, like, host, from_slurm, detect, partitions, access, stated, subnet)
    for line in lines:
        click.echo(line)


def _positive(option: str, number: float, most: float = sys.float_info.max) -> float:
    if number > most:
        raise RailgaugeError(
            f"{option} is {number:g}, expected at most {most:,}, as it is in Gb/s",
            next_step=f"the same command with {option} 400 for 400 Gb/s, or without it",
        )
    if not 0 < number < float("inf"):
        example = "9000" if option == "--mtu-bytes" else "400"
        raise RailgaugeError(
            f"{option} is {number}, expected a number above 0",
            next_step=f"the same command with {option} {example}, or without it",
        )
    return int(number) if number == int(number) else number


def _from_template(
    name: str,
    template: str,
    host: str,
    from_slurm: bool,
    detect: bool,
    partitions: tuple[str, ...],
    access: tuple[str, ...],
    stated: dict[str, Value],
    subnet: Fabric | None,
) -> list[str]:
    if not (from_slurm or detect):
        _refuse_without_slurm(name, template, partitions, access, stated)
        return making.make_from_template(name, template, host, (), (), subnet)
    known = _ask_slurm(name, template)
    wanted = [option.partition("=")[2] or option for option in partitions]
    described, notes = templates.partitions(known, wanted, access, stated)
    if detect:
        seen = []
        for number, partition in enumerate(described):
            seen.append(detecting.look(partition.slurm_partition, known, access, client.output))
            described[number] = templates.seen(partition, seen[-1])
            notes.append(f"{partition.name}: seen on {seen[-1]}")
        subnet = _subnet(subnet, seen, access, notes)
    return making.make_from_template(name, template, host, described, notes, subnet)


def _like_system(
    name: str,
    like: str,
    host: str,
    from_slurm: bool,
    detect: bool,
    partitions: tuple[str, ...],
    access: tuple[str, ...],
    stated: dict[str, Value],
    subnet: Fabric | None,
) -> list[str]:
    choices = mapping.chosen(partitions)
    if not (from_slurm or detect):
        _refuse_without_slurm(name, like, partitions, access, stated)
        return making.make(name, like, host, None, choices, subnet=subnet)
    known = _ask_slurm(name, like)
    used = mapping.mapped(systems.load(like), known, choices)
    theirs = dict.fromkeys(one.slurm_partition for one in used.values())
    seen = [detecting.look(p, known, access, client.output) for p in theirs] if detect else []
    filled = dict.fromkeys(theirs, stated) | {s.partition: {**s.values, **stated} for s in seen}
    notes = [f"compare with reframe.yaml: seen on {shown}" for shown in seen]
    subnet = _subnet(subnet, seen, access, notes) if detect else subnet
    lines = making.make(name, like, host, known, choices, filled, access, subnet)
    return [*notes, *lines]


def _subnet(
    given: Fabric | None, seen: Sequence[Seen], access: Sequence[str], notes: list[str]
) -> Fabric | None:
    """The subnet that is given, else as the nodes read it, with a note."""
    if given is not None:
        return given
    subnet, lines = from_subnet.read(seen, access, client.output)
    notes += lines
    return subnet


def _refuse_without_slurm(
    name: str,
    like: str,
    partitions: tuple[str, ...],
    access: tuple[str, ...],
    stated: Mapping[str, Value],
) -> None:
    given = [*(["access"] if access else []), *stated]
    if given:
        option = f"--{given[0].replace('_', '-')}"
        raise RailgaugeError(
            f"{option} is of the partitions that Slurm has, and needs --from-slurm or --detect",
            next_step=f"railgauge system new {name} --like {like}, then `{given[0]}` in "
            f"configs/systems/{name}/reframe.yaml; or the same command with --from-slurm",
        )
    if partitions:
        raise RailgaugeError(
            "--partition says which of Slurm's partitions to read, and needs --from-slurm",
            next_step=f"railgauge system new {name} --like {like} --from-slurm "
            + " ".join(f"--partition {choice}" for choice in partitions),
        )


def _ask_slurm(name: str, like: str) -> Cluster:
    try:
        return cluster(client.output)
    except PrerequisiteError as error:
        raise PrerequisiteError(
            f"nothing was made: {error.message}",
            next_step=f"on a login node, or without it: railgauge system new {name} --like {like}",
        ) from None


def _show(
    name: str | None, detect: bool, partitions: tuple[str, ...], access: tuple[str, ...]
) -> None:
    """What there is to begin with, and what fits, where a Slurm can be asked."""
    for line in propose.listing():
        click.echo(line)
    named = name or "NAME"
    try:
        known = cluster(client.output)
    except PrerequisiteError as error:
        if detect:
            raise
        click.echo(f"no proposal: {error.message}")
        click.echo(f"next: railgauge system new {named} --like ONE_OF_THESE")
        return
    wanted = [option.partition("=")[2] or option for option in partitions]
    described, notes = templates.partitions(known, wanted, access, {})
    seen = []
    for partition in described:
        of_slurm = partition.slurm_partition
        notes.append(f"{partition.name}: Slurm's partition {of_slurm}, {partition.nodes}")
        if detect:
            seen.append(detecting.look(of_slurm, known, access, client.output))
            notes.append(f"{partition.name}: seen on {seen[-1]}")
    like, why = propose.proposal(known, seen)
    for line in (*notes, f"proposed: --like {like}: {why}"):
        click.echo(line)
    click.echo(f"next: railgauge system new {named} --like {like} --detect")
