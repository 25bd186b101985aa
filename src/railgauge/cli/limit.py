"""`railgauge limit`: what physics allows."""

from __future__ import annotations

import dataclasses

import click

from railgauge.cli.output import json_option, print_json
from railgauge.common.errors import RailgaugeError
from railgauge.model import limits
from railgauge.model.sizes import parse_size


@click.group()
def limit() -> None:
    """What physics allows."""


_RATE = click.option("--rate", type=float, required=True, help="Raw link rate in Gb/s.")


_JSON = json_option("limit")

_HELP = "railgauge limit --help"


def _print_limit(bound: limits.Limit, as_json: bool) -> None:
    if as_json:
        print_json(dataclasses.asdict(bound))
        return
    click.echo(f"{bound.value:.2f} {bound.unit}  ({bound.reason})")


def _rdma_limit(
    compute: object, rate: float, mtu: int, size: str | None, operation: str, as_json: bool
) -> None:
    assert callable(compute)
    try:
        bound = compute(rate, mtu, parse_size(size) if size else None, operation)
    except ValueError as error:
        raise RailgaugeError(str(error), next_step=_HELP) from None
    _print_limit(bound, as_json)


@limit.command()
@_RATE
@click.option("--mtu", type=int, default=4096, show_default=True, help="RDMA path MTU in bytes.")
@click.option("--size", help="Message size: 64KiB, 1MiB, 4096. Large messages if none.")
@click.option("--operation", default="write", show_default=True, help="write, send or read.")
@_JSON
def roce(rate: float, mtu: int, size: str | None, operation: str, as_json: bool) -> None:
    """Payload rate of RoCE v2 over Ethernet."""
    _rdma_limit(limits.roce, rate, mtu, size, operation, as_json)


@limit.command()
@_RATE
@click.option("--mtu", type=int, default=4096, show_default=True, help="Path MTU in bytes.")
@click.option("--size", help="Message size: 64KiB, 1MiB, 4096. Large messages if none.")
@click.option("--operation", default="write", show_default=True, help="write, send or read.")
@_JSON
def infiniband(rate: float, mtu: int, size: str | None, operation: str, as_json: bool) -> None:
    """Payload rate of native InfiniBand."""
    _rdma_limit(limits.infiniband, rate, mtu, size, operation, as_json)


@limit.command()
@_RATE
@click.option("--mtu", type=int, default=1500, show_default=True, help="Interface MTU in bytes.")
@click.option("--timestamps/--no-timestamps", default=True, show_default=True)
@_JSON
def tcp(rate: float, mtu: int, timestamps: bool, as_json: bool) -> None:
    """Payload rate of TCP over IPv4 and Ethernet."""
    try:
        bound = limits.tcp(rate, mtu, timestamps)
    except ValueError as error:
        raise RailgaugeError(str(error), next_step=_HELP) from None
    _print_limit(bound, as_json)


class _CollectiveCommand(click.Command):
    """Wrong usage ends with an example to type."""

    @property
    def example(self) -> str:
        return f"railgauge limit {self.name} --nodes 2 --ranks 16 --nic 400x8 --nvlink 450"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise RailgaugeError(error.format_message(), next_step=self.example) from None


#: No node has more; 8x400 are the two the other way round.
_MOST_NICS = 64


def _gbytes_of_nics(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> float | None:
    """`400x8`, Gb/s of one NIC and NICs of a node, as GB/s of the node."""
    if text is None:
        return None
    try:
        rate, count = text.split("x")
        gbytes_s = float(rate) * int(count) / 8
        if 0 < int(count) <= _MOST_NICS and 0 < gbytes_s < float("inf"):
            return gbytes_s
    except (ValueError, OverflowError):
        pass
    expected = f"RATExCOUNT: Gb/s of one NIC, NICs of a node, at most {_MOST_NICS}: 400x8"
    raise click.BadParameter(f"found {text!r}, expected {expected}", context, parameter)


def _collective_command(operation: str) -> click.Command:
    @click.command(
        operation,
        cls=_CollectiveCommand,
        short_help=f"Bus bandwidth of {operation}.",
        help=f"Bus bandwidth of {operation} as nccl-tests prints it: the most that links allow.",
    )
    @click.option("--ranks", type=int, required=True, help="All ranks, one a GPU.")
    @click.option("--nodes", type=int, default=1, show_default=True, help="Nodes that they are on.")
    @click.option(
        "--nic",
        "node_gbytes_s",
        metavar="RATExCOUNT",
        callback=_gbytes_of_nics,
        help="Gb/s of one NIC and NICs of a node: 400x8.",
    )
    @click.option("--nvlink", type=float, help="NVLink of a GPU in one direction in GB/s: 450.")
    @click.option("--nvls", is_flag=True, help="NVLink SHARP may add up in the switches.")
    @click.option("--sharp", is_flag=True, help="The network behind the NICs may add up.")
    @click.option(
        "--domain-nodes",
        type=int,
        default=1,
        show_default=True,
        help="The most nodes in one NVLink domain: 18 in an NVL72 with MNNVL.",
    )
    @_JSON
    @click.pass_context
    def show(
        context: click.Context,
        ranks: int,
        nodes: int,
        node_gbytes_s: float | None,
        nvlink: float | None,
        nvls: bool,
        sharp: bool,
        domain_nodes: int,
        as_json: bool,
    ) -> None:
        try:
            bound = limits.collective(
                operation,
                nodes=nodes,
                ranks=ranks,
                node_gbytes_s=node_gbytes_s,
                gpu_gbytes_s=nvlink,
                nvls=nvls,
                domain_nodes=domain_nodes,
                in_network_reduction=sharp,
            )
        except ValueError as error:
            assert isinstance(context.command, _CollectiveCommand)
            raise RailgaugeError(str(error), next_step=context.command.example) from None
        _print_limit(bound, as_json)

    return show


for _operation in limits.COLLECTIVES:
    limit.add_command(_collective_command(_operation))
