"""NCCL's debug log of one rank, as NCCL 2.28 to 2.30 print it, for rehearsals.

The log follows from the hosts, the fabric and NCCL's variables alone: rings over all ranks, on as
many channels as reach every HCA. Standard library only, Python 3.9: it runs on the lab's nodes.
"""

from __future__ import annotations

from typing import Any

SIMULATED = "# SIMULATED: written in a rehearsal, no GPU and no NCCL was used"

#: Channels of one NVLink domain; and for each of a domain's nodes where there are several domains.
CHANNELS_WITHIN = 4
CHANNELS_PER_NODE = 16
MOST_CHANNELS = 64

#: Fewer GPUs behind an NVSwitch have no use for NVLS.
NVLS_RANKS = 3


def lines(
    *, rank: int, hosts: list[str], pid: int, environment: dict[str, str], fabric: dict[str, Any]
) -> list[str]:
    """The log of `rank`; `hosts` has the host of every rank.

    `fabric` is what NCCL would find on this rank's node: `nvlink_domain_nodes` (nodes that share
    NVLink, in the order of `hosts`), `nvls`, `hcas`, `link_layer` ("RoCE" or "IB"), `gdr`,
    `nccl_version`, `gpu`, and `nvlink` (False where the GPUs of a node share only its memory).

    Variables: NCCL_DEBUG_SUBSYS (NET for the names of devices, DESTROY for the end since 2.30),
    NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_MNNVL_ENABLE, NCCL_NET, NCCL_NVLS_ENABLE, NCCL_P2P_DISABLE.
    Where NCCL would fail, the log ends with the warning.
    """
    return _Rank(rank, hosts, pid, environment, fabric).lines()


def selected(hcas: list[str], chosen: str) -> list[str]:
    """The HCAs (all with port 1 alone) that NCCL_IB_HCA leaves.

    `=a,b` takes names as they are, `^a,b` all others, else they are beginnings; `^=` is both. A
    name may have a port (`a:1`).
    """
    inverted = chosen[:1] == "^"
    names = chosen[inverted:]
    exact = names[:1] == "="
    entries = [entry.partition(":") for entry in names[exact:].split(",") if entry]

    def matches(hca: str) -> bool:
        if not entries:
            return True
        return any(
            port in ("", "1") and (hca == name if exact else hca.startswith(name))
            for name, _, port in entries
        )

    return [hca for hca in hcas if matches(hca) != inverted]


