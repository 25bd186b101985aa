"""The first reading of a subnet, as checks that come later find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge import paths
from railgauge.checks.framework import subnet_reading
from railgauge.fabric import folder

DATA = paths.HOME / "tests" / "data" / "infiniband" / "hosts64"


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    """The stage folder of a later check, beside that of the one that has read."""
    kept = tmp_path / "ns" / "builtin" / "InfinibandFabric_1" / "subnet"
    kept.mkdir(parents=True)
    for name in ("ibnetdiscover.txt", "dump_fts.txt"):
        (kept / name).write_text((DATA / name).read_text())
    return tmp_path / "ns" / "builtin" / "Iperf2Pair_1"


def test_the_routes_are_those_of_the_tables(stage: Path) -> None:
    routes = subnet_reading.static_routes(stage)
    assert routes is not None
    assert subnet_reading.static_routes(stage) is routes
    hosts = {device.host for device in folder.from_folder(DATA).subnet.hcas()}
    rows = routes.rows(hosts)
    # Each of four leaves has a route to the 48 hosts of the others.
    assert sum(len(guids) for *_, guids in rows) == 4 * 48
    assert {up for _, up, _, _ in rows} == {f"spine{number}" for number in range(1, 5)}


@pytest.mark.parametrize("broken", ["ibnetdiscover.txt", "dump_fts.txt"])
@pytest.mark.parametrize("gone", [False, True])
def test_without_a_whole_reading_there_are_no_routes(stage: Path, broken: str, gone: bool) -> None:
    file = stage.parent / "InfinibandFabric_1" / "subnet" / broken
    text = file.read_text()
    file.write_text(text[: len(text) // 2])
    if gone:
        file.unlink()
    assert subnet_reading.static_routes(stage) is None
