"""Moving files between two nodes: scp (OpenSSH and HPN-SSH), lftp from ProFTPD, bbcp.

None of these tools prints what could be judged, and all print something on a failure too. So a
transfer counts by its exit code and by what lies on the other side: as many files and bytes as
were sent, with the same sha256. The seconds are those of the call, which the runner measures.

scp and bbcp push: their client holds the files, and the server receives. lftp pulls, because only
a download is cut into parallel pieces: its client receives. Source and `into` are folders; the
set arrives as a folder in `into`, with the name that it has at the source.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

import pydantic

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Completeness, ParseError, Reading
from railgauge.tools.common.documents import Count, Part, document, validated
from railgauge.tools.common.options import require_integers, require_one_of

Tool = Literal["scp", "hpn-scp", "lftp", "bbcp"]

#: The programs of each tool: client, server ("" for bbcp, which its client starts through ssh).
PROGRAMS: Mapping[Tool, tuple[str, str]] = {
    "scp": ("scp", "sshd"),
    "hpn-scp": ("hpnscp", "hpnsshd"),
    "lftp": ("lftp", "proftpd"),
    "bbcp": ("bbcp", "sshd"),
}

#: The Spack packages that bring them, with the programs of each; the others are the system's own.
PACKAGES = {"hpn-ssh": ("hpnscp", "hpnssh", "hpnsshd"), "lftp": ("lftp",)}

#: What else to install for a program that the pinned stack lacks.
PROVIDERS = {
    "scp": "Debian's openssh-client, or the system's own",
    "ssh": "Debian's openssh-client, or the system's own",
    "ssh-keygen": "Debian's openssh-client, or the system's own",
    "sshd": "Debian's openssh-server, or the system's own",
    "proftpd": "Debian's proftpd-core, or the system's own",
    "ftpasswd": "Debian's proftpd-core: it comes with proftpd",
    "bbcp": "spack install bbcp",
}

#: Behind the operation of a transfer with a receiver that threw the files away.
DISCARDED = "-discarded"

#: The role of the side where the files arrive.
RECEIVER: Mapping[Tool, Literal["client", "server"]] = {
    "scp": "server",
    "hpn-scp": "server",
    "lftp": "client",
    "bbcp": "server",
}


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class FileSet:
    """Files of one size, as `railgauge.node.runners.file_set` makes them."""

    files: int
    file_bytes: int

    def __post_init__(self) -> None:
        require_integers("file set", self, files=(1, None), file_bytes=(1, None))

    @property
    def name(self) -> str:
        """The operation of a measurement: a reference names it, with the size of a file."""
        return "one-large-file" if self.files == 1 else "many-small-files"

    @property
    def total_bytes(self) -> int:
        return self.files * self.file_bytes


@dataclasses.dataclass(frozen=True)
class Options:
    """The settings of one transfer; ValueError where the tool cannot do that."""

    tool: Tool
    file_set: FileSet
    #: parallel connections (lftp, bbcp); scp has one
    streams: int = 1
    #: socket buffer (bbcp)
    window_bytes: int | None = None
    #: ssh's cipher (scp, hpn-scp); bbcp encrypts nothing, and neither does lftp here
    cipher: str | None = None
    #: further options of ssh, `Name=value`, such as HPN-SSH's NoneSwitch=yes
    ssh_options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_one_of("transfer", self, tool=tuple(PROGRAMS))
        require_integers(self.tool, self, streams=(1, None), window_bytes=(1, None))
        by_ssh = self.tool in ("scp", "hpn-scp")
        if by_ssh and self.streams != 1:
            raise ValueError(f"{self.tool} streams is {self.streams}, expected 1")
        if self.window_bytes is not None and self.tool != "bbcp":
            raise ValueError(f"{self.tool} window_bytes: only bbcp sets a socket buffer")
        if self.cipher is not None and not (by_ssh and re.fullmatch(r"[\w@.+-]+", self.cipher)):
            raise ValueError(f"{self.tool} cipher is {self.cipher!r}, expected a cipher of ssh")
        for option in self.ssh_options:
            if not (by_ssh and re.fullmatch(r"[A-Za-z]+=[\w@.,+-]+", option)):
                raise ValueError(f"{self.tool} ssh_options has {option!r}, expected Name=value")

    @property
    def transport(self) -> str:
        """What the reference of a number must agree in: encrypted or not, and by what."""
        if self.tool not in ("scp", "hpn-scp"):
            return "tcp"
        if any(option.lower() == "noneswitch=yes" for option in self.ssh_options):
            return "tcp"
        return f"tcp-{self.cipher or 'ssh'}"


@dataclasses.dataclass(frozen=True)
class Login:
    """The client's credentials. All of them are made for this run: no key, host or password of a
    user.

    `identity` is the path of a private key that only this user can read; the other two are public.
    {user}, {server} and {port} are filled in on the nodes.
    """

    user: str
    host: str = "{server}"
    port: str = "{port}"
    identity: str = ""
    known_hosts: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\{user\}|[A-Za-z_][\w.-]*", self.user):
            raise ValueError(f"user is {self.user!r}, expected a login name")
        if not re.fullmatch(r"\{server\}|[\w.:-]+", self.host) or self.host.startswith("-"):
            raise ValueError(f"host is {self.host!r}, expected a name or an address")
        if not re.fullmatch(r"\{port\}|[0-9]+", self.port):
            raise ValueError(f"port is {self.port!r}, expected a number")


# ---- argv ----------------------------------------------------------------------------------


def version_argv(tool: Tool) -> list[str]:
    """How the tool prints its version; scp has no option for it, its ssh has."""
    return {
        "scp": ["ssh", "-V"],
        "hpn-scp": ["hpnssh", "-V"],
        "lftp": ["lftp", "--norc", "--version"],
        "bbcp": ["bbcp", "--version"],
    }[tool]


def client_argv(options: Options, login: Login, source: str, into: str) -> list[str]:
    """The transfer itself. It asks for nothing, and its arguments hold no secret.

    For lftp `into` is a folder of this node and `source` one of the server; its script
    (`lftp_script`) is expected in `lftp.script` of the working folder.
    """
    _check_paths(source, into)
    if options.tool == "lftp":
        return ["lftp", "--norc", "-f", "lftp.script"]
    target = f"{login.user}@{_bracketed(login.host)}:{into}/"
    if options.tool == "bbcp":
        ssh = ["ssh", "-x", "-a", *_ssh_options(login), "-p", login.port]
        # bbcp cuts this at spaces, and fills in the address family, the user and the host.
        remote = " ".join([*ssh, "%4", "-l", "%U", "%H", "bbcp"])
        argv = ["bbcp", "-r", "-s", str(options.streams)]
        if options.window_bytes is not None:
            argv += ["-w", str(options.window_bytes)]
        return [*argv, "-T", remote, source, target]
    argv = [PROGRAMS[options.tool][0], "-B", "-q", "-r", *_ssh_options(login), "-P", login.port]
    if options.cipher is not None:
        argv += ["-c", options.cipher]
    for option in options.ssh_options:
        argv += ["-o", option]
    return [*argv, source, target]


def _ssh_options(login: Login) -> list[str]:
    """Nothing of the user's or the site's configuration, and no question."""
    if not login.identity or not login.known_hosts:
        raise ValueError("ssh needs the paths of an identity and of known hosts for this run")
    _check_paths(login.identity, login.known_hosts)
    settings = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": login.known_hosts,
        "GlobalKnownHostsFile": "/dev/null",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "PreferredAuthentications": "publickey",
        "ControlPath": "none",
        "Compression": "no",
        "ConnectTimeout": "20",
    }
    words = ["-F", "/dev/null", "-i", login.identity]
    for name, value in settings.items():
        words += ["-o", f"{name}={value}"]
    return words


def known_hosts_line(host: str, port: int | str, public_key: str) -> str:
    """The server's host key as ssh looks it up; `public_key` is the kind and the key."""
    return f"[{host}]:{port} {public_key}\n"


