"""A side's part in a measurement next to load: which CPUs its tool has, and which are kept busy.

The order names the `state` of the host: idle; busy, on the tool's own CPUs; beside, on others; far,
where the host is idle and the tool on another NUMA node than its NIC. The tool is bound to `cores`
CPUs near its NIC, of a virtual machine to those that the order calls `near`. What loads the machine
is `stressor.py`, here or on the hypervisor of this node, from before the tool starts until it has
ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from railgauge.node.orders.places import CpuLoadOrder
from railgauge.node.runners import stressor
from railgauge.node.system import processes
from railgauge.node.system.network_path import PathError, cpus_of, folded, of_device
from railgauge.node.system.tool_call import read_sysfs, start
from railgauge.node.transport.channel import Peer

Facts = dict[str, Any]

#: Time for the stressors' first line: their own start, and a connection's.
_BEGIN_S = stressor.BEGIN_S + 10
_LOOK_S = 20.0
_END_S = 20.0

#: The client's word that it has ended, and so long the server's side waits for it.
_MEASURED = "measured"
_CLIENT_S = 30.0

# A connection of its own: a user's master of several may keep what it prints to open after its end.
_SSH = ("ssh", "-oBatchMode=yes", "-oConnectTimeout=10", "-oControlMaster=no", "-oControlPath=none")


@contextlib.contextmanager
def _no_state_in(facts: Facts) -> Iterator[None]:
    """Record as `no_state` in `facts` why the state cannot be had: the tool is not at fault."""
    try:
        yield
    except PathError as error:
        facts["no_state"] = str(error)
        raise


def place(order: CpuLoadOrder | None, role: str, facts: Facts) -> None:
    """Choose the tool's CPUs, and those to be kept busy, and put them into `facts`; PathError where
    this node has no such.
    """
    if order is not None:
        with _no_state_in(facts):
            _place(order, role, facts)


def _place(order: CpuLoadOrder, role: str, facts: Facts) -> None:
    allowed = frozenset(os.sched_getaffinity(0))
    on = order.on.get(role)
    stated = on.near if on else None
    near = cpus_of({"cpus": stated} if stated else facts) & allowed
    device, state = facts.get("netdev") or facts.get("device"), order.state
    if stated and not near:
        raise PathError(
            f"none of this node's CPUs, {folded(allowed)}, is of {stated}, near {device}"
        )
    if state == "far":
        home = near and allowed - near
        if not home:
            known = f"near {device}" if near else f"as near to {device} as others, as far as known"
            # Also those that the job may not use.
            online = cpus_of({"cpus": read_sysfs("/sys/devices/system/cpu/online") or ""})
            numa = stressor.numa_nodes(sorted(online))
            _nowhere_far(facts, f"all of this node's CPUs, {folded(allowed)}, are {known}", numa)
    else:
        home = near or allowed
    tool = frozenset(sorted(home)[: order.cores])
    facts["cpus"] = folded(tool)
    contention: Facts = {
        "state": state,
        "tool_cpus": folded(tool),
        "nic_numa_node": _numa_of_nic(facts),
        "tool_numa_nodes": stressor.numa_nodes(sorted(tool)),
    }
    facts["contention"] = contention
    if stated:
        contention["near"] = folded(near)
    if on is not None:
        contention["on"] = on.host
        return
    others = allowed - {sibling for cpu in tool for sibling in _siblings(cpu)}
    if state == "beside" and not others:
        raise PathError(
            f"this node has no CPU other than the tool's, {folded(tool)}, of {folded(allowed)}"
        )
    contention["stressed"] = folded(others if state == "beside" else tool)


def _nowhere_far(facts: Facts, why: str, numa: list[int]) -> NoReturn:
    """Of a machine with one NUMA node that is a fact, and no fault; `numa` are those known."""
    if len(numa) == 1:
        facts["one_numa_node"] = True
    raise PathError(why)


def _numa_of_nic(facts: Facts) -> int | None:
    """The NUMA node of the NIC; None where the machine has one only, or does not say (-1)."""
    folders = [f"/sys/class/infiniband/{facts['device']}/device"] if "port" in facts else []
    folders += [f"/sys/class/net/{facts.get(name)}/device" for name in ("netdev", "device")]
    number = next((text for one in folders if (text := of_device(one, "numa_node"))), "-1")
    return None if int(number) < 0 else int(number)


def _siblings(cpu: int) -> frozenset[int]:
    """The hardware threads of the CPU's core: what one of them does slows the others down."""
    path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    return cpus_of({"cpus": read_sysfs(path) or ""}) | {cpu}


