"""`railgauge lab ...`"""

from __future__ import annotations

import csv
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from railgauge import hostlist, systems, terminal
from railgauge.cli.numbers import Number
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.lab import (
    SYSTEM,
    fault_kinds,
    faults,
    releases,
    routes,
    spec,
    switches,
    system_in,
    uplinks,
)
from railgauge.lab.cluster import Lab
from railgauge.lab.fault import Fault
from railgauge.lab.nodes import VM
from railgauge.model.routes import Route
from railgauge.model.uplinks import carried, document, shares

#: More nodes than these are told as host lists.
_NAMED_ONE_BY_ONE = 8


def open_lab(
    release: str | None = None, file: Path | None = None, system: str | None = None
) -> Lab:
    """The lab that is up in this checkout's folder; else one of `release` for `system` (the system
    `lab`), as its `lab.yaml` or `file` describes it. PrerequisiteError where another than asked
    for is up.
    """
    if system and not systems.is_of_lab(system):
        raise RailgaugeError(
            f"the lab cannot be system {system!r}: configs/systems/{system}/ has no lab.yaml; it "
            f"can be {', '.join(name for name in systems.names() if systems.is_of_lab(name))}"
        )
    name = system or SYSTEM
    wanted = _described(
        name,
        spec.load(file or spec.file(name)),
        releases.named(release) if release else releases.DEFAULT,
    )
    recorded = system_in(wanted.folders.lab)
    # One whose record somebody removed can still be taken down.
    if recorded is None or not wanted.is_recorded:
        return wanted
    running = _described(recorded, wanted.recorded_spec(), wanted.recorded_release())
    if system and running.system != system:
        raise _another(running, f"of system {running.system}, not {system}")
    if release and running.release != wanted.release:
        raise _another(running, f"{running.release.name}, not {wanted.release.name}")
    if file and running.spec != wanted.spec:
        raise _another(running, f"another than {file}")
    return running


def _described(system: str, described: spec.LabSpec, release: releases.Release) -> Lab:
    partitions = systems.load(system).partitions
    hypervisors = {
        node: one.host
        for partition in partitions
        if partition.extras.contention
        for node, one in partition.extras.contention.hypervisors.items()
    }
    hostlists = {partition.name: partition.extras.nodes for partition in partitions}
    return Lab(described, hostlists, release=release, system=system, hypervisors=hypervisors)


def _another(running: Lab, how: str) -> PrerequisiteError:
    return PrerequisiteError(
        f"the lab that is up in {running.folders.lab} is {how}",
        next_step="railgauge lab down, then again",
    )


class _Timed:
    """Says each step with the seconds since the first; `last` is what goes on."""

    def __init__(self) -> None:
        self.last = ""
        self._start = time.monotonic()

    def __call__(self, line: str) -> None:
        self.last = line
        click.echo(f"[{time.monotonic() - self._start:5.1f} s] {line}")


@click.group()
def lab() -> None:
    """The embedded cluster: a real Slurm on this one machine."""


@lab.command()
@click.option(
    "--nodes",
    help="Start these nodes, in addition to the running ones: n[1-4] needs no QEMU. Default: all.",
)
@click.option(
    "--system",
    metavar="NAME",
    help="The system of the lab, one with a lab.yaml, such as lab32, which has 32 nodes on leaves "
    f"and spines. Default: {SYSTEM}.",
)
@click.option(
    "--release",
    type=click.Choice(list(releases.RELEASES)),
    help="The Debian release that its machines are made from, and with it the versions of Slurm "
    f"and the tools. Default: {releases.DEFAULT.name}. VM nodes: only on "
    + ", ".join(name for name, each in releases.RELEASES.items() if each.vm_nodes)
    + ".",
)
@click.option(
    "--spec",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Another cluster than configs/systems/lab/lab.yaml, in the same form.",
)
def up(nodes: str | None, system: str | None, release: str | None, file: Path | None) -> None:
    """Start the lab, add nodes to it, or restart what died in it."""
    if system and file:
        raise RailgaugeError("--system and --spec both say what the lab is: name one")
    cluster, say = open_lab(release, file, system), _Timed()
    try:
        wanted = hostlist.expand(nodes) if nodes else None
    except ValueError as error:
        raise RailgaugeError(f"--nodes {nodes}: {error}") from None
    with terminal.moving(lambda: f"lab up: {say.last}"):
        cluster.up(say, nodes=wanted)
    states = cluster.node_states()
    say("up: " + ", ".join(_folded({node.name: states[node.name] for node in cluster.in_use()})))
    active = faults.active(cluster)
    if active:
        say("faults in place: " + "; ".join(map(str, active)))
    _say_kept_out(cluster)


def _folded(states: Mapping[str, str]) -> list[str]:
    """`n1 idle` for each node, or of many nodes `n[1-32] idle` for each state."""
    if len(states) <= _NAMED_ONE_BY_ONE:
        return [f"{name} {state}" for name, state in states.items()]
    alike: dict[str, list[str]] = {}
    for name, state in states.items():
        alike.setdefault(state, []).append(name)
    return [f"{hostlist.fold(names)} {state}" for state, names in alike.items()]


