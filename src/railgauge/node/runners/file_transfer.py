"""Move a set of files between two nodes.

As `client_server`, with more to do on both sides. The sender's side makes the
files, leaves their sums as `manifest.json` and sends them to the other; the client's makes the
other an `offer`; the server's starts a server of this place's own and says that it is `ready`; the
client's runs the tool; the receiver's side puts what arrived into the facts of its exit line.

Keys and passwords are made for this one transfer, in a folder of the node's own that only this
user can read: {scratch}, and {remote} for that of the other side; servers and their clients work in
it.
What the other side must know of them is sent to it, public keys as well as a password or WDT's URL;
nothing keeps what is sent. When the side ends, however it ends, its folder goes.
"""

from __future__ import annotations

import contextlib
import grp
import io
import json
import os
import pwd
import queue
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from railgauge.node.orders.places import TransferOrder
from railgauge.node.runners import client_server, file_set, wdt_url
from railgauge.node.runners.client_server import Facts, Lane, Pair, Values
from railgauge.node.system import network_path, processes
from railgauge.node.system.network_path import PathError
from railgauge.node.system.tool_call import KINDS, OUTPUT_BYTES, Call, filled, start
from railgauge.node.transport.channel import Peer

#: A server that is ordered to end has so long.
STOP_S = 10
#: Files take whole blocks of the file system.
BLOCK_BYTES = 4096

#: Removes the folder once this process has closed the pipe, or died.
#: Its last command keeps the shell, and with it the name of the process.
_KEEPER = 'trap "" TERM INT HUP; read -r _; rm -rf -- "$1"; exit 0'

FTP_USER = "railgauge"

#: by which both sides call what only they may know, and the sums of the files
_SECRET, _MANIFEST = "secret", "manifest"
MANIFEST_FILE = "manifest.json"


# ---- the folder of one side ------------------------------------------------------------------


@contextlib.contextmanager
def scratch(parent: str, needed_bytes: int, facts: Facts) -> Iterator[str]:
    """A folder for this user alone, gone afterwards with every process that was started here."""
    with contextlib.ExitStack() as stack:
        with processes.undisturbed():
            folder = _room(parent, needed_bytes)
            keeper = subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER, processes.KEEPER, folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(_clear, folder, keeper, facts)
        yield folder


def _room(parent: str, needed_bytes: int) -> str:
    """A new folder there, where so much fits; PathError where it does not."""
    try:
        free = shutil.disk_usage(parent).free
        if free < needed_bytes:
            raise PathError(
                f"{parent} has {free / 1e9:.2f} GB free, needs {needed_bytes / 1e9:.2f}"
            )
        return tempfile.mkdtemp(prefix="railgauge-transfer-", dir=parent)
    except OSError as error:
        raise PathError(f"no scratch folder in {parent}: {error.strerror}") from None


def _clear(folder: str, keeper: subprocess.Popen[bytes], facts: Facts) -> None:
    with processes.undisturbed():
        processes.end_children(spared=[keeper.pid])
        keeper.communicate()
    if Path(folder).exists():
        facts["scratch_left"] = folder


@contextlib.contextmanager
def working_in(folder: str) -> Iterator[None]:
    """Tools that start inside find the files there that their configuration names."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def write_private(path: str, text: str) -> None:
    """A new file that only this user can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)


