"""Reading Spack's locks, and comparing them with the manifest.

Hashes are not compared: a site's compiler, Slurm and rdma-core change every one of them. What must
hold in every lock, the reference's and the site's, is: the pins, the CPU of every node, and the GPU
of every node that is built for one. `prefer` and `variants` are wishes to Spack, which it may drop
without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railgauge.common.errors import ConfigurationError
from railgauge.stack.manifest import Stack


@dataclass(frozen=True)
class Node:
    """One concrete spec."""

    hash: str
    name: str
    version: str
    target: str
    cuda: bool
    #: Empty where the recipe does not ask for an architecture.
    cuda_arch: tuple[str, ...]
    #: The prefix of what is not built.
    external: str | None
    dependencies: tuple[str, ...]


@dataclass(frozen=True)
class Lock:
    path: Path
    spack_version: str
    #: Hash to what the manifest asked for: `openmpi@5.0.9 target=x86_64_v4`.
    roots: Mapping[str, str]
    nodes: Mapping[str, Node]

    def root(self, name: str) -> Node | None:
        return next((self.nodes[key] for key in self.roots if self.nodes[key].name == name), None)


def read(path: Path, written_by: str = "") -> Lock:
    """The lock at `path`; ConfigurationError when it is missing, cut off, or no lock of Spack's.

    `written_by` is the command that writes it; of a reference lock `bin/stack solve --write`.
    """
    written_by = written_by or f"bin/stack solve --write {path.parent.parent.name}"
    next_step = f"git checkout -- {path}, or where git has none: {written_by}"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        roots = {root["hash"]: root["spec"] for root in document["roots"]}
        nodes = {key: _node(key, node) for key, node in document["concrete_specs"].items()}
        version = str(document["spack"]["version"])
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path}: no such file, expected Spack's lock", next_step=next_step
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"{path}: found no lock of Spack's: {type(error).__name__}: {error}",
            next_step=next_step,
        ) from None
    lost = sorted(
        {key for node in nodes.values() for key in node.dependencies if key not in nodes}
        | {key for key in roots if key not in nodes}
    )
    if lost or not roots:
        raise ConfigurationError(
            f"{path}: found {len(nodes)} nodes and {len(roots)} roots, "
            f"expected all that they depend on, and not without {', '.join(lost) or 'a root'}",
            next_step=next_step,
        )
    return Lock(path, version, roots, nodes)


def _node(key: str, node: Mapping[str, Any]) -> Node:
    parameters = node["parameters"]
    target = node["arch"]["target"]
    architectures = parameters.get("cuda_arch", [])
    return Node(
        hash=key,
        name=node["name"],
        version=str(node["version"]),
        target=target if isinstance(target, str) else target["name"],
        cuda=parameters.get("cuda") is True,
        cuda_arch=tuple([architectures] if isinstance(architectures, str) else architectures),
        external=(node.get("external") or {}).get("path"),
        dependencies=tuple(dependency["hash"] for dependency in node.get("dependencies", [])),
    )


@dataclass(frozen=True)
class Difference:
    """One difference of a lock from the manifest."""

    path: Path
    what: str
    actual: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}: found {self.actual}, expected {self.expected}"


def differences(stack: Stack, lock: Lock, *, site: bool = False) -> list[Difference]:
    """Differences of `lock` from the manifest; with `site`, also in the versions of externals."""
    return [
        Difference(lock.path, what, actual, expected)
        for what, actual, expected in (
            *_pins(stack, lock),
            *_targets(stack, lock),
            *_gpus(stack, lock),
            *(_externals(stack, lock) if site else ()),
        )
    ]


def _pins(stack: Stack, lock: Lock) -> Iterator[tuple[str, str, str]]:
    for pin in stack.pins:
        versions = sorted({node.version for node in lock.nodes.values() if node.name == pin.name})
        if lock.root(pin.name) is None:
            yield pin.name, "no root of this name", f"{pin}"
        elif versions != [pin.version]:
            yield pin.name, ", ".join(f"{pin.name}@{version}" for version in versions), f"{pin}"
    pinned = {pin.name for pin in stack.pins}
    for key in lock.roots:
        if lock.nodes[key].name not in pinned:
            yield lock.nodes[key].name, f"root {lock.roots[key]}", "none that spack.yaml lacks"
    if stack.cuda is not None:
        versions = sorted({n.version for n in lock.nodes.values() if n.name == "cuda"})
        if versions != [stack.cuda]:
            yield "cuda", ", ".join(versions) or "none", f"cuda@{stack.cuda}"


def _targets(stack: Stack, lock: Lock) -> Iterator[tuple[str, str, str]]:
    for node in lock.nodes.values():
        if node.target != stack.target:
            yield node.name, f"target={node.target}", f"target={stack.target}"


def _gpus(stack: Stack, lock: Lock) -> Iterator[tuple[str, str, str]]:
    if stack.cuda_arch is None:
        for node in lock.nodes.values():
            if node.cuda or node.name == "cuda":
                yield node.name, f"{node.name}@{node.version} with CUDA", "no CUDA, for no GPU"
        return
    expected = f"cuda_arch={stack.cuda_arch}"
    gpu_tools = {pin.name for pin in stack.pins if pin.gpu}
    for node in lock.nodes.values():
        # perftest has CUDA and no code for a GPU, and so no architecture.
        concerned = node.cuda_arch or node.name in gpu_tools
        if concerned and node.cuda_arch != (stack.cuda_arch,):
            yield node.name, f"cuda_arch={','.join(node.cuda_arch) or 'none'}", expected


def _externals(stack: Stack, lock: Lock) -> Iterator[tuple[str, str, str]]:
    for external in stack.externals:
        for node in lock.nodes.values():
            if node.name != external.name:
                continue
            solved = f"{node.name}@{node.version} {node.external or 'built by Spack'}"
            if (node.version, node.external) != (external.version, external.prefix):
                yield node.name, solved, f"{external.name}@{external.version} {external.prefix}"


def changes(committed: Path, fresh: Path) -> list[str]:
    """Names of the packages that two locks have otherwise: version, variants, recipe, dependencies.

    Hashes and what belongs to the machine that solved (its libc, its name of the OS) are left out.
    """
    ours, theirs = _contents(committed), _contents(fresh)
    return sorted({name for name, _ in ours ^ theirs})


def _contents(path: Path) -> set[tuple[str, str]]:
    nodes = json.loads(path.read_text(encoding="utf-8"))["concrete_specs"]
    contents = set()
    for node in nodes.values():
        if node["name"] not in ("glibc", "gcc-runtime"):
            needs = sorted(dependency["name"] for dependency in node.get("dependencies", []))
            kept = ("version", "parameters", "external", "package_hash")
            shown = {key: node.get(key) for key in kept} | {"needs": needs}
            contents.add((node["name"], json.dumps(shown, sort_keys=True)))
    return contents
