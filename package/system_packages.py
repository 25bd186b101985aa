"""deb and RPM packages of a wheel, with the pinned Python packages in them: `make package`.

    python -m package.system_packages FOLDER [TARGET...]

They come into FOLDER, where bin/package has left the wheel, and into its SHA256SUMS. A target is a
name in TARGETS. Each package has a virtual environment in /usr/lib/railgauge for the Python of its
distribution. nfpm writes the packages: https://nfpm.goreleaser.com. The same commit gives the same
bytes: all times are that of the commit.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from package.pins import REQUIREMENTS, entries

HOME = Path(__file__).resolve().parents[1]
PREFIX = "/usr/lib/railgauge"

#: Machine of uname(2) -> its name in deb and in the tags of wheels (PEP 600).
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
#: The tags of manylinux that the distributions below can run: glibc 2.34 or newer.
_GLIBC = ("2014", "_2_17", "_2_27", "_2_28", "_2_34")


class Target(NamedTuple):
    """A distribution with its `python`, and the packages that bring that version."""

    name: str
    kind: Literal["deb", "rpm"]
    python: str
    needs: tuple[str, ...]


TARGETS = (
    Target("deb12", "deb", "3.11", ("python3 (>= 3.11)", "python3 (<< 3.12)")),
    Target("deb13", "deb", "3.13", ("python3 (>= 3.13)", "python3 (<< 3.14)")),
    Target("el9", "rpm", "3.11", ("python3.11",)),
)


@functools.cache
def moment() -> int:
    """The time of the commit: of all files in the packages."""
    command = ["git", "-C", str(HOME), "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def requirements(text: str, version: str) -> str:
    """The lines of a pinned requirements file that are for that version of Python, as 3.11.

    They have no markers, because pip evaluates markers for the Python that it runs in.
    """
    environment = {"python_full_version": f"{version}.0", "python_version": version}
    environment |= {"sys_platform": "linux", "platform_system": "Linux"}
    lines = ""
    for requirement, entry in entries(text):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            requirement.marker = None
            _, _, hashes = entry.partition("\n")
            lines += f"{requirement} \\\n{hashes}"
    return lines


def download(version: str, folder: Path) -> list[Path]:
    """The wheels of the pinned packages for that Python on this machine, in order of their names.

    subprocess.CalledProcessError where one cannot be had, or has another hash.
    """
    machine = platform.machine()
    wanted = folder / "requirements.txt"
    wanted.write_text(requirements(REQUIREMENTS.read_text(encoding="utf-8"), version))
    tags = [f"--platform=manylinux{glibc}_{machine}" for glibc in _GLIBC]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--no-deps", "--only-binary=:all:", "--implementation=cp"),
            *(f"--python-version={version}", *tags, "--dest", str(folder), "-r", str(wanted)),
        ],
        check=True,
    )
    return sorted(folder.glob("*.whl"))


def unpack(wheel: Path, site_packages: Path) -> None:
    """Put the modules of a wheel in place. Its scripts and other data stay out (PEP 427)."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            parts = Path(member.filename).parts
            if member.is_dir():
                continue
            if parts[0].endswith(".data"):
                if parts[1] not in ("purelib", "platlib"):
                    continue
                parts = parts[2:]
            path = site_packages.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(member))
            # The upper half is st_mode, by the programs that make wheels.
            if member.external_attr >> 16 & stat.S_IXUSR:
                path.chmod(0o755)


def make_tree(wheel: Path, version: str, root: Path) -> None:
    """The files of the package below `root`."""
    prefix = root / PREFIX.lstrip("/")
    site_packages = prefix / "lib" / f"python{version}" / "site-packages"
    site_packages.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        for one in [*download(version, Path(folder)), wheel]:
            unpack(one, site_packages)
    (prefix / "bin").mkdir()
    python = f"/usr/bin/python{version}"
    (prefix / "bin" / "python3").symlink_to(python)
    # A virtual environment (PEP 405).
    (prefix / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n"
        f"executable = {python}\n"
    )
    program = prefix / "bin" / "railgauge"
    program.write_text(
        f"#!{PREFIX}/bin/python3\nfrom railgauge.cli import main\n\nif __name__ == '__main__':\n"
        "    main()\n"
    )
    program.chmod(0o755)
    (root / "usr" / "bin").mkdir()
    (root / "usr" / "bin" / "railgauge").symlink_to(f"{PREFIX}/bin/railgauge")
    _add_manual(root)


