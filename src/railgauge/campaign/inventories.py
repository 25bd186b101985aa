"""The inventories in a campaign's folder."""

from __future__ import annotations

from railgauge.campaign.folder import Campaign
from railgauge.errors import RailgaugeError
from railgauge.model.inventory import FILE, Inventory, read


def in_campaign(campaign: Campaign) -> dict[str, Inventory]:
    """The last inventory that a campaign took of each node; what cannot be read is left out."""
    inventories = {}
    for number in range(1, campaign.sessions + 1):
        stage = campaign.session_folder(number) / "stage"
        for path in sorted(stage.glob(f"*/*/*/*/{FILE}")):
            try:
                one = read(path)
            except RailgaugeError:
                continue
            inventories[one.node] = one
    return inventories
