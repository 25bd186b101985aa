"""subnet_state: what the nodes left of the InfiniBand subnet, as failures of nodes and of the rest.

The tool is `railgauge.node.system.fabric_outputs`; it leaves one JSON document a node. The subnet
itself is read and checked by `railgauge.fabric`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from railgauge.fabric import asking
from railgauge.fabric.expected import Expected
from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.subnet import Subnet, host_of
from railgauge.model.failure import ENVIRONMENT, OF_EVERY_HOST, Failure
from railgauge.systems import Infiniband
from railgauge.tools import ParseError

TOOL = "subnet_state"
FILE = "fabric_outputs.json"

#: A text of ours unpacks to at most so many bytes: those of railgauge.fabric.folder.
_LARGEST = 512 * 2**20

#: The kinds that are facts of a host's own port. What else involves a host, such as a cable that
#: was moved, may be as wrong at its other end.
OWN = ("cable-missing", "device-missing", "host-hcas", "link-speed", "link-width")

_MOST_NOTES = 5


def argv(how: Infiniband, reads: bool) -> list[str]:
    """The program's call on a node, on the one that `reads` with the commands for it."""
    words = ["python3", "-S", "-m", "railgauge.node.system.fabric_outputs"]
    words += ["--output", f"{{scratch}}/{FILE}"]
    if not reads:
        return words
    devices = (how.device, *how.more_devices)
    commands = {
        file: {
            "argv": list(command.argv),
            "good": list(command.good),
            **({"each": list(command.each)} if command.each else {}),
        }
        for file, command in asking.commands_of(devices, how.prefix).items()
    }
    return [*words, "--limit", f"{how.timeout_s}", "--read", json.dumps(commands)]


@dataclasses.dataclass(frozen=True)
class NodeOutput:
    """What a node left: the node GUIDs of its own HCAs; the commands' texts by file, and why there
    is no text, both empty on a node that did not read the subnet.
    """

    guids: frozenset[int] = frozenset()
    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    errors: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def needed_errors(self) -> Mapping[str, str]:
        """Those of the texts without which a subnet is not judged."""
        optional = asking.OPTIONAL
        return {f: why for f, why in self.errors.items() if f.rpartition("/")[2] not in optional}


def parse(text: str) -> NodeOutput:
    """A node's document; ParseError where it is not whole."""
    expected = "what fabric_outputs leaves"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError(0, f"no JSON document ({error})", expected) from None
    try:
        return NodeOutput(
            frozenset(int(guid, 16) for guid in document["guids"]),
            {file: _unpacked(packed) for file, packed in document["texts"].items()},
            {file: str(why) for file, why in document["errors"].items()},
        )
    except (AttributeError, LookupError, TypeError, ValueError, zlib.error) as error:
        raise ParseError(0, f"another document ({error!r})", expected) from None


def _unpacked(packed: str) -> str:
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(base64.b64decode(packed, validate=True), _LARGEST)
    if not unpacking.eof:
        raise ValueError("a text without its end")
    return content.decode("utf-8", "replace")


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What is wrong with a subnet: with the nodes that are named, and between them. `in_doubt` are
    nodes at one end of a fault that may as well be at the other end. `links` counts the links of
    each node that was found in the subnet.
    """

    of_node: Mapping[str, tuple[Failure, ...]] = dataclasses.field(default_factory=dict)
    of_subnet: tuple[Failure, ...] = ()
    in_doubt: Mapping[str, Failure] = dataclasses.field(default_factory=dict)
    links: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: why a node was not judged: every one, as not all was read, and one that was not found
    unread: Failure | None = None
    not_found: Failure | None = None

    def failures(self, node: str) -> tuple[Failure, ...]:
        """The node's own faults, else why it was not judged."""
        if own := self.of_node.get(node):
            return own
        why = self.unread or self.in_doubt.get(node)
        why = why or (None if node in self.links else self.not_found)
        return (why,) if why else ()


def judge(
    found: Sequence[FabricFinding],
    subnet: Subnet,
    expected: Expected | None,
    nodes: Sequence[str],
    guids: Mapping[str, frozenset[int]],
    absent: Mapping[str, Sequence[str]],
) -> Judgement:
    """The judgement of `nodes`, those of the session, by what was found in a subnet. `guids` are of
    each node's own HCAs, as it says, `absent` its devices that are known to be missing. A fault of
    a host that is none of the nodes is a note.
    """
    hosts = _Hosts(subnet, expected, nodes, guids)
    of_node: dict[str, list[Failure]] = {}
    of_subnet: list[Failure] = []
    in_doubt: dict[str, Failure] = {}
    notes: list[str] = []
    for finding in found:
        at = hosts.of_finding(finding)
        node = next(iter(at)) if len(at) == 1 else ""
        if finding.weight == "note":
            notes.append(str(finding))
        elif finding.kind in OF_EVERY_HOST or not at:
            of_subnet.append(_failure(finding))
        elif at == {_NO_NODE}:
            notes.append(f"{finding} (this host is not tested here)")
        elif node and _is_absent(finding, absent.get(node, ())):
            notes.append(f"{finding} (extras.absent has it)")
        elif node and finding.kind in OWN:
            of_node.setdefault(node, []).append(_failure(finding, (node,)))
        else:
            of_subnet.append(_failure(finding))
            words = f"not judged: it is at one end of a fault of the subnet: {finding.words}"
            for name in at - {_NO_NODE}:
                in_doubt.setdefault(name, Failure(ENVIRONMENT, words, next_step=finding.next))
    links = hosts.links()
    lost = [node for node in nodes if node not in links and node not in of_node]
    # Which HCAs are its own is known by the GUIDs that it states.
    known = [node for node in lost if links and guids.get(node)]
    not_found = _not_found(subnet, len(nodes), hosts) if len(known) < len(lost) else None
    for node in known if not_found else lost:
        words = f"{node} has no HCA in the subnet, and {len(links)} other nodes have"
        step = f"on {node}: ibstat; lspci | grep -i mellanox"
        of_node[node] = [Failure("host-hcas", words, (node,), step)]
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [f"and {len(notes) - _MOST_NOTES} more"]
    return Judgement(
        {node: tuple(failures) for node, failures in of_node.items()},
        tuple(of_subnet),
        in_doubt,
        links,
        tuple(notes),
        not_found=not_found,
    )


