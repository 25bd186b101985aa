"""WDT: what logs of several versions give, that nothing damaged is believed, and that no key leaks.

The logs are written here, line by line as WDT writes them; real ones are read where they are there.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railgauge.cli import cli
from railgauge.node.runners import wdt_url
from railgauge.tools import Completeness, ParseError, Reading, wdt
from tests.command_line import invoke
from tests.properties import tries
from tests.unit.tools.sides import both_calls, edited

REPOSITORY = Path(__file__).parents[3]

QUICK = settings(
    max_examples=tries(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PROVED, UNKNOWN, BROKEN = Completeness.PROVED, Completeness.UNKNOWN, Completeness.BROKEN

KEY = "00112233445566778899aabbccddeeff"
URL = f"wdt://10.1.0.2?Enc=2:{KEY}&id=77&iv_change_int=0&ports=40001,40007&recpv=32&tls=0"

PORTS = (40001, 40007)
FILES = wdt.FileSet(files=3, file_bytes=40_000_000)
DISCARDED = wdt.Options(FILES, streams=2, skip_writes=True)
KEPT = wdt.Options(FILES, streams=2)
BLOCKS = (5, 4)
SECONDS, HEADERS = 0.2468, 1234


def figure(value: float, version: str) -> str:
    """A number as the version prints it."""
    return f"{value:.2f}" if version == "1.32" else f"{value:g}"


def stats(
    version: str, counted: str, size: int, headers: int, encryption: str = "aes128gcm"
) -> str:
    kind = "kBytes" if version == "old" else "Kbytes"
    tail = "" if version == "old" else f" Encryption type = {encryption}."
    return (
        f"Transfer status = OK. Number of {counted}. "
        f"Data Mbytes = {figure(size / 2**20, version)}. "
        f"Header {kind} = {figure(headers / 1024, version)} "
        f"({figure(100 * headers / size, version)}% overhead). Total bytes = {size + headers}. "
        f"Wasted bytes due to failure = 0 ({figure(0, version)}% overhead).{tail}"
    )


def log(version: str, bodies: list[str]) -> str:
    """The lines of a log as glog writes them; the second of a pair of lines has no stamp."""
    prefix = "" if version == "old" else "wdt>\t"
    day = "20261121" if version == "1.32" else "0726"
    lines = []
    for number, body in enumerate(bodies):
        stamp = f"I{day} 02:00:00.{number:06d} 4580 Wdt.cpp:1] "
        first, *others = body.split("\n")
        lines += [stamp + prefix + first, *(prefix + other for other in others)]
    return "\n".join(lines) + "\n"


def ended(version: str) -> str:
    return "Returning with code 0 OK" if version == "old" else "Returning with OK exit code"


@functools.cache
def sender(version: str = "1.32", size: int = FILES.total_bytes, files: int = 3) -> str:
    shown = " ".join(map(str, PORTS))
    threads = [
        f"Port {port} done. " + stats(version, f"blocks transferred = {count}", size // 2, 400)
        for port, count in zip(PORTS, BLOCKS, strict=True)
    ]
    moved = (size + HEADERS) / 2**20
    bodies = [
        "Running WDT 1.26.1606240 p 26" if version == "old" else "WDT Sender 1.32.1910230 p 32",
        f"Client (sending) to 10.1.0.2, Using ports [ {shown} ]",
        "Starting a new transfer 77 to 10.1.0.2",
        f"Number of files explored: {files}, errors false",
        "Thread[0, port: 40001]  Connection took 1 attempt(s) and 0.00 seconds. port 40001",
        *threads,
        "Error code summary OK",
        f"Total sender time = {figure(SECONDS, version)} seconds ({figure(0.001, version)} dirTime)"
        ". Transfer summary : "
        + stats(version, f"files transferred = {files}", size, HEADERS)
        + ("" if version == "old" else " Previously sent bytes : 0.")
        + f"\nTotal sender throughput = {figure(moved / SECONDS, version)} Mbytes/sec "
        f"({figure(moved / (SECONDS - 0.001), version)} Mbytes/sec pure transfer rate)",
        ended(version),
    ]
    return log(version, bodies)


@functools.cache
def receiver(version: str = "1.32", size: int = FILES.total_bytes) -> str:
    shown = " ".join(map(str, PORTS))
    threads = [
        f"Thread[{index}, port: {port}]  "
        + stats(version, f"blocks transferred = {count}", size // 2, 300)
        for index, (port, count) in enumerate(zip(PORTS, BLOCKS, strict=True))
    ]
    bodies = [
        "Running WDT 1.26.1606240 p 26" if version == "old" else "WDT Receiver 1.32.1910230 p 32",
        f"Starting (receiving) server on ports [ {shown} ] Target dir : /dst",
        "Starting new transfer,  peerIp 10.1.0.1 , transfer id 77",
        *threads,
        "WDT receiver's transfer has been finished",
        stats(version, f"blocks transferred = {sum(BLOCKS)}", size, 600),
        ended(version),
    ]
    return log(version, bodies)


calls = functools.partial(both_calls, wdt.TOOL, 3.0)


SUMS = {"count": 3, "bytes": FILES.total_bytes, "sha256": "ab" * 32}


def sums(**changes: Any) -> str:
    return json.dumps({**SUMS, "expected": SUMS, "differences": [], **changes})


def judged(
    client: str | None = None, server: str | None = None, options: wdt.Options = DISCARDED
) -> Reading:
    """A good transfer with all its evidence, one side of it replaced."""
    return wdt.read(
        sender() if client is None else client,
        server=receiver() if server is None else server,
        calls=calls(),
        options=options,
        arrived=sums(),
        sent=json.dumps({"files": {}, **SUMS}),
    )


# ---- options and argv ----


def test_receiver_ends_where_a_port_is_busy() -> None:
    argv = " ".join(wdt.receiver_argv(wdt.Options(FILES), "/scratch/dst"))
    expected = "wdt -directory /scratch/dst -num_ports 8 -encryption_type aes128gcm"
    assert argv == f"{expected} -treat_fewer_port_as_error"


def test_every_option_reaches_the_receiver() -> None:
    options = wdt.Options(FILES, 4, "none", skip_writes=True, start_port=22356)
    argv = " ".join(wdt.receiver_argv(options, "/dst"))
    assert "-num_ports 4 -encryption_type none" in argv
    assert argv.endswith("-start_port 22356 -skip_writes")


def test_sender_reads_the_url_from_stdin() -> None:
    argv = wdt.sender_argv(wdt.Options(FILES), "/scratch/src")
    assert " ".join(argv) == "wdt -directory /scratch/src -hostname {server} -"


@pytest.mark.parametrize(
    "wrong",
    [
        {"streams": 0},
        {"streams": True},
        {"encryption": "rot13"},
        {"start_port": 80},
        {"start_port": 65535},
        {"version": "newest"},
    ],
)
def test_options_that_cannot_be_run_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        wdt.Options(FILES, **wrong)


def test_conditions_that_change_the_number_are_in_the_measurement() -> None:
    assert (KEPT.operation, KEPT.transport) == ("many-small-files", "tcp-aes128gcm")
    plain = wdt.Options(wdt.FileSet(1, 2**30), encryption="none", skip_writes=True)
    assert (plain.operation, plain.transport) == ("one-large-file-discarded", "tcp")


# ---- parse ----


@pytest.mark.parametrize("version", ["1.32", "1.26", "old"])
def test_a_senders_numbers_are_read_in_every_version(version: str) -> None:
    output = wdt.parse(sender(version))
    assert output.summary is not None
    assert (output.role, output.summary.files, output.ports) == ("sender", 3, PORTS)
    assert output.seconds == pytest.approx(SECONDS, rel=2e-4)
    assert output.covers(FILES.total_bytes)


@pytest.mark.parametrize("version", ["1.32", "1.26", "old"])
def test_a_receiver_counts_blocks(version: str) -> None:
    output = wdt.parse(receiver(version))
    assert output.summary is not None
    assert (output.role, output.summary.files, output.summary.blocks) == ("receiver", None, 9)
    assert output.blocks == 9


def test_one_missing_block_of_data_shows_in_the_bytes() -> None:
    assert not wdt.parse(sender()).covers(FILES.total_bytes - 2**20)


@pytest.mark.parametrize("label", ["STDERR: ", "0: ", " 1: ", "STDERR: 0: "])
def test_labels_of_recorders_are_tolerated(label: str) -> None:
    text = "".join(f"{label}{line}\n" for line in sender().splitlines())
    assert wdt.parse(text) == wdt.parse(sender())


def test_unknown_fields_and_lines_are_tolerated() -> None:
    text = edited(sender(), "Total bytes", "Shiny new count = 7. Total bytes")
    text = edited(text, "Error code", "something that nobody knows yet\nError code")
    assert wdt.parse(text) == wdt.parse(sender())


def test_busy_ports_are_named() -> None:
    text = log("1.32", ["WDT Receiver 1.32.1910230 p 32", "Registered 7 successful sockets"])
    for end in ("FEWER_PORTS\n", log("1.32", ["Receiver could not bind to all the ports"])):
        with pytest.raises(ParseError, match="some are in use"):
            wdt.parse(text + end)


def test_a_throughput_next_to_a_failure_is_no_result() -> None:
    text = edited(sender(), "Transfer status = OK.", "Transfer status = SOCKET_WRITE_ERROR.")
    text = edited(text, "Returning with OK exit code", "Returning with code 6 SOCKET_WRITE_ERROR")
    assert "Total sender throughput" in text
    reading = wdt.read(text)
    assert (reading.ok, reading.measurements) == (False, ())
    assert "returned 6 SOCKET_WRITE_ERROR" in reading.reason


def test_failed_files_are_named() -> None:
    text = edited(
        sender(), "sent bytes : 0.", "sent bytes : 0.\nwdt>\tFailed files :\nwdt>\ta/b\nc"
    )
    assert wdt.parse(text).failed == ("a/b", "c")
    assert "failed: a/b, c" in judged(client=text).reason


def test_connections_that_were_tried_again_are_counted() -> None:
    assert wdt.parse(edited(sender(), "took 1 attempt", "took 4 attempt")).retries == 3


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Returning with OK", "Returning with code 9999 X\nReturning with OK", "a code that WDT"),
        ("Returning with OK exit code", "Returning with code 3 ABORT", "3 CONN_ERROR"),
        ("Total sender throughput = 4", "Total sender throughput = 9", "bytes over its time"),
        ("Total sender time = 0.25", "Total sender time = 0.35", "bytes over its time"),
        ("Data Mbytes = 114.44", "Data Mbytes = 115.44", "add up to the total"),
        ("Total bytes = 120001234", "Total bytes = 120901234", "add up to the total"),
        ("WDT Sender", "WDT Receiver 1.32.1910230 p 32\nWDT Sender", "one side"),
        ("files transferred = 3", "files carried = 3", "a summary with Number of"),
    ],
)
def test_what_contradicts_itself_is_rejected(old: str, new: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        wdt.parse(edited(sender(), old, new))


def test_two_runs_in_one_text_are_rejected() -> None:
    with pytest.raises(ParseError, match=r"second|after"):
        wdt.parse(sender() + sender())


@pytest.mark.parametrize("text", ["", "\n \n", "# source: nothing\n"])
def test_empty_output_is_rejected(text: str) -> None:
    with pytest.raises(ParseError, match="nothing"):
        wdt.parse(text)


def test_what_a_replayer_printed_is_simulated() -> None:
    reading = judged(client="# SIMULATED: no wdt was used\n" + sender())
    assert reading.simulated
    assert all(measurement.simulated for measurement in reading.measurements)


# ---- read ----


def test_all_evidence_in_agreement_proves() -> None:
    reading = judged()
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    bandwidth, seconds = reading.measurements
    assert (bandwidth.unit, seconds.unit) == ("Gb/s", "s")
    assert bandwidth.value == pytest.approx(FILES.total_bytes * 8e-9 / SECONDS, rel=2e-4)
    assert (bandwidth.nodes, bandwidth.streams) == (("node2", "node1"), 2)
    assert (bandwidth.size_bytes, seconds.value) == (40_000_000, pytest.approx(SECONDS, rel=2e-4))


def test_files_that_were_kept_need_their_sums() -> None:
    assert judged(options=KEPT).completeness is PROVED
    reading = wdt.read(sender(), server=receiver(), calls=calls(), options=KEPT)
    assert reading.completeness is UNKNOWN
    assert "the sums of what arrived, the manifest of what was sent" in reading.reason


def test_a_bare_log_is_unknown() -> None:
    for text in (sender(), receiver()):
        assert (wdt.read(text).ok, wdt.read(text).completeness) == (True, UNKNOWN)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"arrived": sums(differences=["missing: a"])}, "server on node2: missing: a"),
        ({"arrived": sums(sha256="cd" * 32)}, "without a difference"),
        ({"arrived": "{"}, "no whole JSON"),
        ({"sent": json.dumps({**SUMS, "sha256": "cd" * 32})}, "manifest of other files"),
    ],
)
def test_sums_that_do_not_agree_refuse(changes: dict[str, str], why: str) -> None:
    evidence = {"arrived": sums(), "sent": json.dumps(SUMS), **changes}
    reading = wdt.read(sender(), server=receiver(), calls=calls(), options=KEPT, **evidence)
    assert not reading.ok
    assert re.search(why, reading.reason)


@pytest.mark.parametrize("role", ["client", "server"])
def test_an_exit_code_refuses(role: str) -> None:
    reading = wdt.read(
        sender(), server=receiver(), calls=calls(**{role: {"exit_code": 6}}), options=DISCARDED
    )
    assert not reading.ok
    assert "ended with exit code 6" in reading.reason


def test_a_side_that_left_no_exit_line_refuses() -> None:
    reading = wdt.read(sender(), server=receiver(), calls=calls()[:1], options=DISCARDED)
    assert "client: 0 wdt calls recorded, expected 1" in reading.reason


def test_a_file_that_was_skipped_without_a_word_refuses() -> None:
    reading = judged(client=sender(files=2))
    assert not reading.ok
    assert "2 files transferred, expected 3: WDT skips a dangling symlink" in reading.reason


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Error code summary OK", "WDT successfully recovered from error CONN_ERROR", "flaky"),
        ("Wasted bytes due to failure = 0 (", "Wasted bytes due to failure = 10 (", "sent again"),
        ("sent bytes : 0", "sent bytes : 9", "from before"),
        ("[ 40001 40007 ]", "[ 40001 ]", "1 ports, expected 2"),
        ("type = aes128gcm", "type = none", "encryption none, expected aes128gcm"),
        ("transfer 77", "transfer 78", "not one run, transfer_id 78 and 77"),
        ("1.32.1910230", "1.27.1612021", "not one run, version 1.27.1612021"),
        ("explored: 3", "explored: 4", "3 files transferred, but 4 explored"),
        ("blocks transferred = 5", "blocks transferred = 6", "10 blocks sent, 9 received"),
    ],
)
def test_what_speaks_against_a_sender_refuses(old: str, new: str, why: str) -> None:
    reading = judged(client=edited(sender(), old, new))
    assert not reading.ok
    assert why in reading.reason


def test_a_receiver_that_got_less_refuses() -> None:
    reading = judged(server=receiver(size=FILES.total_bytes - 20_000))
    assert not reading.ok
    assert "bytes sent" in reading.reason


def test_sides_that_are_exchanged_refuse() -> None:
    reading = judged(client=receiver(), server=sender())
    assert "client on node1: the output is that of a receiver" in reading.reason


def test_another_version_than_asked_for_refuses() -> None:
    options = dataclasses.replace(DISCARDED, version="1.3")
    assert "version 1.32.1910230, expected 1.3" in judged(options=options).reason


# ---- no damaged output is believed ----


@pytest.mark.parametrize("text", [sender(), receiver()], ids=["sender", "receiver"])
def test_no_truncation_of_a_whole_log_is_read(text: str) -> None:
    for end in range(len(text) - 1):
        with pytest.raises(ParseError):
            wdt.parse(text[:end])


@pytest.mark.parametrize("side", ["client", "server"])
@QUICK
@given(st.randoms(use_true_random=False))
def test_no_missing_lines_give_another_rate(side: str, chance: random.Random) -> None:
    lines = (sender() if side == "client" else receiver()).splitlines(keepends=True)
    kept = "".join(line for line in lines if chance.random() < 0.8)
    reading = judged(**{side: kept})
    if reading.ok:
        assert reading.measurements == judged().measurements


@QUICK
@given(st.sampled_from(["client", "server"]), st.data())
def test_no_changed_digit_gives_another_rate(side: str, data: st.DataObject) -> None:
    text = sender() if side == "client" else receiver()
    places = [index for index, char in enumerate(text) if char.isdigit()]
    place = data.draw(st.sampled_from(places))
    text = text[:place] + data.draw(st.sampled_from("0123456789")) + text[place + 1 :]
    reading = judged(**{side: text})
    if reading.ok:
        # Half a unit of the last printed digit is all that may go unnoticed.
        expected = judged().measurements[0].value
        assert reading.measurements[0].value == pytest.approx(expected, rel=0.03)


@QUICK
@given(st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))))
def test_no_text_crashes(text: str) -> None:
    wdt.read(text, server=text, options=DISCARDED, arrived=text, sent=text)


@QUICK
@given(st.randoms(use_true_random=False))
def test_no_shuffled_pieces_crash(chance: random.Random) -> None:
    pieces = [piece for line in (sender() + receiver()).splitlines() for piece in line.split(" ")]
    chance.shuffle(pieces)
    text = "".join(piece + chance.choice([" ", "\n"]) for piece in pieces[:200])
    assert wdt.read(text, server=text).completeness is not PROVED


# ---- keys ----


@pytest.mark.parametrize(
    "text",
    [
        URL,
        f"wdt://h:22356?num_ports=8&enc=1:{KEY}",
        f"?Enc%3D2%3A{KEY}%26id",
        f'Invalid url "{URL}" : URI_PARSE_ERROR',
        f'Unable to parse encryption data from "2:{KEY}" ERROR',
        f"Enc type still none when ':' reached 0:{KEY}",
        f"Not hex found 103 in 2:{KEY}g",
        f"New encryption params 0x7ffd 2:{KEY}",
        f"wdt -test_only_encryption_secret={KEY}",
        f"wdt -test_only_encryption_secret {KEY}",
        json.dumps({"argv": ["wdt", "-connection_url", URL]}),
    ],
)
def test_a_key_is_redacted(text: str) -> None:
    assert KEY not in wdt.redacted(text)
    assert "[redacted]" in wdt.redacted(text)


def test_the_hash_of_a_key_is_redacted() -> None:
    text = (
        "wdt://127.0.0.1?Enc=2:...12189588743271604021...&id=1 and 0x7ffe 2:...121895887432716..."
    )
    assert "1218958" not in wdt.redacted(text)


def test_a_log_without_keys_stays_as_it_is() -> None:
    assert wdt.redacted(sender()) == sender()
    assert wdt.redacted("Enc\nwdt://10.1.0.2?id=7&tls=0\n") == "Enc\nwdt://10.1.0.2?id=7&tls=0\n"


HEX = st.text("0123456789abcdef", min_size=16, max_size=64)


@QUICK
@given(HEX, st.text(" \n&?\"'abc:=", max_size=8), st.text(" \n&\"'<>", min_size=1, max_size=8))
def test_no_key_survives_in_any_surroundings(key: str, before: str, after: str) -> None:
    text = f"{before}wdt://h?Enc=2:{key}{after}"
    assert key not in wdt.redacted(text)
    assert wdt.redacted(wdt.redacted(text)) == wdt.redacted(text)


@pytest.mark.parametrize("where", ["version", "Returning", "Wasted"])
def test_no_reason_repeats_a_key(where: str) -> None:
    text = f"{URL}\n" + sender().replace("Total sender time =", f"Total sender time = {URL}")
    reading = wdt.read(text, server=f"{URL}\n{receiver()[:-200]}", calls=calls())
    assert KEY not in json.dumps(reading.as_dict())
    with pytest.raises(ParseError) as raised:
        wdt.parse(text)
    assert KEY not in str(raised.value)


def test_arguments_never_take_a_url() -> None:
    for argv in (wdt.receiver_argv(KEPT, "/d"), wdt.sender_argv(KEPT, "/d")):
        assert not any("connection_url" in word or "secret" in word for word in argv)


def test_what_is_kept_of_a_receiver_has_no_key() -> None:
    urls: list[str] = []
    printed = io.BytesIO(f"{URL}\n{receiver()}".encode() + b"no newline \xff")
    keeping = io.StringIO()
    wdt_url.keep_redacted(printed, keeping, urls.append)
    kept = keeping.getvalue()
    assert urls == [URL]
    assert KEY not in kept
    assert wdt.parse(kept).code == 0


def test_no_more_than_so_much_is_kept_of_a_runaway() -> None:
    kept, urls = io.StringIO(), []
    wdt_url.keep_redacted(io.BytesIO(b"a line\n" * 100 + URL.encode()), kept, urls.append, 50)
    assert len(kept.getvalue()) < 60 and urls == [URL]


# ---- railgauge parse wdt ----


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = invoke(cli, ["parse", "wdt", *arguments])
    return result.exit_code, json.loads(result.stdout)


EXPECTED = [
    *("--expect", "files=3", "--expect", "file_bytes=40000000", "--expect", "streams=2"),
]


def test_command_reads_both_sides(tmp_path: Path) -> None:
    (tmp_path / "send").write_text(sender())
    (tmp_path / "recv").write_text(f"{URL}\n{receiver()}")
    codes = ["--exit-code", "0", "--exit-code", "0"]
    paths = [str(tmp_path / "send"), str(tmp_path / "recv")]
    code, document = run(*paths, *EXPECTED, "--expect", "skip_writes=yes", *codes)
    assert (code, document["completeness"]) == (0, "proved"), document["reason"]


def test_command_prints_no_key(tmp_path: Path) -> None:
    (tmp_path / "send").write_text(f'Invalid url "{URL}" : ERROR\n')
    code, document = run(str(tmp_path / "send"))
    assert code == 1
    assert KEY not in json.dumps(document)


def test_command_reads_a_receiver_alone_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "recv").write_text(receiver())
    code, document = run(str(tmp_path / "recv"), "--exit-code", "0")
    assert (code, document["completeness"]) == (0, "unknown"), document["reason"]
    assert run(str(tmp_path / "recv"), *EXPECTED, "--exit-code", "0")[0] == 0


def test_one_exit_code_that_is_none_of_success_refuses(tmp_path: Path) -> None:
    (tmp_path / "recv").write_text(receiver())
    code, document = run(str(tmp_path / "recv"), "--exit-code", "6")
    assert code == 1 and "ended with exit code 6" in document["reason"]


def test_one_exit_code_of_success_is_no_reason_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "send").write_text(sender())
    code, document = run(str(tmp_path / "send"), "--exit-code", "0")
    assert (code, document["completeness"]) == (0, "unknown")
    assert "without the exit codes of both sides" in document["reason"]


def test_how_files_were_received_needs_which(tmp_path: Path) -> None:
    (tmp_path / "send").write_text(sender())
    words = [str(tmp_path / "send"), "--expect", "skip_writes=yes"]
    result = invoke(cli, ["parse", "wdt", *words])
    assert result.exit_code != 0 and "skip_writes without files" in str(result.exception)


# ---- a receiver that wrote, ends that were none, and old versions ----

WROTE = "dir already exists /dst/"


def with_line(text: str, body: str, before: str) -> str:
    """A log with one more line, before the one that has `before` in it."""
    stamp = "I20261121 02:00:00.000000 4580 FileCreator.cpp:325] wdt>\t"
    lines = text.split("\n")
    place = next(number for number, line in enumerate(lines) if before in line)
    return "\n".join([*lines[:place], stamp + body, *lines[place:]])


@pytest.mark.parametrize("line", [WROTE, "made dir /dst/data/"])
def test_a_receiver_that_wrote_did_not_throw_away(line: str) -> None:
    text = with_line(receiver(), line, "Starting (receiving)")
    reading = wdt.read(sender(), server=text, calls=calls(), options=DISCARDED)
    assert not reading.ok and "made folders to write to" in reading.reason


def test_a_receiver_that_was_to_write_may_make_folders() -> None:
    text = with_line(receiver(), WROTE, "Starting (receiving)")
    reading = wdt.read(sender(), server=text, calls=calls(), options=KEPT)
    assert reading.ok, reading.reason


@pytest.mark.parametrize(
    "line",
    [
        "F20261121 02:00:00.000000 4580 Sender.cpp:1] wdt>\tCheck failed: threads > 0",
        '*** Aborted at 1795219200 (unix time) try "date -d @1795219200" ***',
        "*** SIGSEGV (@0x0) received by PID 4580 (TID 0x7f) from PID 0; stack trace: ***",
        "Segmentation fault (core dumped)",
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-21T02:00:01 ***",
        "srun: error: n1: task 1: Killed",
        "Killed",
        "Terminated",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ],
)
@pytest.mark.parametrize("side", [sender, receiver])
def test_an_end_that_was_none_is_a_failure_next_to_returning_with_ok(line: str, side: Any) -> None:
    for text in (f"{side()}{line}\n", f"{line}\n{side()}", f"{side()}STDERR: {line}\n"):
        with pytest.raises(ParseError, match=r"no fatal error|no failure"):
            wdt.parse(text)


def of_2015(status: str = "OK") -> str:
    """A sender's log as WDT wrote it before October 2015: no last line, another word for rate."""
    text = sender("old").replace("pure transfer rate", "pure transf rate")
    text = "".join(line + "\n" for line in text.splitlines() if "Returning with" not in line)
    bad = f"Transfer status (local) = {status}, (remote) = {status}."
    return text if status == "OK" else text.replace("Transfer status = OK.", bad)


def test_totals_of_versions_without_a_last_line_are_read() -> None:
    output = wdt.parse(of_2015())
    assert (output.code, output.seconds) == (0, pytest.approx(SECONDS, rel=1e-3))
    reading = wdt.read(of_2015())
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)
    assert reading.measurements == wdt.read(sender("old")).measurements


def test_a_failure_of_a_version_without_a_last_line_is_one() -> None:
    assert wdt.parse(of_2015("CONN_ERROR")).code == wdt.ERRORS.index("CONN_ERROR")
    assert not wdt.read(of_2015("CONN_ERROR")).ok


def test_a_log_that_was_cut_before_its_rate_has_no_end() -> None:
    text = of_2015()
    for end in range(text.index("Total sender throughput") + 10):
        if end % 37 == 0:
            assert not wdt.read(text[:end]).ok
