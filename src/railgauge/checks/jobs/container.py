"""Programs that come in an image: what Slurm's launcher is told (Pyxis), and where they are from.

A container sees what is mounted alone: without the program nothing of ours starts in it, without
the site's descriptions it has no input files, and without the results area it leaves nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from railgauge import paths
from railgauge.model.call import Call


def launcher_options(
    image: str | None, results: str, workdir: str, mounts: Sequence[str] = ()
) -> list[str]:
    """Words for a shell; none without an image. `results` is mounted, and so are the program and
    the `mounts` that it needs itself. `workdir` is where it runs.

    https://github.com/NVIDIA/pyxis, "Usage"
    """
    if not image:
        return []
    own = [] if paths.SITE.is_relative_to(paths.PROGRAM) else [str(paths.SYSTEMS)]
    seen = ",".join([str(paths.PROGRAM), *own, results, *mounts])
    options = {"image": image, "mounts": seen, "workdir": workdir}
    return [shlex.quote(f"--container-{name}={value}") for name, value in options.items()]


def package(image: str | None, call: Call) -> str:
    """What brought the program of a call: the image, unless it lies in that of the program."""
    inside = call.path and not Path(call.path).is_relative_to(paths.PROGRAM)
    return f"image {image}" if image and inside else call.package
