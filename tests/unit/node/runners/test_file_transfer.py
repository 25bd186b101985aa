"""The sides of a transfer, for real: two agents stand for two nodes, small programs for the tools.

The orders are those of the golden files. WDT is the replayer; the others are fakes that copy.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge.model.call import Call
from railgauge.node.orchestration import agent, worker
from railgauge.node.runners import file_transfer as node_transfer
from railgauge.node.transport import results_file
from railgauge.systems import rehearsal
from railgauge.tools import Completeness, Reading, file_transfer, wdt
from tests.unit.checks.test_golden import stored
from tests.unit.node.sweeping import HANGS_S, Sweep, pair_of, wait_until

# Names that are addresses need no resolver; both are this machine.
SERVER, CLIENT = "127.0.0.1", "127.0.0.2"
FILES = file_transfer.FileSet(files=3, file_bytes=40_000)
TOOLS = {"ScpTransfer": "scp", "FtpTransfer": "lftp", "WdtTransfer": "wdt"}

#: Begins every fake: what it is told to do, what it tells of secrets, and of all arguments it sees.
HEAD = """\
#!{python} -SE
import hashlib, os, pathlib, shutil, signal, socket, sys, time
signal.alarm(600)  # if the runner fails us
told = pathlib.Path(os.environ["TELLTALE"])
does = os.environ.get("FAKE", "")
with (told / "environment").open("a") as kept:
    kept.write(chr(10).join(os.environ) + chr(10))
def tell(secret):
    with (told / "secrets").open("a") as kept:
        kept.write(secret + chr(10))
def see():
    lines = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue
    with (told / "arguments").open("a") as kept:
        kept.write(chr(10).join(lines))
def listen(port):
    if does == "never listens":
        time.sleep(600)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    serving = socket.create_server(("", int(port)))
    print("listening", flush=True)
    while True:
        serving.accept()
        if does == "server dies":
            sys.exit(0)
def move(source, target):
    see()
    shutil.copytree(source, target)
    files = sorted(path for path in pathlib.Path(target).rglob("*") if path.is_file())
    if does == "corrupts":
        files[0].write_bytes(b"?" + files[0].read_bytes()[1:])
    if does == "forgets":
        files[0].unlink()
    if does == "fails":
        sys.exit("tool: write remote: No space left on device")
    if does == "hangs":
        (told / "moved").touch()
        time.sleep(600)
"""

FAKES = {
    "ssh-keygen": """\
path = sys.argv[sys.argv.index("-f") + 1]
private = os.urandom(20).hex()
tell(private)
os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
pathlib.Path(path).write_text(private)
pathlib.Path(path + ".pub").write_text(f"ssh-ed25519 {os.urandom(9).hex()} railgauge")
""",
    "ssh": "",
    "sshd": """\
config = dict(line.split(" ", 1) for line in open(sys.argv[-1]).read().splitlines())
assert pathlib.Path(config["AuthorizedKeysFile"]).read_text().startswith("ssh-ed25519 ")
listen(config["ListenAddress"].rpartition(":")[2])
""",
    "scp": """\
source, (_, _, remote) = sys.argv[-2], sys.argv[-1].partition(":")
port = int(sys.argv[sys.argv.index("-P") + 1])
identity = pathlib.Path(sys.argv[sys.argv.index("-i") + 1])
assert identity.stat().st_mode & 0o777 == 0o600
known = identity.with_name("known_hosts").read_text()
assert known.startswith(f"[127.0.0.1]:{port} ssh-ed25519 ") and "{" not in known
server = socket.create_connection(("127.0.0.1", port))
# It is the server that writes there: without one nothing arrives.
if does == "server dies" and server.recv(1) == b"":
    sys.exit("scp: Connection closed")
move(source, remote + pathlib.Path(source).name)
""",
    "ftpasswd": """\
password = sys.stdin.read().strip()
tell(password)
entry = hashlib.sha256(password.encode()).hexdigest()
pathlib.Path(sys.argv[sys.argv.index("--file") + 1]).write_text(entry)
""",
    "proftpd": """\
