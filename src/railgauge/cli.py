"""The command line: `railgauge ...`."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.console import Console

from railgauge import __version__, commands, hostlist, limits, paths, rehearsal, session, systems
from railgauge.campaign import Gate
from railgauge.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, RailgaugeError
from railgauge.gate.cli import gate
from railgauge.inventory_cli import group as inventory_group
from railgauge.lab.cli import lab
from railgauge.site.cli import system as system_group
from railgauge.sizes import parse_size
from railgauge.stack.cli import stack
from railgauge.tools import Call, ParseError, iperf2, iperf3, nccl_tests, osu, perftest, wdt

if TYPE_CHECKING:
    from railgauge.model.record import Planned
    from railgauge.verdict.rules import Verdict


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="railgauge")
def cli() -> None:
    """May these nodes go back into service, and if not, which is at fault?"""


cli.add_command(gate)
cli.add_command(lab)
cli.add_command(system_group)
cli.add_command(stack)
cli.add_command(inventory_group)


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
@click.option(
    "--resume",
    metavar="ID",
    help="Measure what a campaign that broke off still lacks; `latest` is the newest.",
)
@click.option("--plan", "plan_only", is_flag=True, help="Say what would run, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json instead of the table.")
@click.argument("reframe_options", nargs=-1, type=click.UNPROCESSED)
def accept(
    system: str | None,
    partition: str | None,
    nodes: str | None,
    gate: str,
    series: bool,
    resume: str | None,
    plan_only: bool,
    as_json: bool,
    reframe_options: tuple[str, ...],
) -> NoReturn:
    """Measure, compare, and say whether the nodes may go back into service.

    Options for ReFrame go behind `--`: railgauge accept -- -n Iperf2Pair

    Exit code: 0 accept, 1 reject, 2 inconclusive, 3 usage or environment.
    """
    if rehearsal.scenario() is not None:
        raise RailgaugeError(
            f"{rehearsal.VARIABLE} is set, and a rehearsal accepts nothing",
            next_step=f"unset {rehearsal.VARIABLE}, or: railgauge rehearse SYSTEM",
        )
    chosen = systems.chosen(system)
    if resume is not None:
        _resume(chosen, resume, as_json)
    _enter(chosen, partition)
    from railgauge.checks.wan import SERIES_VARIABLE

    if series:
        os.environ[SERIES_VARIABLE] = "1"
    mode: Gate = "baseline" if gate == "baseline" else "acceptance"
    _run(chosen, partition, nodes, mode, plan_only, as_json, reframe_options)


def _enter(system: str, partition: str | None) -> None:
    """Let this process work on `system`; for the lab with its mounts, from the start again."""
    session.use(system, partition or "")
    if session.in_lab(system):
        session.enter_lab_mounts([sys.executable, "-m", "railgauge", *sys.argv[1:]])


def _run(
    system: str,
    partition: str | None,
    nodes: str | None,
    mode: Gate,
    plan_only: bool,
    as_json: bool,
    reframe_options: tuple[str, ...],
) -> NoReturn:
    """One campaign, or only its plan; ends with the verdict's exit code."""
    # ReFrame's modules take a third of a second; only these commands need them.
    from railgauge import accept as acceptance

    scope = acceptance.scope(system, partition, nodes)
    if plan_only:
        if rehearsal.scenario() is not None:
            click.echo("SIMULATED: a rehearsal, by stand-ins for the programs")
        _print_plan(acceptance.plan(scope, nodes, mode, reframe_options))
        sys.exit(0)
    verdict = acceptance.run(system, scope, nodes, mode, reframe_options, _typed(), _say())
    _print_verdict(verdict, as_json)


