"""NCCL's debug log alone, of one rank or of a whole job, and the answers of ncclras."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railgauge import paths
from railgauge.tools import Completeness, Reading, table
from railgauge.tools.nccl_log import job
from railgauge.tools.recognize import recognize
from tests.properties import tries
from tests.unit.tools.test_nccl_log import H100, LOGS, NAMES, hosts_of, real, rehearsed

QUICK = settings(max_examples=tries(60))
DATA = paths.HOME / "tests" / "data"

#: Two nodes of four ranks, as one text; without the mark of a rehearsal.
JOB = re.sub(
    r"# SIMULATED.*\n",
    "",
    "".join(rehearsed(hosts_of(2, 4), {**H100, "hcas": H100["hcas"][:4]}).values()),
)


def read(text: str, *expected: str) -> Reading:
    by_hand = table.by_hand()["nccl-log"]
    return by_hand.read([text], (), by_hand.requested(text, expected))


def test_a_whole_job_is_proved_with_what_it_used() -> None:
    reading = read(JOB)
    assert (reading.ok, reading.completeness) == (True, Completeness.PROVED)
    seen = reading.seen
    assert (seen["ranks"], seen["hosts"], seen["network"]) == (8, ("n0", "n1"), ("IB",))
    assert seen["hcas"] == ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
    assert set(seen["connections"]) == {"P2P", "NET/IB/GDRDMA"}
    assert seen["nvls"] and seen["nccl_version"] == H100["nccl_version"]


def test_the_note_says_what_was_used() -> None:
    assert read(JOB).notes[0].startswith("NCCL 2.28.9+cuda13.0; 8 ranks; 2 hosts; connections ")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("abort-cuda-failure", "process 2619531 on watchtower-navy-cn13: NCCL warns: Cuda failure"),
        ("hang-merged-nics", "rank 2 on bigo: NCCL warns: socketFinalizeAccept: wrong type 3 != 4"),
        ("hang-merged-nics", "rank 2 on bigo: 'Init START' without 'Init COMPLETE'"),
        ("socket-fallback", "NET/OFI Unable to find a protocol that worked"),
    ],
)
def test_a_warning_or_a_stop_is_wrong_and_names_the_rank(name: str, why: str) -> None:
    assert not read(real(name)).ok
    assert why in read(real(name)).reason


def test_advice_of_nccl_is_not_wrong() -> None:
    line = "n0:1:2 [0] misc.cc:1 NCCL WARN Use of NCCL_X is deprecated\n"
    assert read(JOB + line).ok


def test_the_log_of_one_rank_is_not_proved_and_nothing_against_others() -> None:
    reading = read(real("ib-gdrdma-one-rank-a-node"))
    assert (reading.ok, reading.completeness) == (True, Completeness.UNKNOWN)
    assert reading.notes[0].startswith("NCCL; rank 0 of 2; 1 host; ")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("n1:4007:4007 [3] NCCL INFO Using network IB", "", "different networks"),
        ("2.28.9+cuda13.0", "2.27.1+cuda13.0", "different versions of NCCL: "),
        ("via P2P/CUMEM", "via P2P/NEW", "a connection that is not understood"),
        ("Destroy COMPLETE", "Abort COMPLETE", "the communicator was aborted"),
    ],
)
def test_what_differs_or_is_not_understood_is_wrong(old: str, new: str, why: str) -> None:
    # Of one rank alone.
    changed = JOB.replace(old, new or old.replace(" IB", " Socket"), 1)
    assert changed != JOB
    assert why in read(changed).reason


def test_what_is_expected_counts_against_the_log() -> None:
    assert read(JOB, "ranks=8", "network=IB").ok
    assert "8 ranks in the largest communicator, expected 16" in read(JOB, "ranks=16").reason
    assert "network IB, expected Socket" in read(JOB, "network=Socket").reason


def test_the_note_says_that_rings_and_trees_are_connected() -> None:
    assert read(JOB).notes[0].endswith("; NVLS; connected all rings; connected all trees")


def test_more_processes_than_are_held_leave_a_job_unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_MOST_PROCESSES", 4)
    reading = read(JOB)
    assert (reading.ok, reading.completeness) == (True, Completeness.UNKNOWN)
    assert "the lines of more than 4 processes" in reading.reason


def test_lines_that_others_broke_into_accuse_no_rank() -> None:
    reading = read(real("torn-by-other-ranks"))
    assert (reading.ok, reading.completeness) == (True, Completeness.UNKNOWN)


@pytest.mark.parametrize("stamp", ["[2026-11-28 02:03:04] ", "3: ", "[1,3]<stdout>:", "n7: "])
def test_what_stands_before_the_lines_changes_nothing(stamp: str) -> None:
    reading = read("".join(f"{stamp}{line}\n" for line in JOB.splitlines()))
    assert (reading.ok, reading.completeness) == (True, Completeness.PROVED)
    assert reading.seen["hosts"] == ("n0", "n1")


@QUICK
@given(st.integers(0, len(JOB) - 1))
def test_a_cut_job_is_never_proved(end: int) -> None:
    assert read(JOB[:end]).completeness is not Completeness.PROVED


@QUICK
@given(st.sampled_from(NAMES), st.text(max_size=60), st.data())
@example("hang-merged-nics", "NCCL WARN ", None)
def test_no_text_crashes_it(name: str, noise: str, data: st.DataObject | None) -> None:
    text = real(name)
    place = data.draw(st.integers(0, len(text))) if data else len(text)
    assert isinstance(read(text[:place] + noise + text[place:]), Reading)


@pytest.mark.parametrize("name", NAMES)
def test_a_log_alone_is_recognized(name: str) -> None:
    [section] = recognize((LOGS / f"{name}.txt").read_text(encoding="utf-8"))
    assert section.tool == "nccl-log"


def test_a_log_with_the_table_of_a_tool_is_that_tools() -> None:
    [section] = recognize((DATA / "gpu" / "runs" / "two-hosts" / "out").read_text(encoding="utf-8"))
    assert section.tool == "nccl-tests"


# ---- ncclras ----

HEADER = """\
NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""
#: Typed after src/ras/client_support.cc of NCCL 2.28.
GOOD = f"""{HEADER}    0         1         2         4         8         8   RUNNING      OK

Errors
======

Warnings
========
"""
LAGGING = (DATA / "misread" / "ras_lag.txt").read_text(encoding="utf-8")


