"""Checks that move files between two nodes, and streams beside them, by the site's tools."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import reframe.core.runtime as rt

from railgauge.checks.framework.cases import (
    LeftOut,
    PairCase,
    TransferCase,
    is_series,
    left_to_the_series,
)
from railgauge.checks.framework.observation import Facts
from railgauge.checks.framework.place_run import PlaceOutput
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.client_server import PairRun, PairTool, RunPart
from railgauge.checks.jobs.pairs import PairCases, first_pair_alone, neighbours
from railgauge.checks.tcp.long_distance import LongWay, without_emulation
from railgauge.checks.tcp.streams import path_limit
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.node.orders.places import ClientServerOrder, TransferOrder
from railgauge.node.runners import wdt_url
from railgauge.stack import activation
from railgauge.systems import Partition, Transfers, TransferTool, rehearsal
from railgauge.tools import Moved, Reading, file_transfer, iperf3, wdt
from railgauge.tools.common.lines import STDERR
from railgauge.tools.file_transfer import DISCARDED, FileSet, Login

#: How fast a node makes, or reads, files at least.
_SLOWEST_DISK_BYTES_S = 100e6

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


class TransferPrograms(Programs):
    """Those of a transfer's tool, which a partition's data says where to find."""

    def __init__(self, tool: TransferTool, version: Sequence[str]) -> None:
        super().__init__(None, version)
        self._tool = tool

    def folders(self, partition: Partition) -> Sequence[str]:
        return _transfers(partition).path

    def may_be_missing(self, partition: Partition) -> bool:
        return self._tool in _transfers(partition).optional

    def provider(self, program: str, system: str) -> str:
        step = activation.bringing(program, system)
        return step or f"{program}: {file_transfer.PROVIDERS[program]}"


@dataclasses.dataclass(frozen=True)
class SiteTool(RunPart):
    """Programs of each side, the tool or its server first, and the folders to look in for them."""

    programs: Mapping[str, Sequence[str]]
    folders: Sequence[str]

    def order(self, order: ClientServerOrder) -> ClientServerOrder:
        programs = {role: tuple(names) for role, names in self.programs.items()}
        return dataclasses.replace(order, programs=programs, path=tuple(self.folders))


def _transfer_run(run: PairRun, programs: Mapping[str, Sequence[str]]) -> PairRun:
    """The run of a tool of the site, over the path as it is or over the long way of its place."""
    assert isinstance(run.place, TransferCase)
    wan, round_trip_ms = run.partition.extras.wan, run.place.round_trip_ms
    parts: list[RunPart] = [SiteTool(programs, _transfers(run.partition).path)]
    if wan is not None and round_trip_ms is not None:
        parts.append(LongWay(run.place, wan, round_trip_ms, always=False))
        run = without_emulation(run)
    limit = path_limit(run.partition)
    return dataclasses.replace(run, parts=(*parts, *run.parts), limit_of=limit)


def stream_transfer(place: TransferCase, partition: Partition) -> PairRun:
    """iperf3, to show what TCP carries without files."""
    transfers = _transfers(partition)
    options = iperf3.Options(transfers.streams, transfers.duration_s, drain_s=5)
    run = PairRun(
        place=place,
        partition=partition,
        tool=PairTool(
            module=iperf3,
            options=options,
            server=iperf3.server_argv(options),
            client=iperf3.client_argv(options),
            version=iperf3.version_argv(),
        ),
        states={"streams": options.streams},
        expected_run_s=transfers.duration_s + 1.0,
        run_limit_s=transfers.duration_s + 30,
    )
    return _transfer_run(run, {"server": ["iperf3"], "client": ["iperf3"]})


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesTool(PairTool):
    """A tool that sends files, judged by its exit code and the files that have arrived."""

    file_set: FileSet
    place: PairCase
    #: the side that sends
    sender: Literal["server", "client"] = "client"

    @property
    def name(self) -> str:
        return str(getattr(self.options, "tool", wdt.TOOL))

    def read(
        self, left: PlaceOutput, calls: Sequence[Call], facts: Facts, prefix: str = ""
    ) -> Reading:
        # What the receiver's side has, as `file_set verify` tells it.
        to: Literal["server", "client"] = "client" if self.sender == "server" else "server"
        verified = facts.get(getattr(self.place, to), {}).get("arrived")
        arrived = None if verified is None else json.dumps(verified)
        reading = self._judged(left, calls, arrived, left.text("manifest.json") or None)
        # The claim of all files to the receiver, in the time of the tool's call.
        times = [m.value for m in reading.measurements if m.metric == "transfer_time"][:1]
        moved = (Moved(self.file_set.total_bytes, seconds, to) for seconds in times)
        return dataclasses.replace(reading, moved=tuple(moved))

    def _judged(
        self, left: PlaceOutput, calls: Sequence[Call], arrived: str | None, sent: str | None
    ) -> Reading:
        if isinstance(self.options, file_transfer.Options):
            return file_transfer.read(arrived, sent=sent, calls=calls, options=self.options)
        client, server = left.output("client"), left.output("server")
        known = {"calls": calls, "options": self.options, "arrived": arrived, "sent": sent}
        return wdt.read(client, server=server, **known)


@dataclasses.dataclass(frozen=True)
class SentFiles(RunPart):
    """The files that one side makes and the other verifies."""

    transfer: TransferOrder

    def order(self, order: ClientServerOrder) -> ClientServerOrder:
        return dataclasses.replace(order, transfer=self.transfer)

    def failures(self, calls: Sequence[Call], facts: Facts, left: PlaceOutput) -> Sequence[Failure]:
        """The tool's last words, and files that a node has kept."""
        failures = []
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
            words = _last_words(left.output(call.role)) if call.failure else ""
            if words:
                message = f"{call.tool} ({call.role}) on {call.host} said last: {words}"
                failures.append(Failure("last-words", message))
        return failures


