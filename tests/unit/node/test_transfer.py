"""The transfer runner, for real: two processes stand for two nodes, small programs for the tools.

The orders are those of the golden files. WDT is the replayer; the others are fakes that copy.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.model.call import Call
from railgauge.node import transfer
from railgauge.node.way import NoWay
from railgauge.systems import rehearsal
from railgauge.tools import Completeness, Reading, file_transfer, wdt
from tests.unit.checks.test_golden import stored

# Names that are addresses need no resolver; both are this machine.
SERVER, CLIENT = "127.0.0.1", "127.0.0.2"
FILES = file_transfer.FileSet(files=3, file_bytes=40_000)

#: Found in the environment of whatever a scenario has started, and of nothing else.
MARK = f"RAILGAUGE_TEST={uuid.uuid4().hex}"

#: Begins every fake: what it is told to do, what it tells of secrets, and of all arguments it sees.
HEAD = """\
#!{python} -SE
import hashlib, os, pathlib, shutil, signal, socket, sys, time
signal.alarm(60)  # if the runner fails us
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
        time.sleep(60)
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
        time.sleep(60)
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
socket.create_connection(("127.0.0.1", port))
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


@dataclasses.dataclass
class Scenario:
    """One transfer, what is wrong with it, and what came of it."""

    check: str
    #: what the fake does, or what happens to the replayer
    does: str = "healthy"
    orders: dict[str, Any] = dataclasses.field(default_factory=dict)
    top: dict[str, Any] = dataclasses.field(default_factory=dict)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    folder: Path = Path()
    processes: dict[str, subprocess.Popen[str]] = dataclasses.field(default_factory=dict)
    codes: dict[str, int] = dataclasses.field(default_factory=dict)
    errors: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def stage(self) -> Path:
        return self.folder / "stage"

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    @property
    def telltale(self) -> Path:
        return self.folder / "telltale"

    def start(self, folder: Path, fakes: Path) -> None:
        self.folder = folder
        for path in (self.stage, self.scratch, self.telltale):
            path.mkdir()
        golden = dict(stored("lab", self.check)[0].orders)
        ordered = {
            **golden["transfer"],
            "files": FILES.files,
            "file_bytes": FILES.file_bytes,
            "scratch": str(self.scratch),
            **self.orders,
        }
        spec = {
            **golden,
            "server_host": SERVER,
            "client_host": CLIENT,
            "path": [str(fakes)],
            "transfer": ordered,
            **self.top,
        }
        (self.stage / "transfer.json").write_text(json.dumps(spec))
        (self.stage / "replay.json").write_text(json.dumps({"scenario": self.does}))
        name, value = MARK.split("=")
        for rank, node in enumerate((SERVER, CLIENT)):
            self.processes[node] = subprocess.Popen(
                [sys.executable, "-m", "railgauge.node.transfer", "transfer.json"],
                cwd=self.stage,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(paths.SOURCE),
                    "SLURMD_NODENAME": node,
                    "SLURM_PROCID": str(rank),
                    "TELLTALE": str(self.telltale),
                    "FAKE": self.does,
                    name: value,
                    **self.environment,
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )

    def line(self, role: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.stage / f"{role}.json").read_text())
        return document

    @property
    def calls(self) -> list[Call]:
        return [Call(**self.line(role)["call"]) for role in ("server", "client")]

    def output(self, role: str) -> str:
        kept = [self.stage / f"{role}.{kind}" for kind in ("out", "err")]
        return "".join(path.read_text() for path in kept if path.exists())

    @property
    def reading(self) -> Reading:
        """As the check judges it."""
        facts = [self.line(role)["facts"] for role in ("server", "client")]
        arrived = [json.dumps(said["arrived"]) for said in facts if "arrived" in said]
        manifest = self.stage / "manifest.json"
        evidence: dict[str, Any] = {
            "calls": self.calls,
            "sent": manifest.read_text() if manifest.exists() else None,
        }
        came = arrived[0] if arrived else None
        if self.check != "WdtTransfer":
            tool: Any = {"ScpTransfer": "scp", "FtpTransfer": "lftp"}[self.check]
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


def left_running() -> list[str]:
    """The command lines of processes that a scenario has started and that still run."""
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if MARK.encode() in (process / "environ").read_bytes():
                left.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return left


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fakes(tmp_path_factory.mktemp("tools") / "bin")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, fakes: Path) -> Iterator[Ran]:
    """All scenarios, some at a time: each is several interpreters that start."""
    waiting = list(scenarios().items())
    all_of_them = dict(waiting)
    deadline = time.monotonic() + 150
    running: list[tuple[Scenario, str, subprocess.Popen[str]]] = []
    try:
        while (waiting or running) and time.monotonic() < deadline:
            while waiting and len(running) < 12:
                _, scenario = waiting.pop(0)
                scenario.start(tmp_path_factory.mktemp("transfer"), fakes)
                running += [(scenario, node, p) for node, p in scenario.processes.items()]
            for scenario, node, process in list(running):
                if process.poll() is not None:
                    scenario.codes[node] = process.returncode
                    scenario.errors[node] = process.communicate()[1]
                    running.remove((scenario, node, process))
            time.sleep(0.02)
        yield all_of_them
    finally:
        for _, _, process in running:
            process.kill()
            process.communicate()


