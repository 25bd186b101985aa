"""What jobs left that ran on a real GPU, in `lab-gpu` (tests/data/gpu/jobs): how it is judged."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from railgauge.node import raw
from tests.unit.checks import jobs

JOBS = Path(__file__).parents[2] / "data" / "gpu" / "jobs"


@contextmanager
def judged(name: str, results: Path) -> Iterator[Any]:
    """The check, with what its job left."""
    with jobs.session("lab-gpu", results, RAILGAUGE_NODES="n[1-4]") as known:
        kind = known[name.partition("-")[0]].kind
        made = jobs.ended(kind(variant_num=0), results / "stage")
        made._rfm_dry_run = True
        made.choose_places()
        shutil.copy(JOBS / name / raw.FILE, made.stagedir)
        jobs.judge(made)
        yield made


def failed(check: Any) -> dict[str, set[str]]:
    return {
        judged.place.place: {failure.kind for failure in judged.failures}
        for judged in check.results
        if not judged.passed
    }


def test_real_pairs_pass_by_their_share_of_the_limit(tmp_path: Path) -> None:
    with judged("NcclPair-good", tmp_path) as check:
        assert len(check.results) == 8 and failed(check) == {}
        launches = {
            (facts["launch"], facts["slowest_of"])
            for result in check.results
            for facts in result.evidence.seen_on.values()
        }
        (first, *_) = check.results
        assert first.evidence.calls[0].version == "2.17.6, NCCL 2.28.9"
        # Two rounds of two operations, in two parts each, as no number is known.
        assert launches == {(number, 1) for number in range(8)}


def test_real_pairs_of_a_shaped_link_fail_and_no_other(tmp_path: Path) -> None:
    with judged("NcclPair-slow-n3", tmp_path) as check:
        assert set(failed(check)) == {
            f"{operation}:default:{pair}"
            for operation in ("all_reduce", "alltoall")
            for pair in ("n[2-3]", "n[3-4]")
        }


def test_the_node_whose_rank_was_stopped_is_named_by_ncclras(tmp_path: Path) -> None:
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        (result,) = check.results
        (hang,) = [failure for failure in result.failures if failure.kind == "hang"]
        assert hang.nodes == ("n2",)
        assert hang.message.endswith("; by ncclras rank 1 on n2 does not answer")


@pytest.mark.parametrize(
    ("answer", "says"), [("Rank 1 sleeps\n", "Rank 1 sleeps"), ("", "no answer")]
)
def test_an_answer_that_names_no_rank_is_shown(tmp_path: Path, answer: str, says: str) -> None:
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        (hang,) = again(check, answer)
        assert hang.nodes == () and hang.message.endswith(f"; ncclras says: {says}")


def test_what_two_nodes_say_of_each_other_accuses_neither(tmp_path: Path) -> None:
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        answer = check.launch["files"]["hang.out"]
        silent = next(line for line in answer.splitlines() if line.startswith("  Rank 1 "))
        more = [
            silent.replace("Rank 1", f"Rank {rank}").replace("process 185", f"process {pid}")
            for rank, pid in ((2, 186), (3, 184))
        ]
        (hang,) = again(check, answer.replace(silent, "\n".join([silent, *more])))
        assert "rank 3 on n4 does not answer" in hang.message and hang.nodes == ()


def test_a_process_that_the_table_does_not_have_names_no_node(tmp_path: Path) -> None:
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        answer = check.launch["files"]["hang.out"].replace("process 185", "process 9")
        (hang,) = again(check, answer)
        assert "rank 1 on a node that it does not name does not answer" in hang.message
        assert hang.nodes == ()


def again(check: Any, answer: str) -> list[Any]:
    """The hang of the same job, had `ncclras` said this."""
    check.launch["files"]["hang.out"] = answer
    return [failure for failure in check.read().failures if failure.kind == "hang"]


def test_no_environment_is_left_of_a_real_job() -> None:
    for path in JOBS.rglob(raw.FILE):
        text = gzip.decompress(path.read_bytes()).decode()
        assert '"nccl_version": 22809' in text or "NCCL version 2.28.9" in text
        assert "PMIX_" not in text and "OMPI_" not in text
