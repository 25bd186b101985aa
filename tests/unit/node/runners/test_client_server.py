"""A pair's two sides, for real: two agents stand for two nodes, small programs for the tools."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge.node.runners import client_server
from railgauge.node.system import rdma_devices
from railgauge.node.system.tool_call import Call, help_of
from railgauge.node.transport import results_file
from tests.unit.node.sweeping import (
    ANSWER,
    ASK,
    CONNECT,
    HANGS,
    HANGS_ON,
    HANGS_S,
    LISTEN,
    PATIENCE_S,
    PYTHON,
    Sweep,
    pair_order,
)

# Names that are addresses need no resolver; both are this machine.
SERVER, CLIENT = "127.0.0.1", "127.0.0.2"

SERVERS = {
    "answers": ANSWER + "print('served')",
    "answers and fails": ANSWER + "sys.exit(5)",
    "answers after a while": ANSWER + "time.sleep(2.5); print(time.time())",
    "answers and stays": ANSWER + HANGS_ON,
    "dies while serving": LISTEN + "listening.accept(); os.kill(os.getpid(), signal.SIGKILL)",
    "waits for no one": LISTEN + HANGS_ON,
    "never listens": f"import time; {HANGS_ON}",
    "ends at once": "import sys; sys.exit('bad option')",
    "listens at the second try": "import os, sys\nif not os.path.exists('tried'):\n"
    "    open('tried', 'w').close()\n    sys.exit(1)\n" + ANSWER,
}

#: A server that does not listen on the loopback, where that is named.
NOT_ON_LO = [
    *PYTHON,
    "import sys\nif sys.argv[2] == '127.0.0.1': sys.exit(3)\n" + ANSWER,
    *("{port}", "{own_address}"),
]

CLIENTS = {
    "asks": ASK,
    "fails": CONNECT + "sys.exit(3)",
    "gives up": "import sys; sys.exit(4)",
    "hangs": HANGS,
}


@dataclasses.dataclass
class Scenario:
    """A server's and a client's behaviour, and what came of it."""

    server: str = "answers"
    client: str = "asks"
    start_limit_s: float = PATIENCE_S
    run_limit_s: float = PATIENCE_S
    #: what the nodes are told of the way between them
    way: dict[str, Any] = dataclasses.field(default_factory=dict)
    #: its nodes
    hosts: tuple[str, str] = (SERVER, CLIENT)
    #: what the sweep has of it
    sides: dict[str, results_file.Side] = dataclasses.field(default_factory=dict)
    event: dict[str, Any] = dataclasses.field(default_factory=dict)

    def order(self) -> dict[str, Any]:
        limits = {"start_limit_s": self.start_limit_s, "run_limit_s": self.run_limit_s}
        order = pair_order(SERVERS.get(self.server, ""), CLIENTS.get(self.client, ""), **limits)
        if self.server == "is not installed":
            order["server"] = order["version"] = ["/nowhere/tool"]
        if self.client == "is not installed":
            order["client"] = ["/nowhere/tool"]
        return {**order, **self.way}

    def line(self, role: str) -> dict[str, Any]:
        call = self.sides[role].line["call"]
        assert isinstance(call, dict)
        return call

    def facts(self, role: str) -> dict[str, Any]:
        facts = self.sides[role].line["facts"]
        assert isinstance(facts, dict)
        return facts

    def output(self, name: str) -> str:
        role, _, kind = name.partition(".")
        text = {"out": self.sides[role].out, "err": self.sides[role].err}[kind]
        assert isinstance(text, str)
        return text

    @property
    def seconds(self) -> float:
        """From go to the end of both sides."""
        return float(self.event["seconds"])


def scenarios() -> dict[str, Scenario]:
    return {
        "good": Scenario(),
        "nodes the other way": Scenario(hosts=(CLIENT, SERVER)),
        "server fails": Scenario(server="answers and fails"),
        "server dies": Scenario(server="dies while serving"),
        "server stays": Scenario(server="answers and stays"),
        "never listens": Scenario(server="never listens", start_limit_s=1),
        "ends at once": Scenario(server="ends at once"),
        "second try": Scenario(server="listens at the second try"),
        "no server tool": Scenario(server="is not installed"),
        "no client tool": Scenario(client="is not installed"),
        "client fails": Scenario(client="fails"),
        "client gives up": Scenario(server="waits for no one", client="gives up"),
        "client hangs": Scenario(client="hangs", run_limit_s=20),
        "no interface": Scenario(way={"interface": "none0"}),
        "soon over": Scenario(server="answers after a while"),
        "option there": Scenario(way={"option": "-c"}),
        "option missing": Scenario(way={"option": "--data_validation"}),
    }


Ran = dict[str, Scenario]

#: the sweeps that have run, by the first of their scenarios
SWEEPS: dict[str, Sweep] = {}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """All scenarios at the same time, as places of one round: most of them wait for a limit, which
    takes no work.
    """
    yield from run_all("all", scenarios(), tmp_path_factory.mktemp("pair"))


def run_all(name: str, all_of_them: Ran, folder: Path) -> Iterator[Ran]:
    sweep = SWEEPS[name] = Sweep([one.order() for one in all_of_them.values()])
    sweep.nodes = [SERVER, CLIENT]
    indices = [sweep.pair(*one.hosts, order) for order, one in enumerate(all_of_them.values())]
    sweep.rounds = [indices]
    found = sweep.run(folder, PATIENCE_S)
    for index, scenario in zip(indices, all_of_them.values(), strict=True):
        scenario.sides = found.sides.get(index, {})
        scenario.event = found.places[index]
    yield all_of_them


def test_every_side_ends_by_itself(ran: Ran) -> None:
    ended = {name: (s.event["outcome"], s.event["why"]) for name, s in ran.items()}
    assert ended == dict.fromkeys(ran, ("done", ""))
    assert (SWEEPS["all"].code, SWEEPS["all"].errors) == (0, "")


def test_nothing_is_left_running(ran: Ran) -> None:
    assert SWEEPS["all"].left_running() == []


# ---- a good run ----

EXIT_LINE = {"tool": "tool", "exit_code": 0, "version": "tool 1.0", "note": ""}


@pytest.mark.parametrize(("role", "rank", "host"), [("server", 0, SERVER), ("client", 1, CLIENT)])
def test_good_call_leaves_its_exit_line(ran: Ran, role: str, rank: int, host: str) -> None:
    line = ran["good"].line(role)
    assert line.pop("seconds") > 0
    assert line.pop("path") == os.path.realpath(sys.executable)
    assert line.pop("package").split()[0] in ("spack", "dpkg", "rpm", "unknown")
    assert line == {**EXIT_LINE, "role": role, "rank": rank, "host": host}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("server.out", "served\n"),
        ("server.err", ""),
        ("client.out", "got b'hello'\n"),
        ("client.err", "aside\n"),
    ],
)
def test_what_the_tools_print_is_kept_by_side_and_stream(ran: Ran, file: str, content: str) -> None:
    assert ran["good"].output(file) == content


def test_any_node_of_the_sweep_may_be_the_server(ran: Ran) -> None:
    line = ran["nodes the other way"].line("server")
    assert (line["host"], line["rank"], line["exit_code"]) == (CLIENT, 0, 0)


@pytest.mark.parametrize("role", ["server", "client"])
def test_every_side_states_its_kernel(ran: Ran, role: str) -> None:
    assert ran["good"].facts(role)["kernel"] == os.uname().release


@pytest.mark.parametrize("role", ["server", "client"])
def test_every_side_states_its_boot(ran: Ran, role: str) -> None:
    known = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert ran["good"].facts(role)["boot_id"] == known


@pytest.mark.parametrize("role", ["server", "client"])
def test_every_side_states_the_device_and_mtu_of_the_path(ran: Ran, role: str) -> None:
    facts = ran["good"].facts(role)
    mtu = int(Path("/sys/class/net/lo/mtu").read_text())
    assert (facts["device"], facts["mtu_bytes"]) == ("lo", mtu)


def test_only_the_record_is_left_in_the_shared_folder(ran: Ran) -> None:
    names = {path.name for path in (SWEEPS["all"].folder / "job").iterdir()}
    # The last one is the tool's own.
    assert names == {"sweep.json", results_file.FILE, "tried"}


@pytest.mark.parametrize("role", ["server", "client"])
def test_every_side_states_its_counters_around_the_call(ran: Ran, role: str) -> None:
    counters = ran["good"].facts(role)["counters"]
    assert counters["seconds"] > 0
    assert {"counters", "gone", "bytes", "peak_gbits"} <= set(counters)


@pytest.mark.parametrize("role", ["server", "client"])
def test_every_side_states_what_tc_does_to_the_path(ran: Ran, role: str) -> None:
    emulation = ran["good"].facts(role)["emulation"]
    assert emulation == "none" or emulation.startswith(("netem", "unknown ("))


@pytest.mark.parametrize("role", ["server", "client"])
def test_every_side_states_what_has_become_of_the_path(ran: Ran, role: str) -> None:
    assert ran["good"].facts(role)["after"] == {"carrier_changes": 0}


@pytest.mark.parametrize("role", ["server", "client"])
def test_side_with_a_tool_that_could_not_start_states_its_counters_too(ran: Ran, role: str) -> None:
    assert "counters" in ran["no server tool"].facts(role)


def test_server_that_cannot_have_its_port_is_tried_again(ran: Ran) -> None:
    lines = [ran["second try"].line(role) for role in ("server", "client")]
    assert [line["exit_code"] for line in lines] == [0, 0]


# ---- what goes wrong ----


@pytest.mark.parametrize(
    ("name", "server", "client"),
    [
        ("server fails", 5, 0),
        ("server dies", -9, 0),
        ("client fails", 0, 3),
        ("client hangs", 0, None),
        ("client gives up", None, 4),
        ("server stays", None, 0),
        ("never listens", None, None),
        ("ends at once", None, None),
        ("no server tool", None, None),
        ("no client tool", None, None),
    ],
)
def test_exit_lines_say_how_each_side_ended(
    ran: Ran, name: str, server: int | None, client: int | None
) -> None:
    scenario = ran[name]
    ended = (scenario.line("server")["exit_code"], scenario.line("client")["exit_code"])
    assert ended == (server, client)


@pytest.mark.parametrize(
    ("name", "role", "note"),
    [
        ("never listens", "server", "did not listen within 1 s"),
        ("ends at once", "server", "ended before it listened, exit code 1"),
        ("no server tool", "server", "cannot be started: [Errno 2]"),
        ("no client tool", "client", "cannot be started: [Errno 2]"),
        ("client hangs", "client", "still running after"),
        ("server stays", "server", "killed"),
        ("client gives up", "server", "killed"),
        ("never listens", "client", f"not started: no server on {SERVER} after"),
    ],
)
def test_note_says_why_there_is_no_exit_code(ran: Ran, name: str, role: str, note: str) -> None:
    assert note in ran[name].line(role)["note"]


@pytest.mark.parametrize(
    ("name", "role", "limit_s"),
    [
        ("client hangs", "client", 20),
        ("server stays", "server", 10),
        ("client gives up", "server", 10),
        ("never listens", "server", 0),
    ],
)
def test_killed_call_says_how_long_it_ran(ran: Ran, name: str, role: str, limit_s: float) -> None:
    assert limit_s < ran[name].line(role)["seconds"] < limit_s + PATIENCE_S


@pytest.mark.parametrize(("name", "role"), [("server fails", "server"), ("client fails", "client")])
def test_tool_that_ended_by_itself_has_no_note(ran: Ran, name: str, role: str) -> None:
    assert ran[name].line(role)["note"] == ""


def test_words_of_a_server_that_ended_at_once_are_kept(ran: Ran) -> None:
    assert ran["ends at once"].output("server.err") == "bad option\n"


def test_a_tool_with_the_option_is_started(ran: Ran) -> None:
    """The small programs are Python's own."""
    assert [ran["option there"].line(role)["exit_code"] for role in ("server", "client")] == [0, 0]


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_tool_without_the_option_is_not_started(ran: Ran, role: str) -> None:
    line = ran["option missing"].line(role)
    assert line["exit_code"] is None and "has no --data_validation" in line["note"]
    assert ran["option missing"].facts(role)["no_option"].endswith(" --data_validation")


