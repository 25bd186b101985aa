"""Where the cases of a campaign leave their files."""

from __future__ import annotations

from pathlib import Path

from railgauge import paths


def stages_so_far(stage: Path) -> list[Path]:
    """The folders in which cases of the same partition and environment as the case with this stage
    folder staged: one for each session of the campaign so far, the first one first.
    """
    campaign = paths.campaign_folder()
    if campaign is None:
        return [stage.parent]
    within = stage.parent.resolve().relative_to(paths.session_folder().resolve())
    numbers = range(1, paths.session_number() + 1)
    return [paths.session_in(campaign, number) / within for number in numbers]
