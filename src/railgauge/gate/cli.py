"""`railgauge gate`: which nodes may take jobs, by what was last accepted of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import click

from railgauge import hostlist, session, systems
from railgauge.errors import EnvironmentProblem, RailgaugeError

_Answer = TypeVar("_Answer")
_Command = TypeVar("_Command", bound=Callable[..., None])


@click.group()
def gate() -> None:
    """Hold nodes whose firmware changed, test them, and return them or keep them out.

    Commands that change something only say what they would do, until they are given --act.
    """


def _options(nodes_help: str) -> Callable[[_Command], _Command]:
    def add(command: _Command) -> _Command:
        act = click.option("--act", is_flag=True, help="Do it; without it, only say so.")
        nodes = click.option("--nodes", help=nodes_help)
        system = click.option("--system", help="The system, if this host does not tell.")
        return system(nodes(act(command)))

    return add


def _enter(system: str | None) -> str:
    chosen = systems.chosen(system)
    session.use(chosen)
    if session.in_lab(chosen):
        session.enter_lab_mounts([sys.executable, "-m", "railgauge", *sys.argv[1:]])
    return chosen


def _expand(system: str, nodes: str | None) -> list[str] | None:
    """The nodes named; RailgaugeError for those that the system has not."""
    if nodes is None:
        return None
    from railgauge import accept

    chosen = accept.scope(system, None, nodes).nodes
    return sorted({node for members in chosen.values() for node in members})


def _asked(question: Callable[[], _Answer]) -> _Answer:
    """What it answers; Slurm's refusal, or a store that does not answer, as a person's error."""
    from railgauge.node.gate import NoStore
    from railgauge.node.slurm_nodes import SlurmProblem

    try:
        return question()
    except SlurmProblem as error:
        raise EnvironmentProblem(
            str(error),
            next_step="nodes are as they were, or reserved: railgauge gate status; "
            "draining and reserving need a Slurm operator (sacctmgr show user $USER)",
        ) from None
    except NoStore as error:
        raise EnvironmentProblem(str(error)) from None


@gate.command()
@_options("Only these nodes: n[1-4].")
def status(system: str | None, nodes: str | None, act: bool) -> None:
    """Say of every node what was accepted, and whether it is held."""
    chosen = _enter(system)
    from railgauge.gate import run, store
    from railgauge.node import slurm_nodes

    wanted = _expand(chosen, nodes) or run.all_nodes(chosen)
    states = _asked(lambda: slurm_nodes.show(wanted))
    broken = store.unended(chosen)
    width = max(map(len, wanted))
    for name in wanted:
        record = store.accepted(chosen, name)
        accepted = (
            f"accepted {record.date[:10]} by {record.how} {record.by}, firmware "
            f"{record.fingerprint}"
            if record
            else "unadopted"
        )
        state = states[name]
        held = f"{state.reason} ({state.by} {state.since})" if state.drained else ""
        if broken and name in broken.nodes:
            held = held or f"in gate run {broken.id}"
        click.echo(f"{name:<{width}}  {state.state:<16}  {accepted}" + f"  {held}".rstrip())
    if broken:
        click.echo(
            f"gate run {broken.id} of {broken.by} has not ended (after {broken.step})\n"
            "  next: if nobody runs it, railgauge gate run --act goes on with it"
        )


@gate.command()
@_options("These nodes: n[1-4]; all if not given.")
@click.option("--again", is_flag=True, help="Also nodes that were accepted otherwise before.")
def adopt(system: str | None, nodes: str | None, act: bool, again: bool) -> None:
    """Take nodes as accepted as they are now, untested.

    Needed once for nodes that Railgauge has never accepted: from then on a change is noticed.
    """
    chosen = _enter(system)
    from railgauge import inventory_cli
    from railgauge.gate import run, store

    wanted = _expand(chosen, nodes) or run.all_nodes(chosen)
    known = {name: store.accepted(chosen, name) for name in wanted}
    new = [name for name in wanted if again or known[name] is None]
    if act:
        store.publish_rules(chosen)
    if not new:
        click.echo(f"{hostlist.fold(wanted)}: all accepted before; --again takes them as they are")
        return
    taken, silent = inventory_cli.collect(chosen, new)
    for found in taken:
        if act:
            record = store.accept(chosen, found, "adopt", "untested")
            click.echo(f"{found.node}: adopted, firmware {record.fingerprint}")
        else:
            click.echo(f"{found.node}: would be adopted, {len(found.fields)} fields")
    if not act and taken:
        click.echo("  next: the same command with --act")
    for name, why in sorted(silent.items()):
        click.echo(f"{name}: not adopted: {why}")
    if silent:
        raise EnvironmentProblem(
            f"{hostlist.fold(silent)}: no inventory, so nothing was adopted of them",
            next_step="railgauge inventory show --nodes " + hostlist.fold(silent),
        )


@gate.command()
@_options("Look at these nodes by jobs; this node itself if not given.")
def hold(system: str | None, nodes: str | None, act: bool) -> NoReturn:
    """Drain nodes that differ from what was accepted of them.

    For cron, a boot unit or a node health check, on the node itself; there
    `python3 -m railgauge.node.gate hold` does the same and needs no installation. Nodes never
    accepted are reported, not held; no more than gate.yaml's max_hold are drained at a time.

    Exit code: 0 nothing differs, 1 something does, 3 nothing could be compared.
    """
    chosen = _enter(system)
    from railgauge import inventory_cli
    from railgauge.gate import store
    from railgauge.gate.run import all_nodes
    from railgauge.node import gate as node_gate
    from railgauge.node.calls import node_name
    from railgauge.node.inventory import take

    wanted = _expand(chosen, nodes)
    if wanted is None and node_name() not in all_nodes(chosen):
        raise RailgaugeError(
            f"{node_name()} is no node of {chosen} ({hostlist.fold(all_nodes(chosen))})",
            next_step="railgauge gate hold --nodes ..., or on a node: "
            "python3 -m railgauge.node.gate hold --store ...",
        )
    if wanted is None:
        seen: dict[str, Any] = {node_name(): take(quick=True)}
        silent: Mapping[str, str] = {}
    else:
        if act:
            store.publish_rules(chosen)
        taken, silent = inventory_cli.collect(chosen, wanted, quick=True)
        seen = {found.node: found.as_dict() for found in taken}
    outcomes = _asked(lambda: node_gate.hold(store.folder(chosen), seen, act))
    for outcome in outcomes:
        click.echo(outcome)
    for name, why in sorted(silent.items()):
        click.echo(f"{name}: not looked at: {why}")
    differ = any(o.state not in ("unchanged", "unadopted") for o in outcomes)
    sys.exit(1 if differ else 3 if silent else 0)


@gate.command("run")
@_options("These held nodes; all that railgauge holds if not given.")
@click.option("--update", help="First drain the nodes, and run this command: 'cmd {nodes}'.")
@click.option("--batch", type=click.IntRange(min=1), default=1, help="With --update: at a time.")
@click.option("--wait", "wait_s", type=float, default=3600, help="... s for their jobs to end.")
def run_(
    system: str | None, nodes: str | None, act: bool, update: str | None, batch: int, wait_s: float
) -> NoReturn:
    """Test held nodes inside a reservation; return them, or keep them out with the reason.

    A run that broke off is finished first. With --update the nodes need not be held: they are
    taken out in batches, updated, tested and returned, within gate.yaml's budget.

    Exit code: 0 all returned, 1 some stay out, 3 usage or environment.
    """
    chosen = _enter(system)
    from railgauge.gate import run, store

    wanted = _expand(chosen, nodes)
    if update is not None and wanted is None:
        raise RailgaugeError("--update needs --nodes: which ones to update")
    broken = store.unended(chosen)
    if not act:
        _say_plan(chosen, wanted, update, batch, broken)
        sys.exit(0)
    say = click.echo
    command = ["railgauge", *sys.argv[1:]]
    ended = []
    with run.alone(chosen):
        store.publish_rules(chosen)
        if broken is not None:
            say(f"going on with gate run {broken.id}, which broke off after {broken.step}")
            ended.append(_asked(lambda: run.finish(broken, command, say)))
        if update is not None and wanted is not None:
            ended += _asked(lambda: run.roll(chosen, wanted, update, batch, wait_s, command, say))
        else:
            held = _asked(lambda: run.candidates(chosen, wanted))
            # Those that the broken run has just kept out were tested already.
            tested = {node for one in ended for node in one.nodes}
            rest = sorted(set(held) - tested)
            if rest:
                ended.append(_asked(lambda: run.finish(run.plan(chosen, rest), command, say)))
    if not ended:
        click.echo("railgauge holds no idle node: nothing to test")
    sys.exit(int(any(why for one in ended for why in one.decided.values())))


def _say_plan(
    system: str, nodes: list[str] | None, update: str | None, batch: int, broken: object
) -> None:
    from railgauge.gate import run
    from railgauge.gate.store import Run

    if isinstance(broken, Run):
        click.echo(f"would go on with gate run {broken.id}, which broke off after {broken.step}")
    if update is not None and nodes is not None:
        for start in range(0, len(nodes), batch):
            chosen = hostlist.fold(nodes[start : start + batch])
            line = update.replace("{nodes}", chosen)
            click.echo(f"would drain {chosen}, run `{line}`, test and return it")
        return
    held = _asked(lambda: run.candidates(system, nodes))
    if not held:
        click.echo("railgauge holds no idle node: nothing to test")
        return
    planned = _asked(lambda: run.plan(system, sorted(held)))
    for name, node in sorted(held.items()):
        click.echo(f"{name}: {node.reason}")
    click.echo(
        f"would reserve {hostlist.fold([*planned.nodes, *planned.partners])}, resume and test "
        f"{hostlist.fold(planned.nodes)} (partners: {' '.join(planned.partners) or 'none'}), "
        "return what is accepted\n  next: the same command with --act"
    )


@gate.command()
@_options("These held nodes.")
@click.option("--why", required=True, help="Kept with the node's record.")
def release(system: str | None, nodes: str | None, act: bool, why: str) -> None:
    """Return nodes that railgauge holds, untested, on an operator's word."""
    chosen = _enter(system)
    from railgauge import inventory_cli
    from railgauge.gate import run, store
    from railgauge.node import slurm_nodes

    wanted = _expand(chosen, nodes)
    if wanted is None:
        raise RailgaugeError("release needs --nodes", next_step="railgauge gate status")
    held = sorted(_asked(lambda: run.candidates(chosen, wanted)))
    broken = store.unended(chosen)
    if broken and set(held) & set(broken.nodes):
        raise RailgaugeError(
            f"{hostlist.fold(held)} in gate run {broken.id}, which has not ended",
            next_step="railgauge gate run --act",
        )
    if not act:
        click.echo(f"would return {hostlist.fold(held)} untested\n  next: add --act")
        return
    _asked(lambda: slurm_nodes.resume(held))
    taken, silent = inventory_cli.collect(chosen, held)
    for found in taken:
        store.accept(chosen, found, "release", why)
        click.echo(f"{found.node}: back in service, untested: {why}")
    if silent:
        raise EnvironmentProblem(
            f"{hostlist.fold(silent)}: back in service, but no inventory of it could be taken: "
            "the next hold will drain it again",
            next_step=f"railgauge gate adopt --again --act --nodes {hostlist.fold(silent)}",
        )
