"""iperf3 beyond the gate's use: its text, and runs the other way, both ways, and of UDP.

Recorded with iperf 3.12, 3.18 and 3.22 over loopback; the command is in the first line of each.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import paths
from railgauge.tools import Completeness, Reading, iperf3
from tests.properties import tries
from tests.unit.tools.sides import both_calls

RECORDED = paths.HOME / "tests" / "data" / "iperf3"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(RECORDED.glob("text-*"))}
JSON = {path.name: path.read_text(encoding="utf-8") for path in sorted(RECORDED.glob("*.json"))}
BAD = ("interrupted", "killed", "refused")
GOOD = [name for name in TEXTS if not any(word in name for word in BAD)]
VERSIONS = ("3.12", "3.22")

QUICK = settings(max_examples=tries(200))


def bandwidths(reading: Reading) -> Mapping[str, float]:
    return {m.operation: m.value for m in reading.measurements if m.metric == "bandwidth"}


@functools.cache
def read(name: str) -> Reading:
    return iperf3.read({**TEXTS, **JSON}[name])


@pytest.mark.parametrize("name", GOOD)
def test_a_text_is_read_and_proves_nothing_by_itself(name: str) -> None:
    assert (read(name).ok, read(name).completeness) == (True, Completeness.UNKNOWN)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text-3.12-client.txt", {"tcp": 7.99}),
        ("text-p2-3.12-client.txt", {"tcp": 0.596}),
        ("text-p2-3.22-server.txt", {"tcp": 0.596}),
        ("text-reverse-p2-3.22-client.txt", {"tcp reverse": 0.601}),
        ("text-reverse-p2-3.22-server.txt", {}),
        ("text-bidir-p2-3.22-client.txt", {"tcp": 0.4, "tcp reverse": 0.4}),
        ("text-bidir-p2-3.22-server.txt", {"tcp": 0.4}),
        ("text-udp-p2-3.12-client.txt", {"udp": 0.1}),
        ("text-udp-reverse-3.22-client.txt", {"udp reverse": 0.05}),
        ("text-omit-p2-3.22-client.txt", {"tcp": 0.601}),
    ],
)
def test_each_direction_has_the_rate_that_its_receiver_printed(
    name: str, expected: Mapping[str, float]
) -> None:
    assert bandwidths(read(name)) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_of_what_a_side_only_sent_it_says_that_the_other_side_knows(version: str) -> None:
    for name in (f"text-reverse-p2-{version}-server.txt", f"reverse-p2-{version}-server.json"):
        assert "other side's output" in read(name).notes[0]


def test_streams_and_segments_that_were_sent_again_are_read() -> None:
    found = {m.metric: m.value for m in read("text-3.12-client.txt").measurements}
    assert found == {"bandwidth": 7.99, "stream_bandwidth_min": 3.99, "retransmits": 31}


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in GOOD])
def test_a_run_that_did_not_end_by_itself_says_why(name: str) -> None:
    assert not read(name).ok
    words = ("has terminated", "closed unexpectedly", "unable to connect")
    assert any(word in read(name).reason for word in words)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("run", ["p2", "reverse-p2", "bidir-p2", "udp-p2"])
def test_both_texts_of_a_run_agree(run: str, version: str) -> None:
    texts = [TEXTS[f"text-{run}-{version}-{side}.txt"] for side in ("client", "server")]
    assert iperf3.read(texts[0], server=texts[1]).ok


def test_texts_do_not_prove_what_was_asked_for() -> None:
    texts = [TEXTS[f"text-p2-3.22-{side}.txt"] for side in ("client", "server")]
    found = both_calls(iperf3.TOOL, 2.5)
    options = iperf3.Options(streams=2, duration_s=2)
    reading = iperf3.read(texts[0], server=texts[1], calls=found, options=options)
    assert (reading.ok, reading.completeness) == (True, Completeness.UNKNOWN), reading.reason
    longer = iperf3.Options(streams=2, duration_s=5)
    assert not iperf3.read(texts[0], server=texts[1], calls=found, options=longer).ok


def test_texts_of_two_runs_do_not() -> None:
    server = TEXTS["text-reverse-p2-3.22-server.txt"]
    assert not iperf3.read(TEXTS["text-p2-3.22-client.txt"], server=server).ok


@pytest.mark.parametrize("name", GOOD)
@QUICK
@given(data=st.data())
def test_a_text_that_is_cut_gives_no_other_number(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    cut = iperf3.read(text[: data.draw(st.integers(0, len(text.rstrip()) - 1))])
    assert not cut.ok or cut.measurements == read(name).measurements


@pytest.mark.parametrize("name", GOOD)
@QUICK
@given(data=st.data())
def test_a_lost_line_gives_no_other_number(name: str, data: st.DataObject) -> None:
    lines = TEXTS[name].splitlines(keepends=True)
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    reading = iperf3.read("".join(lines))
    if reading.ok and bandwidths(reading) != bandwidths(read(name)):
        # Without its line nothing tells that the run went the other way.
        assert "Reverse mode" not in "".join(lines) and "reverse" in name


@QUICK
@given(st.sampled_from(GOOD), st.data())
def test_no_changed_line_crashes(name: str, data: st.DataObject) -> None:
    lines = TEXTS[name].splitlines(keepends=True)
    place = data.draw(st.integers(0, len(lines) - 1))
    lines[place] = data.draw(st.sampled_from(["", "x\n", "[ 99]\n", lines[place][:20], *lines]))
    assert isinstance(iperf3.read("".join(lines)), Reading)


@pytest.mark.parametrize("name", [n for n in JSON if any(w in n for w in ("bidir", "rev", "udp"))])
def test_documents_of_other_directions_and_protocols_are_read(name: str) -> None:
    assert read(name).ok
    only_sends = "reverse" in name and "server" in name
    assert bool(bandwidths(read(name))) is not only_sends


def test_a_document_both_ways_has_two_rates() -> None:
    found = bandwidths(read("bidir-p2-3.12-client.json"))
    assert found == {
        "tcp": pytest.approx(0.396426, abs=1e-6),
        "tcp reverse": pytest.approx(0.397466, abs=1e-6),
    }


@pytest.mark.parametrize("name", ["bidir-p2-3.22-client.json", "reverse-p2-3.22-client.json"])
def test_the_gate_takes_runs_from_client_to_server_alone(name: str) -> None:
    options = iperf3.Options(streams=2, duration_s=2)
    reason = iperf3.read(JSON[name], options=options).reason
    assert "expected a run from client to server" in reason


def test_the_gate_takes_tcp_alone() -> None:
    options = iperf3.Options(streams=2, duration_s=2)
    assert (
        "UDP, expected TCP" in iperf3.read(JSON["udp-p2-3.22-client.json"], options=options).reason
    )


def test_every_recording_names_its_command() -> None:
    for path in RECORDED.iterdir():
        assert Path(path).read_text(encoding="utf-8").startswith(("# recorded: ", "# source: "))
