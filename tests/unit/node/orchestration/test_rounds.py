"""The rounds of a sweep, without a network: what agents are told, and what places come to."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

import pytest

from railgauge.locating.load import quiet_needed
from railgauge.node.orchestration import rounds, sweep_file
from railgauge.node.orders.places import ClientServerOrder
from railgauge.node.transport import protocol, results_file
from tests.unit.node.sweeping import PATIENCE_S

ORDER = ClientServerOrder(
    start_limit_s=0, run_limit_s=0.2, budgets=(), server=(), client=(), version=()
)
LINE = {"call": {"role": "client", "seconds": 3.0, "exit_code": 0}, "facts": {}}


def listed(*pairs: tuple[str, str], rounds: list[list[int]], **order: Any) -> sweep_file.Sweep:
    places = {
        index: sweep_file.Place(index, f"{a}:{b}", "client_server", {"server": a, "client": b}, 0)
        for index, (a, b) in enumerate(pairs)
    }
    nodes = tuple(sorted({node for pair in pairs for node in pair}))
    listing = [tuple(one) for one in rounds]
    return sweep_file.Sweep(
        "tool", nodes, {}, (), listing, places, (dataclasses.replace(ORDER, **order),), 5
    )


Answer = Callable[["Cluster", str, protocol.Message], None]


def end(cluster: Cluster, node: str, place: int, role: str, line: dict[str, Any]) -> None:
    """A side leaves its exit line, and is over."""
    cluster.say(node, "side", place, role, role=role, line=line, out="", err="", files={})
    cluster.say(node, "ended", place, role, why="")


def good(cluster: Cluster, node: str, message: protocol.Message) -> None:
    """An agent whose sides do what they are told, at once."""
    place, role = message["place"], message["role"]
    if message["do"] == "prepare":
        cluster.say(node, "prepared", place, role)
    elif message["do"] == "go":
        end(cluster, node, place, role, LINE)


class Cluster:
    """Agents that answer, or do not."""

    def __init__(self, orders: sweep_file.Sweep, answers: dict[str, Answer] | None = None) -> None:
        self.orders = orders
        self.told: list[tuple[str, str, int]] = []
        self.events: list[results_file.Event] = []
        self.dropped: dict[str, str] = {}
        self._answers = answers or {}
        self.rounds = rounds.Rounds(
            orders, self._send, self.events.append, self.dropped.__setitem__
        )

    def _send(self, node: str, message: protocol.Message) -> None:
        self.told.append((node, message["do"], message.get("place", -1)))
        if node not in self.dropped:
            answer = self._answers.get(node, good)
            asyncio.get_running_loop().call_soon(answer, self, node, message)

    def say(self, node: str, do: str, place: int, of: str, **more: Any) -> None:
        try:
            self.rounds.received(node, {"do": do, "place": place, "from": of, **more})
        except protocol.ProtocolError as error:
            self.rounds.lose(node, str(error))

    @property
    def outcomes(self) -> dict[int, str]:
        return {e["place"]: e["outcome"] for e in self.events if e["event"] == "place"}

    def first(self, do: str, place: int) -> int:
        return next(
            n for n, (_, what, index) in enumerate(self.told) if (what, index) == (do, place)
        )


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def swept(orders: sweep_file.Sweep, **answers: Answer) -> Cluster:
    made: list[Cluster] = []

    async def work() -> None:
        made.append(Cluster(orders, answers))
        await made[0].rounds.run()

    run(work())
    return made[0]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANSWER_S", "STOPPED_S", "GRACE_S", "EARLY_S"):
        monkeypatch.setattr(rounds, name, 0.1)
    for name in ("TICK_S", "LATE_S"):
        monkeypatch.setattr(rounds, name, 0.02)
    monkeypatch.setattr(sweep_file, "MARGIN_S", 0.1)


TWO = listed(("n1", "n2"), ("n2", "n3"), rounds=[[0], [1]])


def silent(cluster: Cluster, node: str, message: protocol.Message) -> None:
    pass


def test_every_place_ends_once() -> None:
    cluster = swept(TWO)
    assert cluster.outcomes == {0: "done", 1: "done"}
    assert [e["event"] for e in cluster.events].count("place") == 2


def test_a_round_goes_when_the_one_before_has_ended() -> None:
    cluster = swept(TWO)
    assert cluster.first("go", 1) > cluster.first("go", 0)


@pytest.mark.parametrize(
    ("more", "ended"),
    [pytest.param({}, 0, id="starts-early"), pytest.param({"wan": {"set": []}}, 1, id="waits")],
)
def test_servers_of_the_next_round_start_while_this_one_runs_but_where_they_change_the_way(
    more: dict[str, Any], ended: int
) -> None:
    orders = listed(("n1", "n2"), ("n3", "n4"), rounds=[[0], [1]], run_limit_s=PATIENCE_S, **more)
    seen: list[int] = []
    told: list[protocol.Message] = []

    def noted(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "prepare":
            seen.append(len(cluster.outcomes))
            # Only now the tool of the round before ends.
            if not ended:
                good(cluster, "n1", told[0])
        good(cluster, node, message)

    def late_end(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "ask":
            cluster.rounds.received(node, {"do": "here"})
        elif message["do"] != "go":
            good(cluster, node, message)
        elif ended:
            asyncio.get_running_loop().call_later(2, good, cluster, node, message)
        else:
            told.append(message)

    swept(orders, n1=late_end, n3=noted)
    assert seen == [ended]


def test_a_node_that_does_not_answer_is_lost_and_its_later_places_are_not_asked_for() -> None:
    orders = listed(("n1", "n2"), ("n3", "n4"), ("n2", "n3"), ("n4", "n1"), rounds=[[0, 1], [2, 3]])
    cluster = swept(orders, n2=silent)
    assert cluster.outcomes == {0: "lost", 1: "done", 2: "lost", 3: "done"}
    assert cluster.dropped == {"n2": "did not answer within 0.1 s"}


def test_the_other_side_of_a_lost_node_is_reported() -> None:
    cluster = swept(TWO, n2=silent)
    assert ("n1", "other_ended", 0) in cluster.told


def stands_still(cluster: Cluster, node: str, message: protocol.Message) -> None:
    """Its agent is stopped once it has prepared its side."""
    if message["do"] == "prepare":
        cluster.say(node, "prepared", message["place"], message["role"])


def never_ends(cluster: Cluster, node: str, message: protocol.Message) -> None:
    """A tool that hangs, of an agent that is there."""
    if message["do"] == "ask":
        cluster.rounds.received(node, {"do": "here"})
    else:
        stands_still(cluster, node, message)


def stops(cluster: Cluster, node: str, message: protocol.Message) -> None:
    if message["do"] == "stop":
        cluster.say(node, "ended", message["place"], message["role"], why="")
    else:
        never_ends(cluster, node, message)


def test_a_place_that_is_late_is_ordered_to_stop() -> None:
    cluster = swept(TWO, n2=stops)
    assert cluster.outcomes == {0: "late", 1: "late"} and cluster.dropped == {}


def ended_early(
    tmp_path: Path, orders: sweep_file.Sweep, monkeypatch: pytest.MonkeyPatch, **answers: Answer
) -> Cluster:
    """`enough` says something once the first place has run for 0.4 s."""
    file = tmp_path / "enough"
    file.write_text("")
    monkeypatch.setattr(rounds, "ENOUGH_S", 0.05)
    monkeypatch.setattr(rounds, "ANSWER_S", 60)
    monkeypatch.setattr(rounds, "SLOW_S", 0.1)
    made: list[Cluster] = []

    def ran_s() -> float:
        place = made[0].rounds._current.get(0)
        began = place.started_at if place else None
        return time.monotonic() - place.stood_s - began if place and began is not None else 0.0

    async def work() -> None:
        made.append(Cluster(orders._replace(enough=str(file)), answers))
        running = asyncio.ensure_future(made[0].rounds.run())
        while ran_s() < 0.4:
            await asyncio.sleep(0.02)
        file.write_text("now")
        await running

    run(work())
    return made[0]


def test_where_it_is_enough_no_round_more_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = listed(("n1", "n2"), ("n2", "n3"), rounds=[[0], [1]], run_limit_s=PATIENCE_S)
    cluster = ended_early(tmp_path, orders, monkeypatch, n2=stops)
    # Of nothing is known how long it should take.
    assert cluster.outcomes == {0: "refused"}
    assert ("n3", "go", 1) not in cluster.told


def test_where_it_is_enough_what_takes_far_longer_than_the_others_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = listed(("n1", "n2"), ("n3", "n4"), rounds=[[0, 1]], run_limit_s=PATIENCE_S)
    alike = {number: place._replace(of=0) for number, place in orders.places.items()}
    cluster = ended_early(tmp_path, orders._replace(places=alike), monkeypatch, n2=stops)
    assert cluster.outcomes == {0: "late", 1: "done"}
    # How long those of another condition took says nothing of it.
    other = {number: place._replace(of=number) for number, place in orders.places.items()}
    cluster = ended_early(tmp_path, orders._replace(places=other), monkeypatch, n2=stops)
    assert cluster.outcomes == {0: "refused", 1: "done"}


def test_a_node_that_cannot_stop_a_tool_is_lost() -> None:
    cluster = swept(TWO, n2=never_ends)
    assert cluster.outcomes == {0: "late", 1: "lost"}
    assert cluster.dropped == {"n2": "did not end a tool within 0.1 s"}


def here() -> Answer:
    """An agent that is there, whose tool takes so long that it is asked for that twice."""
    told: list[protocol.Message] = []
    asked: list[protocol.Message] = []

    def answer(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "ask":
            asked.append(message)
            cluster.rounds.received(node, {"do": "here"})
            if len(asked) == 2:
                good(cluster, node, told[0])
        elif message["do"] == "go":
            told.append(message)
        else:
            good(cluster, node, message)

    return answer


#: Its limit comes far behind that of this test.
LONG = listed(("n1", "n2"), ("n3", "n4"), rounds=[[0, 1]], run_limit_s=10 * PATIENCE_S)


def test_an_agent_that_is_stopped_while_its_tool_runs_is_lost_long_before_the_limit() -> None:
    cluster = swept(LONG, n1=here(), n2=stands_still)
    assert cluster.outcomes == {0: "lost", 1: "done"}
    assert cluster.dropped == {"n2": "did not answer within 0.1 s"}


def test_an_agent_with_a_tool_that_takes_long_is_asked_and_not_lost() -> None:
    cluster = swept(LONG, n1=here(), n2=here())
    assert cluster.outcomes == {0: "done", 1: "done"} and cluster.dropped == {}


@pytest.mark.parametrize("when", ["prepare", "ask"])
def test_an_agent_that_is_late_as_the_conductors_host_is_stalled_is_not_lost(when: str) -> None:
    """All nodes of a lab stand still with it, and need a moment to go on."""
    stood: list[protocol.Message] = []
    answers = here()

    def late(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == when and not stood:
            stood.append(message)
            time.sleep(1)
            asyncio.get_running_loop().call_later(0.02, answers, cluster, node, message)
        else:
            answers(cluster, node, message)

    cluster = swept(LONG, n1=here(), n2=late)
    assert cluster.outcomes == {0: "done", 1: "done"} and cluster.dropped == {}


def test_a_place_that_is_prepared_late_does_not_hold_up_the_others() -> None:
    orders = listed(("n1", "n2"), ("n3", "n4"), rounds=[[0, 1]], start_limit_s=10 * PATIENCE_S)
    told: list[protocol.Message] = []

    def late_start(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "prepare":
            told.append(message)
            cluster.say(node, "taken", message["place"], message["role"])
        else:
            good(cluster, node, message)

    def other(cluster: Cluster, node: str, message: protocol.Message) -> None:
        good(cluster, node, message)
        if message["do"] == "go":
            good(cluster, "n2", told[0])

    cluster = swept(orders, n2=late_start, n4=other)
    assert cluster.outcomes == {0: "done", 1: "done"}
    assert cluster.first("go", 1) < cluster.first("go", 0)


def test_a_side_that_breaks_makes_its_place_refused() -> None:
    def breaks(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "prepare":
            role = message["role"]
            cluster.say(node, "broken", message["place"], role, why="KeyError at pair.py: 'x'")
            cluster.say(node, "ended", message["place"], role, why="exit code 1")

    cluster = swept(listed(("n1", "n2"), rounds=[[0]]), n2=breaks)
    (event,) = [e for e in cluster.events if e["event"] == "place"]
    assert (event["outcome"], event["why"]) == ("refused", "n2: KeyError at pair.py: 'x'")


def test_a_side_with_a_killed_process_makes_its_place_lost() -> None:
    def dies(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "prepare":
            cluster.say(node, "ended", message["place"], message["role"], why="signal 9")

    cluster = swept(listed(("n1", "n2"), rounds=[[0]]), n2=dies)
    assert cluster.outcomes == {0: "lost"} and cluster.dropped == {}


@pytest.mark.parametrize(
    "message",
    [
        {"do": "prepared"},
        {"do": "prepared", "place": 0},
        {"do": "prepared", "place": 0, "from": "client"},
        {"do": "prepared", "place": 7, "from": "server"},
        {"do": "prepared", "place": 1, "from": "server"},
        {"do": ["prepared"], "place": 0, "from": "server"},
        {"do": "side", "place": 0, "from": "server"},
        {"do": "go", "place": 0, "from": "server"},
    ],
)
def test_what_an_agent_cannot_mean_is_refused(message: protocol.Message) -> None:
    async def work() -> None:
        cluster = Cluster(TWO, {"n1": silent, "n2": silent})
        running = asyncio.ensure_future(cluster.rounds.run())
        await asyncio.sleep(0)
        with pytest.raises(protocol.ProtocolError):
            cluster.rounds.received("n1", message)
        running.cancel()

    run(work())


def test_mail_goes_to_the_other_side_of_the_place_alone() -> None:
    orders = listed(("n1", "n2"), ("n3", "n4"), rounds=[[0, 1]])
    heard: list[tuple[str, Any]] = []

    def hears(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "mail":
            heard.append((node, message["body"]))
        good(cluster, node, message)

    def tells(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "prepare":
            cluster.say(node, "mail", 0, message["role"], name="ready", body=[5001])
        good(cluster, node, message)

    swept(orders, n1=tells, n2=hears, n3=hears, n4=hears)
    assert heard == [("n2", [5001])]


# ---- what is measured again ----

NAMES = [f"n{number}" for number in range(8)]
RING = list(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))


def ring(retests: int = 3, **order: Any) -> sweep_file.Sweep:
    """Neighbours of eight nodes, in two rounds."""
    made = listed(*RING, rounds=[[0, 2, 4, 6], [1, 3, 5, 7]], **order)
    return made._replace(retests=sweep_file.Retests(retests, 0.175))


def carrying(
    rates: dict[str, float],
    lossy: Collection[str] = (),
    arrives: Collection[str] = (),
    fails: Collection[str] = (),
    late: Collection[str] = (),
) -> Answer:
    """An agent whose sides carry what the slower of their nodes does, in Gb/s; and send 200
    segments again where one of them is among `lossy`. At servers among `arrives` half of it comes.
    Clients among `fails` move next to nothing, and say so; the tools of those among `late` end a
    second behind their traffic.
    """

    def answer(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "prepare":
            good(cluster, node, message)
            return
        if message["do"] != "go":
            return
        place, role = message["place"], message["role"]
        ends = cluster.orders.places[place].roles.values()
        moved = int(min(rates.get(end, 10.0) for end in ends) * 3.0 * 1e9 / 8)
        if role == "server" and node in arrives:
            moved //= 2
        failed = role == "client" and node in fails
        moved = 1000 if failed else moved
        counters = {"tcp/RetransSegs": 200} if set(lossy) & set(ends) else {}
        watched = {
            "bytes": {"eth0": {"rx": 1000, "tx": moved}},
            "steady_gbits": {"net/eth0": {"tx": None if failed else moved * 8 / 3.0 / 1e9}},
            "moving_s": {"net/eth0": {"rx": 0.0, "tx": 3.0}},
        }
        facts = {"counters": {**watched, "counters": counters}}
        seconds = 4.0 if role == "client" and node in late else 3.0
        call = {"role": role, "seconds": seconds, "exit_code": int(failed)}
        line = {"call": call, "facts": facts}
        end(cluster, node, place, role, line)

    return answer


def again(cluster: Cluster) -> list[tuple[int, str]]:
    """The rounds and names of what was measured again."""
    names = {e["place"]: e["name"] for e in cluster.events if e["event"] == "again"}
    ended = [e for e in cluster.events if e["event"] == "place" and e["place"] in names]
    return [(e["round"], names[e["place"]]) for e in ended]


def with_rates(orders: sweep_file.Sweep, **rates: float) -> Cluster:
    return swept(orders, **dict.fromkeys(NAMES, carrying(rates)))


def test_where_all_are_good_nothing_is_measured_again() -> None:
    assert again(with_rates(ring())) == []


def test_a_node_between_two_slow_ones_meets_another_partner() -> None:
    found = again(with_rates(ring(), n2=5.0, n4=5.0))
    met = [set(name.removesuffix("@1").split(":")) for number, name in found if number == 2]
    for node in ("n2", "n3", "n4"):
        (pair,) = [pair for pair in met if node in pair]
        # A user who was good with another; of who is slow, with all.
        assert pair - {node} <= {"n0", "n6", "n7", *(("n1", "n5") if node == "n3" else ())}


def test_what_is_lost_on_the_way_counts_as_not_carried() -> None:
    """The client's device counts what was sent, and sent again."""
    cluster = swept(ring(), **dict.fromkeys(NAMES, carrying({}, arrives={"n2"})))
    assert any("n2" in name for _, name in again(cluster))


