"""At the end of a campaign the site's command is told; the examples in docs/notify.md do it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from railgauge import notify, paths
from railgauge.acceptance import accept
from railgauge.campaign.folder import Campaign
from railgauge.verdict.decision.verdict import Verdict
from tests.unit.verdict.decision.test_rules import NODE_FAILURE, Recorded

DOCUMENT = paths.HOME / "docs" / "notify.md"


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    recorded = Recorded(tmp_path / "20261122T101655Z-lab-7578a0")
    recorded.fail(0, NODE_FAILURE)
    return recorded.write()


def conclude(campaign: Campaign) -> tuple[Verdict, list[str]]:
    said: list[str] = []
    return accept._conclude(campaign, "finished", said.append), said


def test_the_command_gets_the_verdict_and_the_summary(
    tmp_path: Path, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = program(
        tmp_path / "tell", f'#!/bin/sh\ncat "$1" "$2" >{shlex.quote(str(tmp_path))}/told\n'
    )
    monkeypatch.setenv("RAILGAUGE_ON_VERDICT", shlex.quote(str(tell)))
    conclude(campaign)
    files = [(campaign.folder / name).read_text() for name in ("verdict.json", "summary.md")]
    assert (tmp_path / "told").read_text() == "".join(files)


def test_an_accept_is_reported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = Recorded(tmp_path / "20261122T101655Z-lab-7578a0").write()
    monkeypatch.setenv("RAILGAUGE_ON_VERDICT", f"cp -t {shlex.quote(str(tmp_path))}")
    assert conclude(good)[0].decision == "accept"
    assert json.loads((tmp_path / "verdict.json").read_text())["verdict"] == "accept"


def test_a_command_that_fails_changes_no_verdict(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_ON_VERDICT", "false")
    monkeypatch.setattr(notify, "_PAUSES_S", (0.0, 0.0))
    verdict, said = conclude(campaign)
    assert verdict.decision == "reject"
    assert said[0] == "RAILGAUGE_ON_VERDICT: the command failed: ended with exit code 1"


def test_a_session_has_one_key(
    tmp_path: Path, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = program(
        tmp_path / "tell", f'#!/bin/sh\necho "$RAILGAUGE_NOTIFY_KEY" >>{tmp_path}/keys\n'
    )
    monkeypatch.setenv("RAILGAUGE_ON_VERDICT", shlex.quote(str(tell)))
    conclude(campaign)
    conclude(campaign)
    campaign.begin_again(["railgauge", "accept", "--resume", campaign.id])
    conclude(campaign)
    first, again, resumed = (tmp_path / "keys").read_text().split()
    assert first == again != resumed and len(first) == 32


def test_no_message_is_sent_of_a_rehearsal(
    tmp_path: Path, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_ON_VERDICT", f"cp -t {shlex.quote(str(tmp_path))}")
    campaign.simulated = "slow-rail"
    conclude(campaign)
    assert not (tmp_path / "verdict.json").exists()


# --- the examples --------------------------------------------------------------------------------


def example(name: str, folder: Path) -> Path:
    """The script of that name in the document."""
    scripts = re.findall(r"^```sh\n(#!.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    (text,) = [text for text in scripts if f"# {name}:" in text]
    return program(folder / name, text)


def told(name: str, folder: Path, instead_of: str, campaign: Campaign) -> str:
    """What an example gives to the program that sends it."""
    conclude(campaign)
    folder.mkdir()
    sent = folder / "sent"
    program(
        folder / instead_of,
        f'#!/bin/sh\necho "$@" >{shlex.quote(str(sent))}.argv\ncat >{shlex.quote(str(sent))}\n',
    )
    files = [str(campaign.folder / name) for name in ("verdict.json", "summary.md")]
    done = subprocess.run(
        [str(example(name, folder)), *files],
        env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)},
        check=False,
    )
    assert done.returncode == 0
    return sent.read_text()


def test_the_mail_has_the_verdict_as_its_subject_and_the_summary(
    tmp_path: Path, campaign: Campaign
) -> None:
    sent: Message = message_from_string(told("mail", tmp_path / "a b", "sendmail", campaign))
    assert sent["Subject"] == "railgauge: REJECT: lab" and sent["To"]
    assert sent.get_payload() == (campaign.folder / "summary.md").read_text()
    assert (tmp_path / "a b" / "sent.argv").read_text() == "-t\n"


def test_the_chat_gets_the_summary_as_json(tmp_path: Path, campaign: Campaign) -> None:
    sent = told("chat", tmp_path / "a b", "curl", campaign)
    assert json.loads(sent) == {"text": (campaign.folder / "summary.md").read_text()}
    # Its address is a secret, and in nobody's list of processes.
    argv = (tmp_path / "a b" / "sent.argv").read_text()
    assert "http" not in argv.replace("Content-Type", "") and "--config" in argv