def _resume(system: str, name: str, as_json: bool) -> NoReturn:
    """Another session of a campaign; ends with the verdict's exit code."""
    context = click.get_current_context()
    given = [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name in ("partition", "nodes", "gate", "series", "plan_only")
        and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    ]
    given += ["--"] if context.params["reframe_options"] else []
    if given:
        raise RailgaugeError(
            f"{' '.join(given)} and --resume: the campaign's record says what it is about",
            next_step=f"railgauge accept --resume {shlex.quote(name)}",
        )
    _enter(system, None)
    from railgauge import accept as acceptance
    from railgauge import campaign as campaigns

    campaign = campaigns.load(name)
    if campaign.system != system:
        raise RailgaugeError(
            f"campaign {campaign.id} is of system {campaign.system}, and this is {system}",
            next_step=f"railgauge accept --system {campaign.system} --resume {campaign.id}",
        )
    _print_verdict(acceptance.resume(campaign, _typed(), _say()), as_json)


def _typed() -> list[str]:
    return ["railgauge", *sys.argv[1:]]


def _say() -> Callable[[str], None]:
    """Tells of progress, on standard error."""
    progress = Console(stderr=True, highlight=False)
    return lambda line: progress.print(line)


def _print_verdict(verdict: Verdict, as_json: bool) -> NoReturn:
    from railgauge.report import text

    if as_json:
        click.echo(json.dumps(verdict.as_dict(), indent=2))
    else:
        text.render(verdict, text.console())
    sys.exit(verdict.exit_code)


