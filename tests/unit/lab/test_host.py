"""What the lab asks of the machine, and how it says that something is missing."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path
from typing import IO, Any

import pytest

from railgauge.common.errors import PrerequisiteError
from railgauge.lab import host, releases, render, rootfs, spec
from railgauge.lab.cluster import Lab


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab that is not up, on a host that is all right."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "os-release").write_text("ID=debian\n")
    monkeypatch.setattr(host, "_OS_RELEASE", tmp_path / "os-release")
    monkeypatch.delenv("RAILGAUGE_LAB_ROOTFS", raising=False)
    return Lab(spec.load(), {"ns": "n[1-4]"}, tmp_path / "lab")


def test_another_user_is_told_to_become_root(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PrerequisiteError, match="needs root"):
        lab.up()


def test_another_distribution_is_named(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text('ID="rocky"\nID_LIKE="rhel centos fedora"\n')
    with pytest.raises(PrerequisiteError, match=r"Debian or Ubuntu; this is .*rocky"):
        lab.up()


def test_a_derivative_of_debian_will_do(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "os-release").write_text('ID=linuxmint\nID_LIKE="ubuntu debian"\n')
    monkeypatch.setattr(rootfs, "ensure", lambda *_: pytest.fail("as far as the image"))
    with pytest.raises(pytest.fail.Exception, match="as far as the image"):
        lab.up()


def test_a_missing_tool_is_named_with_its_package(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "tc" else f"/bin/{tool}")
    with pytest.raises(PrerequisiteError, match="not installed: tc") as caught:
        lab.up()
    assert caught.value.next_step == "apt-get install iproute2"


def test_too_little_disk_is_said_before_the_image_is_built(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**10, 9 * 10**9, 10**9))
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    with pytest.raises(PrerequisiteError, match=r"0\.9 GiB free"):
        lab.up()


def test_too_little_memory_is_said_before_anything_starts(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 900000 kB\nMemAvailable: 500000 kB\n")
    monkeypatch.setattr(host, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(rootfs, "ensure", lambda *_: tmp_path)
    with pytest.raises(PrerequisiteError, match="488 MiB of memory available"):
        lab.up()


def test_the_image_is_another_when_its_recipe_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rootfs.recipe()
    monkeypatch.setattr(rootfs, "PACKAGES", (*rootfs.PACKAGES, "strace"))
    assert rootfs.recipe() != before


def test_slurm_is_told_of_every_node() -> None:
    files = render.render(spec.load(), {"ns": "n[1-4]", "vm": "n[5-6]"})
    lines = files["slurm.conf"].splitlines()
    assert sum(line.startswith("NodeName=") for line in lines) == 6
    assert "PartitionName=ns Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP" in lines
    assert "PartitionName=vm Nodes=n[5-6] Default=NO MaxTime=INFINITE State=UP" in lines
    assert "JobRequeue=0" in lines
    assert "Name=gpu Type=lab File=/dev/labgpu[0-7]" in files["gres.conf"]
    assert "10.77.0.11 n1" in files["hosts"].splitlines()
    assert "10.77.0.16 n6" in files["hosts"].splitlines()


def test_slurm_knows_a_vm_node_by_its_feature_and_without_gpus() -> None:
    files = render.render(spec.load(), {"vm": "n[5-6]"})
    (line,) = [x for x in files["slurm.conf"].splitlines() if x.startswith("NodeName=n5 ")]
    assert "Feature=vm State=" in line


def test_the_accounting_file_is_private(tmp_path: Path) -> None:
    render.write(tmp_path, {"slurmdbd.conf": "x", "slurm.conf": "y"})
    assert (tmp_path / "slurmdbd.conf").stat().st_mode & 0o777 == 0o600


def test_an_image_of_each_release_lies_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAILGAUGE_LAB_ROOTFS", raising=False)
    monkeypatch.setattr(rootfs, "_build", lambda target, *_: target.mkdir())
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    (tmp_path / "rootfs" / "0123456789ab").mkdir(parents=True)
    images = [rootfs.ensure(tmp_path, print, each) for each in releases.RELEASES.values()]
    assert sorted((tmp_path / "rootfs").iterdir()) == sorted(images)
    assert len(set(images)) == len(releases.RELEASES)


def test_an_image_that_another_process_builds_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAILGAUGE_LAB_ROOTFS", raising=False)
    monkeypatch.setattr(rootfs, "_build", lambda *_: pytest.fail("built twice"))
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    target = rootfs.location(tmp_path)
    target.parent.mkdir()
    other = os.open(target.parent, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)

    def say(words: str) -> None:
        assert words == "waiting for an image that is being built"
        target.mkdir()
        os.close(other)

    assert rootfs.ensure(tmp_path, say) == target


class Builders:
    """What would build an image: says what is asked of it, and fails where it is told to."""

    def __init__(self, fails: str = "") -> None:
        self.asked: list[str] = []
        self._fails = fails

    def __call__(
        self, command: list[str], *, stdout: IO[bytes], **_: Any
    ) -> subprocess.CompletedProcess[bytes]:
        assert command[:1] == ["unshare"]
        (program,) = [name for name in ("mmdebstrap", "mkfs.erofs") if name in " ".join(command)]
        self.asked.append(program)
        if program == "mmdebstrap":
            (partial,) = [Path(word) for word in command if word.endswith(".part")]
            loader = partial / "usr/lib" / f"{platform.machine()}-linux-gnu" / "ld-linux-x.so.2"
            loader.parent.mkdir(parents=True)
            loader.touch()
        if program == self._fails:
            stdout.write(b"first\nno room\n")
            stdout.flush()
            return subprocess.CompletedProcess(command, 3)
        return subprocess.CompletedProcess(command, 0)


@pytest.mark.parametrize(
    ("release", "asked"), [("trixie", ["mmdebstrap", "mkfs.erofs"]), ("bookworm", ["mmdebstrap"])]
)
def test_an_image_has_a_disk_for_its_vm_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, asked: list[str]
) -> None:
    builders = Builders()
    monkeypatch.setattr(subprocess, "run", builders)
    rootfs._build(tmp_path / "image", releases.named(release), print)
    assert builders.asked == asked and [path.name for path in tmp_path.iterdir()] == ["image"]


@pytest.mark.parametrize(
    ("fails", "likely"), [("mmdebstrap", "is a Debian mirror"), ("mkfs.erofs", "is the disk full")]
)
def test_an_image_that_could_not_be_built_leaves_its_log_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, likely: str
) -> None:
    builders = Builders(fails)
    monkeypatch.setattr(subprocess, "run", builders)
    removed: list[Path] = []
    monkeypatch.setattr(rootfs, "remove", removed.append)
    with pytest.raises(PrerequisiteError, match="exit code 3") as caught:
        rootfs._build(tmp_path / "image", releases.DEFAULT, print)
    assert "    first\n    no room" in caught.value.message
    assert likely in (caught.value.next_step or "")
    assert removed == [tmp_path / "image.part"] and not (tmp_path / "image").exists()


def test_the_index_of_the_next_release_may_be_past_its_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setenv("RAILGAUGE_LAB_MIRROR", "http://mirror.example/debian")
    release = releases.named("forky")
    command = rootfs._mmdebstrap(tmp_path, release)
    assert command[-1] == "deb http://mirror.example/debian forky main"
    assert '--aptopt=Acquire::Check-Valid-Until "false"' in command
    monkeypatch.setattr(subprocess, "run", Builders())
    rootfs._build(tmp_path / "image", release, said.append)
    assert any("past its date" in line for line in said)


@pytest.mark.parametrize("release", ["bullseye", "bookworm", "trixie"])
def test_an_index_that_is_past_its_date_is_refused_of_the_other_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    monkeypatch.setenv("RAILGAUGE_LAB_MIRROR", "http://mirror.example/debian")
    command = " ".join(rootfs._mmdebstrap(tmp_path, releases.named(release)))
    assert "Check-Valid-Until" not in command


def test_vm_nodes_are_refused_on_a_release_without_them(lab: Lab) -> None:
    lab.release = releases.named("bookworm")
    with pytest.raises(PrerequisiteError, match=r"n\[5-6\]: the lab has no VM nodes on bookworm"):
        lab.up(nodes=["n1", "n5", "n6"])


def test_all_nodes_of_a_release_without_vms_are_those_that_need_none(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    lab.release = releases.named("bookworm")
    monkeypatch.setattr(rootfs, "ensure", lambda *_: pytest.fail("as far as the image"))
    with pytest.raises(pytest.fail.Exception, match="as far as the image"):
        lab.up(said.append)
    assert said == ["without n[5-6]: no VM nodes on bookworm"]


def test_a_release_that_nobody_knows_is_an_error_with_those_that_are() -> None:
    with pytest.raises(
        PrerequisiteError, match="'buster'; it can from bullseye, bookworm, trixie, forky"
    ):
        releases.named("buster")


def test_slurm_before_23_11_is_not_told_of_blocks_nor_of_a_disabled_cgroup_plugin() -> None:
    files = render.render(spec.load(), {"ns": "n[1-4]"}, releases.named("bookworm"))
    assert "topology" not in files["slurm.conf"] and "topology.conf" not in files
    assert "CgroupPlugin=cgroup/v1" in files["cgroup.conf"]
    newer = render.render(spec.load(), {"ns": "n[1-4]"})
    assert "topology/block" in newer["slurm.conf"] and "topology.conf" in newer
    assert "CgroupPlugin=disabled" in newer["cgroup.conf"]


def test_mpi_starts_by_the_plugin_that_the_release_has() -> None:
    for name, plugin in (("trixie", "pmix"), ("forky", "pmi2")):
        files = render.render(spec.load(), {"ns": "n[1-4]"}, releases.named(name))
        assert f"MpiDefault={plugin}" in files["slurm.conf"].splitlines()


def test_a_head_that_ends_in_mid_start_is_told_with_what_it_said(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.folders.log.mkdir(parents=True)
    (lab.folders.log / "boot-head.log").write_text("slurmdbd ended: fatal: null result\n")
    monkeypatch.setattr(Lab, "require_up", lambda lab: None)
    with pytest.raises(PrerequisiteError, match=r"head ended while it started:\n .*null result"):
        lab.wait_until_idle()
