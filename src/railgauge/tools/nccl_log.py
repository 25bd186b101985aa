"""NCCL's debug log: the network, connections and HCAs that a job's ranks really used.

`NCCL_DEBUG=INFO` with one `NCCL_DEBUG_FILE` a rank. A log is believed only as far as its lines are
whole: NCCL ends every line with a newline, so what stands behind the last one is torn ("GDRDMA"
may be missing from a path), and a connection that cannot be read is a problem, not an omission.

Since NCCL 2.22 connections are made when a collective first needs them, after `Init COMPLETE`, and
an algorithm that is not used connects nothing (NCCL_RUNTIME_CONNECT=0 connects all at once).
HCAs that NCCL has merged are named only in logs with NCCL_DEBUG_SUBSYS=INIT,ENV,NET.

`Destroy COMPLETE` is the last word of a communicator, and so the proof of a whole log. It is of the
subsystem INIT up to 2.29 and of DESTROY since 2.30 (versions that do not know a subsystem pass over
its name): a job's logs may lack it, but not those of some ranks only. The same holds for `Connected
all rings` and `Connected all trees`, which follow the connections in question, in all versions.

Formats: NVIDIA/nccl 2.18 to 2.31, src/transport (p2p.cc, shm.cc, net.cc, coll_net.cc, nvls.cc,
net_ib), src/init.cc, src/mnnvl.cc, src/graph/topo.cc, src/debug.cc.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from railgauge.hostlist import fold_numbers
from railgauge.tools import ParseError

TOOL = "nccl-log"

Side = Literal["send", "receive", ""]
_SIDES: Mapping[str | None, Side] = {"send": "send", "receive": "receive", None: ""}


# ---- what one rank's log says --------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Hca:
    """An RDMA port that NCCL may use; `gid_index` where the log states the one in use."""

    name: str
    port: int
    #: "RoCE" or "IB"
    link_layer: str
    gid_index: int | None = None


@dataclasses.dataclass(frozen=True)
class Connection:
    """One direction between two ranks, as the log of one of them has it.

    P2P and shared memory are logged by the sender only, networks by both ends: `side` says which.
    `device` is NCCL's number of the NIC at that end; `proxy_rank` is the rank that sends through
    its own NIC on behalf of this one (PXN).
    """

    channel: int
    from_rank: int
    to_rank: int
    #: as NCCL prints it: "P2P/CUMEM/read", "SHM/direct/direct", "NET/IB/3(5)/GDRDMA/Shared"
    path: str
    #: "P2P", "SHM", "NET/IB", "NET/IB/GDRDMA", "NET/Socket", "NET/<plugin>"[/GDRDMA]; NVIDIA's
    #: plugin for InfiniBand and RoCE is "NET/IB" as well, see `is_ib`
    kind: str
    device: int | None = None
    #: several connections may share a channel (0 collectives, 1 send and receive)
    index: int = 0
    side: Side = ""
    proxy_rank: int | None = None

    @property
    def network(self) -> str | None:
        """The network's own name ("IBext_v8"), None for P2P and shared memory."""
        return self.path.split("/")[1] if self.path.startswith("NET/") else None


@dataclasses.dataclass(frozen=True)
class CollNet:
    """A rank's connection to a network that reduces by itself (SHARP). It has no other end.

    Only the ranks that stand for their node have one.
    """

    channel: int
    rank: int
    side: Side
    #: "SHARP", or a plugin's name
    network: str
    device: int
    gdr: bool
    index: int = 0
    kind: str = "COLLNET"


@dataclasses.dataclass(frozen=True)
class Device:
    """The HCAs behind a device number of a network: several where NCCL has merged them."""

    network: str
    number: int
    hcas: tuple[str, ...]


class Seat(NamedTuple):
    """A rank within a communicator."""

    rank: int
    ranks: int


