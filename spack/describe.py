"""Run by `spack -e ENVIRONMENT python`: what of the environment is installed, where, from what.

Prints one JSON document: for every package that the roots named (or all roots) need and Spack
builds, its prefix and its archives, each with the path that a mirror must have it at; of the roots
also what `spack load` would change in the environment for each alone.
"""

import json
import sys

import spack.environment
from spack.build_environment import SetupContext
from spack.enums import Context
from spack.util.environment import (
    AppendFlagsEnv,
    AppendPath,
    PrependPath,
    SetEnv,
    SetPath,
    UnsetEnv,
)

ACTIONS = {
    SetEnv: "set",
    SetPath: "set",
    UnsetEnv: "unset",
    PrependPath: "prepend",
    AppendPath: "append",
    AppendFlagsEnv: "append",
}


def run_environment(root):
    """The changes in their order: action, name, and value with separator where it has one."""
    context = SetupContext(root, context=Context.RUN)
    context.set_all_package_py_globals()
    changes = []
    for change in context.get_env_modifications().env_modifications:
        if type(change) not in ACTIONS:
            sys.exit(f"{root.name}: {type(change).__name__} {change.name}: expected {ACTIONS}")
        entry = {"action": ACTIONS[type(change)], "name": change.name}
        if hasattr(change, "value"):
            entry.update(value=str(change.value), separator=change.separator)
        changes.append(entry)
    return changes


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
        "run_environment": run_environment(spec) if spec in roots else [],
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
