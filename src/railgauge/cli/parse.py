"""`railgauge parse`: a tool's output, read as the gate reads it."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from railgauge import hostlist
from railgauge.errors import RailgaugeError
from railgauge.model.call import Call
from railgauge.model.sizes import parse_size
from railgauge.tools import ParseError, Reading, iperf2, iperf3, nccl_tests, osu, perftest, wdt

#: A file of what a tool printed.
_OUTPUT = click.Path(exists=True, dir_okay=False, path_type=Path)

# What several tools' commands take.
_FILE = click.argument("file", type=_OUTPUT)
_SERVER = click.option("--server", type=_OUTPUT, help="The server's output of the same run.")
_EXIT_CODE = click.option("--exit-code", type=int, help="The client's exit code, if you know it.")
_SERVER_EXIT_CODE = click.option(
    "--server-exit-code", type=int, help="The server's exit code, if you know it."
)
_STREAMS = click.option("--streams", type=int, help="How many streams were asked for (-P).")
_SECONDS = click.option("--seconds", type=int, help="How long it was to run (-t).")


@click.group()
def parse() -> None:
    """Read a tool's output as the gate does, and print what it proves."""


@parse.command("iperf2")
@_FILE
@_SERVER
@_EXIT_CODE
@_SERVER_EXIT_CODE
@_STREAMS
@_SECONDS
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
    _end(reading)


def _iperf2_options(text: str, streams: int, seconds: int) -> iperf2.Options:
    """What was asked for; the direction, which the command line does not say, as in the output."""
    try:
        ways = [way.direction for way in iperf2.parse(text).ways]
    except ParseError:
        ways = ["forward"]
    direction = "both" if len(ways) > 1 else ways[0]
    return iperf2.Options(streams=streams, duration_s=seconds, direction=direction)


@parse.command("perftest")
@_FILE
@_SERVER
@_EXIT_CODE
@_SERVER_EXIT_CODE
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
    _end(reading)


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
@_FILE
@click.option(
    "--server",
    type=_OUTPUT,
    help="The server's JSON of the same run.",
)
@_EXIT_CODE
@_SERVER_EXIT_CODE
@_STREAMS
@_SECONDS
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
    _end(reading)


@parse.command("wdt")
@_FILE
@click.option(
    "--receiver",
    type=_OUTPUT,
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
@_FILE
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
    _end(reading)


def _end(reading: Reading) -> NoReturn:
    """Print the reading; exit code 1 where the output is no result."""
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
@_FILE
@click.option(
    "--json",
    "json_file",
    type=_OUTPUT,
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
    _end(reading)


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
