"""What NCCL said last, and which rank a hang waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.leaves import Leaves
from railgauge.tools import nccl_log, nccl_tests
from railgauge.tools.nccl_log.ras import RankProcess

#: So many ranks of a launch that hangs are named.
_FEW = 4

#: So many nodes must answer before the one that does not is at fault.
_WITNESSES = 2


def note(calls: Sequence[Call]) -> str:
    """What is noted of a rank that had to be ended because it hung; "" where none did."""
    return next((call.note for call in calls if "still running" in call.note), "")


def last_words(calls: Sequence[Call], logs: Mapping[int, str]) -> list[Failure]:
    """What NCCL said before the tool failed, or had to be ended because it hung."""
    hung, failed = note(calls), {call.rank for call in calls if call.failure}
    # Of a hang all: the one that lags behind is what one looks for.
    relevant = {rank: log for rank, log in logs.items() if hung or rank in failed}
    words = nccl_log.last_words_of_all(relevant)
    if not words:
        return []
    return [Failure("last-words", f"NCCL's last words: {'; '.join(words.splitlines())}")]


def failure(
    said: str,
    calls: Sequence[Call],
    node_of: Mapping[RankProcess, str],
    nodes: Sequence[str],
    leaves: Leaves | None,
) -> Failure:
    """What `ncclras` said of a launch on `nodes` that hangs: which ranks are silent, or lag behind.
    `node_of` are the nodes of its ranks.
    """
    answer, noted = nccl_log.ras.answer(said), note(calls)
    if not answer.stragglers:
        trouble = nccl_log.ras.trouble(said)[:400] or "no answer"
        return Failure("hang", f"{noted}; ncclras says: {trouble}")
    named = [
        f"rank {each.rank} on {node_of.get(each.process, 'an unknown node')} {each.what}"
        for each in answer.stragglers
    ]
    shown = ", ".join(named[:_FEW]) + (f" and {len(named) - _FEW} more" * (len(named) > _FEW))
    guilty = silent(answer, calls, node_of, nodes, leaves)
    return Failure("hang", f"{noted}; by ncclras {shown}", guilty)


def silent(
    answer: nccl_log.ras.Answer,
    calls: Sequence[Call],
    node_of: Mapping[RankProcess, str],
    nodes: Sequence[str],
    leaves: Leaves | None,
) -> tuple[str, ...]:
    """The one node whose ranks alone do not answer, while several others do, of them one on its
    leaf; () where it may be the way to it, or a rank has ended, or is not known.
    """
    ranks = [each for each in answer.stragglers if each.what == nccl_log.ras.SILENT]
    ended = {call.rank for call in calls if call.exit_code is not None and not call.note}
    if not answer.whole or not ended.isdisjoint(each.rank for each in ranks):
        return ()
    theirs = {node_of.get(each.process) for each in ranks}
    others = [node for node in nodes if node not in theirs]
    if len(theirs) != 1 or len(others) != len(nodes) - 1 or len(others) < _WITNESSES:
        return ()
    (node,) = set(nodes).difference(others)
    if leaves and all(leaves.of_node[other] != leaves.of_node[node] for other in others):
        return ()
    return (node,)


def nodes_of_ranks(out: str, ranks: int) -> dict[RankProcess, str]:
    """The nodes of the ranks of a launch that printed `out`, of groups of so many `ranks`."""
    nodes: dict[RankProcess, set[str]] = {}
    for device in nccl_tests.devices(out):
        nodes.setdefault((device.rank % ranks, device.pid), set()).add(device.host)
    return {rank: hosts.pop() for rank, hosts in nodes.items() if len(hosts) == 1}
