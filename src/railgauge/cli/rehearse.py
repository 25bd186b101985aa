"""`railgauge rehearse`."""

from __future__ import annotations

import os
from typing import NoReturn

import click

from railgauge import paths, systems
from railgauge.cli import running
from railgauge.cli.output import json_option
from railgauge.systems import rehearsal


@click.command()
@click.argument("system")
@click.option(
    "--scenario",
    default="healthy",
    show_default=True,
    help="What happens, NAME, NAME:NODE or NAME:NODE:NODE: " + ", ".join(rehearsal.SCENARIOS),
)
@click.option("--nodes", help="Only these of the lab's nodes: n[1-2].")
@running.PLACES
@running.SERIES
@click.option("--plan", "plan_only", is_flag=True, help="Say what would run, and run nothing.")
@json_option("verdict", "plan")
@running.provisional
@click.argument("reframe_options", nargs=-1, type=click.UNPROCESSED)
def rehearse(
    system: str,
    scenario: str,
    nodes: str | None,
    places: str | None,
    series: bool,
    plan_only: bool,
    as_json: bool,
    provisional: bool,
    reframe_options: tuple[str, ...],
) -> NoReturn:
    """Run SYSTEM's NCCL checks in the lab, with stand-ins for its GPUs; without GPUs, WDT's.

    The lab's real Slurm runs what SYSTEM's Slurm would run, on up to four nodes; a replayer prints
    what nccl-tests printed on such a system, or numbers after its references; of transfers, it
    copies small files and logs what WDT logs. All of it says SIMULATED, and goes to `rehearsals/`
    in the results root.

    Options for ReFrame go behind `--`: railgauge rehearse gb200-nvl72 -- -n NcclPair

    Exit code: that of the verdict on what was printed, as of railgauge accept.
    """
    happening = rehearsal.Scenario.parse(scenario)
    rehearsal.require_lab()
    if paths.results_root().name != rehearsal.RESULTS:
        # Once: this command starts itself again inside of the lab.
        os.environ["RAILGAUGE_RESULTS"] = str(paths.results_root() / rehearsal.RESULTS)
    os.environ[rehearsal.VARIABLE] = str(happening)
    running.enter(system, None)
    running.choose(places, series)
    rehearsal.require_effect(systems.load(system), nodes)
    shown = running.Shown(as_json, provisional=provisional)
    running.run(system, None, nodes, "acceptance", plan_only, shown, reframe_options)
