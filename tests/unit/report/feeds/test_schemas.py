"""What commands print as JSON is as the published schemas say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from railgauge import paths
from railgauge.cli.campaigns import campaigns
from tests import pages
from tests.unit.verdict.test_rules import NODE_FAILURE, Recorded

SCHEMAS = paths.HOME / "docs" / "schema"


def schema(name: str) -> dict[str, Any]:
    document = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(document)
    assert isinstance(document, dict)
    return document


def require(name: str, document: object) -> None:
    jsonschema.Draft202012Validator(schema(name)).validate(json.loads(json.dumps(document)))


def test_a_rejected_verdict_is_as_its_schema(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "20261122T101655Z-lab-7578a0")
    recorded.fail(0, NODE_FAILURE)
    require("verdict", recorded.decide().as_dict())


def test_a_rehearsal_with_sizes_and_latencies_is_as_its_schema(tmp_path: Path) -> None:
    require("verdict", pages.simulated(pages.cluster(tmp_path, 4, 2, bad=(1, 1))).as_dict())


def test_a_field_of_the_verdict_is_in_the_schema(tmp_path: Path) -> None:
    verdict = Recorded(tmp_path / "20261122T101655Z-lab-7578a0").decide().as_dict()
    assert verdict.keys() == schema("verdict")["properties"].keys()
    (*_, row) = verdict["measurements"]
    items = schema("verdict")["properties"]["measurements"]["items"]
    assert row.keys() == items["properties"].keys()


def test_what_is_not_a_verdict_is_refused(tmp_path: Path) -> None:
    verdict = Recorded(tmp_path / "20261122T101655Z-lab-7578a0").decide().as_dict()
    with pytest.raises(jsonschema.ValidationError):
        require("verdict", {**verdict, "verdict": "fine"})


def test_the_list_of_campaigns_is_as_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    folder = tmp_path / "campaigns"
    (folder / "20261123T101655Z-lab-000000").mkdir(parents=True)
    Recorded(folder / "20261122T101655Z-lab-7578a0").write()
    listed = json.loads(CliRunner().invoke(campaigns, ["--json"]).output)
    require("campaigns", listed)
    assert ["unreadable" in item for item in listed] == [False, True]
