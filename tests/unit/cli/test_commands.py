"""The commands in bin/ before Python: a .venv that is missing, or that this user cannot run."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railgauge import paths

#: What not even the folder's owner may enter, unless it is root.
CLOSED = 0o000

#: A user namespace without a mapping: not root any more, to whom every folder is open.
AS_ANOTHER = ["unshare", "--user"] if os.geteuid() == 0 else []

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout's commands, without the rest of it."""
    folder = tmp_path / "a checkout"
    shutil.copytree(paths.HOME / "bin", folder / "bin")
    shutil.copy2(paths.HOME / "activate.sh", folder)
    return folder


@pytest.fixture
def command(checkout: Path) -> Command:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*AS_ANOTHER, *words],
            cwd=checkout,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def private(checkout: Path) -> Iterator[Path]:
    """The folder of a Python that the user may not enter; .venv is made of it."""
    folder = checkout / "private"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").symlink_to("/bin/true")
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python3").symlink_to(folder / "bin" / "python3")
    (checkout / ".venv" / "bin" / "python").symlink_to("python3")
    folder.chmod(CLOSED)
    yield folder
    folder.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("name", ["railgauge", "reframe", "stack"])
def test_without_a_virtual_environment_every_command_says_so(command: Command, name: str) -> None:
    answer = command(f"bin/{name}", "--version")
    assert answer.returncode == 3
    assert answer.stderr.startswith(f"{name}: ") and "/.venv is missing" in answer.stderr
    assert "next: make -C" in answer.stderr


@pytest.mark.parametrize("name", ["railgauge", "reframe", "stack"])
def test_a_python_that_this_user_cannot_run_is_named_with_the_folder(
    command: Command, private: Path, name: str
) -> None:
    answer = command(f"bin/{name}", "--version")
    assert answer.returncode == 3
    assert "is missing" not in answer.stderr
    assert f"may not enter {private}\n" in answer.stderr
    assert f"{private}/bin/python3, " in answer.stderr


def test_a_python_that_is_not_on_this_host_is_named(command: Command, checkout: Path) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to("/opt/nowhere/python3")
    answer = command("bin/railgauge", "--version")
    assert answer.returncode == 3
    assert "/opt/nowhere/python3, is not on " in answer.stderr


@pytest.mark.parametrize("name", ["railgauge", "reframe", "stack"])
def test_the_environment_of_another_checkout_is_refused(
    command: Command, checkout: Path, name: str
) -> None:
    """By a link, or a copy of all: it would run that checkout, and write there."""
    (checkout / ".venv").symlink_to(paths.HOME / ".venv")
    answer = command(f"bin/{name}", "--version")
    assert answer.returncode == 3
    assert f"is that of the checkout {paths.HOME}, and this one is {checkout}" in answer.stderr
    quoted = str(checkout).replace(" ", r"\ ")
    assert f"next: rm -r {quoted}/.venv; make -C {quoted} setup" in answer.stderr


def test_activation_says_it_and_goes_on(command: Command, private: Path) -> None:
    answer = command("bash", "-c", "set -e; source activate.sh; type -p railgauge")
    assert answer.returncode == 0
    assert f"may not enter {private}\n" in answer.stderr
    assert answer.stdout.strip().endswith("bin/railgauge")


@pytest.mark.parametrize("words", [["campaigns"], ["verdict"]])
def test_a_results_area_that_this_user_may_not_enter_is_one_message(
    private: Path, words: list[str]
) -> None:
    answer = subprocess.run(
        [*AS_ANOTHER, paths.HOME / "bin" / "railgauge", *words],
        env={**os.environ, "RAILGAUGE_RESULTS": str(private / "results")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 3, answer.stderr
    assert "Traceback" not in answer.stderr and "RAILGAUGE_RESULTS=DIR" in answer.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="what is root's own is other people's concern")
def test_root_makes_the_environment_of_a_python_for_everybody(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    # It finds its library by the path that it was built with.
    shutil.copy2(Path("/usr/bin/python3").resolve(), own / "python3")
    chosen = subprocess.run(
        ["bash", "-c", "source bin/bootstrap; python_for_venv"],
        cwd=paths.HOME,
        env={**os.environ, "PATH": f"{own}:/usr/sbin:/usr/bin:/sbin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert chosen.stdout.strip() == "/usr/bin/python3"