class Side:
    """What one side has and does, whatever the tool is."""

    def __init__(self, role: str, lane: Lane, peer: Peer, folder: str) -> None:
        self.role, self.lane, self.peer, self.folder = role, lane, peer, folder
        self.order = lane.pair.order
        self.transfer = transfer_of(lane.pair)
        self.facts = facts = lane.facts
        self.cpus = network_path.cpus_of(facts)
        user = pwd.getpwuid(os.getuid())
        self.values = {
            **lane.values,
            "scratch": folder,
            "address": facts.get("address", ""),
            "user": user.pw_name,
            "group": grp.getgrgid(user.pw_gid).gr_name,
            # sshd starts itself again, and insists on its whole path.
            "program": shutil.which(self.order.programs[role][0]) or "",
            "search_path": os.environ.get("PATH", ""),
        }
        Path(folder, "into").mkdir()
        if self.transfer.replay is not None:
            # For a stand-in of a rehearsal, which is started in this folder.
            Path(folder, "replay.json").write_text(json.dumps(self.transfer.replay))

    @property
    def sends(self) -> bool:
        return self.transfer.sender == self.role

    @property
    def limit_s(self) -> float:
        """From the server's start to the client's exit line: it may have to verify first."""
        order = self.order
        return order.start_limit_s + order.run_limit_s + self.transfer.prepare_limit_s + 10

    def make_files(self) -> None:
        if self.sends:
            files, size = self.transfer.files, self.transfer.file_bytes
            try:
                manifest = file_set.make(f"{self.folder}/set", files, size)
            except OSError as error:
                raise PathError(f"the files cannot be made in {self.folder}: {error}") from None
            self.lane.files[MANIFEST_FILE] = json.dumps(manifest)
            self.peer.send(_MANIFEST, manifest)

    def verify(self) -> None:
        """Put what arrived here into the facts."""
        if self.sends or not self.transfer.arrives:
            return
        (folder,) = filled([self.transfer.arrives], self.values)
        if not Path(folder).is_dir():
            # Nothing came; that nothing is proved is said by there being no sums.
            return
        try:
            # It was sent before anything of them.
            manifest = self.peer.receive(_MANIFEST, 0) or {}
            self.facts["arrived"] = file_set.verify(folder, manifest)
        except (OSError, ValueError) as error:
            self.facts["arrived_unknown"] = f"{type(error).__name__}: {error}"

    def write_configuration(self, values: Values) -> None:
        """The files that the tool reads; a second try on another port writes them again."""
        for path, text in self.transfer.configuration.get(self.role, {}).items():
            target, content = filled([path, text], values)
            with contextlib.suppress(FileNotFoundError):
                Path(target).unlink()
            write_private(target, content)

    def environment(self) -> dict[str, str]:
        """Without a home: its files could change what the tool does."""
        return {**os.environ, "HOME": self.folder}

    def secret(self) -> str:
        """The secret that the other side sent to this one alone; PathError where none came."""
        secret = self.peer.receive(_SECRET, 0)
        if secret is None:
            raise PathError("no secret of the other side")
        return str(secret)


# ---- servers of this job's own, which end when ordered to ----------------------------------


def _run_quietly(argv: list[str], text: str = "") -> None:
    """PathError where a command that prepares something fails."""
    try:
        answer = subprocess.run(
            argv,
            input=text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PathError(f"{argv[0]}: {error}") from None
    if answer.returncode != 0:
        words = " ".join(answer.stdout.decode("utf-8", "replace").split())[:300]
        raise PathError(f"{argv[0]} ended with exit code {answer.returncode}: {words}")


class Server:
    """What the sides of one kind of server send each other before it starts."""

    def offer(self, side: Side) -> dict[str, str]:
        """What the client's side prepares; anybody may read it."""
        return {}

    def prepare(self, side: Side, offer: dict[str, str]) -> dict[str, str]:
        """What the server's side prepares and sends together with its address."""
        raise NotImplementedError

    def environment(self, side: Side) -> dict[str, str]:
        """The environment by which the client's tool gets its secret."""
        return {}


class Ssh(Server):
    """sshd for one user and one key: the server never sees the client's private half."""

    @staticmethod
    def _key_pair(path: str) -> str:
        """Make `path`, for its owner only; its public half, without the comment."""
        _run_quietly(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "railgauge", "-f", path])
        kind, key, *_ = Path(f"{path}.pub").read_text(encoding="ascii").split()
        return f"{kind} {key}"

    def offer(self, side: Side) -> dict[str, str]:
        return {"public_key": self._key_pair(f"{side.folder}/user")}

    def prepare(self, side: Side, offer: dict[str, str]) -> dict[str, str]:
        write_private(f"{side.folder}/authorized_keys", f"{offer['public_key']}\n")
        return {"host_key": self._key_pair(f"{side.folder}/host")}


