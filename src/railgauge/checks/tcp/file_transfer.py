"""Checks that move files between two nodes, and streams beside them, by the site's tools."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import reframe.core.runtime as rt
from reframe.core.builtins import variable

from railgauge.checks.framework.cases import LeftOut, TransferCase, is_series, left_to_the_series
from railgauge.checks.framework.observation import Facts
from railgauge.checks.jobs.client_server import PairCases, PairCheck, first_pair_alone, neighbours
from railgauge.checks.tcp.long_distance import of_another_length, over_long_way
from railgauge.model import limits
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.node.orders.places import ClientServerOrder, TransferOrder
from railgauge.node.runners import wdt_url
from railgauge.stack import activation
from railgauge.systems import Partition, Transfers, TransferTool, rehearsal
from railgauge.tools import Moved, Reading, file_transfer, iperf3, wdt
from railgauge.tools.common.lines import STDERR
from railgauge.tools.file_transfer import DISCARDED, FileSet, Login

#: The program that sends or fetches the files, by tool.
_CLIENTS = {
    "wdt": "wdt",
    **{str(tool): client for tool, (client, _) in file_transfer.PROGRAMS.items()},
}


class TransferCases(PairCases[TransferCase]):
    """What a tool moves between neighbours; iperf3 moves no files.

    Long ways belong to the series.
    """

    described = "what extras.transfers has"

    def __init__(self, tool: TransferTool) -> None:
        super().__init__("transfers")
        self.tool = tool

    def on(self, partition: Partition) -> Iterable[TransferCase]:
        transfers = _transfers(partition)
        some = transfers.series_only and not is_series()
        if self.lacks_description(partition) or (some and not self._is_always(transfers)):
            return []
        sets = self._file_sets(transfers)
        if some:
            sets = [chosen for chosen in sets if chosen[0] == transfers.always[self.tool]][:1]
        ways: list[float | None] = [None]
        if is_series() and "wan" in partition.features and partition.extras.wan:
            ways += [ms for ms in partition.extras.wan.round_trips_ms if ms]
        return [
            TransferCase(*pair.ends, files, discarded, round_trip_ms)
            for pair in neighbours(partition)[: 1 if transfers.pairs == "first" else None]
            for files, discarded in sets
            for round_trip_ms in ways
        ]

    def _is_always(self, transfers: Transfers) -> bool:
        """Whether an acceptance without the series measures it, too."""
        if self.tool not in transfers.always:
            return False
        system = rt.runtime().system.name
        return self.tool in transfers.tools or activation.has_built(_CLIENTS[self.tool], system)

    def _file_sets(self, transfers: Transfers) -> list[tuple[str | None, bool]]:
        """Names of file sets, and whether the receiver discards them; None for no files."""
        if self.tool == "iperf3":
            return [(None, False)]
        skips = transfers.wdt.skip_writes if self.tool == "wdt" else [False]
        return [(name, skip) for name in transfers.file_sets for skip in skips]

    def lacks_description(self, partition: Partition) -> str:
        transfers = _transfers(partition)
        tools = (*transfers.tools, *transfers.optional)
        if self.tool in tools:
            return ""
        return f"runs where extras.transfers.tools has {self.tool}; it has {', '.join(tools)}"

    def leaves_out(self, partition: Partition) -> Sequence[LeftOut]:
        transfers = _transfers(partition)
        left_out = []
        if self.tool in transfers.optional:
            reason = "a node that lacks its tool is not measured"
            left_out.append(LeftOut(reason, "extras.transfers.optional"))
        if transfers.series_only and self.tool not in transfers.always:
            left_out.append(left_to_the_series("extras.transfers.series_only"))
        if transfers.pairs == "first":
            left_out += first_pair_alone(partition, "extras.transfers.pairs")
        return left_out

    def values(self, partition: Partition) -> Mapping[str, Sequence[object]]:
        transfers, wan = _transfers(partition), partition.extras.wan
        sets = [
            (_file_set(transfers, name), DISCARDED if discarded else "")
            for name, discarded in self._file_sets(transfers)
            if name is not None
        ]
        return {
            "operation": [files.name + end for files, end in sets] or ["tcp"],
            "size_bytes": [files.file_bytes for files, _ in sets] or [None],
            "streams": [1 if self.tool in ("scp", "hpn-scp") else transfers.streams],
            "delay_ms": [None, "any", *(wan.round_trips_ms if wan else ())],
        }


def _transfers(partition: Partition) -> Transfers:
    transfers = partition.extras.transfers
    assert transfers is not None  # a partition with the feature has it
    return transfers


def _file_set(transfers: Transfers, name: str) -> FileSet:
    chosen = transfers.file_sets[name]
    return FileSet(chosen.files, chosen.file_bytes)


class TransferPairCheck(PairCheck):
    """One tool between two neighbours, over their own path or over a long way.

    A concrete check gives its own `cases = TransferCases("TOOL")`.
    """

    here: TransferCase
    #: as in extras.transfers.tools
    transfer_tool: TransferTool
    #: the rate; the time is the same in other words
    gating = ("bandwidth",)
    #: the round trip may be this much longer than asked for: the path's own, and a busy machine's
    slack_ms = variable(float, value=15.0)

    @property
    def transfers(self) -> Transfers:
        return _transfers(self.partition_data)

    @property
    def round_trip_ms(self) -> float | None:
        """The round trip of the long way; None over the path as it is."""
        return self.here.round_trip_ms

    @classmethod
    def is_optional(cls, partition: Partition) -> bool:
        return cls.transfer_tool in _transfers(partition).optional

    @classmethod
    def folders_on(cls, partition: Partition) -> Sequence[str]:
        return _transfers(partition).path

    def provider(self, program: str) -> str:
        step = activation.bringing(program, self.current_system.name)
        return step or f"{program}: {file_transfer.PROVIDERS[program]}"

    def programs(self) -> Mapping[str, list[str]]:
        """The commands of each side; the first is the tool itself, or its server."""
        raise NotImplementedError

    def order(self) -> ClientServerOrder:
        order = dataclasses.replace(
            super().order(),
            programs={role: tuple(names) for role, names in self.programs().items()},
            path=tuple(self.transfers.path),
        )
        wan, round_trip_ms = self.partition_data.extras.wan, self.round_trip_ms
        if wan is None or round_trip_ms is None:
            return order
        return over_long_way(order, wan, round_trip_ms, self.slack_ms)

    def expected_path(self) -> dict[str, Any]:
        expected = super().expected_path()
        if self.round_trip_ms is not None:
            # The emulation is the job's own.
            del expected["emulation"]
        return expected

    def violations(self, calls: Sequence[Call], facts: Facts) -> Sequence[Failure]:
        failures = list(super().violations(calls, facts))
        missing = any("missing" in node_facts for node_facts in facts.values())
        if self.round_trip_ms is not None and not missing:
            node_facts, nodes = (
                facts.get(self.client_node, {}),
                (self.client_node, self.server_node),
            )
            failures += of_another_length(node_facts, nodes, self.round_trip_ms, self.slack_ms)
        return failures

    def limit(self, measurement: Measurement) -> Limit | None:
        path = self.partition_data.extras
        if measurement.unit == "Gb/s" and path.link_gbits and path.mtu_bytes:
            return limits.tcp(path.link_gbits, path.mtu_bytes)
        return None

    def on_this_way(self, reading: Reading) -> Reading:
        """The measurements, with the length of the way."""
        measured = tuple(
            dataclasses.replace(m, delay_ms=self.round_trip_ms) for m in reading.measurements
        )
        return dataclasses.replace(reading, measurements=measured)


class StreamCheck(TransferPairCheck):
    """iperf3 beside the transfers, to show what TCP carries without files."""

    tool = iperf3
    transfer_tool: TransferTool = "iperf3"
    metrics = ["bandwidth", "stream_bandwidth_min", "retransmits"]

    @property
    def options(self) -> iperf3.Options:
        transfers = self.transfers
        return iperf3.Options(transfers.streams, transfers.duration_s, drain_s=5)

    def requested(self) -> Mapping[str, Any]:
        return {"streams": self.options.streams}

    def programs(self) -> Mapping[str, list[str]]:
        return {"server": ["iperf3"], "client": ["iperf3"]}

    def commands(self) -> Mapping[str, list[str]]:
        return {
            "server": iperf3.server_argv(self.options),
            "client": iperf3.client_argv(self.options),
            "version": iperf3.version_argv(),
        }

    def expected_run_s(self) -> float:
        return self.transfers.duration_s + 1.0

    def run_limit_s(self) -> int:
        return self.transfers.duration_s + 30

    def reading(self, calls: Sequence[Call], facts: Facts, prefix: str = "") -> Reading:
        return self.on_this_way(super().reading(calls, facts, prefix))


class TransferCheck(TransferPairCheck):
    """A set of files by one tool: made on one node, verified on the other.

    Good is: the tool's exit code, every file there with its sha256 (unless the receiver was to
    throw them away), nothing else there, and the rate at the reference.
    """

    program = "file_transfer"
    #: what runs in the server's place: ssh, ftp or wdt
    by: str
    sender = "client"
    #: how fast a node makes, or reads, files at least
    slowest_disk_bytes_s = variable(float, value=100e6)

    # --- for subclasses ----------------------------------------------------------------------

    @property
    def options(self) -> file_transfer.Options | wdt.Options:
        raise NotImplementedError

    def configuration(self) -> Mapping[str, Mapping[str, str]]:
        """The files that the tool reads, by side and path."""
        return {}

    def arrives(self) -> str | None:
        """Where the files should be in the end; none where they are discarded."""
        return "{scratch}/into/set"

    # --- the job -------------------------------------------------------------------------------

    @property
    def tool_name(self) -> str:
        return self.transfer_tool

    @property
    def files(self) -> FileSet:
        assert self.here.file_set is not None  # or it is a stream
        return _file_set(self.transfers, self.here.file_set)

    def required_metrics(self) -> Sequence[str]:
        size = self.files.file_bytes
        return [f"bandwidth_{size}B", f"transfer_time_{size}B"]

    def requested(self) -> Mapping[str, Any]:
        return {"files": self.files.files}

    def longest_run_s(self) -> float:
        return 2 * self._prepare_limit_s + super().longest_run_s()

    @property
    def _prepare_limit_s(self) -> int:
        return 30 + int(self.files.total_bytes / self.slowest_disk_bytes_s)

    def order(self) -> ClientServerOrder:
        transfer = TransferOrder(
            by=self.by,
            sender=self.sender,
            files=self.files.files,
            file_bytes=self.files.file_bytes,
            scratch=self.transfers.scratch,
            arrives=self.arrives(),
            prepare_limit_s=self._prepare_limit_s,
            configuration=self.configuration(),
            replay=self.for_stand_in(),
        )
        return dataclasses.replace(super().order(), transfer=transfer)

    def for_stand_in(self) -> Mapping[str, Any] | None:
        """The document for a stand-in, where one runs in the tool's place."""
        return None

    def expected_run_s(self) -> float:
        # Made, moved at a part of the link's rate, and verified.
        gbits_s = 0.2 * (self.partition_data.extras.link_gbits or 10)
        size = self.files.total_bytes
        return 2 + 2 * size / 1e9 + size * 8e-9 / gbits_s

    def run_limit_s(self) -> int:
        return self.transfers.timeout_s

    # --- what it left --------------------------------------------------------------------------

    def reading(self, calls: Sequence[Call], facts: Facts, prefix: str = "") -> Reading:
        # What the receiver's side has, as `file_set verify` tells it.
        receiver = self.client_node if self.sender == "server" else self.server_node
        verified = facts.get(receiver, {}).get("arrived")
        arrived = None if verified is None else json.dumps(verified)
        manifest = self.text("manifest.json") or None
        reading = self.on_this_way(self.judged(calls, arrived, manifest))
        return dataclasses.replace(reading, moved=self._moved(reading))

    def _moved(self, reading: Reading) -> tuple[Moved, ...]:
        """The claim of all files to the receiver, in the time of the tool's call."""
        times = [m.value for m in reading.measurements if m.metric == "transfer_time"]
        to: Literal["server", "client"] = "client" if self.sender == "server" else "server"
        return tuple(Moved(self.files.total_bytes, seconds, to) for seconds in times[:1])

    def judged(self, calls: Sequence[Call], arrived: str | None, sent: str | None) -> Reading:
        """The tool's reading, by its calls and the files on the other side."""
        options = self.options
        assert isinstance(options, file_transfer.Options)
        return file_transfer.read(arrived, sent=sent, calls=calls, options=options)

    def violations(self, calls: Sequence[Call], facts: Facts) -> Sequence[Failure]:
        """The failures, also the tool's last words, and files that a node has kept."""
        failures = list(super().violations(calls, facts))
        for node, node_facts in sorted(facts.items()):
            if "scratch_left" in node_facts:
                message = f"{node_facts['scratch_left']} could not be removed from {node}"
                failures.append(Failure("scratch-left", message, (node,)))
            if "arrived_unknown" in node_facts:
                message = (
                    f"what arrived on {node} cannot be verified: {node_facts['arrived_unknown']}"
                )
                failures.append(Failure("output", message, (node,)))
        for call in calls:
            words = self._last_words_of(call.role) if call.failure else ""
            if words:
                message = f"{call.tool} ({call.role}) on {call.host} said last: {words}"
                failures.append(Failure("last-words", message))
        return failures

    def _last_words_of(self, role: str) -> str:
        lines = wdt_url.redacted(self.output(role)).splitlines()
        lines_said = [line.removeprefix(STDERR).strip() for line in lines]
        return next((line[:300] for line in reversed(lines_said) if line), "")