def server_argv(options: Options, program: str, configuration: str) -> list[str]:
    """The server in the foreground; `program` is its absolute path, which sshd insists on."""
    if not program.startswith(("/", "{program}")):
        raise ValueError(f"program is {program!r}, expected an absolute path")
    if options.tool == "lftp":
        return [program, "--nodaemon", "--quiet", "--config", configuration]
    return [program, "-D", "-e", "-f", configuration]


def sshd_configuration(
    address: str,
    port: int | str,
    host_key: str,
    authorized_keys: str,
    user: str,
    search_path: str = "",
) -> str:
    """A server for one user and one key, that any user may run.

    What is started through it finds programs in `search_path`, else where sshd looks by itself.
    """
    return "\n".join(
        [
            f"ListenAddress {_bracketed(address)}:{port}",
            f"HostKey {host_key}",
            f"AuthorizedKeysFile {authorized_keys}",
            f"AllowUsers {user}",
            "AuthenticationMethods publickey",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            # The key lies in a folder of this run, which may be below one that others can write.
            "StrictModes no",
            "UsePAM no",
            "PidFile none",
            "AllowTcpForwarding no",
            "AllowAgentForwarding no",
            "X11Forwarding no",
            "PermitTunnel no",
            "Compression no",
            "UseDNS no",
            "Subsystem sftp internal-sftp",
            # Since OpenSSH 7.8; it may hold a blank.
            *([f'SetEnv "PATH={search_path}"'] if search_path else []),
            "",
        ]
    )