@dataclasses.dataclass(frozen=True)
class Log:
    """What the log of one rank says. Lists are in the log's order, without repetition."""

    #: more than one where ranks or communicators of different sizes share the log
    seats: tuple[Seat, ...] = ()
    #: "2.28.9+cuda13.0"; before 2.28 only rank 0 tells
    version: str | None = None
    cuda_device: int | None = None
    bus_id: str | None = None
    #: from "Using network X": "IB", "Socket", or a plugin's name
    networks: tuple[str, ...] = ()
    #: loaded, which is not yet used
    plugins: tuple[str, ...] = ()
    #: candidates, in NCCL's own order
    hcas: tuple[Hca, ...] = ()
    devices: tuple[Device, ...] = ()
    connections: tuple[Connection, ...] = ()
    collnets: tuple[CollNet, ...] = ()
    #: lines about a connection that are not understood
    unread: tuple[str, ...] = ()
    #: NVLink SHARP is set up
    nvls: bool = False
    #: the GPUs' memory is shared over NVLink by fabric handles, as between nodes
    mnnvl: bool = False
    #: ranks in this one's NVLink domain; told only where `mnnvl`
    clique_ranks: int | None = None
    #: NVLink domains, or nodes where `mnnvl` is off
    nodes: int | None = None
    #: "Connected all rings", "Connected all trees": said when these connections are all made
    connected: tuple[str, ...] = ()
    #: by channel; told by rank 0 only
    rings: tuple[tuple[int, ...], ...] = ()
    #: by channel: "children->rank->parent", -1 for none
    trees: tuple[str, ...] = ()
    #: every communicator that was begun is complete
    initialised: bool = False
    #: every communicator that was complete is destroyed: the log is whole
    destroyed: bool = False
    aborted: bool = False
    #: lines with WARN (or ATTN), advice too, without their place in NCCL's sources
    warnings: tuple[str, ...] = ()
    simulated: bool = False

    @property
    def rank(self) -> int | None:
        return self.seats[0].rank if len(self.seats) == 1 else None

    @property
    def ranks(self) -> int | None:
        return self.seats[0].ranks if len(self.seats) == 1 else None

    @property
    def network(self) -> str | None:
        return self.networks[0] if len(self.networks) == 1 else None

    @property
    def collnet(self) -> bool:
        return bool(self.collnets)

    @property
    def sharp(self) -> bool:
        return any(collnet.network == "SHARP" for collnet in self.collnets)

    def names(self, network: str, number: int) -> tuple[str, ...]:
        """The HCAs behind a device number; empty where the log does not tell."""
        for device in self.devices:
            if (device.network, device.number) == (network, number):
                return device.hcas
        return ()


# ---- parsing -------------------------------------------------------------------------------

#: A number that int() takes for sure, whatever a damaged log holds.
_N = r"[0-9]{1,9}"

#: Longer than any message that is read here.
_LONGEST_MESSAGE = 4000

#: What NCCL, or AMD's RCCL, warns of and then goes on as it should (ncclInit in their init.cc).
ADVICE = re.compile(
    r"can lead to variability in the [NR]CCL performance|\bdeprecated\b|"
    r'Missing "(?:iommu=pt|HSA_FORCE_FINE_GRAIN_PCIE=1)" from '
)

_MARK = re.compile(r"NCCL (INFO|WARN|ATTN) ")
#: Bare, or behind the tag of a launcher ("[1,0]<stdout>:", "0: "), where it is not an INFO line.
_VERSION = re.compile(r"(?:\[[^]]*\](?:<\w+>:)?|[0-9]+:)?\s*NCCL version ([0-9]\S*)")
_COMMUNICATOR = re.compile(
    rf"(?:\[Rank {_N}\] )?(?:\w+ )?comm (\S+) rank ({_N}) n[rR]anks ({_N}) cudaDev ({_N})"
    rf"(?: nvmlDev {_N})? busId ([0-9a-f]+)\b.*- ?"
    r"(Init START|Init COMPLETE|Destroy COMPLETE|Abort COMPLETE)"
)
_TOPOLOGY = re.compile(
    rf"comm \S+ rank ({_N}) nRanks ({_N}) nNodes ({_N}) localRanks ({_N}) localRank {_N} "
    rf"MNNVL ({_N})"
)
_CLIQUE = re.compile(rf"MNNVL ({_N}) cliqueId [0-9a-f]+ cliqueSize ({_N}) cliqueRank {_N}\b.*")
_NETWORK = re.compile(r"Using network (\S.*)")
_PLUGIN = re.compile(
    r"(?:(?:NET|TUNER)/Plugin ?: (?:Loaded|Using) (?:net|collnet|tuner)|P2P) plugin(?: v[0-9]+)?"
    r" (\S.*?)(?: \(v[0-9]+\))?"
)
_CHANNELS = re.compile(rf"{_N} coll channels, (?:{_N} collnet channels, )?({_N}) nvls channels, .*")
_RING = re.compile(rf"Channel ({_N})/{_N} :((?: +{_N})+)")
_TREE = re.compile(rf"\[{_N}\] (\S+)")
_CONNECTED = re.compile(r"(Connected all (?:rings|trees))\b.*")
_COLLNET = re.compile(
    rf"Coll(?:Net)? ({_N})(?:/({_N}))? : ({_N}) \[(send|receive)\] via COLLNET/([^/]+)/({_N})"
    r"(/GDRDMA(?:\(PCI\))?)?"
)