class WdtCheck(TransferCheck):
    """WDT: many connections, and threads on both sides. Both ends must report success."""

    tool = wdt
    transfer_tool: TransferTool = "wdt"
    by = "wdt"

    @property
    def options(self) -> wdt.Options:
        transfers = self.transfers
        return wdt.Options(
            self.files,
            streams=transfers.streams,
            encryption=transfers.wdt.encryption,
            skip_writes=self.here.discarded,
            start_port=transfers.wdt.start_port,
        )

    def programs(self) -> Mapping[str, list[str]]:
        return {"server": ["wdt"], "client": ["wdt"]}

    def commands(self) -> Mapping[str, list[str]]:
        return {
            "server": wdt.receiver_argv(self.options, "{scratch}/into"),
            "client": wdt.sender_argv(self.options, "{scratch}/set"),
            "version": wdt.version_argv(),
        }

    def arrives(self) -> str | None:
        return None if self.options.skip_writes else "{scratch}/into"

    def for_stand_in(self) -> Mapping[str, Any] | None:
        happening = rehearsal.scenario()
        if happening is None:
            return None
        here = set(happening.nodes) <= set(self.here.nodes)
        return {"scenario": happening.name if here else "healthy"}

    def judged(self, calls: Sequence[Call], arrived: str | None, sent: str | None) -> Reading:
        client, server = self.output("client"), self.output("server")
        return wdt.read(
            client, server=server, calls=calls, options=self.options, arrived=arrived, sent=sent
        )


