"""Copies between GPUs in the page: a map for each matrix, slow parts first."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from railgauge.locating.gpu_copies import Matrix, locate_gpus
from railgauge.report import page
from railgauge.report.page import gpus
from railgauge.verdict.decision.verdict import Verdict
from tests import pages


def copies(bad: int | None) -> dict[str, Any]:
    cells = tuple(
        tuple(None if r == c else 390.0 * (0.5 if bad in (r, c) else 1) for c in range(4))
        for r in range(4)
    )
    host = (tuple(55.0 if bad is None or g != bad else 20.0 for g in range(4)),)
    matrices = [
        Matrix("device_to_device_memcpy_read_ce", "read", cells),
        Matrix("host_to_device_memcpy_ce", "from_host", host),
    ]
    parts = locate_gpus(matrices, even=True).parts
    return {"matrices": [m._asdict() for m in matrices], "parts": [p._asdict() for p in parts]}


def verdict(folder: Path, **bad: int | None) -> Verdict:
    made = pages.cluster(folder, 2, 1)
    cases = []
    for node, gpu in bad.items():
        case = pages.case("GpuLinks", (node,), "", [])
        case.facts[node] = {"copies": copies(gpu)}
        cases.append(case)
    return dataclasses.replace(made, cases=(*made.cases, *cases))


def test_nodes_with_a_slow_gpu_come_first(tmp_path: Path) -> None:
    shown = gpus.gpus(verdict(tmp_path, n1=None, n2=None, n3=2))
    assert [of.node for of in shown.nodes] == ["n3", "n1", "n2"]
    assert shown.nodes[0].slow[0].startswith("GPU 2 is slow")
    assert shown.left_out == 0


def test_copies_between_two_nodes_have_a_map_by_the_names_of_their_gpus(tmp_path: Path) -> None:
    names = ["n1:gpu0", "n1:gpu1", "n2:gpu0", "n2:gpu1"]
    made = verdict(tmp_path)
    case = pages.case("GpuDomain", ("n1", "n2"), "", [])
    case.facts["n1"] = {"copies_between": {**copies(2), "names": names}}
    (of,) = gpus.gpus(dataclasses.replace(made, cases=(*made.cases, case))).nodes
    assert of.node == "n1 and n2" and of.maps[0].columns == tuple(names)
    assert of.maps[0].rows[2][0] == "n2:gpu0"
    assert all(cell.is_slow for cell in of.maps[0].rows[2][1] if cell.words != "-")


def test_the_cells_of_a_slow_gpu_are_marked_and_dark(tmp_path: Path) -> None:
    (of,) = gpus.gpus(verdict(tmp_path, n3=2)).nodes
    reads = of.maps[0]
    assert (reads.columns, reads.rows[0][0]) == (("GPU 0", "GPU 1", "GPU 2", "GPU 3"), "GPU 0")
    cells = dict(reads.rows)
    assert cells["GPU 0"][0] == gpus.GpuCell("s0", False, "-")
    assert cells["GPU 2"][1].is_slow and cells["GPU 1"][2].is_slow
    assert not cells["GPU 0"][1].is_slow
    assert of.maps[1].rows[0][1][2].colour == "s4"


def test_the_page_has_the_maps(tmp_path: Path) -> None:
    html = page.html(verdict(tmp_path, n1=None, n3=2))
    assert '<a href="#gpus">GPUs</a>' in html
    assert "n3: ✕ 1 slow" in html and "✕ 195" in html
    assert "the GPU of the row reads from that of the column" in html
    assert " style=" not in html.partition('<section id="gpus">')[2].partition("</section>")[0]


def test_a_page_without_gpus_has_no_section(tmp_path: Path) -> None:
    assert 'id="gpus"' not in page.html(pages.cluster(tmp_path, 2, 1))
