"""A link of the lab that comes and goes: pulled for a fifth of the time, by a process of the lab.

    python3 -m railgauge.lab.flapping LAB MACHINE INTERFACE PERIOD_S

It is among the lab's own processes, so that it ends with the lab, however that ends; on SIGTERM it
plugs the link in and ends.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from railgauge import paths
from railgauge.common.errors import PrerequisiteError
from railgauge.lab.cluster import Lab
from railgauge.lab.folders import Folders
from railgauge.lab.spec import LabSpec

_BOOT = Path(__file__).parent / "boot"

#: The share of the time for which the link is down.
DOWN_SHARE = 0.2

_END_S = 10


def _name(machine: str, interface: str) -> str:
    """By which the process is recorded among the lab's machines."""
    return f"flap-{machine}-{interface}"


def start(lab: Lab, machine: str, interface: str, period_s: float) -> None:
    """Let a link flap; PrerequisiteError where its machine is off."""
    lab.require_machine(machine)
    name = _name(machine, interface)
    lab.start_process(
        name,
        [
            *(str(_BOOT / "process"), str(lab.folders.machines / f"{name}.pid")),
            *("env", f"PYTHONPATH={paths.SOURCE}", sys.executable, "-m", "railgauge.lab.flapping"),
            *(str(lab.folders.lab), machine, interface, f"{period_s:g}"),
        ],
    )


def runs(lab: Lab, machine: str, interface: str) -> bool:
    return lab.machine(_name(machine, interface)) is not None


def end(lab: Lab, machine: str, interface: str) -> None:
    """End the process, which may have left the link pulled."""
    process = lab.machine(_name(machine, interface))
    if process is None:
        return
    process.kill(signal.SIGTERM)
    if not process.wait_until_ended(_END_S):
        process.kill()
        process.wait_until_ended(_END_S)


def states(period_s: float) -> Iterator[tuple[bool, float]]:
    """Whether the link is up, and for how many seconds, for ever."""
    while True:
        yield False, DOWN_SHARE * period_s
        yield True, (1 - DOWN_SHARE) * period_s


def flap(lab: Lab, machine: str, interface: str, period_s: float) -> None:
    """Pull the link and plug it in, until SIGTERM."""
    try:
        for up, seconds in states(period_s):
            until = time.monotonic() + seconds
            _set(lab, machine, interface, up)
            time.sleep(max(0.0, until - time.monotonic()))
    finally:
        _set(lab, machine, interface, up=True)


def _set(lab: Lab, machine: str, interface: str, up: bool) -> None:
    links, member = lab.links(machine)
    # A machine that is off has no link.
    with contextlib.suppress(PrerequisiteError):
        links.set_link(lab, member, interface, up=up)


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, _terminate)
    folder, machine, interface, period_s = sys.argv[1:]
    recorded = (Folders(Path(folder)).run / "lab.json").read_text()
    lab = Lab(LabSpec.model_validate_json(recorded), {}, Path(folder))
    flap(lab, machine, interface, float(period_s))


if __name__ == "__main__":
    main()
