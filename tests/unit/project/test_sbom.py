"""What packages are built from: the pinned requirements, by Python version and as an SBOM."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from package import sbom
from package.pins import REQUIREMENTS, entries
from package.system_packages import TARGETS, requirements, unpack

HASH = "--hash=sha256:" + "0123456789abcdef" * 4
TEXT = REQUIREMENTS.read_text(encoding="utf-8")
DOCUMENT: dict[str, Any] = json.loads(json.dumps(sbom.document("0.2.0", "0123456789ab", 0)))


def test_each_pinned_package_is_a_component_with_its_hashes() -> None:
    hashes = [p for one in DOCUMENT["components"] for p in one["properties"] if "sha" in p["name"]]
    assert len(DOCUMENT["components"]) == TEXT.count("==") - TEXT.count("python_full_version ==")
    assert len(hashes) == TEXT.count("--hash=")


def test_the_program_depends_on_each_component_once() -> None:
    (depends,) = DOCUMENT["dependencies"]
    assert depends["dependsOn"] == [one["bom-ref"] for one in DOCUMENT["components"]]
    assert len(set(depends["dependsOn"])) == len(depends["dependsOn"])


def test_a_component_of_some_pythons_only_says_of_which() -> None:
    (one,) = sbom.components(f"a==1 ; python_version < '3.11' \\\n    {HASH}\n")
    assert {"name": "marker", "value": 'python_version < "3.11"'} in one["properties"]  # type: ignore[operator]


def test_the_same_commit_has_the_same_serial_number_and_another_one_another() -> None:
    numbers = {sbom.document("0.2.0", commit, 0)["serialNumber"] for commit in ("a", "a", "b")}
    assert len(numbers) == 2


@pytest.mark.parametrize("line", ["a", "a>=1", "a==1"])
def test_what_pins_no_version_or_no_hash_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="expected NAME==VERSION and hashes"):
        list(entries(f"{line}\n"))


@given(st.integers(min_value=0, max_value=len(TEXT)))
def test_a_part_of_the_file_has_no_package_that_the_whole_has_not(cut: int) -> None:
    whole = {(one.name, str(one.specifier)) for one, _ in entries(TEXT)}
    try:
        part = {(one.name, str(one.specifier)) for one, _ in entries(TEXT[:cut])}
    except ValueError:
        return
    assert part <= whole


@pytest.mark.parametrize("version", sorted({target.python for target in TARGETS}))
def test_a_package_has_each_module_once_for_its_python(version: str) -> None:
    names = [one.name for one, _ in entries(requirements(TEXT, version))]
    assert len(set(names)) == len(names)
    assert set(names) == {one.name for one, _ in entries(TEXT)}


@pytest.mark.parametrize("version", sorted({target.python for target in TARGETS}))
def test_pip_of_any_python_takes_each_module_of_a_package(version: str) -> None:
    """pip leaves out a line with a marker that is not true of its own Python."""
    assert [one for one, _ in entries(requirements(TEXT, version)) if one.marker] == []


def test_the_version_of_a_module_is_that_for_the_python_of_the_distribution() -> None:
    pins = {
        str(one.specifier)
        for version in ("3.11", "3.13")
        for one, _ in entries(requirements(TEXT, version))
        if one.name == "numpy"
    }
    assert len(pins) == 2


def test_scripts_of_a_wheel_stay_out(tmp_path: Path) -> None:
    """Their first line would name the Python of the build."""
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        for name in (
            "a/b.py",
            "a-1.data/scripts/a",
            "a-1.data/platlib/c.so",
            "a-1.dist-info/RECORD",
        ):
            archive.writestr(name, name)
    unpack(tmp_path / "a.whl", tmp_path / "site")
    files = {
        str(p.relative_to(tmp_path / "site")) for p in tmp_path.glob("site/**/*") if p.is_file()
    }
    assert files == {"a/b.py", "c.so", "a-1.dist-info/RECORD"}


def test_programs_of_a_wheel_can_be_started(tmp_path: Path) -> None:
    """Such as those that start the machines of the lab."""
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        for name, mode in (("a/start", 0o100755), ("a/data", 0o100644)):
            member = zipfile.ZipInfo(name)
            member.external_attr = mode << 16
            archive.writestr(member, name)
    unpack(tmp_path / "a.whl", tmp_path)
    assert os.access(tmp_path / "a" / "start", os.X_OK)
    assert not (tmp_path / "a" / "data").stat().st_mode & 0o111
