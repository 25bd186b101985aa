"""The firmware gate with a real Slurm and real faults; `make drill` has all of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railgauge.cluster import rights
from railgauge.lab.cluster import Lab
from railgauge.slurm import client
from railgauge.slurm.client import SlurmError

from .drill import drill

#: A user of every Debian, who is nobody to Slurm's accounting.
USER = "games"


@pytest.fixture
def as_user(cluster: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Ask Slurm as USER; what it gives is for its administrator to type."""

    def asked(*command: str, limit_s: float = 30) -> str:
        me = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        done = subprocess.run(
            cluster.enter("head", *me, *command), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SlurmError(done.stderr or done.stdout)
        return done.stdout

    def administrator(*command: str) -> None:
        subprocess.run(cluster.enter("head", "sacctmgr", "--immediate", *command), check=True)

    monkeypatch.setattr(client, "output", asked)
    monkeypatch.setenv("LOGNAME", USER)
    yield administrator
    administrator("delete", "user", USER)


def test_slurm_says_which_rights_are_missing(as_user: Callable[..., None], cluster: Lab) -> None:
    """Of the levels of a user; as root nothing is missing."""
    both = ["drain and resume nodes", "make reservations"]
    missing = rights.missing("lab")
    assert [one.step for one in missing] == both
    assert f"sacctmgr add user {USER} account=" in missing[0].next_step
    for level, steps in (("none", both), ("operator", both[:1]), ("admin", [])):
        if level == "none":
            as_user("add", "user", USER, "account=root")
        else:
            # As the next step says.
            as_user("modify", "user", USER, "set", f"adminlevel={level}")
        missing = rights.missing("lab")
        assert [one.step for one in missing] == steps, level
        assert all(f"modify user {USER} set adminlevel=admin" in m.next_step for m in missing)


# The drill `changed-field` is a part of killed-in-campaign.
@pytest.mark.parametrize("name", ["shaped-link", "killed-in-campaign", "killed-in-update"])
def test_no_untested_node_is_ever_open(
    repaired: Lab, area: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # What the drill sets is set back afterwards.
    for variable, value in (("RAILGAUGE_RESULTS", str(area)), ("PATH", os.environ["PATH"])):
        monkeypatch.setenv(variable, value)
    drill(repaired, area, name)


@pytest.mark.parametrize("name", ["patrol-preempted", "patrol-bad-node"])
def test_a_patrol_disturbs_no_node_and_holds_only_the_guilty(
    repaired: Lab, area: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable, value in (("RAILGAUGE_RESULTS", str(area)), ("PATH", os.environ["PATH"])):
        monkeypatch.setenv(variable, value)
    drill(repaired, area, name)
