"""The leaves and routes of pairs: of an InfiniBand subnet by the HCAs that their nodes used, else
by the site's table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railgauge.locating import End, Routes
from railgauge.node.orchestration.sweep_file import Retests
from railgauge.node.system.rdma_devices import Hca


def of_pairs(
    retests: Retests,
    pairs: Sequence[tuple[str, str]],
    used: Sequence[Mapping[str, set[Hca]]],
) -> tuple[dict[End, str], Routes] | None:
    """The leaf of each node, and the routes. `pairs` are senders and receivers under one condition,
    `used` the HCAs of the nodes at each place of the same rails.

    None without a table, unless each node used one HCA, which the subnet has with this LID, and the
    routes between all pairs on two leaves are known.
    """
    if not retests.routes:
        given = {End(node): leaf for node, leaf in retests.leaves.items()}
        return (given, Routes.of_rows(retests.spines)) if retests.spines else None
    leaf_of = {Hca(guid, lid): leaf for guid, leaf, lid in retests.hcas}
    hcas: dict[str, set[Hca]] = {}
    for of_nodes in used:
        for node, its_hcas in of_nodes.items():
            hcas.setdefault(node, set()).update(its_hcas)
    if any(len(hcas.get(node, ())) != 1 for pair in pairs for node in pair):
        return None
    hca_of = {node: next(iter(its_hcas)) for node, its_hcas in hcas.items()}
    if not leaf_of.keys() >= set(hca_of.values()):
        return None
    leaves = {node: leaf_of[hca] for node, hca in hca_of.items()}
    node_of = {hca.guid: node for node, hca in hca_of.items()}
    spines: dict[tuple[str, ...], str] = {}
    arriving: dict[tuple[str, ...], str] = {}
    for leaf, up, down, guids in retests.routes:
        for node in (node_of[guid] for guid in guids if guid in node_of):
            spines[leaf, node], arriving[leaf, node] = up, down
    between = [(a, b) for a, b in pairs if leaves[a] != leaves[b]]
    if any((leaves[a], b) not in spines for a, b in between):
        return None
    return {End(node): leaf for node, leaf in leaves.items()}, Routes(spines, arriving)
