"""Evidence from outputs of tools between two hosts that somebody else made."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from railgauge import paths
from railgauge.locating import End, Evidence, locate
from railgauge.textfiles import Text
from railgauge.verdict.location import from_logs
from tests.unit.locating.campaigns import told

DATA = paths.HOME / "tests/data"
WHOLE = (DATA / "nccl-tests/gb200-2x4-ib-16GiB.txt").read_text()


def read_logs(texts: Mapping[str, str]) -> Evidence:
    return from_logs.read(Text(name, text) for name, text in texts.items()).evidence


def output(a: str, b: str, busbw: float) -> str:
    """The recorded one, of other hosts and with another bandwidth."""
    text = WHOLE.replace("nccl-test-6k8rm", a).replace("nccl-test-dbzk7", b)
    factor = busbw / 84.52

    def times(line: str) -> str:
        for number, decimals in (("355729", 0), ("353612", 0)):
            line = line.replace(number, f"{float(number) / factor:.{decimals}f}")
        for number in ("48.29", "84.52", "48.58", "85.02", "84.7689"):
            line = line.replace(number, f"{float(number) * factor:.{len(number) - 3}f}")
        return line

    return "\n".join(times(line) for line in text.split("\n"))


def folder(slow: str = "") -> dict[str, str]:
    nodes = [f"n{number}" for number in range(1, 9)]
    return {
        f"{a}-{b}.log": output(a, b, 59.0 if slow in (a, b) else 84.5)
        for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    }


def test_hosts_and_bandwidth_are_read_from_the_output() -> None:
    (o,) = read_logs({"any name": WHOLE}).results
    assert (o.sender.node, o.receiver.node, o.value) == (
        "nccl-test-6k8rm",
        "nccl-test-dbzk7",
        84.52,
    )


def test_the_slow_node_of_somebody_elses_pairs_is_named() -> None:
    assert told(locate(read_logs(folder("n3")))) == ["node n3?"]


def failed(text: str) -> str:
    """The output of a run in which a rank says what went wrong."""
    head = text.partition(" 17179869184    4")[0]
    return f"{head}n3: Test NCCL failure all_reduce.cu:44 'remote process exited'\n"


def test_an_output_that_states_a_failure_is_a_run_that_failed() -> None:
    texts = folder()
    texts["n2-n3.log"] = failed(texts["n2-n3.log"])
    assert told(locate(read_logs(texts))) == ["pair n2-n3?"]


def test_an_output_that_is_cut_is_missing_and_accuses_nobody() -> None:
    """A time limit cuts it, or a full disk, or the person that copied it."""
    texts = folder()
    for end in range(1, len(texts["n2-n3.log"]) - 1, 97):
        cut = {**texts, "n2-n3.log": texts["n2-n3.log"][:end]}
        evidence = read_logs(cut)
        assert len(evidence.results) == 7 and len(evidence.missing) == 1
        assert locate(evidence).suspects == ()


def test_runs_that_failed_are_of_the_condition_of_the_others() -> None:
    texts = folder()
    for name in ("n2-n3.log", "n6-n7.log"):
        texts[name] = failed(texts[name])
    assert told(locate(read_logs(texts))) == ["pair n2-n3?", "pair n6-n7?"]


@pytest.mark.parametrize("tag", ["0: ", "[1,0]<stdout>:"])
def test_hosts_are_read_behind_what_a_launcher_puts_before_lines(tag: str) -> None:
    texts = {
        name: "".join(f"{tag}{line}\n" for line in text.splitlines())
        for name, text in folder("n3").items()
    }
    assert told(locate(read_logs(texts))) == ["node n3?"]


def later(text: str) -> str:
    """The output of another run of the same: other processes printed it."""
    again = re.sub(r"(?<=Pid )( *)([0-9]+)", lambda m: f"{m[1]}{int(m[2]) + 7}", text)
    assert again != text
    return again


def test_a_run_that_was_appended_to_another_is_one_more_result() -> None:
    """Of a healthy node whose runs were all repeated no run has failed."""
    texts = folder()
    for name in ("n2-n3.log", "n3-n4.log"):
        texts[name] += later(texts[name])
    evidence = read_logs(texts)
    assert len(evidence.results) == 10 and locate(evidence).suspects == ()


@pytest.mark.parametrize("slow_first", [False, True])
def test_a_slow_run_that_was_appended_counts_as_well(slow_first: bool) -> None:
    good, slow = folder(), folder("n3")
    texts = dict(good)
    for name in ("n2-n3.log", "n3-n4.log"):
        runs = [good[name], later(slow[name])]
        texts[name] = "".join(reversed(runs) if slow_first else runs)
    assert sorted(o.value or 0 for o in read_logs(texts).results)[:2] == [59.0, 59.0]


def test_a_run_that_was_appended_and_breaks_off_before_its_hosts_is_missing() -> None:
    texts = folder()
    texts["n2-n3.log"] += later(texts["n2-n3.log"]).partition("# Using devices")[0]
    evidence = read_logs(texts)
    [missing] = evidence.missing
    assert missing.place.startswith("n2-n3.log:") and "not a whole run" in missing.why
    assert locate(evidence).suspects == ()


def test_a_copy_of_an_output_is_the_same_run() -> None:
    texts = folder()
    assert len(read_logs({**texts, "copy of n1-n2.log": texts["n1-n2.log"]}).results) == 8


def test_an_output_without_hosts_is_missing() -> None:
    evidence = read_logs({**folder(), "srun.log": "srun: error: n9: task 0: Killed\n"})
    assert [missing.place for missing in evidence.missing] == ["srun.log"]
    assert locate(evidence).suspects == ()


def test_an_output_of_three_hosts_is_no_pair() -> None:
    texts = {"three": WHOLE.replace("on nccl-test-6k8rm device  0", "on n9 device  0")}
    evidence = read_logs(texts)
    assert evidence.results == [] and "3 hosts" in evidence.missing[0].why


def alone(a: str, b: str) -> str:
    """What both nodes print where a test without MPI starts on each of them."""
    of_one = re.sub(r".*Rank +[4-7] .*\n", "", output(a, b, 84.5))
    of_one = re.sub(r"Pid +[0-9]+", "Pid 100", of_one)
    return of_one + of_one.replace(f"on {a}", f"on {b}")


def test_ranks_that_each_started_alone_are_missing_and_accuse_nobody() -> None:
    texts = {**folder(), "n2-n3.log": alone("n2", "n3")}
    evidence = read_logs(texts)
    [missing] = evidence.missing
    assert (missing.place, missing.why) == (
        "n2-n3.log:2",
        "each rank started alone (no MPI): n2 and n3 have a rank 0 each",
    )
    assert locate(evidence).suspects == ()


def test_an_output_of_several_groups_is_missing_and_accuses_nobody() -> None:
    texts = folder()
    texts["n2-n3.log"] = re.sub(r"(Rank +[1357] Group +)0", r"\g<1>1", texts["n2-n3.log"])
    evidence = read_logs(texts)
    [missing] = evidence.missing
    assert missing.place == "n2-n3.log:2"
    assert missing.why == "several groups of ranks (NCCL_TESTS_SPLIT), expected one"
    assert locate(evidence).suspects == ()


# ---- other tools, and file names ----

PERFTEST = (DATA / "perftest/write-client.txt").read_text()
OSU = (DATA / "osu/bw-7.5-cuda-validated.txt").read_text()
IPERF3 = (DATA / "iperf3/p4-3.18-client.json").read_text()


def rdma(number: int, other: int, gbits_s: float) -> str:
    """The recorded client, of other addresses and with another bandwidth."""
    text = PERFTEST.replace("10:77:01:16", f"10:00:00:{number:02}")
    text = text.replace("10:77:02:15", f"10:00:00:{other:02}")
    return text.replace("0.20 ", f"{gbits_s:.2f} ")


def test_the_ends_of_a_client_are_its_addresses_and_data_goes_to_the_server() -> None:
    (o,) = read_logs({"any name": PERFTEST}).results
    assert o.ends == (End("10.77.1.16"), End("10.77.2.15"))


def test_hosts_in_a_files_name_are_better_than_addresses() -> None:
    (o,) = read_logs({"gpu-01_to_gpu-02.txt": PERFTEST}).results
    assert o.nodes == ("gpu-01", "gpu-02")


def test_an_output_that_has_no_hosts_is_of_those_in_its_files_name() -> None:
    nodes = [f"n{number}" for number in range(1, 9)]
    texts = {
        f"osu_bw-{a}-{b}.out": OSU.replace("23989.44", "12989.44") if "n3" in (a, b) else OSU
        for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    }
    # Outputs that are equal to the last digit are copies.
    texts = {
        name: text.replace("0.91", f"0.9{at}") for at, (name, text) in enumerate(texts.items())
    }
    assert told(locate(read_logs(texts))) == ["node n3?"]


def test_an_output_without_hosts_anywhere_is_left_out() -> None:
    evidence = read_logs({"a.out": OSU})
    assert evidence.results == [] and "expected a name such as n1-n2.log" in evidence.missing[0].why


def test_a_servers_output_is_no_second_run() -> None:
    server = (DATA / "perftest/write-server.txt").read_text()
    evidence = read_logs({"n1-n2.client": PERFTEST, "n1-n2.server": server})
    assert len(evidence.results) == 1 and "server" in evidence.missing[0].why


def test_a_latency_is_left_out() -> None:
    """It grows with the path, and less of it is better."""
    latency = (DATA / "perftest/write-lat-client.txt").read_text()
    evidence = read_logs({"n1-n2.log": latency})
    assert evidence.results == [] and "expected a rate" in evidence.missing[0].why


@pytest.mark.parametrize(("operation", "sender"), [("write", "10.77.1.16"), ("read", "10.77.2.15")])
def test_what_is_read_comes_from_the_server(operation: str, sender: str) -> None:
    text = (DATA / f"perftest/{operation}-client.txt").read_text()
    hosts = sorted(o.sender.node for o in read_logs({"a": text}).results)
    client = sorted(o.receiver.node for o in read_logs({"a": text}).results)
    assert (hosts if operation == "write" else client)[0].startswith("10.77.")
    assert read_logs({"a": text}).directed


def test_sizes_that_few_have_are_not_compared_with_others() -> None:
    """One output was swept further than the others: its largest common size counts."""
    sizes = {
        f"osu-n{a}-n{a + 1}.out": OSU.replace("0.91", f"0.9{a}")
        + ("65536 21000.00 Pass\n" if a == 1 else "")
        for a in range(1, 6)
    }
    evidence = read_logs(sizes)
    assert len({o.condition for o in evidence.results}) == 1


def test_a_collective_of_several_hosts_is_left_out_beside_pairs() -> None:
    whole = WHOLE.replace("on nccl-test-6k8rm device  0", "on n9 device  0")
    evidence = read_logs({**folder(), "all.log": whole})
    assert len(evidence.results) == 8 and evidence.missing[0].why == "3 hosts, expected two"
    assert locate(evidence).suspects == ()


@pytest.mark.parametrize("word", ["127.0.0.1", "localhost"])
def test_both_ends_on_one_host_are_no_pair(word: str) -> None:
    text = IPERF3.replace("10.77.0.12", word).replace("10.77.0.11", word)
    evidence = read_logs({"n1-n2.json": text})
    assert evidence.results == [] and evidence.missing[0].why == "both ends are one host"
