"""Eight words at once against the same words one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from anabranch.kernels.jit import kernel
from anabranch.kernels.wide import WORDS, below, filled, load, rows, store

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


def test_rows_begin_with_a_line_of_the_cache() -> None:
    for count in range(1, 20):
        made = rows(count, 2 * WORDS)
        assert made.shape == (count, 2 * WORDS)
        assert made.flags.c_contiguous
        assert made.ctypes.data % 64 == 0
