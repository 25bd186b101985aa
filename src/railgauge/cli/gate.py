"""`railgauge gate`: which nodes may take jobs, by what was last accepted of them."""

from __future__ import annotations

import dataclasses
import functools
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import click

from railgauge import hostlist, paths, systems
from railgauge.acceptance import session
from railgauge.cli.lazy import LazyGroup, Place
from railgauge.cli.numbers import Number
from railgauge.cli.output import json_option, print_json
from railgauge.cli.words import Words
from railgauge.common.errors import ConfigurationError, PrerequisiteError, RailgaugeError

_Answer = TypeVar("_Answer")
_Command = TypeVar("_Command", bound=Callable[..., None])


@click.group(
    cls=LazyGroup,
    places={
        "readmit": Place(
            "railgauge.cli.readmit:readmit",
            "Test nodes that come back from repair; return them, or hold them with the reason.",
        ),
        "trust": Place(
            "railgauge.cli.trust:trust",
            "Say of each check how often its alarms were false, and what it may do by that.",
        ),
    },
)
def gate() -> None:
    """Hold nodes with changed firmware, test them, and return them or keep them out.

    Commands that change something only say what they would do, until they are given --act.
    """


def options(nodes_help: str) -> Callable[[_Command], _Command]:
    def add(command: _Command) -> _Command:
        act = click.option("--act", is_flag=True, help="Do it; without it, only say so.")
        nodes = click.option("--nodes", help=nodes_help)
        system = click.option("--system", help="The system, if this host does not show it.")
        return system(nodes(act(command)))

    return add


def enter(system: str | None) -> str:
    chosen = systems.chosen(system)
    session.use(chosen)
    if session.in_lab(chosen):
        session.enter_lab_mounts(chosen)
    _say_store(chosen)
    return chosen


def _say_store(system: str) -> None:
    """What was accepted of the nodes moves with the campaigns, and that is easily forgotten."""
    from railgauge.cluster import store

    other = store.left_behind(system)
    if other is not None:
        click.echo(
            f"note: RAILGAUGE_RESULTS moves the gate's store too: it is {store.folder(system)} "
            f"here, and {other} does not count",
            err=True,
        )


def expand(system: str, nodes: str | None) -> list[str] | None:
    """The nodes named; RailgaugeError for those that the system has not."""
    if nodes is None:
        return None
    from railgauge.acceptance import request

    chosen = request.scope(system, None, nodes).nodes
    return sorted({node for members in chosen.values() for node in members})


def answered(question: Callable[[], _Answer]) -> _Answer:
    """What it answers; Slurm's refusal, or a store that does not answer, as a person's error."""
    from railgauge.node.gate import StoreError
    from railgauge.slurm.client import SlurmError
    from railgauge.slurm.nodes import UnknownNodesError

    try:
        return question()
    except UnknownNodesError as error:
        raise _unknown(error.nodes) from None
    except SlurmError as error:
        raise PrerequisiteError(
            error.message,
            next_step="scontrol ping, and the same again where Slurm answers; until then nodes are "
            "as they were, or reserved",
        ) from None
    except StoreError as error:
        raise PrerequisiteError(str(error)) from None


def _unknown(nodes: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        f"Slurm knows no {hostlist.fold(nodes)}",
        next_step="scontrol show nodes; leave them out of `nodes` in the system's reframe.yaml, or "
        "put them under `absent`",
    )


@gate.command()
@options("Only these nodes: n[1-4].")
@json_option("gate-status")
def status(system: str | None, nodes: str | None, act: bool, as_json: bool) -> None:
    """Show for each node what was accepted, and whether it is held."""
    chosen = enter(system)
    from railgauge.gate import status as gate_status

    wanted = expand(chosen, nodes) or systems.load(chosen).nodes
    unknown = answered(lambda: gate_status.unknown(wanted))
    if as_json:
        document = answered(lambda: gate_status.as_dict(chosen, wanted))
        print_json({**document, "unknown": unknown})
    else:
        from railgauge.report import layout

        console = layout.console()
        for text in answered(lambda: gate_status.lines(chosen, wanted, console.width)):
            for line in text.split("\n"):
                indent = line[: len(line) - len(line.lstrip())]
                layout.say(console, line.lstrip(), indent, f"{indent}  ")
    if unknown:
        raise _unknown(unknown)