_CONNECTION = re.compile(
    rf"(?:Channel|Ring) ({_N})(?:/({_N}))? : ({_N})(?:\[[0-9a-f]+\])? -> ({_N})(?:\[[0-9a-f]+\])?"
    # RCCL adds the communicator.
    r"(?: \[(send|receive)\])?\s+via (\S.*?)(?: comm 0x[0-9a-f]+ nRanks [0-9]+)?"
)
_ABOUT_CONNECTION = re.compile(
    rf"(?:Channel|Ring) {_N}(?:/{_N})? :.*->.*\bvia\b.*|.* via (?:COLL)?NET/.*|"
    rf"Coll(?:Net)? {_N}(?:/{_N})? :.*"
)
_P2P = re.compile(
    r"P2P/(?:direct pointer|IPC|CUMEM|MNNVL|indirect/[0-9]+\[[0-9a-f]+\])(?:/read)?(?:/CE)?"
)
_SHM = re.compile(r"SHM/(?:direct|CE)(?:/(?:direct|CE))?|direct shared memory")
_NET = re.compile(
    rf"NET/([^/]+)/({_N})(?:\(({_N})\))?(/GDRDMA(?:\(PCI\))?)?(?:/Shared)?(?:/flush=\w+)?"
)

_USING = re.compile(r"NET/IB : Using(.*?)(?:; OOB .*)?")
_PORT = rf"\[({_N})\] ?([^\s:/\[\]{{}},]+):({_N})[:0-9]*/(\w+)(?:/SHARP)?"
_MERGED_PORTS = re.compile(rf"\[{_N}\]={{[^}}]*}}|{_PORT}")
_PORTS = re.compile(_PORT)
_VIRTUAL = re.compile(rf"NET/IB : Made virtual device \[({_N})\] name=(\S+)(?: .*)?")
_GPU_DIRECT = re.compile(
    rf"NET/([^/]+?) ?: GPU Direct RDMA (?:\(\w+\) )?[EeDd]\w+ for HCA ({_N}) '([^']+)'?.*"
)
_IB = re.compile(r"IB|IBext(?:_v[0-9]+)?|NCCL RDMA Plugin(?: v[0-9]+)?")
_GID = re.compile(rf"NET/IB: .*\bIbDev ({_N}) .*\bGID ({_N}) \(.*")


class _Lines(NamedTuple):
    infos: list[str]
    warnings: list[str]
    #: whole lines without NCCL's mark
    others: list[str]


