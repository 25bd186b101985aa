"""Slurm's configuration files from the lab's description."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2

from railgauge.hostlist import fold
from railgauge.lab.releases import DEFAULT, Release
from railgauge.lab.spec import LabSpec

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)

#: slurmdbd refuses to start unless its file is private.
_MODES = {"slurmdbd.conf": 0o600}


def render(
    spec: LabSpec, partitions: Mapping[str, str], release: Release = DEFAULT
) -> dict[str, str]:
    """File name -> text. `partitions` maps each name to its host list."""
    blocks = spec.blocks if release.has_blocks else None
    names = ["slurm.conf", "gres.conf", "cgroup.conf", "hosts"]
    names += ["slurmdbd.conf"] if spec.accounting else []
    names += ["topology.conf"] if blocks or spec.switches else []
    values = {
        "spec": spec,
        "release": release,
        "nodes": spec.all_nodes(),
        "leaves": {
            switch.name: fold(spec.nodes_of(switch.name))
            for switch in spec.all_switches()
            if switch.kind == "leaf"
        },
        "partitions": partitions,
        "blocks": blocks,
    }
    files = {name: _TEMPLATES.get_template(name).render(values) for name in names}
    return files | ({"slurm.conf": spec.slurm_conf} if spec.slurm_conf else {})


def environment(spec: LabSpec, services: Sequence[str]) -> str:
    """The cluster's settings for the scripts in `boot/`, as shell assignments; `services` are the
    head's.
    """
    users = " ".join(f"{user.name}:{user.uid}:{user.folder}" for user in spec.users)
    return (
        f"head={spec.head.name}\n"
        f"domain={spec.domain or ''}\n"
        f"services=({' '.join(services)})\n"
        f"slurm_user={spec.slurm_user}\n"
        f"users=({users})\n"
    )


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Put the files into `folder`, with the modes that Slurm asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        mode = _MODES.get(name, 0o644)
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