def test_every_side_ends_by_itself_and_says_nothing_aside(ran: Ran) -> None:
    said = {
        (name, node): scenario.errors.get(node, "still running")
        for name, scenario in ran.items()
        for node in (SERVER, CLIENT)
    }
    assert {place: text for place, text in said.items() if text} == {}


def test_every_side_leaves_its_exit_line(ran: Ran) -> None:
    for name, scenario in ran.items():
        assert [call.rank for call in scenario.calls] == [0, 1], name


@pytest.mark.parametrize("name", ["scp", "lftp", "wdt", "wdt, thrown away"])
def test_a_good_transfer_is_proved(ran: Ran, name: str) -> None:
    scenario = ran[name]
    reading = scenario.reading
    assert (reading.ok, reading.completeness) == (True, Completeness.PROVED), reading.reason
    assert [m.metric for m in reading.measurements] == ["bandwidth", "transfer_time"]
    assert list(scenario.codes.values()) == [0, 0]


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
        ("scp hangs", r"still running after 1\.[0-9] s, killed"),
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
def test_a_tool_that_fails_fails_its_job(ran: Ran, name: str) -> None:
    assert 1 in ran[name].codes.values()


@pytest.mark.parametrize(
    ("name", "role", "program"),
    [("no client tool", "client", "no-such-scp"), ("no server tool", "server", "no-such-sshd")],
)
def test_a_missing_tool_is_a_fact_and_no_failed_job(
    ran: Ran, name: str, role: str, program: str
) -> None:
    scenario = ran[name]
    assert scenario.line(role)["facts"]["missing"] == [program]
    assert f"{program} not found on this node" in scenario.line(role)["call"]["note"]
    # Both tell of it, and the job ends as one that has said what it has to say.
    assert list(scenario.codes.values()) == [0, 0]
    assert all(call.exit_code is None for call in scenario.calls)


# ---- what nobody may read ----


@pytest.mark.parametrize("name", ["scp", "lftp", "wdt"])
def test_no_secret_is_in_a_file_of_the_stage_folder(ran: Ran, name: str) -> None:
    secrets = (ran[name].telltale / "secrets").read_text().split()
    assert len(secrets) >= 1
    for path in ran[name].stage.iterdir():
        for secret in secrets:
            assert secret.encode() not in path.read_bytes(), path.name


@pytest.mark.parametrize("name", ["scp", "lftp", "wdt"])
def test_no_secret_is_in_the_arguments_of_a_process(ran: Ran, name: str) -> None:
    secrets = (ran[name].telltale / "secrets").read_text().split()
    seen = (ran[name].telltale / "arguments").read_text()
    # It looked while this very transfer ran.
    assert str(ran[name].scratch) in seen
    for secret in secrets:
        assert secret not in seen


def test_a_secret_is_handed_over_to_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    transfer.hand_over("of an earlier start")
    transfer.hand_over("key")
    assert stat.S_IMODE(Path(transfer.SECRET).stat().st_mode) == 0o600
    assert transfer.take_over() == "key"
    assert list(tmp_path.iterdir()) == []


def test_a_secret_that_was_taken_is_not_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoWay, match="no secret of the other side"):
        transfer.take_over()


def test_no_run_leaves_a_secret(ran: Ran) -> None:
    assert [name for name, s in ran.items() if (s.stage / transfer.SECRET).exists()] == []


# ---- what is left ----


def test_nothing_is_left_on_the_node(ran: Ran) -> None:
    left = {name: list(s.scratch.iterdir()) for name, s in ran.items() if s.scratch.exists()}
    assert {name: names for name, names in left.items() if names} == {}
    assert not any("scratch_left" in s.line("server")["facts"] for s in ran.values())


def test_no_process_is_left(ran: Ran) -> None:
    deadline = time.monotonic() + 10
    while left_running() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_running() == []


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_runner_that_is_ended_leaves_no_files(
    tmp_path: Path, fakes: Path, number: signal.Signals
) -> None:
    scenario = Scenario("ScpTransfer", "hangs")
    scenario.start(tmp_path, fakes)
    try:
        wait_until((scenario.telltale / "arguments").exists, "the tool does not run")
        for process in scenario.processes.values():
            process.send_signal(number)
        for process in scenario.processes.values():
            process.communicate(timeout=30)
        wait_until(lambda: not list(scenario.scratch.iterdir()), "files are left")
        if number == signal.SIGTERM:
            wait_until(lambda: not left_running(), "processes are left")
    finally:
        # What Slurm does: a killed runner's tools are of its step.
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if MARK.encode() in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue
