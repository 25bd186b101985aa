"""`railgauge power`: how small a loss so many runs find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from railgauge.cli.numbers import Number
from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import RailgaugeError

if TYPE_CHECKING:
    from railgauge.systems import Partition


@click.command()
@click.argument("system")
@click.option("--runs", type=click.IntRange(min=1), required=True, help="Of each place.")
@click.option(
    "--noise",
    type=Number(0, 1, min_open=True, max_open=True),
    required=True,
    help="The standard deviation of a place's runs, as a share: 0.01.",
)
@click.option(
    "--baseline",
    type=click.IntRange(min=1),
    help="Runs that they are compared with; else as many.",
)
@click.option(
    "--conditions",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many a check has, such as message sizes: each place is tested under all.",
)
@click.option(
    "--margin",
    type=Number(0, 1, max_open=True),
    default=0.02,
    show_default=True,
    help="The smallest change that matters, as a share.",
)
@json_option("power")
def power(
    system: str,
    runs: int,
    noise: float,
    baseline: int | None,
    conditions: int,
    margin: float,
    as_json: bool,
) -> None:
    """Say which losses `railgauge compare` finds on SYSTEM with 99 %, at 1 % of false findings.

    Of each partition: on one place, on one node (all of its places), on all places. The noise is
    taken to be the same everywhere; `railgauge compare` says what its own data finds.
    """
    from railgauge import systems
    from railgauge.verdict.comparison.power import planned

    documents = []
    for partition in systems.load(system).partitions:
        links, of_node = _links(partition)
        against = baseline or runs
        losses = planned(noise, runs, against, links, of_node, conditions, margin)
        documents.append(
            {"partition": partition.name, "places": links, "runs": runs, "baseline": against}
            | losses.as_dict()
        )
        if not as_json:
            click.echo(
                f"{partition.name}: {links} places, {runs} runs against {against}: a loss of "
                f"{_share(losses.link)} on one place, {_share(losses.node)} on one node "
                f"({of_node} places), {_share(losses.all)} on all"
            )
    if as_json:
        print_json(documents)
    if all(one["link"] is None for one in documents):
        raise RailgaugeError(
            f"{runs} runs of these places find no loss", next_step="more runs: --runs 3"
        )


def _share(loss: float | None) -> str:
    return "no size" if loss is None else f"{loss:.1%}"


def _links(partition: Partition) -> tuple[int, int]:
    """How many places a check of pairs has, and how many of them a node is part of: by the
    schedule, on every rail.
    """
    nodes, extras = len(partition.nodes), partition.extras
    rails = extras.rdma.rails if extras.rdma else 1
    schedule = extras.sweep.schedule if extras.sweep else "neighbours"
    if nodes < 3:
        return rails, rails
    if schedule == "tournament":
        return nodes * (nodes - 1) // 2 * rails, (nodes - 1) * rails
    return nodes * rails, 2 * rails
