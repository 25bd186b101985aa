"""A file is there whole, new or as it was: nothing is written half."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.common import atomic
from railgauge.node.system.tool_call import write_whole

BEFORE, AFTER = {"held": ["n1"]}, {"held": ["n1", "n2"]}

WRITERS: dict[str, Callable[[Path], object]] = {
    "the gate's": lambda path: atomic.write_json(path, AFTER),
    "a node's": lambda path: write_whole(str(path), AFTER),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "holds.json"
    path.write_text(json.dumps(BEFORE))
    return path


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_is_written_is_there(file: Path, write: Callable[[Path], object]) -> None:
    write(file)
    assert json.loads(file.read_text()) == AFTER and list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_full_disk_leaves_what_was_there(
    file: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object], step: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), full)
    with pytest.raises(OSError, match="No space left"):
        write(file)
    assert json.loads(file.read_text()) == BEFORE and list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    "call",
    [
        f"from railgauge.common import atomic; atomic.write_json(path, {AFTER})",
        f"from railgauge.node.system.tool_call import write_whole; write_whole(str(path), {AFTER})",
    ],
    ids=WRITERS,
)
def test_a_kill_in_mid_write_leaves_what_was_there(file: Path, call: str) -> None:
    killed = "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)"
    program = f"import os, pathlib, signal; {killed}; path = pathlib.Path({str(file)!r}); {call}"
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert json.loads(file.read_text()) == BEFORE


def test_two_processes_of_one_number_write_files_of_their_own(file: Path) -> None:
    """As on two hosts, or in two containers whose hosts have one name."""
    assert atomic.temporary_name(file) != atomic.temporary_name(file)
    assert os.uname().nodename in atomic.temporary_name(file).name


#: Files that are a log or a mark, which may be there in part.
_PLAIN = {"patrol/run.py": 1, "gate/update.py": 1}


@pytest.mark.parametrize("room", ["gate", "cluster", "campaign", "model", "patrol", "systems"])
def test_what_is_kept_is_written_by_these_alone(room: str) -> None:
    plain = {
        name: count
        for path in sorted((paths.SOURCE / "railgauge" / room).rglob("*.py"))
        if (name := str(path.relative_to(paths.SOURCE / "railgauge")))
        and (
            count := len(
                re.findall(
                    r"(?<!atomic)\.write_(?:text|bytes)\(|\bopen\([^)]*\"[wx]",
                    path.read_text("utf-8"),
                )
            )
        )
    }
    assert plain == {name: count for name, count in _PLAIN.items() if name.startswith(f"{room}/")}


def test_a_link_stays_one_and_its_file_is_replaced(file: Path) -> None:
    link = file.with_name("latest.json")
    link.symlink_to(file.name)
    atomic.write_json(link, AFTER)
    assert link.is_symlink() and json.loads(file.read_text()) == AFTER
    assert len(list(file.parent.iterdir())) == 2


def test_a_link_to_nothing_yet_makes_its_file(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("file")
    atomic.write_text(link, "new")
    assert link.is_symlink() and (tmp_path / "file").read_text() == "new"


def test_what_is_no_regular_file_is_written_to(tmp_path: Path) -> None:
    """Else `-o /dev/null`, by root, replaces the device."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    atomic.write_text(fifo, "page")
    assert os.read(reader, 100) == b"page" and fifo.is_fifo()
    os.close(reader)
    # As the shell's `>(command)`.
    reader, writer = os.pipe()
    atomic.write_text(Path(f"/dev/fd/{writer}"), "page")
    assert os.read(reader, 100) == b"page"
    os.close(reader)
    os.close(writer)


def test_what_is_behind_standard_output_is_appended_to(tmp_path: Path) -> None:
    """`railgauge report -o /dev/stdout >> log`"""
    log = tmp_path / "log"
    log.write_text("before\n")
    command = "from pathlib import Path; from railgauge.common import atomic; atomic.write_text("
    command += "Path('/dev/stdout'), 'page\\n'); print('after')"
    with log.open("a") as stream:
        subprocess.run([sys.executable, "-c", command], stdout=stream, check=True)
    assert log.read_text() == "before\npage\nafter\n" and list(tmp_path.iterdir()) == [log]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no /dev/shm here")
def test_files_in_memory_are_whole_or_not_at_all() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "holds.json")
        path.write_text("before")
        atomic.write_text(path, "after")
        assert path.read_text() == "after"


def test_a_loop_of_links_is_an_error_of_the_file(tmp_path: Path) -> None:
    loop = tmp_path / "a"
    loop.symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        atomic.write_text(loop / "page", "x")


def test_a_folder_is_no_place_to_write_to(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        atomic.write_text(tmp_path, "page")
