"""Run by `spack -e ENVIRONMENT python`: what of the environment is installed, where, from what.

Prints one JSON document: for every package that the roots named (or all roots) need and Spack
builds, its prefix and its archives, each with the path that a mirror must have it at.
"""

import json
import sys

import spack.environment

environment = spack.environment.active_environment()
names = sys.argv[1:]
roots = [spec for spec in environment.concrete_roots() if not names or spec.name in names]
packages = {}
for spec in [node for root in roots for node in root.traverse()]:
    if spec.external or spec.dag_hash() in packages:
        continue
    stages = spec.package.stage if spec.package.has_code else []
    packages[spec.dag_hash()] = {
        "name": spec.name,
        "version": str(spec.version),
        "hash": spec.dag_hash(),
        "prefix": str(spec.prefix),
        "installed": spec.installed,
        "root": spec in roots,
        "sources": [
            {
                "path": stage.mirror_layout.path,
                "sha256": getattr(stage.default_fetcher, "digest", None),
                "url": str(getattr(stage.default_fetcher, "url", "")),
            }
            for stage in stages
        ],
    }
print(json.dumps(list(packages.values())))
