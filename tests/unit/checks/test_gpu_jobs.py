"""What jobs left that ran on a real GPU, in `lab-gpu` (tests/data/gpu/jobs): how it is judged."""

from __future__ import annotations

import dataclasses
import gzip
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from railgauge.checks.collectives import nccl_hang
from railgauge.checks.framework import topology
from railgauge.checks.jobs.group_launches import exit_lines
from railgauge.hostlist import expand
from railgauge.model.leaves import Leaves
from railgauge.node.transport import results_file
from railgauge.tools import nccl_log
from railgauge.tools.nccl_log.ras import RankProcess
from tests.unit.checks import ended_jobs

JOBS = Path(__file__).parents[2] / "data" / "gpu" / "jobs"


@contextmanager
def judged(name: str, results: Path) -> Iterator[Any]:
    """The check, with what its job left."""
    with ended_jobs.session("lab-gpu", results, RAILGAUGE_NODES="n[1-4]") as known:
        kind = known[name.partition("-")[0]].kind
        made = ended_jobs.ended(kind(variant_num=0), results / "stage")
        made._rfm_dry_run = True
        made.select_places()
        shutil.copy(JOBS / name / results_file.FILE, made.stagedir)
        ended_jobs.judge(made)
        with made.at(made.results[-1].place):
            yield made


def launch(check: Any) -> results_file.Event:
    """The last launch of the group at hand."""
    return check.job_output.output.launch(check.here)  # type: ignore[no-any-return]


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


def of_others(answer: str, *others: tuple[int, int | None]) -> str:
    """The real answer, with other ranks (and their processes) beside the silent one."""
    silent = next(line for line in answer.splitlines() if line.startswith("  Rank 1 "))
    lines = [silent]
    for rank, pid in others:
        process = silent.partition(" -- ")[2].replace("185", str(pid))
        unknown = "[process information not found]"
        lines.append(f"  Rank {rank} -- {process if pid else unknown}")
    many = f"{len(lines)} ranks" if others else "1 rank"
    answer = answer.replace("communicator data from 1 rank\n", f"communicator data from {many}\n")
    return answer.replace(silent, "\n".join(lines))


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ([(2, 186), (3, 184)], "rank 3 on n4 does not answer"),
        ([(2, 186)], "rank 2 on n3 does not answer"),
        ([(2, None), (3, None)], "rank 3 on an unknown node does not answer"),
        ([(2, 9)], "rank 2 on an unknown node does not answer"),
    ],
)
def test_several_silent_nodes_may_be_behind_one_way(
    tmp_path: Path, others: list[tuple[int, int | None]], says: str
) -> None:
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        (hang,) = again(check, of_others(launch(check)["files"]["hang.out"], *others))
        assert says in hang.message and hang.nodes == ()


def test_an_answer_that_does_not_name_all_silent_ranks_accuses_nobody(tmp_path: Path) -> None:
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        answer = launch(check)["files"]["hang.out"]
        more = answer.replace("communicator data from 1 rank\n", "communicator data from 3 ranks\n")
        (hang,) = again(check, more)
        assert hang.nodes == () and "rank 1 on n2 does not answer" in hang.message
        cut = more[: more.index("\n", more.index("  Rank 1 ")) + 1]
        (hang,) = again(check, cut)
        assert hang.nodes == ()


def test_a_process_that_the_table_does_not_have_names_no_node(tmp_path: Path) -> None:
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        answer = launch(check)["files"]["hang.out"].replace("process 185", "process 9")
        (hang,) = again(check, answer)
        assert "rank 1 on an unknown node does not answer" in hang.message
        assert hang.nodes == ()


def test_a_rank_that_has_ended_need_not_answer(tmp_path: Path) -> None:
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        answer = nccl_log.ras.answer(launch(check)["files"]["hang.out"])
        calls = [line.call for line in exit_lines(check.sweep_run, check)]
        assert nccl_hang.silent(answer, calls, seats(check), check.here.nodes, None) == ("n2",)
        calls[1] = dataclasses.replace(calls[1], exit_code=0, note="")
        assert nccl_hang.silent(answer, calls, seats(check), check.here.nodes, None) == ()


@pytest.mark.parametrize(("leaf", "nodes"), [("n[2-3]", ("n2",)), ("n2", ())])
def test_who_is_alone_on_its_leaf_may_be_behind_its_uplinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaf: str, nodes: tuple[str, ...]
) -> None:
    of_node = dict.fromkeys(("n1", "n2", "n3", "n4"), "leaf1") | dict.fromkeys(
        expand(leaf), "leaf2"
    )
    monkeypatch.setattr(topology, "leaves_of", lambda _: Leaves(of_node))
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        (hang,) = again(check, launch(check)["files"]["hang.out"])
        assert hang.nodes == nodes


def test_one_other_node_is_not_enough(tmp_path: Path) -> None:
    with judged("NcclAll-stopped-n2", tmp_path) as check:
        answer = nccl_log.ras.answer(launch(check)["files"]["hang.out"])
        assert nccl_hang.silent(answer, [], seats(check), ("n1", "n2"), None) == ()


def seats(check: Any) -> dict[RankProcess, str]:
    return nccl_hang.nodes_of_ranks(launch(check)["out"], check.ranks)


def again(check: Any, answer: str) -> list[Any]:
    """The hang of the same job, had `ncclras` said this."""
    launch(check)["files"]["hang.out"] = answer
    return [failure for failure in check.read().failures if failure.kind == "hang"]


def test_no_environment_is_left_of_a_real_job() -> None:
    for path in JOBS.rglob(results_file.FILE):
        text = gzip.decompress(path.read_bytes()).decode()
        assert '"nccl_version": 22809' in text or "NCCL version 2.28.9" in text
        assert "PMIX_" not in text and "OMPI_" not in text
