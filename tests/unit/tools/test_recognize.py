"""The outputs of tools in a text: found by content, and read as each by itself."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from railgauge import paths
from railgauge.model.measurement import Measurement
from railgauge.tools import Reading, table
from railgauge.tools.recognize import Section, recognize
from tests.properties import tries
from tests.unit.tools.test_wdt import receiver, sender

DATA = paths.HOME / "tests" / "data"


def recorded() -> dict[str, str]:
    files = [path for tool in ("iperf2", "osu", "nccl-tests", "perftest") for path in of(tool)]
    # Where an error is the first line, it is one of the run above.
    first = ("-interrupted-", "-refused-")
    files += (path for path in of("iperf3") if not any(word in path.name for word in first))
    files += sorted(DATA.glob("gpu/runs/*/out"))
    texts = {f"{path.parent.name}/{path.name}": text_of(path) for path in files}
    return {**texts, "wdt/sender": sender(), "wdt/receiver": receiver()}


def of(tool: str) -> list[Path]:
    return sorted((DATA / tool).iterdir())


def text_of(path: Path) -> str:
    """Without the comment of the recording, which has words of failure in it."""
    text = re.sub(r"\A# (?:source|recorded):.*\n", "", path.read_text(encoding="utf-8"))
    return text if text.endswith("\n") else f"{text}\n"


TEXTS = recorded()
#: What iperf2 printed where its first streams connected above its banner. Behind another output of
#: iperf2 only a stream's number that is there already tells that they are not that one's.
LATE = [name for name, text in TEXTS.items() if re.match(r"\[ *[0-9]+\] local ", text)]
#: Of csv without a heading nothing tells two runs apart.
BARE_CSV = [name for name, text in TEXTS.items() if ",0.0-" in text]
NAMES = sorted(TEXTS)


@functools.cache
def alone(name: str) -> tuple[object, ...]:
    (section,) = recognize(TEXTS[name])
    return essence(section.read())


def essence(reading: Reading) -> tuple[object, ...]:
    """What it says, without the numbers of lines and the tags in what it quotes."""
    reason = re.sub(r"\bline [0-9]+", "line", reading.reason)
    reason = re.sub(r"(?<=found ['\"])\s*(?:0:\s+)?", "", reason)
    seen = {name: value for name, value in reading.seen.items() if name != "warnings"}
    return reading.ok, reason, reading.completeness, reading.measurements, str(seen)


def each_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(f"{change(line)}\n" for line in text.split("\n")[:-1])


#: How a text comes to stand in a log.
WAYS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "srun --label": each_line("0: {}".format),
    "srun --label of many": each_line("  0: {}".format),
    "Open MPI 4": each_line("[1,0]<stdout>:{}".format),
    "Open MPI 5": each_line("[prterun-n1-4711@1,0]<stdout>: {}".format),
    "Open MPI 6": each_line("[prterun-n1-4711@1,0][n1:4712]<stdout>: {}".format),
    "MPICH": each_line("[0] {}".format),
    "pdsh": each_line("n1: {}".format),
    "ts": each_line("Nov 28 02:03:04 {}".format),
    "kubectl": each_line("2026-11-28T02:03:04.123456789Z {}".format),
    "times of a day, and srun": each_line("[02:03:04] 0: {}".format),
    "Open MPI 4 with times": each_line("Sat Nov 28 02:03:04 2026[1,0]<stdout>:{}".format),
    "colours": each_line("\x1b[32m{}\x1b[0m".format),
    "CRLF": each_line("{}\r".format),
    "CRLF of a terminal": each_line("{}\r\r".format),
    "BOM": lambda text: f"\ufeff{text}",
}


def streams(name: str) -> set[str]:
    """The numbers of streams that connected above the banner, or of all where there is none."""
    first = TEXTS[name].split("Client connecting to ")[0] if name in LATE else TEXTS[name]
    return set(re.findall(r"^\[ *(\*?[0-9]+)\] local ", first, re.MULTILINE))


def told_apart(names: Sequence[str]) -> bool:
    late = any(
        name in LATE and before.startswith("iperf2") and not streams(name) <= streams(before)
        for before, name in pairwise(names)
    )
    return not late and sum(name in BARE_CSV for name in names) < 2


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_output_is_one_and_read_as_by_parse(name: str) -> None:
    (section,) = recognize(TEXTS[name])
    reading = table.by_hand()[section.tool].read([TEXTS[name]], (), None)
    assert section.read() == reading
    folder = name.partition("/")[0]
    assert section.tool == (folder if folder in table.by_hand() else "nccl-tests")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name", ["iperf2/p4-client.txt", "iperf3/p4-3.18-client.json", "perftest/write-server.txt"]
)
def test_what_stands_around_its_lines_changes_nothing(name: str, way: str) -> None:
    (section,) = recognize(WAYS[way](TEXTS[name]))
    assert essence(section.read()) == alone(name)


@settings(max_examples=tries(150), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5), st.sampled_from(sorted(WAYS)))
@example(["perftest/write-client.txt", "perftest/write-server.txt"], "as it is")
@example(["iperf2/p1-server.txt", "iperf2/dual-p1-client.txt", "iperf2/p1-client.txt"], "pdsh")
def test_outputs_one_after_the_other_are_read_as_each_alone(names: list[str], way: str) -> None:
    if not told_apart(names):
        return
    found = recognize(WAYS[way]("".join(TEXTS[name] for name in names)))
    assert [essence(section.read()) for section in found] == [alone(name) for name in names]


@settings(max_examples=tries(300))
@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.data())
def test_an_output_that_is_cut_never_passes_for_a_whole_one(
    first: str, second: str, data: st.DataObject
) -> None:
    whole = TEXTS[first]
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    if second.startswith("iperf2"):
        # Its first line, which may be an error or a row, would be hidden in the cut one.
        cut = cut[: cut.rfind("\n") + 1]
    if TEXTS[second].startswith("\n"):
        # Nothing tells a last number that is cut from a whole one where an empty line follows.
        cut += "\n"
    before = [section.read() for section in recognize(cut)]
    after = [section.read() for section in recognize(cut + TEXTS[second])]
    good = [reading.measurements for reading in before if reading.ok]
    good += [reading.measurements for reading in [recognize(TEXTS[second])[0].read()] if reading.ok]
    for reading in after:
        if reading.ok and reading.measurements:
            assert reading.measurements in good


@settings(max_examples=tries(200))
@given(st.text(), st.sampled_from(NAMES), st.data())
def test_no_text_crashes_it(noise: str, name: str, data: st.DataObject) -> None:
    lines = TEXTS[name].split("\n")
    place = data.draw(st.integers(0, len(lines)))
    end = data.draw(st.integers(0, len(lines)))
    for section in recognize("\n".join([*lines[:place], noise, *lines[end:]])):
        assert section.unread or section.read()


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "srun: error: no such host\n", "\x1b[31m"])
def test_nothing_is_found_where_no_tool_printed(text: str) -> None:
    assert recognize(text) == []


@pytest.mark.parametrize("name", LATE)
def test_lines_that_came_late_never_make_a_number_of_another_run(name: str) -> None:
    before = "iperf2/p1-client.txt"
    numbers = [reading_of(before), reading_of(name)]
    for section in recognize(TEXTS[before] + TEXTS[name]):
        assert section.read().measurements in [(), *numbers]


def reading_of(name: str) -> tuple[Measurement, ...]:
    (section,) = recognize(TEXTS[name])
    return section.read().measurements


@pytest.mark.parametrize("first", BARE_CSV)
@pytest.mark.parametrize("second", BARE_CSV)
def test_two_runs_of_csv_without_a_heading_are_refused(first: str, second: str) -> None:
    if first != second:
        (section,) = recognize(TEXTS[first] + TEXTS[second])
        assert not section.read().ok


def lines_of(name: str, count: int) -> str:
    return "".join(TEXTS[name].splitlines(keepends=True)[:count])


KILLED = TEXTS["iperf2/server-killed-client.txt"]


@pytest.mark.parametrize(
    "cut",
    [
        KILLED[: KILLED.index("6697/0         0 ") + len("6697/0         0 ")],
        TEXTS["iperf2/mbytes-p2-client.txt"][:1139],
        TEXTS["iperf2/p4-client.txt"] + "[  1] 0.0000-1.3",
        TEXTS["iperf2/csv-enhanced-p2-client.txt"][:461],
    ],
    ids=["Rtry is the last number", "Rtry of a sum", "no whole interval", "csv"],
)
def test_a_cut_row_stays_one_with_the_next_output_in_its_line(cut: str) -> None:
    assert not recognize(cut)[0].read().ok
    assert not recognize(cut + TEXTS["four-hosts/out"])[0].read().ok


def test_a_cut_row_of_csv_begins_no_other_run() -> None:
    cut = TEXTS["iperf2/csv-enhanced-p2-client.txt"][:316]
    assert not recognize(cut + TEXTS["perftest/write-client.txt"])[0].read().ok


def test_half_a_row_begins_no_output_of_the_tool_that_it_was_joined_to() -> None:
    cut = TEXTS["iperf2/bounceback-2.1.8-client.txt"]
    cut = cut[: cut.index("Kbits/sec", cut.index("[  1] 1.0000-2.0000 sec"))]
    found = recognize(cut + TEXTS["wdt/sender"])
    assert [section.tool for section in found if section.read().ok] == ["wdt"]


@pytest.mark.parametrize(
    ("cut", "count", "whole"),
    [
        ("iperf2/sum-only-p4-client.txt", 3, "iperf2/gbytes-p2-server.txt"),
        ("iperf2/sum-of-some-client.txt", 1, "iperf2/reverse-p2-2.1.8-server.txt"),
        ("iperf2/reverse-p2-2.1.8-client.txt", 2, "iperf2/reverse-p2-server.txt"),
    ],
)
def test_a_cut_client_of_iperf2_takes_nothing_of_the_next_server(
    cut: str, count: int, whole: str
) -> None:
    first, second = recognize(lines_of(cut, count) + TEXTS[whole])
    assert not first.read().ok
    assert second.text == TEXTS[whole]
    assert essence(second.read()) == alone(whole)


def test_a_run_both_ways_without_the_number_of_its_process_makes_no_wrong_number() -> None:
    text = re.sub(r" with pid [0-9]+", "", TEXTS["iperf2/dual-p1-client.txt"])
    assert not any(section.read().ok for section in recognize(text))


# ---- several ranks ----


def labelled(*texts: str) -> str:
    """The lines of each rank in turn, as `srun --label` prints them."""
    rows = [text.split("\n")[:-1] for text in texts]
    longest = max(map(len, rows))
    return "".join(
        f"{rank}: {lines[number]}\n"
        for number in range(longest)
        for rank, lines in enumerate(rows)
        if number < len(lines)
    )


def test_two_ranks_that_print_at_once_are_read_apart() -> None:
    names = ["perftest/write-client.txt", "perftest/write-server.txt"]
    found = recognize(labelled(*(TEXTS[name] for name in names)))
    assert {section.tag for section in found} == {"0", "1"}
    by_tag = sorted(found, key=lambda section: section.tag)
    assert [essence(section.read()) for section in by_tag] == [alone(name) for name in names]


def test_what_the_launcher_says_is_of_both_ranks_that_ran_together() -> None:
    texts = (TEXTS["perftest/write-client.txt"], TEXTS["perftest/write-server.txt"])
    text = labelled(*texts) + "srun: error: n2: task 1: Exited with exit code 1\n"
    assert [section.read().ok for section in recognize(text)] == [False, False]


def test_lines_of_no_host_are_held_a_bounded_number_of_times() -> None:
    hosts, lines = 100, 4000
    text = "".join(f"h{host}: Couldn't connect to 10.0.0.1:1\n" for host in range(hosts))
    found = recognize(text + "a line of no host\n" * lines)
    assert len(found) == hosts
    assert sum(len(section.lines) for section in found) <= 2**18 + hosts + lines
    assert all("give each host a file" in section.unread for section in found)


NCCL = TEXTS["two-hosts/out"]


def test_a_failure_of_another_rank_is_one_of_the_test() -> None:
    before = labelled(TEXTS["perftest/write-client.txt"], TEXTS["perftest/write-server.txt"])
    text = WAYS["srun --label"](NCCL) + "1: n2: Test NCCL failure common.cu:12 'unhandled'\n"
    assert [section.read().ok for section in recognize(before + text)] == [True, True, False]


def test_ranks_that_started_alone_are_one_output() -> None:
    other = NCCL.replace(" h0 ", " h2 ").replace(" h1 ", " h3 ")
    (section,) = recognize(labelled(NCCL, other))
    assert not section.read().ok


def test_hosts_that_pdsh_starts_a_test_on_are_read_apart() -> None:
    texts = [single(host, 100) for host in ("a1", "a2")]
    text = labelled(*texts).replace("0: ", "a1: ").replace("1: ", "a2: ")
    assert [section.read().ok for section in recognize(text)] == [True, True]


def test_hosts_after_a_run_without_tags_are_read_apart_from_it() -> None:
    text = NCCL + WAYS["pdsh"](single("a1", 100)) + WAYS["srun --label"](NCCL)
    assert [section.read().ok for section in recognize(text)] == [True, True, True]


def test_a_client_that_was_refused_is_a_run() -> None:
    (section,) = recognize("iperf3: error - unable to connect to server: Connection refused\n")
    assert "unable to connect" in section.read().reason


def single(host: str, pid: int) -> str:
    lines = TEXTS["one-rank/out"].split("\n")
    return "\n".join(re.sub(r"Pid +[0-9]+ on +\S+", f"Pid {pid} on {host}", row) for row in lines)


def test_hosts_that_ran_the_same_test_alone_are_reported() -> None:
    (section,) = recognize(single("a1", 100) + single("a2", 200))
    assert "each rank started alone" in section.read().reason


def test_runs_of_one_host_are_several() -> None:
    assert len(recognize(single("a1", 100) + single("a1", 200))) == 2


# ---- places ----


def test_lines_are_those_of_the_whole_text() -> None:
    refused = TEXTS["iperf2/refused-client.txt"]
    text = TEXTS["iperf2/p1-client.txt"] + refused
    section = recognize(text)[1]
    number = next(n for n, line in enumerate(text.split("\n"), 1) if "Connection refused" in line)
    assert f"line {number}: found" in section.read().reason
    assert text.split("\n")[section.line - 1].startswith("Client connecting to")


def test_an_error_below_a_whole_document_is_one_of_its_run() -> None:
    text = TEXTS["iperf3/p4-3.18-client.json"] + "srun: error: n1: task 0: Killed\n"
    (section,) = recognize(text)
    assert not section.read().ok


def test_other_words_around_a_whole_document_are_none_of_it() -> None:
    text = f"job 12 starts\n{TEXTS['iperf3/p4-3.18-client.json']}job 12 has ended\n"
    (section,) = recognize(text)
    assert section.read().ok


def test_the_rule_of_the_next_run_does_not_end_a_table() -> None:
    whole = TEXTS["perftest/write-client.txt"].split("\n")
    cut = "\n".join(whole[: next(n for n, row in enumerate(whole) if "0.000374" in row) + 1])
    first, second = recognize(f"{cut}\n{TEXTS['perftest/write-client.txt']}")
    assert (first.read().ok, second.read().ok) == (False, True)


@pytest.mark.parametrize("side", ["client", "server"])
def test_the_first_rule_of_ib_read_bw_does_not_end_the_table_above(side: str) -> None:
    name = f"perftest/read-{side}.txt"
    whole = TEXTS["perftest/write-client.txt"]
    cut = whole[: whole.rindex("-" * 87)]
    first, second = recognize(cut + TEXTS[name])
    assert not first.read().ok
    assert second.text == TEXTS[name]


@pytest.mark.parametrize("client", ["write-client", "read-client", "write-lat-client"])
def test_a_server_that_no_client_came_to_has_nothing_of_the_next_client(client: str) -> None:
    waiting = lines_of("perftest/write-server.txt", 4)
    name = f"perftest/{client}.txt"
    first, second = recognize(waiting + TEXTS[name])
    assert not first.read().ok
    assert second.text == TEXTS[name]
    assert essence(second.read()) == alone(name)


def test_a_rehearsal_stays_one_wherever_its_mark_is() -> None:
    text = f"# SIMULATED: by a stand-in\nsome line\n{TEXTS['perftest/write-client.txt']}"
    found: list[Section] = recognize(TEXTS["osu/latency-7.1.txt"] + text)
    assert [section.read().simulated for section in found] == [True, True]
    assert all(number.simulated for section in found for number in section.read().measurements)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# OSU MPI_Accumulate latency Test v7.5\n# Window creation: MPI_Win_create\n", "of OSU"),
    ],
)
def test_a_format_that_no_reader_knows_is_named(text: str, why: str) -> None:
    (section,) = recognize(text)
    assert why in section.unread


def test_runs_of_many_streams_are_separated() -> None:
    rule = f"{'-' * 60}\n"
    run = f"{rule}Client connecting to 10.0.0.2, TCP port 5001\nTCP window size: 85.0 KByte\n{rule}"
    ends = "[{0:3}] local 10.0.0.1 port {1} connected with 10.0.0.2 port 5001\n"
    run += "".join(ends.format(number, 40000 + number) for number in range(1, 701))
    assert len(recognize(run * 3)) == 3
