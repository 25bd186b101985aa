"""One /home for all machines of a lab: what a VM node shares below it stays where it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

from railgauge import paths

HOMES = paths.SOURCE / "railgauge/lab/boot/vm-homes"

#: Stands in for mount and mkdir: a line for each call, with its words apart.
STUB = """\
#!/bin/bash
printf -v words ' <%s>' "$@"
echo "${{0##*/}}$words" >>'{calls}'
"""


def calls(tmp_path: Path, mounts: str) -> list[str]:
    """What is made and mounted where /proc/mounts is that, in its order."""
    log, programs = tmp_path / "calls", tmp_path / "bin"
    programs.mkdir()
    for name in ("mount", "mkdir"):
        (programs / name).write_text(STUB.format(calls=log))
        (programs / name).chmod(0o755)
    subprocess.run(
        ["/bin/bash", str(HOMES), "/home/al/a lab/run/home"],
        env={"PATH": str(programs)},
        input=mounts,
        text=True,
        check=True,
    )
    return log.read_text(encoding="utf-8").splitlines()


def test_what_lies_below_home_is_kept_before_home_hides_it_and_put_back(tmp_path: Path) -> None:
    mounts = (
        "overlay / overlay rw,relatime 0 0\n"
        "share0 /home/al/a\\040lab/run 9p rw,trans=virtio 0 0\n"
        "share1 /home/bo/results 9p rw,trans=virtio 0 0\n"
    )
    assert calls(tmp_path, mounts) == [
        "mkdir </run/home>",
        "mount <--bind> </home/al/a lab/run/home> </run/home>",
        "mkdir <-p> </run/below/0>",
        "mount <--bind> </home/al/a lab/run> </run/below/0>",
        "mkdir <-p> </run/below/1>",
        "mount <--bind> </home/bo/results> </run/below/1>",
        "mount <--bind> </run/home> </home>",
        "mkdir <-p> </home/al/a lab/run>",
        "mount <--bind> </run/below/0> </home/al/a lab/run>",
        "mkdir <-p> </home/bo/results>",
        "mount <--bind> </run/below/1> </home/bo/results>",
    ]


def test_what_is_not_shared_or_not_below_home_is_left_alone(tmp_path: Path) -> None:
    mounts = (
        "share0 /srv/lab/run 9p rw,trans=virtio 0 0\n"
        "share1 /homework 9p rw,trans=virtio 0 0\n"
        "tmp /home/al/tmp tmpfs rw 0 0\n"
    )
    assert calls(tmp_path, mounts) == [
        "mkdir </run/home>",
        "mount <--bind> </home/al/a lab/run/home> </run/home>",
        "mount <--bind> </run/home> </home>",
    ]
