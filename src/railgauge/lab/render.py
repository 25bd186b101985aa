"""Slurm's configuration files from the lab's description."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import jinja2

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


def render(spec: LabSpec, partitions: Mapping[str, str]) -> dict[str, str]:
    """File name -> text. `partitions` maps each name to its host list."""
    names = ["slurm.conf", "slurmdbd.conf", "gres.conf", "cgroup.conf", "hosts"]
    if spec.blocks:
        names.append("topology.conf")
    values = {"spec": spec, "nodes": spec.all_nodes(), "partitions": partitions}
    return {name: _TEMPLATES.get_template(name).render(values) for name in names}


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Put the files into `folder`, with the modes that Slurm asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        mode = _MODES.get(name, 0o644)
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