def _argv(order: CpuLoadOrder, role: str, contention: Facts) -> list[str]:
    """How the stressors, or the watcher of an idle host, are started."""
    wanted: Facts = {}
    if order.state in ("busy", "beside"):
        wanted = {"program": list(order.program), "at_most_s": order.at_most_s}
    on = order.on.get(role)
    if on is None:
        wanted["cpus"] = contention["stressed"]
        return [sys.executable, "-E", "-S", stressor.__file__, json.dumps(wanted)]
    wanted.update({"cpus": on.cpus} if on.but is None else {"but": on.but})
    text = Path(stressor.__file__).read_text(encoding="utf-8")
    return [*_SSH, on.host, shlex.join(["python3", "-c", text, json.dumps(wanted)])]


class _Stressors:
    """The process that keeps this node, or its hypervisor, busy; hears every few seconds that this
    side lives.
    """

    def __init__(self, argv: list[str]) -> None:
        try:
            pipe = subprocess.PIPE
            self._call = start(argv, None, pipe, pipe, stdin=pipe)
        except OSError as error:
            raise PathError(f"{argv[0]} cannot be started: {error}") from None
        assert self._call.stdin and self._call.stdout and self._call.stderr
        self._in, self._out, self._errors = self._call.stdin, self._call.stdout, self._call.stderr
        self._rest = b""
        self._ended, self._writing = threading.Event(), threading.Lock()
        self._beats = threading.Thread(target=self._beat, name="stressors", daemon=True)
        # A thread that took SIGTERM would let it into what the main thread keeps it from.
        with processes.undisturbed():
            self._beats.start()

    def _beat(self) -> None:
        while not self._ended.wait(stressor.BEAT_S):
            self._write("")

    def _write(self, line: str) -> None:
        # One that has ended, or is being ended, hears nothing more.
        with self._writing, contextlib.suppress(OSError, ValueError):
            self._in.write(f"{line}\n".encode())
            self._in.flush()

    def receive(self, limit_s: float) -> Facts:
        """The next line of the stressors; PathError where none comes."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            left_s = deadline - time.monotonic()
            ready = select.select([self._out], [], [], max(left_s, 0))[0]
            data = os.read(self._out.fileno(), 1 << 16) if ready else b""
            if not data:
                self._fail(f"said nothing within {limit_s:g} s" if left_s <= 0 else "ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            report: Facts = json.loads(line)
        except ValueError:
            self._fail(f"said {line[:80].decode('utf-8', 'replace')!r}")
        if "refused" in report:
            self._fail(report["refused"])
        return report

    def _fail(self, why: str) -> NoReturn:
        self.end()
        words = self._errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        raise PathError(": ".join(["what keeps the host busy", why, *words]))

    def look(self) -> Facts:
        """The state of the CPUs now."""
        self._write(stressor.LOOK)
        return self.receive(_LOOK_S)

    def end(self) -> None:
        """End the stressors, by closing their input."""
        self._ended.set()
        self._beats.join()
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        try:
            self._call.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._call.kill()
            self._call.wait()


def _own_user_s() -> float:
    """What this side and its tool used of their CPUs so far, without the kernel's part."""
    used_by = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(one).ru_utime for one in used_by)


@contextlib.contextmanager
def made(order: CpuLoadOrder | None, role: str, facts: Facts, peer: Peer) -> Iterator[None]:
    """The host in the state that is asked for while what is inside runs, on the server's side until
    the client has ended, and in `facts` how it was before and after. PathError where it cannot be
    had.
    """
    if order is None:
        yield
        return
    contention = facts["contention"]
    loads = not (role in order.on and order.on[role].by_other)
    with _no_state_in(facts):
        stressors = _Stressors(_argv(order, role, contention)) if loads else None
    try:
        with _no_state_in(facts):
            before = stressors.receive(_BEGIN_S) if stressors else None
            host = contention.get("on")
            numa = before["numa_nodes"] if before and host else []
            if before and host and order.state == "far" and len(numa) < 2:
                nodes = f"NUMA node {numa[0]}" if numa else "unknown NUMA nodes"
                _nowhere_far(facts, f"the CPUs of {host}, {before['cpus']}, are of {nodes}", numa)
        own_s = _own_user_s()
        yield
        contention["own_s"] = round(_own_user_s() - own_s, 3)
        if role == "client":
            peer.send(_MEASURED)
        else:
            peer.receive(_MEASURED, _CLIENT_S)
        if stressors and before:
            contention["before"] = before
            _look_back(stressors, contention)
    finally:
        if stressors:
            stressors.end()


def _look_back(stressors: _Stressors, contention: Facts) -> None:
    try:
        contention["after"] = stressors.look()
        stressors.end()
        contention["end"] = stressors.receive(_LOOK_S) if "running" in contention["before"] else {}
    except PathError as error:
        contention["lost"] = str(error)
