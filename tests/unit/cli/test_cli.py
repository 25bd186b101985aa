"""The command line without a cluster: limits, parsing, wrong usage."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from railgauge import paths
from railgauge.cli import cli
from railgauge.cli.lazy import LazyGroup
from railgauge.common.errors import RailgaugeError
from railgauge.model import limits
from tests.command_line import invoke, railgauge

DATA = paths.HOME / "tests" / "data" / "iperf2"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["roce", "--rate", "400", "--mtu", "4096"], "392.15 Gb/s"),
        (["roce", "--rate", "25", "--size", "64KiB"], "24.50 Gb/s"),
        (["roce", "--rate", "25", "--size", "4KiB"], "24.42 Gb/s"),
        (["tcp", "--rate", "10", "--mtu", "4200"], "9.79 Gb/s"),
        (["all_reduce", "--nodes", "2", "--ranks", "8", "--nic", "400x1"], "87.50 GB/s"),
        (["all_reduce", "--ranks", "8", "--nvlink", "450", "--nvls"], "700.00 GB/s"),
        (["alltoall", "--nodes", "8", "--ranks", "64", "--nic", "400x8"], "56.25 GB/s"),
        (
            ["all_reduce", "--nodes", "8", "--ranks", "64", "--nic", "400x8", "--sharp"],
            "787.50 GB/s",
        ),
        (
            ["broadcast", "--nodes", "4", "--ranks", "8", "--nic", "200x2", "--domain-nodes", "2"],
            "100.00 GB/s",
        ),
    ],
)
def test_a_limit_is_printed(arguments: list[str], says: str) -> None:
    answer = railgauge("limit", *arguments)
    assert (answer.exit_code, answer.stdout.split("  ")[0]) == (0, says)


@pytest.mark.parametrize("operation", limits.COLLECTIVES)
def test_every_collective_has_its_limit(operation: str) -> None:
    arguments = ["limit", operation, "--nodes", "2", "--ranks", "8", "--nic", "400x1"]
    answer = invoke(cli, arguments)
    reason = f"({operation} of 8 ranks on 2 nodes with 50 GB/s of NICs a node)\n"
    assert answer.output.endswith(reason)


def test_an_option_of_reframe_is_reported_where_it_stands() -> None:
    error = invoke(cli, ["accept", "-n", "NcclPair"]).exception
    assert isinstance(error, RailgaugeError)
    assert "No such option" in str(error) and "railgauge accept -- -n ..." in str(error)
    answer = invoke(cli, ["accept", "--partitoin", "x"], stderr=("--partition"))
    assert answer.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing option '--ranks'"),
        (["--ranks", "many"], "Invalid value for '--ranks'"),
        (["--ranks", "1"], "ranks is 1, expected 2 to"),
        (["--ranks", "8"], "limited by NVLink of unknown rate"),
        (["--ranks", "8", "--nodes", "2"], "limited by NICs of unknown rate"),
        (["--ranks", "9", "--nodes", "2", "--nic", "400x8"], "9 ranks on 2 nodes"),
        (["--ranks", "8", "--nvlink", "nan"], "gpu_gbytes_s is nan"),
        (["--ranks", "8", "--nvlnk", "450"], "No such option"),
        *(
            (["--ranks", "8", "--nodes", "2", "--nic", nic], f"found '{nic}', expected RATExCOUNT")
            for nic in (
                "8x400",
                "",
                "400",
                "0x8",
                "400x0",
                "-400x-8",
                "400x1.5",
                "nanx8",
                "infx8",
                "4x8x1",
            )
        ),
    ],
)
def test_a_collective_that_cannot_be_limited_gets_an_example(
    arguments: list[str], says: str
) -> None:
    error = invoke(cli, ["limit", "alltoall", *arguments]).exception
    assert isinstance(error, RailgaugeError)
    assert says in error.message
    assert error.next_step is not None
    assert error.next_step.startswith("railgauge limit alltoall --nodes 2")


def test_the_example_for_a_collective_works() -> None:
    answer = railgauge("limit", "sendrecv", stderr=["railgauge: "])
    message, next_step = answer.stderr.splitlines()
    assert (answer.exit_code, message) == (3, "railgauge: Missing option '--ranks'.")
    assert railgauge(*next_step.removeprefix("  next: railgauge ").split()).exit_code == 0


def test_a_bare_output_is_ok_and_not_proved() -> None:
    answer = railgauge("parse", "iperf2", str(DATA / "p4-client.txt"))
    document = json.loads(answer.stdout)
    assert answer.exit_code == 0
    assert (document["ok"], document["completeness"]) == (True, "unknown")
    assert {m["metric"] for m in document["measurements"]} >= {"bandwidth", "retransmits"}


def test_an_output_with_all_its_evidence_is_proved() -> None:
    answer = railgauge(
        *("parse", "iperf2", str(DATA / "without-last-sum-client.txt")),
        *(str(DATA / "without-last-sum-server.txt"), "--exit-code", "0", "--exit-code", "0"),
        *("--expect", "streams=4", "--expect", "duration_s=3"),
    )
    assert json.loads(answer.stdout)["completeness"] == "proved", answer.stdout


def test_a_failed_run_is_not_ok_and_exits_with_1() -> None:
    answer = railgauge("parse", "iperf2", str(DATA / "refused-client.txt"))
    document = json.loads(answer.stdout)
    assert answer.exit_code == 1
    assert (document["ok"], document["completeness"]) == (False, "broken")
    assert "refused" in document["reason"]


def test_a_bad_exit_code_makes_a_good_text_a_failure() -> None:
    answer = railgauge(
        *("parse", "iperf2", str(DATA / "p4-client.txt")),
        *("--exit-code", "1", "--exit-code", "0"),
    )
    assert answer.exit_code == 1
    assert "exit code 1" in json.loads(answer.stdout)["reason"]


def test_bytes_that_are_no_text_are_not_ok(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 40)
    answer = railgauge("parse", "iperf2", str(tmp_path / "noise"))
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["ok"] is False


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["limit", "roce", "--rate", "-1"], "rate"),
        (["limit", "roce", "--rate", "25", "--size", "64Kb"], "size is '64Kb', expected"),
        (["limit", "tcp", "--rate", "10", "--mtu", "20"], "mtu is 20"),
        (["limit", "roce"], "--rate"),
        (["parse", "iperf2", "nosuchfile"], "nosuchfile"),
        (["parse", "iperf2", "/dev/null", "--expect", "streams=4"], "belong together"),
        (["verdict", "nosuch"], "no campaign 'nosuch'"),
        (["nosuch"], "nosuch"),
        (["accept", "--nosuch"], "--nosuch"),
        (["accept", "--schedule", "nosuch"], "nosuch"),
        (["accept", "--seed", "-1"], "-1"),
    ],
)
def test_wrong_usage_is_one_message_and_exit_code_3(arguments: list[str], says: str) -> None:
    assert railgauge(*arguments, stderr=[says]).exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "command", "found"),
    [
        (["limit", "roce"], "railgauge limit roce", "Missing option '--rate'."),
        (["nosuch"], "railgauge", "No such command 'nosuch'."),
        (["gate", "nosuch"], "railgauge gate", "No such command 'nosuch'."),
        (
            *(["accept", "--seed", "x"], "railgauge accept"),
            "Invalid value for '--seed': 'x' is not a valid integer range.",
        ),
    ],
)
def test_wrong_usage_names_the_command_what_was_found_and_its_help(
    arguments: list[str], command: str, found: str
) -> None:
    answer = railgauge(*arguments, stderr=[found])
    assert answer.stderr == f"{command}: {found}\n  next: {command} --help\n"


#: Two bytes that are no UTF-8, as Python reads them from a command line.
_NO_UTF_8 = "caf\udce9 \udcff"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gate", "run", "--nodes", "n1", "--update", ""], "'--update': it is empty."),
        (["gate", "run", "--nodes", "n1", "--update", " \n"], "'--update': it is empty."),
        (["gate", "run", "--nodes", "n1", "--update", _NO_UTF_8], "is no UTF-8 at character 4."),
        (["gate", "release", "--nodes", "n1", "--why", ""], "'--why': it is empty."),
        (["gate", "release", "--nodes", "n1", "--why", _NO_UTF_8], "is no UTF-8 at character 4."),
    ],
)
@pytest.mark.parametrize("act", [[], ["--act"]], ids=["asked", "act"])
def test_words_that_cannot_be_kept_are_refused_before_anything_happens(
    words: list[str], says: str, act: list[str], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    words = [*words, "--system", "lab", *act]
    answer = railgauge(*words, stderr=[says], RAILGAUGE_RESULTS=str(results))
    assert (answer.exit_code, answer.stdout) == (3, "")
    assert not results.exists()


def test_no_campaigns_is_said(tmp_path: Path) -> None:
    answer = railgauge("campaigns", RAILGAUGE_RESULTS=str(tmp_path))
    assert (answer.exit_code, answer.stdout) == (0, f"no campaigns in {tmp_path}/campaigns\n")


def test_only_the_command_that_is_called_is_loaded() -> None:
    program = (
        "import sys; sys.argv = ['railgauge', '--version']\n"
        "from railgauge.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} "
        "& {'pydantic', 'reframe', 'rich', 'ruamel', 'yaml'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_help_lists_each_command_once_below_its_task() -> None:
    assert isinstance(cli, LazyGroup)
    listed = [name for names in cli.sections.values() for name in names]
    assert sorted(listed) == cli.list_commands(click.Context(cli))
    lines = invoke(cli, ["--help"]).stdout.splitlines()
    assert all(f"{heading}:" in lines for heading in cli.sections) and "Commands:" not in lines
    assert [
        line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in listed
    ] == (listed)


def test_a_group_without_sections_lists_its_commands_in_one() -> None:
    assert "\nCommands:\n  adopt " in invoke(cli, ["gate", "--help"]).stdout


def test_every_command_is_found() -> None:
    context = click.Context(cli)
    assert isinstance(cli, click.Group)
    for name in cli.list_commands(context):
        found = cli.get_command(context, name)
        assert found is not None and found.name == name and found.get_short_help_str()
