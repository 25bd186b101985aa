"""The rounds of a sweep: which places are measured now, and what has become of each.

A place goes through these phases; the messages name the place's number, and a role.

    to its agents      {"do": "prepare"} -> {"do": "go"} [-> {"do": "stop"} at its limit]
    from its agents    {"do": "taken"}?, {"do": "prepared"}, {"do": "side"} each, {"do": "broken"}?,
                       {"do": "ended"}
    of no place        {"do": "ask"} to an agent that says nothing for long, {"do": "here"} from it
    between its sides  {"do": "mail"}, relayed; {"do": "other_ended"} when one is over

When all are over, further pairs are measured that show which node, pair or link is at fault
(railgauge.locating.plan): `prepare` then says `again`, which place of the list with which nodes.
Last, where rounds are left, pairs of a node at fault, one a round: `quiet`.

Rounds are in lockstep: a round goes when the one before has ended. Its servers start while that
still runs. Every phase has a limit, and a node that does not keep to one is lost: recorded by name,
and waited for no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railgauge.node.orchestration import interface_rate
from railgauge.node.orchestration.sweep_file import Sweep
from railgauge.node.runners import repeat
from railgauge.node.system.rdma_devices import Hca, hca_of
from railgauge.node.transport import protocol
from railgauge.node.transport.results_file import NO_ANSWER, Event

if TYPE_CHECKING:
    from railgauge.locating import Evidence, plan

#: Time for an agent to say that it has taken an order, or that it is there. One that has work and
#: says nothing for this long is asked.
ANSWER_S = 20.0
#: Time for an agent to end a side that it was ordered to end.
STOPPED_S = 20.0
#: Time a round waits for places that are not prepared when the round before has ended.
GRACE_S = 5.0
#: The next round is prepared this long after the go: the tools have begun and are not disturbed.
EARLY_S = 1.0
#: Places that get their start before other messages are handled.
AT_ONCE = 64
#: How often limits are checked.
TICK_S = 0.5
#: A check that comes so much later than it was to: this host stood still, or was too busy to hear
#: agents; their limits are so much later then.
LATE_S = 1.0
#: How often the file that asks for an early end is looked at.
ENOUGH_S = 2.0

#: The sides of a place, also of its second run (repeat.py), by which its rate is known.
_PARTS = tuple(run + part for run in ("", repeat.PREFIX) for part in ("server", "client"))
#: A place that is ended then is late where it ran for so many times what good ones took, and so
#: much more.
SLOW, SLOW_S = 3, 10.0

#: Facts of a side where the tool was not started: this says nothing of the network.
_NOT_STARTED = ("missing", "no_state")

Send = Callable[[str, protocol.Message], None]
Write = Callable[[Event], None]


class Place:
    """A place of a round that has begun to be prepared."""

    def __init__(self, index: int, number: int, roles: Mapping[str, str]) -> None:
        self.index, self.round, self.roles = index, number, roles
        #: roles that have answered; that are not prepared yet; that have not ended yet
        self.answered: set[str] = set()
        self.waits, self.live = set(roles), set(roles)
        self.outcome, self.why = "done", ""
        self.asked_at = time.monotonic()
        #: for how long the conductor stood still since its last message
        self.stood_s = 0.0
        self.started_at: float | None = None
        self.stopped_at: float | None = None


class Rounds:
    """All rounds of a sweep, over connections that its caller owns."""

    def __init__(self, sweep: Sweep, send: Send, write: Write, drop: Callable[[str, str], None]):
        """`send` brings a message to a node's agent, `write` keeps an event, and `drop` is called
        with a node, and why, that is lost.
        """
        self._sweep, self._send, self._write, self._drop = sweep, send, write, drop
        self.lost: dict[str, str] = {}
        #: how many rounds were listed
        self._listed = len(sweep.rounds)
        #: place that was ordered to prepare -> its round
        self._begun: dict[int, int] = {}
        self._current: dict[int, Place] = {}
        #: round that was ordered to prepare -> its places that have not ended
        self._left: dict[int, int] = {}
        self._unready: dict[int, int] = {}
        #: node -> time of its last message; and time at which it was since asked whether it is
        #: there
        self._heard_at: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}
        self._gone = -1
        self._changed = asyncio.Event()
        self._tool_s = 0.0
        #: by the number of a place: whether it is good, None where that is not known; and what went
        #: between its nodes (Gb/s), by the exit line of each role
        self._good: dict[int, bool | None] = {}
        self._carried: dict[int, dict[str, interface_rate.InterfaceRate]] = {}
        #: and which run that is of: a second one (repeat.py) counts for the first
        self._run_of: dict[int, str] = {}
        #: by the number of a place: the segments that its client's node sent again
        self._resent: dict[int, int] = {}
        #: what a place that is measured again is like
        self._like: dict[int, int] = {}
        #: the places that are measured while all else is quiet, to distinguish load from a fault
        self._quiet: set[int] = set()
        #: condition -> how long good places took
        self._took: dict[int, list[float]] = {}
        self._enough = False
        self._looked = 0.0
        #: by the number of a place: node -> the HCAs that it used
        self._hcas: dict[int, dict[str, set[Hca]]] = {}

    # --- a round ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run all rounds in their order, and then the retests that show which node is at fault."""
        rounds, began, number = self._sweep.rounds, 0.0, 0
        while number < len(rounds) and not self._is_enough():
            self._prepare(number, early=False)
            await self._until(functools.partial(self._is_prepared, number), GRACE_S)
            await self._go(number)
            # From the end of the round before: what lies between them is of this one.
            began = began or time.monotonic()
            if number + 1 < len(rounds):
                await self._until(functools.partial(self._is_over, number), EARLY_S)
                self._prepare(number + 1, early=True)
            await self._until(functools.partial(self._is_over, number))
            self._write(
                {
                    "event": "round",
                    "round": number,
                    "seconds": round(time.monotonic() - began, 3),
                    "tool_seconds": self._tool_s,
                }
            )
            began = time.monotonic()
            number += 1
            more = number - self._listed < self._sweep.retests.rounds and not self._enough
            if number >= self._listed and more:
                self._add_round(number - self._listed + 1)

    def _is_enough(self) -> bool:
        """Whether the caller of the sweep has asked for an early end."""
        now = time.monotonic()
        if self._sweep.enough and not self._enough and now - self._looked > ENOUGH_S:
            self._looked = now
            # By opening it: then a network's file system asks the server.
            with contextlib.suppress(OSError):
                self._enough = bool(Path(self._sweep.enough).read_bytes())
        return self._enough

    def _end_early(self, now: float) -> None:
        """What runs, or is prepared: late is what took far longer than good ones of its condition
        did already.
        """
        for place in [p for p in self._current.values() if p.stopped_at is None]:
            began = place.started_at
            ran_s = now - place.stood_s - began if began is not None else 0.0
            took = self._took.get(self._sweep.places[place.index].of)
            if took and ran_s > SLOW * statistics.median(took) + SLOW_S:
                self._stop(place, "still running", ran_s)
            else:
                self._stop(place, "not measured, as the time was over", ran_s, "refused")

    def _add_round(self, number: int) -> None:
        """Add a round of pairs under one condition where a suspect is not confirmed yet; else of
        one pair, where a quiet round distinguishes load from a fault.
        """
        # A third of what the conductor loads, and most sweeps end without such a round.
        from railgauge.locating import End, plan

        conditions: dict[int, list[int]] = {}
        for index in self._good:
            conditions.setdefault(self._sweep.places[index].of, []).append(index)
        places = list(conditions.values())
        left = self._sweep.retests.rounds - number + 1
        ends = [End(node) for node in self._sweep.nodes if node not in self.lost]
        added = plan.added_round([*map(self._evidence, places)], ends, number, left)
        if added is not None:
            self._add(places[added.condition], added, number)

    def _evidence(self, places: Sequence[int]) -> Evidence:
        """What the results under a condition say so far: a place is good or not."""
        from railgauge.locating import End, Evidence, Result
        from railgauge.node.orchestration import routes

        leaves = {End(node): leaf for node, leaf in self._sweep.retests.leaves.items()}
        evidence = Evidence(leaves, directed=True)
        pairs = [(client, server) for server, client in map(self._ends, places)]
        # Those of the same rails, on one leaf and between leaves.
        alike = {self._labels(index) for index in places}
        used = [of for index, of in self._hcas.items() if self._labels(index) in alike]
        if known := routes.of_pairs(self._sweep.retests, pairs, used):
            evidence = Evidence(known[0], directed=True, routes=known[1])
        good = self._judged(places)
        evidence.add(
            Result(
                End(client),
                End(server),
                1.0 if good[index] else None,
                self._begun[index],
                quiet=index in self._quiet,
            )
            for index in places
            if good[index] is not None
            for server, client in [self._ends(index)]
        )
        return evidence

    def _add(self, places: Sequence[int], added: plan.Added, number: int) -> None:
        first = len(self._sweep.places)
        for index, (sender, receiver) in enumerate(added.pairs, start=first):
            like = self._like_of(places, sender.node, receiver.node)
            place = self._sweep.again(index, like, receiver.node, sender.node)
            self._like[index] = like
            name = ":".join((receiver.node, sender.node, *self._labels(index)))
            event = {"event": "again", "place": index, "name": f"{name}@{number}", "like": like}
            if added.quiet:
                self._quiet.add(index)
                event["quiet"] = True
            self._write({**event, **place.roles})
        self._sweep.rounds.append(tuple(range(first, len(self._sweep.places))))

    def _like_of(self, places: Sequence[int], one: str, other: str) -> int:
        """The listed place that a pair is measured as: that of the same nodes, else the first."""
        listed = [index for index in places if index not in self._like]
        same = (index for index in listed if set(self._ends(index)) == {one, other})
        return next(same, listed[0])

    def _ends(self, index: int) -> tuple[str, str]:
        roles = self._sweep.places[index].roles
        return roles["server"], roles["client"]

    def _labels(self, index: int) -> tuple[str, ...]:
        """What a place has besides its ends, as its name has it."""
        return tuple(self._sweep.places[index].name.split(":")[2:])

    def _judged(self, places: Sequence[int]) -> dict[int, bool | None]:
        """Whether each place under a condition is good, None where nothing was measured: by what it
        left, by what is asked, by its peers, which are the listed ones, and by an earlier campaign.
        """
        first = [index for index in places if index not in self._like]
        # What failed has a rate of its own kind, or none.
        good = [index for index in places if self._good[index]]
        rates = interface_rate.rates(
            {n: of for n in good if "client" in (of := self._carried.get(n, {}))}
        )
        bound = interface_rate.bound([rates.get(n) for n in first], self._sweep.retests.slower)
        kept = {n: self._kept(n, rate) for n, rate in rates.items()}
        of_before = interface_rate.bound_since(
            [kept.get(n) for n in first], self._sweep.retests.change
        )
        usual = interface_rate.most_resent([self._resent[n] for n in first if n in self._resent], 0)
        judged = {}
        for index in places:
            rate, well = rates.get(index), self._good[index]
            order = self._sweep.pair_order(index)
            if well and rate is not None and order is not None:
                of_then = kept[index]
                # What interfaces carry is more than the payload.
                least = max(bound, order.least_gbits or 0.0)
                well = rate >= least and (of_then is None or of_then >= of_before)
                # Where a link loses packets, its rate may still be that of its peers.
                most = order.most_resent
                lossy = most is not None and self._resent.get(index, 0) > most + usual
                well = well and not lossy
            judged[index] = well
        return judged

    def _kept(self, index: int, rate: float) -> float | None:
        """The rate at a place now, as a share of the rate between its nodes before."""
        place = self._sweep.places[index]
        planned = self._sweep.places[self._like.get(index, index)]
        before = self._sweep.retests.before.get(place.name)
        same = set(place.roles.values()) == set(planned.roles.values())
        return rate / before if before and same else None

    def _is_prepared(self, number: int) -> bool:
        return not self._unready[number]

    def _is_over(self, number: int) -> bool:
        return not self._left[number]

    async def _until(self, holds: Callable[[], bool], limit_s: float | None = None) -> None:
        """Wait until the condition holds, or for the limit; check all other limits meanwhile."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while not holds():
            left_s = TICK_S if deadline is None else min(TICK_S, deadline - time.monotonic())
            if left_s <= 0:
                return
            self._changed.clear()
            due = time.monotonic() + left_s
            try:
                await asyncio.wait_for(self._changed.wait(), left_s)
                self._put_off(time.monotonic() - due)
            except asyncio.TimeoutError:
                self._put_off(time.monotonic() - due)
                self.look()

    def _prepare(self, number: int, early: bool) -> None:
        """Prepare all places of a round, or those that may be prepared early."""
        if number not in self._left:
            self._left[number] = self._unready[number] = len(self._sweep.rounds[number])
        for index in self._sweep.rounds[number]:
            place = self._sweep.places[index]
            if index in self._begun or (early and not self._sweep.is_prepared_early(index)):
                continue
            self._begun[index] = number
            self._current[index] = begun = Place(index, number, place.roles)
            lost = [node for node in place.roles.values() if node in self.lost]
            if lost:
                self._end(begun, "lost", f"{lost[0]}: {self.lost[lost[0]]}")
                continue
            again = {}
            if index in self._like:
                again = {"again": {"like": self._like[index], **place.roles}}
            for role, node in place.roles.items():
                self._tell(node, "prepare", index, role, **again)

    async def _go(self, number: int) -> None:
        self._gone, self._tool_s = number, 0.0
        ready = [p for p in self._current.values() if p.round == number and not p.waits]
        for count, place in enumerate(ready):
            if place.live:
                self._go_place(place)
            if count % AT_ONCE == AT_ONCE - 1:
                # The first are sent, and their answers heard, before it is the last ones' turn.
                await asyncio.sleep(0)

    def _go_place(self, place: Place) -> None:
        place.started_at, place.stood_s = time.monotonic(), 0.0
        for role in place.live:
            self._tell(place.roles[role], "go", place.index, role)

    def _tell(self, node: str, do: str, index: int, role: str, **more: Any) -> None:
        self._send(node, {"do": do, "place": index, "role": role, **more})

    # --- what agents say -------------------------------------------------------------------------

    def received(self, node: str, message: protocol.Message) -> None:
        """A message of a node's agent; ProtocolError where it cannot be meant."""
        do, index, role = message.get("do"), message.get("place"), message.get("from")
        self._heard_at[node] = time.monotonic()
        if self._asked_at:
            self._asked_at.pop(node, None)
        if do == "here":
            return
        if not isinstance(index, int) or not isinstance(role, str) or not isinstance(do, str):
            raise protocol.ProtocolError("a message of no place")
        listed = self._sweep.places.get(index)
        if listed is None or listed.roles.get(role) != node:
            raise protocol.ProtocolError(f"a message of place {index} as {role}, which it is not")
        place = self._current.get(index)
        if place is None or role not in place.live:
            raise protocol.ProtocolError(f"a message of place {index} as {role}, which has ended")
        place.answered.add(role)
        if do == "side":
            self._side(place, message)
        elif do == "mail":
            self._mail(place, role, message)
        elif do == "prepared":
            self._is_ready(place, role)
        elif do == "broken":
            self._note_outcome(place, "refused", f"{node}: {message.get('why')}")
        elif do == "ended":
            why = message.get("why")
            self._ended(place, role, "lost" if why else "", f"{node}: {why}")
        elif do != "taken":
            raise protocol.ProtocolError(f"a message {do!r}")

    def _side(self, place: Place, message: protocol.Message) -> None:
        line, role, files = message.get("line"), message.get("role"), message.get("files")
        call = line.get("call") if isinstance(line, dict) else None
        seconds = call.get("seconds") if isinstance(call, dict) else None
        outputs = (role, message.get("out"), message.get("err"))
        sound = all(isinstance(one, str) for one in outputs) and isinstance(files, dict)
        if not sound or not isinstance(seconds, (int, float)) or line is None or call is None:
            raise protocol.ProtocolError(f"an exit line of place {place.index} that is none")
        if place.round == self._gone and not str(role).rpartition("/")[2].startswith("server"):
            self._tool_s = max(self._tool_s, float(seconds))
        event = {"event": "side", "place": place.index, "role": role, "line": line}
        event.update(out=outputs[1], err=outputs[2], **({"files": files} if files else {}))
        self._write(event)
        # A second run, where there is one (repeat.py), comes after the first.
        if role in ("client", f"{repeat.PREFIX}client") and place.round == self._gone:
            self._resent[place.index] = interface_rate.resent(line)
        if role in _PARTS and place.round == self._gone:
            run, _, part = str(role).rpartition("/")
            if self._run_of.get(place.index) != run:
                self._run_of[place.index], self._carried[place.index] = run, {}
            if (side := interface_rate.carried(line)) is not None:
                self._carried[place.index][part] = side
        facts = line.get("facts")
        if isinstance(facts, dict) and (hca := hca_of(facts)) is not None:
            node = place.roles.get(str(role).rpartition("/")[2], "")
            self._hcas.setdefault(place.index, {}).setdefault(node, set()).add(hca)
        if isinstance(facts, dict) and any(facts.get(name) for name in _NOT_STARTED):
            self._good[place.index] = None
        elif call.get("exit_code") != 0:
            # The other side may have said that its tool was not started.
            self._good.setdefault(place.index, False)

    def _mail(self, place: Place, role: str, message: protocol.Message) -> None:
        if not isinstance(message.get("name"), str):
            raise protocol.ProtocolError(f"a mail of place {place.index} without a name")
        for other in place.live - {role}:
            body = {"name": message["name"], "body": message.get("body")}
            self._tell(place.roles[other], "mail", place.index, other, **body)

    def _is_ready(self, place: Place, role: str) -> None:
        if role not in place.waits:
            return
        place.waits.discard(role)
        if place.waits:
            return
        self._unready[place.round] -= 1
        # One that was late goes as soon as it can.
        if place.round <= self._gone and place.live:
            self._go_place(place)
        self._note(place.round)

    def _note(self, number: int) -> None:
        """Wake the waiter for all places of a round."""
        if not self._unready[number] or not self._left[number]:
            self._changed.set()

    @staticmethod
    def _note_outcome(place: Place, outcome: str, why: str) -> None:
        """Keep the first outcome of a place: that is what counts."""
        if place.outcome == "done":
            place.outcome, place.why = outcome, why

    def _ended(self, place: Place, role: str, outcome: str, why: str) -> None:
        """A side of a place is over; report that to the other one."""
        if outcome:
            self._note_outcome(place, outcome, why)
        place.live.discard(role)
        for other in place.live:
            self._tell(place.roles[other], "other_ended", place.index, other)
        self._is_ready(place, role)
        if not place.live:
            self._end(place, place.outcome, place.why)

    def _end(self, place: Place, outcome: str, why: str) -> None:
        """Write the event of a place that is over."""
        if place.waits:
            self._unready[place.round] -= 1
        del self._current[place.index]
        self._left[place.round] -= 1
        self._note(place.round)
        if set(place.roles) == {"server", "client"}:
            known = {"done": self._good.get(place.index, True), "late": False}
            self._good[place.index] = known.get(outcome)
        seconds = round(time.monotonic() - (place.started_at or place.asked_at), 3)
        if outcome == "done" and self._good.get(place.index, True):
            self._took.setdefault(self._sweep.places[place.index].of, []).append(seconds)
        self._write(
            {
                "event": "place",
                "place": place.index,
                "round": place.round,
                "outcome": outcome,
                "why": why,
                "seconds": seconds,
            }
        )

    # --- what goes wrong -------------------------------------------------------------------------

    def lose(self, node: str, why: str) -> None:
        """Take a node out of the sweep; its places are no longer measured."""
        if node in self.lost:
            return
        self.lost[node] = why
        self._asked_at.pop(node, None)
        self._write({"event": "lost", "node": node, "why": why})
        self._drop(node, why)
        for place in list(self._current.values()):
            for role in [role for role in place.live if place.roles[role] == node]:
                self._ended(place, role, "lost", f"{node}: {why}")

    def look(self) -> None:
        """Check the limits of all places."""
        now = time.monotonic()
        if self._is_enough():
            self._end_early(now)
        for place in list(self._current.values()):
            if place.index in self._current:
                self._look_at(place, now)
        for node, since in list(self._asked_at.items()):
            if now - since > ANSWER_S:
                self.lose(node, f"{NO_ANSWER} {ANSWER_S:g} s")

    def _put_off(self, late_s: float) -> None:
        """Put off the limits of all that runs where a check came late."""
        if late_s > LATE_S:
            for place in self._current.values():
                place.stood_s += late_s
            for node in self._asked_at:
                self._asked_at[node] += late_s

    def _look_at(self, place: Place, now: float) -> None:
        now -= place.stood_s
        if place.stopped_at is not None:
            if now - place.stopped_at > STOPPED_S:
                self._lose_all(place, place.live, f"did not end a tool within {STOPPED_S:g} s")
        elif place.waits:
            silent = place.live - place.answered
            if silent and now - place.asked_at > ANSWER_S:
                self._lose_all(place, silent, f"{NO_ANSWER} {ANSWER_S:g} s")
            elif now - place.asked_at > self._sweep.prepare_limit_s(place.index):
                self._stop(place, "not prepared", now - place.asked_at)
        elif place.started_at is not None:
            if now - place.started_at > self._sweep.run_limit_s(place.index):
                self._stop(place, "still running", now - place.started_at)
            elif now - place.started_at > ANSWER_S:
                self._ask(place, place.started_at, now)

    def _ask(self, place: Place, went: float, now: float) -> None:
        """Ask agents that have been silent for long whether they are there: a stopped process keeps
        its connection.
        """
        for node in {place.roles[role] for role in place.live}:
            silent_s = now - max(went, self._heard_at.get(node, 0.0))
            if silent_s > ANSWER_S and node not in self._asked_at:
                self._asked_at[node] = time.monotonic()
                self._send(node, {"do": "ask"})

    def _lose_all(self, place: Place, roles: Iterable[str], why: str) -> None:
        for node in {place.roles[role] for role in roles}:
            self.lose(node, why)

    def _stop(self, place: Place, what: str, seconds: float, outcome: str = "late") -> None:
        """End a place that is late or no longer wanted; what its sides still leave is kept."""
        roles = ", ".join(f"{role} on {place.roles[role]}" for role in sorted(place.live))
        self._note_outcome(place, outcome, f"{what} after {seconds:.0f} s: {roles}")
        place.stopped_at, place.stood_s = time.monotonic(), 0.0
        for role in place.live:
            self._tell(place.roles[role], "stop", place.index, role)
