"""The root file system that the machines of a lab start from: one a Debian release, built once.

    python3 -S -m railgauge.lab.rootfs  # build it; needs no package, so nothing is installed yet

Exit code: 0 once it is there, 3 where it cannot be built, 143 at SIGTERM.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from railgauge import paths
from railgauge.common.errors import PrerequisiteError
from railgauge.hooks import Say
from railgauge.lab.releases import DEFAULT, LOGIN_PACKAGES, RELEASES, Release

_KERNELS = {"x86_64": "linux-image-amd64", "aarch64": "linux-image-arm64"}

#: For the VM nodes. The image's own QEMU, whatever the host has: emulation of older ones (7.2)
#: corrupts a guest that is busy with RDMA.
_EMULATORS = {"x86_64": "qemu-system-x86"}

_IMAGE_MAKER = "erofs-utils"

PACKAGES = (
    # Slurm with accounting
    *("slurmctld", "slurmd", "slurmdbd", "slurm-client", "munge", "mariadb-server"),
    *("slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin"),
    # the measured tools
    *("iperf", "iperf3", "perftest", "openmpi-bin"),
    *("openssh-client", "openssh-server", "lftp", "proftpd-core"),
    # RDMA, and what looks at the network
    *("rdma-core", "ibverbs-utils", "iproute2", "ethtool", "iputils-ping", "pciutils"),
    # what a machine needs to start and to run the node programs
    *("tini", "kmod", "busybox-static", "procps", "python3", "qemu-guest-agent", "stress-ng"),
)

#: Left out of the image: 700 MB that nothing here reads. UCX brings ROCm, and stress-ng Mesa; the
#: VM nodes have none of these devices, and depmod would look into each driver.
_EXCLUDED = (
    *("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*"),
    *(
        f"/usr/lib/*-linux-gnu/{library}*"
        for library in ("libLLVM", "libz3.so", "libamd_comgr", "libamdhip64", "libgallium")
    ),
    *(
        f"/usr/lib/modules/*/kernel/drivers/{kind}/*"
        for kind in ("gpu", "iio", "media", "net/ethernet", "net/wireless", "scsi", "usb")
    ),
)

#: As it is set while the packages are installed, for initramfs-tools' hook in
#: /etc/kernel/postinst.d: VM nodes start from a small file system of their own (initrd.py), and the
#: kernel's was made twice, in a third of the whole time.
_ENVIRONMENT = ("INITRD=No",)

#: Left out of what VM nodes see of it, as only the host and the head need it.
_NOT_IN_GUESTS = r"^boot/|^var/lib/mysql/|^usr/bin/qemu-system-"

_NEEDED_DISK = 3 * 2**30


def _archive() -> str:
    """The Debian mirror that this host's apt uses, without its security updates."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    mirrors = [uri for uri in answer.stdout.split() if uri.rstrip("/").endswith("/debian")]
    if not mirrors:
        raise PrerequisiteError(
            "no Debian mirror is among this host's apt sources",
            next_step="name one: RAILGAUGE_LAB_MIRROR=URL railgauge lab up --release bullseye",
        )
    return mirrors[0]


def _mmdebstrap(target: Path, release: Release) -> list[str]:
    machine = platform.machine()
    if machine not in _KERNELS:
        known = ", ".join(_KERNELS)
        raise PrerequisiteError(f"the lab has no kernel package for {machine}; it runs on {known}")
    mirror = os.environ.get("RAILGAUGE_LAB_MIRROR")
    sources = [mirror] if mirror else []
    if not release.updated:
        sources = [f"deb {mirror or _archive()} {release.name} main"]
    apt = ["Apt::Install-Recommends false", "Acquire::Retries 3"]
    if not release.dated:
        apt.append('Acquire::Check-Valid-Until "false"')
    return [
        *("env", *_ENVIRONMENT, "mmdebstrap"),
        *("--variant=minbase", "--mode=root"),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED),
        *(f"--aptopt={option}" for option in apt),
        f"--include={','.join(_packages(machine, release))}",
        *(release.name, str(target)),
        *sources,
    ]


def _packages(machine: str, release: Release) -> list[str]:
    virtual = [tables[machine] for tables in (_KERNELS, _EMULATORS) if machine in tables]
    virtual.append(_IMAGE_MAKER)
    own = [*release.packages, *(LOGIN_PACKAGES if release.login else ())]
    common = [package for package in PACKAGES if package not in release.without]
    return [*common, *(virtual if release.vm_nodes else []), *own]


def recipe(release: Release = DEFAULT) -> str:
    """A hash of all that decides what is in the image of a release."""
    machine = platform.machine()
    packages = _packages(machine, release)
    contents = (*packages, *_EXCLUDED, *_ENVIRONMENT, _NOT_IN_GUESTS)
    described = "\n".join((machine, release.name, *contents))
    return hashlib.sha256(described.encode()).hexdigest()[:12]