@gate.command()
@options("These nodes: n[1-4]; all if not given.")
@click.option("--again", is_flag=True, help="Also nodes that were accepted otherwise before.")
def adopt(system: str | None, nodes: str | None, act: bool, again: bool) -> None:
    """Take nodes as accepted as they are now, untested.

    Needed once for nodes that Railgauge has never accepted: from then on a change is noticed.
    """
    chosen = enter(system)
    from railgauge.cluster import store
    from railgauge.gate.lock import alone

    wanted = expand(chosen, nodes) or systems.load(chosen).nodes
    if not act:
        _adopt(chosen, wanted, again, act)
        return
    with alone(chosen):
        store.publish_rules(chosen)
        _adopt(chosen, wanted, again, act)


def _adopt(system: str, wanted: list[str], again: bool, act: bool) -> None:
    from railgauge.cluster import inventories, store
    from railgauge.gate import journal
    from railgauge.slurm import nodes as slurm_nodes

    new: list[str] = []
    damaged: dict[str, str] = {}
    for name in wanted:
        try:
            if again or store.accepted(system, name) is None:
                new.append(name)
        except ConfigurationError as error:
            damaged[name] = error.message
    for name, wrong in damaged.items():
        click.echo(f"{name}: not adopted, its record is damaged: {wrong}")
    if not new and not damaged:
        click.echo(f"{hostlist.fold(wanted)}: all accepted before; --again takes them as they are")
        return
    known = journal.in_update(system, answered(slurm_nodes.show)) if new else {}
    updating = {name: known[name] for name in new if name in known}
    for name, why in updating.items():
        click.echo(f"{name}: not adopted: {why}")
    new = [name for name in new if name not in updating]
    taken, silent = inventories.collect(system, new) if new else ([], {})
    for one in taken:
        if act:
            record = store.accept(system, one, "adopt", "untested")
            click.echo(f"{one.node}: adopted, firmware {record.fingerprint}")
        else:
            click.echo(f"{one.node}: would be adopted, {len(one.fields)} fields")
    if not act and taken:
        click.echo("  next: the same command with --act")
    for name, why in sorted(silent.items()):
        click.echo(f"{name}: not adopted: {why}")
    if silent:
        raise PrerequisiteError(
            f"{hostlist.fold(silent)}: no inventory, so nothing was adopted of them",
            next_step="railgauge gate status --nodes " + hostlist.fold(silent),
        )
    if damaged:
        raise PrerequisiteError(
            f"{hostlist.fold(damaged)}: damaged records, so nothing was adopted of them",
            next_step=f"railgauge gate adopt --again --act --nodes {hostlist.fold(damaged)}",
        )
    if updating:
        raise RailgaugeError(
            f"{hostlist.fold(updating)}: in an update, so nothing was adopted of them",
            next_step=journal.once_done(system, updating),
        )