def parse(text: str) -> Log:
    """Read the log of one rank. Lines of other programs do no harm.

    ParseError where nothing of NCCL is in it.
    """
    infos, warnings, others = _lines(text)
    version = next((m[1] for m in map(_VERSION.fullmatch, [*infos, *others]) if m), None)
    if not infos and not warnings and version is None:
        raise ParseError(0, "no whole line of NCCL", "a log of NCCL_DEBUG=INFO")
    communicators = _all(_COMMUNICATOR, infos)
    topologies = _all(_TOPOLOGY, infos)
    cliques = _all(_CLIQUE, infos)
    seats = [Seat(int(m[2]), int(m[3])) for m in communicators]
    seats += [Seat(int(m[1]), int(m[2])) for m in topologies]
    first = communicators[0] if communicators else None
    hcas, devices = _hcas(infos)
    connections, unread = _connections(infos)
    mnnvl = [m[5] != "0" for m in topologies] or [m[1] != "0" for m in cliques]
    in_domain = [int(m[2]) for m in cliques] or [int(m[4]) for m in topologies]
    return Log(
        seats=tuple(dict.fromkeys(seats)),
        version=version,
        cuda_device=int(first[4]) if first else None,
        bus_id=first[5] if first else None,
        networks=tuple(dict.fromkeys(m[1] for m in _all(_NETWORK, infos))),
        plugins=tuple(dict.fromkeys(m[1] for m in _all(_PLUGIN, infos))),
        hcas=hcas,
        devices=devices,
        connections=connections,
        collnets=tuple(dict.fromkeys(map(_collnet, _all(_COLLNET, infos)))),
        unread=unread,
        nvls=_nvls(infos),
        mnnvl=bool(mnnvl) and all(mnnvl),
        clique_ranks=min(in_domain) if any(mnnvl) and in_domain else None,
        nodes=int(topologies[-1][3]) if topologies else None,
        connected=tuple(dict.fromkeys(m[1] for m in _all(_CONNECTED, infos))),
        rings=_rings(infos),
        trees=next((tuple(_TREE.findall(t)) for t in infos if t.startswith("Trees [")), ()),
        initialised=_initialised(communicators),
        destroyed=_destroyed(communicators),
        aborted=any(m[6] == "Abort COMPLETE" for m in communicators),
        warnings=tuple(dict.fromkeys(without_secrets(w) for w in warnings)),
        simulated=any(line.startswith("# SIMULATED") for line in text.split("\n")),
    )


def _lines(text: str) -> _Lines:
    """NCCL's messages. A line into which another process has written is torn but for its end."""
    found = _Lines([], [], [])
    *whole, torn = text.split("\n")
    for line, complete in [*((line, True) for line in whole), (torn, False)]:
        marks = list(_MARK.finditer(line))
        for mark, following in itertools.zip_longest(marks, marks[1:]):
            message = line[mark.end() : following.start() if following else len(line)].strip()
            if mark[1] != "INFO":
                # Also a torn warning warns.
                found.warnings.append(message)
            elif complete and not following and len(message) <= _LONGEST_MESSAGE:
                found.infos.append(message)
        if complete and not marks:
            found.others.append(line.strip())
    return found


def _all(pattern: re.Pattern[str], messages: Iterable[str]) -> list[re.Match[str]]:
    return [match for match in map(pattern.fullmatch, messages) if match]


def _nvls(infos: Sequence[str]) -> bool:
    channels = [int(m[1]) for m in _all(_CHANNELS, infos)]
    if channels:
        return min(channels) > 0
    return any(message.startswith("NVLS comm ") for message in infos)


def _rings(infos: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    found = {int(m[1]): tuple(map(int, m[2].split())) for m in _all(_RING, infos)}
    return tuple(found[channel] for channel in sorted(found))


def _initialised(communicators: Sequence[re.Match[str]]) -> bool:
    """A pointer may come twice, where a communicator was destroyed before the next was made."""
    begun = collections.Counter(m[1] for m in communicators if m[6] == "Init START")
    complete = collections.Counter(m[1] for m in communicators if m[6] == "Init COMPLETE")
    return bool(complete) and not begun - complete


def _destroyed(communicators: Sequence[re.Match[str]]) -> bool:
    complete = collections.Counter(m[1] for m in communicators if m[6] == "Init COMPLETE")
    destroyed = collections.Counter(m[1] for m in communicators if m[6] == "Destroy COMPLETE")
    return bool(destroyed) and not complete - destroyed


def _connections(infos: Sequence[str]) -> tuple[tuple[Connection, ...], tuple[str, ...]]:
    found, unread = [], []
    for message in infos:
        match = _CONNECTION.fullmatch(message)
        connection = _connection(match) if match else None
        if connection:
            found.append(connection)
        elif _ABOUT_CONNECTION.fullmatch(message) and not _COLLNET.fullmatch(message):
            unread.append(message)
    return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(unread))


