"""The NVIDIA GPUs of the machine under the lab, for its nodes with `host_gpus` (lab.yaml)."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

from railgauge.errors import EnvironmentProblem

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


def of_host() -> Driver:
    """The driver of this machine; EnvironmentProblem, naming what lacks, where it has none."""
    devices = tuple(d for d in sorted(_DEVICES.glob("nvidia*")) if d.is_char_device())
    if not any(re.fullmatch(r"nvidia[0-9]+", device.name) for device in devices):
        raise EnvironmentProblem(f"no GPU of NVIDIA here ({_DEVICES}/nvidia0)", next_step=_NEXT)
    libraries = {path.name: path for path in _libraries() if _LIBRARY.fullmatch(path.name)}
    if missing := [name for name in _REQUIRED if name not in libraries]:
        raise EnvironmentProblem(f"NVIDIA's driver lacks {', '.join(missing)}", next_step=_NEXT)
    program = shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path=str(_MOUNTED / "bin"))
    if program is None:
        raise EnvironmentProblem(f"NVIDIA's driver lacks {_PROGRAM}", next_step=_NEXT)
    return Driver(devices, tuple(libraries[name] for name in sorted(libraries)), Path(program))


def _libraries() -> list[Path]:
    cache = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False)
    known = [Path(path) for path in re.findall(r"=> (/.*)$", cache.stdout, re.MULTILINE)]
    return [*known, *sorted(_MOUNTED.glob("lib64/*.so.*"))]
