"""Where the cases of a campaign leave their files."""

from __future__ import annotations

from pathlib import Path

from railgauge import paths


def stages_so_far(stage: Path) -> list[Path]:
    """The folders beside a case's stage folder in which cases of its partition and environment
    staged, in this campaign's sessions in order.
    """
    campaign = paths.campaign_folder()
    if campaign is None:
        return [stage.parent]
    within = stage.parent.resolve().relative_to(paths.session_folder().resolve())
    numbers = range(1, paths.session_number() + 1)
    return [paths.session_in(campaign, number) / within for number in numbers]
