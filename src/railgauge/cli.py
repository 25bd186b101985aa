"""The command line: `railgauge ...`."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console

from railgauge import __version__, limits, session, systems
from railgauge.campaign import Gate
from railgauge.errors import EXIT_USAGE, RailgaugeError
from railgauge.lab.cli import lab
from railgauge.sizes import parse_size
from railgauge.tools import Call, iperf2, perftest


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="railgauge")
def cli() -> None:
    """May these nodes go back into service, and if not, which is at fault?"""


cli.add_command(lab)


@cli.command()
@click.option("--system", help="The system, if this host does not tell (as RFM_SYSTEM).")
@click.option("--partition", help="Only this partition.")
@click.option("--nodes", help="Only these nodes, as a host list: n[1-4].")
@click.option(
    "--mode",
    "gate",
    type=click.Choice(["acceptance", "baseline"]),
    default="acceptance",
    show_default=True,
    help="baseline records numbers without comparing them, and accepts nothing.",
)
@click.option("--series", is_flag=True, help="Measure every long way that the system lists.")
@click.option("--plan", "plan_only", is_flag=True, help="Say what would run, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json instead of the table.")
@click.argument("reframe_options", nargs=-1, type=click.UNPROCESSED)
def accept(
    system: str | None,
    partition: str | None,
    nodes: str | None,
    gate: str,
    series: bool,
    plan_only: bool,
    as_json: bool,
    reframe_options: tuple[str, ...],
) -> NoReturn:
    """Measure, compare, and say whether the nodes may go back into service.

    Options for ReFrame go behind `--`: railgauge accept -- -n Iperf2Pair

    Exit code: 0 accept, 1 reject, 2 inconclusive, 3 usage or environment.
    """
    chosen = systems.chosen(system)
    session.use(chosen, partition or "")
    if chosen == "lab":
        session.enter_lab_mounts([sys.executable, "-m", "railgauge", *sys.argv[1:]])
    # ReFrame's modules take a third of a second; only this command needs them.
    from railgauge import accept as acceptance
    from railgauge.checks.wan import SERIES_VARIABLE
    from railgauge.report import text

    if series:
        os.environ[SERIES_VARIABLE] = "1"
    mode: Gate = "baseline" if gate == "baseline" else "acceptance"
    scope = acceptance.scope(chosen, partition, nodes)
    if plan_only:
        _print_plan(acceptance.plan(scope, nodes, mode, reframe_options))
        sys.exit(0)
    progress = Console(stderr=True, highlight=False)
    command = ["railgauge", *sys.argv[1:]]
    verdict = acceptance.run(
        chosen, scope, nodes, mode, reframe_options, command, lambda line: progress.print(line)
    )
    if as_json:
        click.echo(json.dumps(verdict.as_dict(), indent=2))
    else:
        text.render(verdict, text.console())
    sys.exit(verdict.exit_code)


def _print_plan(cases: list[dict[str, object]]) -> None:
    node_minutes = 0.0
    for case in cases:
        seconds, count = case["seconds"], case["node_count"]
        assert isinstance(seconds, (int, float)) and isinstance(count, int)
        node_minutes += seconds * count / 60
        click.echo(f"{case['partition']:<10} {seconds:>5.0f} s  {case['case']}")
    total = sum(float(str(case["seconds"])) for case in cases)
    click.echo(f"{len(cases)} cases, about {total:.0f} s, {node_minutes:.1f} node-minutes")


@cli.command()
@click.argument("campaign", default="latest")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def verdict(campaign: str, as_json: bool) -> NoReturn:
    """Show a campaign's verdict again, read anew from its folder.

    CAMPAIGN is an id, a path, or `latest`. The exit code is the verdict's.
    """
    from railgauge import campaign as campaigns
    from railgauge.report import text
    from railgauge.verdict.rules import decide

    decided = decide(campaigns.load(campaign))
    if as_json:
        click.echo(json.dumps(decided.as_dict(), indent=2))
    else:
        text.render(decided, text.console())
    sys.exit(decided.exit_code)


@cli.command()
def campaigns() -> None:
    """List the campaigns under the results root, oldest first."""
    from railgauge import campaign as folders

    found = folders.all_folders()
    for folder in found:
        try:
            item = folders.load(str(folder))
            path = item.folder / "verdict.json"
            decision = json.loads(path.read_text())["verdict"] if path.exists() else "no verdict"
        except (RailgaugeError, OSError, ValueError, LookupError) as error:
            click.echo(f"{folder.name}  unreadable: {error}")
        else:
            click.echo(f"{item.id}  {item.gate:<10}  {item.state:<11}  {decision}")
    if not found:
        click.echo(f"no campaigns in {folders.campaigns_folder()}")


@cli.group()
def parse() -> None:
    """Read a tool's output as the gate does, and print what it proves."""


