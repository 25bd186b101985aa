"""What the devices of two nodes counted while a tool ran, and what the tool reported."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from railgauge.checks.framework import byte_accounting
from railgauge.checks.framework.cases import Case
from railgauge.checks.framework.observation import ExitLine, Facts
from railgauge.checks.jobs.sweep_output import SweepOutput
from railgauge.model.reported_traffic import Claim
from railgauge.tools import Moved, Reading

if TYPE_CHECKING:
    from railgauge.checks.jobs.client_server import PairRun


def _counted(node_facts: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The counters of the device that a node names in its facts.

    RDMA is counted by the port, by the interface beneath it (Soft-RoCE), or by the interfaces of
    both links that are one device. See `railgauge.node.system.counters.byte_counts`.
    """
    device = node_facts.get("device")
    if device is None:
        return ()
    if "port" not in node_facts:
        return ((device,),)
    netdev = node_facts.get("netdev")
    others = tuple(
        f"ethtool/{n}" for n in node_facts.get("sampled", ()) if n not in (device, netdev)
    )
    ways: list[tuple[str, ...]] = [(f"rdma/{device}/{node_facts['port']}",)]
    if netdev is not None:
        ways += [(netdev,), others or (f"ethtool/{netdev}",)]
    return tuple(ways)


def _counted_by(node: str, lines: Iterable[ExitLine]) -> tuple[int, int]:
    """The bytes that a node received and sent in a run by the devices of its lines, of which one
    has the record of all; what has no counter counts nothing.
    """
    of_node = [line.facts for line in lines if line.call.host == node]
    record: byte_accounting.Record = next(
        (facts["counters"] for facts in of_node if "counters" in facts), {}
    )
    received, sent = (
        sum(byte_accounting.counted(_counted(facts), way, record) or 0 for facts in of_node)
        for way in ("rx", "tx")
    )
    return received, sent


def counted_runs(place: Case, output: SweepOutput) -> Iterator[Mapping[str, tuple[int, int]]]:
    """Each run at a place: the bytes that the nodes' own devices received and sent."""
    runs: dict[str, list[ExitLine]] = {}
    for role in output.sides(place):
        with contextlib.suppress(ValueError):  # it is no exit line, and its place says so
            if (line := output.exit_line(place, role)) is not None:
                runs.setdefault(role.rpartition("/")[0], []).append(line)
    for lines in runs.values():
        yield {node: _counted_by(node, lines) for node in place.nodes}


def claims(run: PairRun, reading: Reading, facts: Facts) -> list[Claim]:
    """The claims of each side in each direction: what its device must have counted."""
    return [
        claim
        for role, node in run.nodes.items()
        for claim in side_claims(run, reading, role, facts.get(node, {}))
    ]


def side_claims(
    run: PairRun, reading: Reading, role: str, node_facts: Mapping[str, Any]
) -> list[Claim]:
    """The claims of one side, in each direction in which something was moved."""
    return [
        _claim(run, moved, role, inward, node_facts)
        for inward in (True, False)
        if (moved := [m for m in reading.moved if (m.to == role) is inward])
    ]


def _claim(
    run: PairRun, moved: Sequence[Moved], role: str, inward: bool, node_facts: Mapping[str, Any]
) -> Claim:
    shares = [run.payload_share(m, node_facts) for m in moved]
    whole = not run.shares_devices and not any(m.at_least for m in moved)
    known = [share for share in shares if share is not None]
    wire_bytes = None
    if whole and len(known) == len(shares):
        wire_bytes = sum(m.payload_bytes / s for m, s in zip(moved, known, strict=True))
    ways = _counted(node_facts)
    # What the tool gave to its kernel, which had not sent it when the counters were read.
    unsent = 0 if inward else node_facts.get("unsent_bytes", 0)
    return Claim(
        f"{run.tool.name} ({role})",
        run.nodes[role],
        "rx" if inward else "tx",
        (ways,) if ways else (),
        max(sum(m.payload_bytes for m in moved) - unsent, 0),
        sum(m.seconds for m in moved),
        wire_bytes,
    )
