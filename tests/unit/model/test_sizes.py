"""Sizes as people write them, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.model.sizes import format_size, parse_size

UNITS = {
    **{"": 1, "B": 1},
    **{"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3},
    **{"kB": 1000, "MB": 1000**2, "GB": 1000**3},
}


@pytest.mark.parametrize(
    ("text", "size"),
    [("64KiB", 65536), ("1MB", 1000000), ("4096", 4096), ("1 GiB", 2**30), ("8B", 8)],
)
def test_size_is_read_in_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@given(st.integers(1, 10**12), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_every_unit_multiplies_the_number(number: int, unit: str, gap: str) -> None:
    assert parse_size(f"{number}{gap}{unit}") == number * UNITS[unit]


def test_space_around_is_no_matter() -> None:
    assert parse_size(" 1KiB\n") == 1024


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "KiB", "0", "0KiB", "-1", "+1", "1.5MiB", "1e6", "0x10", "1_000", "inf", "nan"),
        *("1K", "1M", "1TiB", "1 2", "1KiB/s", "64KiB,1MiB", "1KiB 1"),
        # A unit is what it says only as it is written: `b` are bits.
        *("1b", "1kb", "1KB", "1Mb", "1mb", "1Gb", "1gb", "1kib", "1KIB", "1Kib", "1mib", "1Gib"),
    ],
)
def test_anything_else_is_refused_with_what_was_found(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number above 0 with KiB") as caught:
        parse_size(text)
    assert repr(text) in str(caught.value)


@given(st.text(max_size=12))
def test_any_text_is_a_size_above_zero_or_a_value_error(text: str) -> None:
    try:
        size = parse_size(text)
    except ValueError:
        return
    assert size > 0


# ---- as they are shown ----


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (2, "2 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1536 B"),
        (65536, "64 KiB"),
        (8 * 2**20, "8 MiB"),
        (2**30, "1 GiB"),
        (2**40, "1024 GiB"),
        (10**6, "1000000 B"),
        (0, "0 B"),
    ],
)
def test_size_is_shown_in_its_shortest_exact_form(size: int, text: str) -> None:
    assert format_size(size) == text


@given(
    st.integers(1, 2**50) | st.builds(lambda n, k: n << k, st.integers(1, 999), st.integers(0, 40))
)
def test_size_shown_is_read_as_the_same(size: int) -> None:
    assert parse_size(format_size(size)) == size
