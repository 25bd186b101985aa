"""`railgauge patrol`."""

from __future__ import annotations

import datetime
import math
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from railgauge import hostlist, systems
from railgauge.acceptance import session
from railgauge.cli import running
from railgauge.cli.duration import Duration
from railgauge.cli.output import json_option, print_json
from railgauge.errors import RailgaugeError

if TYPE_CHECKING:
    from railgauge.patrol.run import Fleet, Plan


@click.command()
@click.option("--system", help="The system, if this host does not tell.")
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
@json_option("patrol-plan")
def patrol(
    system: str | None, budget: float, nodes: int | None, plan_only: bool, as_json: bool
) -> NoReturn:
    """Test a few idle nodes: those that wait longest, and those at risk.

    Made to be started every hour or so by cron, jobs/patrol.sbatch or scrontab. Its jobs have a low
    priority, and one that Slurm preempts ends it. What becomes of a node that a check accuses says
    `teeth` in gate.yaml; RAILGAUGE_ON_SUSPECT is a command that gets a node that was held or
    commented on, and why.

    Exit code: 0 all accepted, or nobody to test; 1 a node is accused; 2 not told, or stopped; 3 not
    run: wrong usage, or the environment.
    """
    if as_json and not plan_only:
        raise RailgaugeError(
            "--json without --plan: what a patrol found is its campaign's verdict",
            next_step="railgauge patrol --plan --json; behind a patrol: "
            "railgauge verdict latest --json",
        )
    chosen = systems.chosen(system)
    session.use(chosen)
    if session.in_lab(chosen):
        session.enter_lab_mounts(chosen, [sys.executable, "-m", "railgauge", *sys.argv[1:]])
    from railgauge.cluster import store
    from railgauge.gate.lock import alone
    from railgauge.patrol import run
    from railgauge.slurm import jobs as slurm_jobs

    rules = store.rules(chosen)
    most = min(nodes or rules.patrol.max_under_test, rules.patrol.max_under_test)

    def chosen_now() -> tuple[Fleet, Plan | None]:
        now = datetime.datetime.now(datetime.timezone.utc)
        fleet = run.survey(chosen, rules, now)
        return fleet, run.plan(chosen, rules, fleet, most, budget)

    if plan_only:
        fleet, planned = chosen_now()
        if as_json:
            print_json(plan_as_dict(chosen, fleet, planned))
            sys.exit(0)
        _say_left_alone(fleet)
        _say_plan(fleet, planned, most)
        _say_pace(fleet, most, rules.patrol.every_days)
        if not slurm_jobs.preempts():
            click.echo(
                "note: this Slurm preempts no job (PreemptType): a user's job may wait for the "
                "check that runs"
            )
        sys.exit(0)
    with alone(chosen, "patrol"):
        fleet, planned = chosen_now()
        _say_plan(fleet, planned, most)
        if planned is None:
            sys.exit(0)
        store.publish_rules(chosen)
        code = run.run(chosen, rules, planned, budget, running.typed(), click.echo)
    sys.exit(code)


def plan_as_dict(system: str, fleet: Fleet, planned: Plan | None) -> dict[str, Any]:
    """Whom it would test, null for nobody, and whom it leaves alone, and why."""
    return {
        "system": system,
        "idle": sum(map(len, fleet.candidates.values())),
        "left_alone": dict(fleet.left_alone),
        "plan": planned
        and {
            "partition": planned.partition,
            "nodes": list(planned.choice.nodes),
            "leaves": {leaf: list(nodes) for leaf, nodes in planned.leaves.items()},
            "cover": planned.choice.cover,
            "seconds": planned.seconds,
            "risks": {node: list(risks) for node, risks in planned.risks.items()},
        },
    }


def _say_plan(fleet: Fleet, planned: Plan | None, most: int) -> None:
    idle = sum(map(len, fleet.candidates.values()))
    if planned is None:
        click.echo(
            f"nobody to test: {idle} nodes may be tested, {max(0, min(most, fleet.most))} at a time"
        )
        return
    where = f" on {len(planned.leaves)} leaves" if planned.leaves else ""
    click.echo(
        f"{planned.partition}: {hostlist.fold(planned.choice.nodes)}{where}"
        f"{', all ways between them' if planned.choice.cover else ''}, about "
        f"{planned.seconds:.0f} s"
    )
    for node, risks in sorted(planned.risks.items()):
        click.echo(f"  {node}: {'; '.join(risks)}")


def _say_pace(fleet: Fleet, most: int, every_days: float) -> None:
    """Whether all can be seen in the time that they should be."""
    idle = [one for candidates in fleet.candidates.values() for one in candidates]
    waiting = list(dict.fromkeys(one.node for one in idle if one.days > every_days))
    everybody = len({*(one.node for one in idle), *fleet.left_alone})
    per_day = math.ceil(everybody / most / every_days)
    names = f" ({hostlist.fold(waiting)})" if waiting else ""
    click.echo(f"{len(waiting)} of {len(idle)} wait for more than {every_days:g} days{names}")
    click.echo(
        f"{everybody} nodes, {most} at a time, every {every_days:g} days: {per_day} patrols a day "
        "at least"
    )


def _say_left_alone(fleet: Fleet) -> None:
    by_why: dict[str, list[str]] = {}
    for node, why in fleet.left_alone.items():
        by_why.setdefault(why, []).append(node)
    for why, nodes in sorted(by_why.items()):
        click.echo(f"{hostlist.fold(nodes)}: left alone: {why}")