def test_the_help_of_a_program_that_does_not_run_is_empty() -> None:
    assert help_of("/nowhere/tool") == ""


def test_version_of_a_missing_tool_is_unknown(ran: Ran) -> None:
    assert ran["no server tool"].line("server")["version"].startswith("unknown (")


def test_server_that_does_not_listen_is_never_announced(ran: Ran) -> None:
    assert ran["never listens"].line("client")["note"].startswith("not started: no server on")


@pytest.mark.parametrize("role", ["server", "client"])
def test_path_that_is_not_there_is_reported_in_the_exit_line(ran: Ran, role: str) -> None:
    line = ran["no interface"].line(role)
    assert line["exit_code"] is None
    assert line["note"].startswith("not started: ip -j -4 address show dev none0: exit code 1")


@pytest.mark.parametrize("role", ["server", "client"])
def test_way_that_is_not_there_leaves_what_is_known_of_the_node(ran: Ran, role: str) -> None:
    assert ran["no interface"].facts(role)["kernel"] == os.uname().release


def test_way_that_is_not_there_starts_no_tool(ran: Ran) -> None:
    lines = [ran["no interface"].line(role) for role in ("server", "client")]
    assert [(line["path"], line["seconds"]) for line in lines] == [("", 0.0), ("", 0.0)]


