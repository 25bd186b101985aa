"""The command line without a cluster: limits, parsing, wrong usage."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from railgauge import paths

DATA = paths.HOME / "tests" / "data" / "iperf2"


def railgauge(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(paths.HOME / "bin/railgauge"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/root", **env},
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["roce", "--rate", "400", "--mtu", "4096"], "392.15 Gb/s"),
        (["roce", "--rate", "25", "--size", "64KiB"], "24.50 Gb/s"),
        (["roce", "--rate", "25", "--size", "4KiB"], "24.42 Gb/s"),
        (["tcp", "--rate", "10", "--mtu", "4200"], "9.79 Gb/s"),
    ],
)
def test_a_limit_is_printed(arguments: list[str], says: str) -> None:
    answer = railgauge("limit", *arguments)
    assert (answer.returncode, answer.stdout.split("  ")[0]) == (0, says)


def test_a_bare_output_is_ok_and_not_proved() -> None:
    answer = railgauge("parse", "iperf2", str(DATA / "p4-client.txt"))
    document = json.loads(answer.stdout)
    assert answer.returncode == 0
    assert (document["ok"], document["completeness"]) == (True, "unknown")
    assert {m["metric"] for m in document["measurements"]} >= {"bandwidth", "retransmits"}


def test_an_output_with_all_its_evidence_is_proved() -> None:
    answer = railgauge(
        *("parse", "iperf2", str(DATA / "without-last-sum-client.txt")),
        *("--server", str(DATA / "without-last-sum-server.txt")),
        *("--exit-code", "0", "--server-exit-code", "0", "--streams", "4", "--seconds", "3"),
    )
    assert json.loads(answer.stdout)["completeness"] == "proved", answer.stdout


def test_a_failed_run_is_not_ok_and_exits_with_1() -> None:
    answer = railgauge("parse", "iperf2", str(DATA / "refused-client.txt"))
    document = json.loads(answer.stdout)
    assert answer.returncode == 1
    assert (document["ok"], document["completeness"]) == (False, "broken")
    assert "refused" in document["reason"]


def test_a_bad_exit_code_makes_a_good_text_a_failure() -> None:
    answer = railgauge(
        *("parse", "iperf2", str(DATA / "p4-client.txt")),
        *("--exit-code", "1", "--server-exit-code", "0"),
    )
    assert answer.returncode == 1
    assert "exit code 1" in json.loads(answer.stdout)["reason"]


def test_bytes_that_are_no_text_are_not_ok(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 40)
    answer = railgauge("parse", "iperf2", str(tmp_path / "noise"))
    assert answer.returncode == 1
    assert json.loads(answer.stdout)["ok"] is False


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["limit", "roce", "--rate", "-1"], "rate"),
        (["limit", "roce", "--rate", "25", "--size", "64Kb"], "size is '64Kb', expected"),
        (["limit", "tcp", "--rate", "10", "--mtu", "20"], "mtu is 20"),
        (["limit", "roce"], "--rate"),
        (["parse", "iperf2", "nosuchfile"], "nosuchfile"),
        (["parse", "iperf2", "/dev/null", "--streams", "4"], "belong together"),
        (["verdict", "nosuch"], "no campaign 'nosuch'"),
        (["nosuch"], "nosuch"),
        (["accept", "--nosuch"], "--nosuch"),
    ],
)
def test_wrong_usage_is_one_message_and_exit_code_3(arguments: list[str], says: str) -> None:
    answer = railgauge(*arguments)
    assert answer.returncode == 3
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr


def test_no_campaigns_is_said(tmp_path: Path) -> None:
    answer = railgauge("campaigns", RAILGAUGE_RESULTS=str(tmp_path))
    assert (answer.returncode, answer.stdout) == (0, f"no campaigns in {tmp_path}/campaigns\n")
