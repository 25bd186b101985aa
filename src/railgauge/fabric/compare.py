"""Two readings of a fabric: what changed between them."""

from __future__ import annotations

from railgauge.fabric import counters, expected
from railgauge.fabric.check import check
from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.folder import Fabric


def compare(
    before: Fabric, after: Fabric, allowed: int = 0
) -> tuple[list[FabricFinding], list[str]]:
    """The findings of `after` with the cabling of `before` as the expected one, without those that
    `before` has too; counters that moved, those by at most `allowed` as notes; switches with
    another firmware. And what could not be compared.
    """
    wanted = expected.of_fabric(before)
    old = {(f.kind, f.device, f.port) for f in check(before, wanted)}
    counting = before.counted is not None and after.counted is not None
    found = [
        f
        for f in check(after, wanted)
        if (f.kind, f.device, f.port) not in old
        and not (counting and f.kind == "counter-saturated")
    ]
    lacking = []
    if before.counted is not None and after.counted is not None:
        found += counters.moved(after.subnet, before.counted, after.counted, allowed)
    else:
        lacking.append("counters: both readings need an output of ibqueryerrors or perfquery")
    if before.tables is None or after.tables is None:
        lacking.append("routes: both readings need forwarding tables (dump_fts)")
    lids = 0
    for guid, device in after.subnet.devices.items():
        was = before.subnet.devices.get(guid)
        if was is None:
            continue
        lids += bool(was.lid and device.lid and was.lid != device.lid)
        if was.firmware and device.firmware and was.firmware != device.firmware:
            found.append(
                FabricFinding(
                    "firmware-changed",
                    *(device.name, 0, ""),
                    f"firmware {device.firmware}, before {was.firmware}",
                    "if it was updated: railgauge fabric check compares it with its peers",
                    "note",
                )
            )
    if lids:
        found.append(
            FabricFinding(
                "lids-changed",
                *("the subnet", 0, ""),
                f"{lids} {'device has' if lids == 1 else 'devices have'} another LID than before: "
                "routes differ",
                "save the forwarding tables again before locating: railgauge fabric routes",
                "note",
            )
        )
    return found, lacking
