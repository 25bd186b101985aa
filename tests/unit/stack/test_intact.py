"""What was built, and is no longer as it was built."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from railgauge.node.system import tool_package
from railgauge.stack import intact

HASH = "ecyifmpfeg6q57eyxpeuqycyqi2ecg5v"


@pytest.fixture(autouse=True)
def _no_earlier_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_package, "CACHE", tmp_path / "cache")


@pytest.fixture
def iperf2(tmp_path: Path) -> dict[str, Any]:
    """What spack/describe.py says of iperf2, with the files that Spack 1.2 leaves of it."""
    prefix = tmp_path / "opt/iperf2"
    program = prefix / "bin/iperf"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"iperf 2.2.1")
    program.chmod(0o755)
    digest = base64.b32encode(hashlib.sha1(program.read_bytes()).digest()).decode()
    about = {"name": "iperf2", "version": "2.2.1-dfsg", "hash": HASH}
    (prefix / ".spack").mkdir()
    for name, document in (
        ("spec.json", {"spec": {"_meta": {"version": 5}, "nodes": [about]}}),
        ("install_manifest.json", {str(prefix / ".spack"): {}, str(program): {"hash": digest}}),
    ):
        (prefix / ".spack" / name).write_text(json.dumps(document), encoding="utf-8")
    path = {"action": "prepend", "name": "PATH", "value": f"{prefix}/bin", "separator": ":"}
    return {
        **about,
        **{"prefix": str(prefix), "installed": True, "root": True, "sources": []},
        "run_environment": [path],
    }


def test_tool_as_it_was_built_stays(iperf2: dict[str, Any]) -> None:
    assert intact.damaged([iperf2]) == {}
    assert iperf2["installed"]


def test_program_that_was_changed_is_built_again(iperf2: dict[str, Any]) -> None:
    program = Path(iperf2["prefix"], "bin/iperf")
    program.write_bytes(b"another")
    assert intact.damaged([iperf2]) == {
        HASH: f"iperf2@2.2.1-dfsg /ecyifmp: {program}: found it changed since it was built"
    }
    assert not iperf2["installed"]


def test_program_that_was_removed_is_built_again(iperf2: dict[str, Any]) -> None:
    Path(iperf2["prefix"], "bin/iperf").unlink()
    assert list(intact.damaged([iperf2])) == [HASH]


@pytest.mark.parametrize("root", [True, False])
def test_package_without_its_folder_is_built_again(iperf2: dict[str, Any], root: bool) -> None:
    shutil.rmtree(iperf2["prefix"])
    assert list(intact.damaged([{**iperf2, "root": root}])) == [HASH]


def test_program_that_a_recipe_never_installed_is_not_built_again_and_again(
    iperf2: dict[str, Any],
) -> None:
    """That it lacks is said when the activation is written."""
    Path(iperf2["prefix"], "bin/iperf").unlink()
    noted = Path(iperf2["prefix"], ".spack/install_manifest.json")
    noted.write_text(json.dumps({f"{iperf2['prefix']}/bin/other": {}}), encoding="utf-8")
    assert intact.damaged([iperf2]) == {}


def test_what_is_not_installed_is_not_damaged(iperf2: dict[str, Any]) -> None:
    shutil.rmtree(iperf2["prefix"])
    iperf2["installed"] = False
    assert intact.damaged([iperf2]) == {}
