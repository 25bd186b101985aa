#!/usr/bin/env python3
"""A stand-in for WDT, for rehearsals: it copies the files, and logs what WDT 1.32 logs.

The receiver prints a URL with a key, and takes files only from a sender that has it. What it says
of time and rate is its own, and no measurement: the first line of all that it prints says
SIMULATED. What happens is in `replay.json`. Standard library only: it runs on the lab's nodes.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast
from urllib.parse import parse_qs, urlsplit

SIMULATED = "SIMULATED: replayed in a rehearsal, no number here is WDT's"
VERSION = "1.32.1910230 p 32"

#: Those of WDT's codes that happen here.
ERRORS = {0: "OK", 3: "CONN_ERROR", 6: "SOCKET_WRITE_ERROR", 8: "FILE_WRITE_ERROR"}
ENCRYPTIONS = {"none": "", "aes128ctr": "1", "aes128gcm": "2"}

#: WDT sends this much beside a block, or about.
HEADER_BYTES = 48
#: A receiver to which nobody comes gives up, as WDT's does.
NOBODY_S = 50


def log(text: str, level: str = "I") -> None:
    """A line as glog writes it; only its first lines have the stamp."""
    stamp = time.strftime("%Y%m%d %H:%M:%S")
    print(f"{level}{stamp}.000000 {os.getpid():5d} Wdt.cpp:1] wdt>\t{text}", file=sys.stderr)


def happening() -> str:
    """The scenario's name; on its own it is healthy."""
    try:
        replay: dict[str, Any] = json.loads(Path("replay.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "healthy"
    return str(replay["scenario"])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="wdt", allow_abbrev=False)
    parser.add_argument("-version", action="store_true")
    parser.add_argument("-directory", default=".")
    parser.add_argument("-num_ports", type=int, default=8)
    parser.add_argument("-start_port", type=int, default=0)
    parser.add_argument("-encryption_type", choices=ENCRYPTIONS, default="aes128gcm")
    parser.add_argument("-treat_fewer_port_as_error", action="store_true")
    parser.add_argument("-skip_writes", action="store_true")
    parser.add_argument("-hostname", default="localhost")
    parser.add_argument("url", nargs="?")
    # argparse takes "-" for an option that lacks its name.
    words = ["stdin" if word == "-" else word for word in sys.argv[1:]]
    return parser.parse_args(words)


class Moved(NamedTuple):
    """What a side has sent or received."""

    files: int = 0
    size_bytes: int = 0

    def summary(self, counted: str, code: int, encryption: str) -> str:
        headers = HEADER_BYTES * self.files
        share = 100 * headers / max(self.size_bytes, 1)
        return (
            f"Transfer status = {ERRORS[code]}. Number of {counted} transferred = {self.files}. "
            f"Data Mbytes = {self.size_bytes / 2**20:.2f}. "
            f"Header Kbytes = {headers / 1024:.2f} ({share:.2f}% overhead). "
            f"Total bytes = {self.size_bytes + headers}. "
            f"Wasted bytes due to failure = 0 (0.00% overhead). Encryption type = {encryption}."
        )


def finish(code: int) -> int:
    if code:
        log(f"Returning with code {code} {ERRORS[code]}", "E")
    else:
        log("Returning with OK exit code")
    return code


def proof(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


# ---- receiver --------------------------------------------------------------------------------


def receive(options: argparse.Namespace) -> int:
    wanted = [options.start_port + i if options.start_port else 0 for i in range(options.num_ports)]
    listening = [socket.create_server(("", port)) for port in wanted]
    ports = [server.getsockname()[1] for server in listening]
    number, key = random.randrange(10**9), secrets.token_hex(16)
    kind = ENCRYPTIONS[options.encryption_type]
    log(f"WDT Receiver {VERSION}")
    shown = " ".join(map(str, ports))
    log(f"Starting (receiving) server on ports [ {shown} ] Target dir : {options.directory}")
    secret = f"Enc={kind}:{key}&" if kind else ""
    print(
        f"wdt://{socket.gethostname()}?{secret}id={number}&iv_change_int=34359738368"
        f"&ports={','.join(map(str, ports))}&recpv=32&tls=0",
        flush=True,
    )
    listening[0].settimeout(NOBODY_S)
    try:
        connection, _ = listening[0].accept()
    except TimeoutError:
        return finish(3)
    with connection, connection.makefile("rwb") as stream:
        greeting = json.loads(stream.readline())
        if greeting != {"id": number, "proof": proof(key)}:
            return finish(3)
        log(f"Starting new transfer,  peerIp 0.0.0.0 , transfer id {number}")
        if happening() == "receiver-gone":
            os.kill(os.getpid(), signal.SIGKILL)
        code = 8 if happening() == "disk-full" else 0
        moved = Moved() if code else store(cast("IO[bytes]", stream), options)
        stream.write(f"{code}\n".encode())
    for place, port in enumerate(ports):
        part = moved if place == 0 else Moved()
        summary = part.summary("blocks", code, options.encryption_type)
        log(f"Thread[{place}, port: {port}]  {summary}")
    log("WDT receiver's transfer has been finished", "W")
    log(f"{moved.summary('blocks', code, options.encryption_type)} Previously sent bytes : 0.")
    return finish(code)


def store(stream: IO[bytes], options: argparse.Namespace) -> Moved:
    """Write, or throw away, what comes."""
    files = size = 0
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            files, size = files + 1, size + member.size
            if options.skip_writes:
                shutil.copyfileobj(content, Nowhere())
                continue
            path = Path(options.directory, member.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as target:
                shutil.copyfileobj(content, target)
            if happening() == "wrong-results" and files == 1:
                with path.open("r+b") as target:
                    first = target.read(1)
                    target.seek(0)
                    target.write(bytes([first[0] ^ 1]))
    return Moved(files, size)


class Nowhere:
    def write(self, piece: bytes) -> int:
        return len(piece)


# ---- sender ----------------------------------------------------------------------------------


def regular_files(folder: str) -> Iterator[Path]:
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path


def send(options: argparse.Namespace) -> int:
    url = sys.stdin.readline().strip() if options.url == "stdin" else options.url
    parts = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    kind, _, key = parts.get("Enc", ":").partition(":")
    encryption = next(name for name, number in ENCRYPTIONS.items() if number == kind)
    ports = parts["ports"].split(",")
    log(f"WDT Sender {VERSION}")
    log(f"Client (sending) to {options.hostname}, Using ports [ {' '.join(ports)} ]")
    log(f"Starting a new transfer {parts['id']} to {options.hostname}")
    began = time.monotonic()
    moved, code = Moved(), 3
    with contextlib.suppress(OSError):
        moved, code = deliver(options, int(ports[0]), {"id": int(parts["id"]), "proof": proof(key)})
    seconds = max(time.monotonic() - began, 1e-3)
    if happening() == "truncated":
        return 0
    log(f"Number of files explored: {moved.files} opened 0 with direct 0 errors false")
    for place, port in enumerate(ports):
        part = moved if place == 0 else Moved()
        summary = part.summary("blocks", code, encryption)
        log(f"Thread[{place}, port: {port}]  Port {port} done. {summary}")
    rate = (moved.size_bytes + HEADER_BYTES * moved.files) / 2**20 / seconds
    log(
        f"Total sender time = {seconds:.2f} seconds (0.00 dirTime). Transfer summary : "
        f"{moved.summary('files' if code == 0 else 'blocks', code, encryption)} "
        "Previously sent bytes : 0.\n"
        f"wdt>\tTotal sender throughput = {rate:.2f} Mbytes/sec "
        f"({rate:.2f} Mbytes/sec pure transfer rate)"
    )
    finish(code)
    return 7 if happening() == "exit-7" else code


def deliver(options: argparse.Namespace, port: int, greeting: dict[str, Any]) -> tuple[Moved, int]:
    files = size = 0
    with socket.create_connection((options.hostname, port), 20) as connection:
        if happening() == "hang":
            time.sleep(3600)
        try:
            with connection.makefile("wb") as stream:
                stream.write(json.dumps(greeting).encode() + b"\n")
                with tarfile.open(fileobj=stream, mode="w|") as archive:
                    for path in regular_files(options.directory):
                        archive.add(path, str(path.relative_to(options.directory)))
                        files, size = files + 1, size + path.stat().st_size
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            # A receiver that cannot go on says why before it closes.
            pass
        answer = b""
        with contextlib.suppress(OSError):
            answer = connection.makefile("rb").readline()
    if answer.strip() == b"0":
        return Moved(files, size), 0
    return Moved(), int(answer) if answer.strip().isdigit() else 6


def main() -> int:
    options = arguments()
    if options.version:
        print(f"wdt version {VERSION} ({SIMULATED})")
        return 0
    print(f"# {SIMULATED}", file=sys.stderr)
    return send(options) if options.url else receive(options)


if __name__ == "__main__":
    sys.exit(main())
