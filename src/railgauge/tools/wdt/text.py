"""What WDT prints of one side, as the transfer that it made."""

from __future__ import annotations

import dataclasses
import math
import re

from railgauge.node.runners.wdt_url import redacted
from railgauge.tools import ParseError
from railgauge.tools.common.lines import DIED, LABELS, numbered, quote
from railgauge.tools.common.numbers import Shown
from railgauge.tools.wdt.result import ERRORS, Output, Role, Summary

_MBYTE = 2**20

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?(?:e[+-]?[0-9]{1,2})?"
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
# What others print between WDT's own lines: a shell, Slurm, the C library, glog.
_FAILURE = re.compile(rf"^\*\*\* (?:aborted at|sig)|\bterminate called\b|{DIED}", re.IGNORECASE)
_EXPLORED = re.compile(r"Number of files explored: ([0-9]{1,18})\b(?:.* errors (true|false))?")
_ATTEMPTS = re.compile(r"Connection took ([0-9]{1,9}) attempt\(s\)")
_RECOVERED = re.compile(
    r"WDT successfully recovered from error (?P<a>[A-Z_]+)|turning (?P<b>[A-Z_]+) into local OK"
)
_FAILED = re.compile(r"Failed (?:files|directories) :")
_FEWER = re.compile(r"FEWER_PORTS|Receiver could not bind to all the ports|.*has FEWER_PORTS")


def _shown(text: str) -> Shown:
    """Newer versions print two decimals; older ones six significant digits, without zeros at the
    end.
    """
    if re.fullmatch(r"[^.e]*\.[0-9]{2}", text):
        return Shown.of(text)
    return Shown(float(text), 5e-6 * abs(float(text)))


def parse(text: str) -> Output:
    """Read what one side printed, on stdout and stderr; ParseError where it came to no end.

    A transfer that failed gives an Output too, with its `code`: its numbers are no result.
    """
    reader = _Reader()
    for number, line in numbered(redacted(text)):
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
        self.time: tuple[Shown, Shown] | None = None
        self.throughput: tuple[Shown, float] | None = None
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
        line = LABELS.sub("", line.rstrip("\r"))
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
            raise ParseError(number, quote(line), "no fatal error")
        if stamp and stamp["level"] == "E":
            self.error_lines += 1
        if stamp or body.startswith("Total sender throughput"):
            self.listing_failed = False
        elif self.listing_failed and body.strip():
            if not _FAILED.match(body):
                self.failed.append(body.strip())
            return
        elif _FAILURE.search(body):
            raise ParseError(number, quote(line), "no failure outside WDT's own lines")
        if _FEWER.fullmatch(body.strip()):
            raise ParseError(
                number, "FEWER_PORTS", "a receiver on all of its ports; some are in use"
            )
        self._conditions(number, body)
        self._result(number, body)

    def _conditions(self, number: int, body: str) -> None:
        if matched := _VERSION.match(body):
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
        if matched := _PORTS.search(body):
            self.ports = tuple(int(port) for port in matched["ports"].split() if len(port) < 6)
        if matched := _TRANSFER.match(body):
            transfer = matched["a"] or matched["b"]
            if self.transfer not in (None, transfer):
                raise ParseError(number, f"transfer {transfer} after another", "one transfer")
            self.transfer = transfer
        if matched := _EXPLORED.match(body):
            self.explored = int(matched[1])
            if matched[2] == "true":
                self.failed.append("errors while looking for files")
        self.wrote = self.wrote or bool(_FOLDER.match(body))
        if matched := _ATTEMPTS.search(body):
            self.retries += max(int(matched[1]) - 1, 0)
        if matched := _RECOVERED.search(body):
            self.recovered.append(matched["a"] or matched["b"])

    def _result(self, number: int, body: str) -> None:
        if matched := _SENDER_TIME.match(body):
            self._once(self.time, number, "Total sender time")
            self.time = _shown(matched[1]), _shown(matched[2])
        elif body.startswith("Total sender time"):
            raise ParseError(number, quote(body), "Total sender time = S seconds (S dirTime)")
        if matched := _STATUS.search(body):
            summary = _summary(number, body, matched)
            start = _THREAD.match(body)
            if start is None and (matched.start() == 0 or self.time is not None):
                if self.own is not None and "sender" in self.roles:
                    raise ParseError(number, "a second summary", "one summary of the sender")
                self.own = number, summary
            else:
                self.threads.append(summary)
        if matched := _THROUGHPUT.match(body):
            self._once(self.throughput, number, "Total sender throughput")
            self.throughput = _shown(matched[1]), _number(matched[2])
            self.without_end = matched[3] is None
        elif body.startswith("Total sender throughput"):
            raise ParseError(number, quote(body), "Total sender throughput = X Mbytes/sec (...)")
        if _FAILED.search(body):
            self.listing_failed = True
        if body.endswith("All files failed."):
            self.failed.append("all files")
        if matched := _END.fullmatch(body.strip()):
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
        # it was rounded: together they give the time better than two decimals do.
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
    fields: dict[str, re.Match[str]] = {}
    for name, pattern in _FIELDS.items():
        matched = pattern.search(body, status.end())
        if matched is None:
            raise ParseError(
                number, quote(body), f"a summary with {pattern.pattern.split(' =')[0]}"
            )
        fields[name] = matched
    local, remote = status["local"] or status["both"], status["remote"] or status["both"]
    count = int(fields["count"][2])
    total, wasted = int(fields["total"][1]), int(fields["wasted"][1])
    data, header = _shown(fields["data"][1]), _shown(fields["header"][1])
    # Headers are printed in Kbytes, so the rest of the total is the data to within some bytes.
    low = max(math.floor(data.low * _MBYTE), math.floor(total - wasted - header.high * 1024))
    high = min(math.ceil(data.high * _MBYTE), math.ceil(total - wasted - header.low * 1024))
    if low > high:
        shown = f"{data.value:g} Mbytes of data in {total} bytes, {wasted} wasted"
        raise ParseError(number, shown, "data, headers and waste that add up to the total")
    encryption, previously = _ENCRYPTION.search(body), _PREVIOUSLY.search(body)
    return Summary(
        status="OK" if local == remote == "OK" else remote if local == "OK" else local,
        files=count if fields["count"][1] == "files" else None,
        blocks=count if fields["count"][1] == "blocks" else None,
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
