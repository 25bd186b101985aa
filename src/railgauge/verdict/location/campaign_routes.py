"""The routes that a campaign has recorded: of InfiniBand subnets by the forwarding tables, of other
fabrics by the site's table.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from railgauge.campaign.folder import ROUTES, STATIC_ROUTES, Campaign
from railgauge.fabric import asking
from railgauge.fabric.static_routes import StaticRoutes, from_reading
from railgauge.locating import End, Result, Routes
from railgauge.model import record
from railgauge.node.system.rdma_devices import Hca
from railgauge.verdict.campaign.cases import Case


class Located(NamedTuple):
    """The leaf of each end, and the routes between them."""

    leaves: dict[End, str]
    routes: Routes


class CampaignRoutes:
    """The routes of each partition, read when they are first needed.

    They are those that the description declares static. All readings of the campaign must be
    whole, and agree: what changed between two of them is not known for what was measured.
    """

    def __init__(self, campaign: Campaign, cases: Sequence[Case]) -> None:
        """BrokenRecordError where a file of the campaign's routes is damaged."""
        self._given = record.read_routes(campaign.folder / ROUTES) or {}
        routed = record.read_static_routes(campaign.folder / STATIC_ROUTES) or ()
        self._folders: dict[str, dict[Path, None]] = {}
        for case in cases if routed else ():
            if case.partition in routed and case.folder is not None:
                self._folders.setdefault(case.partition, {})[case.folder / asking.FOLDER] = None
        self._read: dict[str, Sequence[StaticRoutes]] = {}

    def _of(self, partition: str) -> Sequence[StaticRoutes]:
        """Each reading of a partition; none where one of them is not whole."""
        if partition not in self._read:
            kept = [folder for folder in self._folders.get(partition, ()) if folder.is_dir()]
            found = [from_reading(folder) for folder in kept]
            whole = [routes for routes in found if routes is not None]
            self._read[partition] = whole if len(whole) == len(found) else ()
        return self._read[partition]

    def given(self, partition: str) -> Routes | None:
        """The routes by the site's table; None where there is none."""
        rows = self._given[partition].rows if partition in self._given else ()
        return Routes.of_rows(rows) if rows else None

    def between(
        self,
        partition: str,
        results: Sequence[Result],
        used: Mapping[End, set[Hca]],
        directed: bool,
    ) -> Located | None:
        """The leaves and routes of results, by the HCAs that each end used; not `directed`: data
        went both ways.

        None unless each end used one HCA, which all readings have at the same leaf, with the LID
        that the node had; and unless all readings have the same route for each result.
        """
        readings = self._of(partition)
        ends = dict.fromkeys(end for result in results for end in result.ends)
        if not readings or any(len(used.get(end, ())) != 1 for end in ends):
            return None
        hca = {end: next(iter(used[end])) for end in ends}
        leaves = {end: _leaf(readings, hca[end]) for end in ends}
        if not all(leaves.values()):
            return None
        spines: dict[tuple[str, ...], str] = {}
        arriving: dict[tuple[str, ...], str] = {}
        ways = dict.fromkeys(result.ends for result in results)
        back = () if directed else ((b, a) for a, b in ways)
        for a, b in itertools.chain(ways, back):
            if leaves[a] == leaves[b]:
                continue
            found = {routes.uplinks(hca[a].guid, hca[b].guid) for routes in readings}
            uplinks = found.pop()
            if uplinks is None or found:
                return None
            key = leaves[a], a.name, b.name
            spines[key], arriving[key] = uplinks
        return Located(leaves, Routes(spines, arriving))

    def ports(self) -> dict[str, str]:
        """Uplink, `leaf1:spine2` -> its ports on both switches, of the partitions that were asked
        for.
        """
        return {
            uplink: ports
            for readings in self._read.values()
            for routes in readings
            for uplink, ports in routes.ports().items()
        }


def _leaf(readings: Sequence[StaticRoutes], hca: Hca) -> str:
    """The leaf of an HCA by all readings; "" where they differ, or one lacks it."""
    leaves = {routes.leaf(hca.guid, hca.lid) for routes in readings}
    return leaves.pop() if len(leaves) == 1 else ""
