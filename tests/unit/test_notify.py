"""Messages wait on disk until a command takes them: the example of docs/notify.md against a real
HTTP server that fails, hangs, forgets to answer, and answers twice.
"""

from __future__ import annotations

import datetime
import fcntl
import http.server
import json
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import hooks, notify
from railgauge.cli import cli
from tests.command_line import invoke
from tests.unit.acceptance.test_told import example
from tests.unit.report.feeds.test_schemas import require

NAME = "RAILGAUGE_ON_VERDICT"
KEY = notify.key_of("a campaign", "its verdict")


class Chat(http.server.ThreadingHTTPServer):
    """A webhook. `behaviours` are those of the next requests; then it answers 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviours: list[str] = []
        #: the key and the text of each message that came whole
        self.came: list[tuple[str, str]] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/secret"

    @property
    def shown(self) -> list[str]:
        """What a receiver shows that knows the keys: each message once."""
        return list(dict(reversed(self.came)).values())[::-1]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Chat

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        behaviour = self.server.behaviours.pop(0) if self.server.behaviours else "200"
        if behaviour == "hang":
            self.server.released.wait(60)
            return
        if behaviour in ("200", "twice", "forget"):
            self.server.came.append((self.headers["Idempotency-Key"], text))
        if behaviour == "forget":
            self.close_connection = True
            return
        for _ in range(2 if behaviour == "twice" else 1):
            self.send_response(200 if behaviour == "twice" else int(behaviour))
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    """The server, and the example of the document that sends to it."""
    server = Chat()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    settings = tmp_path / ".config" / "railgauge"
    settings.mkdir(parents=True)
    (settings / "webhook").write_text(f'url = "{server.url}"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(NAME, shlex.quote(str(example("chat", tmp_path))))
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.setattr(notify, "_PAUSES_S", (0.0, 0.0))
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


def send(tmp_path: Path, text: str = "REJECT", key: str = KEY) -> list[str]:
    """Send a summary with this text; what was said."""
    said: list[str] = []
    summary = tmp_path / f"{text}.md"
    summary.write_text(text)
    notify.send(NAME, [str(tmp_path / "verdict.json"), str(summary)], key, said.append)
    return said


def waiting() -> list[str]:
    return [message.key for _, message in notify.waiting()]


def older(path: Path, days: float) -> None:
    """As if the message had waited so many days more."""
    document = json.loads(path.read_text())
    since = datetime.datetime.fromisoformat(document["since"]) - datetime.timedelta(days=days)
    path.write_text(json.dumps({**document, "since": since.isoformat()}))


# --- the server ---------------------------------------------------------------------------------


def test_a_message_that_arrives_leaves_nothing(tmp_path: Path, chat: Chat) -> None:
    assert send(tmp_path) == []
    assert chat.came == [(KEY, "REJECT")]
    assert [path for path in notify.folder().rglob("*") if path.is_file()] == []


def test_a_server_that_fails_for_a_moment_gets_the_message(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["503", "500"]
    send(tmp_path)
    assert chat.came == [(KEY, "REJECT")] and waiting() == []


def test_a_message_waits_while_the_server_is_down(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["503"] * 3
    said = send(tmp_path)
    assert chat.came == [] and waiting() == [KEY]
    ((_, message),) = notify.waiting()
    assert (message.attempts, message.problem) == (3, "ended with exit code 22")
    assert "railgauge notify" in said[-1]


def test_a_server_that_hangs_costs_one_attempt(
    tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "_LIMIT_S", 1.0)
    chat.behaviours = ["hang"] * 3
    send(tmp_path)
    ((_, message),) = notify.waiting()
    assert message.attempts == 1 and len(chat.behaviours) == 2


def test_a_server_that_forgets_to_answer_gets_the_same_key_again(
    tmp_path: Path, chat: Chat
) -> None:
    chat.behaviours = ["forget"]
    send(tmp_path)
    assert chat.came == [(KEY, "REJECT")] * 2 and chat.shown == ["REJECT"]
    assert waiting() == []


def test_a_server_that_answers_twice_gets_the_message_once(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["twice"]
    assert send(tmp_path) == []
    assert chat.came == [(KEY, "REJECT")] and waiting() == []


def test_the_address_is_in_no_file_and_in_no_message(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["503"] * 3
    said = send(tmp_path)
    ((path, _),) = notify.waiting()
    assert "secret" not in path.read_text() + "".join(said)


# --- what waits ---------------------------------------------------------------------------------


def test_the_next_message_brings_those_that_wait(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["503"] * 3
    send(tmp_path, "one", "1" * 32)
    send(tmp_path, "two", "2" * 32)
    assert [text for _, text in chat.came] == ["two", "one"] and waiting() == []


def test_after_a_failure_the_other_messages_are_not_tried(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["503"] * 6
    send(tmp_path, "one", "1" * 32)
    send(tmp_path, "two", "2" * 32)
    chat.behaviours = ["503"] * 9
    notify.send_waiting(lambda _: None)
    assert len(chat.behaviours) == 8 and len(waiting()) == 2


def test_the_same_key_waits_once(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["503"] * 6
    send(tmp_path)
    send(tmp_path)
    assert waiting() == [KEY]


def test_a_message_of_a_killed_process_is_sent(tmp_path: Path, chat: Chat) -> None:
    """It wrote the message, and did not run the command."""
    chat.behaviours = ["503"] * 3
    send(tmp_path)
    ((path, message),) = notify.waiting()
    path.write_text(json.dumps({**message.as_dict(), "attempts": 0, "problem": ""}))
    notify.send_waiting(lambda _: None)
    assert chat.came == [(KEY, "REJECT")] and waiting() == []


def test_a_message_that_another_process_sends_is_left_to_it(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["503"] * 3
    send(tmp_path)
    ((path, _),) = notify.waiting()
    with (notify.folder() / "lock" / path.name).open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        notify.send_waiting(lambda _: None)
        assert chat.came == [] and waiting() == [KEY]
    notify.send_waiting(lambda _: None)
    assert chat.came == [(KEY, "REJECT")]


@pytest.mark.parametrize(("days", "waits"), [(6.9, True), (7.1, False), (-3, True)])
def test_a_message_is_given_up_after_a_week_and_kept(
    tmp_path: Path, chat: Chat, days: float, waits: bool
) -> None:
    chat.behaviours = ["503"] * 4
    send(tmp_path)
    ((path, _),) = notify.waiting()
    older(path, days)
    said: list[str] = []
    notify.send_waiting(said.append)
    assert bool(waiting()) is waits and bool(notify.given_up()) is not waits
    assert waits or (str(notify.given_up()[0]) in said[0] and chat.came == [])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "1"}', '{"since": 3}', "\0"])
def test_a_damaged_message_is_set_aside(tmp_path: Path, chat: Chat, text: str) -> None:
    folder = notify.folder() / "waiting"
    folder.mkdir(parents=True)
    (folder / "20260101T000000Z-1.json").write_text(text)
    send(tmp_path)
    assert chat.came == [(KEY, "REJECT")]
    assert [path.read_text() for path in notify.given_up()] == [text]


def test_a_message_that_cannot_be_kept_is_sent(
    tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path / "file"))
    assert "cannot be kept" in send(tmp_path)[0]
    assert chat.came == [(KEY, "REJECT")]


def test_without_a_command_nothing_is_written(
    tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, " ")
    assert send(tmp_path) == [] and not notify.folder().exists()


def test_a_message_waits_until_its_command_is_set_again(
    tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.behaviours = ["503"] * 3
    send(tmp_path)
    monkeypatch.delenv(NAME)
    notify.send_waiting(lambda _: None)
    assert waiting() == [KEY]


# --- the command ----------------------------------------------------------------------------------


def test_the_command_sends_what_waits(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["503"] * 3
    send(tmp_path)
    listed = invoke(cli, ["notify", "--list", "--json"])
    require("notify", json.loads(listed.stdout))
    assert listed.exit_code == 2 and chat.came == []
    assert invoke(cli, ["notify"]).exit_code == 0
    assert chat.came == [(KEY, "REJECT")]


def test_the_command_names_what_still_waits(tmp_path: Path, chat: Chat) -> None:
    chat.behaviours = ["503"] * 4
    send(tmp_path)
    answer = invoke(cli, ["notify"], stderr=["RAILGAUGE_ON_VERDICT: the command failed"])
    assert answer.exit_code == 2 and "4 attempts" in answer.stdout
    assert answer.stdout.endswith("1 waiting, 0 given up\n")
