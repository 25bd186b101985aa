"""`railgauge inventory`: what nodes are made of, and what has changed."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import NoReturn

import click

from railgauge import hostlist, systems
from railgauge.acceptance import session
from railgauge.campaign import folder as campaign
from railgauge.campaign.inventories import in_campaign
from railgauge.cli.output import json_option, print_json
from railgauge.cluster import inventories
from railgauge.common.errors import EXIT_ACCEPT, EXIT_REJECT, EXIT_USAGE, RailgaugeError
from railgauge.common.names import natural
from railgauge.model import inventory
from railgauge.model.inventory import Inventory
from railgauge.node.inventory.document import take
from railgauge.node.inventory.kinds import kind


@click.group("inventory")
def group() -> None:
    """What nodes are made of and how they are set, and what of it has changed."""


@group.command()
@click.option("--system", help="The system, if this host does not show it (as RFM_SYSTEM).")
@click.option("--nodes", help="These nodes, as a host list, by a job each; else this host.")
@click.option("--quick", is_flag=True, help="What sysfs and /proc say; starts no tool.")
@click.option(
    "--fabric",
    "fabric_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What the site says of switches and NVSwitch trays; "
    "the default is configs/systems/<system>/fabric.json.",
)
@json_option("inventory")
def show(
    system: str | None, nodes: str | None, quick: bool, fabric_file: Path | None, as_json: bool
) -> NoReturn:
    """Look at this host, or at NODES by one Slurm job each.

    Exit code: 0, or 3 where a node could not be asked.
    """
    failed: dict[str, str] = {}
    chosen = None
    if nodes is None:
        taken = [inventory.load(json.dumps(take(quick)))]
    else:
        chosen = systems.chosen(system)
        session.use(chosen)
        taken, failed = inventories.collect(chosen, _expanded(nodes), quick)
    fabric = inventory.fabric_of(chosen) if chosen and fabric_file is None else None
    if fabric_file is not None:
        fabric = inventory.fabric(fabric_file)
    if fabric is not None:
        taken = [fabric.beside(one) for one in taken]
    for one in taken:
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
        raise RailgaugeError(
            f"--nodes {nodes}: {error}", next_step="--nodes 'n[1-4]', with names of yours"
        ) from None


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
@json_option("inventory-diff")
def diff(before: str, after: str, as_json: bool) -> NoReturn:
    """What differs from BEFORE to AFTER: files that `inventory show --json` wrote, or
    CAMPAIGN:NODE, with `latest` for the newest campaign.

    Exit code: 0 the same, 1 not the same, 3 one of them cannot be read.
    """
    changes = inventory.diff(_named(before), _named(after))
    if as_json:
        documents = [{**dataclasses.asdict(c), "kind": c.kind} for c in changes]
        print_json(documents)
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
    inventories = in_campaign(folder)
    if node not in inventories:
        raise RailgaugeError(
            f"campaign {folder.id} has no inventory of {node}; it has "
            f"{hostlist.fold(inventories) if inventories else 'none'}",
            next_step=f"railgauge inventory diff {shlex.quote(folder.id)}:NODE FILE",
        )
    return inventories[node]
