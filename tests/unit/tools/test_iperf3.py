"""iperf3: what its JSON gives, and that no damaged document is believed.

The documents are written here, with the fields that iperf 3.9 to 3.18 print.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railgauge.cli import cli
from railgauge.tools import Completeness, ParseError, Reading, iperf3
from tests.command_line import invoke
from tests.properties import tries
from tests.unit.tools.sides import both_calls

REPOSITORY = Path(__file__).parents[3]

QUICK = settings(
    max_examples=tries(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PROVED, UNKNOWN, BROKEN = Completeness.PROVED, Completeness.UNKNOWN, Completeness.BROKEN

OPTIONS = iperf3.Options(streams=2, duration_s=2)
SENT = (1_000_000_000, 1_500_000_000)
GOT = (998_000_000, 1_497_000_000)
END_S = 2.04


def row(start: float, end: float, size: int, **more: Any) -> dict[str, Any]:
    rate = 8 * size / (end - start)
    fields = {"start": start, "end": end, "seconds": end - start, "bytes": size}
    return {**fields, "bits_per_second": rate, **more}


def document(role: str = "client") -> dict[str, Any]:
    """One side of a good run of two streams over two seconds."""
    is_client = role == "client"
    moved = SENT if is_client else GOT
    side = (
        {"connecting_to": {"host": "10.1.0.2", "port": 5201}}
        if is_client
        else {"accepted_connection": {"host": "10.1.0.1", "port": 40000}}
    )
    end_s = 2.0 if is_client else END_S
    return {
        "start": {
            "connected": [{"socket": 5}, {"socket": 7}],
            "version": "iperf 3.18",
            "system_info": "Linux",
            "timestamp": {"time": "Sat, 21 Nov 2026 02:00:00 UTC", "timesecs": 1795219200},
            **side,
            "cookie": "5uqynyrmzhnpqxmq4dpiyz3t3kn6o3mlfrqp",
            "tcp_mss_default": 8948,
            "test_start": {
                "protocol": "TCP",
                "num_streams": 2,
                "blksize": 131072,
                "omit": 0,
                "duration": 2,
                "reverse": 0,
                "bidir": 0,
            },
        },
        "intervals": [
            {
                "streams": [row(t, t + 1, size // 2, omitted=False) for size in moved],
                "sum": row(t, t + 1, sum(moved) // 2, omitted=False),
            }
            for t in (0.0, 1.0)
        ],
        "end": {
            "streams": [
                {
                    "sender": row(0, 2.0, sent, retransmits=3, sender=is_client),
                    "receiver": row(0, END_S, got, sender=is_client),
                }
                for sent, got in zip(SENT, GOT, strict=True)
            ],
            "sum_sent": row(0, 2.0, sum(SENT), retransmits=6, sender=is_client)
            if is_client
            else row(0, end_s, 0, sender=False),
            "sum_received": row(0, END_S, sum(GOT), sender=is_client),
            "cpu_utilization_percent": {"host_total": 50.0, "remote_total": 40.0},
            "sender_tcp_congestion": "bbr",
            "receiver_tcp_congestion": "cubic",
        },
    }


def printed(found: dict[str, Any]) -> str:
    return json.dumps(found, indent="\t") + "\n"


def streamed(found: dict[str, Any]) -> str:
    """The same run with --json-stream."""
    events = [("start", found["start"]), *(("interval", each) for each in found["intervals"])]
    lines = [{"event": name, "data": data} for name, data in [*events, ("end", found["end"])]]
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


def changed(change: Callable[[dict[str, Any]], Any], role: str = "client") -> str:
    found = copy.deepcopy(document(role))
    change(found)
    return printed(found)


CLIENT, SERVER = printed(document("client")), printed(document("server"))


calls = functools.partial(both_calls, iperf3.TOOL, 2.5)


def judged(
    client: str = CLIENT, server: str = SERVER, options: iperf3.Options = OPTIONS
) -> Reading:
    return iperf3.read(client, server=server, calls=calls(), options=options)


# ---- options and argv ----


def test_server_serves_one_run() -> None:
    assert " ".join(iperf3.server_argv(OPTIONS)) == "iperf3 -s -1 -p {port} --json"


def test_client_leaves_placeholders_to_the_runner() -> None:
    argv = " ".join(iperf3.client_argv(iperf3.Options()))
    assert argv == "iperf3 -c {server} -p {port} -P 4 -t 5 --json"


def test_every_option_reaches_the_client() -> None:
    options = iperf3.Options(8, 30, 4194304, "bbr", 65536, drain_s=3)
    argv = " ".join(iperf3.client_argv(options, "h", "1"))
    assert argv == "iperf3 -c h -p 1 -P 8 -t 30 --json -w 4194304 -C bbr -l 65536"


@pytest.mark.parametrize(
    "wrong",
    [
        {"streams": 0},
        {"streams": 129},
        {"streams": True},
        {"duration_s": 1.5},
        {"window_bytes": 0},
        {"length_bytes": "8K"},
        {"congestion": "bbr; reboot"},
        {"drain_s": float("nan")},
    ],
)
def test_options_that_cannot_be_run_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        iperf3.Options(**wrong)


# ---- parse ----


def test_a_clients_document_is_read() -> None:
    output = iperf3.parse(CLIENT)
    assert (output.role, output.stream_count, output.version) == ("client", 2, "iperf 3.18")
    assert output.received.transferred_bytes == sum(GOT)
    assert output.sent.retransmits == 6
    assert [interval.start_s for interval in output.intervals] == [0, 1]


def test_a_servers_document_is_read() -> None:
    output = iperf3.parse(SERVER)
    assert (output.role, output.received.duration_s) == ("server", END_S)


@pytest.mark.parametrize("label", ["0: ", " 1: "])
def test_task_labels_and_comments_are_tolerated(label: str) -> None:
    text = "".join(f"{label}{line}\n" for line in CLIENT.splitlines())
    assert iperf3.parse("# source: a test\n" + text) == iperf3.parse(CLIENT)


def test_unknown_fields_are_tolerated() -> None:
    def add(found: dict[str, Any]) -> None:
        for part in (found, found["start"], found["end"], found["end"]["sum_received"]):
            part["nobody_knows_yet"] = {"x": [1, None]}

    assert iperf3.parse(changed(add)) == iperf3.parse(CLIENT)


@pytest.mark.parametrize("count", [-1, True, "3", 10**18 + 1, 10**400])
def test_an_impossible_count_of_resent_segments_is_none(count: Any) -> None:
    client = changed(lambda found: found["end"]["sum_sent"].update(retransmits=count))
    assert iperf3.parse(client).sent.retransmits is None
    assert "retransmits" not in {m.metric for m in judged(client).measurements}


def test_a_document_on_one_line_is_read() -> None:
    assert iperf3.parse(json.dumps(document())) == iperf3.parse(CLIENT)


@pytest.mark.parametrize(
    "error",
    [
        "error - unable to connect to server: Connection refused",
        "control socket has closed unexpectedly",
        "interrupt - the client has terminated",
        "the server is busy running a test. try again later",
    ],
)
def test_an_error_in_a_whole_document_is_rejected(error: str) -> None:
    with pytest.raises(ParseError, match="without an error"):
        iperf3.parse(changed(lambda found: found.update(error=error)))


def test_a_run_that_never_began_is_rejected_by_its_error() -> None:
    text = printed({"start": {"connected": []}, "intervals": [], "end": {}, "error": "refused"})
    with pytest.raises(ParseError, match="the error 'refused'"):
        iperf3.parse(text)


def test_a_good_document_of_which_nothing_arrived_is_rejected() -> None:
    # iperf 3.9 with -n 10K printed this, without any error.
    def lose(found: dict[str, Any]) -> None:
        for part in (*(s["receiver"] for s in found["end"]["streams"]),):
            part.update(bytes=0, bits_per_second=0)
        found["end"]["sum_received"].update(bytes=0, bits_per_second=0)

    with pytest.raises(ParseError, match="nothing received"):
        iperf3.parse(changed(lose))


def test_a_stream_that_moved_nothing_refuses() -> None:
    def stall(found: dict[str, Any]) -> None:
        first, second = (stream["receiver"] for stream in found["end"]["streams"])
        second.update(row(0, END_S, sum(GOT)))
        first.update(row(0, END_S, 0))

    assert "1 of 2 streams moved nothing" in judged(client=changed(stall)).reason


def sending(found: dict[str, Any], size: int) -> None:
    """Let each of the streams have handed over so much."""
    for stream in found["end"]["streams"]:
        stream["sender"] = row(0, 2.0, size)
    found["end"]["sum_sent"] = row(0, 2.0, 2 * size)
    found.update(intervals=[])


def slowed(found: dict[str, Any]) -> None:
    """Let every interval have moved half of what it did."""
    for interval in found["intervals"]:
        for part in (*interval["streams"], interval["sum"]):
            part["bytes"] //= 2


Change = Callable[[dict[str, Any]], Any]
CONTRADICTIONS: dict[str, tuple[Change, str]] = {
    "no end": (lambda d: d["end"].clear(), "an empty 'end'"),
    "no start": (lambda d: d.pop("start"), "start None"),
    "udp": (lambda d: d["start"]["test_start"].update(protocol="UDP"), r"no end.streams\[0\].udp"),
    "sctp": (lambda d: d["start"]["test_start"].update(protocol="SCTP"), "TCP or UDP"),
    "reverse": (lambda d: d["start"]["test_start"].update(reverse=1), "sender.sender True"),
    "half a turn": (lambda d: d["start"]["test_start"].update(reverse=0.5), "reverse 0.5"),
    "bidirectional": (lambda d: d["start"]["test_start"].update(bidir=1), "the 4 of test_start"),
    "a lost stream": (lambda d: d["end"]["streams"].pop(), "1 streams at the end"),
    "no streams": (lambda d: d["end"].update(streams=[]), "0 streams at the end"),
    "no side": (lambda d: d["start"].pop("connecting_to"), "no side"),
    "no version": (lambda d: d["start"].pop("version"), "start.version"),
    "no totals": (lambda d: d["end"].pop("sum_received"), "no end.sum_received"),
    "another sum": (lambda d: d["end"]["sum_received"].update(bytes=1), "bits_per_second"),
    "another rate": (
        lambda d: d["end"]["sum_received"].update(bits_per_second=2e10),
        "by its bytes and time",
    ),
    "bytes as text": (lambda d: d["end"]["sum_sent"].update(bytes="12"), "an integer"),
    "a negative": (lambda d: d["end"]["sum_sent"].update(bytes=-5), "an integer of 0 or more"),
    "more than sent": (
        lambda d: sending(d, 10_000),
        "at most the 20000 that were sent",
    ),
    "a sum of what was sent": (
        lambda d: d["end"].update(sum_sent=row(0, 2.0, 10_000)),
        "the 2500000000 bytes of its streams",
    ),
    "a stream's rate": (
        lambda d: d["end"]["streams"][1]["receiver"].update(bits_per_second=9e9),
        r"streams\[1\].receiver.bits_per_second",
    ),
    "a missing interval": (lambda d: d["intervals"].pop(0), "intervals over 1 s"),
    "a missing last interval": (lambda d: d["intervals"].pop(), "intervals over 1 s"),
    "an interval again": (lambda d: d["intervals"].append(d["intervals"][0]), "as number 3"),
    "an interval's sum": (
        lambda d: d["intervals"][1]["sum"].update(bytes=5),
        "the 1250000000 of its streams",
    ),
    "an interval's stream": (lambda d: d["intervals"][1]["streams"].pop(), "of its streams"),
    "an interval without streams": (
        lambda d: d["intervals"][1].pop("streams"),
        r"no intervals\[1\].streams",
    ),
    "bytes of intervals": (lambda d: slowed(d), "intervals of 1250000000 bytes"),
    "intervals": (lambda d: d.update(intervals={}), "intervals {}"),
    "an interval": (lambda d: d["intervals"][0].pop("sum"), r"intervals\[0\].sum"),
    "backwards": (lambda d: d["intervals"][0]["sum"].update(end=-0.0, start=3), "after its start"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_is_missing_or_contradicts_itself_is_rejected(name: str) -> None:
    change, why = CONTRADICTIONS[name]
    with pytest.raises(ParseError, match=why):
        iperf3.parse(changed(change))


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_stream_of_events_is_the_document_of_its_run(role: str) -> None:
    assert iperf3.parse(streamed(document(role))) == iperf3.parse(printed(document(role)))


def test_an_error_in_a_stream_of_events_is_one() -> None:
    text = streamed(document()) + '{"event":"error","data":"unable to send"}\n'
    with pytest.raises(ParseError, match="the error 'unable to send'"):
        iperf3.parse(text)


def test_a_stream_of_events_that_lacks_one_or_has_one_twice_is_refused() -> None:
    lines = streamed(document()).splitlines(keepends=True)
    for place, line in enumerate(lines):
        for changed in ([], [line] * 2):
            text = "".join([*lines[:place], *changed, *lines[place + 1 :]])
            assert not iperf3.read(text).ok, (place, changed)


def test_a_stream_of_events_that_is_cut_is_refused() -> None:
    text = streamed(document()).rstrip()
    for place in range(len(text)):
        assert not iperf3.read(text[:place]).ok, text[:place][-80:]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "nothing"),
        ("# source: nothing\n", "nothing"),
        ("[ ID] Interval Transfer Bitrate\n", "iperf3 --json"),
        ("[1, 2]", "iperf3 --json"),
        ('{"event":"start","data":{}}\n{"event":"end","data":{}}', "start.test_start"),
        ('{"event":"start","data":{}}', "no event 'end'"),
        (CLIENT + CLIENT, "one JSON object, to its end"),
        (CLIENT + "STDERR: iperf3: error - unable to send\n", "no error message"),
        ("[" * 100_000, "one JSON document"),
        ('{"a":' * 100_000, "to its end"),
    ],
)
def test_what_is_no_document_is_rejected(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        iperf3.parse(text)


# ---- read ----


def test_all_evidence_in_agreement_proves() -> None:
    reading = judged()
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    found = {m.metric: m.value for m in reading.measurements}
    assert found["bandwidth"] == pytest.approx(sum(GOT) * 8e-9 / END_S)
    assert found["stream_bandwidth_min"] == pytest.approx(GOT[0] * 8e-9 / END_S)
    assert found["retransmits"] == 6
    assert reading.measurements[0].nodes == ("node2", "node1")
    assert reading.seen["congestion"] == "bbr"


def test_a_whole_document_proves_its_end_and_says_what_is_not_known() -> None:
    reading = iperf3.read(CLIENT)
    assert (reading.ok, reading.completeness) == (True, PROVED)
    assert "not known: the exit codes of both sides, the server's output" in reading.reason


def test_a_server_alone_does_not_prove_what_was_sent() -> None:
    reading = iperf3.read(SERVER)
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)


@pytest.mark.parametrize("role", ["client", "server"])
def test_an_exit_code_refuses(role: str) -> None:
    found = calls(**{role: {"exit_code": 1}})
    reading = iperf3.read(CLIENT, server=SERVER, calls=found, options=OPTIONS)
    assert not reading.ok
    assert "ended with exit code 1" in reading.reason


@pytest.mark.parametrize(
    ("client", "server", "options", "why"),
    [
        (CLIENT, CLIENT, OPTIONS, "server on node2: the output is that of a client"),
        (SERVER, CLIENT, OPTIONS, "client on node1: the output is that of a server"),
        (
            CLIENT,
            changed(lambda d: d["start"].update(cookie="x"), "server"),
            OPTIONS,
            "not the same run",
        ),
        (CLIENT, SERVER, iperf3.Options(3, 2), "2 streams, expected 3"),
        (CLIENT, SERVER, iperf3.Options(2, 3), "2 s asked for, expected 3 s"),
        (CLIENT, SERVER, iperf3.Options(2, 2, congestion="cubic"), "bbr, expected cubic"),
    ],
)
def test_what_does_not_agree_refuses(
    client: str, server: str, options: iperf3.Options, why: str
) -> None:
    reading = judged(client, server, options)
    assert not reading.ok
    assert why in reading.reason


def test_a_run_that_stopped_early_refuses() -> None:
    reading = judged(client=changed(stop))
    assert "received for 1.2 s, expected 1.65 to 3.2 s" in reading.reason


def stop(found: dict[str, Any]) -> None:
    """End the run after 1.2 s."""
    found["end"]["sum_received"] = row(0, 1.2, sum(GOT))
    found["end"]["sum_sent"] = row(0, 1.2, sum(SENT))
    for t, interval in zip((0, 0.6), found["intervals"], strict=True):
        interval["sum"].update(row(t, t + 0.6, sum(SENT) // 2))


def test_a_document_alone_shows_that_its_run_stopped_early() -> None:
    reading = iperf3.read(changed(stop))
    assert not reading.ok and "ran for 1.2 s, 2 s were asked for" in reading.reason


def test_a_document_without_intervals_proves_nothing() -> None:
    reading = iperf3.read(changed(lambda found: found.update(intervals=[])))
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)
    assert "no interval to compare" in reading.reason


def lose(found: dict[str, Any]) -> None:
    """Let the server have got a tenth."""
    for stream, size in zip(found["end"]["streams"], GOT, strict=True):
        stream["receiver"] = row(0, END_S, size // 10)
    found["end"]["sum_received"] = row(0, END_S, sum(GOT) // 10)


def test_a_client_alone_does_not_prove_what_hardly_arrived() -> None:
    reading = iperf3.read(changed(lose))
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)
    assert "bytes sent did not arrive" in reading.reason


def amount(size: int) -> Change:
    return lambda found: found["start"]["test_start"].update(duration=0, bytes=size)


def test_an_amount_that_was_sent_is_proved() -> None:
    assert iperf3.read(changed(amount(sum(SENT)))).completeness is PROVED


def test_less_than_the_amount_that_was_asked_for_refuses() -> None:
    reading = iperf3.read(changed(amount(2 * sum(SENT))))
    assert not reading.ok and "5000000000 were asked for" in reading.reason


def test_a_run_without_an_end_that_was_asked_for_proves_nothing() -> None:
    assert iperf3.read(changed(amount(0))).completeness is UNKNOWN


# ---- an omitted start, and recordings ----

RECORDED = REPOSITORY / "tests" / "data" / "iperf3"


def recorded(name: str, role: str = "client") -> str:
    return (RECORDED / f"{name}-{role}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["omit-3.12", "omit-3.18", "p4-3.18", "amount-3.12"])
def test_recordings_are_read_and_proved(name: str) -> None:
    for server in (None, recorded(name, "server")):
        reading = iperf3.read(recorded(name), server=server)
        assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason


@pytest.mark.parametrize("name", ["omit-3.12", "omit-3.18"])
def test_an_omitted_start_is_in_no_number(name: str) -> None:
    output = iperf3.parse(recorded(name))
    assert (output.omitted_s, output.duration_s, len(output.intervals)) == (1, 3, 3)
    assert output.sent.duration_s == pytest.approx(3, abs=0.1)


def test_an_omitted_start_that_was_not_asked_for_refuses() -> None:
    asked = iperf3.Options(streams=2, duration_s=3)
    assert "-O 1 asked for" in iperf3.read(recorded("omit-3.12"), options=asked).reason


def test_a_total_that_holds_the_omitted_start_is_rejected() -> None:
    found = json.loads(recorded("omit-3.12").partition("\n")[2])
    end = found["end"]
    for stream in end["streams"]:
        got = stream["receiver"]
        stream["receiver"] = row(0, got["end"], got["bytes"] * 4 // 3)
    total = sum(stream["receiver"]["bytes"] for stream in end["streams"])
    end["sum_received"] = row(0, end["sum_received"]["end"], total)
    assert "that were sent" in iperf3.read(json.dumps(found)).reason


def test_an_interval_that_is_marked_as_omitted_is_missed() -> None:
    found = json.loads(recorded("omit-3.12").partition("\n")[2])
    found["intervals"][1]["sum"]["omitted"] = True
    assert "intervals over" in iperf3.read(json.dumps(found)).reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"version":', '"version": "iperf 3.1", "version":'),
        ('"omit":', '"omit": 0, "omit":'),
        ('"sum_sent":', '"sum_sent": {}, "sum_sent":'),
    ],
)
def test_a_key_that_is_there_twice_is_rejected(old: str, new: str) -> None:
    assert CLIENT.count(old) == 1
    with pytest.raises(ParseError, match="twice in one object"):
        iperf3.parse(CLIENT.replace(old, new))


def test_bytes_that_only_the_client_believes_in_refuse() -> None:
    def less(found: dict[str, Any]) -> None:
        for stream in found["end"]["streams"]:
            stream["receiver"] = row(0, END_S, 5_000_000)
        found["end"]["sum_received"] = row(0, END_S, 10_000_000)
        for interval in found["intervals"]:
            for part in interval["streams"]:
                part["bytes"] = 2_500_000
            interval["sum"]["bytes"] = 5_000_000

    assert "bytes received by one" in judged(server=changed(less, "server")).reason


# ---- no damaged output is believed ----


@pytest.mark.parametrize("text", [CLIENT, SERVER], ids=["client", "server"])
def test_no_truncation_of_a_document_is_read(text: str) -> None:
    for end in range(0, len(text.rstrip()), 7):
        with pytest.raises(ParseError):
            iperf3.parse(text[:end])
    with pytest.raises(ParseError):
        iperf3.parse(text.rstrip()[:-1])


def paths(found: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: list[tuple[Any, Any]] = []
    if isinstance(found, dict):
        items = list(found.items())
    elif isinstance(found, list):
        items = list(enumerate(found))
    here = [before] if before else []
    return here + [path for key, value in items for path in paths(value, (*before, key))]


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
)


@QUICK
@given(st.sampled_from(["client", "server"]), st.data())
def test_no_changed_field_crashes_or_raises_the_rate(side: str, data: st.DataObject) -> None:
    found = copy.deepcopy(document(side))
    path = data.draw(st.sampled_from(paths(found)))
    part = found
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = data.draw(ODD)
    reading = judged(**{side: json.dumps(found)})
    if reading.ok:
        rate = next(m.value for m in reading.measurements if m.metric == "bandwidth")
        assert rate == pytest.approx(sum(GOT) * 8e-9 / END_S, rel=0.02)


@QUICK
@given(st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))))
def test_no_text_crashes(text: str) -> None:
    assert not iperf3.read(text, server=text, options=OPTIONS).ok


@QUICK
@given(st.data())
def test_no_missing_line_is_believed_with_another_rate(data: st.DataObject) -> None:
    lines = CLIENT.splitlines(keepends=True)
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    reading = judged(client="".join(lines))
    if reading.ok:
        assert reading.measurements[0].value == judged().measurements[0].value


# ---- railgauge parse iperf3 ----


def test_command_prints_what_a_document_proves(tmp_path: Path) -> None:
    (tmp_path / "client.json").write_text(CLIENT)
    (tmp_path / "server.json").write_text(SERVER)
    arguments = [str(tmp_path / "client.json"), str(tmp_path / "server.json")]
    arguments += ["--exit-code", "0", "--exit-code", "0"]
    arguments += ["--expect", "streams=2", "--expect", "duration_s=2"]
    result = invoke(cli, ["parse", "iperf3", *arguments])
    assert (result.exit_code, json.loads(result.stdout)["completeness"]) == (0, "proved")


def test_command_fails_for_a_cut_document(tmp_path: Path) -> None:
    (tmp_path / "client.json").write_text(CLIENT[:-20])
    result = invoke(cli, ["parse", "iperf3", str(tmp_path / "client.json")])
    assert result.exit_code == 1
    assert "no whole JSON" in json.loads(result.stdout)["reason"]
