"""Faults of the simulated InfiniBand subnet (`subnet.py`)."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.lab import subnet
from railgauge.lab.cluster import Lab
from railgauge.lab.fault import Fault, Kind
from railgauge.lab.subnet_topology import WIDTHS, Port

_BOOT = Path(__file__).parent / "boot"

#: The lanes of a healthy link, and the rate of each in Gb/s.
_LANES, _GBITS = 12, 10.0

#: The rate of a lane, in Gb/s -> LinkSpeedEnabled: that rate and those below it.
_SPEEDS_ENABLED = {2.5: 1, 5.0: 3, 10.0: 7}

#: Where opensm keeps the LIDs that it has given, from one start to the next.
_LIDS = "opensm/guid2lid"

#: By how much all LIDs change.
_LID_STEP = 100

#: A second opensm is master, and known to the ports, within so many seconds.
_START_S = 60

#: What ibstat prints of a port, and its bit IsSM (InfiniBand Architecture 1.4, 14.2.5.6).
_MASK = re.compile(r"Capability mask: (0x[0-9a-f]+)")
_IS_SM = 0x2

#: opensm is started so often at most; the mark of its port stays, or is gone after so long.
_STARTS, _MARKED_S = 5, 1.0

#: What `saquery -s` prints of each port with a subnet manager.
_MANAGER = "EndPortLid"

#: The counter that grows, and where it stops: 16 bits.
_ERRORS, _MOST_ERRORS = "PortCounters.SymbolErrorCounter", 65535


def _ports(lab: Lab, fault: Fault) -> tuple[Port, Port]:
    return subnet.link(lab, fault.node or "", fault.interface or "")


def _quoted(lab: Lab, fault: Fault) -> list[str]:
    """The same two ports as ibsim's console takes them."""
    return [subnet.of(lab.spec).quoted(port) for port in _ports(lab, fault)]


def _unplug(lab: Lab, fault: Fault) -> None:
    near, _ = _quoted(lab, fault)
    subnet.console(lab, f"Unlink {near}")


def _plug(lab: Lab, fault: Fault) -> None:
    near, far = _quoted(lab, fault)
    subnet.console(lab, f"Link {near} {far}")


def _move(lab: Lab, fault: Fault) -> None:
    """Plug an HCA's cable into a free port of another leaf."""
    near, _ = _quoted(lab, fault)
    ports = subnet.of(lab.spec)
    leaf = subnet.switch(lab, f"leaf{fault.value:g}")
    free = ports.quoted(ports.free_port(leaf.name))
    _unplug(lab, fault)
    subnet.console(lab, f"Link {near} {free}")


def _move_back(lab: Lab, fault: Fault) -> None:
    _unplug(lab, fault)
    _plug(lab, fault)


def _set(lab: Lab, fault: Fault, setting: str, value: int) -> None:
    """Give both ends of a link another width or speed, as if it had trained to that."""
    for port in _ports(lab, fault):
        device = subnet.of(lab.spec).device(port.device)
        # The port of an HCA has a GUID of its own, those of a switch have the switch's.
        guid = device.guid + (port.port if device.kind == "hca" else 0)
        lab.on_head("ibportstate", "-G", f"0x{guid:x}", str(port.port), setting, str(value))


def _set_lanes(lab: Lab, fault: Fault) -> None:
    if fault.value not in WIDTHS:
        raise RailgaugeError(
            f"LANES is {fault.value:g}, expected one of {', '.join(map(str, WIDTHS))}"
        )
    _set(lab, fault, "width", WIDTHS[int(fault.value)])


def _restore_lanes(lab: Lab, fault: Fault) -> None:
    _set(lab, fault, "width", WIDTHS[_LANES])


def _set_lane_rate(lab: Lab, fault: Fault) -> None:
    if fault.value not in _SPEEDS_ENABLED:
        rates = ", ".join(f"{rate:g}" for rate in _SPEEDS_ENABLED)
        raise RailgaugeError(f"GBITS is {fault.value:g}, expected one of {rates} (a lane)")
    _set(lab, fault, "speed", _SPEEDS_ENABLED[fault.value])


