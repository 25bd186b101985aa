"""RdmaDataValidation: the data of each rail compared, as its outputs and its nodes say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import systems
from railgauge.checks.framework.observation import Judged
from railgauge.checks.rdma.rail import RailLinks
from railgauge.model.failure import DATA_CORRUPT, NOT_MEASURED
from railgauge.systems import Partition
from tests.unit.checks import ended_jobs
from tests.unit.checks.rdma.test_rail import Describe, describe, partition, rails  # noqa: F401
from tests.unit.records import names

DATA = Path(__file__).parents[3] / "data" / "perftest"
MACHINES = {"server": "n5", "client": "n6"}

#: Typed from data_validation_stop_and_report of perftest 26.04.17 (src/perftest_resources.c), as in
#: tests/unit/tools/test_perftest.py; the rest of the outputs is recorded without validation.
PASSED = "VALIDATION: PASSED - 100 chunks, 6553600 bytes\n"
CORRUPT = (
    "VALIDATION: FAILED - 2 error(s), first at QP 0, Chunk 17, Offset 4096 "
    "(expected 0x01, got 0x00)\n"
)
UNCHECKED = "VALIDATION: WARNING - no data validated\n"


def validating(of: Partition) -> Partition:
    """The partition whose perftest validates data, with as many messages as were recorded."""
    assert of.extras.rdma is not None
    tuning = of.extras.rdma.perftest.model_copy(
        update={"data_validation": True, "bandwidth_iterations": 200}
    )
    fabric = of.extras.rdma.model_copy(update={"perftest": tuning})
    return of.model_copy(update={"extras": of.extras.model_copy(update={"rdma": fabric})})


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The check on the lab's virtual machines."""
    load = systems.load

    def loaded(name: str) -> Any:
        system = load(name)
        partitions = [validating(p) if p.extras.rdma else p for p in system.partitions]
        return system.model_copy(update={"partitions": partitions})

    monkeypatch.setattr(systems, "load", loaded)
    with ended_jobs.session("lab", tmp_path) as known:
        check = ended_jobs.ended(known["RdmaDataValidation"].kind(variant_num=0), tmp_path / "job")
        check._rfm_dry_run = True  # it asks neither Slurm nor its preconditions
        check.select_places()
        yield check


def judged(check: Any, texts: dict[str, str], facts: dict[str, dict[str, Any]]) -> Judged:
    """What becomes of the first rail where the sides printed these texts."""
    place = check.places[0]
    sides = {}
    for role, node in MACHINES.items():
        said = {
            "emulation": "none",
            "link_layer": "Ethernet",
            "active_mtu_bytes": 4096,
            "device": "rxe0",
            "port": 1,
            "state": "ACTIVE",
            "after": {"state": "ACTIVE", "carrier_changes": 0},
            **facts.get(role, {}),
        }
        line = ended_jobs.exit_line("perftest", role, node, int(role == "client"), **said)
        moved = {"rx": 200 * 65536, "tx": 200 * 65536}
        line["facts"]["counters"] = {"counters": {}, "bytes": {"rdma/rxe0/1": moved}}
        sides[role] = ended_jobs.side(line, texts[role])
    ended_jobs.Left({place.place: sides}, {place.place: ended_jobs.DONE}).write(check)
    ended_jobs.judge(check)
    (result,) = (one for one in check.results if one.place == place)
    return result


def printed(**lines: str) -> dict[str, str]:
    """The recorded run both ways, with a line below the table of each side."""
    return {
        role: (DATA / f"bidirectional-{role}.txt").read_text(encoding="utf-8") + lines[role]
        for role in MACHINES
    }


def kinds(result: Judged) -> list[str]:
    return [failure.kind for failure in result.failures]


def test_every_rail_of_a_pair_is_validated_where_the_system_says_so(
    describe: Describe,  # noqa: F811
) -> None:
    cases = RailLinks("same", only="perftest.data_validation")
    describe(
        partition("old", rdma=rails(2)),
        partition("new", rdma=rails(2, perftest={"data_validation": True})),
    )
    assert names(cases) == ["new:n1:n2:0-0", "new:n1:n2:1-1"]


def test_both_ends_are_asked_to_validate_and_to_have_the_option(check: Any) -> None:
    run = check.run_at(check.places[0], check.partition_data)
    assert "--data_validation" in run.tool.server and "--data_validation" in run.tool.client
    assert run.order(lambda metric, streams: None).option == "--data_validation"


def test_data_that_arrived_as_sent_is_a_condition_of_its_own(check: Any) -> None:
    """No number with validation is held against one without."""
    result = judged(check, printed(server=PASSED, client=PASSED), {})
    assert result.evidence.reading is not None and result.evidence.reading.ok
    operations = {m.operation for m in result.evidence.measurements}
    assert operations == {"write_bidirectional validated"}
    assert kinds(result) == ["no-reference"]


@pytest.mark.parametrize("corrupt", MACHINES)
def test_corrupt_data_names_the_pair_and_its_rails_whatever_the_bandwidth(
    check: Any, corrupt: str
) -> None:
    lines = {role: CORRUPT if role == corrupt else PASSED for role in MACHINES}
    result = judged(check, printed(**lines), {})
    (failure,) = result.failures
    assert (failure.kind, failure.nodes) == (DATA_CORRUPT, ())
    assert failure.message.startswith(
        f"data changed between n6 rail 0 and n5 rail 0: {corrupt} on {MACHINES[corrupt]}: "
        "VALIDATION: FAILED - 2 error(s)"
    )


@pytest.mark.parametrize("line", [UNCHECKED, "", PASSED[:20], CORRUPT[:16]])
def test_data_that_was_not_compared_passes_nothing(check: Any, line: str) -> None:
    assert kinds(judged(check, printed(server=line, client=PASSED), {})) == ["output"]


def test_corrupt_data_is_not_excused_by_a_clock(check: Any) -> None:
    """Of a run that could not measure a second one counts, and none of corrupt data."""
    texts = printed(server=CORRUPT, client="")
    texts["client"] = "STDERR: Correlation coefficient r^2: 0.7 < 0.9\n"
    assert kinds(judged(check, texts, {})) == [DATA_CORRUPT]


@pytest.mark.parametrize("old", MACHINES)
def test_a_node_that_cannot_validate_is_not_measured_and_not_accused(check: Any, old: str) -> None:
    facts = {old: {"no_option": "ib_write_bw --data_validation"}}
    result = judged(check, {"server": "", "client": ""}, facts)
    (failure,) = result.failures
    assert failure.message == f"{MACHINES[old]} has no ib_write_bw --data_validation"
    assert failure.kind in NOT_MEASURED
