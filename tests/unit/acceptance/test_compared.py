"""Which campaign a new one may be compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge.acceptance.accept import compared_with
from railgauge.common.errors import RailgaugeError
from tests.unit import measured


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    return tmp_path


PLACES = {"n1:n2:0-0": 390.0}


def test_the_last_accepted_one_is_recorded_by_its_name(root: Path) -> None:
    accepted = measured.leave(root, 0, PLACES, gate="acceptance", verdict="accept")
    measured.leave(root, 1, PLACES, gate="acceptance", verdict="reject")
    assert compared_with("lab", "accepted") == accepted.id
    # One that is given as a path is found from anywhere.
    assert compared_with("lab", str(accepted.folder)) == str(accepted.folder.resolve())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"system": "other"}, "of system other, and this is lab"),
        ({"simulated": True}, "a rehearsal"),
    ],
)
def test_one_that_says_nothing_of_these_nodes_is_refused(
    root: Path, options: dict[str, str | bool], words: str
) -> None:
    campaign = measured.leave(root, 0, PLACES, **options)  # type: ignore[arg-type]
    with pytest.raises(RailgaugeError, match=words):
        compared_with("lab", campaign.id)


def test_one_that_is_not_at_its_end_is_refused(root: Path) -> None:
    campaign = measured.leave(root, 0, PLACES)
    campaign.state = "interrupted"
    campaign.save()
    with pytest.raises(RailgaugeError, match="interrupted, expected a finished one"):
        compared_with("lab", campaign.id)


def test_without_an_accepted_campaign_that_is_said_at_once(root: Path) -> None:
    with pytest.raises(RailgaugeError, match="no other campaign"):
        compared_with("lab", "accepted")