class Ftp(Server):
    """proftpd for one user, with a password of this run."""

    def prepare(self, side: Side, offer: dict[str, str]) -> dict[str, str]:
        password = secrets.token_urlsafe(32)
        user = ["--name", FTP_USER, "--uid", str(os.getuid()), "--gid", str(os.getgid())]
        home = ["--home", side.folder, "--shell", "/bin/false"]
        entry = ["--file", f"{side.folder}/passwd", *user, *home]
        _run_quietly(["ftpasswd", "--passwd", "--stdin", *entry], f"{password}\n")
        Path(f"{side.folder}/passwd").chmod(0o600)
        side.peer.send(_SECRET, password)
        return {}

    def environment(self, side: Side) -> dict[str, str]:
        return {"LFTP_PASSWORD": side.secret()}


SERVERS: dict[str, Server] = {"ssh": Ssh(), "ftp": Ftp()}


def stop(server: Call) -> None:
    """End a server that is to serve until it is ordered to end: that it did not is a failure."""
    if server.ended or server.process is None:
        server.wait(0)
        code = "" if server.exit_code is None else f", exit code {server.exit_code}"
        server.note = server.note or f"ended before the client had{code}"
        return
    server.process.terminate()
    server.wait(STOP_S)


def serve_with_daemon(side: Side, offer: dict[str, str]) -> Call:
    pair, more = side.lane.pair, SERVERS[side.transfer.by].prepare(side, offer)
    lane = Lane(pair, side.lane.link)
    lane.values, lane.facts = side.values, side.facts
    deadline = time.monotonic() + side.order.start_limit_s
    server, port = client_server.start_server(lane, deadline, side.write_configuration)
    if port is None:
        server.wait(0)
        server.note = server.note or f"ended before it listened, exit code {server.exit_code}"
        return server
    try:
        address = side.values["address"] or pair.hosts["server"]
        here = {"address": address, "port": port, "remote": side.folder, **more}
        with client_server.measured(pair, [side.lane], "server", side.peer):
            side.peer.send("ready", [here])
            side.peer.wait([server], side.limit_s)
            stop(server)
    finally:
        server.kill("ended with the job")
    return server


def connect_to_daemon(side: Side, ready: dict[str, Any]) -> Call:
    values = {
        **side.values,
        "server": ready["address"],
        "port": str(ready["port"]),
        "remote": ready["remote"],
        "host_key": ready.get("host_key", ""),
    }
    side.write_configuration(values)
    secret = SERVERS[side.transfer.by].environment(side)
    environment = {**side.environment(), **secret}
    return Call("client", filled(side.order.client, values), environment, side.cpus)


# ---- WDT: its receiver ends by itself, and prints where it listens ----------------------------


