"""The deb and RPM packages: the same bytes each time, installed and removed in clean roots.

The roots are of Debian's packages, made by mmdebstrap; programs in them run in namespaces without a
network. Both need root. The RPM is for Enterprise Linux 9, of which Debian's archive has no root:
rpm of Debian 12 installs it, where python3.11 is the Python that it needs.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from railgauge import paths

from .test_package import clone, package, run

pytestmark = pytest.mark.release

#: Release of Debian -> packages of its root.
ROOTS = {"bookworm": ("python3", "rpm"), "trixie": ("python3",)}
#: Package -> release of its root, how it is installed, and removed.
TRIED = {
    "deb12": ("bookworm", ("dpkg", "--install"), ("dpkg", "--remove")),
    "el9": ("bookworm", ("rpm", "--install", "--nodeps"), ("rpm", "--erase")),
    "deb13": ("trixie", ("dpkg", "--install"), ("dpkg", "--remove")),
}
#: Measured by an earlier version.
CAMPAIGN = paths.HOME / "tests/data/campaigns/6a0944a2/20261102T060000Z-lab-00001e"
#: Where a root sees the packages, the site and the results.
SHARED = "/mnt"


def build(area: Path, umask: str, **more: str) -> Path:
    """All packages of a clone of HEAD in `area`."""
    checkout = clone(area / "checkout")
    folder = package(checkout, area / "dist", umask, **more)
    nfpm = paths.HOME / ".lab" / "bin"
    more = {**more, "PATH": f"{nfpm}{os.pathsep}{os.environ['PATH']}"}
    command = f"umask {umask}; exec '{sys.executable}' -m package.system_packages '{folder}'"
    done = run("bash", "-c", command, cwd=checkout, **more)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    area = tmp_path_factory.mktemp("built")
    folder = build(area, "022")
    shutil.copytree(paths.HOME / "examples" / "site", folder / "site")
    shutil.copytree(CAMPAIGN, folder / "results" / "campaigns" / CAMPAIGN.name)
    return folder


def of_target(folder: Path, target: str) -> str:
    (found,) = folder.glob(f"railgauge-*-{target}.{platform.machine()}.*")
    return found.name


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    area = tmp_path_factory.mktemp("roots")
    answer = run("apt-get", "indextargets", "--format", "$(REPO_URI)", cwd=area).stdout.split()
    mirror = next(uri for uri in answer if uri.rstrip("/").endswith("/debian"))
    for release, packages in ROOTS.items():
        done = run(
            # Its mounts end with it, also where this run is killed: pytest removes old folders.
            *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
            *("mmdebstrap", "--variant=minbase", "--mode=root"),
            *("--aptopt=Apt::Install-Recommends false", f"--include={','.join(packages)}"),
            *(release, area / release, f"deb {mirror} {release} main"),
            cwd=area,
        )
        assert done.returncode == 0, done.stderr
    return {release: area / release for release in ROOTS}


def inside(root: Path, shared: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the root, without a network."""
    entered = (
        'mount --bind "$1" "$0/mnt" && mount -t proc proc "$0/proc" && r=$0 && shift && '
        'exec chroot "$r" "$@"'
    )
    namespaces = ("unshare", "--mount", "--pid", "--fork", "--net")
    return run(*namespaces, "sh", "-c", entered, root, shared, *words, cwd=shared)


def test_another_clone_on_another_day_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    other = build(tmp_path, "077", TZ="Asia/Tokyo")
    names = [path.name for path in built.iterdir() if path.is_file()]
    assert sorted(names) == sorted(path.name for path in other.iterdir())
    assert {of_target(built, target) for target in TRIED} < set(names)
    assert [n for n in names if (built / n).read_bytes() != (other / n).read_bytes()] == []


def test_the_hashes_are_those_of_all_packages(built: Path) -> None:
    assert run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=built).returncode == 0
    listed = {line.split("  ")[1] for line in (built / "SHA256SUMS").read_text().splitlines()}
    files = {path.name for path in built.iterdir() if path.is_file()}
    assert listed == files - {"SHA256SUMS"}


@pytest.mark.parametrize("target", TRIED)
def test_a_package_is_installed_measures_by_a_sites_files_and_is_removed(
    built: Path, roots: dict[str, Path], target: str
) -> None:
    release, install, remove = TRIED[target]
    root = roots[release]
    done = inside(root, built, *install, f"{SHARED}/{of_target(built, target)}")
    assert done.returncode == 0, done.stderr
    head = run("git", "rev-parse", "--short=12", "HEAD", cwd=paths.HOME).stdout.strip()
    assert inside(root, built, "railgauge", "--version").stdout.endswith(f"(commit {head})\n")
    named = ("env", f"RAILGAUGE_SITE={SHARED}/site", "RAILGAUGE_RESULTS=/tmp/results")
    plan = inside(root, built, *named, "railgauge", "accept", "--plan", "--system", "pod")
    assert "Iperf2Pair nodes, 4 places" in plan.stdout, plan.stderr
    # What decides needs numpy and scipy, for the Python of the distribution.
    named = ("env", f"RAILGAUGE_RESULTS={SHARED}/results")
    decided = inside(root, built, *named, "railgauge", "verdict", CAMPAIGN.name)
    assert "389.4 Gb/s  n5:n6:0-0" in decided.stdout, decided.stderr
    assert (root / "usr" / "share" / "man" / "man1" / "railgauge-gate-run.1.gz").is_file()
    done = inside(root, built, *remove, "railgauge")
    assert done.returncode == 0, done.stderr
    assert not (root / "usr" / "lib" / "railgauge").exists()
    assert not (root / "usr" / "bin" / "railgauge").is_symlink()


def test_a_package_for_another_python_is_not_configured(
    built: Path, roots: dict[str, Path]
) -> None:
    done = inside(
        roots["bookworm"], built, "dpkg", "--install", f"{SHARED}/{of_target(built, 'deb13')}"
    )
    inside(roots["bookworm"], built, "dpkg", "--purge", "railgauge")
    assert done.returncode != 0 and "depends on python3 (>= 3.13)" in done.stderr