def _say_kept_out(cluster: Lab) -> None:
    for name, why in cluster.kept_out().items():
        click.echo(f"{name} is {why}; what the lab does not undo: scontrol show node {name}")


@lab.command()
def down() -> None:
    """Stop the lab. The image stays, so that the next `up` is quick."""
    click.echo("the lab is down" if open_lab().down() else "the lab was not up")


@lab.command()
@json_option("lab-status")
def status(as_json: bool) -> None:
    """Machines, services, Slurm's view of the nodes, and faults in place."""
    cluster = open_lab()
    cluster.require_up()
    states = cluster.node_states() if cluster.machine(cluster.spec.head.name) else {}
    if as_json:
        print_json(_status(cluster, states))
        return
    for node in cluster.spec.all_nodes():
        power = "on" if cluster.machine(node.name) else "off"
        state = states.get(node.name, "unknown")
        leaf = f"  {node.leaf}" if node.leaf else ""
        click.echo(f"{node.name:<8} {node.kind:<10} {node.address:<14} {power:<4} {state}{leaf}")
    for switch in cluster.spec.all_switches():
        power = "on" if cluster.machine(switch.name) else "off"
        subnet, nodes = switch.subnet or "", hostlist.fold(cluster.spec.nodes_of(switch.name))
        line = f"{switch.name:<8} {switch.kind:<10} {subnet!s:<14} {power:<4} {nodes}"
        click.echo(line.rstrip())
    if states:
        for service in cluster.services:
            running = "running" if cluster.service_runs(service) else "not running"
            click.echo(f"{cluster.spec.head.name:<8} {service:<10} {running}")
    for fault in faults.active(cluster):
        click.echo(f"fault    {_line_of(cluster, fault)}")


def _status(cluster: Lab, states: Mapping[str, str]) -> dict[str, Any]:
    services = cluster.services if states else ()
    return {
        "system": cluster.system,
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "address": str(node.address),
                "power": cluster.machine(node.name) is not None,
                "state": states.get(node.name),
                "leaf": node.leaf,
            }
            for node in cluster.spec.all_nodes()
        ],
        "switches": [
            {
                "name": switch.name,
                "kind": switch.kind,
                "power": cluster.machine(switch.name) is not None,
                "nodes": list(cluster.spec.nodes_of(switch.name)),
            }
            for switch in cluster.spec.all_switches()
        ],
        "services": {name: bool(cluster.service_runs(name)) for name in services},
        "faults": _faults(cluster),
    }


def _faults(cluster: Lab) -> list[dict[str, Any]]:
    return [
        {**dataclasses.asdict(one), "problem": fault_kinds.problem(cluster, one) or None}
        for one in faults.active(cluster)
    ]


@lab.command("uplinks")
@click.option("--seconds", type=Number(min=0.1), help="What goes over them in that time.")
@click.option(
    "--mode",
    type=click.Choice(list(switches.MODES)),
    help="Let the leaves spread what their nodes send so from now on: ecmp, flows by addresses and "
    "ports, as at first; ecmp-l3, by addresses alone; flowlet, parts of flows; packet, each to the "
    "next spine.",
)
@json_option("uplinks")
def show_uplinks(seconds: float | None, mode: str | None, as_json: bool) -> None:
    """Bytes that each leaf has sent to each spine and received from it, Jain's index of them, and
    what lossy uplinks lost on their way to the leaf.

    The index is 1 where a leaf's uplinks carried the same, 1/n where one of n carried all, 0 where
    nothing was carried.
    """
    cluster = open_lab()
    cluster.require_up()
    counted = uplinks.count(cluster)
    if not counted:
        raise RailgaugeError(
            "this lab has no leaves and spines", next_step="railgauge lab up --system lab32"
        )
    if mode is not None:
        switches.spread(cluster, mode)
    if seconds is not None:
        time.sleep(seconds)
        counted = carried(counted, uplinks.count(cluster))
    if as_json:
        click.echo(document(counted))
        return
    click.echo(f"{'leaf':<8} {'spine':<8} {'sent_bytes':>14} {'received_bytes':>14} {'errors':>8}")
    for one in counted:
        sent, received = one.sent_bytes, one.received_bytes
        click.echo(f"{one.leaf:<8} {one.spine:<8} {sent:>14} {received:>14} {one.errors:>8}")
    both = iter(shares(counted))
    for sent_by, received_by in zip(both, both, strict=True):
        sent_index, received_index = f"{sent_by.jain:.4f}", f"{received_by.jain:.4f}"
        click.echo(f"{sent_by.leaf:<8} {'balance':<8} {sent_index:>14} {received_index:>14}")