def _connection(match: re.Match[str]) -> Connection | None:
    """None where the path or its side is none that is known."""
    channel, index, from_rank, to_rank, side, path = match.groups()
    net = _NET.fullmatch(path)
    if net and side:
        family = "IB" if is_ib(net[1]) else net[1]
        kind = f"NET/{family}{'/GDRDMA' if net[4] else ''}"
    elif _P2P.fullmatch(path) and not side:
        kind = "P2P"
    elif _SHM.fullmatch(path) and not side:
        kind = "SHM"
    else:
        return None
    return Connection(
        int(channel),
        int(from_rank),
        int(to_rank),
        path,
        kind,
        device=int(net[2]) if net else None,
        index=int(index or 0),
        side=_SIDES[side],
        proxy_rank=int(net[3]) if net and net[3] else None,
    )


def _collnet(match: re.Match[str]) -> CollNet:
    channel, index, rank, side, network, device, gdr = match.groups()
    return CollNet(
        int(channel),
        int(rank),
        _SIDES[side],
        network,
        int(device),
        gdr=bool(gdr),
        index=int(index or 0),
    )


def _hcas(infos: Sequence[str]) -> tuple[tuple[Hca, ...], tuple[Device, ...]]:
    """The candidates, and what each device number stands for where the log leaves no doubt.

    A number counts ports, or what NCCL has merged from them: up to 2.22 the listed places; later
    the ports first, and then the merged ones, which only the subsystem NET names.
    """
    ports: dict[int, Hca] = {}
    listed: dict[int, set[str]] = collections.defaultdict(set)
    for line in _all(_USING, infos):
        places = [_PORTS.findall(entry[0]) for entry in _MERGED_PORTS.finditer(line[1])]
        for number, name, port, link in itertools.chain.from_iterable(places):
            ports[int(number)] = Hca(name.removesuffix("_dma"), int(port), link)
        numbers = [int(number) for number, *_ in itertools.chain.from_iterable(places)]
        if "={" in line[1]:
            numbers.sort()
        if numbers == list(range(len(numbers))):
            for place, merged in enumerate(places):
                listed[place].add("+".join(name for _, name, *_ in merged))
    gids = collections.defaultdict(set)
    for gid in _all(_GID, infos):
        gids[int(gid[1])].add(int(gid[2]))
    hcas = tuple(
        dataclasses.replace(hca, gid_index=next(iter(gids[n])) if len(gids[n]) == 1 else None)
        for n, hca in sorted(ports.items())
    )
    virtual: dict[int, set[str]] = collections.defaultdict(set)
    for match in _all(_VIRTUAL, infos):
        virtual[int(match[1])].add(match[2])
    told: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
    for match in _all(_GPU_DIRECT, infos):
        told[match[1], int(match[2])].add(match[3])
    networks = {m[1] for m in _all(_NETWORK, infos)} | {network for network, _ in told}
    devices = []
    for network in sorted(networks - {"Socket"}):
        own = {number: names for (name, number), names in told.items() if name == network}
        # A plugin of the IB family lists its devices as NCCL's own network does.
        sources = [own, virtual, listed] if is_ib(network) else [own]
        for number in sorted(set().union(*sources)):
            names = next(source[number] for source in sources if number in source)
            if len(names) == 1:
                parts = next(iter(names)).split("+")
                # A data direct device (ConnectX-8) is the HCA by a second way.
                each = dict.fromkeys(part.removesuffix("_dma") for part in parts)
                devices.append(Device(network, number, tuple(each)))
    return hcas, tuple(devices)


def is_ib(network: str) -> bool:
    """Whether a network is NCCL's own for InfiniBand and RoCE, or NVIDIA's plugin for the same.

    The plugin (nccl-rdma-sharp) comes with HPC-X and NVIDIA's containers.
    """
    return bool(_IB.fullmatch(network))


