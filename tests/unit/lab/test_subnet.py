"""The simulated InfiniBand subnet: what ibsim is given, and what faults tell it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from railgauge import paths
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.fabric import expected
from railgauge.lab import fault_kinds, faults, spec, subnet, subnet_faults
from railgauge.lab.cluster import Lab
from railgauge.lab.releases import RELEASES
from railgauge.lab.subnet_topology import Port

LAB_IB = spec.load(spec.file("lab-ib"))


def test_every_node_and_the_head_have_their_hcas_on_a_leaf() -> None:
    made = subnet.of(LAB_IB)
    hosts = ["headib", *(node.name for node in LAB_IB.all_nodes())]
    for host in hosts:
        for number in (0, 1):
            far = made.far_end(Port(f"{host} mlx5_{number}", 1))
            assert far is not None
            assert far.device.startswith("leaf")
    assert {d.name for d in made.devices if d.kind == "switch"} == {
        *("leaf1", "leaf2", "leaf3", "leaf4", "spine1", "spine2")
    }


def test_the_expected_cabling_of_lab_ib_is_that_of_the_lab() -> None:
    made = subnet.of(LAB_IB)
    wanted = expected.load(paths.SYSTEMS / "lab-ib" / "subnet.json")
    devices = {name: (int(d.guid, 16), d.kind, d.ports) for name, d in wanted.devices.items()}
    assert devices == {d.name: (d.guid, d.kind, d.ports) for d in made.devices}
    cables = {tuple(sorted((tuple(c.a), tuple(c.b)))): (c.width, c.speed) for c in made.cables}
    assert {
        tuple(sorted(((c.a, c.a_port), (c.b, c.b_port)))): (c.width, c.speed) for c in wanted.cables
    } == cables


def test_every_switch_has_a_port_for_a_cable_that_is_moved() -> None:
    made = subnet.of(LAB_IB)
    for device in made.devices:
        if device.kind == "switch":
            assert made.far_end(made.free_port(device.name)) is None


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab that is up; what its ibsim is told is in `.told`."""
    lab = Lab(LAB_IB, {}, tmp_path)
    lab.folders.log.mkdir(parents=True)
    (lab.folders.log / "ibsim.log").write_text("sim> ")
    lab.told = []  # type: ignore[attr-defined]

    def on_head(_: Lab, *command: str, check: bool = True) -> SimpleNamespace:
        if command[0] == "timeout":
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
    monkeypatch.setattr(Lab, "service_runs", lambda *_: True)
    monkeypatch.setattr(Lab, "wait_until_idle", lambda lab, **_: None)
    return lab


LEAF1, LEAF2 = '"S-0200000000000001"', '"S-0200000000000002"'
SPINE2, N1 = '"S-0200000000000006"', '"H-0201000000000030"'


