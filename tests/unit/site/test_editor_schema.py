"""The JSON Schemas for editors: the files that are shipped fit, and mistakes do not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from railgauge import paths
from railgauge.site import schema
from railgauge.yamlfile import plain

SHIPPED = [
    path
    for name in schema.FILES
    for folder in (paths.SYSTEMS, paths.TEMPLATES)
    for path in sorted(folder.glob(f"*/{name}.yaml"))
]


def problems(name: str, document: Any) -> list[str]:
    validator = jsonschema.Draft7Validator(schema.editor_schema(name))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def shipped(name: str) -> Any:
    return plain(paths.SYSTEMS / "lab" / f"{name}.yaml")


@pytest.mark.parametrize("name", schema.FILES)
def test_a_schema_is_one_of_draft_7(name: str) -> None:
    jsonschema.Draft7Validator.check_schema(schema.editor_schema(name))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_shipped_file_fits_its_schema(path: Path) -> None:
    assert problems(path.stem, plain(path)) == []


def test_every_kind_of_file_is_shipped() -> None:
    assert {path.stem for path in SHIPPED} == set(schema.FILES)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gate", {"max_holds": 2}),
        ("gate", {"max_hold": 0}),
        ("gate", {"patrol": {"every_days": "weekly"}}),
        ("gate", {"enforcement": {"NodeState": "drain"}}),
        ("expected", {"expected": [{"fields": "a", "is": 1, "why": "b"}]}),
        ("reframe", {"partitions": 1}),
        ("reframe", {"hostnames": None}),
    ],
)
def test_a_mistake_does_not_fit(name: str, change: dict[str, Any]) -> None:
    assert problems(name, {**shipped(name), **change})


def test_a_mistake_in_the_extras_of_a_partition_does_not_fit() -> None:
    document = shipped("reframe")
    document["partitions"][0]["extras"]["link_gbit"] = 1
    assert any("link_gbit" in problem for problem in problems("reframe", document))


def described(part: Any) -> Iterator[tuple[str, Any]]:
    for one in [part, *part.get("$defs", {}).values()]:
        yield from one.get("properties", {}).items()


@pytest.mark.parametrize("name", ["reframe", "gate"])
def test_a_field_has_its_description(name: str) -> None:
    fields = dict(described(schema.editor_schema(name)))
    assert [field for field, says in fields.items() if not says.get("description")] == []


def test_the_line_of_the_document_leads_to_a_schema() -> None:
    """From a file of a system; and the settings lead there from the root of the checkout."""
    text = (paths.HOME / "docs" / "command-line.md").read_text()
    (line,) = re.findall(r"^# yaml-language-server: \$schema=(\S+)$", text, re.MULTILINE)
    assert (paths.SYSTEMS / "lab" / line).resolve().is_file()
    assert [name for name in re.findall(r'"(docs/schema/[^"]+)"', text) if not exists(name)] == []


def exists(name: str) -> bool:
    return (paths.HOME / name).is_file()
