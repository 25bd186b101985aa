"""The NVIDIA GPUs of the machine under the lab, for its nodes with `host_gpus` (lab.yaml)."""

from __future__ import annotations

import dataclasses
import platform
import re
import shutil
import subprocess
from pathlib import Path

from railgauge.common.errors import PrerequisiteError

_DEVICES = Path("/dev")

#: Where images of containers have the driver, beside what ldconfig knows.
_MOUNTED = Path("/usr/local/nvidia")

#: What CUDA programs and nvidia-smi load of the driver.
_LIBRARY = re.compile(r"lib(cuda|nvidia-(ml|ptxjitcompiler|nvvm|gpucomp))\.so\.[0-9.]+")
_REQUIRED = ("libcuda.so.1", "libnvidia-ml.so.1")

_PROGRAM = "nvidia-smi"
_NEXT = "nvidia-smi must answer on this machine first; or railgauge lab up, with GPUs simulated"


@dataclasses.dataclass(frozen=True)
class Driver:
    """Its character devices, libraries and nvidia-smi, where this machine has them."""

    devices: tuple[Path, ...]
    libraries: tuple[Path, ...]
    program: Path

    def bound(self) -> str:
        """A line a file, `FILE<tab>PATH IN A NODE`, as `boot/machine` reads it."""
        places = [
            *((device, device) for device in self.devices),
            *((library, Path("/usr/lib") / library.name) for library in self.libraries),
            (self.program, Path("/usr/bin") / _PROGRAM),
        ]
        return "".join(f"{file}\t{target}\n" for file, target in places)


def of_host(count: int) -> Driver:
    """The driver of this machine; PrerequisiteError, naming what lacks, where it has none, or not
    so many GPUs as a node shall have.
    """
    devices = tuple(d for d in sorted(_DEVICES.glob("nvidia*")) if d.is_char_device())
    names = {device.name for device in devices}
    if lacking := [f"{_DEVICES}/nvidia{n}" for n in range(count) if f"nvidia{n}" not in names]:
        message = f"nodes of this lab use the GPUs of this machine: no {', '.join(lacking)}"
        raise PrerequisiteError(message, next_step=_NEXT)
    libraries: dict[str, Path] = {}
    for path in _libraries():
        if _LIBRARY.fullmatch(path.name):
            libraries.setdefault(path.name, path)
    if missing := [name for name in _REQUIRED if name not in libraries]:
        raise PrerequisiteError(f"NVIDIA's driver lacks {', '.join(missing)}", next_step=_NEXT)
    program = shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path=str(_MOUNTED / "bin"))
    if program is None:
        raise PrerequisiteError(f"NVIDIA's driver lacks {_PROGRAM}", next_step=_NEXT)
    return Driver(devices, tuple(libraries[name] for name in sorted(libraries)), Path(program))


def _libraries() -> list[Path]:
    """Those that the loader knows for programs of this machine's kind, then the mounted ones."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        cache = subprocess.run([ldconfig, "-p"], stdout=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise PrerequisiteError(f"{ldconfig} -p: {error}", next_step=_NEXT) from None
    kind = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(platform.machine(), "")
    known = re.findall(rf"\([^)]*{kind}[^)]*\) => (/.*)$", cache.stdout, re.MULTILINE)
    return [*map(Path, known), *sorted(_MOUNTED.glob("lib64/*.so.*"))]
