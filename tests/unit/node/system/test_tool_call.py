"""What every node states next to what it measured."""

from __future__ import annotations

import itertools
import os
import select
import socket
import time
from typing import Any

import pytest

from railgauge.node.system import tool_call
from tests.unit.node.sweeping import PATIENCE_S


def test_a_clock_that_is_never_set_has_not_moved() -> None:
    # The clock of dates is led all the time, which in an hour of tests comes to more than that.
    tool_call.watch_clock()
    assert abs(tool_call.clock()["moved_s"]) < 0.05


@pytest.mark.parametrize("step_s", [30.0, -30.0])
def test_a_clock_that_is_set_has_moved(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    tool_call.watch_clock()
    wall = time.time
    monkeypatch.setattr(tool_call.time, "time", lambda: wall() + step_s)
    assert tool_call.clock()["moved_s"] == pytest.approx(step_s, abs=0.05)


def test_a_tool_has_the_launchers_pmi_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPICH's MPI_Init fails without it (PMIU_write error)."""
    own, launchers = socket.socketpair()
    with own, launchers:
        monkeypatch.setenv("PMI_FD", str(own.fileno()))
        call = tool_call.Call("rank0", ["bash", "-c", 'echo cmd=init >&"$PMI_FD"'])
        call.wait(PATIENCE_S)
        assert call.exit_code == 0 and launchers.recv(100) == b"cmd=init\n"


@pytest.mark.parametrize("number", ["", "fd", "²", "-1", "999999", str(10**30)])
def test_a_pmi_connection_that_is_none_is_not_passed_on(
    monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    monkeypatch.setenv("PMI_FD", number)
    call = tool_call.Call("rank0", ["true"])
    call.wait(PATIENCE_S)
    assert call.exit_code == 0


def test_of_calls_that_have_ended_nothing_is_waited_for() -> None:
    """One may end after its caller has looked, and nothing tells of its end a second time."""
    call = tool_call.Call("client", ["true"])
    assert call.ends_within(PATIENCE_S)
    began = time.monotonic()
    tool_call.wait_for_any([call], 10 * PATIENCE_S)
    assert time.monotonic() - began < PATIENCE_S
    call.wait(0)


def test_what_its_host_stood_still_is_no_time_of_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool stood still too, and ends in its time all the same."""
    clock, poll, stood_s = time.monotonic, select.poll, [0.0]

    class Poll:
        """The first wait takes far longer than the tool's limit."""

        def __init__(self) -> None:
            self._poll = poll()
            self.register = self._poll.register

        def poll(self, milliseconds: float) -> list[Any]:
            if not stood_s[0]:
                stood_s[0] = 1000.0
                return []
            return self._poll.poll(milliseconds)

    call = tool_call.Call("client", ["sleep", "0.2"])
    monkeypatch.setattr(tool_call.time, "monotonic", lambda: clock() + stood_s[0])
    monkeypatch.setattr(tool_call.select, "poll", Poll)
    call.wait(100)
    assert (call.exit_code, call.note) == (0, "")


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_host_that_stands_still_again_and_again_puts_no_limit_off_for_ever(
    monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    now_s, waits = [0.0], itertools.count(1)

    class Poll:
        """Each n-th wait takes a little more than it takes to be late."""

        def register(self, *_: object) -> None: ...

        def poll(self, milliseconds: float) -> list[Any]:
            number = next(waits)
            assert number < 1000
            now_s[0] += milliseconds / 1000 + (0 if number % every else tool_call.LATE_S + 0.05)
            return []

    call = tool_call.Call("client", ["sleep", "60"])
    try:
        monkeypatch.setattr(tool_call.time, "monotonic", lambda: now_s[0])
        monkeypatch.setattr(tool_call.select, "poll", Poll)
        put_off_s = tool_call.wait_for_any([call], 10)
    finally:
        monkeypatch.undo()
        call.kill("no longer needed")
    # What it ran in all is its limit, and a moment.
    assert 10 <= now_s[0] - put_off_s <= 10 + 2 * tool_call.LATE_S
    assert put_off_s >= 6


# ---- signals ----


def test_a_call_with_an_end_that_a_signal_has_hidden_is_waited_for_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler that ends this process raises anywhere, also behind the answer of the kernel."""
    call = tool_call.Call("client", ["true"])
    wait = os.waitpid

    def disturbed(process: int, options: int) -> Any:
        wait(process, 0)
        raise SystemExit(143)

    monkeypatch.setattr(tool_call.os, "waitpid", disturbed)
    with pytest.raises(SystemExit):
        assert call.ended
    monkeypatch.undo()
    call.kill("ended with the job")
    assert call.ended and call.exit_code is None
    assert call.note == "how it ended is not known"


def test_a_signal_that_comes_before_a_wait_is_heard_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not end a system call that begins behind it."""
    steps = []

    class Poll:
        def register(self, *_: int) -> None:
            pass

        def poll(self, milliseconds: float) -> list[Any]:
            steps.append(milliseconds)
            return []

    call = tool_call.Call("client", ["sleep", "0.2"])
    monkeypatch.setattr(tool_call.select, "poll", Poll)
    call.wait(PATIENCE_S)
    assert call.exit_code == 0 and max(steps) <= 500