def _restore_lane_rate(lab: Lab, fault: Fault) -> None:
    _set(lab, fault, "speed", _SPEEDS_ENABLED[_GBITS])


def _name(fault: Fault) -> str:
    """By which the process that counts errors is recorded among the lab's machines."""
    return f"ib-errors-{fault.node}-{fault.interface}"


def _count_errors(lab: Lab, fault: Fault) -> None:
    port, _ = _quoted(lab, fault)
    lab.start_process(
        _name(fault),
        [
            *(str(_BOOT / "process"), str(lab.folders.machines / f"{_name(fault)}.pid")),
            *("bash", "-c", _COUNT, str(subnet.folder(lab) / "console")),
            *(f"PerformanceSet {port} {_ERRORS}=", f"{fault.value:g}", str(_MOST_ERRORS)),
        ],
    )


#: As ibsim sets counters and does not add to them, the loop does the sum.
_COUNT = """
for ((second = 1; ; second++)); do
  sleep 1
  count=$(awk "BEGIN { n = int($second * $2); print (n < $3 ? n : $3) }")
  printf '%s%s\\n' "$1" "$count" >"$0"
done
"""


def _end_errors(lab: Lab, fault: Fault) -> None:
    process = lab.machine(_name(fault))
    if process is not None:
        process.kill(signal.SIGKILL)
        process.wait_until_ended()
    port, _ = _quoted(lab, fault)
    subnet.console(lab, f"PerformanceSet {port} {_ERRORS}=0")


def _switch_off(lab: Lab, fault: Fault) -> None:
    device = subnet.switch(lab, fault.node or "")
    subnet.console(lab, f'Unlink "{device.node_id}"')


def _switch_on(lab: Lab, fault: Fault) -> None:
    device = subnet.switch(lab, fault.node or "")
    subnet.console(lab, f'ReLink "{device.node_id}"')


def _stop_opensm(lab: Lab, _: Fault) -> None:
    subnet.of(lab.spec)
    lab.stop_service("opensm")


def _start_first(lab: Lab) -> None:
    """Start opensm on the head, again where ibsim has taken the mark of a subnet manager from its
    port: it does so late for the one that ended before, and the subnet would have none in its list.
    """
    for _ in range(_STARTS):
        lab.start_service("opensm")
        time.sleep(_MARKED_S)
        shown = _MASK.search(lab.on_head("ibstat", "ibsim0", "1", check=False).stdout)
        if shown is None or int(shown[1], 16) & _IS_SM:
            return
        lab.stop_service("opensm")
    raise PrerequisiteError(
        f"ibsim shows no subnet manager after {_STARTS} starts of opensm",
        next_step="railgauge lab logs opensm",
    )


def _start_opensm(lab: Lab, _: Fault) -> None:
    if not lab.service_runs("opensm"):
        _start_first(lab)


def _change_lids(lab: Lab, fault: Fault) -> None:
    _stop_opensm(lab, fault)
    known = subnet.folder(lab) / _LIDS
    lines = []
    for line in known.read_text().splitlines():
        guid, *lids = line.split() or ("",)
        lines.append(" ".join([guid, *(f"0x{int(lid, 16) + _LID_STEP:04x}" for lid in lids)]))
    known.write_text("\n".join(lines) + "\n")
    _start_first(lab)


#: One that does not end by itself is killed after 10 s.
_END_OPENSM = (
    *("bash", "-c"),
    "pkill -TERM -x opensm; for ((n = 0; n < 100; n++)); do pgrep -x opensm >/dev/null || exit 0; "
    "sleep 0.1; done; pkill -KILL -x opensm",
)


#: The process id of a second opensm, or a little more.
_PID = 30000