@pytest.mark.parametrize(
    ("words", "add", "clear"),
    [
        (["ib-down", "n1:mlx5_0"], [f"Unlink {N1}[1]"], [f"Link {N1}[1] {LEAF1}[3]"]),
        (["ib-down", "leaf1:spine2"], [f"Unlink {LEAF1}[8]"], [f"Link {LEAF1}[8] {SPINE2}[1]"]),
        (
            ["ib-moved", "n1:mlx5_0", "2"],
            [f"Unlink {N1}[1]", f"Link {N1}[1] {LEAF2}[7]"],
            [f"Unlink {N1}[1]", f"Link {N1}[1] {LEAF1}[3]"],
        ),
        (
            ["ib-lanes", "n1:mlx5_0", "1"],
            [
                "ibportstate -G 0x201000000000031 1 width 1",
                "ibportstate -G 0x200000000000001 3 width 1",
            ],
            [
                "ibportstate -G 0x201000000000031 1 width 8",
                "ibportstate -G 0x200000000000001 3 width 8",
            ],
        ),
        (
            ["ib-lane-rate", "leaf1:spine2", "2.5"],
            [
                "ibportstate -G 0x200000000000001 8 speed 1",
                "ibportstate -G 0x200000000000006 1 speed 1",
            ],
            [
                "ibportstate -G 0x200000000000001 8 speed 7",
                "ibportstate -G 0x200000000000006 1 speed 7",
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
        (["ib-moved", "n1:mlx5_0", "9"], "no switch 'leaf9'"),
    ],
)
def test_what_cannot_be_is_one_clear_error(lab: Lab, words: list[str], says: str) -> None:
    with pytest.raises(RailgaugeError, match=re.escape(says)):
        faults.add_typed(lab, words[0], words[1:])
    assert faults.active(lab) == []


@pytest.mark.parametrize(
    ("state", "managers", "is_up"),
    [
        pytest.param("MASTER", 2, True, id="master"),
        pytest.param("MASTER", 1, False, id="sets ports"),
        pytest.param("STANDBY", 2, False, id="standby"),
    ],
)
def test_a_second_master_runs_on_a_node_until_it_is_mended(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, state: str, managers: int, is_up: bool
) -> None:
    ran: list[str] = []

    def run(_: Lab, node: str, *command: str) -> None:
        ran.append(f"{node}: {' '.join(command)}")
        (lab.folders.log / "opensm-n2.log").write_text(f"Entering {state} state\n")

    monkeypatch.setattr(subnet_faults, "_run", run)
    monkeypatch.setattr(subnet_faults, "_managers", lambda _: managers)
    monkeypatch.setattr(subnet_faults, "_START_S", 0.2)
    monkeypatch.setattr(Lab, "machine", lambda *_: object())
    (lab.folders.run / "subnet").mkdir(parents=True, exist_ok=True)
    if is_up:
        faults.add_typed(lab, "opensm-second", ["n2"])
        faults.clear(lab)
        # The first one sets all ports again.
        assert lab.told == ["pkill -HUP -x opensm"]  # type: ignore[attr-defined]
    else:
        with pytest.raises(PrerequisiteError, match="has one manager, expected a second on n2"):
            faults.add_typed(lab, "opensm-second", ["n2"])
        assert faults.active(lab) == []
    first, last = ran
    assert first.startswith("n2: ") and "OSM_TMP_DIR=" in first
    assert "opensm --daemon -d0" in first
    assert "pkill -TERM -x opensm" in last


def test_a_lab_without_a_subnet_says_where_there_is_one(tmp_path: Path) -> None:
    with pytest.raises(RailgaugeError, match="has no InfiniBand subnet") as caught:
        subnet.of(spec.load())
    assert caught.value.next_step == "railgauge lab up --system lab-ib"


def test_a_cable_is_not_pulled_and_moved_at_once(lab: Lab) -> None:
    faults.add_typed(lab, "ib-down", ["n1:mlx5_0"])
    with pytest.raises(RailgaugeError, match="in place already"):
        faults.add_typed(lab, "ib-moved", ["n1:mlx5_0", "2"])


def test_what_ibsim_refuses_is_an_error(lab: Lab) -> None:
    with pytest.raises(PrerequisiteError, match='refused `Unlink "nosuch"`: # nodeid'):
        subnet.console(lab, 'Unlink "nosuch"')


def test_an_ibsim_that_is_silent_is_an_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lab, "on_head", lambda *_, **__: None)
    monkeypatch.setattr(subnet, "_ANSWER_S", 0.01)
    with pytest.raises(PrerequisiteError, match="does not answer") as caught:
        subnet.console(lab, "Verbose")
    assert "lab logs ibsim" in str(caught.value.next_step)


def test_a_release_without_ibsim_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="no InfiniBand subnet on bookworm"):
        subnet.prepare(Lab(LAB_IB, {}, tmp_path, release=RELEASES["bookworm"]))


def test_all_faults_of_the_subnet_can_be_undone_but_new_lids() -> None:
    kinds = {
        name: kind for name, kind in fault_kinds.KINDS.items() if name.startswith(("ib-", "op"))
    }
    assert [name for name, kind in kinds.items() if kind.clear is None] == ["opensm-lids"]
    # A second subnet manager ends with the node that runs it.
    ending = {name for name, kind in kinds.items() if kind.clear and not kind.outlasts_power}
    assert ending == {"opensm-second"}


def test_a_fault_is_not_told_an_ibsim_that_has_ended(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lab, "service_runs", lambda *_: False)
    with pytest.raises(PrerequisiteError, match="ibsim does not run"):
        faults.add_typed(lab, "ib-down", ["n1:mlx5_0"])