@parse.command("iperf2")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--server",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The server's output of the same run.",
)
@click.option("--exit-code", type=int, help="The client's exit code, if you know it.")
@click.option("--server-exit-code", type=int, help="The server's exit code, if you know it.")
@click.option("--streams", type=int, help="How many streams were asked for (-P).")
@click.option("--seconds", type=int, help="How long it was to run (-t).")
def parse_iperf2(
    file: Path,
    server: Path | None,
    exit_code: int | None,
    server_exit_code: int | None,
    streams: int | None,
    seconds: int | None,
) -> NoReturn:
    """Read the output of an iperf2 client.

    A bare file cannot prove that the run finished, so its completeness is `unknown`. It is
    `proved` by both exit codes, the server's output, and what was asked for.

    Exit code 1 when the output is no result.
    """
    if (streams is None) != (seconds is None):
        raise RailgaugeError(
            "--streams and --seconds belong together: what was asked for",
            next_step=f"railgauge parse iperf2 {shlex.quote(str(file))} --streams 4 --seconds 3",
        )
    asked = None
    if streams is not None and seconds is not None:
        try:
            asked = iperf2.Options(streams=streams, duration_s=seconds)
        except ValueError as error:
            raise RailgaugeError(str(error)) from None
    known = [("server", 0, server_exit_code), ("client", 1, exit_code)]
    calls = [
        Call("iperf2", role, rank, role, code, float(seconds or 0))
        for role, rank, code in known
        if code is not None
    ]
    reading = iperf2.read(
        file.read_text(encoding="utf-8", errors="replace"),
        server=server.read_text(encoding="utf-8", errors="replace") if server else None,
        calls=calls,
        options=asked,
    )
    click.echo(json.dumps(reading.as_dict(), indent=2))
    sys.exit(0 if reading.ok else 1)


@parse.command("perftest")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--server",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The server's output of the same run.",
)
@click.option("--exit-code", type=int, help="The client's exit code, if you know it.")
@click.option("--server-exit-code", type=int, help="The server's exit code, if you know it.")
@click.option("--size", help="The message size that was asked for (-s): 64KiB, 65536.")
@click.option("--sweep", is_flag=True, help="All sizes were asked for (-a).")
@click.option("--iterations", type=int, help="How many iterations were asked for (-n).")
@click.option("--seconds", type=int, help="How long it was to run (-D).")
def parse_perftest(
    file: Path,
    server: Path | None,
    exit_code: int | None,
    server_exit_code: int | None,
    size: str | None,
    sweep: bool,
    iterations: int | None,
    seconds: int | None,
) -> NoReturn:
    """Read the output of a perftest client: ib_write_bw, ib_read_lat and the like.

    A bare file cannot prove that the run finished, so its completeness is `unknown`. It is
    `proved` by both exit codes, the server's output, and what was asked for: a size or a sweep,
    with iterations or seconds.

    Exit code 1 when the output is no result.
    """
    text = file.read_text(encoding="utf-8", errors="replace")
    asked = None
    if size or sweep or iterations is not None or seconds is not None:
        try:
            asked = _perftest_options(
                text,
                size_bytes=parse_size(size) if size else None,
                sweep=sweep,
                iterations=iterations,
                duration_s=seconds,
            )
        except ValueError as error:
            raise RailgaugeError(
                str(error),
                next_step="name a size or the sweep, and iterations or seconds: "
                f"railgauge parse perftest {shlex.quote(str(file))} --size 64KiB --iterations 5000",
            ) from None
    known = [("server", 0, server_exit_code), ("client", 1, exit_code)]
    calls = [
        Call("perftest", role, rank, role, code, float(seconds or 0))
        for role, rank, code in known
        if code is not None
    ]
    reading = perftest.read(
        text,
        server=server.read_text(encoding="utf-8", errors="replace") if server else None,
        calls=calls,
        options=asked,
    )
    click.echo(json.dumps(reading.as_dict(), indent=2))
    sys.exit(0 if reading.ok else 1)


