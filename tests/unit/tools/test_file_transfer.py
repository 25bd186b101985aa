"""scp, lftp and bbcp: what they are told, and that only what arrived whole counts."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.model.call import Call
from railgauge.node.runners import file_set
from railgauge.tools import Completeness, ParseError, Reading, file_transfer
from railgauge.tools.file_transfer import FileSet, Login, Options
from tests.properties import tries
from tests.unit.tools.sides import both_calls

QUICK = settings(max_examples=tries(150))
PROVED, UNKNOWN = Completeness.PROVED, Completeness.UNKNOWN

FILES = FileSet(files=3, file_bytes=1000)
ONE = FileSet(files=1, file_bytes=2**30)
LOGIN = Login("tester", "10.1.0.2", "2222", "/run/rg/key", "/run/rg/known_hosts")
TOOLS: tuple[file_transfer.Tool, ...] = get_args(file_transfer.Tool)
SCP = Options("scp", FILES)

SUMS = {"count": 3, "bytes": 3000, "sha256": "ab" * 32}


def arrived(**changes: Any) -> str:
    return json.dumps({**SUMS, "expected": SUMS, "differences": [], **changes})


def manifest(**changes: Any) -> str:
    return json.dumps({"files": {}, **SUMS, **changes})


def calls(tool: str = "scp", **changes: Any) -> list[Call]:
    return both_calls(tool, 2.0, **changes)


def judged(options: Options | None = SCP, **changes: Any) -> Reading:
    evidence = {
        "sent": manifest(),
        "calls": calls(options.tool if options else "scp"),
        "options": options,
        "arrived": arrived(),
    }
    return file_transfer.read(**{**evidence, **changes})


# ---- options ----


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"tool": "rcp"}, "expected one of scp, hpn-scp, lftp, bbcp"),
        ({"tool": "scp", "streams": 2}, "scp streams is 2, expected 1"),
        ({"tool": "lftp", "streams": 0}, "lftp streams is 0"),
        ({"tool": "lftp", "window_bytes": 4096}, "only bbcp sets a socket buffer"),
        ({"tool": "bbcp", "cipher": "aes128-ctr"}, "bbcp cipher"),
        ({"tool": "scp", "cipher": "a b"}, "scp cipher"),
        ({"tool": "scp", "ssh_options": ("ProxyCommand=sh -c x",)}, "expected Name=value"),
        ({"tool": "lftp", "ssh_options": ("A=b",)}, "lftp ssh_options"),
    ],
)
def test_options_that_cannot_be_run_are_rejected(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Options(file_set=FILES, **wrong)


@pytest.mark.parametrize("wrong", [{"files": 0}, {"file_bytes": True}, {"file_bytes": 1.5}])
def test_file_sets_that_cannot_be_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FileSet(**{"files": 1, "file_bytes": 1, **wrong})


def test_a_file_set_names_the_operation() -> None:
    assert (ONE.name, FILES.name, FILES.total_bytes) == ("one-large-file", "many-small-files", 3000)


def test_encryption_is_part_of_the_condition() -> None:
    assert SCP.transport == "tcp-ssh"
    assert Options("scp", ONE, cipher="aes128-ctr").transport == "tcp-aes128-ctr"
    assert Options("hpn-scp", ONE, ssh_options=("NoneSwitch=yes",)).transport == "tcp"
    assert Options("lftp", ONE, 8).transport == Options("bbcp", ONE, 8).transport == "tcp"


# ---- argv ----


def argv(tool: file_transfer.Tool, **options: Any) -> list[str]:
    asked = Options(tool, FILES, **options)
    return file_transfer.client_argv(asked, LOGIN, "/scratch/set", "/dst")


@pytest.mark.parametrize(("tool", "program"), [("scp", "scp"), ("hpn-scp", "hpnscp")])
def test_scp_copies_a_folder_without_asking(tool: file_transfer.Tool, program: str) -> None:
    found = argv(tool)
    assert (found[0], found[-2:]) == (program, ["/scratch/set", "tester@10.1.0.2:/dst/"])
    for word in ("-B", "BatchMode=yes", "StrictHostKeyChecking=yes", "IdentityAgent=none"):
        assert word in found
    assert "UserKnownHostsFile=/run/rg/known_hosts" in found
    assert found[found.index("-F") + 1] == "/dev/null"


def test_ciphers_and_options_reach_ssh() -> None:
    found = " ".join(argv("hpn-scp", cipher="aes128-ctr", ssh_options=("NoneEnabled=yes",)))
    assert "-c aes128-ctr -o NoneEnabled=yes /scratch/set" in found


def test_bbcp_starts_its_other_side_with_the_same_ssh() -> None:
    found = argv("bbcp", streams=8, window_bytes=2**22)
    assert " ".join(found[:6]) == "bbcp -r -s 8 -w 4194304"
    remote = found[found.index("-T") + 1]
    assert "-i /run/rg/key" in remote
    assert remote.endswith("-p 2222 %4 -l %U %H bbcp")


def test_lftp_takes_everything_from_its_script() -> None:
    assert argv("lftp", streams=4) == ["lftp", "--norc", "-f", "lftp.script"]
    asked = Options("lftp", FILES, 4)
    script = file_transfer.lftp_script(asked, LOGIN, "/srv/set", "/dst").splitlines()
    assert "open --user tester --env-password -p 2222 ftp://10.1.0.2" in script
    assert "mirror --no-symlinks --no-umask --parallel=4 /srv/set /dst/" in script
    assert script[0] == "set cmd:fail-exit yes"


def test_lftp_cuts_one_large_file_in_pieces() -> None:
    script = file_transfer.lftp_script(Options("lftp", ONE, 8), LOGIN, "/srv/set", "/dst")
    assert "--use-pget-n=8 /srv/set /dst/" in script


def test_placeholders_are_left_to_the_runner() -> None:
    login = Login("tester", identity="{scratch}/key", known_hosts="{scratch}/hosts")
    found = file_transfer.client_argv(SCP, login, "{scratch}/set", "{into}")
    assert "{port}" in found
    assert found[-2:] == ["{scratch}/set", "tester@{server}:{into}/"]


def test_an_ipv6_address_is_bracketed() -> None:
    login = dataclasses.replace(LOGIN, host="fd00::2")
    assert file_transfer.client_argv(SCP, login, "/s", "/d")[-1] == "tester@[fd00::2]:/d/"


@pytest.mark.parametrize(
    "path", ["relative", "/a b", "/a;b", "/a/", "/a/../b", "/a\nb", "-/x", "", "//a", "/a%I"]
)
def test_paths_that_mean_something_to_a_shell_are_rejected(path: str) -> None:
    for source, into in ((path, "/d"), ("/s", path)):
        with pytest.raises(ValueError, match="path is"):
            file_transfer.client_argv(SCP, LOGIN, source, into)
        with pytest.raises(ValueError, match="path is"):
            file_transfer.lftp_script(Options("lftp", ONE), LOGIN, source, into)


@pytest.mark.parametrize(
    "wrong",
    [{"user": "-oProxyCommand=x"}, {"user": "a b"}, {"host": "-x"}, {"host": "a;b"}, {"port": "x"}],
)
def test_logins_that_are_options_are_rejected(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Login(**{"user": "tester", **wrong})


def test_ssh_without_keys_of_its_own_is_rejected() -> None:
    with pytest.raises(ValueError, match="identity"):
        file_transfer.client_argv(SCP, Login("tester"), "/s", "/d")


def test_servers_stay_in_the_foreground() -> None:
    found = file_transfer.server_argv(SCP, "/usr/sbin/sshd", "/run/rg/sshd_config")
    assert found == ["/usr/sbin/sshd", "-D", "-e", "-f", "/run/rg/sshd_config"]
    ftp = file_transfer.server_argv(Options("lftp", ONE), "/opt/sbin/proftpd", "/run/rg/conf")
    assert "--nodaemon" in ftp
    with pytest.raises(ValueError, match="absolute"):
        file_transfer.server_argv(SCP, "sshd", "/run/rg/sshd_config")


def test_sshd_lets_in_one_key_of_one_user() -> None:
    found = file_transfer.sshd_configuration("10.1.0.2", 2222, "/r/host", "/r/auth", "tester")
    for line in (
        "ListenAddress 10.1.0.2:2222",
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "AllowUsers tester",
    ):
        assert line in found.splitlines()


def test_what_comes_in_by_ssh_finds_programs_where_the_job_does() -> None:
    of_all = ("10.1.0.2", 2222, "/r/host", "/r/auth", "tester")
    assert "SetEnv" not in file_transfer.sshd_configuration(*of_all)
    found = file_transfer.sshd_configuration(*of_all, search_path="/a stack/bin:/usr/bin")
    assert 'SetEnv "PATH=/a stack/bin:/usr/bin"' in found.splitlines()


def test_proftpd_only_reads() -> None:
    found = file_transfer.proftpd_configuration("10.1.0.2", 2121, "/r", "/r/pw", "u", "g", 4)
    assert "<Limit WRITE>\n  DenyAll\n</Limit>" in found
    assert "Port 2121" in found.splitlines()


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_a_version(tool: file_transfer.Tool) -> None:
    assert file_transfer.version_argv(tool)[0]


def test_ssh_understands_every_option() -> None:
    options = [word for word in argv("scp") if word not in ("-B", "-q", "-r")]
    end = options.index("-P")
    result = subprocess.run(["ssh", "-G", *options[1:end], "host"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "batchmode yes" in result.stdout.lower()


def test_scp_understands_its_options(tmp_path: Path) -> None:
    made = file_set.make(tmp_path / "set", 3, 10)
    (tmp_path / "into").mkdir()
    found = file_transfer.client_argv(SCP, LOGIN, str(tmp_path / "set"), "/dst")
    # A copy on this machine needs no server, and takes the same options.
    result = subprocess.run([*found[:-1], f"{tmp_path}/into/"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert file_set.verify(tmp_path / "into" / "set", made)["differences"] == []


def test_ssh_finds_a_host_key_by_its_line(tmp_path: Path) -> None:
    key = tmp_path / "key"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(make, check=True)
    public = key.with_suffix(".pub").read_text()
    hosts = tmp_path / "known_hosts"
    hosts.write_text(file_transfer.known_hosts_line("10.1.0.2", 2222, public))
    asked = ["ssh-keygen", "-F", "[10.1.0.2]:2222", "-f", str(hosts)]
    assert subprocess.run(asked, capture_output=True).returncode == 0


# ---- parse ----


def test_a_report_of_the_receiver_is_read(tmp_path: Path) -> None:
    made = file_set.make(tmp_path, 3, 1000)
    found = file_transfer.parse(json.dumps(file_set.verify(tmp_path, made)))
    assert found.complete and found.expected == file_transfer.parse_manifest(json.dumps(made))
    assert (found.count, found.size_bytes, found.differences) == (3, 3000, [])


def test_unknown_fields_are_tolerated() -> None:
    assert file_transfer.parse(arrived(new=[1])) == file_transfer.parse(arrived())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no whole JSON"),
        ("[]", "one JSON object"),
        ("{}", "no count"),
        (arrived(differences=None), "differences None, expected a list"),
        (arrived(differences=[5]), r"differences\[0\] 5, expected a text"),
        (arrived(expected=None), "expected None, expected an object"),
        (arrived(count=-1), "count -1, expected an integer of 0 or more"),
        (arrived(bytes=True), "bytes True, expected an integer of 0 or more"),
        (arrived(bytes=3000.0), "bytes 3000.0, expected an integer of 0 or more"),
        (arrived(sha256="ab"), "sha256 'ab'"),
        (arrived(count=2), "without a difference"),
        (arrived(sha256="cd" * 32), "without a difference"),
        ("[" * 100_000, "no whole JSON"),
    ],
)
def test_what_is_no_report_is_rejected(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        file_transfer.parse(text)


# ---- read ----


@pytest.mark.parametrize("tool", TOOLS)
def test_all_evidence_in_agreement_proves(tool: file_transfer.Tool) -> None:
    reading = judged(Options(tool, FILES))
    assert (reading.ok, reading.completeness) == (True, PROVED), reading.reason
    bandwidth, seconds = reading.measurements
    assert (bandwidth.metric, bandwidth.value) == ("bandwidth", pytest.approx(3000 * 8e-9 / 2))
    assert (seconds.metric, seconds.value, seconds.unit) == ("transfer_time", 2.0, "s")
    assert (bandwidth.tool, bandwidth.operation) == (tool, "many-small-files")


def test_nodes_are_receiver_and_sender() -> None:
    assert judged().measurements[0].nodes == ("node2", "node1")
    assert judged(Options("lftp", FILES)).measurements[0].nodes == ("node1", "node2")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"arrived": arrived(differences=["missing: a"])}, "receiver on node2: missing: a"),
        ({"arrived": arrived(count=2)}, "without a difference"),
        ({"sent": manifest(sha256="cd" * 32)}, "manifest of other files"),
        ({"options": Options("scp", FileSet(4, 1000))}, "3 files of 3000 bytes asked for"),
        ({"options": Options("bbcp", FILES), "calls": calls()}, "a call of scp, expected bbcp"),
        ({"calls": calls(client={"exit_code": 1})}, "ended with exit code 1"),
        ({"calls": calls(client={"exit_code": None})}, "was killed"),
        ({"calls": calls(client={"note": "timed out"})}, "timed out"),
        ({"calls": calls(server={"exit_code": 255})}, "(server) on node2 ended with exit code"),
        ({"calls": calls(client={"seconds": 0.0})}, "the call took 0.0 s"),
        ({"calls": calls()[:1]}, "client: 0 calls recorded, expected 1"),
        ({"calls": calls() + calls()[1:]}, "client: 2 calls recorded"),
        ({"arrived": "Killed"}, "no whole JSON"),
        ({"sent": "Killed"}, "sender: "),
    ],
)
def test_what_speaks_against_a_transfer_refuses(changes: dict[str, Any], why: str) -> None:
    reading = judged(**changes)
    assert not reading.ok
    assert why in reading.reason
    assert reading.measurements == ()


def test_many_differences_are_counted() -> None:
    reading = judged(arrived=arrived(differences=[f"missing: {i}" for i in range(9)]))
    assert "and 4 more differences" in reading.reason


@pytest.mark.parametrize("missing", ["arrived", "calls"])
def test_no_rate_without_exit_code_and_sums(missing: str) -> None:
    reading = judged(**{missing: () if missing == "calls" else None})
    assert (reading.ok, reading.completeness, reading.measurements) == (False, UNKNOWN, ())


@pytest.mark.parametrize("missing", ["sent", "options"])
def test_what_is_not_known_leaves_a_transfer_unproved(missing: str) -> None:
    reading = judged(**{missing: None})
    assert (reading.ok, reading.completeness) == (True, UNKNOWN)


# ---- nothing damaged is believed ----


def test_no_truncation_of_a_report_is_believed() -> None:
    text = arrived()
    assert not any(judged(arrived=text[:end]).ok for end in range(len(text)))


ODD = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))


@QUICK
@given(st.sampled_from([*SUMS, "expected", "differences"]), ODD)
def test_no_changed_field_is_believed(name: str, value: Any) -> None:
    if value != json.loads(arrived())[name] or isinstance(value, bool):
        assert not judged(arrived=arrived(**{name: value})).ok


@QUICK
@given(st.text())
def test_no_text_crashes(text: str) -> None:
    assert not judged(arrived=text).ok
    assert not judged(sent=text).ok
