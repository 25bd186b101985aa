"""Talking to a VM: what the agent and QEMU may answer, and what they may not."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railgauge.common.errors import PrerequisiteError
from railgauge.lab import guest
from tests.unit.node.sweeping import PATIENCE_S

Request = dict[str, Any]
#: What a server does with one request: bytes that it sends, None where it hangs up.
Answer = Callable[[Request], "bytes | None"]
Serve = Callable[..., "Server"]


def line(document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


class Server:
    """Serves one connection at a UNIX socket, in a thread, and keeps what it was asked."""

    def __init__(self, path: Path, answer: Answer, greeting: bytes = b"") -> None:
        self.path = path
        self.asked: list[Request] = []
        self._answer, self._greeting = answer, greeting
        self._listening = socket.socket(socket.AF_UNIX)
        folder = os.open(path.parent, os.O_PATH)
        try:
            self._listening.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        self._listening.listen()
        self._listening.settimeout(PATIENCE_S)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listening.accept()
            connection.settimeout(PATIENCE_S)
            with connection, connection.makefile("rb") as lines:
                connection.sendall(self._greeting)
                for request in lines:
                    self.asked.append(json.loads(request))
                    answer = self._answer(self.asked[-1])
                    if answer is None:
                        return
                    connection.sendall(answer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(PATIENCE_S)

    def commands(self) -> list[str]:
        return [request["execute"] for request in self.asked]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    servers: list[Server] = []

    def start(answer: Answer, path: Path = tmp_path / "n5.agent", **options: Any) -> Server:
        servers.append(Server(path, answer, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


class Agent:
    """QEMU's agent in a guest where one command runs: its statuses, one a question."""

    def __init__(self, *statuses: Request, before_sync: bytes = b"") -> None:
        self._statuses: queue.SimpleQueue[Request] = queue.SimpleQueue()
        for status in statuses:
            self._statuses.put(status)
        self._before_sync = before_sync

    def __call__(self, request: Request) -> bytes:
        arguments = request["arguments"]
        if request["execute"] == "guest-sync":
            return self._before_sync + line({"return": arguments["id"]})
        if request["execute"] == "guest-exec":
            return line({"return": {"pid": 42}})
        assert (request["execute"], arguments) == ("guest-exec-status", {"pid": 42})
        return line({"return": self._statuses.get_nowait()})


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


DONE = {"exited": True, "exitcode": 0}
RUNNING = {"exited": False}
COMMAND = ["ip", "link"]


# ---- a command in the guest ----


def test_output_of_a_command_comes_back_by_stream(serve: Serve) -> None:
    status = {**DONE, "out-data": encoded("1: lo\n"), "err-data": encoded("wärning\n")}
    outcome = guest.run(serve(Agent(status)).path, COMMAND, PATIENCE_S)
    assert (outcome.stdout, outcome.stderr) == ("1: lo\n", "wärning\n")


def test_command_without_output_has_empty_streams(serve: Serve) -> None:
    outcome = guest.run(serve(Agent(DONE)).path, COMMAND, PATIENCE_S)
    assert (outcome.stdout, outcome.stderr) == ("", "")


def test_output_that_is_no_text_is_shown_as_well_as_it_can_be(serve: Serve) -> None:
    status = {**DONE, "out-data": base64.b64encode(b"\xff!").decode()}
    assert guest.run(serve(Agent(status)).path, COMMAND, PATIENCE_S).stdout == "\ufffd!"


@pytest.mark.parametrize("code", [0, 1, 127, 255])
def test_exit_code_is_the_commands(serve: Serve, code: int) -> None:
    status = {"exited": True, "exitcode": code}
    assert guest.run(serve(Agent(status)).path, COMMAND, PATIENCE_S).returncode == code


def test_killed_command_has_the_code_that_a_shell_gives_it(serve: Serve) -> None:
    status = {"exited": True, "signal": 9}
    assert guest.run(serve(Agent(status)).path, COMMAND, PATIENCE_S).returncode == 137


def test_command_is_handed_over_as_words(serve: Serve) -> None:
    server = serve(Agent(DONE))
    guest.run(server.path, ["sh", "-c", "a 'b' \"c\"\n"], 10)
    (asked,) = [r["arguments"] for r in server.asked if r["execute"] == "guest-exec"]
    assert asked == {"path": "sh", "arg": ["-c", "a 'b' \"c\"\n"], "capture-output": True}


def test_command_that_takes_its_time_is_waited_for(serve: Serve) -> None:
    server = serve(Agent(RUNNING, RUNNING, DONE))
    guest.run(server.path, COMMAND, PATIENCE_S)
    assert server.commands() == ["guest-sync", "guest-exec", *["guest-exec-status"] * 3]


# ---- what was left from before ----

LEFT_OVER = {
    "an answer": line({"return": {"pid": 7}}),
    "an error": line({"error": {"class": "GenericError", "desc": "from before"}}),
    "another mark": line({"return": -1}),
    "many": line({"return": {}}) * 20,
    "the agent's own mark": b"\xff",
    "an answer and the agent's mark": line({"return": {}}) + b"\xff",
}


@pytest.mark.parametrize("name", LEFT_OVER)
def test_what_an_earlier_caller_left_unread_is_not_taken_for_an_answer(
    serve: Serve, name: str
) -> None:
    status = {**DONE, "out-data": encoded("mine")}
    server = serve(Agent(status, before_sync=LEFT_OVER[name]))
    assert guest.run(server.path, COMMAND, PATIENCE_S).stdout == "mine"


def test_every_caller_has_a_mark_of_its_own(serve: Serve, tmp_path: Path) -> None:
    servers = [serve(Agent(DONE), tmp_path / name) for name in ("one", "two", "three")]
    for server in servers:
        guest.run(server.path, COMMAND, PATIENCE_S)
    assert len({server.asked[0]["arguments"]["id"] for server in servers}) > 1


# ---- what goes wrong ----


def test_error_of_the_agent_is_told_with_socket_and_command(serve: Serve) -> None:
    def answer(request: Request) -> bytes:
        if request["execute"] == "guest-exec":
            return line({"error": {"class": "GenericError", "desc": "no such file"}})
        return Agent()(request)

    with pytest.raises(PrerequisiteError, match=r"^n5\.agent: guest-exec: no such file$"):
        guest.run(serve(answer).path, COMMAND, PATIENCE_S)


@pytest.mark.parametrize("last", ["guest-sync", "guest-exec", "guest-exec-status"])
def test_closed_connection_is_told(serve: Serve, last: str) -> None:
    agent = Agent(DONE)
    server = serve(lambda request: None if request["execute"] == last else agent(request))
    with pytest.raises(PrerequisiteError, match=r"n5\.agent closed the connection"):
        guest.run(server.path, COMMAND, PATIENCE_S)


def test_connection_that_is_reset_is_told() -> None:
    """As by a QEMU that ends with a question unread."""
    ours, other = socket.socketpair()
    with ours:
        ours.sendall(b"{}\n")
        other.close()
        with pytest.raises(PrerequisiteError, match=r"^n5\.agent: Connection reset by peer$"):
            guest._Line(ours, "n5.agent").receive()


@pytest.mark.parametrize("silent", ["guest-sync", "guest-exec", "guest-exec-status"])
def test_guest_that_does_not_answer_is_given_up(serve: Serve, silent: str) -> None:
    agent = Agent(DONE)
    server = serve(lambda request: b"" if request["execute"] == silent else agent(request))
    # A server that is waited for ends the connection, later.
    with pytest.raises(PrerequisiteError, match=r"n5\.agent does not answer"):
        guest.run(server.path, COMMAND, 0.3)


def test_command_that_does_not_end_is_given_up_with_its_words(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(Agent(RUNNING, RUNNING))
    # It is asked again once, and then its time is over.
    clock = iter([0.0, 0.0, PATIENCE_S + 1.0])
    fake = SimpleNamespace(monotonic=lambda: next(clock), sleep=time.sleep)
    monkeypatch.setattr(guest, "time", fake)
    with pytest.raises(PrerequisiteError, match=rf"`ip link` did not end within {PATIENCE_S} s"):
        guest.run(server.path, COMMAND, PATIENCE_S)


def test_missing_socket_is_told(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match=r"^n5\.agent: No such file or directory$"):
        guest.run(tmp_path / "n5.agent", COMMAND, PATIENCE_S)


def test_socket_that_nobody_listens_at_is_told(tmp_path: Path, serve: Serve) -> None:
    serve(Agent()).close()
    with pytest.raises(PrerequisiteError, match=r"^n5\.agent: Connection refused$"):
        guest.run(tmp_path / "n5.agent", COMMAND, PATIENCE_S)


def test_path_may_be_longer_than_a_sockets_name(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["a-folder-with-a-long-name"] * 6)
    folder.mkdir(parents=True)
    path = folder / "n5.agent"
    assert len(str(path)) > 107
    assert guest.run(serve(Agent(DONE), path).path, COMMAND, PATIENCE_S).returncode == 0


def test_no_descriptor_is_left_open(serve: Serve, tmp_path: Path) -> None:
    server = serve(Agent(DONE))
    before = len(list(Path("/proc/self/fd").iterdir()))
    with contextlib.suppress(PrerequisiteError):
        guest.run(tmp_path / "none", COMMAND, PATIENCE_S)
    guest.run(server.path, COMMAND, PATIENCE_S)
    server.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


# ---- QEMU itself ----

GREETING = line({"QMP": {"version": {"qemu": {"major": 10}}, "capabilities": []}})


def monitored(request: Request) -> bytes:
    if request["execute"] == "query-status":
        return line({"return": {"running": True}})
    return line({"return": {}})


def test_qemu_is_asked_after_its_greeting_and_the_capabilities(serve: Serve) -> None:
    server = serve(monitored, greeting=GREETING)
    assert guest.monitor(server.path, "query-status") == {"running": True}
    assert server.commands() == ["qmp_capabilities", "query-status"]


def test_qemu_is_given_the_arguments(serve: Serve) -> None:
    server = serve(monitored, greeting=GREETING)
    guest.monitor(server.path, "set_link", name="nic-eth1", up=False)
    assert server.asked[-1]["arguments"] == {"name": "nic-eth1", "up": False}


def test_event_between_question_and_answer_is_no_answer(serve: Serve) -> None:
    event = line({"event": "RTC_CHANGE", "data": {}, "timestamp": {"seconds": 1}})
    server = serve(lambda request: event + monitored(request) + event, greeting=GREETING)
    assert guest.monitor(server.path, "query-status") == {"running": True}


def test_error_of_qemu_is_told_with_socket_and_command(serve: Serve) -> None:
    def answer(request: Request) -> bytes:
        if request["execute"] == "set_link":
            return line({"error": {"class": "DeviceNotFound", "desc": "Device 'x' not found"}})
        return monitored(request)

    server = serve(answer, greeting=GREETING)
    with pytest.raises(PrerequisiteError, match=r"n5\.agent: set_link: Device 'x' not found"):
        guest.monitor(server.path, "set_link", name="x", up=True)


def test_qemu_that_ends_while_it_is_asked_is_told(serve: Serve) -> None:
    server = serve(lambda request: None, greeting=GREETING)
    with pytest.raises(PrerequisiteError, match="closed the connection"):
        guest.monitor(server.path, "quit")
