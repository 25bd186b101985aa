"""What a job's ranks used together, and what is wrong with their logs."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from railgauge.common.ranges import fold_numbers
from railgauge.hostlist import fold_ranks
from railgauge.tools import ParseError
from railgauge.tools.nccl_log.result import Log
from railgauge.tools.nccl_log.text import ADVICE, is_ib, parse


@dataclasses.dataclass(frozen=True)
class Used:
    """What all ranks of a job used together.

    `seen` has the keys `within_nodes` and `between_nodes` (sorted tuples of kinds; NVLink between
    nodes is "MNNVL"), `network` and `collnet` (sorted tuples of the networks' own names, such as
    "IBext_v8" and "SHARP/GDRDMA"), `nvls` and `mnnvl` (whether every rank has it; `mnnvl` only
    where a domain spans nodes), `hcas` (node -> sorted tuple of the names of HCAs that carry
    connections between nodes; every node is there), and `nccl_version` ("unknown" where no log
    has it). `problems` are contradictions and gaps: with any, `seen` proves nothing.

    "COLLNET" is in `between_nodes` only where nothing else is: a job that reduces in the network
    still connects its ranks, and if those connections fall back (to sockets, or off GPUDirect),
    that is to be seen as without CollNet.
    """

    seen: Mapping[str, Any]
    problems: tuple[str, ...]
    simulated: bool


def read(logs: Mapping[int, str], hosts: Mapping[int, str]) -> Used:
    """Judge the logs of all ranks (rank -> text), which ran on these nodes (rank -> node)."""
    problems = _Problems(hosts)
    parsed: dict[int, Log] = {}
    if not hosts:
        problems.add("no rank is expected")
    for rank in sorted({*logs, *hosts}):
        if rank not in hosts:
            problems.add(f"there is a log of rank {rank}, expected ranks 0 to {len(hosts) - 1}")
        elif rank not in logs:
            problems.add("no log", rank)
        else:
            try:
                parsed[rank] = parse(logs[rank])
            except ParseError as error:
                problems.add(f"its log: {error}", rank)
    for rank, log in parsed.items():
        _judge(problems, rank, log, hosts)
    _compare(problems, parsed)
    within, between, hcas = _ways(problems, parsed, hosts)
    nodes = set(hosts.values())
    whole = bool(hosts) and len(parsed) == len(hosts)
    connecting = {rank for rank, log in parsed.items() if log.connections or log.collnets}
    if parsed and len(hosts) > 1 and not connecting:
        problems.add(
            "no rank's log has a connection: the tool used none, or the logs are cut; "
            "NCCL_RUNTIME_CONNECT=0 makes NCCL connect when it starts"
        )
    elif parsed and len(nodes) > 1 and not between:
        silent = sorted(nodes - {hosts[rank] for rank, log in parsed.items() if log.collnets})
        if not silent:
            between.add("COLLNET")
        elif len(silent) == len(nodes):
            problems.add("no rank's log has a connection between nodes")
        else:
            problems.add(f"no connection between nodes in the logs of {', '.join(silent)}")
    versions = sorted({log.version for log in parsed.values() if log.version})
    if parsed and not versions:
        problems.add("no rank's log has the version of NCCL")
    return Used(
        seen={
            "within_nodes": tuple(sorted(within)),
            "between_nodes": tuple(sorted(between)),
            "network": tuple(sorted(set().union(*map(_networks, parsed.values())))),
            "collnet": tuple(
                sorted(
                    {
                        f"{collnet.network}{'/GDRDMA' if collnet.gdr else ''}"
                        for log in parsed.values()
                        for collnet in log.collnets
                    }
                )
            ),
            "nvls": whole and _all_of(parsed, "nvls"),
            "mnnvl": whole and len(nodes) > 1 and all(_spans(parsed, hosts)),
            "hcas": {node: tuple(sorted(hcas[node])) for node in sorted(nodes)},
            "nccl_version": " and ".join(versions) or "unknown",
        },
        problems=problems.texts(),
        simulated=any(log.simulated for log in parsed.values()),
    )


def _networks(log: Log) -> set[str]:
    return {*log.networks, *(c.network for c in log.connections if c.network is not None)}


class _Problems:
    """Collects problems, and states each once for all ranks that have it."""

    def __init__(self, hosts: Mapping[int, str]) -> None:
        self._hosts = hosts
        self._ranks: dict[str, list[int]] = {}

    def add(self, message: str, *ranks: int) -> None:
        known = self._ranks.setdefault(message, [])
        known += [rank for rank in ranks if rank not in known]

    def texts(self) -> tuple[str, ...]:
        return tuple(
            f"{self._label(sorted(ranks))}: {message}" if ranks else message
            for message, ranks in self._ranks.items()
        )

    def _label(self, ranks: Sequence[int]) -> str:
        nodes = dict.fromkeys(self._hosts.get(rank, "?") for rank in ranks)
        where = f" on {next(iter(nodes))}" if len(nodes) == 1 else ""
        return f"{fold_ranks(ranks)}{where}"


def _judge(problems: _Problems, rank: int, log: Log, hosts: Mapping[int, str]) -> None:
    """Find contradictions within one log, or between it and the job."""
    if not log.seats:
        problems.add("the log names no communicator", rank)
    elif len(log.seats) > 1:
        several = ", ".join(f"rank {seat.rank} of {seat.ranks}" for seat in log.seats[:4])
        problems.add(f"the log is of several communicators or ranks: {several}", rank)
    else:
        if log.rank != rank:
            problems.add(f"the log is that of rank {log.rank}", rank)
        if log.ranks != len(hosts):
            problems.add(f"the communicator has {log.ranks} ranks, expected {len(hosts)}", rank)
    if not log.initialised:
        problems.add("NCCL did not initialise (no Init COMPLETE)", rank)
    if log.aborted:
        problems.add("the communicator was aborted", rank)
    for warning in log.warnings:
        if not ADVICE.search(warning):
            problems.add(f"NCCL warns: {warning}", rank)
    for message in log.unread[:3]:
        problems.add(f"a connection that is not understood: {message!r}", rank)
    nodes = len(set(hosts.values()))
    if log.nodes not in (None, nodes) and not log.mnnvl:
        problems.add(f"NCCL counts nodes: {log.nodes}, expected {nodes}", rank)
    for connection in log.connections:
        ends = {connection.from_rank, connection.to_rank}
        owner = connection.to_rank if connection.side == "receive" else connection.from_rank
        if unknown := ends - set(hosts):
            problems.add(f"a connection with rank {fold_numbers(unknown)}, which has no node", rank)
        elif owner != rank:
            problems.add(
                f"the log has a connection of rank {owner} "
                f"({connection.from_rank} to {connection.to_rank})",
                rank,
            )
    for collnet in log.collnets:
        if collnet.rank != rank:
            problems.add(f"the log has a CollNet connection of rank {collnet.rank}", rank)


def _compare(problems: _Problems, logs: Mapping[int, Log]) -> None:
    """Find contradictions between the logs."""
    versions: dict[str, list[int]] = collections.defaultdict(list)
    networks: dict[str, list[int]] = collections.defaultdict(list)
    for rank, log in logs.items():
        if log.version:
            versions[log.version].append(rank)
        for network in sorted(_networks(log)):
            networks[network].append(rank)
    for what, by_name in (("versions of NCCL", versions), ("networks", networks)):
        if len(by_name) > 1:
            each = "; ".join(
                f"{name} (ranks {fold_numbers(ranks)})" for name, ranks in by_name.items()
            )
            problems.add(f"different {what}: {each}")
    for field, what in (("nvls", "NVLS"), ("mnnvl", "MNNVL"), ("simulated", "a simulation")):
        having = [rank for rank, log in logs.items() if getattr(log, field)]
        if having and len(having) < len(logs):
            problems.add(f"{what} on ranks {fold_numbers(having)} only")
    _find_cut_logs(problems, logs)
    _pair(problems, logs)


def _find_cut_logs(problems: _Problems, logs: Mapping[int, Log]) -> None:
    """Logs that end before those of other ranks do, though what they lack is in the logs of all.

    P2P and shared memory are logged by the sender alone: no other rank's log shows the gap.
    """
    started = {r: log for r, log in logs.items() if log.initialised and not log.aborted}
    stated = sorted(set().union(*(log.connected for log in logs.values())))
    if any(log.connections or log.collnets for log in logs.values()):
        for rank, log in started.items():
            # Where no ring or tree was asked for (gather), a rank that only receives logs nothing.
            receiver = log.destroyed and not stated
            if not (log.connections or log.collnets or receiver):
                problems.add(
                    "the log has no connection, where others have some: it is cut, or the rank "
                    "used none; NCCL_RUNTIME_CONNECT=0 makes NCCL connect when it starts",
                    rank,
                )
    for what in stated:
        for rank, log in started.items():
            if what not in log.connected:
                problems.add(f"the log is cut: no {what!r}, which others have", rank)
    if any(log.destroyed for log in logs.values()):
        for rank, log in started.items():
            if not log.destroyed:
                problems.add("the log is cut: no Destroy COMPLETE, which others have", rank)


def _pair(problems: _Problems, logs: Mapping[int, Log]) -> None:
    """Both ends of a network connection log it: where one does not, its log is cut."""
    Key = tuple[int, int, int, int]
    ends: dict[str, set[Key]] = {"send": set(), "receive": set()}
    for connection in itertools.chain.from_iterable(log.connections for log in logs.values()):
        if connection.side:
            key = (connection.channel, connection.index, connection.from_rank, connection.to_rank)
            ends[connection.side].add(key)
    lacking: dict[int, list[Key]] = collections.defaultdict(list)
    for key in ends["send"] - ends["receive"]:
        lacking[key[3]].append(key)
    for key in ends["receive"] - ends["send"]:
        lacking[key[2]].append(key)
    for rank, keys in sorted(lacking.items()):
        if rank in logs:
            channel, _, from_rank, to_rank = min(keys)
            problems.add(
                f"the log lacks network connections that the other end has, {len(keys)} in all "
                f"(rank {from_rank} to {to_rank} on channel {channel}): it is cut",
                rank,
            )


def _ways(
    problems: _Problems, logs: Mapping[int, Log], hosts: Mapping[int, str]
) -> tuple[set[str], set[str], dict[str, set[str]]]:
    """The kinds within and between nodes, and the HCAs of each node that connect nodes."""
    within: set[str] = set()
    between: set[str] = set()
    hcas: dict[str, set[str]] = collections.defaultdict(set)
    for rank, log in logs.items():
        for connection in log.connections:
            ends = [hosts.get(connection.from_rank), hosts.get(connection.to_rank)]
            if None in ends:
                continue
            if ends[0] == ends[1]:
                within.add(connection.kind)
                continue
            between.add("MNNVL" if connection.kind == "P2P" else connection.kind)
            if connection.network is None:
                if not connection.path.startswith("P2P/MNNVL"):
                    problems.add(
                        f"{connection.path} cannot reach from {ends[0]} to {ends[1]}: do they "
                        "share a host name or NCCL_HOSTID?",
                        rank,
                    )
                continue
            # With PXN the NIC is at the rank that sends in place of this one.
            at = rank if connection.proxy_rank is None else connection.proxy_rank
            names = logs[at].names(connection.network, connection.device or 0) if at in logs else ()
            if not names and is_ib(connection.network):
                problems.add(
                    f"the log does not name {connection.network} device {connection.device}, which "
                    "connects nodes; NCCL_DEBUG_SUBSYS=INIT,ENV,NET makes NCCL name merged ones",
                    at,
                )
            hcas[hosts.get(at, "")].update(names)
    return within, between, hcas


def _all_of(logs: Mapping[int, Log], field: str) -> bool:
    return bool(logs) and all(getattr(log, field) for log in logs.values())


def _spans(logs: Mapping[int, Log], hosts: Mapping[int, str]) -> Iterable[bool]:
    """Whether each rank's NVLink domain reaches beyond its node."""
    counts = collections.Counter(hosts.values())
    for rank, log in logs.items():
        yield log.mnnvl and (log.clique_ranks or 0) > counts[hosts[rank]]