class WdtCall(Call):
    """A call with outputs that are kept without keys: `urls` gets the connection URLs on them."""

    def __init__(self, role: str, argv: list[str], cpus: Iterable[int], url: str = "") -> None:
        self.urls: queue.Queue[str] = queue.Queue()
        self._url = url
        self._texts = {kind: io.StringIO() for kind in KINDS}
        self._readers: list[threading.Thread] = []
        super().__init__(role, argv, cpus=cpus)

    def _open(self, argv: list[str], environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = start(argv, environment, pipe, pipe, stdin=pipe)
        for source, kind in ((process.stdout, "out"), (process.stderr, "err")):
            arguments = (source, self._texts[kind], self.urls.put, OUTPUT_BYTES)
            # It ends with the tool, at the end of what that writes.
            reader = threading.Thread(target=wdt_url.keep_redacted, args=arguments, daemon=True)
            with processes.undisturbed():
                reader.start()
            self._readers.append(reader)
        assert process.stdin is not None
        # A tool that ends at once does not read it; how it ended is what counts.
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(f"{self._url}\n".encode() if self._url else b"")
        return process

    def output(self, kind: str) -> str:
        return self._texts[kind].getvalue()

    @property
    def is_cut(self) -> bool:
        return any(len(self.output(kind)) > OUTPUT_BYTES for kind in KINDS)

    def wait(self, limit_s: float) -> None:
        """And until all of its output is kept."""
        super().wait(limit_s)
        for reader in self._readers:
            reader.join(STOP_S)


def serve_wdt(side: Side) -> Call:
    pair, start_limit_s = side.lane.pair, side.order.start_limit_s
    server = WdtCall("server", filled(side.order.server, side.values), side.cpus)
    try:
        url = _first_url(server, start_limit_s)
        if url is None:
            server.kill(f"did not listen within {start_limit_s:g} s")
            server.wait(0)
            server.note = server.note or f"ended before it listened, exit code {server.exit_code}"
            return server
        address = side.values["address"] or pair.hosts["server"]
        side.peer.send(_SECRET, url)
        with client_server.measured(pair, [side.lane], "server", side.peer):
            side.peer.send("ready", [{"address": address}])
            side.peer.wait([server], side.limit_s)
            client_server.after([server], side.peer)
    finally:
        server.kill("ended with the job")
    return server


def _first_url(server: WdtCall, limit_s: float) -> str | None:
    """The URL that a receiver prints once it listens on all of its ports."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        ended = server.ended
        with contextlib.suppress(queue.Empty):
            return server.urls.get(timeout=client_server.POLL_S)
        if ended:
            break
    return None


def connect_wdt(side: Side, ready: dict[str, Any]) -> Call:
    values = {**side.values, "server": ready["address"]}
    return WdtCall("client", filled(side.order.client, values), side.cpus, side.secret())


# ---- both sides ------------------------------------------------------------------------------


def transfer_of(pair: Pair) -> TransferOrder:
    """The order's part for a set of files; PathError where it has none."""
    if pair.order.transfer is None:
        raise PathError("the order has no `transfer`")
    return pair.order.transfer


def _needed_bytes(transfer: TransferOrder, role: str) -> int:
    """Bytes that a side needs for its files; a receiver that throws them away needs none."""
    if transfer.sender != role and not transfer.arrives:
        return 0
    return transfer.files * (transfer.file_bytes + BLOCK_BYTES)


def serve(pair: Pair, lanes: list[Lane], peer: Peer) -> list[Call]:
    transfer, (lane,) = transfer_of(pair), lanes
    needed = _needed_bytes(transfer, "server")
    with scratch(transfer.scratch, needed, lane.facts) as folder:
        side = Side("server", lane, peer, folder)
        side.make_files()
        offer = peer.receive("offer", transfer.prepare_limit_s)
        if offer is None:
            raise PathError(f"{pair.hosts['client']} was not prepared in time")
        with working_in(folder):
            by_wdt = transfer.by == "wdt"
            call = serve_wdt(side) if by_wdt else serve_with_daemon(side, offer)
        side.verify()
    return [call]


def connect(pair: Pair, lanes: list[Lane], peer: Peer) -> list[Call]:
    transfer, (lane,) = transfer_of(pair), lanes
    needed = _needed_bytes(transfer, "client")
    with scratch(transfer.scratch, needed, lane.facts) as folder:
        side = Side("client", lane, peer, folder)
        side.make_files()
        by_wdt = transfer.by == "wdt"
        peer.send("offer", {} if by_wdt else SERVERS[transfer.by].offer(side))
        with client_server.measured(pair, lanes, "client", peer):
            limit_s = transfer.prepare_limit_s + pair.order.start_limit_s + 5
            (ready,) = client_server.find_servers(lane, peer, limit_s)
            with working_in(folder):
                call = (connect_wdt if by_wdt else connect_to_daemon)(side, ready)
                try:
                    call.wait(pair.order.run_limit_s)
                finally:
                    call.kill("ended with the job")
        side.verify()
    return [call]


def side(pair: Pair, role: str, peer: Peer) -> None:
    """A side of a place of the program `file_transfer`."""
    client_server.measure(pair, role, peer, {"server": serve, "client": connect})
