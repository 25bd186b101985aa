"""`railgauge fabric`: an InfiniBand subnet, read, checked, compared, and used elsewhere."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from railgauge.cli.output import json_option, print_json
from railgauge.common.names import counted

if TYPE_CHECKING:
    from railgauge.fabric.findings import FabricFinding
    from railgauge.fabric.folder import Fabric

EXIT_FAULTS = 1

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


def _source(command: _Command) -> _Command:
    """Where the fabric is read from: saved outputs, or the subnet itself."""
    command = click.option(
        "--from",
        "folder",
        type=_FOLDER,
        help="A folder of saved outputs: ibnetdiscover, iblinkinfo, ... Else they are run here.",
    )(command)
    return click.option(
        "--device",
        default="",
        metavar="CA:PORT",
        help="The local port that the subnet is read by, as mlx5_0:1. Else the tools choose one.",
    )(command)


def _read(folder: Path | None, device: str, routes: bool = True) -> Fabric:
    from railgauge.fabric import asking
    from railgauge.fabric import folder as folders

    if folder is not None:
        return folders.from_folder(folder)
    return folders.from_texts(asking.ask(device, routes))


@click.group()
def fabric() -> None:
    """Show an InfiniBand subnet: its cables and faults, and its topology for the locator.

    Every command reads outputs that were saved in a folder (--from FOLDER), or runs ibnetdiscover,
    iblinkinfo, ibqueryerrors and dump_fts here, which needs access to /dev/infiniband/umad*.
    Nothing in the subnet is changed, and no counter is cleared.

    Exit code 0: no fault; 1: faults; 2: an input cannot be read.
    """


@fabric.command()
@_source
@click.option("--save", type=_FOLDER, help="Keep the outputs there, for --from.")
@json_option("fabric-show")
def show(folder: Path | None, device: str, save: Path | None, as_json: bool) -> None:
    """Show switches by level, hosts and the rates of links."""
    from railgauge.fabric import asking, summary
    from railgauge.fabric import folder as folders

    if folder is None:
        texts = asking.ask(device)
        if save is not None:
            asking.save(texts, save)
        read = folders.from_texts(texts)
    else:
        read = folders.from_folder(folder)
    if as_json:
        print_json(summary.document(read))
    else:
        click.echo("\n".join(summary.lines(read)))


@fabric.command()
@_source
@click.option("--write", type=_FILE, help="The file for --expected of `check`.")
@json_option("fabric-expect")
def expect(folder: Path | None, device: str, write: Path | None, as_json: bool) -> None:
    """Make the cabling that is there now the expected one: devices, cables, rates, firmware."""
    from railgauge.fabric import expected

    made = expected.of_fabric(_read(folder, device, routes=False))
    if write is not None:
        expected.write(made, write)
    if as_json:
        print_json(json.loads(made.text()))
    elif write is None:
        click.echo(made.text(), nl=False)
    else:
        click.echo(f"{write}: {len(made.devices)} devices, {len(made.cables)} cables")
        click.echo(f"  next: railgauge fabric check --expected {write}")


@fabric.command()
@_source
@click.option("--expected", "expected_file", type=_FILE, help="What `fabric expect` has written.")
@click.option(
    "--prometheus",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="For node_exporter's textfile collector: NAME.prom",
)
@json_option("fabric-check")
def check(
    folder: Path | None,
    device: str,
    expected_file: Path | None,
    prometheus: Path | None,
    as_json: bool,
) -> NoReturn:
    """Find missing, moved and slow cables, devices unlike their peers, and uneven routes."""
    from railgauge.fabric import check as checks
    from railgauge.fabric import expected

    wanted = expected.load(expected_file) if expected_file is not None else None
    read = _read(folder, device)
    found = checks.check(read, wanted)
    _conclude(read, found, checks.not_checked(read, wanted), as_json, prometheus)


@fabric.command()
@click.argument("before", type=_FOLDER)
@click.argument("after", type=_FOLDER)
@json_option("fabric-check")
def compare(before: Path, after: Path, as_json: bool) -> NoReturn:
    """Find what changed between two folders of saved outputs, counters among it."""
    from railgauge.fabric import compare as comparing
    from railgauge.fabric import folder as folders

    later = folders.from_folder(after)
    found, lacking = comparing.compare(folders.from_folder(before), later)
    _conclude(later, found, lacking, as_json, None)


def _conclude(
    read: Fabric,
    found: Sequence[FabricFinding],
    lacking: Sequence[str],
    as_json: bool,
    prometheus: Path | None,
) -> NoReturn:
    from railgauge.fabric import summary

    if prometheus is not None:
        text = summary.metrics(read, found)
        if str(prometheus) == "-":
            click.echo(text, nl=False)
        else:
            _write(prometheus, text)
    faults = sum(one.weight == "fault" for one in found)
    if as_json:
        print_json(
            {
                "faults": faults,
                "findings": [dataclasses.asdict(one) for one in found],
                "not_checked": list(lacking),
                "read": list(read.sources),
            }
        )
    elif prometheus is None or str(prometheus) != "-":
        for one in found:
            click.echo(f"{'' if one.weight == 'fault' else 'note: '}{one}\n  next: {one.next}")
        for words in lacking:
            click.echo(f"not checked: {words}")
        devices, cables = len(read.subnet.devices), len(read.subnet.cables)
        click.echo(f"{counted(faults, 'fault', 'no')} in {devices} devices, {cables} cables")
    sys.exit(EXIT_FAULTS if faults else 0)


def _write(path: Path, text: str) -> None:
    from railgauge.common.atomic import write_text
    from railgauge.fabric.folder import FabricError

    try:
        write_text(path, text)
    except OSError as error:
        raise FabricError(
            f"{path}: cannot be written: {error.strerror}", next_step="name another FILE"
        ) from None


@fabric.command()
@_source
@click.option("--write", type=_FILE, help="The file for --routes of `railgauge locate`.")
@json_option("fabric-routes")
def routes(folder: Path | None, device: str, write: Path | None, as_json: bool) -> None:
    """Write the forwarding tables for `railgauge locate --routes`: leaf, destination, spine."""
    from railgauge.fabric import routes as of_subnet
    from railgauge.fabric.folder import FabricError

    read = _read(folder, device)
    if read.tables is None:
        raise FabricError(
            "no forwarding tables were read, expected an output of dump_fts or opensm.fdbs",
            next_step="dump_fts > FOLDER/dump_fts.txt",
        )
    of_subnet.require_names(read.subnet)
    found = of_subnet.routes(read.subnet, read.tables)
    rows = "".join(f"{','.join(route)}\n" for route in found)
    text = f"leaf,destination,spine\n{rows}"
    if write is not None:
        _write(write, text)
    if as_json:
        print_json([route._asdict() for route in found])
    elif write is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"{write}: {len(found)} routes")
        click.echo(f"  next: railgauge locate latest --routes {write}")


@fabric.command()
@_source
@json_option("fabric-leaves")
def leaves(folder: Path | None, device: str, as_json: bool) -> None:
    """Print leaves and ports for a system's description: `extras` of a partition."""
    from railgauge import hostlist
    from railgauge.fabric import routes as of_subnet

    subnet = _read(folder, device, routes=False).subnet
    of_subnet.require_names(subnet)
    of_leaf = {leaf: hostlist.fold(hosts) for leaf, hosts in of_subnet.leaves(subnet).items()}
    ports = of_subnet.ports(subnet)
    if as_json:
        print_json({"leaves": of_leaf, "switch_ports": ports})
        return
    click.echo("extras:\n  leaves:")
    for leaf, hosts in of_leaf.items():
        click.echo(f"    {json.dumps(leaf)}: {json.dumps(hosts)}")
    click.echo("  switch_ports:")
    for host, of_rail in ports.items():
        shown = ", ".join(
            f"{json.dumps(rail)}: {json.dumps(port)}" for rail, port in of_rail.items()
        )
        click.echo(f"    {json.dumps(host)}: {{{shown}}}")


