"""What commands print as JSON is as the published schemas say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from railgauge import paths
from railgauge.cli.campaigns import campaigns
from railgauge.cli.show import show
from railgauge.report import transfers
from tests import pages
from tests.command_line import invoke
from tests.unit.checks.tcp.test_file_transfer import LARGE, case
from tests.unit.cli.test_show import campaign
from tests.unit.report.test_numbers import verdict as verdict_of
from tests.unit.verdict.decision.test_rules import NODE_FAILURE, Recorded

__all__ = ["campaign"]

SCHEMAS = paths.HOME / "docs" / "schema"


def schema(name: str) -> dict[str, Any]:
    document = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(document)
    assert isinstance(document, dict)
    return document


def require(name: str, document: object) -> None:
    known = {path.name: schema(path.stem) for path in SCHEMAS.glob("*.json")}
    resources = [(name, Resource.from_contents(document)) for name, document in known.items()]
    registry: Registry[Any] = Registry().with_resources(resources)
    validator = jsonschema.Draft202012Validator(known[f"{name}.json"], registry=registry)
    validator.validate(json.loads(json.dumps(document)))


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
    assert row.keys() == schema("verdict")["$defs"]["measurement"]["properties"].keys()


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
    listed = json.loads(invoke(campaigns, ["--json"]).output)
    require("campaigns", listed)
    assert ["unreadable" in item for item in listed] == [False, True]


def test_a_place_is_as_its_schema_with_what_both_sides_printed(campaign: Path) -> None:
    answer = invoke(show, ["latest", "n1:n2:1-1", "--check", "RailProbe", "--json"])
    document = json.loads(answer.output)
    require("show", document)
    (place,) = document["places"]
    outputs = {output["of"]: output["text"] for output in place["outputs"]}
    assert outputs["server on n1, standard output"] == "RailProbe server of n1:n2:1-1\n"


def test_transfers_are_as_their_schema(tmp_path: Path) -> None:
    failed = case("ScpTransfer", None, result="fail")
    cases = [case("WdtTransfer", 15.0), case("ScpTransfer", 1.0, LARGE, delay_ms=44.0), failed]
    document = transfers.as_dict(verdict_of(cases))
    require("transfers", document)
    assert [line["rate_gbits_s"] for line in document["transfers"]] == [15.0, 1.0]
    assert document["transfers"][0].keys() == set(
        schema("transfers")["properties"]["transfers"]["items"]["properties"]
    )
    assert document["failed"] == [{"partition": "ns", "tool": "scp", "cases": 1}]
