"""Drills: links that are nearly what they were, and switches that lose packets."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from railgauge import paths
from railgauge.lab import faults, network
from railgauge.lab.cluster import Lab
from railgauge.lab.nodes import KINDS as NODE_KINDS
from railgauge.processes import Process

from .gate_lab import NODES, Gate

#: Slow enough that the machine under the lab carries it next to whatever else it does.
_SLOW_GBITS = 0.5

#: More than the largest packet that the kernel hands on as one.
_BURST_KB = 256


def _suspects(verdict: dict[str, Any]) -> list[str]:
    return [suspect["name"] for suspect in verdict["suspects"]]


def _of_kind(verdict: dict[str, Any], kind: str) -> list[str]:
    return [f["message"] for f in verdict["findings"] if f["kind"] == kind]


@contextlib.contextmanager
def port_loss(lab: Lab, port: str, per_mille: int) -> Iterator[None]:
    """The switch loses what goes through a port, both ways; no interface counts it, and nothing on
    the node shows it.
    """
    with _switched(lab.require_up(), f"numgen random mod 1000 < {per_mille} drop", port):
        yield


@contextlib.contextmanager
def gives_way(lab: Lab, node: str, gbits: float) -> Iterator[None]:
    """What a node sends and gets is of the lowest class on its switch, as where ports trust marks
    that hosts set: it is lost where it, with a third of what the switch's other nodes do among
    each other, is more than `gbits`.
    """
    most = round(gbits * 1e9 / 8 / 1000)
    limit = f"limit shared {{\n    rate over {most} kbytes/second burst {_BURST_KB} kbytes\n  }}"
    switch, port = lab.switch_of(lab.node(node)), network.port(node)
    others = "numgen random mod 3 == 0 limit name shared accept"
    with _switched(switch, "limit name shared drop", port, limit, others):
        yield


@contextlib.contextmanager
def _switched(
    switch: Process, of_port: str, port: str, objects: str = "", of_others: str = ""
) -> Iterator[None]:
    """A rule of nft for what a switch forwards to and from a port, and one between all others."""
    rules = [f"{way} {port} {of_port}" for way in ("iifname", "oifname")]
    if of_others:
        rules.append(f"iifname != {port} oifname != {port} {of_others}")
    chain = "\n    ".join(("type filter hook forward priority 0;", *rules))
    table = f"table bridge drill {{\n  {objects}\n  chain forward {{\n    {chain}\n  }}\n}}\n"
    nft = network.inside(switch, "nft", "-f", "-")
    subprocess.run(nft, input=table, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(nft, input="delete table bridge drill\n", text=True, check=True)


def switch_port_loss(gate: Gate) -> None:
    """A port of the switch loses one packet in a hundred: its node is named."""
    with port_loss(gate.lab, network.port("n2"), 10):
        verdict = gate.accept(code=1)
    assert _suspects(verdict) == ["n2"], verdict


def switch_port_loss_in_gate(gate: Gate) -> None:
    """The same while the gate tests the node: it stays out."""
    gate.update("n2")
    gate.hold("n2")
    with port_loss(gate.lab, network.port("n2"), 10):
        gate("run", "--act", code=1)
    assert gate.state("n2").drained_by_us and not gate.is_accepted("n2")


def _references(gate: Gate, **bandwidth: Any) -> Path:
    """The lab's references with another one for the bandwidth of a pair."""
    folder = gate.area / "references"
    folder.mkdir(exist_ok=True)
    document = yaml.safe_load((paths.HOME / "results" / "references" / "lab.yaml").read_text())
    for entry in document["references"]:
        if entry["check"] == "Iperf2Pair" and entry["partition"] == "ns":
            entry["metrics"]["stream_bandwidth_min"]["value"] = 0.01
            entry["metrics"]["bandwidth"] = {
                "unit": "Gb/s",
                "lower": 0,
                "provenance": {"source": "a drill", "date": "2026-11-22"},
                **bandwidth,
            }
    (folder / "lab.yaml").write_text(yaml.safe_dump(document))
    return folder


def _bandwidths(verdict: dict[str, Any]) -> dict[tuple[str, ...], float]:
    return {
        tuple(m["nodes"]): m["value"]
        for m in verdict["measurements"]
        if m["check"] == "Iperf2Pair" and m["metric"] == "bandwidth"
    }


def nearly_baseline(gate: Gate) -> None:
    """A link at 97 % of its baseline passes bounds of 5 %, at 90 % it is rejected and named."""
    pairs = ("--", "-n", "Iperf2Pair")
    for node in NODES:
        faults.add(gate.lab, "rate", node, _SLOW_GBITS)
    loose = _references(gate, value=0.1, kind="floor")
    measured = _bandwidths(gate.accept("--mode", "baseline", *pairs, code=2, references=loose))
    baseline = statistics.median(measured.values())
    tight = _references(gate, value=baseline, lower=-0.05, kind="baseline")
    for share, named in ((1.0, []), (0.97, []), (0.9, ["n2"])):
        _reshape(gate, "n2", share * _SLOW_GBITS)
        verdict = gate.accept(*pairs, code=1 if named else 2, references=tight)
        assert _suspects(verdict) == named, (share, verdict)
        assert not _of_kind(verdict, "stands-out"), (share, verdict)


def stands_out(gate: Gate) -> None:
    """A node at 6 of 10 that passes its floor: inconclusive, and named."""
    pairs = ("--", "-n", "Iperf2Pair")
    for node in NODES:
        faults.add(gate.lab, "rate", node, _SLOW_GBITS)
    loose = _references(gate, value=0.1, kind="floor")
    assert not _of_kind(gate.accept(*pairs, code=2, references=loose), "stands-out")
    _reshape(gate, "n2", 0.6 * _SLOW_GBITS)
    verdict = gate.accept(*pairs, code=2, references=loose)
    (finding,) = [f for f in verdict["findings"] if f["kind"] == "stands-out"]
    assert finding["nodes"] == ["n2"] and finding["weight"] == "inconclusive", finding


def _reshape(gate: Gate, node: str, gbits: float) -> None:
    known = gate.lab.node(node)
    NODE_KINDS[known.kind].shape(gate.lab, known, "eth0", gbits)


DRILLS: dict[str, Callable[[Gate], None]] = {
    "switch-port-loss": switch_port_loss,
    "switch-port-loss-in-gate": switch_port_loss_in_gate,
    "nearly-baseline": nearly_baseline,
    "stands-out": stands_out,
}