@gate.command()
@options("Look at these nodes by jobs; this node itself if not given.")
@json_option("gate-hold")
def hold(system: str | None, nodes: str | None, act: bool, as_json: bool) -> NoReturn:
    """Drain nodes that differ from what was accepted of them.

    For cron, a boot unit or a node health check, on the node itself. The same without an
    installation, where STORE is gate/SYSTEM in the results root:

    \b
    PYTHONPATH=CHECKOUT/src python3 -m railgauge.node.gate hold --store STORE --act

    Nodes never accepted are reported, not held. No more than gate.yaml's max_hold are drained at a
    time; `gate status` shows the others.

    Exit code: 0 nothing differs, 1 something does, 3 something could not be compared.
    """
    chosen = enter(system)
    from railgauge.cluster import inventories, rights, store
    from railgauge.node import gate as node_gate
    from railgauge.node.inventory.document import take
    from railgauge.node.system.tool_call import node_name
    from railgauge.slurm import nodes as slurm_nodes

    wanted = expand(chosen, nodes)
    if wanted is None and node_name() not in (known := systems.load(chosen).nodes):
        raise RailgaugeError(
            f"{node_name()} is no node of {chosen} ({hostlist.fold(known)})",
            next_step="railgauge gate hold --nodes NODES; or on a node: "
            f"PYTHONPATH={shlex.quote(str(paths.SOURCE))} python3 -m railgauge.node.gate hold "
            f"--store {shlex.quote(str(store.folder(chosen)))}",
        )
    if wanted is None:
        seen: dict[str, Any] = {node_name(): take(quick=True)}
        silent: Mapping[str, str] = {}
        held: list[str] = []
        unknown: list[str] = []
    else:
        if act:
            rights.require(chosen)
            store.publish_rules(chosen)
        states = answered(lambda: slurm_nodes.show_known(wanted))
        unknown = [name for name in wanted if name not in states]
        held = [name for name, node in states.items() if node.drained_by_us]
        rest = [name for name in states if name not in held]
        taken, silent = inventories.collect(chosen, rest, quick=True)
        seen = {one.node: one.as_dict() for one in taken}
    outcomes = [node_gate.HoldOutcome(n, "was held", why=states[n].reason) for n in held]
    outcomes += [node_gate.HoldOutcome(n, "alarm", why=slurm_nodes.UNKNOWN) for n in unknown]
    outcomes += answered(lambda: node_gate.hold(store.folder(chosen), seen, act))
    for name in held if act else ():
        node_gate.remove_note(store.folder(chosen), name)
    if as_json:
        described = [dataclasses.asdict(one) for one in outcomes]
        print_json(
            {"system": chosen, "act": act, "nodes": described, "not_looked_at": dict(silent)}
        )
    else:
        for outcome in outcomes:
            click.echo(outcome)
        for name, why in sorted(silent.items()):
            click.echo(f"{name}: not looked at: {why}")
    differ = any(o.state not in ("unchanged", "unadopted") for o in outcomes)
    sys.exit(1 if differ else 3 if silent else 0)


def despite(command: _Command) -> _Command:
    return click.option(
        "--despite-reservations",
        is_flag=True,
        help="Also nodes in another user's reservation, if its owner agrees.",
    )(command)


@gate.command("run")
@options("These held nodes; all that railgauge holds if not given.")
@despite
@click.option(
    "--update", type=Words(), help="First drain the nodes, and run this command: 'cmd {nodes}'."
)
@click.option("--batch", type=click.IntRange(min=1), default=1, help="With --update: at a time.")
@click.option(
    "--wait", "wait_s", type=Number(min=0), default=3600, help="... s for their jobs to end."
)
@json_option("gate-run")
def run_(
    system: str | None,
    nodes: str | None,
    act: bool,
    despite_reservations: bool,
    update: str | None,
    batch: int,
    wait_s: float,
    as_json: bool,
) -> NoReturn:
    """Test held nodes inside a reservation; return them, or keep them out with the reason.

    A run that broke off is finished first, and so is a rolling update: an update that still runs
    is waited for. With --update the nodes need not be held: they are taken out in batches,
    updated, tested and returned, within gate.yaml's budget.

    RAILGAUGE_ON_SUSPECT is a command that gets a node in service that failed as a partner, and
    why.

    After an interrupt nothing else begins: what is not decided stays out, for the next run.

    Exit code: 0 all returned, 1 some stay out, 4 a partner is at fault, 3 usage or environment,
    130 interrupted.
    """
    chosen = enter(system)
    from railgauge.cli import running
    from railgauge.cluster import rights, store
    from railgauge.gate import roll, sequence
    from railgauge.gate.lock import alone

    wanted = expand(chosen, nodes)
    if update is not None and wanted is None:
        raise RailgaugeError("--update needs --nodes: which ones to update")
    if not act:
        _say_plan(chosen, wanted, update, batch, despite_reservations)
        refused = rights.missing(chosen)
        if refused:
            words = "; ".join(map(str, refused))
            click.echo(f"would be refused: {words}\n  next: {refused[0].next_step}")
        sys.exit(0)
    with alone(chosen):
        rights.require(chosen)
        store.publish_rules(chosen)
        if update is not None and wanted is not None:
            begin = functools.partial(
                roll.begin, chosen, wanted, update, batch, wait_s, despite_reservations
            )
            answered(begin)
            # A rolling update goes on from its journal, a new one as any other.
            wanted = []
        # What it says on its way is not what it prints at its end.
        say = functools.partial(click.echo, err=as_json)
        ended = answered(
            lambda: sequence.run_all(chosen, wanted, despite_reservations, running.typed(), say)
        )
    if as_json:
        print_json(ended.as_dict(chosen))
    sys.exit(ended.exit_code)


