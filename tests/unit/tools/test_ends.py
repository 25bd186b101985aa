"""Which hosts took part in a run, and what versions changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.tools import recognize
from railgauge.tools.common.changes import Change
from railgauge.tools.common.ends import Ends

DATA = paths.HOME / "tests/data"


def ends(file: str) -> Ends:
    (section,) = recognize.recognize((DATA / file).read_text())
    return section.ends()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("perftest/write-client.txt", Ends(("10.77.1.16", "10.77.2.15"), "client")),
        ("perftest/write-server.txt", Ends(("10.77.1.16", "10.77.2.15"), "server")),
        ("iperf2/p4-client.txt", Ends(("10.99.2.1", "10.99.2.2"), "client")),
        ("iperf2/p4-server.txt", Ends(("10.99.2.1", "10.99.2.2"), "server")),
        ("iperf3/p4-3.18-client.json", Ends(("10.77.0.12", "10.77.0.11"), "client")),
        ("iperf3/p4-3.18-server.json", Ends(("10.77.0.12", "10.77.0.11"), "server")),
        ("iperf2/csv-p2-client.txt", Ends((), "", "both ends are one host")),
        ("iperf3/text-3.12-client.txt", Ends((), "client", "both ends are one host")),
        ("osu/latency-7.1.txt", Ends()),
        (
            "nccl-tests/gb200-2x4-ib-16GiB.txt",
            Ends(("nccl-test-6k8rm", "nccl-test-dbzk7")),
        ),
    ],
)
def test_the_ends_of_recorded_outputs(file: str, expected: Ends) -> None:
    assert ends(file) == expected


def test_a_server_that_was_named_has_its_name() -> None:
    text = (DATA / "iperf2/p4-client.txt").read_text()
    (section,) = recognize.recognize(text.replace("connecting to 10.99.2.2", "connecting to n2"))
    assert section.ends().hosts == ("10.99.2.1", "n2")


def test_ports_of_infiniband_are_known_by_their_lids() -> None:
    text = (DATA / "perftest/write-client.txt").read_text()
    text = text.replace("local address: LID 0000", "local address: LID 0x0a")
    text = text.replace("remote address: LID 0000", "remote address: LID 0x11")
    text = "".join(line for line in text.splitlines(True) if "GID:" not in line)
    (section,) = recognize.recognize(text)
    assert section.ends().hosts == ("LID 10", "LID 17")


FILES = [
    path
    for folder in ("perftest", "iperf2", "iperf3", "nccl-tests", "osu")
    for path in sorted((DATA / folder).iterdir())
]


@given(st.sampled_from(FILES), st.integers(min_value=0, max_value=20_000))
@example(DATA / "perftest/send-lat-server.txt", 1019)
def test_a_cut_output_has_the_ends_of_the_whole_or_none(path: Path, end: int) -> None:
    text = path.read_text()
    whole = [section.ends() for section in recognize.recognize(text)]
    for section in recognize.recognize(text[:end]):
        found = section.ends()
        # Above the line that says which side it is their order is not known.
        assert set(found.hosts) <= {host for one in whole for host in one.hosts} or not whole


CHANGE = Change((2, 19), "warms up once", "warmup")


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ({"warmup": 5}, {"warmup": 1}, True),
        ({"warmup": 5, "version": "2.17.6"}, {"warmup": 5, "version": "2.19.6"}, False),
        ({"version": "2.17.6"}, {"version": "2.19.6"}, True),
        ({"version": "2.19.6"}, {"version": "2.20.0 (b4d5bee)"}, False),
        ({"version": "2.17.6"}, {}, None),
        ({}, {"version": "unknown"}, None),
    ],
)
def test_what_a_version_changed_is_between_two_runs(
    before: dict[str, Any], after: dict[str, Any], differs: bool | None
) -> None:
    assert CHANGE.between(before, after) is differs
