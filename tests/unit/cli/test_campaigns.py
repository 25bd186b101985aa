"""`railgauge campaigns`: a damaged one hides no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge.campaign.folder import Campaign, Requested, Scope
from railgauge.cli import cli
from tests.command_line import invoke
from tests.unit.widths import assert_fits


@pytest.mark.parametrize("text", ["[]", "5", '"accept"', "{", b"\xff"])
@pytest.mark.parametrize("name", ["verdict.json", "campaign.json"])
def test_a_damaged_file_leaves_the_others_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str | bytes
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    (tmp_path / "campaigns").mkdir()
    scope, asked = Scope({"ns": ["n1"]}, {"ns": []}), Requested([], {}, {})
    first, second = (Campaign.create("lab", "acceptance", scope, [], asked) for _ in range(2))
    (first.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    answer = invoke(cli, ["campaigns"])
    assert answer.exit_code == 0
    assert_fits(answer.output)
    # A line that is too long goes on below, indented.
    whole = answer.output.replace("\n  ", " ")
    listed = dict(line.split("  ", 1) for line in whole.splitlines())
    assert listed.keys() == {first.id, second.id}
    assert listed[first.id].startswith("unreadable: ") and name in listed[first.id]
    assert listed[second.id].endswith("no verdict")