def proftpd_configuration(
    address: str,
    port: int | str,
    folder: str,
    password_file: str,
    user: str,
    group: str,
    streams: int,
) -> str:
    """A server that only reads, for the one user of `password_file`, that any user may run.

    `password_file` is what `ftpasswd --passwd --stdin` writes: a hash, readable by its owner only.
    `folder` takes what the server keeps while it runs.
    """
    return "\n".join(
        [
            # Debian builds these as modules of their own.
            *_proftpd_if("!mod_ls.c", "LoadModule mod_ls.c"),
            *_proftpd_if("!mod_xfer.c", "LoadModule mod_xfer.c"),
            # They would write to places of the system's own server.
            *_proftpd_if("mod_ctrls.c", "ControlsEngine off"),
            *_proftpd_if("mod_delay.c", "DelayEngine off"),
            'ServerName "railgauge"',
            "ServerType standalone",
            f"DefaultAddress {address}",
            "SocketBindTight on",
            f"Port {port}",
            f"User {user}",
            f"Group {group}",
            "AuthOrder mod_auth_file.c",
            f"AuthUserFile {password_file}",
            "RequireValidShell off",
            # Where root runs the job; the password is of this run all the same.
            "RootLogin on",
            "UseReverseDNS off",
            f"PidFile {folder}/proftpd.pid",
            f"ScoreboardFile {folder}/proftpd.scoreboard",
            f"SystemLog {folder}/proftpd.log",
            "TransferLog none",
            "WtmpLog off",
            f"MaxInstances {streams + 8}",
            "UseSendfile on",
            "<Limit WRITE>",
            "  DenyAll",
            "</Limit>",
            "",
        ]
    )


def _proftpd_if(module: str, directive: str) -> list[str]:
    return [f"<IfModule {module}>", f"  {directive}", "</IfModule>"]


