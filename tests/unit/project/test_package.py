"""The packages: the same bytes each time, all files in them, and usable in a clean environment.

They are built by bin/package of a clone of HEAD; `pip` needs a package index.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from railgauge import paths
from tests.unit import measured

pytestmark = pytest.mark.release


def run(*words: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAILGAUGE")}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env=environment | more,
        capture_output=True,
        text=True,
        check=False,
    )


def clone(folder: Path) -> Path:
    done = run("git", "clone", "--quiet", paths.HOME, folder, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    (folder / ".venv").symlink_to(sys.prefix)
    # A clone ignores the folder .venv, and this is a link.
    (folder / ".git" / "info" / "exclude").write_text("/.venv\n")
    return folder


def package(checkout: Path, into: Path, umask: str, **more: str) -> Path:
    command = f"umask {umask}; exec bin/package '{into}'"
    done = run("bash", "-c", command, cwd=checkout, **more)
    assert done.returncode == 0, done.stderr
    return into


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    area = tmp_path_factory.mktemp("built")
    return package(clone(area / "checkout"), area / "dist", "022")


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


REQUIREMENTS = paths.HOME / "requirements.txt"


def install(wheel: Path, area: Path) -> Path:
    """The program of the wheel in an environment of its own, with the pinned packages."""
    python = area / "venv" / "bin" / "python"
    for words in (
        (sys.executable, "-m", "venv", area / "venv"),
        (python, "-m", "pip", "install", "-q", "--require-hashes", "-r", REQUIREMENTS),
        (python, "-m", "pip", "install", "-q", "--no-deps", wheel),
    ):
        done = run(*words, cwd=area)
        assert done.returncode == 0, done.stderr
    return area / "venv" / "bin" / "railgauge"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    return install(wheel, tmp_path_factory.mktemp("installed"))


def test_another_clone_on_another_day_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    """Other folders, another umask, another zone, and files that the commit does not have."""
    checkout = clone(tmp_path / "another place")
    (checkout / "configs" / "systems" / "mine").mkdir()
    (checkout / "configs" / "systems" / "mine" / "reframe.yaml").write_text("name: mine\n")
    other = package(checkout, tmp_path / "dist", "077", TZ="Asia/Tokyo", TMPDIR=str(tmp_path))
    names = sorted(path.name for path in built.iterdir())
    assert names == sorted(path.name for path in other.iterdir()) and len(names) == 4
    assert [n for n in names if (built / n).read_bytes() != (other / n).read_bytes()] == []


def test_the_hashes_are_those_of_the_packages(built: Path) -> None:
    listed = dict(
        reversed(line.split("  ")) for line in (built / "SHA256SUMS").read_text().splitlines()
    )
    assert listed == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in built.iterdir()
        if path.name != "SHA256SUMS"
    }


def test_the_wheel_has_every_file_of_the_package_and_its_data(wheel: Path) -> None:
    tracked = run("git", "ls-files", "src/railgauge", cwd=paths.HOME).stdout.split()
    data = run(
        *("git", "ls-files", "configs", "reframe", "results/references"), cwd=paths.HOME
    ).stdout.split()
    wanted = {name.removeprefix("src/") for name in tracked}
    wanted |= {f"railgauge/home/{name}" for name in data} | {"railgauge/commit.txt"}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == wanted


def test_the_sdist_has_nothing_of_the_machine(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, "", "")}


def test_changed_files_are_not_packaged(tmp_path: Path) -> None:
    checkout = clone(tmp_path / "checkout")
    (checkout / "README.md").write_text("mine\n")
    done = run("bin/package", tmp_path / "dist", cwd=checkout)
    assert done.returncode == 3 and "README.md" in done.stderr
    assert list((tmp_path / "dist").iterdir()) == []


def test_the_program_says_its_version_and_commit(installed: Path) -> None:
    head = run("git", "rev-parse", "--short=12", "HEAD", cwd=paths.HOME).stdout.strip()
    shown = run(installed, "--version", cwd=installed.parent).stdout
    assert shown.startswith("railgauge ") and shown.endswith(f" (commit {head})\n")


def test_the_program_reads_a_log(installed: Path) -> None:
    log = paths.HOME / "tests" / "data" / "nccl-tests" / "gb200-2x4-ib-16GiB.txt"
    done = run(installed, "read", log, cwd=installed.parent)
    assert done.returncode == 0, done.stderr
    assert "published:" in done.stdout


def test_the_program_knows_the_systems_that_are_shipped(installed: Path) -> None:
    done = run(installed, "power", "dgx-h100", "--runs", "3", "--noise", "0.01", cwd=paths.HOME)
    assert done.returncode == 0, done.stderr


def test_what_measures_says_that_it_needs_a_site(installed: Path) -> None:
    done = run(installed, "accept", cwd=installed.parent)
    assert done.returncode == 3 and "RAILGAUGE_SITE=DIR" in done.stderr
    assert "Traceback" not in done.stderr


def start_read_only(
    installed: Path, *words: str | Path, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the program from a folder that it cannot write to, also as root."""
    venv = installed.parents[1]
    for path in (venv, *venv.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    command: list[str | Path] = [installed, *words]
    if os.geteuid() == 0:
        mounted = 'mount --bind -o ro "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", mounted, venv, *command]
    return run(*command, cwd=Path("/"), **more)


def read_only(installed: Path, *words: str | Path, **more: str) -> str:
    """What the program prints from there where it ends well."""
    done = start_read_only(installed, *words, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def named(tmp_path: Path) -> dict[str, str]:
    """A site's files and a results area, both outside of the program."""
    site = shutil.copytree(paths.HOME / "examples" / "site", tmp_path / "site")
    return {"RAILGAUGE_SITE": str(site), "RAILGAUGE_RESULTS": str(tmp_path / "results")}


def test_a_program_that_cannot_be_written_to_plans_by_a_sites_files(
    installed: Path, named: dict[str, str]
) -> None:
    """ReFrame reads settings and checks in the package, and the site's description."""
    said = read_only(installed, "accept", "--plan", "--system", "pod", **named)
    assert "Iperf2Pair nodes, 4 places" in said


def test_a_program_that_cannot_be_written_to_describes_a_system_in_the_sites_folder(
    installed: Path, named: dict[str, str]
) -> None:
    read_only(installed, "system", "new", "mine", "--like", "tcp", **named)
    site = Path(named["RAILGAUGE_SITE"])
    assert (site / "configs" / "systems" / "mine" / "reframe.yaml").is_file()
    assert (site / "results" / "references" / "mine.yaml").is_file()


def test_a_program_that_cannot_be_written_to_reads_and_writes_results_that_are_named(
    installed: Path, named: dict[str, str]
) -> None:
    campaign = measured.leave(Path(named["RAILGAUGE_RESULTS"]), 1, {measured.PLACES[0]: 390.0})
    assert campaign.id in read_only(installed, "campaigns", **named)
    read_only(installed, "report", campaign.id, **named)
    assert (campaign.folder / "report.html").is_file()


def test_the_page_for_a_ticket_has_no_problem(installed: Path) -> None:
    done = run(installed, "doctor", cwd=installed.parent)
    assert done.returncode == 0, done.stdout
