#!/bin/bash
# hwloc-diff ends with 0 although a node lost half of its memory, and its InfiniBand port is down.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian hwloc-nox=2.9.0-1 libhwloc15=2.9.0-1

topology() { # MEMORY PORT_STATE
  cat <<X
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="$1"/>
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3"/>
    <object type="Bridge" gp_index="4" bridge_type="0-1" depth="0" bridge_pci="0000:[00-01]">
      <object type="PCIDev" gp_index="5" pci_busid="0000:01:00.0" pci_type="0207 [15b3:1021] [15b3:0041] 00" pci_link_speed="63.015385">
        <object type="OSDev" gp_index="6" name="mlx5_0" osdev_type="3">
          <info name="Port1State" value="$2"/>
        </object>
      </object>
    </object>
  </object>
</topology>
X
}
topology 1099511627776 4 >before.xml
topology 549755813888 1 >after.xml
same=0 other=0
hwloc-diff before.xml before.xml same.xml || same=$?
hwloc-diff before.xml after.xml other.xml || other=$?
grep '<diff ' other.xml

finding \
  'as diff and cmp: 0 where two topologies are equal, 1 where they differ' \
  'equal: 0, different: 0' \
  "equal: $same, different: $other"
