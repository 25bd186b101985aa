"""`railgauge system new --detect`: what nodes of a Slurm partition show of themselves, by one job.

What the nodes do not agree in, or cannot say, is left out with the reason: no gap is filled with
a guess.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from railgauge import hostlist, paths
from railgauge.common.errors import PrerequisiteError
from railgauge.common.names import natural
from railgauge.node.inventory.detect import SCHEMA
from railgauge.node.system import srun_output
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm.partitions import Cluster, Run

#: So many nodes are asked, to see whether they agree.
_ASKED = 8

#: How long the nodes may be busy, in seconds, before the job gives up.
_QUEUE_S = 60

#: The states of nodes that a job can start on, the better one first.
_STATES = ("IDLE", "MIXED")

_DIFFER = "the nodes do not agree"

Value = str | int | float | tuple[str, ...]

#: A node's document, as `railgauge.node.inventory.detect` prints it.
Document = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Seen:
    """What nodes of a Slurm partition show, by the names of the description's fields.

    Rates are in Gb/s. `values` has what they agree in, `missing` why another field has no value.
    """

    partition: str
    nodes: tuple[str, ...]
    values: Mapping[str, Value]
    missing: Mapping[str, str]

    def __str__(self) -> str:
        parts = [f"{name} {shown(value)}" for name, value in self.values.items() if value != ""]
        parts += [f"{name}: {why}" for name, why in self.missing.items() if why.startswith(_DIFFER)]
        return f"{hostlist.fold(self.nodes)}: {', '.join(parts)}"


def shown(value: Value) -> str:
    """A value as a description has it."""
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(value)


def look(partition: str, slurm: Cluster, options: Sequence[str], ask: Run) -> Seen:
    """One job on some nodes of a Slurm partition; `options` are what srun needs besides it.

    PrerequisiteError where no node is free, or the job says nothing.
    """
    members = slurm.partitions[partition]
    open_nodes = [n for n in members if slurm.nodes[n].in_service]
    free = [n for s in _STATES for n in open_nodes if s in slurm.nodes[n].flags][:_ASKED]
    if not free:
        states = ", ".join(f"{n} {slurm.nodes[n].state or 'unknown'}" for n in members[:_ASKED])
        raise PrerequisiteError(
            f"--detect: no node of Slurm's partition {partition} is free: {states}",
            next_step="wait for one (sinfo), or leave --detect out and state --link-gbits and "
            "--mtu-bytes yourself",
        )
    try:
        answer = ask(
            *("srun", "--quiet", f"--nodes={len(free)}", f"--ntasks={len(free)}"),
            *(
                "--ntasks-per-node=1",
                f"--nodelist={hostlist.fold(free)}",
                "--label",
                "--input=none",
            ),
            *(f"--immediate={_QUEUE_S}", slurm_jobs.comment()),
            *(f"--partition={partition}", *options),
            *paths.on_node("inventory.detect"),
            "--lines",
            *(",".join([n, *slurm.nodes[n].other_names]) for n in members[: _ASKED + 1]),
            limit_s=3 * _QUEUE_S,
        )
    except PrerequisiteError as error:
        raise _explained(partition, free, error) from None
    return agreed(partition, documents(answer, partition))


#: What srun, or the node, says, and what it means.
_REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "No module named '?railgauge",
        "a node does not see this checkout at {source}",
        "work in a clone on a file system that the nodes mount at the same path",
    ),
    (
        r"python3.*No such file|execve\(\): python3|command not found.*python3",
        "a node has no python3",
        "install Python 3.9 or newer on the nodes",
    ),
    (
        "SyntaxError|future feature annotations",
        "a node's python3 is older than 3.9",
        "install Python 3.9 or newer on the nodes, first on the path of jobs",
    ),
    (
        "(?i)account|qos|invalid partition|not permitted|access",
        "Slurm starts no job there",
        "--access '--account=NAME' (or --qos=NAME) gives what jobs need",
    ),
    (
        "(?i)immediate|did not answer within|Unable to allocate|Requested nodes are busy",
        f"the nodes were not free within {_QUEUE_S} s",
        "wait for them (squeue), or leave --detect out and state --link-gbits and --mtu-bytes",
    ),
)


def _explained(partition: str, nodes: Sequence[str], error: PrerequisiteError) -> PrerequisiteError:
    """The job's error in a person's words, with srun's own behind them."""
    # The command itself names railgauge and python3, too.
    words = error.message.partition("` failed: ")[2] or error.message
    where = f"--detect on {hostlist.fold(nodes)} of partition {partition}"
    quoted = " / ".join(line.strip() for line in words.splitlines() if line.strip())[:300]
    for pattern, meaning, step in _REASONS:
        if re.search(pattern, words):
            meaning = meaning.format(source=paths.SOURCE)
            return PrerequisiteError(f"{where}: {meaning}: {quoted}", next_step=step)
    return PrerequisiteError(
        f"{where}: {quoted}",
        next_step=f"srun --partition={partition} --nodes=1 python3 --version, by hand; or leave "
        "--detect out and state --link-gbits and --mtu-bytes",
    )


