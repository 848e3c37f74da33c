"""Sums in pieces against exact arithmetic: any order, any parts, the same words."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.families.filters.kernels import exact_sums as sums

MODERATE = st.floats(-1e12, 1e12).filter(lambda x: x == 0 or abs(x) > 1e-3)  # 104 bits hold all of them
FLOATS = st.lists(MODERATE, max_size=20) | st.lists(st.floats(-1e-300, 1e-300), max_size=20)
INTS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


def summed(values: list[float]) -> np.ndarray:
    words = np.zeros(sums.FLOAT_WORDS, np.int64)
    for value in values:
        sums.add_float(words, 0, np.float64(value).view(np.int64))
    return words


def plain(values: list[float]) -> float:
    """The plain twin: exact, then rounded once."""
    return float(sum(map(Fraction, values), Fraction(0)))


@given(FLOATS)
def test_rounded_once(values: list[float]) -> None:
    assert sums.read_float(summed(values), 0) == plain(values)


@given(st.lists(st.floats(allow_nan=False), max_size=12), st.data())
def test_same_words_in_any_order_and_any_parts(values: list[float], data: st.DataObject) -> None:
    words = summed(values)
    shaken = data.draw(st.permutations(values))
    assert (summed(shaken) == words).all()
    cut = data.draw(st.integers(0, len(values)))
    left, right = summed(values[:cut]), summed(values[cut:])
    sums.add_floats(left, 0, right, 0)
    assert (left == words).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], 0.0),
        ([0.1] * 10, 1.0),  # one after the other they make 0.9999999999999999
        ([1e16, 1.0, -1e16], 1.0),
        ([1e308, 1e308, -1e308], 1e308),  # beyond the greatest float in between
        ([1e308, 1e308], math.inf),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1e308], -math.inf),
        ([5e-324, 5e-324], 1e-323),
        ([1.0, 2.0**-53], 1.0),  # a tie goes to the even one
        ([1.0, 2.0**-53, 2.0**-105], 1.0 + 2.0**-52),
        ([sys.float_info.max, -sys.float_info.max], 0.0),
    ],
)
def test_edges_of_the_floats(values: list[float], expected: float) -> None:
    assert sums.read_float(summed(values), 0) == expected


def test_both_infinities_are_nothing() -> None:
    assert math.isnan(sums.read_float(summed([math.inf, -math.inf, 1.0]), 0))


@given(INTS, st.data())
def test_integers(values: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(values)))
    parts = [np.zeros(sums.INT_WORDS, np.int64) for _ in range(2)]
    for index, value in enumerate(values):
        sums.add_int(parts[index >= cut], 0, np.int64(value))
    sums.add_wide(parts[0], 0, parts[1][0], parts[1][1])
    total, fits = sums.read_int(parts[0], 0)
    assert fits == (-(2**63) <= sum(values) < 2**63)
    assert not fits or total == sum(values)
    assert math.isclose(sums.wide_to_float(parts[0], 0), float(sum(values)), rel_tol=1e-15)
