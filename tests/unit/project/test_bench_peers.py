"""The parts of tests/bench_peers.py that a wrong line would make a wrong figure of."""

from __future__ import annotations

import itertools

import pytest

from tests import bench_peers

#: As hp2p 4.0 prints with -f bin and -k. The last matrix is one of the lab (srun -N4 hp2p.exe -n 4
#: -c 1 -m 10 -f bin); the first is typed, with pairs that were not measured yet.
_PRINTED = (
    "0.000000\t1.500000\t0.000000\t5.887332\t\n"
    "1.500000\t0.000000\t5.679602\t0.000000\t\n"
    "0.000000\t5.711152\t0.000000\t6.585064\t\n"
    "5.886737\t0.000000\t6.621390\t0.000000\t\n"
    " Writing final result... Done\n"
    "\n Min bandwidth            : 5.68 MB/s\n"
    " Writing final result...\n"
    "0.000000\t6.595106\t7.246986\t5.887332\t\n"
    "6.567890\t0.000000\t5.679602\t6.470821\t\n"
    "7.309145\t5.711152\t0.000000\t6.585064\t\n"
    "5.886737\t6.492216\t6.621390\t0.000000\t\n"
    " Writing final result... Done\n"
)


@pytest.mark.parametrize("nodes", [2, 4, 16, 32])
def test_rounds_have_every_pair_once_and_a_node_once_in_each(nodes: int) -> None:
    rounds = bench_peers.rounds_of(nodes)
    pairs = [pair for of_round in rounds for pair in of_round]
    assert sorted(pairs) == list(itertools.combinations(range(nodes), 2))
    for of_round in rounds:
        assert sorted(node for pair in of_round for node in pair) == list(range(nodes))


def test_the_last_matrix_of_hp2p_counts() -> None:
    matrix = bench_peers.bandwidths(_PRINTED, 4)
    assert matrix[0] == [0.0, 6.595106, 7.246986, 5.887332]
    assert matrix[3] == [5.886737, 6.492216, 6.62139, 0.0]


def test_a_matrix_that_breaks_off_is_refused() -> None:
    with pytest.raises(ValueError, match="0 rows of 5"):
        bench_peers.bandwidths(_PRINTED, 5)
    with pytest.raises(ValueError, match="6 rows of 4"):
        bench_peers.bandwidths(_PRINTED[: _PRINTED.index("7.309145")], 4)


def test_of_each_round_the_slowest_pair_takes_its_time() -> None:
    matrix = [[0.0, 4.0, 8.0], [2.0, 0.0, 4.0], [8.0, 4.0, 0.0]]
    # Sums of ranks, by 3: 1 has 0-1, 2 has 0-2, 0 has 1-2.
    assert bench_peers.slowest_of_rounds(matrix, 8) == 8 / 2 + 8 / 8 + 8 / 4


def test_warnings_of_hp2p_name_pairs() -> None:
    slow = "warning: the communication between {} and {} was slow.\nTime of communication : 1.0\n"
    text = slow.format(1, 3) + slow.format(0, 2) + slow.format(1, 3)
    assert bench_peers.warned(text) == "2 pairs, 1 of them with n2"
    assert bench_peers.warned("") == "nobody"
