"""The simulated InfiniBand subnet: what ibsim is given, and what faults tell it."""

from __future__ import annotations

import collections
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.common.errors import EnvironmentProblem, RailgaugeError
from railgauge.lab import fault_kinds, faults, spec, subnet
from railgauge.lab.cluster import Lab
from railgauge.lab.releases import RELEASES

LAB_IB = spec.load(spec.file("lab-ib"))


def shaped(leaves: int, spines: int, hcas: int) -> spec.LabSpec:
    shape = spec.Infiniband(leaves=leaves, spines=spines, hcas=hcas)
    return LAB_IB.model_copy(update={"infiniband": shape})


@given(leaves=st.integers(1, 12), spines=st.integers(1, 8), hcas=st.integers(1, 8))
def test_every_cable_has_two_ends_and_every_port_one_cable(
    leaves: int, spines: int, hcas: int
) -> None:
    made = subnet.of(shaped(leaves, spines, hcas))
    assert all(made.cables[far] == near for near, far in made.cables.items())
    assert all(1 <= port.number <= made.devices[port.device].ports for port in made.cables)
    assert len({device.guid for device in made.devices.values()}) == len(made.devices)


@given(leaves=st.integers(1, 12), spines=st.integers(1, 8), hcas=st.integers(1, 8))
def test_every_leaf_has_a_cable_to_every_spine_and_every_hca_one(
    leaves: int, spines: int, hcas: int
) -> None:
    made = subnet.of(shaped(leaves, spines, hcas))
    pairs = collections.Counter((near.device, far.device) for near, far in made.cables.items())
    assert set(pairs.values()) == {1}
    uplinks = {pair for pair in pairs if pair[0].startswith("leaf") and pair[1].startswith("spine")}
    assert len(uplinks) == leaves * spines
    # The nodes', and that of the head.
    assert sum(near.startswith("leaf") and " mlx5_" in far for near, far in pairs) == 8 * hcas + 1