# ---- what is filled in ----


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("{device}", "mlx5_0"),
        ("-d={device}:{ib_port}", "-d=mlx5_0:1"),
        ("{gid_index}", "3"),
        ("{device}{device}", "mlx5_0mlx5_0"),
        ("{server}", "{server}"),
        ("{}", "{}"),
        ("device", "device"),
    ],
)
def test_value_is_filled_in_where_its_name_stands(word: str, expected: str) -> None:
    values = {"device": "mlx5_0", "ib_port": "1", "gid_index": "3"}
    assert client_server.filled(["tool", word], values) == ["tool", expected]


def test_without_values_nothing_is_filled_in() -> None:
    assert client_server.filled(["{device}", "-p", "{port}"], {}) == ["{device}", "-p", "{port}"]


CM_IDS = """\
0/1: cm-idn 1 state LISTEN ps TCP pid 500 comm [ib] src-addr 0.0.0.0:18515
link mlx5_0/1 cm-idn 2 state CONNECT ps TCP src-addr 10.0.0.1:18516 dst-addr 10.0.0.2:41000
0/1: cm-idn 3 state LISTEN ps TCP pid 501 src-addr [::]:18517
"""


@pytest.fixture
def sleeper() -> Iterator[Call]:
    """A server that waits for clients."""
    call = Call("server", ["sleep", str(HANGS_S)])
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not call.sleeps:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield call
    finally:
        call.kill("")