@cli.command()
@click.argument("system")
@click.option(
    "--scenario",
    default="healthy",
    show_default=True,
    help="What happens, NAME or NAME:NODE: " + ", ".join(rehearsal.SCENARIOS),
)
@click.option("--nodes", help="Only these of the lab's nodes: n[1-2].")
@click.option("--plan", "plan_only", is_flag=True, help="Say what would run, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json instead of the table.")
@click.argument("reframe_options", nargs=-1, type=click.UNPROCESSED)
def rehearse(
    system: str,
    scenario: str,
    nodes: str | None,
    plan_only: bool,
    as_json: bool,
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
    _enter(system, None)
    rehearsal.require_effect(systems.load(system), nodes)
    _run(system, None, nodes, "acceptance", plan_only, as_json, reframe_options)


def _print_plan(cases: Sequence[Planned]) -> None:
    total = node_minutes = 0.0
    for case in cases:
        # Each of our checks says how long it takes.
        seconds = case.seconds or 0.0
        total += seconds
        node_minutes += seconds * case.node_count / 60
        click.echo(f"{case.partition:<10} {seconds:>5.0f} s  {case.case}")
    click.echo(f"{len(cases)} cases, about {total:.0f} s, {node_minutes:.1f} node-minutes")


@cli.command()
@click.argument("campaign", default="latest")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def verdict(campaign: str, as_json: bool) -> NoReturn:
    """Show a campaign's verdict again, read anew from its folder.

    CAMPAIGN is an id, a path, or `latest`. The exit code is the verdict's; that of a rehearsal,
    which says nothing of any node, is never 0.
    """
    from railgauge import campaign as campaigns
    from railgauge.report import text
    from railgauge.verdict.rules import decide

    decided = decide(campaigns.load(campaign))
    if as_json:
        click.echo(json.dumps(decided.as_dict(), indent=2))
    else:
        text.render(decided, text.console())
    code = decided.exit_code
    sys.exit(EXIT_INCONCLUSIVE if decided.simulated and code == EXIT_ACCEPT else code)


@cli.command("transfers")
@click.argument("campaign", default="latest")
def show_transfers(campaign: str) -> None:
    """Compare the tools that moved files in a campaign: rate, seconds, times the slowest.

    CAMPAIGN is an id, a path, or `latest`.
    """
    from railgauge import campaign as campaigns
    from railgauge.report import text, transfers
    from railgauge.verdict.rules import decide

    decided = decide(campaigns.load(campaign))
    if not transfers.compare(decided.cases):
        raise RailgaugeError(
            f"no transfers in campaign {decided.campaign.id}",
            next_step="railgauge campaigns lists the others; a partition with feature transfers "
            "measures them: railgauge accept",
        )
    console = text.console()
    text.say_if_simulated(decided, console)
    transfers.render(decided, console)
    for line in transfers.left_out(decided):
        console.print(line, highlight=False, soft_wrap=True)


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
            mark = "SIMULATED " if item.simulated else ""
            state = "broken off" if item.broke_off else item.state
            click.echo(f"{item.id}  {item.gate:<10}  {state:<11}  {mark}{decision}")
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
    text = file.read_text(encoding="utf-8", errors="replace")
    asked = None
    if streams is not None and seconds is not None:
        try:
            asked = _iperf2_options(text, streams, seconds)
        except ValueError as error:
            raise RailgaugeError(str(error)) from None
    calls = _side_calls("iperf2", exit_code, server_exit_code, float(seconds or 0))
    reading = iperf2.read(
        text,
        server=server.read_text(encoding="utf-8", errors="replace") if server else None,
        calls=calls,
        options=asked,
    )
    click.echo(json.dumps(reading.as_dict(), indent=2))
    sys.exit(0 if reading.ok else 1)


def _iperf2_options(text: str, streams: int, seconds: int) -> iperf2.Options:
    """What was asked for; the direction, which the command line does not say, as in the output."""
    try:
        ways = [way.direction for way in iperf2.parse(text).ways]
    except ParseError:
        ways = ["forward"]
    direction = "both" if len(ways) > 1 else ways[0]
    return iperf2.Options(streams=streams, duration_s=seconds, direction=direction)


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
    calls = _side_calls("perftest", exit_code, server_exit_code, float(seconds or 0))
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


@parse.command("iperf3")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--server",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The server's JSON of the same run.",
)
@click.option("--exit-code", type=int, help="The client's exit code, if you know it.")
@click.option("--server-exit-code", type=int, help="The server's exit code, if you know it.")
@click.option("--streams", type=int, help="How many streams were asked for (-P).")
@click.option("--seconds", type=int, help="How long it was to run (-t).")
def parse_iperf3(
    file: Path,
    server: Path | None,
    exit_code: int | None,
    server_exit_code: int | None,
    streams: int | None,
    seconds: int | None,
) -> NoReturn:
    """Read what an iperf3 client printed with --json.

    A whole document without an error proves that the run came to its end. A server's document
    alone does not prove what was sent.

    Exit code 1 when the output is no result.
    """
    if (streams is None) != (seconds is None):
        raise RailgaugeError(
            "--streams and --seconds belong together: what was asked for",
            next_step=f"railgauge parse iperf3 {shlex.quote(str(file))} --streams 4 --seconds 5",
        )
    asked = None
    if streams is not None and seconds is not None:
        try:
            asked = iperf3.Options(streams=streams, duration_s=seconds)
        except ValueError as error:
            raise RailgaugeError(str(error)) from None
    reading = iperf3.read(
        file.read_text(encoding="utf-8", errors="replace"),
        server=server.read_text(encoding="utf-8", errors="replace") if server else None,
        calls=_side_calls("iperf3", exit_code, server_exit_code),
        options=asked,
    )
    click.echo(json.dumps(reading.as_dict(), indent=2))
    sys.exit(0 if reading.ok else 1)


@parse.command("wdt")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--receiver",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The receiver's output of the same transfer.",
)
@click.option("--exit-code", type=int, help="The sender's exit code, if you know it.")
@click.option("--receiver-exit-code", type=int, help="The receiver's exit code, if you know it.")
@click.option("--files", type=int, help="How many files were to be sent.")
@click.option("--size", help="The size of each of them: 1GiB, 65536.")
@click.option("--streams", type=int, default=8, show_default=True, help="How many ports.")
@click.option(
    "--encryption",
    type=click.Choice(["aes128gcm", "aes128ctr", "none"]),
    default="aes128gcm",
    show_default=True,
    help="What was asked for.",
)
@click.option("--skip-writes", is_flag=True, help="The receiver was to throw all away.")
def parse_wdt(
    file: Path,
    receiver: Path | None,
    exit_code: int | None,
    receiver_exit_code: int | None,
    files: int | None,
    size: str | None,
    streams: int,
    encryption: wdt.Encryption,
    skip_writes: bool,
) -> NoReturn:
    """Read the log of a WDT sender, or of a receiver alone; keys are not printed.

    A bare file cannot prove that the transfer succeeded, so its completeness is `unknown`. It is
    `proved` by both exit codes, both logs, and the files that were asked for, where the receiver
    threw them away. Where it wrote them, only their sums prove that they arrived.

    Exit code 1 when the output is no result.
    """
    if (files is None) != (size is None):
        raise RailgaugeError(
            "--files and --size belong together: what was to be sent",
            next_step=f"railgauge parse wdt {shlex.quote(str(file))} --files 1 --size 1GiB",
        )
    if skip_writes and files is None:
        raise RailgaugeError(
            "--skip-writes says how files were to be received, and not which",
            next_step=f"railgauge parse wdt {shlex.quote(str(file))} --skip-writes --files 1 "
            "--size 1GiB",
        )
    asked = None
    if files is not None and size is not None:
        try:
            file_set = wdt.FileSet(files, parse_size(size))
            asked = wdt.Options(file_set, streams, encryption, skip_writes)
        except ValueError as error:
            raise RailgaugeError(str(error)) from None
    reading = wdt.read(
        file.read_text(encoding="utf-8", errors="replace"),
        server=receiver.read_text(encoding="utf-8", errors="replace") if receiver else None,
        calls=_side_calls("wdt", exit_code, receiver_exit_code),
        options=asked,
    )
    click.echo(wdt.redacted(json.dumps(reading.as_dict(), indent=2)))
    sys.exit(0 if reading.ok else 1)


@parse.command("osu")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--exit-code", type=int, help="The launcher's exit code, if you know it.")
@click.option("--size", help="The only size that was asked for (-m 64KiB:64KiB).")
@click.option("--iterations", type=int, help="How many iterations were asked for (-i).")
def parse_osu(
    file: Path, exit_code: int | None, size: str | None, iterations: int | None
) -> NoReturn:
    """Read the table of an OSU micro-benchmark: osu_latency, osu_bw, osu_allreduce, osu_alltoall.

    No line of it says that the run finished, so its completeness is `unknown`. It is `proved` by
    the launcher's exit code, which is that of the worst rank, and what was asked for.

    Exit code 1 when the output is no result.
    """
    if (size is None) != (iterations is None):
        raise RailgaugeError(
            "--size and --iterations belong together: what was asked for",
            next_step=f"railgauge parse osu {shlex.quote(str(file))} --size 64KiB --iterations 100",
        )
    text = file.read_text(encoding="utf-8", errors="replace")
    asked = None
    if size is not None and iterations is not None:
        try:
            # Which benchmark it was, only the file says.
            asked = osu.Options(osu.parse(text).benchmark, parse_size(size), iterations)
        except ParseError:
            asked = None
        except ValueError as error:
            raise RailgaugeError(str(error)) from None
    calls = [Call("osu", "all", 0, "here", exit_code, math.inf)] if exit_code is not None else []
    reading = osu.read(text, calls=calls, options=asked)
    click.echo(json.dumps(reading.as_dict(), indent=2))
    sys.exit(0 if reading.ok else 1)


def _side_calls(
    tool: str, client: int | None, server: int | None, seconds: float = math.inf
) -> list[Call]:
    """Calls of known exit code; where nobody says how long they took, it contradicts nothing.

    One of them proves nothing where the other is not known, but may be a failure.
    """
    if None in (client, server) and not client and not server:
        return []
    known = [("server", 0, server), ("client", 1, client)]
    return [Call(tool, role, rank, role, code or 0, seconds) for role, rank, code in known]


#: What --expect may name, and how its value is read.
_EXPECTED: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "operation": ("operation", str),
    "ranks": ("ranks", int),
    "min": ("min_bytes", parse_size),
    "max": ("max_bytes", parse_size),
    "factor": ("factor", int),
    "warmup": ("warmup", int),
    "iterations": ("iterations", int),
    "datatype": ("datatype", str),
    "version": ("version", str),
    "hosts": ("hosts", hostlist.expand),
}