class _ByProgram(TransferCheck):
    """A tool that is judged by its exit code and the files that have arrived."""

    tool = file_transfer
    transfer_tool: file_transfer.Tool

    @classmethod
    def programs_on(cls, partition: Partition) -> Mapping[str, Sequence[str]]:
        argv = file_transfer.version_argv(cls.transfer_tool)
        return {argv[0]: argv}


class FtpCheck(_ByProgram):
    """lftp from ProFTPD. The client pulls: only a download is cut into parallel pieces."""

    transfer_tool = "lftp"
    by = "ftp"
    sender = "server"
    login = Login(user="railgauge")

    @property
    def options(self) -> file_transfer.Options:
        return file_transfer.Options("lftp", self.files, streams=self.transfers.streams)

    def programs(self) -> Mapping[str, list[str]]:
        return {"server": ["proftpd", "ftpasswd"], "client": ["lftp"]}

    def commands(self) -> Mapping[str, list[str]]:
        options, into = self.options, "{scratch}/into"
        return {
            "server": file_transfer.server_argv(options, "{program}", "{scratch}/proftpd.conf"),
            "client": file_transfer.client_argv(options, self.login, "{remote}/set", into),
            "version": file_transfer.version_argv("lftp"),
        }

    def configuration(self) -> Mapping[str, Mapping[str, str]]:
        options, into = self.options, "{scratch}/into"
        server = file_transfer.proftpd_configuration(
            "{address}",
            "{port}",
            "{scratch}",
            "{scratch}/passwd",
            "{user}",
            "{group}",
            options.streams,
        )
        script = file_transfer.lftp_script(options, self.login, "{remote}/set", into)
        return {"server": {"{scratch}/proftpd.conf": server}, "client": {"lftp.script": script}}