def _add_manual(root: Path) -> None:
    """The manual pages and the completion of bash."""
    manual = root / "usr" / "share" / "man" / "man1"
    command = [sys.executable, "-m", "railgauge.cli.manual", str(manual)]
    environment = os.environ | {"PYTHONPATH": str(HOME / "src"), "SOURCE_DATE_EPOCH": str(moment())}
    subprocess.run(command, check=True, env=environment)
    for page in manual.iterdir():
        packed = gzip.compress(page.read_bytes(), mtime=0)
        page.with_name(f"{page.name}.gz").write_bytes(packed)
        page.unlink()
    completion = root / "usr" / "share" / "bash-completion" / "completions" / "railgauge"
    completion.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "railgauge", "completion", "bash"]
    completion.write_bytes(subprocess.run(command, check=True, env=environment, stdout=-1).stdout)


def configuration(target: Target, version: str, work: Path) -> dict[str, object]:
    """What nfpm reads. `0.1.0+dev` of PEP 440 is `0.1.0~dev` here, which is older than 0.1.0."""
    return {
        "name": "railgauge",
        "arch": _MACHINES[platform.machine()],
        "platform": "linux",
        "version": version.replace("+", "~"),
        "version_schema": "none",
        "release": f"1.{target.name}",
        "section": "utils",
        "priority": "optional",
        "maintainer": "Railgauge",
        "description": "The acceptance gate of a cluster's network",
        "license": "Apache-2.0",
        "depends": list(target.needs),
        "contents": [{"src": str(work / "root"), "dst": "/", "type": "tree"}],
        "scripts": {
            "postinstall": str(work / "postinstall"),
            "preremove": str(work / "preremove"),
        },
        "rpm": {"group": "Applications/System", "buildhost": "localhost", "compression": "zstd"},
        "deb": {"compression": "zstd"},
    }


def write_scripts(folder: Path) -> None:
    """Bytecode is written at the installation and removed with the package: root writes it later
    otherwise, and leaves it behind.
    """
    (folder / "postinstall").write_text(
        f"#!/bin/sh\n{PREFIX}/bin/python3 -m compileall -q {PREFIX}/lib || true\n"
    )
    (folder / "preremove").write_text(
        f"#!/bin/sh\nfind {PREFIX} -name __pycache__ -prune -exec rm -rf {{}} +\n"
    )


def build(folder: Path, targets: Sequence[Target]) -> list[Path]:
    """The packages of the wheel in `folder`, next to it."""
    wheels = list(folder.glob("railgauge-*.whl"))
    if len(wheels) != 1:
        fail(
            f"{folder} has {len(wheels)} wheels, expected one",
            f"rm -r {folder}; bin/package {folder}",
        )
    wheel = wheels[0]
    version = wheel.name.split("-")[1]
    made = []
    for python in sorted({target.python for target in targets}):
        with tempfile.TemporaryDirectory() as work:
            root = Path(work, "root")
            root.mkdir()
            make_tree(wheel, python, root)
            write_scripts(Path(work))
            for path in (root, *root.rglob("*")):
                os.utime(path, (moment(), moment()), follow_symlinks=False)
            for target in targets:
                if target.python == python:
                    name = f"railgauge-{version}-{target.name}.{platform.machine()}.{target.kind}"
                    pack(configuration(target, version, Path(work)), folder / name)
                    made.append(folder / name)
    return made


def pack(described: dict[str, object], package: Path) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(described, file)
        file.flush()
        kind = package.suffix.removeprefix(".")
        subprocess.run(
            [find_nfpm(), "package", "-f", file.name, "-p", kind, "-t", str(package)],
            check=True,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"SOURCE_DATE_EPOCH": str(moment())},
        )


def find_nfpm() -> str:
    own = HOME / ".lab" / "bin" / "nfpm"
    found = str(own) if own.exists() else shutil.which("nfpm")
    if found is None:
        fail("nfpm is not here", "bin/bootstrap nfpm, which needs Go 1.24 or newer")
    return found


def fail(problem: str, step: str) -> NoReturn:
    print(f"package: {problem}\n  next: {step}", file=sys.stderr)
    sys.exit(3)


def write_sums(folder: Path) -> None:
    """SHA256SUMS of all files in the folder."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(sums))


def main(folder: Path, names: Sequence[str]) -> None:
    unknown = set(names) - {target.name for target in TARGETS}
    if unknown:
        known = ", ".join(target.name for target in TARGETS)
        fail(f"unknown target {', '.join(sorted(unknown))}", f"name some of these: {known}")
    if platform.machine() not in _MACHINES:
        fail(f"no package for {platform.machine()}", "use the wheel")
    os.umask(0o022)
    for path in build(folder, [t for t in TARGETS if t.name in names or not names]):
        print(path)
    write_sums(folder)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        fail("found no argument, expected the folder of the wheel", "bin/package dist, then: dist")
    main(Path(sys.argv[1]), sys.argv[2:])
