"""The inventories in a campaign's folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from railgauge.campaign.folder import Campaign
from railgauge.common.errors import RailgaugeError
from railgauge.model.inventory import FILE, Inventory, load
from railgauge.node.orchestration import sweep_file
from railgauge.node.transport import results_file


def in_campaign(campaign: Campaign) -> dict[str, Inventory]:
    """The last inventory that a campaign took of each node; what cannot be read is left out."""
    inventories = {}
    for number in range(1, campaign.sessions + 1):
        stage = campaign.session_folder(number) / "stage"
        for path in sorted(stage.glob(f"*/*/*/*/{results_file.FILE}")):
            for one in in_sweep(path):
                inventories[one.node] = one
    return inventories


def in_sweep(path: Path) -> Iterator[Inventory]:
    """The inventories in a sweep's results file; what cannot be read is left out."""
    for text in _texts(path):
        with contextlib.suppress(RailgaugeError):
            yield load(text)


def _texts(path: Path) -> Iterator[str]:
    """The inventories that a sweep took, if that is what it did."""
    try:
        if FILE not in path.with_name(sweep_file.FILE).read_text(encoding="utf-8"):
            return
        sides = results_file.read(path).sides
    except (OSError, ValueError):
        return
    for of_place in sides.values():
        yield from (side.files[FILE] for side in of_place.values() if FILE in side.files)