@parse.command("nccl-tests")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--json",
    "json_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What -J wrote in the same run.",
)
@click.option("--exit-code", type=int, help="The launcher's exit code, if you know it.")
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"What was asked for, one of {', '.join(_EXPECTED)}; may be given again. "
    "The rest is taken from the output.",
)
def parse_nccl_tests(
    file: Path, json_file: Path | None, exit_code: int | None, expected: tuple[str, ...]
) -> NoReturn:
    """Read the output of one run of nccl-tests: all_reduce_perf and the like.

    Versions that end with `# Collective test concluded` prove by it that the run finished; of
    others a bare file's completeness is `unknown`.

    Exit code 1 when the output is no result.
    """
    text = file.read_text(encoding="utf-8", errors="replace")
    asked = _nccl_options(text, expected) if expected else None
    calls = []
    if exit_code is not None:
        # A launcher's is that of the rank that failed.
        ranks = asked.ranks if asked else _nccl_options(text, ("warmup=0",)).ranks
        calls = [
            Call("nccl-tests", f"rank{rank}", rank, "this run", exit_code, 0.0)
            for rank in range(ranks)
        ]
    reading = nccl_tests.read(
        {0: text},
        json_text=json_file.read_text(encoding="utf-8", errors="replace") if json_file else None,
        calls=calls,
        options=asked,
    )
    click.echo(json.dumps(reading.as_dict(), indent=2))
    sys.exit(0 if reading.ok else 1)


def _nccl_options(text: str, expected: tuple[str, ...]) -> nccl_tests.Options:
    """What --expect says; what it leaves out as the output states it."""
    example = "railgauge parse nccl-tests FILE --expect operation=all_reduce --expect ranks=8"
    asked: dict[str, Any] = {}
    for word in expected:
        name, equals, value = word.partition("=")
        if name not in _EXPECTED or not equals:
            raise RailgaugeError(
                f"--expect {word}: expected NAME=VALUE with one of {', '.join(_EXPECTED)}",
                next_step=example,
            )
        field, convert = _EXPECTED[name]
        try:
            asked[field] = convert(value)
        except ValueError as error:
            why = f"{value!r} is not a number" if convert is int else str(error)
            raise RailgaugeError(f"--expect {word}: {why}", next_step=example) from None
    try:
        stated = nccl_tests.parse(text)[0]
    except ParseError:
        stated = nccl_tests.Result()
    # Of what nobody states, something that the reading then finds to be different, or missing.
    fields: dict[str, Any] = {
        "operation": stated.operation or "all_reduce",
        "ranks": len(stated.devices) or 1,
        "min_bytes": stated.min_bytes,
        "max_bytes": stated.max_bytes,
        "factor": stated.step_factor,
        "warmup": stated.warmup,
        "iterations": stated.iterations,
        "datatype": stated.rows[0].datatype if stated.rows else None,
        "version": stated.version or None,
        **asked,
    }
    try:
        return nccl_tests.Options(
            **{
                "min_bytes": 8,
                "max_bytes": 8,
                **{name: value for name, value in fields.items() if value is not None},
            }
        )
    except ValueError as error:
        raise RailgaugeError(f"--expect: {error}", next_step=example) from None


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


def _gbytes_of_nics(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> float | None:
    """`400x8`, Gb/s of one NIC and NICs of a node, as GB/s of the node."""
    if text is None:
        return None
    try:
        rate, count = text.split("x")
        gbytes_s = float(rate) * int(count) / 8
        if int(count) > 0 and 0 < gbytes_s < float("inf"):
            return gbytes_s
    except (ValueError, OverflowError):
        pass
    expected = "RATExCOUNT: Gb/s of one NIC, NICs of a node"
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
    ) -> None:
        try:
            found = limits.collective(
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
        _print_limit(found)

    return show


for _operation in limits.COLLECTIVES:
    limit.add_command(_collective_command(_operation))


def main() -> NoReturn:
    """What bin/railgauge runs."""
    commands.run(cli, "railgauge")
