"""Reading the log of one rank, line by line."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from railgauge.tools import ParseError
from railgauge.tools.nccl_log.result import CollNet, Connection, Device, Log, Seat, Side

_SIDES: Mapping[str | None, Side] = {"send": "send", "receive": "receive", None: ""}

#: A number that int() takes for sure, whatever a damaged log holds.
_N = r"[0-9]{1,9}"

#: Longer than any message that is read here.
LONGEST_MESSAGE = 4000

#: What NCCL, or AMD's RCCL, warns of and then goes on as it should (ncclInit in their init.cc).
ADVICE = re.compile(
    r"can lead to variability in the [NR]CCL performance|\bdeprecated\b|"
    r'Missing "(?:iommu=pt|HSA_FORCE_FINE_GRAIN_PCIE=1)" from |'
    # What a subnet manager sends to all ports when any node of the fabric starts (net_ib.cc), in
    # 2.18 to 2.21, since, and the number of a change of GIDs in 2.23 to 2.27; and AWS's plug-in.
    r"NET/IB : \S+ Got (?:non-fatal )?async event ?: (?:client reregistration|SM change|LID change|"
    r"P_Key change|GID table change)|NET/IB : \S+ (?:GID table changed|unknown event type \(18\))|"
    r"NET/OFI Could not find ncclGetVersion symbol"
)

MARK = re.compile(r"NCCL (INFO|WARN|ATTN) ")
#: Bare, or behind the tag of a launcher ("[1,0]<stdout>:", "0: "), where it is not an INFO line.
VERSION = re.compile(r"(?:\[[^]]*\](?:<\w+>:)?|[0-9]+:)?\s*NCCL version ([0-9]\S*)")
COMMUNICATOR = re.compile(
    rf"(?:\[Rank {_N}\] )?(?:\w+ )?comm (\S+) rank ({_N}) n[rR]anks ({_N}) cudaDev {_N}"
    rf"(?: nvmlDev {_N})? busId [0-9a-f]+\b.*- ?"
    r"(Init START|Init COMPLETE|Destroy COMPLETE|Abort COMPLETE)"
)
TOPOLOGY = re.compile(
    rf"comm \S+ rank ({_N}) nRanks ({_N}) nNodes ({_N}) localRanks ({_N}) localRank {_N} "
    rf"MNNVL ({_N})"
)
_CLIQUE = re.compile(rf"MNNVL ({_N}) cliqueId [0-9a-f]+ cliqueSize ({_N}) cliqueRank {_N}\b.*")
_NETWORK = re.compile(r"Using network (\S.*)")
NVLS_CHANNELS = re.compile(
    rf"{_N} coll channels, (?:{_N} collnet channels, )?({_N}) nvls channels, .*"
)
CONNECTED = re.compile(r"(Connected all (?:rings|trees))\b.*")
COLLNET = re.compile(
    rf"Coll(?:Net)? ({_N})(?:/({_N}))? : ({_N}) \[(send|receive)\] via COLLNET/([^/]+)/({_N})"
    r"(/GDRDMA(?:\(PCI\))?)?"
)

CONNECTION = re.compile(
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
_PORT = rf"\[({_N})\] ?([^\s:/\[\]{{}},]+):{_N}[:0-9]*/\w+(?:/SHARP)?"
_MERGED_PORTS = re.compile(rf"\[{_N}\]={{[^}}]*}}|{_PORT}")
_PORTS = re.compile(_PORT)
_VIRTUAL = re.compile(rf"NET/IB : Made virtual device \[({_N})\] name=(\S+)(?: .*)?")
_GPU_DIRECT = re.compile(
    rf"NET/([^/]+?) ?: GPU Direct RDMA (?:\(\w+\) )?[EeDd]\w+ for HCA ({_N}) '([^']+)'?.*"
)
_IB = re.compile(r"IB|IBext(?:_v[0-9]+)?|NCCL RDMA Plugin(?: v[0-9]+)?")


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
    version = next((m[1] for m in map(VERSION.fullmatch, [*infos, *others]) if m), None)
    if not infos and not warnings and version is None:
        raise ParseError(0, "no whole line of NCCL", "a log of NCCL_DEBUG=INFO")
    communicators = _all(COMMUNICATOR, infos)
    topologies = _all(TOPOLOGY, infos)
    cliques = _all(_CLIQUE, infos)
    seats = [Seat(int(m[2]), int(m[3])) for m in communicators]
    seats += [Seat(int(m[1]), int(m[2])) for m in topologies]
    connections, unread = _connections(infos)
    mnnvl = [m[5] != "0" for m in topologies] or [m[1] != "0" for m in cliques]
    in_domain = [int(m[2]) for m in cliques] or [int(m[4]) for m in topologies]
    return Log(
        seats=tuple(dict.fromkeys(seats)),
        version=version,
        networks=tuple(dict.fromkeys(m[1] for m in _all(_NETWORK, infos))),
        devices=devices_of(infos),
        connections=connections,
        collnets=tuple(dict.fromkeys(map(_collnet, _all(COLLNET, infos)))),
        unread=unread,
        nvls=_nvls(infos),
        mnnvl=bool(mnnvl) and all(mnnvl),
        clique_ranks=min(in_domain) if any(mnnvl) and in_domain else None,
        nodes=int(topologies[-1][3]) if topologies else None,
        connected=tuple(dict.fromkeys(m[1] for m in _all(CONNECTED, infos))),
        initialised=_initialised(communicators),
        destroyed=_destroyed(communicators),
        aborted=any(m[4] == "Abort COMPLETE" for m in communicators),
        warnings=tuple(dict.fromkeys(without_secrets(w) for w in warnings)),
        simulated=any(line.startswith("# SIMULATED") for line in text.split("\n")),
    )


def _lines(text: str) -> _Lines:
    """NCCL's messages. A line into which another process has written is torn but for its end."""
    lines = _Lines([], [], [])
    *whole, torn = text.split("\n")
    for line, complete in [*((line, True) for line in whole), (torn, False)]:
        marks = list(MARK.finditer(line))
        for mark, following in itertools.zip_longest(marks, marks[1:]):
            message = line[mark.end() : following.start() if following else len(line)].strip()
            if mark[1] != "INFO":
                # Also a torn warning warns.
                lines.warnings.append(message)
            elif complete and not following and len(message) <= LONGEST_MESSAGE:
                lines.infos.append(message)
        if complete and not marks:
            lines.others.append(line.strip())
    return lines