def lftp_script(options: Options, login: Login, source: str, into: str) -> str:
    """What lftp does; the password is in the environment (LFTP_PASSWORD).

    Settings end it at the first error: by itself lftp repeats what fails, for ever.
    """
    _check_paths(source, into)
    mirror = f"mirror --no-symlinks --no-umask --parallel={options.streams}"
    if options.file_set.files == 1:
        mirror = f"mirror --no-symlinks --no-umask --use-pget-n={options.streams}"
    host = _bracketed(login.host)
    return "\n".join(
        [
            "set cmd:fail-exit yes",
            "set cmd:interactive no",
            "set net:max-retries 1",
            "set net:persist-retries 0",
            "set net:timeout 20",
            "set net:connection-limit 0",
            "set dns:fatal-timeout 20",
            "set ftp:ssl-allow no",
            "set ftp:passive-mode yes",
            f"open --user {login.user} --env-password -p {login.port} ftp://{host}",
            # A slash at the end of the target makes lftp keep the folder's name.
            f"{mirror} {source} {into}/",
            "exit",
            "",
        ]
    )


def _check_paths(*paths: str) -> None:
    """Paths stand in ssh's, bbcp's and lftp's own languages: only what means itself in all."""
    for path in paths:
        if not re.fullmatch(r"(?:/|\{[a-z_]+\})[\w./{}+-]*", path) or "//" in path:
            raise ValueError(
                f"path is {path!r}, expected an absolute one of letters, digits and . _ - + /"
            )
        if path.endswith("/") or ".." in PurePosixPath(path).parts:
            raise ValueError(f"path is {path!r}, expected one without .. or / at its end")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def shown(argv: Sequence[str]) -> str:
    """A command line to type again."""
    return shlex.join(argv)


# ---- result --------------------------------------------------------------------------------


class Files(Part):
    """How much a folder holds: the sums that are equal on both sides of a whole transfer."""

    count: Count
    size_bytes: Count = pydantic.Field(alias="bytes")
    sha256: str = pydantic.Field(pattern="^[0-9a-f]{64}$")


class Arrival(Files):
    """What `file_set verify` found where the files should be, and what should be there."""

    expected: Files
    differences: list[str]

    @property
    def complete(self) -> bool:
        """Whether the sums are those that were expected."""
        sums = ("count", "size_bytes", "sha256")
        return all(getattr(self, name) == getattr(self.expected, name) for name in sums)


# ---- parse ---------------------------------------------------------------------------------


def parse(text: str) -> Arrival:
    """Read what `python3 -m railgauge.node.runners.file_set verify` printed."""
    arrival = validated(Arrival, document(text))
    if not arrival.differences and not arrival.complete:
        found = f"{arrival.count} files of {arrival.size_bytes} bytes"
        raise ParseError(0, f"{found} without a difference", "the sums that were expected")
    return arrival


def parse_manifest(text: str) -> Files:
    """The sums of a manifest, which `file_set make` printed where the files were sent from."""
    return validated(Files, document(text))


# ---- read ----------------------------------------------------------------------------------


def arrival_complaints(
    arrival: Arrival, sent: Files | None, file_set: FileSet | None, where: str
) -> list[str]:
    """What speaks against a whole transfer in what lies on the receiver's side."""
    complaints = [f"{where}: {difference}" for difference in arrival.differences[:5]]
    if len(arrival.differences) > 5:
        complaints.append(f"{where}: and {len(arrival.differences) - 5} more differences")
    if sent is not None and arrival.expected != sent:
        complaints.append(f"{where}: verified against the manifest of other files than were sent")
    if not arrival.complete and not arrival.differences:
        complaints.append(f"{where}: the sums are not the expected ones")
    if file_set is not None:
        wanted = (file_set.files, file_set.total_bytes)
        for what, files in (("asked for", arrival.expected), ("arrived", arrival)):
            if (files.count, files.size_bytes) != wanted and not (
                what == "arrived" and arrival.differences
            ):
                moved = f"{files.count} files of {files.size_bytes} bytes"
                complaints.append(
                    f"{where}: {moved} {what}, expected {wanted[0]} of {wanted[1]} bytes"
                )
    return complaints


