"""The links of a node's GPUs, as nvbandwidth and TransferBench measure them."""

from __future__ import annotations

from typing import Literal

import pydantic

from railgauge.model.limits import Limit
from railgauge.yamlfile import Strict

#: Bits of payload of a bit on the line (PCI Express Base Specification): 8b/10b up to 5 GT/s,
#: 128b/130b up to 32 GT/s, and since 64 GT/s flits of 256 bytes, 236 of them with packets.
_ENCODINGS = ((5.0, 8 / 10), (32.0, 128 / 130), (float("inf"), 236 / 256))


class GpuLinks(Strict):
    """The links of the GPUs of a node, and the program that measures them."""

    gpus: int = pydantic.Field(ge=1, le=16)
    """The GPUs of a node."""
    tool: Literal["nvbandwidth", "transferbench"] = "nvbandwidth"
    """nvbandwidth of NVIDIA's GPUs, TransferBench of AMD's."""
    path: str | None = None
    """The folder of the program on the nodes; without it the program is looked for on PATH."""
    multinode_path: str | None = None
    """The folder of nvbandwidth with its tests of several nodes (cmake -DMULTINODE=1), which needs
    MPI. With it GpuDomain measures between the nodes of an NVLink domain.
    """
    limit_s: int = pydantic.Field(default=300, ge=1)
    """A run that takes longer is ended."""
    pcie_gts: float | None = pydantic.Field(default=None, gt=0)
    """The PCIe speed in GT/s that each GPU has under load; None where the link to the host is no
    PCIe.
    """
    pcie_lanes: int | None = pydantic.Field(default=None, ge=1, le=32)
    """The PCIe lanes that each GPU has under load."""
    nvlink_gbytes_s: float | None = pydantic.Field(default=None, gt=0)
    """What one GPU can send to another in one direction, where all GPUs have equal NVLinks to
    switches.
    """
    nvlinks: int | None = pydantic.Field(default=None, ge=1)
    """The NVLinks of a GPU."""
    xgmi_gbytes_s: float | None = pydantic.Field(default=None, gt=0)
    """What the xGMI link between two of AMD's GPUs carries in one direction, where each GPU has an
    equal link to each other one.
    """

    @pydantic.model_validator(mode="after")
    def _pcie_is_whole(self) -> GpuLinks:
        if (self.pcie_gts is None) != (self.pcie_lanes is None):
            raise ValueError("give pcie_gts and pcie_lanes, or neither")
        return self

    @pydantic.model_validator(mode="after")
    def _links_are_those_of_the_tool(self) -> GpuLinks:
        wrong = "xgmi_gbytes_s" if self.tool == "nvbandwidth" else "nvlink_gbytes_s"
        if getattr(self, wrong) is not None:
            raise ValueError(f"{wrong} is of other GPUs than those that {self.tool} measures")
        return self

    @property
    def is_even(self) -> bool:
        """Whether equal links join all GPUs, so that copies between any two are alike."""
        return self.nvlink_gbytes_s is not None or self.xgmi_gbytes_s is not None

    @property
    def host_limit(self) -> Limit | None:
        """What a GPU's PCIe link carries in one direction; None where it is no PCIe."""
        if self.pcie_gts is None or self.pcie_lanes is None:
            return None
        share = next(share for most, share in _ENCODINGS if self.pcie_gts <= most)
        value = self.pcie_gts * self.pcie_lanes * share / 8
        return Limit(value, "GB/s", f"PCIe at {self.pcie_gts:g} GT/s, {self.pcie_lanes} lanes")

    @property
    def gpu_limit(self) -> Limit | None:
        """What a GPU sends to another one over NVLink or xGMI; None where that is not known."""
        if self.xgmi_gbytes_s is not None:
            return Limit(self.xgmi_gbytes_s, "GB/s", "xGMI between two GPUs, one way")
        if self.nvlink_gbytes_s is None:
            return None
        return Limit(self.nvlink_gbytes_s, "GB/s", "NVLink of one GPU, one way")
