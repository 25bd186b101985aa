"""What follows from a partition's description of NCCL: transports, variables, expectations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pydantic
import pytest

from railgauge.systems import Extras
from railgauge.systems.nccl import Nccl

DEVICES = ["mlx5_0", "mlx5_1"]


def described(**changes: Any) -> Nccl:
    """Two GPUs a node with NVLink and two NICs."""
    fields: dict[str, Any] = {
        "gpus_per_node": 4,
        "gpu": "NVIDIA H100 80GB HBM3",
        "nvlink": {"gbytes_s": 450, "nvls": True},
        "nics": {"devices": DEVICES, "gbits": 400, "link_layer": "Ethernet"},
        "binaries": {"path": "/opt/nccl-tests/build", "version": "2.17.6"},
        "operations": {"node": ["all_reduce"]},
    }
    return Nccl.model_validate({**fields, **changes})


RACK = {"nvlink": {"gbytes_s": 900, "nvls": True, "domain_nodes": 18}}


def test_only_what_the_partition_has_can_be_asked_for() -> None:
    assert described().transports("pair", ["nccl"]) == ["default", "one-hca"]
    found = described().transports("pair", ["nccl", "sockets"])
    assert found == ["default", "one-hca", "sockets"]
    assert described(nics=None).transports("pair", ["nccl"]) == ["default"]
    rack = described(**RACK)
    assert rack.transports("all", ["nccl", "mnnvl"]) == ["default", "mnnvl", "mnnvl-off"]
    assert rack.transports("node", ["nccl", "mnnvl", "sockets"]) == ["default", "p2p-off"]
    assert described(gpus_per_node=1).transports("node", ["nccl"]) == ["default"]


def test_with_p2p_off_gpus_of_a_node_share_its_memory_alone() -> None:
    found = described().environment("p2p-off")
    assert (found["NCCL_P2P_DISABLE"], found["NCCL_NVLS_ENABLE"]) == ("1", "0")
    assert "NCCL_P2P_DISABLE" not in described().environment("default")
    expected = described().expected("p2p-off", 1, 1)
    assert (expected["within_nodes"], expected["nvls"]) == (("SHM",), False)
    assert described().limit("all_reduce", "p2p-off", 1, 1, 2, None) is None


def test_devices_are_named_exactly() -> None:
    assert described().environment("default")["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
    assert described().environment("one-hca")["NCCL_IB_HCA"] == "=mlx5_0"
    assert "NCCL_IB_HCA" not in described().environment("sockets")


def test_an_absent_device_is_left_out() -> None:
    fabric = described()
    assert fabric.environment("default", ["mlx5_0"])["NCCL_IB_HCA"] == "=mlx5_1"
    assert fabric.environment("one-hca", ["mlx5_0"])["NCCL_IB_HCA"] == "=mlx5_1"


def test_mnnvl_is_forced_on_or_off_but_for_the_default() -> None:
    rack = described(**RACK)
    transports = rack.transports("pair", ["mnnvl", "sockets"])
    forced = {t: rack.environment(t).get("NCCL_MNNVL_ENABLE") for t in transports}
    off = dict.fromkeys(("mnnvl-off", "one-hca", "sockets"), "0")
    assert forced == {"default": None, "mnnvl": "1", **off}
    assert "NCCL_MNNVL_ENABLE" not in described().environment("sockets")


@pytest.mark.parametrize(
    ("changes", "transport", "places", "between"),
    [
        ({}, "default", [0], ()),
        ({}, "default", [0, 1], ("NET/IB/GDRDMA",)),
        ({}, "sockets", [0, 1], ("NET/Socket",)),
        ({"nics": None}, "default", [0, 1], ("NET/Socket",)),
        (RACK, "default", [0, 1], ("MNNVL",)),
        (RACK, "mnnvl", range(18), ("MNNVL",)),
        (RACK, "mnnvl", range(36), ("MNNVL", "NET/IB/GDRDMA")),
        # Few nodes of two racks.
        (RACK, "mnnvl", [16, 17, 18, 19], ("MNNVL", "NET/IB/GDRDMA")),
        (RACK, "default", [17, 18], ("NET/IB/GDRDMA",)),
        (RACK, "mnnvl-off", [0, 1], ("NET/IB/GDRDMA",)),
        (RACK, "one-hca", [0, 1], ("NET/IB/GDRDMA",)),
    ],
)
def test_what_lies_between_nodes_is_expected(
    changes: dict[str, Any], transport: Any, places: Sequence[int], between: tuple[str, ...]
) -> None:
    fabric = described(**changes)
    domains = fabric.domains(transport, places)
    expected = fabric.expected(transport, len(places), domains)
    assert expected["between_nodes"] == between
    assert expected["mnnvl"] == ("MNNVL" in between)


def test_without_gpudirect_it_is_not_expected() -> None:
    nics = {"devices": DEVICES, "gbits": 100, "link_layer": "Ethernet", "gpudirect": False}
    assert described(nics=nics).expected("default", 2, 2)["between_nodes"] == ("NET/IB",)


def test_one_gpu_a_node_has_nothing_within() -> None:
    expected = described(gpus_per_node=1, nvlink=None).expected("default", 2, 2)
    assert expected["within_nodes"] == ()
    assert "nvls" not in expected


@pytest.mark.parametrize("name", ["NCCL_IB_HCA", "NCCL_DEBUG", "NCCL_MNNVL_ENABLE"])
def test_what_follows_from_the_rest_cannot_be_set(name: str) -> None:
    variable = {"name": name, "value": "x", "why": "so", "source": "somewhere"}
    with pytest.raises(pydantic.ValidationError, match="leave them out"):
        described(variables=[variable])


def test_a_variable_needs_a_reason_and_a_source() -> None:
    with pytest.raises(pydantic.ValidationError, match="source"):
        described(variables=[{"name": "NCCL_X", "value": "1", "why": "so"}])


@pytest.mark.parametrize(
    "binaries",
    [
        {"version": "2.17.6"},
        {"version": "2.17.6", "path": "/opt", "modules": ["nccl-tests"]},
        {"version": "2.17.6", "image": "docker://nccl:latest"},
        {"version": "2.17", "path": "/opt"},
    ],
)
def test_binaries_come_from_one_known_place(binaries: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        described(binaries=binaries)


def test_the_program_carries_the_builds_suffix() -> None:
    binaries = {"version": "2.17.6", "path": "/opt/build", "suffix": "_mpi"}
    found = described(binaries=binaries).binaries.perf("all_reduce")
    assert found == "/opt/build/all_reduce_perf_mpi"
    modules = {"version": "2.17.6", "modules": ["nccl-tests/2.17.6"]}
    assert described(binaries=modules).binaries.perf("alltoall") == "alltoall_perf"


def test_an_unknown_operation_is_refused_with_the_known() -> None:
    with pytest.raises(pydantic.ValidationError, match="all_reduce, all_gather"):
        described(operations={"node": ["allreduce"]})


def test_one_nic_bounds_a_pair_as_published() -> None:
    """GB200: 84.52 GB/s over one NIC of 50 GB/s is 97 % of 87.5."""
    limit = described(**RACK).limit("all_reduce", "one-hca", 2, 2, 1, None)
    assert limit is not None
    assert limit.value == pytest.approx(87.5)


def test_a_slot_bounds_a_device() -> None:
    nics = {"devices": DEVICES, "gbits": 200, "pcie_gbits": 126, "link_layer": "Ethernet"}
    assert described(nics=nics).nics.device_gbytes_s == pytest.approx(15.75)  # type: ignore[union-attr]


def test_nothing_left_is_no_limit_and_no_device_to_look_for() -> None:
    fabric = described()
    assert fabric.limit("all_reduce", "default", 2, 2, 0, None) is None
    found = fabric.environment("default", DEVICES)
    assert found["NCCL_IB_DISABLE"] == "1" and "NCCL_IB_HCA" not in found


def test_devices_that_share_a_slot_carry_less_together() -> None:
    nics = {"devices": DEVICES, "gbits": 200, "node_gbits": 252, "link_layer": "Ethernet"}
    fabric = described(nics=nics)
    assert fabric.nics is not None
    assert fabric.nics.gbytes_s(1) == pytest.approx(25)
    assert fabric.nics.gbytes_s(2) == pytest.approx(31.5)


@pytest.mark.parametrize("sizes", [{"min_bytes": 2048, "max_bytes": 1024}, {"min_bytes": 2**31}])
def test_a_sweep_has_a_start_below_its_end(sizes: dict[str, int]) -> None:
    with pytest.raises(pydantic.ValidationError, match="min_bytes is above"):
        described(**sizes)


def test_an_unknown_socket_rate_is_no_limit() -> None:
    assert described().limit("all_reduce", "sockets", 2, 2, 0, None) is None
    assert described().limit("all_reduce", "sockets", 2, 2, 0, 100) is not None


def partition(**changes: Any) -> Extras:
    fields = {"nodes": "n[1-4]", "nccl": described().model_dump(exclude_unset=True)}
    return Extras.model_validate({**fields, **changes})


def test_absent_nodes_are_not_present() -> None:
    extras = partition(absent=[{"node": "n3", "why": "baseboard"}])
    assert extras.present == ("n1", "n2", "n4")


def test_absent_devices_leave_their_node() -> None:
    extras = partition(absent=[{"node": "n3", "devices": ["mlx5_1"], "why": "cable"}])
    assert len(extras.present) == 4
    assert extras.absent_devices("n3") == ("mlx5_1",)
    assert extras.absent_devices("n1") == ()


@pytest.mark.parametrize(
    ("absent", "message"),
    [
        ([{"node": "n9", "why": "?"}], "not one of nodes"),
        ([{"node": "n1", "devices": ["mlx5_7"], "why": "?"}], "not in nccl.nics.devices"),
        ([{"node": f"n{n}", "why": "?"} for n in range(1, 5)], "leaves no node"),
    ],
)
def test_wrong_absences_are_refused(absent: list[Any], message: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=message):
        partition(absent=absent)


def rdma(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "devices": "mlx5_[0-9]+",
        "rails": 2,
        "names": DEVICES,
        "link_layer": "Ethernet",
        "active_mtu_bytes": 4096,
        "rate": "400 Gb/sec (4X NDR)",
    }
    return {**fields, **changes}


def test_the_rails_of_a_node_are_those_that_are_not_absent() -> None:
    extras = partition(rdma=rdma(), absent=[{"node": "n3", "devices": ["mlx5_0"], "why": "cable"}])
    assert (extras.rails_of("n1"), extras.rails_of("n3")) == ((0, 1), (1,))
    assert partition().rails_of("n1") == ()


def test_a_rail_that_is_absent_must_have_a_name() -> None:
    with pytest.raises(pydantic.ValidationError, match=r"rdma\.names must say"):
        partition(
            rdma=rdma(names=[]), absent=[{"node": "n3", "devices": ["mlx5_0"], "why": "cable"}]
        )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["mlx5_0"], "found 1, expected 2"),
        (["mlx5_0", "eth1"], "eth1 is no device like"),
        (["mlx5_10", "mlx5_2"], "in their order"),
    ],
)
def test_names_that_are_not_those_of_the_rails_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=message):
        partition(rdma=rdma(names=names))
