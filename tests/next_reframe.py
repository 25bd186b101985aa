"""Railgauge's tests with another ReFrame, such as its development version.

    make next-reframe CHECKOUT=DIR [LAB=1]      (python -m tests.next_reframe DIR [--lab])

DIR is a checkout of ReFrame. The tests run in a temporary copy of this checkout. The copy has an
environment of its own with that ReFrame, and its guard is set to that version, as if the pin had
moved. Nothing here changes. `--lab` also brings the embedded cluster up in the copy and accepts it.
The exit code is that of the first command that fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from railgauge import paths

#: Tests that run ReFrame, or what it is given.
TESTS = (
    "tests/unit/checks",
    "tests/unit/acceptance",
    "tests/unit/cluster/test_check_names.py",
    "tests/unit/site/test_check.py",
    "tests/unit/slurm/test_waiting.py",
    "tests/unit/systems",
)

GUARD = "src/railgauge/checks/framework/reframe_guard.py"


Command = list[str | Path]


def copy_checkout(target: Path) -> None:
    """Copy what git tracks, with changes that are not committed, into a repository of its own."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=paths.HOME, stdout=subprocess.PIPE, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        source = paths.HOME / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    subprocess.run(["git", "init", "--quiet", target], check=True)


def install(checkout: Path, home: Path) -> str:
    """Make `home`/.venv with the ReFrame of `checkout`; its version. All other packages are those
    of this environment.
    """
    subprocess.run([sys.executable, "-m", "venv", home / ".venv"], check=True)
    python = home / ".venv" / "bin" / "python"
    pip: Command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, checkout], check=True)
    ask: Command = [python, "-c", "import sysconfig, reframe; print(sysconfig.get_path('purelib'))"]
    answer = subprocess.run(ask, stdout=subprocess.PIPE, text=True, check=True, cwd=home.parent)
    packages = Path(answer.stdout.strip())
    (packages / "railgauge.pth").write_text(f"{home / 'src'}\n{sysconfig.get_path('purelib')}\n")
    ask[-1] = "import reframe; print(reframe.VERSION)"
    answer = subprocess.run(ask, stdout=subprocess.PIPE, text=True, check=True, cwd=home.parent)
    return answer.stdout.strip()


def set_pin(home: Path, version: str) -> None:
    """Set the guard of the copy to `version`."""
    guard = home / GUARD
    text, count = re.subn(
        '^_PINNED = ".*"$', f'_PINNED = "{version}"', guard.read_text(), flags=re.MULTILINE
    )
    assert count == 1, f"{GUARD}: found {count} lines with _PINNED, expected 1"
    guard.write_text(text)


def accept_lab(home: Path, environment: dict[str, str]) -> int:
    """Bring the lab of `home` up, accept its namespace nodes, and take it down."""
    railgauge = home / "bin" / "railgauge"
    (home / ".lab").mkdir()
    (home / ".lab" / "rootfs").symlink_to(paths.HOME / ".lab" / "rootfs")
    up: Command = [railgauge, "lab", "up"]
    code = subprocess.call(up, cwd=home, env=environment)
    try:
        if code == 0:
            accept: Command = [railgauge, "accept", "--partition", "ns"]
            code = subprocess.call(accept, cwd=home, env=environment)
    finally:
        down: Command = [railgauge, "lab", "down"]
        subprocess.call(down, cwd=home, env=environment)
    return code


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.next_reframe")
    parser.add_argument("checkout", type=Path, help="a checkout of ReFrame")
    parser.add_argument("--lab", action="store_true", help="accept the embedded cluster too")
    given = parser.parse_args(arguments)
    checkout = given.checkout.resolve()
    if not (checkout / "reframe" / "__init__.py").is_file():
        parser.error(f"{checkout} is no checkout of ReFrame: it has no reframe/__init__.py")
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    with tempfile.TemporaryDirectory(prefix="next-reframe-") as folder:
        home = Path(folder) / "railgauge"
        home.mkdir()
        copy_checkout(home)
        version = install(checkout, home)
        set_pin(home, version)
        print(f"ReFrame {version} in {home}", flush=True)
        pytest: Command = [home / ".venv" / "bin" / "python", "-m", "pytest", "--quiet", "-n", "0"]
        code = subprocess.call([*pytest, *TESTS], cwd=home, env=environment)
        if code == 0 and given.lab:
            code = accept_lab(home, environment)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
