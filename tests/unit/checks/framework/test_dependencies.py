"""Which cases another one waits for: those that any of its places needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.checks import ended_jobs


@pytest.mark.parametrize(
    ("system", "check"),
    [
        *(("lab", name) for name in ("RailProbe", "RdmaBandwidth", "RdmaUsage", "WanTcp")),
        *(("dgx-h100", name) for name in ("RailProbe", "RdmaBandwidth", "NcclPair", "NcclAll")),
    ],
)
def test_a_case_waits_for_all_that_any_of_its_places_needs(
    tmp_path: Path, system: str, check: str
) -> None:
    with ended_jobs.session(system, tmp_path) as known:
        case = known[check].kind(variant_num=0)
        needed = {name for place in case.places for name, _ in case.needs(place)}
        assert set(case.cases_needed()) == needed
        assert {target for target, _ in case.user_deps()} == needed