def _perftest_options(
    text: str,
    *,
    size_bytes: int | None,
    sweep: bool,
    iterations: int | None,
    duration_s: int | None,
) -> perftest.Options:
    """What was asked for; what the command line cannot say is taken from the output."""
    asked = perftest.Options("write", "bw", size_bytes, sweep, iterations, duration_s)
    try:
        stated = perftest.parse(text)
        return dataclasses.replace(
            asked,
            operation=stated.operation,
            test=stated.test,
            bidirectional=stated.bidirectional,
            queue_pairs=stated.queue_pairs,
            rdma_cm=stated.rdma_cm,
        )
    except ValueError:
        # No result, or none of what was asked for: the reading says why.
        return asked


@cli.group()
def limit() -> None:
    """What physics allows."""


_RATE = click.option("--rate", type=float, required=True, help="Raw link rate in Gb/s.")


def _print_limit(found: limits.Limit) -> None:
    click.echo(f"{found.value:.2f} {found.unit}  ({found.reason})")


def _rdma_limit(compute: object, rate: float, mtu: int, size: str | None, operation: str) -> None:
    assert callable(compute)
    try:
        _print_limit(compute(rate, mtu, parse_size(size) if size else None, operation))
    except ValueError as error:
        raise RailgaugeError(str(error)) from None


@limit.command()
@_RATE
@click.option("--mtu", type=int, default=4096, show_default=True, help="RDMA path MTU in bytes.")
@click.option("--size", help="Message size: 64KiB, 1MiB, 4096. Large messages if none.")
@click.option("--operation", default="write", show_default=True, help="write, send or read.")
def roce(rate: float, mtu: int, size: str | None, operation: str) -> None:
    """Payload rate of RoCE v2 over Ethernet."""
    _rdma_limit(limits.roce, rate, mtu, size, operation)


@limit.command()
@_RATE
@click.option("--mtu", type=int, default=4096, show_default=True, help="Path MTU in bytes.")
@click.option("--size", help="Message size: 64KiB, 1MiB, 4096. Large messages if none.")
@click.option("--operation", default="write", show_default=True, help="write, send or read.")
def infiniband(rate: float, mtu: int, size: str | None, operation: str) -> None:
    """Payload rate of native InfiniBand."""
    _rdma_limit(limits.infiniband, rate, mtu, size, operation)


@limit.command()
@_RATE
@click.option("--mtu", type=int, default=1500, show_default=True, help="Interface MTU in bytes.")
@click.option("--timestamps/--no-timestamps", default=True, show_default=True)
def tcp(rate: float, mtu: int, timestamps: bool) -> None:
    """Payload rate of TCP over IPv4 and Ethernet."""
    try:
        _print_limit(limits.tcp(rate, mtu, timestamps))
    except ValueError as error:
        raise RailgaugeError(str(error)) from None


def main() -> NoReturn:
    """Run the command; problems that a person can solve end in one message and exit code 3."""
    try:
        cli.main(standalone_mode=False, prog_name="railgauge")
    except RailgaugeError as error:
        click.echo(f"railgauge: {error}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("railgauge: interrupted", err=True)
        sys.exit(130)
    sys.exit(0)