@pytest.mark.parametrize(
    ("port", "listening"), [(18515, True), (18517, True), (18516, False), (1851, False)]
)
def test_port_of_the_connection_manager_is_found_where_a_process_listens(
    monkeypatch: pytest.MonkeyPatch, sleeper: Call, port: int, listening: bool
) -> None:
    monkeypatch.setattr(rdma_devices, "ask", lambda argv: CM_IDS)
    assert client_server.is_listening_by_cm(port, sleeper) is listening


def test_server_that_still_makes_its_listeners_does_not_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients are refused while rdma_listen runs, though the state is LISTEN."""
    monkeypatch.setattr(rdma_devices, "ask", lambda argv: CM_IDS)
    busy = Call("server", ["sh", "-c", "while :; do :; done"])
    try:
        time.sleep(0.2)
        assert not client_server.is_listening_by_cm(18515, busy)
    finally:
        busy.kill("")
    assert not client_server.is_listening_by_cm(18515, busy)


def test_node_that_cannot_show_its_connection_manager_has_no_listener(
    monkeypatch: pytest.MonkeyPatch, sleeper: Call
) -> None:
    def missing(argv: list[str]) -> str:
        raise rdma_devices.FactError("rdma is not installed")

    monkeypatch.setattr(rdma_devices, "ask", missing)
    assert not client_server.is_listening_by_cm(18515, sleeper)


# ---- limits ----


def test_servers_side_ends_soon_after_its_tool(ran: Ran) -> None:
    scenario = ran["soon over"]
    assert scenario.seconds - scenario.line("server")["seconds"] < PATIENCE_S


def test_server_may_end_a_little_after_its_client(ran: Ran) -> None:
    assert ran["soon over"].line("server")["exit_code"] == 0


@pytest.mark.parametrize(
    ("name", "limit_s"),
    [
        ("good", 0),
        ("never listens", 1),
        # The client waits no longer for a server that has given up.
        ("ends at once", 0),
        ("no server tool", 0),
        ("client hangs", 20),
        # The client's end is told to the server's side; then the server may still finish.
        ("server stays", 10),
        ("client gives up", 10),
        ("no client tool", 10),
    ],
)
def test_every_wait_has_its_limit(ran: Ran, name: str, limit_s: float) -> None:
    assert ran[name].seconds < limit_s + PATIENCE_S


# ---- several ways at once ----


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    loopback, missing = {"interface": "lo"}, {"interface": "none0"}
    scenarios = {
        "good": Scenario(way={"links": [loopback, loopback]}),
        "one way missing": Scenario(way={"links": [loopback, missing]}),
        "one server missing": Scenario(way={"links": [{}, loopback], "server": NOT_ON_LO}),
    }
    yield from run_all("ways", scenarios, tmp_path_factory.mktemp("ways"))


@pytest.mark.parametrize("role", ["server0", "server1", "client0", "client1"])
def test_every_way_leaves_an_exit_line_of_its_own(ways: Ran, role: str) -> None:
    line = ways["good"].line(role)
    assert (line["role"], line["exit_code"], line["note"]) == (role, 0, "")
    assert ways["good"].facts(role)["device"] == "lo"


def test_what_concerns_all_ways_is_said_with_the_first(ways: Ran) -> None:
    first, second = (ways["good"].facts(f"client{number}") for number in (0, 1))
    assert first["span_s"] >= ways["good"].line("client1")["seconds"]
    assert "counters" in first and not {"counters", "span_s"} & set(second)
    assert max(first["ended_s"], second["ended_s"]) <= first["span_s"]


@pytest.mark.parametrize("role", ["server0", "server1"])
def test_no_way_is_used_when_one_of_them_is_missing(ways: Ran, role: str) -> None:
    line = ways["one way missing"].line(role)
    assert line["exit_code"] is None and "dev none0" in line["note"]


def test_no_client_is_started_when_one_server_does_not_listen(ways: Ran) -> None:
    scenario = ways["one server missing"]
    assert "ended before it listened, exit code 3" in scenario.line("server1")["note"]
    assert scenario.line("server0")["note"] == "ended: the server of another way did not listen"
    notes = [scenario.line(f"client{number}")["note"] for number in (0, 1)]
    assert all(note.startswith(f"not started: no server on {SERVER}") for note in notes)