def _last_words(output: str) -> str:
    lines = wdt_url.redacted(output).splitlines()
    lines_said = [line.removeprefix(STDERR).strip() for line in lines]
    return next((line[:300] for line in reversed(lines_said) if line), "")


def _files_of(place: TransferCase, partition: Partition) -> FileSet:
    assert place.file_set is not None  # or it is a stream
    return _file_set(_transfers(partition), place.file_set)


def _files_run(
    place: TransferCase,
    partition: Partition,
    tool: FilesTool,
    programs: Mapping[str, Sequence[str]],
    **transfer: Any,
) -> PairRun:
    """A set of files by one tool: made on one node, verified on the other."""
    files, transfers = tool.file_set, _transfers(partition)
    prepare_limit_s = 30 + int(files.total_bytes / _SLOWEST_DISK_BYTES_S)
    order = TransferOrder(
        sender=tool.sender,
        files=files.files,
        file_bytes=files.file_bytes,
        scratch=transfers.scratch,
        prepare_limit_s=prepare_limit_s,
        **{"arrives": "{scratch}/into/set", "configuration": {}, **transfer},
    )
    # Made, moved at a part of the link's rate, and verified.
    gbits_s = 0.2 * (partition.extras.link_gbits or 10)
    size = files.total_bytes
    run = PairRun(
        place=place,
        partition=partition,
        runner="file_transfer",
        tool=tool,
        required=[f"{metric}_{files.file_bytes}B" for metric in ("bandwidth", "transfer_time")],
        states={"files": files.files},
        expected_run_s=2 + 2 * size / 1e9 + size * 8e-9 / gbits_s,
        run_limit_s=transfers.timeout_s,
        prepare_limit_s=prepare_limit_s,
        parts=(SentFiles(order),),
    )
    return _transfer_run(run, programs)