def program(image: Path, name: str) -> list[str]:
    """The beginning of a command that runs a program of the image on this host, with its libraries.

    The image's own loader is asked, so that the host's C library does not matter.
    """
    triplet = f"{platform.machine()}-linux-gnu"
    libraries = ":".join(str(image / folder) for folder in (f"usr/lib/{triplet}", "usr/lib"))
    loader = next(image.glob(f"usr/lib/{triplet}/ld-linux-*.so.*"))
    return [str(loader), "--library-path", libraries, str(image / "usr" / "bin" / name)]


def disk(image: Path) -> Path:
    """What VM nodes have for their root: the image as a file system of its own (EROFS).

    Over 9p each look for a file is a question to the host: a start of Python in a guest takes twice
    the CPU time.
    """
    return image / "boot" / "root.erofs"


def location(lab: Path, release: Release = DEFAULT) -> Path:
    """Where the image for today's recipe belongs; `RAILGAUGE_LAB_ROOTFS` may share another's."""
    shared = os.environ.get("RAILGAUGE_LAB_ROOTFS")
    return Path(shared) if shared else lab / "rootfs" / recipe(release)


def ensure(lab: Path, say: Say, release: Release = DEFAULT) -> Path:
    """The image of a release, built first if it is not there; those of others stay.

    A build that broke off leaves nothing usable.
    """
    target = location(lab, release)
    if target.is_dir():
        return target
    if os.environ.get("RAILGAUGE_LAB_ROOTFS"):
        raise PrerequisiteError(
            f"RAILGAUGE_LAB_ROOTFS={target}: no such folder",
            next_step="unset it, and `railgauge lab up` builds an image",
        )
    if shutil.which("mmdebstrap") is None:
        raise PrerequisiteError(
            "mmdebstrap is not installed", next_step="apt-get install mmdebstrap"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with _only_builder(target.parent, say):
        # Another one may have just built it.
        if target.is_dir():
            return target
        _remove_leftovers(target.parent, say)
        free = shutil.disk_usage(target.parent).free
        if free < _NEEDED_DISK:
            raise PrerequisiteError(
                f"{target.parent}: {free / 2**30:.1f} GiB free, the lab's image needs "
                f"{_NEEDED_DISK / 2**30:.0f} GiB while it is built",
                next_step="free some room, or set RAILGAUGE_LAB_DIR to a folder that has it",
            )
        _build(target, release, say)
    return target


@contextlib.contextmanager
def _only_builder(images: Path, say: Say) -> Iterator[None]:
    """One build at a time among these images; the second one waits."""
    folder = os.open(images, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for an image that is being built")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _remove_leftovers(images: Path, say: Say) -> None:
    """Images of recipes that are gone, and what is left of builds that broke off."""
    current = {recipe(each) for each in RELEASES.values()}
    for leftover in images.iterdir():
        if leftover.name in current:
            continue
        say(f"removing {'a broken' if leftover.suffix else 'an outdated'} image")
        remove(leftover)


def _build(target: Path, release: Release, say: Say) -> None:
    partial = target.with_suffix(".part")
    log = target.with_suffix(".log")
    say(f"building the image (Debian {release.name}, once; a minute or two; log: {log})")
    if not release.dated:
        say(f"the mirror's index of {release.name} may be past its date (Check-Valid-Until is off)")
    with log.open("wb") as output:
        _step(
            _mmdebstrap(partial, release),
            partial,
            output,
            "is a Debian mirror reachable? `RAILGAUGE_LAB_MIRROR=URL` names another one",
        )
        if release.vm_nodes:
            _step(_mkfs(partial), partial, output, "is the disk full?")
    partial.rename(target)
    log.unlink()


def _step(command: list[str], partial: Path, log: IO[bytes], likely: str) -> None:
    """One of the commands that make `partial`, which a failed one removes."""
    # In a PID namespace of its own, so that Ctrl-C or a crash leaves no half of a build running.
    alone = ["unshare", "--pid", "--fork", "--mount", "--kill-child"]
    outcome = subprocess.run(
        [*alone, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
    )
    if outcome.returncode == 0:
        return
    tail = Path(log.name).read_text(errors="replace").splitlines()
    reasons = [line for line in tail if line.startswith("E:")] or tail
    remove(partial)
    raise PrerequisiteError(
        f"building the lab's image failed (exit code {outcome.returncode}):\n    "
        + "\n    ".join(reasons[-4:]),
        next_step=f"read {log.name}; {likely}; then again: railgauge lab up",
    )


def _mkfs(image: Path) -> list[str]:
    make = [*program(image, "mkfs.erofs"), "--quiet", f"--exclude-regex={_NOT_IN_GUESTS}"]
    return [*make, str(disk(image)), str(image)]


def remove(folder: Path) -> None:
    """Delete an image, or what is left of one; it stays on its own file system."""
    if folder.is_dir() and not folder.is_symlink():
        subprocess.run(["rm", "-rf", "--one-file-system", "--", str(folder)], check=True)
    else:
        folder.unlink()


def main() -> int:
    # A shell starts it in the background, where it gets no Ctrl-C; what it runs ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        ensure(paths.lab_folder(), lambda words: print(words, flush=True))
    except PrerequisiteError as error:
        print(f"railgauge: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