@lab.command("routes")
def show_routes() -> None:
    """The spine by which data of each node goes to each node of another leaf, as a table for
    `railgauge locate --routes`.

    It prints what always takes the same spine: nothing until `railgauge lab uplinks --mode
    ecmp-l3`.
    """
    cluster = open_lab()
    cluster.require_up()
    if found := routes.static(cluster):
        table = csv.writer(sys.stdout, lineterminator="\n")
        table.writerows([Route._fields, *found])


@lab.command()
@click.option(
    "--user", default="root", help="A user of the lab; the shell begins in its home folder."
)
def shell(user: str) -> NoReturn:
    """A shell on the login node, root's in this folder if the lab shares it.

    The login node has Slurm and the tools. `railgauge` and `reframe` run outside, on this host,
    and reach the lab's Slurm from there.
    """
    cluster = open_lab()
    head = cluster.spec.head.name
    cluster.require_machine(head)
    here = Path.cwd()
    inside = here if any(here.is_relative_to(folder) for folder in cluster.shared) else Path("/")
    command = cluster.enter(
        head,
        *("PS1=lab:\\w\\$ ", f"TERM={os.environ.get('TERM', 'dumb')}", "bash", "--norc", "-i"),
        workdir=inside if user == "root" else Path(cluster.user(user).folder),
        user=user,
    )
    os.execvp(command[0], command)


# What follows MACHINE is the command's: its -h too.
@lab.command("exec", context_settings={"allow_interspersed_args": False})
@click.option(
    "--user", default="root", help="A user of the lab; the shell begins in its home folder."
)
@click.argument("machine")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run_inside(user: str, machine: str, command: tuple[str, ...]) -> NoReturn:
    """Run COMMAND on MACHINE (the head or a node): railgauge lab exec n1 ip address"""
    cluster = open_lab()
    command = command[1:] if command[0] == "--" else command
    if machine != cluster.spec.head.name and cluster.member(machine).kind == "vm":
        outcome = VM.run(cluster, cluster.node(machine), list(command), timeout_s=600)
        click.echo(outcome.stdout, nl=False)
        click.echo(outcome.stderr, nl=False, err=True)
        sys.exit(outcome.returncode)
    home = None if user == "root" else Path(cluster.user(user).folder)
    inside = cluster.enter(machine, *command, workdir=home, user=user)
    sys.exit(subprocess.run(inside, check=False).returncode)


@lab.command()
@click.argument("name", required=False)
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come.")
def logs(name: str | None, follow: bool) -> NoReturn:
    """Show a log of the lab; without NAME, list them."""
    folder = open_lab().folders.log
    known = sorted(path.stem for path in folder.glob("*.log"))
    if name is None:
        click.echo("\n".join(known) if known else f"no logs in {folder}")
        sys.exit(0)
    if name not in known:
        raise RailgaugeError(f"no log {name!r}; there are: {', '.join(known) or 'none'}")
    os.execvp("tail", ["tail", "-n", "200", *(["-f"] if follow else []), f"{folder}/{name}.log"])


@lab.group()
def fault() -> None:
    """Add, list and clear real faults."""


@fault.command(
    "add",
    # A number may be below zero, and is told so.
    context_settings={"ignore_unknown_options": True},
    help="Put a fault in place.\n\n\b\n"
    + "\n".join(
        line
        for name, kind in fault_kinds.KINDS.items()
        for line in (f"{name} {kind.usage}".rstrip(), f"    {kind.description}")
    )
    + "\n\nWithout INTERFACE: eth0 on namespace nodes, eth1 (the first rail) on VMs.",
)
@click.argument("kind", metavar="KIND", type=click.Choice(list(fault_kinds.KINDS)))
@click.argument("words", nargs=-1, metavar="[PLACE] [VALUE]", type=click.UNPROCESSED)
@click.option("--process", help="A pattern of pgrep for the command lines of the processes.")
def add_fault(kind: str, words: tuple[str, ...], process: str | None) -> None:
    fault = faults.add_typed(open_lab(), kind, words, process)
    over = fault_kinds.KINDS[kind].clear is None
    click.echo(f"{'done' if over else 'in place'}: {fault}")


@fault.command("list")
@json_option("lab-faults")
def list_faults(as_json: bool) -> None:
    """The faults in place."""
    cluster = open_lab()
    cluster.require_up()
    if as_json:
        print_json(_faults(cluster))
        return
    for item in faults.active(cluster):
        click.echo(_line_of(cluster, item))


def _line_of(cluster: Lab, fault: Fault) -> str:
    problem = fault_kinds.problem(cluster, fault)
    return f"{fault}  ({problem})" if problem else str(fault)


@fault.command("clear")
@click.argument("machine", required=False)
def clear_faults(machine: str | None) -> None:
    """Clear the faults, all or those of one MACHINE, and wait until Slurm has its nodes back."""
    cluster = open_lab()
    cleared = faults.clear(cluster, machine)
    click.echo("cleared: " + ("; ".join(map(str, cleared)) if cleared else "nothing was in place"))
    _say_kept_out(cluster)