def read(
    arrived: str | None,
    *,
    sent: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
) -> Reading:
    """Judges one transfer; never raises for what a tool or a job wrote.

    `arrived` is what `file_set verify` printed on the receiver's node, None where it left nothing;
    `sent` the manifest that `file_set make` printed on the sender's. The call of role `client`
    ended by itself; a server (role `server`) was stopped by the runner, and counts only where it
    failed. Proved with all of this and the options in agreement.
    """
    complaints: list[str] = []
    client: Call | None = None
    if calls:
        mine = [call for call in calls if call.role == "client"]
        if len(mine) != 1:
            complaints.append(f"client: {len(mine)} calls recorded, expected 1")
        else:
            client = mine[0]
        complaints += [call.failure for call in calls if call.failure]
        if client is not None and options is not None and client.tool != options.tool:
            complaints.append(f"client: a call of {client.tool}, expected {options.tool}")
        if client is not None and not client.seconds > 0:
            complaints.append(f"client: the call took {client.seconds} s")
    tool = options.tool if options else client.tool if client else ""
    where = "receiver"
    if tool in RECEIVER:
        role = RECEIVER[tool]  # type: ignore[index]
        where = next((f"receiver on {c.host}" for c in calls if c.role == role), where)
    arrival = _parsed(parse, arrived, where, complaints)
    manifest = _parsed(parse_manifest, sent, "sender", complaints)
    if arrival is not None:
        file_set = options.file_set if options else None
        complaints += arrival_complaints(arrival, manifest, file_set, where)
    if complaints:
        return Reading.invalid("; ".join(complaints))
    missing = [
        name
        for name, given in (
            ("the client's exit code and seconds", client),
            ("the sums of what arrived", arrival),
            ("the manifest of what was sent", manifest),
            ("the options", options),
        )
        if given is None
    ]
    if client is None or arrival is None:
        reason = "no transfer is proved without " + ", ".join(missing)
        return Reading.invalid(reason, Completeness.UNKNOWN)
    return Reading.valid(
        f"{arrival.count} file(s), {arrival.size_bytes} bytes in {client.seconds:.2f} s: "
        "exit code 0, and what arrived has the sha256 of what was sent",
        missing,
        rates(tool, arrival.size_bytes, client.seconds, options, nodes=_nodes(tool, calls)),
        {"files": arrival.count, "bytes": arrival.size_bytes},
    )


def rates(
    tool: str,
    size_bytes: int,
    seconds: float,
    options: Options | None,
    nodes: tuple[str, ...] = (),
) -> tuple[Measurement, ...]:
    """Payload over the time of the call, starting and finishing included, and that time."""
    values = {"bandwidth": size_bytes * 8e-9 / seconds, "transfer_time": seconds}
    return tuple(
        Measurement(
            metric,
            value,
            tool,
            options.file_set.name if options else "files",
            options.transport if options else "tcp",
            size_bytes=options.file_set.file_bytes if options else None,
            streams=options.streams if options else None,
            nodes=nodes,
            window_bytes=options.window_bytes if options else None,
        )
        for metric, value in values.items()
    )


def _nodes(tool: str, calls: Sequence[Call]) -> tuple[str, ...]:
    """Receiver and sender, where both calls are known."""
    hosts = {call.role: call.host for call in calls}
    if tool not in RECEIVER or not {"client", "server"} <= hosts.keys():
        return ()
    receiver = RECEIVER[tool]  # type: ignore[index]
    sender = "client" if receiver == "server" else "server"
    return hosts[receiver], hosts[sender]


def _parsed(
    parser: Callable[[str], Any], text: str | None, where: str, complaints: list[str]
) -> Any:
    if text is None:
        return None
    try:
        return parser(text)
    except ParseError as error:
        complaints.append(f"{where}: {error}")
        return None