# ---- what a job used -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Used:
    """What all ranks of a job used together.

    `seen` has the keys `within_nodes` and `between_nodes` (sorted tuples of kinds; NVLink between
    nodes is "MNNVL"), `network` and `collnet` (sorted tuples of the networks' own names, such as
    "IBext_v8" and "SHARP/GDRDMA"), `nvls` and `mnnvl` (whether every rank has it; `mnnvl` only
    where a domain spans nodes), `hcas` (node -> sorted tuple of the names of HCAs that carry
    connections between nodes; every node is there), and `nccl_version` ("unknown" where no log
    tells). `problems` are contradictions and gaps: with any, `seen` proves nothing. `advice` is
    what NCCL warned of that is no problem.

    "COLLNET" is in `between_nodes` only where nothing else is: a job that reduces in the network
    still connects its ranks, and if those connections fall back (to sockets, or off GPUDirect),
    that is to be seen as without CollNet.
    """

    seen: Mapping[str, Any]
    problems: tuple[str, ...]
    simulated: bool
    advice: tuple[str, ...] = ()


def read(logs: Mapping[int, str], hosts: Mapping[int, str]) -> Used:
    """Judge the logs of all ranks (rank -> text), which ran on these nodes (rank -> node)."""
    problems = _Problems(hosts)
    advice = _Problems(hosts)
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
        for warning in filter(ADVICE.search, log.warnings):
            advice.add(f"NCCL advises: {warning}", rank)
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
        problems.add("no rank's log tells the version of NCCL")
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
        advice=advice.texts(),
    )


def _networks(log: Log) -> set[str]:
    return {*log.networks, *(c.network for c in log.connections if c.network is not None)}


class _Problems:
    """Collects what is wrong, and says it once for all ranks that it holds for."""

    def __init__(self, hosts: Mapping[int, str]) -> None:
        self._hosts = hosts
        self._found: dict[str, list[int]] = {}

    def add(self, message: str, *ranks: int) -> None:
        known = self._found.setdefault(message, [])
        known += [rank for rank in ranks if rank not in known]

    def texts(self) -> tuple[str, ...]:
        return tuple(
            f"{self._who(sorted(ranks))}: {message}" if ranks else message
            for message, ranks in self._found.items()
        )

    def _who(self, ranks: Sequence[int]) -> str:
        nodes = dict.fromkeys(self._hosts.get(rank, "?") for rank in ranks)
        where = f" on {next(iter(nodes))}" if len(nodes) == 1 else ""
        return f"rank{'' if len(ranks) == 1 else 's'} {fold_numbers(ranks)}{where}"


def _judge(problems: _Problems, rank: int, log: Log, hosts: Mapping[int, str]) -> None:
    """What one log alone says against itself, or against the job."""
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
        if strangers := ends - set(hosts):
            problems.add(
                f"a connection with rank {fold_numbers(strangers)}, which has no node", rank
            )
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
    """What the logs say against each other."""
    versions: dict[str, list[int]] = collections.defaultdict(list)
    networks: dict[str, list[int]] = collections.defaultdict(list)
    for rank, log in logs.items():
        if log.version:
            versions[log.version].append(rank)
        for network in sorted(_networks(log)):
            networks[network].append(rank)
    for what, found in (("versions of NCCL", versions), ("networks", networks)):
        if len(found) > 1:
            each = "; ".join(
                f"{name} (ranks {fold_numbers(ranks)})" for name, ranks in found.items()
            )
            problems.add(f"different {what}: {each}")
    for field, what in (("nvls", "NVLS"), ("mnnvl", "MNNVL"), ("simulated", "a simulation")):
        having = [rank for rank, log in logs.items() if getattr(log, field)]
        if having and len(having) < len(logs):
            problems.add(f"{what} on ranks {fold_numbers(having)} only")
    _find_cut(problems, logs)
    _pair(problems, logs)


def _find_cut(problems: _Problems, logs: Mapping[int, Log]) -> None:
    """Logs that end before those of other ranks do, though what they lack is said by all ranks.

    P2P and shared memory are logged by the sender alone: no other rank's log tells of the gap.
    """
    started = {r: log for r, log in logs.items() if log.initialised and not log.aborted}
    said = sorted(set().union(*(log.connected for log in logs.values())))
    if any(log.connections or log.collnets for log in logs.values()):
        for rank, log in started.items():
            # Where no ring or tree was asked for (gather), a rank that only receives logs nothing.
            receiver = log.destroyed and not said
            if not (log.connections or log.collnets or receiver):
                problems.add(
                    "the log has no connection, where others have some: it is cut, or the rank "
                    "used none; NCCL_RUNTIME_CONNECT=0 makes NCCL connect when it starts",
                    rank,
                )
    for what in said:
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