def _all(pattern: re.Pattern[str], messages: Iterable[str]) -> list[re.Match[str]]:
    return [match for match in map(pattern.fullmatch, messages) if match]


def _nvls(infos: Sequence[str]) -> bool:
    channels = [int(m[1]) for m in _all(NVLS_CHANNELS, infos)]
    if channels:
        return min(channels) > 0
    return any(message.startswith("NVLS comm ") for message in infos)


def _initialised(communicators: Sequence[re.Match[str]]) -> bool:
    """A pointer may come twice, where a communicator was destroyed before the next was made."""
    begun = collections.Counter(m[1] for m in communicators if m[4] == "Init START")
    complete = collections.Counter(m[1] for m in communicators if m[4] == "Init COMPLETE")
    return bool(complete) and not begun - complete


def _destroyed(communicators: Sequence[re.Match[str]]) -> bool:
    complete = collections.Counter(m[1] for m in communicators if m[4] == "Init COMPLETE")
    destroyed = collections.Counter(m[1] for m in communicators if m[4] == "Destroy COMPLETE")
    return bool(destroyed) and not complete - destroyed


def _connections(infos: Sequence[str]) -> tuple[tuple[Connection, ...], tuple[str, ...]]:
    connections, unread = [], []
    for message in infos:
        match = CONNECTION.fullmatch(message)
        connection = _connection(match) if match else None
        if connection:
            connections.append(connection)
        elif _ABOUT_CONNECTION.fullmatch(message) and not COLLNET.fullmatch(message):
            unread.append(message)
    return tuple(dict.fromkeys(connections)), tuple(dict.fromkeys(unread))


def _connection(match: re.Match[str]) -> Connection | None:
    """None where the path or its side is none that is known."""
    channel, index, from_rank, to_rank, side, path = match.groups()
    way = connection_of(path, side or "")
    return way and dataclasses.replace(
        way,
        channel=int(channel),
        from_rank=int(from_rank),
        to_rank=int(to_rank),
        index=int(index or 0),
    )


def about_connection(message: str) -> bool:
    """Whether a message is of a connection, in a form that may not be known."""
    return bool(_ABOUT_CONNECTION.fullmatch(message))


@functools.lru_cache(maxsize=4096)
def connection_of(path: str, side: str) -> Connection | None:
    """A connection by what it goes over, without its channel and ranks; None where the path or its
    side (`send`, `receive`, or none) is none that is known.
    """
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
        0,
        0,
        0,
        path,
        kind,
        device=int(net[2]) if net else None,
        side=_SIDES[side or None],
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


def devices_of(infos: Iterable[str]) -> tuple[Device, ...]:
    """What each device number stands for, where the log leaves no doubt.

    A number counts ports, or what NCCL has merged from them: up to 2.23 the listed places; later
    the ports first, and then the merged ones, which only the subsystem NET names.
    """
    listed: dict[int, set[str]] = collections.defaultdict(set)
    for line in _all(_USING, infos):
        places = [_PORTS.findall(entry[0]) for entry in _MERGED_PORTS.finditer(line[1])]
        numbers = [int(number) for number, _ in itertools.chain.from_iterable(places)]
        if "={" in line[1]:
            numbers.sort()
        if numbers == list(range(len(numbers))):
            for place, merged in enumerate(places):
                listed[place].add("+".join(name for _, name in merged))
    virtual: dict[int, set[str]] = collections.defaultdict(set)
    for match in _all(_VIRTUAL, infos):
        virtual[int(match[1])].add(match[2])
    direct: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
    for match in _all(_GPU_DIRECT, infos):
        direct[match[1], int(match[2])].add(match[3])
    networks = {m[1] for m in _all(_NETWORK, infos)} | {network for network, _ in direct}
    devices = []
    for network in sorted(networks - {"Socket"}):
        own = {number: names for (name, number), names in direct.items() if name == network}
        # A plugin of the IB family lists its devices as NCCL's own network does.
        sources = [own, virtual, listed] if is_ib(network) else [own]
        for number in sorted(set().union(*sources)):
            names = next(source[number] for source in sources if number in source)
            if len(names) == 1:
                parts = next(iter(names)).split("+")
                # A data direct device (ConnectX-8) is the HCA by a second way.
                each = dict.fromkeys(part.removesuffix("_dma") for part in parts)
                devices.append(Device(network, number, tuple(each)))
    return tuple(devices)


def is_ib(network: str) -> bool:
    """Whether a network is NCCL's own for InfiniBand and RoCE, or NVIDIA's plugin for the same.

    The plugin (nccl-rdma-sharp) comes with HPC-X and NVIDIA's containers.
    """
    return bool(_IB.fullmatch(network))


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
