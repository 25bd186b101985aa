"""WDT: files or a folder, over many TCP connections from one node to another.

WDT prints a throughput for a transfer that failed, too, and skips a dangling symlink without a
word. So `read` believes a run only where both sides exited 0, both summaries agree on the blocks
and bytes, and these are the files that were asked for; when they were written, with their sha256.

The receiver prints a URL on stdout that holds the encryption key. Nothing here takes a URL with a
key, and all text is redacted before it is looked at. `railgauge.node.wdt_url` brings the URL from
one node to the other; the sender reads it from stdin.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from railgauge.measurement import Measurement
from railgauge.node.wdt_url import redacted
from railgauge.tools import Call, Completeness, ParseError, Reading, file_transfer
from railgauge.tools.file_transfer import DISCARDED, FileSet
from railgauge.tools.sides import CALL_SLACK_S, collect

TOOL = "wdt"

Role = Literal["sender", "receiver", "unknown"]
Encryption = Literal["aes128gcm", "aes128ctr", "none"]

__all__ = [
    "ERRORS",
    "Encryption",
    "FileSet",
    "Options",
    "Output",
    "Summary",
    "manifest_text",
    "parse",
    "read",
    "receiver_argv",
    "redacted",
    "sender_argv",
    "version_argv",
]

#: WDT's error codes by number, which are its exit codes.
ERRORS = (
    *("OK", "ERROR", "ABORT", "CONN_ERROR", "CONN_ERROR_RETRYABLE", "SOCKET_READ_ERROR"),
    *("SOCKET_WRITE_ERROR", "BYTE_SOURCE_READ_ERROR", "FILE_WRITE_ERROR"),
    *("MEMORY_ALLOCATION_ERROR", "PROTOCOL_ERROR", "VERSION_MISMATCH", "ID_MISMATCH"),
    *("CHECKSUM_MISMATCH", "RESOURCE_NOT_FOUND", "ABORTED_BY_APPLICATION"),
    *("VERSION_INCOMPATIBLE", "NOT_FOUND", "QUOTA_EXCEEDED", "FEWER_PORTS", "URI_PARSE_ERROR"),
    *("INCONSISTENT_DIRECTORY", "INVALID_LOG", "INVALID_CHECKPOINT", "NO_PROGRESS"),
    *("TRANSFER_LOG_ACQUIRE_ERROR", "WDT_TIMEOUT", "UNEXPECTED_CMD_ERROR", "ENCRYPTION_ERROR"),
    *("ALREADY_EXISTS", "GLOBAL_CHECKPOINT_ABORT", "INVALID_REQUEST", "SENDER_START_TIMED_OUT"),
    "AUTH_ERROR",
)

_MBYTE = 2**20


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """What is asked of one transfer; ValueError where it cannot be run."""

    file_set: FileSet
    #: TCP connections, each to a port of its own
    streams: int = 8
    encryption: Encryption = "aes128gcm"
    #: the receiver throws away what comes: the network without the receiver's disk
    skip_writes: bool = False
    #: ports from this one on; None: any that are free
    start_port: int | None = None
    #: what both sides must state, such as 1.32; None: any, but one
    version: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.streams, int) or isinstance(self.streams, bool) or self.streams < 1:
            raise ValueError(f"wdt streams is {self.streams!r}, expected an integer of 1 or more")
        if self.encryption not in ("aes128gcm", "aes128ctr", "none"):
            expected = "aes128gcm, aes128ctr or none"
            raise ValueError(f"wdt encryption is {self.encryption!r}, expected {expected}")
        port = self.start_port
        if port is not None and (
            not isinstance(port, int)
            or isinstance(port, bool)
            or not 1024 <= port <= 65536 - self.streams
        ):
            expected = f"1024 to {65536 - self.streams} for {self.streams} streams"
            raise ValueError(f"wdt start_port is {port!r}, expected {expected}")
        if self.version is not None and not re.fullmatch(r"[0-9]+(?:\.[0-9]+)*", self.version):
            raise ValueError(f"wdt version is {self.version!r}, expected one such as 1.32")

    @property
    def operation(self) -> str:
        """The operation of a measurement: what was sent, and whether it was kept."""
        return self.file_set.name + (DISCARDED if self.skip_writes else "")

    @property
    def transport(self) -> str:
        return "tcp" if self.encryption == "none" else f"tcp-{self.encryption}"


# ---- argv ----------------------------------------------------------------------------------


def version_argv() -> list[str]:
    return ["wdt", "-version"]


def receiver_argv(options: Options, folder: str) -> list[str]:
    """The receiver. It prints its URL when it listens on every port, and ends after one transfer.

    Where a port is busy it must end, with code 19: by itself it would go on with fewer.
    """
    argv = ["wdt", "-directory", folder, "-num_ports", str(options.streams)]
    argv += ["-encryption_type", options.encryption, "-treat_fewer_port_as_error"]
    if options.start_port is not None:
        argv += ["-start_port", str(options.start_port)]
    if options.skip_writes:
        argv += ["-skip_writes"]
    return argv


def sender_argv(
    options: Options, folder: str, host: str = "{server}", manifest: str | None = None
) -> list[str]:
    """The sender. "-" makes it read the URL from stdin, so that no argument holds the key.

    `host` takes the place of the name in the URL: it decides over which interface the data goes.
    `manifest` is a file of names (`manifest_text`), where not all of the folder is to be sent.
    """
    argv = ["wdt", "-directory", folder, "-hostname", host]
    if manifest is not None:
        argv += ["-manifest", manifest]
    return [*argv, "-"]


def manifest_text(sizes: Mapping[str, int]) -> str:
    """A list of files for the sender, by name relative to its folder, with their bytes."""
    for name in sizes:
        if not name or name.startswith("/") or any(c in name for c in "\t\n\r"):
            raise ValueError(f"{name!r} cannot be listed for WDT: expected a relative name")
    return "".join(f"{name}\t{size}\n" for name, size in sizes.items())


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Summary:
    """What one side says at its end. Mbytes are 2^20 bytes."""

    status: str
    #: None on a receiver, which counts blocks
    files: int | None
    blocks: int | None
    data_bytes_low: int
    data_bytes_high: int
    #: with headers and what had to be sent again
    total_bytes: int
    wasted_bytes: int
    #: None in versions that do not say
    encryption: str | None
    previously_sent_bytes: int


@dataclasses.dataclass(frozen=True)
class Output:
    """One side of one transfer that has come to its end."""

    role: Role
    #: as in ERRORS
    status: str
    code: int
    version: str | None
    transfer_id: str | None
    ports: tuple[int, ...]
    summary: Summary | None
    #: blocks of all threads, as far as they have ended
    blocks: int
    #: the sender's time from start to end, and that of its search for files
    seconds: float | None = None
    folder_seconds: float | None = None
    #: the sender's rate as printed, headers included, start-up included or not
    throughput_mbytes_s: float | None = None
    pure_mbytes_s: float | None = None
    files_explored: int | None = None
    #: connections that were tried again
    retries: int = 0
    #: error codes that the transfer recovered from
    recovered: tuple[str, ...] = ()
    #: files and folders that were not sent
    failed: tuple[str, ...] = ()
    #: lines that WDT itself marks as errors
    error_lines: int = 0
    #: the folders for its files, which a receiver that throws them away does not make (since 2016)
    wrote: bool = False
    simulated: bool = False

    def covers(self, size: int) -> bool:
        """Whether so many bytes of data agree with the summary, as rounded."""
        summary = self.summary
        return summary is not None and summary.data_bytes_low <= size <= summary.data_bytes_high


# ---- parse ---------------------------------------------------------------------------------

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?(?:e[+-]?[0-9]{1,2})?"
_RECORDER = re.compile(r"^(?:STDERR: |\s*[0-9]{1,6}: ?)+")
_GLOG = re.compile(
    r"(?P<level>[IWEF])(?:[0-9]{4}|[0-9]{8}) [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\s+[0-9]+ "
    r"[^\s:]+:[0-9]+\] "
)
_PREFIX = re.compile(r"wdt>\s")
_THREAD = re.compile(r"Thread\[[^\]]*\]\s+|Port [0-9]+ done\. ")

_END = re.compile(r"Returning with (?:OK exit code|code (?P<code>[0-9]{1,5}) (?P<name>[A-Z_0-9]+))")
_VERSION = re.compile(
    r"(?:Running WDT|WDT (?P<role>Sender|Receiver)) (?P<version>[0-9][\w.-]*) p [0-9]+"
)
_SENDER = re.compile(r"Making Sender |Client \(sending\) to |Total sender time = |wdtSend for ")
_RECEIVER = re.compile(
    r"Starting receiver with connection url|Starting \(receiving\) server|"
    r"WDT receiver's transfer has been finished"
)
_PORTS = re.compile(r"(?:Using ports|server on ports) \[(?P<ports>[0-9 ]*)\]")
_TRANSFER = re.compile(
    r"(?:Starting a new transfer (?P<a>\S+) to |Starting new transfer,.* transfer id (?P<b>\S+))"
)
_STATUS = re.compile(
    r"Transfer status(?: = (?P<both>[A-Z_]+)| \(local\) = (?P<local>[A-Z_]+), "
    r"\(remote\) = (?P<remote>[A-Z_]+))\."
)
_FIELDS = {
    "count": re.compile(r"Number of (files|blocks) transferred = ([0-9]{1,18})\."),
    "data": re.compile(rf"Data Mbytes = ({_NUMBER})\. "),
    "header": re.compile(rf"Header [Kk][Bb]ytes = ({_NUMBER}) \("),
    "total": re.compile(r"Total bytes = ([0-9]{1,18})\."),
    "wasted": re.compile(r"Wasted bytes due to failure = ([0-9]{1,18}) \("),
}
_ENCRYPTION = re.compile(r"Encryption type = ([a-z0-9]+)\.")
_PREVIOUSLY = re.compile(r"Previously sent bytes : ([0-9]{1,18})\.")
_SENDER_TIME = re.compile(rf"Total sender time = ({_NUMBER}) seconds \(({_NUMBER}) dirTime\)")
_THROUGHPUT = re.compile(
    rf"Total sender throughput = ({_NUMBER}) Mbytes/sec \((\S+) Mbytes/sec pure transf(er)? rate\)"
)
_FOLDER = re.compile(r"(?:dir already exists|made dir) ")
# What others say beside WDT's own lines: a shell, Slurm, the C library, glog.
_FAILURE = re.compile(
    r"^\*\*\* (?:aborted at|sig)|segmentation fault|core dumped|bus error|double free|"
    r"\b(?:srun|slurmstepd|mpirun|prterun): error\b|\bkilled\b|\bcancelled\b|\baborted\b|"
    r"\bterminated\b(?! normally)|\bterminate called\b|process received signal|out of memory|"
    r"illegal instruction|floating point exception|error while loading|command not found",
    re.IGNORECASE,
)
_EXPLORED = re.compile(r"Number of files explored: ([0-9]{1,18})\b(?:.* errors (true|false))?")
_ATTEMPTS = re.compile(r"Connection took ([0-9]{1,9}) attempt\(s\)")
_RECOVERED = re.compile(
    r"WDT successfully recovered from error (?P<a>[A-Z_]+)|turning (?P<b>[A-Z_]+) into local OK"
)
_FAILED = re.compile(r"Failed (?:files|directories) :")
_FEWER = re.compile(r"FEWER_PORTS|Receiver could not bind to all the ports|.*has FEWER_PORTS")


class _Shown:
    """A printed number, and how far it may be from what was rounded.

    Newer versions print two decimals; older ones six significant digits, without zeros at the end.
    """

    def __init__(self, text: str) -> None:
        self.value = float(text)
        decimals = len(text.partition("e")[0].partition(".")[2])
        fixed = 0.5 * 10.0**-decimals if decimals == 2 and "e" not in text else 0.0
        self.half = fixed or 5e-6 * abs(self.value)

    @property
    def low(self) -> float:
        return max(self.value - self.half, 0.0)

    @property
    def high(self) -> float:
        return self.value + self.half


def parse(text: str) -> Output:
    """Read what one side printed, on stdout and stderr; ParseError where it came to no end.

    A transfer that failed gives an Output too, with its `code`: its numbers are no result.
    """
    reader = _Reader()
    for number, line in enumerate(redacted(text).split("\n"), start=1):
        reader.feed(number, line)
    return reader.output()


class _Reader:
    def __init__(self) -> None:
        self.roles: set[Role] = set()
        self.version: str | None = None
        self.transfer: str | None = None
        self.ports: tuple[int, ...] = ()
        self.end: tuple[int, str] | None = None
        self.end_line = 0
        self.own: tuple[int, Summary] | None = None
        self.threads: list[Summary] = []
        self.time: tuple[_Shown, _Shown] | None = None
        self.throughput: tuple[_Shown, float] | None = None
        self.explored: int | None = None
        self.retries = 0
        self.recovered: list[str] = []
        self.failed: list[str] = []
        self.listing_failed = False
        self.error_lines = 0
        self.wrote = False
        #: 2014 and 2015: the sender's last line is its throughput
        self.without_end = False
        self.simulated = False
        self.words = 0

    def feed(self, number: int, line: str) -> None:
        line = _RECORDER.sub("", line.rstrip("\r"))
        if not line.strip():
            return
        if line.startswith("#"):
            self.simulated = self.simulated or line.startswith("# SIMULATED")
            return
        self.words += 1
        stamp = _GLOG.match(line)
        body = line[stamp.end() :] if stamp else line
        body = _PREFIX.sub("", body, count=1)
        if stamp and stamp["level"] == "F":
            raise ParseError(number, _quote(line), "no fatal error")
        if stamp and stamp["level"] == "E":
            self.error_lines += 1
        if stamp or body.startswith("Total sender throughput"):
            self.listing_failed = False
        elif self.listing_failed and body.strip():
            self._failed(body)
            return
        elif _FAILURE.search(body):
            raise ParseError(number, _quote(line), "no failure beside WDT's own lines")
        if _FEWER.fullmatch(body.strip()):
            raise ParseError(
                number, "FEWER_PORTS", "a receiver on all of its ports; some are in use"
            )
        self._conditions(number, body)
        self._result(number, body)

    def _failed(self, body: str) -> None:
        if not _FAILED.match(body):
            self.failed.append(body.strip())

    def _conditions(self, number: int, body: str) -> None:
        matched = _VERSION.match(body)
        if matched:
            if self.version not in (None, matched["version"]):
                found = f"version {matched['version']} after {self.version}"
                raise ParseError(number, found, "one run of one side")
            self.version = matched["version"]
            if matched["role"]:
                self.roles.add("sender" if matched["role"] == "Sender" else "receiver")
        if _SENDER.match(body):
            self.roles.add("sender")
        if _RECEIVER.match(body):
            self.roles.add("receiver")
        if len(self.roles) > 1:
            raise ParseError(number, "a sender and a receiver in one text", "one side")
        matched = _PORTS.search(body)
        if matched:
            self.ports = tuple(int(port) for port in matched["ports"].split() if len(port) < 6)
        matched = _TRANSFER.match(body)
        if matched:
            transfer = matched["a"] or matched["b"]
            if self.transfer not in (None, transfer):
                raise ParseError(number, f"transfer {transfer} after another", "one transfer")
            self.transfer = transfer
        matched = _EXPLORED.match(body)
        if matched:
            self.explored = int(matched[1])
            if matched[2] == "true":
                self.failed.append("errors while looking for files")
        self.wrote = self.wrote or bool(_FOLDER.match(body))
        matched = _ATTEMPTS.search(body)
        if matched:
            self.retries += max(int(matched[1]) - 1, 0)
        matched = _RECOVERED.search(body)
        if matched:
            self.recovered.append(matched["a"] or matched["b"])

    def _result(self, number: int, body: str) -> None:
        matched = _SENDER_TIME.match(body)
        if matched:
            self._once(self.time, number, "Total sender time")
            self.time = _Shown(matched[1]), _Shown(matched[2])
        elif body.startswith("Total sender time"):
            raise ParseError(number, _quote(body), "Total sender time = S seconds (S dirTime)")
        matched = _STATUS.search(body)
        if matched:
            summary = _summary(number, body, matched)
            start = _THREAD.match(body)
            if start is None and (matched.start() == 0 or self.time is not None):
                if self.own is not None and "sender" in self.roles:
                    raise ParseError(number, "a second summary", "one summary of the sender")
                self.own = number, summary
            else:
                self.threads.append(summary)
        matched = _THROUGHPUT.match(body)
        if matched:
            self._once(self.throughput, number, "Total sender throughput")
            self.throughput = _Shown(matched[1]), _number(matched[2])
            self.without_end = matched[3] is None
        elif body.startswith("Total sender throughput"):
            raise ParseError(number, _quote(body), "Total sender throughput = X Mbytes/sec (...)")
        if _FAILED.search(body):
            self.listing_failed = True
        if body.endswith("All files failed."):
            self.failed.append("all files")
        matched = _END.fullmatch(body.strip())
        if matched:
            self._once(self.end, number, "Returning with")
            code, name = int(matched["code"] or 0), matched["name"] or "OK"
            if code >= len(ERRORS) or ERRORS[code] != name:
                known = f"{code} {ERRORS[code]}" if code < len(ERRORS) else "a code that WDT has"
                raise ParseError(number, f"code {code} {name}", known)
            self.end, self.end_line = (code, name), number

    def _once(self, before: object, number: int, what: str) -> None:
        if before is not None:
            raise ParseError(number, f"a second {what!r}", "one run of one side")

    def output(self) -> Output:
        if not self.words:
            raise ParseError(0, "nothing", "the log of a WDT sender or receiver")
        if self.end is None and self.without_end and self.own is not None:
            line, summary = self.own
            code = ERRORS.index(summary.status) if summary.status in ERRORS else 1
            self.end, self.end_line = (code, summary.status), line
        if self.end is None:
            raise ParseError(0, "no end", "a last line 'Returning with ...'")
        code, status = self.end
        role: Role = next(iter(self.roles), "unknown")
        output = Output(
            role,
            status,
            code,
            self.version,
            self.transfer,
            self.ports,
            self.own[1] if self.own else None,
            sum(thread.blocks or 0 for thread in self.threads),
            files_explored=self.explored,
            retries=self.retries,
            recovered=tuple(self.recovered),
            failed=tuple(self.failed),
            error_lines=self.error_lines,
            wrote=self.wrote,
            simulated=self.simulated,
        )
        if code == 0:
            output = self._succeeded(output)
        elif self.time is not None:
            output = dataclasses.replace(
                output, seconds=self.time[0].value, folder_seconds=self.time[1].value
            )
        return output

    def _succeeded(self, output: Output) -> Output:
        if self.own is None:
            raise ParseError(self.end_line, "no summary", "'Transfer status = OK. ...' before it")
        line, summary = self.own
        if summary.status != "OK":
            raise ParseError(line, f"status {summary.status}", "OK, as the exit code says")
        if output.role == "unknown":
            raise ParseError(0, "no line that names the side", "a sender's or a receiver's log")
        if output.role == "receiver":
            return output
        if self.time is None or self.throughput is None:
            what = "Total sender time" if self.time is None else "Total sender throughput"
            raise ParseError(line, f"no '{what}'", "the sender's time and throughput")
        if summary.files is None:
            raise ParseError(line, "no number of files", "'Number of files transferred = N.'")
        # The rate is of all bytes that counted, headers included, over the time as it was before
        # it was rounded: together they tell the time better than two decimals do.
        moved = summary.total_bytes - summary.wasted_bytes
        seconds, rate = self.time[0], self.throughput[0]
        low, high = seconds.low, seconds.high
        if rate.low > 0:
            low, high = max(low, moved / _MBYTE / rate.high), min(high, moved / _MBYTE / rate.low)
        if high <= 0 or low > high * (1 + 1e-6):
            found = f"{rate.value:g} Mbytes/sec for {moved} bytes in {seconds.value:g} s"
            raise ParseError(line, found, "a throughput that is its bytes over its time")
        return dataclasses.replace(
            output,
            seconds=(low + high) / 2,
            folder_seconds=self.time[1].value,
            throughput_mbytes_s=rate.value,
            pure_mbytes_s=self.throughput[1] if math.isfinite(self.throughput[1]) else None,
        )


def _summary(number: int, body: str, status: re.Match[str]) -> Summary:
    found: dict[str, re.Match[str]] = {}
    for name, pattern in _FIELDS.items():
        matched = pattern.search(body, status.end())
        if matched is None:
            raise ParseError(
                number, _quote(body), f"a summary with {pattern.pattern.split(' =')[0]}"
            )
        found[name] = matched
    local, remote = status["local"] or status["both"], status["remote"] or status["both"]
    count = int(found["count"][2])
    total, wasted = int(found["total"][1]), int(found["wasted"][1])
    data, header = _Shown(found["data"][1]), _Shown(found["header"][1])
    # Headers are printed in Kbytes, so the rest of the total is the data to within some bytes.
    low = max(math.floor(data.low * _MBYTE), math.floor(total - wasted - header.high * 1024))
    high = min(math.ceil(data.high * _MBYTE), math.ceil(total - wasted - header.low * 1024))
    if low > high:
        shown = f"{data.value:g} Mbytes of data in {total} bytes, {wasted} wasted"
        raise ParseError(number, shown, "data, headers and waste that add up to the total")
    encryption, previously = _ENCRYPTION.search(body), _PREVIOUSLY.search(body)
    return Summary(
        status="OK" if local == remote == "OK" else remote if local == "OK" else local,
        files=count if found["count"][1] == "files" else None,
        blocks=count if found["count"][1] == "blocks" else None,
        data_bytes_low=low,
        data_bytes_high=high,
        total_bytes=total,
        wasted_bytes=wasted,
        encryption=encryption[1] if encryption else None,
        previously_sent_bytes=int(previously[1]) if previously else 0,
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _quote(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 100 else text[:97] + "...")


# ---- read ----------------------------------------------------------------------------------


def read(
    client: str,
    *,
    server: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
    arrived: str | None = None,
    sent: str | None = None,
) -> Reading:
    """Judges all that is known of one transfer; never raises for what a tool or a job wrote.

    The client is the sender, the server the receiver. `arrived` is what `file_set verify` printed
    on the receiver's node, `sent` the manifest of what was sent. Proved with both calls at exit 0,
    both outputs, the options and, unless writes are skipped, the sums of what arrived.
    """
    sides = collect(
        TOOL, parse, redacted(client), None if server is None else redacted(server), calls
    )
    side, outputs, complaints = sides.names, sides.outputs, list(sides.complaints)
    alone = server is None and not calls
    for role, output in outputs.items():
        expected = "sender" if role == "client" else "receiver"
        if output.role not in (expected, "unknown") and not alone:
            complaints.append(f"{side[role]}: the output is that of a {output.role}")
        complaints += [f"{side[role]}: {why}" for why in _complaints(output, options)]
        for call in sides.calls[role]:
            if call.exit_code is not None and call.exit_code != output.code:
                codes = f"{output.code}, but the exit code is {call.exit_code}"
                complaints.append(f"{side[role]}: it says that it returns {codes}")
            if output.seconds is not None and call.seconds + CALL_SLACK_S < output.seconds:
                took = f"the call took {call.seconds:.1f} s"
                complaints.append(f"{side[role]}: {took}, but its transfer {output.seconds:.1f} s")
    if len(outputs) == 2:
        complaints += _disagreements(outputs["client"], outputs["server"], side)
    complaints += _arrival_complaints(arrived, sent, options, side["server"])
    simulated = any(output.simulated for output in outputs.values())
    if complaints:
        refused = Reading.refused(redacted("; ".join(complaints)))
        return dataclasses.replace(refused, simulated=simulated)
    output = outputs["client"]
    seen = _seen(outputs)
    measurements = _measurements(output, options, sides.nodes, simulated)
    missing = _missing(server is not None, bool(calls), options, arrived, sent)
    if missing:
        reason = (
            f"{output.role}: nothing in it is contradicted, but that the transfer succeeded is "
            "not proved without " + ", ".join(missing)
        )
        return Reading(True, reason, Completeness.UNKNOWN, measurements, seen, simulated)
    assert output.summary is not None
    kept = "thrown away as asked" if options and options.skip_writes else "with their sha256"
    reason = (
        f"{output.summary.files} file(s) over {len(output.ports)} port(s) in "
        f"{output.seconds:.2f} s: both sides ended with exit code 0 and agree; {kept}"
    )
    return Reading(True, reason, Completeness.PROVED, measurements, seen, simulated)


def _complaints(output: Output, options: Options | None) -> list[str]:
    """What contradicts a good transfer in one output, and what was asked of it."""
    if output.code != 0:
        failed = f"; failed: {', '.join(output.failed[:3])}" if output.failed else ""
        return [f"it returned {output.code} {output.status}{failed}"]
    complaints = []
    summary = output.summary
    assert summary is not None
    if output.failed:
        complaints.append(f"failed: {', '.join(output.failed[:3])}")
    if output.recovered:
        complaints.append(f"it recovered from {', '.join(output.recovered)}: the path is flaky")
    if summary.wasted_bytes:
        complaints.append(f"{summary.wasted_bytes} bytes had to be sent again: the path is flaky")
    if summary.previously_sent_bytes:
        complaints.append(f"{summary.previously_sent_bytes} bytes were there from before")
    if summary.data_bytes_high <= 0 or (summary.files or summary.blocks or 0) <= 0:
        complaints.append("nothing was transferred")
    if output.files_explored is not None and summary.files not in (None, output.files_explored):
        found = f"{summary.files} files transferred"
        complaints.append(f"{found}, but {output.files_explored} explored")
    if summary.blocks is not None and output.blocks not in (0, summary.blocks):
        complaints.append(f"{summary.blocks} blocks, but {output.blocks} by its threads")
    if options is None:
        return complaints
    asked = options.file_set
    if output.role == "sender" and summary.files != asked.files:
        complaints.append(
            f"{summary.files} files transferred, expected {asked.files}: "
            "WDT skips a dangling symlink without a word"
        )
    if not output.covers(asked.total_bytes):
        found = f"{summary.data_bytes_low} to {summary.data_bytes_high} bytes of data"
        complaints.append(f"{found}, expected {asked.total_bytes}")
    if len(output.ports) != options.streams:
        complaints.append(f"{len(output.ports)} ports, expected {options.streams}")
    if options.skip_writes and output.wrote and output.version is not None:
        complaints.append("it made folders to write to, expected a receiver that throws all away")
    if summary.encryption not in (None, options.encryption):
        complaints.append(f"encryption {summary.encryption}, expected {options.encryption}")
    wanted, stated = options.version, output.version
    if wanted is not None and not f"{stated}.".startswith(f"{wanted}."):
        complaints.append(f"version {stated or 'not stated'}, expected {wanted}")
    return complaints


def _disagreements(sent: Output, received: Output, side: Mapping[str, str]) -> list[str]:
    complaints = []
    both = f"{side['client']} and {side['server']}"
    for what in ("transfer_id", "version"):
        ours, theirs = getattr(sent, what), getattr(received, what)
        if None not in (ours, theirs) and ours != theirs:
            complaints.append(f"{both}: not one run, {what} {ours} and {theirs}")
    if sent.code or received.code or sent.summary is None or received.summary is None:
        return complaints
    if sent.ports != received.ports:
        complaints.append(f"{both}: they do not use the same ports")
    blocks = received.summary.blocks
    if None not in (blocks, sent.blocks) and sent.blocks and blocks != sent.blocks:
        complaints.append(f"{both}: {sent.blocks} blocks sent, {blocks} received")
    ours, theirs = sent.summary, received.summary
    if ours.data_bytes_low > theirs.data_bytes_high or theirs.data_bytes_low > ours.data_bytes_high:
        complaints.append(
            f"{both}: {ours.data_bytes_high} bytes sent, {theirs.data_bytes_high} received"
        )
    if ours.encryption != theirs.encryption:
        complaints.append(f"{both}: encryption {ours.encryption} and {theirs.encryption}")
    return complaints


def _arrival_complaints(
    arrived: str | None, sent: str | None, options: Options | None, where: str
) -> list[str]:
    if options is not None and options.skip_writes:
        return []
    try:
        manifest = None if sent is None else file_transfer.parse_manifest(sent)
        if arrived is None:
            return []
        arrival = file_transfer.parse(arrived)
    except ParseError as error:
        return [f"{where}: {error}"]
    asked = options.file_set if options else None
    return file_transfer.arrival_complaints(arrival, manifest, asked, where)


def _missing(
    has_server: bool,
    has_calls: bool,
    options: Options | None,
    arrived: str | None,
    sent: str | None,
) -> list[str]:
    missing = []
    if not has_calls:
        missing.append("the exit codes of both sides")
    if not has_server:
        missing.append("the receiver's output")
    if options is None:
        missing.append("the options")
    if options is None or not options.skip_writes:
        if arrived is None:
            missing.append("the sums of what arrived")
        if sent is None:
            missing.append("the manifest of what was sent")
    return missing


def _seen(outputs: Mapping[str, Output]) -> dict[str, Any]:
    output = outputs["client"]
    assert output.summary is not None
    seen: dict[str, Any] = {
        "files": output.summary.files,
        "streams": len(output.ports),
        "retries": sum(side.retries for side in outputs.values()),
        "error_lines": sum(side.error_lines for side in outputs.values()),
    }
    if output.version:
        seen["version"] = output.version
    if output.summary.encryption:
        seen["encryption"] = output.summary.encryption
    for name in ("seconds", "folder_seconds", "throughput_mbytes_s", "pure_mbytes_s"):
        value = getattr(output, name)
        if value is not None:
            seen[name] = round(value, 6)
    return seen


def _measurements(
    output: Output, options: Options | None, nodes: tuple[str, ...], simulated: bool
) -> tuple[Measurement, ...]:
    """Payload over the sender's whole time, its start and its search for files included."""
    summary = output.summary
    # A receiver's log alone tells no time.
    if summary is None or not output.seconds:
        return ()
    size = (
        options.file_set.total_bytes
        if options
        else (summary.data_bytes_low + summary.data_bytes_high) // 2
    )
    asked = options.file_set if options else None
    transport = f"tcp-{summary.encryption}" if summary.encryption not in (None, "none") else "tcp"
    return tuple(
        Measurement(
            metric,
            value,
            TOOL,
            options.operation if options else "files",
            options.transport if options else transport,
            size_bytes=asked.file_bytes if asked else None,
            streams=len(output.ports) or None,
            nodes=nodes,
            simulated=simulated,
        )
        for metric, value in (
            ("bandwidth", size * 8e-9 / output.seconds),
            ("transfer_time", output.seconds),
        )
    )