def by_wdt(place: TransferCase, partition: Partition) -> PairRun:
    """WDT: many connections, and threads on both sides. Both ends must report success."""
    files, transfers = _files_of(place, partition), _transfers(partition)
    options = wdt.Options(
        files,
        streams=transfers.streams,
        encryption=transfers.wdt.encryption,
        skip_writes=place.discarded,
        start_port=transfers.wdt.start_port,
    )
    tool = FilesTool(
        module=wdt,
        options=options,
        server=wdt.receiver_argv(options, "{scratch}/into"),
        client=wdt.sender_argv(options, "{scratch}/set"),
        version=wdt.version_argv(),
        file_set=files,
        place=place,
    )
    replay, happening = None, rehearsal.scenario()
    if happening is not None:
        # A stand-in runs in the tool's place.
        here = set(happening.nodes) <= set(place.nodes)
        replay = {"scenario": happening.name if here else "healthy"}
    return _files_run(
        *(place, partition, tool, {"server": ["wdt"], "client": ["wdt"]}),
        by="wdt",
        arrives=None if options.skip_writes else "{scratch}/into",
        replay=replay,
    )


def _site_tool(
    place: TransferCase,
    partition: Partition,
    name: file_transfer.Tool,
    configuration: str,
    *transfer: Any,
    sender: Literal["server", "client"] = "client",
) -> FilesTool:
    """A tool whose server reads a configuration; `transfer` are login, source and destination."""
    files = _files_of(place, partition)
    streams = 1 if name in ("scp", "hpn-scp") else _transfers(partition).streams
    options = file_transfer.Options(name, files, streams=streams)
    return FilesTool(
        module=file_transfer,
        options=options,
        server=file_transfer.server_argv(options, "{program}", configuration),
        client=file_transfer.client_argv(options, *transfer),
        version=file_transfer.version_argv(name),
        file_set=files,
        place=place,
        sender=sender,
    )


def by_ftp(place: TransferCase, partition: Partition) -> PairRun:
    """lftp from ProFTPD. The client pulls: only a download is cut into parallel pieces."""
    file = "{scratch}/proftpd.conf"
    transfer = Login(user="railgauge"), "{remote}/set", "{scratch}/into"
    tool = _site_tool(place, partition, "lftp", file, *transfer, sender="server")
    server = file_transfer.proftpd_configuration(
        *("{address}", "{port}", "{scratch}", "{scratch}/passwd", "{user}", "{group}"),
        tool.options.streams,
    )
    script = file_transfer.lftp_script(tool.options, *transfer)
    return _files_run(
        *(place, partition, tool),
        {"server": ["proftpd", "ftpasswd"], "client": ["lftp"]},
        by="ftp",
        configuration={"server": {file: server}, "client": {"lftp.script": script}},
    )


def by_ssh(place: TransferCase, partition: Partition, name: file_transfer.Tool) -> PairRun:
    """A tool that connects by ssh, to an sshd of this job's own. The client pushes."""
    file, known_hosts = "{scratch}/sshd_config", "{scratch}/known_hosts"
    login = Login(user="{user}", identity="{scratch}/user", known_hosts=known_hosts)
    transfer = login, "{scratch}/set", "{remote}/into"
    tool = _site_tool(place, partition, name, file, *transfer)
    client, server = file_transfer.PROGRAMS[name]
    ssh = "hpnssh" if client == "hpnscp" else "ssh"
    # bbcp runs on both sides; its client starts the other one.
    peers = ["bbcp"] if client == "bbcp" else []
    configuration = file_transfer.sshd_configuration(
        *("{address}", "{port}", "{scratch}/host", "{scratch}/authorized_keys", "{user}"),
        # bbcp's other side may be in the stack, of which sshd's own path has nothing.
        "{search_path}" if name == "bbcp" else "",
    )
    known = file_transfer.known_hosts_line("{server}", "{port}", "{host_key}")
    return _files_run(
        *(place, partition, tool),
        {"server": [server, "ssh-keygen", *peers], "client": [client, ssh, "ssh-keygen"]},
        by="ssh",
        configuration={"server": {file: configuration}, "client": {known_hosts: known}},
    )