def documents(answer: str, partition: str) -> list[Document]:
    """The nodes' documents in the job's output; other lines (a prolog's) are left out."""
    printed = []
    for text in srun_output.texts(answer).values():
        try:
            document = json.loads(text)
        except ValueError:
            continue
        if isinstance(document, dict) and document.get("schema") == SCHEMA:
            printed.append(document)
    if not printed:
        raise PrerequisiteError(
            f"--detect on partition {partition}: the job printed no inventory: {answer[:200]!r}",
            next_step=f"srun --partition={partition} --nodes=1 "
            f"{shlex.join(paths.on_node('inventory.detect'))}, by hand",
        )
    return sorted(printed, key=lambda document: natural(str(document["node"])))


def agreed(partition: str, documents: Sequence[Document]) -> Seen:
    """What all of the documents say alike."""
    values: dict[str, Value] = {}
    missing: dict[str, str] = {}
    for name, (read, absent) in _FIELDS.items():
        by_value: dict[Value | None, list[str]] = {}
        for document in documents:
            by_value.setdefault(read(document), []).append(str(document["node"]))
        if len(by_value) > 1:
            parts = (
                f"{'nothing' if value is None else shown(value)} on {hostlist.fold(nodes)}"
                for value, nodes in by_value.items()
            )
            missing[name] = f"{_DIFFER}: {', '.join(parts)}"
            continue
        value = next(iter(by_value))
        if value is None:
            missing[name] = absent(documents[0])
        else:
            values[name] = value
    return Seen(partition, tuple(str(document["node"]) for document in documents), values, missing)


def _unknown(name: str) -> Callable[[Document], str]:
    return lambda document: str(
        document["unknown"].get(name) or document["unknown"].get("way") or "the node does not say"
    )


def _link_gbits(document: Document) -> Value | None:
    mbits = document["link_mbits"]
    return None if mbits is None else _plain(mbits / 1000)


def _plain(number: float) -> Value:
    return int(number) if number == int(number) else number


def _ports(document: Document) -> list[tuple[str, Document]]:
    """The ports that carry data, in the order of the rails."""
    ports = sorted(document["ports"].items(), key=lambda item: natural(item[0]))
    return [(name, port) for name, port in ports if port.get("state") == "ACTIVE"]


def _devices(document: Document) -> Value | None:
    names = dict.fromkeys(name.partition("/")[0] for name, _ in _ports(document))
    return "|".join(re.escape(name) for name in names) or None


def _names(document: Document) -> Value | None:
    """The device of each rail; of one with two ports twice."""
    names = [name.partition("/")[0] for name, _ in _ports(document)]
    return tuple(sorted(names, key=natural)) or None


def _of_ports(field: str) -> Callable[[Document], Value | None]:
    """What all rails of a node say alike; None where they do not."""

    def read(document: Document) -> Value | None:
        values = {port.get(field) for _, port in _ports(document)}
        value = values.pop() if len(values) == 1 else None
        return value if isinstance(value, (str, int, float)) else None

    return read


def _line_gbits(document: Document) -> Value | None:
    rate = _of_ports("rate")(document)
    stated = re.match(r"([0-9.]+) Gb/sec", str(rate))
    hardware = all(port.get("hardware") for _, port in _ports(document))
    return _plain(float(stated[1])) if stated and hardware else None


def _gid_type(document: Document) -> Value | None:
    types = [port["gid_types"] for _, port in _ports(document)]
    known = ("RoCE v2", "IB/RoCE v1")
    return next((name for name in known if types and all(name in t for t in types)), None)


def _no_port(document: Document) -> str:
    if not document["ports"]:
        return "there is no RDMA device"
    if not _ports(document):
        states = ", ".join(f"{n} {p.get('state')}" for n, p in document["ports"].items())
        return f"no RDMA port is ACTIVE: {states}"
    return "the RDMA ports do not say it, or not all the same"


#: Field of the description -> how a document says it, and why it does not.
_FIELDS: Mapping[str, tuple[Callable[[Document], Value | None], Callable[[Document], str]]] = {
    "python": (lambda d: str(d["python"]), _unknown("python")),
    "device": (lambda d: d["way"].get("device"), _unknown("way")),
    "mtu_bytes": (lambda d: d["way"].get("mtu_bytes"), _unknown("way")),
    "link_gbits": (_link_gbits, _unknown("link_mbits")),
    "bond_links": (lambda d: " ".join(d["bond"]), _unknown("bond")),
    "gpus": (lambda d: int(d["gpus"]), _unknown("gpus")),
    "gpu": (lambda d: str(d["gpu_model"]), _unknown("gpus")),
    "devices": (_devices, _no_port),
    "rails": (lambda d: len(_ports(d)) or None, _no_port),
    "names": (_names, _no_port),
    "link_layer": (_of_ports("link_layer"), _no_port),
    "active_mtu_bytes": (_of_ports("active_mtu_bytes"), _no_port),
    "rate": (_of_ports("rate"), _no_port),
    "line_gbits": (_line_gbits, _no_port),
    "gid_type": (_gid_type, _no_port),
}