def _say_plan(
    system: str,
    nodes: list[str] | None,
    update: str | None,
    batch: int,
    despite_reservations: bool,
) -> None:
    from railgauge.gate import journal, orphaned_reservations, partners, run, sequence

    broken, roll = journal.unended(system), journal.rolling(system)
    if broken is not None and (wait := sequence.waits_for(broken)) is not None:
        raise wait
    if broken is not None:
        click.echo(f"would go on with gate run {broken.id}, which broke off after {broken.step}")
    if roll is not None:
        left = hostlist.fold([*roll.batch, *roll.waiting])
        click.echo(f"would go on with rolling update {roll.id}: {left}")
    for one in answered(
        lambda: orphaned_reservations.reservations(system, systems.load(system).nodes)
    ):
        click.echo(f"{one.words}\n  next: {one.next_step}")
    if update is not None and nodes is not None:
        for start in range(0, len(nodes), batch):
            chosen = hostlist.fold(nodes[start : start + batch])
            line = update.replace("{nodes}", chosen)
            click.echo(f"would drain {chosen}, run `{line}`, test and return it")
        return
    held = answered(lambda: run.candidates(system, nodes, despite_reservations))
    for name, why in sorted(held.barred.items()):
        click.echo(f"{name}: would not be tested: {why}")
    if not held.nodes:
        click.echo("railgauge holds no idle node: nothing to test")
        return
    planned = answered(lambda: run.plan(system, sorted(held.nodes)))
    for name, node in sorted(held.nodes.items()):
        click.echo(f"{name}: {node.reason}")
    click.echo(
        f"would reserve {hostlist.fold([*planned.nodes, *planned.partners])}, resume and test "
        f"{partners.words(system, planned.nodes, planned.partners)}, return what is accepted\n"
        "  next: the same command with --act"
    )


@gate.command()
@options("These held nodes.")
@despite
@click.option("--why", type=Words(), required=True, help="Kept with the node's record.")
@click.option(
    "--force-release",
    is_flag=True,
    help="Also from an update, on your word that nothing is being written.",
)
def release(
    system: str | None,
    nodes: str | None,
    act: bool,
    despite_reservations: bool,
    why: str,
    force_release: bool,
) -> None:
    """Return nodes that railgauge holds, untested, on an operator's word.

    Exit code: 0 all in service, 1 returned and not in service, 3 usage or environment.
    """
    chosen = enter(system)
    from railgauge.cluster import rights
    from railgauge.gate import run
    from railgauge.gate.lock import alone

    wanted = expand(chosen, nodes)
    if wanted is None:
        raise RailgaugeError("release needs --nodes", next_step="railgauge gate status")
    with alone(chosen):
        held = sorted(
            answered(
                lambda: run.candidates(chosen, wanted, despite_reservations, force_release)
            ).nodes
        )
        _require_not_in_run(chosen, held)
        if not act:
            click.echo(f"would return {hostlist.fold(held)} untested\n  next: add --act")
            return
        rights.require(chosen)
        outside = _release(chosen, held, why)
    sys.exit(int(outside))


def _require_not_in_run(system: str, nodes: list[str]) -> None:
    from railgauge.gate import journal

    broken = journal.unended(system)
    if broken and set(nodes) & set(broken.nodes):
        raise RailgaugeError(
            f"{hostlist.fold(nodes)} in gate run {broken.id}, which has not ended",
            next_step="railgauge gate run --act",
        )