def test_ibsim_is_given_each_device_with_its_guid_and_name() -> None:
    text = subnet.text(subnet.of(LAB_IB))
    assert 'switchguid=0x2c90000010000\nSwitch\t9 "S-0002c90000010000"\t# "leaf1"\n' in text
    assert 'caguid=0x2c90000030002\nHca\t1 "H-0002c90000030002"\t# "n1 mlx5_0"\n' in text
    assert len(re.findall(r"^Hca", text, re.MULTILINE)) == 17


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab that is up; what its ibsim is told is in `.told`."""
    lab = Lab(LAB_IB, {}, tmp_path)
    lab.folders.log.mkdir(parents=True)
    (lab.folders.log / "ibsim.log").write_text("sim> ")
    lab.told = []  # type: ignore[attr-defined]

    def on_head(_: Lab, *command: str, check: bool = True) -> SimpleNamespace:
        if command[0] == "bash":
            lab.told.append(command[-1])  # type: ignore[attr-defined]
            with (lab.folders.log / "ibsim.log").open("a") as log:
                if "nosuch" in command[-1]:
                    log.write('# nodeid "nosuch" not found\n')
                log.write("sim> sim> simulator verbose level is 0\n")
        else:
            lab.told.append(" ".join(command))  # type: ignore[attr-defined]
        return SimpleNamespace(stdout="", returncode=0)

    monkeypatch.setattr(Lab, "on_head", on_head)
    monkeypatch.setattr(Lab, "require_up", lambda lab: None)
    monkeypatch.setattr(Lab, "wait_until_idle", lambda lab, **_: None)
    return lab


LEAF1, SPINE2, N1 = '"S-0002c90000010000"', '"S-0002c90000020001"', '"H-0002c90000030002"'


@pytest.mark.parametrize(
    ("words", "add", "clear"),
    [
        (["ib-down", "n1:mlx5_0"], [f"Unlink {N1}[1]"], [f"Link {N1}[1] {LEAF1}[2]"]),
        (["ib-down", "leaf1:spine2"], [f"Unlink {LEAF1}[7]"], [f"Link {LEAF1}[7] {SPINE2}[1]"]),
        (
            ["ib-moved", "n1:mlx5_0", "2"],
            [f"Unlink {N1}[1]", f'Link {N1}[1] "S-0002c90000010001"[7]'],
            [f"Unlink {N1}[1]", f"Link {N1}[1] {LEAF1}[2]"],
        ),
        (
            ["ib-lanes", "n1:mlx5_0", "1"],
            [
                "ibportstate -G 0x2c90000030003 1 width 1",
                "ibportstate -G 0x2c90000010000 2 width 1",
            ],
            [
                "ibportstate -G 0x2c90000030003 1 width 2",
                "ibportstate -G 0x2c90000010000 2 width 2",
            ],
        ),
        (
            ["ib-lane-rate", "leaf1:spine2", "2.5"],
            [
                "ibportstate -G 0x2c90000010000 7 speed 1",
                "ibportstate -G 0x2c90000020001 1 speed 1",
            ],
            [
                "ibportstate -G 0x2c90000010000 7 speed 4",
                "ibportstate -G 0x2c90000020001 1 speed 4",
            ],
        ),
        (["ib-switch-off", "leaf1"], [f"Unlink {LEAF1}"], [f"ReLink {LEAF1}"]),
    ],
    ids=lambda words: words[0] if len(words) > 1 else "",
)
def test_a_fault_is_made_and_undone(
    lab: Lab, words: list[str], add: list[str], clear: list[str]
) -> None:
    faults.add_typed(lab, words[0], words[1:])
    assert lab.told == add  # type: ignore[attr-defined]
    faults.clear(lab)
    assert lab.told[len(add) :] == clear  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ib-down", "n1"], "needs a place: ib-down NODE:HCA"),
        (["ib-down", "n9:mlx5_0"], "no link n9:mlx5_0"),
        (["ib-down", "leaf1:leaf2"], "no link leaf1:leaf2"),
        (["ib-switch-off", "n1"], "no switch 'n1'; it has leaf1, leaf2"),
        (["ib-lanes", "n1:mlx5_0", "3"], "LANES is 3, expected one of 1, 4, 8, 12"),
        (["ib-lane-rate", "n1:mlx5_0", "25"], "GBITS is 25, expected one of 2.5, 5, 10"),
        (["ib-moved", "n1:mlx5_0", "9"], "no leaf9"),
    ],
)
def test_what_cannot_be_is_one_clear_error(lab: Lab, words: list[str], says: str) -> None:
    with pytest.raises(RailgaugeError, match=re.escape(says)):
        faults.add_typed(lab, words[0], words[1:])
    assert faults.active(lab) == []


def test_a_lab_without_a_subnet_says_where_there_is_one(tmp_path: Path) -> None:
    with pytest.raises(RailgaugeError, match="has no InfiniBand subnet") as caught:
        subnet.of(spec.load())
    assert caught.value.next_step == "railgauge lab up --system lab-ib"


def test_a_cable_is_not_pulled_and_moved_at_once(lab: Lab) -> None:
    faults.add_typed(lab, "ib-down", ["n1:mlx5_0"])
    with pytest.raises(RailgaugeError, match="in place already"):
        faults.add_typed(lab, "ib-moved", ["n1:mlx5_0", "2"])


def test_what_ibsim_refuses_is_an_error(lab: Lab) -> None:
    with pytest.raises(EnvironmentProblem, match='refused `Unlink "nosuch"`: # nodeid'):
        subnet.console(lab, 'Unlink "nosuch"')


def test_an_ibsim_that_is_silent_is_an_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lab, "on_head", lambda *_, **__: None)
    monkeypatch.setattr(subnet, "_ANSWER_S", 0.01)
    with pytest.raises(EnvironmentProblem, match="does not answer") as caught:
        subnet.console(lab, "Verbose")
    assert "lab logs ibsim" in str(caught.value.next_step)


def test_a_release_without_ibsim_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="no InfiniBand subnet on bookworm"):
        subnet.prepare(Lab(LAB_IB, {}, tmp_path, release=RELEASES["bookworm"]))


def test_all_faults_of_the_subnet_can_be_undone_but_new_lids() -> None:
    kinds = {
        name: kind for name, kind in fault_kinds.KINDS.items() if name.startswith(("ib-", "op"))
    }
    assert [name for name, kind in kinds.items() if kind.clear is None] == ["opensm-lids"]
    assert all(kind.outlasts_power for kind in kinds.values() if kind.clear)
