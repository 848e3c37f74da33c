"""Places of bits in a word, one instruction each."""

from __future__ import annotations

from typing import Any

from numba.cpython.unsafe import numbers

from anabranch.numeric.jit import leaf

_trailing_zeros: Any = numbers.trailing_zeros
_leading_zeros: Any = numbers.leading_zeros


@leaf
def lowest(bits: int) -> int:
    """The place of the lowest bit of an int64 that is not 0."""
    return _trailing_zeros(bits)


@leaf
def highest(bits: int) -> int:
    return 63 - _leading_zeros(bits)
