"""What failures say by themselves: the nodes that they name, and the ways that no job got through.

A node that did not answer, or that showed its own fault, is known without a partner. Silence says
less: the node may be healthy, and its partner or the way to it at fault.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from railgauge import hostlist
from railgauge.common.names import natural
from railgauge.locating import Suspect
from railgauge.locating.suspects import CERTAIN, Measure, Witness
from railgauge.model.failure import (
    GPU_LINKS,
    NO_REFERENCE,
    NOT_MEASURED,
    RAIL_MISSING,
    UNAVAILABLE,
    UNREACHED,
    Failure,
)
from railgauge.verdict.campaign.cases import Case, Outcome

#: Failures that are a node's silence: a case that passed clears it. All others come from what the
#: node itself reported or showed.
_SILENCE = ("silent-node", "launch-failed")

_NO_ANSWER = "it does not answer Slurm"

#: Failures of the suite's own configuration, not of the nodes that it ran on.
_OF_THE_SUITE = (NO_REFERENCE, "gate", "limit-unit", "simulated")

#: The least number of silent nodes that point at their leaf: of one its own fault is likelier.
_SILENT_LEAF = 2

#: A node that was measured alone is confirmed after so many failures, where it never passed.
_CONFIRMING_TIMES = 2

_AGAIN = "once more: one run may be a bad moment"

#: A check, a partition, and what is measured there: NVLink says nothing of a node's NIC, and a rail
#: nothing of another.
Kind = tuple[str, str, str]


def by_itself(node: str, why: str, checks: tuple[str, ...] = ()) -> Suspect:
    """A suspect node that is known without a partner."""
    return Suspect("node", node, CERTAIN, (node,), (), (), (), why, checks)


def seen_once(node: str, why: str, check: str) -> Suspect:
    """A suspect node by a single run of itself alone."""
    again = (Measure(node, "", _AGAIN),)
    return dataclasses.replace(by_itself(node, why, (check,)), confirm=again)


def by_themselves(cases: Sequence[Case], leaves: Mapping[str, Mapping[str, str]]) -> list[Suspect]:
    """The leaves that do not answer, the nodes that a failure names, silent ones that nothing
    clears, missing rails and slow GPUs. `leaves`: partition -> node -> leaf.
    """
    silent = _silent(cases)
    silent_leaves = _silent_leaves(cases, leaves, silent)
    explained = {(node, silent[node]) for leaf in silent_leaves for node in leaf.nodes}
    without = (*_SILENCE, *NOT_MEASURED, UNREACHED, RAIL_MISSING, GPU_LINKS)
    named = sorted(_reasons(cases, lambda failure: failure.kind not in without).items())
    nodes = [by_itself(*each) for each in named if each not in explained]
    return [*silent_leaves, *nodes, *_lost_rails(cases), *_slow_gpus(cases)]


def _silent(cases: Sequence[Case]) -> dict[str, str]:
    """Node -> why, of the nodes that do not answer Slurm, or no job, and that nothing clears."""
    # A node that does not answer Slurm a sweep leaves out, and measures the others.
    silent = _reasons(cases, lambda failure: failure.kind == UNAVAILABLE)
    return {n: why for n, why in silent.items() if not any(_spoke(case, n) for case in cases)}


def _reasons(cases: Sequence[Case], counts: Callable[[Failure], bool]) -> dict[str, str]:
    """Node -> why: that it does not answer Slurm, else the first failure that counts and names it,
    else that it is silent in jobs.
    """
    reasons: dict[str, str] = {}
    bad = failed(cases)
    for case in bad:
        for node in case.unavailable:
            reasons.setdefault(node, _NO_ANSWER)
        for failure in filter(counts, case.failures):
            for node in failure.nodes:
                reasons.setdefault(node, failure.message)
    return {**_silent_in_jobs(cases, bad), **reasons}


def _silent_in_jobs(cases: Sequence[Case], bad: Sequence[Case]) -> dict[str, str]:
    """Node -> why, of the silent nodes that nothing clears; none of a partition in which all nodes
    are silent: then nothing separates one from the others.
    """
    silent: dict[str, str] = {}
    for partition in dict.fromkeys(case.partition for case in bad):
        here = [case for case in cases if case.partition == partition]
        failures = [(c, failure) for c in bad if c.partition == partition for failure in c.failures]
        found: dict[str, str] = {}
        cleared = {n for _, failure in failures if failure.kind == UNREACHED for n in failure.nodes}
        for case, failure in failures:
            for node in failure.nodes if failure.kind in _SILENCE else ():
                found.setdefault(node, failure.message)
                if node not in cleared and _clears(here, case, node):
                    cleared.add(node)
        if found.keys() != {node for case in here for node in case.nodes}:
            silent = {**{n: why for n, why in found.items() if n not in cleared}, **silent}
    return silent


def _silent_leaves(
    cases: Sequence[Case], leaves: Mapping[str, Mapping[str, str]], silent: Collection[str]
) -> list[Suspect]:
    """The leaves without an answering node, while another leaf has one. If its other nodes
    are in no campaign they may answer: then the nodes of the leaf are named.
    """
    dark: list[Suspect] = []
    for partition, leaf_of in leaves.items() if silent else ():
        nodes = {node for case in cases if case.partition == partition for node in case.nodes}
        answering = nodes.difference(silent)
        if not answering <= leaf_of.keys():
            # One that answers may be on any leaf.
            continue
        members: dict[str, set[str]] = {}
        for node, leaf in leaf_of.items():
            members.setdefault(leaf, set()).add(node)
        dark += [
            _silent_leaf(leaf, sorted(members[leaf], key=natural))
            for leaf in sorted(members)
            if answering and members[leaf] <= set(silent) and len(members[leaf]) >= _SILENT_LEAF
        ]
    return dark


def _silent_leaf(leaf: str, nodes: Sequence[str]) -> Suspect:
    why = f"no node of {leaf} answers ({hostlist.fold(nodes)}), and nodes of other leaves do"
    evidence = tuple(Witness(node, "", None, None, None, "convicts") for node in nodes)
    return Suspect("leaf", leaf, CERTAIN, tuple(nodes), (), evidence, (), why)


def _lost_rails(cases: Sequence[Case]) -> list[Suspect]:
    """The missing rails, each by the first case that lacked it; its other end is not to blame."""
    by_rail: dict[tuple[str, str], Suspect] = {}
    for case in failed(cases):
        rails = dict(zip(case.nodes, case.kind.split("-"), strict=False))
        for failure in case.failures:
            for node in failure.nodes if failure.kind == RAIL_MISSING else ():
                rail = rails.get(node, "")
                lost = by_itself(node, failure.message, (case.check,))
                named = dataclasses.replace(lost, kind="rail", name=f"{node}:{rail}")
                by_rail.setdefault((node, rail), named)
    return [by_rail[key] for key in sorted(by_rail)]


def _slow_gpus(cases: Sequence[Case]) -> list[Suspect]:
    """The slow GPUs, and the links of GPUs that were slow. A single time may be a bad
    moment. Of a GPU many copies are slow each time.
    """
    seen: dict[tuple[str, str], list[Case]] = {}
    named: dict[tuple[str, str], Suspect] = {}
    for case in failed(cases):
        nodes = {n for f in case.failures if f.kind == GPU_LINKS for n in f.nodes}
        for node in sorted(nodes, key=natural):
            for part in case.facts.get(node, {}).get("copies", {}).get("parts", ()):
                key = node, part["name"]
                seen.setdefault(key, []).append(case)
                suspect = by_itself(node, f"{node}: {part['why']}", (case.check,))
                # A link between nodes has two.
                ends = tuple(part.get("nodes", (node,)))
                named[key] = dataclasses.replace(
                    suspect, kind=part["kind"], name=f"{node}:{part['name']}", nodes=ends
                )
    suspects = []
    for key in sorted(named, key=lambda key: (natural(key[0]), natural(key[1]))):
        suspect = named[key]
        times = len({(case.session, case.run) for case in seen[key]})
        if suspect.kind == "gpu-link" and times < _CONFIRMING_TIMES:
            again = (Measure(suspect.nodes[0], "", _AGAIN),)
            suspect = dataclasses.replace(suspect, confirm=again)
        suspects.append(suspect)
    return suspects


def cuts(cases: Sequence[Case], guilty: Collection[str]) -> list[Suspect]:
    """The pairs of nodes with no way between them for a job, though both answered others, where
    neither is `guilty`.
    """
    by_nodes: dict[tuple[str, str], Suspect] = {}
    for case in failed(cases):
        for failure in case.failures:
            for a, b in _between(case, failure.kind, failure.nodes):
                # Both answered another: that they are there is known.
                elsewhere = (
                    c for c in cases if c.partition == case.partition and set(c.nodes) != {a, b}
                )
                is_cut = failure.kind == UNREACHED or _all_spoke(elsewhere, {a, b})
                if is_cut and not {a, b} & set(guilty):
                    first, second = nodes = min((a, b), (b, a))
                    again = (Measure(first, second, "the pair once more"),)
                    why = failure.message
                    pair = Suspect("pair", f"{first}-{second}", CERTAIN, nodes, (), (), again, why)
                    by_nodes.setdefault(nodes, dataclasses.replace(pair, checks=(case.check,)))
    return [by_nodes[nodes] for nodes in sorted(by_nodes)]


def alone(cases: Sequence[Case], guilty: Collection[str]) -> list[Suspect]:
    """Nodes that failed alone and never passed there, where others of the same kind did."""
    kinds: dict[Kind, list[Case]] = {}
    for case in cases:
        if len(case.nodes) == 1 and not case.of_job:
            kinds.setdefault(_kind(case), []).append(case)
    by_node: dict[str, Suspect] = {}
    for (check, _, _), members in sorted(kinds.items()):
        good = {case.nodes[0] for case in members if case.passed or case.unreferenced}
        # Two conditions of one run are one time.
        bad: dict[str, set[tuple[int, int]]] = {}
        for case in failed(members):
            if not _names_its_nodes(case):
                bad.setdefault(case.nodes[0], set()).add((case.session, case.run))
        for node in sorted(bad.keys() - good - set(guilty)) if good else ():
            times = len(bad[node])
            suspect = seen_once(node, "failed where it was measured alone", check)
            if times >= _CONFIRMING_TIMES:
                suspect = by_itself(node, f"failed alone {times} times", (check,))
            by_node.setdefault(node, suspect)
    return list(by_node.values())


def unexplained(cases: Sequence[Case], guilty: Collection[str]) -> list[Case]:
    """The cases between two nodes, without failed ones that are explained already.

    A case is explained by failures of its own that name nodes. A `guilty` node explains the other
    failed cases that it takes part in, too, unless it passed in a case of the same kind: its fault
    is then of another kind.
    """
    guilty = set(guilty)
    cleared: dict[Kind, set[str]] = {}
    if guilty:
        for case in cases:
            if case.passed:
                cleared.setdefault(_kind(case), set()).update(case.nodes)
    return [
        case
        for case in cases
        if len(case.nodes) == 2
        and not case.of_job
        and not (
            case.outcome is Outcome.FAILED
            and (
                _names_its_nodes(case) or guilty & set(case.nodes) - cleared.get(_kind(case), set())
            )
        )
    ]


def failed(cases: Iterable[Case]) -> list[Case]:
    """The cases that speak against a node or a way."""
    return [case for case in cases if case.outcome is Outcome.FAILED and not is_of_the_suite(case)]


def _names_its_nodes(case: Case) -> bool:
    """Whether one of its failures names the node, or both ends of the way, that it is about."""
    return any(f.nodes and f.kind not in (*_SILENCE, *NOT_MEASURED) for f in case.failures)


def is_of_the_suite(case: Case) -> bool:
    """Whether it failed only by the suite's own configuration."""
    of_suite = [failure.kind in _OF_THE_SUITE for failure in case.failures]
    return bool(of_suite) and all(of_suite) and all(row.within is not False for row in case.rows)