def asked(text: str, *expected: str) -> Reading:
    by_hand = table.by_hand()["ncclras"]
    return by_hand.read([text], (), by_hand.requested(text, expected))


def test_a_good_answer_is_not_proved_as_it_has_no_end() -> None:
    reading = asked(GOOD)
    assert (reading.ok, reading.completeness) == (True, Completeness.UNKNOWN)
    assert reading.seen == {"nccl_version": "2.28.9", "ranks": 8, "nodes": 2, "communicators": 1}


def test_ranks_behind_others_are_all_named_with_their_operation() -> None:
    reading = asked(LAGGING)
    assert reading.reason == "ranks 5-6 on 192.0.2.8 have launched up to operation 119"
    assert [(each["rank"], each["pid"]) for each in reading.seen["stragglers"]] == [
        (5, 7001),
        (6, 7002),
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("one-of-two", "rank 1 on 127.0.0.1 does not answer"),
        ("one-of-four", "rank 1 on 10.80.0.12 does not answer"),
    ],
)
def test_a_rank_that_does_not_answer_is_named(name: str, why: str) -> None:
    text = (DATA / "gpu" / "ras" / f"{name}.txt").read_text(encoding="utf-8")
    assert asked(text).reason == why
    assert [section.tool for section in recognize(text)] == ["ncclras"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("     OK", "MISMATCH", "communicators of group 0: MISMATCH"),
        ("RUNNING      OK", "  ABORT      OK", "communicators of group 0: ABORT"),
        ("    0         1 ", "    x         1 ", "no communicator"),
    ],
)
def test_other_states_are_wrong(old: str, new: str, why: str) -> None:
    assert why in asked(GOOD.replace(old, new)).reason


def test_a_client_that_was_refused_says_so() -> None:
    refused = "Connecting to localhost:28028 failed: Connection refused\n"
    assert "Connection refused" in asked(refused).reason


def test_expected_ranks_count_against_an_answer() -> None:
    assert asked(GOOD, "ranks=8").ok and not asked(GOOD, "ranks=16").ok


@QUICK
@given(st.sampled_from([GOOD, LAGGING]), st.data())
def test_a_cut_answer_is_never_proved_and_accuses_no_other_rank(
    text: str, data: st.DataObject
) -> None:
    reading = asked(text[: data.draw(st.integers(0, len(text)))])
    assert reading.completeness is not Completeness.PROVED
    assert {each["rank"] for each in reading.seen.get("stragglers", ())} <= {5, 6}


@QUICK
@given(st.text())
def test_no_text_is_a_good_answer(text: str) -> None:
    assert not asked(text).ok
