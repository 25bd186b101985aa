"""Rails that are subnets of their own: read, checked and compared together."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.checks.preflight import subnet_state
from railgauge.fabric import asking, expected, folder
from railgauge.fabric.check import check, not_checked
from railgauge.fabric.compare import compare
from railgauge.fabric.folder import Fabric, FabricError
from railgauge.fabric.reading.managers import Manager
from railgauge.systems import Infiniband

BOTH = paths.HOME / "tests" / "data" / "infiniband" / "two-subnets"
FURTHER = "mlx5_1:1"


@pytest.fixture(scope="module")
def both() -> Fabric:
    return folder.from_folder(BOTH)


def test_two_subnets_are_one_fabric_of_two_parts(both: Fabric) -> None:
    assert [len(part.subnet.devices) for part in both.parts] == [38, 38]
    assert len(both.subnet.devices) == 76 and len(both.subnet.cables) == 64 + 16
    assert both.tables is not None and len(both.tables) == 12
    # Both subnet managers gave the same LIDs.
    lids = [{device.lid for device in part.subnet.devices.values()} for part in both.parts]
    assert lids[0] & lids[1]


def test_a_healthy_pair_of_subnets_has_no_finding(both: Fabric) -> None:
    assert check(both, expected.of_fabric(both)) == []
    assert compare(both, both)[0] == []


def test_each_subnet_has_one_master(both: Fabric) -> None:
    one = Manager(1, 5, 0, "master")
    with_managers = [dataclasses.replace(part, managers=(one,)) for part in both.parts]
    assert check(dataclasses.replace(both, several=tuple(with_managers)), None) == []
    twice = dataclasses.replace(with_managers[1], managers=(one, one))
    found = check(dataclasses.replace(both, several=(with_managers[0], twice)), None)
    assert [finding.kind for finding in found] == ["masters-several"]


def test_what_one_subnet_lacks_is_not_known_of_all(tmp_path: Path) -> None:
    shutil.copytree(BOTH, tmp_path / "kept")
    (tmp_path / "kept" / FURTHER / "dump_fts.txt").unlink()
    lacking = folder.from_folder(tmp_path / "kept")
    assert lacking.tables is None and lacking.parts[0].tables is not None
    assert "routes: no forwarding tables (dump_fts)" in not_checked(lacking, None)
    (tmp_path / "kept" / FURTHER / "ibnetdiscover.txt").unlink()
    (tmp_path / "kept" / FURTHER / "saquery.txt").write_text("IsSM ports\n")
    with pytest.raises(FabricError):
        folder.from_folder(tmp_path / "kept")


def test_one_subnet_read_twice_is_an_error(tmp_path: Path) -> None:
    shutil.copytree(BOTH, tmp_path / "kept")
    for name in ("ibnetdiscover.txt", "dump_fts.txt"):
        shutil.copy2(BOTH / name, tmp_path / "kept" / FURTHER / name)
    with pytest.raises(FabricError, match="they are of one subnet"):
        folder.from_folder(tmp_path / "kept")


def test_other_folders_are_no_further_subnets(tmp_path: Path) -> None:
    shutil.copytree(BOTH, tmp_path / "kept")
    (tmp_path / "kept" / FURTHER).rename(tmp_path / "kept" / "older")
    assert folder.from_folder(tmp_path / "kept").several == ()


def test_each_subnet_is_read_by_its_own_port_and_kept_in_its_own_folder(
    both: Fabric, tmp_path: Path
) -> None:
    how = Infiniband(device="mlx5_0:1", more_devices=[FURTHER], prefix=["sudo"])
    commands = asking.commands_of((how.device, *how.more_devices), how.prefix)
    assert len(commands) == 2 * len(asking.COMMANDS)
    discover = commands[f"{FURTHER}/ibnetdiscover.txt"]
    assert discover.argv == ("sudo", "ibnetdiscover", "-C", "mlx5_1", "-P", "1")
    each = commands[f"{FURTHER}/sminfo.txt"].each
    assert each is not None and each[0] == f"{FURTHER}/saquery.txt"
    assert commands["sminfo.txt"].each == asking.EACH["sminfo.txt"]
    assert all(f'"{name}"' in subnet_state.argv(how, reads=True)[-1] for name in commands)
    texts = {str(file.relative_to(BOTH)): file.read_text() for file in folder.files_of(BOTH)}
    asking.save(texts, tmp_path / "kept")
    assert folder.from_folder(tmp_path / "kept").subnet == both.subnet


def test_a_manager_that_does_not_answer_is_needed_in_no_subnet() -> None:
    errors = {f"{FURTHER}/sminfo.txt": "a", "saquery.txt": "b", f"{FURTHER}/dump_fts.txt": "c"}
    needed = subnet_state.NodeOutput(errors=errors).needed_errors
    assert needed == {f"{FURTHER}/dump_fts.txt": "c"}