@fabric.command("slurm-topology")
@_source
@click.option(
    "--yaml", "as_yaml", is_flag=True, help="As topology.yaml, for Slurm 25.05 and later."
)
@click.option("--check", "present", type=_FILE, help="A topology.conf to check against the cables.")
@json_option("fabric-slurm-topology")
def slurm_topology(
    folder: Path | None, device: str, as_yaml: bool, present: Path | None, as_json: bool
) -> None:
    """Print Slurm's topology.conf as the cables are, or check the present one."""
    from railgauge import textfile
    from railgauge.fabric import routes as of_subnet
    from railgauge.fabric.folder import FabricError

    subnet = _read(folder, device, routes=False).subnet
    of_subnet.require_names(subnet)
    switches = of_subnet.slurm_switches(subnet)
    wrong = []
    if present is not None:
        try:
            text = textfile.read(present)
        except (OSError, UnicodeDecodeError) as error:
            raise FabricError(
                f"{present}: {getattr(error, 'strerror', None) or error}, expected a topology.conf",
                next_step="--check /etc/slurm/topology.conf",
            ) from None
        wrong = list(of_subnet.differences(subnet, of_subnet.leaves_of_conf(text)))
    if as_json:
        print_json(
            {
                "switches": [switch._asdict() for switch in switches],
                "differences": [
                    {"node": node, "cabled": cabled, "slurm": slurm}
                    for node, cabled, slurm in wrong
                ],
            }
        )
    elif present is not None:
        for node, cabled, slurm in wrong:
            click.echo(
                f"{node}: its cables lead to {cabled or 'no leaf'}, {present} has it on "
                f"{slurm or 'none'}"
            )
        click.echo("1 node differs" if len(wrong) == 1 else f"{len(wrong) or 'no'} nodes differ")
        if wrong:
            click.echo("  next: railgauge fabric slurm-topology > topology.conf")
    else:
        make = of_subnet.topology_yaml if as_yaml else of_subnet.topology_conf
        click.echo(make(switches), nl=False)
    if wrong:
        sys.exit(EXIT_FAULTS)
