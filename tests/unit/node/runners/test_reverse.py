"""The other direction of a pair: when it is measured, and what is said of the two."""

from __future__ import annotations

from typing import Any, cast

import pytest

from railgauge.checks.jobs.client_server import directions
from railgauge.model.measurement import Measurement
from railgauge.node.orders.places import ClientServerOrder, PlaceOrder
from railgauge.node.runners import reverse
from railgauge.node.transport import channel
from railgauge.node.transport.channel import Peer
from railgauge.tools import Completeness, Reading
from tests.unit.node.sweeping import both_sides, pair_of, pair_order


def line(sent_bytes: int | None, seconds: float = 3.0, exit_code: int | None = 0) -> dict[str, Any]:
    """The client's exit line, after its interface has sent so much."""
    counted = {} if sent_bytes is None else {"net/eth0/tx_bytes": sent_bytes}
    facts = {"device": "eth0", "counters": {"counters": counted}}
    return {"call": {"seconds": seconds, "exit_code": exit_code}, "facts": facts}


@pytest.mark.parametrize(
    ("client", "rate"),
    [
        (line(3_000_000_000), 8.0),
        (line(None), None),
        (line(3_000_000_000, exit_code=1), None),
        (line(3_000_000_000, exit_code=None), None),
        (line(3_000_000_000, seconds=0.0), None),
    ],
)
def test_the_rate_is_what_the_clients_interface_sent(
    client: dict[str, Any], rate: float | None
) -> None:
    assert reverse.rate_gbits(client) == rate


@pytest.mark.parametrize(("moving_s", "rate"), [(4.9, 9.8), (2.0, 8.0), (0.0, 8.0)])
def test_the_rate_is_that_while_it_sent_if_it_mostly_did(moving_s: float, rate: float) -> None:
    """A tool starts, waits for its server, and ends. A link that comes and goes is another case."""
    client = line(6_000_000_000, seconds=6.0)
    client["facts"]["counters"]["steady_gbits"] = {"net/eth0": {"rx": None, "tx": 9.8}}
    client["facts"]["counters"]["moving_s"] = {"net/eth0": {"rx": 0.0, "tx": moving_s}}
    assert reverse.rate_gbits(client) == rate


@pytest.mark.parametrize(
    ("mtu_bytes", "share"), [(9000, 9014 / 8948), (1500, 1514 / 1448), (None, 1514 / 1448)]
)
def test_headers_are_no_payload(mtu_bytes: int | None, share: float) -> None:
    assert reverse.on_the_wire(10.0, mtu_bytes) == pytest.approx(10.0 * share * 1.01)


class Channel:
    """What one side tells the other, without a socket."""

    def __init__(self) -> None:
        self.mails: dict[str, Any] = {}
        self.other_ended = False

    def send(self, message: dict[str, Any]) -> None:
        self.mails[message["name"]] = message["body"]

    def receive(self, limit_s: float) -> None:
        self.other_ended = True


class Pair:
    """Both sides after the first direction; `ran` are the roles that the second one had."""

    def __init__(self) -> None:
        self.channel = Channel()
        self.ran: list[tuple[str, str, str]] = []

    def side(self, role: str, client: dict[str, Any], least_gbits: float = 5.0) -> None:
        pair, peer = pair_of(pair_order(), "n1", "n2"), Peer(cast(channel.Channel, self.channel))
        reverse.measure(pair, role, peer, client, least_gbits, self.run)

    def run(self, pair: PlaceOrder[ClientServerOrder], role: str, other: Peer) -> None:
        other.send("ready")
        self.ran.append((role, pair.hosts["server"], pair.hosts["client"]))


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_where_the_first_direction_is_slow_both_sides_change_roles(pair: Pair) -> None:
    pair.side("client", line(375_000_000))
    pair.side("server", line(None))
    assert pair.ran == [("server", "n2", "n1"), ("client", "n2", "n1")]


def test_what_is_sent_of_the_other_direction_has_names_of_its_own(pair: Pair) -> None:
    pair.side("client", line(375_000_000))
    assert set(pair.channel.mails) == {"back/decision", "back/ready"}


@pytest.mark.parametrize("client", [line(3_000_000_000), line(None), line(1, exit_code=1)])
def test_where_it_is_not_slow_or_not_known_nothing_more_runs(
    pair: Pair, client: dict[str, Any]
) -> None:
    pair.side("client", client)
    pair.side("server", line(None))
    assert pair.ran == []


def test_a_server_with_a_client_that_decides_nothing_goes_on(pair: Pair) -> None:
    pair.side("server", line(None))
    assert pair.ran == []


@pytest.mark.parametrize(
    ("gbits", "roles"),
    [
        (4.0, {"server", "client", "back/server", "back/client"}),
        (6.0, {"server", "client"}),
        (None, {"server", "client"}),
    ],
)
def test_both_directions_leave_their_exit_lines(
    monkeypatch: pytest.MonkeyPatch, gbits: float | None, roles: set[str]
) -> None:
    monkeypatch.setattr(reverse, "rate_gbits", lambda line: gbits)
    left = both_sides(pair_of(pair_order(least_gbits=5.0), "127.0.0.1", "127.0.0.2"))
    codes = {message["role"]: message["line"]["call"]["exit_code"] for message in left}
    assert codes == dict.fromkeys(roles, 0)


# ---- what is said ----


def reading(gbits: float) -> Reading:
    measurement = Measurement("bandwidth", gbits, "iperf2", "tcp", "tcp", streams=4)
    return Reading(True, "", Completeness.PROVED, (measurement,))


def said(there: Reading, other: Reading) -> list[str]:
    found = directions("n2 -> n1", there, "n1 -> n2", other, 5.0)
    return [failure.message for failure in found]


def test_one_slow_direction_is_named() -> None:
    assert said(reading(1.0), reading(9.5)) == [
        "n2 -> n1 carries 1 Gb/s, n1 -> n2 9.5 Gb/s: only one direction is slow"
    ]


def test_two_slow_directions_are_reported_as_such() -> None:
    (message,) = said(reading(1.0), reading(1.1))
    assert message.endswith("both directions are slow")


def test_an_other_direction_that_failed_is_reported() -> None:
    (message,) = said(reading(1.0), Reading.invalid("no server on n2"))
    assert "n1 -> n2 not measured: no server on n2" in message


@pytest.mark.parametrize("there", [reading(5.0), reading(9.0), Reading.invalid("cut short")])
def test_a_direction_that_is_not_low_is_no_failure_whatever_the_other_is(there: Reading) -> None:
    assert said(there, reading(1.0)) == []
