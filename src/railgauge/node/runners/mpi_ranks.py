"""Run one tool on every rank of a Slurm step.

    srun ... python3 -m railgauge.node.runners.mpi_ranks ranks.json
    mpirun ... python3 -m railgauge.node.runners.mpi_ranks ranks.json
    srun ... python3 -m railgauge.node.runners.mpi_ranks ranks.json run2

Every rank leaves its tool's `rank<N>.out` and `.err`, and last its exit line `rank<N>.json`; in a
job of several steps each has a word that stands before these names (`run2-rank<N>`). A tool that
hangs is asked for its state first (`hang.out`), while all of its ranks still live. Nothing is
started where the tool, or another of the `programs` that it runs, is not there: the facts name them
(`missing`).

Where the order has `watched`, the first rank of a node has the counters in its facts, with the
interfaces beneath (`netdevs`) or those of sockets (`socket_interfaces`), what else shows the same
traffic (`related`), what became of each link (`links`), and what is set of NCCL there (`nccl`).
Where it is `simulated`, a stand-in moves nothing, and the counters say so.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge.node.inventory import nccl
from railgauge.node.orders.ranks import RanksOrder, WatchOrder
from railgauge.node.system import network_path, processes, rdma_devices
from railgauge.node.system.counter_watch import Watch
from railgauge.node.system.tool_call import (
    Call,
    exit_line,
    filled,
    folders_without_room,
    host_name,
    node_name,
    start,
    write_whole,
)

#: What asks a hung job for its state may take so long; the other ranks wait for it.
HANG_S = 20


def without_environment(document: Any) -> Any:
    """A JSON document without the environments in it: they hold whatever the user exported."""
    if isinstance(document, dict):
        return {
            name: without_environment(value)
            for name, value in document.items()
            if not name.lower().startswith("env")
        }
    if isinstance(document, list):
        return [without_environment(value) for value in document]
    return document


def result_of(written: Path) -> Any | None:
    """The JSON that the tool has left on this node's own disk, cleared; None where it has not."""
    try:
        document = json.loads(written.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        # Broken off: its remains may hold the environment.
        document = {"broken": "not a whole JSON document"}
    return without_environment(document)


class RankCall(Call):
    """A call that writes its outputs to the shared folder as it goes: of a job that hangs, or dies
    with its node, they show why.
    """

    def _open(self, argv: list[str], environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
        with Path(f"{self.role}.out").open("wb") as out, Path(f"{self.role}.err").open("wb") as err:
            return start(argv, environment, out, err)


def ask_for_state(argv: Sequence[str]) -> None:
    """Leave what `argv` says of a job that hangs in `hang.out`."""
    with Path("hang.out").open("wb") as out:
        try:
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=HANG_S, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            out.write(f"{argv[0]}: {error}\n".encode())


def _variables(order: RanksOrder) -> dict[str, str]:
    """What the tool is given on this node."""
    return {**order.environment, **order.environment_on.get(node_name(), {})}


def role_of(rank: int, step: str) -> str:
    """What a rank's files and exit line are called; `step` is "" in a job of one."""
    return f"{step}-rank{rank}" if step else f"rank{rank}"


def missing(programs: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Those that are not here, or in an image not in it, as the tool's own PATH has them."""
    path = environment.get("PATH", os.defpath)
    return [name for name in dict.fromkeys(programs) if shutil.which(name, path=path) is None]


def run(order: RanksOrder, rank: int, scratch: str, facts: dict[str, Any], step: str = "") -> Call:
    """This rank's call of the tool."""
    values = {"rank": str(rank), "scratch": scratch}
    # What a user's shell exports must not steer the tool: a long timeout hides a bad link.
    inherited = {n: v for n, v in os.environ.items() if not n.startswith(order.foreign)}
    variables = _variables(order)
    words = filled(list(variables.values()), values)
    environment = {**inherited, **dict(zip(variables, words))}
    role, argv = role_of(rank, step), filled(order.argv, values)
    if lacking := missing([argv[0], *order.programs], environment):
        facts["missing"] = lacking
        return Call.never_started(role, f"not started: {', '.join(lacking)} not found on this node")
    call = RankCall(role, argv, environment)
    try:
        limit_s, ask = order.run_limit_s, order.on_hang
        if ask and rank == 0 and not call.ends_within(limit_s):
            ask_for_state(ask)
            limit_s = 0
        call.wait(limit_s + HANG_S if ask and rank else limit_s)
    finally:
        call.kill("ended with the job")
    return call


#: By the launcher's number of a rank, which rank it is of those on its node.
LOCAL_RANK = {
    "SLURM_PROCID": "SLURM_LOCALID",
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
}


def netdevs_of(devices: Sequence[str]) -> dict[str, list[str]]:
    """The interfaces beneath each RDMA device, those of them that are known."""
    netdevs: dict[str, list[str]] = {}
    for device in devices:
        netdevs[device] = []
        for port in rdma_devices.ports(device):
            with contextlib.suppress(rdma_devices.FactError):
                netdevs[device].append(rdma_devices.netdev(device, port))
    return netdevs


@contextlib.contextmanager
def watched(order: RanksOrder, facts: dict[str, Any]) -> Iterator[None]:
    """The counters and links of this node around what happens inside, by its first rank."""
    wanted = order.watched
    if wanted is None or os.environ.get(LOCAL_RANK[order.rank_variable]) != "0":
        yield
        return
    if wanted.simulated:
        facts["counters"] = {"simulated": True}
        yield
        return
    ways = _ways(wanted, facts)
    interfaces = sorted({name for names in ways.values() for name in names})
    facts["nccl"] = nccl.in_effect(_variables(order))
    facts["sampled"] = sorted({*wanted.devices, *interfaces})
    facts["related"] = related(interfaces)
    watch = Watch(facts["sampled"], budgets=wanted.budgets)
    before = {name: _link(name, names) for name, names in ways.items()}
    watch.start()
    try:
        yield
    finally:
        facts["counters"] = watch.stop()
        facts["links"] = {
            name: {"before": before[name], "after": _link(name, names)}
            for name, names in ways.items()
        }


def _ways(wanted: WatchOrder, facts: dict[str, Any]) -> dict[str, list[str]]:
    """The interfaces beneath each device; over sockets each interface, and its links if a bond.

    Where they are not named, only those with a cable: containers' come and go.
    """
    if wanted.devices:
        facts["netdevs"] = netdevs = netdevs_of(wanted.devices)
        return {
            d: [m for n in names for m in network_path.members_of(n)]
            for d, names in netdevs.items()
        }
    there = rdma_devices.names_in(Path("/sys/class/net"))
    facts["socket_interfaces"] = allowed = allowed_interfaces(wanted.interfaces, there)
    named = allowed if wanted.interfaces else filter(_has_cable, allowed)
    return {name: network_path.members_of(name) for name in named}


def _has_cable(interface: str) -> bool:
    home = Path("/sys/class/net", interface)
    return (home / "device").exists() or (home / "bonding").exists()


def _link(name: str, interfaces: list[str]) -> dict[str, Any]:
    """The states of a device's ports, and how often its carrier has changed, as far as known."""
    changes = network_path.carrier_changes(interfaces)
    return {
        "states": [rdma_devices.port_state(name, port) for port in rdma_devices.ports(name)],
        **({} if changes is None else {"carrier_changes": changes}),
    }


def allowed_interfaces(expression: str, there: Sequence[str]) -> list[str]:
    """Those that NCCL_SOCKET_IFNAME leaves, all but the loopback where it says nothing.

    NVIDIA, NCCL documentation, "Environment Variables": beginnings of names; behind `=` whole
    ones, behind `^` those that are not to be used.
    """
    is_not = expression.startswith("^")
    names = expression.lstrip("^").lstrip("=").split(",") if expression else [""]
    whole = expression.lstrip("^").startswith("=")

    def named(interface: str) -> bool:
        return any(interface == n if whole else interface.startswith(n) for n in names)

    return [one for one in there if one != "lo" and named(one) is not is_not]


def related(interfaces: Sequence[str], root: str = "/sys") -> list[str]:
    """All that shows the traffic of these interfaces too: bonds, bridges, VLANs, what is beneath
    (Linux, Documentation/ABI/testing/sysfs-class-net: `upper_*`, `lower_*`).
    """
    known = dict.fromkeys(interfaces)
    left = list(interfaces)
    while left:
        for entry in rdma_devices.names_in(Path(root, "class/net", left.pop())):
            side, _, name = entry.partition("_")
            if side in ("upper", "lower") and name not in known:
                known[name] = None
                left.append(name)
    return sorted(known)


def terminate(*_: object) -> None:
    """At Slurm's first signal: end the tool and leave the exit line; undisturbed by others."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def leave(call: Call, order: RanksOrder, facts: dict[str, Any], rank: int) -> None:
    line = exit_line(call, order.tool, order.version, facts, rank)
    write_whole(f"{call.role}.json", line)


def main() -> int:
    try:
        order = RanksOrder.read(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        print(f"mpi_ranks.py: {sys.argv[1]}: {error}", file=sys.stderr)
        return 2
    rank = int(os.environ[order.rank_variable])
    step = sys.argv[2] if len(sys.argv) > 2 else ""
    role = role_of(rank, step)
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, terminate)
    full = folders_without_room()
    if full:
        # MPI would hang, or fail with other words, where it cannot write what it starts with.
        call = Call.never_started(role, f"not started: no room in {', '.join(full)}")
        leave(call, order, {"hostname": host_name()}, rank)
        return 1
    with tempfile.TemporaryDirectory(prefix="railgauge-") as scratch:
        call = Call.never_started(role, "ended with the job")
        facts: dict[str, Any] = {"hostname": host_name()}
        try:
            try:
                with watched(order, facts):
                    call = run(order, rank, scratch, facts, step)
            finally:
                # From here on the line is written, whatever ends the job: srun ends all ranks when
                # the first has failed, and this one may just have failed too.
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
        finally:
            result = result_of(Path(scratch, order.result)) if order.result else None
            if result is not None and rank == 0:
                write_whole(str(order.result), result)
            # The signal may come while the tool is being started.
            processes.end_children()
            leave(call, order, facts, rank)
    return 0 if call.exit_code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