class _Rank:
    def __init__(
        self,
        rank: int,
        hosts: list[str],
        pid: int,
        environment: dict[str, str],
        fabric: dict[str, Any],
    ) -> None:
        self.rank = rank
        self.hosts = hosts
        self.pid = pid
        self.environment = environment
        self.fabric = fabric
        self.nodes = list(dict.fromkeys(hosts))
        self.comm = f"0x55d{pid % 0x1000000:06x}a0"
        self.local = self.number_on_node(rank)
        self.log: list[str] = []

    # --- places -------------------------------------------------------------------------------

    def ranks_on(self, host: str) -> list[int]:
        return [rank for rank, name in enumerate(self.hosts) if name == host]

    def number_on_node(self, rank: int) -> int:
        return self.ranks_on(self.hosts[rank]).index(rank)

    def domains(self) -> list[list[str]]:
        """The nodes of each NVLink domain, or of each node where MNNVL is not used."""
        size = self.fabric["nvlink_domain_nodes"] if self.mnnvl else 1
        return [self.nodes[start : start + size] for start in range(0, len(self.nodes), size)]

    def ranks_of(self, domain: list[str]) -> list[int]:
        return [rank for host in domain for rank in self.ranks_on(host)]

    def own_domain(self) -> list[int]:
        mine = next(d for d in self.domains() if self.hosts[self.rank] in d)
        return self.ranks_of(mine)

    # --- what NCCL decides --------------------------------------------------------------------

    def variable(self, name: str) -> str:
        return self.environment.get(name, "")

    @property
    def p2p(self) -> bool:
        return bool(self.fabric.get("nvlink", True)) and self.variable("NCCL_P2P_DISABLE") != "1"

    @property
    def fabric_handles(self) -> bool:
        """Whether this rank's GPU can share memory with those of other nodes at all."""
        ranks = len(self.hosts)
        return self.p2p and self.fabric["nvlink_domain_nodes"] > 1 and ranks > 1

    @property
    def mnnvl(self) -> bool:
        setting = self.variable("NCCL_MNNVL_ENABLE")
        wanted = setting == "1" or (setting != "0" and len(self.nodes) > 1)
        return wanted and self.fabric_handles

    @property
    def nvls(self) -> bool:
        wanted = self.fabric["nvls"] and self.variable("NCCL_NVLS_ENABLE") != "0" and self.p2p
        return bool(wanted) and len(self.own_domain()) >= NVLS_RANKS

    @property
    def hcas(self) -> list[str]:
        if self.variable("NCCL_IB_DISABLE") == "1":
            return []
        return selected(self.fabric["hcas"], self.variable("NCCL_IB_HCA"))

    @property
    def network(self) -> str | None:
        """The network, None where the one that was asked for is not there."""
        there = {"ib": "IB"} if self.hcas else {}
        there["socket"] = "Socket"
        requested = self.variable("NCCL_NET").lower()
        return there.get(requested) if requested else next(iter(there.values()))

    def channels(self) -> int:
        domains = self.domains()
        if len(domains) == 1:
            return CHANNELS_WITHIN
        return min(MOST_CHANNELS, CHANNELS_PER_NODE * max(len(domain) for domain in domains))

    def ring(self, channel: int) -> list[int]:
        """The order of all ranks: every domain from the rank where this channel comes in."""
        order: list[int] = []
        for domain in self.domains():
            ranks = self.ranks_of(domain)
            per_node = len(ranks) // len(domain)
            host = domain[channel // per_node % len(domain)] if per_node else domain[0]
            on_node = self.ranks_on(host)
            first = ranks.index(on_node[channel % len(on_node)])
            order += ranks[first:] + ranks[:first]
        return order

    # --- the log ------------------------------------------------------------------------------

    def info(self, message: str) -> None:
        host = self.hosts[self.rank].split(".")[0]
        self.log.append(f"{host}:{self.pid}:{self.pid} [{self.local}] NCCL INFO {message}")

    def warn(self, place: str, message: str) -> None:
        host = self.hosts[self.rank].split(".")[0]
        mark = f"{host}:{self.pid}:{self.pid} [{self.local}] {place} NCCL WARN {message}"
        self.log += ["", mark]

    def lines(self) -> list[str]:
        self.log = [SIMULATED]
        self.start()
        if not self.choose_network():
            return self.log
        self.begin("Init START")
        if not self.share_memory():
            return self.log
        self.describe()
        self.begin("Init COMPLETE")
        self.connect()
        # Of the subsystem INIT up to 2.29.
        if self.version < (2, 30) or self.subsystems & {"DESTROY", "ALL"}:
            self.info(
                f"comm {self.comm} rank {self.rank} nranks {len(self.hosts)} cudaDev {self.local} "
                f"busId {self.bus_id} - Destroy COMPLETE"
            )
        return self.log

    @property
    def version(self) -> tuple[int, ...]:
        numbers = self.fabric["nccl_version"].partition("+")[0].split(".")
        return tuple(int(number) for number in numbers[:2] if number.isdigit())

    @property
    def subsystems(self) -> set[str]:
        return set(self.variable("NCCL_DEBUG_SUBSYS").upper().split(","))

    @property
    def bus_id(self) -> str:
        return f"{0x18 + self.local:x}000"

    @property
    def address(self) -> str:
        node = self.nodes.index(self.hosts[self.rank])
        return f"eth0:10.0.{node // 250}.{node % 250 + 1}<0>"

    def start(self) -> None:
        self.info(f"Bootstrap: Using {self.address}")
        self.info("cudaDriverVersion 13000")
        self.info(f"NCCL version {self.fabric['nccl_version']}")
        self.info("NET/Plugin: Could not find: libnccl-net.so")

    def choose_network(self) -> bool:
        for name in ("NCCL_NET", "NCCL_IB_DISABLE"):
            if self.variable(name):
                self.info(f"{name} set by environment to {self.variable(name)}.")
        if (
            self.variable("NCCL_NET").lower() in ("", "ib")
            and self.variable("NCCL_IB_DISABLE") != "1"
        ):
            if self.variable("NCCL_IB_HCA"):
                self.info(f"NCCL_IB_HCA set to {self.variable('NCCL_IB_HCA')}")
            if not self.hcas:
                self.info("NET/IB : No device found.")
            layer = self.fabric["link_layer"]
            for number, hca in enumerate(self.hcas):
                self.net_info(f"NET/IB : Made virtual device [{number}] name={hca} ndevs=1")
            listed = "".join(f" [{n}]{hca}:1/{layer}" for n, hca in enumerate(self.hcas))
            self.info(f"NET/IB : Using{listed} [RO]; OOB {self.address}")
        if self.network != "IB":
            self.info("Failed to initialize NET plugin IB")
        if self.network is None:
            self.warn("plugin/net.cc:216", "Failed to initialize any NET plugin")
            return False
        if self.network == "Socket":
            self.info(f"NET/Socket : Using [0]{self.address}")
        self.info(f"Initialized NET plugin {self.network}")
        self.info(f"Assigned NET plugin {self.network} to comm")
        self.info(f"Using network {self.network}")
        return True

    def net_info(self, message: str) -> None:
        """What NCCL says only where its subsystem NET is asked for."""
        if self.subsystems & {"NET", "ALL"}:
            self.info(message)

    def begin(self, state: str) -> None:
        self.info(
            f"ncclCommInitRank comm {self.comm} rank {self.rank} nranks {len(self.hosts)} "
            f"cudaDev {self.local} nvmlDev {self.local} busId {self.bus_id} "
            f"commId 0x5ca1ab1e0ddba11 - {state}"
        )

    def share_memory(self) -> bool:
        """False where MNNVL was asked for and cannot be."""
        setting = self.variable("NCCL_MNNVL_ENABLE")
        if self.fabric["nvlink_domain_nodes"] > 1:
            self.info(
                f"MNNVL busId 0x{self.bus_id} fabric UUID 5ca1ab1e0ddba11.1 cliqueId 0x7ffe "
                "state 3 healthMask 0xaa"
            )
        if setting:
            self.info(f"NCCL_MNNVL_ENABLE set by environment to {setting}.")
        if setting == "1" and not self.mnnvl:
            self.warn(
                "mnnvl.cc:74",
                f"MNNVL (cliqueSize {len(self.own_domain())}) is available but not working on this "
                "system. Check the IMEX configuration (nvidia-imex-ctl -N). "
                "Set NCCL_MNNVL_ENABLE=0 to ignore this issue.",
            )
            self.info("init.cc:1075 -> 2")
            return False
        if self.mnnvl:
            clique = self.own_domain()
            self.info(
                f"MNNVL 1 cliqueId 7ffe cliqueSize {len(clique)} "
                f"cliqueRank {clique.index(self.rank)}"
            )
        return True

    def describe(self) -> None:
        for number, name in enumerate(self.hcas if self.network == "IB" else []):
            gdr = "Enabled" if self.fabric["gdr"] else "Disabled"
            self.net_info(f"NET/IB : GPU Direct RDMA {gdr} for HCA {number} '{name}'")
        if self.variable("NCCL_NVLS_ENABLE"):
            self.info(
                f"NCCL_NVLS_ENABLE set by environment to {self.variable('NCCL_NVLS_ENABLE')}."
            )
        nvls_channels = 16 if self.nvls else 0
        if self.fabric["nvls"] and self.variable("NCCL_NVLS_ENABLE") != "0":
            self.info(
                f"NVLS multicast support is {'' if self.nvls else 'not '}available on dev "
                f"{self.local} (NVLS_NCHANNELS {nvls_channels})"
            )
        domain = self.own_domain()
        self.info(
            f"comm {self.comm} rank {self.rank} nRanks {len(self.hosts)} "
            f"nNodes {len(self.domains())} localRanks {len(domain)} "
            f"localRank {domain.index(self.rank)} MNNVL {int(self.mnnvl)}"
        )
        channels = self.channels()
        trees = ""
        for channel in range(channels):
            order = self.ring(channel)
            if self.rank == 0:
                start = order.index(0)
                around = " ".join(map(str, order[start:] + order[:start]))
                self.info(f"Channel {channel:02d}/{channels:02d} : {around}")
            place = order.index(self.rank)
            child = order[place + 1] if place + 1 < len(order) else -1
            parent = order[place - 1] if place else -1
            trees += f" [{channel}] {child}/-1/-1->{self.rank}->{parent}"
        self.info(f"Trees{trees}")
        self.info("P2P Chunksize set to 131072")
        self.info(
            f"{channels} coll channels, {channels} collnet channels, {nvls_channels} nvls "
            f"channels, {channels} p2p channels, 2 p2p channels per peer"
        )

    def connect(self) -> None:
        """Every ring, and the way back that the trees take; as this end of each logs it."""
        ways = []
        for channel in range(self.channels()):
            order = self.ring(channel)
            pairs = [(a, b) for a, b in self.neighbours(order) if a != b]
            for sender, receiver in dict.fromkeys(pairs + [(b, a) for a, b in pairs]):
                if self.rank in (sender, receiver):
                    ways.append(self.connection(channel, sender, receiver))
        over_net = [way for way in ways if way.startswith("NET/")]
        if ways:
            pxn = int(any("(" in way for way in over_net))
            gdr = int(all("/GDRDMA" in way for way in over_net))
            self.info(f"Connected all rings, use ring PXN {pxn} GDR {gdr}")
            self.info("Connected all trees")
        if self.nvls:
            ranks = len(self.own_domain())
            self.info(
                f"NVLS comm {self.comm} headRank {self.own_domain().index(self.rank)} "
                f"nHeads {ranks} nvlsRanks {ranks} buffSize 1048576 nvlsPerRankSize 33554432 "
                f"nvlsTotalSize {33554432 * ranks}"
            )

    @staticmethod
    def neighbours(order: list[int]) -> list[tuple[int, int]]:
        return [(order[place - 1], rank) for place, rank in enumerate(order)]

    def connection(self, channel: int, sender: int, receiver: int) -> str:
        """The way of one connection; NVLink and shared memory are logged by the sender alone."""
        side = ""
        number = f"{channel:02d}/0"
        domain = self.own_domain()
        if not (sender in domain and receiver in domain):
            side = "send" if sender == self.rank else "receive"
            way = self.net_path(channel, side)
        elif self.p2p:
            way = "P2P/MNNVL" if self.mnnvl else "P2P/CUMEM"
        else:
            way, number = "SHM/direct/direct", f"{channel:02d}"
        if side or sender == self.rank:
            self.info(
                f"Channel {number} : {sender}[{self.number_on_node(sender)}] -> "
                f"{receiver}[{self.number_on_node(receiver)}]{f' [{side}]' if side else ''} "
                f"via {way}"
            )
        return way

    def net_path(self, channel: int, side: str) -> str:
        if self.network == "Socket":
            return "NET/Socket/0"
        device = channel % len(self.hcas)
        ranks = self.ranks_on(self.hosts[self.rank])
        nearest = ranks[device * len(ranks) // len(self.hcas)]
        # PXN: over NVLink to the GPU that is nearest to the NIC.
        proxy = f"({nearest})" if side == "send" and nearest != self.rank and self.p2p else ""
        return f"NET/IB/{device}{proxy}{'/GDRDMA' if self.fabric['gdr'] else ''}"