lines = open(sys.argv[-1]).read().splitlines()
listen(next(line.split()[1] for line in lines if line.startswith("Port ")))
""",
    "lftp": """\
lines = open("lftp.script").read().splitlines()
port = next(line.split()[5] for line in lines if line.startswith("open "))
source, into = next(line.split()[-2:] for line in lines if line.startswith("mirror "))
password = hashlib.sha256(os.environ["LFTP_PASSWORD"].encode()).hexdigest()
assert pathlib.Path(source).with_name("passwd").read_text() == password
socket.create_connection(("127.0.0.1", int(port)))
move(source, into + pathlib.Path(source).name)
""",
    # The replayer, which makes its key so.
    "wdt": """\
import runpy, secrets
make = secrets.token_hex
def told_too(count):
    key = make(count)
    tell(key)
    return key
secrets.token_hex = told_too
see()
runpy.run_path({replayer!r}, run_name="__main__")
""",
}


def make_fakes(folder: Path) -> Path:
    folder.mkdir()
    # The kernel takes a blank in this line, as a checkout's path may have, for the path's end.
    head = HEAD.replace("{python}", os.path.realpath(sys.executable))
    for name, text in FAKES.items():
        program = folder / name
        body = text.replace("{replayer!r}", repr(str(rehearsal.REPLAYER / "wdt")))
        # The replayer needs the whole of the standard library.
        program.write_text((head.replace(" -SE", "") if name == "wdt" else head) + body)
        program.chmod(0o755)
    return folder


def golden_order(check: str) -> dict[str, Any]:
    job = stored("lab", check)[0]
    return {name: value for name, value in job.orders.items() if name not in ("tool", "names")}


@dataclasses.dataclass
class Scenario:
    """One transfer, what is wrong with it, and what came of it."""

    check: str
    #: what the fake does, or what happens to the replayer
    does: str = "healthy"
    orders: dict[str, Any] = dataclasses.field(default_factory=dict)
    top: dict[str, Any] = dataclasses.field(default_factory=dict)
    folder: Path = Path()
    sweep: Sweep = dataclasses.field(default_factory=lambda: Sweep([]))

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    @property
    def telltale(self) -> Path:
        return self.folder / "telltale"

    @property
    def stage(self) -> Path:
        return self.folder / "job"

    def start(self, folder: Path, fakes: Path) -> None:
        self.folder = folder
        for path in (self.scratch, self.telltale):
            path.mkdir()
        golden = golden_order(self.check)
        ordered = {
            **golden["transfer"],
            "files": FILES.files,
            "file_bytes": FILES.file_bytes,
            "scratch": str(self.scratch),
            "replay": {"scenario": self.does},
            **self.orders,
        }
        tool = TOOLS[self.check]
        order = {**golden, "path": [str(fakes)], "transfer": ordered, **self.top}
        roles = {"server": SERVER, "client": CLIENT}
        self.sweep = Sweep(
            [order],
            [("file_transfer", 0, roles)],
            nodes=[SERVER, CLIENT],
            tool=tool,
            environment={"TELLTALE": str(self.telltale), "FAKE": self.does},
        )
        self.stage.mkdir()
        self.sweep.start(folder)

    def left(self, role: str) -> results_file.Side:
        return self.sweep.raw().sides[0][role]

    def line(self, role: str) -> dict[str, Any]:
        return self.left(role).line

    @property
    def calls(self) -> list[Call]:
        return [Call(**self.line(role)["call"]) for role in ("server", "client")]

    def output(self, role: str) -> str:
        side = self.left(role)
        return side.out + side.err

    @property
    def reading(self) -> Reading:
        """As the check judges it."""
        facts = [self.line(role)["facts"] for role in ("server", "client")]
        arrived = [json.dumps(said["arrived"]) for said in facts if "arrived" in said]
        files = {**self.left("server").files, **self.left("client").files}
        evidence: dict[str, Any] = {
            "calls": self.calls,
            "sent": files.get("manifest.json"),
        }
        came = arrived[0] if arrived else None
        if self.check != "WdtTransfer":
            tool: Any = TOOLS[self.check]
            streams = 4 if tool == "lftp" else 1
            options = file_transfer.Options(tool, FILES, streams)
            return file_transfer.read(came, options=options, **evidence)
        discards = "-skip_writes" in self.top.get("server", ())
        return wdt.read(
            self.output("client"),
            server=self.output("server"),
            arrived=came,
            options=wdt.Options(FILES, streams=4, skip_writes=discards),
            **evidence,
        )


SKIP = ["wdt", "-directory", "{scratch}/into", "-num_ports", "4", "-skip_writes"]
PROGRAMS = {"server": ["sshd", "ssh-keygen"], "client": ["scp", "ssh", "ssh-keygen"]}


def scenarios() -> dict[str, Scenario]:
    return {
        "scp": Scenario("ScpTransfer"),
        "lftp": Scenario("FtpTransfer"),
        "wdt": Scenario("WdtTransfer"),
        "wdt, thrown away": Scenario("WdtTransfer", orders={"arrives": None}, top={"server": SKIP}),
        "one file": Scenario("ScpTransfer", orders={"files": 1}),
        # damage
        "scp corrupts": Scenario("ScpTransfer", "corrupts"),
        "scp forgets": Scenario("ScpTransfer", "forgets"),
        "scp fails": Scenario("ScpTransfer", "fails"),
        "lftp corrupts": Scenario("FtpTransfer", "corrupts"),
        "wdt corrupts": Scenario("WdtTransfer", "wrong-results"),
        "wdt truncated": Scenario("WdtTransfer", "truncated"),
        "wdt receiver gone": Scenario("WdtTransfer", "receiver-gone"),
        "wdt disk full": Scenario("WdtTransfer", "disk-full"),
        "wdt exit code": Scenario("WdtTransfer", "exit-7"),
        # what ends too early, or never
        "sshd dies": Scenario("ScpTransfer", "server dies"),
        "sshd never listens": Scenario("ScpTransfer", "never listens", top={"start_limit_s": 1}),
        "scp hangs": Scenario("ScpTransfer", "hangs", top={"run_limit_s": 1}),
        # what is not there
        "no client tool": Scenario(
            "ScpTransfer", top={"programs": {**PROGRAMS, "client": ["no-such-scp"]}}
        ),
        "no server tool": Scenario(
            "ScpTransfer", top={"programs": {**PROGRAMS, "server": ["no-such-sshd"]}}
        ),
        "no room": Scenario("ScpTransfer", orders={"file_bytes": 10**15}),
        "no scratch": Scenario("ScpTransfer", orders={"scratch": "/nowhere/at/all"}),
    }


Ran = dict[str, Scenario]


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fakes(tmp_path_factory.mktemp("tools") / "bin")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, fakes: Path) -> Iterator[Ran]:
    """All scenarios, some at a time: each is several interpreters that start."""
    all_of_them = scenarios()
    waiting = list(all_of_them.values())
    deadline = time.monotonic() + 600
    running: list[Scenario] = []
    try:
        while (waiting or running) and time.monotonic() < deadline:
            while waiting and len(running) < 6:
                scenario = waiting.pop(0)
                scenario.start(tmp_path_factory.mktemp("transfer"), fakes)
                running.append(scenario)
            running = [scenario for scenario in running if not scenario.sweep.has_ended()]
            time.sleep(0.02)
        yield all_of_them
    finally:
        for scenario in running:
            scenario.sweep.kill()


def test_every_side_ends_by_itself_and_says_nothing_aside(ran: Ran) -> None:
    ended = {name: (s.sweep.code, s.sweep.errors) for name, s in ran.items()}
    assert ended == dict.fromkeys(ran, (0, ""))
    outcomes = {name: s.sweep.raw().places[0]["outcome"] for name, s in ran.items()}
    assert outcomes == dict.fromkeys(ran, "done")


def test_every_side_leaves_its_exit_line(ran: Ran) -> None:
    for name, scenario in ran.items():
        assert [call.rank for call in scenario.calls] == [0, 1], name


@pytest.mark.parametrize("name", ["scp", "lftp", "wdt", "wdt, thrown away"])
def test_a_good_transfer_is_proved(ran: Ran, name: str) -> None:
    scenario = ran[name]
    reading = scenario.reading
    assert (reading.ok, reading.completeness) == (True, Completeness.PROVED), reading.reason
    assert [m.metric for m in reading.measurements] == ["bandwidth", "transfer_time"]
    assert [call.exit_code for call in scenario.calls] == [0, 0]


def test_the_receivers_side_verifies(ran: Ran) -> None:
    receivers = {
        name: [role for role in ("server", "client") if "arrived" in ran[name].line(role)["facts"]]
        for name in ("scp", "lftp", "wdt", "wdt, thrown away")
    }
    assert receivers == {
        "scp": ["server"],
        "lftp": ["client"],
        "wdt": ["server"],
        "wdt, thrown away": [],
    }


def test_a_stand_in_says_so(ran: Ran) -> None:
    assert ran["wdt"].reading.simulated


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("scp corrupts", r"changed: 000/000.bin: another sha256"),
        ("lftp corrupts", r"changed: 000/000.bin: another sha256"),
        ("wdt corrupts", r"changed: 000/000.bin: another sha256"),
        ("scp forgets", r"missing: 000/000.bin"),
        ("scp fails", r"scp \(client\) on 127.0.0.2 ended with exit code 1"),
        ("wdt truncated", r"no end, expected a last line 'Returning with"),
        ("wdt receiver gone", r"it returned 6 SOCKET_WRITE_ERROR"),
        ("wdt receiver gone", r"wdt \(server\) on 127.0.0.1 ended with exit code -9"),
        ("wdt disk full", r"client on 127.0.0.2: it returned 8 FILE_WRITE_ERROR"),
        ("wdt disk full", r"server on 127.0.0.1: it returned 8 FILE_WRITE_ERROR"),
        ("wdt exit code", r"ended with exit code 7"),
        ("sshd dies", r"scp \(server\) on 127.0.0.1: ended before the client had, exit code 0"),
        ("sshd never listens", r"did not listen within 1 s"),
        ("sshd never listens", r"not started: no server on 127.0.0.1"),
        ("scp hangs", r"still running after [0-9]+\.[0-9] s, killed"),
        ("no room", r"not started: \S+ has \S+ GB free, needs 3\d+"),
        ("no scratch", r"not started: no scratch folder in /nowhere/at/all"),
    ],
)
def test_what_went_wrong_is_refused_with_its_reason(ran: Ran, name: str, reason: str) -> None:
    reading = ran[name].reading
    said = "; ".join([reading.reason, *(call.failure or "" for call in ran[name].calls)])
    assert not reading.ok
    assert re.search(reason, said), said


@pytest.mark.parametrize("name", ["scp fails", "wdt disk full", "sshd dies", "no room"])
def test_a_tool_that_fails_leaves_no_good_exit_line(ran: Ran, name: str) -> None:
    assert any(call.failure for call in ran[name].calls)


@pytest.mark.parametrize(
    ("name", "role", "program"),
    [("no client tool", "client", "no-such-scp"), ("no server tool", "server", "no-such-sshd")],
)
def test_a_missing_tool_is_a_fact_and_no_failed_sweep(
    ran: Ran, name: str, role: str, program: str
) -> None:
    scenario = ran[name]
    assert scenario.line(role)["facts"]["missing"] == [program]
    assert f"{program} not found on this node" in scenario.line(role)["call"]["note"]
    # Both tell of it, and the sweep ends as one that has said what it has to say.
    assert scenario.sweep.code == 0
    assert all(call.exit_code is None for call in scenario.calls)


# ---- what nobody may read ----


@pytest.mark.parametrize("name", ["scp", "lftp", "wdt"])
def test_no_secret_is_in_a_file_of_the_stage_folder(ran: Ran, name: str) -> None:
    secrets = (ran[name].telltale / "secrets").read_text().split()
    assert len(secrets) >= 1
    for path in ran[name].stage.iterdir():
        content = path.read_bytes()
        if path.name == results_file.FILE:
            content = gzip.decompress(content)
        for secret in secrets:
            assert secret.encode() not in content, path.name


@pytest.mark.parametrize("name", ["scp", "lftp", "wdt"])
def test_no_secret_is_in_the_arguments_of_a_process(ran: Ran, name: str) -> None:
    secrets = (ran[name].telltale / "secrets").read_text().split()
    seen = (ran[name].telltale / "arguments").read_text()
    # It looked while this very transfer ran.
    assert str(ran[name].scratch) in seen
    for secret in secrets:
        assert secret not in seen


# ---- what is left ----


def test_nothing_is_left_on_the_node(ran: Ran) -> None:
    left = {name: list(s.scratch.iterdir()) for name, s in ran.items() if s.scratch.exists()}
    assert {name: names for name, names in left.items() if names} == {}
    assert not any("scratch_left" in s.line("server")["facts"] for s in ran.values())


def test_no_process_is_left(ran: Ran) -> None:
    def left() -> list[str]:
        return [name for name, s in ran.items() if s.sweep.left_running()]

    wait_until(lambda: not left(), "processes are left")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_agents_that_are_ended_leave_no_files(
    tmp_path: Path, fakes: Path, number: signal.Signals
) -> None:
    scenario = Scenario("ScpTransfer", "hangs", top={"run_limit_s": HANGS_S})
    scenario.start(tmp_path, fakes)
    try:
        # It writes on the other node itself, where nobody but it could end that.
        wait_until((scenario.telltale / "moved").exists, "the tool does not run")
        assert len(list(scenario.scratch.glob("railgauge-*"))) == 2
        for node in (SERVER, CLIENT):
            os.kill(scenario.sweep.agent(node), number)
        left = scenario.scratch.glob
        wait_until(lambda: not list(left("railgauge-*")), "files are left")
        wait_until(lambda: not scenario.sweep.left_running(), "processes are left")
    finally:
        scenario.sweep.kill()


def test_a_signal_just_before_files_are_removed_leaves_none(
    tmp_path: Path, fakes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear = node_transfer._clear

    def disturbed(*words: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        clear(*words)

    monkeypatch.setattr(node_transfer, "_clear", disturbed)
    golden = golden_order("ScpTransfer")
    # Nobody offers anything.
    ordered = {**golden["transfer"], "scratch": str(tmp_path), "prepare_limit_s": 0.1}
    pair = pair_of({**golden, "path": [str(fakes)], "transfer": ordered}, SERVER, CLIENT)
    process, connection = worker.start("file_transfer", pair, "server")
    with connection:
        _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 143
    wait_until(lambda: not list(tmp_path.glob("railgauge-*")), "files are left")


def test_files_that_take_long_to_remove_are_removed(tmp_path: Path) -> None:
    """Longer than a side has that is told to end."""
    programs = make_fakes(tmp_path / "bin")
    (programs / "rm").write_text(f'#!/bin/sh\nsleep {agent.STOP_S + 2}\nexec /bin/rm "$@"\n')
    (programs / "rm").chmod(0o755)
    scenario = Scenario("ScpTransfer", "hangs", top={"run_limit_s": HANGS_S})
    scenario.start(tmp_path, programs)
    try:
        # It writes on the other node itself, where nobody but it could end that.
        wait_until((scenario.telltale / "moved").exists, "the tool does not run")
        assert len(list(scenario.scratch.glob("railgauge-*"))) == 2
        for node in (SERVER, CLIENT):
            os.kill(scenario.sweep.agent(node), signal.SIGTERM)
        wait_until(lambda: not scenario.sweep.left_running(), "processes are left")
        assert not list(scenario.scratch.glob("railgauge-*"))
    finally:
        scenario.sweep.kill()
