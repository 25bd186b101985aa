"""`railgauge patrol`."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from railgauge import hostlist, systems
from railgauge.acceptance import session
from railgauge.cli import running
from railgauge.cli.duration import Duration
from railgauge.cli.output import json_option, print_json
from railgauge.hooks import Say

if TYPE_CHECKING:
    from railgauge.patrol.pace import Pace
    from railgauge.patrol.run import Fleet, Plan


@click.command()
@click.option("--system", help="The system, if this host does not show it.")
@click.option(
    "--budget",
    type=Duration(),
    default="20m",
    show_default=True,
    help="How long it may take at most: 20m.",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=2),
    default=None,
    help="How many nodes at most; max_under_test of gate.yaml where that is fewer.",
)
@click.option(
    "--plan", "plan_only", is_flag=True, help="Say what would be tested, and test nothing."
)
@json_option("patrol")
def patrol(
    system: str | None, budget: float, nodes: int | None, plan_only: bool, as_json: bool
) -> NoReturn:
    """Test a few idle nodes: those that wait longest, and those at risk.

    Start it about every hour by cron, jobs/patrol.sbatch or scrontab. Its jobs have a low priority.
    If Slurm preempts one, the patrol ends.

    `enforcement` in gate.yaml decides what happens to a node that a check accuses. If
    RAILGAUGE_ON_SUSPECT is set, this command is run for each node that was held or commented on,
    with the reason.

    Exit code: 0 all tested nodes are accepted, or none is due; 1 a node is accused; 2 no answer for
    some nodes, none tested, or stopped; 3 wrong usage or environment.
    """
    chosen = systems.chosen(system)
    session.use(chosen)
    if session.in_lab(chosen):
        session.enter_lab_mounts(chosen)
    from railgauge.cluster import store
    from railgauge.gate.lock import alone
    from railgauge.patrol import pace, run
    from railgauge.slurm import jobs as slurm_jobs

    rules = store.rules(chosen)
    most = min(nodes or rules.patrol.max_under_test, rules.patrol.max_under_test)

    def chosen_now() -> tuple[Fleet, Plan | None]:
        now = datetime.datetime.now(datetime.timezone.utc)
        fleet = run.survey(chosen, rules, now)
        return fleet, run.plan(chosen, rules, fleet, most, budget)

    # What it says on its way is not what it prints at its end.
    say = functools.partial(click.echo, err=as_json)
    if plan_only:
        fleet, planned = chosen_now()
        now = datetime.datetime.now(datetime.timezone.utc)
        paced = pace.of(chosen, fleet, most, rules.patrol.every_days, now)
        preempts = slurm_jobs.preempts()
        if as_json:
            facts = {**_facts(chosen, fleet, planned, most), **dataclasses.asdict(paced)}
            print_json({**facts, "slurm_preempts": preempts})
            sys.exit(0)
        _say_left_alone(fleet)
        _say_plan(fleet, planned, most, say)
        _say_pace(fleet, paced, most)
        if not preempts:
            click.echo(
                "note: this Slurm preempts no job (PreemptType): a user's job may wait for the "
                "check that runs"
            )
        sys.exit(0)
    with alone(chosen, "patrol"):
        fleet, planned = chosen_now()
        _say_plan(fleet, planned, most, say)
        ended = None
        if planned is not None:
            store.publish_rules(chosen)
            ended = run.run(chosen, rules, planned, budget, running.typed(), say)
    if as_json:
        outcome = dataclasses.asdict(ended) if ended else None
        print_json({**_facts(chosen, fleet, planned, most), "patrol": outcome})
    sys.exit(ended.exit_code if ended else 0)


def _idle(fleet: Fleet) -> int:
    return sum(map(len, fleet.candidates.values()))


def _facts(system: str, fleet: Fleet, planned: Plan | None, most: int) -> dict[str, Any]:
    plan = None
    if planned is not None:
        plan = {
            "partition": planned.partition,
            "nodes": list(planned.choice.nodes),
            "leaves": {leaf: list(nodes) for leaf, nodes in planned.leaves.items()},
            "cover": planned.choice.cover,
            "risks": {node: list(risks) for node, risks in planned.risks.items()},
            "seconds": planned.seconds,
        }
    return {
        "system": system,
        "plan": plan,
        "idle": _idle(fleet),
        "at_a_time": max(0, min(most, fleet.most)),
        "left_alone": dict(fleet.left_alone),
    }


def _say_plan(fleet: Fleet, planned: Plan | None, most: int, say: Say) -> None:
    if planned is None:
        at_a_time = max(0, min(most, fleet.most))
        say(f"no node to test: {_idle(fleet)} nodes may be tested, {at_a_time} at a time")
        return
    where = f" on {len(planned.leaves)} leaves" if planned.leaves else ""
    say(
        f"{planned.partition}: {hostlist.fold(planned.choice.nodes)}{where}"
        f"{', all ways between them' if planned.choice.cover else ''}, about "
        f"{planned.seconds:.0f} s"
    )
    for node, risks in sorted(planned.risks.items()):
        say(f"  {node}: {'; '.join(risks)}")


def _say_pace(fleet: Fleet, pace: Pace, most: int) -> None:
    days = f"{pace.every_days:g} days"
    names = f" ({hostlist.fold(pace.waiting)})" if pace.waiting else ""
    click.echo(f"{len(pace.waiting)} of {_idle(fleet)} wait for more than {days}{names}")
    ways = ""
    if pace.system_ways:
        ways = f" and {pace.system_ways} ways"
        click.echo(
            f"{pace.measured_ways} of {pace.system_ways} ways between leaves measured in the last "
            f"{days}"
        )
    click.echo(
        f"{pace.system_nodes} nodes{ways}, {most} at a time, every {days}: {pace.patrols_a_day} "
        "patrols a day at least"
    )


def _say_left_alone(fleet: Fleet) -> None:
    by_why: dict[str, list[str]] = {}
    for node, why in fleet.left_alone.items():
        by_why.setdefault(why, []).append(node)
    for why, nodes in sorted(by_why.items()):
        click.echo(f"{hostlist.fold(nodes)}: left alone: {why}")