def test_a_place_that_failed_does_not_hide_what_is_lost_elsewhere() -> None:
    """It has no rate while traffic flowed; the others are compared by theirs all the same."""
    agent = carrying({}, arrives={"n2"}, fails={"n5"})
    found = [name for _, name in again(swept(ring(), **dict.fromkeys(NAMES, agent)))]
    assert any("n2" in name for name in found) and any("n5" in name for name in found)


def test_so_many_rounds_and_no_more() -> None:
    def failing(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "prepare":
            good(cluster, node, message)
        elif message["do"] == "go":
            place, role = message["place"], message["role"]
            # Whoever serves is bad at every second place: nothing explains that.
            code = int(role == "server" and place % 2)
            line = {"call": {"role": role, "seconds": 3.0, "exit_code": code}, "facts": {}}
            end(cluster, node, place, role, line)

    cluster = swept(ring(retests=1), **dict.fromkeys(NAMES, failing))
    assert {number for number, _ in again(cluster)} <= {2}
    assert again(swept(ring(retests=0), **dict.fromkeys(NAMES, failing))) == []


def test_added_rounds_cross_the_links_that_routes_suspect() -> None:
    """Three leaves of eight nodes. Data for every second node goes by spine0."""
    names = [f"n{number:02}" for number in range(24)]
    leaves = {name: f"leaf{number // 8}" for number, name in enumerate(names)}
    hcas = [(number, leaves[name], number + 100) for number, name in enumerate(names)]
    routes = [
        (leaf, spine, spine, [n for n, of, _ in hcas if of != leaf and n % 2 == number])
        for leaf in ("leaf0", "leaf1", "leaf2")
        for number, spine in enumerate(("spine0", "spine1"))
    ]
    pairs = [
        (names[b], names[a]) for a, b in ((0, 8), (1, 16), (2, 9), (3, 17), (10, 18), (11, 19))
    ]
    others = [name for name in names if not any(name in pair for pair in pairs)]
    within = list(zip(others[::2], others[1::2], strict=True))
    orders = listed(*pairs, *within, rounds=[list(range(12))])
    for place in range(len(pairs), 12):
        orders.places[place] = orders.places[place]._replace(of=1)

    def answer(cluster: Cluster, node: str, message: protocol.Message) -> None:
        """What leaves leaf0 for spine0 fails."""
        if message["do"] == "prepare":
            good(cluster, node, message)
        elif message["do"] == "go":
            place, role = message["place"], message["role"]
            roles = cluster.orders.places[place].roles
            up, number = leaves[roles["client"]], names.index(roles["server"])
            slow = up == "leaf0" != leaves[roles["server"]] and number % 2 == 0
            guid = names.index(node)
            facts = {"node_guid": f"0000:0000:0000:{guid:04x}", "lid": f"{guid + lid:#x}"}
            line = {"call": {"role": role, "seconds": 3.0, "exit_code": int(slow)}, "facts": facts}
            end(cluster, node, place, role, line)

    def ways(**more: Any) -> list[tuple[str, str]]:
        """Client and server of each added pair between leaves."""
        retests = sweep_file.Retests(1, 0.175, leaves, **more)
        fresh = orders._replace(
            retests=retests, rounds=list(orders.rounds), places=dict(orders.places)
        )
        cluster = swept(fresh, **dict.fromkeys(names, answer))
        added = [name.partition("@")[0].split(":")[:2] for _, name in again(cluster)]
        return [(c, s) for s, c in added if leaves[c] != leaves[s]]

    def crossed(of: list[tuple[str, str]]) -> list[tuple[str, int]]:
        return [(leaves[client], names.index(server) % 2) for client, server in of]

    lid = 100
    without = ways()
    # One pair crosses the link, and no two pairs share one.
    links = crossed(ways(hcas=hcas, routes=routes))
    assert ("leaf0", 0) in links
    assert len(set(links)) == len(links)
    # LIDs were given again after the subnet was read.
    lid = 101
    assert ways(hcas=hcas, routes=routes) == without


def failing_at_n2(facts: dict[str, Any]) -> Answer:
    """n2's tool has no exit code and these facts, and that of its partner fails."""

    def answer(cluster: Cluster, node: str, message: protocol.Message) -> None:
        if message["do"] == "prepare":
            good(cluster, node, message)
        elif message["do"] == "go":
            place, role = message["place"], message["role"]
            failed = "n2" in cluster.orders.places[place].roles.values()
            code = None if node == "n2" else int(failed)
            line = {
                "call": {"role": role, "seconds": 3.0, "exit_code": code},
                "facts": facts if node == "n2" else {},
            }
            end(cluster, node, place, role, line)

    return answer


@pytest.mark.parametrize("fact", [{"missing": ["iperf"]}, {"no_state": "one NUMA node"}])
def test_a_tool_that_was_not_started_says_nothing_of_the_network(fact: dict[str, Any]) -> None:
    assert again(swept(ring(), **dict.fromkeys(NAMES, failing_at_n2({})))) != []
    assert again(swept(ring(), **dict.fromkeys(NAMES, failing_at_n2(fact)))) == []


@pytest.mark.parametrize(("rate", "bad"), [(5.9, True), (6.1, False)])
def test_below_what_is_asked_a_pair_is_bad_without_peers(rate: float, bad: bool) -> None:
    pairs = [("n1", "n2"), ("n3", "n4"), ("n5", "n1")]
    orders = listed(*pairs, rounds=[[0, 1], [2]], least_gbits=6.0)
    orders = orders._replace(retests=sweep_file.Retests(1, 0.175))
    cluster = swept(orders, **dict.fromkeys(orders.nodes, carrying({"n2": rate})))
    assert any("n2" in name for _, name in again(cluster)) == bad


@pytest.mark.parametrize(("order", "bad"), [({"most_resent": 150}, True), ({}, False)])
def test_what_sends_again_more_than_is_admitted_is_bad(order: dict[str, Any], bad: bool) -> None:
    """Its rate is that of its peers, whose counters have as many bytes."""
    cluster = swept(ring(**order), **dict.fromkeys(NAMES, carrying({}, lossy=("n2", "n3"))))
    assert any("n2" in name for _, name in again(cluster)) == bad


def slow_with_others(cluster: Cluster, node: str, message: protocol.Message) -> None:
    """n2 is slow, but in a round of one place."""
    members = next((one for one in cluster.orders.rounds if message["place"] in one), ())
    carrying({"n2": 5.0} if len(members) > 1 else {})(cluster, node, message)


def alone(cluster: Cluster) -> list[str]:
    """The names of what was measured while all else was quiet."""
    return [e["name"] for e in cluster.events if e.get("quiet")]


def test_a_node_that_is_at_fault_is_measured_alone_where_rounds_are_left() -> None:
    cluster = swept(ring(retests=12), **dict.fromkeys(NAMES, slow_with_others))
    count = sum("n2" in name for name in alone(cluster))
    loaded = {name for _, name in again(cluster) if "n2" in name}.difference(alone(cluster))
    assert count == quiet_needed(2 + len(loaded)) and len(alone(cluster)) == count + 1
    rounds_of = dict(Counter(number for number, _ in again(cluster)))
    assert list(rounds_of.values())[-count - 1 :] == [1] * (count + 1)


def test_what_was_good_alone_clears_no_node() -> None:
    """Whoever it was bad with would be measured again and again."""
    cluster = swept(ring(retests=12), **dict.fromkeys(NAMES, slow_with_others))
    names = [name for _, name in again(cluster)]
    assert alone(cluster) and names[-len(alone(cluster)) :] == alone(cluster)


@pytest.mark.parametrize(("retests", "count"), [(12, 1), (3, 0)])
def test_a_node_that_is_slow_alone_is_measured_so_once_and_where_few_rounds_are_left_never(
    retests: int, count: int
) -> None:
    assert len(alone(with_rates(ring(retests), n2=5.0))) == count


def met_in(cluster: Cluster, number: int) -> list[set[str]]:
    """The pairs that were measured again in a round."""
    return [set(name.split("@")[0].split(":")) for n, name in again(cluster) if n == number]


def test_while_a_pair_is_measured_again_all_others_are_as_busy_as_they_were() -> None:
    met = met_in(with_rates(ring(), n2=5.0), 2)
    assert sorted(node for pair in met for node in pair) == NAMES


def test_while_a_pair_is_measured_alone_no_other_node_is_busy() -> None:
    cluster = swept(ring(retests=12), **dict.fromkeys(NAMES, slow_with_others))
    quiet = [number for number, name in again(cluster) if name in alone(cluster)]
    assert quiet and all(len(met_in(cluster, number)) == 1 for number in quiet)


def test_a_node_that_kept_others_busy_and_was_slow_is_measured_again() -> None:
    """A pair that met only while n2 was looked at, and is slow each time."""
    slow_pair = next(pair for pair in met_in(with_rates(ring(), n2=5.0), 2) if "n2" not in pair)

    def slow_with_another(cluster: Cluster, node: str, message: protocol.Message) -> None:
        place = cluster.orders.places.get(message.get("place", -1))
        both = place is not None and set(place.roles.values()) == slow_pair
        carrying(dict.fromkeys(NAMES, 5.0) if both else {"n2": 5.0})(cluster, node, message)

    cluster = swept(ring(retests=12), **dict.fromkeys(NAMES, slow_with_another))
    later = {number for number, _ in again(cluster) if number > 2}
    assert any(slow_pair in met_in(cluster, number) for number in later)


def test_a_node_that_is_lost_is_not_measured_again() -> None:
    slow = {"n3": 5.0, "n4": 5.0}
    cluster = swept(ring(), **{**dict.fromkeys(NAMES, carrying(slow)), "n0": silent})
    names = [name for _, name in again(cluster)]
    assert names and not any("n0" in name for name in names)


def test_an_agent_gets_its_order_and_its_partner() -> None:
    told: list[protocol.Message] = []

    def noted(cluster: Cluster, node: str, message: protocol.Message) -> None:
        told.append(message)
        carrying({"n2": 5.0, "n4": 5.0})(cluster, node, message)

    swept(ring(), **dict.fromkeys(NAMES, noted))
    prepared = [m for m in told if m["do"] == "prepare"]
    assert all("again" not in m for m in prepared if m["place"] < len(RING))
    more = [m["again"] for m in prepared if m["place"] >= len(RING)]
    assert more and all(set(one) == {"like", "server", "client"} for one in more)


# ---- and where something went before ----


def compared(before: dict[str, float]) -> sweep_file.Sweep:
    made = ring()
    return made._replace(retests=made.retests._replace(before=before, change=0.02))


BEFORE = {":".join(pair): 10.0 for pair in RING}


def test_a_pair_that_fell_since_then_is_measured_again() -> None:
    # It went faster there than elsewhere: now it is as fast as its peers.
    found = again(with_rates(compared({**BEFORE, "n2:n3": 10.5})))
    # First each of its ends meets another user in the same part.
    assert {(2, "n2:n1@1"), (2, "n4:n3@1"), (3, "n2:n3@2")} <= set(found)
    assert "n1:n2@1" not in {name for _, name in found}


def test_a_tool_that_ends_late_is_not_slow() -> None:
    """Its place was taken for one below what is asked; n2 was then bad with two partners, at fault,
    and nothing was measured again.
    """
    orders = compared({**BEFORE, "n2:n3": 10.5})
    orders = orders._replace(orders=(dataclasses.replace(ORDER, least_gbits=9.5),))
    cluster = swept(orders, **dict.fromkeys(NAMES, carrying({}, late={"n2"})))
    names = [name for _, name in again(cluster)]
    assert "n2:n3@2" in names and "n1:n2@1" not in names


def test_what_all_places_lost_since_then_is_no_reason_to_measure_again() -> None:
    slower = dict.fromkeys(NAMES, 9.5)
    assert again(with_rates(compared(BEFORE), **slower)) == []


def test_a_place_that_was_not_measured_then_is_judged_as_without() -> None:
    assert again(with_rates(compared({"n2:n3": 10.5}))) == []
