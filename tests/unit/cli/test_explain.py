"""`railgauge explain`: kinds of findings, and terms."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from railgauge import paths
from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from railgauge.model import catalogue, signatures
from tests.command_line import invoke
from tests.unit import measured


def test_explain_prints_a_kind_and_a_term() -> None:
    run = invoke(cli, ["explain", "node-lost", "floor"])
    assert run.exit_code == 0
    assert run.output.startswith("node-lost: The node, or the measuring agent on it, went")
    assert "  next:\n    - scontrol show node n3" in run.output
    assert "floor: A sanity minimum" in run.output


def test_explain_takes_a_term_of_several_words() -> None:
    run = invoke(cli, ["explain", "not", "measured"])
    assert run.output.startswith("not measured: No result, for whatever reason.")


def test_explain_without_a_name_lists_every_kind() -> None:
    run = invoke(cli, ["explain"])
    assert [line.split()[0] for line in run.output.splitlines()] == sorted(catalogue.kinds())


def test_a_name_that_is_not_known_is_an_error_with_the_nearest_ones() -> None:
    run = invoke(cli, ["explain", "nodelost"])
    assert isinstance(run.exception, RailgaugeError)
    assert run.exception.message.endswith("expected one such as node-lost, nodes, device-lost")


def _typed() -> Iterator[tuple[str, str]]:
    steps = {name: kind.next for name, kind in catalogue.kinds().items()}
    steps |= {name: one.next for name, one in signatures.load().items()}
    for name, of_name in steps.items():
        for step in of_name:
            for found in re.finditer(r"railgauge ([^(;,]+)", step):
                yield name, found[1]


@pytest.mark.parametrize(("name", "typed"), sorted(set(_typed())))
def test_what_to_type_of_a_kind_is_a_whole_command(name: str, typed: str) -> None:
    """Such as files that are not there may be wrong; options and missing arguments may not."""
    command: click.Command = cli
    words = shlex.split(typed)
    context = None
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context)
        found = command.get_command(context, words.pop(0))
        assert found is not None, f"{name}: railgauge {typed}"
        command = found
    try:
        command.make_context(command.name, words, parent=context)
    except (click.MissingParameter, click.NoSuchOption) as error:
        pytest.fail(f"{name}: railgauge {typed}: {error.format_message()}")
    except click.BadParameter:
        pass


# ---- logs and campaigns ----

LOG = paths.HOME / "tests" / "data" / "nccl-log" / "socket-fallback.txt"
GOOD = paths.HOME / "tests" / "data" / "nccl-tests" / "gb200-2x4-mnnvl-16GiB.txt"

#: Typed after the tables of perftest, with a rate that was published for this fault.
SPARK = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : rocep1s0f0
 Number of qps   : 8\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : 3
 Max inline data : 0[B]
 rdma_cm QPs     : OFF
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    151234           0.00               12.74              0.001519
---------------------------------------------------------------------------------------
"""


def test_a_log_is_held_against_known_symptoms() -> None:
    run = invoke(cli, ["explain", str(LOG)])
    assert run.exit_code == 0
    assert f"nccl-sockets: NCCL sends over sockets.\n  at {LOG}:31  " in run.output
    assert "3 known symptoms; a symptom is a hint, and changes no verdict\n" in run.output


def test_a_number_in_a_log_is_explained_with_its_cause_and_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(SPARK)
    run = invoke(cli, ["explain", str(tmp_path / "log")])
    assert run.output.startswith("spark-power-state: ")
    assert (
        "bandwidth 1 MiB, write, roce, 8 streams  12.74 Gb/s\n  likely cause (fault" in run.output
    )
    assert "would confirm it:\n    - " in run.output
    assert "next:\n    - " in run.output
    assert "sources:\n    - https://" in run.output


def test_a_run_that_fits_none_says_so() -> None:
    run = invoke(cli, ["explain", str(GOOD)])
    assert run.exit_code == 0
    assert f"{GOOD}:2  nccl-tests: no known symptom in 4 measurements\n" in run.output


def test_what_is_not_read_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("hello\n")
    run = invoke(cli, ["explain", str(tmp_path)])
    assert run.exit_code == 2
    assert f"not read: {tmp_path / 'log'}: no output of a tool that is known" in run.output


def test_a_symptom_is_explained_by_its_name() -> None:
    run = invoke(cli, ["explain", "nccl-above-nics"])
    assert run.output.startswith("nccl-above-nics: all_reduce over two nodes is faster than")
    assert "likely cause (normal, confidence high)" in run.output


def test_a_kind_comes_before_a_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node-lost").write_text(SPARK)
    assert invoke(cli, ["explain", "node-lost"]).output.startswith("node-lost: The")
    assert "spark-power-state" in invoke(cli, ["explain", "./node-lost"]).output


@pytest.mark.parametrize(
    "words",
    [["node-lost", "--nic", "400g-roce"], [str(LOG), "--nic", "400g"], [str(LOG), "--nics", "8"]],
)
def test_a_link_that_says_nothing_is_an_error(words: list[str]) -> None:
    error = invoke(cli, ["explain", *words]).exception
    assert isinstance(error, RailgaugeError) and "railgauge explain" in str(error.next_step)


def test_a_campaign_is_held_against_known_symptoms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the limit of the check: records have no --nic."""
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    values = dict.fromkeys(measured.PLACES, 390.0) | {"n3:n4:0-0": 110.0}
    campaign = measured.leave(tmp_path, 1, values)
    for name in ("latest", campaign.id, str(campaign.folder)):
        run = invoke(cli, ["explain", name])
        assert run.exit_code == 0
        assert "pcie-too-slow: " in run.output
        assert "n3:n4:0-0  bandwidth" in run.output
        assert "n1:n2" not in run.output


@pytest.mark.parametrize("words", [["latest", "--nic", "400g-roce"], ["latest", "latest"]])
def test_a_campaign_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    measured.leave(tmp_path, 1, dict.fromkeys(measured.PLACES, 390.0))
    error = invoke(cli, ["explain", *words]).exception
    assert isinstance(error, RailgaugeError) and error.next_step == "railgauge explain latest"


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "/nosuch", ""])
def test_a_name_that_no_file_can_have_is_an_error(name: str) -> None:
    error = invoke(cli, ["explain", name]).exception
    assert isinstance(error, RailgaugeError) and "is called" in error.message


def test_an_explained_campaign_keeps_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    campaign = measured.leave(tmp_path, 1, dict.fromkeys(measured.PLACES, 110.0))
    before = sorted(p.read_bytes() for p in campaign.folder.rglob("*") if p.is_file())
    invoke(cli, ["explain", "latest"])
    assert sorted(p.read_bytes() for p in campaign.folder.rglob("*") if p.is_file()) == before
