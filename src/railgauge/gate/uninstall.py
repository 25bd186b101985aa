"""`railgauge uninstall`: what Railgauge has left in Slurm and in crontabs, and how it is removed.

It opens no node: a gate run returns a node that Railgauge drained, or `gate release` on the word of
an operator.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from railgauge import hostlist, notify, paths, systems
from railgauge.campaign import folder as campaigns
from railgauge.cluster import store
from railgauge.common.errors import RailgaugeError
from railgauge.gate import crontabs, journal, orphaned_reservations
from railgauge.gate.crontabs import Crontab
from railgauge.gate.journal import Run
from railgauge.site.check.line import Line
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm import reservations
from railgauge.slurm.nodes import OUR_RESERVATIONS, OURS, UNTESTED, SlurmNode

_ACT = "railgauge uninstall --act"


@dataclasses.dataclass(frozen=True)
class Remains:
    """What Railgauge has left of a system. `active` says what has to end first. `reservations` are
    those of gate runs that have ended, with their run.
    """

    system: str
    active: tuple[Line, ...]
    nodes: Mapping[str, SlurmNode]
    reservations: Mapping[str, Run]
    foreign: tuple[Line, ...]
    crontabs: tuple[Crontab, ...]
    unread: tuple[Line, ...]

    @property
    def held(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.drained_by_us]

    @property
    def commented(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.comment.startswith(OURS)]


def look(system: str) -> Remains:
    """SlurmError where Slurm does not answer."""
    nodes = slurm_nodes.show_known(systems.load(system).nodes)
    by_name = {
        name: run
        for run in journal.runs(system)
        if run.ended is not None
        for name in (run.reservation, run.untested)
    }
    there = [one for one in slurm_nodes.reservations() if one.name.startswith(OUR_RESERVATIONS)]
    found, unread = [], []
    for command in crontabs.COMMANDS:
        try:
            found.append(crontabs.read(command))
        except RailgaugeError as error:
            unread.append(Line("problem", command, error.message, error.next_step or ""))
    return Remains(
        system,
        tuple(_active(system, nodes)),
        nodes,
        {one.name: by_name[one.name] for one in there if one.name in by_name},
        tuple(
            Line("problem", "reservations", one.words, one.next_step)
            for one in orphaned_reservations.reservations(system, list(nodes))
            if one.name not in by_name
        ),
        tuple(crontab for crontab in found if crontab is not None),
        tuple(unread),
    )


def _active(system: str, nodes: Mapping[str, SlurmNode]) -> Iterator[Line]:
    """What would go on, or be left in the middle."""
    step = f"railgauge gate run --act ends it; then {_ACT}"
    run, roll = journal.unended(system), journal.rolling(system)
    if run is not None:
        yield Line("problem", "gate", f"gate run {run.id} is open, since {run.started}", step)
    if roll is not None:
        words = f"rolling update {roll.id} is open, since {roll.started}"
        yield Line("problem", "gate", words, step)
    for lost in journal.lost(system):
        yield Line("problem", "gate", lost.words, lost.next_step)
    updating = journal.in_update(system, nodes)
    if updating:
        words = f"in an update: {hostlist.fold(updating)}"
        yield Line("problem", "gate", words, journal.once_done(system, updating))
    running = list(_running(system))
    if running:
        step = f"wait for them, or end them; then {_ACT}"
        yield Line("problem", "campaigns", f"marked as running: {', '.join(running)}", step)


def _running(system: str) -> Iterator[str]:
    for folder in campaigns.all_folders():
        try:
            campaign = campaigns.load(str(folder))
        except RailgaugeError:
            continue
        if campaign.system == system and campaign.state == "running" and not campaign.broke_off:
            yield folder.name


# --- what is removed ------------------------------------------------------------------------------


def lines(remains: Remains) -> Iterator[Line]:
    """What is there, and what `--act` would do with it."""
    yield from remains.active
    yield from _held(remains)
    for name, run in remains.reservations.items():
        words = f"{name} is left of gate run {run.id}, which has ended"
        yield Line("warning", "reservations", words, f"{_ACT} deletes it")
    yield from remains.foreign
    if remains.commented:
        words = f"Slurm's comment of {hostlist.fold(remains.commented)} is Railgauge's"
        yield Line("warning", "nodes", words, f"{_ACT} clears it")
    for crontab in remains.crontabs:
        for entry in crontab.ours:
            yield Line("warning", crontab.command, entry, f"{_ACT} removes this line")
    yield from _unclear(remains)


def act(remains: Remains) -> Iterator[Line]:
    """Remove it. Each step may be repeated: what was removed before is not there the next time.

    To be called with the locks of gate and patrol, and without anything in `active`.
    """
    assert not remains.active
    for crontab in remains.crontabs:
        if crontab.ours:
            yield _without_ours(crontab)
    drained = []
    for name, run in remains.reservations.items():
        if name.endswith(UNTESTED):
            # Without the reservation jobs would start on nodes that were never tested.
            # Also one that has left the system's description since.
            inside = slurm_nodes.show_known(sorted(reservations.nodes_of(name) or ()))
            open_nodes = [node for node, state in inside.items() if not state.stays_drained]
            if open_nodes:
                reason = f"gate run {run.id} left it reserved, untested"
                slurm_nodes.drain(open_nodes, reason)
                drained += open_nodes
        reservations.unreserve(name)
        yield Line("ok", "reservations", f"deleted {name}")
    for node in remains.commented:
        slurm_nodes.comment(node, "")
    if remains.commented:
        words = f"Slurm's comment of {hostlist.fold(remains.commented)} is cleared"
        yield Line("ok", "nodes", words)
    known = slurm_nodes.show_known(drained) if drained else {}
    yield from _held(dataclasses.replace(remains, nodes={**remains.nodes, **known}))
    yield from remains.foreign
    yield from _unclear(remains)


def _without_ours(crontab: Crontab) -> Line:
    stamp = journal.new_id().partition("_")[0]
    backup = paths.results_root() / "uninstall" / f"{crontab.command}-{stamp}.txt"
    count = len(crontab.ours)
    try:
        crontabs.remove(crontab, backup)
    except RailgaugeError as error:
        return Line("problem", crontab.command, error.message, error.next_step or "")
    words = f"removed {count} {'line' if count == 1 else 'lines'}; the text before is {backup}"
    return Line("ok", crontab.command, words)


def _held(remains: Remains) -> Iterator[Line]:
    """Each node that stays drained with a reason of ours."""
    for name in remains.held:
        reason = remains.nodes[name].reason
        step = (
            "railgauge gate run --act tests it; untested, on your word: "
            f"railgauge gate release --nodes {name} --act"
        )
        yield Line("problem", name, f"drained: {reason}", step)


def _unclear(remains: Remains) -> Iterator[Line]:
    yield from remains.unread
    for crontab in remains.crontabs:
        for entry in crontab.unclear:
            step = f"{crontab.command} -e, if it starts this program"
            yield Line(
                "hint", crontab.command, f"names Railgauge, but not this folder: {entry}", step
            )


# --- what stays -----------------------------------------------------------------------------------


def stays(system: str) -> Iterator[Line]:
    """What a person removes, and how. Railgauge removes no results and not itself."""
    yield Line(
        "hint",
        "on each node",
        "the boot unit railgauge-hold and the check of Node Health Check, if you installed them, "
        "drain nodes as before",
        "first of all: systemctl disable railgauge-hold; rm "
        "/etc/systemd/system/railgauge-hold.service /etc/nhc/scripts/railgauge.nhc; and the lines "
        "with railgauge in nhc.conf",
    )
    yield Line(
        "hint",
        "other crontabs",
        "those of other users, /etc/cron.d and timers are not looked at",
        "as root: grep -r railgauge /etc/cron* /var/spool/cron /etc/systemd/system",
    )
    if notify.waiting():
        step = "railgauge notify, with the variables of the commands"
        yield Line("hint", "messages", f"{len(notify.waiting())} wait for their command", step)
    root = paths.results_root()
    for thing, folder in (
        ("accepted states", store.folder(system)),
        ("results", root / "campaigns"),
        ("references", paths.references_folder()),
        ("description", paths.SYSTEMS / system),
        ("tools", paths.stack_folder()),
        ("program", paths.HOME),
    ):
        if folder.exists():
            yield _folder(thing, folder)
    yield Line(
        "hint",
        "Slurm's accounting",
        "rights that a user got for the gate stay",
        "sacctmgr show user withassoc; sacctmgr modify user NAME set adminlevel=none",
    )


def _folder(thing: str, folder: Path) -> Line:
    if thing == "program" and not paths.is_checkout():
        return Line("hint", thing, str(paths.SOURCE), "with what has installed it: pip, apt or dnf")
    return Line("hint", thing, str(folder), f"rm -r {shlex.quote(str(folder))}")
