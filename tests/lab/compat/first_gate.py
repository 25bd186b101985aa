"""The gate on that cluster, by alice: without the right nothing is changed, and what she is told to
type is enough.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from railgauge.common.errors import EXIT_REJECT, EXIT_USAGE
from railgauge.lab.cluster import Lab

from . import first_cluster
from .first_cluster import Typed

NODE = "c02"

_TOLD = re.compile(r"sacctmgr \w+ user \w+ .*adminlevel=\w+")


def refused_then_tested(lab: Lab) -> None:
    """After first_cluster's commands: her clone and its system are there."""
    checkout = Path(lab.user(first_cluster.USER).folder) / "railgauge"
    assert _type(lab, "bin/railgauge gate adopt --act").returncode == 0
    # Stands for new firmware: the length of a transmit queue is watched like one.
    _as_root(lab, NODE, "ip", "link", "set", "eth0", "txqueuelen", "900")
    _as_root(
        *(lab, NODE, "sh", "-c"),
        f"cd {checkout} && PYTHONPATH=src python3 -m railgauge.node.gate hold --act "
        "--store results/gate/*/ || [ $? -eq 1 ]",
    )
    told = _refused(lab)
    # An operator makes reservations, and may not resume what is in them.
    _as_root(lab, lab.spec.head.name, *shlex.split(told.replace("=admin", "=operator")))
    _as_root(lab, lab.spec.head.name, *shlex.split(_refused(lab)))
    done = _type(lab, "bin/railgauge gate run --act")
    assert done.returncode == EXIT_REJECT and "by floors" in done.output, done
    # Her cluster is emulated, as the lab is.
    floor = "/floor_share:/{p;s/floor_share:.*/floors_suffice: emulated/}"
    _type(lab, f"sed -i -n '{floor};//!p' configs/systems/*/reframe.yaml")
    done = _type(lab, "bin/railgauge gate run --act")
    assert done.returncode == 0 and f"{NODE}: accepted, back in service" in done.output, done
    assert "No reservations" in _type(lab, "scontrol show reservation").output


def _refused(lab: Lab) -> str:
    """What an administrator is to type, with an account that is there; nothing was changed."""
    done = _type(lab, "bin/railgauge gate run --act")
    assert done.returncode == EXIT_USAGE and "may not drain and resume" in done.output, done
    assert "No reservations" in _type(lab, "scontrol show reservation").output
    found = _TOLD.search(done.output)
    assert found, done.output
    return found[0].replace("account=NAME", "account=root").replace("sacctmgr", "sacctmgr -i")


def _type(lab: Lab, command: str) -> Typed:
    return list(first_cluster.type_all(lab, ["cd railgauge", command]))[-1]


def _as_root(lab: Lab, machine: str, *command: str) -> None:
    done = subprocess.run(
        lab.enter(machine, *command),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}"
