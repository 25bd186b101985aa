"""`railgauge system ...`"""

from __future__ import annotations

import os
import socket
import sys
from typing import NoReturn

import click

from railgauge import session, slurm
from railgauge.errors import EXIT_ACCEPT, EXIT_REJECT, EnvironmentProblem, RailgaugeError
from railgauge.site import ask_slurm
from railgauge.site import check as checking
from railgauge.site import new as making
from railgauge.site import run as running


@click.group()
def system() -> None:
    """Describe your own cluster, and check its description."""


@system.command()
@click.argument("name")
@click.option("--run", "with_jobs", is_flag=True, help="Ask the nodes too, by small jobs.")
def check(name: str, with_jobs: bool) -> NoReturn:
    """Check the folder configs/systems/NAME and the references of NAME.

    One line for each thing checked, then how many of each. Slurm is only asked; nothing runs.

    With --run, on a login node of NAME, two small jobs a partition tell what an acceptance needs of
    the nodes that are idle: that they start, see this checkout and the results area and write
    there, Python, names, clocks, tools, one world of MPI; and accounting, and the gate's rights.

    Exit code: 0 without problems, 1 with problems, 3 usage.
    """
    named_by = os.environ.get("RFM_SYSTEM", "").partition(":")[0]
    if name == "lab":
        # Its Slurm answers by commands of its own.
        session.use(name)
        named_by = name
        if with_jobs:
            session.enter_lab_mounts([sys.executable, "-m", "railgauge", *sys.argv[1:]])
    host = socket.gethostname()
    lines = checking.check(name, slurm.ask, host, named_by)
    if with_jobs and not checking.broken(lines):
        lines += running.lines(name, checking.owner(name, host, named_by))
    for line in lines:
        click.echo(str(line))
    click.echo(checking.summary(name, lines))
    sys.exit(EXIT_REJECT if checking.failed(lines) else EXIT_ACCEPT)


@system.command()
@click.argument("name")
@click.option(
    "--like",
    required=True,
    help="The system to begin with, a folder of configs/systems/: dgx-h100.",
)
@click.option("--from-slurm", is_flag=True, help="Take partitions, nodes and GPUs from Slurm.")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="P=SLURM_PARTITION",
    help="Which of Slurm's partitions P is; more than once for several.",
)
def new(name: str, like: str, from_slurm: bool, partitions: tuple[str, ...]) -> None:
    """Begin configs/systems/NAME and results/references/NAME.yaml with a system like it.

    Its fabric and its published numbers are taken over, baselines and recordings are not. The login
    node is this host. With --from-slurm, nodes and GPUs are those of Slurm's partitions of the same
    name, of those that --partition names, or of the only one.

    Exit code: 0 made, 3 not made, and nothing left behind.
    """
    choices = making.chosen(partitions)
    if choices and not from_slurm:
        raise RailgaugeError(
            "--partition says which of Slurm's partitions to read, and needs --from-slurm",
            next_step=f"railgauge system new {name} --like {like} --from-slurm "
            + " ".join(f"--partition {choice}" for choice in partitions),
        )
    making.require_new(name, like)
    try:
        found = ask_slurm(slurm.ask) if from_slurm else None
    except EnvironmentProblem as error:
        raise EnvironmentProblem(
            f"--from-slurm: {error.message}; nothing was made",
            next_step=f"on a login node, or without it: railgauge system new {name} --like {like}",
        ) from None
    for line in making.make(name, like, socket.gethostname(), found, choices):
        click.echo(line)