def _release(system: str, nodes: list[str], why: str) -> bool:
    """Whether Slurm starts no job on some of them, once they had time to answer."""
    from railgauge.cluster import inventories, store
    from railgauge.gate import roll
    from railgauge.slurm import nodes as slurm_nodes

    store.publish_rules(system)
    roll.let_go(system, nodes, f"released untested: {why}")
    click.echo(f"{hostlist.fold(nodes)}: resumed; waiting for slurmd ...")
    answered(lambda: slurm_nodes.resume(nodes))
    taken, silent = inventories.collect(system, nodes)
    for one in taken:
        store.accept(system, one, "release", why)
    states = answered(lambda: slurm_nodes.show(nodes))
    for name in nodes:
        outside = states[name].unavailable_reason
        state = f"resumed, and not in service: {outside}" if outside else "in service"
        click.echo(f"{name}: {state}, untested (why: {why})")
    if silent:
        raise PrerequisiteError(
            f"{hostlist.fold(silent)}: resumed, but its state could not be recorded; if it differs "
            "from the accepted one, the next hold drains it",
            next_step=f"railgauge gate adopt --again --act --nodes {hostlist.fold(silent)}",
        )
    return any(states[name].unavailable_reason for name in nodes)


@gate.command("update-done")
@options("These nodes, on which an update was being installed.")
@click.option("--no-more", is_flag=True, help="No others: drop what has not begun.")
def update_done(system: str | None, nodes: str | None, act: bool, no_more: bool) -> None:
    """Say that the update of these nodes is done: the next `gate run` tests them.

    For an update that failed and was repaired, or ended unobserved (the login node went down
    with it, or it was killed). The journal keeps this, with time and user. If it is damaged,
    --no-more states that no node is in the update but --nodes; another update at the same time
    keeps the batches that it has not begun.
    """
    chosen = enter(system)
    from railgauge.cluster import rights
    from railgauge.gate import journal, roll
    from railgauge.gate.lock import alone
    from railgauge.slurm import nodes as slurm_nodes

    wanted = expand(chosen, nodes) or []
    if not wanted and not no_more:
        raise RailgaugeError("update-done needs --nodes", next_step="railgauge gate status")
    with alone(chosen):
        if act:
            rights.require(chosen)
        states = answered(lambda: slurm_nodes.show_known(systems.load(chosen).nodes))
        updating = journal.in_update(chosen, states)
        others = sorted(set(wanted) - set(updating))
        if others:
            raise RailgaugeError(
                f"{hostlist.fold(others)}: no update is known of it",
                next_step="railgauge gate status",
            )
        roll.require_ended(chosen, wanted, no_more)
        for name in wanted:
            click.echo(f"{name}: {updating[name]}" + ("" if act else ": would be taken as done"))
        if idle := hostlist.fold(roll.not_begun(chosen, wanted)):
            click.echo(
                f"{idle}: the update has not begun, so that nothing was installed by Railgauge: "
                "railgauge gate run --act would begin it"
            )
        if not act:
            click.echo("  next: the same command with --act")
            return
        damaged = roll.damaged(chosen)
        # Where there are damaged journals, the word is of what these do not say.
        if no_more and not damaged:
            click.echo(f"not begun any more: {hostlist.fold(roll.drop_rest(chosen)) or 'none'}")
        if wanted:
            # Drained while the journal still has it: a reboot may have put it in service.
            known = [name for name in wanted if name in states]
            answered(lambda: slurm_nodes.drain(known, journal.UPDATED))
            roll.let_go(chosen, wanted, "update done")
            click.echo(
                f"{hostlist.fold(wanted)}: updated, to be tested\n  next: railgauge gate run --act"
            )
        for lost in damaged:
            click.echo(f"damaged journal set aside as {lost.set_aside()}")
        left = journal.rolling(chosen)
        if damaged and left is not None and left.waiting:
            click.echo(
                f"rolling update {left.id} has its journal, and keeps what it has not begun: "
                f"{hostlist.fold(left.waiting)}\n"
                "  next: railgauge gate update-done --no-more --act drops that"
            )
