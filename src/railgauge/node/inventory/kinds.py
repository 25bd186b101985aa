"""What each field of an inventory is for."""

from __future__ import annotations

import re
from typing import Literal

#: firmware: what only an update, or other hardware, changes; tuning: what an administrator sets;
#: state: what a fault changes; identity: what differs between healthy nodes.
Kind = Literal["firmware", "tuning", "state", "identity"]

#: Patterns of whole keys; the first that matches gives the kind.
_KINDS: tuple[tuple[str, Kind], ...] = (
    # --- which one it is, and where it hangs
    (r".*/(serial|uuid|address|node_guid|lid|pci_address|netdev|switch_port)", "identity"),
    (r"net/[^/]+/module_.*|(board|system)/version", "identity"),
    (r"gpu/[0-9]+/fabric_(cluster_uuid|clique_id)", "identity"),
    (
        r"kernel/cmdline/(root|BOOT_IMAGE|BOOTIF|initrd|resume|ip|ifname|hostname|nfsroot|boot|"
        r"rootovl|imgurl|selinux-.*|systemd\.machine_id|systemd\.hostname|rd\..*|railgauge\..*|"
        # of provisioners: Warewulf, xCAT, Cray's CSM and OpenCHAMI, Anaconda
        r"ww(hostname|ipaddr|id|init\..*|ulf\..*)|NODE|xname|nid|inst\.ks)",
        "identity",
    ),
    # --- how it is now
    (r".*/(pcie_now_(gts|lanes)|operstate|speed_mbits|fec_active)", "state"),
    (r"nic/[^/]+/[0-9]+/(state|phys_state|rate|rate_gbits|gid_types|link_(?!layer).*)", "state"),
    (r"nic/[^/]+/[0-9]+/(gid_types_ipv4|active_mtu_bytes)", "state"),
    (r"net/[^/]+/bond_(link_status|aggregator)|limits/.*", "state"),
    (r"gpu/[0-9]+/(throttled_.*|fabric_.*|nvlink_(active|gbytes_s)|rows_.*|.*_pending)", "state"),
    (r"gpu/[0-9]+/(recovery_action|unrepairable_memory|processes|ecc_sram_.*)", "state"),
    (r"nvidia/(libraries.*|smi_slow)", "state"),
    (r"nvidia/fabric_manager_fits|amd_gpu/[0-9]+/processes", "state"),
    (r"imex/(domain_state|nodes_ready)|memory/total_gib", "state"),
    # --- how it is set
    (r"sysctl/.*|kernel/cmdline(/.*)?|kernel/clocksource|module/[^/]+/loaded", "tuning"),
    (r"cpu/(?!model$|microcode$).*|memory/.*|imex/nodes", "tuning"),
    (r"net/[^/]+/(mtu_bytes|bond_.*|[rt]x_queues|transmit_queue_frames)", "tuning"),
    (r"net/[^/]+/(ring_(receive|transmit)|offload_.*|pause_.*|fec_configured)", "tuning"),
    (r"net/[^/]+/(qos_trust|pfc|dcb_.*|ecn_.*)", "tuning"),
    (r"nic/[^/]+/([0-9]+/traffic_class|pcie_(payload|read_request)_bytes)", "tuning"),
    (r"nccl/(conf|environment|module).*", "tuning"),
    (r"gpu/[0-9]+/(persistence_mode|mig_mode|compute_mode|ecc|power_limit_w)", "tuning"),
    # --- what it is
    (r"(kernel|bios|board|system|bmc|cpu|numa|os|software|nvidia|nvswitch|fabric)/.*", "firmware"),
    (r"nccl/plugin/.*", "firmware"),
    (r"(module|nic|net|(amd_)?gpu)/.*", "firmware"),
)
_COMPILED = tuple((re.compile(pattern), kind) for pattern, kind in _KINDS)

#: What moves while a node works. It stands apart from the fields of an inventory.
_COUNTER = re.compile(
    r"xid/.*|(amd_)?gpu/[0-9]+/"
    r"(ecc_uncorrected|rows_remapped_.*|pcie_replays|slowed_.*|nvlink_.*_errors)"
)

#: The kinds that a fingerprint is made of, and in which the nodes of a partition agree.
LASTING: tuple[Kind, ...] = ("firmware", "tuning")


def kind(key: str) -> Kind:
    """What a field is for. A key of a source that is not known here counts as tuning: nodes must
    agree in it, and no update is suspected.
    """
    return next((kind for pattern, kind in _COMPILED if pattern.fullmatch(key)), "tuning")


def is_counter(key: str) -> bool:
    """Whether a key of a sheet is a counter, and no field."""
    return bool(_COUNTER.fullmatch(key))
