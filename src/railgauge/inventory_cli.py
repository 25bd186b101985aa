"""`railgauge inventory`: what nodes are made of, and what has changed."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import click

from railgauge import campaign, hostlist, inventory, paths, session, systems
from railgauge.errors import (
    EXIT_ACCEPT,
    EXIT_REJECT,
    EXIT_USAGE,
    EnvironmentProblem,
    RailgaugeError,
)
from railgauge.inventory import Inventory
from railgauge.node.inventory import take
from railgauge.node.inventory.kinds import kind
from railgauge.node.rdma import natural
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes

#: So many jobs at once.
_AT_ONCE = 32

#: How long a node may be busy before its job gives up.
_QUEUE_S = 60


@click.group("inventory")
def group() -> None:
    """What nodes are made of and how they are set, and what of it has changed."""


@group.command()
@click.option("--system", help="The system, if this host does not tell (as RFM_SYSTEM).")
@click.option("--nodes", help="These nodes, as a host list, by a job each; else this host.")
@click.option("--quick", is_flag=True, help="What sysfs and /proc say; starts no tool.")
@click.option(
    "--fabric",
    "fabric_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What the site says of switches and NVSwitch trays; "
    "the default is configs/systems/<system>/fabric.json.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the documents, a line each.")
def show(
    system: str | None, nodes: str | None, quick: bool, fabric_file: Path | None, as_json: bool
) -> NoReturn:
    """Look at this host, or at NODES by one Slurm job each.

    Exit code: 0, or 3 where a node could not be asked.
    """
    failed: dict[str, str] = {}
    chosen = None
    if nodes is None:
        inventories = [inventory.load(json.dumps(take(quick)))]
    else:
        chosen = systems.chosen(system)
        session.use(chosen)
        inventories, failed = collect(chosen, _expanded(nodes), quick)
    fabric = _fabric(fabric_file, chosen)
    if fabric is not None:
        inventories = [fabric.beside(one) for one in inventories]
    for one in inventories:
        if as_json:
            click.echo(json.dumps(one.as_dict()))
        else:
            _print(one)
    for node, reason in failed.items():
        click.echo(f"railgauge: {node}: {reason}", err=True)
    sys.exit(EXIT_USAGE if failed else EXIT_ACCEPT)


def _expanded(nodes: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(nodes)
    except ValueError as error:
        raise RailgaugeError(f"--nodes {nodes}: {error}") from None


def _fabric(file: Path | None, system: str | None) -> inventory.FabricFile | None:
    if file is not None:
        return inventory.fabric(file)
    return inventory.fabric_of(system) if system else None


def collect(
    system: str, nodes: Iterable[str], quick: bool = False
) -> tuple[list[Inventory], dict[str, str]]:
    """The inventories of nodes by one Slurm job each, and why those missing are missing.

    The process must have been told of the system: session.use.
    """
    description = systems.load(system)
    access: dict[str, list[str]] = {}
    for partition in description.partitions:
        for node in partition.nodes:
            access.setdefault(node, list((partition.model_extra or {}).get("access", [])))
    wanted = list(nodes)
    strangers = [node for node in wanted if node not in access]
    if strangers:
        raise RailgaugeError(
            f"{hostlist.fold(strangers)} not in {system} ({hostlist.fold(access)})"
        )

    closed = _closed(wanted)

    def one(node: str) -> Inventory | RailgaugeError:
        if node in closed and not any(word.startswith("--reservation") for word in access[node]):
            return EnvironmentProblem(f"no job starts on it: {closed[node]}")
        try:
            printed = client.output(
                *("srun", "--quiet", "--nodes=1", "--ntasks=1", f"--nodelist={node}"),
                *("--overlap", f"--immediate={_QUEUE_S}", "--input=none", *access[node]),
                *("env", f"PYTHONPATH={paths.SOURCE}", "python3", "-m", "railgauge.node.inventory"),
                *(["--quick"] if quick else []),
                limit_s=2 * _QUEUE_S,
            )
            return inventory.load(printed, node)
        except RailgaugeError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(wanted, pool.map(one, wanted), strict=True))
    failed = {n: str(a) for n, a in answers.items() if isinstance(a, RailgaugeError)}
    return [a for a in answers.values() if isinstance(a, Inventory)], failed


def _closed(nodes: Sequence[str]) -> dict[str, str]:
    """Those of `nodes` on which Slurm starts no job of ours, and why: none has to wait for it."""
    try:
        states = slurm_nodes.show(nodes) if nodes else {}
    except client.SlurmProblem:
        # The job's own words will do.
        return {}
    invited = "SLURM_RESERVATION" in os.environ
    return {
        name: node.outside
        for name, node in states.items()
        if node.outside and not (invited and node.answers and not node.drained)
    }


def _print(one: Inventory) -> None:
    click.echo(
        f"{one.node}: {len(one.fields)} fields, {len(one.unknown)} unknown, fingerprint "
        f"{inventory.fingerprint(one)}, taken {one.taken} in {one.seconds:.2f} s"
    )
    for key in sorted(one.fields, key=natural):
        value = one.fields[key]
        text = value if isinstance(value, str) else json.dumps(value)
        click.echo(f"  {kind(key):<8}  {key} = {text}")
    for key in sorted(one.unknown, key=natural):
        click.echo(f"  unknown   {key}: {one.unknown[key]}")


@group.command("diff")
@click.argument("before")
@click.argument("after")
@click.option("--json", "as_json", is_flag=True, help="Print the changes as JSON.")
def diff(before: str, after: str, as_json: bool) -> NoReturn:
    """What differs from BEFORE to AFTER: files that `inventory show --json` wrote, or
    CAMPAIGN:NODE, with `latest` for the newest campaign.

    Exit code: 0 the same, 1 not the same, 3 one of them cannot be read.
    """
    changes = inventory.diff(_named(before), _named(after))
    if as_json:
        documents = [{**dataclasses.asdict(c), "kind": c.kind} for c in changes]
        click.echo(json.dumps(documents, indent=2))
    for change in [] if as_json else changes:
        click.echo(f"{change.kind:<8}  {change}")
    if not changes and not as_json:
        click.echo("no field differs")
    sys.exit(EXIT_REJECT if changes else EXIT_ACCEPT)


def _named(name: str) -> Inventory:
    """The inventory in a file, or of a node in a campaign."""
    identifier, colon, node = name.rpartition(":")
    if not colon or Path(name).exists():
        return inventory.read(Path(name))
    folder = campaign.load(identifier)
    inventories = inventory.in_campaign(folder)
    if node not in inventories:
        raise RailgaugeError(
            f"campaign {folder.id} has no inventory of {node}; it has "
            f"{hostlist.fold(inventories) if inventories else 'none'}",
            next_step=f"railgauge inventory diff {shlex.quote(folder.id)}:NODE FILE",
        )
    return inventories[node]