# ---- for a report of a hang ----------------------------------------------------------------

_SECRET = re.compile(
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credential|key|auth|bearer|cookie)\w*[\"']?"
    r"(?:\s*[=:]|\s+(?:is|was|set\b.*?\bto)\b|\s+(?=\S{12,}))|://[^\s/@]*@",
    re.IGNORECASE,
)
_LONGEST_LINE = 300
#: A secret that begins within the longest line ends or shows its sign within this.
_SEARCHED = 1000


def without_secrets(line: str) -> str:
    """The line up to whatever looks like the assignment of a key, token or password.

    Made printable, and cut to a length that a report can hold.
    """
    clean = "".join(c if c.isprintable() else " " for c in line[:_SEARCHED]).strip()
    match = _SECRET.search(clean)
    if match:
        clean = f"{clean[: match.start()]}[removed]"
    return clean if len(clean) <= _LONGEST_LINE else f"{clean[:_LONGEST_LINE]}..."


def last_words(text: str, lines: int = 3) -> str:
    """The last lines of NCCL in a rank's log, warnings before all others; without secrets.

    Empty where there is nothing of NCCL.
    """
    numbered = enumerate(text.split("\n"))
    said = [(n, line, mark[1]) for n, line in numbered if (mark := _MARK.search(line))]
    weightiest = sorted(said, key=lambda each: (each[2] != "INFO", each[0]), reverse=True)
    return "\n".join(without_secrets(line) for _, line, _ in sorted(weightiest[:lines]))


_PER_RANK = (
    (re.compile(r"\b0x[0-9a-f]+\b"), "*"),
    (re.compile(r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:<[0-9]+>|:[0-9]+)?"), "*"),
    (re.compile(r"^((?:Channel|Ring|Coll(?:Net)?) )[0-9]+(?:/[0-9]+)? : .*?(?= via |$)"), r"\1*"),
    (re.compile(r"( via (?:COLL)?NET/[^/]+/)[0-9]+(?:\([0-9]+\))?"), r"\1*"),
    (re.compile(r"\b((?:\w*rank|peer|\w*dev)[ =:]+)-?[0-9]+\b", re.IGNORECASE), r"\1*"),
    (re.compile(r"\b(busid[ =:]+)[0-9a-f]+\b", re.IGNORECASE), r"\1*"),
)
_MOST_GROUPS = 4


def last_words_of_all(logs: Mapping[int, str]) -> str:
    """The last words of a job that hangs: ranks that say the same together, a line for each group.

    The smallest groups come first, of four at most: the straggler is what one looks for. Hosts,
    processes, pointers and the numbers of ranks, their devices and channels are left out. A last
    line tells which ranks are in no group that is shown. Without secrets.
    """
    groups: dict[str, list[int]] = collections.defaultdict(list)
    for rank in sorted(logs):
        groups[_last_word(logs[rank])].append(rank)
    ordered = sorted(groups.items(), key=lambda group: (len(group[1]), group[1]))
    lines = [f"{_ranks(ranks)}: {line}" for line, ranks in ordered[:_MOST_GROUPS]]
    others = [rank for _, ranks in ordered[_MOST_GROUPS:] for rank in ranks]
    if others:
        lines.append(f"and {_ranks(others)}, with {len(ordered) - _MOST_GROUPS} other lines")
    return "\n".join(lines)


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {fold_numbers(ranks)}"


def _last_word(text: str) -> str:
    """The last warning that is no advice, else the last line; as all ranks would say it."""
    level, last, weight = "", "", 0
    for line in text.split("\n"):
        for mark in _MARK.finditer(line):
            message = line[mark.end() :].strip()
            own = 1 if mark[1] == "INFO" or ADVICE.search(message) else 2
            if message and own >= weight:
                level, last, weight = mark[0], message, own
    if not weight:
        return "nothing of NCCL"
    last = without_secrets(last)
    for pattern, replacement in _PER_RANK:
        last = pattern.sub(replacement, last)
    return f"{level}{last}"
