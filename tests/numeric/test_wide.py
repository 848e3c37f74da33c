"""Eight words at once against the same words one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from anabranch.numeric.jit import kernel
from anabranch.numeric.wide import (
    CHOICES,
    NUMBERS,
    WORDS,
    are,
    below,
    choose,
    copy,
    differ,
    filled,
    load,
    prefetch,
    spread,
    store,
)

_ANY = st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([0, 1, -1])
_THREE = arrays(np.int64, 3 * WORDS, elements=_ANY)


@kernel
def _combined(words: np.ndarray, out: np.ndarray, limit: int) -> tuple[int, int]:
    one, other, third = load(words, 0), load(words, WORDS), load(words, 2 * WORDS)
    store(out, 1, one & other | third ^ ~one)
    one |= third
    one &= other
    one ^= third
    store(out, 1 + WORDS, one)
    return filled(third), below(third, limit)


@given(_THREE, _ANY)
def test_as_one_by_one(words: np.ndarray, limit: int) -> None:
    out = np.zeros(2 * WORDS + 2, np.int64)
    some, less = _combined(words, out, limit)
    one, other, third = words.reshape(3, WORDS)
    assert out[1 : 1 + WORDS].tolist() == (one & other | third ^ ~one).tolist()
    assert out[1 + WORDS : -1].tolist() == ((one | third) & other ^ third).tolist()
    assert out[0] == out[-1] == 0
    assert some == sum(1 << place for place in range(WORDS) if third[place])
    assert less == next((place for place in range(WORDS) if third[place] >= limit), WORDS)


@kernel
def _in_rows(numbers: np.ndarray, bits: int, value: int) -> tuple[int, int]:
    prefetch(numbers, 0)
    prefetch(numbers, 1 << 40)  # is nowhere, and no error
    found = differ(numbers, 1, 1 + NUMBERS), are(numbers, 1, value)
    copy(numbers, 1, 1 + NUMBERS, bits)
    spread(numbers, 1, value)
    return found


@given(arrays(np.int32, 2 * NUMBERS + 2, elements=st.integers(0, 3)), _ANY, st.integers(0, 3))
def test_rows_of_numbers_as_one_by_one(numbers: np.ndarray, bits: int, value: int) -> None:
    before = numbers.copy()
    one, other = before[1 : 1 + NUMBERS], before[1 + NUMBERS : -1]
    chosen = np.array([bits >> place & 1 for place in range(NUMBERS)], bool)
    differing, equal = _in_rows(numbers, bits, value)
    for place in range(NUMBERS):
        assert bool(differing >> place & 1) == (one[place] != other[place])
        assert bool(equal >> place & 1) == (one[place] == value)
    assert (numbers[1 : 1 + NUMBERS] == value).all()
    assert numbers[1 + NUMBERS : -1].tolist() == np.where(chosen, one, other).tolist()
    assert (numbers[0], numbers[-1]) == (before[0], before[-1])


@kernel
def _chosen(
    words: np.ndarray, bit: int, places: np.ndarray, table: np.ndarray, chosen: np.ndarray, flags: np.ndarray
) -> None:
    choose(words, 1, bit, places, table, chosen, flags, 2)


@given(
    arrays(np.int64, CHOICES + 1, elements=_ANY),
    st.integers(0, 63),
    arrays(np.int32, CHOICES + 1, elements=st.integers(0, 4)),
    arrays(np.int32, 5, elements=st.integers(1, 1 << 30)),
)
def test_choices_as_one_by_one(words: np.ndarray, bit: int, places: np.ndarray, table: np.ndarray) -> None:
    has = words[1:] >> bit & 1
    places[1:][has == 0] = 1 << 30  # is nowhere, and not looked at
    chosen, flags = np.full(CHOICES + 4, -1, np.int32), np.full(CHOICES + 4, 9, np.uint8)
    _chosen(words, bit, places, table, chosen, flags)
    expected = [int(table[place]) if some else 0 for place, some in zip(places[1:], has, strict=True)]
    assert chosen.tolist() == [-1, -1, *expected, -1, -1]
    assert flags.tolist() == [9, 9, *has.tolist(), 9, 9]
