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


def names() -> list[str]:
    return sorted({device.host for device in folder.from_folder(DATA).subnet.hcas()})


def test_the_routes_are_those_of_the_tables(stage: Path) -> None:
    hosts = names()
    rows = subnet_reading.static_routes(stage, hosts)
    # Each of four leaves has a route to the 48 hosts of the others.
    assert len(rows) == len(set(rows)) == 4 * 48
    assert {spine for _, _, spine in rows} == {f"spine{number}" for number in range(1, 5)}
    assert {destination for _, destination, _ in rows} == set(hosts)


def test_only_the_nodes_of_a_job_are_destinations_by_their_own_names(stage: Path) -> None:
    first, second, *_ = names()
    rows = subnet_reading.static_routes(stage, [f"{first}.cluster", second])
    assert {destination for _, destination, _ in rows} == {f"{first}.cluster", second}


@pytest.mark.parametrize("broken", ["ibnetdiscover.txt", "dump_fts.txt"])
def test_without_a_whole_reading_there_are_no_routes(stage: Path, broken: str) -> None:
    file = stage.parent / "InfinibandFabric_1" / "subnet" / broken
    text = file.read_text()
    file.write_text(text[: len(text) // 2])
    assert subnet_reading.static_routes(stage, names()) == []
    file.unlink()
    assert subnet_reading.static_routes(stage, names()) == []