def _between(case: Case, kind: str, nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The ends of the way that a failure is about."""
    if kind == UNREACHED:
        yield nodes[0], nodes[1]
    elif kind == "launch-failed":
        yield from ((case.nodes[0], node) for node in nodes if node != case.nodes[0])


def _clears(cases: Sequence[Case], case: Case, node: str) -> bool:
    """Whether another case shows that `node` was not silent by its own fault.

    Where other nodes of the job answered, only a case of the same kind that passed shows it. Where
    none did, or srun did not get there, any job that ran on the node does, whatever it measured.
    """
    if _no_node_spoke(case):
        return any(_spoke(other, node) for other in cases)
    return any(
        node in other.nodes and other.passed and _kind(other) == _kind(case) for other in cases
    )


def _no_node_spoke(case: Case) -> bool:
    """Whether its job does not say which of its nodes did not start."""
    return any(
        failure.kind == "launch-failed" or set(failure.nodes) >= set(case.nodes)
        for failure in case.failures
        if failure.kind in _SILENCE
    )


def _spoke(case: Case, node: str) -> bool:
    """Whether the job of this case ran on that node."""
    passed = case.outcome is Outcome.PASSED and node in case.nodes
    return passed or any(call.host == node for call in case.calls)


def _all_spoke(cases: Iterable[Case], nodes: set[str]) -> bool:
    left = set(nodes)
    for case in cases:
        left -= {node for node in left if _spoke(case, node)}
        if not left:
            return True
    return False


def _kind(case: Case) -> Kind:
    return case.check, case.partition, case.kind
