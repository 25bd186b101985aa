"""Why calls failed, in as few lines as tell them apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from railgauge.model.call import Call, why_failed


def rank(number: int, code: int | None = 0, note: str = "", step: str = "") -> Call:
    return Call(
        "all_reduce", f"{step}rank{number}", number, f"n{number // 2}", code, 9.0, note=note
    )


def nothing(_: Call) -> str:
    return ""


def test_ranks_that_ended_the_same_way_are_named_together() -> None:
    calls = [rank(0, None, "still running"), *(rank(n, None, "ended") for n in range(1, 6))]
    assert why_failed(calls, nothing) == [
        "all_reduce (rank0) on n0: still running",
        "all_reduce (ranks 1-5) on n[0-2]: ended",
    ]


def test_what_is_known_of_each_distinguishes_them() -> None:
    calls = [rank(0, 2), rank(1, 2), rank(2, 2)]
    said = why_failed(calls, lambda call: "CUDA" if call.rank < 2 else "")
    assert said == [
        "all_reduce (ranks 0-1) on n0 ended with exit code 2: CUDA",
        "all_reduce (rank2) on n1 ended with exit code 2",
    ]


def test_ranks_of_two_steps_are_apart() -> None:
    calls = [rank(n, 1, step=step) for step in ("alone-", "beside-") for n in (0, 1)]
    assert why_failed(calls, nothing) == [
        f"all_reduce ({step}-ranks 0-1) on n0 ended with exit code 1"
        for step in ("alone", "beside")
    ]


def test_both_sides_of_a_pair_are_named() -> None:
    calls = [Call("iperf2", role, 0, "n1", 1, 9.0) for role in ("server", "client")]
    assert why_failed(calls, nothing) == [call.failure for call in calls]


CALLS = st.lists(
    st.builds(
        Call,
        st.sampled_from(["a", "b"]),
        st.sampled_from(["server", "rank0", "rank1", "x-rank7", "frank", "rank"]),
        st.integers(0, 9),
        st.sampled_from(["n1", "n2", "n10"]),
        st.sampled_from([None, 0, 1]),
        st.sampled_from([0.5, 9.0]),
        note=st.sampled_from(["", "ended"]),
    )
)


@given(CALLS)
def test_something_is_said_where_a_call_failed_and_of_each_once(calls: list[Call]) -> None:
    said = why_failed(calls, nothing)
    failed = [call for call in calls if call.failure]
    assert bool(said) == bool(failed) and len(said) <= len(failed)
    assert all(any(call.tool in line and call._trouble in line for line in said) for call in failed)
