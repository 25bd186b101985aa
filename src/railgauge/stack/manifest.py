"""What `spack.yaml` and a system's scope ask for: pins, CPU target, GPU, CUDA, site externals.

Only the few fields that a lock is compared with are read here; Spack reads all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railgauge import paths, yamlfile
from railgauge.common.errors import ConfigurationError, RailgaugeError

MANIFEST = "spack.yaml"
LOCK = "spack.lock"
SITE_LOCK = "site.lock"
#: The mark, in the comment above an external, that a site must check it.
MARK = "SITE EXTERNAL"
#: Beginning of a placeholder for a prefix that only the site knows.
PLACEHOLDER = "/SITE-EXTERNAL"


@dataclass(frozen=True)
class Pin:
    """A root of the manifest, of one version: `openmpi@5.0.9`."""

    name: str
    version: str
    #: Needs a GPU: asked for with the system's CUDA architecture.
    gpu: bool = False

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True)
class External:
    """What a site has, and Spack does not build."""

    name: str
    version: str
    prefix: str
    #: Language to path, of a compiler.
    compilers: Mapping[str, str]
    #: Marked SITE EXTERNAL: it differs from site to site.
    site: bool
    path: Path
    line: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Stack:
    """All that the manifest and one system's scope say."""

    system: str
    folder: Path
    pins: tuple[Pin, ...]
    #: In archspec's words: x86_64_v4, neoverse_v2.
    target: str
    #: CUDA's architecture without a dot, "90"; None without a GPU.
    cuda_arch: str | None
    #: Exactly this CUDA; None where there is none.
    cuda: str | None
    externals: tuple[External, ...]

    @property
    def lock(self) -> Path:
        """The reference solve, committed."""
        return self.folder / LOCK

    @property
    def site_lock(self) -> Path:
        """The site's own solve, written by `make stack`."""
        return self.folder / SITE_LOCK


def systems(home: Path = paths.HOME) -> list[str]:
    """Every system that has a scope for Spack."""
    return sorted(path.parent.name for path in (home / "configs/systems").glob("*/spack"))


def solved_systems(home: Path = paths.HOME) -> list[str]:
    """Those of them with a reference lock. The others are solved on their site alone."""
    return [
        name
        for name in systems(home)
        if (home / "configs/systems" / name / "spack" / LOCK).exists()
    ]


def read(system: str, home: Path = paths.HOME) -> Stack:
    """What the manifest and the scope of `system` ask for; RailgaugeError where it has none."""
    folder = home / "configs/systems" / system / "spack"
    if not re.fullmatch(r"[\w.-]+", system) or not folder.is_dir():
        known = ", ".join(systems(home))
        example = f"make stack SYSTEM={next(iter(systems(home)), 'NAME')}"
        if not system:
            raise RailgaugeError(f"SYSTEM: found none, expected one of {known}", next_step=example)
        raise RailgaugeError(
            f"{folder}: no such folder: found SYSTEM={system}, expected one of {known}",
            next_step=f"{example}, or make the folder after one of these",
        )
    manifest, scope = home / MANIFEST, folder / "definitions.yaml"
    defined = dict(_definitions(manifest, _mapping(manifest, "spack").get("definitions")))
    defined.update(_definitions(scope, yamlfile.load(scope).get("definitions")))
    packages = folder / "packages.yaml"
    return Stack(
        system=system,
        folder=folder,
        pins=(
            *(_pin(spec, manifest) for spec in _wanted(defined, "tools", manifest)),
            *(_pin(spec, scope) for spec in _wanted(defined, "iperf2", scope)),
            *(
                _pin(spec, manifest, gpu=True)
                for spec in _wanted(defined, "gpu_tools", manifest)
                if _wanted(defined, "gpu", scope)
            ),
        ),
        target=_single(defined, "target", "target=", scope),
        cuda_arch=_single(defined, "gpu", "cuda_arch=", scope) if defined.get("gpu") else None,
        cuda=_cuda(packages),
        externals=tuple(_externals(packages)),
    )


def _mapping(path: Path, key: str) -> Any:
    document = yamlfile.load(path)
    if not isinstance(document, dict) or not isinstance(document.get(key), dict):
        raise ConfigurationError(f"{path}: expected a mapping `{key}:` at the top")
    return document[key]


def _definitions(path: Path, items: Any) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(items, list):
        raise ConfigurationError(f"{path}: expected a list `definitions:`")
    for item in items:
        for name, value in item.items():
            if name != "when":
                yield name, [str(spec) for spec in value]


def _wanted(defined: Mapping[str, list[str]], name: str, path: Path) -> list[str]:
    if name not in defined:
        raise ConfigurationError(f"{path}: expected a definition `{name}:`, found none")
    return defined[name]


def _single(defined: Mapping[str, list[str]], name: str, prefix: str, path: Path) -> str:
    values = _wanted(defined, name, path)
    if len(values) != 1 or not values[0].startswith(prefix):
        raise ConfigurationError(f"{path}: {name}: expected one `{prefix}...`, found {values}")
    return values[0].removeprefix(prefix)


def _pin(spec: str, path: Path, *, gpu: bool = False) -> Pin:
    match = re.fullmatch(r"([a-z0-9-]+)@=?([\w.-]+)", spec)
    if not match:
        raise ConfigurationError(
            f"{path}: found {spec!r}, expected a pin name@version and nothing else"
        )
    return Pin(match[1], match[2], gpu)


def _cuda(path: Path) -> str | None:
    package = _mapping(path, "packages").get("cuda")
    if package is None:
        return None
    # The site's own, at most one, or the one that Spack builds.
    own = [
        item.get("spec") for item in package.get("externals", ()) if not package.get("buildable")
    ]
    require = package.get("require") or own
    if isinstance(require, list) and len(require) == 1:
        match = re.match(r"(?:cuda)?@=?(\d+\.\d+\.\d+)(?:\s|$)", str(require[0]))
        if match:
            return match[1]
    raise ConfigurationError(
        f"{path}: cuda: found {require!r}, expected require: ['@X.Y.Z'], or one external "
        "cuda@X.Y.Z with buildable: false"
    )


def _externals(path: Path) -> Iterator[External]:
    lines = path.read_text(encoding="utf-8").splitlines()
    packages = _mapping(path, "packages")
    for name, package in packages.items():
        if not isinstance(package, dict):
            raise ConfigurationError(f"{path}: {name}: expected a mapping, found {package!r}")
        first = key = packages.lc.key(name)[0]
        while first > 0 and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        of_site = MARK in "\n".join(lines[first:key])
        for number, item in enumerate(package.get("externals", [])):
            line = package["externals"].lc.item(number)[0] + 1
            version = re.search(r"@=?([\w.-]+)", str(item.get("spec", "")))
            if not version or not item.get("prefix"):
                raise ConfigurationError(
                    f"{path}:{line}: {name}: expected `spec: {name}@VERSION ...` and `prefix:`"
                )
            yield External(
                name=name,
                version=version[1],
                prefix=str(item["prefix"]),
                compilers=dict(item.get("extra_attributes", {}).get("compilers", {})),
                site=of_site,
                path=path,
                line=line,
            )
