"""The first window that begins or ends after a moment, against counting up from the first."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.chain.windows import first_window_after
from anabranch.numeric.window_edges import NEVER, first_after, first_after_float


def plain(base: float, step: float, size: float, moment: float) -> int:
    k = 0
    while not base + k * step + size > moment:
        k += 1
    return k


@given(st.integers(-50, 50), st.integers(1, 9), st.integers(0, 9), st.integers(-80, 80))
def test_integers(base: int, step: int, size: int, moment: int) -> None:
    assert first_after(*map(np.int64, (base, step, size, moment))) == plain(base, step, size, moment)


@given(
    st.sampled_from([0.0, 0.1, -7.3, 1e6, 1e15]),
    st.sampled_from([0.1, 0.25, 1 / 3, 2.0]),
    st.sampled_from([0.0, 0.1, 0.7, 3.0]),
    st.integers(-20, 200),
    st.sampled_from([0.0, 1e-12, 0.05]),
)
def test_floats_as_the_formula_has_them(
    base: float, step: float, size: float, steps: int, more: float
) -> None:
    """Moments on the edges themselves, where rounding decides."""
    moment = base + steps * step + more
    assert first_after_float(base, step, size, moment) == plain(base, step, size, moment)


def test_where_steps_vanish_against_the_base() -> None:
    """At 1e18 floats are 128 apart: window 257 is the first whose beginning is not rounded to the base."""
    assert first_after_float(1e18, 0.25, 0.0, 1e18) == plain(1e18, 0.25, 0.0, 1e18) == 257


def test_no_window_begins_after_the_end_of_time() -> None:
    assert first_after_float(0.0, 1.0, 0.0, math.inf) == NEVER
    assert first_after_float(-math.inf, 1.0, 0.0, 3.0) == NEVER


EXTREMES = st.sampled_from([-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1])


@given(EXTREMES, st.sampled_from([1, 7, 8, 2**62, 2**63 - 1]), st.sampled_from([0, 1, 2**63 - 1]), EXTREMES)
def test_integers_beyond_what_an_int64_can_subtract(base: int, step: int, size: int, moment: int) -> None:
    expected = min(max(0, (moment - base - size) // step + 1), int(NEVER))
    assert first_after(*map(np.int64, (base, step, size, moment))) == expected
    assert first_window_after(moment, base, step, size) == expected


def test_a_moment_that_no_int64_holds() -> None:
    assert first_window_after(-(10**32), 0, 1) == 0
    assert first_window_after(10**32, 0, 1) == NEVER
    assert first_window_after(1e300, 0, 1) == NEVER