class SshCheck(_ByProgram):
    """A tool that connects by ssh, to an sshd of this job's own. The client pushes."""

    by = "ssh"
    login = Login(user="{user}", identity="{scratch}/user", known_hosts="{scratch}/known_hosts")

    @property
    def options(self) -> file_transfer.Options:
        streams = self.transfers.streams if self.transfer_tool == "bbcp" else 1
        assert self.transfer_tool in ("scp", "hpn-scp", "bbcp")
        return file_transfer.Options(self.transfer_tool, self.files, streams=streams)

    def programs(self) -> Mapping[str, list[str]]:
        client, server = file_transfer.PROGRAMS[self.options.tool]
        ssh = "hpnssh" if client == "hpnscp" else "ssh"
        # bbcp runs on both sides; its client starts the other one.
        peers = ["bbcp"] if client == "bbcp" else []
        return {
            "server": [server, "ssh-keygen", *peers],
            "client": [client, ssh, "ssh-keygen"],
        }

    def commands(self) -> Mapping[str, list[str]]:
        options, into = self.options, "{remote}/into"
        return {
            "server": file_transfer.server_argv(options, "{program}", "{scratch}/sshd_config"),
            "client": file_transfer.client_argv(options, self.login, "{scratch}/set", into),
            "version": file_transfer.version_argv(options.tool),
        }

    def configuration(self) -> Mapping[str, Mapping[str, str]]:
        server = file_transfer.sshd_configuration(
            "{address}",
            "{port}",
            "{scratch}/host",
            "{scratch}/authorized_keys",
            "{user}",
            # bbcp's other side may be in the stack, of which sshd's own path has nothing.
            "{search_path}" if self.transfer_tool == "bbcp" else "",
        )
        known = file_transfer.known_hosts_line("{server}", "{port}", "{host_key}")
        return {
            "server": {"{scratch}/sshd_config": server},
            "client": {"{scratch}/known_hosts": known},
        }
