"""Limits of a process are raised, or it is said that they cannot be."""

from __future__ import annotations

import resource

import pytest

from railgauge.node.system import rlimits

INFINITE = resource.RLIM_INFINITY


class Kernel:
    """The limits of a process, as setrlimit(2) changes them."""

    def __init__(self, soft: int, hard: int) -> None:
        self.pair = soft, hard

    def get(self, _: int) -> tuple[int, int]:
        return self.pair

    def set(self, _: int, pair: tuple[int, int]) -> None:
        assert self.pair[1] == pair[1], "nobody but root raises a hard limit"
        self.pair = pair


@pytest.fixture
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(*request.param)
    monkeypatch.setattr(resource, "getrlimit", made.get)
    monkeypatch.setattr(resource, "setrlimit", made.set)
    return made


@pytest.mark.parametrize(
    ("kernel", "after"),
    [
        ((50, 4000), (100, 4000)),
        ((50, INFINITE), (100, INFINITE)),
        ((200, 4000), (200, 4000)),
        ((INFINITE, INFINITE), (INFINITE, INFINITE)),
    ],
    indirect=["kernel"],
)
def test_open_files_are_as_many_as_are_needed(kernel: Kernel, after: tuple[int, int]) -> None:
    assert rlimits.raise_open_files(100, "agent on n1") >= 100
    assert kernel.pair == after


@pytest.mark.parametrize(
    ("kernel", "after"),
    [
        ((50, 4000), (4000, 4000)),
        ((200, 4000), (4000, 4000)),
        ((50, INFINITE), (INFINITE, INFINITE)),
        ((100, 100), (100, 100)),
    ],
    indirect=["kernel"],
)
def test_processes_are_as_many_as_may_be(kernel: Kernel, after: tuple[int, int]) -> None:
    """Others of the user count, too."""
    rlimits.raise_processes(100, "agent on n1")
    assert kernel.pair == after


@pytest.mark.parametrize("kernel", [(50, 99)], indirect=True)
def test_a_hard_limit_that_is_too_low_is_said(kernel: Kernel) -> None:
    with pytest.raises(rlimits.LimitError, match=r"(?s)at most 99 open files .*LimitNOFILE=100"):
        rlimits.raise_open_files(100, "agent on n1")
    with pytest.raises(rlimits.LimitError, match=r"(?s)at most 99 processes .*LimitNPROC=100"):
        rlimits.raise_processes(100, "agent on n1")
    assert kernel.pair == (50, 99)
