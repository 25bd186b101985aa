"""Which GPU or link of a node is slow, by matrices of copies between GPUs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.locating.gpu_copies import Judged, Matrix, Way, locate_gpus
from tests.properties import tries

NVLINK = 393.0
PCIE = 55.4

#: The healthy matrix of six A6000 on two sockets, without NVLink: github NVIDIA/nvbandwidth,
#: issue 50, device_to_device_memcpy_read_ce of 0.8.
A6000 = (
    (None, 26.34, 26.35, 21.95, 22.64, 21.80),
    (26.34, None, 26.34, 21.86, 22.62, 22.63),
    (26.34, 26.35, None, 22.36, 21.87, 22.17),
    (21.82, 21.82, 22.26, None, 26.34, 26.35),
    (22.64, 22.64, 21.81, 26.35, None, 26.34),
    (21.86, 22.67, 22.01, 26.34, 26.35, None),
)
#: Eight A100 over NVSwitches, device_to_device_memcpy_write_ce: README of nvbandwidth 0.2.
A100 = (
    (None, 276.07, 276.36, 276.14, 276.29, 276.48, 276.55, 276.33),
    (276.19, None, 276.29, 276.29, 276.57, 276.48, 276.38, 276.24),
    (276.33, 276.29, None, 276.38, 276.50, 276.50, 276.29, 276.31),
    (276.19, 276.62, 276.24, None, 276.29, 276.60, 276.29, 276.55),
    (276.03, 276.55, 276.45, 276.76, None, 276.45, 276.36, 276.62),
    (276.17, 276.57, 276.19, 276.50, 276.31, None, 276.31, 276.15),
    (274.89, 276.41, 276.38, 276.67, 276.41, 276.26, None, 276.33),
    (276.12, 276.45, 276.12, 276.36, 276.00, 276.57, 276.45, None),
)

Speed = Callable[[Way, int, int], float]


def healthy(way: Way, row: int, column: int) -> float:
    """What each cell has, with a jitter of 0.3 %."""
    usual = PCIE if way in ("from_host", "to_host") else NVLINK
    return usual * (1 + 0.003 * ((row * 7 + column * 3) % 5 - 2) / 2)


def matrices(speed: Speed, gpus: int = 8, bound: float | None = None) -> list[Matrix]:
    """The four matrices of a node, by the speed of each cell."""
    made = []
    ways: tuple[Way, ...] = ("from_host", "to_host", "read", "write")
    for way in ways:
        rows = range(1 if way in ("from_host", "to_host") else gpus)
        cells = tuple(
            tuple(None if len(rows) > 1 and r == c else speed(way, r, c) for c in range(gpus))
            for r in rows
        )
        made.append(Matrix(way, way, cells, bound if len(rows) > 1 else None))
    return made


def slower(applies: Callable[[Way, int, int], bool], share: float = 0.5) -> Speed:
    """The healthy speed, of some cells a share of it."""
    return lambda way, r, c: healthy(way, r, c) * (share if applies(way, r, c) else 1)


def between(way: Way, row: int, column: int) -> tuple[int, int] | None:
    """Sender and receiver of a cell between GPUs."""
    return {"read": (column, row), "write": (row, column)}.get(way)


def names(judged: Judged) -> list[str]:
    return [part.name for part in judged.parts]


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8])
def test_a_healthy_node_accuses_nothing(gpus: int) -> None:
    assert locate_gpus(matrices(healthy, gpus), even=True) == Judged()


@pytest.mark.parametrize(("cells", "even"), [(A6000, False), (A100, True)])
def test_published_healthy_matrices_accuse_nothing(
    cells: tuple[tuple[float | None, ...], ...], even: bool
) -> None:
    assert locate_gpus([Matrix("t", "read", cells)], even=even) == Judged()


@pytest.mark.parametrize("gpus", [4, 8])
@pytest.mark.parametrize("bad", [0, 3])
def test_a_slow_row_and_column_is_a_gpu(gpus: int, bad: int) -> None:
    slow = matrices(slower(lambda way, r, c: bad in (between(way, r, c) or ())), gpus)
    judged = locate_gpus(slow, even=True)
    assert names(judged) == [f"gpu{bad}"]
    assert "reads from another or is read by another or writes to" in judged.parts[0].why


def test_a_gpu_that_only_receives_slowly_is_named_by_what_it_does() -> None:
    slow = matrices(slower(lambda way, r, c: (between(way, r, c) or (0, 0))[1] == 5))
    (part,) = locate_gpus(slow, even=True).parts
    assert (part.kind, part.name) == ("gpu", "gpu5")
    assert "reads from another or is written by another: median 196" in part.why


@pytest.mark.parametrize("missing", [1, 2, 9])
def test_missing_nvlinks_of_a_gpu_are_counted(missing: int) -> None:
    share = 1 - missing / 18
    slow = matrices(slower(lambda way, r, c: 2 in (between(way, r, c) or ()), share))
    (part,) = locate_gpus(slow, even=True, links=18).parts
    assert f"as without {missing} of its 18 NVLinks" in part.why


def test_one_slow_cell_in_both_tests_is_a_link_in_its_way() -> None:
    slow = matrices(slower(lambda way, r, c: between(way, r, c) == (1, 3)))
    (part,) = locate_gpus(slow, even=True).parts
    assert (part.kind, part.name, part.gpus) == ("gpu-link", "gpu1-gpu3", (1, 3))
    assert "one way" in part.why and "from GPU 1 to GPU 3" in part.why


def test_a_link_that_is_slow_both_ways_is_named_once() -> None:
    ends = {(1, 3), (3, 1)}
    slow = matrices(slower(lambda way, r, c: between(way, r, c) in ends))
    (part,) = locate_gpus(slow, even=True).parts
    assert part.name == "gpu1-gpu3" and "both ways" in part.why


def test_a_cell_that_was_slow_in_one_test_of_two_accuses_nothing() -> None:
    slow = matrices(slower(lambda way, r, c: way == "read" and (r, c) == (3, 1)))
    judged = locate_gpus(slow, even=True)
    assert judged.parts == () and "good in another test" in judged.once[0]


def test_a_slow_host_link_is_a_link_of_its_gpu() -> None:
    slow = matrices(slower(lambda way, r, c: way == "to_host" and c == 6))
    (part,) = locate_gpus(slow, even=True).parts
    assert (part.kind, part.name) == ("gpu-link", "gpu6-host")
    assert "from GPU 6 to the host" in part.why


def test_a_gpu_that_is_slow_everywhere_is_named_once() -> None:
    slow = matrices(
        slower(lambda way, r, c: 4 in (between(way, r, c) or (c,))),
    )
    judged = locate_gpus(slow, even=True)
    assert names(judged) == ["gpu4"] and "also" in judged.parts[0].why


def test_where_most_is_below_the_bound_no_gpu_is_named() -> None:
    judged = locate_gpus(matrices(healthy, bound=2 * NVLINK), even=True)
    assert judged.parts == () and "112 of 128 copies" in judged.unnamed


def test_two_gpus_share_one_link() -> None:
    slow = matrices(slower(lambda way, r, c: way in ("read", "write")), gpus=2, bound=300.0)
    assert names(locate_gpus(slow, even=True)) == ["gpu0-gpu1"]


@settings(max_examples=tries(200))
@given(
    st.integers(3, 8),
    st.lists(st.one_of(st.none(), st.floats(0.001, 1000)), min_size=64, max_size=64),
    st.booleans(),
    st.one_of(st.none(), st.floats(0, 1000)),
)
def test_any_matrix_is_judged_and_names_at_most_what_it_has(
    gpus: int, values: list[float | None], even: bool, bound: float | None
) -> None:
    def cells(rows: int) -> tuple[tuple[float | None, ...], ...]:
        return tuple(tuple(values[r * 8 : r * 8 + gpus]) for r in range(rows))

    every = [
        Matrix("h", "from_host", cells(1), bound),
        Matrix("r", "read", cells(gpus), bound),
        Matrix("w", "write", cells(gpus), bound),
    ]
    judged = locate_gpus(every, even=even, links=18)
    assert not (judged.parts and judged.unnamed)
    assert all(0 <= gpu < gpus for part in judged.parts for gpu in part.gpus)
    assert len(names(judged)) == len(set(names(judged)))


@settings(max_examples=tries(100))
@given(st.integers(0, 7), st.floats(0.1, 0.94), st.integers(0, 2**16))
def test_one_bad_gpu_of_eight_is_named_alone(bad: int, share: float, seed: int) -> None:
    def speed(way: Way, r: int, c: int) -> float:
        jitter = 1 + 0.002 * (((seed >> (r + c) % 16) & 3) - 1.5)
        ends = between(way, r, c)
        return (NVLINK if ends else PCIE) * jitter * (share if ends and bad in ends else 1)

    assert names(locate_gpus(matrices(speed), even=True)) == [f"gpu{bad}"]
