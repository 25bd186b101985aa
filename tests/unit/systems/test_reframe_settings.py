"""ReFrame's settings, by what ReFrame makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from reframe.frontend.executors import policies

from railgauge.systems import reframe_settings


def looks(general: Mapping[str, object], until_s: float) -> list[float]:
    """When ReFrame looks at a job that takes so long, seconds since its start."""
    clock = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        runtime = SimpleNamespace(
            get_option=lambda name: general.get(name.removeprefix("general/0/"))
        )
        patch.setattr(policies.rt, "runtime", lambda: runtime)
        patch.setattr(policies.time, "time", lambda: clock[0])
        patch.setattr(policies.time, "sleep", lambda s: clock.append(clock.pop() + s))
        controller = policies._PollController()
        at = []
        while clock[0] < until_s:
            controller.snooze()
            at.append(clock[0])
    return at


def test_a_finished_job_is_soon_noticed_and_seldom_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 1.6 s, after 9 s within one, by one look a second."""
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    (general,) = reframe_settings.site_configuration()["general"]
    at = looks(general, 120)
    intervals = [(later, later - earlier) for earlier, later in zip([0.0, *at], at, strict=False)]
    assert max(interval for _, interval in intervals) < 1.6
    assert max(interval for later, interval in intervals if later > 9) < 1.01
    assert len(at) <= 122