def _start_second(lab: Lab, fault: Fault) -> None:
    """Start a subnet manager on a node that does not look for others (`-d0`). The first one goes on
    as the master that it is.
    """
    subnet.of(lab.spec)
    node = fault.node or ""
    folder = subnet.folder(lab) / f"opensm-{node}"
    folder.mkdir(exist_ok=True)
    log = lab.folders.log / f"opensm-{node}.log"
    opensm = ["opensm", "--daemon", "-d0", "--sweep", "2", "--log_file", str(log)]
    own = [f"OSM_TMP_DIR={folder}", f"OSM_CACHE_DIR={folder}"]
    # A client of ibsim names its socket by its process id, and all share one network namespace.
    # The machines count processes each from 1: this one gets a number that no other one reaches.
    last = "/proc/sys/kernel/ns_last_pid"
    far_away = (
        f'read -r n <{last}; echo {_PID} >{last}; "$@"; code=$?; echo "$n" >{last}; exit $code'
    )
    _run(lab, node, "bash", "-c", far_away, "bash", "env", *own, *opensm)
    deadline = time.monotonic() + _START_S
    while not (_is_master(log) and _managers(lab) > 1):
        if time.monotonic() > deadline:
            said = log.read_text(errors="replace").splitlines()[-3:] if log.exists() else []
            # Ports may obey it by now.
            _end_second(lab, fault)
            raise PrerequisiteError(
                f"after {_START_S} s the subnet has one manager, expected a second on {node}; the "
                f"last lines of its log: {' / '.join(said) or 'none'}",
                next_step="railgauge lab logs opensm; then again",
            )
        time.sleep(0.2)


def _is_master(log: Path) -> bool:
    return log.exists() and "Entering MASTER state" in log.read_text(errors="replace")


def _managers(lab: Lab) -> int:
    """How many subnet managers the one has in its list that the head's port obeys. A new master has
    itself in it before it has set the ports, so that the other one still answers.
    """
    return lab.on_head("saquery", "-s", check=False).stdout.count(_MANAGER)


def _end_second(lab: Lab, fault: Fault) -> None:
    """End it, and have the first one set all ports again: they obey the last one that set them."""
    node = fault.node or ""
    if lab.machine(node) is not None:
        # Not by SIGKILL: it takes the mark of a subnet manager from its port as it ends.
        _run(lab, node, *_END_OPENSM)
    (lab.folders.log / f"opensm-{node}.log").unlink(missing_ok=True)
    lab.on_head("pkill", "-HUP", "-x", "opensm", check=False)


def _run(lab: Lab, node: str, *command: str) -> None:
    ended = subprocess.run(lab.enter(node, *command), capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise PrerequisiteError(f"{node}: `{' '.join(command)}`: {ended.stderr.strip()}")


KINDS: dict[str, Kind] = {
    "ib-down": Kind(
        "pull a cable of the InfiniBand subnet",
        *(_unplug, _plug),
        on="ib-link",
        outlasts_power=True,
    ),
    "ib-moved": Kind(
        "plug a cable into a free port of the leaf of that NUMBER",
        *(_move, _move_back),
        on="ib-link",
        unit="NUMBER",
        outlasts_power=True,
    ),
    "ib-lanes": Kind(
        "let an InfiniBand link run with 1, 4 or 8 LANES (12 when healthy)",
        *(_set_lanes, _restore_lanes),
        on="ib-link",
        unit="LANES",
        outlasts_power=True,
    ),
    "ib-lane-rate": Kind(
        "let the lanes of an InfiniBand link run at 2.5 or 5 GBITS (10 when healthy)",
        *(_set_lane_rate, _restore_lane_rate),
        on="ib-link",
        unit="GBITS",
        outlasts_power=True,
    ),
    "ib-errors": Kind(
        "count symbol errors at a port, so many PER_SECOND",
        *(_count_errors, _end_errors),
        on="ib-link",
        unit="PER_SECOND",
        outlasts_power=True,
    ),
    "ib-switch-off": Kind(
        "take a switch out of the InfiniBand subnet",
        *(_switch_off, _switch_on),
        on="ib-switch",
        outlasts_power=True,
    ),
    "opensm-stop": Kind("kill opensm", _stop_opensm, _start_opensm, outlasts_power=True),
    "opensm-second": Kind(
        "start a second master of the InfiniBand subnet on a node",
        *(_start_second, _end_second),
        on="node",
    ),
    "opensm-lids": Kind("restart opensm with other LIDs", _change_lids, None),
}