def _failure(finding: FabricFinding, nodes: tuple[str, ...] = ()) -> Failure:
    return Failure(finding.kind, finding.words, nodes, finding.next)


def _is_absent(finding: FabricFinding, devices: Sequence[str]) -> bool:
    """Whether it is about an HCA, `mlx5_1` of `n1 mlx5_1`, that is known to be missing; or counts
    the HCAs of a host that lacks some.
    """
    if finding.kind == "host-hcas":
        return bool(devices)
    ends = (finding.device.split(), finding.far.split())
    return any(len(words) > 1 and words[1] in devices for words in ends)


def _not_found(subnet: Subnet, count: int, hosts: _Hosts) -> Failure | None:
    """The failure of nodes that were not found in the subnet, where an HCA there may be theirs;
    None where none can be.
    """
    strange = hosts.strange()
    if not hosts.links():
        names = f"descriptions such as {strange[0]!r}" if strange else "no HCA"
        why = f"none of {count} nodes was found in the subnet, which has {names}"
    elif subnet.clashes:
        why = f"two devices have the GUID {subnet.clashes[0].port.guid:#018x}"
    elif strange:
        why = f"not found there, which has HCAs of unknown hosts, such as {strange[0]!r}"
    else:
        return None
    step = "cat /sys/class/infiniband/*/node_desc on the nodes: rdma-ndd writes the host's name"
    return unread(why, f"{step}; is it the right subnet? extras.infiniband.device")


def unread(why: str, next_step: str) -> Failure:
    """The failure that a node was not judged. It accuses none."""
    return Failure(ENVIRONMENT, f"not judged by the subnet: {why}", (), next_step)


def unread_file(reader: str, errors: Mapping[str, str]) -> Failure:
    """The same for the first command that failed on `reader`."""
    why = next(iter(errors.values()))
    if why.endswith(" is not installed"):
        step = f"install infiniband-diags on {reader}, or name another node: extras.infiniband.node"
    elif " no end after " in why:
        step = f"time the command on {reader}; extras.infiniband.timeout_s is the limit of all"
    elif "Query SA failed" in why:
        step = f"does a subnet manager answer? sminfo on {reader}; the log of opensm on its host"
    else:
        step = f"is a port Active on {reader}? ibstat; else {asking.RIGHTS}"
        step += "; extras.infiniband.prefix: [sudo, -n]"
    return unread(f"{why} (on {reader})", step)


#: Stands for a host that is none of the session's nodes.
_NO_NODE = ""


class _Hosts:
    """The nodes of a subnet's HCAs: by the GUIDs that the nodes state, else by the first word of
    the description.
    """

    def __init__(
        self,
        subnet: Subnet,
        expected: Expected | None,
        nodes: Iterable[str],
        guids: Mapping[str, frozenset[int]],
    ) -> None:
        self._subnet = subnet
        self._by_guid = {guid: node for node, own in guids.items() for guid in own}
        self._by_name = {name: node for node in nodes for name in (node, node.partition(".")[0])}
        #: description of an HCA, or name of a host -> its nodes: several where it is not unique
        self._nodes: dict[str, set[str]] = {}
        for device in subnet.hcas():
            self._add(device.name, self._node_of(device.guid, device.name))
        for name, wanted in expected.devices.items() if expected else ():
            if wanted.kind == "hca":
                self._add(name, self._node_of(int(wanted.guid, 16), name))

    def _add(self, name: str, node: str) -> None:
        self._nodes.setdefault(name, set()).add(node)
        self._nodes.setdefault(host_of(name), set()).add(node)

    def _node_of(self, guid: int, name: str) -> str:
        host = host_of(name)
        by_name = self._by_name.get(host) or self._by_name.get(host.partition(".")[0])
        return self._by_guid.get(guid) or by_name or _NO_NODE

    def of_finding(self, finding: FabricFinding) -> set[str]:
        """The nodes of the HCAs at both ends of a finding; empty between switches."""
        far = finding.far.rpartition(" port ")[0]
        return self._nodes.get(finding.device, set()) | self._nodes.get(far, set())

    def strange(self) -> list[str]:
        """The descriptions of the HCAs that are of none of the nodes."""
        hcas = self._subnet.hcas()
        return sorted(d.name for d in hcas if self._node_of(d.guid, d.name) == _NO_NODE)

    def links(self) -> dict[str, int]:
        """Node -> cables of its HCAs."""
        ends = (end.guid for cable in self._subnet.cables for end in (cable.a, cable.b))
        hcas = [self._subnet.devices[guid] for guid in ends if self._subnet.is_hca(guid)]
        nodes = (self._node_of(hca.guid, hca.name) for hca in hcas)
        return dict(Counter(node for node in nodes if node != _NO_NODE))
